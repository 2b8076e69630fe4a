/* SPDX-License-Identifier: Apache-2.0 */
/* Directories that mean harm: each is refused in a short time and little memory, with a message that names the file or
 * key, and nothing outside of a directory is written. Expressions of tokenizers and templates that never end are
 * tests/text's; files of the library's own reader of safetensors, tests/train/test_interchange.c's. */
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/clock.h"
#include "hub_directory.h"
#include "tests/room.h"

#define GIB ((off_t)1 << 30)

enum { MOST_SECONDS = 5, MOST_KIB = 64 << 10 };

typedef enum kind {
    TEXT,   /* a file of this text */
    HEADER, /* safetensors: a header of this text, and as many bytes behind it as `size` says */
    LENGTH, /* safetensors whose header has `size` bytes, they say */
    SPARSE, /* `size` zeros, which take no place on a disk */
    PIPE,
    FOLDER,
    LOOP, /* a link to itself */
} kind;

typedef struct harm {
    kind kind;
    const char *file, *text;
    off_t size;
    rf_result code;
    const char *message;
} harm;

#define TENSOR(name, shape, begin, end)                                                                                \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"
#define CONFIG "config.json"
#define WEIGHTS "model.safetensors"
#define INDEX "model.safetensors.index.json"

static const harm harms[] = {
    /* more than any memory has */
    { TEXT, CONFIG, "{\"model_type\":\"gpt2\",\"n_layer\":1099511627776}", 0, RF_ERROR_UNSUPPORTED,
      "'n_layer' is 1099511627776, not a number of layers that the files have tensors for" },
    { TEXT, CONFIG,
      "{\"model_type\":\"gpt2\",\"vocab_size\":2147483647,\"n_embd\":2147483646,\"n_head\":1,\"n_layer\":1}", 0,
      RF_ERROR_INVALID_ARGUMENT, "does not fit 'wte/embeddings' [2147483647,2147483646]" },
    { SPARSE, CONFIG, NULL, GIB, RF_ERROR_UNSUPPORTED, "has 1073741824 bytes, more than the 1048576 that it may" },
    { SPARSE, INDEX, NULL, GIB, RF_ERROR_UNSUPPORTED, "has 1073741824 bytes, more than the 16777216 that it may" },
    { SPARSE, "generation_config.json", NULL, GIB, RF_ERROR_UNSUPPORTED, "has 1073741824 bytes" },
    { SPARSE, WEIGHTS, NULL, 64 * GIB, RF_ERROR_CORRUPT_DATA, "the header is not a JSON object" },
    /* no files */
    { PIPE, CONFIG, NULL, 0, RF_ERROR_IO, "config.json: is not a regular file" },
    { FOLDER, CONFIG, NULL, 0, RF_ERROR_IO, "config.json: is not a regular file" },
    { LOOP, CONFIG, NULL, 0, RF_ERROR_IO, "config.json: cannot open" },
    { PIPE, INDEX, NULL, 0, RF_ERROR_IO, "is not a regular file" },
    { PIPE, "generation_config.json", NULL, 0, RF_ERROR_IO, "is not a regular file" },
    { PIPE, WEIGHTS, NULL, 0, RF_ERROR_NOT_FOUND, "has neither model.safetensors nor" },
    /* tensors that are not in their file */
    { LENGTH, WEIGHTS, "{}", -1, RF_ERROR_CORRUPT_DATA, "a header of 18446744073709551615 bytes" },
    { HEADER, WEIGHTS, "{" TENSOR("wte.weight", "[7,4]", 0, 112) "," TENSOR("wpe.weight", "[8,4]", 100, 228) "}", 228,
      RF_ERROR_CORRUPT_DATA, "'wpe.weight': overlaps another or follows a gap" },
    { HEADER, WEIGHTS, "{" TENSOR("wte.weight", "[7,4]", 0, 112) "}", 111, RF_ERROR_CORRUPT_DATA,
      "'wte.weight': lies behind the end of the file" },
    { HEADER, WEIGHTS, "{" TENSOR("wte.weight", "[7,4]", 9223372036854775695, 9223372036854775807) "}", 112,
      RF_ERROR_CORRUPT_DATA, "'wte.weight': " },
    { HEADER, WEIGHTS, "{" TENSOR("wte.weight", "[4611686018427387904,4]", 0, 0) "}", 0, RF_ERROR_CORRUPT_DATA,
      "'wte.weight': is larger than anything" },
    /* files that an index leads to */
    { TEXT, INDEX, "{\"weight_map\":{\"wte.weight\":\"gone.safetensors\"}}", 0, RF_ERROR_NOT_FOUND,
      "gone.safetensors: cannot open" },
    { TEXT, INDEX, "{\"weight_map\":{\"wte.weight\":\"../../etc/passwd\"}}", 0, RF_ERROR_CORRUPT_DATA,
      "weight_map names a file that is not one of its directory" },
    { TEXT, INDEX, "{\"weight_map\":{\"wte.weight\":\"config.json\"}}", 0, RF_ERROR_CORRUPT_DATA,
      "config.json' is not a safetensors file" },
};

