/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of tables, and the moments of their columns. */
#include <math.h>
#include <stdlib.h>

#include "combined.h"
#include "tests/room.h"

enum { ROWS = 23, COLUMNS = 2 };

/* Row r: (10 r, 10 r + 1) and the label 1000 + r. */
static rf_dataset *table(bool in_order)
{
    int32_t features[ROWS * COLUMNS], labels[ROWS];
    for (int i = 0; i < ROWS * COLUMNS; i++) features[i] = i / COLUMNS * 10 + i % COLUMNS;
    for (int i = 0; i < ROWS; i++) labels[i] = 1000 + i;
    const rf_array arrays[] = { { RF_I32, RF_SHAPE(ROWS, COLUMNS), features }, { RF_I32, RF_SHAPE(ROWS), labels } };
    rf_dataset *d;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &d));
    if (in_order) APPLY(d, rf_dataset_filter(d, keep_all, NULL, &applied_));
    return d;
}

static rf_dataset *windows(const rf_windows_params *p)
{
    rf_dataset *d = table(false);
    APPLY(d, rf_dataset_windows(d, p, &applied_));
    return d;
}

/* Keras' words: rows i * stride + k * rate for every window that begins early enough. */
static void check_windows(uint32_t length, uint32_t stride, uint32_t rate, uint32_t ahead)
{
    const rf_window_part parts[] = { { .component = 0, .length = length, .sampling_rate = rate },
                                     { .component = 1, .offset = ahead } };
    rf_dataset *d = windows(&(rf_windows_params){ .parts = parts, .num_parts = 2, .stride = stride });
    const int by = stride ? (int)stride : 1, step = rate ? (int)rate : 1;
    int32_t n[MOST_NUMBERS];
    const int size = (int)length * COLUMNS + 3, count = read_pass(d, 0, n) / size;
    int expected = 0;
    for (int begin = 0; begin + ((int)length - 1) * step < ROWS && begin + (int)ahead < ROWS; begin += by, expected++) {
        const int32_t *window = n + expected * size;
        assert_int_equal(window[0], length);
        for (int k = 0; k < (int)length * COLUMNS; k++)
            assert_int_equal(window[1 + k], (begin + k / COLUMNS * step) * 10 + k % COLUMNS);
        assert_int_equal(window[size - 2], -1);
        assert_int_equal(window[size - 1], 1000 + begin + (int)ahead);
    }
    assert_int_equal(count, expected);
    assert_int_equal(rf_dataset_cardinality(d), expected);
    rf_dataset_destroy(&d);
}

TEST(test_windows)
{
    check_windows(4, 0, 0, 4);
    check_windows(4, 4, 1, 3);
    check_windows(3, 2, 5, 11);
    check_windows(3, 2, 5, 4);
    check_windows(1, 1, 1, 22);
    check_windows(23, 1, 1, 0);
    check_windows(5, 100, 2, 9);
}

/* One component as what is seen and what is foretold. */
TEST(test_sequences)
{
    const rf_window_part parts[] = { { .component = 1, .length = 3 }, { .component = 1, .length = 2, .offset = 3 } };
    rf_dataset *d = windows(&(rf_windows_params){ .parts = parts, .num_parts = 2, .stride = 9 });
    int32_t n[MOST_NUMBERS];
    static const int32_t expected[] = { 3, 1000, 1001, 1002, 2,    1003, 1004, 3, 1009, 1010, 1011,
                                        2, 1012, 1013, 3,    1018, 1019, 1020, 2, 1021, 1022 };
    assert_int_equal(read_pass(d, 0, n), 21);
    assert_memory_equal(n, expected, sizeof(expected));
    rf_dataset_destroy(&d);
}

static rf_dataset *shuffled_windows(uint32_t length)
{
    const rf_window_part parts[] = { { .component = 0, .length = length }, { .component = 1, .offset = 5 } };
    rf_dataset *d = windows(&(rf_windows_params){ .parts = parts, .num_parts = 2 });
    APPLY(d, rf_dataset_shuffle(d, ROWS, 1, RF_SHUFFLE_EACH_PASS, &applied_));
    APPLY(d, rf_dataset_batch(d, 4, RF_REMAINDER_KEEP, &applied_));
    APPLY(d, rf_dataset_parallel(d, 2, &applied_));
    return d;
}

