/* SPDX-License-Identifier: Apache-2.0 */
/* Tables: what is read of them, what is refused and with which words, files as shares of workers, positions. */
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "../support/folder.h"
#include "base/error.h"
#include "combined.h"
#include "data/slice.h"
#include "tests/room.h"
#include <ringfire/readers.h>

static char folder[SCRATCH_PATH];

static const char *in(const char *name)
{
    static char path[4][SCRATCH_PATH + 32];
    static int next;
    char *p = path[next++ % 4];
    snprintf(p, sizeof(path[0]), "%s/%s", folder, name);
    return p;
}

static const char *write_table(const char *name, const char *text)
{
    const char *path = in(name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
    return path;
}

/* Reads `text` as a table. */
static rf_result read_table(const char *text, rf_csv_params params, rf_dataset **out)
{
    const char *path = write_table("table.csv", text);
    params.paths = &path;
    params.num_paths = 1;
    return rf_dataset_from_csv(&params, out);
}

/* All of a component, element after element, as floats. */
static int values_of(const rf_dataset *d, uint32_t component, float *out)
{
    rf_iterator *it;
    const rf_element *e;
    int n = 0;
    OK(rf_iterator_create(d, 0, &it));
    while (rf_iterator_next(it, &e) == RF_OK) {
        const rf_array *a = &e->component[component];
        for (int64_t i = 0; i < rf_shape_count(a->shape); i++)
            out[n++] = a->dtype == RF_I32 ? (float)((const int32_t *)a->data)[i] : ((const float *)a->data)[i];
    }
    rf_iterator_destroy(&it);
    return n;
}

static void expect_values(const rf_dataset *d, uint32_t component, const float *expected, int count)
{
    float is[64];
    assert_int_equal(values_of(d, component, is), count);
    for (int i = 0; i < count; i++)
        if (!(is[i] == expected[i] || (isnan(is[i]) && isnan(expected[i]))))
            fail_msg("value %d of component %u is %g, not %g", i, component, (double)is[i], (double)expected[i]);
}

TEST(test_columns)
{
    static const char *const names[] = { "wid\"th", "height" };
    static const uint32_t numbers[] = { 3, 0 };
    const rf_csv_component components[] = {
        { .dtype = RF_F32, .num_columns = 2, .names = names },
        { .dtype = RF_I32, .num_columns = 1, .first_column = 3 },
        { .dtype = RF_F32, .num_columns = 1, .first_column = 1, .shape = RF_SHAPE(1) },
        { .dtype = RF_F32, .num_columns = 4, .shape = RF_SHAPE(2, 2, 1), .columns = (const uint32_t[]){ 0, 1, 1, 3 } },
        { .dtype = RF_I32, .num_columns = 2, .columns = numbers },
    };
    rf_dataset *d;
    OK(read_table("\xef\xbb\xbfheight,\"wid\"\"th\",name,class\r\n"
                  "1,2.5,\"Smith, John\nand \"\"Co\"\"\",7\r\n"
                  "\r\n"
                  " -3 ,\t1e-2 ,,\"8\"\r\n"
                  "+4,.5,\"\",-2147483648",
                  (rf_csv_params){ .components = components, .num_components = 5, .header = true }, &d));
    rf_element_spec spec;
    rf_dataset_spec(d, &spec);
    assert_true(rf_shape_equal(spec.shape[0], RF_SHAPE(2)) && rf_shape_equal(spec.shape[1], RF_SCALAR_SHAPE) &&
                rf_shape_equal(spec.shape[2], RF_SHAPE(1)) && rf_shape_equal(spec.shape[3], RF_SHAPE(2, 2, 1)));
    assert_int_equal(rf_dataset_cardinality(d), 3);
    expect_values(d, 0, (const float[]){ 2.5f, 1, 1e-2f, -3, .5f, 4 }, 6);
    expect_values(d, 1, (const float[]){ 7, 8, -2147483648.0f }, 3);
    expect_values(d, 2, (const float[]){ 2.5f, 1e-2f, .5f }, 3);
    expect_values(d, 3, (const float[]){ 1, 2.5f, 2.5f, 7, -3, 1e-2f, 1e-2f, 8, 4, .5f, .5f, -2147483648.0f }, 12);
    expect_values(d, 4, (const float[]){ 7, 1, 8, -3, -2147483648.0f, 4 }, 6);
    rf_dataset_destroy(&d);
}

static const rf_csv_component one_f32 = { .dtype = RF_F32, .num_columns = 1 },
                              one_i32 = { .dtype = RF_I32, .num_columns = 1, .first_column = 1 };

TEST(test_numbers)
{
    rf_dataset *d;
    const rf_csv_params plain = { .components = &one_f32, .num_components = 1 };
    OK(read_table("nan\n-inf\nInfinity\n0.1\n16777217\n3.4028235e38\n1e-50\n-0\n1.\n9999999\n007\n33554435\n", plain,
                  &d));
    expect_values(
        d, 0, (const float[]){ NAN, -INFINITY, INFINITY, 0.1f, 16777216, 3.4028235e38f, 0, 0, 1, 9999999, 7, 33554436 },
        12);
    rf_dataset_destroy(&d);
    /* Values for what is not there; columns between semicolons. */
    rf_csv_params filled = { .components = (const rf_csv_component[]){ one_f32, one_i32 },
                             .num_components = 2,
                             .separator = ';',
                             .fill_empty = true,
                             .fill_value = -1 };
    OK(read_table("1,5;2\n", (rf_csv_params){ .components = &one_i32, .num_components = 1, .separator = ';' }, &d));
    rf_dataset_destroy(&d);
    OK(read_table(";2\n \t;\n3;\"\"\n", filled, &d));
    expect_values(d, 0, (const float[]){ -1, -1, 3 }, 3);
    expect_values(d, 1, (const float[]){ 2, -1, -1 }, 3);
    rf_dataset_destroy(&d);
    filled.fill_value = NAN;
    FAILS(read_table("1;2\n", filled, &d), RF_ERROR_INVALID_ARGUMENT,
          "component 1 is i32, which fill_value nan is not");
    filled.num_components = 1;
    OK(read_table("1;2\n;2\n", filled, &d));
    expect_values(d, 0, (const float[]){ 1, NAN }, 2);
    rf_dataset_destroy(&d);
    /* No rows. */
    OK(read_table("", plain, &d));
    assert_int_equal(rf_dataset_cardinality(d), 0);
    expect_values(d, 0, NULL, 0);
    rf_dataset_destroy(&d);
    OK(read_table("x\r\n", (rf_csv_params){ .components = &one_f32, .num_components = 1, .header = true }, &d));
    assert_int_equal(rf_dataset_cardinality(d), 0);
    rf_dataset_destroy(&d);
}

/* Lines that end with LF, CR LF or CR, each of which a file may mix; a CR within quotes belongs to its field. */
TEST(test_line_ends)
{
    static const char *const texts[] = { "a,b\n1,2\n3,4\n5,6", "a,b\r1,2\r3,4\r5,6\r", "a,b\r\n1,2\r3,4\n5,6\r\n",
                                         "\r\ra,b\r\r1,2\r\n\r3,4\n\r5,6\r\r" };
    static const char *const name = "b";
    const rf_csv_component b = { .dtype = RF_I32, .num_columns = 1, .names = &name };
    const rf_csv_params p = { .components = &b, .num_components = 1, .header = true };
    rf_dataset *d;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        OK(read_table(texts[i], p, &d));
        expect_values(d, 0, (const float[]){ 2, 4, 6 }, 3);
        rf_dataset_destroy(&d);
    }
    OK(read_table("a,b\r\"x\ry\",7\r", p, &d));
    expect_values(d, 0, (const float[]){ 7 }, 1);
    rf_dataset_destroy(&d);
    FAILS(read_table("a,b\r\"x\ry\r\nz\",7\r\n1,x\r", p, &d), RF_ERROR_CORRUPT_DATA,
          "table.csv:5: column 1 ('b'): 'x'");
    FAILS(read_table("a,b\r1,2\r3\r", p, &d), RF_ERROR_CORRUPT_DATA, "table.csv:3: 1 columns, but line 1 has 2");
}

