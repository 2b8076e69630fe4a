/* SPDX-License-Identifier: Apache-2.0 */
/* The time of kernels on GPUs, in seconds: a model of a compute unit, whose numbers are in model.c. */
#ifndef RF_OPS_POINTWISE_GPU_MODEL_H
#define RF_OPS_POINTWISE_GPU_MODEL_H

#include "ops/kit.h"

/* Turns of so many at once. */
static inline double rf_gather_turns(uint64_t count, uint64_t at_once)
{
    return (double)rf_div_up(count, at_once);
}

/* A chunk of gather's gradient by marks. */
typedef struct rf_gather_marks {
    uint64_t groups, rows;      /* workgroups, and choices of one */
    uint64_t places, at_once;   /* whose indices a workgroup reads, and so many in a turn */
    uint64_t of_choice, slices; /* places of a choice, and invocations of a workgroup that add for a column */
    bool few;                   /* a choice's places are added by one invocation */
} rf_gather_marks;
double rf_gather_marks_seconds(const rf_device_caps *caps, const rf_gather_marks *m);

#endif
