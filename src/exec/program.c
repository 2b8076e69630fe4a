/* SPDX-License-Identifier: Apache-2.0 */
/* A compiled graph: what is independent of the batch size, and the instances that are not. */
#include <inttypes.h>
#include <string.h>

#include "exec/internal.h"

/* ---- what runs ---- */

static void value_need(bool *reads, rf_value v)
{
    if (v) reads[v] = true;
}

/* Marks nodes whose bytes matter, last to first. Others only lend their shape. */
static rf_result program_mark(rf_program *p)
{
    const rf_graph *g = p->graph;
    p->runs = RF_NEW_ARRAY(bool, g->nodes.count);
    p->reads = RF_NEW_ARRAY(bool, g->values.count);
    if (!p->runs || !p->reads) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < p->num_results; i++) value_need(p->reads, p->results[i]);
    for (uint32_t i = 0; i < p->num_placements; i++) value_need(p->reads, p->placements[i].value);
    for (uint32_t n = g->nodes.count; n-- > 0;) {
        const rf_node_info *node = &g->nodes.items[n];
        if (node->dead) continue;
        bool runs = node->op->mutates != 0;
        for (uint32_t i = 0; i < node->n_out; i++) runs = runs || p->reads[node->out[i]];
        p->runs[n] = runs;
        for (uint32_t i = 0; runs && i < node->n_in; i++)
            if (!(node->op->shape_only >> i & 1)) value_need(p->reads, node->in[i]);
    }
    return RF_OK;
}

static rf_result upload_constants(rf_program *p)
{
    const rf_graph *g = p->graph;
    p->constant_offset = RF_NEW_ARRAY(uint64_t, g->values.count);
    if (!p->constant_offset) return RF_ERROR_OUT_OF_HOST_MEMORY;
    uint64_t size = 0;
    for (rf_value v = 1; v < g->values.count; v++) {
        const rf_value_info *info = &g->values.items[v];
        if (info->kind != RF_VALUE_CONSTANT || !p->reads[v]) continue;
        p->constant_offset[v] = size;
        size = rf_align_up(size + rf_tensor_bytes(&info->desc), p->exec->caps.buffer_alignment);
    }
    if (size == 0) return RF_OK;
    RF_TRY(rf_gpu_buffer_create(p->exec->device, RF_GPU_MEMORY_DEVICE, size, "constants", &p->constants));
    for (rf_value v = 1; v < g->values.count; v++) {
        const rf_value_info *info = &g->values.items[v];
        const uint64_t bytes = rf_tensor_bytes(&info->desc);
        if (info->kind == RF_VALUE_CONSTANT && p->reads[v] && bytes > 0)
            RF_TRY(rf_gpu_buffer_write(p->constants, p->constant_offset[v], info->data, bytes));
    }
    return RF_OK;
}

/* ---- creation ---- */

static rf_result check_location(const rf_program *p, const rf_location *at, const rf_tensor_desc *desc,
                                const char *what, uint32_t number)
{
    RF_REQUIRE(at->buffer, "rf_program_create: %s: %s %u has no buffer", p->name, what, number);
    RF_REQUIRE(at->offset % p->exec->caps.buffer_alignment == 0,
               "rf_program_create: %s: %s %u lies at byte %" PRIu64 ", not a multiple of the device's %u", p->name,
               what, number, at->offset, p->exec->caps.buffer_alignment);
    const uint64_t size = rf_gpu_buffer_size(at->buffer);
    RF_REQUIRE(at->offset <= size && rf_padded_bytes(desc) <= size - at->offset,
               "rf_program_create: %s: %s %u does not fit into its buffer", p->name, what, number);
    return RF_OK;
}

static rf_result check_values(const rf_program *p)
{
    const uint32_t count = p->graph->values.count;
    for (uint32_t i = 0; i < p->num_results; i++)
        RF_REQUIRE(p->results[i] > 0 && p->results[i] < count,
                   "rf_program_create: %s: result %u is not a value of the graph", p->name, i);
    for (uint32_t i = 0; i < p->num_placements; i++)
        RF_REQUIRE(p->placements[i].value > 0 && p->placements[i].value < count,
                   "rf_program_create: %s: placement %u is not of a value of the graph", p->name, i);
    return RF_OK;
}

static rf_result check_locations(const rf_program *p)
{
    const rf_graph *g = p->graph;
    for (uint32_t i = 0; i < p->num_placements; i++)
        RF_TRY(check_location(p, &p->placements[i].at, rf_graph_desc(g, p->placements[i].value), "placement", i));
    for (uint32_t i = 0; i < p->num_sums; i++) {
        const rf_location at = rf_sum_location(&p->sum_places.total, &p->sums[i]);
        RF_TRY(check_location(p, &at, rf_graph_desc(g, p->sums[i].out), "sum", i));
    }
    for (rf_value v = 1; v < g->values.count; v++) {
        const rf_value_info *info = &g->values.items[v];
        if (info->kind == RF_VALUE_STATE && p->reads[v])
            RF_TRY(check_location(p, &p->states[info->slot], &info->desc, "state", info->slot));
    }
    return RF_OK;
}

