/* SPDX-License-Identifier: Apache-2.0 */
/* Attention where a subgroup is the lanes of a SIMD register: shaders/linear/attention_lanes.comp. */
#include "ops/linear/attention.h"
#include "ops/linear/lanes.h"
#include "rf_shaders.h"

typedef struct lanes_push {
    int32_t total, tiles, rows, others, width, value_width, other_fours, last_key;
    float scale;
    int32_t heads, mask_item, mask_head, mask_query, mask_key;
} lanes_push;
_Static_assert(sizeof(lanes_push) <= RF_MAX_PUSH, "push constants of attention_lanes.comp");

enum { LANES = 8, ROWS = 32, BLOCK = 4 * LANES, WIDEST = 64 };

static bool elements_fit(const rf_device_caps *caps, int64_t elements)
{
    return (uint64_t)elements * sizeof(float) <= caps->max_storage_range &&
           (uint64_t)elements <= caps->max_texel_elements;
}

/* Blocks of a walk, each with its loops over widths and lanes. */
static uint64_t count_loops(const rf_attention_geometry *g, int64_t others)
{
    const int64_t blocks = (others + BLOCK - 1) / BLOCK;
    return (uint64_t)(blocks * (g->k / 4 + g->v / 4 + 2 * LANES + 6) + 2);
}

static double lanes_score(const rf_op_call *call, const rf_device_caps *caps)
{
    const rf_attention_geometry g = rf_attention_geometry_of(call);
    const int64_t width = g.k > g.v ? g.k : g.v, rows = g.t > g.s ? g.t : g.s;
    if (caps->subgroup_size != LANES || !caps->full_subgroups || !caps->subgroup_shuffle) return RF_SCORE_NONE;
    if (g.k % 4 || g.v % 4 || width > WIDEST || count_loops(&g, rows) > rf_loop_limit(caps)) return RF_SCORE_NONE;
    /* With the longer lines of transposed matrices. */
    if (!elements_fit(caps, g.items * (rows + 3) * width)) return RF_SCORE_NONE;
    if (g.mask && !elements_fit(caps, rf_shape_count(call->in[g.mask].shape))) return RF_SCORE_NONE;
    const double score = caps->driver == RF_DRIVER_LAVAPIPE ? RF_SCORE_DRIVER : RF_SCORE_SHAPE;
    return score * (caps->is_cpu ? 1 : RF_SCORE_FOREIGN);
}

typedef struct lanes_pass {
    const rf_shader *shaders[2]; /* by groups of columns */
    int64_t rows, others, widest;
    uint32_t count;
    rf_binding bindings[RF_MAX_BINDINGS];
} lanes_pass;

static void bind_texels(lanes_pass *pass, rf_binding binding)
{
    binding.view = RF_VIEW_TEXEL_RGBA32F;
    binding.write = false;
    pass->bindings[pass->count++] = binding;
}

static void bind_mask(lanes_pass *pass, const rf_op_call *call, const rf_attention_geometry *g)
{
    rf_binding mask = rf_lanes_input(call, g->mask ? g->mask : g->query);
    mask.view = RF_VIEW_TEXEL_R32F;
    pass->bindings[pass->count++] = mask;
}

static void bind_storage(lanes_pass *pass, rf_binding binding, bool write)
{
    binding.write = write;
    pass->bindings[pass->count++] = binding;
}

static void bind_output(lanes_pass *pass, uint32_t index)
{
    bind_storage(pass, (rf_binding){ .kind = RF_BIND_OUTPUT, .index = index }, true);
}

static rf_result add_pass(rf_lanes_plan *p, const rf_attention_geometry *g, const lanes_pass *pass)
{
    const rf_shader *shader = pass->shaders[pass->widest > BLOCK];
    const int64_t tiles = (pass->rows + ROWS - 1) / ROWS;
    const lanes_push push = { .total = (int32_t)(g->items * tiles),
                              .tiles = (int32_t)tiles,
                              .rows = (int32_t)pass->rows,
                              .others = (int32_t)pass->others,
                              .width = (int32_t)(g->k / 4),
                              .value_width = (int32_t)(g->v / 4),
                              .other_fours = (int32_t)rf_lanes_fours(pass->others),
                              .last_key = (int32_t)rf_attention_last_key(g),
                              .scale = g->scale,
                              .heads = (int32_t)g->heads,
                              .mask_item = (int32_t)g->mask_item,
                              .mask_head = (int32_t)g->mask_head,
                              .mask_query = (int32_t)g->mask_query,
                              .mask_key = (int32_t)g->mask_key };
    rf_dispatch *d = rf_kernel_plan_add(p->plan, shader, count_loops(g, pass->others));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, LANES);
    rf_dispatch_spec(d, g->causal);
    rf_dispatch_spec(d, g->mask != 0);
    rf_dispatch_push(d, &push, sizeof(push));
    for (uint32_t i = 0; i < pass->count; i++) rf_bind(d, pass->bindings[i]);
    rf_dispatch_groups(d, p->caps, (uint64_t)push.total);
    return RF_OK;
}

/* Each item's [rows, width] as [width, rows]. */
static rf_result rows_transpose(rf_lanes_plan *p, const rf_attention_geometry *g, int64_t rows, int64_t width,
                                rf_binding *io)
{
    return rf_lanes_pack(p, io, (const int64_t[]){ g->items, 1, width, rows },
                         (const int64_t[]){ rows * width, 0, 1, width });
}

