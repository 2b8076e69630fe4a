/* SPDX-License-Identifier: Apache-2.0 */
/* Models and adapters in the hub's directories as GGUF files. */
#include <ringfire/pretrained.h>

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/params.h"
#include "persist/arrays/gguf.h"
#include "persist/json.h"
#include "pretrained/gguf_export.h"
#include "pretrained/gguf_parts.h"
#include "text/gguf_tokenizer.h"

enum { MOST_TOKENIZER = 256 << 20, MOST_SETTINGS = 16 << 20, PIECE = 65536, MOST_RANK = 1000000 };
#define CONFIG_FILE "config.json"
#define ADAPTER_CONFIG "adapter_config.json"
#define ADAPTER_FILE "adapter_model.safetensors"

/* A tensor of the file that is written, and where its numbers come from. */
typedef struct planned {
    char *name;
    const rf_tensor_entry *from; /* NULL: the frequencies' divisors */
    rf_gguf_change change;
} planned;

typedef struct plan {
    const char *directory;
    const rf_tensor_files *files;
    const rf_archive_source *source;
    rf_pretrained_gguf_params params;
    rf_gguf_values values;
    rf_gguf_model model;
    planned *items;
    rf_gguf_tensor *tensors;
    uint32_t count;
    bool has_table; /* of embeddings */
    float *whole;   /* the numbers of tensor `held`, whose rows change; NULL: none */
    uint32_t held;
    unsigned char *raw; /* PIECE elements */
} plan;

/* ---- numbers ---- */

/* Numbers of a tensor as its file has them. */
static rf_result read_source(const plan *p, const rf_tensor_entry *from, uint64_t first, uint64_t count, float *out)
{
    const uint64_t size = rf_dtype_size(from->is.dtype);
    for (uint64_t done = 0, n; done < count; done += n) {
        n = count - done < PIECE ? count - done : PIECE;
        RF_TRY(p->source->read(p->source->user, from->is.name, (first + done) * size, p->raw, n * size));
        rf_floats_widen(out + done, p->raw, from->is.dtype, n);
    }
    return RF_OK;
}

static float changed_number(const plan *p, const planned *t, uint64_t at)
{
    const rf_shape shape = t->from->is.shape;
    const uint64_t rows = (uint64_t)shape.dim[0], width = shape.rank > 1 ? (uint64_t)shape.dim[1] : 1;
    if (t->change == RF_GGUF_TURNED) return p->whole[at % rows * width + at / rows];
    const uint64_t heads = t->change == RF_GGUF_OF_QUERY ? p->model.heads : p->model.key_heads;
    return p->whole[rf_gguf_row_in_hub(at / width, rows, heads) * width + at % width];
}

static rf_result read_whole(plan *p, uint32_t index)
{
    const rf_tensor_entry *from = p->items[index].from;
    const uint64_t count = (uint64_t)rf_shape_count(from->is.shape);
    rf_free(p->whole);
    p->held = index;
    p->whole = RF_NEW_ARRAY(float, count);
    return p->whole ? read_source(p, from, 0, count, p->whole) : RF_ERROR_OUT_OF_HOST_MEMORY;
}

static rf_result read_planned(void *user, const char *name, uint64_t first, uint64_t count, float *out)
{
    plan *p = user;
    uint32_t index = 0;
    while (strcmp(p->items[index].name, name) != 0) index++;
    const planned *t = &p->items[index];
    if (!t->from) {
        memcpy(out, p->model.frequencies + first, (size_t)count * sizeof(float));
        return RF_OK;
    }
    if (t->change == RF_GGUF_KEPT) return read_source(p, t->from, first, count, out);
    if (!p->whole || p->held != index) RF_TRY(read_whole(p, index));
    for (uint64_t i = 0; i < count; i++) out[i] = changed_number(p, t, first + i);
    return RF_OK;
}

/* ---- tensors ---- */

static rf_result check_entry(const plan *p, const rf_tensor_entry *e)
{
    const rf_dtype dtype = e->is.dtype;
    if (!e->is.unsupported_type && (dtype == RF_F32 || dtype == RF_F16 || dtype == RF_BF16)) return RF_OK;
    return RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s': tensor '%.200s' is of type %s; weights are F32, F16 or BF16",
                   p->directory, e->is.name, e->is.unsupported_type ? e->is.unsupported_type : rf_dtype_name(dtype));
}

