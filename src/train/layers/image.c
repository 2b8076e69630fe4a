/* SPDX-License-Identifier: Apache-2.0 */
/* Layers over images: convolution and pooling. */
#include "base/error.h"
#include "base/params.h"
#include "trace/trace.h"
#include "train/layers/product.h"

static rf_result check_image(const rf_layer *layer, rf_dtype dtype, rf_shape input)
{
    char text[96];
    RF_REQUIRE(dtype == RF_F32, "layer '%s' takes f32, got %s; scale the images first (rf_dataset_map_scale_u8)",
               layer->name, rf_dtype_name(dtype));
    RF_REQUIRE(input.rank == 4, "layer '%s' needs images [n, height, width, channels], got %s", layer->name,
               rf_shape_format(input, text, sizeof(text)));
    return RF_OK;
}

/* ---- convolution ---- */

/* `shape`: of the kernel. */
static rf_result add_variables(rf_layer *layer, rf_strategy *strategy, rf_shape shape)
{
    const rf_affine *affine = &layer->u.conv2d.affine;
    RF_TRY(rf_layer_add_variable(layer, strategy, "kernel", shape, affine->kernel_initializer));
    if (!affine->use_bias) return RF_OK;
    return rf_layer_add_variable(layer, strategy, "bias", RF_SHAPE(layer->u.conv2d.filters), affine->bias_initializer);
}

static rf_result build_kernel(rf_layer *layer, rf_strategy *strategy, int64_t channels, bool transposed)
{
    const int32_t *size = layer->u.conv2d.kernel_size, filters = layer->u.conv2d.filters;
    const int64_t groups = layer->u.conv2d.conv.groups ? layer->u.conv2d.conv.groups : 1;
    if (layer->built) {
        const rf_shape kernel = rf_variable_shape(layer->variables[0]);
        const int64_t expected = transposed ? kernel.dim[3] : kernel.dim[2] * groups;
        RF_REQUIRE(channels == expected, "layer '%s' was built for %lld channels, got %lld", layer->name,
                   (long long)expected, (long long)channels);
        return RF_OK;
    }
    RF_REQUIRE(channels % groups == 0, "layer '%s': %lld input channels cannot be divided into %lld groups",
               layer->name, (long long)channels, (long long)groups);
    return add_variables(layer, strategy,
                         transposed ? RF_SHAPE(size[0], size[1], filters / groups, channels)
                                    : RF_SHAPE(size[0], size[1], channels / groups, filters));
}

static rf_result conv2d_build(rf_layer *layer, rf_strategy *strategy, rf_dtype dtype, rf_shape input)
{
    RF_TRY(check_image(layer, dtype, input));
    return build_kernel(layer, strategy, input.dim[3], false);
}

/* The other way round: what comes in is the kernel's last dimension. */
static rf_result conv2d_transpose_build(rf_layer *layer, rf_strategy *strategy, rf_dtype dtype, rf_shape input)
{
    RF_TRY(check_image(layer, dtype, input));
    return build_kernel(layer, strategy, input.dim[3], true);
}

static rf_tensor image_convolve(rf_trace *t, const rf_layer *layer, rf_product_kind kind, rf_tensor x, rf_mode mode)
{
    rf_variable *kernel = layer->variables[0];
    const rf_product product = {
        .kind = kind, .weight = kernel, .shape = rf_variable_shape(kernel), .conv = layer->u.conv2d.conv
    };
    return rf_affine_finish(t, layer, &layer->u.conv2d.affine, rf_layer_product(t, layer, &product, x, mode));
}

static rf_tensor conv2d_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    return image_convolve(t, layer, RF_PRODUCT_CONV, x, mode);
}

static rf_tensor conv2d_transpose_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    return image_convolve(t, layer, RF_PRODUCT_CONV_TRANSPOSE, x, mode);
}

static const rf_layer_kind conv2d_kind = {
    .base_name = "conv2d", .type_name = "Conv2D", .build = conv2d_build, .call = conv2d_call, .narrow = true
};

static const rf_layer_kind conv2d_transpose_kind = { .base_name = "conv2d_transpose",
                                                     .type_name = "Conv2DTranspose",
                                                     .build = conv2d_transpose_build,
                                                     .call = conv2d_transpose_call,
                                                     .narrow = true };

static bool known_padding(rf_padding padding)
{
    return (int)padding >= RF_PADDING_VALID && (int)padding <= RF_PADDING_EXPLICIT;
}

static bool valid_padding(rf_padding padding, const int32_t explicit_padding[4])
{
    for (int i = 0; i < 4; i++) {
        if (explicit_padding[i] < 0 || (explicit_padding[i] != 0 && padding != RF_PADDING_EXPLICIT)) return false;
    }
    return true;
}

rf_result rf_layer_check_conv2d(const rf_conv2d_params *conv, const char *function)
{
    RF_REQUIRE(conv->stride[0] >= 0 && conv->stride[1] >= 0, "%s: conv.stride is negative", function);
    RF_REQUIRE(conv->dilation[0] >= 0 && conv->dilation[1] >= 0, "%s: conv.dilation is negative", function);
    RF_REQUIRE(conv->groups >= 0, "%s: conv.groups is negative", function);
    RF_REQUIRE(known_padding(conv->padding), "%s: conv.padding %d does not exist", function, (int)conv->padding);
    RF_REQUIRE(valid_padding(conv->padding, conv->explicit_padding),
               "%s: conv.padding: explicit_padding needs RF_PADDING_EXPLICIT and must not be negative", function);
    return RF_OK;
}

