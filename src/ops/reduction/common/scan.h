/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of scans along the last dimension (shaders/reduction/common/scan.comp): one invocation a row, or rows in
 * blocks, whose totals a dispatch of their own makes. */
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
/* Data of the kernels below. */
typedef struct rf_scan_kernel {
    rf_scan (*scan)(const rf_op_call *call);
} rf_scan_kernel;
rf_score_fn rf_scan_row_score, rf_scan_blocked_score;
rf_plan_fn rf_scan_row_plan, rf_scan_blocked_plan;
/* Rows of a table. */
#define RF_SCAN_KERNELS(scan)                                                                                          \
    { "row", rf_scan_row_score, rf_scan_row_plan, &(const rf_scan_kernel){ scan } },                                   \
    {                                                                                                                  \
        "blocked", rf_scan_blocked_score, rf_scan_blocked_plan, &(const rf_scan_kernel)                                \
        {                                                                                                              \
            scan                                                                                                       \
        }                                                                                                              \
    }

#endif
