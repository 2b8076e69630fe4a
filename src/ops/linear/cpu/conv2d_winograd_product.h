/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the kernels by Winograd's algorithms for blocks of 2 x 2 and of 4 x 4 pixels. */
#ifndef RF_OPS_LINEAR_CPU_CONV2D_WINOGRAD_PRODUCT_H
#define RF_OPS_LINEAR_CPU_CONV2D_WINOGRAD_PRODUCT_H

#include "ops/linear/common/conv2d.h"
#include "ops/linear/cpu/model.h"

/* A convolution of images. Tap 0 of its kernel starts at element `base`. `tap`, `row` and `column` are the elements
 * from tap to tap, from channel to channel and from column to column. */
typedef struct rf_winograd_product {
    rf_conv_geometry conv;
    int64_t base, tap, row, column;
    uint32_t activation;
    bool bias;
} rf_winograd_product;

/* A convolution, or its data gradient as a convolution of dy; false where it is none of 3 x 3 with steps of one. */
bool rf_winograd_product_of(const rf_op_call *call, const rf_conv_geometry *own, rf_winograd_product *p);

/* Seconds of the call, of which a processor takes so many by blocks. */
double rf_winograd_seconds_of(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps,
                              const rf_conv_geometry *own, const rf_winograd_product *p, double seconds);
/* Rows of a workgroup, whose tile is that of eight lanes. Times are those of eight lanes, too: the direct form, whose
 * share is asked for, takes longer with four in the same way. */
static inline uint32_t rf_winograd_rows(const rf_lanes_plan *p, const rf_lanes_tile *tile)
{
    return tile->rows * p->set->lanes / 8;
}
/* The direct form has a tile of four columns, and no other kernel is for so few. */
enum { RF_WINOGRAD_FEW_COLUMNS = 8 };

/* u = G k G^T of all kernels k, made by `shader` for blocks of which `side` pixels a side are read, for tiles of so
 * many columns. */
uint64_t rf_winograd_kernel_fours(const rf_winograd_product *g, uint32_t tile_columns, uint32_t side);
rf_result rf_winograd_add_kernels(rf_lanes_plan *p, const rf_winograd_product *g, const rf_shader *shader,
                                  uint32_t tile_columns, uint32_t side, rf_binding *io);
/* Constants and operands of lanes_winograd.comp and lanes_winograd_4.comp, for images and kernels in their forms. */
void rf_winograd_bind(rf_lanes_plan *p, rf_dispatch *d, const rf_winograd_product *g, rf_binding images,
                      rf_binding kernels);

#endif
