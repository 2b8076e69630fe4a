/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between a tensor and a box of its elements, which are evenly spaced along each dimension: out of the box into
 * a tensor that holds nothing else, or back into it. Slices and their gradients, joining and splitting are made of
 * these. Elements have four bytes.
 */
#ifndef RF_OPS_POINTWISE_COMMON_STRIDED_COPY_H
#define RF_OPS_POINTWISE_COMMON_STRIDED_COPY_H

#include "ops/kit.h"
#include "ops/ops.h"

/* The elements begin, begin + step, ... of a dimension. */
typedef struct rf_box_range {
    int64_t begin, step, count;
} rf_box_range;

/* Whole dimensions. */
void rf_box_whole(const rf_shape *tensor, rf_box_range out[RF_MAX_RANK]);
/* The element of the tensor that element e of the box is. */
int64_t rf_box_place(const rf_shape *tensor, const rf_box_range *ranges, int64_t e);

typedef struct rf_box_copy {
    const rf_shape *tensor;
    rf_box_range ranges[RF_MAX_RANK];
    bool scatter;                /* into the box */
    bool concurrent;             /* needs no barrier against what the plan holds so far */
    uint32_t number, box_number; /* of the input or output: one of each, depending on the direction */
} rf_box_copy;

/* ---- an op as copies ---- */

/* The ops whose kernels these are, as their roles. */
enum { RF_COPY_SLICE, RF_COPY_SLICE_GRAD, RF_COPY_PAD, RF_COPY_CONCAT, RF_COPY_CONCAT_GRAD, RF_COPY_SPLIT };
/* The elements begin, begin + step, ... of a slice along a dimension of n. */
rf_box_range rf_slice_range(const rf_slice_attr *attr, int32_t axis, int64_t n);

/* All copies of a call. In it, elements of 16 bits are words of two. */
typedef struct rf_copies {
    rf_op_call units;
    uint32_t count;
    rf_box_copy copies[RF_MAX_INPUTS];
    bool filled; /* before, with `value` where no box is */
    float value;
} rf_copies;
void rf_copies_make(const rf_op_call *call, rf_copies *out);
rf_result rf_copies_reference(const rf_op_call *call, void *const *in, void *const *out);

/* ---- kernels ---- */

extern const rf_kernel_list rf_copies_common;
/* Elements of 16 bits are copied in words: pairs of neighbours that begin at even places. */
rf_narrow_fn rf_copies_narrow;
rf_result rf_copies_fill(const rf_copies *copies, const rf_device_caps *caps, rf_kernel_plan *plan);

/* The box's dimensions, innermost first, merged where their elements are evenly spaced; strides in the tensor, whose
 * element `first` is element 0 of the box. A box without elements has a dimension of size 0. */
typedef struct rf_box_layout {
    uint32_t rank;
    uint64_t size[RF_MAX_RANK];
    int64_t stride[RF_MAX_RANK], first;
} rf_box_layout;
rf_box_layout rf_box_layout_of(const rf_box_copy *copy);
/* The product of the innermost sizes. */
uint64_t rf_box_count(const rf_box_layout *l, uint32_t rank);
/* Elements of the tensor from the first to the last one that the innermost `rank` dimensions reach, and how many of
 * them stand before the box's element 0. */
uint64_t rf_box_reach(const rf_box_layout *l, uint32_t rank, uint64_t *before);
/* Steps of dimension rank - 1 that descriptors can span in both tensors, with room for alignment; 0: not even one. */
uint64_t rf_box_steps(const rf_box_layout *l, uint32_t rank, const rf_device_caps *caps);
/* A chunk of a box: its innermost `rank` dimensions, from element `first` of the tensor and `at` of the box on. */
typedef struct rf_box_chunk {
    const rf_box_layout *l;
    uint32_t rank;
    int64_t first;
    uint64_t at;
} rf_box_chunk;
/* Whether vectors of neighbours in the box, of so many elements, are neighbours in the tensor, at places where such
 * vectors may be read and written. */
bool rf_box_is_of_vectors(const rf_box_chunk *p, const rf_device_caps *caps, uint32_t width);
/* Appends the dispatch of a chunk, `width` elements an item. */
rf_dispatch *rf_box_chunk_plan(const rf_box_copy *copy, const rf_box_chunk *p, const rf_shader *shader, uint32_t width,
                               const rf_device_caps *caps, rf_kernel_plan *plan);

#endif
