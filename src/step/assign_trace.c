/* SPDX-License-Identifier: Apache-2.0 */
/* Values that a step assigns to variables that no optimizer updates, while it is traced. */
#include "graph/batch_dims.h"
#include "replica/internal.h"
#include "replica/store/variables.h"
#include "step/function.h"
#include "step/signature.h"

static rf_assignment *assignment_find(const rf_trace *t, const rf_variable *variable)
{
    const rf_assignments *list = &t->signature->assignments;
    for (uint32_t i = 0; i < list->count; i++)
        if (list->items[i].variable == variable) return &list->items[i];
    return NULL;
}

static rf_result assignment_check(const rf_trace *t, const rf_variable *variable, rf_value value,
                                  rf_aggregation aggregation)
{
    RF_REQUIRE(!variable->trainable,
               "rf_variable_update: variable '%s' is trainable: optimizers update it; create it with not_trainable",
               variable->name);
    RF_REQUIRE((int)aggregation >= RF_AGGREGATE_MEAN && (int)aggregation <= RF_AGGREGATE_FIRST_REPLICA,
               "rf_variable_update: variable '%s': aggregation %d does not exist", variable->name, (int)aggregation);
    const rf_tensor_desc *desc = rf_graph_desc(t->signature->graph, value);
    char want[96], got[96];
    RF_REQUIRE(desc->dtype == RF_F32 && rf_shape_equal(desc->shape, variable->shape),
               "rf_variable_update: the value of '%s' is %s %s, the variable f32 %s", variable->name,
               rf_dtype_name(desc->dtype), rf_shape_format(desc->shape, got, sizeof(got)),
               rf_shape_format(variable->shape, want, sizeof(want)));
    return RF_OK;
}

static rf_result assignment_add(rf_trace *t, rf_variable *variable, rf_tensor tensor, rf_aggregation aggregation)
{
    rf_assignments *list = &t->signature->assignments;
    rf_trace_variable(t, variable); /* the trace uses it, and keeps it */
    const rf_value value = rf_trace_value(t, tensor, "rf_variable_update: value");
    RF_TRY(rf_trace_status(t));
    RF_TRY(assignment_check(t, variable, value, aggregation));
    rf_assignment *at = assignment_find(t, variable);
    if (!at) {
        RF_TRY(RF_VEC_GROW(list));
        at = &list->items[list->count++];
    }
    *at = (rf_assignment){ variable, value, aggregation };
    return RF_OK;
}

rf_tensor rf_trace_assigned(rf_trace *t, rf_variable *variable)
{
    const rf_assignment *at = t ? assignment_find(t, variable) : NULL;
    return at ? rf_trace_wrap(t, at->value) : rf_variable_tensor(t, variable);
}

rf_result rf_trace_assign(rf_trace *t, rf_variable *variable, rf_tensor value, rf_aggregation aggregation)
{
    RF_TRY(rf_trace_status(t));
    (void)rf_trace_emit(t, assignment_add(t, variable, value, aggregation), 0);
    return rf_trace_status(t);
}

RF_API rf_result rf_variable_update(rf_trace *t, rf_variable *variable, rf_tensor value, rf_aggregation aggregation)
{
    RF_TRACING(t);
    RF_REQUIRE(t, "rf_variable_update: the trace is NULL");
    RF_TRY(rf_trace_status(t));
    if (variable && assignment_find(t, variable))
        return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                             "rf_variable_update: variable '%s' is updated twice in one step", variable->name);
    return rf_trace_assign(t, variable, value, aggregation);
}

/* ---- when the trace is complete ---- */

/* With several replicas the exchange adds; what makes a mean of the sum is computed where the value is. */
rf_result rf_trace_weigh_assigned(rf_trace *t)
{
    rf_graph *graph = t->signature->graph;
    rf_assignments *list = &t->signature->assignments;
    for (uint32_t i = 0; i < list->count && t->strategy->members.num_replicas > 1; i++) {
        rf_assignment *a = &list->items[i];
        if (a->aggregation != RF_AGGREGATE_MEAN) continue;
        const rf_value weight = rf_trace_host(t, RF_HOST_WEIGHT);
        RF_TRY(rf_trace_status(t));
        RF_TRY(graph->core->scale(graph, a->value, weight, &a->value));
    }
    return RF_OK;
}

rf_result rf_trace_check_shapes(const rf_signature *sig)
{
    if (sig->alone) return RF_OK;
    for (uint32_t i = 0; i < sig->assignments.count; i++) {
        const rf_assignment *a = &sig->assignments.items[i];
        uint32_t dims;
        RF_TRY(rf_graph_batch_dims(sig->graph, a->value, &dims));
        RF_REQUIRE(dims == 0,
                   "rf_variable_update: the shape of the value of '%s' depends on the batch; reduce it over the "
                   "batch first",
                   a->variable->name);
    }
    for (uint32_t u = 0; u < sig->updates.count; u++) {
        const rf_update *update = &sig->updates.items[u];
        for (uint32_t i = 0; i < update->count; i++) {
            uint32_t dims;
            RF_TRY(rf_graph_batch_dims(sig->graph, update->gradients[i], &dims));
            RF_REQUIRE(dims == 0,
                       "the shape of the gradient of '%s' depends on the batch; reduce it over the batch first",
                       update->variables[i]->name);
        }
    }
    return sig->sums.elements > 0 ? rf_step_sums_check(sig->graph) : RF_OK;
}
