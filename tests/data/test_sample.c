/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets mixed by weight: shares, ends, the same draws however elements are read, positions, failures. */
#include <math.h>

#include "combined.h"
#include "tests/room.h"

/* 0 to 29, 100 to 119 and 200 to 209. */
static rf_dataset *sampled(bool in_order, const rf_sample_params *p)
{
    rf_dataset *in[] = { source(in_order, 0, 30), source(false, 100, 20), source(in_order, 200, 10) }, *out;
    OK(rf_dataset_sample((const rf_dataset *const *)in, 3, p, &out));
    for (int i = 0; i < 3; i++) rf_dataset_destroy(&in[i]);
    return out;
}

static const double weights[] = { 1, 2, 3 };

TEST(test_shares)
{
    enum { DRAWS = 6000 };
    rf_dataset *in[] = { count_from(0, 7), count_from(100, 5), count_from(200, 3), count_from(300, 3) }, *d;
    const double uneven[] = { 1, 2, 3, 0 };
    int counts[4] = { 0 };
    for (int i = 0; i < 4; i++) APPLY(in[i], rf_dataset_repeat(in[i], 0, &applied_));
    OK(rf_dataset_sample((const rf_dataset *const *)in, 4, &(rf_sample_params){ .weights = uneven, .seed = 4 }, &d));
    assert_int_equal(rf_dataset_cardinality(d), RF_CARDINALITY_INFINITE);
    rf_iterator *it;
    const rf_element *e;
    OK(rf_iterator_create(d, 0, &it));
    for (int i = 0; i < DRAWS; i++) {
        OK(rf_iterator_next(it, &e));
        counts[*(const int32_t *)e->component[0].data / 100]++;
    }
    for (int i = 0; i < 4; i++) {
        const double p = uneven[i] / 6;
        assert_true(fabs(counts[i] - p * DRAWS) <= 5 * sqrt(p * (1 - p) * DRAWS));
    }
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
    for (int i = 0; i < 4; i++) rf_dataset_destroy(&in[i]);
}

/* Each input in its order; all of them, or until one that is drawn has nothing left. */
TEST(test_ends)
{
    for (int stop = 0; stop < 2; stop++)
        for (uint64_t seed = 0; seed < 20; seed++) {
            const rf_sample_params p = { .weights = weights, .seed = seed, .stop_on_empty = stop };
            rf_dataset *d = sampled(false, &p);
            int32_t n[MOST_NUMBERS];
            int next[3] = { 0 };
            static const int sizes[] = { 30, 20, 10 };
            assert_int_equal(rf_dataset_cardinality(d), stop ? RF_CARDINALITY_UNKNOWN : 60);
            const int count = read_scalars(d, n);
            for (int i = 0; i < count; i++) assert_int_equal(n[i] % 100, next[n[i] / 100]++);
            bool all = true, one = false;
            for (int i = 0; i < 3; i++) {
                all &= next[i] == sizes[i];
                one |= next[i] == sizes[i];
            }
            assert_true(stop ? one && !all : all);
            rf_dataset_destroy(&d);
        }
}

/* Fetched by number, read in order, by several threads: the same elements. Passes differ. */
TEST(test_same_draws)
{
    for (int stop = 0; stop < 2; stop++) {
        const rf_sample_params p = { .weights = weights, .seed = 3, .stop_on_empty = stop };
        int32_t first[MOST_NUMBERS], other[MOST_NUMBERS];
        rf_dataset *d = sampled(false, &p), *in_order = sampled(true, &p);
        const int n = read_pass(d, 1, first);
        assert_int_equal(read_pass(in_order, 1, other), n);
        assert_memory_equal(first, other, sizeof(*first) * (size_t)n);
        assert_true(read_pass(d, 2, other) != n || memcmp(first, other, sizeof(*first) * (size_t)n) != 0);
        APPLY(d, rf_dataset_parallel(d, 3, &applied_));
        assert_int_equal(read_pass(d, 1, other), n);
        assert_memory_equal(first, other, sizeof(*first) * (size_t)n);
        rf_dataset_destroy(&d);
        rf_dataset_destroy(&in_order);
    }
}

TEST(test_even_by_default)
{
    rf_dataset *d = sampled(false, NULL);
    int32_t n[MOST_NUMBERS], counts[3] = { 0 };
    read_scalars(d, n);
    for (int i = 0; i < 15; i++) counts[n[i] / 100]++;
    for (int i = 0; i < 3; i++) assert_true(counts[i] > 0);
    rf_dataset_destroy(&d);
}

TEST(test_positions)
{
    for (int which = 0; which < 4; which++) {
        const rf_sample_params p = { .weights = weights, .seed = 3, .stop_on_empty = which / 2 };
        expect_resumes_everywhere(sampled(which % 2, &p), sampled(which % 2, &p));
    }
    const rf_sample_params a = { .weights = weights }, b = { .seed = 1, .weights = weights }, c = { .seed = 0 };
    const rf_sample_params d = { .weights = weights, .stop_on_empty = true };
    expect_other_pipeline(sampled(false, &a), sampled(false, &b));
    expect_other_pipeline(sampled(false, &a), sampled(false, &c));
    expect_other_pipeline(sampled(false, &a), sampled(false, &d));
}

