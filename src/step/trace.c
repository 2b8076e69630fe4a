/* SPDX-License-Identifier: Apache-2.0 */
/* The view that a step has while it is traced. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/numbers.h"
#include "graph/batch_dims.h"
#include "replica/internal.h"
#include "replica/store/local_state.h"
#include "replica/store/variables.h"
#include "replica/update/update.h"
#include "replica/update/updater.h"
#include "step/function.h"
#include "step/signature.h"

static const rf_tensor invalid_tensor = { 0, 0 };

/* ---- what the trace is ---- */

rf_graph *rf_trace_graph(rf_trace *t)
{
    return t->signature->graph;
}
rf_strategy *rf_trace_strategy(const rf_trace *t)
{
    return t->strategy;
}
RF_API bool rf_trace_training(const rf_trace *t)
{
    return t && t->function->params.training;
}
RF_API uint32_t rf_trace_num_replicas(const rf_trace *t)
{
    return t ? t->strategy->members.num_replicas : 0;
}
uint32_t rf_trace_next_stream(rf_trace *t)
{
    return t->streams++;
}

rf_result rf_trace_examples(rf_trace *t, rf_value v, const rf_examples **out)
{
    RF_TRY(rf_examples_follow(&t->examples, t->signature->graph));
    *out = &t->examples.items[v];
    return RF_OK;
}

bool rf_trace_is_share(const rf_trace *t, char *who, size_t size)
{
    const rf_strategy *s = t->strategy;
    snprintf(who, size, s->members.num_replicas > 1 ? "%u replicas" : "workers of parameter servers",
             s->members.num_replicas);
    return s->members.num_replicas > 1 || s->remote;
}

uint64_t rf_trace_rows(const rf_trace *t)
{
    return t->rows;
}

void rf_trace_set_rows(rf_trace *t, uint64_t rows)
{
    t->rows = rows;
}

void rf_trace_keep_together(rf_trace *t, uint32_t examples, const char *what)
{
    rf_signature *sig = t->signature;
    if (t->status < 0 || sig->unit % examples == 0) return;
    const uint32_t both = rf_common_unit(sig->unit, examples);
    if (both == 0) {
        rf_trace_fail(
            t, RF_ERROR_INVALID_ARGUMENT,
            "%s keeps %u examples together, '%s' and others before it %u, and their common multiple is too large "
            "for a batch; use numbers of which one divides the other",
            what, examples, sig->unit_of, sig->unit);
        return;
    }
    sig->unit = both;
    snprintf(sig->unit_of, sizeof(sig->unit_of), "%s", what);
}

/* ---- handles ---- */

rf_value rf_trace_value(rf_trace *t, rf_tensor x, const char *argument)
{
    if (t->status < 0) return 0;
    if (x.id == 0) {
        rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "%s is the invalid tensor; was it set?", argument);
        return 0;
    }
    if (x.trace != t->serial || x.id >= t->signature->graph->values.count) {
        rf_trace_fail(
            t, RF_ERROR_INVALID_ARGUMENT,
            "%s is a tensor of another trace; a tensor is valid only during the call of the step that made it",
            argument);
        return 0;
    }
    rf_trace_note_operand(t, x.id, argument);
    if (t->call.depth == 0 && rf_trace_keep_failure(t, rf_trace_label(t, argument)) < 0) return 0;
    return x.id;
}

static const rf_tensor_desc *handle_desc(const rf_trace *t, rf_tensor x)
{
    if (!t || x.id == 0 || x.trace != t->serial || x.id >= t->signature->graph->values.count) return NULL;
    return rf_graph_desc(t->signature->graph, x.id);
}

RF_API rf_shape rf_tensor_shape(const rf_trace *t, rf_tensor x)
{
    const rf_tensor_desc *desc = handle_desc(t, x);
    return desc ? desc->shape : (rf_shape){ 0 };
}

RF_API rf_dtype rf_tensor_dtype(const rf_trace *t, rf_tensor x)
{
    const rf_tensor_desc *desc = handle_desc(t, x);
    return desc ? desc->dtype : RF_DTYPE_INVALID;
}

/* ---- leaves ---- */