static const rf_lanes_set lanes8 = { .lanes = LANES, .texel = true, .shuffle = true };

static rf_result forward_plan(const rf_op_call *call, const rf_device_caps *caps, rf_kernel_plan *plan)
{
    const rf_attention_geometry g = rf_attention_geometry_of(call);
    rf_lanes_plan p = { &lanes8, call, caps, plan };
    rf_binding keys = rf_lanes_input(call, 1);
    RF_TRY(rows_transpose(&p, &g, g.s, g.k, &keys));
    lanes_pass pass = { .shaders = { &rf_shader_attention_lanes8_forward_1, &rf_shader_attention_lanes8_forward_2 },
                        .rows = g.t,
                        .others = g.s,
                        .widest = g.v };
    bind_texels(&pass, rf_lanes_input(call, 0));
    bind_texels(&pass, keys);
    bind_texels(&pass, rf_lanes_input(call, 2));
    bind_mask(&pass, call, &g);
    bind_output(&pass, 0);
    bind_output(&pass, 1);
    return add_pass(&p, &g, &pass);
}

/* Operands of the gradients: dout, query, key, value; in rows, and with columns for rows. */
typedef struct gradient_operands {
    rf_binding slope, query, key, value, lse, delta;
} gradient_operands;

static lanes_pass gradient_pass(const rf_op_call *call, const rf_attention_geometry *g, const gradient_operands *rows,
                                const gradient_operands *columns, bool keys)
{
    lanes_pass pass = { .shaders = { &rf_shader_attention_lanes8_queries_1, &rf_shader_attention_lanes8_queries_2 },
                        .rows = keys ? g->s : g->t,
                        .others = keys ? g->t : g->s,
                        .widest = keys && g->v > g->k ? g->v : g->k };
    if (keys) {
        pass.shaders[0] = &rf_shader_attention_lanes8_keys_1;
        pass.shaders[1] = &rf_shader_attention_lanes8_keys_2;
    }
    bind_texels(&pass, keys ? rows->key : rows->query);
    bind_texels(&pass, keys ? columns->query : columns->key);
    bind_texels(&pass, keys ? rows->value : rows->slope);
    bind_texels(&pass, keys ? columns->slope : columns->value);
    bind_texels(&pass, keys ? rows->query : rows->key);
    bind_mask(&pass, call, g);
    bind_storage(&pass, rows->lse, false);
    bind_storage(&pass, rows->delta, false);
    bind_output(&pass, keys ? 1 : 0);
    if (keys) {
        bind_texels(&pass, rows->slope);
        bind_output(&pass, 2);
    }
    return pass;
}

static rf_result gradient_plan(const rf_op_call *call, const rf_device_caps *caps, rf_kernel_plan *plan)
{
    const rf_attention_geometry g = rf_attention_geometry_of(call);
    rf_lanes_plan p = { &lanes8, call, caps, plan };
    gradient_operands rows = { .slope = rf_lanes_input(call, 0),
                               .query = rf_lanes_input(call, 1),
                               .key = rf_lanes_input(call, 2),
                               .value = rf_lanes_input(call, 3),
                               .lse = rf_lanes_input(call, 5) };
    gradient_operands columns = rows;
    RF_TRY(rows_transpose(&p, &g, g.t, g.v, &columns.slope));
    RF_TRY(rows_transpose(&p, &g, g.t, g.k, &columns.query));
    RF_TRY(rows_transpose(&p, &g, g.s, g.k, &columns.key));
    RF_TRY(rows_transpose(&p, &g, g.s, g.v, &columns.value));
    rows.delta = rf_lanes_workspace(&p, (uint64_t)(g.items * g.t) * sizeof(float));
    rows.delta.write = true;
    RF_TRY(rf_attention_plan_delta(&g, caps, &rows.delta, plan));
    for (int keys = 0; keys < 2; keys++) {
        const lanes_pass pass = gradient_pass(call, &g, &rows, &columns, keys);
        RF_TRY(add_pass(&p, &g, &pass));
    }
    return RF_OK;
}

const rf_kernel rf_attention_lanes8 = { .name = "lanes8", .score = lanes_score, .plan = forward_plan };
const rf_kernel rf_attention_grad_lanes8 = { .name = "lanes8", .score = lanes_score, .plan = gradient_plan };

/* The gradient computes scores again, which costs what leaving out the upper half saves: a training step is faster
 * where order counts and there are several tiles (`ringfire bench attention`). Otherwise the scores may take this much.
 */
enum { LEAST_PAIRS = 192 * 192, MOST_SCORE_BYTES = 1 << 28 };

bool rf_attention_pays(const rf_op_call *call, const rf_device_caps *caps)
{
    const rf_attention_geometry g = rf_attention_geometry_of(call);
    if (caps->driver != RF_DRIVER_LAVAPIPE || g.t * g.s < LEAST_PAIRS) return false;
    if (!g.causal && g.items * g.t * g.s * (int64_t)sizeof(float) < MOST_SCORE_BYTES) return false;
    return rf_attention_lanes8.score(call, caps) > RF_SCORE_NONE;
}