/* Tables as other programs write them: gzipped tables are read, of one member or more; tables in UTF-16 and UTF-32 are
 * named. */
TEST(test_encodings)
{
    const rf_csv_params p = { .components = &one_f32, .num_components = 1 };
    const char *path = in("table.csv.gz");
    const rf_csv_params packed = { .components = &one_f32, .num_components = 1, .paths = &path, .num_paths = 1 };
    rf_dataset *d;
    for (int i = 0; i < 3; i++) {
        gzFile f = gzopen(path, i ? "ab" : "wb");
        for (int row = 0; row < 40000 && f; row++) assert_true(gzprintf(f, "%d,text\r", i) > 0);
        assert_int_equal(gzclose(f), Z_OK);
    }
    OK(rf_dataset_from_csv(&packed, &d));
    assert_int_equal(rf_dataset_cardinality(d), 120000);
    rf_dataset_destroy(&d);
    assert_int_equal(truncate(path, 150), 0);
    FAILS(rf_dataset_from_csv(&packed, &d), RF_ERROR_CORRUPT_DATA, "table.csv.gz: unpacked byte ");
    static const struct {
        const char *bytes;
        size_t size;
        const char *part;
    } others[] = {
        { "\xff\xfe"
          "1\0\n\0",
          6, "table.csv: is UTF-16; convert it to UTF-8: iconv -f UTF-16" },
        { "\xfe\xff"
          "\0"
          "1\0\n",
          6, "is UTF-16" },
        { "\xff\xfe\0\0"
          "1\0\0\0",
          8, "is UTF-32" },
        { "\0\0\xfe\xff"
          "\0\0\0"
          "1",
          8, "is UTF-32" },
        { "PK\3\4\n", 5, "table.csv: is a zip archive, as spreadsheets are" },
        { "\xfd"
          "7zXZ\0\n",
          7, "is compressed with xz" },
        { "\x28\xb5\x2f\xfd\n", 5, "is compressed with zstd" },
        { "BZh91AY&SY\n", 11, "is compressed with bzip2" },
        { "1\0,\0"
          "2\0\n\0",
          8, "every second byte is 0, as in UTF-16" },
        { "\0"
          "1\0,\0"
          "2\0\n",
          8, "every second byte is 0, as in UTF-16" },
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        const char *plain = in("table.csv");
        FILE *f = fopen(plain, "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(others[i].bytes, 1, others[i].size, f), others[i].size);
        assert_int_equal(fclose(f), 0);
        rf_csv_params q = p;
        q.paths = &plain;
        q.num_paths = 1;
        FAILS(rf_dataset_from_csv(&q, &d), RF_ERROR_UNSUPPORTED, others[i].part);
    }
}

/* Where a decimal comma is the program's, files have their point still. */
TEST(test_locale)
{
    static const char *const names[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "C.UTF-8" };
    const char *set = NULL;
    rf_dataset *d;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !set; i++) set = setlocale(LC_ALL, names[i]);
    OK(read_table("1.5\n", (rf_csv_params){ .components = &one_f32, .num_components = 1 }, &d));
    expect_values(d, 0, (const float[]){ 1.5f }, 1);
    rf_dataset_destroy(&d);
    if (set) assert_string_equal(setlocale(LC_NUMERIC, NULL), set); /* as before */
    setlocale(LC_ALL, "C");
}