static rf_result program_optimize(rf_program *p)
{
    const uint32_t count = p->num_results + p->num_placements;
    rf_value *roots = RF_NEW_ARRAY(rf_value, count);
    if (!roots) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < p->num_results; i++) roots[i] = p->results[i];
    for (uint32_t i = 0; i < p->num_placements; i++) roots[p->num_results + i] = p->placements[i].value;
    const rf_result r = rf_graph_optimize(p->graph, &(rf_graph_roots){ roots, count });
    rf_free(roots);
    return r;
}

static rf_result copy_array(const void *from, uint32_t count, size_t item, void **out)
{
    *out = rf_calloc(count, item);
    if (!*out) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (count) memcpy(*out, from, count * item);
    return RF_OK;
}

static rf_result program_build(rf_program *p, const rf_program_params *params)
{
    p->name = rf_strdup(params->name ? params->name : "program");
    if (!p->name) return RF_ERROR_OUT_OF_HOST_MEMORY;
    p->num_results = params->num_results;
    p->num_placements = params->num_placements;
    RF_TRY(copy_array(params->results, params->num_results, sizeof(*p->results), (void **)&p->results));
    RF_TRY(copy_array(params->placements, params->num_placements, sizeof(*p->placements), (void **)&p->placements));
    p->picks_numbers = params->picks_numbers;
    p->replicated = params->sum_places != NULL;
    if (p->replicated) p->sum_places = *params->sum_places;
    RF_TRY(copy_array(params->states, params->graph->num_states, sizeof(*p->states), (void **)&p->states));
    RF_TRY(rf_graph_clone(params->graph, &p->graph));
    RF_TRY(check_values(p));
    RF_TRY(program_optimize(p));
    RF_TRY(program_mark(p));
    RF_TRY(rf_program_plan_sums(p));
    p->num_parts = p->num_sum_parts + 1;
    for (uint32_t i = 0; i < p->num_placements; i++)
        if (p->placements[i].part >= p->num_parts) p->num_parts = p->placements[i].part + 1;
    RF_TRY(check_locations(p));
    return upload_constants(p);
}

rf_result rf_program_create(rf_exec *exec, const rf_program_params *params, rf_program **out)
{
    *out = NULL;
    RF_REQUIRE(params && params->graph, "rf_program_create: params->graph is missing");
    RF_REQUIRE(params->graph->num_states == 0 || params->states, "rf_program_create: the graph has states but "
                                                                 "params->states is NULL");
    rf_program *p = RF_NEW(rf_program);
    if (!p) return RF_ERROR_OUT_OF_HOST_MEMORY;
    p->exec = exec;
    const rf_result r = program_build(p, params);
    if (r < 0) {
        rf_program_destroy(&p);
        return r;
    }
    *out = p;
    return RF_OK;
}

uint32_t rf_program_num_parts(const rf_program *program)
{
    return program->num_parts - program->num_sum_parts;
}

const rf_program_sum *rf_program_sums(const rf_program *program, uint32_t *count)
{
    *count = program->num_sums;
    return program->sums;
}

uint32_t rf_program_num_sum_parts(const rf_program *program)
{
    return program->num_sum_parts;
}

void rf_program_destroy(rf_program **program)
{
    if (!program || !*program) return;
    rf_program *p = *program;
    for (uint32_t i = 0; i < p->num_instances; i++) rf_instance_destroy(&p->instances[i]);
    rf_gpu_buffer_destroy(&p->constants);
    rf_graph_destroy(&p->graph);
    rf_free(p->pipelines.items);
    rf_free(p->constant_offset);
    rf_free(p->runs);
    rf_free(p->reads);
    rf_free(p->placements);
    rf_free(p->sums);
    rf_free(p->results);
    rf_free(p->states);
    rf_free(p->name);
    rf_free(p);
    *program = NULL;
}

/* ---- instances ---- */

static bool has_acquired_frame(const rf_instance *instance)
{
    for (uint32_t i = 0; i < instance->num_frames; i++)
        if (instance->frames[i]->acquired) return true;
    return false;
}

/* Makes room for one more: drops the instance whose last use is longest ago. */
static rf_result instance_evict(rf_program *p)
{
    if (p->num_instances < RF_MAX_INSTANCES) return RF_OK;
    uint32_t oldest = UINT32_MAX;
    for (uint32_t i = 0; i < p->num_instances; i++)
        if (!has_acquired_frame(p->instances[i]) &&
            (oldest == UINT32_MAX || p->instances[i]->last_use < p->instances[oldest]->last_use))
            oldest = i;
    if (oldest == UINT32_MAX)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "%s: frames of %d batch sizes are acquired and not submitted; submit some", p->name,
                       RF_MAX_INSTANCES);
    rf_instance_destroy(&p->instances[oldest]);
    p->instances[oldest] = p->instances[--p->num_instances];
    return RF_OK;
}

