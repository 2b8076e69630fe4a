/* SPDX-License-Identifier: Apache-2.0 */
#include "pretrained/vision.h"

#include "pretrained/config.h"

/* The call of what a constructor has made. */
static rf_symbol call_one(const rf_blocks *b, rf_result made, rf_layer *layer, rf_symbol x)
{
    rf_pretrained_config_fail(b->config, made);
    return made < 0 ? (rf_symbol){ 0, 0 } : rf_model_builder_call(b->builder, layer, x);
}

rf_symbol rf_vision_input(const rf_blocks *b, int32_t height, int32_t width, int32_t channels)
{
    return rf_model_builder_input(b->builder, RF_F32, RF_SHAPE(height, width, channels), "pixel_values");
}

/* ---- convolutions ---- */

static rf_symbol add_conv(const rf_blocks *b, rf_symbol x, const rf_vision_unit *u)
{
    rf_layer *layer = NULL;
    const int32_t dilation = u->dilation > 0 ? u->dilation : 1, zeros = u->size / 2 * dilation;
    const rf_conv2d_params conv = { .padding = RF_PADDING_EXPLICIT,
                                    .stride = { u->stride, u->stride },
                                    .dilation = { dilation, dilation },
                                    .explicit_padding = { zeros, zeros, zeros, zeros } };
    const rf_conv2d_layer_params all = {
        .filters = u->filters, .kernel_size = { u->size }, .conv = conv, .no_bias = true, .name = u->conv
    };
    const rf_depthwise_conv2d_params each = {
        .kernel_size = { u->size }, .conv = conv, .no_bias = true, .name = u->conv
    };
    const rf_result made = u->filters > 0 ? rf_layer_conv2d(&all, &layer) : rf_layer_depthwise_conv2d(&each, &layer);
    return call_one(b, made, layer, x);
}

rf_symbol rf_vision_add_unit(const rf_blocks *b, rf_symbol x, const rf_vision_unit *unit)
{
    rf_layer *norm = NULL;
    const rf_batch_norm_params params = { .momentum = unit->momentum,
                                          .epsilon = unit->epsilon,
                                          .synchronized = b->config->synchronized_batch_norm,
                                          .unbiased_variance = true, /* as where the files come from */
                                          .name = unit->norm };
    x = add_conv(b, x, unit);
    const rf_result made = rf_layer_batch_norm(&params, &norm);
    x = call_one(b, made, norm, x);
    return unit->activation == RF_ACTIVATION_LINEAR ? x : rf_block_activate(b, x, unit->activation);
}

rf_symbol rf_vision_patches(const rf_blocks *b, rf_symbol x, int32_t size, int32_t width, const char *name)
{
    rf_layer *layer = NULL, *steps = NULL;
    const rf_conv2d_layer_params params = {
        .filters = width, .kernel_size = { size }, .conv = { .stride = { size, size } }, .name = name
    };
    rf_result made = rf_layer_conv2d(&params, &layer);
    x = call_one(b, made, layer, x);
    made = rf_layer_reshape(RF_SHAPE(-1, width), &steps);
    return call_one(b, made, steps, x);
}

/* ---- the rest ---- */

rf_symbol rf_vision_class_token(const rf_blocks *b, rf_symbol x, const char *name)
{
    rf_layer *layer = NULL;
    const rf_result made = rf_layer_class_token(NULL, name, &layer);
    return call_one(b, made, layer, x);
}

rf_symbol rf_vision_max_pool(const rf_blocks *b, rf_symbol x)
{
    rf_layer *layer = NULL;
    const rf_pool2d_params params = {
        .window = { 3, 3 }, .stride = { 2, 2 }, .padding = RF_PADDING_EXPLICIT, .explicit_padding = { 1, 1, 1, 1 }
    };
    const rf_result made = rf_layer_max_pool2d(&params, &layer);
    return call_one(b, made, layer, x);
}

rf_symbol rf_vision_mean(const rf_blocks *b, rf_symbol x)
{
    rf_layer *layer = NULL;
    const rf_result made = rf_layer_global_avg_pool2d(&layer);
    return call_one(b, made, layer, x);
}

rf_symbol rf_vision_weigh(const rf_blocks *b, rf_symbol x, rf_symbol factors, int32_t channels)
{
    rf_layer *layer = NULL;
    const rf_result made = rf_layer_reshape(RF_SHAPE(1, 1, channels), &layer);
    return rf_block_multiply(b, x, call_one(b, made, layer, factors));
}
