/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/store/weight_copies_16bit.h"

#include "base/platform.h"
#include "replica/internal.h"
#include "replica/store/variables.h"

#define SMALL_GAP 65536 /* elements */

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
    return (rf_location){ s->store.weight_copies.buffers[index], offset * sizeof(uint16_t) };
}

/* ---- memory ---- */

static void free_programs(rf_strategy *s)
{
    for (uint32_t r = 0; s->store.weight_copies.programs && r < s->members.num_local; r++)
        rf_program_destroy(&s->store.weight_copies.programs[r]);
    rf_free(s->store.weight_copies.programs);
    s->store.weight_copies.programs = NULL;
}

static void free_buffers(const rf_strategy *s, rf_gpu_buffer **buffers)
{
    for (uint32_t r = 0; buffers && r < s->members.num_local; r++) rf_gpu_buffer_destroy(&buffers[r]);
    rf_free(buffers);
}

void rf_weight_copies_free(rf_strategy *s)
{
    free_programs(s);
    free_buffers(s, s->store.weight_copies.buffers);
    s->store.weight_copies = (rf_weight_copies){ 0 };
}

static rf_result create_buffers(const rf_strategy *s, uint64_t size, rf_gpu_buffer **buffers)
{
    for (uint32_t r = 0; r < s->members.num_local; r++)
        RF_TRY(rf_gpu_buffer_create(s->members.replicas[r].device, RF_GPU_MEMORY_DEVICE, size, "shadows", &buffers[r]));
    return RF_OK;
}

rf_result rf_weight_copies_ensure(rf_strategy *s)
{
    rf_weight_copies *h = &s->store.weight_copies;
    const uint64_t capacity = s->store.trainable.values.capacity;
    if (h->type == RF_DTYPE_INVALID || h->capacity == capacity) return RF_OK;
    RF_TRY(rf_strategy_wait(s));
    rf_gpu_buffer **buffers = RF_NEW_ARRAY(rf_gpu_buffer *, s->members.num_local);
    if (!buffers) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_result r = create_buffers(s, capacity * sizeof(uint16_t), buffers);
    if (r < 0) {
        free_buffers(s, buffers);
        return rf_error_context(r, "shadows of variables in %s", rf_dtype_name(h->type));
    }
    rf_log_message(RF_LOG_DEBUG, "shadows of variables in %s take %.2f MiB on each of %u devices",
                   rf_dtype_name(h->type), (double)(capacity * sizeof(uint16_t)) / (1 << 20), s->members.num_local);
    free_buffers(s, h->buffers);
    h->buffers = buffers;
    h->capacity = capacity;
    h->stale = true;
    s->store.generation++;
    return RF_OK;
}

/* ---- making them anew ---- */

typedef struct casts {
    rf_graph *graph;
    rf_range *ranges; /* one for each placement; states are told apart by their addresses */
    rf_location *states;
    rf_program_placement *placements;
    uint32_t count;
} casts;

/* Neighbours in one, also where less stands between them than another dispatch costs; none longer than an update's. */
static uint32_t list_ranges(const rf_strategy *s, rf_range *ranges)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->store.trainable.variables.count; i++) {
        const rf_variable *v = s->store.trainable.variables.items[i];
        if (!v->has_copy) continue;
        rf_range span = rf_variable_span(v);
        if (count > 0 && span.begin - ranges[count - 1].end <= SMALL_GAP) span.begin = ranges[count - 1].end;
        while (span.begin < span.end) {
            rf_range *last = count > 0 ? &ranges[count - 1] : NULL;
            const bool goes_on = last && last->end == span.begin && last->end - last->begin < s->store.max_segment;
            if (!goes_on) ranges[count++] = (rf_range){ span.begin, span.begin };
            last = &ranges[count - 1];
            const uint64_t end = last->begin + s->store.max_segment;
            span.begin = last->end = end < span.end ? end : span.end;
        }
    }
    return count;
}

static uint32_t most_ranges(const rf_strategy *s)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < s->store.trainable.variables.count; i++)
        count += 2 + (s->store.trainable.variables.items[i]->count + SMALL_GAP) / s->store.max_segment;
    return (uint32_t)count;
}

static rf_result emit_casts(const rf_strategy *s, uint32_t index, casts *c)
{
    for (uint32_t i = 0; i < c->count; i++) {
        const rf_range *range = &c->ranges[i];
        const rf_tensor_desc desc = { RF_F32, RF_SHAPE((int64_t)(range->end - range->begin)) };
        rf_value x, y;
        RF_TRY(rf_graph_state(c->graph, range, desc, NULL, &x));
        RF_TRY(c->graph->core->cast(c->graph, x, s->store.weight_copies.type, &y));
        c->states[i] = (rf_location){ s->store.trainable.values.buffers[index], range->begin * sizeof(float) };
        c->placements[i] =
            (rf_program_placement){ .value = y, .at = rf_weight_copies_location(s, index, range->begin) };
    }
    const rf_program_params params = { .name = "shadows",
                                       .graph = c->graph,
                                       .states = c->states,
                                       .placements = c->placements,
                                       .num_placements = c->count };
    return rf_program_create(s->members.replicas[index].exec, &params, &s->store.weight_copies.programs[index]);
}

static rf_result make_program(const rf_strategy *s, uint32_t index)
{
    const uint32_t most = most_ranges(s);
    casts c = { .ranges = RF_NEW_ARRAY(rf_range, most),
                .states = RF_NEW_ARRAY(rf_location, most),
                .placements = RF_NEW_ARRAY(rf_program_placement, most) };
    rf_result r = c.ranges && c.states && c.placements ? rf_graph_create(rf_exec_core_ops(), &c.graph)
                                                       : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) c.count = list_ranges(s, c.ranges);
    if (r >= 0) r = emit_casts(s, index, &c);
    rf_graph_destroy(&c.graph);
    rf_free(c.ranges);
    rf_free(c.states);
    rf_free(c.placements);
    return r;
}

static rf_result make_programs(rf_strategy *s)
{
    if (s->store.weight_copies.programs && s->store.weight_copies.generation == s->store.generation) return RF_OK;
    free_programs(s);
    s->store.weight_copies.programs = RF_NEW_ARRAY(rf_program *, s->members.num_local);
    if (!s->store.weight_copies.programs) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t r = 0; r < s->members.num_local; r++) {
        const rf_result result = make_program(s, r);
        if (result >= 0) continue;
        free_programs(s);
        return rf_replica_context(s, r, result);
    }
    s->store.weight_copies.generation = s->store.generation;
    return RF_OK;
}

rf_result rf_weight_copies_refresh(rf_strategy *s)
{
    if (!s->store.weight_copies.stale) return RF_OK;
    RF_TRY(make_programs(s));
    for (uint32_t r = 0; r < s->members.num_local; r++) {
        rf_frame *frame;
        RF_TRY(rf_replica_context(s, r, rf_program_acquire(s->store.weight_copies.programs[r], 0, &frame)));
        RF_TRY(rf_replica_context(s, r, rf_replica_submit_frames(&s->members.replicas[r], &frame, 1)));
    }
    s->store.weight_copies.stale = false;
    return RF_OK;
}
