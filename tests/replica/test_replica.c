/* SPDX-License-Identifier: Apache-2.0 */
/* The promises of strategies, functions and variables: the tutorial's figures, traces and their reuse, late variables,
 * results, local state, seeds and lifetimes. Messages name what is wrong. */
#include "../support/folder.h"
#include "bench/measure/measure.h"
#include "linear.h"
#include "step/step.h"
#include "tests/room.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const one = "llvmpipe", *const twin = "llvmpipe,llvmpipe";

/* ---- the tutorial's example ---- */

/* in[0]: per-example losses. out[0]: their sum divided by the global batch. out[1]: the losses themselves. */
static rf_result average_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    rf_value sum;
    RF_TRY(rf_emit_reduce(rf_trace_graph(t), RF_REDUCE_KIND_SUM, rf_trace_value(t, in[0], "losses"), NULL, 0, false,
                          &sum));
    const rf_value batch = rf_trace_value(t, rf_global_batch_size(t), "batch");
    RF_TRY(rf_emit_binary(rf_trace_graph(t), RF_FN_DIVIDE, 0, sum, batch, &sum));
    out[0] = rf_trace_wrap(t, sum);
    out[1] = in[0];
    return rf_trace_status(t);
}

TEST(tutorial_losses)
{
    rf_strategy *s = open_devices(twin, NULL);
    assert_int_equal(rf_strategy_num_replicas_in_sync(s), 2);
    assert_non_null(strstr(rf_strategy_device_name(s, 1), "llvmpipe"));
    assert_string_equal(rf_strategy_device_name(s, 2), "");
    rf_function *f;
    CHECK(rf_function_create(s, &(rf_function_params){ average_step, NULL, 2, "average", false }, &f));
    float losses[] = { 2, 3, 4, 5 }, total, mean;
    rf_per_replica *results[2];
    CHECK(rf_strategy_run(s, f, &(rf_element){ 1, { { RF_F32, RF_SHAPE(4), losses } } }, results));
    rf_array local;
    CHECK(rf_per_replica_local(results[0], 0, &local));
    assert_true(local.shape.rank == 0 && *(float *)local.data == 1.25f);
    CHECK(rf_per_replica_local(results[0], 1, &local));
    assert_true(*(float *)local.data == 2.25f);
    CHECK(rf_strategy_reduce(s, RF_REDUCE_SUM, results[0], &total));
    CHECK(rf_strategy_reduce(s, RF_REDUCE_MEAN, results[0], &mean));
    assert_true(total == 3.5f && mean == 1.75f);
    assert_int_equal(rf_per_replica_num_examples(results[0], 0), 2);
    CHECK(rf_per_replica_local(results[1], 1, &local));
    assert_true(rf_shape_equal(local.shape, RF_SHAPE(2)) && ((float *)local.data)[1] == 5);
    rf_array joined;
    CHECK(rf_strategy_gather(s, results[1], &joined));
    assert_true(rf_shape_equal(joined.shape, RF_SHAPE(4)));
    assert_memory_equal(joined.data, losses, sizeof(losses));
    rf_free(joined.data);
    CHECK_FAILS(rf_strategy_reduce(s, RF_REDUCE_SUM, results[1], &total), RF_ERROR_INVALID_ARGUMENT, "average", "[2]",
                "gather");
    CHECK_FAILS(rf_strategy_gather(s, results[0], &joined), RF_ERROR_INVALID_ARGUMENT, "average", "scalar");
    CHECK_FAILS(rf_per_replica_local(results[0], 2, &local), RF_ERROR_INVALID_ARGUMENT, "replica 2");

    /* A replica without examples: left out of sums and means, empty where there is a batch dimension. */
    CHECK(rf_strategy_run(s, f, &(rf_element){ 1, { { RF_F32, RF_SHAPE(1), losses } } }, results));
    CHECK(rf_per_replica_local(results[0], 1, &local));
    assert_null(local.data);
    CHECK(rf_per_replica_local(results[1], 1, &local));
    assert_true(local.shape.rank == 1 && local.shape.dim[0] == 0);
    CHECK(rf_strategy_reduce(s, RF_REDUCE_MEAN, results[0], &mean));
    assert_true(mean == 2);
    CHECK(rf_strategy_gather(s, results[1], &joined));
    assert_true(rf_shape_equal(joined.shape, RF_SHAPE(1)) && *(float *)joined.data == 2);
    rf_free(joined.data);
    assert_int_equal(rf_function_num_traces(f), 1);
    rf_function_destroy(&f);
    rf_strategy_destroy(&s);
}

/* ---- signatures ---- */

