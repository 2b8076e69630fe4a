/* SPDX-License-Identifier: Apache-2.0 */
/* Normalization of inputs by a mean and a variance that are known before training, as Keras has it. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/params.h"
#include "trace/trace.h"
#include "train/layers/layer.h"

#define LEAST_DEVIATION 1e-7f

static rf_result add_number(rf_layer *layer, rf_strategy *strategy, const char *name, rf_shape shape,
                            const float *values, rf_initializer_kind initial)
{
    return values ? rf_layer_add_state_value(layer, strategy, name, shape, values)
                  : rf_layer_add_state(layer, strategy, name, shape, (rf_initializer){ .kind = initial });
}

static rf_result normalization_build(rf_layer *layer, rf_strategy *strategy, rf_dtype dtype, rf_shape input)
{
    char text[96];
    const bool whole = layer->u.normalization.whole;
    const float *mean = layer->u.normalization.mean, *variance = layer->u.normalization.variance;
    const int64_t count = layer->u.normalization.count;
    RF_REQUIRE(dtype == RF_F32, "layer '%s' takes f32, got %s; cast or scale the input first", layer->name,
               rf_dtype_name(dtype));
    const int32_t given = layer->u.normalization.axis, axis = given < 0 ? given + input.rank : given;
    RF_REQUIRE(whole || (axis >= 1 && axis < input.rank),
               "layer '%s' normalizes axis %d, which an input %s does not have beside the batch", layer->name,
               (int)given, rf_shape_format(input, text, sizeof(text)));
    const int64_t channels = whole ? 1 : input.dim[axis];
    const int64_t expected = layer->built ? rf_shape_count(rf_variable_shape(layer->variables[0])) : count;
    RF_REQUIRE(expected == 0 || channels == expected, "layer '%s' has %lld means, and its input %s has %lld channels",
               layer->name, (long long)expected, rf_shape_format(input, text, sizeof(text)), (long long)channels);
    if (layer->built) return RF_OK;
    const rf_shape shape = whole ? (rf_shape){ 0 } : RF_SHAPE(channels);
    RF_TRY(add_number(layer, strategy, "mean", shape, mean, RF_INIT_ZEROS));
    return add_number(layer, strategy, "variance", shape, variance, RF_INIT_ONES);
}

static rf_tensor normalization_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    (void)mode;
    const int32_t rank = rf_tensor_shape(t, x).rank, given = layer->u.normalization.axis;
    rf_tensor mean = rf_variable_tensor(t, layer->variables[0]);
    rf_tensor deviation =
        rf_maximum(t, rf_sqrt(t, rf_variable_tensor(t, layer->variables[1])), rf_constant(t, LEAST_DEVIATION));
    if (!layer->u.normalization.whole) {
        const int32_t behind = rank - 1 - (given < 0 ? given + rank : given);
        mean = rf_append_axes(t, mean, behind);
        deviation = rf_append_axes(t, deviation, behind);
    }
    return layer->u.normalization.invert ? rf_add(t, rf_multiply(t, x, deviation), mean)
                                         : rf_divide(t, rf_subtract(t, x, mean), deviation);
}

static void normalization_destroy(rf_layer *layer)
{
    rf_free(layer->u.normalization.mean);
    rf_free(layer->u.normalization.variance);
}

static const rf_layer_kind normalization_kind = { .base_name = "normalization",
                                                  .type_name = "Normalization",
                                                  .build = normalization_build,
                                                  .call = normalization_call,
                                                  .destroy = normalization_destroy };

static rf_result check_numbers(const char *name, const rf_array *a, bool whole)
{
    char text[96];
    RF_REQUIRE(a->dtype == RF_F32 && a->data, "rf_layer_normalization: %s is %s, not f32", name,
               a->data ? rf_dtype_name(a->dtype) : "empty");
    RF_REQUIRE(whole ? rf_shape_count(a->shape) == 1 : a->shape.rank == 1,
               "rf_layer_normalization: %s has the shape %s; give %s", name,
               rf_shape_format(a->shape, text, sizeof(text)), whole ? "one number" : "a number for each channel");
    for (int64_t i = 0; i < rf_shape_count(a->shape); i++) {
        const double value = (double)((const float *)a->data)[i];
        RF_REQUIRE(isfinite(value) && (value >= 0 || strcmp(name, "mean") == 0),
                   "rf_layer_normalization: %s %lld is %g", name, (long long)i, value);
    }
    return RF_OK;
}

static rf_result copy_numbers(const rf_array *a, float **out)
{
    const size_t count = (size_t)rf_shape_count(a->shape);
    *out = RF_NEW_ARRAY(float, count);
    if (!*out) return RF_ERROR_OUT_OF_HOST_MEMORY;
    memcpy(*out, a->data, count * sizeof(float));
    return RF_OK;
}

rf_result rf_layer_normalization(const rf_normalization_params *params, rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_normalization: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_normalization_params, params));
    const rf_normalization_params p = params ? *params : (rf_normalization_params){ 0 };
    RF_REQUIRE(p.axis > -RF_MAX_RANK && p.axis < RF_MAX_RANK,
               "rf_layer_normalization: axis %d; tensors have at most %d", (int)p.axis, RF_MAX_RANK);
    RF_REQUIRE(!p.whole || p.axis == 0,
               "rf_layer_normalization: axis is %d, and one mean is wanted of the whole; leave "
               "it 0",
               (int)p.axis);
    RF_REQUIRE(!p.mean == !p.variance, "rf_layer_normalization: %s is NULL; give both, or neither",
               p.mean ? "variance" : "mean");
    if (p.mean) {
        RF_TRY(check_numbers("mean", p.mean, p.whole));
        RF_TRY(check_numbers("variance", p.variance, p.whole));
        RF_REQUIRE(rf_shape_count(p.mean->shape) == rf_shape_count(p.variance->shape),
                   "rf_layer_normalization: %lld means and %lld variances", (long long)rf_shape_count(p.mean->shape),
                   (long long)rf_shape_count(p.variance->shape));
    }
    rf_layer *layer;
    RF_TRY(rf_layer_new(&normalization_kind, p.name, &layer));
    layer->u.normalization.axis = p.axis ? p.axis : -1;
    layer->u.normalization.whole = p.whole;
    layer->u.normalization.invert = p.invert;
    rf_result r = RF_OK;
    if (p.mean) {
        layer->u.normalization.count = rf_shape_count(p.mean->shape);
        r = copy_numbers(p.mean, &layer->u.normalization.mean);
        if (r == RF_OK) r = copy_numbers(p.variance, &layer->u.normalization.variance);
    }
    if (r < 0)
        rf_layer_free(layer);
    else
        *out = layer;
    return r;
}
