/* SPDX-License-Identifier: Apache-2.0 */
/* Where the values of a planned instance are stored, and at the end of which part they are ready: look-ups for
 * recording. */
#include "exec/internal.h"

/* ---- parts ---- */

/* Position of the node that makes a value among those that run, plus one; views pass the question on. */
static uint32_t made_after(const rf_instance *in, const uint32_t *position, rf_value v)
{
    const rf_value_info *info = &in->graph->values.items[v];
    if (info->kind != RF_VALUE_RESULT) return 0;
    if (position[info->producer]) return position[info->producer];
    const rf_node_info *node = &in->graph->nodes.items[info->producer];
    uint32_t latest = 0;
    for (uint32_t i = 0; i < node->n_in; i++) {
        const uint32_t at = made_after(in, position, node->in[i]);
        if (at > latest) latest = at;
    }
    return latest;
}

rf_result rf_instance_part_ends(const rf_instance *in, uint32_t *ends)
{
    const rf_program *p = in->program;
    for (uint32_t part = 0; part < p->num_parts; part++) ends[part] = 0;
    if (p->num_parts > 1) {
        uint32_t *position = RF_NEW_ARRAY(uint32_t, in->graph->nodes.count);
        if (!position) return RF_ERROR_OUT_OF_HOST_MEMORY;
        for (uint32_t i = 0; i < in->num_nodes; i++) position[in->nodes[i].node] = i + 1;
        for (uint32_t i = 0; i < p->num_placements; i++) {
            const uint32_t at = made_after(in, position, p->placements[i].value);
            if (at > ends[p->placements[i].part]) ends[p->placements[i].part] = at;
        }
        rf_free(position);
    }
    for (uint32_t part = 1; part < p->num_parts; part++)
        if (ends[part] < ends[part - 1]) ends[part] = ends[part - 1];
    ends[p->num_parts - 1] = in->num_nodes;
    return RF_OK;
}

/* The state whose bytes a value is (a view of), or NULL. */
static const rf_value_info *state_behind(const rf_instance *in, rf_value v)
{
    if (!v) return NULL;
    const rf_value_info *info = &in->graph->values.items[in->graph->values.items[v].storage];
    return info->kind == RF_VALUE_STATE ? info : NULL;
}

static void value_touch(const rf_instance *in, rf_value v, uint32_t part, uint32_t *parts)
{
    const rf_value_info *state = state_behind(in, v);
    if (state && parts[state->slot] < part) parts[state->slot] = part;
}

rf_result rf_frame_state_parts(const rf_frame *frame, uint32_t *parts)
{
    const rf_instance *in = frame->instance;
    uint32_t *ends = RF_NEW_ARRAY(uint32_t, in->program->num_parts);
    const rf_result r = ends ? rf_instance_part_ends(in, ends) : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < in->graph->num_states; i++) parts[i] = 0;
    for (uint32_t i = 0, part = 0; r >= 0 && i < in->num_nodes; i++) {
        const rf_node_info *node = &in->graph->nodes.items[in->nodes[i].node];
        while (ends[part] <= i) part++;
        for (uint32_t k = 0; k < node->n_in; k++) value_touch(in, node->in[k], part, parts);
        for (uint32_t k = 0; k < node->n_out; k++) value_touch(in, node->out[k], part, parts);
    }
    for (uint32_t i = 0; r >= 0 && i < in->copies.count; i++)
        value_touch(in, in->copies.items[i].value, in->copies.items[i].part, parts);
    rf_free(ends);
    return r;
}

/* ---- look-up while recording ---- */

static rf_span residence_span(const rf_instance *in, const rf_frame *frame, const rf_residence *at)
{
    rf_span span = { .offset = at->offset, .size = at->size };
    switch (at->home) {
    case RF_HOME_NONE: break;
    case RF_HOME_SLAB: span = rf_exec_slab_span(in->program->exec, at->offset, at->size); break;
    case RF_HOME_INPUT: span.buffer = frame->inputs; break;
    case RF_HOME_RESULT: span.buffer = frame->results; break;
    case RF_HOME_FIXED: span.buffer = at->buffer; break;
    }
    return span;
}

rf_span rf_instance_span(const rf_instance *in, const rf_frame *frame, rf_value v)
{
    return residence_span(in, frame, &in->residence[v]);
}

rf_span rf_instance_copy_target(const rf_instance *in, const rf_frame *frame, uint32_t index)
{
    return residence_span(in, frame, &in->copies.items[index].to);
}

void rf_instance_node_spans(const rf_instance *instance, const rf_frame *frame, uint32_t index, rf_span *in,
                            rf_span *out, rf_span *workspace)
{
    const rf_node_plan *plan = &instance->nodes[index];
    const rf_node_info *node = &instance->graph->nodes.items[plan->node];
    for (uint32_t i = 0; i < node->n_in; i++) in[i] = rf_instance_span(instance, frame, node->in[i]);
    for (uint32_t i = 0; i < node->n_out; i++) out[i] = rf_instance_span(instance, frame, node->out[i]);
    *workspace =
        rf_exec_slab_span(instance->program->exec, instance->memory.workspace_offset[plan->node], plan->plan.workspace);
}
