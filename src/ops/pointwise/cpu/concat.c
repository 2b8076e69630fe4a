/* SPDX-License-Identifier: Apache-2.0 */
/* Joins of tensors of any lengths by texels of one element, and eights by those of four. */
#include "ops/ops.h"
#include "ops/pointwise/cpu/kernels.h"
#include "rf_shaders.h"

enum { MOST_ONES = 4 }; /* tensors that shaders/pointwise/cpu/concat.comp reads */

static rf_push_concat ones_of(const rf_op_call *call)
{
    rf_push_concat p = { .count = (uint32_t)rf_desc_count(&call->out[0]) };
    for (uint32_t i = 0; i < call->n_in; i++) {
        uint64_t length = 1;
        for (int32_t d = (int32_t)((const rf_concat_attr *)call->attr)->axis; d < call->in[i].shape.rank; d++)
            length *= (uint64_t)call->in[i].shape.dim[d];
        p.begin[i + 1] = p.begin[i] + (uint32_t)length;
        p.last[i] = (uint32_t)((rf_desc_count(&call->in[i]) - 1) / 4);
    }
    p.columns = p.begin[call->n_in];
    const rf_magic m = rf_magic_make(p.columns);
    p.magic = m.magic;
    p.shift = m.shift;
    return p;
}

double rf_concat_ones_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const uint64_t count = rf_desc_count(&call->out[0]);
    if (call->n_in > MOST_ONES || call->out[0].dtype != RF_F32 || !rf_flat_texels(caps)) return RF_SCORE_NONE;
    if (count == 0 || count > INT32_MAX || count > caps->max_texel_elements || !rf_fits_storage(call, caps))
        return RF_SCORE_NONE;
    for (uint32_t i = 0; i < call->n_in; i++)
        if (rf_desc_count(&call->in[i]) == 0) return RF_SCORE_NONE;
    if (ones_of(call).columns < 4) return RF_SCORE_NONE;
    return caps->driver == RF_DRIVER_LAVAPIPE ? RF_SCORE_SHAPE : RF_SCORE_RESERVE;
}

double rf_concat_eights_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const double score = rf_concat_ones_score(call, caps, data);
    if (score <= RF_SCORE_NONE) return score;
    const rf_push_concat p = ones_of(call);
    for (uint32_t i = 0; i < call->n_in; i++)
        if (p.begin[i + 1] - p.begin[i] < 8) return RF_SCORE_NONE;
    return caps->driver == RF_DRIVER_LAVAPIPE ? RF_SCORE_EXACT : RF_SCORE_RESERVE;
}

static rf_result plan_elements(const rf_op_call *call, const rf_device_caps *caps, rf_kernel_plan *plan,
                               const rf_shader *shader, rf_bind_view view, uint32_t width)
{
    const rf_push_concat p = ones_of(call);
    rf_dispatch *d = rf_kernel_plan_add(plan, shader, RF_NO_LOOPS);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, rf_local_size(caps, RF_FLAT_LOCAL));
    rf_dispatch_spec(d, call->n_in);
    rf_dispatch_spec(d, p.count % 8);
    rf_dispatch_push(d, &p, sizeof(p));
    for (uint32_t i = 0; i < MOST_ONES; i++) rf_bind_whole(d, RF_BIND_INPUT, i < call->n_in ? i : 0)->view = view;
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    rf_dispatch_items(d, caps, rf_div_up(p.count, width));
    return RF_OK;
}

rf_result rf_concat_ones_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                              rf_kernel_plan *plan)
{
    const rf_shader *shader = caps->subgroup_size == 8 ? &rf_shader_concat_ones8 : &rf_shader_concat_ones16;
    return plan_elements(call, caps, plan, shader, RF_VIEW_TEXEL_R32F, 4);
}

rf_result rf_concat_eights_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                rf_kernel_plan *plan)
{
    const rf_shader *shader = caps->subgroup_size == 8 ? &rf_shader_concat_eights8 : &rf_shader_concat_eights16;
    return plan_elements(call, caps, plan, shader, RF_VIEW_TEXEL_RGBA32F, 8);
}
