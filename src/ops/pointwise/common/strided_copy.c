/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/pointwise/common/strided_copy.h"

#include "ops/pointwise/common/model.h"
#include "rf_shaders.h"

/* ---- layout ---- */

rf_box_layout rf_box_layout_of(const rf_box_copy *copy)
{
    rf_box_layout l = { 0 };
    int64_t stride = 1;
    for (int32_t d = copy->tensor->rank - 1; d >= 0; d--) {
        const rf_box_range r = copy->ranges[d];
        l.first += r.begin * stride;
        if (r.count > 1 && l.rank > 0 && r.step * stride == l.stride[l.rank - 1] * (int64_t)l.size[l.rank - 1]) {
            l.size[l.rank - 1] *= (uint64_t)r.count;
        } else if (r.count != 1) {
            l.size[l.rank] = (uint64_t)r.count;
            l.stride[l.rank++] = r.step * stride;
        }
        stride *= copy->tensor->dim[d];
    }
    if (l.rank == 0) l.size[l.rank] = 1, l.stride[l.rank++] = 1;
    return l;
}

uint64_t rf_box_count(const rf_box_layout *l, uint32_t rank)
{
    uint64_t count = 1;
    for (uint32_t d = 0; d < rank; d++) count *= l->size[d];
    return count;
}

uint64_t rf_box_reach(const rf_box_layout *l, uint32_t rank, uint64_t *before)
{
    uint64_t reach = 1;
    *before = 0;
    for (uint32_t d = 0; d < rank; d++) {
        const uint64_t way = (l->size[d] - 1) * (uint64_t)(l->stride[d] < 0 ? -l->stride[d] : l->stride[d]);
        reach += way;
        if (l->stride[d] < 0) *before += way;
    }
    return reach;
}

uint64_t rf_box_steps(const rf_box_layout *l, uint32_t rank, const rf_device_caps *caps)
{
    const uint64_t limit = rf_min(caps->max_storage_range - caps->buffer_alignment, INT32_MAX) / sizeof(float);
    uint64_t before;
    const uint64_t reach = rf_box_reach(l, rank - 1, &before), inner = rf_box_count(l, rank - 1);
    if (reach > limit || inner > limit) return 0;
    const int64_t stride = l->stride[rank - 1];
    const uint64_t far = (limit - reach) / (uint64_t)(stride < 0 ? -stride : stride) + 1;
    const uint64_t steps = rf_min(far, limit / inner);
    return rank > 1 || steps < 4 ? steps : steps / 4 * 4; /* chunks of a line keep to fours */
}

/* ---- plans ---- */

bool rf_box_is_of_vectors(const rf_box_chunk *p, const rf_device_caps *caps, uint32_t width)
{
    const rf_box_layout *l = p->l;
    uint64_t before;
    (void)rf_box_reach(l, p->rank, &before);
    bool vectors = l->stride[0] == 1 && l->size[0] % width == 0 && (uint64_t)p->first % width == 0 &&
                   p->at % width == 0 && rf_element_base(caps, (uint64_t)p->first - before) % width == 0 &&
                   rf_element_base(caps, p->at) % width == 0;
    for (uint32_t d = 1; d < p->rank; d++) vectors = vectors && l->stride[d] % (int32_t)width == 0;
    return vectors;
}

