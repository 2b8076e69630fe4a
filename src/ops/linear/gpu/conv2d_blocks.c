/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/linear/common/conv2d.h"
#include "ops/linear/gpu/blocks.h"
#include "ops/linear/gpu/cooperative.h"
#include "rf_shaders.h"

/* Taps of one axis that meet the same pixels of a gradient by the image are so far apart. */
static int64_t stride_period(int64_t stride, int64_t dilation)
{
    int64_t a = stride, b = dilation;
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return stride / a;
}

/* Rows of an image, in lines and columns: of a gradient by the image those of its first phase, which is the largest. */
static int64_t grid_h(rf_linear_role role, const rf_conv_geometry *g)
{
    return role == RF_ROLE_DATA ? (g->h + g->sy - 1) / g->sy : g->oh;
}
static int64_t grid_w(rf_linear_role role, const rf_conv_geometry *g)
{
    return role == RF_ROLE_DATA ? (g->w + g->sx - 1) / g->sx : g->ow;
}

/* The windows of an image are a grid of half the size. */
static bool has_pool(const rf_op_call *call, rf_linear_role role)
{
    return role == RF_ROLE_FORWARD && call->n_out > 1;
}

static rf_block_job job_of(const rf_op_call *call, rf_linear_role role, const rf_conv_geometry *g)
{
    const int64_t taps = g->kh * g->kw, pixels = g->n * grid_h(role, g) * grid_w(role, g);
    const int64_t py = stride_period(g->sy, g->dy), px = stride_period(g->sx, g->dx);
    rf_block_job job = { pixels, g->cog, taps * g->cig, g->groups, rf_block_operands(call), .gathers = true };
    if (role == RF_ROLE_DATA) {
        job.columns = g->cig;
        job.length = ((g->kh + py - 1) / py) * ((g->kw + px - 1) / px) * g->cog;
        job.batch = g->groups * g->sy * g->sx;
    } else if (role == RF_ROLE_FILTER) {
        job.rows = taps * g->cig;
        job.length = pixels;
    }
    return job;
}

/* Iterations of the search for the first tap of a phase. */
static uint64_t search_loops(rf_linear_role role, const rf_conv_geometry *g)
{
    return role == RF_ROLE_DATA ? rf_min((uint64_t)g->kh, (uint64_t)g->sy) + rf_min((uint64_t)g->kw, (uint64_t)g->sx)
                                : 0;
}

/* The sums of dy over its pixels: none, one more row of the job, or a reduction behind it. */
typedef enum sums_way { SUMS_NONE, SUMS_RIDE, SUMS_APART } sums_way;

static sums_way add_sums(const rf_op_call *call, const rf_device_caps *caps, rf_block_kernel v, rf_block_job *job)
{
    if (v.role != RF_ROLE_FILTER || call->n_out == 1) return SUMS_NONE;
    return rf_block_sums_ride(caps, v.tile, job, (double)rf_tensor_bytes(&call->in[1])) ? SUMS_RIDE : SUMS_APART;
}

/* Addresses of rows take registers beside the tile, four times as many where channels come one at a time: what needs
 * more than 128 of them was seen in machine code. */
static bool fits_registers(const rf_device_caps *caps, rf_block_kernel v, bool one_channel)
{
    if (v.tile == RF_BLOCK_XL && !caps->is_cpu && one_channel) return false;
    if (caps->invocation_registers == 0 || caps->invocation_registers > 128) return true;
    if (v.tile == RF_BLOCK_COOP_S) return v.role != RF_ROLE_FILTER || !one_channel;
    if (v.tile == RF_BLOCK_COOP_M) return v.role != RF_ROLE_FILTER && !one_channel;
    return v.tile != RF_BLOCK_L && !(v.tile == RF_BLOCK_S && v.role == RF_ROLE_FILTER);
}

double rf_conv2d_blocks_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_block_kernel v = *(const rf_block_kernel *)data;
    const rf_conv_geometry g = rf_conv_geometry_of(call, v.role);
    if (!fits_registers(caps, v, (g.cig | g.cog) & 3)) return RF_SCORE_NONE;
    /* Its invocations have one row each, not the four of a window. */
    if (v.tile == RF_BLOCK_DEEP && has_pool(call, v.role)) return RF_SCORE_NONE;
    rf_block_job job = job_of(call, v.role, &g);
    (void)add_sums(call, caps, v, &job);
    const double score = rf_block_score(call, caps, v.tile, &job);
    if (score <= 0) return RF_SCORE_NONE;
    const rf_block_grid t = rf_block_grid_make(caps, v.tile, &job);
    return t.loops + search_loops(v.role, &g) <= rf_loop_limit(caps) ? score : RF_SCORE_NONE;
}