rf_value rf_trace_host(rf_trace *t, rf_host_value which)
{
    static const char *const names[] = { "random", "global_batch", "inverse_active", "weight" }; /* by rf_host_value */
    rf_value *v = &t->signature->hosts[which];
    const rf_tensor_desc desc =
        which == RF_HOST_RANDOM ? (rf_tensor_desc){ RF_I32, RF_SHAPE(6) } : (rf_tensor_desc){ RF_F32, RF_SCALAR_SHAPE };
    if (t->status < 0) return 0;
    if (*v == 0 && rf_trace_keep_failure(t, rf_graph_host(t->signature->graph, v, desc, names[which], v)) < 0) *v = 0;
    return *v;
}

rf_value rf_trace_state(rf_trace *t, const void *object, rf_tensor_desc desc, const char *name, rf_state_ref ref)
{
    rf_signature *sig = t->signature;
    rf_value v;
    if (rf_trace_keep_failure(t, RF_VEC_GROW(&sig->states)) < 0) return 0;
    if (rf_trace_keep_failure(t, rf_graph_state(sig->graph, object, desc, name, &v)) < 0) return 0;
    if (sig->graph->values.items[v].slot < sig->states.count) return v;
    if (ref.variable) rf_variable_retain(ref.variable);
    if (ref.local) rf_local_state_retain(ref.local);
    sig->states.items[sig->states.count++] = ref;
    return v;
}

static rf_result check_home(const rf_trace *t, const rf_strategy *home, const char *kind, const char *name)
{
    if (home == t->strategy) return RF_OK;
    return RF_FAIL(
        RF_ERROR_INVALID_ARGUMENT,
        "%s '%s' belongs to another strategy (%u replicas, first on %s) than function '%s' (%u replicas, first on "
        "%s); create both on the same one",
        kind, name, home->members.num_replicas, rf_strategy_device_name(home, 0), t->function->name,
        t->strategy->members.num_replicas, rf_strategy_device_name(t->strategy, 0));
}

const rf_trace_listener *rf_trace_listeners(const rf_trace *t)
{
    return t->listener;
}

void rf_trace_listen(rf_trace *t, const rf_trace_listener *listener)
{
    t->listener = listener;
}

static rf_value variable_state(rf_trace *t, rf_variable *variable, rf_tensor_desc desc)
{
    if (rf_trace_keep_failure(t, check_home(t, variable->strategy, "variable", variable->name)) < 0) return 0;
    for (const rf_trace_listener *l = t->listener; l; l = l->outer)
        if (rf_trace_keep_failure(t, l->uses(l->user, variable)) < 0) return 0;
    return rf_trace_state(t, variable, desc, variable->name, (rf_state_ref){ .variable = variable });
}

rf_value rf_trace_variable(rf_trace *t, rf_variable *variable)
{
    if (t->status < 0) return 0;
    if (!variable || variable->matrix) {
        rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                      variable ? "variable '%s' is stored in few bits, which products of layers alone can read; leave "
                                 "it out of rf_strategy_set_quantization()"
                               : "the variable is NULL",
                      variable ? variable->name : "");
        return 0;
    }
    return variable_state(t, variable, (rf_tensor_desc){ RF_F32, variable->shape });
}

rf_value rf_trace_words(rf_trace *t, rf_variable *variable)
{
    if (t->status < 0) return 0;
    return variable_state(t, variable, (rf_tensor_desc){ RF_I32, RF_SHAPE((int64_t)variable->count) });
}

rf_value rf_trace_local_state(rf_trace *t, rf_local_state *state)
{
    if (t->status < 0) return 0;
    if (rf_trace_keep_failure(t, check_home(t, state->strategy, "state", state->name)) < 0) return 0;
    return rf_trace_state(t, state, state->desc, state->name, (rf_state_ref){ .local = state });
}

static bool uses_local_state(const rf_signature *sig, const rf_local_state *state)
{
    for (uint32_t i = 0; i < sig->states.count; i++)
        if (sig->states.items[i].local == state) return true;
    return false;
}

RF_API rf_tensor rf_variable_tensor(rf_trace *t, rf_variable *variable)
{
    RF_TRACING(t);
    return t ? rf_trace_wrap(t, rf_trace_variable(t, variable)) : invalid_tensor;
}

RF_API rf_tensor rf_constant(rf_trace *t, float value)
{
    RF_TRACING(t);
    if (!t || t->status < 0) return invalid_tensor;
    rf_value v = 0;
    const rf_result r = rf_graph_constant(t->signature->graph, (rf_tensor_desc){ RF_F32, RF_SCALAR_SHAPE }, &value, &v);
    return rf_trace_emit(t, r, v);
}

