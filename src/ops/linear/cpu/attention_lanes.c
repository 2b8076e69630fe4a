/* SPDX-License-Identifier: Apache-2.0 */
/* Attention where a subgroup is the lanes of a SIMD register: shaders/linear/cpu/attention_lanes.comp. */
#include "ops/linear/common/attention.h"
#include "ops/linear/cpu/kernels.h"
#include "ops/linear/cpu/lanes.h"
#include "rf_shaders.h"

enum { LANES = 8, ROWS = 4 * LANES, COLUMNS = 4 * LANES, WIDEST = 2 * COLUMNS };

static bool elements_fit(const rf_device_caps *caps, int64_t elements)
{
    return (uint64_t)elements * sizeof(float) <= caps->max_storage_range &&
           (uint64_t)elements <= caps->max_texel_elements;
}

/* Walks go over four rows, or columns, at a time; results are written in turns, four columns of four rows in each. */
static uint64_t count_loops(int64_t others)
{
    return (uint64_t)others / 4 + 2 + WIDEST / 4;
}

/* The gradient takes so much at a time: items, and keys of each. Their weights lie in the workspace, which grows with
 * the number of queries alone. */
typedef struct gradient_chunk {
    int64_t items, keys;
} gradient_chunk;

/* As many workgroups as keep a CPU's cores busy to the end. No items: the device cannot hold the smallest chunk. */
static gradient_chunk choose_chunk(const rf_attention_geometry *g, const rf_device_caps *caps)
{
    enum { ENOUGH = 64 * ROWS, MOST_KEYS = 512 };
    const int64_t all = (int64_t)rf_align_up((uint64_t)g->s, ROWS);
    const int64_t wanted = ENOUGH / g->items / ROWS * ROWS;
    const int64_t keys = wanted > MOST_KEYS ? wanted : MOST_KEYS;
    gradient_chunk c = { .items = g->items, .keys = keys < all ? keys : all };
    if (c.items > ENOUGH / c.keys) c.items = ENOUGH / c.keys;
    while (c.items > 1 && !elements_fit(caps, c.items * g->t * c.keys)) c.items--;
    while (c.keys > ROWS && !elements_fit(caps, c.items * g->t * c.keys)) c.keys -= ROWS;
    if (!elements_fit(caps, c.items * g->t * c.keys)) c.items = 0;
    return c;
}

double rf_attention_lanes_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_attention_geometry g = rf_attention_geometry_of(call, data && *(const bool *)data);
    const int64_t width = g.k > g.v ? g.k : g.v, rows = g.t > g.s ? g.t : g.s;
    if (caps->subgroup_size != LANES || !caps->full_subgroups || !caps->subgroup_shuffle || !caps->int64)
        return RF_SCORE_NONE;
    if (g.k % 4 || g.v % 4 || width > WIDEST || count_loops(rows) > rf_loop_limit(caps)) return RF_SCORE_NONE;
    if (!elements_fit(caps, g.items * rows * width)) return RF_SCORE_NONE;
    if (g.mask && !elements_fit(caps, rf_shape_count(call->in[g.mask].shape))) return RF_SCORE_NONE;
    if (g.gradient && choose_chunk(&g, caps).items == 0) return RF_SCORE_NONE;
    return caps->driver == RF_DRIVER_LAVAPIPE ? RF_SCORE_DRIVER : RF_SCORE_SHAPE;
}

typedef struct lanes_pass {
    const rf_shader *shaders[2]; /* by groups of columns */
    int64_t rows, others, width, value_width;
    int64_t first_item, items;
    int64_t first, past;     /* rows of an item, of those of the dispatch */
    int64_t first_key, keys; /* whose weights the workspace holds */
    uint32_t option;         /* 1: there is a mask, 2: for keys alone */
    uint32_t count;
    rf_binding bindings[RF_MAX_BINDINGS];
} lanes_pass;

static void bind_texels(lanes_pass *pass, rf_binding binding)
{
    binding.view = RF_VIEW_TEXEL_RGBA32F;
    binding.write = false;
    pass->bindings[pass->count++] = binding;
}

static void bind_floats(lanes_pass *pass, rf_binding binding)
{
    binding.view = RF_VIEW_TEXEL_R32F;
    binding.write = false;
    pass->bindings[pass->count++] = binding;
}

