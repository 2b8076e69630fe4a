/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of gather by lists of places, one for each choice. */
#include "ops/pointwise/common/gather_grad.h"
#include "ops/pointwise/cpu/kernels.h"
#include "ops/pointwise/cpu/model.h"

#define SPAN 4          /* vectors of an invocation, which looks up a list once for all of them */
#define SPAN_LEAST 1024 /* invocations that this must leave */
#define MOST_PARTS 4    /* of lists that subgroups make */

/* How the lists are added: in vectors of so many elements, so many of them an invocation. */
typedef struct list_form {
    uint32_t width, span;
} list_form;

typedef struct listing {
    uint64_t count, keys; /* of places; of choices that they may take */
    list_form form;
    bool few;             /* go through the places, over zeros */
    uint64_t parts, part; /* parts that have lists of their own, places of each */
    uint64_t next, end;   /* offsets; heads stand first */
} listing;

/* The form for so many rows that have invocations. */
static list_form form_of(uint64_t rows, const listing *l, uint64_t outer, const rf_device_caps *caps,
                         const rf_gather_shape *all)
{
    list_form f = { .width = rf_gather_width(all, all->places, caps), .span = 1 };
    const uint64_t texels = caps->max_texel_elements, room = caps->buffer_alignment / sizeof(uint32_t);
    if (f.width == 8 && (MOST_PARTS * l->keys > texels || l->count + room > texels)) f.width = 4;
    if (f.width == 8 && all->inner % (8 * SPAN) == 0 && rows * outer * all->inner / 8 / SPAN >= SPAN_LEAST)
        f.span = SPAN;
    return f;
}

static listing listing_of(const rf_gather_chunk *chunk, const rf_device_caps *caps, const rf_gather_shape *all)
{
    const rf_gather_shape *n = &chunk->size;
    const uint64_t lanes = 2ull * caps->subgroup_size;
    listing l = { .count = n->batch * n->places, .keys = n->batch * n->choices };
    l.few = 2 * l.count <= l.keys;
    l.form = form_of(l.few ? l.count : l.keys, &l, n->outer, caps, all);
    /* Every choice asks each part, which must not take longer than adding. */
    const uint64_t parts = l.form.width == 8 ? MOST_PARTS : lanes;
    l.parts = l.keys * parts <= l.count ? parts : 1;
    l.part = rf_div_up(l.count, l.parts);
    l.next = rf_align_up(l.parts * l.keys * sizeof(uint32_t), caps->buffer_alignment);
    l.end = l.next + rf_align_up(l.count * sizeof(uint32_t), caps->buffer_alignment);
    return l;
}

static uint64_t list_loops(const listing *l)
{
    return l->parts + l->count + 2;
}

/* One invocation makes a whole list, which only a processor does in good time. */
double rf_gather_lists_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_gather_shape all = rf_gather_grad_shape(call), size = rf_gather_chunk_size(&all, caps, 1);
    rf_gather_chunk chunk = { 0 };
    if (!caps->is_cpu || size.choices == 0 || size.places == 0) return RF_SCORE_NONE;
    (void)rf_gather_chunk_next(&all, &size, &chunk); /* the largest */
    const listing l = listing_of(&chunk, caps, &all);
    if (list_loops(&l) > rf_loop_limit(caps)) return RF_SCORE_NONE;
    const double bytes = (double)rf_tensor_bytes(&call->out[0]) + (double)rf_tensor_bytes(&call->in[0]);
    return rf_score_of_time(rf_gather_lists_seconds(l.form.width == 8, (double)l.part, bytes));
}

static void bind_lists(rf_dispatch *d, const listing *l, bool write)
{
    rf_gather_bind_work(d, 0, l->parts * l->keys * sizeof(uint32_t), write);
    rf_gather_bind_work(d, l->next, l->count * sizeof(uint32_t), write);
}

/* The shader that makes the lists of a part, and by how many invocations. */
static const rf_shader *list_maker(const listing *l, const rf_device_caps *caps, uint32_t *lanes)
{
    static const rf_shader *const texel[2][2] = {
        { &rf_shader_gather_list_lanes8, &rf_shader_gather_list_lanes16 },
        { &rf_shader_gather_few_list_lanes8, &rf_shader_gather_few_list_lanes16 },
    };
    *lanes = l->form.width == 8 ? caps->subgroup_size : 1;
    if (l->form.width == 8) return texel[l->few][caps->subgroup_size != 8];
    return l->few ? &rf_shader_gather_few_list : &rf_shader_gather_list;
}