RF_API rf_tensor rf_constant_array(rf_trace *t, const rf_array *values)
{
    RF_TRACING(t);
    if (!t || t->status < 0) return invalid_tensor;
    if (!values || !values->data || rf_dtype_size(values->dtype) == 0 || rf_shape_count(values->shape) < 1) {
        rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                      "rf_constant_array: values must have a type, a shape without zeros, and data");
        return invalid_tensor;
    }
    rf_value v = 0;
    const rf_tensor_desc desc = { values->dtype, values->shape };
    const rf_result r = rf_graph_constant(t->signature->graph, desc, values->data, &v);
    return rf_trace_emit(t, r, v);
}

RF_API rf_tensor rf_global_batch_size(rf_trace *t)
{
    RF_TRACING(t);
    rf_value v = t ? rf_trace_host(t, RF_HOST_GLOBAL_BATCH) : 0;
    if (v == 0) return invalid_tensor;
    rf_graph *graph = t->signature->graph;
    const rf_result r = graph->core->alias(graph, v, &v);
    return rf_trace_emit(t, r, v);
}

/* ---- gradients ---- */

rf_variable *rf_trace_gradient_of(const rf_trace *t, rf_value v)
{
    for (uint32_t i = 0; i < t->gradients.count; i++)
        if (t->gradients.items[i].value == v) return t->gradients.items[i].variable;
    return NULL;
}

rf_value rf_trace_loss_of(const rf_trace *t, rf_variable_list variables)
{
    for (uint32_t i = 0; i < t->gradients.count; i++)
        for (uint32_t k = 0; k < variables.count; k++)
            if (t->gradients.items[i].variable == variables.items[k]) return t->gradients.items[i].loss;
    return 0;
}

bool rf_trace_is_unreached(const rf_trace *t, rf_value v)
{
    for (uint32_t i = 0; i < t->gradients.count; i++)
        if (t->gradients.items[i].value == v) return t->gradients.items[i].variable == NULL;
    return false;
}

rf_variable *rf_trace_slot_variable(const rf_trace *t, uint32_t slot)
{
    return t->signature->states.items[slot].variable;
}

bool rf_trace_leaf_is_common(const rf_trace *t, rf_value leaf)
{
    const rf_value_info *info = &t->signature->graph->values.items[leaf];
    switch (info->kind) {
    case RF_VALUE_CONSTANT: return true;
    case RF_VALUE_STATE: return rf_trace_slot_variable(t, info->slot) != NULL;
    case RF_VALUE_HOST:
        return leaf != t->signature->hosts[RF_HOST_RANDOM] && leaf != t->signature->hosts[RF_HOST_WEIGHT];
    case RF_VALUE_NONE:
    case RF_VALUE_INPUT:
    case RF_VALUE_RESULT: break;
    }
    return false;
}

rf_result rf_trace_pass_over(rf_trace *t, rf_value value, rf_value loss)
{
    RF_TRY(rf_trace_keep_failure(t, RF_VEC_GROW(&t->passed_over)));
    t->passed_over.items[t->passed_over.count++] = (rf_passed_over){ value, loss };
    return RF_OK;
}

/* A gradient of zeros would be taken for one. */
static rf_result check_passed_over(const rf_trace *t, rf_value loss, const rf_value *targets, uint32_t count)
{
    const rf_graph *graph = t->signature->graph;
    if (t->passed_over.count == 0) return RF_OK;
    bool *needed = RF_NEW_ARRAY(bool, graph->values.count);
    if (!needed) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_graph_needed(graph, &loss, 1, needed);
    bool found = false;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < t->passed_over.count; k++)
            found = found || (t->passed_over.items[k].value == targets[i] && needed[t->passed_over.items[k].loss]);
    rf_free(needed);
    RF_REQUIRE(!found,
               "rf_gradients: a target is probabilities whose crossentropy was computed from the logits in front "
               "of the softmax or sigmoid; differentiate by the logits, or give the crossentropy "
               "rf_multiply(t, probabilities, rf_constant(t, 1)), which it takes as they are");
    return RF_OK;
}