/* Vectors and positions are F32 in any file; rows that are no whole number of blocks are not quantised. */
static rf_gguf_type stored_type(const plan *p, const rf_shape *shape, const char *name)
{
    const rf_gguf_type type = p->params.type;
    if (shape->rank < 2 || strcmp(name, "position_embd.weight") == 0) return RF_GGUF_F32;
    return type == RF_GGUF_Q8_0 && shape->dim[shape->rank - 1] % 32 != 0 ? RF_GGUF_F16 : type;
}

static rf_result check_heads(const plan *p, const planned *t)
{
    const uint64_t heads = t->change == RF_GGUF_OF_QUERY ? p->model.heads : p->model.key_heads;
    const rf_shape *shape = &t->from->is.shape;
    if (t->change == RF_GGUF_TURNED ? shape->rank == 2 : shape->rank >= 1 && (uint64_t)shape->dim[0] % (2 * heads) == 0)
        return RF_OK;
    char text[96];
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                   "'%s': tensor '%.200s' is %s, which config.json does not divide into heads", p->directory,
                   t->from->is.name, rf_shape_format(*shape, text, sizeof(text)));
}

/* A list of tokens is as long as the table is. */
static rf_result check_vocabulary(plan *p, const rf_tensor_entry *from)
{
    char text[96];
    p->has_table = from->is.shape.rank == 2 && from->is.shape.dim[0] == (int64_t)p->model.vocabulary;
    if (p->has_table) return RF_OK;
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "'%s': tensor '%.200s' is %s, and 'vocab_size' of config.json %u",
                   p->directory, from->is.name, rf_shape_format(from->is.shape, text, sizeof(text)),
                   p->model.vocabulary);
}

/* Takes the name over. */
static rf_result add_tensor(plan *p, const rf_tensor_entry *from, char *name, rf_gguf_change change)
{
    planned *t = &p->items[p->count];
    rf_gguf_tensor *tensor = &p->tensors[p->count++];
    const bool pairs = p->model.architecture->pairs, moves = change == RF_GGUF_OF_QUERY || change == RF_GGUF_OF_KEY;
    *t = (planned){ name, from, change == RF_GGUF_TURNED || (moves && pairs) ? change : RF_GGUF_KEPT };
    if (!from) {
        *tensor = (rf_gguf_tensor){ .name = name, .shape = RF_SHAPE((int64_t)p->model.num_frequencies) };
        return RF_OK;
    }
    RF_TRY(check_entry(p, from));
    if (strcmp(name, "token_embd.weight") == 0) RF_TRY(check_vocabulary(p, from));
    if (t->change != RF_GGUF_KEPT) RF_TRY(check_heads(p, t));
    rf_shape shape = from->is.shape;
    if (change == RF_GGUF_TURNED) shape = RF_SHAPE(shape.dim[1], shape.dim[0]);
    *tensor = (rf_gguf_tensor){ .name = name, .shape = shape, .type = stored_type(p, &shape, name) };
    return RF_OK;
}

static rf_result plan_tensors(plan *p)
{
    p->items = rf_calloc(p->files->num_entries + 1, sizeof(*p->items));
    p->tensors = rf_calloc(p->files->num_entries + 1, sizeof(*p->tensors));
    if (!p->items || !p->tensors) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < p->files->num_entries; i++) {
        const rf_gguf_name *row;
        char *name;
        RF_TRY(rf_gguf_find_name(&p->model, p->files->entries[i].is.name, &row, &name));
        if (!name || (row->change == RF_GGUF_IF_UNTIED && p->model.tied))
            rf_free(name);
        else
            RF_TRY(add_tensor(p, &p->files->entries[i], name, row->change));
    }
    if (!p->has_table)
        return RF_FAIL(RF_ERROR_NOT_FOUND, "'%s' has no tensor that is the table of embeddings", p->directory);
    if (!p->model.frequencies) return RF_OK;
    char *name = rf_strdup(RF_GGUF_FREQUENCIES);
    return name ? add_tensor(p, NULL, name, RF_GGUF_KEPT) : RF_ERROR_OUT_OF_HOST_MEMORY;
}

