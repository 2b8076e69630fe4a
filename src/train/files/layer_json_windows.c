/* SPDX-License-Identifier: Apache-2.0 */
/* Layers over images and sequences beside the convolution and pooling of layer_json.c. */
#include "ops/ops.h"
#include "train/files/layer_fields.h"

/* ---- convolution ---- */

static rf_result conv1d_to_json(const rf_layer *layer, json_t *object)
{
    RF_TRY(rf_json_set(object, "filters", json_integer(layer->u.conv1d.filters)));
    RF_TRY(rf_json_set(object, "kernel_size", json_integer(layer->u.conv1d.kernel_size)));
    RF_TRY(rf_json_set(object, "padding", json_string(rf_padding_names[layer->u.conv1d.padding])));
    RF_TRY(rf_json_set(object, "causal", json_boolean(layer->u.conv1d.causal)));
    RF_TRY(rf_json_set(object, "stride", json_integer(layer->u.conv1d.stride)));
    RF_TRY(rf_json_set(object, "dilation", json_integer(layer->u.conv1d.dilation)));
    RF_TRY(rf_json_set(object, "groups", json_integer(layer->u.conv1d.groups)));
    return rf_affine_to_json(layer, &layer->u.conv1d.affine, object);
}

static rf_result conv1d_from_json(const json_t *object, const char *name, rf_layer **out)
{
    rf_affine_fields f;
    int padding = 0;
    rf_conv1d_layer_params p = { .name = name };
    RF_TRY(rf_json_i32(object, "filters", &p.filters));
    RF_TRY(rf_json_i32(object, "kernel_size", &p.kernel_size));
    RF_TRY(rf_json_choice(object, "padding", rf_padding_names, RF_NAME_COUNT(rf_padding_names), &padding));
    RF_TRY(rf_json_bool(object, "causal", &p.causal));
    RF_TRY(rf_json_i32(object, "stride", &p.stride));
    RF_TRY(rf_json_i32(object, "dilation", &p.dilation));
    RF_TRY(rf_json_i32(object, "groups", &p.groups));
    RF_TRY(rf_affine_from_json(object, &f));
    p.padding = (rf_padding)padding;
    p.activation = (rf_activation)f.activation;
    p.no_bias = !f.use_bias;
    p.kernel_initializer = f.kernel;
    p.bias_initializer = f.use_bias ? &f.bias : NULL;
    p.kernel_regularizer = f.regularizer;
    return rf_layer_conv1d(&p, out);
}

static rf_result depthwise_to_json(const rf_layer *layer, json_t *object)
{
    RF_TRY(rf_json_set(object, "kernel_size", rf_list_to_json(layer->u.depthwise.kernel_size, 2)));
    RF_TRY(rf_json_set(object, "depth_multiplier", json_integer(layer->u.depthwise.depth_multiplier)));
    RF_TRY(rf_conv2d_to_json(&layer->u.depthwise.conv, object));
    return rf_affine_to_json(layer, &layer->u.depthwise.affine, object);
}

static rf_result depthwise_from_json(const json_t *object, const char *name, rf_layer **out)
{
    rf_affine_fields f;
    rf_depthwise_conv2d_params p = { .name = name };
    RF_TRY(rf_list_from_json(object, "kernel_size", p.kernel_size, 2));
    RF_TRY(rf_json_i32(object, "depth_multiplier", &p.depth_multiplier));
    RF_TRY(rf_conv2d_from_json(object, &p.conv));
    RF_TRY(rf_affine_from_json(object, &f));
    p.activation = (rf_activation)f.activation;
    p.no_bias = !f.use_bias;
    p.kernel_initializer = f.kernel;
    p.bias_initializer = f.use_bias ? &f.bias : NULL;
    p.kernel_regularizer = f.regularizer;
    return rf_layer_depthwise_conv2d(&p, out);
}

/* Its kernel is the depthwise one; that of 1 x 1 has fields of its own. */
static rf_result separable_to_json(const rf_layer *layer, json_t *object)
{
    RF_TRY(depthwise_to_json(layer, object));
    RF_TRY(rf_json_set(object, "filters", json_integer(layer->u.depthwise.filters)));
    RF_TRY(rf_json_set(object, "pointwise_initializer",
                       rf_initializer_to_json(&layer->u.depthwise.pointwise_initializer)));
    return rf_json_set(object, "pointwise_regularizer", rf_regularizer_to_json(layer->regularizers[1]));
}

static rf_result separable_from_json(const json_t *object, const char *name, rf_layer **out)
{
    rf_affine_fields f;
    rf_separable_conv2d_params p = { .name = name };
    RF_TRY(rf_json_i32(object, "filters", &p.filters));
    RF_TRY(rf_list_from_json(object, "kernel_size", p.kernel_size, 2));
    RF_TRY(rf_json_i32(object, "depth_multiplier", &p.depth_multiplier));
    RF_TRY(rf_conv2d_from_json(object, &p.conv));
    RF_TRY(rf_affine_from_json(object, &f));
    RF_TRY(rf_initializer_from_json(object, "pointwise_initializer", &p.pointwise_initializer));
    RF_TRY(rf_regularizer_from_json(object, "pointwise_regularizer", &p.pointwise_regularizer));
    p.activation = (rf_activation)f.activation;
    p.no_bias = !f.use_bias;
    p.depthwise_initializer = f.kernel;
    p.bias_initializer = f.use_bias ? &f.bias : NULL;
    p.depthwise_regularizer = f.regularizer;
    return rf_layer_separable_conv2d(&p, out);
}

/* ---- pooling ---- */