TEST(test_workers)
{
    const rf_sample_params p = { .weights = weights, .seed = 5 };
    for (int in_order = 0; in_order < 2; in_order++) {
        rf_dataset *d = sampled(in_order, &p);
        APPLY(d, rf_dataset_batch(d, 7, RF_REMAINDER_KEEP, &applied_));
        expect_rows_of_two_workers(d);
        /* Shards of elements. */
        int32_t all[MOST_NUMBERS], part[MOST_NUMBERS];
        d = sampled(in_order, &p);
        read_scalars(d, all);
        APPLY(d, rf_dataset_shard(d, 4, 1, &applied_));
        assert_int_equal(read_scalars(d, part), 15);
        for (int i = 0; i < 15; i++) assert_int_equal(part[i], all[4 * i + 1]);
        rf_dataset_destroy(&d);
    }
}

/* An input that fails gives its element to the next call, or loses that one alone. */
static void check_failure(bool in_order, bool ignore, uint64_t seed)
{
    stumble s = { .at = 102 };
    const rf_sample_params p = { .seed = seed };
    rf_dataset *in[] = { source(in_order, 0, 10), source(false, 100, 10) }, *d;
    rf_element_spec spec;
    rf_dataset_spec(in[1], &spec);
    APPLY(in[1], rf_dataset_map(in[1], fail_once, &s, &spec, &applied_));
    OK(rf_dataset_sample((const rf_dataset *const *)in, 2, &p, &d));
    if (ignore) APPLY(d, rf_dataset_ignore_errors(d, RF_IGNORE_SILENTLY, &applied_));
    rf_iterator *it;
    int next[2] = { 0 }, failures = 0;
    OK(rf_iterator_create(d, 0, &it));
    for (;;) {
        const rf_element *e;
        const rf_result r = rf_iterator_next(it, &e);
        if (r == RF_END) break;
        failures += r < 0;
        if (r < 0) continue;
        const int value = *(const int32_t *)e->component[0].data;
        if (ignore && value == 103) next[1]++;
        if (failures > 0 && next[1] == 2) assert_int_equal(value, 102); /* at once */
        assert_int_equal(value % 100, next[value / 100]++);
    }
    assert_int_equal(next[0], 10);
    assert_int_equal(next[1], 10);
    assert_int_equal(failures, !ignore);
    assert_int_equal(rf_dataset_ignored_errors(d), ignore);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
    for (int i = 0; i < 2; i++) rf_dataset_destroy(&in[i]);
}

TEST(test_failures)
{
    for (uint64_t seed = 0; seed < 8; seed++)
        for (int which = 0; which < 4; which++) check_failure(which % 2, which / 2, seed);
}

TEST(test_bad_arguments)
{
    rf_dataset *a = count_from(0, 5), *b = count_from(0, 5), *out;
    const rf_dataset *both[] = { a, b };
    const double negative[] = { 1, -1 }, none[] = { 0, 0 }, huge[] = { INFINITY, 1 };
    FAILS(rf_dataset_sample(both, 2, &(rf_sample_params){ .weights = negative }, &out), RF_ERROR_INVALID_ARGUMENT,
          "weight 1 is -1");
    FAILS(rf_dataset_sample(both, 2, &(rf_sample_params){ .weights = none }, &out), RF_ERROR_INVALID_ARGUMENT,
          "the weights have the sum 0");
    FAILS(rf_dataset_sample(both, 2, &(rf_sample_params){ .weights = huge }, &out), RF_ERROR_INVALID_ARGUMENT,
          "weight 0 is inf");
    FAILS(rf_dataset_sample(both, 0, NULL, &out), RF_ERROR_INVALID_ARGUMENT, "no datasets given");
    FAILS(rf_dataset_sample((const rf_dataset *[]){ a, NULL }, 2, NULL, &out), RF_ERROR_INVALID_ARGUMENT,
          "dataset 1 is NULL");
    APPLY(b, rf_dataset_batch(b, 2, RF_REMAINDER_KEEP, &applied_));
    FAILS(rf_dataset_sample((const rf_dataset *[]){ a, b }, 2, NULL, &out), RF_ERROR_INVALID_ARGUMENT,
          "rf_dataset_sample");
    assert_null(out);
    /* One without a weight counts for nothing, however long it is. */
    const double first_only[] = { 2, 0 };
    rf_dataset *endless;
    OK(rf_dataset_repeat(a, 0, &endless));
    OK(rf_dataset_sample((const rf_dataset *[]){ a, endless }, 2, &(rf_sample_params){ .weights = first_only }, &out));
    assert_int_equal(rf_dataset_cardinality(out), 5);
    int32_t n[MOST_NUMBERS];
    assert_int_equal(read_scalars(out, n), 5);
    rf_dataset_destroy(&out);
    rf_dataset_destroy(&endless);
    rf_dataset_destroy(&a);
    rf_dataset_destroy(&b);
}

TESTS(sample, NULL, NULL)
