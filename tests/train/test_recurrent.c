/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent layers in a functional model, a classifier of padded sequences, against PyTorch (make_rnn_trajectory.py),
 * and two replicas against one device. */
#include "tests/room.h"
#include "trajectory.h"

enum { TOKENS = 12, WIDTH = 5, UNITS = 4, CLASSES = 3 };

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

static void *create(rf_strategy *strategy)
{
    return build(strategy, trajectory_example_shape(&trajectory_reference).dim[0]);
}

static rf_tensor losses_of(rf_trace *t, void *model, const rf_tensor *in)
{
    return rf_sparse_categorical_crossentropy(t, in[1], rf_model_call(t, model, in[0], RF_TRAINING), RF_LOGITS);
}

static const trajectory_network network = { .create = create, .losses = losses_of };

TEST_PROGRAM(recurrent)
{
    return trajectory_run(FIXTURES "/rnn.traj", &network, own_tests, argc, argv);
}