TEST(test_refusals)
{
    static const char *const price[] = { "price" };
    const rf_csv_component named = { .dtype = RF_F32, .num_columns = 1, .names = price };
    const rf_csv_params by_name = { .components = &named, .num_components = 1, .header = true },
                        f = { .components = &one_f32, .num_components = 1 },
                        i = { .components = &one_i32, .num_components = 1 };
    static const struct {
        const char *text, *message;
        int params;
    } cases[] = {
        { "id,price\n1,2\n2,\"\n\n3,4\n", "table.csv:3: the quoted field that begins here does not end", 0 },
        { "id,price\n1,2\n\"a\nb\",x\n", "table.csv:4: column 1 ('price'): 'x' is not a number that f32 can hold", 0 },
        { "id,price\n1,2\n\n2,\n", "table.csv:4: column 1 ('price') is empty; fill_empty", 0 },
        { "id,price\n1,2\n3\n", "table.csv:3: 1 columns, but line 1 has 2", 0 },
        { "id,cost\n1,2\n", "table.csv:1: the header has no column 'price'", 0 },
        { "price,price\n1,2\n", "table.csv:1: columns 0 and 1 have the name 'price'", 0 },
        { "\n\n", "table.csv: is empty, without a header", 0 },
        { "id,price\n1,\"2\"3\n", "table.csv:2: text follows a quoted field", 0 },
        { "1\n0x10\n", "table.csv:2: column 0: '0x10' is not a number that f32 can hold", 1 },
        { "1e39\n", "'1e39' is not a number that f32 can hold", 1 },
        { "1.5.2\n", "'1.5.2' is not", 1 },
        { "\"\n1\"\n", "table.csv:1: column 0: '?1' is not", 1 },
        { "1,5\n2\x01,5\n\x7f\x02,5\n", "table.csv:2: column 0: '2?' is not", 1 },
        { "1,2147483648\n", "table.csv:1: column 1: '2147483648' is not an integer of 32 bits", 2 },
        { "1,1.5\n", "'1.5' is not an integer", 2 },
        { "1,--1\n", "'--1' is not an integer", 2 },
        { "1;2\n", "table.csv:1: there is no column 1: the table has columns 0 to 0; is the separator right?", 2 },
    };
    rf_dataset *d;
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        FAILS(read_table(cases[c].text,
                         cases[c].params == 0   ? by_name
                         : cases[c].params == 1 ? f
                                                : i,
                         &d),
              RF_ERROR_CORRUPT_DATA, cases[c].message);
        assert_null(d);
    }
    /* A field of any length. */
    static char text[100000];
    memset(text, '1', sizeof(text) - 1);
    FAILS(read_table(text, f, &d), RF_ERROR_CORRUPT_DATA, "table.csv:1: column 0: '1111111111");
    const char *missing = in("missing.csv");
    rf_csv_params p = f;
    p.paths = &missing;
    p.num_paths = 1;
    FAILS(rf_dataset_from_csv(&p, &d), RF_ERROR_NOT_FOUND, "missing.csv");
    FAILS(rf_dataset_from_csv(&f, &d), RF_ERROR_INVALID_ARGUMENT, "no files given");
    FAILS(read_table("1\n", (rf_csv_params){ 0 }, &d), RF_ERROR_INVALID_ARGUMENT, "0 components; give 1 to 8");
    p = by_name;
    p.header = false;
    FAILS(read_table("1\n", p, &d), RF_ERROR_INVALID_ARGUMENT, "which takes a header");
    rf_csv_component odd = { .dtype = RF_U8, .num_columns = 1 };
    p = (rf_csv_params){ .components = &odd, .num_components = 1 };
    FAILS(read_table("1\n", p, &d), RF_ERROR_INVALID_ARGUMENT, "component 0 is u8, not f32 or i32");
    odd = (rf_csv_component){ .dtype = RF_F32, .num_columns = 3, .shape = RF_SHAPE(2, 2) };
    FAILS(read_table("1\n", p, &d), RF_ERROR_INVALID_ARGUMENT, "component 0 has 3 columns for the shape [2,2]");
    odd = (rf_csv_component){ .dtype = RF_F32 };
    FAILS(read_table("1\n", p, &d), RF_ERROR_INVALID_ARGUMENT, "component 0 has no columns");
    p = f;
    p.separator = '"';
    FAILS(read_table("1\n", p, &d), RF_ERROR_INVALID_ARGUMENT, "a quote or the end of a line cannot separate");
}

