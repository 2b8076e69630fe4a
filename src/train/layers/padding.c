/* SPDX-License-Identifier: Apache-2.0 */
/* Layers without variables that change the size of images and sequences: zeros around them,
 * larger ones, global maxima. */
#include "base/error.h"
#include "ops/ops.h"
#include "trace/trace.h"
#include "train/layers/layer.h"

static rf_result image_build(rf_layer *layer, rf_strategy *strategy, rf_dtype dtype, rf_shape input)
{
    (void)strategy;
    return rf_layer_check_input(layer, dtype, input, RF_LAYER_IMAGES);
}

/* ---- zeros ---- */

/* The padded sizes are those of tensors: what is too large has a message of its own. */
static rf_result check_padded(const rf_layer *layer, rf_shape input)
{
    char text[96];
    rf_shape padded = input;
    for (int32_t i = 1; i + 1 < input.rank; i++)
        padded.dim[i] += (int64_t)layer->u.zeros[2 * i - 2] + layer->u.zeros[2 * i - 1];
    RF_REQUIRE(rf_shape_count(padded) > 0, "layer '%s' cannot add so many zeros to its input %s", layer->name,
               rf_shape_format(input, text, sizeof(text)));
    return RF_OK;
}

static rf_result zero_padding1d_build(rf_layer *layer, rf_strategy *strategy, rf_dtype dtype, rf_shape input)
{
    (void)strategy;
    RF_TRY(rf_layer_check_input(layer, dtype, input, RF_LAYER_SEQUENCES));
    return check_padded(layer, input);
}

static rf_result zero_padding2d_build(rf_layer *layer, rf_strategy *strategy, rf_dtype dtype, rf_shape input)
{
    RF_TRY(image_build(layer, strategy, dtype, input));
    return check_padded(layer, input);
}

static rf_tensor pad_axes(rf_trace *t, const rf_layer *layer, rf_tensor x, uint32_t axes)
{
    const int32_t *zeros = layer->u.zeros;
    const int64_t before[] = { 0, zeros[0], zeros[2] }, after[] = { 0, zeros[1], zeros[3] };
    return rf_pad(t, x, before, after, 1 + axes, 0.0f);
}

static rf_tensor zero_padding1d_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    (void)mode;
    return pad_axes(t, layer, x, 1);
}

static rf_tensor zero_padding2d_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    (void)mode;
    return pad_axes(t, layer, x, 2);
}

static const rf_layer_kind zero_padding1d_kind = { .base_name = "zero_padding1d",
                                                   .type_name = "ZeroPadding1D",
                                                   .build = zero_padding1d_build,
                                                   .call = zero_padding1d_call,
                                                   .narrow = true };
static const rf_layer_kind zero_padding2d_kind = { .base_name = "zero_padding2d",
                                                   .type_name = "ZeroPadding2D",
                                                   .build = zero_padding2d_build,
                                                   .call = zero_padding2d_call,
                                                   .narrow = true };

static rf_result new_zeros(const rf_layer_kind *kind, const char *function, const int32_t *padding, uint32_t count,
                           rf_layer **out)
{
    RF_REQUIRE(out, "%s: out is NULL", function);
    *out = NULL;
    for (uint32_t i = 0; padding && i < count; i++)
        RF_REQUIRE(padding[i] >= 0, "%s: padding[%u] is %d, must not be negative", function, i, (int)padding[i]);
    RF_TRY(rf_layer_new(kind, NULL, out));
    for (uint32_t i = 0; i < count; i++) (*out)->u.zeros[i] = padding ? padding[i] : 1;
    return RF_OK;
}

rf_result rf_layer_zero_padding1d(const int32_t *padding, rf_layer **out)
{
    return new_zeros(&zero_padding1d_kind, "rf_layer_zero_padding1d", padding, 2, out);
}

rf_result rf_layer_zero_padding2d(const int32_t *padding, rf_layer **out)
{
    return new_zeros(&zero_padding2d_kind, "rf_layer_zero_padding2d", padding, 4, out);
}

/* ---- enlarged images ---- */

static rf_tensor up_sampling2d_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    (void)mode;
    return rf_upsample2d(t, x, layer->u.up_sampling.factor, layer->u.up_sampling.interpolation);
}

static const rf_layer_kind up_sampling2d_kind = { .base_name = "up_sampling2d",
                                                  .type_name = "UpSampling2D",
                                                  .build = image_build,
                                                  .call = up_sampling2d_call,
                                                  .narrow = true };

rf_result rf_layer_upsample2d(const int32_t *factor, rf_interpolation interpolation, rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_upsample2d: out is NULL");
    *out = NULL;
    for (int i = 0; factor && i < 2; i++)
        RF_REQUIRE(factor[i] >= 1 && factor[i] <= RF_MAX_UPSAMPLE_FACTOR,
                   "rf_layer_upsample2d: factor[%d] is %d, must be 1 to %d", i, (int)factor[i], RF_MAX_UPSAMPLE_FACTOR);
    RF_REQUIRE((int)interpolation >= RF_INTERPOLATION_NEAREST && (int)interpolation <= RF_INTERPOLATION_BILINEAR,
               "rf_layer_upsample2d: interpolation %d does not exist", (int)interpolation);
    RF_TRY(rf_layer_new(&up_sampling2d_kind, NULL, out));
    for (int i = 0; i < 2; i++) (*out)->u.up_sampling.factor[i] = factor ? factor[i] : 2;
    (*out)->u.up_sampling.interpolation = interpolation;
    return RF_OK;
}

/* ---- global maxima ---- */

static rf_tensor global_max_pool2d_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    (void)layer;
    (void)mode;
    return rf_reduce_max(t, x, (const int32_t[]){ 1, 2 }, 2, RF_DROP_DIMS);
}

static const rf_layer_kind global_max_pool2d_kind = { .base_name = "global_max_pooling2d",
                                                      .type_name = "GlobalMaxPooling2D",
                                                      .build = image_build,
                                                      .call = global_max_pool2d_call };

rf_result rf_layer_global_max_pool2d(rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_global_max_pool2d: out is NULL");
    *out = NULL;
    return rf_layer_new(&global_max_pool2d_kind, NULL, out);
}