TEST(traces_once_per_signature)
{
    rf_strategy *s = open_devices(one, NULL);
    rf_function *f;
    CHECK(rf_function_create(s, &(rf_function_params){ average_step, NULL, 2, NULL, false }, &f));
    float data[64] = { 1, 2, 3, 4, 5, 6 };
    const rf_shape shapes[] = { RF_SHAPE(6), RF_SHAPE(3, 2), RF_SHAPE(5), RF_SHAPE(2, 3), RF_SHAPE(1, 2), RF_SHAPE(6) };
    const uint32_t traces[] = { 1, 2, 2, 3, 3, 3 };
    const float sums[] = { 21.0f / 6, 7, 3, 10.5f, 3, 3.5f };
    for (int i = 0; i < 6; i++) {
        rf_per_replica *results[2];
        float sum;
        CHECK(rf_strategy_run(s, f, &(rf_element){ 1, { { RF_F32, shapes[i], data } } }, results));
        CHECK(rf_strategy_reduce(s, RF_REDUCE_SUM, results[0], &sum));
        if (fabsf(sum - sums[i]) > 1e-6f) fail_msg("run %d: %g instead of %g", i, (double)sum, (double)sums[i]);
        assert_int_equal(rf_function_num_traces(f), traces[i]);
    }
    rf_function_destroy(&f);
    rf_strategy_destroy(&s);
}

/* ---- variables that come late ---- */

typedef struct late {
    rf_strategy *strategy;
    rf_variable *first, *built; /* `built` is made by the step */
    uint64_t built_count;
} late;

/* out[0] = sum(x) * first[0] + built[0] */
static rf_result late_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    late *l = user;
    rf_graph *g = rf_trace_graph(t);
    if (!l->built)
        RF_TRY(rf_variable_create(l->strategy,
                                  &(rf_variable_params){ .name = "built",
                                                         .shape = RF_SHAPE((int64_t)l->built_count),
                                                         .initializer = { RF_INIT_CONSTANT, 7 } },
                                  &l->built));
    rf_value sum, built;
    RF_TRY(rf_emit_reduce(g, RF_REDUCE_KIND_SUM, rf_trace_value(t, in[0], "x"), NULL, 0, false, &sum));
    RF_TRY(rf_emit_binary(g, RF_FN_MULTIPLY, 0, sum, rf_trace_variable(t, l->first), &sum));
    RF_TRY(rf_emit_reduce(g, RF_REDUCE_KIND_MEAN, rf_trace_variable(t, l->built), NULL, 0, false, &built));
    RF_TRY(rf_emit_binary(g, RF_FN_ADD, 0, sum, built, &sum));
    RF_TRY(rf_emit_reduce(g, RF_REDUCE_KIND_SUM, sum, NULL, 0, false, &sum));
    out[0] = rf_trace_wrap(t, sum);
    return rf_trace_status(t);
}

static void check_late(rf_strategy *s, rf_function *f, float want, rf_per_replica **result)
{
    float x[] = { 1, 2 }, sum;
    rf_per_replica *unused;
    if (!result) result = &unused;
    CHECK(rf_strategy_run(s, f, &(rf_element){ 1, { { RF_F32, RF_SHAPE(2), x } } }, result));
    CHECK(rf_strategy_reduce(s, RF_REDUCE_SUM, *result, &sum));
    if (sum != want) fail_msg("%g instead of %g", (double)sum, (double)want);
}

TEST(variables_may_come_late)
{
    rf_strategy *s = open_devices(one, NULL);
    /* Large enough that the arrays move while the step is traced. */
    late l = { .strategy = s, .built_count = 40000 };
    CHECK(rf_variable_create(
        s, &(rf_variable_params){ .name = "first", .shape = RF_SHAPE(1), .initializer = { RF_INIT_CONSTANT, 2 } },
        &l.first));
    rf_function *f;
    rf_per_replica *before;
    CHECK(rf_function_create(s, &(rf_function_params){ late_step, &l, 1, "late", false }, &f));
    check_late(s, f, 13, &before);
    check_late(s, f, 13, NULL);
    /* More variables: everything moves again, contents, programs and earlier results survive. */
    rf_variable *more;
    const uint64_t generation = s->store.generation;
    CHECK(rf_variable_create(s, &(rf_variable_params){ .shape = RF_SHAPE(200, 1000) }, &more));
    assert_true(s->store.generation > generation);
    check_late(s, f, 13, &before);
    rf_variable *even_more;
    CHECK(rf_variable_create(s, &(rf_variable_params){ .shape = RF_SHAPE(1000, 1000) }, &even_more));
    check_late(s, f, 13, NULL);
    float old;
    CHECK(rf_strategy_reduce(s, RF_REDUCE_SUM, before, &old));
    assert_true(old == 13);
    CHECK(rf_variable_assign(l.first, (float[]){ 3 }));
    check_late(s, f, 16, NULL);
    assert_int_equal(rf_function_num_traces(f), 1);

    /* The space of variables that are gone from the end is used again, and is zero around smaller ones. */
    const uint64_t used = s->store.trainable.used;
    rf_variable_destroy(&even_more);
    rf_variable_destroy(&more);
    assert_true(s->store.trainable.used < used);
    CHECK(rf_variable_create(s, &(rf_variable_params){ .shape = RF_SHAPE(3), .initializer = { RF_INIT_ONES } }, &more));
    float values[64];
    CHECK(rf_flat_read(&s->store.trainable.values, 0, more->offset, 64, values));
    for (int i = 0; i < 64; i++) assert_true(values[i] == (i < 3 ? 1 : 0));
    rf_variable_destroy(&more);
    rf_function_destroy(&f);
    rf_variable_destroy(&l.built);
    rf_variable_destroy(&l.first);
    rf_strategy_destroy(&s);
}

