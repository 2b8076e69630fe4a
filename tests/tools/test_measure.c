/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that `ringfire-bench` measures with: what they report, not how fast anything is. */
#include <stdio.h>
#include <string.h>

#include "bench/measure/measure.h"

#include "../skip.h"
#include "tests/room.h"

typedef struct tally {
    uint32_t rows, chosen;
    char last_case[64];
    uint32_t chosen_of_case;
    rf_result answer;
    rf_bench_clock clock;
} tally;

static rf_result count(void *user, const rf_bench_row *row)
{
    tally *t = user;
    assert_string_equal(row->op, "sum_to_like");
    assert_true(row->seconds > 0 && row->gbytes > 0 && row->gflops >= 0);
    assert_true(strlen(row->device) > 0 && strlen(row->kernel) > 0);
    assert_true(row->median_seconds >= row->seconds && row->overlapped_seconds >= 0);
    assert_true(row->product_gflops == 0);
    if (t->clock) assert_true(row->device_clock == (t->clock == RF_BENCH_CLOCK_DEVICE));
    if (strcmp(t->last_case, row->case_name) != 0) {
        if (t->rows > 0) assert_int_equal(t->chosen_of_case, 1);
        snprintf(t->last_case, sizeof(t->last_case), "%s", row->case_name);
        t->chosen_of_case = 0;
    }
    t->rows++;
    t->chosen += row->chosen;
    t->chosen_of_case += row->chosen;
    return t->answer;
}

static rf_result read_products(void *user, const rf_bench_row *row)
{
    uint32_t *rows = user;
    assert_true(row->gflops > 0 && row->product_gflops > 0);
    rows[strcmp(row->op, "rnn_grad") == 0]++;
    return RF_OK;
}

/* The product of a recurrent operation is measured beside it, on the device of the fastest kernels. */
TEST(test_products)
{
    uint32_t rows[2] = { 0, 0 };
    const rf_bench_ops_params params = {
        .op = "rnn", .device = "llvmpipe", .min_seconds = 1e-6, .options = { .no_cache = true }
    };
    const rf_result r = rf_bench_ops(&params, read_products, rows);
    if (r == RF_ERROR_NOT_FOUND) SKIP("not installed: llvmpipe");
    assert_int_equal(r, RF_OK);
    assert_true(rows[0] > 0 && rows[1] > 0);
}

static rf_result read_name(void *user, const rf_bench_row *row)
{
    uint32_t *rows = user;
    rows[strcmp(row->op, "softmax") != 0]++;
    return RF_OK;
}

/* A name with '=' before it is one operation's, without it all those that contain it. */
TEST(test_one_op)
{
    uint32_t rows[2] = { 0, 0 };
    rf_bench_ops_params params = { .op = "=softmax", .min_seconds = 1e-6, .options = { .no_cache = true } };
    assert_int_equal(rf_bench_ops(&params, read_name, rows), RF_OK);
    assert_true(rows[0] > 0 && rows[1] == 0);
    params.op = "=softma";
    assert_int_equal(rf_bench_ops(&params, read_name, rows), RF_ERROR_NOT_FOUND);
}

static rf_result read_type(void *user, const rf_bench_row *row)
{
    uint32_t *rows = user;
    const size_t length = strlen(row->case_name);
    rows[length < 4 || strcmp(row->case_name + length - 4, " f16") != 0]++;
    return RF_OK;
}

TEST(test_ops_in_16_bits)
{
    uint32_t rows[2] = { 0, 0 };
    rf_bench_ops_params params = {
        .op = "=softmax", .type = RF_F16, .min_seconds = 1e-6, .options = { .no_cache = true }
    };
    assert_int_equal(rf_bench_ops(&params, read_type, rows), RF_OK);
    assert_true(rows[0] > 0 && rows[1] == 0);
    params.type = RF_I32;
    assert_int_equal(rf_bench_ops(&params, read_type, rows), RF_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(rf_error_message(), "floats are stored in RF_F16 or RF_BF16"));
}

