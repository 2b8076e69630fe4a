/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers in pipelines: each element's follow from seed, pass and place alone. Augmented images, and filters. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/apply.h"
#include "base/error.h"
#include "tests/room.h"
#include <ringfire/dataset.h>

enum { N = 60, BATCH = 7 };

/* ---- keys ---- */

TEST(test_draws)
{
    enum { DRAWS = 40000 };
    double sum = 0, squares = 0, uniform = 0;
    int counts[6] = { 0 };
    for (uint64_t i = 0; i < DRAWS; i++) {
        const rf_random_key key = { 5, i % 7, i / 7 };
        const uint64_t below = rf_random_key_below(key, 0, 6);
        assert_true(below < 6);
        counts[below]++;
        const float u = rf_random_key_uniform(key, 1);
        assert_true(u >= 0 && u < 1);
        uniform += (double)u;
        const double x = rf_random_key_normal(key, 2);
        sum += x;
        squares += x * x;
    }
    /* Five deviations of each mean. */
    for (int i = 0; i < 6; i++) assert_true(fabs(counts[i] - DRAWS / 6.0) < 5 * sqrt(DRAWS * 5.0 / 36));
    assert_true(fabs(uniform / DRAWS - 0.5) < 5 * sqrt(1.0 / 12 / DRAWS));
    assert_true(fabs(sum / DRAWS) < 5 / sqrt(DRAWS));
    assert_true(fabs(squares / DRAWS - 1) < 5 * sqrt(2.0 / DRAWS));
    const rf_random_key key = { 1, 2, 3 };
    assert_int_equal(rf_random_key_below(key, 0, 0), 0);
    assert_int_equal(rf_random_key_below(key, 9, 1), 0);
    assert_true(rf_random_key_below(key, 4, UINT64_MAX) == rf_random_key_below(key, 4, UINT64_MAX));
    const rf_random_key others[] = { { 0, 2, 3 }, { 1, 1, 3 }, { 1, 2, 4 } };
    for (int i = 0; i < 3; i++)
        assert_true(rf_random_key_below(key, 4, UINT64_MAX) != rf_random_key_below(others[i], 4, UINT64_MAX));
    assert_true(rf_random_key_below(key, 4, UINT64_MAX) != rf_random_key_below(key, 5, UINT64_MAX));
}

/* ---- maps ---- */

static rf_dataset *numbers(void)
{
    static int32_t values[N];
    for (int i = 0; i < N; i++) values[i] = i;
    rf_dataset *d;
    OK(rf_dataset_from_arrays(
        &(rf_dataset_arrays_params){ .arrays = &(rf_array){ RF_I32, RF_SHAPE(N), values }, .num_arrays = 1 }, &d));
    return d;
}

/* The number times 1000, and one of 1000 random ones. */
static rf_result add_noise(void *user, rf_random_key key, const rf_element *in, rf_element *out)
{
    (void)user;
    *(int32_t *)out->component[0].data =
        *(const int32_t *)in->component[0].data * 1000 + (int32_t)rf_random_key_below(key, 0, 1000);
    return RF_OK;
}

static const rf_element_spec number = { .num_components = 1, .dtype = { RF_I32 } };

static rf_dataset *noisy(bool before, bool after)
{
    rf_dataset *d = numbers();
    if (before) APPLY(d, rf_dataset_map_random(d, add_noise, NULL, 11, &number, &applied_));
    APPLY(d, rf_dataset_shuffle(d, N, 3, RF_SHUFFLE_EACH_PASS, &applied_));
    if (after) APPLY(d, rf_dataset_map_random(d, add_noise, NULL, 11, &number, &applied_));
    APPLY(d, rf_dataset_batch(d, BATCH, RF_REMAINDER_KEEP, &applied_));
    APPLY(d, rf_dataset_prefetch(d, 2, &applied_));
    return d;
}

/* At most `limit` batches, their numbers side by side. */
static int read_batches(rf_iterator *it, int32_t *values, int limit)
{
    int n = 0;
    const rf_element *e;
    rf_result r;
    for (int i = 0; i < limit && (r = rf_iterator_next(it, &e)) != RF_END; i++) {
        OK(r);
        memcpy(values + n, e->component[0].data, (size_t)e->component[0].shape.dim[0] * sizeof(*values));
        n += (int)e->component[0].shape.dim[0];
    }
    return n;
}

static void read_epoch(const rf_dataset *d, uint64_t epoch, int32_t values[N])
{
    rf_iterator *it;
    OK(rf_iterator_create(d, epoch, &it));
    assert_int_equal(read_batches(it, values, N), N);
    rf_iterator_destroy(&it);
}

