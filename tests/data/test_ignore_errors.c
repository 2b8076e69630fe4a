/* SPDX-License-Identifier: Apache-2.0 */
/* Elements that fail are left out and counted, below every kind of step, and nothing else is lost. */
#include <errno.h>
#include <stdio.h>
#include <zlib.h>

#include "../support/clock.h"
#include "../support/folder.h"
#include "base/error.h"
#include "combined.h"
#include "data/slice.h"
#include "tests/room.h"
#include <ringfire/readers.h>

enum { COUNT = 20 };

/* Refuses multiples of *user; each time as another of the failures that an element may be to blame for. */
static rf_result refuse_multiples(void *user, const rf_element *in, rf_element *out)
{
    static const rf_result codes[] = { RF_ERROR_CORRUPT_DATA, RF_ERROR_INVALID_ARGUMENT, RF_ERROR_UNSUPPORTED,
                                       RF_ERROR_NOT_FOUND, RF_ERROR_IO };
    const int32_t value = *(const int32_t *)in->component[0].data, divisor = *(const int32_t *)user;
    *(int32_t *)out->component[0].data = value;
    if (value % divisor) return RF_OK;
    return RF_FAIL(codes[(uint32_t)(value / divisor) % 5], "%d is refused", value);
}

static int32_t three = 3, five = 5;
static const rf_element_spec number_spec = { .num_components = 1, .dtype = { RF_I32 } };

/* 0 to 19, of which every third fails. */
static rf_dataset *failing(bool indexed)
{
    rf_dataset *d = indexed ? count_from(0, COUNT) : count_in_order(0, COUNT);
    APPLY(d, rf_dataset_map(d, refuse_multiples, &three, &number_spec, &applied_));
    return d;
}

static rf_result keep_odd(void *user, const rf_element *in, bool *keep)
{
    (void)user;
    *keep = *(const int32_t *)in->component[0].data % 2;
    return RF_OK;
}

static rf_result refuse_fives(void *user, const rf_element *in, bool *keep)
{
    (void)user;
    *keep = true;
    if (*(const int32_t *)in->component[0].data % 5) return RF_OK;
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "a multiple of five");
}

/* Two elements of one: the second pair of a failing map, so that what is made fails as well. */
static rf_result make_pair(void *user, const rf_element *in, rf_dataset **out)
{
    (void)user;
    const int32_t first = *(const int32_t *)in->component[0].data;
    if (first == 4) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "no pair of 4");
    rf_dataset *d = count_from(10 * first, 2);
    const rf_result r = rf_dataset_map(d, refuse_multiples, &five, &number_spec, out);
    rf_dataset_destroy(&d);
    return r;
}

/* The number as a row of one, of two that there may be. */
static rf_result make_row(void *user, const rf_element *in, rf_element *out)
{
    (void)user;
    out->component[0].shape.dim[0] = 1;
    *(int32_t *)out->component[0].data = *(const int32_t *)in->component[0].data;
    return RF_OK;
}

static const rf_element_spec row_spec = { .num_components = 1, .dtype = { RF_I32 }, .shape = { { 1, { 2 } } } };

enum {
    MAP,
    RANDOM,
    FILTER,
    FAILING_FILTER,
    CACHE,
    TAKE,
    SHARD,
    SHARD_OF_FILTER,
    SHUFFLE,
    FULL_SHUFFLE,
    REPEAT,
    PREFETCH,
    PARALLEL,
    ZIP,
    CONCATENATE,
    BATCH,
    UNBATCH,
    PADDED_BATCH,
    FLAT_MAP,
    INTERLEAVE,
    STEPS
};

static rf_result pass_on(void *user, rf_random_key key, const rf_element *in, rf_element *out)
{
    (void)user;
    (void)key;
    *(int32_t *)out->component[0].data = *(const int32_t *)in->component[0].data;
    return RF_OK;
}