/* ---- the other files ---- */

/* A JSON file of the directory; *root is NULL where it is not there. */
static rf_result read_json(const rf_tensor_files *files, const char *file, uint64_t most, json_t **root)
{
    char *path = rf_path_in(files->directory, file), *what = path ? rf_asprintf("'%s'", path) : NULL, *text = NULL;
    size_t size = 0;
    *root = NULL;
    rf_result r = what ? rf_tensor_files_text(files, file, most, &text, &size) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) r = rf_json_parse(text, size, what, root);
    rf_free(text);
    rf_free(what);
    rf_free(path);
    return r;
}

static rf_result describe_tokenizer(plan *p, const json_t *config)
{
    json_t *tokenizer = NULL, *settings = NULL;
    char *chat = NULL, *path = rf_path_in(p->directory, "tokenizer.json");
    size_t size = 0;
    rf_result r = path ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) r = read_json(p->files, "tokenizer.json", MOST_TOKENIZER, &tokenizer);
    if (r >= 0) r = read_json(p->files, "tokenizer_config.json", MOST_SETTINGS, &settings);
    if (r == RF_ERROR_NOT_FOUND && tokenizer) r = RF_OK;
    if (r >= 0) r = rf_tensor_files_text(p->files, "chat_template.jinja", MOST_SETTINGS, &chat, &size);
    if (r == RF_ERROR_NOT_FOUND && tokenizer) r = RF_OK;
    const rf_tokenizer_files files = { tokenizer, settings, config, chat, path };
    if (r >= 0) r = rf_gguf_describe_tokenizer(&files, p->model.vocabulary, p->params.pre_tokenizer, &p->values);
    json_decref(tokenizer);
    json_decref(settings);
    rf_free(chat);
    rf_free(path);
    return r;
}

/* The last part of the directory's path. */
static void put_name(plan *p)
{
    const char *given = p->params.name, *path = p->directory, *last = path;
    for (const char *c = path; *c; c++)
        if (*c == '/' && c[1] && c[1] != '/') last = c + 1;
    char *name = rf_strdup(given ? given : last);
    size_t n = name ? strlen(name) : 0;
    for (; n > 1 && name[n - 1] == '/'; n--) name[n - 1] = '\0';
    if (!given && n > 5 && strcmp(name + n - 5, ".gguf") == 0) name[n - 5] = '\0';
    rf_gguf_put_text(&p->values, "general.name", name ? name : "");
    rf_free(name);
}

static void put_general(plan *p, const char *kind)
{
    const rf_gguf_type type = p->params.type;
    const uint32_t file_type = type == RF_GGUF_F32 ? 0 : type == RF_GGUF_F16 ? 1 : type == RF_GGUF_Q8_0 ? 7 : 32;
    rf_gguf_put_text(&p->values, "general.type", kind);
    put_name(p);
    rf_gguf_put_u32(&p->values, "general.file_type", file_type);
    rf_gguf_put_u32(&p->values, "general.quantization_version", 2);
}

static rf_result read_config(const plan *p, const rf_tensor_files *of, rf_pretrained_config *config, char **path)
{
    char *text = NULL;
    size_t size = 0;
    *path = rf_path_in(of->directory, CONFIG_FILE);
    rf_result r =
        *path ? rf_tensor_files_text(of, CONFIG_FILE, MOST_SETTINGS, &text, &size) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) r = rf_pretrained_config_parse(config, *path, text, size);
    config->num_tensors = p->files->num_entries;
    rf_free(text);
    return r;
}

static rf_result write_plan(plan *p, const char *path)
{
    RF_TRY(p->values.status);
    return rf_gguf_write(path, &(rf_gguf_contents){ .values = p->values.items,
                                                    .num_values = p->values.count,
                                                    .tensors = p->tensors,
                                                    .num_tensors = p->count,
                                                    .read = read_planned,
                                                    .user = p });
}

