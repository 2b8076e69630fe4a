/* SPDX-License-Identifier: Apache-2.0 */
/* Rectifiers with a slope of their own for negative numbers: one that is given, and one that is trained. */
#include <math.h>

#include "base/error.h"
#include "base/params.h"
#include "trace/trace.h"
#include "train/layers/layer.h"

#define DEFAULT_SLOPE 0.3f

/* ---- a given slope ---- */

static rf_result leaky_relu_build(rf_layer *layer, rf_strategy *strategy, rf_dtype dtype, rf_shape input)
{
    char text[96];
    (void)strategy;
    RF_REQUIRE(dtype == RF_F32, "layer '%s' takes f32, got %s %s; cast the input first", layer->name,
               rf_dtype_name(dtype), rf_shape_format(input, text, sizeof(text)));
    return RF_OK;
}

static rf_tensor leaky_relu_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    (void)mode;
    return rf_leaky_relu(t, x, (float)rf_setting((double)layer->u.slope, 0.0));
}

static const rf_layer_kind leaky_relu_kind = { .base_name = "leaky_re_lu",
                                               .type_name = "LeakyReLU",
                                               .build = leaky_relu_build,
                                               .call = leaky_relu_call,
                                               .narrow = true };

rf_result rf_layer_leaky_relu(float negative_slope, rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_leaky_relu: out is NULL");
    *out = NULL;
    RF_REQUIRE(negative_slope >= 0.0f && isfinite(negative_slope),
               "rf_layer_leaky_relu: negative_slope %g must be finite and not negative", (double)negative_slope);
    RF_TRY(rf_layer_new(&leaky_relu_kind, NULL, out));
    (*out)->u.slope = negative_slope != 0.0f ? negative_slope : DEFAULT_SLOPE;
    return RF_OK;
}

/* ---- a trained slope ---- */

static bool is_shared(const rf_layer *layer, int32_t axis, int32_t rank)
{
    const uint32_t axes = layer->u.p_relu.shared_axes;
    return (axes >> axis & 1) != 0 || (axes >> (32 - (rank - axis)) & 1) != 0;
}

static rf_result p_relu_build(rf_layer *layer, rf_strategy *strategy, rf_dtype dtype, rf_shape input)
{
    char text[96], expected[96];
    RF_REQUIRE(dtype == RF_F32, "layer '%s' takes f32, got %s %s; cast the input first", layer->name,
               rf_dtype_name(dtype), rf_shape_format(input, text, sizeof(text)));
    RF_REQUIRE(input.rank >= 2, "layer '%s' needs [n, ..., features], got %s", layer->name,
               rf_shape_format(input, text, sizeof(text)));
    for (int32_t i = 1; i < 2 * RF_MAX_RANK; i++) {
        const int32_t axis = i < RF_MAX_RANK ? i : i - 2 * RF_MAX_RANK; /* 1, 2, ...; ..., -2, -1 */
        const bool listed = (layer->u.p_relu.shared_axes >> (axis < 0 ? 32 + axis : axis) & 1) != 0;
        RF_REQUIRE(!listed || (axis < input.rank && axis > -input.rank),
                   "layer '%s' shares alpha along axis %d, which its input %s does not have beside the batch",
                   layer->name, (int)axis, rf_shape_format(input, text, sizeof(text)));
    }
    rf_shape alpha = { .rank = 0 };
    for (int32_t i = 1; i < input.rank; i++)
        alpha.dim[alpha.rank++] = is_shared(layer, i, input.rank) ? 1 : input.dim[i];
    if (!layer->built) return rf_layer_add_variable(layer, strategy, "alpha", alpha, layer->u.p_relu.initializer);
    const rf_shape built = rf_variable_shape(layer->variables[0]);
    bool same = built.rank == alpha.rank;
    for (int32_t i = 0; same && i < alpha.rank; i++) same = built.dim[i] == alpha.dim[i];
    RF_REQUIRE(same, "layer '%s' was built with slopes %s, which do not fit its input %s", layer->name,
               rf_shape_format(built, expected, sizeof(expected)), rf_shape_format(input, text, sizeof(text)));
    return RF_OK;
}

/* max(x, 0) - alpha max(-x, 0), as Keras computes it. */
static rf_tensor p_relu_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    (void)mode;
    const rf_tensor alpha = rf_variable_tensor(t, layer->variables[0]);
    const rf_tensor negative = rf_relu(t, rf_negative(t, x));
    return rf_subtract(t, rf_relu(t, x), rf_multiply(t, alpha, negative));
}

static const rf_layer_kind p_relu_kind = {
    .base_name = "p_re_lu", .type_name = "PReLU", .build = p_relu_build, .call = p_relu_call
};

rf_result rf_layer_prelu(const rf_prelu_params *params, rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_prelu: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_prelu_params, params));
    const rf_prelu_params p = params ? *params : (rf_prelu_params){ 0 };
    rf_initializer initializer = { .kind = RF_INIT_ZEROS };
    uint32_t shared = 0;
    if (p.alpha_initializer) initializer = *p.alpha_initializer;
    RF_TRY(rf_layer_check_initializer(&initializer, "rf_layer_prelu", "alpha_initializer"));
    RF_TRY(rf_layer_check_regularizer(p.alpha_regularizer, "rf_layer_prelu", "alpha_regularizer"));
    RF_REQUIRE(p.shared_axes || p.num_shared_axes == 0, "rf_layer_prelu: shared_axes is NULL but num_shared_axes is %u",
               p.num_shared_axes);
    for (uint32_t i = 0; i < p.num_shared_axes; i++) {
        const int32_t axis = p.shared_axes[i];
        RF_REQUIRE(axis != 0 && axis > -RF_MAX_RANK && axis < RF_MAX_RANK,
                   "rf_layer_prelu: shared_axes[%u] is %d; axes are 1 to %d, or negative", i, (int)axis,
                   RF_MAX_RANK - 1);
        shared |= 1u << (axis < 0 ? 32 + axis : axis);
    }
    RF_TRY(rf_layer_new(&p_relu_kind, p.name, out));
    (*out)->regularizers[0] = p.alpha_regularizer;
    (*out)->u.p_relu.shared_axes = shared;
    (*out)->u.p_relu.initializer = initializer;
    return RF_OK;
}
