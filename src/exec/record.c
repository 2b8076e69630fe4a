/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns planned nodes into commands. On software drivers a barrier and the dispatch after it cost tens of microseconds,
 * so a barrier is recorded only in front of a dispatch whose byte ranges meet those of an earlier one that no barrier
 * separates from it.
 */
#include <inttypes.h>
#include <string.h>

#include "exec/internal.h"

/* ---- hazards ---- */

bool rf_hazards_conflict(const rf_hazards *hazards, const rf_access *accesses, uint32_t count)
{
    for (uint32_t i = 0; i < hazards->pending.count; i++) {
        const rf_access *old = &hazards->pending.items[i];
        for (uint32_t k = 0; k < count; k++) {
            const rf_access *new = &accesses[k];
            if (old->buffer == new->buffer && (old->write || new->write) &&
                old->begin < new->end &&new->begin < old->end)
                return true;
        }
    }
    return false;
}

rf_result rf_hazards_add(rf_hazards *hazards, const rf_access *accesses, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        RF_TRY(RF_VEC_GROW(&hazards->pending));
        hazards->pending.items[hazards->pending.count++] = accesses[i];
    }
    return RF_OK;
}

void rf_hazards_clear(rf_hazards *hazards)
{
    hazards->pending.count = 0;
}

void rf_hazards_free(rf_hazards *hazards)
{
    rf_free(hazards->pending.items);
    *hazards = (rf_hazards){ 0 };
}

/* ---- plans ---- */

static rf_gpu_pipeline_params pipeline_params(const rf_dispatch *d)
{
    rf_gpu_pipeline_params params = {
        .shader = d->shader,
        .spec = d->spec,
        .num_spec = d->n_spec,
        .num_bindings = d->n_bind,
        .push_size = d->push_size,
        .with_base = d->piece,
    };
    for (uint32_t b = 0; b < d->n_bind; b++)
        if (d->bind[b].view != RF_VIEW_STORAGE) params.texel_mask |= 1u << b;
    return params;
}

static rf_result make_counters(rf_exec *exec)
{
    if (exec->counters) return RF_OK;
    void *zeros = rf_aligned_calloc(RF_MAX_COUNTERS);
    if (!zeros) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r =
        rf_gpu_buffer_create(exec->device, RF_GPU_MEMORY_DEVICE, RF_MAX_COUNTERS, "counters", &exec->counters);
    if (r >= 0) r = rf_gpu_buffer_write(exec->counters, 0, zeros, RF_MAX_COUNTERS);
    if (r < 0) rf_gpu_buffer_destroy(&exec->counters);
    rf_free(zeros);
    return r;
}

/* Plans take turns with the buffer. Two that come to share a range are ordered by a barrier, as with any other bytes.
 */
static rf_result place_counters(rf_exec *exec, rf_node_plan *plan)
{
    const uint64_t size = plan->plan.counters;
    if (size == 0) return RF_OK;
    RF_TRY(make_counters(exec));
    if (exec->counters_next + size > RF_MAX_COUNTERS) exec->counters_next = 0;
    plan->counters = (rf_span){ exec->counters, exec->counters_next, size };
    exec->counters_next = rf_align_up(exec->counters_next + size, exec->caps.buffer_alignment);
    return RF_OK;
}

rf_result rf_node_plans_compile(rf_exec *exec, rf_node_plan *plans, uint32_t count)
{
    uint32_t total = 0, at = 0;
    for (uint32_t i = 0; i < count; i++) {
        RF_TRY(place_counters(exec, &plans[i]));
        total += plans[i].plan.count;
        plans[i].pipelines = RF_NEW_ARRAY(rf_gpu_pipeline *, plans[i].plan.count);
        if (!plans[i].pipelines) return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    rf_gpu_pipeline_params *params = RF_NEW_ARRAY(rf_gpu_pipeline_params, total);
    rf_gpu_pipeline **pipelines = RF_NEW_ARRAY(rf_gpu_pipeline *, total);
    rf_result r = params && pipelines ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; r >= 0 && i < count; i++)
        for (uint32_t k = 0; k < plans[i].plan.count; k++)
            if (plans[i].plan.items[k].shader) params[at++] = pipeline_params(&plans[i].plan.items[k]);
    if (r >= 0) r = rf_gpu_pipelines_get(exec->device, params, at, pipelines);
    at = 0;
    for (uint32_t i = 0; r >= 0 && i < count; i++)
        for (uint32_t k = 0; k < plans[i].plan.count; k++)
            plans[i].pipelines[k] = plans[i].plan.items[k].shader ? pipelines[at++] : NULL;
    rf_free(params);
    rf_free(pipelines);
    return r;
}

