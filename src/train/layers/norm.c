/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that normalise along the last axis: layer normalization, root mean square normalization. */
#include <math.h>

#include "base/error.h"
#include "base/params.h"
#include "trace/trace.h"
#include "train/layers/layer.h"

/* Gamma comes first where both are there. */
static rf_result norm_build(rf_layer *layer, rf_strategy *strategy, rf_dtype dtype, rf_shape input)
{
    char text[96];
    const rf_norm *n = &layer->u.norm;
    RF_REQUIRE(dtype == RF_F32, "layer '%s' takes f32 inputs, got %s %s", layer->name, rf_dtype_name(dtype),
               rf_shape_format(input, text, sizeof(text)));
    RF_REQUIRE(input.rank >= 2, "layer '%s' needs [n, ..., features], got %s", layer->name,
               rf_shape_format(input, text, sizeof(text)));
    const int64_t features = input.dim[input.rank - 1];
    if (layer->built) {
        RF_REQUIRE(layer->num_variables == 0 || features == rf_variable_shape(layer->variables[0]).dim[0],
                   "layer '%s' was built for %lld features, got %s", layer->name,
                   (long long)rf_variable_shape(layer->variables[0]).dim[0],
                   rf_shape_format(input, text, sizeof(text)));
        return RF_OK;
    }
    if (n->scale) RF_TRY(rf_layer_add_variable(layer, strategy, "gamma", RF_SHAPE(features), n->gamma_initializer));
    if (n->center) RF_TRY(rf_layer_add_variable(layer, strategy, "beta", RF_SHAPE(features), n->beta_initializer));
    return RF_OK;
}

static rf_tensor norm_gamma(rf_trace *t, const rf_layer *layer)
{
    if (!layer->u.norm.scale) return RF_NO_TENSOR;
    const rf_tensor gamma = rf_variable_tensor(t, layer->variables[0]);
    return layer->u.norm.unit_offset ? rf_add(t, gamma, rf_constant(t, 1)) : gamma;
}

static rf_tensor layer_norm_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    (void)mode;
    const rf_norm *n = &layer->u.norm;
    const rf_tensor gamma = norm_gamma(t, layer);
    const rf_tensor beta = n->center ? rf_variable_tensor(t, layer->variables[n->scale]) : RF_NO_TENSOR;
    return rf_layer_norm(t, x, gamma, beta, (float)n->epsilon);
}

static rf_tensor rms_norm_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    (void)mode;
    return rf_rms_norm(t, x, norm_gamma(t, layer), (float)layer->u.norm.epsilon);
}

static const rf_layer_kind layer_norm_kind = { .base_name = "layer_normalization",
                                               .type_name = "LayerNormalization",
                                               .build = norm_build,
                                               .call = layer_norm_call,
                                               .narrow = true };
static const rf_layer_kind rms_norm_kind = { .base_name = "rms_normalization",
                                             .type_name = "RMSNormalization",
                                             .build = norm_build,
                                             .call = rms_norm_call,
                                             .narrow = true };

static rf_result norm_new(const rf_layer_kind *kind, const char *function, const rf_norm *norm, const char *name,
                          rf_layer **out)
{
    RF_REQUIRE(norm->epsilon > 0.0 && isfinite((float)norm->epsilon) && (float)norm->epsilon > 0.0f,
               "%s: epsilon is %g, must be a positive f32", function, norm->epsilon);
    RF_TRY(rf_layer_check_initializer(&norm->gamma_initializer, function, "gamma_initializer"));
    RF_TRY(rf_layer_check_initializer(&norm->beta_initializer, function, "beta_initializer"));
    RF_TRY(rf_layer_new(kind, name, out));
    (*out)->u.norm = *norm;
    return RF_OK;
}

static rf_initializer given_or(const rf_initializer *given, rf_initializer_kind kind)
{
    return given ? *given : (rf_initializer){ .kind = kind };
}

rf_result rf_layer_layer_norm(const rf_layer_norm_params *params, rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_layer_norm: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_layer_norm_params, params));
    const rf_layer_norm_params defaults = { 0 };
    const rf_layer_norm_params *p = params ? params : &defaults;
    RF_REQUIRE(!(p->no_center && p->beta_initializer),
               "rf_layer_layer_norm: beta_initializer is set but no_center leaves out beta");
    RF_REQUIRE(!(p->no_scale && p->gamma_initializer),
               "rf_layer_layer_norm: gamma_initializer is set but no_scale leaves out gamma");
    const rf_norm norm = { .epsilon = p->epsilon == 0.0 ? 1e-3 : p->epsilon,
                           .center = !p->no_center,
                           .scale = !p->no_scale,
                           .gamma_initializer = given_or(p->gamma_initializer, RF_INIT_ONES),
                           .beta_initializer = given_or(p->beta_initializer, RF_INIT_ZEROS) };
    return norm_new(&layer_norm_kind, "rf_layer_layer_norm", &norm, p->name, out);
}

rf_result rf_layer_rms_norm(const rf_rms_norm_params *params, rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_rms_norm: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_rms_norm_params, params));
    const rf_rms_norm_params defaults = { 0 };
    const rf_rms_norm_params *p = params ? params : &defaults;
    RF_REQUIRE(!(p->no_scale && p->gamma_initializer),
               "rf_layer_rms_norm: gamma_initializer is set but no_scale leaves out gamma");
    RF_REQUIRE(!(p->no_scale && p->unit_offset), "rf_layer_rms_norm: unit_offset is set but no_scale leaves out gamma");
    const rf_norm norm = { .epsilon = p->epsilon == 0.0 ? 1e-6 : p->epsilon,
                           .scale = !p->no_scale,
                           .unit_offset = p->unit_offset,
                           .gamma_initializer =
                               given_or(p->gamma_initializer, p->unit_offset ? RF_INIT_ZEROS : RF_INIT_ONES),
                           .beta_initializer = { .kind = RF_INIT_ZEROS } };
    return norm_new(&rms_norm_kind, "rf_layer_rms_norm", &norm, p->name, out);
}