/* Training goes on while the arrays move and the optimizer meets further variables: as if nothing had happened. */
/* Variables of other sizes come and go: each keeps its values, and the array does not grow beyond what they need. */
TEST(places_are_used_again)
{
    enum { LIVE = 5, ROUNDS = 60, MOST = 3000 };
    rf_strategy *s = open_devices(twin, NULL);
    rf_variable *v[LIVE] = { NULL };
    uint32_t counts[LIVE] = { 0 }, seed = 1;
    float values[MOST], read[MOST];
    for (uint32_t i = 0; i < ROUNDS * LIVE; i++) {
        const uint32_t k = (seed = seed * 1664525u + 1013904223u) >> 8 & 1 ? i % LIVE : (seed >> 9) % LIVE;
        const uint32_t count = 1 + (seed >> 10) % MOST;
        for (uint32_t e = 0; e < count; e++) values[e] = (float)(k + 1);
        const rf_variable_params p = { .shape = RF_SHAPE(count), .value = values, .not_trainable = i / LIVE % 2 != 0 };
        rf_variable *next;
        CHECK(rf_variable_create(s, &p, &next)); /* as when a model is replaced: the old one is still there */
        rf_variable_destroy(&v[k]);
        v[k] = next;
        counts[k] = count;
        for (uint32_t other = 0; other < LIVE; other++) {
            if (!v[other]) continue;
            CHECK(rf_variable_read_replica(v[other], 1, read));
            for (uint32_t e = 0; e < counts[other]; e++) assert_true(read[e] == (float)(other + 1));
        }
    }
    /* First fit: at most about twice what was alive at once. */
    assert_in_range(s->store.trainable.used, 1, 2 * (LIVE + 1) * MOST);
    assert_in_range(s->store.trainable.values.capacity, 1, 3 * (LIVE + 1) * MOST);
    assert_in_range(s->store.fixed.values.capacity, 1, 3 * (LIVE + 1) * MOST);
    for (uint32_t k = 0; k < LIVE; k++) rf_variable_destroy(&v[k]);
    assert_int_equal(s->store.trainable.used + s->store.fixed.used, 0);
    rf_strategy_destroy(&s);
}

TEST(training_survives_growth)
{
    float plain[IN], grown[IN];
    for (int k = 0; k < 2; k++) {
        rf_strategy *s = open_devices(twin, NULL);
        linear m;
        linear_create(&m, s, &(linear_params){ .adam = true });
        for (int i = 0; i < 3; i++) linear_step(&m, 0, 32);
        rf_variable *big = NULL;
        if (k == 1) {
            float gradient[IN];
            CHECK(rf_variable_create(s, &(rf_variable_params){ .shape = RF_SHAPE(300, 100) }, &big));
            CHECK(rf_variable_read_gradient(m.w, gradient)); /* moved with the rest */
            CHECK(rf_updater_learn(m.updater, &big, 1));     /* other owners for everything */
        }
        for (int i = 0; i < 3; i++) linear_step(&m, 0, 32);
        CHECK(rf_variable_read(m.w, k ? grown : plain));
        CHECK(rf_strategy_check_identical(s, NULL, NULL));
        assert_int_equal(rf_function_num_traces(m.train), 1);
        rf_variable_destroy(&big);
        linear_destroy(&m);
        rf_strategy_destroy(&s);
    }
    assert_memory_equal(plain, grown, sizeof(plain));
}

/* Optimizer state read from two replicas and written to one continues the same way, as from a checkpoint. */
TEST(state_moves_between_strategies)
{
    float w[2][IN], b, slots[2][2][IN];
    linear m;
    rf_strategy *s = open_devices(twin, NULL);
    linear_create(&m, s, &(linear_params){ .adam = true });
    for (int i = 0; i < 3; i++) linear_step(&m, 0, 32);
    CHECK(rf_variable_read(m.w, w[0]));
    CHECK(rf_variable_read(m.b, &b));
    for (uint32_t k = 0; k < 2; k++) {
        CHECK(rf_updater_read_slot(m.updater, k, m.w, slots[k][0]));
        CHECK(rf_updater_read_slot(m.updater, k, m.b, slots[k][1]));
    }
    rf_strategy *other = open_devices(one, NULL);
    linear restored;
    linear_create(&restored, other, &(linear_params){ .adam = true });
    CHECK(rf_variable_assign(restored.w, w[0]));
    CHECK(rf_variable_assign(restored.b, &b));
    for (uint32_t k = 0; k < 2; k++) {
        CHECK(rf_updater_write_slot(restored.updater, k, restored.w, slots[k][0]));
        CHECK(rf_updater_write_slot(restored.updater, k, restored.b, slots[k][1]));
    }
    rf_updater_set_iterations(restored.updater, rf_updater_iterations(m.updater));
    for (int i = 0; i < 3; i++) {
        linear_step(&m, 0, 32);
        linear_step(&restored, 0, 32);
    }
    CHECK(rf_variable_read(m.w, w[0]));
    CHECK(rf_variable_read(restored.w, w[1]));
    for (int i = 0; i < IN; i++)
        if (fabsf(w[0][i] - w[1][i]) > 1e-5f) fail_msg("w[%d]: %g and %g", i, (double)w[0][i], (double)w[1][i]);
    linear_destroy(&m);
    linear_destroy(&restored);
    rf_strategy_destroy(&s);
    rf_strategy_destroy(&other);
}