TEST(test_positions)
{
    expect_resumes_everywhere(shuffled_windows(4), shuffled_windows(4));
    const rf_window_part near = { .component = 1, .length = 1 }, far = { .component = 1, .length = 1, .offset = 1 };
    expect_other_pipeline(windows(&(rf_windows_params){ .parts = &near, .num_parts = 1, .stride = 3 }),
                          windows(&(rf_windows_params){ .parts = &far, .num_parts = 1, .stride = 3 }));
    const rf_window_part late = { .component = 1, .offset = 5 };
    rf_dataset *labels = windows(&(rf_windows_params){ .parts = &late, .num_parts = 1 });
    APPLY(labels, rf_dataset_batch(labels, 4, RF_REMAINDER_KEEP, &applied_));
    expect_rows_of_two_workers(labels);
}

TEST(test_bad_windows)
{
    rf_dataset *d = table(false), *in_order = table(true), *out;
    const rf_window_part four = { .length = 4 }, other = { .component = 2 }, late = { .offset = ROWS };
    const rf_window_part huge = { .length = UINT32_MAX, .offset = UINT32_MAX, .sampling_rate = UINT32_MAX };
    FAILS(rf_dataset_windows(in_order, &(rf_windows_params){ .parts = &four, .num_parts = 1 }, &out),
          RF_ERROR_INVALID_ARGUMENT, "the rows are read in order");
    FAILS(rf_dataset_windows(d, &(rf_windows_params){ .parts = &other, .num_parts = 1 }, &out),
          RF_ERROR_INVALID_ARGUMENT, "part 0 is of component 2");
    FAILS(rf_dataset_windows(d, &(rf_windows_params){ .parts = &late, .num_parts = 1 }, &out),
          RF_ERROR_INVALID_ARGUMENT, "a window has 24 rows from end to end, the table has 23");
    FAILS(rf_dataset_windows(d, &(rf_windows_params){ .parts = &huge, .num_parts = 1 }, &out),
          RF_ERROR_INVALID_ARGUMENT, "from end to end");
    FAILS(rf_dataset_windows(d, &(rf_windows_params){ 0 }, &out), RF_ERROR_INVALID_ARGUMENT, "0 parts; give 1 to 8");
    assert_null(out);
    rf_dataset_destroy(&d);
    rf_dataset_destroy(&in_order);
}

/* ---- moments ---- */

enum { N = 400, HEIGHT = 3, CHANNELS = 4, VALUES = N * HEIGHT * CHANNELS };

static float values[VALUES];

/* [3, 4] images, far from 0, of which f32 sums would lose the variance. */
static rf_dataset *images(uint32_t batch)
{
    for (int i = 0; i < VALUES; i++)
        values[i] = (float)(1e5 + i % CHANNELS +
                            rf_random_key_normal((rf_random_key){ 1, 1, (uint64_t)i }, 0) * (1 + i % CHANNELS));
    const rf_array array = { RF_F32, RF_SHAPE(N, HEIGHT, CHANNELS), values };
    rf_dataset *d;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &array, .num_arrays = 1 }, &d));
    if (batch) APPLY(d, rf_dataset_batch(d, batch, RF_REMAINDER_KEEP, &applied_));
    return d;
}

/* In two walks: the mean, then what deviates from it. `place` says to which mean a value belongs. */
static void check_moments(const rf_dataset *d, const rf_moments_params *p, int size, int (*place)(int))
{
    rf_array mean, variance;
    OK(rf_dataset_moments(d, p, &mean, &variance));
    assert_int_equal(rf_shape_count(mean.shape), size);
    assert_int_equal(mean.shape.rank, p && p->whole ? 0 : 1);
    for (int k = 0; k < size; k++) {
        double sum = 0, squares = 0;
        int count = 0;
        for (int i = 0; i < VALUES; i++) {
            if (place(i) != k) continue;
            sum += (double)values[i];
            count++;
        }
        for (int i = 0; i < VALUES; i++)
            if (place(i) == k) squares += pow((double)values[i] - sum / count, 2);
        const double is = (double)((const float *)mean.data)[k], spread = (double)((const float *)variance.data)[k];
        assert_true(fabs(is - sum / count) <= 1e-7 * is);
        assert_true(fabs(spread - squares / count) <= 1e-6 * spread);
    }
    rf_array_free(&mean);
    rf_array_free(&variance);
}

