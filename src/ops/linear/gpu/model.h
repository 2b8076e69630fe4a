/* SPDX-License-Identifier: Apache-2.0 */
/* The time of kernels of products on GPUs, in seconds: one model of a compute unit, whose numbers are in model.c. */
#ifndef RF_OPS_LINEAR_GPU_MODEL_H
#define RF_OPS_LINEAR_GPU_MODEL_H

#include "ops/linear/gpu/blocks.h"

/* More parts of a sum take more memory: not for less than this share of the time. */
#define RF_GPU_WORTHWHILE 0.93

/* Share of the arithmetic units that a tile keeps busy while nothing is waited for. Those of cooperative matrices are
 * by the multiply-adds of other units; `small`: where a subgroup is 16 lanes. */
double rf_gpu_block_efficiency(rf_block_tile tile);
double rf_gpu_cooperative_efficiency(const rf_device_caps *caps, rf_block_tile tile, bool small);
double rf_gpu_block_seconds(const rf_device_caps *caps, const rf_block *b, bool gathers, const rf_block_grid *g);
/* A pass over so many bytes that lie in memory. */
double rf_gpu_reread_seconds(const rf_device_caps *caps, double bytes);

/* A product of few rows or columns: workgroups, in each of `parts`, of which an invocation loads `at_once` summands in
 * turn, `slices` of them for a result. */
typedef struct rf_gpu_skinny {
    uint64_t tiles, parts, part; /* part: summands of one */
    uint32_t local, slices, at_once;
    bool along; /* neighbours have neighbouring summands */
} rf_gpu_skinny;
double rf_gpu_skinny_seconds(const rf_device_caps *caps, const rf_gpu_skinny *s);

#endif