static void clear_plan(plan *p)
{
    for (uint32_t i = 0; i < p->count; i++) rf_free(p->items[i].name);
    rf_free(p->items);
    rf_free(p->tensors);
    rf_free(p->whole);
    rf_free(p->raw);
    rf_gguf_values_clear(&p->values);
}

rf_result rf_gguf_write_model(const char *directory, const rf_tensor_files *files, const rf_archive_source *source,
                              const char *path, const rf_pretrained_gguf_params *params)
{
    plan p = { .directory = directory, .files = files, .source = source, .raw = rf_calloc(PIECE, sizeof(float)) };
    rf_pretrained_config config = { 0 };
    char *config_path = NULL;
    if (params) p.params = *params;
    rf_result r = p.raw ? read_config(&p, files, &config, &config_path) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) r = rf_gguf_describe_model(&config, &p.values, &p.model);
    if (r >= 0) put_general(&p, "model");
    if (r >= 0) r = plan_tensors(&p);
    if (r >= 0) r = describe_tokenizer(&p, config.root);
    if (r >= 0) r = write_plan(&p, path);
    rf_pretrained_config_clear(&config);
    rf_free(config_path);
    clear_plan(&p);
    return r;
}

/* ---- adapters ---- */

/* "base_model.model.NAME.lora_A.weight" is part "lora_a" of tensor NAME.weight. */
static rf_result plan_factor(plan *p, const rf_tensor_entry *e)
{
    static const char *const parts[][2] = { { ".lora_A.weight", ".lora_a" }, { ".lora_B.weight", ".lora_b" } };
    const char *begin = "base_model.model.", *hub = e->is.name;
    const size_t length = strlen(hub), skipped = strncmp(hub, begin, strlen(begin)) == 0 ? strlen(begin) : 0;
    for (int i = 0; i < 2; i++) {
        const size_t end = strlen(parts[i][0]);
        if (length < skipped + end || strcmp(hub + length - end, parts[i][0]) != 0) continue;
        const rf_gguf_name *row;
        char *plain = rf_asprintf("%.*s.weight", (int)(length - skipped - end), hub + skipped), *name = NULL;
        rf_result r = plain ? rf_gguf_find_name(&p->model, plain, &row, &name) : RF_ERROR_OUT_OF_HOST_MEMORY;
        char *whole = name ? rf_asprintf("%s%s", name, parts[i][1]) : NULL;
        if (r >= 0 && name && !whole) r = RF_ERROR_OUT_OF_HOST_MEMORY;
        rf_free(plain);
        rf_free(name);
        RF_TRY(r);
        if (!whole) break;
        const bool moves = i == 1 && row->change != RF_GGUF_TURNED;
        return add_tensor(p, e, whole, moves ? row->change : RF_GGUF_KEPT);
    }
    return RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s': tensor '%.200s' is no factor of a matrix that GGUF adapters have",
                   p->directory, hub);
}

static rf_result plan_factors(plan *p)
{
    p->items = rf_calloc(p->files->num_entries + 1, sizeof(*p->items));
    p->tensors = rf_calloc(p->files->num_entries + 1, sizeof(*p->tensors));
    if (!p->items || !p->tensors) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < p->files->num_entries; i++) RF_TRY(plan_factor(p, &p->files->entries[i]));
    return RF_OK;
}

static rf_result fail_adapter(const plan *p, const char *why)
{
    return RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s/%s': %s", p->directory, ADAPTER_CONFIG, why);
}

/* llama.cpp multiplies by alpha / rank; where the rank's root divides, alpha is the larger by it. */
static rf_result describe_adapter(plan *p, const json_t *config)
{
    const json_t *alpha = json_object_get(config, "lora_alpha"), *rank = json_object_get(config, "r");
    const double r = json_number_value(rank);
    if (!json_is_number(alpha) || !json_is_number(rank) || !(r >= 1 && r <= MOST_RANK) ||
        !(json_number_value(alpha) > 0 && json_number_value(alpha) <= MOST_RANK))
        return fail_adapter(p, "'lora_alpha' or 'r' is no positive number up to 1000000");
    if (json_is_true(json_object_get(config, "use_dora"))) return fail_adapter(p, "'use_dora': GGUF has no magnitudes");
    if (json_object_size(json_object_get(config, "alpha_pattern")) > 0)
        return fail_adapter(p, "'alpha_pattern': GGUF has one alpha for all matrices");
    const bool by_root = json_is_true(json_object_get(config, "use_rslora"));
    if (by_root && json_object_size(json_object_get(config, "rank_pattern")) > 0)
        return fail_adapter(p, "'rank_pattern' with 'use_rslora': GGUF has one alpha for all matrices");
    rf_gguf_put_text(&p->values, "adapter.type", "lora");
    rf_gguf_put_f32(&p->values, "adapter.lora.alpha", json_number_value(alpha) * (by_root ? sqrt(r) : 1));
    return p->values.status;
}

