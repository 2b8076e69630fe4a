/* SPDX-License-Identifier: Apache-2.0 */
/* An op's kernels, and what kernels' plan functions build their dispatches with. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "graph/op.h"

uint32_t rf_op_num_kernels(const rf_op *op)
{
    uint32_t count = 0;
    for (uint32_t f = 0; f < RF_NUM_FAMILIES; f++) count += op->families[f] ? op->families[f]->count : 0;
    return count;
}

const rf_kernel *rf_op_kernel(const rf_op *op, uint32_t i)
{
    for (uint32_t f = 0; f < RF_NUM_FAMILIES; f++) {
        const uint32_t count = op->families[f] ? op->families[f]->count : 0;
        if (i < count) return &op->families[f]->rows[i];
        i -= count;
    }
    return NULL;
}

const rf_kernel *rf_best_kernel_without(const rf_op_call *call, const rf_device_caps *caps, rf_kernel_left_out left_out,
                                        const void *user)
{
    const rf_kernel *best = NULL;
    double most = 0;
    for (uint32_t i = 0; i < rf_op_num_kernels(call->op); i++) {
        const rf_kernel *kernel = rf_op_kernel(call->op, i);
        const double score = rf_kernel_score(kernel, call, caps);
        if (score <= most || (left_out && left_out(call->op, kernel, user))) continue;
        best = kernel;
        most = score;
    }
    return best;
}

const rf_kernel *rf_best_kernel(const rf_op_call *call, const rf_device_caps *caps)
{
    return rf_best_kernel_without(call, caps, NULL, NULL);
}

const rf_kernel *rf_op_find_kernel(const rf_op *op, const char *name)
{
    for (uint32_t i = 0; i < rf_op_num_kernels(op); i++)
        if (strcmp(rf_op_kernel(op, i)->name, name) == 0) return rf_op_kernel(op, i);
    return NULL;
}

rf_dispatch *rf_kernel_plan_add(rf_kernel_plan *plan, const rf_shader *shader, uint64_t loops)
{
    if (RF_VEC_GROW(plan) < 0) return NULL;
    rf_dispatch *d = &plan->items[plan->count++];
    memset(d, 0, sizeof(*d));
    d->shader = shader;
    d->loops = loops;
    return d;
}

rf_dispatch *rf_kernel_plan_add_runs(rf_kernel_plan *plan, const rf_runs *runs)
{
    rf_dispatch *d = rf_kernel_plan_add(plan, NULL, RF_NO_LOOPS);
    if (!d) return NULL;
    d->runs = *runs;
    for (uint32_t k = 0; k < 3; k++) d->grid[k] = 1;
    return d;
}

rf_dispatch *rf_kernel_plan_add_fill(rf_kernel_plan *plan, uint32_t word)
{
    rf_dispatch *d = rf_kernel_plan_add_runs(plan, &(rf_runs){ 0 });
    if (d) d->fill = word;
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
    if (d->shader->push_size > 0 && size > d->shader->push_size) size = d->shader->push_size;
    if (size <= RF_MAX_PUSH) memcpy(d->push, data, size);
    d->push_size = size;
}

rf_binding *rf_dispatch_bind(rf_dispatch *d, rf_bind_kind kind, uint32_t index, rf_bind_view view, bool write)
{
    /* Where there is no room the last one takes what the caller writes: the check refuses the plan. */
    rf_binding *binding = &d->bind[d->n_bind < RF_MAX_BINDINGS ? d->n_bind : RF_MAX_BINDINGS - 1];
    *binding = (rf_binding){ .kind = kind, .view = view, .index = index, .write = write };
    d->n_bind++;
    return binding;
}

static uint32_t split_axis(const rf_dispatch *d)
{
    return d->grid[2] > 1 ? 2 : d->grid[1] > 1 ? 1 : 0;
}

static uint32_t num_pieces(const rf_dispatch *d, uint32_t wanted)
{
    const uint32_t most = d->grid[split_axis(d)];
    return wanted < 1 ? 1 : wanted < most ? wanted : most;
}

rf_result rf_kernel_plan_split(rf_kernel_plan *plan, const uint32_t *pieces)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < plan->count; i++) total += num_pieces(&plan->items[i], pieces[i]);
    if (total == plan->count) return RF_OK;
    rf_dispatch *items = total <= UINT32_MAX ? RF_NEW_ARRAY(rf_dispatch, total) : NULL;
    if (!items) return RF_ERROR_OUT_OF_HOST_MEMORY;
    uint32_t at = 0;
    for (uint32_t i = 0; i < plan->count; i++) {
        const rf_dispatch *d = &plan->items[i];
        const uint32_t axis = split_axis(d), length = d->grid[axis], count = num_pieces(d, pieces[i]);
        for (uint32_t k = 0; k < count; k++) {
            const uint32_t begin = (uint32_t)((uint64_t)length * k / count);
            rf_dispatch *piece = &items[at++];
            *piece = *d;
            if (count == 1) continue;
            piece->piece = true;
            piece->base[axis] += begin;
            piece->grid[axis] = (uint32_t)((uint64_t)length * (k + 1) / count) - begin;
            if (k > 0) piece->concurrent = true;
        }
    }
    rf_free(plan->items);
    plan->items = items;
    plan->count = plan->capacity = at;
    return RF_OK;
}

