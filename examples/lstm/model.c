/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#define TRY(expression)                                                                                                \
    do {                                                                                                               \
        const rf_result try_result = (expression);                                                                     \
        if (try_result < 0) return try_result;                                                                         \
    } while (0)

const lstm_config lstm_tutorial = {
    .vocabulary = 1000, .length = 100, .width = 64, .num_layers = 1, .units = { 64 }, .dense_units = 64
};
const lstm_config lstm_stacked = { .vocabulary = 1000,
                                   .length = 100,
                                   .width = 64,
                                   .num_layers = 2,
                                   .units = { 64, 32 },
                                   .dense_units = 64,
                                   .dropout = 0.5f };

static rf_result make_recurrent(int32_t units, bool return_sequences, rf_layer **out)
{
    const rf_rnn_layer_params params = { .kind = RF_RNN_LSTM, .units = units, .return_sequences = return_sequences };
    rf_layer *forward;
    TRY(rf_layer_rnn(&params, &forward));
    return rf_layer_bidirectional(forward, RF_MERGE_CONCATENATE, NULL, out);
}

/* The builder owns a layer from its call on, and says at the end what went wrong. */
static rf_result connect(rf_model_builder *b, const lstm_config *c, rf_symbol *out)
{
    rf_layer *layer;
    const rf_symbol tokens = rf_model_builder_input(b, RF_I32, RF_SHAPE(c->length), "tokens");
    TRY(rf_layer_not_equal(LSTM_PADDING, &layer));
    const rf_symbol mask = rf_model_builder_call(b, layer, tokens);
    TRY(rf_layer_embedding(&(rf_embedding_params){ .input_dim = c->vocabulary, .output_dim = c->width }, &layer));
    rf_symbol x = rf_model_builder_call(b, layer, tokens);
    for (int32_t i = 0; i < c->num_layers; i++) {
        TRY(make_recurrent(c->units[i], i + 1 < c->num_layers, &layer));
        (void)rf_model_builder_apply(b, layer, &x, 1, mask, &x, 1);
    }
    TRY(rf_layer_dense(&(rf_dense_params){ .units = c->dense_units, .activation = RF_ACTIVATION_RELU }, &layer));
    x = rf_model_builder_call(b, layer, x);
    if (c->dropout > 0) {
        TRY(rf_layer_dropout(c->dropout, 0, &layer));
        x = rf_model_builder_call(b, layer, x);
    }
    TRY(rf_layer_dense(&(rf_dense_params){ .units = 1 }, &layer));
    *out = rf_model_builder_call(b, layer, x);
    return RF_OK;
}

rf_result lstm_create(rf_strategy *strategy, const lstm_config *config, rf_model **out)
{
    static const char *const name = "positive";
    rf_model_builder *b;
    rf_symbol logit;
    *out = NULL;
    TRY(rf_model_builder_create(strategy, &b));
    const rf_result r = connect(b, config, &logit);
    if (r >= 0) return rf_model_builder_finish(&b, &logit, 1, &name, out);
    rf_model_builder_destroy(&b);
    return r;
}
