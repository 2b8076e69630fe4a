/* SPDX-License-Identifier: Apache-2.0 */
/* TFRecord files: what becomes of the features of an example, and the steps above. */
#include "data/slice.h"
#include "records.h"
#include "tests/room.h"

/* The three parts, each in the form that its digit of `forms` says. */
static rf_dataset *parts(const int forms[PARTS], const rf_tfrecord_feature *features, uint32_t num_features)
{
    char path[PARTS][512];
    const char *paths[PARTS];
    rf_dataset *d;
    for (int p = 0; p < PARTS; p++) {
        snprintf(path[p], sizeof(path[p]), "%s/part%d.tfrecord%s", RECORDS, p, endings[forms[p]]);
        paths[p] = path[p];
    }
    OK(open_files(paths, PARTS, features, num_features, &d));
    return d;
}

static rf_dataset *parts_of(int form)
{
    return parts((const int[]){ form, form, form }, &id, 1);
}

static void expect_numbered(const rf_dataset *d, int count)
{
    int32_t n[MOST_NUMBERS];
    assert_int_equal(rf_dataset_cardinality(d), count);
    assert_int_equal(read_scalars(d, n), count);
    for (int i = 0; i < count; i++) assert_int_equal(n[i], i);
}

/* ---- what becomes of features ---- */

TEST(test_components)
{
    const rf_tfrecord_feature features[] = {
        { .name = "values", .dtype = RF_F32, .shape = RF_SHAPE(3, 1) },
        id,
        { .name = "pixels", .dtype = RF_U8, .shape = RF_SHAPE(2, 2) },
        { .name = "tokens", .dtype = RF_I32, .shape = RF_SHAPE(3), .variable = true },
        { .name = "below", .dtype = RF_I32, .shape = RF_SHAPE(2) },
        { .name = "pixels", .dtype = RF_U8, .shape = RF_SHAPE(4, 2), .variable = true },
    };
    for (int form = 0; form < FORMS; form++) {
        rf_dataset *d = parts((const int[]){ form, form, form }, features, 6);
        rf_element_spec spec;
        rf_dataset_spec(d, &spec);
        assert_int_equal(spec.num_components, 6);
        assert_true(rf_shape_equal(spec.shape[0], RF_SHAPE(3, 1)) && rf_shape_equal(spec.shape[3], RF_SHAPE(3)));
        rf_iterator *it;
        const rf_element *e;
        OK(rf_iterator_create(d, 0, &it));
        for (int i = 0; i < NUMBERED; i++) {
            OK(rf_iterator_next(it, &e));
            for (int k = 0; k < 3; k++)
                assert_true(((const float *)e->component[0].data)[k] == (float)i + 0.25f * (float)k);
            assert_int_equal(*(const int32_t *)e->component[1].data, i);
            for (int k = 0; k < 4; k++) assert_int_equal(((const uint8_t *)e->component[2].data)[k], i + k);
            assert_int_equal(e->component[3].shape.dim[0], i % 4);
            for (int k = 0; k < i % 4; k++) assert_int_equal(((const int32_t *)e->component[3].data)[k], 10 * i + k);
            assert_int_equal(((const int32_t *)e->component[4].data)[0], -i);
            assert_int_equal(((const int32_t *)e->component[4].data)[1], INT32_MIN);
            assert_true(rf_shape_equal(e->component[5].shape, RF_SHAPE(2, 2)));
            assert_memory_equal(e->component[5].data, e->component[2].data, 4);
        }
        assert_int_equal(rf_iterator_next(it, &e), RF_END);
        rf_iterator_destroy(&it);
        rf_dataset_destroy(&d);
    }
}

