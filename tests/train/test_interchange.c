/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors and .npy: round trips, a reader that is not ours, files that lie. */
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <ringfire/interchange.h>

#include "../persist/peak_memory.h"
#include "test_folder.h"
#include "tests/room.h"

/* Arrays that count 0, 1, 2, ... */
static float f32[6] = { 0, 1, 2, 3, 4, 5 };
static uint16_t f16[3] = { 0, 0x3c00, 0x4000 }, bf16[3] = { 0, 0x3f80, 0x4000 };
static int32_t i32[2] = { 0, 1 };
static int64_t i64[3] = { 0, 1, 2 };
static uint8_t u8[5] = { 0, 1, 2, 3, 4 };
static const rf_named_array arrays[] = {
    { "bytes", { RF_U8, { 2, { 5, 1 } }, u8 } }, { "a/kernel", { RF_F32, { 2, { 2, 3 } }, f32 } },
    { "half", { RF_F16, { 1, { 3 } }, f16 } },   { "brain", { RF_BF16, { 1, { 3 } }, bf16 } },
    { "labels", { RF_I32, { 1, { 2 } }, i32 } }, { "wide \"\xc3\xa9\"", { RF_I64, { 3, { 1, 3, 1 } }, i64 } },
    { "scalar", { RF_F32, { 0, { 0 } }, f32 } }, { "none", { RF_F32, { 2, { 0, 4 } }, f32 } },
    { "", { RF_U8, { 1, { 4 } }, u8 } }, /* other programs write such names */
};
enum { NUM_ARRAYS = sizeof(arrays) / sizeof(arrays[0]) };
static const char *const dtypes[] = {
    [RF_F32] = "F32", [RF_F16] = "F16", [RF_BF16] = "BF16", [RF_I32] = "I32", [RF_U8] = "U8", [RF_I64] = "I64"
};

/* How another program's reader understands it. */
static void check_elsewhere(const char *path, const rf_named_array *a)
{
    char shape[64] = "scalar", command[700];
    for (int32_t i = 0, n = 0; i < a->array.shape.rank; i++)
        n += snprintf(shape + n, sizeof(shape) - (size_t)n, "%s%lld", i ? "x" : "", (long long)a->array.shape.dim[i]);
    snprintf(command, sizeof(command), "'%s' '%s' %s '%s' %s %s", PYTHON, READER, path, a->name, dtypes[a->array.dtype],
             shape);
    if (system(command) != 0) fail_msg("%s", command);
}

TEST(safetensors)
{
    const char *path = in_folder("x.safetensors");
    OK(rf_safetensors_write(path, arrays, NUM_ARRAYS));
    rf_array_set set;
    OK(rf_safetensors_read(path, &set));
    assert_int_equal(set.count, NUM_ARRAYS);
    for (uint32_t i = 0; i < NUM_ARRAYS; i++) {
        const rf_named_array *got = NULL;
        for (uint32_t k = 0; k < set.count; k++)
            if (strcmp(set.items[k].name, arrays[i].name) == 0) got = &set.items[k];
        assert_non_null(got);
        assert_int_equal(got->array.dtype, arrays[i].array.dtype);
        assert_true(rf_shape_equal(got->array.shape, arrays[i].array.shape));
        assert_memory_equal(got->array.data, arrays[i].array.data,
                            (size_t)rf_shape_count(got->array.shape) * rf_dtype_size(got->array.dtype));
        check_elsewhere(path, &arrays[i]);
    }
    rf_array_set_free(&set);
    OK(rf_safetensors_write(path, NULL, 0));
    OK(rf_safetensors_read(path, &set));
    assert_int_equal(set.count, 0);
    rf_array_set_free(&set);
    const rf_named_array twice[] = { arrays[0], arrays[0] };
    FAILS(rf_safetensors_write(path, twice, 2), RF_ERROR_INVALID_ARGUMENT, "same name");
    FAILS(rf_safetensors_read(in_folder("missing"), &set), RF_ERROR_NOT_FOUND, "missing");
}

