/* SPDX-License-Identifier: Apache-2.0 */
/* Every pass brings each example once: where passes are cut short, where users' functions fail, and where a cache
 * remembers what came. */
#include <stdio.h>
#include <string.h>

#include <ringfire/dataset.h>

#include "../support/apply.h"
#include "tests/room.h"

enum { N = 61, BATCH = 8, EPOCHS = 4 };

static const rf_element_spec number = { .num_components = 1, .dtype = { RF_I32 } };

/* ---- sources ---- */

typedef enum source { ARRAY, GENERATOR, NUM_SOURCES } source;

/* The habits of a function that fails: once at element `at`, or at every third call. */
typedef struct faults {
    int64_t at; /* -1: nowhere */
    bool often;
    rf_result code;
    uint64_t calls, failures;
} faults;

static rf_result fault(faults *f, int64_t value)
{
    f->calls++;
    if (f->often ? f->calls % 3 != 0 : f->failures > 0 || value != f->at) return RF_OK;
    f->failures++;
    return f->code;
}

static rf_result generate(void *user, uint64_t index, rf_element *out)
{
    if (index >= N) return RF_END;
    *(int32_t *)out->component[0].data = (int32_t)index;
    return user ? fault(user, (int64_t)index) : RF_OK;
}

static rf_result copy(void *user, const rf_element *in, rf_element *out)
{
    const int32_t value = *(const int32_t *)in->component[0].data;
    *(int32_t *)out->component[0].data = value;
    return fault(user, value);
}

static rf_dataset *make_source(source which, faults *f)
{
    static int32_t values[N];
    rf_dataset *d;
    for (int i = 0; i < N; i++) values[i] = i;
    const rf_array array = { RF_I32, RF_SHAPE(N), values };
    if (which == ARRAY)
        OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &array, .num_arrays = 1 }, &d));
    else
        OK(rf_dataset_from_generator(&(rf_dataset_generator_params){ .generate = generate, .user = f, .spec = number },
                                     &d));
    return d;
}

/* ---- reading ---- */

/* Adds what up to `batches` batches hold to counts[value]; false at the end. Failures are tried again. */
static bool read_batches(rf_iterator *it, int batches, int *counts, int *failures)
{
    for (int i = 0; i < batches;) {
        const rf_element *e;
        const rf_result r = rf_iterator_next(it, &e);
        if (r == RF_END) return false;
        if (r < 0) {
            assert_true(++*failures < 1000);
            continue;
        }
        OK(r);
        for (int64_t k = 0; k < rf_shape_count(e->component[0].shape); k++) {
            const int32_t value = ((const int32_t *)e->component[0].data)[k];
            assert_true(value >= 0 && value < N);
            counts[value]++;
        }
        i++;
    }
    return true;
}

static void read_epoch(const rf_dataset *d, uint64_t epoch, int *counts)
{
    rf_iterator *it;
    int failures = 0;
    OK(rf_iterator_create(d, epoch, &it));
    assert_false(read_batches(it, 1000, counts, &failures));
    rf_iterator_destroy(&it);
}

static void expect_counts(const int *counts, int each)
{
    for (int i = 0; i < N; i++) {
        if (counts[i] != each) print_error("element %d: %d times, not %d\n", i, counts[i], each);
        assert_int_equal(counts[i], each);
    }
}

/* ---- passes that are cut short ---- */

/* The order of a pass is the shuffle's, through a buffer of any size; the cache is above it. */
static rf_dataset *make_cached(source which, uint64_t buffer, bool twice)
{
    rf_dataset *d = make_source(which, NULL);
    APPLY(d, rf_dataset_shuffle(d, buffer, 7, RF_SHUFFLE_EACH_PASS, &applied_));
    APPLY(d, rf_dataset_cache(d, &applied_));
    if (twice) APPLY(d, rf_dataset_cache(d, &applied_));
    APPLY(d, rf_dataset_batch(d, BATCH, RF_REMAINDER_KEEP, &applied_));
    return d;
}