static void do_harm(const hub_directory *d, const harm *h)
{
    const char *path = in(d, h->file);
    const uint64_t length = h->kind == LENGTH ? (uint64_t)h->size : strlen(h->text ? h->text : "");
    (void)remove(path);
    if (h->kind == TEXT) scratch_write(path, h->text);
    if (h->kind == PIPE) assert_int_equal(mkfifo(path, 0600), 0);
    if (h->kind == FOLDER) assert_int_equal(mkdir(path, 0700), 0);
    if (h->kind == LOOP) assert_int_equal(symlink(h->file, path), 0);
    if (h->kind == SPARSE || h->kind == HEADER || h->kind == LENGTH) {
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        for (int i = 0; h->kind != SPARSE && i < 8; i++) fputc((int)(length >> 8 * i & 255), file);
        if (h->kind != SPARSE) fputs(h->text, file);
        assert_int_equal(fflush(file), 0);
        if (h->kind != LENGTH)
            assert_int_equal(ftruncate(fileno(file), h->size + (h->kind == HEADER ? 8 + (off_t)length : 0)), 0);
        assert_int_equal(fclose(file), 0);
    }
}

/* The most memory that the process has had. */
static long peak_kib(void)
{
    struct rusage used;
    assert_int_equal(getrusage(RUSAGE_SELF, &used), 0);
    return used.ru_maxrss;
}

/* A directory that has these files in place of its own is refused; `code` 0: with any. */
static void check_harm(rf_strategy *strategy, const harm *files, int count, rf_result code, const char *message)
{
    hub_directory d;
    rf_pretrained *p;
    make_gpt2(&d);
    if (strcmp(files[0].file, INDEX) == 0) (void)remove(in(&d, WEIGHTS));
    for (int i = 0; i < count; i++) do_harm(&d, &files[i]);
    const double begin = seconds_now();
    const long before = peak_kib();
    const rf_result r = rf_pretrained_open(strategy, d.path, NULL, &p);
    const double seconds = seconds_now() - begin;
    const long more = peak_kib() - before;
    if (r >= 0 || (code < 0 && r != code) || !strstr(rf_error_message(), message))
        fail_msg("%s gives %d: %s", files[0].text ? files[0].text : files[0].file, (int)r, rf_error_message());
    if (seconds > MOST_SECONDS * slowness() || more > MOST_KIB)
        fail_msg("%s takes %.1f s and %ld KiB", files[0].text ? files[0].text : files[0].file, seconds, more);
    assert_null(p);
    scratch_remove(d.path);
}

static void directories(rf_strategy *strategy)
{
    for (size_t i = 0; i < sizeof(harms) / sizeof(harms[0]); i++)
        check_harm(strategy, &harms[i], 1, harms[i].code, harms[i].message);
}
TEST_ON_ONE(directories)

