/* SPDX-License-Identifier: Apache-2.0 */
/* Rows taken by texels. */
#include "ops/pointwise/common/gather.h"
#include "ops/pointwise/cpu/kernels.h"

double rf_gather_texels_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_gather_shape all = rf_gather_words_of(call);
    if (!rf_gather_takes_texels(&all, all.choices, caps)) return RF_SCORE_NONE;
    return rf_gather_chunk_size(&all, caps, 1).choices > 0 ? RF_SCORE_DRIVER : RF_SCORE_NONE;
}
