/* SPDX-License-Identifier: Apache-2.0 */
/* Traces outside of any step. */
#include "step/function.h"

static rf_result trace_alone(rf_trace *t, rf_result (*body)(rf_trace *t, void *user), void *user)
{
    rf_signature *sig = t->signature;
    RF_TRY(rf_graph_create(rf_exec_core_ops(), &sig->graph));
    const uint64_t before = rf_error_count();
    RF_TRY(rf_trace_returned(t, body(t, user), before));
    bool holds = sig->states.count > 0 || sig->updates.count > 0 || sig->assignments.count > 0;
    for (uint32_t i = 0; i < RF_HOST_COUNT; i++) holds = holds || sig->hosts[i] != 0;
    RF_REQUIRE(!holds, "it uses variables, random numbers or the batch of a step; it may use only its arguments");
    return RF_OK;
}

rf_result rf_trace_alone(rf_strategy *strategy, const char *name, rf_result (*body)(rf_trace *t, void *user),
                         void *user, rf_graph **out)
{
    rf_function function = { .strategy = strategy, .name = (char *)(uintptr_t)name };
    rf_signature *signature = RF_NEW(rf_signature);
    *out = NULL;
    if (!signature) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_trace t = {
        .serial = rf_strategy_next_serial(strategy), .strategy = strategy, .function = &function, .signature = signature
    };
    const rf_result r = trace_alone(&t, body, user);
    if (r >= 0) {
        *out = signature->graph;
        signature->graph = NULL;
    }
    rf_trace_free(&t);
    rf_signature_free(signature, 0);
    return r;
}
