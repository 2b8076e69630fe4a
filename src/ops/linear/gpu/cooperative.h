/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The block kernels on cooperative matrices, for operands stored in f16 or bf16 (shaders/include/linear_coop.glsl):
 * what differs from the others (blocks.h), which is the shader and its sizes.
 */
#ifndef RF_OPS_LINEAR_GPU_COOPERATIVE_H
#define RF_OPS_LINEAR_GPU_COOPERATIVE_H

#include "ops/linear/gpu/blocks.h"

typedef enum rf_coop_product {
    RF_COOP_MATMUL,
    RF_COOP_MATMUL_XL,
    RF_COOP_MATMUL_QUANTIZED,
    RF_COOP_CONV2D,
    RF_COOP_CONV2D_DATA,
    RF_COOP_CONV2D_FILTER,
} rf_coop_product;

/* rf_block_make() for these. */
rf_block rf_coop_block(const rf_device_caps *caps, rf_block_tile tile, rf_dtype operands);
/* The shader of a call that rf_block_score() has accepted. */
const rf_shader *rf_coop_shader(const rf_device_caps *caps, rf_coop_product product, rf_dtype operands);
/* Makes the constants of the f32 kernels those of the shader. `bias`: input 2 is one. */
void rf_coop_constants(rf_dispatch *d, const rf_op_call *call, const rf_device_caps *caps, rf_block_tile tile,
                       rf_dtype operands, bool bias);

#endif
