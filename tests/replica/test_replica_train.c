/* SPDX-License-Identifier: Apache-2.0 */
/* Training on one and several replicas of the same and of different drivers: the losses of a single device, variables
 * that are the same bit for bit, for both ways to update. */
#include "linear.h"
#include "step/step.h"
#include "tests/room.h"

#include <math.h>

enum { STEPS = 12, BATCH = 32 };
static const char *const one = "llvmpipe", *const twin = "llvmpipe,llvmpipe", *const mixed = "llvmpipe,SwiftShader",
                         *const trio = "llvmpipe,llvmpipe,llvmpipe",
                         *const mixed_trio = "SwiftShader,llvmpipe,llvmpipe";

static void check_near(double got, double want, double tolerance, const char *what)
{
    if (!(fabs(got - want) <= tolerance * (1 + fabs(want)))) fail_msg("%s: %.9g instead of %.9g", what, got, want);
}

static void check_identical(rf_strategy *s)
{
    CHECK(rf_strategy_check_identical(s, NULL, NULL));
}

/* Trains and compares with the reference; `batch` examples a step. */
static void check_sgd(const char *devices, const rf_mirrored_params *params, uint32_t batch, bool staged)
{
    rf_strategy *s = open_devices(devices, params);
    for (uint32_t r = 0; staged && r < s->members.num_replicas; r++) s->members.replicas[r].staged = true;
    linear m;
    linear_create(&m, s, &(linear_params){ 0 });
    float w[IN], b;
    double wd[IN], bd, losses[STEPS];
    linear_initial(w, &b);
    for (int i = 0; i < IN; i++) wd[i] = w[i];
    bd = b;
    linear_reference(wd, &bd, m.rate, STEPS, batch, losses);
    for (int i = 0; i < STEPS; i++) {
        check_near(linear_step(&m, 0, batch), losses[i], 1e-5, "loss");
        check_identical(s);
    }
    CHECK(rf_variable_read(m.w, w));
    CHECK(rf_variable_read(m.b, &b));
    for (int i = 0; i < IN; i++) check_near(w[i], wd[i], 1e-5, "w");
    check_near(b, bd, 1e-5, "b");
    assert_int_equal(rf_updater_iterations(m.updater), STEPS);
    assert_int_equal(rf_function_num_traces(m.train), 1);
    assert_int_equal(rf_function_step(m.train), STEPS);
    assert_int_equal(rf_strategy_num_validation_messages(s), 0);
    linear_destroy(&m);
    rf_strategy_destroy(&s);
}

static room_test *full_tests;

TEST(sgd_one)
{
    check_sgd(one, NULL, BATCH, false);
}
TEST(sgd_twin)
{
    check_sgd(twin, NULL, BATCH, false);
}
TEST(sgd_mixed)
{
    check_sgd(mixed, NULL, BATCH, false);
}
TEST_OF(full_tests, sgd_trio)
{
    check_sgd(mixed_trio, NULL, BATCH, false);
}
TEST_OF(full_tests, sgd_staged)
{
    check_sgd(trio, NULL, BATCH, true);
}
TEST_OF(full_tests, sgd_small_buckets)
{
    check_sgd(trio, &(rf_mirrored_params){ .bucket_bytes = 16 }, BATCH, false);
}
TEST(sgd_local)
{
    check_sgd(twin, &(rf_mirrored_params){ .update_mode = RF_UPDATE_LOCAL }, BATCH, false);
}
TEST_OF(full_tests, sgd_local_staged)
{
    check_sgd("llvmpipe,llvmpipe,llvmpipe", &(rf_mirrored_params){ .update_mode = RF_UPDATE_LOCAL }, BATCH, true);
}
TEST_OF(full_tests, sgd_uneven)
{
    check_sgd(mixed, &(rf_mirrored_params){ .shares = (double[]){ 3, 1 }, .num_shares = 2 }, 30, false);
    check_sgd(trio, &(rf_mirrored_params){ .shares = (double[]){ 1, 0, 5 }, .num_shares = 3 }, 31, false);
}
TEST_OF(full_tests, sgd_empty_replica)
{
    check_sgd(trio, NULL, 2, false); /* the third replica never has an example */
    check_sgd(trio, NULL, 1, true);
}

