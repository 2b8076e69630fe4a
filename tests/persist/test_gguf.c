/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF files: what is written is read again, ranges within blocks, and what is refused. test_gguf.py has another reader
 * and another writer. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "memory_files.h"
#include "persist/arrays/gguf.h"
#include "tests/room.h"

enum { ROWS = 3, COLUMNS = 288, COUNT = ROWS * COLUMNS };

static float number_at(uint64_t i)
{
    return sinf((float)i) * (float)(1 + i % 7);
}

static rf_result give(void *user, const char *name, uint64_t first, uint64_t count, float *out)
{
    uint64_t *asked = user;
    assert_non_null(name);
    *asked += count;
    for (uint64_t i = 0; i < count; i++) out[i] = number_at(first + i);
    return RF_OK;
}

static const char *const words[] = { "a", "", "\xc4\xa0the" };
static const float scores[] = { 0.5f, -1, 3 };
static const uint32_t heads = 12;
static const rf_gguf_value values[] = {
    { "general.architecture", RF_GGUF_STRING, false, 1, (const char *const[]){ "gpt2" } },
    { "gpt2.attention.head_count", RF_GGUF_UINT32, false, 1, &heads },
    { "tokenizer.ggml.tokens", RF_GGUF_STRING, true, 3, words },
    { "tokenizer.ggml.scores", RF_GGUF_FLOAT32, true, 3, scores },
    { "nothing", RF_GGUF_INT64, true, 0, NULL },
};
static const rf_gguf_tensor tensors[] = {
    { "f32", { 2, { ROWS, COLUMNS } }, RF_GGUF_F32 },
    { "f16", { 1, { COUNT } }, RF_GGUF_F16 },
    { "bf16", { 3, { ROWS, 2, COLUMNS / 2 } }, RF_GGUF_BF16 },
    { "q8", { 2, { ROWS, COLUMNS } }, RF_GGUF_Q8_0 },
    { "one", { 1, { 1 } }, RF_GGUF_F32 },
};
enum { NUM_VALUES = sizeof(values) / sizeof(values[0]), NUM_TENSORS = sizeof(tensors) / sizeof(tensors[0]) };

static rf_gguf *write_and_open(memory_files *files, const rf_gguf_contents *contents)
{
    const rf_file_ops ops = memory_file_ops(files);
    rf_gguf *f;
    assert_int_equal(rf_gguf_write_with(&ops, "m.gguf", contents), RF_OK);
    assert_int_equal(rf_gguf_open_with(&ops, "m.gguf", &f), RF_OK);
    return f;
}

static rf_gguf *make(memory_files *files)
{
    static uint64_t asked;
    return write_and_open(files, &(rf_gguf_contents){ values, NUM_VALUES, tensors, NUM_TENSORS, give, &asked });
}

static void finish(memory_files *files, rf_gguf **f)
{
    rf_gguf_close(f);
    assert_null(*f);
    memory_files_free(files);
}

TEST(values_come_back)
{
    memory_files files = { 0 };
    rf_gguf *f = make(&files);
    rf_gguf_value v;
    assert_int_equal(rf_gguf_num_values(f), NUM_VALUES);
    for (uint64_t i = 0; i < NUM_VALUES; i++) {
        assert_int_equal(rf_gguf_value_at(f, i, &v), RF_OK);
        assert_string_equal(v.key, values[i].key);
        assert_int_equal(v.type, values[i].type);
        assert_int_equal(v.array, values[i].array);
        assert_int_equal(v.count, values[i].count);
    }
    assert_int_equal(rf_gguf_find_value(f, "tokenizer.ggml.tokens", &v), RF_OK);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(((const char *const *)v.data)[i], words[i]);
        assert_int_equal(v.sizes[i], strlen(words[i]));
    }
    assert_int_equal(rf_gguf_find_value(f, "tokenizer.ggml.scores", &v), RF_OK);
    assert_memory_equal(v.data, scores, sizeof(scores));
    assert_int_equal(rf_gguf_find_value(f, "gpt2.attention.head_count", &v), RF_OK);
    assert_int_equal(*(const uint32_t *)v.data, 12);
    assert_int_equal(rf_gguf_find_value(f, "gpt2.rope", &v), RF_ERROR_NOT_FOUND);
    assert_int_equal(rf_gguf_value_at(f, NUM_VALUES, &v), RF_ERROR_INVALID_ARGUMENT);
    finish(&files, &f);
}