TEST(test_files)
{
    rf_dataset *d;
    for (int a = 0; a < FORMS; a++)
        for (int b = 0; b < FORMS; b++) {
            d = parts((const int[]){ a, b, a }, &id, 1);
            expect_numbered(d, NUMBERED);
            rf_dataset_destroy(&d);
        }
    OK(open_made("members.tfrecord.gz", &id, &d));
    expect_numbered(d, FIRST_PART);
    rf_dataset_destroy(&d);
    for (int form = 0; form < 2; form++) {
        OK(open_made(form ? "empty.tfrecord.gz" : "empty.tfrecord", &id, &d));
        expect_numbered(d, 0);
        rf_dataset_destroy(&d);
    }
    for (int form = 0; form < 2; form++) {
        OK(open_made(form ? "like_gzip.tfrecord" : "like_zlib.tfrecord", &id, &d));
        expect_numbered(d, 1);
        rf_dataset_destroy(&d);
    }
    /* The published frame of an empty record: a message without features. */
    static const uint8_t empty_record[] = { 0, 0, 0, 0, 0, 0, 0, 0, 0x29, 0x03, 0x98, 0x07, 0xd8, 0xea, 0x82, 0xa2 };
    const int32_t three = 3;
    const rf_array value = { RF_I32, RF_SCALAR_SHAPE, (void *)(uintptr_t)&three };
    OK(open_path(store("one", empty_record, sizeof(empty_record)),
                 &(rf_tfrecord_feature){ .name = "id", .dtype = RF_I32, .default_value = &value }, &d));
    int32_t n[MOST_NUMBERS];
    assert_int_equal(read_scalars(d, n), 1);
    assert_int_equal(n[0], 3);
    rf_dataset_destroy(&d);
}

/* Records of which each field is small and is unpacked by itself, and records longer than what is read at once. */
TEST(test_long_records)
{
    static const int64_t lengths[] = { 70000, 3, 70000, 0 };
    rf_dataset *d;
    rf_iterator *it;
    const rf_element *e;
    OK(open_made("long.tfrecord",
                 &(rf_tfrecord_feature){ .name = "many", .dtype = RF_I32, .shape = RF_SHAPE(70000), .variable = true },
                 &d));
    assert_int_equal(rf_dataset_cardinality(d), 4);
    OK(rf_iterator_create(d, 0, &it));
    for (int i = 0; i < 4; i++) {
        OK(rf_iterator_next(it, &e));
        assert_int_equal(e->component[0].shape.dim[0], lengths[i]);
        for (int64_t k = 0; k < lengths[i]; k++) assert_int_equal(((const int32_t *)e->component[0].data)[k], k % 100);
    }
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
}

static rf_result read_odd(int record, const rf_tfrecord_feature *feature, int32_t *out)
{
    rf_dataset *d;
    rf_iterator *it;
    const rf_element *e;
    OK(open_made("odd.tfrecord", feature, &d));
    APPLY(d, rf_dataset_skip(d, (uint64_t)record, &applied_));
    OK(rf_iterator_create(d, 0, &it));
    const rf_result r = rf_iterator_next(it, &e);
    if (r == RF_OK) *out = *(const int32_t *)e->component[0].data;
    rf_error_record kept;
    rf_error_save(&kept);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
    return r < 0 ? rf_error_restore(&kept) : r;
}

TEST(test_odd_records)
{
    static const struct {
        const char *message; /* NULL: it is 7 */
        bool missing;
    } records[] = {
        { NULL, false },
        { "is missing; a default_value", true },
        { "is missing", true },
        { "is a float_list, which becomes f32, not i32; declare it so", false },
        { "0 values, but [] takes 1", false },
        { "2 values, but [] takes 1; declare the shape", false },
        { "value 0 is 2147483648, which i32 cannot hold", false },
        { "value 0 is -2147483649, which i32 cannot hold", false },
        { "it is no tf.train.Example", false },
        { NULL, false },
        { NULL, false },
        { NULL, false },
        { "is missing", true },
        { "is a bytes_list, which becomes u8, not i32", false },
        { "is missing", true },
        { "it is no tf.train.Example", false },
        { NULL, false },
        { NULL, false },
    };
    const int32_t other = -5;
    const rf_array value = { RF_I32, RF_SCALAR_SHAPE, (void *)(uintptr_t)&other };
    rf_tfrecord_feature lenient = id;
    lenient.default_value = &value;
    for (int i = 0; i < (int)(sizeof(records) / sizeof(records[0])); i++) {
        int32_t is = 0;
        char where[64];
        const bool message = strcmp(records[i].message ? records[i].message : "", "it is no tf.train.Example") == 0;
        if (!records[i].message) {
            OK(read_odd(i, &id, &is));
            assert_int_equal(is, 7);
            continue;
        }
        snprintf(where, sizeof(where), "odd.tfrecord: record %d: %s", i, message ? "it is" : "feature 'id': ");
        FAILS(read_odd(i, &id, &is), RF_ERROR_CORRUPT_DATA, records[i].message);
        FAILS(read_odd(i, &id, &is), RF_ERROR_CORRUPT_DATA, where);
        if (records[i].missing) {
            OK(read_odd(i, &lenient, &is));
            assert_int_equal(is, other);
        } else {
            FAILS(read_odd(i, &lenient, &is), RF_ERROR_CORRUPT_DATA, records[i].message);
        }
    }
}

