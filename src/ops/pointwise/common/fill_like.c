/* SPDX-License-Identifier: Apache-2.0 */
/* One value everywhere. */
#include "ops/kit.h"
#include "ops/ops.h"

static rf_result fill_infer(rf_op_call *call)
{
    call->out[0] = (rf_tensor_desc){ RF_F32, call->in[0].shape };
    return RF_OK;
}

static rf_result fill_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    (void)in;
    const int64_t count = rf_shape_count(call->out[0].shape);
    for (int64_t i = 0; i < count; i++) ((float *)out[0])[i] = *(const float *)call->attr;
    return RF_OK;
}

static rf_cost fill_cost(const rf_op_call *call)
{
    return rf_cost_of(call, 0);
}

static rf_result fill_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    return rf_fill_plan_by_shader(call, *(const float *)call->attr, caps, plan);
}

static rf_result fill_plan_driver(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                  rf_kernel_plan *plan)
{
    return rf_fill_plan_by_driver(*(const float *)call->attr, plan);
}

static const rf_kernel fill_kernels[] = {
    { "any", rf_score_any, fill_plan },
    { "driver", rf_fill_driver_score, fill_plan_driver },
};

typedef struct fill_attr {
    float value;
} fill_attr;
static const rf_attr_field fill_fields[] = { RF_ATTR_NUMBER(fill_attr, value) };

const rf_op rf_op_fill_like = {
    .name = "fill_like",
    RF_ATTRIBUTES(fill_attr, fill_fields),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = RF_OP_NO_GRADIENT,
    .shape_only = 1u << 0,
    .infer = fill_infer,
    .reference = fill_reference,
    .cost = fill_cost,
    RF_KERNELS(fill_kernels),
};

rf_result rf_emit_fill_like(rf_graph *g, float value, rf_value like, rf_value *out)
{
    return rf_graph_add(g, &rf_op_fill_like, &value, &like, 1, out);
}