static rf_result loss_differentiate(rf_trace *t, rf_tensor loss, const rf_tensor *targets, uint32_t count,
                                    rf_value *values, bool *reached, rf_tensor *grads)
{
    rf_value *wanted = values, *found = values + count;
    const rf_value at = rf_trace_value(t, loss, "rf_gradients: loss");
    for (uint32_t i = 0; i < count; i++) wanted[i] = rf_trace_value(t, targets[i], "rf_gradients: a target");
    RF_TRY(rf_trace_status(t));
    rf_graph *graph = t->signature->graph;
    RF_TRY(check_passed_over(t, at, wanted, count));
    RF_TRY(rf_graph_differentiate_reached(graph, at, wanted, count, found));
    for (uint32_t i = 0; i < count; i++) {
        reached[i] = found[i] != 0;
        if (!reached[i]) RF_TRY(graph->core->fill_like(graph, 0.0f, wanted[i], &found[i]));
    }
    /* Each handle is a value of its own, because targets may share a gradient, and one may be computed on the way to
     * another. */
    for (uint32_t i = 0; i < count; i++) {
        RF_TRY(graph->core->alias(graph, found[i], &found[i]));
        grads[i] = rf_trace_wrap(t, found[i]);
        const rf_value_info *target = &graph->values.items[wanted[i]];
        rf_variable *variable = target->kind == RF_VALUE_STATE ? rf_trace_slot_variable(t, target->slot) : NULL;
        if (!variable) continue;
        if (!reached[i]) variable = NULL;
        RF_TRY(RF_VEC_GROW(&t->gradients));
        t->gradients.items[t->gradients.count++] = (rf_gradient_handle){ found[i], at, variable };
    }
    return RF_OK;
}

RF_API rf_result rf_gradients(rf_trace *t, rf_tensor loss, const rf_tensor *targets, uint32_t num_targets,
                              rf_tensor *grads)
{
    RF_TRACING(t);
    RF_REQUIRE(t, "rf_gradients: the trace is NULL");
    for (uint32_t i = 0; grads && i < num_targets; i++) grads[i] = invalid_tensor;
    RF_TRY(rf_trace_status(t));
    if (num_targets > 0 && (!targets || !grads))
        return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_gradients: targets or grads is NULL");
    rf_value *values = RF_NEW_ARRAY(rf_value, 2 * (size_t)num_targets);
    bool *reached = RF_NEW_ARRAY(bool, num_targets);
    const rf_result r = values && reached ? loss_differentiate(t, loss, targets, num_targets, values, reached, grads)
                                          : RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_free(values);
    rf_free(reached);
    return rf_trace_keep_failure(t, r);
}

/* ---- updates ---- */

static bool updated_before(const rf_signature *sig, const rf_variable *variable)
{
    for (uint32_t u = 0; u < sig->updates.count; u++)
        for (uint32_t i = 0; i < sig->updates.items[u].count; i++)
            if (sig->updates.items[u].variables[i] == variable) return true;
    return false;
}

static rf_result check_update(const rf_trace *t, const rf_updater *updater, const rf_value *gradients,
                              rf_variable_list variables)
{
    const rf_signature *sig = t->signature;
    RF_REQUIRE(t->function->params.training,
               "the step updates variables, but its function was created without rf_function_params::training: dropout "
               "and noise would be off, and batch normalization would not learn; set it");
    RF_TRY(check_home(t, updater->strategy, "optimizer", "of this step"));
    RF_REQUIRE(variables.count > 0,
               "the list of variables to update is empty: is the model built, and are not all of its layers frozen?");
    RF_REQUIRE(!rf_updater_scales(updater) || uses_local_state(sig, updater->scaling.scale),
               "the optimizer scales losses, but the step has no scaled one; take gradients of what "
               "rf_optimizer_scale_loss() gives");
    for (uint32_t u = 0; u < sig->updates.count; u++)
        RF_REQUIRE(sig->updates.items[u].updater != updater, "the optimizer is applied twice in one step");
    for (uint32_t i = 0; i < variables.count; i++) {
        const rf_variable *v = variables.items[i];
        RF_REQUIRE(v, "variable %u of the update is NULL", i);
        RF_TRY(check_home(t, v->strategy, "variable", v->name));
        RF_REQUIRE(v->trainable, "variable '%s' is not trainable and cannot be updated by an optimizer", v->name);
        RF_REQUIRE(!updated_before(sig, v), "variable '%s' is updated twice in one step", v->name);
        for (uint32_t k = 0; k < i; k++)
            RF_REQUIRE(variables.items[k] != v, "variable '%s' appears twice in the list of variables to update",
                       v->name);
        RF_REQUIRE(gradients[i] > 0 && gradients[i] < sig->graph->values.count, "the gradient of '%s' is missing",
                   v->name);
        const rf_tensor_desc *desc = rf_graph_desc(sig->graph, gradients[i]);
        char want[96], got[96];
        RF_REQUIRE(desc->dtype == RF_F32 && rf_shape_equal(desc->shape, v->shape),
                   "the gradient of '%s' is %s %s, the variable f32 %s", v->name, rf_dtype_name(desc->dtype),
                   rf_shape_format(desc->shape, got, sizeof(got)), rf_shape_format(v->shape, want, sizeof(want)));
    }
    return RF_OK;
}

