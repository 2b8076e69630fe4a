/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/linear/conv2d.h"
#include "ops/linear/tiles.h"
#include "rf_shaders.h"

typedef enum form { FORWARD, DATA, FILTER } form;

typedef struct push {
    int32_t n, h, w, cin, oh, ow, cout, kh, kw, cig, cog, sy, sx, dy, dx, pt, pl;
    int32_t total, row_tiles, column_tiles, parts, rows, columns, length, split, c_split, extra_at;
} push;

/* Of one group's product. */
typedef struct sizes {
    int64_t rows, columns, length;
} sizes;

static sizes sizes_of(const rf_op_call *call, form f, const rf_conv_geometry *g)
{
    const int64_t taps = g->kh * g->kw;
    switch (f) {
    case FORWARD: return (sizes){ g->n * g->oh * g->ow, g->cog, taps * g->cig };
    case DATA: return (sizes){ g->n * g->h * g->w, g->cig, taps * g->cog };
    default: return (sizes){ taps * g->cig + (call->n_out > 1), g->cog, g->n * g->oh * g->ow };
    }
}

static double tile_score(const rf_op_call *call, const rf_device_caps *caps, uint32_t threads, double rows,
                         double columns, double flops)
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

static rf_tile_grid tile_grid_make(const rf_device_caps *caps, uint32_t threads, int64_t rows, int64_t columns,
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

static double score(const rf_op_call *call, const rf_device_caps *caps, form f, uint32_t threads)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    const sizes s = sizes_of(call, f, &g);
    return tile_score(call, caps, threads, (double)s.rows, (double)s.columns, call->op->cost(call).flops * 2);
}

static rf_result plan(const rf_op_call *call, const rf_device_caps *caps, rf_kernel_plan *out, form f, uint32_t threads)
{
    static const rf_shader *const shaders[2][3] = {
        { &rf_shader_conv2d_tile128, &rf_shader_conv2d_tile128_data, &rf_shader_conv2d_tile128_filter },
        { &rf_shader_conv2d_tile256, &rf_shader_conv2d_tile256_data, &rf_shader_conv2d_tile256_filter },
    };
    const rf_conv2d_attr *attr = call->attr;
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    const sizes s = sizes_of(call, f, &g);
    const bool bias = f == FORWARD && call->n_in == 3, bias_gradient = f == FILTER && call->n_out > 1;
    const rf_tile_grid t = tile_grid_make(caps, threads, s.rows, s.columns, s.length, g.groups);
    const uint64_t main_count = rf_tensor_bytes(&call->out[0]) / sizeof(float),
                   extra = bias_gradient ? (uint64_t)g.cout : 0;
    const uint64_t stride = rf_align_up(main_count + extra, 4);
    const push p = { (int32_t)g.n,    (int32_t)g.h,       (int32_t)g.w,
                     (int32_t)g.cin,  (int32_t)g.oh,      (int32_t)g.ow,
                     (int32_t)g.cout, (int32_t)g.kh,      (int32_t)g.kw,
                     (int32_t)g.cig,  (int32_t)g.cog,     (int32_t)g.sy,
                     (int32_t)g.sx,   (int32_t)g.dy,      (int32_t)g.dx,
                     (int32_t)g.pt,   (int32_t)g.pl,      t.total,
                     t.row_tiles,     t.column_tiles,     t.parts,
                     (int32_t)s.rows, (int32_t)s.columns, (int32_t)s.length,
                     t.split,         (int32_t)stride,    t.parts > 1 ? (int32_t)main_count : 0 };
    rf_lanes_plan builder = { NULL, call, caps, out };
    rf_dispatch *d = rf_kernel_plan_add(out, shaders[threads == 256][f], t.loops);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, threads);
    rf_dispatch_spec(d, t.parts > 1 ? 0 : attr->activation);
    rf_dispatch_spec(d, t.parts == 1 && bias);
    rf_dispatch_push(d, &p, sizeof(p));
    rf_dispatch_groups(d, caps, (uint64_t)t.total);
    rf_bind_whole(d, RF_BIND_INPUT, 0);
    rf_bind_whole(d, RF_BIND_INPUT, 1);
    rf_bind_whole(d, RF_BIND_INPUT, bias ? 2 : 0);
    if (t.parts == 1) {
        rf_bind_whole(d, RF_BIND_OUTPUT, 0);
        rf_bind_whole(d, RF_BIND_OUTPUT, bias_gradient ? 1 : 0);
        return RF_OK;
    }
    const rf_binding partial = rf_lanes_workspace(&builder, (uint64_t)t.parts * stride * sizeof(float));
    rf_lanes_bind(d, partial, RF_VIEW_STORAGE, true);
    rf_lanes_bind(d, partial, RF_VIEW_STORAGE, true);
    return rf_lanes_add_sum(&builder, partial, t.parts, stride, main_count + extra, extra, g.cout, attr->activation,
                            bias);
}

/* A kernel is a form, and the number of threads of its workgroups. */
typedef struct variant {
    form f;
    uint32_t threads;
} variant;

static double score_of(const rf_op_call *call, const rf_device_caps *caps, variant v)
{
    return score(call, caps, v.f, v.threads);
}
static rf_result plan_of(const rf_op_call *call, const rf_device_caps *caps, variant v, rf_kernel_plan *out)
{
    return plan(call, caps, out, v.f, v.threads);
}

#define TILE_KERNEL(op, form, threads)                                                                                 \
    RF_VARIANT(, rf_##op##_tile##threads, "tile" #threads, score_of, plan_of, ((variant){ form, threads }))

TILE_KERNEL(conv2d, FORWARD, 128);
TILE_KERNEL(conv2d, FORWARD, 256);
TILE_KERNEL(conv2d_data_grad, DATA, 128);
TILE_KERNEL(conv2d_data_grad, DATA, 256);
TILE_KERNEL(conv2d_filter_grad, FILTER, 128);
TILE_KERNEL(conv2d_filter_grad, FILTER, 256);
