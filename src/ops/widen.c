/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of calls whose tensors are stored in 16 bits, by kernels that know f32 alone: tensors are converted into the
 * workspace, and results out of it. */
#include <string.h>

#include "ops/kit.h"

/* Where tensors lie in the workspace; the kernel's own comes first. */
typedef struct widening {
    const rf_op_call *call;
    const rf_device_caps *caps;
    uint32_t fetched; /* bit i: input i is read as it is */
    uint64_t own;     /* bytes of the kernel's */
    uint64_t in[RF_MAX_INPUTS], out[RF_MAX_OUTPUTS];
} widening;

static bool is_narrow(const rf_op_call *call, uint32_t i)
{
    return rf_dtype_is_narrow(call->in[i].dtype) && !(call->op->shape_only >> i & 1);
}

static bool is_converted(const widening *w, uint32_t i)
{
    return is_narrow(w->call, i) && !(w->fetched >> i & 1);
}

/* Texels of f16 become floats where they are fetched: what a kernel reads through texels alone needs no conversion. */
static uint32_t find_fetched(const widening *w, const rf_kernel_plan *inner)
{
    uint32_t fetched = 0;
    for (uint32_t i = 0; i < w->call->n_in; i++)
        if (is_narrow(w->call, i) && w->call->in[i].dtype == RF_F16) fetched |= 1u << i;
    for (uint32_t k = 0; k < inner->count; k++)
        for (uint32_t b = 0; b < inner->items[k].n_bind; b++) {
            const rf_binding *bound = &inner->items[k].bind[b];
            const bool fits = bound->view != RF_VIEW_STORAGE && bound->offset / 2 % w->caps->buffer_alignment == 0;
            if (bound->kind == RF_BIND_INPUT && !fits) fetched &= ~(1u << bound->index);
        }
    return fetched;
}

static void fetch_halves(rf_binding *b)
{
    b->view = b->view == RF_VIEW_TEXEL_RGBA32F ? RF_VIEW_TEXEL_RGBA16F : RF_VIEW_TEXEL_R16F;
    b->offset /= 2;
    b->size = rf_div_up(b->size, 2);
}

/* Kernels may read whole vectors of four. */
static uint64_t wide_bytes(const rf_tensor_desc *desc)
{
    return rf_align_up(rf_desc_count(desc) * sizeof(float), 16);
}

static uint64_t place_tensors(widening *w)
{
    const rf_op_call *call = w->call;
    uint64_t at = rf_align_up(w->own, w->caps->buffer_alignment);
    for (uint32_t i = 0; i < call->n_in; i++) {
        w->in[i] = at;
        if (is_converted(w, i)) at = rf_align_up(at + wide_bytes(&call->in[i]), w->caps->buffer_alignment);
    }
    for (uint32_t i = 0; i < call->n_out; i++) {
        w->out[i] = at;
        if (rf_dtype_is_narrow(call->out[i].dtype))
            at = rf_align_up(at + wide_bytes(&call->out[i]), w->caps->buffer_alignment);
    }
    return at;
}

/* A tensor's bytes, or the rest of the kernel's own workspace, at their place. */
static void bind_in_workspace(rf_binding *b, uint64_t base, uint64_t whole)
{
    b->kind = RF_BIND_WORKSPACE;
    b->index = 0;
    if (b->size == 0) b->size = whole - b->offset;
    b->offset += base;
}

static void move_binding(const widening *w, rf_binding *b)
{
    const rf_op_call *call = w->call;
    if (b->kind == RF_BIND_INPUT && is_narrow(call, b->index) && !is_converted(w, b->index))
        fetch_halves(b);
    else if (b->kind == RF_BIND_INPUT && is_converted(w, b->index))
        bind_in_workspace(b, w->in[b->index], wide_bytes(&call->in[b->index]));
    else if (b->kind == RF_BIND_OUTPUT && rf_dtype_is_narrow(call->out[b->index].dtype))
        bind_in_workspace(b, w->out[b->index], wide_bytes(&call->out[b->index]));
    else if (b->kind == RF_BIND_WORKSPACE)
        bind_in_workspace(b, 0, w->own);
}

static rf_result append_kernel(const widening *w, const rf_kernel_plan *inner, rf_kernel_plan *plan)
{
    for (uint32_t k = 0; k < inner->count; k++) {
        rf_dispatch *d = rf_kernel_plan_add(plan, inner->items[k].shader, inner->items[k].loops);
        if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
        *d = inner->items[k];
        d->concurrent = d->concurrent && k > 0;
        for (uint32_t i = 0; i < d->n_bind; i++) move_binding(w, &d->bind[i]);
    }
    return RF_OK;
}

static rf_result append_all(const widening *w, const rf_kernel_plan *inner, rf_kernel_plan *plan)
{
    const rf_op_call *call = w->call;
    for (uint32_t i = 0; i < call->n_in; i++) {
        if (!is_converted(w, i)) continue;
        const rf_cast_side from = { RF_BIND_INPUT, i, 0, call->in[i].dtype },
                           to = { RF_BIND_WORKSPACE, 0, w->in[i], RF_F32 };
        RF_TRY(rf_cast_add(plan, w->caps, from, to, rf_desc_count(&call->in[i]), plan->count > 0));
    }
    RF_TRY(append_kernel(w, inner, plan));
    bool first = true;
    for (uint32_t i = 0; i < call->n_out; i++) {
        if (!rf_dtype_is_narrow(call->out[i].dtype)) continue;
        const rf_cast_side from = { RF_BIND_WORKSPACE, 0, w->out[i], RF_F32 },
                           to = { RF_BIND_OUTPUT, i, 0, call->out[i].dtype };
        RF_TRY(rf_cast_add(plan, w->caps, from, to, rf_desc_count(&call->out[i]), !first));
        first = false;
    }
    return RF_OK;
}

rf_result rf_widen(const rf_kernel *kernel, const rf_op_call *call, const rf_device_caps *caps, rf_kernel_plan *plan)
{
    const rf_op_call wide = rf_call_widened(call);
    widening w = { .call = call, .caps = caps };
    rf_kernel_plan inner = { 0 };
    rf_result r = rf_kernel_plan_whole(kernel, &wide, caps, &inner);
    w.own = inner.workspace;
    w.fetched = find_fetched(&w, &inner);
    if (r >= 0) {
        plan->workspace = place_tensors(&w);
        plan->counters = inner.counters;
        r = append_all(&w, &inner, plan);
    }
    rf_kernel_plan_free(&inner);
    return r;
}