static rf_result add_update(rf_trace *t, rf_updater *updater, const rf_value *gradients, rf_variable_list variables,
                            rf_gradient_transform *transform)
{
    rf_signature *sig = t->signature;
    RF_TRY(check_update(t, updater, gradients, variables));
    RF_TRY(RF_VEC_GROW(&sig->updates));
    rf_update *update = &sig->updates.items[sig->updates.count];
    *update = (rf_update){ 0 };
    update->variables = RF_NEW_ARRAY(rf_variable *, variables.count);
    update->gradients = RF_NEW_ARRAY(rf_value, variables.count);
    if (!update->variables || !update->gradients) {
        rf_update_free(update);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    sig->updates.count++;
    update->updater = rf_updater_retain(updater);
    update->weighing = t->weighing;
    t->weighing = (rf_update_weighing){ 0 };
    for (uint32_t i = 0; i < variables.count; i++) {
        update->variables[i] = rf_variable_retain(variables.items[i]);
        update->gradients[i] = gradients[i];
    }
    update->count = variables.count;
    if (transform) {
        update->transform = *transform;
        update->transform_hash = transform->graph ? rf_graph_hash(transform->graph) : 0;
        *transform = (rf_gradient_transform){ 0 };
    }
    return RF_OK;
}

rf_result rf_trace_update(rf_trace *t, rf_updater *updater, const rf_value *gradients, rf_variable_list variables,
                          rf_gradient_transform *transform)
{
    rf_result r = rf_trace_status(t);
    if (r >= 0) r = rf_trace_keep_failure(t, add_update(t, updater, gradients, variables, transform));
    if (transform) rf_gradient_transform_free(transform);
    return r;
}

/* ---- weights of accumulated steps (../update/step_weight.c), and scales of losses ---- */

rf_result rf_trace_note_divisor(rf_trace *t, rf_value loss, const rf_step_divisor *divisor)
{
    RF_TRY(RF_VEC_GROW(&t->divisors));
    t->divisors.items[t->divisors.count++] = (rf_noted_divisor){ loss, *divisor };
    return RF_OK;
}

const rf_step_divisor *rf_trace_noted_divisor(const rf_trace *t, rf_value loss)
{
    for (uint32_t i = 0; i < t->divisors.count; i++)
        if (t->divisors.items[i].loss == loss) return &t->divisors.items[i].divisor;
    return NULL;
}

bool rf_trace_is_batch_size(const rf_trace *t, rf_value v)
{
    return v != 0 && v == t->signature->hosts[RF_HOST_GLOBAL_BATCH];
}

static rf_result weighing_host(rf_trace *t, const void *identity, const char *name, rf_value *out, uint32_t *slot)
{
    rf_graph *g = t->signature->graph;
    RF_TRY(rf_graph_host(g, identity, (rf_tensor_desc){ RF_F32, RF_SCALAR_SHAPE }, name, out));
    *slot = g->values.items[*out].slot;
    return RF_OK;
}

rf_result rf_trace_weigh_step(rf_trace *t, rf_updater *u, const rf_step_divisor *divisor, rf_step_weighing *out)
{
    rf_update_weighing *w = &t->weighing;
    *w = (rf_update_weighing){ .kind = divisor->kind, .elements = divisor->elements };
    *out = (rf_step_weighing){ 0 };
    if (divisor->kind == RF_DIVISOR_NONE) return RF_OK;
    RF_TRY(weighing_host(t, &u->weights.sum, "weight", &out->unit, &w->factor_slot));
    if (divisor->kind == RF_DIVISOR_BATCH) return RF_OK;
    RF_TRY(rf_updater_ensure_weights(u));
    RF_TRY(weighing_host(t, &u->weights.took_part, "keep", &out->keep, &w->keep_slot));
    out->state = rf_trace_local_state(t, u->weights.device);
    return rf_trace_status(t);
}

rf_value rf_trace_loss_scale(rf_trace *t, rf_updater *u)
{
    return rf_trace_local_state(t, u->scaling.scale);
}