/* `call`: the function's name, for messages. */
static rf_result create_conv(const char *call, const rf_layer_kind *kind, const rf_conv2d_layer_params *params,
                             rf_layer **out)
{
    RF_REQUIRE(out, "%s: out is NULL", call);
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_conv2d_layer_params, params));
    RF_REQUIRE(params, "%s: params is NULL; filters and kernel_size have no default", call);
    const rf_conv2d_params *conv = &params->conv;
    RF_REQUIRE(params->filters > 0, "%s: filters is %d, must be positive", call, (int)params->filters);
    RF_REQUIRE(params->kernel_size[0] > 0 && params->kernel_size[1] >= 0, "%s: kernel_size %d x %d must be positive",
               call, (int)params->kernel_size[0], (int)params->kernel_size[1]);
    RF_TRY(rf_layer_check_conv2d(conv, call));
    RF_REQUIRE(conv->groups == 0 || params->filters % conv->groups == 0,
               "%s: filters %d is not a multiple of conv.groups %d", call, (int)params->filters, (int)conv->groups);
    rf_affine affine;
    RF_TRY(rf_affine_init(&affine, call, params->activation, params->no_bias, params->kernel_initializer,
                          params->bias_initializer, params->kernel_regularizer));
    rf_layer *layer;
    RF_TRY(rf_layer_new(kind, params->name, &layer));
    layer->regularizers[0] = params->kernel_regularizer;
    layer->u.conv2d.filters = params->filters;
    layer->u.conv2d.kernel_size[0] = params->kernel_size[0];
    layer->u.conv2d.kernel_size[1] = params->kernel_size[1] ? params->kernel_size[1] : params->kernel_size[0];
    layer->u.conv2d.conv = *conv;
    layer->u.conv2d.affine = affine;
    *out = layer;
    return RF_OK;
}

rf_result rf_layer_conv2d(const rf_conv2d_layer_params *params, rf_layer **out)
{
    return create_conv("rf_layer_conv2d", &conv2d_kind, params, out);
}

rf_result rf_layer_conv2d_transpose(const rf_conv2d_layer_params *params, rf_layer **out)
{
    return create_conv("rf_layer_conv2d_transpose", &conv2d_transpose_kind, params, out);
}

/* ---- pooling ---- */

static rf_result pool_build(rf_layer *layer, rf_strategy *strategy, rf_dtype dtype, rf_shape input)
{
    (void)strategy;
    return check_image(layer, dtype, input);
}

static rf_tensor max_pool_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    (void)mode;
    return rf_max_pool2d(t, x, &layer->u.pool);
}

static rf_tensor avg_pool_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    (void)mode;
    return rf_avg_pool2d(t, x, &layer->u.pool);
}

static rf_tensor global_avg_pool_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    (void)layer;
    (void)mode;
    return rf_global_avg_pool2d(t, x);
}

static const rf_layer_kind max_pool_kind = { .base_name = "max_pooling2d",
                                             .type_name = "MaxPooling2D",
                                             .build = pool_build,
                                             .call = max_pool_call,
                                             .narrow = true };
static const rf_layer_kind avg_pool_kind = { .base_name = "average_pooling2d",
                                             .type_name = "AveragePooling2D",
                                             .build = pool_build,
                                             .call = avg_pool_call,
                                             .narrow = true };
static const rf_layer_kind global_avg_pool_kind = { .base_name = "global_average_pooling2d",
                                                    .type_name = "GlobalAveragePooling2D",
                                                    .build = pool_build,
                                                    .call = global_avg_pool_call,
                                                    .narrow = true };

static rf_result new_pool(const rf_layer_kind *kind, const char *function, const rf_pool2d_params *params,
                          rf_layer **out)
{
    RF_REQUIRE(out, "%s: out is NULL", function);
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_pool2d_params, params));
    const rf_pool2d_params p = params ? *params : (rf_pool2d_params){ 0 };
    RF_REQUIRE(p.window[0] >= 0 && p.window[1] >= 0, "%s: window %d x %d is negative", function, (int)p.window[0],
               (int)p.window[1]);
    RF_REQUIRE(p.stride[0] >= 0 && p.stride[1] >= 0, "%s: stride %d x %d is negative", function, (int)p.stride[0],
               (int)p.stride[1]);
    RF_REQUIRE(known_padding(p.padding), "%s: padding %d does not exist", function, (int)p.padding);
    RF_REQUIRE(valid_padding(p.padding, p.explicit_padding),
               "%s: padding: explicit_padding needs RF_PADDING_EXPLICIT and must not be negative", function);
    rf_layer *layer;
    RF_TRY(rf_layer_new(kind, NULL, &layer));
    layer->u.pool = p;
    *out = layer;
    return RF_OK;
}

rf_result rf_layer_max_pool2d(const rf_pool2d_params *params, rf_layer **out)
{
    return new_pool(&max_pool_kind, "rf_layer_max_pool2d", params, out);
}

rf_result rf_layer_avg_pool2d(const rf_pool2d_params *params, rf_layer **out)
{
    return new_pool(&avg_pool_kind, "rf_layer_avg_pool2d", params, out);
}

rf_result rf_layer_global_avg_pool2d(rf_layer **out)
{
    return new_pool(&global_avg_pool_kind, "rf_layer_global_avg_pool2d", NULL, out);
}
