/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between a tensor and a box of its elements, which are evenly spaced along each dimension: out of the box into
 * a tensor that holds nothing else, or back into it. Slices and their gradients, joining and splitting are made of
 * these. Elements have four bytes.
 */
#ifndef RF_OPS_POINTWISE_COMMON_STRIDED_COPY_H
#define RF_OPS_POINTWISE_COMMON_STRIDED_COPY_H

#include "ops/kit.h"

/* The elements begin, begin + step, ... of a dimension. */
typedef struct rf_box_range {
    int64_t begin, step, count;
} rf_box_range;

/* Whole dimensions. */
void rf_box_whole(const rf_shape *tensor, rf_box_range out[RF_MAX_RANK]);
/* Element of the tensor that element e of the box is: what references go by. */
int64_t rf_box_place(const rf_shape *tensor, const rf_box_range *ranges, int64_t e);

typedef struct rf_box_copy {
    const rf_shape *tensor;
    rf_box_range ranges[RF_MAX_RANK];
    bool scatter;                /* into the box */
    bool concurrent;             /* needs no barrier against what the plan holds so far */
    uint32_t number, box_number; /* of the input or output: one of each, depending on the direction */
} rf_box_copy;

/* Whether there is a plan: descriptors span a single element at least. */
bool rf_box_copy_fits(const rf_device_caps *caps);
rf_result rf_box_copy_plan(const rf_box_copy *copy, const rf_device_caps *caps, rf_kernel_plan *plan);
/* The same by texels, four elements at a time, in one dispatch; out of the box also where elements are apart. */
bool rf_box_copy_fits_texels(const rf_box_copy *copy, const rf_device_caps *caps);
rf_result rf_box_copy_plan_texels(const rf_box_copy *copy, const rf_device_caps *caps, rf_kernel_plan *plan);

/* The same by copies of the driver, a run of neighbours each: none of more runs than recordings should hold. */
rf_result rf_box_copy_plan_runs(const rf_box_copy *copy, const rf_device_caps *caps, rf_kernel_plan *plan);

/* Fills output 0, of which input 0 is to be a box, unless the box is all of it. */
rf_result rf_box_plan_background(const rf_op_call *call, float value, const rf_device_caps *caps, rf_kernel_plan *plan);

/* The scores of the kernels of an op that copies boxes: `copies` are all that it makes. */
double rf_box_score(const rf_device_caps *caps);
double rf_box_score_texels(const rf_op_call *call, const rf_box_copy *copies, uint32_t count,
                           const rf_device_caps *caps);
double rf_box_score_runs(const rf_box_copy *copies, uint32_t count, const rf_device_caps *caps);

#endif
