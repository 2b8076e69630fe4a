/* SPDX-License-Identifier: Apache-2.0 */
/* The networks of examples/resnet against PyTorch (make_resnet_trajectory.py), on one device and on replicas of which
 * each gets the whole batch or shares it, and their sizes against the published ones. Argument: drivers. */
#include "../../examples/resnet/model.h"
#include "tests/room.h"
#include "trajectory.h"

static trajectory bottleneck;
static const resnet_config bottleneck_config = {
    .blocks = { 1, 2 }, .width = 4, .bottleneck = true, .projection = true, .large_images = true, .classes = 10
};

static int load_references(void **state)
{
    trajectory_load(FIXTURES "/resnet_bottleneck.traj", &bottleneck);
    return trajectory_open(state);
}

static int free_references(void **state)
{
    trajectory_free(&bottleneck);
    return trajectory_close(state);
}

static void train(rf_strategy *strategy, const resnet_config *config, double rate, const trajectory *reference)
{
    resnet *r;
    OK(resnet_create(strategy, config, trajectory_example_shape(reference), &r));
    trajectory_follow_classifier(
        reference, strategy, resnet_model(r),
        &(rf_optimizer_params){ .kind = RF_OPTIMIZER_SGD, .learning_rate = rate, .momentum = 0.9 });
    resnet_destroy(&r);
}

static void follow_resnet_8(rf_strategy *strategy)
{
    train(strategy, &resnet_8, 5e-3, &trajectory_reference);
}
ON_ONE(follow_resnet_8)
ON_LISTS(follow_resnet_8, _on_one_twice, 3, 1, 1)
ON_LISTS(follow_resnet_8, _on_two_drivers, 2, 1, 1)

static void follow_bottleneck(rf_strategy *strategy)
{
    train(strategy, &bottleneck_config, 5e-4, &bottleneck);
}
ON_ONE(follow_bottleneck)

/* ---- the batch shared by replicas, which normalize by the statistics of all of it ---- */

static void train_shared(rf_strategy *strategy, double *losses)
{
    resnet_config config = resnet_8;
    resnet *n;
    config.synchronized = true;
    OK(resnet_create(strategy, &config, trajectory_example_shape(&trajectory_reference), &n));
    trajectory_train_classifier(
        &trajectory_reference, strategy, resnet_model(n),
        &(rf_optimizer_params){ .kind = RF_OPTIMIZER_SGD, .learning_rate = 5e-3, .momentum = 0.9 },
        TRAJECTORY_MAX_STEPS, losses);
    resnet_destroy(&n);
}

static void keep_shared(rf_strategy *strategy)
{
    trajectory_keep(strategy, train_shared);
}
ON_LISTS(keep_shared, _on_lavapipe, 0, 1, 1)

static void compare_shared(rf_strategy *strategy)
{
    trajectory_compare(strategy, train_shared);
}
ON_LISTS(compare_shared, _on_one_twice, 3, 1, 1)
ON_LISTS(compare_shared, _on_two_drivers, 2, 1, 1)

static uint64_t count_trainable(rf_strategy *strategy, const resnet_config *config, rf_shape image)
{
    resnet *r;
    OK(resnet_create(strategy, config, image, &r));
    const uint64_t count = trajectory_count_trainable(resnet_model(r));
    resnet_destroy(&r);
    return count;
}

static void sizes(rf_strategy *strategy)
{
    assert_int_equal(count_trainable(strategy, &resnet_8, RF_SHAPE(28, 28, 1)), 75002);
    assert_int_equal(count_trainable(strategy, &resnet_20, RF_SHAPE(28, 28, 1)), 269434);
    assert_int_equal(count_trainable(strategy, &resnet_20, RF_SHAPE(32, 32, 3)), 269722);
    assert_int_equal(count_trainable(strategy, &resnet_18, RF_SHAPE(224, 224, 3)), 11689512);
    assert_int_equal(count_trainable(strategy, &resnet_50, RF_SHAPE(224, 224, 3)), 25557032);
}
ON_ONE(sizes)

TEST_PROGRAM(resnet)
{
    trajectory_file = FIXTURES "/resnet_8.traj";
    const struct CMUnitTest driver_tests[] = { cmocka_unit_test(follow_resnet_8_on_two_drivers),
                                               cmocka_unit_test(keep_shared_on_lavapipe),
                                               cmocka_unit_test(compare_shared_on_two_drivers) };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follow_resnet_8_on_one),   cmocka_unit_test(follow_resnet_8_on_one_twice),
        cmocka_unit_test(keep_shared_on_lavapipe),  cmocka_unit_test(compare_shared_on_one_twice),
        cmocka_unit_test(follow_bottleneck_on_one), cmocka_unit_test(sizes_on_one),
    };
    if (argc > 1 && strcmp(argv[1], "drivers") == 0)
        return cmocka_run_group_tests(driver_tests, load_references, free_references);
    return cmocka_run_group_tests(tests, load_references, free_references);
}