/* The base gives the architecture and the heads; its settings are not the adapter's. */
static rf_result describe_base(plan *p, const char *base)
{
    rf_pretrained_config config = { 0 };
    rf_gguf_values settings = { 0 };
    char *path = NULL;
    rf_result r = read_config(p, &(rf_tensor_files){ .directory = (char *)(uintptr_t)base }, &config, &path);
    config.num_tensors = INT32_MAX;
    if (r >= 0) r = rf_gguf_describe_model(&config, &settings, &p->model);
    p->model.frequencies = NULL;
    if (r >= 0) rf_gguf_put_text(&p->values, "general.architecture", p->model.architecture->name);
    rf_gguf_values_clear(&settings);
    rf_pretrained_config_clear(&config);
    rf_free(path);
    return r;
}

static rf_result write_adapter(plan *p, const char *base, const char *path)
{
    json_t *config;
    RF_TRY(read_json(p->files, ADAPTER_CONFIG, MOST_SETTINGS, &config));
    rf_result r = describe_base(p, base);
    if (r >= 0) put_general(p, "adapter");
    if (r >= 0) r = describe_adapter(p, config);
    if (r >= 0) r = plan_factors(p);
    json_decref(config);
    return r < 0 ? r : write_plan(p, path);
}

/* ---- public ---- */

rf_result rf_gguf_check_params(const char *function, const char *path, const rf_pretrained_gguf_params *params)
{
    RF_TRY(RF_PARAMS_CHECK(rf_pretrained_gguf_params, params));
    RF_REQUIRE(path && *path, "%s: path is empty", function);
    const rf_gguf_form *form = params ? rf_gguf_find_form((uint32_t)params->type) : NULL;
    RF_REQUIRE(!params || (form && form->encode), "%s: type %d; F32, F16, BF16 and Q8_0 are written", function,
               params ? (int)params->type : 0);
    return RF_OK;
}

static rf_result read_file(void *user, const char *name, uint64_t offset, void *data, uint64_t size)
{
    return rf_tensor_files_read(user, rf_tensor_files_find(user, name), offset, data, size);
}

rf_result rf_gguf_from_directory(const char *directory, const char *path, const rf_pretrained_gguf_params *params)
{
    RF_TRY(rf_gguf_check_params("rf_gguf_from_directory", path, params));
    RF_REQUIRE(directory && *directory, "rf_gguf_from_directory: directory is empty");
    rf_tensor_files files;
    rf_result r = rf_tensor_files_open(&files, directory);
    if (r >= 0) r = rf_gguf_write_model(directory, &files, &(rf_archive_source){ read_file, &files }, path, params);
    rf_tensor_files_close(&files);
    return r;
}

rf_result rf_gguf_from_adapter(const char *directory, const char *base, const char *path,
                               const rf_pretrained_gguf_params *params)
{
    RF_TRY(rf_gguf_check_params("rf_gguf_from_adapter", path, params));
    RF_REQUIRE(directory && *directory && base && *base, "rf_gguf_from_adapter: directory or base is empty");
    rf_tensor_files files;
    plan p = { .directory = directory, .files = &files, .raw = rf_calloc(PIECE, sizeof(float)) };
    const rf_archive_source source = { read_file, &files };
    p.source = &source;
    if (params) p.params = *params;
    rf_result r = rf_tensor_files_open_one(&files, directory, ADAPTER_FILE);
    if (r >= 0 && !p.raw) r = RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) r = write_adapter(&p, base, path);
    clear_plan(&p);
    rf_tensor_files_close(&files);
    return r;
}
