/* SPDX-License-Identifier: Apache-2.0 */
/* Large products on lavapipe: both operands are copied to panels first, in the order in which tiles load them, and one
 * shader (shaders/linear/cpu/matmul_packed.comp) then does for all sizes and transposes. */
#include "ops/linear/common/matmul.h"
#include "ops/linear/cpu/kernels.h"
#include "ops/linear/cpu/model.h"
#include "rf_shaders.h"

enum { LANES = 8, ROW_BITS = 5, ROWS = 1 << ROW_BITS, FOUR_BITS = 4, COLUMNS = 4 << FOUR_BITS };
/* Iterations of an invocation beside those over summands. */
enum { SHORT_LOOPS = 9 };

/* How a product is cut up: tiles of c and turns of four summands, and how many matrices either operand has. */
typedef struct packing {
    int64_t row_tiles, column_tiles, turns, matrices_a, matrices_b;
} packing;

static packing packing_of(const rf_matmul_geometry *g, const rf_op_call *call)
{
    return (packing){ .row_tiles = (int64_t)rf_div_up((uint64_t)g->m, ROWS),
                      .column_tiles = (int64_t)rf_div_up((uint64_t)g->n, COLUMNS),
                      .turns = rf_lanes_fours(g->k),
                      .matrices_a = rf_shape_count(call->in[0].shape) / (g->m * g->k),
                      .matrices_b = rf_shape_count(call->in[1].shape) / (g->n * g->k) };
}

/* Fours of the copies. */
static uint64_t size_a(const packing *s)
{
    return (uint64_t)(s->matrices_a * s->row_tiles * s->turns) * ROWS;
}

static uint64_t size_b(const packing *s)
{
    return (uint64_t)(s->matrices_b * s->column_tiles * s->turns) * COLUMNS;
}

/* ---- copies ---- */

static rf_result add_pack(rf_lanes_plan *p, rf_binding *io, rf_push_panel_pack push, int64_t matrices, uint64_t size,
                          bool turned)
{
    const rf_magic some = rf_magic_make(push.some), all = rf_magic_make(push.all),
                   stretches = rf_magic_make(push.stretches);
    push.magic_some = some.magic;
    push.shift_some = some.shift;
    push.magic_all = all.magic;
    push.shift_all = all.shift;
    push.magic_stretches = stretches.magic;
    push.shift_stretches = stretches.shift;
    push.matrix = push.lines * push.columns;
    push.line = push.columns;
    push.to_matrix = (int32_t)(size / (uint64_t)matrices);
    push.total = (uint32_t)(size / 4);
    const rf_binding to = rf_linear_workspace(p->plan, p->caps, size * 16);
    rf_dispatch *d = rf_kernel_plan_add(p->plan, &rf_shader_panel_pack, RF_NO_LOOPS);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, rf_local_size(p->caps, 128));
    rf_dispatch_spec(d, turned);
    rf_dispatch_spec(d, push.columns % 4 != 0);
    rf_linear_bind(d, *io, RF_VIEW_TEXEL_RGBA32F, false);
    rf_linear_bind(d, to, RF_VIEW_STORAGE, true);
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_items(d, p->caps, push.total);
    d->concurrent = p->plan->count > 1;
    *io = to;
    return RF_OK;
}

/* Lines of the copy are rows of op(a), their fours are of summands. */
static rf_result pack_a(rf_lanes_plan *p, const rf_matmul_geometry *g, const packing *s, rf_binding *io)
{
    const uint32_t tile = ROWS / 4, tiles = (uint32_t)s->row_tiles;
    const rf_push_panel_pack push = { .some = g->ta ? tiles * tile : tile,
                                      .all = (uint32_t)s->turns,
                                      .stretches = g->ta ? 1 : tiles,
                                      .lines_first = 1,
                                      .lines = (int32_t)(g->ta ? g->k : g->m),
                                      .columns = (int32_t)(g->ta ? g->m : g->k),
                                      .line_bits = ROW_BITS,
                                      .line_tile = (int32_t)s->turns * ROWS,
                                      .line_unit = 1,
                                      .four_tile = ROWS };
    return add_pack(p, io, push, s->matrices_a, size_a(s), g->ta);
}

/* Lines of the copy are summands, their fours are of columns. */
static rf_result pack_b(rf_lanes_plan *p, const rf_matmul_geometry *g, const packing *s, rf_binding *io)
{
    const uint32_t tile = 1u << FOUR_BITS, tiles = (uint32_t)s->column_tiles;
    const rf_push_panel_pack push = { .some = g->tb ? tile : tiles * tile,
                                      .all = (uint32_t)s->turns,
                                      .stretches = g->tb ? tiles : 1,
                                      .lines = (int32_t)(g->tb ? g->n : g->k),
                                      .columns = (int32_t)(g->tb ? g->k : g->n),
                                      .line_tile = 1 << FOUR_BITS,
                                      .four_bits = FOUR_BITS,
                                      .four_tile = (int32_t)(s->turns * 4) << FOUR_BITS,
                                      .four_unit = 1 };
    return add_pack(p, io, push, s->matrices_b, size_b(s), g->tb);
}

