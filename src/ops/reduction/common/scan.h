/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of scans along the last dimension (shaders/reduction/common/scan.comp): one invocation a row, or rows in
 * blocks, whose totals a dispatch of their own makes, or the lanes of a subgroup. */
#ifndef RF_OPS_REDUCTION_COMMON_SCAN_H
#define RF_OPS_REDUCTION_COMMON_SCAN_H

#include "ops/kit.h"

/* All inputs have the shape of input 0, and so has the output. */
typedef struct rf_scan {
    const rf_shader *row, *totals, *blocked;
    uint32_t total_words;   /* of four bytes: what is left of a block */
    uint32_t element_words; /* what the last dispatch keeps of each element to walk rows twice */
    uint32_t exclusive, reverse;
} rf_scan;
/* A scan's shaders for four columns at a time, for subgroups of 8 and of 16. */
typedef struct rf_scan_fours {
    const rf_shader *row[2], *totals[2], *blocked[2], *group[2];
} rf_scan_fours;

typedef rf_scan rf_scan_fn(const rf_op_call *call);
rf_scan_fn rf_cumsum_scan, rf_cumprod_scan;
/* Data of the kernels below. */
typedef struct rf_scan_kernel {
    rf_scan_fn *scan;
    const rf_scan_fours *fours; /* NULL: it reads single columns */
} rf_scan_kernel;
rf_score_fn rf_scan_row_score, rf_scan_blocked_score;
rf_plan_fn rf_scan_row_plan, rf_scan_blocked_plan;
/* Rows of the table of kernels that every device runs. */
#define RF_SCAN_KERNELS(scan)                                                                                          \
    { "row", rf_scan_row_score, rf_scan_row_plan, &(const rf_scan_kernel){ scan, NULL } },                             \
    {                                                                                                                  \
        "blocked", rf_scan_blocked_score, rf_scan_blocked_plan, &(const rf_scan_kernel)                                \
        {                                                                                                              \
            scan, NULL                                                                                                 \
        }                                                                                                              \
    }

/* Rows cut into `blocks` blocks of `len` elements, the last one shorter. */
typedef struct rf_scan_cut {
    uint64_t blocks, len;
} rf_scan_cut;
/* Whether fours may be read and written as the shaders do it. */
bool rf_scan_takes_fours(const rf_op_call *call, const rf_device_caps *caps);
/* A job with its inputs; `fours` are the shaders of four columns at a time, if it is to be one of those. */
rf_row_job rf_scan_job(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan, const rf_shader *shader,
                       const rf_shader *const *fours, rf_scan_cut cut);
/* Adds what follows the other tensors of a job of fours: the input once more, for the end of a row that has no whole
 * four there. */
void rf_scan_add_tail(const rf_op_call *call, rf_row_job *job);

#endif
