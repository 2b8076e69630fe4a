/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent layers in a functional model, a classifier of padded sequences, against PyTorch (make_rnn_trajectory.py),
 * and two replicas against one device. */
#include "tests/room.h"
#include "trajectory.h"

enum { TOKENS = 12, WIDTH = 5, UNITS = 4, CLASSES = 3 };

typedef struct network {
    rf_model *model;
    rf_optimizer *optimizer;
} network;

static rf_layer *recurrent(rf_rnn_kind kind, bool return_sequences)
{
    rf_layer *layer;
    const rf_rnn_layer_params params = { .kind = kind, .units = UNITS, .return_sequences = return_sequences };
    OK(rf_layer_rnn(&params, &layer));
    return layer;
}

static rf_model *build(rf_strategy *strategy, int64_t length)
{
    rf_model_builder *b;
    rf_model *model;
    rf_layer *embedding, *padding, *both, *dense;
    OK(rf_layer_embedding(&(rf_embedding_params){ .input_dim = TOKENS, .output_dim = WIDTH }, &embedding));
    OK(rf_layer_not_equal(0, &padding));
    OK(rf_layer_bidirectional(recurrent(RF_RNN_LSTM, true), RF_MERGE_CONCATENATE, NULL, &both));
    OK(rf_layer_dense(&(rf_dense_params){ .units = CLASSES, .no_bias = true }, &dense));
    OK(rf_model_builder_create(strategy, &b));
    const rf_symbol tokens = rf_model_builder_input(b, RF_I32, RF_SHAPE(length), "tokens");
    const rf_symbol mask = rf_model_builder_call(b, padding, tokens);
    rf_symbol x = rf_model_builder_call(b, embedding, tokens);
    OK(rf_model_builder_apply(b, both, &x, 1, mask, &x, 1));
    OK(rf_model_builder_apply(b, recurrent(RF_RNN_GRU, true), &x, 1, mask, &x, 1));
    OK(rf_model_builder_apply(b, recurrent(RF_RNN_SIMPLE, false), &x, 1, mask, &x, 1));
    x = rf_model_builder_call(b, dense, x);
    OK(rf_model_builder_finish(&b, &x, 1, NULL, &model));
    return model;
}

static rf_result train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const network *n = user;
    const rf_tensor logits = rf_model_call(t, n->model, in[0], RF_TRAINING);
    out[0] = rf_compute_average_loss(t, rf_sparse_categorical_crossentropy(t, in[1], logits, RF_LOGITS), NULL);
    (void)rf_optimizer_minimize(t, n->optimizer, out[0], rf_model_variables(n->model));
    return rf_trace_status(t);
}

static void create(rf_strategy *strategy, network *n)
{
    n->model = build(strategy, trajectory_example_shape(&trajectory_reference).dim[0]);
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM }, &n->optimizer));
}

static void train(rf_strategy *strategy, double *losses)
{
    network n;
    rf_function *function;
    create(strategy, &n);
    OK(rf_function_create(strategy,
                          &(rf_function_params){ .step = train_step, .user = &n, .num_outputs = 1, .training = true },
                          &function));
    trajectory_assign(&trajectory_reference, n.model);
    trajectory_follow(&trajectory_reference, strategy, n.model, function, TRAJECTORY_MAX_STEPS, losses);
    OK(rf_strategy_check_identical(strategy, NULL, NULL));
    rf_function_destroy(&function);
    rf_optimizer_destroy(&n.optimizer);
    rf_model_destroy(&n.model);
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
ON_LISTS(compare, _one_driver_twice, 3, 1, 1)
ON_LISTS(compare, _two_drivers, 2, 1, 1)

TEST_PROGRAM(recurrent)
{
    trajectory_file = FIXTURES "/rnn.traj";
    const struct CMUnitTest driver_tests[] = { cmocka_unit_test(follow_on_lavapipe),
                                               cmocka_unit_test(follow_on_swiftshader),
                                               cmocka_unit_test(compare_two_drivers) };
    const struct CMUnitTest tests[] = { cmocka_unit_test(follow_on_lavapipe),
                                        cmocka_unit_test(compare_one_driver_twice) };
    if (argc > 1 && strcmp(argv[1], "drivers") == 0)
        return cmocka_run_group_tests(driver_tests, trajectory_open, trajectory_close);
    return cmocka_run_group_tests(tests, trajectory_open, trajectory_close);
}
