/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of text files: where they are cut, plain and gzipped, what is refused and with which words, positions, and the
 * steps over them. */
#include <stdio.h>
#include <unistd.h>
#include <zlib.h>

#include "../support/folder.h"
#include "combined.h"
#include "tests/room.h"
#include <ringfire/readers.h>

enum { MOST_FILES = 4, BLOCK = 1 << 16 };

static char folder[SCRATCH_PATH];

static const char *in(const char *name)
{
    static char path[MOST_FILES][SCRATCH_PATH + 32];
    static int next;
    char *p = path[next++ % MOST_FILES];
    snprintf(p, sizeof(path[0]), "%s/%s", folder, name);
    return p;
}

static const char *write_bytes(const char *name, const char *bytes, size_t size)
{
    const char *path = in(name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
    return path;
}

/* In so many members. */
static const char *write_gzipped(const char *name, const char *bytes, size_t size, int members)
{
    const char *path = in(name);
    for (int i = 0; i < members; i++) {
        const size_t begin = size * (size_t)i / (size_t)members, end = size * (size_t)(i + 1) / (size_t)members;
        gzFile f = gzopen(path, i == 0 ? "wb" : "ab");
        assert_non_null(f);
        if (end > begin) assert_int_equal(gzwrite(f, bytes + begin, (unsigned)(end - begin)), (int)(end - begin));
        assert_int_equal(gzclose(f), Z_OK);
    }
    return path;
}

static rf_dataset *lines_of(const char *const *paths, uint32_t count, rf_text_lines_params params)
{
    rf_dataset *d;
    params.paths = paths;
    params.num_paths = count;
    OK(rf_dataset_from_text_lines(&params, &d));
    return d;
}

/* All lines that are left, each in brackets. */
static void read_all(rf_iterator *it, char *text, size_t room)
{
    const rf_element *e;
    rf_result r;
    size_t used = 0;
    while ((r = rf_iterator_next(it, &e)) == RF_OK) {
        const rf_array *a = &e->component[0];
        assert_int_equal(a->dtype, RF_U8);
        assert_int_equal(a->shape.rank, 1);
        used += (size_t)snprintf(text + used, room - used, "[%.*s]", (int)a->shape.dim[0], (const char *)a->data);
        assert_true(used < room);
    }
    assert_int_equal(r, RF_END);
    text[used] = '\0';
}

static void expect_lines(const rf_dataset *d, const char *expected)
{
    char text[1024];
    rf_iterator *it;
    OK(rf_iterator_create(d, 0, &it));
    read_all(it, text, sizeof(text));
    assert_string_equal(text, expected);
    rf_iterator_destroy(&it);
}

TEST(test_lines)
{
    static const struct {
        const char *text, *lines, *not_empty;
    } cases[] = {
        { "", "", "" },
        { "\n", "[]", "" },
        { "one", "[one]", "[one]" },
        { "one\n", "[one]", "[one]" },
        { "one\r\ntwo", "[one][two]", "[one][two]" },
        { "\n\r\na\n\n\nb\r\n\r\n", "[][][a][][][b][]", "[a][b]" },
        { "a\rb\n\r\rc\r\n\r", "[a\rb][\r\rc][\r]", "[a\rb][\r\rc][\r]" },
        { "\xef\xbb\xbf\xc3\xa4\n\xef\xbb\xbf", "[\xc3\xa4][\xef\xbb\xbf]", "[\xc3\xa4][\xef\xbb\xbf]" },
        { "\xff\xfe raw \x80\n", "[\xff\xfe raw \x80]", "[\xff\xfe raw \x80]" },
        { "80\nx\x9c\n", "[80][x\x9c]", "[80][x\x9c]" }, /* begins as zlib's data may, but is text */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *paths[2] = { write_bytes("plain", cases[i].text, strlen(cases[i].text)),
                                 write_gzipped("packed.gz", cases[i].text, strlen(cases[i].text), 2) };
        for (int k = 0; k < 2; k++) {
            rf_dataset *d = lines_of(&paths[k], 1, (rf_text_lines_params){ 0 });
            expect_lines(d, cases[i].lines);
            expect_lines(d, cases[i].lines); /* again */
            rf_dataset_destroy(&d);
            d = lines_of(&paths[k], 1, (rf_text_lines_params){ .skip_empty = true });
            expect_lines(d, cases[i].not_empty);
            rf_dataset_destroy(&d);
        }
    }
}

/* Text that is not of bytes is named, in plain files and packed ones. */
TEST(test_encodings)
{
    static const char *const texts[] = { ("\xff\xfe"
                                          "a\0\n\0"),
                                         "\xfe\xff\x4e\x2d\0\n", "\xff\xfe\0\0", "\0\0\xfe\xff" };
    static const size_t sizes[] = { 6, 6, 4, 4 };
    for (size_t i = 0; i < 4; i++) {
        const char *paths[2] = { write_bytes("wide", texts[i], sizes[i]),
                                 write_gzipped("wide.gz", texts[i], sizes[i], 1) };
        for (int k = 0; k < 2; k++) {
            rf_dataset *d;
            FAILS(rf_dataset_from_text_lines(&(rf_text_lines_params){ .paths = &paths[k], .num_paths = 1 }, &d),
                  RF_ERROR_UNSUPPORTED,
                  i < 2 ? ": is UTF-16; convert it to UTF-8" : ": is UTF-32; convert it to UTF-8");
        }
    }
}

TEST(test_spec_and_files)
{
    const char *paths[] = { write_bytes("a", "1\n2", 3), write_bytes("b", "", 0),
                            write_gzipped("c", "3\n\n4\n", 5, 1) };
    rf_dataset *d = lines_of(paths, 3, (rf_text_lines_params){ 0 });
    rf_element_spec spec;
    rf_dataset_spec(d, &spec);
    assert_true(spec.num_components == 1 && spec.dtype[0] == RF_U8 && rf_shape_equal(spec.shape[0], RF_SHAPE(4096)));
    assert_int_equal(rf_dataset_cardinality(d), RF_CARDINALITY_UNKNOWN);
    expect_lines(d, "[1][2][3][][4]");
    rf_dataset_destroy(&d);
    d = lines_of(paths, 3, (rf_text_lines_params){ .max_bytes = 7, .skip_empty = true });
    rf_dataset_spec(d, &spec);
    assert_true(rf_shape_equal(spec.shape[0], RF_SHAPE(7)));
    expect_lines(d, "[1][2][3][4]");
    rf_dataset_destroy(&d);
}

/* Line ends on both sides of the ends of the reader's buffer; the lengths tell the lines apart. */
TEST(test_buffer_ends)
{
    static char text[2 * BLOCK + 16];
    for (int shift = -3; shift <= 3; shift++) {
        const size_t first = (size_t)(BLOCK + shift);
        memset(text, 'x', sizeof(text));
        memcpy(text + first - 2, "\r\n", 2);
        memcpy(text + 2 * (size_t)BLOCK, "\r", 1);
        const char *paths[2] = { write_bytes("plain", text, sizeof(text)),
                                 write_gzipped("packed", text, sizeof(text), 3) };
        for (int k = 0; k < 2; k++) {
            rf_dataset *d = lines_of(&paths[k], 1, (rf_text_lines_params){ .max_bytes = sizeof(text) });
            rf_iterator *it;
            const rf_element *e;
            OK(rf_iterator_create(d, 0, &it));
            OK(rf_iterator_next(it, &e));
            assert_int_equal(e->component[0].shape.dim[0], first - 2);
            OK(rf_iterator_next(it, &e));
            assert_int_equal(e->component[0].shape.dim[0], sizeof(text) - first);
            assert_memory_equal(e->component[0].data, text + first, sizeof(text) - first);
            assert_int_equal(rf_iterator_next(it, &e), RF_END);
            rf_iterator_destroy(&it);
            rf_dataset_destroy(&d);
        }
    }
}

/* ---- positions and steps ---- */

TEST(test_positions)
{
    const char *paths[] = { write_bytes("a", "1\n\n2\n", 5), write_gzipped("b", "3\n4\n\n5", 6, 2) };
    static const char *const rests[] = { "[1][2][3][4][5]", "[2][3][4][5]", "[3][4][5]", "[4][5]", "[5]", "" };
    rf_dataset *d = lines_of(paths, 2, (rf_text_lines_params){ .skip_empty = true });
    for (int n = 0; n <= 5; n++) {
        char text[128];
        void *saved;
        size_t size;
        const rf_element *e;
        rf_iterator *it, *again;
        OK(rf_iterator_create(d, 0, &it));
        for (int i = 0; i < n; i++) OK(rf_iterator_next(it, &e));
        OK(rf_iterator_save(it, &saved, &size));
        OK(rf_iterator_restore(d, saved, size, &again));
        read_all(again, text, sizeof(text));
        assert_string_equal(text, rests[n]);
        rf_iterator_destroy(&again);
        rf_iterator_destroy(&it);
        rf_iterator_state_free(saved);
    }
    const char *swapped[] = { paths[1], paths[0] };
    expect_other_pipeline(d, lines_of(swapped, 2, (rf_text_lines_params){ .skip_empty = true }));
}

static rf_result keep_long(void *user, const rf_element *in, bool *keep)
{
    (void)user;
    *keep = in->component[0].shape.dim[0] >= 2;
    return RF_OK;
}

/* Its first byte and its length. */
static rf_result measure(void *user, const rf_element *in, rf_element *out)
{
    (void)user;
    int32_t *numbers = out->component[0].data;
    numbers[0] = *(const uint8_t *)in->component[0].data;
    numbers[1] = (int32_t)in->component[0].shape.dim[0];
    return RF_OK;
}

TEST(test_steps)
{
    const char *path = write_bytes("steps", "a\nbb\nccc\n\ndddd\ne\nfffff", 22);
    rf_dataset *d = lines_of(&path, 1, (rf_text_lines_params){ .max_bytes = 8 });
    const rf_element_spec pair = { .num_components = 1, .dtype = { RF_I32 }, .shape = { RF_SHAPE(2) } };
    rf_iterator *it;
    const rf_element *e;
    APPLY(d, rf_dataset_filter(d, keep_long, NULL, &applied_));
    rf_dataset *numbers;
    OK(rf_dataset_map(d, measure, NULL, &pair, &numbers));
    APPLY(numbers, rf_dataset_shuffle(numbers, 3, 7, RF_SHUFFLE_EACH_PASS, &applied_));
    APPLY(numbers, rf_dataset_batch(numbers, 4, RF_REMAINDER_KEEP, &applied_));
    APPLY(numbers, rf_dataset_prefetch(numbers, 1, &applied_));
    APPLY(numbers, rf_dataset_repeat(numbers, 2, &applied_));
    OK(rf_iterator_create(numbers, 0, &it));
    for (int pass = 0; pass < 2; pass++) {
        int seen = 0;
        OK(rf_iterator_next(it, &e));
        assert_true(rf_shape_equal(e->component[0].shape, RF_SHAPE(4, 2)));
        for (int i = 0; i < 4; i++) {
            const int32_t *n = (const int32_t *)e->component[0].data + 2 * i;
            assert_int_equal(n[0], "?abcdf"[n[1] == 1 ? 1 : n[1]]);
            seen |= 1 << n[1];
        }
        assert_int_equal(seen, 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5);
    }
    assert_int_equal(rf_iterator_next(it, &e), RF_END);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&numbers);
    /* Padded to the longest of each batch. */
    APPLY(d, rf_dataset_padded_batch(
                 d,
                 &(rf_padded_batch_params){
                     .batch_size = 2, .padded = { true }, .borders = (const uint32_t[]){ 3, 8 }, .num_borders = 2 },
                 &applied_));
    OK(rf_iterator_create(d, 0, &it));
    OK(rf_iterator_next(it, &e));
    assert_true(rf_shape_equal(e->component[0].shape, RF_SHAPE(2, 3)));
    assert_memory_equal(e->component[0].data, "bb\0ccc", 6);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
}

