/* SPDX-License-Identifier: Apache-2.0 */
/* A layer that applies another one to each step: the steps of all examples become examples of the other one. */
#include "base/error.h"
#include "base/memory.h"
#include "trace/trace.h"
#include "train/layers/layer.h"

/* [n, steps, ...] -> [n * steps, ...] */
static rf_shape fold_shape(rf_shape shape)
{
    rf_shape folded = { .rank = shape.rank - 1, .dim = { shape.dim[0] * shape.dim[1] } };
    for (int32_t i = 2; i < shape.rank; i++) folded.dim[i - 1] = shape.dim[i];
    return folded;
}

static rf_tensor fold_time(rf_trace *t, rf_tensor x)
{
    rf_size sizes[RF_MAX_RANK] = { rf_size_of(x, 0, 2) };
    return rf_regroup(t, x, sizes, 1 + rf_sizes_of(t, x, 2, &sizes[1]));
}

/* ---- variables: the inner layer's, which this one owns ---- */

static rf_result name_inner(rf_layer *layer)
{
    char *name = rf_strdup(layer->name);
    if (!name) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_free(layer->inner->name);
    layer->inner->name = name;
    return RF_OK;
}

static rf_result build_inner(rf_layer *inner, rf_strategy *strategy, const rf_tensor_desc *in)
{
    if (inner->kind->build_inputs) return inner->kind->build_inputs(inner, strategy, in, 1);
    return inner->kind->build ? inner->kind->build(inner, strategy, in->dtype, in->shape) : RF_OK;
}

static rf_result time_distributed_build(rf_layer *layer, rf_strategy *strategy, const rf_tensor_desc *in,
                                        uint32_t num_in)
{
    char text[96];
    rf_layer *inner = layer->inner;
    (void)num_in;
    RF_REQUIRE(in->shape.rank >= 3, "layer '%s' applies a layer to the steps of [n, steps, ...], got %s", layer->name,
               rf_shape_format(in->shape, text, sizeof(text)));
    RF_TRY(name_inner(layer));
    const rf_tensor_desc folded = { in->dtype, fold_shape(in->shape) };
    const rf_result r = build_inner(inner, strategy, &folded);
    for (uint32_t i = 0; i < inner->num_variables; i++) layer->variables[i] = inner->variables[i];
    layer->num_variables = inner->num_variables;
    inner->built = inner->built || r >= 0;
    return r;
}

/* ---- calls ---- */

static rf_tensor call_inner(rf_trace *t, rf_layer *inner, const rf_layer_apply_params *p)
{
    rf_tensor x = fold_time(t, p->in[0]), y = RF_NO_TENSOR;
    rf_layer_apply_params own = { .in = &x, .num_in = 1, .mode = p->mode };
    inner->input = rf_tensor_shape(t, x);
    if (!inner->kind->apply) return inner->kind->call(t, inner, x, p->mode);
    if (p->mask.id != 0 && inner->kind->takes_mask) own.mask = fold_time(t, p->mask);
    inner->kind->apply(t, inner, &own, &y, 1);
    return y;
}

static void time_distributed_apply(rf_trace *t, const rf_layer *layer, const rf_layer_apply_params *p, rf_tensor *out,
                                   uint32_t num_out)
{
    char text[96];
    rf_tensor_desc desc;
    const int64_t steps = rf_tensor_shape(t, p->in[0]).dim[1];
    const uint64_t before = rf_trace_rows(t);
    (void)num_out;
    out[0] = RF_NO_TENSOR;
    if (p->mask.id != 0 && rf_tensor_shape(t, p->mask).rank < 2) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "layer '%s': the mask is %s, not [n, steps, ...]",
                            layer->name, rf_shape_format(rf_tensor_shape(t, p->mask), text, sizeof(text)));
        return;
    }
    if (before * (uint64_t)steps > INT32_MAX) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "layer '%s': more than %d steps of an example", layer->name,
                            INT32_MAX);
        return;
    }
    layer->inner->frozen = layer->frozen;
    rf_trace_set_rows(t, before * (uint64_t)steps);
    const rf_tensor y = call_inner(t, layer->inner, p);
    rf_trace_set_rows(t, before);
    if (rf_trace_status(t) < 0 || !rf_operand_desc(t, y, layer->name, &desc)) return;
    rf_size sizes[RF_MAX_RANK + 1] = { rf_size_of(p->in[0], 0, 1), rf_size_of(p->in[0], 1, 1) };
    out[0] = rf_regroup(t, y, sizes, 2 + rf_sizes_of(t, y, 1, &sizes[2]));
}

static const rf_layer_kind time_distributed_kind = { .base_name = "time_distributed",
                                                     .type_name = "TimeDistributed",
                                                     .build_inputs = time_distributed_build,
                                                     .apply = time_distributed_apply,
                                                     .min_inputs = 1,
                                                     .max_inputs = 1,
                                                     .max_outputs = 1,
                                                     .takes_mask = true };

/* ---- creation ---- */

static rf_result check_inner(const rf_layer *inner)
{
    int32_t depth = 0;
    RF_REQUIRE(inner, "rf_layer_time_distributed: layer is NULL");
    RF_REQUIRE(!inner->kind->apply || inner->kind->min_inputs <= 1,
               "rf_layer_time_distributed: layer is of type %s, which takes %u inputs or more", inner->kind->type_name,
               inner->kind->min_inputs);
    RF_REQUIRE(!inner->kind->applies_model && !inner->kind->shares,
               "rf_layer_time_distributed: layer is a model, or a layer of another one; give each layer of a step one "
               "of its own");
    for (const rf_layer *l = inner; l; l = l->inner) depth++;
    RF_REQUIRE(depth <= RF_MAX_RANK - 2, "rf_layer_time_distributed: %d layers within each other; tensors have %d axes",
               (int)depth, RF_MAX_RANK);
    return RF_OK;
}

rf_result rf_layer_time_distributed(rf_layer *inner, const char *name, rf_layer **out)
{
    if (inner && inner->model)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_layer_time_distributed: layer '%s' belongs to a model already",
                       inner->name);
    rf_result r =
        out ? check_inner(inner) : RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_layer_time_distributed: out is NULL");
    rf_layer *layer = NULL;
    if (out) *out = NULL;
    if (r >= 0) r = rf_layer_new(&time_distributed_kind, name, &layer);
    if (r < 0) {
        rf_layer_free(inner);
        return r;
    }
    layer->inner = inner;
    layer->frozen = inner->frozen;
    for (uint32_t i = 0; i < RF_MAX_LAYER_VARIABLES; i++) layer->regularizers[i] = inner->regularizers[i];
    *out = layer;
    return RF_OK;
}