/* The tensor that a binding views, NULL for the workspace, counters or an index that the call does not have. */
static const rf_tensor_desc *bound_tensor(const rf_op_call *call, const rf_binding *b)
{
    if (b->kind == RF_BIND_INPUT && b->index < call->n_in) return &call->in[b->index];
    if (b->kind == RF_BIND_OUTPUT && b->index < call->n_out) return &call->out[b->index];
    return NULL;
}

static rf_result check_binding(const rf_exec *exec, const rf_op_call *call, const char *kernel,
                               const rf_kernel_plan *plan, const rf_binding *b)
{
    const rf_tensor_desc *desc = bound_tensor(call, b);
    if (!desc && b->kind != RF_BIND_WORKSPACE && b->kind != RF_BIND_COUNTERS)
        return RF_FAIL(RF_ERROR_INTERNAL, "%s (kernel %s) binds tensor %u, which the call does not have",
                       call->op->name, kernel, b->index);
    if (b->kind == RF_BIND_INPUT && (call->op->shape_only >> b->index & 1))
        return RF_FAIL(RF_ERROR_INTERNAL, "%s (kernel %s) binds input %u, of which only the shape exists",
                       call->op->name, kernel, b->index);
    if (b->kind == RF_BIND_INPUT && b->write && !(call->op->mutates >> b->index & 1))
        return RF_FAIL(RF_ERROR_INTERNAL, "%s (kernel %s) writes input %u, which the op does not mutate",
                       call->op->name, kernel, b->index);
    const uint64_t own = b->kind == RF_BIND_COUNTERS ? plan->counters : plan->workspace;
    const uint64_t whole = desc ? rf_padded_bytes(desc) : own;
    if (b->offset % exec->caps.buffer_alignment != 0 || b->offset >= whole || b->size > whole - b->offset)
        return RF_FAIL(RF_ERROR_INTERNAL, "%s (kernel %s) binds bytes %" PRIu64 " + %" PRIu64 " of %" PRIu64,
                       call->op->name, kernel, b->offset, b->size, whole);
    const uint64_t size = b->size ? b->size : whole - b->offset;
    if (b->view != RF_VIEW_STORAGE) {
        const uint64_t elements = rf_div_up(size, rf_view_texel_bytes(b->view));
        if (elements > exec->caps.max_texel_elements)
            return RF_FAIL(RF_ERROR_INTERNAL, "%s (kernel %s) binds %" PRIu64 " texels; the device allows %u",
                           call->op->name, kernel, elements, exec->caps.max_texel_elements);
        return RF_OK;
    }
    if (size <= exec->caps.max_storage_range) return RF_OK;
    return RF_FAIL(RF_ERROR_UNSUPPORTED,
                   "%s (kernel %s): a tensor of %" PRIu64 " bytes is more than the %" PRIu64
                   " that %s binds at once; use a smaller batch",
                   call->op->name, kernel, size, exec->caps.max_storage_range, rf_gpu_info(exec->device)->name);
}

static rf_result check_bindings(const rf_exec *exec, const rf_op_call *call, const char *kernel,
                                const rf_kernel_plan *plan)
{
    for (uint32_t i = 0; i < plan->count; i++)
        for (uint32_t b = 0; b < plan->items[i].n_bind; b++)
            RF_TRY(check_binding(exec, call, kernel, plan, &plan->items[i].bind[b]));
    return RF_OK;
}