enum { FILES = 3 };
static rf_dataset *several(const uint32_t *column)
{
    static const int rows[FILES] = { 12, 5, 9 };
    const char *paths[FILES];
    int number = 0;
    for (int f = 0; f < FILES; f++) {
        char text[512] = "value,again\n", name[16];
        for (int i = 0; i < rows[f]; i++, number++)
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "%d,%d\n", number, number + 100);
        snprintf(name, sizeof(name), "part%d.csv", f);
        paths[f] = write_table(name, text);
    }
    const rf_csv_component c = { .dtype = RF_I32, .num_columns = 1, .columns = column };
    rf_dataset *d;
    OK(rf_dataset_from_csv(
        &(rf_csv_params){ .paths = paths, .num_paths = FILES, .components = &c, .num_components = 1, .header = true },
        &d));
    return d;
}

/* Makes files of one value each, in a directory. */
static void make_parts(const char *directory, int count)
{
    if (*directory) assert_int_equal(mkdir(in(directory), 0700), 0);
    for (int i = 0; i < count; i++) {
        char name[32], text[16];
        snprintf(name, sizeof(name), "%sp%d", directory, i);
        snprintf(text, sizeof(text), "1,%d\n", i);
        write_table(name, text);
    }
}

static rf_dataset *parts(const char *const names[3])
{
    rf_dataset *d;
    const char *const paths[] = { in(names[0]), in(names[1]), in(names[2]) };
    OK(rf_dataset_from_csv(
        &(rf_csv_params){ .paths = paths, .num_paths = 3, .components = &one_i32, .num_components = 1 }, &d));
    return d;
}