/* As far from a number as its type rounds. */
static float allowed(rf_gguf_type type, float x)
{
    switch (type) {
    case RF_GGUF_F32: return 0;
    case RF_GGUF_F16: return fabsf(x) / 2048;
    case RF_GGUF_BF16: return fabsf(x) / 256;
    default: return 7.0f / 127 * 0.57f; /* half a step, and the scale is rounded to f16 */
    }
}

TEST(numbers_come_back)
{
    memory_files files = { 0 };
    rf_gguf *f = make(&files);
    static float all[COUNT], part[COUNT];
    assert_int_equal(rf_gguf_num_tensors(f), NUM_TENSORS);
    for (uint64_t i = 0; i < NUM_TENSORS; i++) {
        rf_gguf_tensor t, found;
        assert_int_equal(rf_gguf_tensor_at(f, i, &t), RF_OK);
        assert_int_equal(rf_gguf_find_tensor(f, tensors[i].name, &found), RF_OK);
        assert_string_equal(t.name, tensors[i].name);
        assert_ptr_equal(t.name, found.name);
        assert_true(rf_shape_equal(t.shape, tensors[i].shape));
        assert_int_equal(t.type, tensors[i].type);
        assert_null(t.unsupported_type);
        const uint64_t count = (uint64_t)rf_shape_count(t.shape);
        assert_int_equal(rf_gguf_read(f, t.name, 0, count, all), RF_OK);
        for (uint64_t k = 0; k < count; k++) assert_true(fabsf(all[k] - number_at(k)) <= allowed(t.type, number_at(k)));
        for (uint64_t first = 0; first < count; first += 61) { /* ranges begin and end within blocks */
            const uint64_t n = count - first < 157 ? count - first : 157;
            assert_int_equal(rf_gguf_read(f, t.name, first, n, part), RF_OK);
            assert_memory_equal(part, all + first, n * sizeof(float));
        }
        assert_int_equal(rf_gguf_read(f, t.name, count, 0, NULL), RF_OK);
        assert_int_equal(rf_gguf_read(f, t.name, 1, count, part), RF_ERROR_INVALID_ARGUMENT);
        assert_int_equal(rf_gguf_read(f, t.name, UINT64_MAX, 2, part), RF_ERROR_INVALID_ARGUMENT);
    }
    assert_int_equal(rf_gguf_read(f, "q9", 0, 1, part), RF_ERROR_NOT_FOUND);
    finish(&files, &f);
}

static rf_result give_large(void *user, const char *name, uint64_t first, uint64_t count, float *out)
{
    (void)name;
    for (uint64_t i = 0; i < count; i++) out[i] = first + i == 40 ? *(const float *)user : 1;
    return RF_OK;
}

