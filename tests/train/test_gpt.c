/* SPDX-License-Identifier: Apache-2.0 */
/* The network of examples/gpt against PyTorch (make_gpt_trajectory.py), and replicas against one device; its size
 * against the published one. Arguments: biases for the network that has them; drivers, size, or a number of
 * steps. */
#include "../../examples/gpt/model.h"
#include "tests/room.h"
#include "trajectory.h"

static const gpt_config with_biases = {
    .layers = 1, .heads = 2, .width = 16, .block = 12, .vocabulary = 29, .bias = true
};
static gpt_config followed = { .layers = 2, .heads = 2, .width = 32, .block = 16, .vocabulary = 29 };

/* As many as the program is asked for: with the validation layer in between all of them take long. */
static uint32_t num_steps = TRAJECTORY_MAX_STEPS;

typedef struct training {
    gpt *gpt;
    rf_optimizer *optimizer;
    rf_function *function;
} training;

static rf_result train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const training *tr = user;
    const rf_tensor logits = rf_model_call(t, gpt_model(tr->gpt), in[0], RF_TRAINING);
    const rf_tensor losses = rf_sparse_categorical_crossentropy(t, in[1], logits, RF_LOGITS); /* [n, block] */
    const int32_t positions = 1;
    out[0] = rf_compute_average_loss(t, rf_reduce_mean(t, losses, &positions, 1, RF_DROP_DIMS), NULL);
    (void)rf_optimizer_minimize(t, tr->optimizer, out[0], rf_model_variables(gpt_model(tr->gpt)));
    return rf_trace_status(t);
}

static rf_result predict(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const training *tr = user;
    out[0] = rf_model_call(t, gpt_model(tr->gpt), in[0], RF_INFERENCE);
    return rf_trace_status(t);
}

/* A first call makes the model's list of variables. */
static void build(rf_strategy *strategy, training *tr)
{
    rf_function *function;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = predict, .user = tr, .num_outputs = 1 }, &function));
    const rf_element tokens = { .num_components = 1, .component = { trajectory_reference.batches[0].component[0] } };
    OK(rf_strategy_run(strategy, function, &tokens, NULL));
    rf_function_destroy(&function);
}

static void train(rf_strategy *strategy, double *losses)
{
    training tr;
    OK(gpt_create(strategy, &followed, &tr.gpt));
    build(strategy, &tr);
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM }, &tr.optimizer));
    OK(rf_function_create(strategy,
                          &(rf_function_params){ .step = train_step, .user = &tr, .num_outputs = 1, .training = true },
                          &tr.function));
    trajectory_assign(&trajectory_reference, gpt_model(tr.gpt));
    trajectory_follow(&trajectory_reference, strategy, gpt_model(tr.gpt), tr.function, num_steps, losses);
    rf_function_destroy(&tr.function);
    rf_optimizer_destroy(&tr.optimizer);
    gpt_destroy(&tr.gpt);
}

static void follow(rf_strategy *strategy)
{
    trajectory_keep(strategy, train);
}
ON_LISTS(follow, _on_lavapipe, 0, 1, 1)
ON_LISTS(follow, _on_swiftshader, 1, 1, 1)

static void compare(rf_strategy *strategy)
{
    trajectory_compare(strategy, train);
}
ON_LISTS(compare, _two_drivers, 2, 1, 1)
ON_LISTS(compare, _one_driver_twice, 3, 1, 1)

/* ---- size ---- */

/* Parameters, by hand. */
static uint64_t count(const gpt_config *c)
{
    const uint64_t w = c->width, norm = c->bias ? 2 * w : w, bias = c->bias ? 1 : 0;
    const uint64_t attention = w * 3 * w + w * w + bias * (3 * w + w), mlp = 2 * w * 4 * w + bias * (4 * w + w);
    return ((uint64_t)c->vocabulary + c->block) * w + c->layers * (2 * norm + attention + mlp) + norm;
}

static uint64_t count_created(rf_strategy *strategy, const gpt_config *config)
{
    gpt *g;
    OK(gpt_create(strategy, config, &g));
    OK(rf_model_build_for(gpt_model(g), RF_I32, RF_SHAPE(config->block)));
    const uint64_t created = rf_model_num_params(gpt_model(g));
    gpt_destroy(&g);
    return created;
}

/* The count by hand is right for networks that differ in each number, and has the published value for the published
 * one, whose gigabytes are only allocated with "size". */
static void sizes(rf_strategy *strategy)
{
    assert_int_equal(count(&gpt_2_small), 124439808);
    gpt_config models[] = { followed, followed, followed, followed, followed };
    models[1].layers = 3;
    models[2].width = 48;
    models[3].block = 9;
    models[4].vocabulary = 31;
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
        assert_int_equal(count_created(strategy, &models[i]), count(&models[i]));
}
ON_ONE(sizes)

static void small(rf_strategy *strategy)
{
    assert_int_equal(count_created(strategy, &gpt_2_small), 124439808);
}
ON_ONE(small)

TEST_PROGRAM(gpt)
{
    const bool biases = argc > 1 && strcmp(argv[1], "biases") == 0;
    trajectory_file = biases ? FIXTURES "/gpt_bias.traj" : FIXTURES "/gpt.traj";
    if (biases) {
        followed = with_biases;
        argc--;
        argv++;
    }
    const struct CMUnitTest driver_tests[] = { cmocka_unit_test(follow_on_lavapipe),
                                               cmocka_unit_test(follow_on_swiftshader),
                                               cmocka_unit_test(compare_two_drivers) };
    const struct CMUnitTest tests[] = { cmocka_unit_test(follow_on_lavapipe),
                                        cmocka_unit_test(compare_one_driver_twice), cmocka_unit_test(sizes_on_one) };
    const struct CMUnitTest size_tests[] = { cmocka_unit_test(small_on_one) };
    if (argc > 1 && strcmp(argv[1], "size") == 0) return cmocka_run_group_tests(size_tests, NULL, NULL);
    if (argc > 1 && strcmp(argv[1], "drivers") == 0)
        return cmocka_run_group_tests(driver_tests, trajectory_open, trajectory_close);
    if (argc > 1) num_steps = (uint32_t)atoi(argv[1]);
    return cmocka_run_group_tests(tests, trajectory_open, trajectory_close);
}