/* Sizes of each architecture, of whose tensors one is there. */
static void sizes(rf_strategy *strategy)
{
    static const struct {
        const char *config, *tensor, *message;
    } wrong[] = {
        { "\"llama\",\"hidden_size\":4,\"intermediate_size\":4,\"num_attention_heads\":2,\"num_hidden_layers\":"
          "1099511627776",
          "norm.weight", "'num_hidden_layers' is 1099511627776, not a number of layers" },
        { "\"llama\",\"hidden_size\":4,\"num_attention_heads\":2147483646,\"head_dim\":2147483646,"
          "\"intermediate_size\":2147483647,\"vocab_size\":2147483647,\"num_hidden_layers\":1",
          "norm.weight", "has no tensor 'embed_tokens.weight'" },
        { "\"bert\",\"num_hidden_layers\":2147483647", "embeddings.LayerNorm.weight", "'num_hidden_layers' is" },
        { "\"distilbert\",\"n_layers\":2147483647", "embeddings.LayerNorm.weight", "'n_layers' is 2147483647" },
        { "\"vit\",\"num_hidden_layers\":2147483647", "layernorm.weight", "'num_hidden_layers' is 2147483647" },
        { "\"vit\",\"num_hidden_layers\":1,\"image_size\":2147483647,\"patch_size\":1", "layernorm.weight",
          "'patch_size' is 1, of which image_size has none, or too many" },
        { "\"vit\",\"num_hidden_layers\":1,\"image_size\":2147483647,\"patch_size\":2147483647,"
          "\"num_channels\":2147483647",
          "layernorm.weight", "shape [2147483647,2147483647,2147483647] is not that of an example" },
        { "\"resnet\",\"depths\":[2147483647],\"hidden_sizes\":[8]", "embedder.embedder.normalization.weight",
          "'depths.0' is 2147483647" },
        { "\"resnet\",\"depths\":[1],\"hidden_sizes\":[2147483647],\"embedding_size\":2147483647",
          "embedder.embedder.normalization.weight", "has no tensor 'embedder.embedder.convolution.weight'" },
        { "\"resnet\",\"num_channels\":2147483647", "embedder.embedder.convolution.weight",
          "[224,224,2147483647] is too large" },
        { "null,\"architecture\":\"mobilenet_v3_large\",\"width_mult\":1e30", "features.0.1.weight",
          "'width_mult' is 1e30, not above 0 and at most 64" },
        { "null,\"architecture\":\"mobilenet_v3_large\",\"num_classes\":2147483647", "features.0.1.weight",
          "has no tensor 'features.0.0.weight'" },
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char config[512], header[256];
        snprintf(config, sizeof(config), "{\"model_type\":%s}", wrong[i].config);
        snprintf(header, sizeof(header), "{" TENSOR("%s", "[4]", 0, 16) "}", wrong[i].tensor);
        const harm files[] = { { TEXT, CONFIG, config, 0, RF_OK, NULL }, { HEADER, WEIGHTS, header, 16, RF_OK, NULL } };
        check_harm(strategy, files, 2, 0, wrong[i].message);
    }
}
TEST_ON_ONE(sizes)

/* A saved file replaces a link, and not what that leads to. */
static void links(rf_strategy *strategy)
{
    static const char *const names[] = { CONFIG, WEIGHTS, "tokenizer.json" };
    enum { LINKS = sizeof(names) / sizeof(names[0]) };
    hub_directory d, other;
    rf_pretrained *p;
    struct stat is;
    char path[SCRATCH_PATH + 32], to[SCRATCH_PATH + 32], text[16] = "";
    make_gpt2(&d);
    scratch_write(in(&d, "tokenizer.json"), "{}");
    OK(rf_pretrained_open(strategy, d.path, NULL, &p));
    scratch(other.path);
    for (int i = 0; i < LINKS; i++) {
        snprintf(to, sizeof(to), "%s/outside%d", other.path, i);
        scratch_write(to, "untouched");
        snprintf(path, sizeof(path), "%s/saved", d.path);
        (void)mkdir(path, 0700);
        snprintf(path, sizeof(path), "%s/saved/%s", d.path, names[i]);
        assert_int_equal(symlink(to, path), 0);
    }
    snprintf(path, sizeof(path), "%s/saved", d.path);
    OK(rf_pretrained_save(p, path));
    rf_pretrained_destroy(&p);
    for (int i = 0; i < LINKS; i++) {
        snprintf(to, sizeof(to), "%s/outside%d", other.path, i);
        FILE *file = fopen(to, "r");
        assert_non_null(file);
        assert_non_null(fgets(text, sizeof(text), file));
        assert_int_equal(fclose(file), 0);
        assert_string_equal(text, "untouched");
        snprintf(path, sizeof(path), "%s/saved/%s", d.path, names[i]);
        assert_int_equal(lstat(path, &is), 0);
        assert_true(S_ISREG(is.st_mode));
    }
    assert_int_equal(scratch_count(other.path), LINKS);
    scratch_remove(other.path);
    scratch_remove(d.path);
}
TEST_ON_ONE(links)

TESTS(hostile, NULL, NULL)
