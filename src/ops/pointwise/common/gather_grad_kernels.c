/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of gather's gradient for every device. */
#include "ops/pointwise/common/gather_grad.h"
#include "ops/pointwise/common/model.h"

rf_gather_shape rf_gather_grad_shape(const rf_op_call *call)
{
    return rf_gather_shape_of(call->attr, &call->in[2].shape, &call->in[1].shape);
}

rf_push_gather_grad rf_gather_grad_push(const rf_gather_chunk *chunk, uint32_t width)
{
    const rf_gather_shape *n = &chunk->size;
    const uint32_t inner = (uint32_t)n->inner / width;
    const rf_magic by_inner = rf_magic_make(inner), by_outer = rf_magic_make((uint32_t)n->outer),
                   by_place = rf_magic_make((uint32_t)n->places), by_choice = rf_magic_make((uint32_t)n->choices);
    return (rf_push_gather_grad){ .inner = inner,
                                  .inner_magic = by_inner.magic,
                                  .inner_shift = by_inner.shift,
                                  .outer = (uint32_t)n->outer,
                                  .outer_magic = by_outer.magic,
                                  .outer_shift = by_outer.shift,
                                  .places = (uint32_t)n->places,
                                  .places_magic = by_place.magic,
                                  .places_shift = by_place.shift,
                                  .choices = (uint32_t)n->choices,
                                  .choices_magic = by_choice.magic,
                                  .choices_shift = by_choice.shift,
                                  .first = (uint32_t)chunk->choice,
                                  .adds = chunk->place > 0 };
}

uint32_t rf_gather_grad_local(const rf_device_caps *caps)
{
    return rf_local_size(caps, caps->is_cpu ? 64 : RF_FLAT_LOCAL);
}

void rf_gather_bind_work(rf_dispatch *d, uint64_t offset, uint64_t size, bool write)
{
    rf_bind_bytes(d, RF_BIND_WORKSPACE, 0, offset, size)->write = write;
}

enum { STEP_GRAD, STEP_BLOCKS, STEP_ROWS, STEP_FEW };
static const rf_shader *shader_of(uint32_t step, uint32_t width)
{
    static const rf_shader *const shaders[][2] = {
        { &rf_shader_gather_grad_w1, &rf_shader_gather_grad_w4 },
        { &rf_shader_gather_blocks_w1, &rf_shader_gather_blocks_w4 },
        { &rf_shader_gather_rows_w1, &rf_shader_gather_rows_w4 },
        { &rf_shader_gather_few_w1, &rf_shader_gather_few_w4 },
    };
    return shaders[step][width == 4];
}

/* ---- each element looks through all places ---- */

static double direct_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_gather_shape all = rf_gather_grad_shape(call), size = rf_gather_chunk_size(&all, caps, 1);
    if (size.choices == 0 || size.places + 1 > rf_loop_limit(caps)) return RF_SCORE_NONE;
    const double looks = (double)rf_desc_count(&call->out[0]) / rf_gather_width(&all) * (double)all.places;
    return rf_score_of_time(rf_gather_direct_seconds(caps, (double)size.places, looks));
}

static rf_result direct_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    const rf_gather_shape all = rf_gather_grad_shape(call), size = rf_gather_chunk_size(&all, caps, 1);
    const uint32_t width = rf_gather_width(&all);
    for (rf_gather_chunk chunk = { 0 }; rf_gather_chunk_next(&all, &size, &chunk);) {
        rf_push_gather_grad push = rf_gather_grad_push(&chunk, width);
        const uint64_t count = chunk.size.batch * chunk.size.outer * chunk.size.choices * push.inner;
        rf_dispatch *d = rf_kernel_plan_add(plan, shader_of(STEP_GRAD, width), chunk.size.places + 1);
        if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
        d->concurrent = plan->count > 1 && !push.adds;
        rf_dispatch_spec(d, rf_gather_grad_local(caps));
        push.count = (uint32_t)count;
        push.dy_offset = rf_gather_bind_y(d, caps, RF_BIND_INPUT, &all, &chunk, width);
        push.indices_offset = rf_gather_bind_indices(d, caps, &all, &chunk);
        push.dx_offset = rf_gather_bind_x(d, caps, RF_BIND_OUTPUT, &all, &chunk, width);
        rf_dispatch_push(d, &push, sizeof(push));
        rf_dispatch_items(d, caps, count);
    }
    return RF_OK;
}

