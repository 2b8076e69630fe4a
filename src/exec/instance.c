/* SPDX-License-Identifier: Apache-2.0 */
/* A program at one batch size: shapes, kernels, and where every value lives. */
#include <stdlib.h>
#include <string.h>

#include "exec/internal.h"

/* The memory that the slab may take more so that fewer barriers are needed: a thirty-second, and on GPUs so many bytes.
 * A CPU has them in its cache. */
#define SLAB_SHARE 32u
#define SPARE_BYTES (16ull << 20)

/* ---- kernels ---- */

static rf_result remember_pipelines(rf_program *p, const rf_node_plan *plan)
{
    for (uint32_t i = 0; i < plan->plan.count; i++) {
        bool known = !plan->pipelines[i]; /* a copy has none */
        for (uint32_t k = 0; k < p->pipelines.count && !known; k++) known = p->pipelines.items[k] == plan->pipelines[i];
        if (known) continue;
        RF_TRY(RF_VEC_GROW(&p->pipelines));
        p->pipelines.items[p->pipelines.count++] = plan->pipelines[i];
    }
    return RF_OK;
}

static rf_result plan_nodes(rf_instance *in)
{
    rf_program *p = in->program;
    in->nodes = RF_NEW_ARRAY(rf_node_plan, in->graph->nodes.count);
    if (!in->nodes) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (rf_node n = 0; n < in->graph->nodes.count; n++) {
        const rf_node_info *info = &in->graph->nodes.items[n];
        if (info->dead || !p->runs[n] || rf_program_skips(p, info->op)) continue;
        rf_op_call call;
        const rf_kernel *kernel;
        rf_graph_call(in->graph, n, &call);
        RF_TRY(rf_exec_choose(p->exec, &call, &kernel));
        rf_log_kernel_choice(p->exec, p->name, in->batch, &call, kernel);
        rf_node_plan *plan = &in->nodes[in->num_nodes++];
        RF_TRY(rf_node_plan_make(p->exec, &call, kernel, plan));
        plan->node = n;
    }
    RF_TRY(rf_instance_split_nodes(in));
    for (uint32_t i = 0; i < in->num_nodes; i++) in->num_dispatches += in->nodes[i].plan.count;
    RF_TRY(rf_node_plans_compile(p->exec, in->nodes, in->num_nodes));
    for (uint32_t i = 0; i < in->num_nodes; i++) RF_TRY(remember_pipelines(p, &in->nodes[i]));
    return RF_OK;
}

/* ---- order ---- */

static uint64_t spare_bytes(const rf_instance *in)
{
    return in->program->exec->caps.is_cpu ? 0 : SPARE_BYTES;
}

/* Dispatches of a node that need a barrier before them, the first one included. */
static uint32_t sequential_dispatches(const rf_kernel_plan *plan)
{
    uint32_t count = 1;
    for (uint32_t i = 1; i < plan->count; i++) count += !plan->items[i].concurrent;
    return count;
}

/* Values that a run's parts place stay in them: nodes up to the one that makes the last of it. */
static void find_segments(const rf_instance *in, uint32_t *segment)
{
    const rf_program *p = in->program;
    const uint32_t count = in->graph->nodes.count;
    for (uint32_t part = 0; part + 1 < p->num_parts; part++) {
        rf_node end = 0;
        for (uint32_t i = 0; i < p->num_placements; i++) {
            const rf_value_info *value = &in->graph->values.items[p->placements[i].value];
            if (p->placements[i].part <= part && value->kind == RF_VALUE_RESULT && value->producer >= end)
                end = value->producer + 1;
        }
        for (rf_node n = end; n < count; n++) segment[n]++;
    }
}

/* Everything that goes by node numbers follows the graph; before, after: dispatches of each node. */
static rf_result instance_reorder(rf_instance *in, const rf_node *order, const uint32_t *before, uint32_t *after)
{
    const uint32_t count = in->graph->nodes.count;
    rf_node_plan *nodes = RF_NEW_ARRAY(rf_node_plan, count);
    uint32_t *plan_of = RF_NEW_ARRAY(uint32_t, count);
    const rf_result r = nodes && plan_of ? rf_graph_reorder(in->graph, order) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) {
        uint32_t at = 0;
        for (uint32_t i = 0; i < in->num_nodes; i++) plan_of[in->nodes[i].node] = i;
        for (rf_node n = 0; n < count; n++) {
            in->runs[n] = in->program->runs[order[n]];
            after[n] = before[order[n]];
            if (after[n] == 0) continue;
            nodes[at] = in->nodes[plan_of[order[n]]];
            nodes[at++].node = n;
        }
        memcpy(in->nodes, nodes, at * sizeof(*nodes));
    }
    rf_free(nodes);
    rf_free(plan_of);
    return r;
}

