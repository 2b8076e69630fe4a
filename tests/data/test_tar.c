/* SPDX-License-Identifier: Apache-2.0 */
/* Tar archives: which files are an example, what becomes of them, mistakes, positions, workers. */
#include <stdio.h>

#include <ringfire/readers.h>

#include "../support/try.h"
#include "combined.h"
#include "tests/room.h"

#ifdef RF_HAVE_LIBARCHIVE
enum { PARTS = 3, EXAMPLES = 21, FIRST_PART = 9, SECOND_PART = 4 };

static const rf_tar_field number = { .endings = "cls", .dtype = RF_I32 };

static rf_result open_archives(const char *const *names, uint32_t count, const rf_tar_field *fields,
                               uint32_t num_fields, rf_dataset **out)
{
    static char path[PARTS][512];
    const char *paths[PARTS];
    for (uint32_t i = 0; i < count; i++) {
        snprintf(path[i], sizeof(path[i]), "%s/%s", RECORDS, names[i]);
        paths[i] = path[i];
    }
    return rf_dataset_from_tar(
        &(rf_tar_params){ .paths = paths, .num_paths = count, .fields = fields, .num_fields = num_fields }, out);
}

static rf_dataset *open_parts(bool packed, const rf_tar_field *fields, uint32_t num_fields)
{
    static const char *const names[2][PARTS] = { { "part0.tar", "part1.tar", "part2.tar" },
                                                 { "part0.tar", "part1.tar.gz", "part2.tar" } };
    rf_dataset *d;
    OK(open_archives(names[packed], PARTS, fields, num_fields, &d));
    return d;
}

TEST(test_fields)
{
    const rf_tar_field fields[] = {
        { .endings = "jpg;png", .dtype = RF_U8, .shape = RF_SHAPE(4, 4, 3), .image = true },
        number,
        { .endings = "score.txt", .dtype = RF_F32 },
        { .endings = "bin", .dtype = RF_U8, .shape = RF_SHAPE(3, 2) },
        { .endings = "nothing;txt;bin", .dtype = RF_U8, .shape = RF_SHAPE(6), .variable = true },
        { .endings = "BIN", .dtype = RF_U8, .shape = RF_SHAPE(4, 2), .variable = true },
    };
    for (int packed = 0; packed < 2; packed++) {
        rf_dataset *d = open_parts(packed, fields, 6);
        assert_int_equal(rf_dataset_cardinality(d), EXAMPLES);
        rf_iterator *it;
        const rf_element *e;
        OK(rf_iterator_create(d, 0, &it));
        for (int i = 0; i < EXAMPLES; i++) {
            OK(rf_iterator_next(it, &e));
            for (int k = 0; k < 48; k++) assert_int_equal(((const uint8_t *)e->component[0].data)[k], i);
            assert_int_equal(*(const int32_t *)e->component[1].data, i);
            assert_true(*(const float *)e->component[2].data == (float)i + 0.25f);
            for (int k = 0; k < 6; k++) assert_int_equal(((const uint8_t *)e->component[3].data)[k], i + k);
            assert_int_equal(e->component[4].shape.dim[0], i % 4 * 2);
            if (i % 4) assert_memory_equal(e->component[4].data, "\xc3\xa4", 2);
            assert_int_equal(e->component[5].shape.dim[0], 3);
            assert_memory_equal(e->component[5].data, e->component[3].data, 6);
        }
        assert_int_equal(rf_iterator_next(it, &e), RF_END);
        rf_iterator_destroy(&it);
        rf_dataset_destroy(&d);
    }
}

TEST(test_order)
{
    int32_t n[MOST_NUMBERS];
    for (int packed = 0; packed < 2; packed++) {
        rf_dataset *d = open_parts(packed, &number, 1);
        APPLY(d, rf_dataset_shuffle(d, EXAMPLES, 3, RF_SHUFFLE_ONCE, &applied_));
        assert_int_equal(read_scalars(d, n), EXAMPLES);
        int64_t sum = 0;
        for (int i = 0; i < EXAMPLES; i++) sum += n[i];
        assert_int_equal(sum, EXAMPLES * (EXAMPLES - 1) / 2);
        rf_dataset_destroy(&d);
        expect_resumes_everywhere(open_parts(packed, &number, 1), open_parts(packed, &number, 1));
        d = open_parts(packed, &number, 1);
        APPLY(d, rf_dataset_batch(d, 4, RF_REMAINDER_KEEP, &applied_));
        expect_rows_of_two_workers(d);
    }
    const rf_tar_field other = { .endings = "cls;txt", .dtype = RF_I32 };
    expect_other_pipeline(open_parts(false, &number, 1), open_parts(false, &other, 1));
}