/* ---- what is refused ---- */

static void refuse(const char *path, rf_text_lines_params params, rf_result result, const char *words)
{
    rf_dataset *d;
    params.paths = &path;
    params.num_paths = 1;
    FAILS(rf_dataset_from_text_lines(&params, &d), result, words);
    assert_null(d);
}

TEST(test_refused)
{
    rf_dataset *d;
    refuse(in("missing"), (rf_text_lines_params){ 0 }, RF_ERROR_NOT_FOUND, "missing");
    refuse(folder, (rf_text_lines_params){ 0 }, RF_ERROR_IO, folder);
    refuse(NULL, (rf_text_lines_params){ 0 }, RF_ERROR_INVALID_ARGUMENT, "path 0 is NULL");
    refuse(write_bytes("a", "a", 1), (rf_text_lines_params){ .max_bytes = (1u << 30) + 1 }, RF_ERROR_INVALID_ARGUMENT,
           "max_bytes is 1073741825");
    FAILS(rf_dataset_from_text_lines(NULL, &d), RF_ERROR_INVALID_ARGUMENT, "no files given");
    FAILS(rf_dataset_from_text_lines(&(rf_text_lines_params){ 0 }, NULL), RF_ERROR_INVALID_ARGUMENT, "out is NULL");
}

/* The same failure again and again, and nothing of what came before is lost; once the file is right it goes on. */
TEST(test_long_line)
{
    const char *path = write_bytes("long", "12345\r\n123456\nend", 17);
    rf_dataset *d = lines_of(&path, 1, (rf_text_lines_params){ .max_bytes = 5 });
    rf_iterator *it;
    const rf_element *e;
    OK(rf_iterator_create(d, 0, &it));
    OK(rf_iterator_next(it, &e));
    assert_int_equal(e->component[0].shape.dim[0], 5);
    for (int i = 0; i < 2; i++)
        FAILS(rf_iterator_next(it, &e), RF_ERROR_INVALID_ARGUMENT, "long:2: the line has more than 5 bytes; raise");
    write_bytes("long", "12345\r\n12\nend", 13);
    OK(rf_iterator_next(it, &e));
    assert_int_equal(e->component[0].shape.dim[0], 2);
    OK(rf_iterator_next(it, &e));
    assert_memory_equal(e->component[0].data, "end", 3);
    assert_int_equal(rf_iterator_next(it, &e), RF_END);
    rf_iterator_destroy(&it);
    OK(rf_iterator_create(d, 0, &it));
    OK(rf_iterator_next(it, &e));
    OK(rf_iterator_next(it, &e));
    write_bytes("long", "12345678", 8);
    OK(rf_iterator_next(it, &e)); /* from the buffer */
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
}

