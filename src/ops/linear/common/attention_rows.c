/* SPDX-License-Identifier: Apache-2.0 */
/* Attention for any shape: shaders/linear/common/attention_rows.comp. Slow, and there for what no other kernel can do.
 */
#include "ops/linear/common/attention.h"
#include "rf_shaders.h"

enum { FLAG_FIRST = 1, FLAG_LAST = 2, MAX_TENSORS = 9 };

typedef enum rows_side { SIDE_OWN, SIDE_OTHER, SIDE_MASK } rows_side;
typedef struct rows_tensor {
    rf_binding binding; /* of all of it; the offset is that of the tensor in a workspace */
    rows_side side;
    int64_t width;
} rows_tensor;

/* One of the shader's passes over all items. */
typedef struct rows_pass {
    const rf_attention_geometry *g;
    const rf_shader *shader;
    int64_t own, other; /* rows of an item */
    int64_t per_other;  /* iterations for each row walked, */
    int64_t once;       /* and for each dispatch */
    bool option;        /* there is a mask */
    uint32_t count;
    rows_tensor tensors[MAX_TENSORS];
} rows_pass;

static void add_tensor(rows_pass *p, rf_binding binding, rows_side side, int64_t width)
{
    p->tensors[p->count++] = (rows_tensor){ binding, side, width };
}

static void add_input(rows_pass *p, uint32_t index, rows_side side, int64_t width)
{
    add_tensor(p, (rf_binding){ .kind = RF_BIND_INPUT, .index = index }, side, width);
}

static void add_mask(rows_pass *p)
{
    add_input(p, p->g->mask ? p->g->mask : p->g->query, SIDE_MASK, 0);
}

static void add_output(rows_pass *p, uint32_t index, int64_t width)
{
    add_tensor(p, (rf_binding){ .kind = RF_BIND_OUTPUT, .index = index, .write = true }, SIDE_OWN, width);
}

/* Items and rows that one dispatch takes. */
typedef struct rows_step {
    int64_t items, own, other;
} rows_step;

/* As many whole items as descriptors span, or as many rows of one; and no longer walks than the device allows. */
static bool make_step(const rows_pass *p, const rf_device_caps *caps, rows_step *step)
{
    const int64_t room = (int64_t)((caps->max_storage_range - caps->buffer_alignment) / sizeof(float));
    const int64_t longest = ((int64_t)rf_min(rf_loop_limit(caps), INT32_MAX) - p->once) / p->per_other;
    int64_t own_width = 1, other_width = 1;
    for (uint32_t i = 0; i < p->count; i++) {
        const rows_tensor *t = &p->tensors[i];
        if (t->side == SIDE_OWN && t->width > own_width) own_width = t->width;
        if (t->side == SIDE_OTHER && t->width > other_width) other_width = t->width;
    }
    const int64_t own_item = p->own * own_width, other_item = p->other * other_width;
    const int64_t items = room / (own_item > other_item ? own_item : other_item);
    *step = (rows_step){ .items = items < 1             ? 1
                                  : items < p->g->items ? items
                                                        : p->g->items,
                         .own = items < 1 && p->own > room / own_width ? room / own_width : p->own,
                         .other = items < 1 && p->other > room / other_width ? room / other_width : p->other };
    if (step->other > longest) step->other = longest;
    return step->own > 0 && step->other > 0 && step->items * step->own <= INT32_MAX / 4;
}