rf_dispatch *rf_box_chunk_plan(const rf_box_copy *copy, const rf_box_chunk *p, const rf_shader *shader, uint32_t width,
                               const rf_device_caps *caps, rf_kernel_plan *plan)
{
    const rf_box_layout *l = p->l;
    const uint64_t count = rf_box_count(l, p->rank);
    uint64_t before;
    const uint64_t reach = rf_box_reach(l, p->rank, &before), from = (uint64_t)p->first - before;
    rf_dispatch *d = rf_kernel_plan_add(plan, shader, RF_NO_LOOPS);
    if (!d) return NULL;
    d->concurrent = p->at > 0 || copy->concurrent;
    rf_push_slice push = { .count = (uint32_t)(count / width),
                           .tensor_offset = (uint32_t)((rf_element_base(caps, from) + before) / width),
                           .box_offset = rf_element_base(caps, p->at) / width };
    for (uint32_t i = 0; i < p->rank; i++) {
        const uint64_t size = i == 0 ? l->size[i] / width : l->size[i];
        const rf_magic m = rf_magic_make((uint32_t)size);
        push.size[i] = (uint32_t)size;
        push.magic[i] = m.magic;
        push.shifts |= m.shift << (5 * i);
        push.stride[i] = (uint32_t)(i == 0 ? l->stride[i] : l->stride[i] / (int32_t)width);
    }
    rf_dispatch_spec(d, rf_local_size(caps, RF_FLAT_LOCAL));
    rf_dispatch_spec(d, p->rank);
    rf_dispatch_push(d, &push, sizeof(push));
    if (copy->scatter) (void)rf_bind_elements(d, caps, RF_BIND_INPUT, copy->box_number, p->at, count);
    (void)rf_bind_elements(d, caps, copy->scatter ? RF_BIND_OUTPUT : RF_BIND_INPUT, copy->number, from, reach);
    if (!copy->scatter) (void)rf_bind_elements(d, caps, RF_BIND_OUTPUT, copy->box_number, p->at, count);
    rf_dispatch_items(d, caps, push.count);
    return d;
}

static rf_result box_plan(const rf_box_copy *copy, const rf_box_chunk *p, const rf_device_caps *caps,
                          rf_kernel_plan *plan)
{
    static const rf_shader *const shaders[2][2] = { { &rf_shader_slice_w1, &rf_shader_slice_w4 },
                                                    { &rf_shader_slice_grad_w1, &rf_shader_slice_grad_w4 } };
    const bool fours = rf_box_is_of_vectors(p, caps, 4);
    return rf_box_chunk_plan(copy, p, shaders[copy->scatter][fours], fours ? 4 : 1, caps, plan)
               ? RF_OK
               : RF_ERROR_OUT_OF_HOST_MEMORY;
}

/* In as few chunks as descriptors allow: along the outermost dimension, or along the next one for each of its steps. */
static rf_result chunks_plan(const rf_box_copy *copy, rf_box_layout l, uint32_t rank, int64_t first, uint64_t at,
                             const rf_device_caps *caps, rf_kernel_plan *plan)
{
    const uint32_t outer = rank - 1;
    const uint64_t steps = rf_box_steps(&l, rank, caps), size = l.size[outer], inner = rf_box_count(&l, outer);
    for (uint64_t i = 0; i < size; i += steps ? steps : 1) {
        const int64_t there = first + (int64_t)i * l.stride[outer];
        if (steps == 0) {
            RF_TRY(chunks_plan(copy, l, outer, there, at + i * inner, caps, plan));
            continue;
        }
        l.size[outer] = rf_min(steps, size - i);
        const rf_box_chunk p = { &l, rank, there, at + i * inner };
        RF_TRY(box_plan(copy, &p, caps, plan));
    }
    return RF_OK;
}

static bool box_fits(const rf_device_caps *caps)
{
    return caps->max_storage_range >= caps->buffer_alignment + 4 * sizeof(float);
}

static rf_result plan_copy(const rf_box_copy *copy, const rf_device_caps *caps, rf_kernel_plan *plan)
{
    const rf_box_layout l = rf_box_layout_of(copy);
    if (rf_box_count(&l, l.rank) == 0) return RF_OK;
    return chunks_plan(copy, l, l.rank, l.first, 0, caps, plan);
}