TEST(test_counts)
{
    const struct {
        rf_tfrecord_feature feature;
        const char *message;
    } cases[] = {
        { { .name = "values", .dtype = RF_F32, .shape = RF_SHAPE(4) }, "3 values, but [4] takes 4" },
        { { .name = "values", .dtype = RF_F32, .shape = RF_SHAPE(2), .variable = true },
          "3 values, but [2] takes up to 2 rows of 1" },
        { { .name = "values", .dtype = RF_F32, .shape = RF_SHAPE(5, 2), .variable = true },
          "3 values, but [5,2] takes up to 5 rows of 2" },
        { { .name = "values", .dtype = RF_F32, .shape = RF_SHAPE(5, 0), .variable = true },
          "3 values, but [5,0] takes up to 5 rows of 0" },
        { { .name = "pixels", .dtype = RF_U8, .shape = RF_SHAPE(5) }, "4 bytes, but [5] takes 5" },
        { { .name = "not asked for", .dtype = RF_U8, .shape = RF_SHAPE(1) }, "3 strings of bytes; one can be read" },
        { { .name = "large", .dtype = RF_I32 }, "value 0 is 4611686018427387904, which i32 cannot hold" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        rf_dataset *d;
        rf_iterator *it;
        const rf_element *e;
        OK(open_made("part0.tfrecord", &cases[i].feature, &d));
        OK(rf_iterator_create(d, 0, &it));
        for (int again = 0; again < 2; again++)
            FAILS(rf_iterator_next(it, &e), RF_ERROR_CORRUPT_DATA, cases[i].message);
        rf_iterator_destroy(&it);
        rf_dataset_destroy(&d);
    }
}

TEST(test_images)
{
    const rf_tfrecord_feature features[] = {
        { .name = "image", .dtype = RF_U8, .shape = RF_SHAPE(2, 3, 3), .image = true },
        { .name = "label", .dtype = RF_I32 },
    };
    static const char *const refused[] = { "images.tfrecord: record 4: feature 'image': the image: is neither a PNG",
                                           "images.tfrecord: record 5: feature 'image': the image: " };
    const char *path = RECORDS "/images.tfrecord";
    rf_dataset *d, *rest;
    rf_iterator *it;
    const rf_element *e;
    OK(open_files(&path, 1, features, 2, &d));
    OK(rf_iterator_create(d, 0, &it));
    for (int i = 0; i < 4; i++) {
        OK(rf_iterator_next(it, &e));
        const uint8_t *pixels = e->component[0].data;
        for (int k = 0; k < 18; k++) assert_int_equal(pixels[k], i == 0 ? k : i == 1 ? 0 : i == 2 ? 9 : 200);
        assert_int_equal(*(const int32_t *)e->component[1].data, i);
    }
    rf_iterator_destroy(&it);
    for (uint64_t i = 0; i < 2; i++) {
        OK(rf_dataset_skip(d, 4 + i, &rest));
        OK(rf_iterator_create(rest, 0, &it));
        const rf_result r = rf_iterator_next(it, &e);
        assert_true(r == RF_ERROR_UNSUPPORTED || r == RF_ERROR_CORRUPT_DATA);
        assert_non_null(strstr(rf_error_message(), refused[i]));
        rf_iterator_destroy(&it);
        rf_dataset_destroy(&rest);
    }
    rf_dataset_destroy(&d);
    /* In grey, as another program would be content with. */
    const rf_tfrecord_feature grey = { .name = "image", .dtype = RF_U8, .shape = RF_SHAPE(1, 1, 1), .image = true };
    OK(open_path(path, &grey, &d));
    APPLY(d, rf_dataset_skip(d, 3, &applied_));
    OK(rf_iterator_create(d, 0, &it));
    OK(rf_iterator_next(it, &e));
    assert_int_equal(*(const uint8_t *)e->component[0].data, 200);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
}

/* Sequences of unequal length, among them one of none and one that is missing, reach the step that pads them. */
TEST(test_variable_features_are_padded)
{
    const int32_t two[] = { -1, -2 };
    const rf_array value = { RF_I32, RF_SHAPE(2), (void *)(uintptr_t)two };
    const rf_tfrecord_feature features[] = {
        { .name = "tokens", .dtype = RF_I32, .shape = RF_SHAPE(3), .variable = true },
        { .name = "nowhere", .dtype = RF_I32, .shape = RF_SHAPE(4), .variable = true, .default_value = &value },
    };
    rf_dataset *d = parts((const int[PARTS]){ 0 }, features, 2);
    rf_iterator *it;
    const rf_element *e;
    APPLY(d, rf_dataset_padded_batch(
                 d, &(rf_padded_batch_params){ .batch_size = 26, .padded = { true, true }, .pad_value = { -7, 0 } },
                 &applied_));
    OK(rf_iterator_create(d, 0, &it));
    OK(rf_iterator_next(it, &e));
    for (int i = 0; i < NUMBERED; i++) {
        for (int k = 0; k < 3; k++)
            assert_int_equal(((const int32_t *)e->component[0].data)[3 * i + k], k < i % 4 ? 10 * i + k : -7);
        for (int k = 0; k < 4; k++)
            assert_int_equal(((const int32_t *)e->component[1].data)[4 * i + k], k < 2 ? two[k] : 0);
    }
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
}

TEST(test_refused_params)
{
    const float one = 1;
    const rf_array wide = { RF_F32, RF_SHAPE(3), (void *)(uintptr_t)&one },
                   scalar = { RF_F32, RF_SCALAR_SHAPE, (void *)(uintptr_t)&one };
    const struct {
        rf_tfrecord_feature feature;
        const char *message;
    } cases[] = {
        { { .dtype = RF_I32 }, "feature 0 has no name" },
        { { .name = "a" }, "feature 'a' is invalid, not f32, i32 or u8" },
        { { .name = "a", .dtype = RF_F32, .shape = RF_SHAPE(-1) }, "feature 'a' has no valid shape" },
        { { .name = "a", .dtype = RF_F32, .variable = true }, "feature 'a' is [] and has no dimension that can vary" },
        { { .name = "a", .dtype = RF_F32, .shape = RF_SHAPE(2, 2, 3), .image = true },
          "feature 'a' is f32 [2,2,3]; an image is u8 [height,width,channels]" },
        { { .name = "a", .dtype = RF_U8, .shape = RF_SHAPE(2, 2, 2), .image = true }, "1, 3 or 4 channels" },
        { { .name = "a", .dtype = RF_U8, .shape = RF_SHAPE(8192, 8193, 1), .image = true },
          "8192 x 8193 pixels are more than 67108864" },
        { { .name = "a", .dtype = RF_U8, .shape = RF_SHAPE(2, 2, 1), .image = true, .variable = true },
          "whose size cannot vary" },
        { { .name = "a", .dtype = RF_F32, .default_value = &wide },
          "feature 'a' is f32 [], but its default_value f32 [3]" },
        { { .name = "a", .dtype = RF_I32, .default_value = &scalar },
          "feature 'a' is i32 [], but its default_value f32 []" },
        { { .name = "a", .dtype = RF_F32, .shape = RF_SHAPE(2), .variable = true, .default_value = &wide },
          "is f32 [2], but its default_value f32 [3]" },
        { { .name = "a", .dtype = RF_F32, .shape = RF_SHAPE(INT64_MAX / 2, 2) }, "component 0 has no valid shape" },
    };
    rf_dataset *d;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        FAILS(open_made("part0.tfrecord", &cases[i].feature, &d), RF_ERROR_INVALID_ARGUMENT, cases[i].message);
        assert_null(d);
    }
    const char *none = NULL;
    FAILS(open_files(NULL, 0, &id, 1, &d), RF_ERROR_INVALID_ARGUMENT, "no files given");
    FAILS(open_path(none, &id, &d), RF_ERROR_INVALID_ARGUMENT, "path 0 is NULL");
    FAILS(open_files(&none, 1, NULL, 0, &d), RF_ERROR_INVALID_ARGUMENT, "0 features; give 1 to 8");
    FAILS(open_made("nowhere.tfrecord", &id, &d), RF_ERROR_NOT_FOUND, "nowhere.tfrecord: cannot open");
    FAILS(open_path(records_folder, &id, &d), RF_ERROR_IO, "is not a regular file");
}

