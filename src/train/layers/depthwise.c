/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions of each channel by itself: depthwise, and separable, which mixes the channels afterwards. */
#include "base/error.h"
#include "base/params.h"
#include "trace/trace.h"
#include "train/layers/product.h"

/* The input fits the layer, and its channels the variables. */
static rf_result check_channels(const rf_layer *layer, rf_dtype dtype, rf_shape input)
{
    char text[96];
    RF_TRY(rf_layer_check_input(layer, dtype, input, RF_LAYER_IMAGES));
    const rf_conv2d_params *conv = &layer->u.depthwise.conv;
    const int32_t *pad = conv->explicit_padding;
    for (int32_t i = 0; i < 2 && conv->padding != RF_PADDING_SAME; i++) {
        const int64_t dilation = conv->dilation[i] ? conv->dilation[i] : 1;
        const int64_t spans = dilation * (layer->u.depthwise.kernel_size[i] - 1) + 1;
        RF_REQUIRE(input.dim[1 + i] + pad[2 * i] + pad[2 * i + 1] >= spans,
                   "layer '%s' has a kernel that spans %lld %s, more than its input %s has", layer->name,
                   (long long)spans, i == 0 ? "rows" : "columns", rf_shape_format(input, text, sizeof(text)));
    }
    const int64_t channels = input.dim[3], multiplier = layer->u.depthwise.depth_multiplier;
    RF_REQUIRE(channels <= INT32_MAX / multiplier,
               "layer '%s' makes %lld channels of each of its input %s; that is too many", layer->name,
               (long long)multiplier, rf_shape_format(input, text, sizeof(text)));
    if (!layer->built) return RF_OK;
    const int64_t expected = rf_variable_shape(layer->variables[0]).dim[2];
    RF_REQUIRE(channels == expected, "layer '%s' was built for %lld channels, got %s", layer->name, (long long)expected,
               rf_shape_format(input, text, sizeof(text)));
    return RF_OK;
}

/* [kh, kw, channels, multiplier] */
static rf_shape depthwise_shape(const rf_layer *layer, int64_t channels)
{
    const int32_t *size = layer->u.depthwise.kernel_size;
    return RF_SHAPE(size[0], size[1], channels, layer->u.depthwise.depth_multiplier);
}

static rf_result depthwise_build(rf_layer *layer, rf_strategy *strategy, rf_dtype dtype, rf_shape input)
{
    RF_TRY(check_channels(layer, dtype, input));
    if (layer->built) return RF_OK;
    const rf_affine *affine = &layer->u.depthwise.affine;
    const rf_shape shape = depthwise_shape(layer, input.dim[3]);
    RF_TRY(rf_layer_add_variable(layer, strategy, "kernel", shape, affine->kernel_initializer));
    if (!affine->use_bias) return RF_OK;
    return rf_layer_add_variable(layer, strategy, "bias", RF_SHAPE(shape.dim[2] * shape.dim[3]),
                                 affine->bias_initializer);
}

static rf_result separable_build(rf_layer *layer, rf_strategy *strategy, rf_dtype dtype, rf_shape input)
{
    RF_TRY(check_channels(layer, dtype, input));
    if (layer->built) return RF_OK;
    const rf_affine *affine = &layer->u.depthwise.affine;
    const rf_shape shape = depthwise_shape(layer, input.dim[3]);
    const int32_t filters = layer->u.depthwise.filters;
    RF_TRY(rf_layer_add_variable(layer, strategy, "depthwise_kernel", shape, affine->kernel_initializer));
    RF_TRY(rf_layer_add_variable(layer, strategy, "pointwise_kernel",
                                 RF_SHAPE(1, 1, shape.dim[2] * shape.dim[3], filters),
                                 layer->u.depthwise.pointwise_initializer));
    if (!affine->use_bias) return RF_OK;
    return rf_layer_add_variable(layer, strategy, "bias", RF_SHAPE(filters), affine->bias_initializer);
}

/* Each channel is a group: its kernels are neighbours in [kh, kw, 1, channels * multiplier]. */
static rf_tensor convolve_channels(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    const rf_shape s = rf_variable_shape(layer->variables[0]);
    rf_product product = { .kind = RF_PRODUCT_CONV,
                           .weight = layer->variables[0],
                           .shape = RF_SHAPE(s.dim[0], s.dim[1], 1, s.dim[2] * s.dim[3]),
                           .conv = layer->u.depthwise.conv };
    product.conv.groups = (int32_t)s.dim[2];
    return rf_layer_product(t, layer, &product, x, mode);
}

static rf_tensor depthwise_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    return rf_affine_finish(t, layer, &layer->u.depthwise.affine, convolve_channels(t, layer, x, mode));
}