static void bind_mask(lanes_pass *pass, const rf_op_call *call, const rf_attention_geometry *g)
{
    pass->option = !g->mask ? 0 : g->mask_query ? 1 : 2;
    bind_floats(pass, rf_linear_input(call, g->mask ? g->mask : g->query));
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
    const rf_shader *shader = pass->shaders[pass->width > COLUMNS || pass->value_width > COLUMNS];
    const int64_t tiles = (pass->past - pass->first + ROWS - 1) / ROWS;
    const rf_push_attention_lanes push = { .total = (int32_t)(pass->items * tiles),
                                           .tiles = (int32_t)tiles,
                                           .rows = (int32_t)pass->rows,
                                           .others = (int32_t)pass->others,
                                           .width = (int32_t)(pass->width / 4),
                                           .value_width = (int32_t)(pass->value_width / 4),
                                           .last_key = (int32_t)rf_attention_last_key(g),
                                           .scale = g->scale,
                                           .heads = (int32_t)g->heads,
                                           .mask_item = (int32_t)g->mask_item,
                                           .mask_head = (int32_t)g->mask_head,
                                           .mask_query = (int32_t)g->mask_query,
                                           .mask_key = (int32_t)g->mask_key,
                                           .first_item = (int32_t)pass->first_item,
                                           .first_tile = (int32_t)(pass->first / ROWS),
                                           .first_key = (int32_t)pass->first_key,
                                           .keys = (int32_t)pass->keys };
    rf_dispatch *d = rf_kernel_plan_add(p->plan, shader, count_loops(pass->others));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, LANES);
    rf_dispatch_spec(d, g->causal);
    rf_dispatch_spec(d, pass->option);
    rf_dispatch_push(d, &push, sizeof(push));
    for (uint32_t i = 0; i < pass->count; i++) rf_bind(d, pass->bindings[i]);
    rf_dispatch_groups(d, p->caps, (uint64_t)push.total);
    return RF_OK;
}

static const rf_lanes_set lanes8 = { .lanes = LANES, .texel = true, .shuffle = true };

rf_result rf_attention_lanes_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                  rf_kernel_plan *plan)
{
    const rf_attention_geometry g = rf_attention_geometry_of(call, false);
    rf_lanes_plan p = { &lanes8, call, caps, plan };
    lanes_pass pass = { .shaders = { &rf_shader_attention_lanes8_forward_1, &rf_shader_attention_lanes8_forward_2 },
                        .rows = g.t,
                        .others = g.s,
                        .width = g.k,
                        .value_width = g.v,
                        .items = g.items,
                        .past = g.t };
    for (uint32_t i = 0; i < 3; i++) bind_texels(&pass, rf_linear_input(call, i));
    bind_mask(&pass, call, &g);
    bind_output(&pass, 0);
    bind_output(&pass, 1);
    return add_pass(&p, &g, &pass);
}

typedef struct gradient_operands {
    rf_binding slope, query, key, value, sums, delta;
    rf_binding weights; /* then the gradients through the scores */
} gradient_operands;

/* A row in each lane. */
static rf_result add_delta(rf_lanes_plan *p, const rf_attention_geometry *g, const gradient_operands *o)
{
    const int64_t rows = g->items * g->t;
    lanes_pass pass = { .shaders = { &rf_shader_attention_lanes8_delta, &rf_shader_attention_lanes8_delta },
                        .rows = rows,
                        .others = g->v, /* what it walks */
                        .width = g->v,
                        .items = 1,
                        .past = (rows + LANES - 1) / LANES * ROWS };
    bind_texels(&pass, o->slope);
    bind_texels(&pass, rf_linear_input(p->call, 4));
    bind_storage(&pass, o->delta, true);
    return add_pass(p, g, &pass);
}

/* The pass over a chunk's keys, or values, which are its rows. */
static lanes_pass pass_of_keys(const rf_attention_geometry *g, const lanes_pass *chunk)
{
    lanes_pass pass = *chunk;
    pass.rows = g->s;
    pass.others = g->t;
    pass.first = pass.first_key;
    pass.past = pass.first_key + pass.keys < g->s ? pass.first_key + pass.keys : g->s;
    return pass;
}

