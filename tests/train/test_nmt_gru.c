/* SPDX-License-Identifier: Apache-2.0 */
/* The recurrent network of examples/nmt against PyTorch (make_nmt_gru_trajectory.py), replicas against one device, its
 * size, and what it attends to. Argument: drivers. */
#include "nmt_training.h"
#include "tests/room.h"

static const nmt_config followed = {
    .units = 10, .width = 6, .source_vocabulary = 13, .target_vocabulary = 11, .source_length = 9, .target_length = 7
};

/* ---- training ---- */

TEST_ON_ONE(nmt_goes_on)
TEST_ON_TWO(nmt_goes_on)

/* ---- size ---- */

static void size(rf_strategy *strategy)
{
    nmt *m;
    const nmt_config c = { .units = 128,
                           .width = 64,
                           .source_vocabulary = 2000,
                           .target_vocabulary = 2000,
                           .source_length = 2,
                           .target_length = 2 };
    OK(nmt_create(strategy, &c, &m));
    /* Two tables; encoder; attention of two matrices and a vector; decoder; classifier. */
    assert_int_equal(rf_model_num_params(nmt_model(m)),
                     2 * 2000 * 64 + (64 + 128 + 2) * 384 + 2 * 128 * 129 + 129 + (192 + 128 + 2) * 384 + 129 * 2000);
    assert_int_equal(rf_model_num_params(nmt_model(m)), 745297);
    nmt_destroy(&m);
}
TEST_ON_ONE(size)

/* ---- attention ---- */

static rf_result look(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)nmt_call(t, user, in[0], in[1], RF_INFERENCE, &out[0]);
    return rf_trace_status(t);
}

/* A row of weights for each place of the translation, which add up to 1 over what is no padding. */
static void attends(rf_strategy *strategy)
{
    nmt *m;
    rf_function *function;
    rf_per_replica *results[1];
    rf_array weights;
    const rf_element batch = {
        2, { trajectory_reference.batches[0].component[0], trajectory_reference.batches[0].component[1] }
    };
    OK(nmt_create(strategy, &followed, &m));
    trajectory_assign(&trajectory_reference, nmt_model(m));
    OK(rf_function_create(strategy, &(rf_function_params){ .step = look, .user = m, .num_outputs = 1 }, &function));
    OK(rf_strategy_run(strategy, function, &batch, results));
    OK(rf_strategy_gather(strategy, results[0], &weights));
    assert_true(rf_shape_equal(weights.shape, RF_SHAPE(6, 7, 9)));
    const float *weight = weights.data;
    const int32_t *source = batch.component[0].data;
    for (int row = 0; row < 6 * 7; row++) {
        double sum = 0;
        for (int i = 0; i < 9; i++, weight++) {
            sum += (double)*weight;
            if (source[row / 7 * 9 + i] == NMT_PADDING) assert_true(*weight == 0.0f);
        }
        assert_near(sum, 1, 1e-5, 0, "weights");
    }
    rf_array_free(&weights);
    rf_function_destroy(&function);
    nmt_destroy(&m);
}
TEST_ON_ONE(attends)

TEST_PROGRAM(nmt_gru)
{
    nmt_followed = &followed;
    return trajectory_run(FIXTURES "/nmt_gru.traj", &nmt_network, own_tests, argc, argv);
}
