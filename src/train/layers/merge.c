/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that make one tensor of several, and the mask of a sequence. */
#include "base/error.h"
#include "trace/trace.h"
#include "train/layers/layer.h"

/* ---- element by element ---- */

typedef rf_tensor (*combine_fn)(rf_trace *t, rf_tensor a, rf_tensor b);

static rf_tensor fold_inputs(rf_trace *t, const rf_layer_apply_params *p, combine_fn combine)
{
    rf_tensor y = p->in[0];
    for (uint32_t i = 1; i < p->num_in; i++) y = combine(t, y, p->in[i]);
    return y;
}

static void apply_add(rf_trace *t, const rf_layer *layer, const rf_layer_apply_params *p, rf_tensor *out,
                      uint32_t num_out)
{
    (void)layer;
    (void)num_out;
    out[0] = fold_inputs(t, p, rf_add);
}

static void apply_subtract(rf_trace *t, const rf_layer *layer, const rf_layer_apply_params *p, rf_tensor *out,
                           uint32_t num_out)
{
    (void)layer;
    (void)num_out;
    out[0] = fold_inputs(t, p, rf_subtract);
}

static void apply_multiply(rf_trace *t, const rf_layer *layer, const rf_layer_apply_params *p, rf_tensor *out,
                           uint32_t num_out)
{
    (void)layer;
    (void)num_out;
    out[0] = fold_inputs(t, p, rf_multiply);
}

static void apply_average(rf_trace *t, const rf_layer *layer, const rf_layer_apply_params *p, rf_tensor *out,
                          uint32_t num_out)
{
    (void)layer;
    (void)num_out;
    const rf_dtype stored = rf_tensor_dtype(t, p->in[0]);
    /* The sum may be more than 16 bits hold where the mean is not. */
    rf_tensor sum = rf_upcast(t, p->in[0]);
    for (uint32_t i = 1; i < p->num_in; i++) sum = rf_add(t, sum, p->in[i]);
    const rf_tensor mean = rf_multiply(t, sum, rf_constant(t, 1.0f / (float)p->num_in));
    out[0] = rf_dtype_is_narrow(stored) ? rf_cast(t, mean, stored) : mean;
}

static void apply_maximum(rf_trace *t, const rf_layer *layer, const rf_layer_apply_params *p, rf_tensor *out,
                          uint32_t num_out)
{
    (void)layer;
    (void)num_out;
    out[0] = fold_inputs(t, p, rf_maximum);
}

static void apply_minimum(rf_trace *t, const rf_layer *layer, const rf_layer_apply_params *p, rf_tensor *out,
                          uint32_t num_out)
{
    (void)layer;
    (void)num_out;
    out[0] = fold_inputs(t, p, rf_minimum);
}

#define MERGE_KIND(name, base, type, least, most)                                                                      \
    static const rf_layer_kind name##_kind = { .base_name = (base),                                                    \
                                               .type_name = (type),                                                    \
                                               .apply = apply_##name,                                                  \
                                               .min_inputs = (least),                                                  \
                                               .max_inputs = (most),                                                   \
                                               .max_outputs = 1,                                                       \
                                               .narrow = true }
MERGE_KIND(add, "add", "Add", 2, UINT32_MAX);
MERGE_KIND(subtract, "subtract", "Subtract", 2, 2);
MERGE_KIND(multiply, "multiply", "Multiply", 2, UINT32_MAX);
MERGE_KIND(average, "average", "Average", 2, UINT32_MAX);
MERGE_KIND(maximum, "maximum", "Maximum", 2, UINT32_MAX);
MERGE_KIND(minimum, "minimum", "Minimum", 2, UINT32_MAX);

static rf_result merge_create(const rf_layer_kind *kind, const char *function, rf_layer **out)
{
    RF_REQUIRE(out, "%s: out is NULL", function);
    *out = NULL;
    return rf_layer_new(kind, NULL, out);
}

rf_result rf_layer_add(rf_layer **out)
{
    return merge_create(&add_kind, "rf_layer_add", out);
}

rf_result rf_layer_subtract(rf_layer **out)
{
    return merge_create(&subtract_kind, "rf_layer_subtract", out);
}

rf_result rf_layer_multiply(rf_layer **out)
{
    return merge_create(&multiply_kind, "rf_layer_multiply", out);
}

rf_result rf_layer_average(rf_layer **out)
{
    return merge_create(&average_kind, "rf_layer_average", out);
}

rf_result rf_layer_maximum(rf_layer **out)
{
    return merge_create(&maximum_kind, "rf_layer_maximum", out);
}

rf_result rf_layer_minimum(rf_layer **out)
{
    return merge_create(&minimum_kind, "rf_layer_minimum", out);
}

/* ---- concatenate ---- */

static void apply_concatenate(rf_trace *t, const rf_layer *layer, const rf_layer_apply_params *p, rf_tensor *out,
                              uint32_t num_out)
{
    (void)num_out;
    out[0] = rf_concat(t, p->in, p->num_in, layer->u.axis);
}

MERGE_KIND(concatenate, "concatenate", "Concatenate", 2, UINT32_MAX);

rf_result rf_layer_concatenate(int32_t axis, rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_concatenate: out is NULL");
    *out = NULL;
    RF_REQUIRE(axis > -RF_MAX_RANK && axis < RF_MAX_RANK, "rf_layer_concatenate: axis %d; tensors have at most %d",
               (int)axis, RF_MAX_RANK);
    RF_TRY(rf_layer_new(&concatenate_kind, NULL, out));
    (*out)->u.axis = axis ? axis : -1;
    return RF_OK;
}

/* ---- not_equal ---- */

static rf_tensor not_equal_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    (void)mode;
    const bool exact = rf_tensor_dtype(t, x) == RF_I32;
    int32_t number = layer->u.value;
    const rf_array constant = { .dtype = RF_I32, .shape = RF_SCALAR_SHAPE, .data = &number };
    const rf_tensor value = exact ? rf_constant_array(t, &constant) : rf_constant(t, (float)number);
    return rf_compare(t, RF_NOT_EQUAL, x, value);
}

static const rf_layer_kind not_equal_kind = {
    .base_name = "not_equal", .type_name = "NotEqual", .call = not_equal_call, .takes_indices = true
};

rf_result rf_layer_not_equal(int32_t value, rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_not_equal: out is NULL");
    *out = NULL;
    RF_TRY(rf_layer_new(&not_equal_kind, NULL, out));
    (*out)->u.value = value;
    return RF_OK;
}
