/* SPDX-License-Identifier: Apache-2.0 */
/* Layers over sequences [n, steps, channels]: convolution and pooling, as those of images of one row. */
#include "base/error.h"
#include "base/params.h"
#include "trace/trace.h"
#include "train/layers/product.h"

static int32_t or_one(int32_t value)
{
    return value ? value : 1;
}

/* [n, steps, channels] as images of one row, and back. */
static rf_tensor make_rows(rf_trace *t, rf_tensor x)
{
    const rf_shape s = rf_tensor_shape(t, x);
    return s.rank == 3 ? rf_expand_dims(t, x, 1) : RF_NO_TENSOR;
}

static rf_tensor drop_rows(rf_trace *t, rf_tensor y)
{
    const rf_shape s = rf_tensor_shape(t, y);
    return s.rank == 4 ? rf_squeeze(t, y, 1) : RF_NO_TENSOR;
}

/* ---- convolution ---- */

static rf_result conv1d_build(rf_layer *layer, rf_strategy *strategy, rf_dtype dtype, rf_shape input)
{
    char text[96];
    RF_TRY(rf_layer_check_input(layer, dtype, input, RF_LAYER_SEQUENCES));
    const int32_t size = layer->u.conv1d.kernel_size, filters = layer->u.conv1d.filters;
    const int64_t channels = input.dim[2], groups = layer->u.conv1d.groups;
    const int64_t spans = (int64_t)layer->u.conv1d.dilation * (size - 1) + 1;
    RF_REQUIRE(layer->u.conv1d.causal || layer->u.conv1d.padding == RF_PADDING_SAME || input.dim[1] >= spans,
               "layer '%s' has a kernel that spans %lld steps, more than its input %s has", layer->name,
               (long long)spans, rf_shape_format(input, text, sizeof(text)));
    if (layer->built) {
        const int64_t expected = rf_variable_shape(layer->variables[0]).dim[1] * groups;
        RF_REQUIRE(channels == expected, "layer '%s' was built for %lld channels, got %s", layer->name,
                   (long long)expected, rf_shape_format(input, text, sizeof(text)));
        return RF_OK;
    }
    RF_REQUIRE(channels % groups == 0, "layer '%s': the channels of %s cannot be divided into %lld groups", layer->name,
               rf_shape_format(input, text, sizeof(text)), (long long)groups);
    const rf_affine *affine = &layer->u.conv1d.affine;
    RF_TRY(rf_layer_add_variable(layer, strategy, "kernel", RF_SHAPE(size, channels / groups, filters),
                                 affine->kernel_initializer));
    if (!affine->use_bias) return RF_OK;
    return rf_layer_add_variable(layer, strategy, "bias", RF_SHAPE(filters), affine->bias_initializer);
}

static rf_tensor conv1d_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    rf_conv2d_params conv = { .padding = layer->u.conv1d.padding,
                              .stride = { 1, layer->u.conv1d.stride },
                              .dilation = { 1, layer->u.conv1d.dilation },
                              .groups = layer->u.conv1d.groups };
    if (layer->u.conv1d.causal) {
        conv.padding = RF_PADDING_EXPLICIT;
        conv.explicit_padding[2] = layer->u.conv1d.dilation * (layer->u.conv1d.kernel_size - 1);
    }
    const rf_shape shape = rf_variable_shape(layer->variables[0]);
    const rf_product product = { .kind = RF_PRODUCT_CONV,
                                 .weight = layer->variables[0],
                                 .shape = RF_SHAPE(1, shape.dim[0], shape.dim[1], shape.dim[2]),
                                 .conv = conv };
    /* Bias and activation come before the reshape, so that they are part of the convolution. */
    const rf_tensor y = rf_layer_product(t, layer, &product, make_rows(t, x), mode);
    return drop_rows(t, rf_affine_finish(t, layer, &layer->u.conv1d.affine, y));
}

static const rf_layer_kind conv1d_kind = {
    .base_name = "conv1d", .type_name = "Conv1D", .build = conv1d_build, .call = conv1d_call, .narrow = true
};

static rf_result check_padding(rf_padding padding, const char *function)
{
    RF_REQUIRE(padding == RF_PADDING_VALID || padding == RF_PADDING_SAME,
               "%s: padding %d is neither valid nor same; use rf_layer_zero_padding1d() for others", function,
               (int)padding);
    return RF_OK;
}