static void push_gather(rf_dispatch *d, rf_linear_role role, const rf_conv_geometry *g, const rf_block_job *job,
                        const rf_block_grid *t, bool pool)
{
    const int64_t channels = role == RF_ROLE_DATA ? g->cog : g->cig;
    const int64_t lines = grid_h(role, g) / (pool ? 2 : 1), line = grid_w(role, g) / (pool ? 2 : 1);
    const rf_magic by_h = rf_magic_make((uint32_t)lines), by_w = rf_magic_make((uint32_t)line),
                   by_channels = rf_magic_make((uint32_t)channels);
    const rf_push_conv2d_block p = { .total = (int32_t)t->total,
                                     .row_tiles = t->row_tiles,
                                     .column_tiles = t->column_tiles,
                                     .parts = t->parts,
                                     .parts_of_group = t->parts_of_group,
                                     .split = t->split,
                                     .h = (int32_t)(role == RF_ROLE_DATA ? g->oh : g->h),
                                     .w = (int32_t)(role == RF_ROLE_DATA ? g->ow : g->w),
                                     .pixel = (int32_t)(role == RF_ROLE_DATA ? g->cout : g->cin),
                                     .channels = (int32_t)channels,
                                     .to_h = (int32_t)(role == RF_ROLE_DATA ? g->h : g->oh),
                                     .to_w = (int32_t)(role == RF_ROLE_DATA ? g->w : g->ow),
                                     .to_pixel = (int32_t)(role == RF_ROLE_DATA ? g->cin : g->cout),
                                     .rows = (int32_t)job->rows,
                                     .columns = (int32_t)job->columns,
                                     .grid_h = (int32_t)lines,
                                     .grid_w = (int32_t)line,
                                     .kh = (int32_t)g->kh,
                                     .kw = (int32_t)g->kw,
                                     .sy = (int32_t)g->sy,
                                     .sx = (int32_t)g->sx,
                                     .dy = (int32_t)g->dy,
                                     .dx = (int32_t)g->dx,
                                     .pt = (int32_t)g->pt,
                                     .pl = (int32_t)g->pl,
                                     .channels_magic = by_channels.magic,
                                     .grid_h_magic = by_h.magic,
                                     .grid_w_magic = by_w.magic,
                                     .shifts = by_w.shift | by_h.shift << 8 | by_channels.shift << 16,
                                     .period_y = (int32_t)stride_period(g->sy, g->dy),
                                     .period_x = (int32_t)stride_period(g->sx, g->dx),
                                     .windowed = (int32_t)(pool ? 4 * g->n * lines * line : 0) };
    rf_dispatch_push(d, &p, sizeof(p));
}

static void push_filter(rf_dispatch *d, const rf_conv_geometry *g, const rf_block_job *job, const rf_block_grid *t)
{
    const rf_magic by_h = rf_magic_make((uint32_t)g->oh), by_w = rf_magic_make((uint32_t)g->ow),
                   by_channels = rf_magic_make((uint32_t)g->cig), by_kw = rf_magic_make((uint32_t)g->kw);
    const rf_push_conv2d_filter_block p = { .total = (int32_t)t->total,
                                            .row_tiles = t->row_tiles,
                                            .column_tiles = t->column_tiles,
                                            .parts = t->parts,
                                            .parts_of_group = t->parts_of_group,
                                            .split = t->split,
                                            .h = (int32_t)g->h,
                                            .w = (int32_t)g->w,
                                            .pixel = (int32_t)g->cin,
                                            .channels = (int32_t)g->cig,
                                            .out_h = (int32_t)g->oh,
                                            .out_w = (int32_t)g->ow,
                                            .to_line = (int32_t)g->cout,
                                            .rows = (int32_t)job->rows,
                                            .ones = (int32_t)(g->kh * g->kw * g->cig),
                                            .columns = (int32_t)job->columns,
                                            .length = (int32_t)job->length,
                                            .kw = (int32_t)g->kw,
                                            .sy = (int32_t)g->sy,
                                            .sx = (int32_t)g->sx,
                                            .dy = (int32_t)g->dy,
                                            .dx = (int32_t)g->dx,
                                            .pt = (int32_t)g->pt,
                                            .pl = (int32_t)g->pl,
                                            .channels_magic = by_channels.magic,
                                            .kw_magic = by_kw.magic,
                                            .out_h_magic = by_h.magic,
                                            .out_w_magic = by_w.magic,
                                            .shifts = by_channels.shift | by_kw.shift << 8 | by_h.shift << 16 |
                                                      by_w.shift << 24 };
    rf_dispatch_push(d, &p, sizeof(p));
}