/* A step over the failing numbers, with the errors ignored above it. */
static rf_dataset *ignoring(int step, bool indexed)
{
    rf_dataset *d = failing(indexed), *other = indexed ? count_from(100, COUNT) : count_in_order(100, COUNT);
    switch (step) {
    case RANDOM: APPLY(d, rf_dataset_map_random(d, pass_on, NULL, 1, &number_spec, &applied_)); break;
    case FILTER: APPLY(d, rf_dataset_filter(d, keep_odd, NULL, &applied_)); break;
    case FAILING_FILTER: APPLY(d, rf_dataset_filter(d, refuse_fives, NULL, &applied_)); break;
    case CACHE: APPLY(d, rf_dataset_cache(d, &applied_)); break;
    case TAKE:
        APPLY(d, rf_dataset_skip(d, 2, &applied_));
        APPLY(d, rf_dataset_take(d, 12, &applied_));
        break;
    case SHARD: APPLY(d, rf_dataset_shard(d, 2, 1, &applied_)); break;
    case SHARD_OF_FILTER:
        APPLY(d, rf_dataset_filter(d, refuse_fives, NULL, &applied_));
        APPLY(d, rf_dataset_shard(d, 2, 1, &applied_));
        break;
    case SHUFFLE: APPLY(d, rf_dataset_shuffle(d, 4, 9, RF_SHUFFLE_EACH_PASS, &applied_)); break;
    case FULL_SHUFFLE: APPLY(d, rf_dataset_shuffle(d, 100, 9, RF_SHUFFLE_EACH_PASS, &applied_)); break;
    case REPEAT: APPLY(d, rf_dataset_repeat(d, 2, &applied_)); break;
    case PREFETCH: APPLY(d, rf_dataset_prefetch(d, 3, &applied_)); break;
    case PARALLEL: APPLY(d, rf_dataset_parallel(d, 3, &applied_)); break;
    case ZIP: APPLY(d, rf_dataset_zip((const rf_dataset *const[]){ other, d, other }, 3, &applied_)); break;
    case CONCATENATE: APPLY(d, rf_dataset_concatenate(d, other, &applied_)); break;
    case BATCH: APPLY(d, rf_dataset_batch(d, 2, RF_REMAINDER_KEEP, &applied_)); break;
    case UNBATCH:
        APPLY(d, rf_dataset_batch(d, 2, RF_REMAINDER_KEEP, &applied_));
        APPLY(d, rf_dataset_unbatch(d, &applied_));
        break;
    case PADDED_BATCH:
        APPLY(d, rf_dataset_map(d, make_row, NULL, &row_spec, &applied_));
        APPLY(d,
              rf_dataset_padded_batch(d, &(rf_padded_batch_params){ .batch_size = 3, .padded = { true } }, &applied_));
        break;
    case FLAT_MAP: APPLY(d, rf_dataset_flat_map(d, make_pair, NULL, &number_spec, &applied_)); break;
    case INTERLEAVE:
        APPLY(d, rf_dataset_interleave(d, make_pair, NULL, &number_spec, &(rf_interleave_params){ .cycle_length = 3 },
                                       &applied_));
        break;
    default: break;
    }
    APPLY(d, rf_dataset_ignore_errors(d, RF_IGNORE_SILENTLY, &applied_));
    rf_dataset_destroy(&other);
    return d;
}

/* The elements that are left, as sum and number of values, and how many failed. */
static const struct {
    int values, sum, ignored;
} expected[STEPS] = {
    [MAP] = { 13, 127, 7 }, /* 0 to 19 are 190, and the multiples of three 63 */
    [RANDOM] = { 13, 127, 7 },
    [FILTER] = { 7, 1 + 5 + 7 + 11 + 13 + 17 + 19, 7 },
    [FAILING_FILTER] = { 11, 127 - 5 - 10, 9 },
    [CACHE] = { 13, 127, 7 },
    [TAKE] = { 8, 2 + 4 + 5 + 7 + 8 + 10 + 11 + 13, 4 },
    [SHARD] = { 7, 1 + 5 + 7 + 11 + 13 + 17 + 19, 3 },
    [SHARD_OF_FILTER] = { 6, 1 + 7 + 11 + 13 + 17 + 19, 9 }, /* what fails on the way to its elements as well */
    [SHUFFLE] = { 13, 127, 7 },
    [FULL_SHUFFLE] = { 13, 127, 7 },
    [REPEAT] = { 26, 254, 14 },
    [PREFETCH] = { 13, 127, 7 },
    [PARALLEL] = { 13, 127, 7 },
    [ZIP] = { 39, 127 + 2 * (1300 + 127), 7 },
    [CONCATENATE] = { 33, 127 + 2190, 7 },
    [BATCH] = { 6, 4 + 5 + 10 + 11 + 16 + 17, 7 }, /* of each batch with a failure nothing is left */
    [UNBATCH] = { 6, 4 + 5 + 10 + 11 + 16 + 17, 7 },
    [PADDED_BATCH] = { 13, 127, 7 }, /* a batch is filled with what is there */
    [FLAT_MAP] = { 12, 10 * (127 - 4) + 12, 20 },
    [INTERLEAVE] = { 12, 10 * (127 - 4) + 12, 20 },
};

