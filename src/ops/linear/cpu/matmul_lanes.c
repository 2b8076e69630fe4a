/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/linear/common/matmul.h"
#include "ops/linear/cpu/kernels.h"
#include "ops/linear/cpu/model.h"

/* Rows of an operand's matrix and how many of its matrices are stored one after the other. */
typedef struct stored {
    int64_t rows, columns, matrices;
} stored;

static stored stored_make(const rf_op_call *call, uint32_t input, int64_t rows, int64_t columns)
{
    return (stored){ rows, columns, rf_shape_count(call->in[input].shape) / (rows * columns) };
}

static void batch_strides(const rf_matmul_geometry *g, int64_t a_matrix, int64_t b_matrix, rf_lanes_batch *z)
{
    *z = (rf_lanes_batch){ .count = g->batch, .dim_1 = g->dim[2], .dim_2 = g->dim[3], .c = g->m * g->n };
    for (int i = 0; i < 3; i++) {
        z->a[i] = g->a_stride[i + 1] / (g->m * g->k) * a_matrix;
        z->b[i] = g->b_stride[i + 1] / (g->n * g->k) * b_matrix;
    }
}

/* A convolution of so many images of one pixel. */
static rf_conv_geometry pixels_of(int64_t n)
{
    return (rf_conv_geometry){
        .n = n, .h = 1, .w = 1, .oh = 1, .ow = 1, .kh = 1, .kw = 1, .sy = 1, .sx = 1, .dy = 1, .dx = 1
    };
}

/* op(a) has its rows in order: each row of c is a pixel. */
static rf_result plan_rows(rf_lanes_plan *p, const rf_matmul_geometry *g)
{
    const stored a = stored_make(p->call, 0, g->m, g->k), b = stored_make(p->call, 1, g->n, g->k);
    rf_binding in_a = rf_linear_input(p->call, 0), in_b = rf_linear_input(p->call, 1);
    const int64_t fours_k = rf_lanes_fours(g->k), fours_n = rf_lanes_fours(g->n);
    if (g->ta)
        RF_TRY(rf_lanes_pack(p, &in_a, (const int64_t[]){ a.matrices, 1, g->m, g->k },
                             (const int64_t[]){ g->m * g->k, 0, 1, g->m }));
    else
        RF_TRY(rf_lanes_pad_rows(p, &in_a, a.matrices * g->m, g->k));
    if (g->tb)
        RF_TRY(rf_lanes_pad_rows(p, &in_b, b.matrices * g->n, g->k));
    else
        RF_TRY(rf_lanes_pad_rows(p, &in_b, b.matrices * g->k, g->n));

    rf_lanes_gather product = { .conv = pixels_of(g->m),
                                .upy = 1,
                                .upx = 1,
                                .columns = g->n,
                                .channels = fours_k,
                                .a_pixel = fours_k,
                                .b_row = g->tb ? fours_k : fours_n,
                                .b_last = g->k - 1,
                                .c_row = g->n,
                                .b_transposed = g->tb,
                                .activation = g->activation,
                                .bias = g->bias };
    batch_strides(g, g->m * fours_k, g->tb ? g->n * fours_k : g->k * fours_n, &product.z);
    return rf_lanes_add_gather(p, &product, in_a, in_b);
}

/* Both operands hold one line per summand: each is a pixel. */
static rf_result plan_summands(rf_lanes_plan *p, const rf_matmul_geometry *g)
{
    const stored a = stored_make(p->call, 0, g->k, g->m), b = stored_make(p->call, 1, g->k, g->n);
    rf_binding in_a = rf_linear_input(p->call, 0), in_b = rf_linear_input(p->call, 1);
    const int64_t fours_m = rf_lanes_fours(g->m), fours_n = rf_lanes_fours(g->n);
    RF_TRY(rf_lanes_pad_rows(p, &in_a, a.matrices * g->k, g->m));
    RF_TRY(rf_lanes_pad_rows(p, &in_b, b.matrices * g->k, g->n));
    rf_lanes_grad product = { .conv = pixels_of(g->k),
                              .loads = fours_m,
                              .channels = g->m,
                              .columns = g->n,
                              .a_pixel = fours_m,
                              .b_pixel = fours_n,
                              .c_row = g->n,
                              .activation = g->activation,
                              .bias = g->bias,
                              .bias_gradient = g->bias_gradient };
    batch_strides(g, g->k * fours_m, g->k * fours_n, &product.z);
    return rf_lanes_add_grad(p, &product, in_a, in_b);
}

double rf_matmul_lanes_seconds(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_lanes_set *set = ((const rf_piece_kernel *)data)->set;
    const rf_matmul_geometry g = rf_matmul_geometry_of(call);
    if (g.dim[0] > 1 || !rf_lanes_usable(set, call, caps, 1)) return 0;
    const bool rows = !g.ta || g.tb;
    const rf_lanes_tile *tile = rows ? rf_lanes_choose(set, g.tb ? set->gather_transposed : set->gather, g.m, g.n)
                                     : rf_lanes_choose_grad(set, g.m, g.n, g.k);
    const double m = (double)rf_align_up((uint64_t)g.m, tile->rows);
    const double n = (double)rf_align_up((uint64_t)g.n, tile->columns);
    const bool pack_a = rows ? g.ta || g.k % 4 : g.m % 4, pack_b = rows && g.tb ? g.k % 4 : g.n % 4;
    const double packed =
        (pack_a ? (double)rf_tensor_bytes(&call->in[0]) : 0) + (pack_b ? (double)rf_tensor_bytes(&call->in[1]) : 0);
    return rf_cpu_lanes_seconds(set, caps, 2 * m * n * (double)g.k * (double)g.batch, packed, 1u + pack_a + pack_b);
}

rf_result rf_matmul_lanes_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                               rf_kernel_plan *plan)
{
    const rf_matmul_geometry g = rf_matmul_geometry_of(call);
    rf_lanes_plan p = { ((const rf_piece_kernel *)data)->set, call, caps, plan };
    return g.ta && !g.tb ? plan_summands(&p, &g) : plan_rows(&p, &g);
}
