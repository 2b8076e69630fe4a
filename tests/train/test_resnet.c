/* SPDX-License-Identifier: Apache-2.0 */
/* The networks of examples/resnet against PyTorch (make_resnet_trajectory.py), on one device and on replicas of which
 * each gets the whole batch, and their sizes against the published ones. Argument: drivers. */
#include "../../examples/resnet/model.h"
#include "trajectory.h"

static trajectory bottleneck;
static const resnet_config bottleneck_config = {
    .blocks = { 1, 2 }, .width = 4, .bottleneck = true, .projection = true, .large_images = true, .classes = 10
};

static int load_references(void **state)
{
    trajectory_load(BOTTLENECK_FILE, &bottleneck);
    return trajectory_open(state);
}

static int free_references(void **state)
{
    trajectory_free(&bottleneck);
    return trajectory_close(state);
}

typedef struct training {
    resnet *resnet;
    rf_optimizer *optimizer;
    rf_function *function;
} training;

static rf_result train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const training *tr = user;
    rf_model *model = resnet_model(tr->resnet);
    const rf_tensor logits = rf_model_call(t, model, in[0], RF_TRAINING);
    out[0] = rf_compute_average_loss(t, rf_sparse_categorical_crossentropy(t, in[1], logits, true), NULL);
    (void)rf_optimizer_minimize(t, tr->optimizer, out[0], rf_model_variables(model));
    return rf_trace_status(t);
}

/* Normalization is that of each replica: all of them get all examples. */
static trajectory repeat(const trajectory *t, uint32_t times)
{
    trajectory repeated = *t;
    for (uint32_t s = 0; s < t->num_steps; s++)
        for (uint32_t i = 0; i < t->num_components; i++) {
            rf_array *array = &repeated.batches[s].component[i];
            const size_t size = (size_t)rf_shape_count(array->shape) * sizeof(float);
            array->shape.dim[0] *= times;
            array->data = test_malloc(times * size);
            for (uint32_t k = 0; k < times; k++)
                memcpy((char *)array->data + k * size, t->batches[s].component[i].data, size);
        }
    return repeated;
}

static void free_repeated(trajectory *t)
{
    for (uint32_t s = 0; s < t->num_steps; s++)
        for (uint32_t i = 0; i < t->num_components; i++) test_free(t->batches[s].component[i].data);
}

static void train(rf_strategy *strategy, const resnet_config *config, double rate, const trajectory *reference)
{
    training tr;
    double losses[TRAJECTORY_MAX_STEPS];
    rf_shape image = { .rank = 3 };
    memcpy(image.dim, &reference->batches[0].component[0].shape.dim[1], 3 * sizeof(image.dim[0]));
    OK(resnet_create(strategy, config, image, &tr.resnet));
    OK(rf_optimizer_create(strategy,
                           &(rf_optimizer_params){ .kind = RF_OPTIMIZER_SGD, .learning_rate = rate, .momentum = 0.9 },
                           &tr.optimizer));
    OK(rf_function_create(strategy,
                          &(rf_function_params){ .step = train_step, .user = &tr, .num_outputs = 1, .training = true },
                          &tr.function));
    trajectory repeated = repeat(reference, rf_strategy_num_replicas_in_sync(strategy));
    trajectory_assign(&repeated, resnet_model(tr.resnet));
    trajectory_follow(&repeated, strategy, resnet_model(tr.resnet), tr.function, TRAJECTORY_MAX_STEPS, losses);
    free_repeated(&repeated);
    rf_function_destroy(&tr.function);
    rf_optimizer_destroy(&tr.optimizer);
    resnet_destroy(&tr.resnet);
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

static uint64_t count_trainable(rf_strategy *strategy, const resnet_config *config, rf_shape image)
{
    resnet *r;
    uint64_t count = 0;
    OK(resnet_create(strategy, config, image, &r));
    const rf_variable_list variables = rf_model_variables(resnet_model(r));
    for (uint32_t i = 0; i < variables.count; i++)
        count += (uint64_t)rf_shape_count(rf_variable_shape(variables.items[i]));
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

int main(int argc, char **argv)
{
    const struct CMUnitTest driver_tests[] = { cmocka_unit_test(follow_resnet_8_on_two_drivers) };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follow_resnet_8_on_one),
        cmocka_unit_test(follow_resnet_8_on_one_twice),
        cmocka_unit_test(follow_bottleneck_on_one),
        cmocka_unit_test(sizes_on_one),
    };
    if (argc > 1 && strcmp(argv[1], "drivers") == 0)
        return cmocka_run_group_tests(driver_tests, load_references, free_references);
    return cmocka_run_group_tests(tests, load_references, free_references);
}