static rf_result dispatch_check_arrays(const rf_dispatch *d)
{
    if (d->n_spec <= RF_MAX_SPEC && d->n_bind <= RF_MAX_BINDINGS && d->push_size <= RF_MAX_PUSH) return RF_OK;
    return RF_FAIL(RF_ERROR_INTERNAL,
                   "shader '%s': %u specialization constants, %u bindings, %u push-constant bytes; there is room for "
                   "%d, %d, %d",
                   d->shader->name, d->n_spec, d->n_bind, d->push_size, RF_MAX_SPEC, RF_MAX_BINDINGS, RF_MAX_PUSH);
}

static rf_result dispatch_check_limits(const rf_dispatch *d, const rf_device_caps *caps)
{
    const char *name = d->shader->name;
    if (d->push_size < d->shader->push_size)
        return RF_FAIL(RF_ERROR_INTERNAL, "shader '%s': %u push-constant bytes; it reads %u", name, d->push_size,
                       d->shader->push_size);
    if (d->push_size > caps->max_push_constants)
        return RF_FAIL(RF_ERROR_INTERNAL, "shader '%s': %u push-constant bytes; the device allows %u", name,
                       d->push_size, caps->max_push_constants);
    const uint32_t local = d->n_spec > 0 ? d->spec[0] : 0;
    if (local == 0 || local > caps->max_workgroup_size[0] || local > caps->max_workgroup_invocations)
        return RF_FAIL(RF_ERROR_INTERNAL, "shader '%s': workgroups of %u invocations; the device allows 1 to %u", name,
                       local,
                       caps->max_workgroup_size[0] < caps->max_workgroup_invocations ? caps->max_workgroup_size[0]
                                                                                     : caps->max_workgroup_invocations);
    if (d->loops == 0)
        return RF_FAIL(RF_ERROR_INTERNAL, "shader '%s': the plan does not say how long an invocation loops", name);
    if (d->loops > rf_loop_limit(caps))
        return RF_FAIL(RF_ERROR_INTERNAL,
                       "shader '%s': an invocation loops %" PRIu64
                       " times; the device's driver leaves loops after %" PRIu64,
                       name, d->loops, rf_loop_limit(caps));
    for (uint32_t k = 0; k < 3; k++)
        if (d->grid[k] == 0 || d->grid[k] > caps->max_grid[k])
            return RF_FAIL(RF_ERROR_UNSUPPORTED,
                           "shader '%s': a grid of %u x %u x %u workgroups; the device allows 1 to %u x %u x %u: use "
                           "a smaller batch",
                           name, d->grid[0], d->grid[1], d->grid[2], caps->max_grid[0], caps->max_grid[1],
                           caps->max_grid[2]);
    return RF_OK;
}

/* Checks a dispatch without a shader. */
static rf_result check_transfer(const rf_dispatch *d, uint32_t number)
{
    const rf_runs *runs = &d->runs;
    bool good = d->n_bind == 1 && d->bind[0].write;
    if (runs->bytes > 0) good = d->n_bind == 2 && !d->bind[0].write && d->bind[1].write && runs->rank <= RF_MAX_RANK;
    for (uint32_t k = 0; good && k < runs->rank; k++) good = runs->count[k] > 0;
    return good ? RF_OK
                : RF_FAIL(RF_ERROR_INTERNAL, "dispatch %u of a kernel plan has no shader, and is no copy or fill",
                          number);
}

rf_result rf_kernel_plan_check(const rf_kernel_plan *plan, const rf_device_caps *caps)
{
    if (plan->count == 0) return RF_FAIL(RF_ERROR_INTERNAL, "the plan has no dispatch");
    if (plan->counters > RF_MAX_COUNTERS)
        return RF_FAIL(RF_ERROR_INTERNAL, "the plan takes %" PRIu64 " bytes of counters; there is room for %d",
                       plan->counters, RF_MAX_COUNTERS);
    for (uint32_t i = 0; i < plan->count; i++) {
        if (!plan->items[i].shader) {
            RF_TRY(check_transfer(&plan->items[i], i));
            continue;
        }
        RF_TRY(dispatch_check_arrays(&plan->items[i]));
        RF_TRY(dispatch_check_limits(&plan->items[i], caps));
    }
    return RF_OK;
}

rf_result rf_kernel_plan_whole(const rf_kernel *kernel, const rf_op_call *call, const rf_device_caps *caps,
                               rf_kernel_plan *plan)
{
    RF_TRY(kernel->plan(call, caps, kernel->data, plan));
    return call->op->finish && !kernel->finishes ? call->op->finish(call, caps, plan) : RF_OK;
}

rf_result rf_kernel_plan_make(const rf_kernel *kernel, const rf_op_call *call, const rf_device_caps *caps,
                              rf_kernel_plan *plan)
{
    rf_result r = rf_kernel_widens(kernel, call, caps) ? call->op->widen(kernel, call, caps, plan)
                                                       : rf_kernel_plan_whole(kernel, call, caps, plan);
    if (r >= 0) r = rf_kernel_plan_check(plan, caps);
    return rf_error_context(r, "%s (kernel %s)", call->op->name, kernel->name);
}