static void write_bytes(const char *path, uint64_t length, const char *header, size_t data)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (int i = 0; i < 8; i++) fputc((int)(length >> 8 * i & 255), file);
    fputs(header, file);
    for (size_t i = 0; i < data; i++) fputc(0, file);
    fclose(file);
}

#define ENTRY(shape, begin, end) "{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"
TEST(hostile_safetensors)
{
    static const struct {
        const char *header;
        size_t data;
        rf_result result;
        const char *part;
    } cases[] = {
        { "[]", 0, RF_ERROR_CORRUPT_DATA, "not a JSON object" },
        { "1{}", 0, RF_ERROR_CORRUPT_DATA, "does not begin" },
        { "{},", 0, RF_ERROR_CORRUPT_DATA, "something follows" },
        { "{\"a\":" ENTRY("[1]", 0, 4) ",}", 4, RF_ERROR_CORRUPT_DATA, "not a JSON object" },
        { "{\"a\":" ENTRY("[1]", 0, 4) "\"b\":" ENTRY("[1]", 4, 8) "}", 8, RF_ERROR_CORRUPT_DATA, "not a JSON object" },
        { "{,\"a\":" ENTRY("[1]", 0, 4) "}", 4, RF_ERROR_CORRUPT_DATA, "not a JSON object" },
        { "{\"a\\u00\":" ENTRY("[1]", 0, 4) "}", 4, RF_ERROR_CORRUPT_DATA, "not a JSON object" },
        { "{\"a\\\":" ENTRY("[1]", 0, 4) "}", 4, RF_ERROR_CORRUPT_DATA, "not a JSON object" },
        { "{\"a\":{\"dtype\":\"F32\"]}", 4, RF_ERROR_CORRUPT_DATA, "not a JSON object" },
        { "{\"a\":", 0, RF_ERROR_CORRUPT_DATA, "JSON" },
        { "{\"a\":1}", 0, RF_ERROR_CORRUPT_DATA, "no name with an object" },
        { "{\"a\":{}}", 0, RF_ERROR_CORRUPT_DATA, "offsets" },
        { "{\"a\":" ENTRY("[1]", 0, 4) "}", 3, RF_ERROR_CORRUPT_DATA, "end of the file" },
        { "{\"a\":" ENTRY("[1]", 0, 4) "}", 5, RF_ERROR_CORRUPT_DATA, "belong to no tensor" },
        { "{\"a\":" ENTRY("[2]", 0, 4) "}", 4, RF_ERROR_CORRUPT_DATA, "do not give its length" },
        { "{\"a\":" ENTRY("[1]", 4, 8) "}", 8, RF_ERROR_CORRUPT_DATA, "gap" },
        { "{\"a\":" ENTRY("[1]", 0, 4) ",\"b\":" ENTRY("[1]", 0, 4) "}", 4, RF_ERROR_CORRUPT_DATA, "overlaps" },
        { "{\"a\":" ENTRY("[1]", 0, 4) ",\"a\":" ENTRY("[1]", 4, 8) "}", 8, RF_ERROR_CORRUPT_DATA,
          "'a': is there twice" },
        { "{\"a\":" ENTRY("[1]", 0, 4) ",\"\\u0061\":" ENTRY("[1]", 4, 8) "}", 8, RF_ERROR_CORRUPT_DATA, "twice" },
        { "{\"a\":" ENTRY("[1]", 8, 4) "}", 8, RF_ERROR_CORRUPT_DATA, "offsets" },
        { "{\"a\":" ENTRY("[-1]", 0, 4) "}", 4, RF_ERROR_CORRUPT_DATA, "shape" },
        { "{\"a\":" ENTRY("[4294967296,4294967296,4]", 0, 4) "}", 4, RF_ERROR_CORRUPT_DATA, "larger" },
        { "{\"a\":" ENTRY("[4611686018427387904]", 0, 4) "}", 4, RF_ERROR_CORRUPT_DATA, "length" },
        { "{\"a\":" ENTRY("[1,1,1,1,1,1,1]", 0, 4) "}", 4, RF_ERROR_UNSUPPORTED, "7 dimensions" },
        { "{\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, RF_ERROR_UNSUPPORTED, "F64" },
        { "{\"__metadata__\":{\"a\":1}}", 0, RF_ERROR_CORRUPT_DATA, "__metadata__" },
        { "{\"__metadata__\":[]}", 0, RF_ERROR_CORRUPT_DATA, "no name with an object" },
    };
    const char *path = in_folder("bad.safetensors");
    rf_array_set set;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        write_bytes(path, strlen(cases[i].header), cases[i].header, cases[i].data);
        FAILS(rf_safetensors_read(path, &set), cases[i].result, cases[i].part);
        assert_true(set.count == 0 && !set.items);
    }
    write_bytes(path, UINT64_MAX, "{}", 0);
    FAILS(rf_safetensors_read(path, &set), RF_ERROR_CORRUPT_DATA, "header of 18446744073709551615 bytes");
    write_bytes(path, 3, "{}", 0);
    FAILS(rf_safetensors_read(path, &set), RF_ERROR_CORRUPT_DATA, "header of 3 bytes");
    write_bytes(path, 100000001, "{}", 0);
    assert_int_equal(truncate(path, 8 + 100000001), 0);
    FAILS(rf_safetensors_read(path, &set), RF_ERROR_CORRUPT_DATA,
          "a header of 100000001 bytes, of which the format allows 100000000");
    write_bytes(path, 60, "{\"__metadata__\":{\"format\":\"pt\"}}                            ", 0);
    OK(rf_safetensors_read(path, &set)); /* spaces at the end are padding */
    rf_array_set_free(&set);
    FILE *file = fopen(path, "wb");
    fputs("1234567", file);
    fclose(file);
    FAILS(rf_safetensors_read(path, &set), RF_ERROR_CORRUPT_DATA, "too short");
}

