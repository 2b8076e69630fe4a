/* SPDX-License-Identifier: Apache-2.0 */
/* The portable matrix kernels (shaders/linear/matmul_tile.comp, conv2d_tile.comp): the choice on devices with real
 * shared memory. */
#ifndef RF_OPS_LINEAR_TILES_H
#define RF_OPS_LINEAR_TILES_H

#include "ops/linear/lanes.h"

#define RF_TILE_ROWS 64
#define RF_TILE_K 16
static inline uint32_t rf_tile_columns(uint32_t threads)
{
    return threads / 4;
}

/* Score of a product of these sizes, 0 where the device or a tensor's size does not allow it. */
double rf_tile_score(const rf_op_call *call, const rf_device_caps *caps, uint32_t threads, double rows, double columns,
                     double flops);

/* Tiles of a product and the parts that its sums are cut into. */
typedef struct rf_tile_grid {
    int32_t total, row_tiles, column_tiles, parts, split;
    uint64_t loops; /* of an invocation */
} rf_tile_grid;
rf_tile_grid rf_tile_grid_make(const rf_device_caps *caps, uint32_t threads, int64_t rows, int64_t columns,
                               int64_t length, int64_t batch);

extern const rf_kernel rf_matmul_tile128, rf_matmul_tile256, rf_conv2d_tile128, rf_conv2d_tile256;
extern const rf_kernel rf_conv2d_data_grad_tile128, rf_conv2d_data_grad_tile256;
extern const rf_kernel rf_conv2d_filter_grad_tile128, rf_conv2d_filter_grad_tile256;

#endif
