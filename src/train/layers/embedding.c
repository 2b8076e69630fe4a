/* SPDX-License-Identifier: Apache-2.0 */
/* The embedding layer: a row of a table for each index. */
#include <math.h>

#include "base/error.h"
#include "base/params.h"
#include "train/layers/layer.h"
#include "train/trace_util.h"

static rf_result embedding_build(rf_layer *layer, rf_strategy *strategy, rf_dtype dtype, rf_shape input)
{
    char text[96];
    RF_REQUIRE(dtype == RF_I32, "layer '%s' takes i32 indices, got %s %s; cast them first", layer->name,
               rf_dtype_name(dtype), rf_shape_format(input, text, sizeof(text)));
    if (layer->built) return RF_OK;
    return rf_layer_add_variable(layer, strategy, "embeddings",
                                 RF_SHAPE(layer->u.embedding.input_dim, layer->u.embedding.output_dim),
                                 layer->u.embedding.initializer);
}

static rf_tensor embedding_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    (void)mode;
    return rf_gather(t, rf_variable_tensor(t, layer->variables[0]), x, 0);
}

static const rf_layer_kind embedding_kind = { .base_name = "embedding",
                                              .type_name = "Embedding",
                                              .takes_indices = true,
                                              .build = embedding_build,
                                              .call = embedding_call };

rf_result rf_layer_embedding(const rf_embedding_params *params, rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_embedding: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_embedding_params, params));
    RF_REQUIRE(params, "rf_layer_embedding: params is NULL; input_dim and output_dim have no defaults");
    RF_REQUIRE(params->input_dim > 0 && params->output_dim > 0,
               "rf_layer_embedding: input_dim is %d and output_dim is %d, both must be positive",
               (int)params->input_dim, (int)params->output_dim);
    rf_initializer initializer = { .kind = RF_INIT_RANDOM_UNIFORM, .a = -0.05f, .b = 0.05f };
    if (params->initializer) initializer = *params->initializer;
    RF_TRY(rf_layer_check_initializer(&initializer, "rf_layer_embedding", "embeddings"));
    RF_TRY(rf_layer_check_regularizer(params->regularizer, "rf_layer_embedding", "regularizer"));
    rf_layer *layer;
    RF_TRY(rf_layer_new(&embedding_kind, params->name, &layer));
    layer->regularizers[0] = params->regularizer;
    layer->u.embedding.input_dim = params->input_dim;
    layer->u.embedding.output_dim = params->output_dim;
    layer->u.embedding.initializer = initializer;
    *out = layer;
    return RF_OK;
}