/* Nobody writes to the pipe: whoever opened it to read would wait. */
TEST(special_files)
{
    char pipe_path[160];
    rf_array_set set;
    rf_array array;
    rf_safetensors *file;
    rf_archive *archive;
    strcpy(pipe_path, in_folder("pipe"));
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    const char *const paths[] = { pipe_path, "/dev/zero", "/" };
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        FAILS(rf_safetensors_read(paths[i], &set), RF_ERROR_IO, ": is not a regular file");
        FAILS(rf_safetensors_open(paths[i], &file), RF_ERROR_IO, ": is not a regular file");
        FAILS(rf_npy_read(paths[i], &array), RF_ERROR_IO, ": is not a regular file");
        FAILS(rf_archive_open(paths[i], &archive), RF_ERROR_CORRUPT_DATA, ": not a regular file");
        assert_true(!set.items && !array.data && !file && !archive);
    }
    FAILS(rf_npy_read(in_folder("none.npy"), &array), RF_ERROR_NOT_FOUND, "none.npy: cannot open");
    FAILS(rf_safetensors_open(in_folder("none.st"), &file), RF_ERROR_NOT_FOUND, "none.st: cannot open");
}

/* Between two tensors that can be read stands one of another program's type, or of too many dimensions. */
TEST(other_types)
{
    static const struct {
        const char *type, *shape, *shown;
        size_t bytes;
    } cases[] = {
        { "F64", "[2]", "F64", 16 },
        { "F8_E4M3", "[3]", "F8_E4M3", 3 },
        { "F8_E5M2", "[3,1]", "F8_E5M2", 3 },
        { "BOOL", "[5]", "BOOL", 5 },
        { "U64", "[1]", "U64", 8 },
        { "I16", "[2,2]", "I16", 8 },
        { "F4", "[7]", "F4", 4 },
        { "C64", "[]", "C64", 8 },
        { "f\\n\\u0007\\u00e9", "[]", "f????", 1 },
        { "F32", "[1,1,1,1,1,1,2]", "F32 of 7 dimensions", 8 },
        { "AN_EXTREMELY_LONG_TYPE", "[0]", "AN_EXTREMELY_LON", 0 },
    };
    char path[160], archive[160], header[512], message[200];
    strcpy(path, in_folder("types.safetensors"));
    strcpy(archive, in_folder("types.rfck"));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const size_t n = cases[i].bytes;
        snprintf(header, sizeof(header),
                 "{\"z\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[%zu,%zu]},"
                 "\"odd\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[4,%zu]},\"a\":" ENTRY("[1]", 0, 4) "}",
                 n + 4, n + 8, cases[i].type, cases[i].shape, n + 4);
        write_bytes(path, strlen(header), header, n + 8);
        rf_safetensors *file;
        rf_archive_entry e;
        float value = 1;
        OK(rf_safetensors_open(path, &file));
        assert_int_equal(rf_safetensors_num_tensors(file), 3);
        for (uint64_t k = 0; k < 3; k++) {
            OK(rf_safetensors_entry_at(file, k, &e));
            const bool odd = strcmp(e.name, "odd") == 0;
            assert_int_equal(e.dtype, odd ? RF_DTYPE_INVALID : RF_F32);
            assert_int_equal(e.bytes, odd ? n : 4);
            if (!odd) {
                assert_null(e.unsupported_type);
                OK(rf_safetensors_read_range(file, e.name, 0, &value, 4));
                assert_true(value == 0);
                continue;
            }
            assert_string_equal(e.unsupported_type, cases[i].shown);
            snprintf(message, sizeof(message), "tensor 'odd' is of type %s; supported are F32,", cases[i].shown);
            FAILS(rf_safetensors_read_range(file, "odd", 0, &value, 0), RF_ERROR_UNSUPPORTED, message);
        }
        FAILS(rf_archive_from_safetensors(file, archive, NULL), RF_ERROR_UNSUPPORTED, message);
        assert_int_not_equal(access(archive, F_OK), 0);
        rf_safetensors_close(&file);
        rf_array_set set;
        FAILS(rf_safetensors_read(path, &set), RF_ERROR_UNSUPPORTED, message);
    }
}

