/* SPDX-License-Identifier: Apache-2.0 */
/* A step is traced: called once, checked, and made ready to be compiled. */
#include <inttypes.h>
#include <stdio.h>

#include "graph/batch_dims.h"
#include "replica/store/variables.h"
#include "replica/update/update.h"
#include "step/function.h"

/* A transform runs after the updates that precede its own, but must read the values that the step began with. */
static rf_result check_transforms(const rf_signature *sig)
{
    for (uint32_t u = 0; u < sig->updates.count; u++) {
        const rf_update *update = &sig->updates.items[u];
        for (uint32_t i = 0; i < update->transform.states.count; i++) {
            const rf_transform_state *state = &update->transform.states.items[i];
            for (uint32_t k = 0; k < u && !state->gradient; k++)
                for (uint32_t v = 0; v < sig->updates.items[k].count; v++)
                    RF_REQUIRE(sig->updates.items[k].variables[v] != state->variable,
                               "gradients are computed with the value of '%s', which another optimizer has updated by "
                               "then; apply that optimizer after this one",
                               state->variable->name);
        }
    }
    return RF_OK;
}

static rf_result add_inputs(rf_trace *t, rf_tensor *in)
{
    const rf_element_spec *spec = &t->signature->spec;
    for (uint32_t i = 0; i < spec->num_components; i++) {
        rf_value v;
        RF_TRY(rf_graph_input(t->signature->graph, i, (rf_tensor_desc){ spec->dtype[i], spec->shape[i] }, &v));
        in[i] = rf_trace_wrap(t, v);
    }
    return RF_OK;
}

rf_result rf_trace_returned(rf_trace *t, rf_result returned, uint64_t before)
{
    if (t->status < 0) return rf_error_restore(&t->error);
    if (returned > 0)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "the step returned %d (%s); it must return rf_trace_status() or an error", (int)returned,
                       rf_result_name(returned));
    return rf_error_of_user(returned, before, "the step");
}

/* Where all that the step is for stands. *out is freed with rf_free(). */
static rf_result list_roots(rf_signature *sig, uint32_t num_outputs, rf_value ***out, uint32_t *count)
{
    uint32_t most = num_outputs + sig->assignments.count;
    for (uint32_t u = 0; u < sig->updates.count; u++) most += sig->updates.items[u].count;
    rf_value **roots = *out = RF_NEW_ARRAY(rf_value *, most);
    if (!roots) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < num_outputs; i++) *roots++ = &sig->outputs[i];
    for (uint32_t i = 0; i < sig->assignments.count; i++) *roots++ = &sig->assignments.items[i].value;
    for (uint32_t u = 0; u < sig->updates.count; u++)
        for (uint32_t i = 0; i < sig->updates.items[u].count; i++) *roots++ = &sig->updates.items[u].gradients[i];
    *count = most;
    return RF_OK;
}

/* From here on equal expressions are one: what is differentiated has been. */
static rf_result share_equal(rf_signature *sig, uint32_t num_outputs)
{
    rf_value **roots, *map = RF_NEW_ARRAY(rf_value, sig->graph->values.count);
    uint32_t count = 0;
    if (!map) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = list_roots(sig, num_outputs, &roots, &count);
    if (r >= 0) r = rf_graph_merge_common(sig->graph, map);
    for (uint32_t i = 0; r >= 0 && i < count; i++) *roots[i] = map[*roots[i]];
    rf_free(roots);
    rf_free(map);
    return r;
}

/* Variables that the step updates, by slot. */
static void list_updated(const rf_signature *sig, bool *updated)
{
    for (uint32_t u = 0; u < sig->updates.count; u++)
        for (uint32_t i = 0; i < sig->updates.items[u].count; i++)
            for (uint32_t slot = 0; slot < sig->states.count; slot++)
                if (sig->states.items[slot].variable == sig->updates.items[u].variables[i]) updated[slot] = true;
}