/* Adam on several replicas against one: state lives with the owners of its parts. */
TEST_OF(full_tests, adam_like_one_device)
{
    float losses[STEPS], w[IN], single_w[IN], slot[IN], single_slot[2][IN];
    const char *const lists[] = { one, mixed_trio, twin };
    for (int k = 0; k < 3; k++) {
        const rf_mirrored_params params = { .update_mode = k == 2 ? RF_UPDATE_LOCAL : RF_UPDATE_SHARDED };
        rf_strategy *s = open_devices(lists[k], &params);
        linear m;
        linear_create(&m, s, &(linear_params){ .adam = true });
        for (int i = 0; i < STEPS; i++) {
            const float loss = linear_step(&m, 0, BATCH);
            if (k == 0) losses[i] = loss;
            check_near(loss, losses[i], 1e-5, "loss");
        }
        check_identical(s);
        CHECK(rf_variable_read(m.w, w));
        for (uint32_t j = 0; j < 2; j++) {
            CHECK(rf_updater_read_slot(m.updater, j, m.w, slot));
            if (k == 0) memcpy(single_slot[j], slot, sizeof(slot));
            for (int i = 0; i < IN; i++) check_near(slot[i], single_slot[j][i], 1e-5, "slot");
        }
        if (k == 0) memcpy(single_w, w, sizeof(w));
        for (int i = 0; i < IN; i++) check_near(w[i], single_w[i], 1e-4, "w");
        linear_destroy(&m);
        rf_strategy_destroy(&s);
    }
}

/* Batches of different sizes, without a new trace; results of the last run but one stay readable. */
TEST_OF(full_tests, dynamic_batch)
{
    rf_strategy *s = open_devices(mixed, NULL);
    linear m;
    linear_create(&m, s, &(linear_params){ 0 });
    float initial[IN], b;
    double w[IN];
    linear_initial(initial, &b);
    for (int i = 0; i < IN; i++) w[i] = initial[i];
    const uint32_t sizes[] = { 32, 7, 1, 32, 64, 2 };
    rf_per_replica *before = NULL;
    rf_array old = { 0 };
    for (int i = 0; i < 6; i++) {
        const rf_element batch = linear_batch(0, sizes[i]);
        rf_per_replica *result;
        rf_array joined, again;
        CHECK(rf_strategy_run(s, m.predict, &batch, &result));
        CHECK(rf_strategy_gather(s, result, &joined));
        assert_true(rf_shape_equal(joined.shape, RF_SHAPE(sizes[i])));
        for (uint32_t n = 0; n < sizes[i]; n++)
            check_near(((const float *)joined.data)[n], linear_predict(w, b, n), 1e-5, "prediction");
        if (before) {
            CHECK(rf_strategy_gather(s, before, &again));
            assert_true(rf_shape_equal(again.shape, old.shape));
            assert_memory_equal(again.data, old.data, (size_t)rf_shape_count(old.shape) * sizeof(float));
            rf_free(again.data);
        }
        rf_free(old.data);
        old = joined;
        before = result;
    }
    rf_free(old.data);
    assert_int_equal(rf_function_num_traces(m.predict), 1);
    assert_int_equal(rf_function_step(m.predict), 0);
    linear_destroy(&m);
    rf_strategy_destroy(&s);
}

/* Three steps of 8 examples give the update of one step of 24: the loss there is a mean, so the sum is scaled by 1/3.
 */