/* ---- steps above ---- */

static rf_dataset *pipeline(int which)
{
    rf_dataset *d = parts_of(which % 2);
    APPLY(d, rf_dataset_shuffle(d, which & 2 ? 5 : NUMBERED, 3, RF_SHUFFLE_EACH_PASS, &applied_));
    if (which & 4) APPLY(d, rf_dataset_repeat(d, 2, &applied_));
    APPLY(d, rf_dataset_batch(d, 4, RF_REMAINDER_KEEP, &applied_));
    if (which & 4) APPLY(d, rf_dataset_prefetch(d, 2, &applied_));
    return d;
}

TEST(test_positions)
{
    for (int which = 0; which < 8; which++) expect_resumes_everywhere(pipeline(which), pipeline(which));
    for (int form = 0; form < FORMS; form++) expect_resumes_everywhere(parts_of(form), parts_of(form));
    rf_tfrecord_feature other = { .name = "id", .dtype = RF_I32, .shape = RF_SHAPE(1) };
    const int plain[PARTS] = { 0 };
    expect_other_pipeline(parts_of(0), parts(plain, &other, 1));
    other = (rf_tfrecord_feature){ .name = "below", .dtype = RF_I32 };
    expect_other_pipeline(parts_of(0), parts(plain, &other, 1));
    other = id;
    const int32_t seven = 7;
    other.default_value = &(rf_array){ RF_I32, RF_SCALAR_SHAPE, (void *)(uintptr_t)&seven };
    expect_other_pipeline(parts_of(0), parts(plain, &other, 1));
    const char *const swapped[] = { RECORDS "/part1.tfrecord", RECORDS "/part0.tfrecord", RECORDS "/part2.tfrecord" };
    rf_dataset *d;
    OK(open_files(swapped, PARTS, &id, 1, &d));
    expect_other_pipeline(parts_of(0), d);
    /* Compressing the files changes nothing: the position counts records. */
    expect_resumes_everywhere(parts_of(0), parts_of(1));
}