/* ---- initial values ---- */

TEST(initial_values_do_not_depend_on_replicas)
{
    float want[2][200], got[200];
    const char *const lists[] = { one, "llvmpipe,llvmpipe,llvmpipe" };
    for (int k = 0; k < 2; k++) {
        rf_strategy *s = open_devices(lists[k], NULL);
        rf_strategy_set_seed(s, 42);
        rf_variable *v[3];
        for (int i = 0; i < 3; i++) {
            CHECK(rf_variable_create(s, &(rf_variable_params){ .shape = RF_SHAPE(10, 20), .not_trainable = i == 1 },
                                     &v[i]));
            for (uint32_t r = 0; r < s->members.num_replicas; r++) {
                CHECK(rf_variable_read_replica(v[i], r, got));
                if (k == 0 && i < 2) memcpy(want[i], got, sizeof(got));
                if (i < 2)
                    assert_memory_equal(got, want[i], sizeof(got));
                else
                    assert_memory_not_equal(got, want[0], sizeof(got)); /* each variable has a seed of its own */
            }
        }
        assert_string_equal(rf_variable_name(v[2]), "variable_2");
        assert_false(rf_variable_trainable(v[1]));
        for (int i = 0; i < 3; i++) rf_variable_destroy(&v[i]);
        rf_strategy_destroy(&s);
    }
}

/* ---- random numbers, counters, local state ---- */

typedef struct counters {
    rf_local_state *state;
} counters;

/* out[0]: the HOST values. The state grows by x summed over the share. */
static rf_result counters_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const counters *c = user;
    rf_value inverse, total, sum;
    out[0] = rf_trace_wrap(t, rf_trace_host(t, RF_HOST_RANDOM));
    RF_TRY(rf_emit_unary(rf_trace_graph(t), RF_FN_COPY, 0, rf_trace_host(t, RF_HOST_INVERSE_ACTIVE), &inverse));
    out[1] = rf_trace_wrap(t, inverse);
    total = rf_trace_local_state(t, c->state);
    RF_TRY(rf_emit_reduce(rf_trace_graph(t), RF_REDUCE_KIND_SUM, rf_trace_value(t, in[0], "x"), (int32_t[]){ 0 }, 1,
                          true, &sum));
    RF_TRY(rf_emit_update(rf_trace_graph(t), &rf_op_accumulate, NULL, (rf_value[]){ total, sum }, 2));
    assert_int_equal(rf_trace_next_stream(t), 0);
    assert_int_equal(rf_trace_next_stream(t), 1);
    assert_int_equal(rf_trace_num_replicas(t), 3);
    assert_true(rf_trace_training(t));
    return rf_trace_status(t);
}

TEST(host_values_and_local_state)
{
    rf_strategy *s = open_devices("llvmpipe,llvmpipe,llvmpipe", NULL);
    rf_strategy_set_seed(s, 0x123456789abcdef0u);
    counters c;
    CHECK(rf_local_state_create(s, 1, "count", &c.state));
    rf_function *f;
    CHECK(rf_function_create(s, &(rf_function_params){ counters_step, &c, 2, "counters", true }, &f));
    rf_function_set_step(f, 0x500000000u);
    float x[] = { 1, 2, 4, 8, 16, 32, 64, 128 };
    const uint32_t sizes[] = { 8, 2 };
    const uint32_t firsts[2][3] = { { 0, 3, 6 }, { 0, 1, 2 } };
    for (uint32_t run = 0; run < 2; run++) {
        rf_per_replica *results[2];
        CHECK(rf_strategy_run(s, f, &(rf_element){ 1, { { RF_F32, RF_SHAPE((int64_t)sizes[run]), x } } }, results));
        for (uint32_t r = 0; r < (run == 0 ? 3 : 2); r++) {
            rf_array local;
            CHECK(rf_per_replica_local(results[0], r, &local));
            const uint32_t want[6] = { 0x9abcdef0u, 0x12345678u, run, 5, firsts[run][r], 0 };
            assert_memory_equal(local.data, want, sizeof(want));
            CHECK(rf_per_replica_local(results[1], r, &local));
            assert_true(*(float *)local.data == (run == 0 ? 1.0f / 3 : 0.5f));
        }
    }
    float values[3];
    CHECK(rf_local_state_read(c.state, values));
    assert_true(values[0] == 1 + 2 + 4 + 1 && values[1] == 8 + 16 + 32 + 2 && values[2] == 64 + 128);
    CHECK(rf_local_state_reset(c.state));
    CHECK(rf_local_state_read(c.state, values));
    assert_true(values[0] == 0 && values[1] == 0 && values[2] == 0);
    rf_local_state_destroy(&c.state); /* the function keeps what it needs */
    CHECK(rf_strategy_run(s, f, &(rf_element){ 1, { { RF_F32, RF_SHAPE(8), x } } }, NULL));
    CHECK(rf_strategy_synchronize(s));
    rf_function_destroy(&f);
    rf_strategy_destroy(&s);
}