static rf_result order_nodes(rf_instance *in)
{
    const uint32_t count = in->graph->nodes.count;
    uint32_t *dispatches = RF_NEW_ARRAY(uint32_t, count), *segment = RF_NEW_ARRAY(uint32_t, count);
    rf_node *order = RF_NEW_ARRAY(rf_node, count);
    const rf_program *p = in->program;
    in->runs = RF_NEW_ARRAY(bool, count);
    in->dispatches = RF_NEW_ARRAY(uint32_t, count);
    rf_result r = RF_ERROR_OUT_OF_HOST_MEMORY;
    if (dispatches && segment && order && in->runs && in->dispatches) {
        for (uint32_t i = 0; i < in->num_nodes; i++)
            dispatches[in->nodes[i].node] = sequential_dispatches(&in->nodes[i].plan);
        find_segments(in, segment);
        const rf_order_params params = { .graph = in->graph,
                                         .dispatches = dispatches,
                                         .segment = segment,
                                         .roots = { p->results, p->num_results },
                                         .spare = spare_bytes(in) };
        r = rf_order_nodes(&params, order);
        if (r >= 0) r = instance_reorder(in, order, dispatches, in->dispatches);
    }
    rf_free(dispatches);
    rf_free(segment);
    rf_free(order);
    return r;
}

/* ---- places ---- */

/* True when a kernel writes this value, so that it can be told where. */
static bool made_by_kernel(const rf_instance *in, rf_value v)
{
    const rf_value_info *info = &in->graph->values.items[v];
    if (info->kind != RF_VALUE_RESULT) return false;
    const rf_node_info *node = &in->graph->nodes.items[info->producer];
    return !node->dead && in->runs[info->producer] && !rf_program_skips(in->program, node->op);
}

static rf_result copy_later(rf_instance *in, rf_value v, rf_residence to, uint32_t part)
{
    RF_TRY(RF_VEC_GROW(&in->copies));
    in->copies.items[in->copies.count++] = (rf_final_copy){ v, to, part };
    return RF_OK;
}

static rf_result place_or_copy(rf_instance *in, rf_value v, rf_residence at, bool in_place, uint32_t part)
{
    /* The kernel writes the bytes behind a view themselves. Results stay where other nodes read them fast. */
    const rf_value made = at.home == RF_HOME_FIXED ? in->graph->values.items[v].storage : v;
    if (in_place && in->residence[v].home == RF_HOME_NONE && in->residence[made].home == RF_HOME_NONE &&
        made_by_kernel(in, made)) {
        in->residence[v] = in->residence[made] = at;
        return RF_OK;
    }
    return copy_later(in, v, at, part);
}

/* Fixed places and results: the value is computed there where possible. */
static rf_result place_wanted(rf_instance *in)
{
    const rf_program *p = in->program;
    for (uint32_t i = 0; i < p->num_placements; i++) {
        const rf_program_placement *placement = &p->placements[i];
        const uint64_t size = rf_tensor_bytes(rf_graph_desc(in->graph, placement->value));
        RF_TRY(place_or_copy(in, placement->value,
                             (rf_residence){ RF_HOME_FIXED, placement->at.buffer, placement->at.offset, size }, true,
                             placement->part));
    }
    in->result_offset = RF_NEW_ARRAY(uint64_t, p->num_results);
    if (!in->result_offset) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < p->num_results; i++) {
        const rf_value v = p->results[i];
        const uint64_t size = rf_tensor_bytes(rf_graph_desc(in->graph, v));
        in->result_offset[i] = in->result_size;
        in->result_size = rf_align_up(in->result_size + size, p->exec->caps.buffer_alignment);
        /* Memory that the host reads is slow to read for a GPU: a value that other nodes read goes to the slab there.
         */
        const bool in_place =
            p->exec->caps.host_visible && (p->exec->caps.is_cpu || rf_graph_num_uses(in->graph, v) == 0);
        RF_TRY(place_or_copy(in, v, (rf_residence){ RF_HOME_RESULT, NULL, in->result_offset[i], size }, in_place,
                             p->num_parts - 1));
    }
    return RF_OK;
}

