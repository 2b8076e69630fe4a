/* SPDX-License-Identifier: Apache-2.0 */
/* The networks of examples/densenet against PyTorch (make_densenet_trajectory.py), on one device and on replicas of
 * which each gets the whole batch or shares it, and their sizes against the published ones. Argument: drivers. */
#include "../../examples/densenet/model.h"
#include "tests/room.h"
#include "trajectory.h"

static void follow(rf_strategy *strategy)
{
    densenet *d;
    OK(densenet_create(strategy, &densenet_bc_16_8, trajectory_example_shape(&trajectory_reference), &d));
    trajectory_follow_classifier(
        &trajectory_reference, strategy, densenet_model(d),
        &(rf_optimizer_params){ .kind = RF_OPTIMIZER_SGD, .learning_rate = 2e-3, .momentum = 0.9, .nesterov = true });
    densenet_destroy(&d);
}
ON_ONE(follow)
ON_LISTS(follow, _on_one_twice, 3, 1, 1)
ON_LISTS(follow, _on_two_drivers, 2, 1, 1)

/* ---- the batch shared by replicas, which normalize by the statistics of all of it ---- */

static void share_batches(rf_strategy *strategy, double *losses)
{
    densenet_config config = densenet_bc_16_8;
    densenet *n;
    config.synchronized = true;
    OK(densenet_create(strategy, &config, trajectory_example_shape(&trajectory_reference), &n));
    trajectory_train_classifier(
        &trajectory_reference, strategy, densenet_model(n),
        &(rf_optimizer_params){ .kind = RF_OPTIMIZER_SGD, .learning_rate = 2e-3, .momentum = 0.9, .nesterov = true },
        TRAJECTORY_MAX_STEPS, losses);
    densenet_destroy(&n);
}

static void keep_shared(rf_strategy *strategy)
{
    trajectory_keep(strategy, share_batches);
}
ON_LISTS(keep_shared, _on_lavapipe, 0, 1, 1)

static void compare_shared(rf_strategy *strategy)
{
    trajectory_compare(strategy, share_batches);
}
ON_LISTS(compare_shared, _on_one_twice, 3, 1, 1)
ON_LISTS(compare_shared, _on_two_drivers, 2, 1, 1)

static void check_size(rf_strategy *strategy, const densenet_config *config, rf_shape image, uint64_t trainable,
                       uint64_t moving)
{
    densenet *d;
    OK(densenet_create(strategy, config, image, &d));
    assert_int_equal(trajectory_count_trainable(densenet_model(d)), trainable);
    assert_int_equal(rf_model_num_params(densenet_model(d)), trainable + moving);
    densenet_destroy(&d);
}

static void sizes(rf_strategy *strategy)
{
    densenet_config bc_40_12 = densenet_bc_16_12, bc_22_12 = densenet_bc_16_12;
    bc_40_12.layers = 6;
    bc_22_12.layers = 3;
    check_size(strategy, &densenet_40_12, RF_SHAPE(32, 32, 3), 1059298, 18720);
    check_size(strategy, &bc_40_12, RF_SHAPE(32, 32, 3), 176122, 5088);
    check_size(strategy, &bc_22_12, RF_SHAPE(28, 28, 1), 71254, 1992);
    check_size(strategy, &densenet_bc_16_12, RF_SHAPE(28, 28, 1), 43978, 1224);
    check_size(strategy, &densenet_bc_16_8, RF_SHAPE(28, 28, 1), 19978, 816);
    check_size(strategy, &densenet_bc_100_12, RF_SHAPE(32, 32, 3), 769162, 23988);
}
ON_ONE(sizes)

TEST_PROGRAM(densenet)
{
    trajectory_file = FIXTURES "/densenet.traj";
    const struct CMUnitTest driver_tests[] = { cmocka_unit_test(follow_on_one_twice),
                                               cmocka_unit_test(follow_on_two_drivers),
                                               cmocka_unit_test(keep_shared_on_lavapipe),
                                               cmocka_unit_test(compare_shared_on_one_twice),
                                               cmocka_unit_test(compare_shared_on_two_drivers) };
    const struct CMUnitTest tests[] = { cmocka_unit_test(follow_on_one), cmocka_unit_test(sizes_on_one) };
    if (argc > 1 && strcmp(argv[1], "drivers") == 0)
        return cmocka_run_group_tests(driver_tests, trajectory_open, trajectory_close);
    return cmocka_run_group_tests(tests, trajectory_open, trajectory_close);
}