/* The number that does not fit is named by its place, and no file appears. */
TEST(numbers_that_do_not_fit)
{
    static const struct {
        rf_gguf_type type;
        float number;
        bool fits;
    } rows[] = { { RF_GGUF_F16, 65504, true },    { RF_GGUF_F16, 70000, false },  { RF_GGUF_BF16, 1e38f, true },
                 { RF_GGUF_Q8_0, 8.2e6f, true },  { RF_GGUF_Q8_0, 1e7f, false },  { RF_GGUF_Q8_0, NAN, false },
                 { RF_GGUF_Q8_0, -8.2e6f, true }, { RF_GGUF_F32, INFINITY, true } };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        memory_files files = { 0 };
        const rf_file_ops ops = memory_file_ops(&files);
        float number = rows[i].number;
        const rf_gguf_tensor t = { "t", RF_SHAPE(64), rows[i].type };
        const rf_gguf_contents c = { .tensors = &t, .num_tensors = 1, .read = give_large, .user = &number };
        rf_gguf *f;
        assert_int_equal(rf_gguf_write_with(&ops, "m.gguf", &c), rows[i].fits ? RF_OK : RF_ERROR_INVALID_ARGUMENT);
        if (!rows[i].fits) assert_non_null(strstr(rf_error_message(), "cannot hold"));
        assert_int_equal(rf_gguf_open_with(&ops, "m.gguf", &f), rows[i].fits ? RF_OK : RF_ERROR_NOT_FOUND);
        rf_gguf_close(&f);
        memory_files_free(&files);
    }
}

TEST(what_cannot_be_written)
{
    static const uint32_t odd = 48;
    const rf_gguf_value twice[] = { values[1], values[1] };
    const rf_gguf_value wrong[] = {
        { NULL, RF_GGUF_UINT32, false, 1, &heads },
        { "k", (rf_gguf_value_type)9, false, 1, &heads },
        { "k", RF_GGUF_UINT32, false, 2, &heads },
        { "k", RF_GGUF_UINT32, false, 1, NULL },
        { "k", RF_GGUF_STRING, true, 1, (const char *const[]){ NULL } },
        { "general.alignment", RF_GGUF_UINT32, false, 1, &odd },
        { "k", RF_GGUF_UINT32, false, 1, &heads, .reserved = { 1 } },
    };
    const rf_gguf_tensor bad[] = {
        { "", RF_SHAPE(32), RF_GGUF_F32 },
        { "a name of more bytes than readers of this format have room for it", RF_SHAPE(32), RF_GGUF_F32 },
        { "t", RF_SHAPE(32), RF_GGUF_Q4_0 },
        { "t", RF_SHAPE(33), RF_GGUF_Q8_0 },
        { "t", RF_SHAPE(0, 32), RF_GGUF_Q8_0 },
        { "t", RF_SHAPE(1, 1, 1, 1, 32), RF_GGUF_F32 },
        { "t", { 0 }, RF_GGUF_F32 },
    };
    memory_files files = { 0 };
    const rf_file_ops ops = memory_file_ops(&files);
    uint64_t asked = 0;
    rf_gguf_contents c = { .values = twice, .num_values = 2, .read = give, .user = &asked };
    assert_int_equal(rf_gguf_write_with(&ops, "m.gguf", &c), RF_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(rf_error_message(), "'gpt2.attention.head_count' is there twice"));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        c = (rf_gguf_contents){ .values = &wrong[i], .num_values = 1 };
        assert_int_equal(rf_gguf_write_with(&ops, "m.gguf", &c), RF_ERROR_INVALID_ARGUMENT);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        c = (rf_gguf_contents){ .tensors = &bad[i], .num_tensors = 1, .read = give, .user = &asked };
        assert_int_equal(rf_gguf_write_with(&ops, "m.gguf", &c), RF_ERROR_INVALID_ARGUMENT);
    }
    c.read = NULL;
    assert_int_equal(rf_gguf_write_with(&ops, "m.gguf", &c), RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(asked, 0);
    memory_files_free(&files);
}