/* ---- gradients by hand ---- */

static rf_result gradients_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    rf_variable **v = user;
    rf_tensor targets[] = { rf_variable_tensor(t, v[0]), rf_variable_tensor(t, v[1]) }, grads[2];
    rf_value loss;
    float weights[] = { 1, 2, 3 };
    const rf_tensor constant = rf_constant_array(t, &(rf_array){ RF_F32, RF_SHAPE(3), weights });
    weights[0] = 100; /* copied before */
    RF_TRY(rf_emit_binary(rf_trace_graph(t), RF_FN_MULTIPLY, 0, rf_trace_value(t, targets[0], "v"),
                          rf_trace_value(t, constant, "c"), &loss));
    RF_TRY(
        rf_emit_binary(rf_trace_graph(t), RF_FN_MULTIPLY, 0, loss, rf_trace_value(t, rf_constant(t, 10), "c"), &loss));
    RF_TRY(rf_emit_reduce(rf_trace_graph(t), RF_REDUCE_KIND_SUM, loss, NULL, 0, false, &loss));
    RF_TRY(rf_gradients(t, rf_trace_wrap(t, loss), targets, 2, grads));
    assert_true(rf_shape_equal(rf_tensor_shape(t, grads[0]), RF_SHAPE(3)));
    assert_int_equal(rf_tensor_dtype(t, grads[1]), RF_F32);
    assert_int_equal(rf_tensor_dtype(t, (rf_tensor){ 0 }), RF_DTYPE_INVALID);
    assert_int_equal(rf_tensor_shape(t, in[0]).dim[1], 4);
    out[0] = grads[0];
    out[1] = grads[1];
    return RF_OK;
}

TEST(gradients_in_a_step)
{
    rf_strategy *s = open_devices(one, NULL);
    rf_variable *v[2];
    CHECK(rf_variable_create(s, &(rf_variable_params){ .shape = RF_SHAPE(3) }, &v[0]));
    CHECK(rf_variable_create(s, &(rf_variable_params){ .shape = RF_SHAPE(2) }, &v[1]));
    rf_function *f;
    rf_per_replica *results[2];
    CHECK(rf_function_create(s, &(rf_function_params){ gradients_step, v, 2, "gradients", false }, &f));
    float x[4] = { 0 };
    CHECK(rf_strategy_run(s, f, &(rf_element){ 1, { { RF_F32, RF_SHAPE(1, 4), x } } }, results));
    rf_array local;
    CHECK(rf_per_replica_local(results[0], 0, &local));
    assert_memory_equal(local.data, ((float[]){ 10, 20, 30 }), 3 * sizeof(float));
    CHECK(rf_per_replica_local(results[1], 0, &local));
    assert_memory_equal(local.data, ((float[]){ 0, 0 }), 2 * sizeof(float));
    rf_function_destroy(&f);
    rf_variable_destroy(&v[0]);
    rf_variable_destroy(&v[1]);
    rf_strategy_destroy(&s);
}

/* ---- errors ---- */

typedef struct bad {
    int what;
    rf_tensor kept;
    rf_variable *foreign, *own, *fixed;
    rf_updater *updater;
} bad;

static rf_result bad_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    bad *b = user;
    rf_value x = rf_trace_value(t, in[0], "x");
    out[0] = in[0];
    rf_variable *twice[2] = { b->own, b->own };
    switch (b->what) {
    case 0: b->kept = in[0]; break;
    case 1: out[0] = b->kept; break;
    case 2: out[0] = (rf_tensor){ 0 }; break;
    case 3: rf_variable_tensor(t, b->foreign); break;
    case 4: return RF_ERROR_IO;
    case 5: return rf_trace_fail(t, RF_ERROR_CANCELLED, "layer %d is tired", 7);
    case 6:
        rf_trace_fail(t, RF_ERROR_UNSUPPORTED, "first");
        rf_trace_fail(t, RF_ERROR_IO, "second");
        return RF_OK;
    case 7: return RF_END;
    case 8:
        return rf_variable_create(rf_trace_strategy(t), &(rf_variable_params){ .name = "hole", .shape = RF_SHAPE(0) },
                                  &b->own);
    case 9: return rf_trace_update(t, b->updater, &x, (rf_variable_list){ &b->own, 1 }, NULL);
    case 10:
        return rf_trace_update(t, b->updater, (rf_value[]){ rf_trace_variable(t, b->fixed) },
                               (rf_variable_list){ &b->fixed, 1 }, NULL);
    case 11:
        x = rf_trace_variable(t, b->own);
        return rf_trace_update(t, b->updater, (rf_value[]){ x, x }, (rf_variable_list){ twice, 2 }, NULL);
    case 12: return rf_trace_update(t, b->updater, &x, (rf_variable_list){ 0 }, NULL);
    case 13:
        x = rf_trace_variable(t, b->own);
        RF_TRY(rf_trace_update(t, b->updater, &x, (rf_variable_list){ &b->own, 1 }, NULL));
        return rf_trace_update(t, b->updater, &x, (rf_variable_list){ &b->own, 1 }, NULL);
    case 14: return rf_gradients(t, in[0], in, 1, out);
    default: break;
    }
    return RF_OK;
}

