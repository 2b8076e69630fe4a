/* SPDX-License-Identifier: Apache-2.0 */
/* Gather and its gradient: their tensors as few dimensions, and chunks of them that descriptors can span. */
#ifndef RF_OPS_POINTWISE_COMMON_GATHER_H
#define RF_OPS_POINTWISE_COMMON_GATHER_H

#include "ops/kit.h"
#include "ops/ops.h"

/* x [batch, outer, choices, inner], indices [batch, places], y [batch, outer, places, inner]. */
typedef struct rf_gather_shape {
    uint64_t batch, outer, choices, places, inner;
} rf_gather_shape;

/* Ranges of these; only the first of batch, outer, and choices with places that is no whole one has more than one
 * element in the dimensions before it: what belongs to a chunk is one range of each tensor. */
typedef struct rf_gather_chunk {
    uint64_t batch, outer, choice, place; /* where it begins */
    rf_gather_shape size;
} rf_gather_chunk;

extern const rf_attr_field rf_gather_fields[3];

/* Data of the kernel that takes eights by texels: shaders of one vector an invocation, and of four. */
typedef struct rf_gather_form {
    const rf_shader *one, *four;
} rf_gather_form;
rf_plan_fn rf_gather_plan; /* without data: by what every device reads */
rf_narrow_fn rf_gather_narrow;
/* In words, of which u8 has four elements each, and types of 16 bits two. */
rf_gather_shape rf_gather_words_of(const rf_op_call *call);

/* Fills in the shape of y; names the op. */
rf_result rf_gather_infer(const rf_op_call *call, const rf_tensor_desc *x, const rf_tensor_desc *indices,
                          rf_tensor_desc *y);
rf_gather_shape rf_gather_shape_of(const rf_gather_attr *attr, const rf_shape *x, const rf_shape *indices);

/* The size of the first chunk, for descriptors that also span `words` words for each index and for each choice. It
 * has no elements where not even a row of `inner` fits. */
rf_gather_shape rf_gather_chunk_size(const rf_gather_shape *all, const rf_device_caps *caps, uint64_t words);
/* Goes to the next chunk, places first; false after the last one. Begin with zeros and the size above. */
bool rf_gather_chunk_next(const rf_gather_shape *all, const rf_gather_shape *size, rf_gather_chunk *chunk);
/* Elements an invocation: 4 or 1. */
uint32_t rf_gather_width(const rf_gather_shape *all);
/* Whether a driver that fetches texels at once can read the tensor so, of so many rows, in vectors of eight. */
bool rf_gather_takes_texels(const rf_gather_shape *all, uint64_t rows_read, const rf_device_caps *caps);
/* Binds the chunk's range of each tensor; returned is where its first vector stands. Inputs of width 8 are texel
 * buffers. */
uint32_t rf_gather_bind_x(rf_dispatch *d, const rf_device_caps *caps, rf_bind_kind kind, const rf_gather_shape *all,
                          const rf_gather_chunk *chunk, uint32_t width);
uint32_t rf_gather_bind_y(rf_dispatch *d, const rf_device_caps *caps, rf_bind_kind kind, const rf_gather_shape *all,
                          const rf_gather_chunk *chunk, uint32_t width);
uint32_t rf_gather_bind_indices(rf_dispatch *d, const rf_device_caps *caps, const rf_gather_shape *all,
                                const rf_gather_chunk *chunk);

#endif