rf_result rf_copies_fill(const rf_copies *copies, const rf_device_caps *caps, rf_kernel_plan *plan)
{
    const rf_op_call *call = &copies->units;
    if (!copies->filled || rf_desc_count(&call->in[0]) == rf_desc_count(&call->out[0])) return RF_OK;
    return rf_fill_plan(call, copies->value, caps, plan);
}

static double score_strided(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    return box_fits(caps) ? RF_SCORE_ANY : RF_SCORE_NONE;
}

static rf_result plan_strided(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                              rf_kernel_plan *plan)
{
    rf_copies all;
    rf_copies_make(call, &all);
    RF_TRY(rf_copies_fill(&all, caps, plan));
    for (uint32_t i = 0; i < all.count; i++) RF_TRY(plan_copy(&all.copies[i], caps, plan));
    return RF_OK;
}

/* ---- runs ---- */

#define MOST_RUNS 16384.0 /* of an op: a recording holds them all, some 100 bytes each */

static bool has_lines(const rf_box_layout *l)
{
    return l->stride[0] == 1;
}

static uint64_t runs_of(const rf_box_layout *l)
{
    return rf_box_count(l, l->rank) / (has_lines(l) ? l->size[0] : 1);
}

static rf_result plan_copy_runs(const rf_box_copy *copy, rf_kernel_plan *plan)
{
    const rf_box_layout l = rf_box_layout_of(copy);
    if (rf_box_count(&l, l.rank) == 0) return RF_OK;
    const int64_t word = sizeof(float);
    int64_t dense = has_lines(&l) ? (int64_t)l.size[0] * word : word;
    rf_runs runs = { .bytes = (uint64_t)dense };
    *(copy->scatter ? &runs.to : &runs.from) = (uint64_t)(l.first * word);
    for (uint32_t i = has_lines(&l) ? 1 : 0; i < l.rank; i++) {
        const int64_t apart = l.stride[i] * word;
        runs.count[runs.rank] = (uint32_t)l.size[i];
        runs.from_step[runs.rank] = copy->scatter ? dense : apart;
        runs.to_step[runs.rank++] = copy->scatter ? apart : dense;
        dense *= (int64_t)l.size[i];
    }
    rf_dispatch *d = rf_kernel_plan_add_runs(plan, &runs);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    d->concurrent = copy->concurrent;
    rf_bind_whole(d, RF_BIND_INPUT, copy->scatter ? copy->box_number : copy->number);
    rf_bind_whole(d, RF_BIND_OUTPUT, copy->scatter ? copy->number : copy->box_number);
    return RF_OK;
}

static double score_runs(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    rf_copies all;
    rf_copies_make(call, &all);
    double runs = 0, bytes = 0;
    for (uint32_t i = 0; i < all.count; i++) {
        const rf_box_layout l = rf_box_layout_of(&all.copies[i]);
        const uint64_t elements = rf_box_count(&l, l.rank), whole = (uint64_t)rf_shape_count(*all.copies[i].tensor);
        if (whole > caps->max_storage_range / sizeof(float)) return RF_SCORE_NONE;
        if (elements == 0) continue;
        runs += (double)runs_of(&l);
        bytes += sizeof(float) * (double)elements;
    }
    if (runs > MOST_RUNS) return RF_SCORE_NONE;
    return rf_copies_runs_are_faster(caps, runs, bytes) ? RF_SCORE_COPY : RF_SCORE_RESERVE;
}

static rf_result plan_runs(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    rf_copies all;
    rf_copies_make(call, &all);
    RF_TRY(rf_copies_fill(&all, caps, plan));
    for (uint32_t i = 0; i < all.count; i++) RF_TRY(plan_copy_runs(&all.copies[i], plan));
    return RF_OK;
}

static const rf_kernel kernels[] = {
    { "strided", score_strided, plan_strided, .narrow = rf_copies_narrow },
    { "runs", score_runs, plan_runs, .narrow = rf_copies_narrow },
};
const rf_kernel_list rf_copies_common = RF_KERNEL_LIST(kernels);