static rf_result check_shapes(const rf_op_call *call)
{
    for (uint32_t i = 0; i < call->n_in + call->n_out; i++) {
        const rf_tensor_desc *desc = i < call->n_in ? &call->in[i] : &call->out[i - call->n_in];
        if (rf_shape_count(desc->shape) > 0) continue;
        char text[160];
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: %s %u is empty (%s); skip replicas without examples", call->op->name,
                       i < call->n_in ? "input" : "output", i < call->n_in ? i : i - call->n_in,
                       rf_shape_format(desc->shape, text, sizeof(text)));
    }
    return RF_OK;
}

rf_result rf_node_plan_make(const rf_exec *exec, const rf_op_call *call, const rf_kernel *kernel, rf_node_plan *out)
{
    *out = (rf_node_plan){ .op = call->op, .kernel = kernel };
    RF_TRY(check_shapes(call));
    if (call->op->cost) out->cost = call->op->cost(call);
    RF_TRY(rf_kernel_plan_make(kernel, call, &exec->caps, &out->plan));
    return check_bindings(exec, call, kernel->name, &out->plan);
}

void rf_node_plan_free(rf_node_plan *plan)
{
    rf_kernel_plan_free(&plan->plan);
    rf_free(plan->pipelines);
    plan->pipelines = NULL;
}

/* ---- recording ---- */

static void binding_resolve(const rf_binding *b, const rf_span *in, const rf_span *out, rf_span workspace,
                            rf_span counters, rf_gpu_binding *binding, rf_access *access)
{
    const rf_span span = b->kind == RF_BIND_INPUT      ? in[b->index]
                         : b->kind == RF_BIND_OUTPUT   ? out[b->index]
                         : b->kind == RF_BIND_COUNTERS ? counters
                                                       : workspace;
    const uint64_t whole = rf_align_up(span.size, 4);
    *binding = (rf_gpu_binding){ .buffer = span.buffer,
                                 .offset = span.offset + b->offset,
                                 .size = b->size ? b->size : whole - b->offset };
    if (b->view != RF_VIEW_STORAGE) {
        binding->texel_half = b->view == RF_VIEW_TEXEL_RGBA16F || b->view == RF_VIEW_TEXEL_R16F;
        binding->texel_components = b->view == RF_VIEW_TEXEL_R32F || b->view == RF_VIEW_TEXEL_R16F ? 1 : 4;
        /* Whole texels: the last one may reach into the padding behind a tensor; every buffer has it. */
        binding->size = rf_align_up(binding->size, rf_view_texel_bytes(b->view));
    }
    *access = (rf_access){ span.buffer, binding->offset, binding->offset + binding->size, b->write };
}

/* Run number i, counted along the innermost dimension first. */
static rf_gpu_region region_of(const rf_runs *runs, uint64_t i, const rf_gpu_binding *bindings)
{
    int64_t from = (int64_t)(bindings[0].offset + runs->from), to = (int64_t)(bindings[1].offset + runs->to);
    for (uint32_t k = 0; k < runs->rank; k++) {
        const int64_t at = (int64_t)(i % runs->count[k]);
        from += at * runs->from_step[k];
        to += at * runs->to_step[k];
        i /= runs->count[k];
    }
    return (rf_gpu_region){ (uint64_t)from, (uint64_t)to, runs->bytes };
}

static rf_result runs_record(rf_gpu_recording *rec, const rf_gpu_binding *bindings, const rf_runs *runs)
{
    uint64_t count = 1;
    for (uint32_t k = 0; k < runs->rank; k++) count *= runs->count[k];
    rf_gpu_region *regions = count <= UINT32_MAX ? RF_NEW_ARRAY(rf_gpu_region, count) : NULL;
    if (!regions) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = RF_OK;
    for (uint64_t i = 0; r >= 0 && i < count; i++) {
        regions[i] = region_of(runs, i, bindings);
        for (uint32_t b = 0; b < 2; b++) {
            const uint64_t at = (b == 0 ? regions[i].from : regions[i].to) - bindings[b].offset;
            if (at > bindings[b].size || runs->bytes > bindings[b].size - at)
                r = RF_FAIL(RF_ERROR_INTERNAL, "run %" PRIu64 " of a copy leaves its tensor", i);
        }
    }
    if (r >= 0) r = rf_gpu_record_regions(rec, bindings[0].buffer, bindings[1].buffer, regions, (uint32_t)count);
    rf_free(regions);
    return r;
}