/* A compressed file that was cut, at every place; damaged; and with something behind it. */
TEST(test_damaged)
{
    enum { SIZE = 600 };
    char text[SIZE + 1], bytes[1024];
    for (int i = 0; i < 100; i++) snprintf(text + 6 * i, 7, "%05d\n", i * 7919 % 100000);
    const char *path = write_gzipped("whole", text, SIZE, 1);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t size = fread(bytes, 1, sizeof(bytes), f);
    assert_int_equal(fclose(f), 0);
    for (size_t cut = 2; cut <= size + 1; cut++) {
        rf_dataset *d = NULL;
        rf_iterator *it;
        const rf_element *e;
        if (cut == size + 1) bytes[size] = 'x';
        path = write_bytes("cut", bytes, cut);
        rf_result r = rf_dataset_from_text_lines(&(rf_text_lines_params){ .paths = &path, .num_paths = 1 }, &d);
        int lines = 0;
        if (r == RF_OK) {
            OK(rf_iterator_create(d, 0, &it));
            while ((r = rf_iterator_next(it, &e)) == RF_OK) lines++;
            rf_iterator_destroy(&it);
        }
        assert_int_equal(r, cut == size ? RF_END : RF_ERROR_CORRUPT_DATA);
        if (cut == size) assert_int_equal(lines, 100);
        if (cut < size)
            assert_non_null(
                strstr(rf_error_message(), "cut: line 1: the file ends within it; it is truncated, copy it again"));
        if (cut > size) assert_non_null(strstr(rf_error_message(), "cut: continues after its compressed data"));
        rf_dataset_destroy(&d);
    }
    bytes[size / 2] ^= 0x55;
    refuse(write_bytes("flipped", bytes, size), (rf_text_lines_params){ 0 }, RF_ERROR_CORRUPT_DATA,
           "flipped: line 1: ");
}

TEST_PROGRAM(line_files)
{
    scratch(folder);
    const int failed = room_tests_run(own_tests, NULL, NULL);
    scratch_remove(folder);
    return failed;
}