TEST(test_steps)
{
    for (int step = 0; step < STEPS; step++)
        for (int indexed = 0; indexed < 2; indexed++) {
            int32_t n[MOST_NUMBERS];
            rf_dataset *d = ignoring(step, indexed);
            const int count = read_pass(d, 1, n);
            int values = 0, sum = 0;
            for (int i = 0; i < count;) { /* -1 and a scalar, or the number of rows and these */
                int rows = n[i] < 0 ? 1 : n[i];
                values += rows;
                for (i++; rows > 0; rows--, i += step == PADDED_BATCH) sum += n[i++]; /* which adds a zero to each */
            }
            if (values != expected[step].values || sum != expected[step].sum)
                fail_msg("step %d, indexed %d: %d values of %d together", step, indexed, values, sum);
            if (rf_dataset_ignored_errors(d) != (uint64_t)expected[step].ignored)
                fail_msg("step %d, indexed %d: %d errors", step, indexed, (int)rf_dataset_ignored_errors(d));
            assert_int_equal(rf_dataset_cardinality(d), RF_CARDINALITY_UNKNOWN);
            rf_dataset_destroy(&d);
            expect_resumes_everywhere(ignoring(step, indexed), ignoring(step, indexed));
        }
}

/* ---- sources that are read in order ---- */

static rf_result generate(void *user, uint64_t index, rf_element *out)
{
    (void)user;
    if (index == COUNT) return RF_END;
    *(int32_t *)out->component[0].data = (int32_t)index;
    return index % 3 ? RF_OK : RF_FAIL(RF_ERROR_CORRUPT_DATA, "a multiple of three");
}

static rf_result always_fail(void *user, uint64_t index, rf_element *out)
{
    (void)index;
    (void)out;
    errno = EMFILE;
    return *(const rf_result *)user == RF_ERROR_IO ? RF_FAIL_ERRNO(RF_ERROR_IO, "no descriptors")
                                                   : RF_FAIL(*(const rf_result *)user, "as ever");
}

static rf_dataset *generated(rf_result (*fn)(void *, uint64_t, rf_element *), rf_result *user)
{
    rf_dataset *d;
    OK(rf_dataset_from_generator(&(rf_dataset_generator_params){ .generate = fn, .user = user, .spec = number_spec },
                                 &d));
    APPLY(d, rf_dataset_ignore_errors(d, RF_IGNORE_SILENTLY, &applied_));
    return d;
}

TEST(test_generators)
{
    int32_t n[MOST_NUMBERS];
    rf_dataset *d = generated(generate, NULL);
    assert_int_equal(read_scalars(d, n), 13);
    assert_int_equal(rf_dataset_ignored_errors(d), 7);
    rf_dataset_destroy(&d);
    /* The element is not to blame, or there is no end of it: an error, each time anew. */
    static rf_result codes[] = { RF_ERROR_OUT_OF_HOST_MEMORY, RF_ERROR_INTERNAL, RF_ERROR_IO, RF_ERROR_CORRUPT_DATA };
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        rf_iterator *it;
        const rf_element *e;
        d = generated(always_fail, &codes[i]);
        OK(rf_iterator_create(d, 0, &it));
        FAILS(rf_iterator_next(it, &e), codes[i], "generator, element ");
        if (codes[i] != RF_ERROR_CORRUPT_DATA) assert_int_equal(rf_dataset_ignored_errors(d), 0);
        rf_iterator_destroy(&it);
        rf_dataset_destroy(&d);
    }
}

static int warnings;
static void count_warnings(void *user, rf_log_level level, const char *message)
{
    (void)user;
    warnings += level == RF_LOG_WARN && strstr(message, "an element is left out: map, element ");
}

TEST(test_warnings)
{
    int32_t n[MOST_NUMBERS];
    rf_log_set(count_warnings, NULL, RF_LOG_WARN);
    for (int log = 0; log < 2; log++) {
        rf_dataset *d = failing(true);
        APPLY(d, rf_dataset_ignore_errors(d, log ? RF_IGNORE_WITH_WARNING : RF_IGNORE_SILENTLY, &applied_));
        read_scalars(d, n);
        assert_int_equal(warnings, log ? 7 : 0);
        rf_dataset_destroy(&d);
    }
    rf_log_set(NULL, NULL, RF_LOG_WARN);
}

