/* SPDX-License-Identifier: Apache-2.0 */
/* Layers without variables that act on any tensor: flatten, reshape, activation, dropout, lambda. */
#include <math.h>

#include "base/error.h"
#include "trace/trace.h"
#include "train/layers/layer.h"

/* ---- flatten ---- */

static rf_tensor flatten_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    (void)layer;
    (void)mode;
    return rf_flatten(t, x);
}

static const rf_layer_kind flatten_kind = {
    .base_name = "flatten", .type_name = "Flatten", .call = flatten_call, .narrow = true
};

rf_result rf_layer_flatten(rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_flatten: out is NULL");
    *out = NULL;
    return rf_layer_new(&flatten_kind, NULL, out);
}

/* ---- reshape ---- */

/* The target with its -1 replaced for an example of `count` elements; false when they do not fit. */
static bool target_resolve(rf_shape target, int64_t count, rf_shape *out)
{
    int64_t known = 1;
    int32_t open = -1;
    for (int32_t i = 0; i < target.rank; i++) {
        if (target.dim[i] == -1) {
            open = i;
        } else {
            known *= target.dim[i];
        }
    }
    *out = target;
    if (open < 0) return known == count;
    if (count % known != 0) return false;
    out->dim[open] = count / known;
    return true;
}

static rf_result reshape_build(rf_layer *layer, rf_strategy *strategy, rf_dtype dtype, rf_shape input)
{
    (void)strategy;
    (void)dtype;
    char from[96], to[96];
    rf_shape shape;
    const rf_shape example = rf_example_shape(input);
    RF_REQUIRE(input.rank >= 1 && target_resolve(layer->u.shape, rf_shape_count(example), &shape),
               "layer '%s' cannot reshape an example of shape %s to %s", layer->name,
               rf_shape_format(example, from, sizeof(from)), rf_shape_format(layer->u.shape, to, sizeof(to)));
    return RF_OK;
}

static rf_tensor reshape_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    (void)mode;
    rf_shape shape;
    if (!target_resolve(layer->u.shape, rf_shape_count(rf_example_shape(layer->input)), &shape)) return RF_NO_TENSOR;
    rf_size sizes[RF_MAX_RANK + 1] = { rf_size_of(x, 0, 1) };
    for (int32_t i = 0; i < shape.rank; i++) sizes[i + 1] = rf_size_fixed(shape.dim[i]);
    return rf_regroup(t, x, sizes, 1 + (uint32_t)shape.rank);
}

static const rf_layer_kind reshape_kind = {
    .base_name = "reshape", .type_name = "Reshape", .build = reshape_build, .call = reshape_call, .narrow = true
};

rf_result rf_layer_reshape(rf_shape shape, rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_reshape: out is NULL");
    *out = NULL;
    RF_REQUIRE(shape.rank >= 0 && shape.rank < RF_MAX_RANK,
               "rf_layer_reshape: shape has %d dimensions; without the batch at most %d", (int)shape.rank,
               RF_MAX_RANK - 1);
    uint32_t open = 0;
    rf_shape known = shape;
    for (int32_t i = 0; i < shape.rank; i++) {
        RF_REQUIRE(shape.dim[i] > 0 || shape.dim[i] == -1, "rf_layer_reshape: shape: dimension %d is %lld", (int)i,
                   (long long)shape.dim[i]);
        if (shape.dim[i] == -1) {
            open++;
            known.dim[i] = 1;
        }
    }
    RF_REQUIRE(open <= 1, "rf_layer_reshape: shape has %u entries of -1, at most one may be", open);
    RF_REQUIRE(rf_shape_count(known) > 0, "rf_layer_reshape: shape has too many elements");
    RF_TRY(rf_layer_new(&reshape_kind, NULL, out));
    (*out)->u.shape = shape;
    return RF_OK;
}

/* ---- activation ---- */

static rf_tensor activation_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    (void)mode;
    return rf_activate(t, x, layer->u.activation);
}

static const rf_layer_kind activation_kind = {
    .base_name = "activation", .type_name = "Activation", .call = activation_call, .narrow = true
};

rf_result rf_layer_activation(rf_activation activation, rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_activation: out is NULL");
    *out = NULL;
    RF_REQUIRE(rf_activation_valid(activation), "rf_layer_activation: activation %d does not exist", (int)activation);
    RF_TRY(rf_layer_new(&activation_kind, NULL, out));
    (*out)->u.activation = activation;
    return RF_OK;
}

/* ---- rescaling ---- */

static rf_tensor rescaling_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    (void)mode;
    const rf_tensor y = rf_multiply(t, x, rf_constant(t, layer->u.rescaling.scale));
    return layer->u.rescaling.offset == 0.0f ? y : rf_add(t, y, rf_constant(t, layer->u.rescaling.offset));
}

static const rf_layer_kind rescaling_kind = {
    .base_name = "rescaling", .type_name = "Rescaling", .call = rescaling_call, .narrow = true
};

rf_result rf_layer_rescaling(float scale, float offset, rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_rescaling: out is NULL");
    *out = NULL;
    RF_REQUIRE(isfinite(scale) && isfinite(offset), "rf_layer_rescaling: scale %g and offset %g must be finite",
               (double)scale, (double)offset);
    RF_TRY(rf_layer_new(&rescaling_kind, NULL, out));
    (*out)->u.rescaling.scale = scale;
    (*out)->u.rescaling.offset = offset;
    return RF_OK;
}

/* ---- dropout ---- */

static rf_tensor dropout_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    return mode == RF_TRAINING ? rf_dropout(t, x, layer->u.dropout.rate, layer->u.dropout.seed) : x;
}

static const rf_layer_kind dropout_kind = {
    .base_name = "dropout", .type_name = "Dropout", .call = dropout_call, .narrow = true
};

rf_result rf_layer_dropout(float rate, uint64_t seed, rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_dropout: out is NULL");
    *out = NULL;
    RF_REQUIRE(rate >= 0.0f && rate < 1.0f, "rf_layer_dropout: rate %g is not in [0, 1)", (double)rate);
    RF_TRY(rf_layer_new(&dropout_kind, NULL, out));
    (*out)->u.dropout.rate = rate;
    (*out)->u.dropout.seed = seed;
    return RF_OK;
}

/* ---- lambda ---- */

static rf_tensor lambda_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    (void)mode;
    return layer->u.lambda.fn(t, x, layer->u.lambda.user);
}

static const rf_layer_kind lambda_kind = { .base_name = "lambda", .type_name = "Lambda", .call = lambda_call };

rf_result rf_layer_lambda(rf_lambda_fn fn, void *user, rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_lambda: out is NULL");
    *out = NULL;
    RF_REQUIRE(fn, "rf_layer_lambda: fn is NULL");
    RF_TRY(rf_layer_new(&lambda_kind, NULL, out));
    (*out)->u.lambda.fn = fn;
    (*out)->u.lambda.user = user;
    return RF_OK;
}
