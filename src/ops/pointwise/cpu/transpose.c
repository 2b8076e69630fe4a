/* SPDX-License-Identifier: Apache-2.0 */
/* Transposes on drivers that fetch texels at once, where the last dimension stays. */
#include "ops/pointwise/common/transpose.h"
#include "ops/pointwise/cpu/kernels.h"
#include "rf_shaders.h"

double rf_transpose_texels_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_op_call words = rf_call_in_words(call);
    const uint64_t bytes = rf_tensor_bytes(&words.in[0]);
    rf_transpose_layout l;
    rf_transpose_layout_of(&words, &l);
    if (caps->driver != RF_DRIVER_LAVAPIPE || !rf_flat_texels(caps) || bytes == 0) return RF_SCORE_NONE;
    if (bytes > caps->max_storage_range || bytes / 16 > caps->max_texel_elements) return RF_SCORE_NONE;
    return l.in_stride[0] == 1 && l.size[0] % 8 == 0 ? RF_SCORE_DRIVER : RF_SCORE_NONE;
}

rf_result rf_transpose_texels_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                   rf_kernel_plan *plan)
{
    const rf_op_call words = rf_call_in_words(call);
    rf_transpose_layout l;
    rf_transpose_layout_of(&words, &l);
    RF_TRY(rf_transpose_box_plan(&l, caps, &rf_shader_transpose_texel, 8, plan, 0,
                                 l.size[rf_transpose_outermost_input(&l)], 0, l.size[l.rank - 1]));
    plan->items[plan->count - 1].bind[0].view = RF_VIEW_TEXEL_RGBA32F;
    return RF_OK;
}

bool rf_transpose_texels_narrow(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    return rf_transpose_narrow(call, caps, data) && rf_texels_narrow(call, caps, data);
}
