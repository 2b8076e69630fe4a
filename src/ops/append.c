/* SPDX-License-Identifier: Apache-2.0 */
/* Plans that are followed by another op's. */
#include "ops/kit.h"

/* Room of one kind behind what a plan has; where it begins. Bindings to the end of that keep their size. */
static uint64_t extend_room(rf_kernel_plan *plan, rf_bind_kind kind, uint64_t size, uint64_t alignment)
{
    uint64_t *own = kind == RF_BIND_COUNTERS ? &plan->counters : &plan->workspace;
    for (uint32_t k = 0; size > 0 && k < plan->count; k++)
        for (uint32_t i = 0; i < plan->items[k].n_bind; i++) {
            rf_binding *b = &plan->items[k].bind[i];
            if (b->kind == kind && b->size == 0) b->size = *own - b->offset;
        }
    const uint64_t first = size > 0 ? rf_align_up(*own, alignment) : *own;
    *own = first + size;
    return first;
}

static rf_result append_dispatches(rf_kernel_plan *plan, const rf_kernel_plan *more, uint64_t workspace,
                                   uint64_t counters, const rf_plan_tensor *in, const rf_plan_tensor *out)
{
    for (uint32_t k = 0; k < more->count; k++) {
        rf_dispatch *d = rf_kernel_plan_add(plan, more->items[k].shader, more->items[k].loops);
        if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
        *d = more->items[k];
        d->concurrent = d->concurrent && k > 0;
        for (uint32_t i = 0; i < d->n_bind; i++) {
            rf_binding *b = &d->bind[i];
            if (b->kind == RF_BIND_WORKSPACE) {
                b->offset += workspace;
                continue;
            }
            if (b->kind == RF_BIND_COUNTERS) {
                b->offset += counters;
                continue;
            }
            const rf_plan_tensor at = b->kind == RF_BIND_INPUT ? in[b->index] : out[b->index];
            b->kind = at.kind;
            b->index = at.index;
            if (at.kind != RF_BIND_WORKSPACE && at.size == 0) continue;
            if (b->size == 0) b->size = at.size - b->offset;
            b->offset += at.offset;
        }
    }
    return RF_OK;
}

rf_result rf_plan_append(rf_kernel_plan *plan, const rf_op_call *call, const rf_device_caps *caps,
                         const rf_plan_tensor *in, const rf_plan_tensor *out)
{
    const rf_kernel *kernel = rf_best_kernel(call, caps);
    if (!kernel) return RF_FAIL(RF_ERROR_UNSUPPORTED, "no kernel of %s takes what follows here", call->op->name);
    rf_kernel_plan more = { 0 };
    rf_result r = rf_kernel_plan_make(kernel, call, caps, &more);
    const uint64_t workspace = extend_room(plan, RF_BIND_WORKSPACE, more.workspace, caps->buffer_alignment);
    const uint64_t counters = extend_room(plan, RF_BIND_COUNTERS, more.counters, caps->buffer_alignment);
    if (r >= 0) r = append_dispatches(plan, &more, workspace, counters, in, out);
    rf_kernel_plan_free(&more);
    return r;
}