#define SHADERS(tile, of)                                                                                              \
    {                                                                                                                  \
        of(conv2d_block_##tile), of(conv2d_block_##tile##_data), of(conv2d_block_##tile##_filter)                      \
    }

rf_result rf_conv2d_blocks_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                rf_kernel_plan *out)
{
    static const rf_shader *const shaders[RF_BLOCK_TILES][3][RF_BLOCK_WIDTHS] = {
        SHADERS(s, RF_BLOCK_SHADERS),       SHADERS(deep, RF_BLOCK_SHADERS), SHADERS(m, RF_BLOCK_SHADERS),
        SHADERS(t, RF_BLOCK_LARGE_SHADERS), SHADERS(l, RF_BLOCK_SHADERS),    SHADERS(xl, RF_BLOCK_LARGE_SHADERS),
    };
    static const rf_coop_product products[] = { [RF_ROLE_FORWARD] = RF_COOP_CONV2D,
                                                [RF_ROLE_DATA] = RF_COOP_CONV2D_DATA,
                                                [RF_ROLE_FILTER] = RF_COOP_CONV2D_FILTER };
    const rf_block_kernel v = *(const rf_block_kernel *)data;
    const rf_conv2d_attr *attr = call->attr;
    const bool coop = v.tile >= RF_BLOCK_TILES;
    const rf_conv_geometry g = rf_conv_geometry_of(call, v.role);
    rf_block_job job = job_of(call, v.role, &g);
    const sums_way sums = add_sums(call, caps, v, &job);
    const rf_block_grid t = rf_block_grid_make(caps, v.tile, &job);
    const bool bias = v.role == RF_ROLE_FORWARD && call->n_in == 3, pool = !coop && has_pool(call, v.role);
    rf_dispatch *d = rf_kernel_plan_add(out,
                                        coop ? rf_coop_shader(caps, products[v.role], job.operands)
                                             : shaders[v.tile][v.role][rf_block_width_of(caps)],
                                        t.loops + search_loops(v.role, &g));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const int64_t summands = v.role == RF_ROLE_DATA ? g.cog : g.cig; /* of RF_ROLE_FILTER these are rows */
    const uint32_t constants[] = { rf_block_make(caps, v.tile, job.operands).threads,
                                   v.role == RF_ROLE_FORWARD ? attr->activation : 0,
                                   bias,
                                   rf_block_slice(caps),
                                   t.parts > 1,
                                   summands % 4 == 0,
                                   job.columns % 4 == 0,
                                   pool };
    for (uint32_t i = 0; i < RF_LENGTH(constants); i++) rf_dispatch_spec(d, constants[i]);
    if (coop)
        rf_coop_constants(d, call, caps, v.tile, job.operands, bias);
    else
        rf_block_types(d, call, caps);
    if (v.role == RF_ROLE_FILTER)
        push_filter(d, &g, &job, &t);
    else
        push_gather(d, v.role, &g, &job, &t, pool);
    rf_dispatch_groups(d, caps, t.total);
    rf_bind_whole(d, RF_BIND_INPUT, 0);
    rf_bind_whole(d, RF_BIND_INPUT, 1);
    rf_bind_whole(d, RF_BIND_INPUT, bias ? 2 : 0);
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    rf_block_bind_parts(d, out, caps, &t);
    if (v.role != RF_ROLE_DATA) rf_bind_whole(d, RF_BIND_OUTPUT, call->n_out > 1 && sums != SUMS_APART ? 1 : 0);
    return sums == SUMS_APART ? rf_linear_append_sums(call, caps, out) : RF_OK;
}

bool rf_conv2d_blocks_narrow(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    (void)caps;
    const int64_t channels = (int64_t)rf_desc_columns(&call->out[0]);
    return rf_block_takes_narrow(call, channels / ((const rf_conv2d_attr *)call->attr)->groups);
}