/* ---- places sorted first ---- */

#define SORT_WORDS 2    /* a place and its key; where a key's places begin and end */
#define SCAN_LOCAL 1024 /* at most */
#define DIGIT_BITS 8    /* at most */

/* How the places of a chunk are sorted and added, and where in the workspace what is needed for that stands. */
typedef struct sorting {
    uint64_t count, keys;                         /* of places; of choices that they may take */
    uint32_t passes, bits, parts;                 /* over the keys, so many bits each; parts that count on their own */
    uint64_t part, block;                         /* places of a part and of a block */
    uint64_t sorted[2], counts, spans, sums, end; /* offsets */
} sorting;

static uint64_t square_root(uint64_t n)
{
    uint64_t root = 1;
    while (root * root < n) root *= 2;
    return root;
}

static sorting sorting_of(const rf_gather_chunk *chunk, const rf_device_caps *caps)
{
    const rf_gather_shape *n = &chunk->size;
    sorting s = { .count = n->batch * n->places, .keys = n->batch * n->choices };
    uint32_t bits = 1;
    while (s.keys >> bits != 0) bits++; /* the key of indices that name nothing is one more */
    s.passes = (bits + DIGIT_BITS - 1) / DIGIT_BITS;
    s.bits = (bits + s.passes - 1) / s.passes;
    /* As many counters as places, if that is enough parts for the device, and parts that its loops may span. */
    const uint64_t least = caps->is_cpu ? 2ull * caps->subgroup_size : 256, most = caps->is_cpu ? 256 : 16384;
    uint64_t parts = s.count >> s.bits;
    parts = parts < least ? least : parts > most ? most : parts;
    s.part = rf_div_up(s.count, parts);
    if (s.part > rf_loop_limit(caps) / 4) s.part = rf_loop_limit(caps) / 4;
    s.parts = (uint32_t)rf_div_up(s.count, s.part);
    s.block = square_root(s.count);
    if (s.block < 32) s.block = 32;
    const uint64_t pairs = s.count * SORT_WORDS * sizeof(uint32_t), alignment = caps->buffer_alignment;
    s.sorted[1] = rf_align_up(pairs, alignment);
    s.counts = s.sorted[1] + rf_align_up(pairs, alignment);
    s.spans = s.counts + rf_align_up(((uint64_t)s.parts << s.bits) * sizeof(uint32_t), alignment);
    s.sums = s.spans + rf_align_up(s.keys * SORT_WORDS * sizeof(uint32_t), alignment);
    s.end = s.sums + rf_align_up((s.count / s.block + 1) * n->outer * n->inner * sizeof(float), alignment);
    return s;
}

static uint64_t scan_loops(const sorting *s, uint32_t lanes)
{
    return 2 * (rf_div_up((uint64_t)s->parts << s->bits, lanes) + 1) + 12;
}

static uint32_t scan_local(const rf_device_caps *caps)
{
    return rf_local_size(caps, caps->is_cpu ? 128 : SCAN_LOCAL);
}

/* Places enough to begin with zeros and go through them instead of the choices. */
static bool are_few(const sorting *s)
{
    return 2 * s->count <= s->keys;
}

static uint64_t row_loops(const sorting *s)
{
    return 2 * s->block + s->count / s->block + s->block + 3;
}

