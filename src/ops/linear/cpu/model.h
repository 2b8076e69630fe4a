/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time of the kernels of products on software drivers, in seconds of a call. The direct form (lanes.h) has a model
 * of its own. For other forms it was measured what a processor takes for both of them, one beside the other and beside
 * other work: they take that share of the direct form's time.
 */
#ifndef RF_OPS_LINEAR_CPU_MODEL_H
#define RF_OPS_LINEAR_CPU_MODEL_H

#include "ops/linear/cpu/lanes.h"

/* ---- the direct form ---- */

/* Tile that does best on a product of this size. */
const rf_lanes_tile *rf_lanes_choose(const rf_lanes_set *set, const rf_lanes_tile tiles[RF_LANES_SHAPES], int64_t rows,
                                     int64_t columns);
/* The same for lanes_grad.comp. Where the product is too small for the tile to matter it is the wide one, which the
 * larger products of a program use too: compiling another pipeline takes as long as thousands of such products. */
const rf_lanes_tile *rf_lanes_choose_grad(const rf_lanes_set *set, int64_t rows, int64_t columns, int64_t summands);
/* A plan by what it computes, padding included, what it copies, and how many dispatches it takes. */
double rf_cpu_lanes_seconds(const rf_lanes_set *set, const rf_device_caps *caps, double padded_flops,
                            double packed_bytes, uint32_t dispatches);
/* A convolution or gradient; `scalar`: by kernels that read single floats. */
double rf_cpu_direct_seconds(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps,
                             const rf_conv_geometry *g, bool scalar);

/* ---- forms that were measured beside it: seconds of a processor ---- */

/* A kernel's loop over so many turns, in each of so many tiles. */
typedef enum rf_cpu_loop {
    RF_CPU_LOOP_WINOGRAD_32, /* a turn: four channels, four of the 16 products */
    RF_CPU_LOOP_WINOGRAD_16,
    RF_CPU_LOOP_WINOGRAD_4, /* four channels, six of the 36 products */
    RF_CPU_LOOP_WALK,       /* six of the 36 products of a tile for four blocks */
} rf_cpu_loop;
double rf_cpu_loop_seconds(rf_cpu_loop loop, double tiles, double turns);
/* Work before or after a loop: dispatches of its own, and bytes, or eights of channels, that these go through. */
typedef enum rf_cpu_pass {
    RF_CPU_PASS_KERNELS_2, /* bytes of transformed kernels */
    RF_CPU_PASS_KERNELS_4,
    RF_CPU_PASS_LINES, /* eights of an image's lines */
    RF_CPU_PASS_WALKS, /* the same by walks, in matrices that a cache holds, or does not */
    RF_CPU_PASS_WALKS_LARGE,
    RF_CPU_PASS_SUMS, /* bytes of partial sums */
} rf_cpu_pass;
double rf_cpu_pass_seconds(rf_cpu_pass pass, double amount);
/* Once for each plan: of one that packs kernels, of one that transforms lines too, of sums by walks. */
#define RF_CPU_ONCE_WINOGRAD 60e-6
#define RF_CPU_ONCE_WINOGRAD_4 80e-6
#define RF_CPU_ONCE_WALKS 250e-6
/* The direct form's: of 3 x 3, of the gradient by the kernel. */
double rf_cpu_direct_3x3_loop_seconds(int64_t pixels, int64_t columns, int64_t channels);
double rf_cpu_direct_filter_loop_seconds(const rf_lanes_set *set, const rf_conv_geometry *g);
/* Seconds of a call, whose direct form's loop takes `beside` of a processor where this one takes `own`. The form is
 * taken where it is faster by more than it was seen to vary: by 5 %, by walks 10 %. */
#define RF_CPU_MARGIN 1.05
#define RF_CPU_WALK_MARGIN 1.1
double rf_cpu_seconds_beside(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps,
                             const rf_conv_geometry *g, double own, double beside);
/* Those of kernels that keep one operand in registers, on SwiftShader: passes over `rows` rows of a workgroup, and how
 * often it loads what it keeps. `ends`: rows are begun and ended. */
double rf_cpu_resident_seconds(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps,
                               const rf_conv_geometry *g, double rows, double passes, double loads, bool ends);

/* ---- convolutions of few channels ---- */

/* `flops` with padding. */
double rf_cpu_small_channels_seconds(const rf_device_caps *caps, double flops, double dispatches);
double rf_cpu_small_channels_filter_seconds(const rf_device_caps *caps, bool pooled, bool whole_columns, double turns);

#endif
