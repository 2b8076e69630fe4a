/* SPDX-License-Identifier: Apache-2.0 */
/* Products of few rows, as in a network that decodes one token at a time: shaders/linear/cpu/matmul_vector.comp. Tiles
 * of the other kernels have 32 rows. */
#include "ops/linear/common/matmul.h"
#include "ops/linear/cpu/kernels.h"
#include "ops/linear/cpu/model.h"
#include "rf_shaders.h"

enum { LANES = 8, COLUMNS = 4 * LANES, FEW_ROWS = 1, MOST_ROWS = 4 };

/* a's numbers of a row lie side by side, and lines of b are whole fours. */
static bool vector_fits(const rf_matmul_geometry *g, const rf_op_call *call, const rf_device_caps *caps)
{
    const bool fours = (g->tb ? g->k : g->n) % 4 == 0;
    return g->m <= MOST_ROWS && (!g->ta || g->m == 1) && fours && !g->bias_gradient && g->dim[0] == 1 &&
           (uint64_t)g->k / LANES + 2 <= rf_loop_limit(caps) && rf_lanes_usable(&rf_lanes8_texel, call, caps, 1);
}

bool rf_matmul_is_vector(const rf_op_call *call, const rf_device_caps *caps)
{
    const rf_matmul_geometry g = rf_matmul_geometry_of(call);
    const double least = 4096; /* multiplications: with fewer no kernel is faster than a dispatch */
    return (double)g.batch * (double)g.n * (double)g.k >= least && vector_fits(&g, call, caps);
}

double rf_matmul_vector_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    if (!rf_matmul_is_vector(call, caps)) return RF_SCORE_NONE;
    const rf_matmul_geometry g = rf_matmul_geometry_of(call);
    const double columns = (double)rf_align_up((uint64_t)g.n, COLUMNS);
    return rf_score_of_time(rf_cpu_vector_seconds((double)g.batch * columns * (double)g.k * sizeof(float)));
}

rf_result rf_matmul_vector_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                rf_kernel_plan *plan)
{
    const rf_matmul_geometry g = rf_matmul_geometry_of(call);
    const rf_shader *shader = g.m <= FEW_ROWS ? g.tb ? &rf_shader_matmul_vector_t_1 : &rf_shader_matmul_vector_1
                              : g.tb          ? &rf_shader_matmul_vector_t_4
                                              : &rf_shader_matmul_vector_4;
    const int64_t tiles = (int64_t)rf_div_up((uint64_t)g.n, COLUMNS);
    const rf_push_matmul_vector push = { .total = (int32_t)(g.batch * tiles),
                                         .column_tiles = (int32_t)tiles,
                                         .rows = (int32_t)g.m,
                                         .columns = (int32_t)g.n,
                                         .summands = (int32_t)g.k,
                                         .b_line = (int32_t)((g.tb ? g.k : g.n) / 4),
                                         .z_dim_1 = (int32_t)g.dim[2],
                                         .z_dim_2 = (int32_t)g.dim[3],
                                         .a_z0 = (int32_t)g.a_stride[1],
                                         .a_z1 = (int32_t)g.a_stride[2],
                                         .a_z2 = (int32_t)g.a_stride[3],
                                         .b_z0 = (int32_t)(g.b_stride[1] / 4),
                                         .b_z1 = (int32_t)(g.b_stride[2] / 4),
                                         .b_z2 = (int32_t)(g.b_stride[3] / 4) };
    rf_dispatch *d = rf_kernel_plan_add(plan, shader, (uint64_t)g.k / LANES + 2);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, LANES);
    rf_dispatch_spec(d, g.activation);
    rf_dispatch_spec(d, g.bias);
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_groups(d, caps, (uint64_t)push.total);
    rf_linear_bind(d, rf_linear_input(call, 0), RF_VIEW_TEXEL_R32F, false);
    rf_linear_bind(d, rf_linear_input(call, 1), RF_VIEW_TEXEL_RGBA32F, false);
    rf_linear_bind(d, rf_linear_input(call, g.bias ? 2 : 1), RF_VIEW_STORAGE, false);
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    return RF_OK;
}