static void check_accumulation(const char *devices, const rf_mirrored_params *params, bool staged, uint32_t part)
{
    rf_strategy *s = open_devices(devices, params);
    for (uint32_t r = 0; staged && r < s->members.num_replicas; r++) s->members.replicas[r].staged = true;
    linear whole, parts;
    linear_create(&whole, s, &(linear_params){ 0 });
    linear_create(&parts, s, &(linear_params){ .accumulation_steps = 3 });
    float a[IN], b[IN];
    for (int round = 0; round < 3; round++) {
        linear_step(&whole, 0, 3 * part);
        for (uint32_t i = 0; i < 3; i++) {
            CHECK(rf_variable_read(parts.w, a));
            linear_step(&parts, i * part, part);
            CHECK(rf_variable_read(parts.w, b));
            assert_int_equal(memcmp(a, b, sizeof(a)) != 0, i == 2); /* only the third step updates */
            if (i < 2) CHECK_FAILS(rf_variable_read_gradient(parts.w, a), RF_ERROR_NOT_FOUND, "'w'", "accumulated");
        }
        CHECK(rf_variable_read(whole.w, a));
        for (int i = 0; i < IN; i++) check_near(b[i], a[i], 1e-5, "w");
        CHECK(rf_variable_read_gradient(whole.w, a));
        CHECK(rf_variable_read_gradient(parts.w, b));
        for (int i = 0; i < IN; i++) check_near(b[i] / 3, a[i], 1e-5, "gradient");
        check_identical(s);
    }
    assert_int_equal(rf_updater_iterations(parts.updater), 3);
    linear_destroy(&whole);
    linear_destroy(&parts);
    rf_strategy_destroy(&s);
}

/* Replicas that have examples in some of the accumulated steps only: what they had counts, what they had before does
 * not. */
TEST_OF(full_tests, accumulation_with_empty_replicas)
{
    static const uint32_t sizes[] = { 1, 3, 1 };
    float w[IN], single[IN];
    const char *const lists[] = { one, trio, trio };
    for (int k = 0; k < 3; k++) {
        rf_strategy *s = open_devices(lists[k], NULL);
        for (uint32_t r = 0; k == 2 && r < s->members.num_replicas; r++) s->members.replicas[r].staged = true;
        linear m;
        linear_create(&m, s, &(linear_params){ .accumulation_steps = 3 });
        for (uint32_t i = 0; i < 9; i++) linear_step(&m, 3 * i, sizes[i % 3]);
        CHECK(rf_variable_read(m.w, k ? w : single));
        for (int i = 0; k && i < IN; i++) check_near(w[i], single[i], 1e-5, "w");
        check_identical(s);
        linear_destroy(&m);
        rf_strategy_destroy(&s);
    }
}

TEST_OF(full_tests, accumulation)
{
    check_accumulation(one, NULL, false, 8);
    check_accumulation(trio, NULL, false, 8);
    check_accumulation(trio, NULL, true, 2); /* one replica without examples */
    check_accumulation(twin, &(rf_mirrored_params){ .update_mode = RF_UPDATE_LOCAL }, false, 8);
}

/* Norms of the reduced gradient, over all variables and for each. */
static void check_norms(const char *devices, const rf_mirrored_params *params, uint32_t accumulation_steps)
{
    rf_strategy *s = open_devices(devices, params);
    for (int by_variable = 0; by_variable < 2; by_variable++) {
        linear m;
        linear_create(&m, s,
                      &(linear_params){ .norms = by_variable ? RF_NORMS_VARIABLE : RF_NORMS_GLOBAL,
                                        .clip_norm = 0.5f,
                                        .accumulation_steps = accumulation_steps });
        float before_w[IN], before_b, after_w[IN], after_b, dw[IN], db;
        CHECK(rf_variable_read(m.w, before_w));
        CHECK(rf_variable_read(m.b, &before_b));
        for (uint32_t i = 0; i < accumulation_steps; i++) linear_step(&m, 0, BATCH);
        CHECK(rf_variable_read(m.w, after_w));
        CHECK(rf_variable_read(m.b, &after_b));
        CHECK(rf_variable_read_gradient(m.w, dw));
        CHECK(rf_variable_read_gradient(m.b, &db));
        double nw = 0, nb;
        const double n = accumulation_steps;
        for (int i = 0; i < IN; i++) nw += pow(dw[i] / n, 2);
        nb = pow(db / n, 2);
        const double global = sqrt(nw + nb);
        nw = by_variable ? sqrt(nw) : global;
        nb = by_variable ? sqrt(nb) : global;
        assert_int_equal(m.num_hypers, by_variable ? 2 : 1);
        check_near(m.last_norm, nb, 1e-5, "norm");
        assert_true(nw > 0.5); /* or nothing is clipped and the test worthless */
        for (int i = 0; i < IN; i++)
            check_near(after_w[i], before_w[i] - m.rate * dw[i] / n * fmin(1, 0.5 / nw), 1e-5, "w");
        check_near(after_b, before_b - m.rate * db / n * fmin(1, 0.5 / nb), 1e-5, "b");
        check_identical(s);
        linear_destroy(&m);
    }
    rf_strategy_destroy(&s);
}