static int place_of_channel(int i)
{
    return i % CHANNELS;
}
static int place_of_row(int i)
{
    return i / CHANNELS % HEIGHT;
}
static int place_of_all(int i)
{
    (void)i;
    return 0;
}

TEST(test_moments)
{
    for (uint32_t batch = 0; batch < 8; batch += 7) { /* the last batch is smaller */
        rf_dataset *d = images(batch);
        check_moments(d, NULL, CHANNELS, place_of_channel);
        check_moments(d, &(rf_moments_params){ .axis = 2 }, CHANNELS, place_of_channel);
        check_moments(d, &(rf_moments_params){ .axis = -2 }, HEIGHT, place_of_row);
        check_moments(d, &(rf_moments_params){ .axis = 1 }, HEIGHT, place_of_row);
        check_moments(d, &(rf_moments_params){ .whole = true }, 1, place_of_all);
        rf_dataset_destroy(&d);
    }
}

TEST(test_moments_of_integers)
{
    rf_dataset *d = table(false);
    rf_array mean, variance;
    OK(rf_dataset_moments(d, NULL, &mean, &variance));
    for (int c = 0; c < COLUMNS; c++) {
        assert_true(fabs((double)((float *)mean.data)[c] - (110 + c)) < 1e-4);
        assert_true(fabs((double)((float *)variance.data)[c] - 4400) < 1e-2); /* 100 (n^2 - 1) / 12 */
    }
    rf_array_free(&mean);
    rf_array_free(&variance);
    uint8_t bytes[] = { 0, 255 };
    const rf_array array = { RF_U8, RF_SHAPE(2), bytes };
    rf_dataset *pixels;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &array, .num_arrays = 1 }, &pixels));
    OK(rf_dataset_moments(pixels, &(rf_moments_params){ .whole = true }, &mean, &variance));
    assert_true(*(float *)mean.data == 127.5f && *(float *)variance.data == 127.5f * 127.5f);
    rf_array_free(&mean);
    rf_array_free(&variance);
    FAILS(rf_dataset_moments(pixels, NULL, &mean, &variance), RF_ERROR_INVALID_ARGUMENT,
          "there is no axis 0 beside the batch");
    rf_dataset_destroy(&d);
    rf_dataset_destroy(&pixels);
}

static rf_result refuse(void *user, const rf_element *in, rf_element *out)
{
    (void)user;
    (void)in;
    (void)out;
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "rust");
}

TEST(test_bad_moments)
{
    rf_dataset *d = images(0), *out;
    rf_array mean, variance;
    rf_element_spec spec;
    FAILS(rf_dataset_moments(d, &(rf_moments_params){ .component = 1 }, &mean, &variance), RF_ERROR_INVALID_ARGUMENT,
          "component is 1");
    FAILS(rf_dataset_moments(d, &(rf_moments_params){ .axis = 3 }, &mean, &variance), RF_ERROR_INVALID_ARGUMENT,
          "there is no axis 3 beside the batch in an element");
    FAILS(rf_dataset_moments(d, &(rf_moments_params){ .axis = 1, .whole = true }, &mean, &variance),
          RF_ERROR_INVALID_ARGUMENT, "axis is 1");
    OK(rf_dataset_take(d, 0, &out));
    FAILS(rf_dataset_moments(out, NULL, &mean, &variance), RF_ERROR_INVALID_ARGUMENT, "the dataset is empty");
    rf_dataset_destroy(&out);
    OK(rf_dataset_repeat(d, 0, &out));
    FAILS(rf_dataset_moments(out, NULL, &mean, &variance), RF_ERROR_INVALID_ARGUMENT, "never ends");
    rf_dataset_destroy(&out);
    rf_dataset_spec(d, &spec);
    OK(rf_dataset_map(d, refuse, NULL, &spec, &out));
    FAILS(rf_dataset_moments(out, NULL, &mean, &variance), RF_ERROR_CORRUPT_DATA, "rust");
    assert_null(mean.data);
    rf_dataset_destroy(&out);
    rf_dataset_destroy(&d);
}

TESTS(windows, NULL, NULL)
