/* SPDX-License-Identifier: Apache-2.0 */
/* Mixup: each row is a part of itself and the rest of another row of its batch, with its label. */
#include <math.h>

#include "base/philox.h"
#include "combined.h"
#include "tests/room.h"

enum { N = 50, BATCH = 8, WIDTH = 5 };

/* Row i: i in all places, and as its label a one in place i. */
static rf_dataset *rows(void)
{
    static float images[N * WIDTH], labels[N * N];
    rf_dataset *d;
    for (int i = 0; i < N * WIDTH; i++) images[i] = (float)(i / WIDTH);
    for (int i = 0; i < N; i++) labels[i * N + i] = 1;
    const rf_array arrays[] = { { RF_F32, RF_SHAPE(N, WIDTH), images }, { RF_F32, RF_SHAPE(N, N), labels } };
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &d));
    return d;
}

static rf_dataset *mixed(double alpha, uint32_t num_threads)
{
    rf_dataset *d = rows();
    APPLY(d, rf_dataset_batch(d, BATCH, RF_REMAINDER_KEEP, &applied_));
    APPLY(d, rf_dataset_mixup(d, 3, &(rf_mixup_params){ .alpha = alpha }, &applied_));
    APPLY(d, rf_dataset_parallel(d, num_threads, &applied_));
    return d;
}

/* Checks a batch, whose labels say what is in it; adds the parts and their squares to `sums`. */
static void check_batch(const rf_element *e, int batch, double sums[2])
{
    const float *images = e->component[0].data, *labels = e->component[1].data;
    const int64_t size = e->component[0].shape.dim[0];
    double whole[BATCH] = { 0 }; /* how much of each row is in the batch as a partner */
    for (int64_t i = 0; i < size; i++) {
        const double part = (double)labels[i * N + batch * BATCH + i];
        double sum = 0, expected = 0;
        for (int k = 0; k < N; k++) {
            const double share = (double)labels[i * N + k];
            assert_true(share >= 0 && (share == 0 || k / BATCH == batch));
            sum += share;
            expected += share * k;
            if (share > 0 && k != batch * BATCH + i) {
                assert_true(fabs(share - (1 - part)) < 1e-6);
                whole[k % BATCH]++;
            }
        }
        assert_true(fabs(sum - 1) < 1e-6);
        for (int k = 0; k < WIDTH; k++) assert_true(fabs((double)images[i * WIDTH + k] - expected) < 1e-4);
        sums[0] += part;
        sums[1] += part * part;
    }
    for (int i = 0; i < BATCH; i++) assert_true(whole[i] <= 1); /* the partners are another order of the batch */
}

/* Beta(a, a) has the mean 1/2 and the variance 1 / (8a + 4); a row that is its own partner has the part 1. */
static void check_parts(double alpha)
{
    enum { PASSES = 60 };
    double sums[2] = { 0 };
    rf_dataset *d = mixed(alpha, 1);
    for (uint64_t epoch = 0; epoch < PASSES; epoch++) {
        rf_iterator *it;
        const rf_element *e;
        OK(rf_iterator_create(d, epoch, &it));
        for (int batch = 0; rf_iterator_next(it, &e) == RF_OK; batch++) check_batch(e, batch, sums);
        rf_iterator_destroy(&it);
    }
    const double n = N * PASSES, own = 7.0 / N; /* batches that have one partner for each row itself: 7 in a pass */
    const double square = 0.25 + 1 / (8 * alpha + 4);
    assert_true(fabs(sums[0] / n - (own + (1 - own) / 2)) < 0.04);
    assert_true(fabs(sums[1] / n - (own + (1 - own) * square)) < 0.04);
    rf_dataset_destroy(&d);
}

TEST(test_parts)
{
    check_parts(0.2);
    check_parts(1);
    check_parts(30);
    /* So small that all parts are 0 or 1: no number becomes another one that is none. */
    check_parts(1e-9);
}

/* Images of which each pixel has the number of the row, so that they can be compared with their labels. */
TEST(test_cuts)
{
    enum { HEIGHT = 7, WIDE = 9, CHANNELS = 2, PIXELS = HEIGHT * WIDE, ROWS = 6, PASSES = 200 };
    static float images[ROWS * PIXELS * CHANNELS], labels[ROWS * ROWS];
    for (int i = 0; i < ROWS * PIXELS * CHANNELS; i++) images[i] = (float)(i / (PIXELS * CHANNELS));
    for (int i = 0; i < ROWS; i++) labels[i * ROWS + i] = 1;
    const rf_array arrays[] = { { RF_F32, RF_SHAPE(ROWS, ROWS), labels },
                                { RF_F32, RF_SHAPE(ROWS, HEIGHT, WIDE, CHANNELS), images } };
    rf_dataset *d, *out;
    double stays = 0;
    bool corner = false;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &d));
    APPLY(d, rf_dataset_batch(d, ROWS, RF_REMAINDER_KEEP, &applied_));
    FAILS(rf_dataset_cutmix(d, 0, 1, NULL, &out), RF_ERROR_INVALID_ARGUMENT, "component 0 has the shape [6,6]");
    FAILS(rf_dataset_cutmix(d, 2, 1, NULL, &out), RF_ERROR_INVALID_ARGUMENT, "index is 2");
    FAILS(rf_dataset_cutmix(d, 1, 1, &(rf_mixup_params){ .alpha = -1 }, &out), RF_ERROR_INVALID_ARGUMENT,
          "rf_dataset_cutmix: alpha is -1");
    APPLY(d, rf_dataset_cutmix(d, 1, 5, NULL, &applied_));
    for (uint64_t epoch = 0; epoch < PASSES; epoch++) {
        rf_iterator *it;
        const rf_element *e;
        OK(rf_iterator_create(d, epoch, &it));
        OK(rf_iterator_next(it, &e));
        const float *label = e->component[0].data, *image = e->component[1].data;
        for (int row = 0; row < ROWS; row++, label += ROWS, image += PIXELS * CHANNELS) {
            int count[ROWS] = { 0 }, top = HEIGHT, left = WIDE, bottom = -1, right = -1;
            for (int i = 0; i < PIXELS; i++) {
                const int number = (int)image[i * CHANNELS];
                assert_true(image[i * CHANNELS + 1] == (float)number);
                count[number]++;
                if (number == row) continue;
                top = i / WIDE < top ? i / WIDE : top;
                bottom = i / WIDE;
                left = i % WIDE < left ? i % WIDE : left;
                right = i % WIDE > right ? i % WIDE : right;
            }
            /* A rectangle; a row that is its own partner has the label 1, whatever was cut. */
            if (bottom >= 0) assert_int_equal(PIXELS - count[row], (bottom - top + 1) * (right - left + 1));
            for (int k = 0; k < ROWS; k++) assert_true(fabs((double)label[k] - (double)count[k] / PIXELS) < 1e-6);
            stays += (double)label[row];
            corner |= bottom == HEIGHT - 1 && right == WIDE - 1;
        }
        rf_iterator_destroy(&it);
    }
    stays /= ROWS * PASSES;
    assert_true(corner && stays > 0.6 && stays < 0.85);
    rf_dataset_destroy(&d);
}

