/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/linear/matmul.h"
#include "ops/linear/tiles.h"
#include "rf_shaders.h"

typedef struct push {
    int32_t total, row_tiles, column_tiles, parts, m, n, k, split, c_split, a_line, b_line, unused;
    int32_t dim[4], a_stride[4], b_stride[4];
} push;

double rf_tile_score(const rf_op_call *call, const rf_device_caps *caps, uint32_t threads, double rows, double columns,
                     double flops)
{
    const double r = RF_TILE_ROWS, c = rf_tile_columns(threads);
    const uint32_t shared = RF_TILE_K * (RF_TILE_ROWS + 4 + rf_tile_columns(threads) + 4) * sizeof(float);
    if (caps->max_workgroup_invocations < threads || caps->max_workgroup_size[0] < threads ||
        caps->max_shared_memory < shared || !rf_fits_storage(call, caps))
        return 0;
    const double waste =
        (double)((uint64_t)((rows + r - 1) / r)) * r / rows * (double)((uint64_t)((columns + c - 1) / c)) * c / columns;
    /* Larger tiles reuse more. On a CPU, shared memory gains nothing: the last choice there. */
    const double seconds = flops * waste / (threads == 256 ? 2e12 : 1.5e12) + 5e-6;
    return rf_score_of_time(seconds) * (caps->is_cpu ? RF_SCORE_FOREIGN : 1);
}

rf_tile_grid rf_tile_grid_make(const rf_device_caps *caps, uint32_t threads, int64_t rows, int64_t columns,
                               int64_t length, int64_t batch)
{
    rf_tile_grid t = { .row_tiles = (int32_t)rf_div_up((uint64_t)rows, RF_TILE_ROWS),
                       .column_tiles = (int32_t)rf_div_up((uint64_t)columns, rf_tile_columns(threads)) };
    const uint64_t tiles = (uint64_t)t.row_tiles * (uint64_t)t.column_tiles * (uint64_t)batch;
    /* Longer sums than this would lose precision, and some drivers do not loop longer. */
    const uint64_t longest = rf_min(16384, rf_loop_limit(caps) - 1) * RF_TILE_K;
    const int64_t parts = rf_lanes_parts(tiles, 128, length, 16 * RF_TILE_K, longest);
    t.split = (int32_t)rf_align_up(rf_div_up((uint64_t)length, (uint64_t)parts), RF_TILE_K);
    t.parts = (int32_t)rf_div_up((uint64_t)length, (uint64_t)t.split);
    t.total = (int32_t)(tiles * (uint64_t)t.parts);
    t.loops = (uint64_t)t.split / RF_TILE_K + 1;
    return t;
}

static double score(const rf_op_call *call, const rf_device_caps *caps, uint32_t threads)
{
    const rf_matmul_geometry g = rf_matmul_geometry_of(call);
    return rf_tile_score(call, caps, threads, (double)g.m, (double)g.n, call->op->cost(call).flops);
}

static rf_result plan_tiles(const rf_op_call *call, const rf_device_caps *caps, uint32_t threads, rf_kernel_plan *out)
{
    static const rf_shader *const shaders[2][4] = {
        { &rf_shader_matmul_tile128, &rf_shader_matmul_tile128_ta, &rf_shader_matmul_tile128_tb,
          &rf_shader_matmul_tile128_ta_tb },
        { &rf_shader_matmul_tile256, &rf_shader_matmul_tile256_ta, &rf_shader_matmul_tile256_tb,
          &rf_shader_matmul_tile256_ta_tb },
    };
    const rf_matmul_geometry g = rf_matmul_geometry_of(call);
    const rf_tile_grid t = rf_tile_grid_make(caps, threads, g.m, g.n, g.k, g.batch);
    const uint64_t count = (uint64_t)(g.batch * g.m * g.n), stride = rf_align_up(count, 4);
    push p = { t.total,
               t.row_tiles,
               t.column_tiles,
               t.parts,
               (int32_t)g.m,
               (int32_t)g.n,
               (int32_t)g.k,
               t.split,
               (int32_t)stride,
               (int32_t)(g.ta ? g.m : g.k),
               (int32_t)(g.tb ? g.k : g.n),
               0,
               { 0 },
               { 0 },
               { 0 } };
    for (int i = 0; i < 4; i++) {
        p.dim[i] = (int32_t)g.dim[i];
        p.a_stride[i] = (int32_t)g.a_stride[i];
        p.b_stride[i] = (int32_t)g.b_stride[i];
    }
    rf_lanes_plan builder = { NULL, call, caps, out };
    rf_dispatch *d = rf_kernel_plan_add(out, shaders[threads == 256][(g.ta ? 1 : 0) + (g.tb ? 2 : 0)], t.loops);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, threads);
    rf_dispatch_spec(d, t.parts > 1 ? 0 : g.activation);
    rf_dispatch_spec(d, t.parts == 1 && g.bias);
    rf_dispatch_push(d, &p, sizeof(p));
    rf_dispatch_groups(d, caps, (uint64_t)t.total);
    rf_bind_whole(d, RF_BIND_INPUT, 0);
    rf_bind_whole(d, RF_BIND_INPUT, 1);
    rf_bind_whole(d, RF_BIND_INPUT, g.bias ? 2 : 0);
    if (t.parts == 1) {
        rf_bind_whole(d, RF_BIND_OUTPUT, 0);
        return RF_OK;
    }
    const rf_binding partial = rf_lanes_workspace(&builder, (uint64_t)t.parts * stride * sizeof(float));
    rf_lanes_bind(d, partial, RF_VIEW_STORAGE, true);
    return rf_lanes_add_sum(&builder, partial, t.parts, stride, count, 0, g.n, g.activation, g.bias);
}

RF_VARIANT(, rf_matmul_tile128, "tile128", score, plan_tiles, 128);
RF_VARIANT(, rf_matmul_tile256, "tile256", score, plan_tiles, 256);