static rf_result emit_nothing(void *user, rf_graph *g, uint32_t group, rf_value param, rf_value grad,
                              const rf_value *slots, const rf_value *hyper, rf_value shadow)
{
    (void)user, (void)g, (void)group, (void)param, (void)grad, (void)slots, (void)hyper, (void)shadow;
    return RF_OK;
}

static void no_hyper(void *user, uint64_t iteration, double norm, uint32_t group, float *values)
{
    (void)user, (void)iteration, (void)norm, (void)group;
    values[0] = 0;
}

/* A search of an empty cache that finds nothing leaves no failure behind. */
TEST(success_leaves_no_message)
{
    char cache[SCRATCH_PATH];
    scratch(cache);
    rf_strategy *s = NULL;
    assert_int_equal(rf_strategy_create_mirrored(NULL, NULL), RF_ERROR_INVALID_ARGUMENT);
    CHECK(rf_strategy_create_mirrored(&(rf_mirrored_params){ .devices = one, .device.cache_directory = cache }, &s));
    assert_string_equal(rf_error_message(), "rf_strategy_create_mirrored: out is NULL");
    rf_strategy_destroy(&s);
    scratch_remove(cache);
}

TEST(steps_that_fail)
{
    rf_strategy *s = open_devices(one, NULL), *other = open_devices(twin, NULL);
    bad b = { 0 };
    CHECK(rf_variable_create(other, &(rf_variable_params){ .name = "stranger", .shape = RF_SHAPE(2) }, &b.foreign));
    CHECK(rf_variable_create(s, &(rf_variable_params){ .name = "own", .shape = RF_SHAPE(5) }, &b.own));
    CHECK(rf_variable_create(s, &(rf_variable_params){ .name = "frozen", .shape = RF_SHAPE(5), .not_trainable = true },
                             &b.fixed));
    CHECK(rf_updater_create(
        s, &(rf_updater_params){ .accumulation_steps = 1, .emit = emit_nothing, .hyper = no_hyper, .hyper_count = 1 },
        &b.updater));
    static const struct {
        rf_result result;
        const char *parts[3];
    } want[] = {
        { RF_OK, { "" } },
        { RF_ERROR_INVALID_ARGUMENT, { "function 'bad'", "out[0]", "another trace" } },
        { RF_ERROR_INVALID_ARGUMENT, { "function 'bad'", "out[0]", "invalid tensor" } },
        { RF_ERROR_INVALID_ARGUMENT, { "'stranger'", "function 'bad'", "another strategy (2 replicas" } },
        { RF_ERROR_IO, { "function 'bad'", "the step returned RF_ERROR_IO", "" } },
        { RF_ERROR_CANCELLED, { "function 'bad'", "layer 7 is tired", "" } },
        { RF_ERROR_UNSUPPORTED, { "function 'bad'", "first", "" } },
        { RF_ERROR_INVALID_ARGUMENT, { "function 'bad'", "RF_END", "rf_trace_status" } },
        { RF_ERROR_INVALID_ARGUMENT, { "function 'bad'", "'hole'", "[0]" } },
        { RF_ERROR_INVALID_ARGUMENT, { "function 'bad'", "gradient of 'own'", "f32 [5]" } },
        { RF_ERROR_INVALID_ARGUMENT, { "function 'bad'", "'frozen'", "not trainable" } },
        { RF_ERROR_INVALID_ARGUMENT, { "function 'bad'", "'own' appears twice", "" } },
        { RF_ERROR_INVALID_ARGUMENT, { "function 'bad'", "empty", "model" } },
        { RF_ERROR_INVALID_ARGUMENT, { "function 'bad'", "twice in one step", "" } },
        { RF_ERROR_INVALID_ARGUMENT, { "function 'bad'", "", "" } },
    };
    float x[8] = { 0 };
    const rf_element batch = { 1, { { RF_F32, RF_SHAPE(4, 2), x } } };
    for (b.what = 0; b.what < 15; b.what++) {
        rf_function *f;
        rf_variable *own = b.own;
        CHECK(rf_function_create(s, &(rf_function_params){ bad_step, &b, 1, "bad", true }, &f));
        rf_per_replica *result;
        const rf_result r = rf_strategy_run(s, f, &batch, &result);
        if (b.what > 0) {
            check_failure(
                r, want[b.what].result, "step",
                (const char *const[]){ want[b.what].parts[0], want[b.what].parts[1], want[b.what].parts[2], NULL });
            assert_null(result);
            assert_int_equal(rf_strategy_run(s, f, &batch, &result),
                             want[b.what].result); /* tried again, fails again */
            assert_int_equal(rf_function_num_traces(f), 2);
        } else {
            CHECK(r);
        }
        b.own = own;
        rf_function_destroy(&f);
    }
    rf_updater_destroy(&b.updater);
    rf_variable_destroy(&b.own);
    rf_variable_destroy(&b.fixed);
    rf_variable_destroy(&b.foreign);
    rf_strategy_destroy(&s);
    rf_strategy_destroy(&other);
}

