/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How GPUs walk the columns of a matrix (shaders/reduction/gpu/column_tiles.glsl): a workgroup takes a strip of
 * neighbouring columns and a part of the rows, of which it reads several lines at once.
 */
#ifndef RF_OPS_REDUCTION_GPU_COLUMN_TILES_H
#define RF_OPS_REDUCTION_GPU_COLUMN_TILES_H

#include "ops/kit.h"

typedef struct rf_column_tiles {
    uint64_t matrices, rows, columns;      /* columns count vectors */
    uint32_t local;                        /* invocations of a workgroup */
    uint32_t width, strips, lines, merges; /* merges: the least power of two that is not less than half of the lines */
    uint64_t part_rows, parts;
    uint64_t loops; /* of an invocation */
} rf_column_tiles;

/* Tiles for so many matrices, whose columns count vectors of `vector` elements. They depend on these and the device
 * only, and so does the order of additions. */
rf_column_tiles rf_column_tiles_make(const rf_device_caps *caps, uint64_t matrices, uint64_t rows, uint64_t columns,
                                     uint32_t vector);
/* The device can run them, where the parts leave so many bytes to be merged. */
bool rf_column_tiles_fit(const rf_device_caps *caps, const rf_column_tiles *s, uint64_t workspace);
/* Members of the structs that the shaders' push constants begin with. */
#define RF_COLUMN_TILES_PUSH(tiles)                                                                                    \
    .rows = (uint32_t)(tiles)->rows, .columns = (uint32_t)(tiles)->columns, .part_rows = (uint32_t)(tiles)->part_rows, \
    .parts = (uint32_t)(tiles)->parts, .width = (tiles)->width, .strips = (tiles)->strips, .lines = (tiles)->lines,    \
    .merges = (tiles)->merges
/* Completes the plan and its dispatch, which comes with all but the last two bindings and the grid. */
void rf_column_tiles_plan(const rf_device_caps *caps, rf_kernel_plan *plan, rf_dispatch *d, const rf_column_tiles *s,
                          uint64_t workspace);

#endif