/* Lines that are too long, a compressed file that is cut, one that is gone: what can be read of the others is. */
TEST(test_lines)
{
    char folder[SCRATCH_PATH], paths[3][SCRATCH_PATH + 16];
    scratch(folder);
    for (int i = 0; i < 3; i++) snprintf(paths[i], sizeof(paths[i]), "%s/%d", folder, i);
    scratch_write(paths[0], "one\na line that is too long\ntwo\nanother one that is\nthis, too, is long");
    gzFile packed = gzopen(paths[1], "wb");
    for (int i = 0; i < 50000; i++) assert_true(gzprintf(packed, "%d\n", i * 7919 % 99991) > 0);
    assert_int_equal(gzclose(packed), Z_OK);
    assert_int_equal(truncate(paths[1], 100000), 0);
    scratch_write(paths[2], "last\n");
    rf_dataset *d;
    OK(rf_dataset_from_text_lines(
        &(rf_text_lines_params){
            .paths = (const char *const[]){ paths[0], paths[1], paths[2] }, .num_paths = 3, .max_bytes = 5 },
        &d));
    APPLY(d, rf_dataset_ignore_errors(d, RF_IGNORE_SILENTLY, &applied_));
    for (int gone = 0; gone < 2; gone++) {
        rf_iterator *it;
        const rf_element *e;
        char last[6] = "";
        int lines = 0;
        OK(rf_iterator_create(d, 0, &it));
        for (rf_result r; (r = rf_iterator_next(it, &e)) != RF_END; lines++) {
            OK(r);
            snprintf(last, sizeof(last), "%.*s", (int)e->component[0].shape.dim[0], (char *)e->component[0].data);
            if (lines == 1) assert_string_equal(last, "two");
        }
        assert_string_equal(last, "last");
        assert_true(gone ? lines == 3 : lines > 1000);
        assert_int_equal(rf_dataset_ignored_errors(d), 4 * (gone + 1));
        rf_iterator_destroy(&it);
        (void)unlink(paths[1]);
    }
    rf_dataset_destroy(&d);
    scratch_remove(folder);
}

/* Lines that are left out of a file take time in proportion. */
TEST(test_many_long_lines)
{
    enum { PAIRS = 40000, LONG = 90 };
    char folder[SCRATCH_PATH], path[SCRATCH_PATH + 16];
    scratch(folder);
    snprintf(path, sizeof(path), "%s/long", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < PAIRS; i++) fprintf(f, "%d\r\n%0*d\n", i % 10, LONG, i);
    assert_int_equal(fclose(f), 0);
    rf_dataset *d;
    rf_iterator *it;
    const rf_element *e;
    const char *const paths[] = { path };
    OK(rf_dataset_from_text_lines(&(rf_text_lines_params){ .paths = paths, .num_paths = 1, .max_bytes = 2 }, &d));
    APPLY(d, rf_dataset_ignore_errors(d, RF_IGNORE_SILENTLY, &applied_));
    const double begin = seconds_now();
    OK(rf_iterator_create(d, 0, &it));
    for (int i = 0; i < PAIRS; i++) {
        OK(rf_iterator_next(it, &e));
        assert_int_equal(e->component[0].shape.dim[0], 1);
        assert_int_equal(*(const uint8_t *)e->component[0].data, '0' + i % 10);
    }
    assert_int_equal(rf_iterator_next(it, &e), RF_END);
    assert_int_equal(rf_dataset_ignored_errors(d), PAIRS);
    assert_true(seconds_now() - begin < 10); /* reading anew for each: minutes */
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
    scratch_remove(folder);
}

TEST(test_arguments)
{
    rf_dataset *out, *d = count_from(0, 8);
    FAILS(rf_dataset_ignore_errors(NULL, RF_IGNORE_SILENTLY, &out), RF_ERROR_INVALID_ARGUMENT, "in is NULL");
    FAILS(rf_dataset_ignore_errors(d, RF_IGNORE_SILENTLY, NULL), RF_ERROR_INVALID_ARGUMENT, "out is NULL");
    assert_int_equal(rf_dataset_ignored_errors(NULL), 0);
    assert_int_equal(rf_dataset_ignored_errors(d), 0);
    /* Workers that left out batches of their own would go on with different ones. */
    APPLY(d, rf_dataset_batch(d, 4, RF_REMAINDER_KEEP, &applied_));
    APPLY(d, rf_dataset_slice(d, &(rf_slice_params){ .num_workers = 2, .split = halve }, &applied_));
    FAILS(rf_dataset_ignore_errors(d, RF_IGNORE_SILENTLY, &out), RF_ERROR_INVALID_ARGUMENT, "has been distributed");
    assert_null(out);
    rf_dataset_destroy(&d);
}

/* Two workers get the rows of the same batches. */
TEST(test_shares)
{
    int32_t n[MOST_NUMBERS];
    int sum = 0;
    for (uint32_t w = 0; w < 2; w++) {
        rf_dataset *d = ignoring(MAP, true);
        APPLY(d, rf_dataset_batch(d, 5, RF_REMAINDER_KEEP, &applied_));
        APPLY(d, rf_dataset_slice(d, &(rf_slice_params){ .worker = w, .num_workers = 2, .split = halve }, &applied_));
        const int count = read_pass(d, 0, n);
        for (int i = 0; i < count; i += n[i] + 1)
            for (int r = 1; r <= n[i]; r++) sum += n[i + r];
        rf_dataset_destroy(&d);
    }
    assert_int_equal(sum, expected[MAP].sum);
}

TESTS(ignore_errors, NULL, NULL)