static uint64_t take_input(rf_instance *in, uint64_t *offset, uint64_t size)
{
    if (*offset == UINT64_MAX) {
        *offset = in->input_size;
        in->input_size = rf_align_up(in->input_size + size, in->program->exec->caps.buffer_alignment);
    }
    return *offset;
}

static rf_result place_leaves(rf_instance *in)
{
    const rf_program *p = in->program;
    in->input_offset = RF_NEW_ARRAY(uint64_t, in->graph->num_inputs);
    in->host_offset = RF_NEW_ARRAY(uint64_t, in->graph->num_hosts);
    if (!in->input_offset || !in->host_offset) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < in->graph->num_inputs; i++) in->input_offset[i] = UINT64_MAX;
    for (uint32_t i = 0; i < in->graph->num_hosts; i++) in->host_offset[i] = UINT64_MAX;
    for (rf_value v = 1; v < in->graph->values.count; v++) {
        const rf_value_info *info = &in->graph->values.items[v];
        rf_residence *at = &in->residence[v];
        const uint64_t size = rf_tensor_bytes(&info->desc);
        if (!p->reads[v]) continue;
        if (info->kind == RF_VALUE_INPUT)
            *at = (rf_residence){ RF_HOME_INPUT, NULL, take_input(in, &in->input_offset[info->slot], size), size };
        else if (info->kind == RF_VALUE_HOST)
            *at = (rf_residence){ RF_HOME_INPUT, NULL, take_input(in, &in->host_offset[info->slot], size), size };
        else if (info->kind == RF_VALUE_CONSTANT)
            *at = (rf_residence){ RF_HOME_FIXED, p->constants, p->constant_offset[v], size };
        else if (info->kind == RF_VALUE_STATE)
            *at = (rf_residence){ RF_HOME_FIXED, p->states[info->slot].buffer, p->states[info->slot].offset, size };
    }
    for (uint32_t i = 0; i < p->num_sums; i++) {
        const rf_location at = rf_sum_location(&p->sum_places.total, &p->sums[i]);
        in->residence[p->sums[i].out] =
            (rf_residence){ RF_HOME_FIXED, at.buffer, at.offset, p->sums[i].count * sizeof(float) };
    }
    return RF_OK;
}

/* Nodes between two barriers run at the same time: none of them gets bytes that another one still uses, which would
 * cost a barrier, unless much more memory would be needed. */
static rf_result plan_slab(rf_instance *in, const rf_graph_roots *roots, const bool *external,
                           const uint64_t *workspace)
{
    const rf_exec *exec = in->program->exec;
    rf_memory_plan_params memory = { .roots = *roots,
                                     .external = external,
                                     .workspace_size = workspace,
                                     .alignment = exec->caps.buffer_alignment,
                                     .segment = exec->segment_size };
    RF_TRY(rf_memory_plan_make(in->graph, &memory, &in->memory));
    rf_node_span *spans = RF_NEW_ARRAY(rf_node_span, in->graph->nodes.count);
    if (!spans) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_order_params params = { .graph = in->graph, .dispatches = in->dispatches };
    rf_memory_plan beside = { 0 };
    rf_result r = rf_order_spans(&params, spans);
    memory.spans = spans;
    if (r >= 0) r = rf_memory_plan_make(in->graph, &memory, &beside);
    rf_free(spans);
    const uint64_t least = in->memory.slab_size;
    if (r >= 0 && beside.slab_size <= least + least / SLAB_SHARE + spare_bytes(in)) {
        const rf_memory_plan other = in->memory;
        in->memory = beside;
        beside = other;
    }
    rf_memory_plan_free(&beside);
    return r;
}