TEST(bad_arguments)
{
    rf_strategy *s = open_devices(twin, NULL), *other = open_devices(one, NULL), *none;
    rf_function *f;
    rf_variable *v;
    float x[8] = { 0 }, total;
    CHECK(rf_function_create(s, &(rf_function_params){ average_step, NULL, 2, "average", false }, &f));
    rf_element good = { 1, { { RF_F32, RF_SHAPE(4), x } } }, batch = good;
    CHECK_FAILS(rf_strategy_run(other, f, &good, NULL), RF_ERROR_INVALID_ARGUMENT, "'average'", "another strategy",
                "2 replicas");
    CHECK_FAILS(rf_strategy_run(NULL, f, &good, NULL), RF_ERROR_INVALID_ARGUMENT, "strategy is NULL");
    CHECK_FAILS(rf_strategy_run(s, NULL, &good, NULL), RF_ERROR_INVALID_ARGUMENT, "function is NULL");
    CHECK_FAILS(rf_strategy_run(s, f, NULL, NULL), RF_ERROR_INVALID_ARGUMENT, "'average'", "batch is NULL");
    batch.num_components = 0;
    CHECK_FAILS(rf_strategy_run(s, f, &batch, NULL), RF_ERROR_INVALID_ARGUMENT, "0 components");
    batch = (rf_element){ 1, { { RF_F32, RF_SCALAR_SHAPE, x } } };
    CHECK_FAILS(rf_strategy_run(s, f, &batch, NULL), RF_ERROR_INVALID_ARGUMENT, "component 0", "scalar");
    batch = (rf_element){ 1, { { RF_F32, RF_SHAPE(0, 3), x } } };
    CHECK_FAILS(rf_strategy_run(s, f, &batch, NULL), RF_ERROR_INVALID_ARGUMENT, "component 0", "[0,3]");
    batch = (rf_element){ 1, { { RF_DTYPE_INVALID, RF_SHAPE(4), x } } };
    CHECK_FAILS(rf_strategy_run(s, f, &batch, NULL), RF_ERROR_INVALID_ARGUMENT, "component 0", "type");
    batch = (rf_element){ 1, { { RF_F32, RF_SHAPE(4), NULL } } };
    CHECK_FAILS(rf_strategy_run(s, f, &batch, NULL), RF_ERROR_INVALID_ARGUMENT, "component 0", "no data");
    batch = (rf_element){ 2, { { RF_F32, RF_SHAPE(4), x }, { RF_F32, RF_SHAPE(3), x } } };
    CHECK_FAILS(rf_strategy_run(s, f, &batch, NULL), RF_ERROR_INVALID_ARGUMENT, "0 and 1", "4 and 3");
    rf_per_replica *results[2];
    CHECK(rf_strategy_run(s, f, &good, results)); /* none of these did any harm */
    CHECK_FAILS(rf_strategy_reduce(other, RF_REDUCE_SUM, results[0], &total), RF_ERROR_INVALID_ARGUMENT, "'average'",
                "another strategy");
    CHECK_FAILS(rf_strategy_reduce(s, (rf_reduce_op)9, results[0], &total), RF_ERROR_INVALID_ARGUMENT, "op 9");
    CHECK_FAILS(rf_variable_create(s, NULL, &v), RF_ERROR_INVALID_ARGUMENT, "params");
    CHECK_FAILS(rf_variable_create(s, &(rf_variable_params){ .name = "n", .shape = { 9, { 1 } } }, &v),
                RF_ERROR_INVALID_ARGUMENT, "'n'");
    rf_function_destroy(&f);
    CHECK_FAILS(rf_function_create(s, &(rf_function_params){ 0 }, &f), RF_ERROR_INVALID_ARGUMENT, "step");
    assert_null(f);

    const double shares[] = { 1, 2, 3 };
    CHECK_FAILS(
        rf_strategy_create_mirrored(&(rf_mirrored_params){ .devices = twin, .shares = shares, .num_shares = 3 }, &none),
        RF_ERROR_INVALID_ARGUMENT, "3 shares", "2 replicas");
    assert_null(none);
    CHECK_FAILS(rf_strategy_create_mirrored(
                    &(rf_mirrored_params){ .devices = twin, .shares = (double[]){ 1, NAN }, .num_shares = 2 }, &none),
                RF_ERROR_INVALID_ARGUMENT, "share 1");
    CHECK_FAILS(rf_strategy_create_mirrored(&(rf_mirrored_params){ .devices = "llvmpipe,warp core" }, &none),
                RF_ERROR_NOT_FOUND, "'warp core'", "llvmpipe");
    CHECK_FAILS(rf_strategy_create_one_device(&(rf_one_device_params){ .device = twin }, &none),
                RF_ERROR_INVALID_ARGUMENT, "list");
    rf_strategy_destroy(&s);
    rf_strategy_destroy(&other);
}