static rf_tensor separable_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    const rf_tensor channels = convolve_channels(t, layer, x, mode);
    const rf_tensor mixed = rf_layer_plain_product(t, layer, RF_PRODUCT_CONV, layer->variables[1], channels, mode);
    return rf_affine_finish(t, layer, &layer->u.depthwise.affine, mixed);
}

static const rf_layer_kind depthwise_kind = { .base_name = "depthwise_conv2d",
                                              .type_name = "DepthwiseConv2D",
                                              .build = depthwise_build,
                                              .call = depthwise_call,
                                              .narrow = true };
static const rf_layer_kind separable_kind = { .base_name = "separable_conv2d",
                                              .type_name = "SeparableConv2D",
                                              .build = separable_build,
                                              .call = separable_call,
                                              .narrow = true };

static rf_result check_window(const char *function, const int32_t kernel_size[2], int32_t depth_multiplier,
                              const rf_conv2d_params *conv)
{
    RF_REQUIRE(kernel_size[0] > 0 && kernel_size[1] >= 0, "%s: kernel_size %d x %d must be positive", function,
               (int)kernel_size[0], (int)kernel_size[1]);
    RF_REQUIRE(depth_multiplier >= 0, "%s: depth_multiplier is %d, must not be negative", function,
               (int)depth_multiplier);
    RF_REQUIRE(conv->groups == 0, "%s: conv.groups is %d; leave it 0, each channel is a group", function,
               (int)conv->groups);
    return rf_layer_check_conv2d(conv, function);
}

static void set_window(rf_layer *layer, const int32_t kernel_size[2], int32_t depth_multiplier,
                       const rf_conv2d_params *conv)
{
    layer->u.depthwise.kernel_size[0] = kernel_size[0];
    layer->u.depthwise.kernel_size[1] = kernel_size[1] ? kernel_size[1] : kernel_size[0];
    layer->u.depthwise.depth_multiplier = depth_multiplier ? depth_multiplier : 1;
    layer->u.depthwise.conv = *conv;
}

rf_result rf_layer_depthwise_conv2d(const rf_depthwise_conv2d_params *params, rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_depthwise_conv2d: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_depthwise_conv2d_params, params));
    RF_REQUIRE(params, "rf_layer_depthwise_conv2d: params is NULL; kernel_size has no default");
    RF_TRY(check_window("rf_layer_depthwise_conv2d", params->kernel_size, params->depth_multiplier, &params->conv));
    rf_affine affine;
    RF_TRY(rf_affine_init(&affine, "rf_layer_depthwise_conv2d", params->activation, params->no_bias,
                          params->kernel_initializer, params->bias_initializer, params->kernel_regularizer));
    RF_TRY(rf_layer_new(&depthwise_kind, params->name, out));
    set_window(*out, params->kernel_size, params->depth_multiplier, &params->conv);
    (*out)->regularizers[0] = params->kernel_regularizer;
    (*out)->u.depthwise.affine = affine;
    return RF_OK;
}

rf_result rf_layer_separable_conv2d(const rf_separable_conv2d_params *params, rf_layer **out)
{
    static const char *const function = "rf_layer_separable_conv2d";
    RF_REQUIRE(out, "rf_layer_separable_conv2d: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_separable_conv2d_params, params));
    RF_REQUIRE(params, "rf_layer_separable_conv2d: params is NULL; filters and kernel_size have no default");
    RF_REQUIRE(params->filters > 0, "rf_layer_separable_conv2d: filters is %d, must be positive", (int)params->filters);
    RF_TRY(check_window(function, params->kernel_size, params->depth_multiplier, &params->conv));
    rf_affine affine;
    RF_TRY(rf_affine_init(&affine, function, params->activation, params->no_bias, params->depthwise_initializer,
                          params->bias_initializer, params->depthwise_regularizer));
    RF_TRY(rf_layer_check_initializer(&params->pointwise_initializer, function, "pointwise_initializer"));
    RF_TRY(rf_layer_check_regularizer(params->pointwise_regularizer, function, "pointwise_regularizer"));
    RF_TRY(rf_layer_new(&separable_kind, params->name, out));
    set_window(*out, params->kernel_size, params->depth_multiplier, &params->conv);
    (*out)->regularizers[0] = params->depthwise_regularizer;
    (*out)->regularizers[1] = params->pointwise_regularizer;
    (*out)->u.depthwise.filters = params->filters;
    (*out)->u.depthwise.affine = affine;
    (*out)->u.depthwise.pointwise_initializer = params->pointwise_initializer;
    return RF_OK;
}
