/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizer steps by texels. */
#include "ops/kit.h"
#include "ops/pointwise/cpu/kernels.h"

/* As rf_elementwise_texel_score(). */
double rf_update_texels_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const uint64_t count = (uint64_t)rf_shape_count(call->in[0].shape), chunk = rf_flat_chunk(caps, sizeof(float));
    if (!rf_flat_texels(caps) || rf_div_up(count < chunk ? count : chunk, 4) > caps->max_texel_elements)
        return RF_SCORE_NONE;
    return caps->driver == RF_DRIVER_LAVAPIPE ? RF_SCORE_DRIVER : RF_SCORE_RESERVE;
}
