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

static rf_model *model_of(void *made)
{
    return gpt_model(made);
}

static void *create(rf_strategy *strategy)
{
    gpt *made;
    OK(gpt_create(strategy, &followed, &made));
    OK(rf_model_build_for(gpt_model(made), RF_I32, RF_SHAPE(followed.block)));
    return made;
}

static void destroy(void *made)
{
    gpt_destroy(&(gpt *){ made });
}

static rf_tensor losses_of(rf_trace *t, void *made, const rf_tensor *in)
{
    const rf_tensor logits = rf_model_call(t, gpt_model(made), in[0], RF_TRAINING);
    const int32_t positions = 1;
    return rf_reduce_mean(t, rf_sparse_categorical_crossentropy(t, in[1], logits, RF_LOGITS), &positions, 1,
                          RF_DROP_DIMS);
}

/* As many steps as the program is asked for: with the validation layer in between all of them take long. */
static trajectory_network network = { .create = create, .model = model_of, .destroy = destroy, .losses = losses_of };

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
TEST_ON_ONE(sizes)

static void small(rf_strategy *strategy)
{
    assert_int_equal(count_created(strategy, &gpt_2_small), 124439808);
}
ON_ONE(small)

TEST_PROGRAM(gpt)
{
    const struct CMUnitTest size_tests[] = { cmocka_unit_test(small_on_one) };
    if (argc > 1 && strcmp(argv[1], "size") == 0) return cmocka_run_group_tests(size_tests, NULL, NULL);
    const bool biases = argc > 1 && strcmp(argv[1], "biases") == 0;
    if (biases) followed = with_biases;
    argc -= biases;
    argv += biases;
    if (argc > 1 && strcmp(argv[1], "drivers") != 0) network.num_steps = (uint32_t)atoi(argv[1]);
    return trajectory_run(biases ? FIXTURES "/gpt_bias.traj" : FIXTURES "/gpt.traj", &network, own_tests, argc, argv);
}