/* ---- the product ---- */

/* Faster than the lanes kernels once the copies are made, which take as long as some seventy products of each
 * element. */
double rf_matmul_packed_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_matmul_geometry g = rf_matmul_geometry_of(call);
    if (g.dim[0] > 1 || !rf_lanes_usable(&rf_lanes8_texel, call, caps, 1)) return RF_SCORE_NONE;
    const packing s = packing_of(&g, call);
    const uint64_t a = size_a(&s), b = size_b(&s), fours = a > b ? a : b;
    if (fours * 16 > caps->max_storage_range || fours > caps->max_texel_elements || fours > INT32_MAX / 4)
        return RF_SCORE_NONE;
    const double products = (double)(s.row_tiles * ROWS) * (double)(s.column_tiles * COLUMNS) * (double)s.turns * 4;
    return rf_score_of_time(
        rf_cpu_packed_seconds(caps, 2 * products * (double)g.batch, (double)(a + b) * 16, g.ta && !g.tb));
}

rf_result rf_matmul_packed_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                rf_kernel_plan *plan)
{
    const rf_matmul_geometry g = rf_matmul_geometry_of(call);
    const packing s = packing_of(&g, call);
    rf_lanes_plan p = { &rf_lanes8_texel, call, caps, plan };
    rf_binding a = rf_linear_input(call, 0), b = rf_linear_input(call, 1);
    RF_TRY(pack_a(&p, &g, &s, &a));
    RF_TRY(pack_b(&p, &g, &s, &b));
    const uint64_t tiles = (uint64_t)(s.row_tiles * s.column_tiles * g.batch);
    const uint64_t sums = g.bias_gradient ? (uint64_t)g.n : 0;
    const uint64_t count = rf_desc_count(&call->out[0]), stride = rf_align_up(count + sums, 4);
    int64_t parts = rf_linear_parts(tiles, 8, s.turns, 64, rf_loop_limit(caps) / 2);
    const int64_t split = (int64_t)rf_div_up((uint64_t)s.turns, (uint64_t)parts);
    parts = (int64_t)rf_div_up((uint64_t)s.turns, (uint64_t)split);
    rf_push_matmul_packed push = { .total = (int32_t)(tiles * (uint64_t)parts),
                                   .row_tiles = (int32_t)s.row_tiles,
                                   .column_tiles = (int32_t)s.column_tiles,
                                   .rows = (int32_t)g.m,
                                   .columns = (int32_t)g.n,
                                   .turns = (int32_t)s.turns,
                                   .split = (int32_t)split,
                                   .c_split = (int32_t)stride,
                                   .z_dim_1 = (int32_t)g.dim[2],
                                   .z_dim_2 = (int32_t)g.dim[3],
                                   .c_z = (int32_t)(g.m * g.n),
                                   .sums_at = parts > 1 ? (int32_t)count : 0 };
    const int64_t a_size = g.m * g.k, b_size = g.n * g.k;
    push.a_z0 = (int32_t)(g.a_stride[1] / a_size * s.row_tiles);
    push.a_z1 = (int32_t)(g.a_stride[2] / a_size * s.row_tiles);
    push.a_z2 = (int32_t)(g.a_stride[3] / a_size * s.row_tiles);
    push.b_z0 = (int32_t)(g.b_stride[1] / b_size * s.column_tiles);
    push.b_z1 = (int32_t)(g.b_stride[2] / b_size * s.column_tiles);
    push.b_z2 = (int32_t)(g.b_stride[3] / b_size * s.column_tiles);
    rf_dispatch *d = rf_kernel_plan_add(plan, &rf_shader_matmul_panels, (uint64_t)split + SHORT_LOOPS);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, LANES);
    rf_dispatch_spec(d, g.activation);
    rf_dispatch_spec(d, g.bias);
    rf_dispatch_spec(d, g.n % 4 == 0);
    rf_dispatch_spec(d, g.bias_gradient);
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_groups(d, caps, (uint64_t)push.total);
    rf_linear_bind(d, a, RF_VIEW_TEXEL_RGBA32F, false);
    rf_linear_bind(d, b, RF_VIEW_TEXEL_RGBA32F, false);
    rf_linear_bind(d, g.bias ? rf_linear_input(call, 2) : b, RF_VIEW_STORAGE, false);
    const rf_binding partial = rf_linear_bind_sums(d, plan, caps, parts, stride, 0);
    if (parts == 1) {
        rf_bind_whole(d, RF_BIND_OUTPUT, g.bias_gradient);
        return RF_OK;
    }
    rf_linear_bind(d, partial, RF_VIEW_STORAGE, true);
    return rf_linear_add_sum(plan, call, caps,
                             &(rf_linear_sum){ .partial = partial,
                                               .parts = parts,
                                               .stride = stride,
                                               .count = count + sums,
                                               .extra = sums,
                                               .columns = g.n,
                                               .activation = g.activation,
                                               .bias = g.bias });
}