static rf_result make_lists_plan(const listing *l, const rf_device_caps *caps, const rf_gather_shape *all,
                                 const rf_gather_chunk *chunk, rf_kernel_plan *plan)
{
    const rf_magic by_place = rf_magic_make((uint32_t)chunk->size.places);
    const uint64_t heads = l->parts * l->keys;
    rf_push_gather_list push = { .count = (uint32_t)(l->few ? l->count : heads),
                                 .places = (uint32_t)chunk->size.places,
                                 .places_magic = by_place.magic,
                                 .places_shift = by_place.shift,
                                 .first = (uint32_t)chunk->choice,
                                 .choices = (uint32_t)chunk->size.choices,
                                 .keys = (uint32_t)l->keys,
                                 .parts = (uint32_t)l->parts,
                                 .part_size = (uint32_t)l->part };
    uint32_t lanes;
    const rf_shader *make = list_maker(l, caps, &lanes);
    for (int clear = !l->few; clear >= 0; clear--, push.count = (uint32_t)l->count) {
        rf_dispatch *d =
            rf_kernel_plan_add(plan, clear ? &rf_shader_gather_list_clear : make, clear ? RF_NO_LOOPS : l->part + 1);
        if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
        rf_dispatch_spec(d, clear ? rf_gather_grad_local(caps) : rf_local_size(caps, caps->subgroup_size));
        if (!clear && lanes > 1) rf_dispatch_spec(d, lanes);
        push.indices_offset = rf_gather_bind_indices(d, caps, all, chunk);
        bind_lists(d, l, true);
        rf_dispatch_push(d, &push, sizeof(push));
        rf_dispatch_items(d, caps, clear ? heads : l->parts * lanes);
    }
    return RF_OK;
}

static const rf_shader *list_shader(const listing *l, const rf_device_caps *caps)
{
    static const rf_shader *const texel[2][2][2] = {
        { { &rf_shader_gather_lists_texel8, &rf_shader_gather_lists_texel16 },
          { &rf_shader_gather_lists_span4_texel8, &rf_shader_gather_lists_span4_texel16 } },
        { { &rf_shader_gather_few_lists_texel8, &rf_shader_gather_few_lists_texel16 },
          { &rf_shader_gather_few_lists_span4_texel8, &rf_shader_gather_few_lists_span4_texel16 } },
    };
    static const rf_shader *const others[2][2] = {
        { &rf_shader_gather_lists_w1, &rf_shader_gather_lists_w4 },
        { &rf_shader_gather_few_lists_w1, &rf_shader_gather_few_lists_w4 },
    };
    return l->form.width == 8 ? texel[l->few][l->form.span > 1][caps->subgroup_size != 8]
                              : others[l->few][l->form.width == 4];
}

static rf_result add_lists_plan(const listing *l, const rf_device_caps *caps, const rf_gather_shape *all,
                                const rf_gather_chunk *chunk, rf_kernel_plan *plan)
{
    const list_form f = l->form;
    const rf_push_gather_grad sizes = rf_gather_grad_push(chunk, f.width * f.span);
    rf_push_gather_lists push = { .inner = sizes.inner,
                                  .inner_magic = sizes.inner_magic,
                                  .inner_shift = sizes.inner_shift,
                                  .outer = sizes.outer,
                                  .outer_magic = sizes.outer_magic,
                                  .outer_shift = sizes.outer_shift,
                                  .places = sizes.places,
                                  .places_magic = sizes.places_magic,
                                  .places_shift = sizes.places_shift,
                                  .choices = sizes.choices,
                                  .choices_magic = sizes.choices_magic,
                                  .choices_shift = sizes.choices_shift,
                                  .first = sizes.first };
    rf_dispatch *d = rf_kernel_plan_add(plan, list_shader(l, caps), list_loops(l));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, rf_gather_grad_local(caps));
    rf_dispatch_spec(d, chunk->place > 0); /* adds to what places before have given */
    push.count = (uint32_t)((l->few ? l->count : l->keys) * chunk->size.outer * push.inner);
    push.parts = (uint32_t)l->parts;
    push.keys = (uint32_t)l->keys;
    push.dy_offset = rf_gather_bind_y(d, caps, RF_BIND_INPUT, all, chunk, f.width);
    push.indices_offset = rf_gather_bind_indices(d, caps, all, chunk);
    push.dx_offset = rf_gather_bind_x(d, caps, RF_BIND_OUTPUT, all, chunk, f.width);
    bind_lists(d, l, false);
    for (uint32_t i = 1; f.width == 8 && i < d->n_bind; i++)
        if (i != 2) d->bind[i].view = RF_VIEW_TEXEL_R32F; /* all but dx */
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_items(d, caps, push.count);
    return RF_OK;
}

rf_result rf_gather_lists_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                               rf_kernel_plan *plan)
{
    const rf_gather_shape all = rf_gather_grad_shape(call), size = rf_gather_chunk_size(&all, caps, 1);
    for (rf_gather_chunk chunk = { 0 }; rf_gather_chunk_next(&all, &size, &chunk);) {
        const listing l = listing_of(&chunk, caps, &all);
        if (plan->count == 0 && l.few) RF_TRY(rf_fill_plan(call, 0, caps, plan));
        if (l.end > plan->workspace) plan->workspace = l.end;
        RF_TRY(make_lists_plan(&l, caps, &all, &chunk, plan));
        RF_TRY(add_lists_plan(&l, caps, &all, &chunk, plan));
    }
    return RF_OK;
}