static void check_passes(bool before)
{
    int32_t first[N], again[N], other[N], of_first[N], of_other[N], resumed[N];
    rf_dataset *d = noisy(before, !before), *same = noisy(before, !before);
    read_epoch(d, 0, first);
    read_epoch(d, 0, again);
    assert_memory_equal(first, again, sizeof(first));
    read_epoch(d, 1, other);
    int changed = 0;
    for (int i = 0; i < N; i++) {
        of_first[first[i] / 1000] = first[i] % 1000;
        of_other[other[i] / 1000] = other[i] % 1000;
    }
    for (int i = 0; i < N; i++) changed += of_first[i] != of_other[i];
    assert_true(changed > N - 5);
    /* Interrupted, and continued in another program. */
    rf_iterator *it;
    void *saved;
    size_t size;
    OK(rf_iterator_create(d, 1, &it));
    const int begun = read_batches(it, resumed, 3);
    OK(rf_iterator_save(it, &saved, &size));
    rf_iterator_destroy(&it);
    OK(rf_iterator_restore(same, saved, size, &it));
    assert_int_equal(read_batches(it, resumed + begun, N), N - begun);
    assert_memory_equal(resumed, other, sizeof(other));
    rf_iterator_destroy(&it);
    rf_iterator_state_free(saved);
    rf_dataset_destroy(&d);
    rf_dataset_destroy(&same);
}

TEST(test_passes)
{
    check_passes(true);
    check_passes(false);
}

/* Before a shuffle the numbers belong to the element, after it to its place. */
TEST(test_keys_of_places)
{
    int32_t values[N];
    rf_dataset *d = noisy(true, false);
    read_epoch(d, 4, values);
    for (int i = 0; i < N; i++)
        assert_int_equal(values[i] % 1000,
                         rf_random_key_below((rf_random_key){ 11, 4, (uint64_t)values[i] / 1000 }, 0, 1000));
    rf_dataset_destroy(&d);
    d = noisy(false, true);
    read_epoch(d, 4, values);
    for (int i = 0; i < N; i++)
        assert_int_equal(values[i] % 1000, rf_random_key_below((rf_random_key){ 11, 4, (uint64_t)i }, 0, 1000));
    rf_dataset_destroy(&d);
}

static rf_result fail_once(void *user, rf_random_key key, const rf_element *in, rf_element *out)
{
    int *left = user;
    if (key.index == 5 && (*left)-- > 0) return RF_ERROR_IO;
    return add_noise(NULL, key, in, out);
}

TEST(test_failing_map)
{
    int left = 1;
    rf_dataset *d = numbers();
    APPLY(d, rf_dataset_map_random(d, fail_once, &left, 1, &number, &applied_));
    rf_iterator *it;
    const rf_element *e;
    OK(rf_iterator_create(d, 0, &it));
    for (int i = 0; i < 5; i++) OK(rf_iterator_next(it, &e));
    assert_int_equal(rf_iterator_next(it, &e), RF_ERROR_IO);
    assert_non_null(strstr(rf_error_message(), "random map, element 5"));
    OK(rf_iterator_next(it, &e));
    assert_int_equal(*(int32_t *)e->component[0].data / 1000, 5);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
}

/* ---- augmentation ---- */

enum { HEIGHT = 5, WIDTH = 4, CHANNELS = 2, PIXELS = HEIGHT * WIDTH * CHANNELS };

/* All pixels differ, and none is 0. */
static rf_dataset *images(void)
{
    static uint8_t pixels[N * PIXELS];
    static int32_t labels[N];
    for (int i = 0; i < N * PIXELS; i++) pixels[i] = (uint8_t)(1 + i % PIXELS);
    for (int i = 0; i < N; i++) labels[i] = i;
    const rf_array arrays[] = { { RF_U8, RF_SHAPE(N, HEIGHT, WIDTH, CHANNELS), pixels },
                                { RF_I32, RF_SHAPE(N), labels } };
    rf_dataset *d;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &d));
    return d;
}

/* Makes the image with these choices. */
static void vary(const rf_augment_params *p, bool flip, int down, int right, float out[PIXELS])
{
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            for (int c = 0; c < CHANNELS; c++) {
                const int row = y + down, column = x + right;
                float value = 0;
                if (row >= 0 && row < HEIGHT && column >= 0 && column < WIDTH)
                    value = (float)(1 + (row * WIDTH + (flip ? WIDTH - 1 - column : column)) * CHANNELS + c);
                out[(y * WIDTH + x) * CHANNELS + c] = (value - p->mean[c]) / p->deviation[c];
            }
}

static void check_augment(const rf_augment_params *p, int *flips, int *places)
{
    rf_dataset *d = images();
    rf_iterator *it;
    const rf_element *e;
    APPLY(d, rf_dataset_map_augment(d, 0, 9, p, &applied_));
    *flips = *places = 0;
    for (uint64_t epoch = 0; epoch < 5; epoch++) {
        OK(rf_iterator_create(d, epoch, &it));
        for (int i = 0; i < N; i++) {
            OK(rf_iterator_next(it, &e));
            assert_int_equal(e->component[0].dtype, RF_F32);
            assert_int_equal(*(int32_t *)e->component[1].data, i);
            int matches = 0;
            for (int choice = 0; choice < 2 * 9; choice++) {
                float expected[PIXELS];
                const int down = choice / 2 / 3 - 1, right = choice / 2 % 3 - 1;
                vary(p, choice % 2, down, right, expected);
                if (memcmp(expected, e->component[0].data, sizeof(expected)) != 0) continue;
                matches++;
                *flips += choice % 2;
                *places |= 1 << choice / 2;
            }
            assert_int_equal(matches, 1);
        }
        rf_iterator_destroy(&it);
    }
    rf_dataset_destroy(&d);
}

