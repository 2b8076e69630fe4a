/* SPDX-License-Identifier: Apache-2.0 */
/* Group normalization (Wu & He 2018), as Keras has it. */
#include <math.h>

#include "base/error.h"
#include "base/params.h"
#include "trace/trace.h"
#include "train/layers/layer.h"

static rf_result group_norm_build(rf_layer *layer, rf_strategy *strategy, rf_dtype dtype, rf_shape input)
{
    char text[96];
    const rf_norm *n = &layer->u.group_norm.norm;
    const int32_t given = layer->u.group_norm.axis, axis = given < 0 ? given + input.rank : given;
    RF_REQUIRE(dtype == RF_F32, "layer '%s' takes f32 inputs, got %s %s", layer->name, rf_dtype_name(dtype),
               rf_shape_format(input, text, sizeof(text)));
    RF_REQUIRE(input.rank >= 2 && axis >= 1 && axis < input.rank,
               "layer '%s' normalizes groups along axis %d, which an input %s does not have beside the batch",
               layer->name, (int)given, rf_shape_format(input, text, sizeof(text)));
    const int64_t channels = input.dim[axis], groups = layer->u.group_norm.groups;
    RF_REQUIRE(groups == -1 || channels % groups == 0,
               "layer '%s': %lld channels cannot be divided into %lld groups; set rf_group_norm_params::groups",
               layer->name, (long long)channels, (long long)groups);
    if (layer->built) {
        RF_REQUIRE(layer->num_variables == 0 || channels == rf_variable_shape(layer->variables[0]).dim[0],
                   "layer '%s' was built for %lld channels, got %s", layer->name,
                   (long long)rf_variable_shape(layer->variables[0]).dim[0],
                   rf_shape_format(input, text, sizeof(text)));
        return RF_OK;
    }
    if (n->scale) RF_TRY(rf_layer_add_variable(layer, strategy, "gamma", RF_SHAPE(channels), n->gamma_initializer));
    if (n->center) RF_TRY(rf_layer_add_variable(layer, strategy, "beta", RF_SHAPE(channels), n->beta_initializer));
    return RF_OK;
}

static rf_tensor group_norm_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    (void)mode;
    const rf_norm *n = &layer->u.group_norm.norm;
    const rf_tensor gamma = n->scale ? rf_variable_tensor(t, layer->variables[0]) : RF_NO_TENSOR;
    const rf_tensor beta = n->center ? rf_variable_tensor(t, layer->variables[n->scale]) : RF_NO_TENSOR;
    return rf_group_norm(t, x, gamma, beta, layer->u.group_norm.groups, layer->u.group_norm.axis, (float)n->epsilon);
}

static const rf_layer_kind group_norm_kind = { .base_name = "group_normalization",
                                               .type_name = "GroupNormalization",
                                               .build = group_norm_build,
                                               .call = group_norm_call };

static rf_result check_params(const rf_group_norm_params *p)
{
    RF_REQUIRE(p->groups >= -1, "rf_layer_group_norm: groups is %d; -1 stands for as many as channels", (int)p->groups);
    RF_REQUIRE(p->axis > -RF_MAX_RANK && p->axis < RF_MAX_RANK, "rf_layer_group_norm: axis %d; tensors have at most %d",
               (int)p->axis, RF_MAX_RANK);
    RF_REQUIRE(p->epsilon >= 0.0 && isfinite((float)p->epsilon) && (p->epsilon == 0.0 || (float)p->epsilon > 0.0f),
               "rf_layer_group_norm: epsilon is %g, must be a positive f32", p->epsilon);
    RF_REQUIRE(!(p->no_center && p->beta_initializer),
               "rf_layer_group_norm: beta_initializer is set but no_center leaves out beta");
    RF_REQUIRE(!(p->no_scale && p->gamma_initializer),
               "rf_layer_group_norm: gamma_initializer is set but no_scale leaves out gamma");
    if (p->gamma_initializer)
        RF_TRY(rf_layer_check_initializer(p->gamma_initializer, "rf_layer_group_norm", "gamma_initializer"));
    if (p->beta_initializer)
        RF_TRY(rf_layer_check_initializer(p->beta_initializer, "rf_layer_group_norm", "beta_initializer"));
    RF_TRY(rf_layer_check_regularizer(p->gamma_regularizer, "rf_layer_group_norm", "gamma_regularizer"));
    return rf_layer_check_regularizer(p->beta_regularizer, "rf_layer_group_norm", "beta_regularizer");
}

rf_result rf_layer_group_norm(const rf_group_norm_params *params, rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_group_norm: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_group_norm_params, params));
    const rf_group_norm_params p = params ? *params : (rf_group_norm_params){ 0 };
    const rf_initializer ones = { .kind = RF_INIT_ONES }, zeros = { .kind = RF_INIT_ZEROS };
    rf_layer *layer;
    RF_TRY(check_params(&p));
    RF_TRY(rf_layer_new(&group_norm_kind, p.name, &layer));
    layer->u.group_norm.groups = p.groups ? p.groups : 32;
    layer->u.group_norm.axis = p.axis ? p.axis : -1;
    layer->u.group_norm.norm = (rf_norm){ .epsilon = p.epsilon > 0.0 ? p.epsilon : 1e-3,
                                          .center = !p.no_center,
                                          .scale = !p.no_scale,
                                          .gamma_initializer = p.gamma_initializer ? *p.gamma_initializer : ones,
                                          .beta_initializer = p.beta_initializer ? *p.beta_initializer : zeros };
    /* In the order of the variables; one that is left out has none. */
    if (!p.no_scale) layer->regularizers[0] = p.gamma_regularizer;
    if (!p.no_center) layer->regularizers[p.no_scale ? 0 : 1] = p.beta_regularizer;
    *out = layer;
    return RF_OK;
}