/* Small files that ask for much: refused in under a second, in memory no larger than the file and 64 MiB. */
static void refuse_small(rf_result (*read)(const char *path), const char *path, rf_result result, const char *part)
{
    struct stat status;
    struct timespec begin, end;
    peak_memory peak;
    assert_int_equal(stat(path, &status), 0);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    peak_memory_begin(&peak);
    FAILS(read(path), result, part);
    const uint64_t most = (uint64_t)status.st_size + (64u << 20), used = peak_memory_end(&peak);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    const double seconds = (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
    assert_non_null(strstr(rf_error_message(), path));
    if (used > most || seconds > (SANITIZED ? 10 : 1))
        fail_msg("%s: %.2f s, %llu bytes", part, seconds, (unsigned long long)used);
}

static rf_result read_safetensors(const char *path)
{
    rf_array_set set;
    const rf_result r = rf_safetensors_read(path, &set);
    rf_array_set_free(&set);
    return r;
}

static rf_result read_npy(const char *path)
{
    rf_array array;
    const rf_result r = rf_npy_read(path, &array);
    rf_array_free(&array);
    return r;
}

/* `begin`, `item` so often, `end`. */
static void write_repeated(const char *path, const char *begin, const char *item, size_t times, const char *end)
{
    const size_t n = strlen(item), size = strlen(begin) + n * times + strlen(end);
    char *text = malloc(size + 1);
    assert_non_null(text);
    if (!text) return; /* for the compiler */
    char *at = stpcpy(text, begin);
    for (size_t i = 0; i < times; i++, at += n) memcpy(at, item, n);
    strcpy(at, end);
    write_bytes(path, size, text, 0);
    free(text);
}

TEST(bombs)
{
    char path[160];
    strcpy(path, in_folder("bomb.safetensors"));
    enum { MILLION = 1000000 };
    static const char *const items[] = { "0,", "[],", "{},", "\"\",", "[[[]]]," };
    for (size_t i = 0; i < sizeof(items) / sizeof(items[0]); i++) {
        write_repeated(path, "{\"a\":{\"b\":[", items[i], 2 * MILLION, "0]}}");
        refuse_small(read_safetensors, path, RF_ERROR_UNSUPPORTED, "elements, too many for a file of");
        write_repeated(path, "{\"a\":{\"b\":[", items[i], 100000, "0]}}"); /* goes to the JSON library */
        refuse_small(read_safetensors, path, RF_ERROR_CORRUPT_DATA, "'a'");
    }
    write_repeated(path, "{\"a\":", "[", 500000, "");
    refuse_small(read_safetensors, path, RF_ERROR_CORRUPT_DATA, "not a JSON object");
    write_repeated(path, "{\"a\":", "[", 16 * MILLION, "");
    refuse_small(read_safetensors, path, RF_ERROR_CORRUPT_DATA, "not a JSON object");
    write_repeated(path, "{\"a\":{\"b\":", "[", 16 * MILLION, ""); /* never closed */
    refuse_small(read_safetensors, path, RF_ERROR_CORRUPT_DATA, "not a JSON object");
    write_repeated(path, "{", "\"a\":{},", 2 * MILLION, "\"b\":{}}");
    refuse_small(read_safetensors, path, RF_ERROR_UNSUPPORTED, "entries, too many for a file of");
    write_repeated(path, "{\"", "a", 16 * MILLION, "\":{}}"); /* a name of 16 MB */
    refuse_small(read_safetensors, path, RF_ERROR_CORRUPT_DATA, "has no valid offsets");
    write_bytes(path, 1ull << 40, "{}", 0);
    refuse_small(read_safetensors, path, RF_ERROR_CORRUPT_DATA, "a header of 1099511627776 bytes");
    write_bytes(path, strlen("{\"a\":" ENTRY("[1000000000000]", 0, 4000000000000) "}"),
                "{\"a\":" ENTRY("[1000000000000]", 0, 4000000000000) "}", 4);
    refuse_small(read_safetensors, path, RF_ERROR_CORRUPT_DATA, "'a': lies behind the end of the file");
    strcpy(path, in_folder("bomb.npy"));
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    const char *dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000,1000000), }";
    fprintf(file, "\x93NUMPY%c%c%c%c%s1234", 1, 0, (int)strlen(dict), 0, dict);
    fclose(file);
    refuse_small(read_npy, path, RF_ERROR_CORRUPT_DATA, "type and shape do not give its length");
    file = fopen(path, "wb");
    assert_non_null(file);
    fprintf(file, "\x93NUMPY%c%c%s", 2, 0, "\xff\xff\xff\xff{}");
    fclose(file);
    refuse_small(read_npy, path, RF_ERROR_CORRUPT_DATA, "the header is longer than the file");
}

