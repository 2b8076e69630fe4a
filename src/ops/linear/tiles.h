/* SPDX-License-Identifier: Apache-2.0 */
/* The portable matrix kernels (shaders/linear/conv2d_tile.comp): the choice on devices with real
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

/* Tiles of a product and the parts that its sums are cut into. */
typedef struct rf_tile_grid {
    int32_t total, row_tiles, column_tiles, parts, split;
    uint64_t loops; /* of an invocation */
} rf_tile_grid;

extern const rf_kernel rf_conv2d_tile128, rf_conv2d_tile256;
extern const rf_kernel rf_conv2d_data_grad_tile128, rf_conv2d_data_grad_tile256;
extern const rf_kernel rf_conv2d_filter_grad_tile128, rf_conv2d_filter_grad_tile256;

#endif