TEST(local_updates_want_one_driver)
{
    rf_strategy *s = open_devices("llvmpipe,SwiftShader", NULL);
    rf_strategy_destroy(&s);
    CHECK_FAILS(rf_strategy_create_mirrored(
                    &(rf_mirrored_params){ .devices = "llvmpipe,SwiftShader", .update_mode = RF_UPDATE_LOCAL }, &s),
                RF_ERROR_INVALID_ARGUMENT, "llvmpipe", "SwiftShader", "RF_UPDATE_SHARDED");
}

TEST(devices_from_the_environment)
{
    rf_strategy *s = open_devices(twin, NULL);
    rf_strategy_destroy(&s);
    setenv("RINGFIRE_DEVICES", "llvmpipe,llvmpipe,llvmpipe", 1);
    s = open_devices(NULL, NULL);
    assert_int_equal(rf_strategy_num_replicas_in_sync(s), 3);
    rf_strategy_destroy(&s);
    CHECK(rf_strategy_create_one_device(NULL, &s));
    assert_int_equal(rf_strategy_num_replicas_in_sync(s), 1);
    assert_non_null(strstr(rf_strategy_device_name(s, 0), "llvmpipe"));
    rf_strategy_destroy(&s);
    unsetenv("RINGFIRE_DEVICES");
}

/* ---- profile ---- */

TEST(profile_names_nodes)
{
    rf_strategy *s = open_devices(twin, NULL);
    linear m;
    linear_create(&m, s, &(linear_params){ 0 });
    rf_bench_node *rows;
    uint32_t count;
    CHECK_FAILS(rf_bench_function(m.train, 16, &rows, &count), RF_ERROR_INVALID_ARGUMENT, "'train'", "16 examples");
    linear_step(&m, 0, 32);
    float before[IN], after[IN];
    CHECK(rf_variable_read(m.w, before));
    CHECK(rf_bench_function(m.train, 16, &rows, &count));
    CHECK(rf_variable_read(m.w, after));
    assert_memory_equal(before, after, sizeof(before));
    assert_true(count > 0);
    for (uint32_t i = 0; i < count; i++) {
        assert_non_null(rows[i].op);
        assert_non_null(rows[i].kernel);
        assert_true(rows[i].seconds > 0 && rows[i].gbytes > 0);
    }
    rf_bench_nodes_free(rows);
    linear_destroy(&m);
    rf_strategy_destroy(&s);
}

TEST(commands_are_counted)
{
    rf_strategy *s;
    CHECK(rf_strategy_create_one_device(&(rf_one_device_params){ .device = "llvmpipe" }, &s));
    linear m;
    linear_create(&m, s, &(linear_params){ .adam = true });
    rf_bench_commands commands;
    CHECK_FAILS(rf_bench_count_commands(m.train, 32, &commands), RF_ERROR_INVALID_ARGUMENT, "'train'", "32 examples");
    CHECK_FAILS(rf_bench_count_commands(NULL, 32, &commands), RF_ERROR_INVALID_ARGUMENT, "function is NULL");
    linear_step(&m, 0, 32); /* the first run also submits what makes drivers compile */
    linear_step(&m, 1, 32);
    CHECK(rf_bench_count_commands(m.train, 32, &commands));
    rf_bench_node *rows;
    uint32_t count;
    CHECK(rf_bench_function(m.train, 32, &rows, &count));
    rf_bench_nodes_free(rows);
    assert_true(commands.dispatches > count); /* the update has one more at least */
    assert_true(commands.barriers >= 2);      /* at the ends of both programs */
    assert_true(commands.barriers <= commands.dispatches + commands.copies + 2);
    assert_int_equal(commands.submissions, 1); /* both programs go together */
    linear_destroy(&m);
    rf_strategy_destroy(&s);
}

/* ---- lifetime ---- */

TEST(any_order_of_destruction)
{
    rf_strategy *s = open_devices(twin, NULL);
    linear m;
    linear_create(&m, s, &(linear_params){ .adam = true });
    linear_step(&m, 0, 32);
    rf_strategy_destroy(&s); /* lives on inside until its children are gone */
    assert_null(s);
    rf_variable_destroy(&m.w);
    rf_updater_destroy(&m.updater);
    const rf_element batch = linear_batch(0, 32);
    CHECK_FAILS(rf_strategy_run(m.strategy, m.train, &batch, NULL), RF_ERROR_INVALID_ARGUMENT, "'train'", "destroyed");
    rf_variable_destroy(&m.b);
    rf_function_destroy(&m.predict);
    rf_function_destroy(&m.train);
    rf_strategy_destroy(&s);
    rf_strategy_destroy(NULL);
    rf_variable_destroy(NULL);
    rf_function_destroy(NULL);
}

TESTS(replica, NULL, NULL)
