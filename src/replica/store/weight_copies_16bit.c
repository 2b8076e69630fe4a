/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/store/weight_copies_16bit.h"

#include "base/platform.h"
#include "replica/internal.h"
#include "replica/store/variables.h"

/* ---- which there are ---- */

/* The state that the node casts to 16 bits, if the step updates it. */
static rf_value shadow_source(const rf_graph *g, const rf_node_info *node, const bool *updated)
{
    if (node->dead || node->op != g->core->conversion) return 0;
    const rf_value_info *from = &g->values.items[node->in[0]];
    const bool narrows = from->desc.dtype == RF_F32 && rf_dtype_is_narrow(rf_graph_desc(g, node->out[0])->dtype);
    return narrows && from->kind == RF_VALUE_STATE && updated[from->slot] ? node->in[0] : 0;
}

rf_dtype rf_weight_copies_plan(const rf_graph *g, const bool *updated, rf_dtype present, rf_value *source)
{
    int64_t elements[2] = { 0, 0 }; /* cast to f16, to bf16 */
    for (rf_node n = 0; n < g->nodes.count; n++) {
        const rf_value from = shadow_source(g, &g->nodes.items[n], updated);
        if (from == 0) continue;
        const rf_tensor_desc *to = rf_graph_desc(g, g->nodes.items[n].out[0]);
        elements[to->dtype == RF_BF16] += rf_shape_count(to->shape);
    }
    rf_dtype type = present;
    if (type == RF_DTYPE_INVALID && elements[0] + elements[1] > 0) type = elements[1] > elements[0] ? RF_BF16 : RF_F16;
    for (rf_value v = 0; v < g->values.count; v++) source[v] = 0;
    for (rf_node n = 0; n < g->nodes.count; n++) {
        const rf_value from = shadow_source(g, &g->nodes.items[n], updated), to = g->nodes.items[n].out[0];
        if (from != 0 && rf_graph_desc(g, to)->dtype == type) source[to] = from;
    }
    return type;
}

void rf_weight_copies_add(rf_strategy *s, rf_variable *v)
{
    if (v->has_copy) return;
    v->has_copy = true;
    s->store.weight_copies.stale = true;
    s->store.generation++; /* updates write it, too */
}

bool rf_weight_copies_are_written(const rf_strategy *s, rf_range range)
{
    if (s->members.num_replicas > 1 && s->update_mode == RF_UPDATE_SHARDED) return false;
    for (uint32_t i = 0; i < s->store.trainable.variables.count; i++) {
        const rf_variable *v = s->store.trainable.variables.items[i];
        if (v->has_copy && v->offset < range.end && v->offset + v->count > range.begin) return true;
    }
    return false;
}

rf_location rf_weight_copies_location(const rf_strategy *s, uint32_t index, uint64_t offset)
{
    return (rf_location){ s->store.weight_copies.values.buffers[index], offset * sizeof(uint16_t) };
}

/* ---- memory ---- */

rf_result rf_weight_copies_ensure(rf_strategy *s)
{
    rf_weight_copies *h = &s->store.weight_copies;
    const uint64_t capacity = s->store.trainable.values.capacity;
    if (h->type == RF_DTYPE_INVALID || h->capacity == capacity) return RF_OK;
    RF_TRY(rf_strategy_wait(s));
    h->values.name = h->type == RF_F16 ? "shadows of variables in f16" : "shadows of variables in bf16";
    RF_TRY(rf_flat_grow(s, &h->values, rf_div_up(capacity, 2), 0));
    rf_log_message(RF_LOG_DEBUG, "%s take %.2f MiB on each of %u devices", h->values.name,
                   (double)(capacity * sizeof(uint16_t)) / (1 << 20), s->members.num_local);
    h->capacity = capacity;
    h->stale = true;
    s->store.generation++;
    return RF_OK;
}