static rf_result add_dispatch(const rows_pass *p, const rf_device_caps *caps, const rows_step *size, int64_t item,
                              int64_t own, int64_t other, rf_kernel_plan *plan)
{
    const rf_attention_geometry *g = p->g;
    const rows_step here = { .items = (int64_t)rf_min((uint64_t)size->items, (uint64_t)(g->items - item)),
                             .own = (int64_t)rf_min((uint64_t)size->own, (uint64_t)(p->own - own)),
                             .other = (int64_t)rf_min((uint64_t)size->other, (uint64_t)(p->other - other)) };
    rf_push_attention_rows push = { .items = (uint32_t)here.items,
                                    .first_item = (uint32_t)item,
                                    .heads = (uint32_t)g->heads,
                                    .width = (uint32_t)g->k,
                                    .value_width = (uint32_t)g->v,
                                    .own = (uint32_t)here.own,
                                    .own_first = (uint32_t)own,
                                    .own_rows = (uint32_t)p->own,
                                    .other = (uint32_t)here.other,
                                    .other_first = (uint32_t)other,
                                    .other_rows = (uint32_t)p->other,
                                    .last_key = (int32_t)rf_attention_last_key(g),
                                    .scale = g->scale,
                                    .flags = (other == 0 ? FLAG_FIRST : 0) |
                                             (other + here.other == p->other ? FLAG_LAST : 0),
                                    .mask_item = (uint32_t)g->mask_item,
                                    .mask_head = (uint32_t)g->mask_head,
                                    .mask_query = (uint32_t)g->mask_query,
                                    .mask_key = (uint32_t)g->mask_key };
    rf_dispatch *d = rf_kernel_plan_add(plan, p->shader, (uint64_t)(here.other * p->per_other + p->once));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, rf_local_size(caps, caps->is_cpu ? 16 : 64));
    rf_dispatch_spec(d, g->causal);
    rf_dispatch_spec(d, p->option);
    for (uint32_t i = 0; i < p->count; i++) {
        const rows_tensor *t = &p->tensors[i];
        if (t->side == SIDE_MASK && g->mask) {
            rf_bind_whole(d, RF_BIND_INPUT, g->mask);
            continue;
        }
        /* Without a mask whatever comes first takes its place. */
        const rows_tensor *of = t->side == SIDE_MASK ? &p->tensors[0] : t;
        const int64_t rows = of->side == SIDE_OWN ? p->own : p->other, from = of->side == SIDE_OWN ? own : other;
        const int64_t count = (here.items - 1) * rows + (of->side == SIDE_OWN ? here.own : here.other);
        const uint64_t first = of->binding.offset / sizeof(float) + (uint64_t)((item * rows + from) * of->width);
        push.base[i] =
            rf_bind_elements(d, caps, of->binding.kind, of->binding.index, first, (uint64_t)(count * of->width));
        d->bind[i].write = t->side != SIDE_MASK && of->binding.write;
    }
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_items(d, caps, (uint64_t)(here.items * here.own));
    return RF_OK;
}

static rf_result plan_pass(const rows_pass *p, const rf_device_caps *caps, rf_kernel_plan *plan)
{
    rows_step step;
    if (!make_step(p, caps, &step)) return RF_FAIL(RF_ERROR_INTERNAL, "attention: kernel is not eligible");
    for (int64_t item = 0; item < p->g->items; item += step.items)
        for (int64_t own = 0; own < p->own; own += step.own)
            for (int64_t other = 0; other < p->other; other += step.other)
                RF_TRY(add_dispatch(p, caps, &step, item, own, other, plan));
    return RF_OK;
}

/* ---- the passes ---- */

static rows_pass stats_pass(const rf_attention_geometry *g)
{
    rows_pass p = { .g = g,
                    .shader = &rf_shader_attention_rows_stats,
                    .option = g->mask != 0,
                    .own = g->t,
                    .other = g->s,
                    .per_other = g->k + 3,
                    .once = 2 };
    add_input(&p, 0, SIDE_OWN, g->k);
    add_input(&p, 1, SIDE_OTHER, g->k);
    add_mask(&p);
    add_output(&p, 1, 2);
    return p;
}

static rows_pass output_pass(const rf_attention_geometry *g)
{
    rows_pass p = { .g = g,
                    .shader = &rf_shader_attention_rows_output,
                    .option = g->mask != 0,
                    .own = g->t,
                    .other = g->s,
                    .per_other = g->k + g->v + 4,
                    .once = g->v + 2 };
    add_input(&p, 0, SIDE_OWN, g->k);
    add_input(&p, 1, SIDE_OTHER, g->k);
    add_mask(&p);
    add_input(&p, 2, SIDE_OTHER, g->v);
    add_tensor(&p, (rf_binding){ .kind = RF_BIND_OUTPUT, .index = 1 }, SIDE_OWN, 2);
    add_output(&p, 0, g->v);
    return p;
}

