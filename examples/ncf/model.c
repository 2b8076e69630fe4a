/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <stdio.h>

#define TRY(expression)                                                                                                \
    do {                                                                                                               \
        const rf_result try_result = (expression);                                                                     \
        if (try_result < 0) return try_result;                                                                         \
    } while (0)

const ncf_config ncf_movielens_1m = {
    .num_users = 6040, .num_items = 3706, .factors = 8, .num_layers = 4, .layers = { 64, 32, 16, 8 }
};

/* A table's rows for `x`. The builder owns what is made, and says at the end what went wrong. */
static rf_result embed(rf_model_builder *b, const char *name, int32_t rows, int32_t width, rf_symbol *x)
{
    const rf_initializer initializer = { .kind = RF_INIT_GLOROT_UNIFORM };
    const rf_embedding_params params = {
        .input_dim = rows, .output_dim = width, .initializer = &initializer, .name = name
    };
    rf_layer *layer;
    TRY(rf_layer_embedding(&params, &layer));
    *x = rf_model_builder_call(b, layer, *x);
    return RF_OK;
}

static rf_result add_perceptron(rf_model_builder *b, const ncf_config *c, rf_symbol *x)
{
    for (int32_t i = 1; i < c->num_layers; i++) {
        char name[24];
        rf_layer *layer;
        snprintf(name, sizeof(name), "perceptron_%d", (int)i);
        const rf_dense_params params = { .units = c->layers[i], .activation = RF_ACTIVATION_RELU, .name = name };
        TRY(rf_layer_dense(&params, &layer));
        *x = rf_model_builder_call(b, layer, *x);
    }
    return RF_OK;
}

static rf_result connect(rf_model_builder *b, const ncf_config *c, rf_symbol *out)
{
    rf_layer *multiply, *join, *join_all, *last;
    const rf_symbol user = rf_model_builder_input(b, RF_I32, RF_SCALAR_SHAPE, "user");
    const rf_symbol item = rf_model_builder_input(b, RF_I32, RF_SCALAR_SHAPE, "item");
    rf_symbol products[] = { user, item }, pairs[] = { user, item };
    TRY(embed(b, "user_factors", c->num_users, c->factors, &products[0]));
    TRY(embed(b, "item_factors", c->num_items, c->factors, &products[1]));
    TRY(embed(b, "user_features", c->num_users, c->layers[0] / 2, &pairs[0]));
    TRY(embed(b, "item_features", c->num_items, c->layers[0] / 2, &pairs[1]));
    TRY(rf_layer_multiply(&multiply));
    const rf_symbol product = rf_model_builder_call_many(b, multiply, products, 2);
    TRY(rf_layer_concatenate(-1, &join));
    rf_symbol features = rf_model_builder_call_many(b, join, pairs, 2);
    TRY(add_perceptron(b, c, &features));
    TRY(rf_layer_concatenate(-1, &join_all));
    const rf_symbol both[] = { product, features };
    const rf_symbol all = rf_model_builder_call_many(b, join_all, both, 2);
    const rf_dense_params params = { .units = 1, .kernel_initializer.kind = RF_INIT_LECUN_UNIFORM, .name = "logit" };
    TRY(rf_layer_dense(&params, &last));
    *out = rf_model_builder_call(b, last, all);
    return RF_OK;
}

rf_result ncf_create(rf_strategy *strategy, const ncf_config *config, rf_model **out)
{
    static const char *const name = "interaction";
    rf_model_builder *b;
    rf_symbol logit;
    *out = NULL;
    TRY(rf_model_builder_create(strategy, &b));
    const rf_result r = connect(b, config, &logit);
    if (r >= 0) return rf_model_builder_finish(&b, &logit, 1, &name, out);
    rf_model_builder_destroy(&b);
    return r;
}
