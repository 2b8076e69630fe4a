/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The matrix kernels for drivers that run a subgroup as the lanes of a SIMD register (shaders/linear/cpu/lanes_*.comp):
 * two forms of product that matmul and the convolutions are brought to, and the plans that run them.
 */
#ifndef RF_OPS_LINEAR_CPU_LANES_H
#define RF_OPS_LINEAR_CPU_LANES_H

#include "ops/linear/common/linear.h"
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
extern const rf_lanes_set rf_lanes8_texel, rf_lanes8_storage, rf_lanes4_storage, rf_lanes4_quad, rf_lanes16_texel;

/* A plan under construction. */
typedef struct rf_lanes_plan {
    const rf_lanes_set *set; /* NULL for kernels without lanes */
    const rf_op_call *call;
    const rf_device_caps *caps;
    rf_kernel_plan *plan;
} rf_lanes_plan;

/* Operands: a whole tensor of the call, or what a pack made of one in the workspace. */
rf_binding rf_lanes_input(const rf_op_call *call, uint32_t index);
/* Copies *io to the workspace as [d0][d1][d2][d3 padded with zeros to a multiple of four]; s: strides of *io. */
rf_result rf_lanes_pack(rf_lanes_plan *p, rf_binding *io, const int64_t d[4], const int64_t s[4]);
/* The same for a matrix of rows that only get longer. Nothing to do when columns are a multiple of four. */
rf_result rf_lanes_pad_rows(rf_lanes_plan *p, rf_binding *io, int64_t rows, int64_t columns);

rf_binding rf_lanes_workspace(rf_lanes_plan *p, uint64_t bytes);
void rf_lanes_bind(rf_dispatch *d, rf_binding o, rf_bind_view view, bool write);
/* Appends the dispatch that adds `parts` lists of `count` partial sums, `stride` elements apart, into output 0, the
 * last `extra` of them into output 1, and finishes with bias (input 2) and activation. */
rf_result rf_lanes_add_sum(rf_lanes_plan *p, rf_binding partial, int64_t parts, uint64_t stride, uint64_t count,
                           uint64_t extra, int64_t columns, uint32_t activation, bool bias);
/* How a kernel with write_rows.glsl writes rows of so many elements that are so many apart. */
uint32_t rf_lanes_row_width(int64_t elements);
/* Parts that a long sum is cut into so that there is enough to do side by side, and no more than `longest` in one. */
int64_t rf_lanes_parts(uint64_t tiles, uint64_t wanted, int64_t length, int64_t shortest, uint64_t longest);

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
    int64_t rows, columns, channels /* loads per tap */;
    int64_t kh, kw, h, w, oh, ow, sy, sx, upy, upx, dy, dx, pt, pl;
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
    int64_t kh, kw, loads, channels /* per tap */, columns;
    int64_t n, h, w, oh, ow, sy, sx, dy, dx, pt, pl;
    int64_t a_pixel, b_pixel, c_row;
    bool scalar;
    rf_lanes_batch z;
    uint32_t activation;
    bool bias, bias_gradient; /* input 2 of the call; output 1 of it */
} rf_lanes_grad;
rf_result rf_lanes_add_grad(rf_lanes_plan *p, const rf_lanes_grad *g, rf_binding a, rf_binding b);

/* The device can run the set's shaders and every tensor of the call fits its descriptors. */
bool rf_lanes_usable(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps);
/* Score of a plan from what it would compute, padding included, and how many dispatches it takes. */
double rf_lanes_score(const rf_lanes_set *set, const rf_device_caps *caps, double padded_flops, double packed_bytes,
                      uint32_t dispatches);
/* Tile that does best on a product of this size. */
const rf_lanes_tile *rf_lanes_choose(const rf_lanes_set *set, const rf_lanes_tile tiles[RF_LANES_SHAPES], int64_t rows,
                                     int64_t columns);
/* The same for lanes_grad.comp. Where the product is too small for the tile to matter it is the wide one, which the
 * larger products of a program use too: compiling another pipeline takes as long as thousands of such products. */
const rf_lanes_tile *rf_lanes_choose_grad(const rf_lanes_set *set, int64_t rows, int64_t columns, int64_t summands);

/* Defines the kernel rf_<op>_<set><suffix>, whose functions take the set as well and look at calls whose tensors fit
 * descriptors: larger ones come in chunks. */
#define RF_LANES_FUNCTIONS(op, set_name, suffix, op_score, op_plan)                                                    \
    static double op##_##set_name##suffix##_piece_score(const rf_op_call *call, const rf_device_caps *caps,            \
                                                        const void *data)                                              \
    {                                                                                                                  \
        return op_score(&rf_##set_name, call, caps);                                                                   \
    }                                                                                                                  \
    static rf_result op##_##set_name##suffix##_piece_plan(const rf_op_call *call, const rf_device_caps *caps,          \
                                                          const void *data, rf_kernel_plan *plan)                      \
    {                                                                                                                  \
        return op_plan(&(rf_lanes_plan){ &rf_##set_name, call, caps, plan });                                          \
    }                                                                                                                  \
    static double op##_##set_name##suffix##_score(const rf_op_call *call, const rf_device_caps *caps,                  \
                                                  const void *data)                                                    \
    {                                                                                                                  \
        return rf_chunked_score(call, caps, data, op##_##set_name##suffix##_piece_score);                              \
    }                                                                                                                  \
    static rf_result op##_##set_name##suffix##_plan(const rf_op_call *call, const rf_device_caps *caps,                \
                                                    const void *data, rf_kernel_plan *plan)                            \
    {                                                                                                                  \
        return rf_chunked_plan(call, caps, data, plan, op##_##set_name##suffix##_piece_score,                          \
                               op##_##set_name##suffix##_piece_plan);                                                  \
    }
#define RF_LANES_KERNEL(op, set_name, suffix, op_score, op_plan)                                                       \
    RF_LANES_FUNCTIONS(op, set_name, suffix, op_score, op_plan)                                                        \
    const rf_kernel rf_##op##_##set_name##suffix = { .name = #set_name #suffix,                                        \
                                                     .score = op##_##set_name##suffix##_score,                         \
                                                     .plan = op##_##set_name##suffix##_plan,                           \
                                                     .cuts_up = true }

/* For tables: declarations and addresses of an op's kernels of every set. */
#define RF_LANES_DECLARE(op, suffix)                                                                                   \
    extern const rf_kernel rf_##op##_lanes8_texel##suffix, rf_##op##_lanes8_storage##suffix,                           \
        rf_##op##_lanes4_storage##suffix, rf_##op##_lanes4_quad##suffix, rf_##op##_lanes16_texel##suffix
#define RF_LANES_LIST(op, suffix)                                                                                      \
    &rf_##op##_lanes8_texel##suffix, &rf_##op##_lanes8_storage##suffix, &rf_##op##_lanes4_storage##suffix,             \
        &rf_##op##_lanes4_quad##suffix, &rf_##op##_lanes16_texel##suffix

#endif