static rf_result dispatch_record(rf_gpu_recording *rec, rf_gpu_pipeline *pipeline, const rf_gpu_binding *bindings,
                                 const rf_dispatch *d, const char *label)
{
    if (!d->shader && d->runs.bytes > 0) return runs_record(rec, bindings, &d->runs);
    if (!d->shader) return rf_gpu_record_fill(rec, bindings->buffer, bindings->offset, bindings->size, d->fill);
    if (!d->piece) return rf_gpu_record_dispatch(rec, pipeline, bindings, d->push, d->grid, label);
    return rf_gpu_record_dispatch_part(rec, pipeline, bindings, d->push, d->base, d->grid, label);
}

rf_result rf_record_dispatches(rf_recorder *recorder, const rf_node_plan *plan, uint32_t first, uint32_t end,
                               const rf_span *in, const rf_span *out, rf_span workspace)
{
    for (uint32_t i = first; i < end; i++) {
        const rf_dispatch *d = &plan->plan.items[i];
        rf_gpu_binding bindings[RF_MAX_BINDINGS] = { 0 };
        rf_access accesses[RF_MAX_BINDINGS];
        for (uint32_t b = 0; b < d->n_bind; b++)
            binding_resolve(&d->bind[b], in, out, workspace, plan->counters, &bindings[b], &accesses[b]);
        /* Within a plan the plan says what depends; against earlier nodes the bytes do. A dispatch that joins a
         * concurrent group starts where the group did, so all of the group's accesses are held against earlier nodes
         * first. */
        if (i == 0) {
            bool conflict = rf_hazards_conflict(&recorder->hazards, accesses, d->n_bind);
            for (uint32_t k = 1; !conflict && k < end && plan->plan.items[k].concurrent; k++) {
                const rf_dispatch *next = &plan->plan.items[k];
                rf_gpu_binding unused;
                rf_access later[RF_MAX_BINDINGS];
                for (uint32_t b = 0; b < next->n_bind; b++)
                    binding_resolve(&next->bind[b], in, out, workspace, plan->counters, &unused, &later[b]);
                conflict = rf_hazards_conflict(&recorder->hazards, later, next->n_bind);
            }
            if (conflict) rf_record_barrier(recorder);
        } else if (i > first && !d->concurrent) {
            rf_record_barrier(recorder);
        }
        RF_TRY(dispatch_record(recorder->rec, plan->pipelines[i], bindings, d, plan->op->name));
        RF_TRY(rf_hazards_add(&recorder->hazards, accesses, d->n_bind));
    }
    return RF_OK;
}

rf_result rf_record_node(rf_recorder *recorder, const rf_node_plan *plan, const rf_span *in, const rf_span *out,
                         rf_span workspace)
{
    return rf_record_dispatches(recorder, plan, 0, plan->plan.count, in, out, workspace);
}

rf_result rf_record_copy(rf_recorder *recorder, rf_span from, rf_span to)
{
    const rf_access accesses[2] = {
        { from.buffer, from.offset, from.offset + from.size, false },
        { to.buffer, to.offset, to.offset + from.size, true },
    };
    if (rf_hazards_conflict(&recorder->hazards, accesses, 2)) rf_record_barrier(recorder);
    RF_TRY(rf_gpu_record_copy(recorder->rec, from.buffer, from.offset, to.buffer, to.offset, from.size));
    return rf_hazards_add(&recorder->hazards, accesses, 2);
}

void rf_record_barrier(rf_recorder *recorder)
{
    rf_gpu_record_barrier(recorder->rec);
    rf_hazards_clear(&recorder->hazards);
    recorder->num_barriers++;
}
