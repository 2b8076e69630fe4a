/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers with which kernels' plan functions build their dispatches. */
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "graph/op.h"

rf_dispatch *rf_kernel_plan_add(rf_kernel_plan *plan, const rf_shader *shader)
{
    if (RF_VEC_GROW(plan) < 0) return NULL;
    rf_dispatch *d = &plan->items[plan->count++];
    memset(d, 0, sizeof(*d));
    d->shader = shader;
    return d;
}

void rf_kernel_plan_free(rf_kernel_plan *plan)
{
    if (!plan) return;
    rf_free(plan->items);
    *plan = (rf_kernel_plan){ 0 };
}

void rf_dispatch_spec(rf_dispatch *d, uint32_t value)
{
    if (d->n_spec < RF_MAX_SPEC) d->spec[d->n_spec] = value;
    d->n_spec++;
}

void rf_dispatch_push(rf_dispatch *d, const void *data, uint32_t size)
{
    if (size <= RF_MAX_PUSH) memcpy(d->push, data, size);
    d->push_size = size;
}

void rf_dispatch_bind(rf_dispatch *d, rf_bind_kind kind, uint32_t index, rf_bind_view view, bool write)
{
    if (d->n_bind < RF_MAX_BINDINGS)
        d->bind[d->n_bind] = (rf_binding){ .kind = kind, .view = view, .index = index, .write = write };
    d->n_bind++;
}

rf_result rf_kernel_plan_check(const rf_kernel_plan *plan)
{
    for (uint32_t i = 0; i < plan->count; i++) {
        const rf_dispatch *d = &plan->items[i];
        if (!d->shader) return RF_FAIL(RF_ERROR_INTERNAL, "dispatch %u of a kernel plan has no shader", i);
        if (d->n_spec > RF_MAX_SPEC || d->n_bind > RF_MAX_BINDINGS || d->push_size > RF_MAX_PUSH)
            return RF_FAIL(
                RF_ERROR_INTERNAL,
                "shader '%s': %u specialization constants, %u bindings, %u push-constant bytes; there is room for "
                "%d, %d, %d",
                d->shader->name, d->n_spec, d->n_bind, d->push_size, RF_MAX_SPEC, RF_MAX_BINDINGS, RF_MAX_PUSH);
    }
    return RF_OK;
}