rf_result rf_layer_conv1d(const rf_conv1d_layer_params *params, rf_layer **out)
{
    static const char *const function = "rf_layer_conv1d";
    RF_REQUIRE(out, "rf_layer_conv1d: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_conv1d_layer_params, params));
    RF_REQUIRE(params, "rf_layer_conv1d: params is NULL; filters and kernel_size have no default");
    RF_REQUIRE(params->filters > 0, "rf_layer_conv1d: filters is %d, must be positive", (int)params->filters);
    RF_REQUIRE(params->kernel_size > 0, "rf_layer_conv1d: kernel_size is %d, must be positive",
               (int)params->kernel_size);
    RF_REQUIRE(params->stride >= 0 && params->dilation >= 0 && params->groups >= 0,
               "rf_layer_conv1d: stride %d, dilation %d and groups %d must not be negative", (int)params->stride,
               (int)params->dilation, (int)params->groups);
    RF_REQUIRE((int64_t)or_one(params->dilation) * (params->kernel_size - 1) < INT32_MAX,
               "rf_layer_conv1d: kernel_size %d with dilation %d spans too many steps", (int)params->kernel_size,
               (int)params->dilation);
    RF_REQUIRE(params->filters % or_one(params->groups) == 0,
               "rf_layer_conv1d: filters %d is not a multiple of groups %d", (int)params->filters, (int)params->groups);
    RF_TRY(check_padding(params->padding, function));
    RF_REQUIRE(!params->causal || params->padding == RF_PADDING_VALID,
               "rf_layer_conv1d: causal has a padding of its own; leave padding as it is");
    rf_affine affine;
    RF_TRY(rf_affine_init(&affine, function, params->activation, params->no_bias, params->kernel_initializer,
                          params->bias_initializer, params->kernel_regularizer));
    rf_layer *layer;
    RF_TRY(rf_layer_new(&conv1d_kind, params->name, &layer));
    layer->regularizers[0] = params->kernel_regularizer;
    layer->u.conv1d.filters = params->filters;
    layer->u.conv1d.kernel_size = params->kernel_size;
    layer->u.conv1d.stride = or_one(params->stride);
    layer->u.conv1d.dilation = or_one(params->dilation);
    layer->u.conv1d.groups = or_one(params->groups);
    layer->u.conv1d.padding = params->padding;
    layer->u.conv1d.causal = params->causal;
    layer->u.conv1d.affine = affine;
    *out = layer;
    return RF_OK;
}

/* ---- pooling ---- */

static rf_result sequence_build(rf_layer *layer, rf_strategy *strategy, rf_dtype dtype, rf_shape input)
{
    (void)strategy;
    return rf_layer_check_input(layer, dtype, input, RF_LAYER_SEQUENCES);
}

static rf_result pool1d_build(rf_layer *layer, rf_strategy *strategy, rf_dtype dtype, rf_shape input)
{
    char text[96];
    RF_TRY(sequence_build(layer, strategy, dtype, input));
    RF_REQUIRE(layer->u.pool1d.padding == RF_PADDING_SAME || input.dim[1] >= layer->u.pool1d.window,
               "layer '%s' has windows of %d steps, more than its input %s has", layer->name,
               (int)layer->u.pool1d.window, rf_shape_format(input, text, sizeof(text)));
    return RF_OK;
}

static rf_pool2d_params one_row(const rf_layer *layer)
{
    const rf_pool1d_params *p = &layer->u.pool1d;
    return (rf_pool2d_params){ .window = { 1, p->window }, .stride = { 1, p->stride }, .padding = p->padding };
}

static rf_tensor max_pool1d_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    (void)mode;
    const rf_pool2d_params pool = one_row(layer);
    return drop_rows(t, rf_max_pool2d(t, make_rows(t, x), &pool));
}

static rf_tensor avg_pool1d_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    (void)mode;
    const rf_pool2d_params pool = one_row(layer);
    return drop_rows(t, rf_avg_pool2d(t, make_rows(t, x), &pool));
}

static rf_tensor global_max_pool1d_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    (void)layer;
    (void)mode;
    return rf_reduce_max(t, x, (const int32_t[]){ 1 }, 1, RF_DROP_DIMS);
}

static rf_tensor global_avg_pool1d_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    (void)layer;
    (void)mode;
    return rf_reduce_mean(t, x, (const int32_t[]){ 1 }, 1, RF_DROP_DIMS);
}

