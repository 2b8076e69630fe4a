/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a training step makes a GPU do: lavapipe records the benchmark's CNN for the kernels that a GPU would choose.
 * The limits are what the step has now: whoever needs fewer lowers them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../tools/bench/net.h"
#include "../support/expect.h"
#include "exec/internal.h"
#include "replica/internal.h"

enum { BATCH = 64, MOST_DISPATCHES = 23, MOST_BARRIERS = 18, MOST_COPIES = 2 };

static void create(bench_net *n)
{
    const rf_shape image = RF_SHAPE(BENCH_SIDE, BENCH_SIDE, 1);
    rf_layer *layers[BENCH_CNN_LAYERS] = { NULL };
    CHECK(rf_strategy_create_one_device(&(rf_one_device_params){ .device = "llvmpipe" }, &n->strategy));
    rf_device_caps *caps = &n->strategy->replicas[0].exec->caps;
    caps->driver = RF_DRIVER_OTHER;
    caps->is_cpu = caps->compiles_at_dispatch = caps->host_visible = false;
    caps->subgroup_size = 32; /* no kernel for lanes is eligible */
    caps->compute_units = 32;
    CHECK(bench_cnn_layers(layers));
    CHECK(rf_model_create_sequential(n->strategy, layers, BENCH_CNN_LAYERS, &image, &n->model));
    CHECK(rf_optimizer_create(n->strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM }, &n->optimizer));
    CHECK(rf_metric_create(n->strategy, RF_METRIC_SPARSE_CATEGORICAL_ACCURACY, "accuracy", &n->accuracy));
    CHECK(bench_net_create_step(n));
    CHECK(bench_net_make_batch(n, BATCH, RF_SHAPE(-1, BENCH_SIDE, BENCH_SIDE, 1), BENCH_CLASSES));
}

static void a_step_is_short(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_step_is_short) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
