/* SPDX-License-Identifier: Apache-2.0 */
/* Sums that undo a broadcast, by the kernels of reductions. */
#include "ops/ops.h"
#include "ops/pointwise/common/sum_to_like.h"

/* The same sum as the reduce op makes it, in whose attributes no axes stand for all. */
static bool as_reduction(const rf_op_call *call, rf_reduce_attr *attr, rf_op_call *reduction)
{
    const rf_shape *x = &call->in[0].shape, *like = &call->out[0].shape;
    *attr = (rf_reduce_attr){ .kind = RF_REDUCE_KIND_SUM };
    for (int32_t d = 0; d < x->rank; d++) {
        const int32_t own = d - (x->rank - like->rank);
        if (own < 0 || like->dim[own] != x->dim[d]) attr->axes_mask |= 1u << d;
    }
    *reduction = *call;
    reduction->attr = attr;
    reduction->n_in = 1;
    return attr->axes_mask != 0 && rf_desc_count(&call->in[0]) > 0;
}

double rf_sum_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_sum_kernel *kernel = data;
    rf_reduce_attr attr;
    rf_op_call reduction;
    return as_reduction(call, &attr, &reduction) ? kernel->score(&reduction, caps, kernel->form) : RF_SCORE_NONE;
}

rf_result rf_sum_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    const rf_sum_kernel *kernel = data;
    rf_reduce_attr attr;
    rf_op_call reduction;
    (void)as_reduction(call, &attr, &reduction);
    return kernel->plan(&reduction, caps, kernel->form, plan);
}

bool rf_sum_narrow(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    return rf_dtype_is_narrow(call->in[0].dtype) && call->out[0].dtype == RF_F32;
}