rf_result rf_program_instance(rf_program *p, int64_t batch, rf_instance **out)
{
    *out = NULL;
    if (p->graph->num_inputs == 0) batch = 0;
    RF_REQUIRE(p->graph->num_inputs == 0 || batch > 0, "%s: a batch of %" PRId64 "; skip replicas without examples",
               p->name, batch);
    for (uint32_t i = 0; i < p->num_instances && !*out; i++)
        if (p->instances[i]->batch == batch) *out = p->instances[i];
    if (!*out) {
        RF_TRY(instance_evict(p));
        RF_TRY(rf_error_context(rf_instance_create(p, batch, out), "%s (batch %" PRId64 ")", p->name, batch));
        p->instances[p->num_instances++] = *out;
    }
    (*out)->last_use = ++p->clock;
    /* An attempt to make the slab larger that failed has left less of it than there was. */
    return rf_exec_reserve_slab(p->exec, (*out)->memory.slab_size);
}

/* The first run of a program that may have to be cut tells how fast the device is. */
static rf_result instance_follow(rf_instance *in, rf_frame *frame)
{
    if (in->program->exec->split_policy.target <= 0 || in->paced) return RF_OK;
    if (!frame->timed) return RF_OK;
    const double seconds = rf_frame_seconds(frame);
    in->paced = true; /* once, also where the clock stands still */
    return seconds > 0 ? rf_instance_adopt_pace(in, seconds) : RF_OK;
}

/* ---- frames ---- */

uint32_t rf_frame_limit(uint32_t wanted, uint64_t bytes)
{
    const uint64_t room = (uint64_t)256 << 20;
    if (wanted > RF_MAX_FRAMES) wanted = RF_MAX_FRAMES;
    if (bytes > 0 && wanted > room / bytes) wanted = (uint32_t)(room / bytes);
    return wanted > RF_FRAMES_PER_INSTANCE ? wanted : RF_FRAMES_PER_INSTANCE;
}

void rf_exec_keep_frames(rf_exec *exec, uint32_t count)
{
    if (exec->frames < count) exec->frames = count;
}

static uint32_t most_frames(const rf_instance *in)
{
    if (in->out_of_memory) return in->num_frames;
    const uint32_t copies = in->program->exec->caps.host_visible ? 1 : 2; /* of inputs: where they are written, too */
    return rf_frame_limit(in->program->exec->frames, copies * in->input_size + in->result_size);
}

uint32_t rf_frame_most(const rf_frame *frame)
{
    return most_frames(frame->instance);
}

/* One more, in front of the one whose turn it is. Where there is no memory for it the others have to do. */
static rf_result add_frame(rf_instance *in)
{
    rf_frame *frame;
    const rf_result r = rf_frame_create(in, &frame);
    in->out_of_memory = r == RF_ERROR_OUT_OF_DEVICE_MEMORY || r == RF_ERROR_OUT_OF_HOST_MEMORY;
    if (in->out_of_memory) return RF_OK;
    RF_TRY(r);
    rf_frame **at = &in->frames[in->next_frame];
    memmove(at + 1, at, (in->num_frames - in->next_frame) * sizeof(*at));
    *at = frame;
    in->num_frames++;
    return RF_OK;
}

rf_result rf_program_acquire(rf_program *program, int64_t batch, rf_frame **out)
{
    *out = NULL;
    rf_instance *in;
    RF_TRY(rf_program_instance(program, batch, &in));
    if (in->num_frames < most_frames(in) && !rf_gpu_is_done(program->exec->device, in->frames[in->next_frame]->ticket))
        RF_TRY(add_frame(in));
    rf_frame *frame = in->frames[in->next_frame];
    RF_TRY(rf_frame_wait(frame));
    rf_frame_trace(frame);
    RF_TRY(instance_follow(in, frame));
    rf_frame_choose_recs(frame);
    RF_TRY(rf_frame_record(frame));
    in->next_frame = (in->next_frame + 1) % in->num_frames;
    frame->acquired = true;
    frame->parts_done = 0;
    *out = frame;
    return RF_OK;
}

rf_result rf_program_ready(rf_program *program, int64_t batch)
{
    rf_instance *in;
    RF_TRY(rf_program_instance(program, batch, &in));
    return rf_frame_record(in->frames[in->next_frame]);
}

rf_result rf_program_stats_get(rf_program *program, int64_t batch, rf_program_stats *out)
{
    rf_instance *instance;
    RF_TRY(rf_program_instance(program, batch, &instance));
    rf_frame *frame = instance->frames[instance->next_frame];
    RF_TRY(rf_frame_record(frame));
    *out = (rf_program_stats){
        .num_nodes = instance->num_nodes,
        .num_dispatches = instance->num_dispatches,
        .num_pipelines = program->pipelines.count,
        .num_barriers = instance->num_barriers,
        .commands = rf_frame_commands(frame),
        .slab_size = instance->memory.slab_size,
        .naive_size = instance->memory.naive_size,
        .upload_size = instance->input_size,
    };
    return RF_OK;
}