TEST(test_incomplete_pass_is_discarded)
{
    for (int which = 0; which < NUM_SOURCES; which++) {
        for (int small = 0; small < 4; small++) {
            rf_dataset *d = make_cached((source)which, small & 1 ? 10 : 1000, small & 2);
            int counts[N] = { 0 }, ignored[N] = { 0 }, failures = 0;
            rf_iterator *it;
            OK(rf_iterator_create(d, 0, &it));
            assert_true(read_batches(it, 3, ignored, &failures));
            rf_iterator_destroy(&it);
            for (uint64_t e = 1; e <= EPOCHS; e++) read_epoch(d, e, counts);
            expect_counts(counts, EPOCHS);
            rf_dataset_destroy(&d);
        }
    }
}

/* A run that stops within an epoch and goes on from the saved position, in the same process or in a new one, which
 * has nothing in its cache. */
TEST(test_resumed_pass)
{
    for (int which = 0; which < NUM_SOURCES; which++) {
        for (int variant = 0; variant < 4; variant++) {
            const uint64_t stopped = variant & 1;
            rf_dataset *d = make_cached((source)which, 1000, false), *fresh = make_cached((source)which, 1000, false);
            rf_dataset *later = variant & 2 ? fresh : d;
            int counts[N] = { 0 }, failures = 0;
            for (uint64_t e = 0; e < stopped; e++) read_epoch(d, e, counts);
            rf_iterator *it;
            void *saved;
            size_t size;
            OK(rf_iterator_create(d, stopped, &it));
            assert_true(read_batches(it, 3, counts, &failures));
            OK(rf_iterator_save(it, &saved, &size));
            rf_iterator_destroy(&it);
            OK(rf_iterator_restore(later, saved, size, &it));
            rf_iterator_state_free(saved);
            assert_false(read_batches(it, 1000, counts, &failures));
            rf_iterator_destroy(&it);
            for (uint64_t e = stopped + 1; e < EPOCHS; e++) read_epoch(later, e, counts);
            expect_counts(counts, EPOCHS);
            rf_dataset_destroy(&d);
            rf_dataset_destroy(&fresh);
        }
    }
}

/* ---- functions that fail ---- */

/* Pipelines over a function that may fail: what stands between it and the end of the pipeline. */
enum { PLAIN, CACHED, SHUFFLED, SHUFFLED_CACHED, PREFETCHED, REPEATED, WINDOWED, NUM_PIPELINES };

static rf_dataset *make_failing(source which, int pipeline, bool in_map, faults *f)
{
    rf_dataset *d = make_source(which, in_map ? NULL : f);
    if (in_map) APPLY(d, rf_dataset_map(d, copy, f, &number, &applied_));
    if (pipeline == SHUFFLED || pipeline == SHUFFLED_CACHED)
        APPLY(d, rf_dataset_shuffle(d, 9, 3, RF_SHUFFLE_EACH_PASS, &applied_));
    if (pipeline == CACHED || pipeline == SHUFFLED_CACHED) APPLY(d, rf_dataset_cache(d, &applied_));
    if (pipeline == WINDOWED) {
        APPLY(d, rf_dataset_skip(d, 0, &applied_));
        APPLY(d, rf_dataset_take(d, N, &applied_));
    }
    if (pipeline == REPEATED) APPLY(d, rf_dataset_repeat(d, 1, &applied_));
    APPLY(d, rf_dataset_batch(d, BATCH, RF_REMAINDER_KEEP, &applied_));
    if (pipeline == PREFETCHED) APPLY(d, rf_dataset_prefetch(d, 2, &applied_));
    return d;
}

