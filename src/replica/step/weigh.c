/* SPDX-License-Identifier: Apache-2.0 */
/* The part that a trace has in updates: weights of accumulated steps (../update/step_weight.c), and scales of losses.
 */
#include "replica/internal.h"
#include "replica/step/function.h"
#include "replica/step/signature.h"
#include "replica/update/updater.h"

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