/* Rows with a mistake are left out, each alone, and counted. */
TEST(test_damaged_rows)
{
    const rf_csv_component components[] = { { .dtype = RF_I32, .num_columns = 1 },
                                            { .dtype = RF_F32, .num_columns = 1, .first_column = 1 } };
    const rf_csv_params p = { .header = true, .components = components, .num_components = 2, .skip_damaged = true };
    static const struct {
        const char *text;
        int rows, damaged;
        float first[4]; /* of each row that is read */
    } cases[] = {
        { "a,b\n1,2\n2,3\n", 2, 0, { 1, 2 } },
        { "a,b\n1,2\nx,3\n3,4\n", 2, 1, { 1, 3 } },
        { "a,b\n1,\n2,3\n3,y", 1, 2, { 2 } },
        { "a,b\n1,2,3\n2\n3,4\n\n4,5\n", 2, 2, { 3, 4 } },
        { "a,b\n1,2\n\"2\" x,3\n3,4\n", 2, 1, { 1, 3 } },
        { "a,b\r\n1,2\r\n\"2,3\r\n3,4\r\n4,5", 3, 1, { 1, 3, 4 } }, /* a quote that does not end */
        { "a,b\nx,y\n99999999999,1\n", 0, 2, { 0 } },
        { "a,b\n1,2\n\"x\ny\",3\n3,4\n", 2, 1, { 1, 3 } }, /* a row of two lines */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        rf_dataset *d;
        OK(read_table(cases[i].text, p, &d));
        assert_int_equal(rf_dataset_cardinality(d), cases[i].rows);
        expect_values(d, 0, cases[i].first, cases[i].rows);
        APPLY(d, rf_dataset_batch(d, 2, RF_REMAINDER_KEEP, &applied_));
        assert_int_equal(rf_dataset_ignored_errors(d), cases[i].damaged);
        rf_dataset_destroy(&d);
    }
    /* Several files: each is read twice and counted once; a worker counts those of its own. */
    const char *paths[] = { write_table("one.csv", cases[1].text), write_table("two.csv", cases[2].text) };
    rf_csv_params both = p;
    both.paths = paths;
    both.num_paths = 2;
    rf_dataset *d;
    OK(rf_dataset_from_csv(&both, &d));
    expect_values(d, 1, (const float[]){ 2, 4, 3 }, 3);
    assert_int_equal(rf_dataset_ignored_errors(d), 3);
    APPLY(d, rf_dataset_batch(d, 2, RF_REMAINDER_KEEP, &applied_));
    const rf_slice_params second = { .worker = 1, .num_workers = 2, .split = halve, .by_file = true };
    APPLY(d, rf_dataset_slice(d, &second, &applied_));
    assert_int_equal(rf_dataset_ignored_errors(d), 2);
    rf_dataset_destroy(&d);
    /* Columns that are not there concern all rows. */
    FAILS(read_table("a\n1\n", p, &d), RF_ERROR_CORRUPT_DATA, "there is no column 1");
}