/* The sums of blocks are fewer than the gradients, so they fit where these do; counters are bounded by parts. */
static double sorted_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_gather_shape all = rf_gather_grad_shape(call), size = rf_gather_chunk_size(&all, caps, SORT_WORDS);
    if (size.choices == 0 || size.places == 0) return RF_SCORE_NONE;
    rf_gather_chunk chunk = { 0 };
    (void)rf_gather_chunk_next(&all, &size, &chunk); /* the largest */
    const sorting s = sorting_of(&chunk, caps);
    const uint64_t limit = rf_loop_limit(caps);
    if (s.part + (1ull << s.bits) + 2 > limit || scan_loops(&s, scan_local(caps)) > limit || row_loops(&s) > limit)
        return RF_SCORE_NONE;
    if (s.spans - s.counts > caps->max_storage_range || s.end - s.sums > caps->max_storage_range) return RF_SCORE_NONE;
    return rf_score_of_time(rf_gather_sorted_seconds(
        caps, &(rf_gather_sorted){
                  .passes = s.passes,
                  .counters = (double)(s.parts << s.bits),
                  .part = (double)s.part,
                  .places = (double)(all.batch * all.places),
                  .bytes = (double)rf_tensor_bytes(&call->out[0]) + (double)rf_tensor_bytes(&call->in[0]),
              }));
}

static rf_dispatch *sort_step(rf_kernel_plan *plan, const rf_device_caps *caps, const rf_shader *shader, uint64_t loops)
{
    rf_dispatch *d = rf_kernel_plan_add(plan, shader, loops);
    if (d) rf_dispatch_spec(d, rf_local_size(caps, caps->is_cpu ? 16 : 128));
    return d;
}

static uint64_t pair_bytes(uint64_t count)
{
    return count * SORT_WORDS * sizeof(uint32_t);
}

/* One pass over the keys: from sorted[from] to the other one. */
static rf_result digit_plan(const sorting *s, const rf_device_caps *caps, rf_push_gather_sort push, uint32_t from,
                            rf_kernel_plan *plan)
{
    const uint64_t counts = ((uint64_t)s->parts << s->bits) * sizeof(uint32_t);
    rf_dispatch *d = sort_step(plan, caps, &rf_shader_gather_sort_count, s->part + push.digits + 2);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_gather_bind_work(d, s->sorted[from], pair_bytes(s->count), false);
    rf_gather_bind_work(d, s->counts, counts, true);
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_items(d, caps, s->parts);
    d = rf_kernel_plan_add(plan, &rf_shader_gather_sort_scan, scan_loops(s, scan_local(caps)));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, scan_local(caps));
    rf_gather_bind_work(d, s->counts, counts, true);
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_groups(d, caps, 1);
    d = sort_step(plan, caps, &rf_shader_gather_sort_scatter, s->part + 1);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_gather_bind_work(d, s->sorted[from], pair_bytes(s->count), false);
    rf_gather_bind_work(d, s->counts, counts, true);
    rf_gather_bind_work(d, s->sorted[1 - from], pair_bytes(s->count), true);
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_items(d, caps, s->parts);
    return RF_OK;
}

static rf_result sort_plan(const sorting *s, const rf_device_caps *caps, const rf_gather_shape *all,
                           const rf_gather_chunk *chunk, rf_kernel_plan *plan)
{
    const rf_magic by_place = rf_magic_make((uint32_t)chunk->size.places);
    rf_push_gather_sort push = { .count = (uint32_t)s->count,
                                 .places = (uint32_t)chunk->size.places,
                                 .places_magic = by_place.magic,
                                 .places_shift = by_place.shift,
                                 .first = (uint32_t)chunk->choice,
                                 .choices = (uint32_t)chunk->size.choices,
                                 .unknown = (uint32_t)s->keys,
                                 .parts = s->parts,
                                 .part_size = (uint32_t)s->part,
                                 .digits = 1u << s->bits };
    rf_dispatch *d = sort_step(plan, caps, &rf_shader_gather_sort_keys, RF_NO_LOOPS);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    d->concurrent =
        plan->count > 1 && chunk->place == 0 && chunk->choice + chunk->outer + chunk->batch == 0; /* with zeros */
    push.indices_offset = rf_gather_bind_indices(d, caps, all, chunk);
    rf_gather_bind_work(d, s->sorted[0], pair_bytes(s->count), true);
    rf_gather_bind_work(d, s->spans, pair_bytes(s->keys), true);
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_items(d, caps, are_few(s) || s->count > s->keys ? s->count : s->keys);
    for (uint32_t pass = 0; pass < s->passes; pass++, push.shift += s->bits)
        RF_TRY(digit_plan(s, caps, push, pass % 2, plan));
    d = sort_step(plan, caps, &rf_shader_gather_sort_mark, RF_NO_LOOPS);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_gather_bind_work(d, s->sorted[s->passes % 2], pair_bytes(s->count), false);
    rf_gather_bind_work(d, s->spans, pair_bytes(s->keys), true);
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_items(d, caps, s->count);
    return RF_OK;
}

