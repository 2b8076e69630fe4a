/* SPDX-License-Identifier: Apache-2.0 */
/* Sources of numbers, and checks that hold for every step: what the tests of steps over datasets share. */
#ifndef RF_TESTS_DATA_COMBINED_H
#define RF_TESTS_DATA_COMBINED_H

#include <string.h>

#include "../support/apply.h"
#include "../support/expect.h"
#include "base/error.h"
#include "data/slice.h"
#include <ringfire/dataset.h>

enum { MOST_NUMBERS = 4096 };

/* first, first + 1 ..., `count` i32 scalars, which can be fetched by number. */
static inline rf_dataset *count_from(int32_t first, int32_t count)
{
    int32_t values[256];
    rf_dataset *d;
    assert_true(count <= 256);
    for (int32_t i = 0; i < count; i++) values[i] = first + i;
    const rf_array array = { RF_I32, RF_SHAPE(count), values };
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &array, .num_arrays = 1 }, &d));
    return d;
}

static inline rf_result keep_all(void *user, const rf_element *in, bool *keep)
{
    (void)user;
    (void)in;
    *keep = true;
    return RF_OK;
}

/* The same numbers, read in order. */
static inline rf_dataset *count_in_order(int32_t first, int32_t count)
{
    rf_dataset *d = count_from(first, count);
    APPLY(d, rf_dataset_filter(d, keep_all, NULL, &applied_));
    return d;
}

static inline rf_dataset *source(bool in_order, int32_t first, int32_t count)
{
    return in_order ? count_in_order(first, count) : count_from(first, count);
}

/* Adds a random number of thousands to a number. */
static inline rf_result scatter(void *user, rf_random_key key, const rf_element *in, rf_element *out)
{
    (void)user;
    *(int32_t *)out->component[0].data =
        *(const int32_t *)in->component[0].data + 1000 * (int32_t)rf_random_key_below(key, 0, 1000);
    return RF_OK;
}

/* Writes all numbers of an element behind one another: for each component its dim[0] (scalars: -1) and its data. */
static inline int flatten(const rf_element *e, int32_t *out)
{
    int n = 0;
    for (uint32_t c = 0; c < e->num_components; c++) {
        const rf_array *a = &e->component[c];
        assert_int_equal(a->dtype, RF_I32);
        const int64_t count = rf_shape_count(a->shape);
        out[n++] = a->shape.rank > 0 ? (int32_t)a->shape.dim[0] : -1;
        memcpy(out + n, a->data, (size_t)count * sizeof(int32_t));
        n += (int)count;
    }
    return n;
}

/* Reads at most `limit` elements; returns how many numbers they are. */
static inline int read_numbers(rf_iterator *it, int limit, int32_t *out)
{
    int n = 0;
    for (int i = 0; i < limit; i++) {
        const rf_element *e;
        const rf_result r = rf_iterator_next(it, &e);
        if (r == RF_END) break;
        OK(r);
        assert_true(n + 256 < MOST_NUMBERS);
        n += flatten(e, out + n);
    }
    return n;
}

static inline int read_pass(const rf_dataset *d, uint64_t epoch, int32_t *out)
{
    rf_iterator *it;
    OK(rf_iterator_create(d, epoch, &it));
    const int n = read_numbers(it, MOST_NUMBERS, out);
    rf_iterator_destroy(&it);
    return n;
}

/* Reads all values of a pass over scalars. */
static inline int read_scalars(const rf_dataset *d, int32_t *out)
{
    int32_t n[MOST_NUMBERS];
    const int count = read_pass(d, 0, n) / 2;
    for (int i = 0; i < count; i++) out[i] = n[2 * i + 1];
    return count;
}

/* From wherever a pass over `d` stops, its twin goes on with exactly what was left. Destroys both. */
static inline void expect_resumes_everywhere(rf_dataset *d, rf_dataset *twin)
{
    static int32_t before[MOST_NUMBERS], rest[MOST_NUMBERS], resumed_rest[MOST_NUMBERS];
    for (int stop = 0, n = 1; n > 0; stop++) {
        rf_iterator *it, *resumed;
        void *saved;
        size_t size;
        OK(rf_iterator_create(d, 2, &it));
        read_numbers(it, stop, before);
        OK(rf_iterator_save(it, &saved, &size));
        n = read_numbers(it, MOST_NUMBERS, rest);
        OK(rf_iterator_restore(twin, saved, size, &resumed));
        assert_int_equal(read_numbers(resumed, MOST_NUMBERS, resumed_rest), n);
        assert_memory_equal(rest, resumed_rest, sizeof(int32_t) * (size_t)n);
        rf_iterator_state_free(saved);
        rf_iterator_destroy(&it);
        rf_iterator_destroy(&resumed);
        assert_true(stop < 1000);
    }
    rf_dataset_destroy(&d);
    rf_dataset_destroy(&twin);
}

/* How the rows of a batch are divided between two workers. */
static inline void halve(const void *user, uint32_t rows, uint32_t *counts)
{
    (void)user;
    counts[0] = rows / 2;
    counts[1] = rows - rows / 2;
}

/* Two workers' rows together are the batches of one. Destroys the dataset. */
static inline void expect_rows_of_two_workers(rf_dataset *whole)
{
    rf_dataset *part[2];
    rf_iterator *it, *mine[2];
    OK(rf_iterator_create(whole, 1, &it));
    for (uint32_t w = 0; w < 2; w++) {
        OK(rf_dataset_slice(whole, &(rf_slice_params){ .worker = w, .num_workers = 2, .split = halve }, &part[w]));
        OK(rf_iterator_create(part[w], 1, &mine[w]));
    }
    const rf_element *all, *e;
    while (rf_iterator_next(it, &all) == RF_OK) {
        const int32_t *values = all->component[0].data;
        int64_t at = 0;
        for (int w = 0; w < 2; w++) {
            OK(rf_iterator_next(mine[w], &e));
            assert_int_equal(e->global_rows, all->component[0].shape.dim[0]);
            assert_int_equal(e->first_row, at);
            const size_t bytes = (size_t)e->component[0].shape.dim[0] * sizeof(int32_t);
            if (bytes) assert_memory_equal(e->component[0].data, values + at, bytes);
            at += e->component[0].shape.dim[0];
        }
        assert_int_equal(at, e->global_rows);
    }
    for (int w = 0; w < 2; w++) {
        assert_int_equal(rf_iterator_next(mine[w], &e), RF_END);
        rf_iterator_destroy(&mine[w]);
        rf_dataset_destroy(&part[w]);
    }
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&whole);
}

/* A step that fails once at one element. */
typedef struct stumble {
    int32_t at;
    bool over;
} stumble;

static inline rf_result fail_once(void *user, const rf_element *in, rf_element *out)
{
    stumble *s = user;
    const int32_t value = *(const int32_t *)in->component[0].data;
    if (value == s->at && !s->over) {
        s->over = true;
        return RF_FAIL(RF_ERROR_IO, "disk on fire");
    }
    *(int32_t *)out->component[0].data = value;
    return RF_OK;
}

/* A position in one of them means nothing in the other. Destroys both. */
static inline void expect_other_pipeline(rf_dataset *d, rf_dataset *other)
{
    rf_iterator *it, *resumed;
    void *saved;
    size_t size;
    OK(rf_iterator_create(d, 0, &it));
    OK(rf_iterator_save(it, &saved, &size));
    FAILS(rf_iterator_restore(other, saved, size, &resumed), RF_ERROR_INVALID_ARGUMENT, "another pipeline");
    rf_iterator_state_free(saved);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
    rf_dataset_destroy(&other);
}

#endif