TEST(test_files)
{
    int32_t n[MOST_NUMBERS];
    const uint32_t first = 0, second = 1;
    rf_dataset *d = several(&first);
    assert_int_equal(rf_dataset_cardinality(d), 26);
    assert_int_equal(read_pass(d, 0, n), 52);
    for (int i = 0; i < 26; i++) assert_int_equal(n[2 * i + 1], i);
    /* A file that changes before it is read: as long as all is well, nobody notices; else it is named. */
    rf_iterator *it;
    const rf_element *e;
    rf_dataset *fresh = several(&first);
    write_table("part1.csv", "value,again\n1,2\n");
    OK(rf_iterator_create(fresh, 0, &it));
    for (int i = 0; i < 12; i++) OK(rf_iterator_next(it, &e));
    FAILS(rf_iterator_next(it, &e), RF_ERROR_CORRUPT_DATA,
          "part1.csv: the file has changed since the dataset was made");
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&fresh);
    APPLY(d, rf_dataset_shuffle(d, 26, 3, RF_SHUFFLE_EACH_PASS, &applied_));
    APPLY(d, rf_dataset_batch(d, 4, RF_REMAINDER_KEEP, &applied_));
    fresh = several(&first);
    APPLY(fresh, rf_dataset_shuffle(fresh, 26, 3, RF_SHUFFLE_EACH_PASS, &applied_));
    APPLY(fresh, rf_dataset_batch(fresh, 4, RF_REMAINDER_KEEP, &applied_));
    expect_resumes_everywhere(d, fresh);
    expect_other_pipeline(several(&first), several(&second));
    /* The same files in another order are another pipeline; moved together they are not. */
    make_parts("", 3);
    make_parts("moved/", 3);
    static const char *const forwards[] = { "p0", "p1", "p2" }, *const back[] = { "p0", "p2", "p1" };
    static const char *const moved[] = { "moved/p0", "moved/p1", "moved/p2" };
    expect_other_pipeline(parts(forwards), parts(back));
    expect_resumes_everywhere(parts(forwards), parts(moved));
}

TEST(test_workers)
{
    const uint32_t first = 0;
    for (int by_file = 0; by_file < 2; by_file++) {
        rf_dataset *d = several(&first), *part;
        int seen[26] = { 0 };
        APPLY(d, rf_dataset_batch(d, 4, RF_REMAINDER_KEEP, &applied_));
        for (uint32_t w = 0; w < 2; w++) {
            rf_iterator *it;
            const rf_element *e;
            OK(rf_dataset_slice(
                d, &(rf_slice_params){ .worker = w, .num_workers = 2, .by_file = by_file, .split = halve }, &part));
            OK(rf_iterator_create(part, 0, &it));
            while (rf_iterator_next(it, &e) == RF_OK)
                for (int64_t i = 0; i < e->component[0].shape.dim[0]; i++) {
                    const int32_t value = ((const int32_t *)e->component[0].data)[i];
                    seen[value]++;
                    if (by_file) assert_int_equal(w, value >= 12 && value < 17); /* the second file is worker 1's */
                }
            rf_iterator_destroy(&it);
            rf_dataset_destroy(&part);
        }
        for (int i = 0; i < 26; i++) assert_int_equal(seen[i], 1);
        rf_dataset_destroy(&d);
    }
}

static int open_folder(void **state)
{
    (void)state;
    scratch(folder);
    return 0;
}

static int close_folder(void **state)
{
    (void)state;
    scratch_remove(folder);
    return 0;
}

TESTS(csv, open_folder, close_folder)