static int read_rows(rf_iterator *it, int batches, float *to)
{
    int n = 0;
    const rf_element *e;
    for (int i = 0; i < batches && rf_iterator_next(it, &e) == RF_OK; i++) {
        const int64_t size = e->component[0].shape.dim[0];
        memcpy(to + n * WIDTH, e->component[0].data, (size_t)size * WIDTH * sizeof(float));
        n += (int)size;
    }
    return n;
}

TEST(test_threads_and_positions)
{
    static float first[N * WIDTH], other[N * WIDTH];
    for (uint32_t threads = 1; threads < 4; threads++)
        for (int stop = 0; stop < 8; stop++) {
            float *to = threads == 1 && stop == 0 ? first : other;
            rf_dataset *d = mixed(1, threads), *twin = mixed(1, 3 - threads / 2);
            rf_iterator *it;
            void *saved;
            size_t size;
            OK(rf_iterator_create(d, 2, &it));
            const int begun = read_rows(it, stop, to);
            OK(rf_iterator_save(it, &saved, &size));
            rf_iterator_destroy(&it);
            OK(rf_iterator_restore(twin, saved, size, &it));
            assert_int_equal(begun + read_rows(it, N, to + begun * WIDTH), N);
            assert_memory_equal(first, to, sizeof(first));
            rf_iterator_destroy(&it);
            rf_iterator_state_free(saved);
            rf_dataset_destroy(&d);
            rf_dataset_destroy(&twin);
        }
}

/* Two data sets of which one is shorter: their last batches have different rows. */
TEST(test_uneven_rows)
{
    rf_dataset *all = rows(), *fewer, *d;
    rf_iterator *it;
    const rf_element *e;
    OK(rf_dataset_take(all, N - 1, &fewer));
    APPLY(all, rf_dataset_batch(all, BATCH, RF_REMAINDER_KEEP, &applied_));
    APPLY(fewer, rf_dataset_batch(fewer, BATCH, RF_REMAINDER_KEEP, &applied_));
    OK(rf_dataset_zip((const rf_dataset *[]){ all, fewer }, 2, &d));
    APPLY(d, rf_dataset_mixup(d, 1, NULL, &applied_));
    OK(rf_iterator_create(d, 0, &it));
    for (int i = 0; i < N / BATCH; i++) OK(rf_iterator_next(it, &e));
    FAILS(rf_iterator_next(it, &e), RF_ERROR_INVALID_ARGUMENT, "component 2 has 1 rows, component 0 has 2");
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&all);
    rf_dataset_destroy(&fewer);
    rf_dataset_destroy(&d);
}

TEST(test_bad_arguments)
{
    rf_dataset *d = rows(), *out;
    FAILS(rf_dataset_mixup(d, 1, NULL, &out), RF_ERROR_INVALID_ARGUMENT, "not batched; call rf_dataset_batch() first");
    APPLY(d, rf_dataset_batch(d, 2, RF_REMAINDER_KEEP, &applied_));
    FAILS(rf_dataset_mixup(d, 1, &(rf_mixup_params){ .alpha = -1 }, &out), RF_ERROR_INVALID_ARGUMENT, "alpha is -1");
    FAILS(rf_dataset_mixup(d, 1, &(rf_mixup_params){ .alpha = NAN }, &out), RF_ERROR_INVALID_ARGUMENT, "alpha is nan");
    assert_null(out);
    rf_dataset *part;
    OK(rf_dataset_slice(d, &(rf_slice_params){ .num_workers = 2, .split = halve }, &part));
    FAILS(rf_dataset_mixup(part, 1, NULL, &out), RF_ERROR_INVALID_ARGUMENT, "mix whole batches, then distribute");
    rf_dataset_destroy(&part);
    int32_t labels[2] = { 0 };
    const rf_array array = { RF_I32, RF_SHAPE(2), labels };
    rf_dataset_destroy(&d);
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &array, .num_arrays = 1 }, &d));
    APPLY(d, rf_dataset_batch(d, 2, RF_REMAINDER_KEEP, &applied_));
    FAILS(rf_dataset_mixup(d, 1, NULL, &out), RF_ERROR_INVALID_ARGUMENT, "component 0 is i32, not f32");
    rf_dataset_destroy(&d);
}

TESTS(mixup, NULL, NULL)