static rf_result pool1d_to_json(const rf_layer *layer, json_t *object)
{
    RF_TRY(rf_json_set(object, "window", json_integer(layer->u.pool1d.window)));
    RF_TRY(rf_json_set(object, "stride", json_integer(layer->u.pool1d.stride)));
    return rf_json_set(object, "padding", json_string(rf_padding_names[layer->u.pool1d.padding]));
}

static rf_result pool1d_fields(const json_t *object, rf_pool1d_params *p)
{
    int padding = 0;
    RF_TRY(rf_json_i32(object, "window", &p->window));
    RF_TRY(rf_json_i32(object, "stride", &p->stride));
    RF_TRY(rf_json_choice(object, "padding", rf_padding_names, RF_NAME_COUNT(rf_padding_names), &padding));
    p->padding = (rf_padding)padding;
    return RF_OK;
}

static rf_result max_pool1d_from_json(const json_t *object, const char *name, rf_layer **out)
{
    (void)name;
    rf_pool1d_params p = { 0 };
    RF_TRY(pool1d_fields(object, &p));
    return rf_layer_max_pool1d(&p, out);
}

static rf_result avg_pool1d_from_json(const json_t *object, const char *name, rf_layer **out)
{
    (void)name;
    rf_pool1d_params p = { 0 };
    RF_TRY(pool1d_fields(object, &p));
    return rf_layer_avg_pool1d(&p, out);
}

/* ---- sizes ---- */

static rf_result zero_padding1d_to_json(const rf_layer *layer, json_t *object)
{
    return rf_json_set(object, "padding", rf_list_to_json(layer->u.zeros, 2));
}

static rf_result zero_padding2d_to_json(const rf_layer *layer, json_t *object)
{
    return rf_json_set(object, "padding", rf_list_to_json(layer->u.zeros, 4));
}

static rf_result zero_padding1d_from_json(const json_t *object, const char *name, rf_layer **out)
{
    (void)name;
    int32_t zeros[2] = { 1, 1 };
    RF_TRY(rf_list_from_json(object, "padding", zeros, 2));
    return rf_layer_zero_padding1d(zeros, out);
}

static rf_result zero_padding2d_from_json(const json_t *object, const char *name, rf_layer **out)
{
    (void)name;
    int32_t zeros[4] = { 1, 1, 1, 1 };
    RF_TRY(rf_list_from_json(object, "padding", zeros, 4));
    return rf_layer_zero_padding2d(zeros, out);
}

static rf_result up_sampling2d_to_json(const rf_layer *layer, json_t *object)
{
    RF_TRY(rf_json_set(object, "factor", rf_list_to_json(layer->u.up_sampling.factor, 2)));
    return rf_json_set(object, "interpolation",
                       json_string(rf_interpolation_names[layer->u.up_sampling.interpolation]));
}

static rf_result up_sampling2d_from_json(const json_t *object, const char *name, rf_layer **out)
{
    (void)name;
    int32_t factor[2] = { 2, 2 };
    int interpolation = 0;
    RF_TRY(rf_list_from_json(object, "factor", factor, 2));
    RF_TRY(rf_json_choice(object, "interpolation", rf_interpolation_names, RF_NAME_COUNT(rf_interpolation_names),
                          &interpolation));
    return rf_layer_upsample2d(factor, (rf_interpolation)interpolation, out);
}

/* ---- tokens ---- */

static rf_result token_positions_to_json(const rf_layer *layer, json_t *object)
{
    return rf_json_set(object, "padding", json_integer(layer->u.value));
}

static rf_result token_positions_from_json(const json_t *object, const char *name, rf_layer **out)
{
    (void)name;
    int32_t padding = 0;
    RF_TRY(rf_json_i32(object, "padding", &padding));
    return rf_layer_token_positions(padding, out);
}

static rf_result class_token_to_json(const rf_layer *layer, json_t *object)
{
    return rf_json_set(object, "initializer", rf_initializer_to_json(&layer->u.position.initializer));
}

static rf_result class_token_from_json(const json_t *object, const char *name, rf_layer **out)
{
    rf_initializer initializer = { .kind = RF_INIT_ZEROS };
    RF_TRY(rf_initializer_from_json(object, "initializer", &initializer));
    return rf_layer_class_token(&initializer, name, out);
}

const rf_layer_describer rf_window_describers[] = {
    { .kind = "conv1d", .to_json = conv1d_to_json, .from_json = conv1d_from_json },
    { .kind = "depthwise_conv2d", .to_json = depthwise_to_json, .from_json = depthwise_from_json },
    { .kind = "separable_conv2d", .to_json = separable_to_json, .from_json = separable_from_json },
    { .kind = "max_pooling1d", .to_json = pool1d_to_json, .from_json = max_pool1d_from_json },
    { .kind = "average_pooling1d", .to_json = pool1d_to_json, .from_json = avg_pool1d_from_json },
    { .kind = "global_max_pooling1d", .create = rf_layer_global_max_pool1d },
    { .kind = "global_average_pooling1d", .create = rf_layer_global_avg_pool1d },
    { .kind = "global_max_pooling2d", .create = rf_layer_global_max_pool2d },
    { .kind = "zero_padding1d", .to_json = zero_padding1d_to_json, .from_json = zero_padding1d_from_json },
    { .kind = "zero_padding2d", .to_json = zero_padding2d_to_json, .from_json = zero_padding2d_from_json },
    { .kind = "token_positions", .to_json = token_positions_to_json, .from_json = token_positions_from_json },
    { .kind = "class_token", .to_json = class_token_to_json, .from_json = class_token_from_json },
    { .kind = "up_sampling2d", .to_json = up_sampling2d_to_json, .from_json = up_sampling2d_from_json },
    { .kind = NULL },
};