/* Texts of more than the megabyte that is read at first. */
TEST(long_lists_come_back)
{
    enum { WORDS = 150000 };
    memory_files files = { 0 };
    const char **many = calloc(WORDS, sizeof(*many));
    assert_non_null(many);
    for (int i = 0; i < WORDS; i++) many[i] = words[i % 3];
    const rf_gguf_value v = { "tokenizer.ggml.tokens", RF_GGUF_STRING, true, WORDS, many };
    rf_gguf *f = write_and_open(&files, &(rf_gguf_contents){ .values = &v, .num_values = 1 });
    rf_gguf_value back;
    assert_int_equal(rf_gguf_value_at(f, 0, &back), RF_OK);
    assert_int_equal(back.count, WORDS);
    for (int i = 0; i < WORDS; i++) assert_string_equal(((const char *const *)back.data)[i], many[i]);
    free(many);
    finish(&files, &f);
}

static rf_result open_bytes(const uint8_t *bytes, uint64_t size, memory_files *files, rf_gguf **f)
{
    *files = (memory_files){ 0 };
    memory_files_put(files, "m.gguf", bytes, size);
    const rf_file_ops ops = memory_file_ops(files);
    return rf_gguf_open_with(&ops, "m.gguf", f);
}

/* A file that is cut anywhere before its tensors' last byte is refused. One with a byte changed is refused where that
 * breaks a rule; where it is accepted, nothing outside of it is read. */
TEST(damaged_files)
{
    memory_files made = { 0 }, files;
    rf_gguf *f = make(&made);
    rf_gguf_close(&f);
    const int index = memory_files_find(&made, "m.gguf");
    const uint64_t size = made.file[index].size;
    uint8_t *bytes = made.file[index].bytes;
    uint64_t refused = 0;
    for (uint64_t cut = 0; cut + 32 < size; cut += cut < 700 ? 1 : 97) { /* the last tensor has four bytes */
        assert_int_equal(open_bytes(bytes, cut, &files, &f), RF_ERROR_CORRUPT_DATA);
        assert_null(f);
        memory_files_free(&files);
    }
    for (uint64_t at = 0; at < 600; at++) {
        bytes[at] ^= 0x81;
        const rf_result r = open_bytes(bytes, size, &files, &f);
        bytes[at] ^= 0x81;
        assert_true(r == RF_OK || r == RF_ERROR_CORRUPT_DATA || r == RF_ERROR_UNSUPPORTED);
        refused += r != RF_OK;
        for (uint64_t i = 0; r == RF_OK && i < rf_gguf_num_tensors(f); i++) {
            float number;
            rf_gguf_tensor t;
            assert_int_equal(rf_gguf_tensor_at(f, i, &t), RF_OK);
            const rf_result read = rf_gguf_read(f, t.name, 0, 1, &number);
            assert_true(read == (t.unsupported_type             ? RF_ERROR_UNSUPPORTED
                                 : rf_shape_count(t.shape) == 0 ? RF_ERROR_INVALID_ARGUMENT
                                                                : RF_OK));
        }
        rf_gguf_close(&f);
        memory_files_free(&files);
    }
    assert_true(refused > 200);
    memory_files_free(&made);
}

/* Lengths beyond the file are refused before memory is asked for, and before more of the file is read. */
TEST(lengths_beyond_the_file)
{
    static const struct {
        uint64_t text, count;
    } rows[] = { { UINT64_MAX, 1 }, { 8u << 20, 1 }, { 1, UINT64_MAX }, { 1, 1u << 20 } };
    const uint64_t size = 3u << 20;
    uint8_t *bytes = calloc(size, 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        memory_files files;
        rf_gguf *f;
        memcpy(bytes, "GGUF\3", 5);
        bytes[16] = 1; /* value */
        memcpy(bytes + 24, &rows[i].text, 8);
        bytes[32] = 'k';
        bytes[33] = RF_GGUF_ARRAY;
        bytes[37] = RF_GGUF_STRING;
        memcpy(bytes + 41, &rows[i].count, 8);
        assert_int_equal(open_bytes(bytes, size, &files, &f), RF_ERROR_CORRUPT_DATA);
        assert_true(files.bytes_read <= 1u << 20);
        memory_files_free(&files);
    }
    free(bytes);
}

TESTS(gguf, NULL, NULL)