/* Files that are written are read: many tensors, and names that make the header longer than their data. */
TEST(many_safetensors)
{
    enum { COUNT = 100000, NAME = 240 };
    char path[160];
    uint8_t *bytes = malloc(COUNT);
    char(*names)[NAME] = calloc(COUNT, NAME);
    rf_named_array *many = calloc(COUNT, sizeof(*many));
    rf_array_set set;
    struct stat status;
    assert_true(bytes && names && many);
    strcpy(path, in_folder("many.safetensors"));
    for (int i = 0; i < COUNT; i++) {
        bytes[i] = (uint8_t)(i * 7);
        memset(names[i], 'x', NAME - 1);
        names[i][snprintf(names[i], NAME, "layer_%d/", i)] = 'x';
        many[i] = (rf_named_array){ names[i], { RF_U8, RF_SHAPE(1), &bytes[i] } };
    }
    OK(rf_safetensors_write(path, many, COUNT));
    assert_int_equal(stat(path, &status), 0);
    assert_true(status.st_size > 28 << 20);
    OK(rf_safetensors_read(path, &set));
    assert_int_equal(set.count, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        const int number = atoi(set.items[i].name + strlen("layer_"));
        assert_true(number >= 0 && number < COUNT && strcmp(set.items[i].name, names[number]) == 0);
        assert_int_equal(*(uint8_t *)set.items[i].array.data, bytes[number]);
    }
    rf_array_set_free(&set);
    /* Beyond the format's own limit nothing is written that could not be read. */
    const char *second = many[COUNT - 1].name;
    many[COUNT - 1].name = many[0].name;
    FAILS(rf_safetensors_write(path, many, COUNT), RF_ERROR_INVALID_ARGUMENT, "the same name, 'layer_0/");
    many[COUNT - 1].name = second;
    enum { LONG = 101000000 };
    char *name = malloc(LONG + 1);
    assert_non_null(name);
    memset(name, 'n', LONG);
    name[LONG] = '\0';
    FAILS(rf_safetensors_write(path, &(rf_named_array){ name, many[0].array }, 1), RF_ERROR_UNSUPPORTED,
          "100000000 bytes");
    free(name);
    free(many);
    free(names);
    free(bytes);
}

