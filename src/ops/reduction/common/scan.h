/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of scans along the last dimension (shaders/reduction/common/scan.comp): one invocation a row, or rows in blocks,
 * whose totals a dispatch of their own makes, or the lanes of a subgroup. */
#ifndef RF_OPS_REDUCTION_COMMON_SCAN_H
#define RF_OPS_REDUCTION_COMMON_SCAN_H

#include "ops/kit.h"

/* All inputs have the shape of input 0, and so has the output. */
typedef struct rf_scan {
    const rf_shader *row, *totals, *blocked;
    /* The same four columns at a time, for subgroups of 8 and of 16; NULL where there are none. */
    const rf_shader *row_fours[2], *totals_fours[2], *blocked_fours[2], *group_fours[2];
    uint32_t total_words;   /* of four bytes: what is left of a block */
    uint32_t element_words; /* what the last dispatch keeps of each element, behind the totals, to walk rows twice */
    uint32_t exclusive, reverse;
} rf_scan;

double rf_scan_row_score(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan, bool fours);
rf_result rf_scan_row_plan(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan, bool fours,
                           rf_kernel_plan *plan);
double rf_scan_blocked_score(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan, bool fours);
rf_result rf_scan_blocked_plan(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan, bool fours,
                               rf_kernel_plan *plan);
/* Always of fours. */
double rf_scan_group_score(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan, bool fours);
rf_result rf_scan_group_plan(const rf_op_call *call, const rf_device_caps *caps, const rf_scan *scan, bool fours,
                             rf_kernel_plan *plan);

#define RF_SCAN_KERNEL(id, text, way, fours, make_scan)                                                                \
    static double id##_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)                     \
    {                                                                                                                  \
        const rf_scan scan = make_scan;                                                                                \
        return rf_scan_##way##_score(call, caps, &scan, fours);                                                        \
    }                                                                                                                  \
    static rf_result id##_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,                   \
                               rf_kernel_plan *plan)                                                                   \
    {                                                                                                                  \
        const rf_scan scan = make_scan;                                                                                \
        return rf_scan_##way##_plan(call, caps, &scan, fours, plan);                                                   \
    }                                                                                                                  \
    static const rf_kernel id = { text, id##_score, id##_plan }
/* Define the table id##_kernels; make_scan is an expression in which `call` stands for that of the kernel. */
#define RF_SCAN_KERNELS(id, make_scan)                                                                                 \
    RF_SCAN_KERNEL(id##_row, "row", row, false, make_scan);                                                            \
    RF_SCAN_KERNEL(id##_blocked, "blocked", blocked, false, make_scan);                                                \
    static const rf_kernel *const id##_kernels[] = { &id##_row, &id##_blocked }
#define RF_SCAN_KERNELS_OF_FOURS(id, make_scan)                                                                        \
    RF_SCAN_KERNEL(id##_row, "row", row, false, make_scan);                                                            \
    RF_SCAN_KERNEL(id##_blocked, "blocked", blocked, false, make_scan);                                                \
    RF_SCAN_KERNEL(id##_row_texel, "row_texel", row, true, make_scan);                                                 \
    RF_SCAN_KERNEL(id##_blocked_texel, "blocked_texel", blocked, true, make_scan);                                     \
    RF_SCAN_KERNEL(id##_group_texel, "group_texel", group, true, make_scan);                                           \
    static const rf_kernel *const id##_kernels[] = { &id##_row, &id##_blocked, &id##_row_texel, &id##_blocked_texel,   \
                                                     &id##_group_texel }
/* Of a scan: the shaders that are built with FOURS, by name. */
#define RF_SCAN_FOURS(name)                                                                                            \
    .row_fours = { &rf_shader_##name##_fours8, &rf_shader_##name##_fours16 },                                          \
    .totals_fours = { &rf_shader_##name##_totals_fours8, &rf_shader_##name##_totals_fours16 },                         \
    .blocked_fours = { &rf_shader_##name##_blocked_fours8, &rf_shader_##name##_blocked_fours16 },                      \
    .group_fours = { &rf_shader_##name##_group_fours8, &rf_shader_##name##_group_fours16 }

#endif