static rf_result add_values(rf_lanes_plan *p, const rf_attention_geometry *g, const gradient_operands *o,
                            const lanes_pass *chunk)
{
    lanes_pass pass = pass_of_keys(g, chunk);
    pass.shaders[0] = &rf_shader_attention_lanes8_values_1;
    pass.shaders[1] = &rf_shader_attention_lanes8_values_2;
    pass.width = g->k;
    pass.value_width = g->v;
    bind_texels(&pass, o->key);
    bind_texels(&pass, o->query);
    bind_texels(&pass, o->slope);
    bind_mask(&pass, p->call, g);
    bind_output(&pass, 2);
    bind_floats(&pass, o->sums);
    bind_storage(&pass, o->weights, true);
    return add_pass(p, g, &pass);
}

/* Scores are those of values and slopes here, and what is made of them the gradient of keys. */
static rf_result add_keys(rf_lanes_plan *p, const rf_attention_geometry *g, const gradient_operands *o,
                          const lanes_pass *chunk)
{
    lanes_pass pass = pass_of_keys(g, chunk);
    pass.shaders[0] = &rf_shader_attention_lanes8_keys_1;
    pass.shaders[1] = &rf_shader_attention_lanes8_keys_2;
    pass.width = g->v;
    pass.value_width = g->k;
    bind_texels(&pass, o->value);
    bind_texels(&pass, o->slope);
    bind_texels(&pass, o->query);
    bind_mask(&pass, p->call, g);
    bind_output(&pass, 1);
    bind_floats(&pass, o->delta);
    bind_storage(&pass, o->weights, true);
    bind_texels(&pass, o->weights);
    return add_pass(p, g, &pass);
}

/* The first keys start the sums of all queries; with others those queries are left out that attend to none of them. */
static rf_result add_queries(rf_lanes_plan *p, const rf_attention_geometry *g, const gradient_operands *o,
                             const lanes_pass *chunk)
{
    lanes_pass pass = *chunk;
    const int64_t attends = g->causal && pass.first_key > 0 ? pass.first_key - rf_attention_last_key(g) : 0;
    pass.shaders[0] = &rf_shader_attention_lanes8_queries_1;
    pass.shaders[1] = &rf_shader_attention_lanes8_queries_2;
    pass.rows = g->t;
    pass.others = g->s;
    pass.width = pass.value_width = g->k;
    pass.first = attends > 0 ? attends / ROWS * ROWS : 0;
    pass.past = g->t;
    bind_texels(&pass, o->weights);
    bind_texels(&pass, o->key);
    bind_output(&pass, 0);
    bind_texels(&pass, (rf_binding){ .kind = RF_BIND_OUTPUT });
    return add_pass(p, g, &pass);
}

rf_result rf_attention_grad_lanes_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                       rf_kernel_plan *plan)
{
    const rf_attention_geometry g = rf_attention_geometry_of(call, true);
    rf_lanes_plan p = { &lanes8, call, caps, plan };
    const gradient_chunk chunk = choose_chunk(&g, caps);
    gradient_operands o = { .slope = rf_linear_input(call, 0),
                            .query = rf_linear_input(call, 1),
                            .key = rf_linear_input(call, 2),
                            .value = rf_linear_input(call, 3),
                            .sums = rf_linear_input(call, 5) };
    o.delta = rf_linear_workspace(p.plan, p.caps, (uint64_t)(g.items * g.t) * sizeof(float));
    RF_TRY(add_delta(&p, &g, &o));
    o.weights = rf_linear_workspace(p.plan, p.caps, (uint64_t)(chunk.items * g.t * chunk.keys) * sizeof(float));
    for (int64_t item = 0; item < g.items; item += chunk.items)
        for (int64_t key = 0; key < g.s; key += chunk.keys) {
            const lanes_pass pass = { .first_item = item,
                                      .items = chunk.items < g.items - item ? chunk.items : g.items - item,
                                      .first_key = key,
                                      .keys = chunk.keys };
            RF_TRY(add_values(&p, &g, &o, &pass));
            RF_TRY(add_keys(&p, &g, &o, &pass));
            RF_TRY(add_queries(&p, &g, &o, &pass));
        }
    return RF_OK;
}
