/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that act in training only: Gaussian noise and dropout, dropout of whole channels. */
#include <math.h>

#include "base/error.h"
#include "ops/ops.h"
#include "trace/trace.h"
#include "train/layers/layer.h"

static rf_result floats_build(rf_layer *layer, rf_strategy *strategy, rf_dtype dtype, rf_shape input)
{
    char text[96];
    (void)strategy;
    RF_REQUIRE(dtype == RF_F32, "layer '%s' takes f32, got %s %s; cast the input first", layer->name,
               rf_dtype_name(dtype), rf_shape_format(input, text, sizeof(text)));
    return RF_OK;
}

static rf_tensor scaled_normal(rf_trace *t, const rf_layer *layer, rf_tensor like)
{
    const rf_tensor normal = rf_random_normal(t, like, layer->u.noise.seed);
    return rf_multiply(t, normal, rf_constant(t, layer->u.noise.deviation));
}

static rf_tensor gaussian_noise_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    return mode == RF_TRAINING ? rf_add(t, x, scaled_normal(t, layer, x)) : x;
}

static const rf_layer_kind gaussian_noise_kind = {
    .base_name = "gaussian_noise", .type_name = "GaussianNoise", .build = floats_build, .call = gaussian_noise_call
};

rf_result rf_layer_gaussian_noise(float stddev, uint64_t seed, rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_gaussian_noise: out is NULL");
    *out = NULL;
    RF_REQUIRE(stddev >= 0.0f && isfinite(stddev), "rf_layer_gaussian_noise: stddev %g must be finite and not negative",
               (double)stddev);
    RF_TRY(rf_layer_new(&gaussian_noise_kind, NULL, out));
    (*out)->u.noise.deviation = stddev;
    (*out)->u.noise.seed = seed;
    return RF_OK;
}

static rf_tensor gaussian_dropout_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    const float rate = layer->u.dropout.rate, deviation = sqrtf(rate / (1.0f - rate));
    if (mode != RF_TRAINING) return x;
    const rf_tensor normal = rf_random_normal(t, x, layer->u.dropout.seed);
    const rf_tensor factor = rf_add(t, rf_multiply(t, normal, rf_constant(t, deviation)), rf_constant(t, 1.0f));
    return rf_multiply(t, x, factor);
}

static const rf_layer_kind gaussian_dropout_kind = { .base_name = "gaussian_dropout",
                                                     .type_name = "GaussianDropout",
                                                     .build = floats_build,
                                                     .call = gaussian_dropout_call };

/* ---- whole channels ---- */

static rf_result sequence_build(rf_layer *layer, rf_strategy *strategy, rf_dtype dtype, rf_shape input)
{
    (void)strategy;
    return rf_layer_check_input(layer, dtype, input, RF_LAYER_SEQUENCES);
}

static rf_result image_build(rf_layer *layer, rf_strategy *strategy, rf_dtype dtype, rf_shape input)
{
    (void)strategy;
    return rf_layer_check_input(layer, dtype, input, RF_LAYER_IMAGES);
}

/* Dropout of ones [n, 1, ..., channels] broadcasts over x. */
static rf_tensor spatial_dropout_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    static const int64_t begin[RF_MAX_RANK] = { 0 }, end[RF_MAX_RANK] = { INT64_MAX, 1, 1, 1, 1, 1 };
    rf_value like, ones = 0;
    if (mode != RF_TRAINING) return x;
    const rf_tensor first = rf_slice(t, x, begin, end, NULL, (uint32_t)layer->input.rank - 1);
    if (!rf_operand(t, first, layer->name, &like)) return RF_NO_TENSOR;
    const rf_result r = rf_emit_fill_like(rf_trace_graph(t), 1.0f, like, &ones);
    const rf_tensor kept = rf_trace_emit(t, r, ones);
    return rf_multiply(t, x, rf_dropout(t, kept, layer->u.dropout.rate, layer->u.dropout.seed));
}

static const rf_layer_kind spatial_dropout1d_kind = { .base_name = "spatial_dropout1d",
                                                      .type_name = "SpatialDropout1D",
                                                      .build = sequence_build,
                                                      .call = spatial_dropout_call };
static const rf_layer_kind spatial_dropout2d_kind = { .base_name = "spatial_dropout2d",
                                                      .type_name = "SpatialDropout2D",
                                                      .build = image_build,
                                                      .call = spatial_dropout_call };

static rf_result new_dropout(const rf_layer_kind *kind, const char *function, float rate, uint64_t seed, rf_layer **out)
{
    RF_REQUIRE(out, "%s: out is NULL", function);
    *out = NULL;
    RF_REQUIRE(rate >= 0.0f && rate < 1.0f, "%s: rate %g is not in [0, 1)", function, (double)rate);
    RF_TRY(rf_layer_new(kind, NULL, out));
    (*out)->u.dropout.rate = rate;
    (*out)->u.dropout.seed = seed;
    return RF_OK;
}

rf_result rf_layer_gaussian_dropout(float rate, uint64_t seed, rf_layer **out)
{
    return new_dropout(&gaussian_dropout_kind, "rf_layer_gaussian_dropout", rate, seed, out);
}

rf_result rf_layer_spatial_dropout1d(float rate, uint64_t seed, rf_layer **out)
{
    return new_dropout(&spatial_dropout1d_kind, "rf_layer_spatial_dropout1d", rate, seed, out);
}

rf_result rf_layer_spatial_dropout2d(float rate, uint64_t seed, rf_layer **out)
{
    return new_dropout(&spatial_dropout2d_kind, "rf_layer_spatial_dropout2d", rate, seed, out);
}