/* The rest lives in the slab: `external` is what has a place already and what no node that runs makes. */
static rf_result plan_memory(rf_instance *in, bool *external, uint64_t *workspace, rf_value *roots)
{
    const rf_program *p = in->program;
    const rf_graph *g = in->graph;
    for (rf_value v = 1; v < g->values.count; v++) {
        const rf_value_info *info = &g->values.items[v];
        external[v] =
            in->residence[v].home != RF_HOME_NONE || (info->kind == RF_VALUE_RESULT && !in->runs[info->producer]);
    }
    for (uint32_t i = 0; i < in->num_nodes; i++) workspace[in->nodes[i].node] = in->nodes[i].plan.workspace;
    for (uint32_t i = 0; i < p->num_results; i++) roots[i] = p->results[i];
    for (uint32_t i = 0; i < p->num_placements; i++) roots[p->num_results + i] = p->placements[i].value;
    const rf_graph_roots wanted = { roots, p->num_results + p->num_placements };
    return plan_slab(in, &wanted, external, workspace);
}

static rf_result place_rest(rf_instance *in)
{
    const rf_graph *g = in->graph;
    bool *external = RF_NEW_ARRAY(bool, g->values.count);
    uint64_t *workspace = RF_NEW_ARRAY(uint64_t, g->nodes.count);
    rf_value *roots = RF_NEW_ARRAY(rf_value, in->program->num_results + in->program->num_placements);
    const rf_result r =
        external && workspace && roots ? plan_memory(in, external, workspace, roots) : RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_free(external);
    rf_free(workspace);
    rf_free(roots);
    RF_TRY(r);
    for (rf_value v = 1; v < g->values.count; v++) {
        if (in->residence[v].home != RF_HOME_NONE) continue;
        rf_value at = v;
        while (in->memory.placements[at].alias_of) at = in->memory.placements[at].alias_of;
        const rf_placement *place = &in->memory.placements[at];
        if (in->residence[at].home != RF_HOME_NONE)
            in->residence[v] = in->residence[at];
        else if (place->planned)
            in->residence[v] = (rf_residence){ RF_HOME_SLAB, NULL, place->offset, 0 };
        in->residence[v].size = rf_tensor_bytes(rf_graph_desc(g, v));
    }
    return RF_OK;
}

/* ---- creation ---- */

static rf_result instance_build(rf_instance *in)
{
    rf_program *p = in->program;
    RF_TRY(rf_graph_clone(p->graph, &in->graph));
    if (in->batch > 0) RF_TRY(rf_graph_specialize(in->graph, in->batch));
    in->residence = RF_NEW_ARRAY(rf_residence, in->graph->values.count);
    if (!in->residence) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(plan_nodes(in));
    RF_TRY(order_nodes(in));
    RF_TRY(place_leaves(in));
    RF_TRY(place_wanted(in));
    RF_TRY(place_rest(in));
    RF_TRY(rf_exec_reserve_slab(p->exec, in->memory.slab_size));
    while (in->num_frames < RF_FRAMES_PER_INSTANCE) {
        RF_TRY(rf_frame_create(in, &in->frames[in->num_frames]));
        in->num_frames++;
    }
    rf_log_instance_plan(in);
    return RF_OK;
}

rf_result rf_instance_create(rf_program *program, int64_t batch, rf_instance **out)
{
    *out = NULL;
    rf_instance *in = RF_NEW(rf_instance);
    if (!in) return RF_ERROR_OUT_OF_HOST_MEMORY;
    in->program = program;
    in->batch = batch;
    const rf_result r = instance_build(in);
    if (r < 0) {
        rf_instance_destroy(&in);
        return r;
    }
    *out = in;
    return RF_OK;
}

void rf_instance_destroy(rf_instance **instance)
{
    rf_instance *in = *instance;
    if (!in) return;
    for (uint32_t i = 0; i < in->num_frames; i++) rf_frame_destroy(&in->frames[i]);
    for (uint32_t i = 0; i < in->num_nodes; i++) rf_node_plan_free(&in->nodes[i]);
    rf_free(in->nodes);
    rf_free(in->runs);
    rf_free(in->dispatches);
    rf_memory_plan_free(&in->memory);
    rf_free(in->copies.items);
    rf_free(in->residence);
    rf_free(in->input_offset);
    rf_free(in->host_offset);
    rf_free(in->result_offset);
    rf_graph_destroy(&in->graph);
    rf_free(in);
    *instance = NULL;
}
