/* SPDX-License-Identifier: Apache-2.0 */
/* The embedding layer, a row of a table for each index, and the head that shares the table. */
#include <math.h>

#include "base/error.h"
#include "base/params.h"
#include "trace/trace.h"
#include "train/layers/product.h"

static rf_result embedding_build(rf_layer *layer, rf_strategy *strategy, rf_dtype dtype, rf_shape input)
{
    char text[96];
    RF_REQUIRE(dtype == RF_I32, "layer '%s' takes i32 indices, got %s %s; cast them first", layer->name,
               rf_dtype_name(dtype), rf_shape_format(input, text, sizeof(text)));
    if (layer->built) return RF_OK;
    const rf_weight_matrix table = { layer->u.embedding.input_dim, .table = true };
    return rf_layer_add_weight(layer, strategy, "embeddings", RF_SHAPE(table.rows, layer->u.embedding.output_dim),
                               layer->u.embedding.initializer, table);
}

static rf_tensor embedding_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    return rf_layer_plain_product(t, layer, RF_PRODUCT_LOOKUP, layer->variables[0], x, mode);
}

static const rf_layer_kind embedding_kind = { .base_name = "embedding",
                                              .type_name = "Embedding",
                                              .takes_indices = true,
                                              .build = embedding_build,
                                              .call = embedding_call,
                                              .narrow = true };

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

/* ---- the head ---- */

static const rf_layer *table_of(const rf_layer *head)
{
    return head->u.embedding_head.embedding;
}

static rf_result head_build(rf_layer *layer, rf_strategy *strategy, rf_dtype dtype, rf_shape input)
{
    const rf_layer *embedding = table_of(layer);
    char text[96];
    RF_REQUIRE(embedding->model == layer->model, "layer '%s': the embedding '%s' belongs to %s", layer->name,
               embedding->name ? embedding->name : embedding->kind->base_name,
               embedding->model ? "another model" : "no model; give it to this one first");
    RF_REQUIRE(embedding->built, "layer '%s': the embedding '%s' has no table yet; call it first", layer->name,
               embedding->name);
    const int64_t features = embedding->u.embedding.output_dim;
    RF_REQUIRE(dtype == RF_F32 && input.rank >= 2 && input.dim[input.rank - 1] == features,
               "layer '%s' needs an input f32 [n, ..., %lld], the columns of the embedding '%s', got %s %s",
               layer->name, (long long)features, embedding->name, rf_dtype_name(dtype),
               rf_shape_format(input, text, sizeof(text)));
    if (layer->built || !layer->u.embedding_head.use_bias) return RF_OK;
    return rf_layer_add_variable(layer, strategy, "bias", RF_SHAPE(embedding->u.embedding.input_dim),
                                 (rf_initializer){ .kind = RF_INIT_ZEROS });
}

static rf_tensor head_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    const rf_tensor y = rf_layer_plain_product(t, layer, RF_PRODUCT_HEAD, table_of(layer)->variables[0], x, mode);
    return layer->u.embedding_head.use_bias ? rf_bias_add(t, y, rf_variable_tensor(t, layer->variables[0])) : y;
}

static const rf_layer_kind head_kind = {
    .base_name = "embedding_head", .type_name = "EmbeddingHead", .build = head_build, .call = head_call, .narrow = true
};

rf_result rf_layer_embedding_head(rf_layer *embedding, rf_bias_use bias, const char *name, rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_embedding_head: out is NULL");
    *out = NULL;
    RF_REQUIRE(embedding, "rf_layer_embedding_head: embedding is NULL");
    RF_REQUIRE(embedding->kind == &embedding_kind, "rf_layer_embedding_head: embedding is a layer of type %s",
               embedding->kind->type_name);
    RF_REQUIRE(bias == RF_WITH_BIAS || bias == RF_WITHOUT_BIAS, "rf_layer_embedding_head: bias %d does not exist",
               (int)bias);
    RF_TRY(rf_layer_new(&head_kind, name, out));
    (*out)->u.embedding_head.embedding = embedding;
    (*out)->u.embedding_head.use_bias = bias == RF_WITH_BIAS;
    return RF_OK;
}
