/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of scans along the last dimension (shaders/reduction/scan.comp): one invocation a row, or rows in blocks. */
#ifndef RF_OPS_REDUCTION_SCAN_H
#define RF_OPS_REDUCTION_SCAN_H

#include "ops/kit.h"

/* All inputs have the shape of input 0, and so has the output. */
typedef struct rf_scan {
    const rf_shader *row, *totals, *blocked;
    uint32_t total_words; /* of four bytes: what is left of a block */
    uint32_t exclusive, reverse;
} rf_scan;

double rf_scan_row_score(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan);
rf_result rf_scan_row_plan(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan,
                           rf_kernel_plan *plan);
double rf_scan_blocked_score(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan);
rf_result rf_scan_blocked_plan(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan,
                               rf_kernel_plan *plan);

#define RF_SCAN_KERNEL(id, text, way, make_scan)                                                                       \
    static double id##_score(const rf_op_call *call, const rf_device_caps *caps)                                       \
    {                                                                                                                  \
        const rf_scan scan = make_scan;                                                                                \
        return rf_scan_##way##_score(call, caps, &scan);                                                               \
    }                                                                                                                  \
    static rf_result id##_plan(const rf_op_call *call, const rf_device_caps *caps, rf_kernel_plan *plan)               \
    {                                                                                                                  \
        const rf_scan scan = make_scan;                                                                                \
        return rf_scan_##way##_plan(call, caps, &scan, plan);                                                          \
    }                                                                                                                  \
    static const rf_kernel id = { text, id##_score, id##_plan }
/* Defines the table id##_kernels; make_scan is an expression in which `call` stands for that of the kernel. */
#define RF_SCAN_KERNELS(id, make_scan)                                                                                 \
    RF_SCAN_KERNEL(id##_row, "row", row, make_scan);                                                                   \
    RF_SCAN_KERNEL(id##_blocked, "blocked", blocked, make_scan);                                                       \
    static const rf_kernel *const id##_kernels[] = { &id##_row, &id##_blocked }

#endif