/* More files than are open at a time, in any order. */
TEST(test_many_files)
{
    enum { MANY = 60 };
    const char *paths[MANY];
    for (int i = 0; i < MANY; i++)
        paths[i] = i % 3 == 0   ? RECORDS "/part0.tfrecord"
                   : i % 3 == 1 ? RECORDS "/part1.tfrecord"
                                : RECORDS "/empty.tfrecord";
    rf_dataset *d;
    int32_t n[MOST_NUMBERS];
    int seen[FIRST_PART + SECOND_PART] = { 0 };
    OK(open_files(paths, MANY, &id, 1, &d));
    assert_int_equal(rf_dataset_cardinality(d), MANY / 3 * (FIRST_PART + SECOND_PART));
    APPLY(d, rf_dataset_shuffle(d, 1000, 3, RF_SHUFFLE_EACH_PASS, &applied_));
    const int count = read_scalars(d, n);
    assert_int_equal(count, MANY / 3 * (FIRST_PART + SECOND_PART));
    for (int i = 0; i < count; i++) seen[n[i]]++;
    for (int i = 0; i < FIRST_PART + SECOND_PART; i++) assert_int_equal(seen[i], MANY / 3);
    rf_dataset_destroy(&d);
}

TEST(test_workers)
{
    for (int form = 0; form < 2; form++)
        for (int by_file = 0; by_file < 2; by_file++) {
            rf_dataset *d = parts_of(form), *part;
            int seen[NUMBERED] = { 0 };
            APPLY(d, rf_dataset_batch(d, 4, RF_REMAINDER_KEEP, &applied_));
            for (uint32_t w = 0; w < 2; w++) {
                rf_iterator *it;
                const rf_element *e;
                const rf_slice_params params = { .worker = w, .num_workers = 2, .by_file = by_file, .split = halve };
                OK(rf_dataset_slice(d, &params, &part));
                OK(rf_iterator_create(part, 0, &it));
                while (rf_iterator_next(it, &e) == RF_OK)
                    for (int64_t i = 0; i < e->component[0].shape.dim[0]; i++) {
                        const int32_t value = ((const int32_t *)e->component[0].data)[i];
                        seen[value]++;
                        if (by_file) /* the second file is worker 1's */
                            assert_int_equal(w, value >= FIRST_PART && value < FIRST_PART + SECOND_PART);
                    }
                rf_iterator_destroy(&it);
                rf_dataset_destroy(&part);
            }
            for (int i = 0; i < NUMBERED; i++) assert_int_equal(seen[i], 1);
            rf_dataset_destroy(&d);
        }
}