static const rf_layer_kind max_pool1d_kind = { .base_name = "max_pooling1d",
                                               .type_name = "MaxPooling1D",
                                               .build = pool1d_build,
                                               .call = max_pool1d_call,
                                               .narrow = true };
static const rf_layer_kind avg_pool1d_kind = { .base_name = "average_pooling1d",
                                               .type_name = "AveragePooling1D",
                                               .build = pool1d_build,
                                               .call = avg_pool1d_call,
                                               .narrow = true };
static const rf_layer_kind global_max_pool1d_kind = { .base_name = "global_max_pooling1d",
                                                      .type_name = "GlobalMaxPooling1D",
                                                      .build = sequence_build,
                                                      .call = global_max_pool1d_call };
static const rf_layer_kind global_avg_pool1d_kind = { .base_name = "global_average_pooling1d",
                                                      .type_name = "GlobalAveragePooling1D",
                                                      .build = sequence_build,
                                                      .call = global_avg_pool1d_call };

static rf_result new_pool1d(const rf_layer_kind *kind, const char *function, const rf_pool1d_params *params,
                            rf_layer **out)
{
    RF_REQUIRE(out, "%s: out is NULL", function);
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_pool1d_params, params));
    rf_pool1d_params p = params ? *params : (rf_pool1d_params){ 0 };
    RF_REQUIRE(p.window >= 0 && p.stride >= 0, "%s: window %d and stride %d must not be negative", function,
               (int)p.window, (int)p.stride);
    RF_TRY(check_padding(p.padding, function));
    if (p.window == 0) p.window = 2;
    if (p.stride == 0) p.stride = p.window;
    RF_TRY(rf_layer_new(kind, NULL, out));
    (*out)->u.pool1d = p;
    return RF_OK;
}

rf_result rf_layer_max_pool1d(const rf_pool1d_params *params, rf_layer **out)
{
    return new_pool1d(&max_pool1d_kind, "rf_layer_max_pool1d", params, out);
}

rf_result rf_layer_avg_pool1d(const rf_pool1d_params *params, rf_layer **out)
{
    return new_pool1d(&avg_pool1d_kind, "rf_layer_avg_pool1d", params, out);
}

rf_result rf_layer_global_max_pool1d(rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_global_max_pool1d: out is NULL");
    *out = NULL;
    return rf_layer_new(&global_max_pool1d_kind, NULL, out);
}

rf_result rf_layer_global_avg_pool1d(rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_global_avg_pool1d: out is NULL");
    *out = NULL;
    return rf_layer_new(&global_avg_pool1d_kind, NULL, out);
}

/* ---- one step ---- */

static rf_result select_step_build(rf_layer *layer, rf_strategy *strategy, rf_dtype dtype, rf_shape input)
{
    (void)strategy;
    (void)dtype;
    char text[96];
    const int32_t step = layer->u.step;
    RF_REQUIRE(input.rank >= 2 && step < input.dim[1] && step >= -input.dim[1],
               "layer '%s' takes step %d of sequences [n, steps, ...], got %s", layer->name, (int)step,
               rf_shape_format(input, text, sizeof(text)));
    return RF_OK;
}

static rf_tensor select_step_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    (void)mode;
    const rf_shape shape = rf_tensor_shape(t, x);
    if (shape.rank < 2) return RF_NO_TENSOR;
    const int64_t step = layer->u.step < 0 ? layer->u.step + shape.dim[1] : layer->u.step;
    const int64_t begin[] = { 0, step }, end[] = { INT64_MAX, step + 1 };
    rf_size sizes[RF_MAX_RANK] = { rf_size_of(x, 0, 1) };
    for (int32_t i = 2; i < shape.rank; i++) sizes[i - 1] = rf_size_of(x, i, 1);
    return rf_regroup(t, rf_slice(t, x, begin, end, NULL, 2), sizes, (uint32_t)shape.rank - 1);
}

static const rf_layer_kind select_step_kind = {
    .base_name = "select_step", .type_name = "SelectStep", .build = select_step_build, .call = select_step_call
};

rf_result rf_layer_select_step(int32_t step, rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_select_step: out is NULL");
    *out = NULL;
    RF_TRY(rf_layer_new(&select_step_kind, NULL, out));
    (*out)->u.step = step;
    return RF_OK;
}