TEST_OF(full_tests, norms)
{
    check_norms(one, NULL, 1);
    check_norms(one, NULL, 2);
    check_norms(trio, NULL, 1);
    check_norms(trio, NULL, 2);
    check_norms(twin, &(rf_mirrored_params){ .update_mode = RF_UPDATE_LOCAL }, 1);
}

/* The reduced gradient is the sum over replicas, no matter which of them owns it. */
TEST(gradients_are_summed)
{
    float want[IN + 1], got[IN + 1];
    const char *const lists[] = { one, trio };
    for (int k = 0; k < 2; k++) {
        rf_strategy *s = open_devices(lists[k], NULL);
        linear m;
        linear_create(&m, s, &(linear_params){ 0 });
        CHECK_FAILS(rf_variable_read_gradient(m.w, got), RF_ERROR_NOT_FOUND, "'w'");
        linear_step(&m, 0, BATCH);
        CHECK(rf_variable_read_gradient(m.w, got));
        CHECK(rf_variable_read_gradient(m.b, got + IN));
        if (k == 0) memcpy(want, got, sizeof(got));
        for (int i = 0; i < IN + 1; i++) check_near(got[i], want[i], 1e-5, "gradient");
        linear_destroy(&m);
        rf_strategy_destroy(&s);
    }
}

/* The same run twice gives the same bits. */
TEST_OF(full_tests, deterministic)
{
    float first[IN], second[IN];
    for (int k = 0; k < 2; k++) {
        rf_strategy *s = open_devices(mixed, NULL);
        linear m;
        linear_create(&m, s, &(linear_params){ .adam = true });
        for (int i = 0; i < STEPS; i++) linear_step(&m, 0, BATCH);
        CHECK(rf_variable_read(m.w, k ? second : first));
        linear_destroy(&m);
        rf_strategy_destroy(&s);
    }
    assert_memory_equal(first, second, sizeof(first));
}

/* A difference is found and named. */
TEST(differences_are_named)
{
    rf_strategy *s = open_devices(mixed, NULL);
    linear m;
    linear_create(&m, s, &(linear_params){ 0 });
    check_identical(s);
    float w[IN];
    CHECK(rf_variable_read_replica(m.w, 1, w));
    uint32_t bits;
    memcpy(&bits, &w[100], sizeof(bits));
    bits ^= 1;
    memcpy(&w[100], &bits, sizeof(bits));
    CHECK(rf_flat_write(&s->store.trainable.values, 1, m.w->offset, IN, w));
    uint32_t replica;
    const rf_variable *variable;
    CHECK_FAILS(rf_strategy_check_identical(s, &replica, &variable), RF_ERROR_INTERNAL, "'w'", "replica 1",
                "element 100", "SwiftShader");
    assert_int_equal(replica, 1);
    assert_ptr_equal(variable, m.w);
    linear_destroy(&m);
    rf_strategy_destroy(&s);
}

TEST_PROGRAM(replica_train)
{
    const bool everything = argc > 1 && strcmp(argv[1], "full") == 0;
    return everything ? room_tests_run(full_tests, NULL, NULL) : room_tests_run(own_tests, NULL, NULL);
}
