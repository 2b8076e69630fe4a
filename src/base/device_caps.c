/* SPDX-License-Identifier: Apache-2.0 */
#include "base/device_caps.h"

static void at_most(uint32_t *value, uint32_t limit)
{
    if (*value > limit) *value = limit;
}

/* Figures: the table "Required Limits" of the Vulkan 1.2 specification. */
void rf_device_caps_clamp(rf_device_caps *caps)
{
    at_most(&caps->max_workgroup_size[0], 128);
    at_most(&caps->max_workgroup_size[1], 128);
    at_most(&caps->max_workgroup_size[2], 64);
    at_most(&caps->max_workgroup_invocations, 128);
    for (int i = 0; i < 3; i++) at_most(&caps->max_grid[i], 65535);
    at_most(&caps->max_shared_memory, 16384);
    at_most(&caps->max_push_constants, 128);
    at_most(&caps->max_texel_elements, 65536);
    if (caps->max_storage_range > 1u << 27) caps->max_storage_range = 1u << 27;
    if (caps->buffer_alignment < 256) caps->buffer_alignment = 256;
    caps->subgroup_shuffle = caps->subgroup_ballot = caps->subgroup_arithmetic = caps->subgroup_quad = false;
    caps->full_subgroups = false;
    caps->min_subgroup_size = caps->max_subgroup_size = 0;
    caps->matrix_f16 = caps->matrix_bf16 = (rf_matrix_shape){ 0 };
    caps->fp16 = caps->int8 = caps->int64 = false;
}
