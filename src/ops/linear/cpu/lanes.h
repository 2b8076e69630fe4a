/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The matrix kernels for drivers that run a subgroup as the lanes of a SIMD register (shaders/linear/cpu/lanes_*.comp):
 * two forms of product that matmul and the convolutions are brought to, and the plans that run them.
 */
#ifndef RF_OPS_LINEAR_CPU_LANES_H
#define RF_OPS_LINEAR_CPU_LANES_H

#include "ops/linear/cpu/large_tensors.h"

/* A shader and the tile it was built for. */
typedef struct rf_lanes_tile {
    const rf_shader *shader;
    uint32_t rows, columns;
} rf_lanes_tile;

/* Not every set has all of them; those for single floats are never wide. */
enum { RF_LANES_WIDE, RF_LANES_NARROW, RF_LANES_ABREAST, RF_LANES_TALL, RF_LANES_SLIM, RF_LANES_SHAPES };

/* All shaders built for one way of loading and handing round values. */
typedef struct rf_lanes_set {
    uint32_t lanes;
    bool texel, shuffle, quad; /* what they need; without shuffle, broadcasts */
    rf_driver favourite;       /* where it was measured to be the fastest */
    rf_lanes_tile gather[RF_LANES_SHAPES], gather_transposed[RF_LANES_SHAPES], gather_scalar[RF_LANES_SHAPES];
    rf_lanes_tile grad[RF_LANES_SHAPES], grad_scalar[RF_LANES_SHAPES];
} rf_lanes_set;
extern const rf_lanes_set rf_lanes8_texel, rf_lanes4_texel, rf_lanes4_storage, rf_lanes4_quad;

/* A plan under construction. */
typedef struct rf_lanes_plan {
    const rf_lanes_set *set;
    const rf_op_call *call;
    const rf_device_caps *caps;
    rf_kernel_plan *plan;
} rf_lanes_plan;

/* Copies *io to the workspace as [d0][d1][d2][d3 padded with zeros to a multiple of four]; s: strides of *io. */
rf_result rf_lanes_pack(rf_lanes_plan *p, rf_binding *io, const int64_t d[4], const int64_t s[4]);
/* The same for a matrix of rows that only get longer. Nothing to do when columns are a multiple of four. */
rf_result rf_lanes_pad_rows(rf_lanes_plan *p, rf_binding *io, int64_t rows, int64_t columns);

/* How a kernel with write_rows.glsl writes rows of so many elements that are so many apart. */
uint32_t rf_lanes_row_width(int64_t elements);
/* Two numbers of 16 bits in a word of push constants. */
static inline int32_t rf_lanes_pair(int64_t y, int64_t x)
{
    return (int32_t)((uint32_t)(y & 0xffff) | (uint32_t)(x & 0xffff) << 16);
}

static inline int64_t rf_lanes_fours(int64_t elements)
{
    return (elements + 3) / 4;
}

/* Strides over up to three batch dimensions (the inner two sizes; the outermost follows from `batch`). */
typedef struct rf_lanes_batch {
    int64_t count, dim_1, dim_2;
    int64_t a[3], b[3]; /* loads of a, fours of b */
    int64_t c, bias;    /* elements per item */
} rf_lanes_batch;

/* Sizes of pixels in a are in loads, of b in fours, of c in elements: the push constants of lanes_gather.comp. */
typedef struct rf_lanes_gather {
    rf_conv_geometry conv; /* a row is a pixel of its output */
    int64_t upy, upx;      /* pixels of a are so many apart */
    int64_t columns, channels /* loads per tap */;
    int64_t a_pixel, b_base, b_tap, b_row, b_last, c_row;
    bool b_transposed, scalar;
    rf_lanes_batch z;
    uint32_t activation;
    bool bias; /* input 2 of the call */
} rf_lanes_gather;
rf_result rf_lanes_add_gather(rf_lanes_plan *p, const rf_lanes_gather *g, rf_binding a, rf_binding b);

/* Whether the device can loop over a gather's taps and channels (loads per tap) and holds the partial sums that it may
 * take. */
bool rf_lanes_gather_fits(const rf_op_call *call, const rf_device_caps *caps, int64_t taps, int64_t channels,
                          bool scalar);

/* lanes_grad.comp */
typedef struct rf_lanes_grad {
    rf_conv_geometry conv; /* a summand is a pixel of its output */
    int64_t loads, channels /* per tap */, columns;
    int64_t a_pixel, b_pixel, c_row;
    bool scalar;
    rf_lanes_batch z;
    uint32_t activation;
    bool bias, bias_gradient; /* input 2 of the call; output 1 of it */
} rf_lanes_grad;
rf_result rf_lanes_add_grad(rf_lanes_plan *p, const rf_lanes_grad *g, rf_binding a, rf_binding b);

/* The device can run the set's shaders and every tensor of the call fits its descriptors. `groups`: of a convolution,
 * whose channels are padded one group at a time. */
bool rf_lanes_usable(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps, int64_t groups);

#endif
