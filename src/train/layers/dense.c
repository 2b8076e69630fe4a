/* SPDX-License-Identifier: Apache-2.0 */
/* The fully connected layer. */
#include "base/error.h"
#include "base/params.h"
#include "trace/trace.h"
#include "train/layers/product.h"

static rf_result dense_build(rf_layer *layer, rf_strategy *strategy, rf_dtype dtype, rf_shape input)
{
    char text[96];
    RF_REQUIRE(dtype == RF_F32, "layer '%s' takes f32, got %s; cast or scale the input first", layer->name,
               rf_dtype_name(dtype));
    RF_REQUIRE(input.rank >= 2, "layer '%s' needs an input [n, ..., features], got %s", layer->name,
               rf_shape_format(input, text, sizeof(text)));
    const int64_t features = input.dim[input.rank - 1];
    if (layer->built) {
        RF_REQUIRE(features == rf_variable_shape(layer->variables[0]).dim[0],
                   "layer '%s' was built for %lld features, got %s", layer->name,
                   (long long)rf_variable_shape(layer->variables[0]).dim[0],
                   rf_shape_format(input, text, sizeof(text)));
        return RF_OK;
    }
    const int64_t units = layer->u.dense.units;
    const rf_affine *affine = &layer->u.dense.affine;
    RF_TRY(rf_layer_add_weight(layer, strategy, "kernel", RF_SHAPE(features, units), affine->kernel_initializer,
                               (rf_weight_matrix){ .rows = features }));
    if (affine->use_bias) {
        RF_TRY(rf_layer_add_variable(layer, strategy, "bias", RF_SHAPE(units), affine->bias_initializer));
    }
    return RF_OK;
}

static rf_tensor dense_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    const rf_tensor y = rf_layer_plain_product(t, layer, RF_PRODUCT_DENSE, layer->variables[0], x, mode);
    return rf_affine_finish(t, layer, &layer->u.dense.affine, y);
}

static const rf_layer_kind dense_kind = {
    .base_name = "dense", .type_name = "Dense", .build = dense_build, .call = dense_call, .narrow = true
};

rf_result rf_layer_dense(const rf_dense_params *params, rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_dense: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_dense_params, params));
    RF_REQUIRE(params, "rf_layer_dense: params is NULL; units has no default");
    RF_REQUIRE(params->units > 0, "rf_layer_dense: units is %d, must be positive", (int)params->units);
    rf_affine affine;
    RF_TRY(rf_affine_init(&affine, "rf_layer_dense", params->activation, params->no_bias, params->kernel_initializer,
                          params->bias_initializer, params->kernel_regularizer));
    rf_layer *layer;
    RF_TRY(rf_layer_new(&dense_kind, params->name, &layer));
    layer->regularizers[0] = params->kernel_regularizer;
    layer->u.dense.units = params->units;
    layer->u.dense.affine = affine;
    *out = layer;
    return RF_OK;
}
