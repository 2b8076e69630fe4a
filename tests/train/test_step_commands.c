/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands that a training step makes a GPU do: lavapipe records the benchmark's CNN for the kernels that a GPU
 * would choose. The limits are what the step has now: whoever needs fewer lowers them.
 */
#include "../../tools/net.h"
#include "../support/expect.h"
#include "bench/measure/measure.h"
#include "exec/internal.h"
#include "replica/internal.h"
#include "step/function.h"
#include "step/signature.h"
#include "tests/room.h"

enum { BATCH = 64, MOST_DISPATCHES = 16, MOST_BARRIERS = 13, MOST_COPIES = 2 };

/* A device's kernels as a GPU would choose them. */
static void pretend_to_be_a_gpu(rf_strategy *strategy)
{
    rf_device_caps *caps = &strategy->members.replicas[0].exec->caps;
    caps->driver = RF_DRIVER_OTHER;
    caps->is_cpu = caps->compiles_at_dispatch = caps->host_visible = false;
    caps->subgroup_size = 32; /* no kernel for lanes is eligible */
    caps->compute_units = 32;
}

static void create(bench_net *n)
{
    const rf_shape image = RF_SHAPE(BENCH_SIDE, BENCH_SIDE, 1);
    rf_layer *layers[BENCH_CNN_LAYERS] = { NULL };
    CHECK(rf_strategy_create_one_device(&(rf_one_device_params){ .device = "llvmpipe" }, &n->strategy));
    pretend_to_be_a_gpu(n->strategy);
    CHECK(bench_cnn_layers(layers));
    CHECK(rf_model_create_sequential(n->strategy, layers, BENCH_CNN_LAYERS, &image, &n->model));
    CHECK(rf_optimizer_create(n->strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM }, &n->optimizer));
    CHECK(rf_metric_create(n->strategy,
                           &(rf_metric_params){ .kind = RF_METRIC_SPARSE_CATEGORICAL_ACCURACY, .name = "accuracy" },
                           &n->accuracy));
    CHECK(bench_net_create_step(n));
    CHECK(bench_net_make_batch(n, BATCH, RF_SHAPE(-1, BENCH_SIDE, BENCH_SIDE, 1), BENCH_CLASSES));
}

TEST(a_step_is_short)
{
    bench_net n = { 0 };
    rf_per_replica *results[1];
    float losses[2];
    create(&n);
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(rf_strategy_run(n.strategy, n.step, &n.batch, results));
        CHECK(rf_strategy_reduce(n.strategy, RF_REDUCE_SUM, results[0], &losses[i]));
    }
    assert_true(losses[1] < losses[0]); /* it was recorded, and it learns */
    rf_bench_commands commands;
    CHECK(rf_bench_count_commands(n.step, BATCH, &commands));
    print_message("%u dispatches, %u barriers, %u copies in %u submissions\n", commands.dispatches, commands.barriers,
                  commands.copies, commands.submissions);
    assert_in_range(commands.dispatches, 10, MOST_DISPATCHES);
    assert_in_range(commands.barriers, 10, MOST_BARRIERS);
    assert_in_range(commands.copies, 1, MOST_COPIES);
    assert_int_equal(commands.submissions, 1);
    bench_net_destroy(&n);
}

/* The price of a step for state that it assigns, and for sums over all replicas. */
typedef struct state_cost {
    uint64_t elements;                       /* room in all arrays for that */
    uint32_t recordings, parts, submissions; /* parts that end with a sum */
} state_cost;

static state_cost cost_of(const bench_net *n)
{
    const rf_strategy *s = n->strategy;
    const rf_flat *const flats[] = { &s->store.assigned,    &s->exchange.fixed.down, &s->exchange.fixed.up,
                                     &s->store.summands,    &s->store.sums,          &s->exchange.summed.down,
                                     &s->exchange.summed.up };
    const rf_signature *signature = n->step->signatures.items[0];
    state_cost cost = { .parts = signature->sums.num_parts, .submissions = n->step->num_submissions };
    for (uint32_t i = 0; i < sizeof(flats) / sizeof(flats[0]); i++) cost.elements += flats[i]->capacity;
    cost.elements += signature->sums.elements;
    const rf_step_stage *assign = rf_step_schedule_find(&signature->schedule, &rf_assign_action, NULL, 0);
    if (assign) cost.recordings = assign->works[0].copy != NULL;
    return cost;
}

/* The small CNN assigns nothing; a network with moving averages shows that the same numbers tell who does. */
TEST(who_assigns_nothing_pays_nothing)
{
    bench_net cnn = { 0 }, norm = { 0 };
    rf_per_replica *results[1];
    create(&cnn);
    /* The first run of a program is submitted in pieces, to measure it. */
    for (uint32_t i = 0; i < 2; i++) CHECK(rf_strategy_run(cnn.strategy, cnn.step, &cnn.batch, results));
    state_cost cost = cost_of(&cnn);
    assert_int_equal(cost.elements, 0);
    assert_int_equal(cost.recordings, 0);
    assert_int_equal(cost.parts, 0);
    assert_int_equal(cost.submissions, 1);

    rf_layer *layers[2] = { NULL };
    CHECK(rf_strategy_create_one_device(&(rf_one_device_params){ .device = "llvmpipe" }, &norm.strategy));
    CHECK(rf_layer_batch_norm(&(rf_batch_norm_params){ 0 }, &layers[0]));
    CHECK(rf_layer_dense(&(rf_dense_params){ .units = BENCH_CLASSES }, &layers[1]));
    CHECK(rf_model_create_sequential(norm.strategy, layers, 2, &(rf_shape){ 1, { 8 } }, &norm.model));
    CHECK(rf_optimizer_create(norm.strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_SGD }, &norm.optimizer));
    CHECK(bench_net_create_step(&norm));
    CHECK(bench_net_make_batch(&norm, BATCH, RF_SHAPE(-1, 8), BENCH_CLASSES));
    CHECK(rf_strategy_run(norm.strategy, norm.step, &norm.batch, results));
    cost = cost_of(&norm);
    assert_in_range(cost.elements, 2 * 8, 1 << 20); /* two moving averages at least */
    assert_int_equal(cost.recordings, 1);
    bench_net_destroy(&cnn);
    bench_net_destroy(&norm);
}

TESTS(step_commands, NULL, NULL)