static rf_result add_plan(const sorting *s, const rf_device_caps *caps, const rf_gather_shape *all,
                          const rf_gather_chunk *chunk, rf_kernel_plan *plan)
{
    const uint32_t width = rf_gather_width(all);
    const uint64_t sorted = s->sorted[s->passes % 2], blocks = s->count / s->block, outer = chunk->size.outer;
    const bool few = are_few(s);
    const uint64_t sums = (blocks > 0 ? blocks : 1) * outer * chunk->size.inner * sizeof(float);
    rf_push_gather_grad push = rf_gather_grad_push(chunk, width);
    push.block_size = (uint32_t)s->block;
    push.unknown = (uint32_t)s->keys;
    rf_dispatch *d;
    if (blocks > 0) {
        d = rf_kernel_plan_add(plan, shader_of(STEP_BLOCKS, width), s->block + 1);
        if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
        d->concurrent = true; /* with the marks */
        rf_dispatch_spec(d, rf_gather_grad_local(caps));
        push.count = (uint32_t)(blocks * outer * push.inner);
        push.dy_offset = rf_gather_bind_y(d, caps, RF_BIND_INPUT, all, chunk, width);
        rf_gather_bind_work(d, sorted, pair_bytes(s->count), false);
        rf_gather_bind_work(d, s->sums, sums, true);
        rf_dispatch_push(d, &push, sizeof(push));
        rf_dispatch_items(d, caps, push.count);
    }
    d = rf_kernel_plan_add(plan, shader_of(few ? STEP_FEW : STEP_ROWS, width), row_loops(s));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, rf_gather_grad_local(caps));
    push.count = (uint32_t)((few ? s->count : s->keys) * outer * push.inner);
    push.dy_offset = rf_gather_bind_y(d, caps, RF_BIND_INPUT, all, chunk, width);
    rf_gather_bind_work(d, sorted, pair_bytes(s->count), false);
    push.dx_offset = rf_gather_bind_x(d, caps, RF_BIND_OUTPUT, all, chunk, width);
    rf_gather_bind_work(d, s->spans, pair_bytes(s->keys), false);
    rf_gather_bind_work(d, s->sums, sums, false);
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_items(d, caps, push.count);
    return RF_OK;
}

static rf_result sorted_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    const rf_gather_shape all = rf_gather_grad_shape(call), size = rf_gather_chunk_size(&all, caps, SORT_WORDS);
    for (rf_gather_chunk chunk = { 0 }; rf_gather_chunk_next(&all, &size, &chunk);) {
        const sorting s = sorting_of(&chunk, caps);
        if (plan->count == 0 && are_few(&s)) RF_TRY(rf_fill_plan(call, 0, caps, plan));
        if (s.end > plan->workspace) plan->workspace = s.end;
        RF_TRY(sort_plan(&s, caps, &all, &chunk, plan));
        RF_TRY(add_plan(&s, caps, &all, &chunk, plan));
    }
    return RF_OK;
}

static const rf_kernel kernels[] = {
    { "direct", direct_score, direct_plan },
    { "sorted", sorted_score, sorted_plan },
};
const rf_kernel_list rf_gather_grad_common = RF_KERNEL_LIST(kernels);