TEST(test_augment)
{
    int flips, places;
    rf_augment_params p = { .flip = true, .pad = 1, .mean = { 3, 4 }, .deviation = { 2, 0.5f } };
    check_augment(&p, &flips, &places);
    assert_true(abs(flips - 5 * N / 2) < 5 * sqrt(5 * N) / 2);
    assert_int_equal(places, (1 << 9) - 1);
    p.flip = false;
    p.pad = 0;
    check_augment(&p, &flips, &places);
    assert_int_equal(flips, 0);
    assert_int_equal(places, 1 << 4);
}

/* ---- filters ---- */

static rf_result keep_thirds(void *user, const rf_element *in, bool *keep)
{
    int *failures = user;
    const int32_t value = *(const int32_t *)in->component[0].data;
    if (value == 9 && failures && (*failures)-- > 0) return RF_ERROR_IO;
    *keep = value % 3 == 0;
    return RF_OK;
}

TEST(test_filter)
{
    int32_t values[N], rest[N];
    rf_dataset *d = numbers();
    APPLY(d, rf_dataset_filter(d, keep_thirds, NULL, &applied_));
    assert_int_equal(rf_dataset_cardinality(d), RF_CARDINALITY_UNKNOWN);
    APPLY(d, rf_dataset_batch(d, BATCH, RF_REMAINDER_KEEP, &applied_));
    rf_iterator *it, *resumed;
    void *saved;
    size_t size;
    OK(rf_iterator_create(d, 0, &it));
    assert_int_equal(read_batches(it, values, 1), BATCH);
    OK(rf_iterator_save(it, &saved, &size));
    assert_int_equal(read_batches(it, values + BATCH, N), N / 3 - BATCH);
    for (int i = 0; i < N / 3; i++) assert_int_equal(values[i], 3 * i);
    OK(rf_iterator_restore(d, saved, size, &resumed));
    assert_int_equal(read_batches(resumed, rest, N), N / 3 - BATCH);
    assert_memory_equal(rest, values + BATCH, (N / 3 - BATCH) * sizeof(*rest));
    rf_iterator_destroy(&it);
    rf_iterator_destroy(&resumed);
    rf_iterator_state_free(saved);
    rf_dataset_destroy(&d);
}

TEST(test_failing_filter)
{
    int failures = 1;
    rf_dataset *d = numbers();
    APPLY(d, rf_dataset_filter(d, keep_thirds, &failures, &applied_));
    rf_iterator *it;
    const rf_element *e;
    OK(rf_iterator_create(d, 0, &it));
    for (int i = 0; i < 3; i++) OK(rf_iterator_next(it, &e));
    assert_int_equal(rf_iterator_next(it, &e), RF_ERROR_IO);
    assert_non_null(strstr(rf_error_message(), "filter, element 9"));
    OK(rf_iterator_next(it, &e));
    assert_int_equal(*(int32_t *)e->component[0].data, 9);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
}

/* ---- bad arguments ---- */

static void refused(rf_dataset *in, uint32_t index, rf_augment_params p, const char *message)
{
    rf_dataset *out;
    assert_int_equal(rf_dataset_map_augment(in, index, 1, &p, &out), RF_ERROR_INVALID_ARGUMENT);
    assert_null(out);
    if (!strstr(rf_error_message(), message)) fail_msg("%s", rf_error_message());
}

TEST(test_bad_arguments)
{
    rf_dataset *in = images(), *batches, *out;
    refused(in, 2, (rf_augment_params){ 0 }, "index is 2");
    refused(in, 1, (rf_augment_params){ 0 }, "i32");
    refused(in, 0, (rf_augment_params){ .pad = -1 }, "pad -1");
    refused(in, 0, (rf_augment_params){ .pad = 5 }, "pad 5");
    refused(in, 0, (rf_augment_params){ .deviation = { 1, -1 } }, "channel 1");
    refused(in, 0, (rf_augment_params){ .mean = { NAN } }, "channel 0");
    refused(in, 0, (rf_augment_params){ .mean = { 0, 0, 1 } }, "2 channels");
    OK(rf_dataset_batch(in, 4, RF_REMAINDER_KEEP, &batches));
    refused(batches, 0, (rf_augment_params){ 0 }, "before they are batched");
    assert_int_equal(rf_dataset_map_random(NULL, add_noise, NULL, 1, &number, &out), RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_dataset_map_random(in, NULL, NULL, 1, &number, &out), RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_dataset_map_random(in, add_noise, NULL, 1, &(rf_element_spec){ 0 }, &out),
                     RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_dataset_filter(in, NULL, NULL, &out), RF_ERROR_INVALID_ARGUMENT);
    rf_dataset_destroy(&in);
    rf_dataset_destroy(&batches);
}

TESTS(random_map, NULL, NULL)
