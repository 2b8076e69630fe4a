/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of gather by lists of places, one for each choice. */
#include "ops/pointwise/common/gather_grad.h"
#include "ops/pointwise/cpu/kernels.h"
#include "ops/pointwise/cpu/model.h"

#define SPAN 4          /* vectors of an invocation, which looks up a list once for all of them */
#define SPAN_LEAST 1024 /* invocations that this must leave */
#define MOST_PARTS 4    /* of lists that subgroups make */

enum { VECTOR = 8 /* elements, read as texels */ };

typedef struct listing {
    uint64_t count, keys; /* of places; of choices that they may take */
    uint32_t span;        /* vectors of an invocation that adds */
    bool few;             /* go through the places, over zeros */
    uint64_t parts, part; /* parts that have lists of their own, places of each */
    uint64_t next, end;   /* offsets; heads stand first */
} listing;

static listing listing_of(const rf_gather_chunk *chunk, const rf_device_caps *caps, const rf_gather_shape *all)
{
    const rf_gather_shape *n = &chunk->size;
    listing l = { .count = n->batch * n->places, .keys = n->batch * n->choices };
    l.few = 2 * l.count <= l.keys;
    const uint64_t rows = l.few ? l.count : l.keys, spans = rows * n->outer * all->inner / VECTOR / SPAN;
    l.span = all->inner % (VECTOR * SPAN) == 0 && spans >= SPAN_LEAST ? SPAN : 1;
    /* Every choice asks each part, which must not take longer than adding. */
    l.parts = l.keys * MOST_PARTS <= l.count ? MOST_PARTS : 1;
    l.part = rf_div_up(l.count, l.parts);
    l.next = rf_align_up(l.parts * l.keys * sizeof(uint32_t), caps->buffer_alignment);
    l.end = l.next + rf_align_up(l.count * sizeof(uint32_t), caps->buffer_alignment);
    return l;
}

static uint64_t list_loops(const listing *l)
{
    return l->parts + l->count + 2;
}

/* Whether heads and places can be read as texels. */
static bool fits_texels(const listing *l, const rf_device_caps *caps)
{
    const uint64_t room = caps->buffer_alignment / sizeof(uint32_t);
    return MOST_PARTS * l->keys <= caps->max_texel_elements && l->count + room <= caps->max_texel_elements;
}

/* One subgroup makes a whole list, which only a processor does in good time. */
double rf_gather_lists_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_gather_shape all = rf_gather_grad_shape(call), size = rf_gather_chunk_size(&all, caps, 1);
    rf_gather_chunk chunk = { 0 };
    if (!rf_gather_takes_texels(&all, all.places, caps) || size.choices == 0 || size.places == 0) return RF_SCORE_NONE;
    (void)rf_gather_chunk_next(&all, &size, &chunk); /* the largest */
    const listing l = listing_of(&chunk, caps, &all);
    if (!fits_texels(&l, caps) || list_loops(&l) > rf_loop_limit(caps)) return RF_SCORE_NONE;
    const double bytes = (double)rf_tensor_bytes(&call->out[0]) + (double)rf_tensor_bytes(&call->in[0]);
    return rf_score_of_time(rf_gather_lists_seconds((double)l.part, bytes));
}

static void bind_lists(rf_dispatch *d, const listing *l, bool write)
{
    rf_gather_bind_work(d, 0, l->parts * l->keys * sizeof(uint32_t), write);
    rf_gather_bind_work(d, l->next, l->count * sizeof(uint32_t), write);
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
    const uint32_t lanes = caps->subgroup_size;
    const rf_shader *make = l->few ? &rf_shader_gather_few_list_lanes : &rf_shader_gather_list_lanes;
    for (int clear = !l->few; clear >= 0; clear--, push.count = (uint32_t)l->count) {
        rf_dispatch *d =
            rf_kernel_plan_add(plan, clear ? &rf_shader_gather_list_clear : make, clear ? RF_NO_LOOPS : l->part + 1);
        if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
        rf_dispatch_spec(d, clear ? rf_gather_grad_local(caps) : rf_local_size(caps, caps->subgroup_size));
        if (!clear) rf_dispatch_spec(d, lanes);
        push.indices_offset = rf_gather_bind_indices(d, caps, all, chunk);
        bind_lists(d, l, true);
        rf_dispatch_push(d, &push, sizeof(push));
        rf_dispatch_items(d, caps, clear ? heads : l->parts * lanes);
    }
    return RF_OK;
}

static const rf_shader *list_shader(const listing *l)
{
    static const rf_shader *const shaders[2][2] = {
        { &rf_shader_gather_lists_texel, &rf_shader_gather_lists_span4_texel },
        { &rf_shader_gather_few_lists_texel, &rf_shader_gather_few_lists_span4_texel },
    };
    return shaders[l->few][l->span > 1];
}

static rf_result add_lists_plan(const listing *l, const rf_device_caps *caps, const rf_gather_shape *all,
                                const rf_gather_chunk *chunk, rf_kernel_plan *plan)
{
    const rf_push_gather_grad sizes = rf_gather_grad_push(chunk, VECTOR * l->span);
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
    rf_dispatch *d = rf_kernel_plan_add(plan, list_shader(l), list_loops(l));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, rf_gather_grad_local(caps));
    rf_dispatch_spec(d, chunk->place > 0); /* adds to what places before have given */
    push.count = (uint32_t)((l->few ? l->count : l->keys) * chunk->size.outer * push.inner);
    push.parts = (uint32_t)l->parts;
    push.keys = (uint32_t)l->keys;
    push.dy_offset = rf_gather_bind_y(d, caps, RF_BIND_INPUT, all, chunk, VECTOR);
    push.indices_offset = rf_gather_bind_indices(d, caps, all, chunk);
    push.dx_offset = rf_gather_bind_x(d, caps, RF_BIND_OUTPUT, all, chunk, VECTOR);
    bind_lists(d, l, false);
    for (uint32_t i = 1; i < d->n_bind; i++)
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