/* A variable that is also read otherwise, as a result, is cast all the same. */
static rf_result read_weight_copy(rf_trace *t, rf_value v, rf_value source)
{
    rf_signature *sig = t->signature;
    rf_variable *variable = sig->states.items[sig->graph->values.items[source].slot].variable;
    const rf_tensor_desc desc = *rf_graph_desc(sig->graph, v);
    const rf_value shadow = rf_trace_state(t, &variable->has_copy, desc, variable->name,
                                           (rf_state_ref){ .variable = variable, .shadow = true });
    if (shadow == 0) return rf_trace_status(t);
    rf_graph_substitute(sig->graph, v, shadow);
    rf_weight_copies_add(t->strategy, variable);
    sig->reads_weight_copies = true;
    return RF_OK;
}

static rf_result use_weight_copies(rf_trace *t)
{
    rf_signature *sig = t->signature;
    const rf_value count = sig->graph->values.count;
    bool *updated = RF_NEW_ARRAY(bool, sig->states.count);
    rf_value *source = RF_NEW_ARRAY(rf_value, count);
    rf_result r = updated && source ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) {
        list_updated(sig, updated);
        t->strategy->store.weight_copies.type =
            rf_weight_copies_plan(sig->graph, updated, t->strategy->store.weight_copies.type, source);
    }
    for (rf_value v = 0; r >= 0 && v < count; v++)
        if (source[v]) r = read_weight_copy(t, v, source[v]);
    rf_free(updated);
    rf_free(source);
    return r;
}

/* Which batches all that the step is for fits. */
static rf_result check_batches(rf_signature *sig, uint32_t num_outputs)
{
    rf_value **roots, *values = NULL;
    uint32_t count;
    rf_result r = list_roots(sig, num_outputs, &roots, &count);
    if (r >= 0) values = RF_NEW_ARRAY(rf_value, count);
    if (r >= 0 && !values) r = RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; r >= 0 && i < count; i++) values[i] = *roots[i];
    if (r >= 0) r = rf_graph_check_batches(sig->graph, values, count);
    rf_free(roots);
    rf_free(values);
    return r;
}

static rf_result trace_step(rf_trace *t)
{
    rf_function *f = t->function;
    rf_tensor in[RF_MAX_COMPONENTS] = { { 0 } }, out[RF_MAX_COMPONENTS] = { { 0 } };
    RF_TRY(rf_graph_create(rf_exec_core_ops(), &t->signature->graph));
    t->signature->graph->trace = t;
    RF_TRY(add_inputs(t, in));
    f->num_traces++;
    const uint64_t before = rf_error_count();
    RF_TRY(rf_trace_returned(t, f->params.step(t, in, out, f->params.user), before));
    for (uint32_t i = 0; i < f->params.num_outputs; i++) {
        char name[32];
        snprintf(name, sizeof(name), "out[%" PRIu32 "]", i);
        t->signature->outputs[i] = rf_trace_value(t, out[i], name);
        RF_TRY(rf_trace_status(t));
    }
    RF_TRY(check_transforms(t->signature));
    RF_TRY(rf_trace_weigh_assigned(t));
    RF_TRY(share_equal(t->signature, f->params.num_outputs));
    RF_TRY(use_weight_copies(t));
    rf_signature *sig = t->signature;
    sig->sums.elements = rf_step_sums_elements(t->strategy, sig->graph);
    RF_TRY(check_batches(sig, f->params.num_outputs));
    RF_TRY(rf_trace_check_shapes(sig));
    if (t->strategy->members.num_replicas == 1) sig->sums.elements = 0; /* nothing reads them */
    return RF_OK;
}

void rf_trace_free(rf_trace *t)
{
    rf_free(t->gradients.items);
    rf_free(t->passed_over.items);
    rf_examples_map_free(&t->examples);
    rf_free(t->divisors.items);
}

rf_result rf_trace_run(rf_function *function, rf_signature *signature)
{
    rf_strategy *s = function->strategy;
    rf_trace t = {
        .serial = rf_strategy_next_serial(s), .strategy = s, .function = function, .signature = signature, .rows = 1
    };
    const rf_result r = trace_step(&t);
    if (signature->graph) signature->graph->trace = NULL;
    rf_trace_free(&t);
    return r;
}