TEST(test_failure_loses_nothing)
{
    for (int pipeline = 0; pipeline < NUM_PIPELINES; pipeline++) {
        for (int variant = 0; variant < 8; variant++) {
            const bool in_map = variant & 1, often = variant & 2;
            const source which = variant & 4 ? ARRAY : GENERATOR;
            if (which == ARRAY && !in_map) continue;                     /* nothing in it can fail */
            if (which == ARRAY && often && pipeline != CACHED) continue; /* a batch is fetched as a whole, and anew */
            faults f = { .at = 29, .often = often, .code = RF_ERROR_IO };
            rf_dataset *d = make_failing(which, pipeline, in_map, &f);
            int counts[N] = { 0 }, failures = 0;
            for (uint64_t e = 0; e < 2; e++) {
                rf_iterator *it;
                OK(rf_iterator_create(d, e, &it));
                while (read_batches(it, 1, counts, &failures)) {}
                rf_iterator_destroy(&it);
                expect_counts(counts, (int)e + 1);
            }
            assert_int_equal(failures, f.failures);
            assert_true(failures > 0);
            rf_dataset_destroy(&d);
        }
    }
}

/* The order is that of a pass without failures. */
TEST(test_failure_keeps_order)
{
    int32_t orders[2][N];
    for (int often = 0; often < 2; often++) {
        faults f = { .at = -1, .often = often, .code = RF_ERROR_IO };
        rf_dataset *d = make_failing(GENERATOR, SHUFFLED, true, &f);
        rf_iterator *it;
        OK(rf_iterator_create(d, 1, &it));
        int n = 0;
        for (rf_result r = RF_OK; r != RF_END;) {
            const rf_element *e;
            r = rf_iterator_next(it, &e);
            if (r != RF_OK) continue;
            memcpy(&orders[often][n], e->component[0].data,
                   (size_t)rf_shape_count(e->component[0].shape) * sizeof(int32_t));
            n += (int)rf_shape_count(e->component[0].shape);
        }
        assert_int_equal(n, N);
        rf_iterator_destroy(&it);
        rf_dataset_destroy(&d);
    }
    assert_memory_equal(orders[0], orders[1], sizeof(orders[0]));
}

/* ---- codes that mean nothing ---- */

TEST(test_unknown_codes)
{
    const struct {
        rf_result code;
        bool in_map;
        rf_result expected;
        const char *message;
    } cases[] = {
        { (rf_result)7, false, RF_ERROR_INVALID_ARGUMENT, "generator, element 5: the function returned 7 (unknown" },
        { (rf_result)7, true, RF_ERROR_INVALID_ARGUMENT, "map, element 5: the function returned 7 (unknown" },
        { RF_END, true, RF_ERROR_INVALID_ARGUMENT, "map, element 5: the function returned 1 (RF_END)" },
        { (rf_result)-77, true, (rf_result)-77, "map, element 5: the function returned -77 (unknown" },
        { RF_ERROR_IO, false, RF_ERROR_IO, "generator, element 5: the function returned RF_ERROR_IO" },
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        for (int pipeline = 0; pipeline < NUM_PIPELINES; pipeline++) {
            if (pipeline == SHUFFLED || pipeline == SHUFFLED_CACHED) continue; /* elements come in another order */
            faults f = { .at = 5, .code = cases[c].code };
            rf_dataset *d = make_failing(GENERATOR, pipeline, cases[c].in_map, &f);
            rf_iterator *it;
            const rf_element *e;
            OK(rf_iterator_create(d, 0, &it));
            assert_int_equal(rf_iterator_next(it, &e), cases[c].expected);
            if (strncmp(rf_error_message(), cases[c].message, strlen(cases[c].message)) != 0)
                print_error("'%s' does not begin with '%s'\n", rf_error_message(), cases[c].message);
            assert_memory_equal(rf_error_message(), cases[c].message, strlen(cases[c].message));
            rf_iterator_destroy(&it);
            rf_dataset_destroy(&d);
        }
    }
}

TESTS(cache, NULL, NULL)