TEST(npy)
{
    const char *path = in_folder("x.npy");
    rf_array got;
    for (uint32_t i = 0; i < NUM_ARRAYS; i++) {
        const rf_array *a = &arrays[i].array;
        if (a->dtype == RF_BF16) {
            FAILS(rf_npy_write(path, a), RF_ERROR_UNSUPPORTED, "bf16");
            continue;
        }
        OK(rf_npy_write(path, a));
        OK(rf_npy_read(path, &got));
        assert_int_equal(got.dtype, a->dtype);
        assert_true(rf_shape_equal(got.shape, a->shape));
        assert_memory_equal(got.data, a->data, (size_t)rf_shape_count(a->shape) * rf_dtype_size(a->dtype));
        rf_array_free(&got);
        check_elsewhere(path, &arrays[i]);
    }
    static const struct {
        const char *dict;
        rf_result result;
        const char *part;
    } cases[] = {
        { "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", RF_ERROR_UNSUPPORTED, "of type <f8; supported" },
        { "{'descr': '<U1234567890', 'fortran_order': False, 'shape': (1,), }", RF_ERROR_UNSUPPORTED,
          "of type <U1234567890; supported" },
        { "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,), }", RF_ERROR_UNSUPPORTED, "records" },
        { "{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", RF_ERROR_UNSUPPORTED, "Fortran" },
        { "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,), }", RF_ERROR_CORRUPT_DATA, "fortran_order" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", RF_ERROR_CORRUPT_DATA, "length" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", RF_ERROR_CORRUPT_DATA, "not a number" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", RF_ERROR_CORRUPT_DATA,
          "range" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1", RF_ERROR_CORRUPT_DATA, "not a number" },
        { "{'descr': '<f4', 'shape': (1,), }", RF_ERROR_CORRUPT_DATA, "lacks" },
        { "", RF_ERROR_CORRUPT_DATA, "lacks" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        FILE *file = fopen(path, "wb");
        fprintf(file, "\x93NUMPY%c%c%c%c%s", 1, 0, (int)strlen(cases[i].dict), 0, cases[i].dict);
        fwrite(f32, 4, 1, file);
        fclose(file);
        FAILS(rf_npy_read(path, &got), cases[i].result, cases[i].part);
        assert_null(got.data);
    }
}

/* A file of another program's: the model's tensors, and before and after them two of types that there are not here. */
static void add_foreign(const char *from, const char *to)
{
    enum { EXTRA = 16 };
    uint8_t head[8];
    uint64_t length = 0;
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_true(in && out && fread(head, 8, 1, in) == 1);
    for (int i = 0; i < 8; i++) length |= (uint64_t)head[i] << 8 * i;
    char *text = calloc(1, (size_t)length + 1), *more = calloc(1, 3 * (size_t)length + 1000);
    assert_true(text && more && fread(text, (size_t)length, 1, in) == 1);
    const long begin = ftell(in);
    assert_int_equal(fseek(in, 0, SEEK_END), 0);
    const long data = ftell(in) - begin;
    assert_int_equal(fseek(in, begin, SEEK_SET), 0);
    int n = sprintf(more,
                    "{\"wide\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,%d]},"
                    "\"mask\":{\"dtype\":\"BOOL\",\"shape\":[1,1,1,1,1,1,3],\"data_offsets\":[%ld,%ld]},",
                    EXTRA, data + EXTRA, data + EXTRA + 3);
    for (char *at = text + 1; *at;) { /* the model's tensors begin EXTRA bytes later */
        static const char key[] = "\"data_offsets\":[";
        if (strncmp(at, key, strlen(key)) != 0) {
            more[n++] = *at++;
            continue;
        }
        char *end;
        const long first = strtol(at + strlen(key), &end, 10), last = strtol(end + 1, &end, 10);
        n += sprintf(more + n, "%s%ld,%ld", key, first + EXTRA, last + EXTRA);
        at = end;
    }
    for (int i = 0; i < 8; i++) fputc((int)((uint64_t)n >> 8 * i & 255), out);
    assert_int_equal(fwrite(more, 1, (size_t)n, out), n);
    for (int i = 0; i < EXTRA; i++) fputc(0xff, out);
    for (int c; (c = fgetc(in)) != EOF;) fputc(c, out);
    for (int i = 0; i < 3; i++) fputc(1, out);
    free(text);
    free(more);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

TEST(models)
{
    run_state a, b;
    if (!run_create(&a, "llvmpipe", 3, NULL)) SKIP("not installed: llvmpipe");
    assert_true(run_create(&b, "llvmpipe", 4, NULL));
    char path[160];
    strcpy(path, in_folder("model.safetensors"));
    OK(rf_model_export_safetensors(a.model, path));
    OK(rf_model_import_safetensors(b.model, path));
    float x[RUN_WEIGHTS], y[RUN_WEIGHTS];
    run_weights(&a, x);
    run_weights(&b, y);
    assert_memory_equal(x, y, sizeof(x));
    char foreign[160];
    strcpy(foreign, in_folder("foreign.safetensors"));
    add_foreign(path, foreign);
    rf_array_set set;
    FAILS(rf_safetensors_read(foreign, &set), RF_ERROR_UNSUPPORTED, "'wide' is of type F64");
    run_state c;
    assert_true(run_create(&c, "llvmpipe", 5, NULL));
    OK(rf_model_import_safetensors(c.model, foreign));
    run_weights(&c, y);
    assert_memory_equal(x, y, sizeof(x));
    run_destroy(&c);
    rf_model *other = run_model(a.strategy, 12);
    FAILS(rf_model_import_safetensors(other, path), RF_ERROR_INVALID_ARGUMENT, "'dense/kernel' is f32 [8,16]");
    rf_model_destroy(&other);
    OK(rf_safetensors_write(path, arrays, 1));
    FAILS(rf_model_import_safetensors(b.model, path), RF_ERROR_NOT_FOUND, "no tensor 'dense/kernel'");
    run_weights(&b, y);
    assert_memory_equal(x, y, sizeof(x));
    run_destroy(&a);
    run_destroy(&b);
}

TESTS(interchange, make_folder, remove_folder)