/* Compressed or not, whole files are read by a worker each, in the same batches and from any position. */
TEST(test_files_of_workers)
{
    for (uint32_t w = 0; w < 2; w++)
        for (int steps = 0; steps < 3; steps++) {
            const rf_slice_params params = { .worker = w, .num_workers = 2, .by_file = true, .split = halve };
            rf_dataset *d[3];
            int32_t n[3][MOST_NUMBERS];
            int count[3];
            for (int i = 0; i < 3; i++) {
                const int forms[PARTS] = { 0, i == 1, i == 2 ? 2 : 0 };
                d[i] = parts(forms, &id, 1);
                if (steps == 2)
                    APPLY(d[i], rf_dataset_shuffle(d[i], 3, 1, RF_SHUFFLE_EACH_PASS, &applied_)); /* a small buffer */
                APPLY(d[i], rf_dataset_batch(d[i], 5, RF_REMAINDER_KEEP, &applied_));
                if (steps == 1) APPLY(d[i], rf_dataset_prefetch(d[i], 2, &applied_));
                APPLY(d[i], rf_dataset_slice(d[i], &params, &applied_));
                count[i] = read_pass(d[i], 0, n[i]);
                assert_int_equal(count[i], count[0]);
                assert_memory_equal(n[i], n[0], (size_t)count[i] * sizeof(int32_t));
            }
            expect_resumes_everywhere(d[0], d[1]);
            rf_dataset_destroy(&d[2]);
        }
}

static rf_result stumble_at_14(void *user, const rf_element *in, rf_element *out)
{
    bool *done = user;
    const int32_t value = *(const int32_t *)in->component[0].data;
    if (value == 14 && !*done) {
        *done = true;
        return RF_FAIL(RF_ERROR_IO, "stumbled");
    }
    *(int32_t *)out->component[0].data = value;
    return RF_OK;
}

/* A worker's rows that are there before a failure are kept. */
TEST(test_failures_lose_no_row)
{
    const rf_slice_params params = { .worker = 1, .num_workers = 2, .by_file = true, .split = halve };
    for (int form = 0; form < 2; form++) {
        bool done = false;
        int32_t next = FIRST_PART;
        rf_dataset *d = parts_of(form);
        rf_iterator *it;
        const rf_element *e;
        rf_result r;
        APPLY(d, rf_dataset_map(d, stumble_at_14, &done, &(rf_element_spec){ .num_components = 1, .dtype = { RF_I32 } },
                                &applied_));
        APPLY(d, rf_dataset_batch(d, 8, RF_REMAINDER_KEEP, &applied_));
        APPLY(d, rf_dataset_slice(d, &params, &applied_));
        OK(rf_iterator_create(d, 0, &it));
        FAILS(rf_iterator_next(it, &e), RF_ERROR_IO, "stumbled");
        while ((r = rf_iterator_next(it, &e)) == RF_OK)
            for (int64_t i = 0; i < e->component[0].shape.dim[0]; i++)
                assert_int_equal(((const int32_t *)e->component[0].data)[i], next++);
        assert_int_equal(r, RF_END);
        assert_int_equal(next, FIRST_PART + SECOND_PART);
        rf_iterator_destroy(&it);
        rf_dataset_destroy(&d);
    }
}

static rf_result open_part(void *user, const rf_element *in, rf_dataset **out)
{
    char name[64];
    snprintf(name, sizeof(name), "part%d.tfrecord%s", *(const int32_t *)in->component[0].data,
             endings[*(const int *)user]);
    return open_made(name, &id, out);
}

/* Two files at a time. */
static rf_dataset *interleaved(int *form)
{
    rf_dataset *d = count_from(0, PARTS);
    APPLY(d, rf_dataset_interleave(d, open_part, form, &(rf_element_spec){ .num_components = 1, .dtype = { RF_I32 } },
                                   &(rf_interleave_params){ .cycle_length = 2, .block_length = 4 }, &applied_));
    return d;
}

TEST(test_interleaved_files)
{
    static const int32_t order[NUMBERED] = { 0, 1, 2,  3,  12, 13, 14, 15, 4,  5,  6,  7,  16,
                                             8, 9, 10, 11, 17, 18, 19, 20, 21, 22, 23, 24, 25 };
    for (int form = 0; form < FORMS; form++) {
        int32_t n[MOST_NUMBERS];
        rf_dataset *d = interleaved(&form);
        assert_int_equal(read_scalars(d, n), NUMBERED);
        assert_memory_equal(n, order, sizeof(order));
        expect_resumes_everywhere(d, interleaved(&form));
    }
}

TESTS(tfrecord, open_folder, close_folder)