TEST(test_workers_by_archive)
{
    static const int32_t counts[2] = { EXAMPLES - SECOND_PART, SECOND_PART };
    for (int packed = 0; packed < 2; packed++)
        for (uint32_t w = 0; w < 2; w++) {
            rf_dataset *d = open_parts(packed, &number, 1), *part;
            const rf_element *e;
            rf_iterator *it;
            int32_t seen = 0, first = w == 0 ? 0 : FIRST_PART;
            APPLY(d, rf_dataset_batch(d, 8, RF_REMAINDER_KEEP, &applied_));
            OK(rf_dataset_slice(d, &(rf_slice_params){ .worker = w, .num_workers = 2, .by_file = true, .split = halve },
                                &part));
            OK(rf_iterator_create(part, 0, &it));
            while (rf_iterator_next(it, &e) == RF_OK)
                for (int64_t i = 0; i < e->component[0].shape.dim[0]; i++, seen++) {
                    if (w == 0 && seen == FIRST_PART) first += SECOND_PART;
                    assert_int_equal(((const int32_t *)e->component[0].data)[i], first + seen);
                }
            assert_int_equal(seen, counts[w]);
            rf_iterator_destroy(&it);
            rf_dataset_destroy(&part);
            rf_dataset_destroy(&d);
        }
}

TEST(test_mistakes)
{
    static const char *const messages[] = {
        NULL,
        "mistakes.tar: example 1: it has no file *.cls",
        "mistakes.tar: example 2: *.cls is no number",
        "example 3: *.cls is a number that i32 cannot hold",
        "example 4: *.cls is no number",
        "example 5: *.cls is a number that i32 cannot hold",
        "example 6: *.cls is no number",
        "example 7: *.cls is no number",
    };
    const char *name = "mistakes.tar";
    rf_dataset *d;
    rf_iterator *it;
    const rf_element *e;
    for (uint64_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
        OK(open_archives(&name, 1, &number, 1, &d));
        APPLY(d, rf_dataset_skip(d, i, &applied_));
        OK(rf_iterator_create(d, 0, &it));
        if (messages[i])
            FAILS(rf_iterator_next(it, &e), RF_ERROR_CORRUPT_DATA, messages[i]);
        else
            OK(rf_iterator_next(it, &e));
        rf_iterator_destroy(&it);
        rf_dataset_destroy(&d);
    }
    OK(open_archives(&name, 1, &number, 1, &d));
    APPLY(d, rf_dataset_ignore_errors(d, RF_IGNORE_SILENTLY, &applied_));
    int32_t n[MOST_NUMBERS];
    assert_int_equal(read_scalars(d, n), 1);
    assert_int_equal(rf_dataset_ignored_errors(d), 7);
    rf_dataset_destroy(&d);
}

TEST(test_archives)
{
    const char *names[] = { "empty.tar", "cut.tar", "part0.tfrecord", "nowhere.tar" };
    rf_dataset *d;
    OK(open_archives(&names[0], 1, &number, 1, &d));
    assert_int_equal(rf_dataset_cardinality(d), 0);
    rf_dataset_destroy(&d);
    FAILS(open_archives(&names[1], 1, &number, 1, &d), RF_ERROR_CORRUPT_DATA, "cut.tar: example 1: ");
    FAILS(open_archives(&names[2], 1, &number, 1, &d), RF_ERROR_CORRUPT_DATA, "part0.tfrecord: example 0: ");
    FAILS(open_archives(&names[3], 1, &number, 1, &d), RF_ERROR_NOT_FOUND, "nowhere.tar");
}