TEST(test_ops)
{
    rf_bench_ops_params params = { .op = "sum_to_like", .min_seconds = 1e-3, .options = { .no_cache = true } };
    tally some = { 0 }, all = { 0 }, stopped = { .answer = RF_ERROR_CANCELLED };
    assert_int_equal(rf_bench_ops(&params, count, &some), RF_OK);
    assert_true(some.rows > 0);
    assert_int_equal(some.chosen, some.rows); /* only the chosen kernel of each case */
    tally stamped = { .clock = RF_BENCH_CLOCK_DEVICE };
    params.clock = stamped.clock;
    const rf_result r = rf_bench_ops(&params, count, &stamped);
    if (r == RF_ERROR_UNSUPPORTED)
        assert_non_null(strstr(rf_error_message(), "no timestamps"));
    else
        assert_true(r == RF_OK && stamped.rows == some.rows);
    params.clock = all.clock = RF_BENCH_CLOCK_HOST;
    params.all_kernels = true;
    params.device = "0";
    assert_int_equal(rf_bench_ops(&params, count, &all), RF_OK);
    assert_int_equal(all.chosen, some.rows);
    assert_true(all.rows >= some.rows);
    assert_int_equal(rf_bench_ops(&params, count, &stopped), RF_ERROR_CANCELLED);
    assert_int_equal(stopped.rows, 1);
    tally wrong = { .answer = RF_END }; /* means nothing here, and is not success */
    assert_int_equal(rf_bench_ops(&params, count, &wrong), RF_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(rf_error_message(), "the function returned 1 (RF_END)"));
    assert_int_equal(wrong.rows, 1);
}

typedef struct rate_tally {
    uint32_t count, sizes;
    double with_barrier, without;
    rf_result answer;
} rate_tally;

static rf_result count_rates(void *user, const rf_bench_rate *rate)
{
    rate_tally *t = user;
    assert_true(rate->value > 0 && strlen(rate->unit) > 0 && strlen(rate->device) > 0);
    if (strcmp(rate->what, "empty dispatch and barrier") == 0) t->with_barrier = rate->value;
    if (strcmp(rate->what, "empty dispatch") == 0) t->without = rate->value;
    if (strcmp(rate->what, "copy on the device") == 0) {
        t->sizes++;
        assert_true(rate->bytes >= 4096);
    }
    t->count++;
    return t->answer;
}

TEST(test_rates)
{
    rf_bench_rates_params params = { .min_seconds = 1e-3, .options = { .no_cache = true } };
    rate_tally all = { 0 }, stopped = { .answer = RF_ERROR_CANCELLED };
    assert_int_equal(rf_bench_rates(&params, count_rates, &all), RF_OK);
    assert_true(all.count > 15 && all.sizes >= 3 && all.with_barrier > 0 && all.without > 0);
    assert_int_equal(rf_bench_rates(&params, count_rates, &stopped), RF_ERROR_CANCELLED);
    assert_int_equal(stopped.count, 1);
    params.device = "no such thing";
    assert_int_equal(rf_bench_rates(&params, count_rates, &all), RF_ERROR_NOT_FOUND);
    assert_int_equal(rf_bench_rates(NULL, NULL, NULL), RF_ERROR_INVALID_ARGUMENT);
}

TEST(test_refusals)
{
    tally none = { 0 };
    assert_int_equal(rf_bench_ops(&(rf_bench_ops_params){ .device = "no such thing" }, count, &none),
                     RF_ERROR_NOT_FOUND);
    assert_non_null(strstr(rf_error_message(), "no such thing"));
    assert_int_equal(rf_bench_ops(&(rf_bench_ops_params){ .device = "99" }, count, &none), RF_ERROR_NOT_FOUND);
    assert_int_equal(rf_bench_ops(NULL, NULL, NULL), RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_bench_ops(&(rf_bench_ops_params){ .clock = 3 }, count, &none), RF_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(rf_error_message(), "clock"));
    assert_int_equal(none.rows, 0);
}

TEST(test_memcpy)
{
    const double rate = rf_bench_memcpy(1u << 20);
    assert_true(rate > 0.05 && rate < 10000);
    assert_true(rf_bench_memcpy(1) > 0);
    assert_true(rf_bench_memcpy(0) == 0);
}

TESTS(measure, NULL, NULL)