static rows_pass delta_pass(const rf_attention_geometry *g, const rf_binding *to)
{
    rows_pass p = {
        .g = g, .shader = &rf_shader_attention_rows_delta, .own = g->t, .other = 1, .per_other = g->v + 2, .once = 1
    };
    add_input(&p, 0, SIDE_OWN, g->v);
    add_input(&p, 4, SIDE_OWN, g->v);
    add_tensor(&p, *to, SIDE_OWN, 1);
    return p;
}

static rows_pass gradient_pass(const rf_attention_geometry *g, bool keys, const rf_binding *delta)
{
    rf_binding read = *delta;
    read.write = false;
    const rows_side query = keys ? SIDE_OTHER : SIDE_OWN, key = keys ? SIDE_OWN : SIDE_OTHER;
    rows_pass p = { .g = g,
                    .shader = keys ? &rf_shader_attention_rows_keys : &rf_shader_attention_rows_queries,
                    .option = g->mask != 0,
                    .own = keys ? g->s : g->t,
                    .other = keys ? g->t : g->s,
                    .per_other = 2 * g->k + g->v + 6,
                    .once = g->k + g->v + 4 };
    add_input(&p, g->query, query, g->k);
    add_input(&p, g->query + 1, key, g->k);
    add_mask(&p);
    add_input(&p, g->query + 2, key, g->v);
    add_input(&p, 0, query, g->v);
    add_input(&p, 5, query, 2);
    add_tensor(&p, read, query, 1);
    add_output(&p, keys ? 1 : 0, g->k);
    if (keys) add_output(&p, 2, g->v);
    return p;
}

static const rf_binding delta_place = { .kind = RF_BIND_WORKSPACE, .write = true };

static bool mask_fits(const rf_op_call *call, const rf_attention_geometry *g, const rf_device_caps *caps)
{
    return !g->mask || rf_tensor_bytes(&call->in[g->mask]) <= caps->max_storage_range;
}

double rf_attention_rows_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_attention_geometry g = rf_attention_geometry_of(call, false);
    const rows_pass stats = stats_pass(&g), output = output_pass(&g);
    rows_step step;
    const bool fits = mask_fits(call, &g, caps) && make_step(&stats, caps, &step) && make_step(&output, caps, &step);
    return fits ? RF_SCORE_ANY : RF_SCORE_NONE;
}

double rf_attention_grad_rows_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_attention_geometry g = rf_attention_geometry_of(call, true);
    const rows_pass delta = delta_pass(&g, &delta_place), queries = gradient_pass(&g, false, &delta_place);
    const rows_pass keys = gradient_pass(&g, true, &delta_place);
    rows_step step;
    const bool fits = mask_fits(call, &g, caps) && make_step(&delta, caps, &step) && make_step(&queries, caps, &step) &&
                      make_step(&keys, caps, &step);
    return fits ? RF_SCORE_ANY : RF_SCORE_NONE;
}

rf_result rf_attention_rows_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                 rf_kernel_plan *plan)
{
    const rf_attention_geometry g = rf_attention_geometry_of(call, false);
    const rows_pass stats = stats_pass(&g), output = output_pass(&g);
    RF_TRY(plan_pass(&stats, caps, plan));
    return plan_pass(&output, caps, plan);
}

rf_result rf_attention_grad_rows_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                      rf_kernel_plan *plan)
{
    const rf_attention_geometry g = rf_attention_geometry_of(call, true);
    const rows_pass delta = delta_pass(&g, &delta_place);
    plan->workspace = (uint64_t)(g.items * g.t) * sizeof(float);
    RF_TRY(plan_pass(&delta, caps, plan));
    for (int keys = 0; keys < 2; keys++) {
        const rows_pass pass = gradient_pass(&g, keys, &delta_place);
        RF_TRY(plan_pass(&pass, caps, plan));
    }
    return RF_OK;
}