/* A file of 70,000 bytes that nobody wants is no mistake, one that is wanted is. */
TEST(test_long_files)
{
    const rf_tar_field other = { .endings = "other", .dtype = RF_U8, .shape = RF_SHAPE(70000), .variable = true };
    char path[512];
    const char *paths[] = { path };
    rf_dataset *d;
    rf_iterator *it;
    const rf_element *e;
    snprintf(path, sizeof(path), "%s/part0.tar", RECORDS);
    for (int small = 0; small < 2; small++) {
        OK(rf_dataset_from_tar(
            &(rf_tar_params){
                .paths = paths, .num_paths = 1, .fields = &other, .num_fields = 1, .max_bytes = small ? 69999 : 0 },
            &d));
        OK(rf_iterator_create(d, 0, &it));
        for (int i = 0; i < 3; i++) OK(rf_iterator_next(it, &e));
        if (small) {
            FAILS(rf_iterator_next(it, &e), RF_ERROR_INVALID_ARGUMENT,
                  "part0.tar: example 3: a file *.other has more than 69999 bytes; raise max_bytes");
        } else {
            OK(rf_iterator_next(it, &e));
            assert_int_equal(e->component[0].shape.dim[0], 70000);
            OK(rf_iterator_next(it, &e));
            assert_int_equal(e->component[0].shape.dim[0], 4);
        }
        rf_iterator_destroy(&it);
        rf_dataset_destroy(&d);
    }
}

TEST(test_arguments)
{
    const struct {
        rf_tar_field field;
        const char *message;
    } cases[] = {
        { { .dtype = RF_I32 }, "field 0 has no endings" },
        { { .endings = "a", .dtype = RF_F16 }, "field 'a' is f16, not u8, i32 or f32" },
        { { .endings = "a", .dtype = RF_I32, .shape = RF_SHAPE(2) }, "field 'a' is a number; read bytes" },
        { { .endings = "a", .dtype = RF_U8, .variable = true }, "field 'a' is a scalar" },
        { { .endings = "a", .dtype = RF_U8, .shape = RF_SHAPE(0) }, "field 'a' has no valid shape" },
        { { .endings = "a", .dtype = RF_U8, .shape = RF_SHAPE(2, 2), .image = true }, "an image is u8" },
    };
    const char *name = "part0.tar";
    rf_dataset *d;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        FAILS(open_archives(&name, 1, &cases[i].field, 1, &d), RF_ERROR_INVALID_ARGUMENT, cases[i].message);
}

/* ---- docs/guides/data.md, word for word (tests/project/check_pages.py) ---- */

static rf_result read_photos(const char *const *paths, uint32_t num_paths, rf_dataset **out)
{
    rf_dataset *photos;
    const rf_tar_field fields[] = {
        { .endings = "jpg;jpeg;png", .dtype = RF_U8, .shape = RF_SHAPE(224, 224, 3), .image = true },
        { .endings = "cls", .dtype = RF_I32 }, /* a number, as text */
    };
    const rf_tar_params archives = { .paths = paths, .num_paths = num_paths, .fields = fields, .num_fields = 2 };
    TRY(rf_dataset_from_tar(&archives, &photos));
    *out = photos;
    return RF_OK;
}

TEST(test_guide)
{
    char path[512];
    const char *paths[] = { path };
    rf_dataset *d;
    snprintf(path, sizeof(path), "%s/part2.tar", RECORDS);
    OK(read_photos(paths, 1, &d));
    assert_int_equal(rf_dataset_cardinality(d), EXAMPLES - FIRST_PART - SECOND_PART);
    rf_dataset_destroy(&d);
}
#else
TEST(test_without_libarchive)
{
    static const rf_tar_field number = { .endings = "cls", .dtype = RF_I32 };
    const char *path = RECORDS "/part0.tar";
    rf_dataset *d;
    FAILS(
        rf_dataset_from_tar(&(rf_tar_params){ .paths = &path, .num_paths = 1, .fields = &number, .num_fields = 1 }, &d),
        RF_ERROR_UNSUPPORTED, "built without libarchive");
}
#endif

TESTS(tar, NULL, NULL)
