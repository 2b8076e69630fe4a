/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the kernels of gather's gradient share. */
#ifndef RF_OPS_POINTWISE_COMMON_GATHER_GRAD_H
#define RF_OPS_POINTWISE_COMMON_GATHER_GRAD_H

#include "ops/pointwise/common/gather.h"
#include "rf_shaders.h"

rf_gather_shape rf_gather_grad_shape(const rf_op_call *call);
/* The sizes of a chunk, with `width` elements of a row an invocation. */
rf_push_gather_grad rf_gather_grad_push(const rf_gather_chunk *chunk, uint32_t width);
uint32_t rf_gather_grad_local(const rf_device_caps *caps);
/* Binds bytes of the workspace. */
void rf_gather_bind_work(rf_dispatch *d, uint64_t offset, uint64_t size, bool write);
extern const rf_kernel_list rf_gather_grad_common;

#endif
