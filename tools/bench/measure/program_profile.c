/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of a run goes: records a frame again, with a barrier and a timestamp after every node. */
#include "bench/measure/measure.h"

#include <string.h>

#include "base/platform.h"
#include "exec/internal.h"

typedef struct profile {
    rf_instance *instance;
    rf_frame *frame;
    rf_gpu_recording **recs; /* one with timestamps, or one per node without */
    uint32_t num_recs;
    bool timestamps;
    uint64_t *ns;          /* num_nodes + 1 of one run */
    uint64_t *best;        /* per node */
    unsigned char **saved; /* per value: bytes of a state that the run changes */
} profile;

/* ---- recording ---- */

static rf_result profile_begin(profile *p, rf_recorder *recorder)
{
    RF_TRY(rf_gpu_recording_begin(p->instance->program->exec->device, "profile", &recorder->rec));
    p->recs[p->num_recs++] = recorder->rec;
    return RF_OK;
}

static rf_result record_upload(profile *p, rf_recorder *recorder)
{
    if (!p->frame->upload) return RF_OK;
    const uint64_t size = p->instance->input_size;
    RF_TRY(rf_record_copy(recorder, (rf_span){ p->frame->upload, 0, size }, (rf_span){ p->frame->inputs, 0, size }));
    rf_record_barrier(recorder);
    return RF_OK;
}

static rf_result record_node(profile *p, rf_recorder *recorder, uint32_t i)
{
    rf_span in[RF_MAX_INPUTS], out[RF_MAX_OUTPUTS], workspace;
    rf_instance_node_spans(p->instance, p->frame, i, in, out, &workspace);
    RF_TRY(rf_record_node(recorder, &p->instance->nodes[i], in, out, workspace));
    rf_record_barrier(recorder);
    return RF_OK;
}

static rf_result record_stamped(profile *p, rf_recorder *recorder)
{
    uint32_t index;
    RF_TRY(profile_begin(p, recorder));
    RF_TRY(record_upload(p, recorder));
    RF_TRY(rf_gpu_record_timestamp(recorder->rec, &index));
    for (uint32_t i = 0; i < p->instance->num_nodes; i++) {
        RF_TRY(record_node(p, recorder, i));
        RF_TRY(rf_gpu_record_timestamp(recorder->rec, &index));
    }
    return rf_gpu_recording_end(recorder->rec);
}

/* One recording per node: the wall clock measures submissions. The upload comes first, as a recording of its own. */
static rf_result record_separately(profile *p, rf_recorder *recorder)
{
    RF_TRY(profile_begin(p, recorder));
    RF_TRY(record_upload(p, recorder));
    RF_TRY(rf_gpu_recording_end(recorder->rec));
    for (uint32_t i = 0; i < p->instance->num_nodes; i++) {
        RF_TRY(profile_begin(p, recorder));
        RF_TRY(record_node(p, recorder, i));
        RF_TRY(rf_gpu_recording_end(recorder->rec));
    }
    return RF_OK;
}

static void drop_recordings(profile *p)
{
    for (uint32_t i = 0; i < p->num_recs; i++) rf_gpu_recording_destroy(&p->recs[i]);
    p->num_recs = 0;
}

static rf_result profile_record(profile *p)
{
    rf_recorder recorder = { 0 };
    rf_result r = record_stamped(p, &recorder);
    p->timestamps = r >= 0;
    if (r == RF_ERROR_UNSUPPORTED) {
        drop_recordings(p);
        rf_hazards_clear(&recorder.hazards);
        r = record_separately(p, &recorder);
    }
    rf_hazards_free(&recorder.hazards);
    return r;
}

/* ---- states that a run changes ---- */

static rf_result save_states(profile *p)
{
    const rf_graph *g = p->instance->graph;
    for (rf_value v = 1; v < g->values.count; v++) {
        const rf_span span = rf_instance_span(p->instance, p->frame, v);
        if (g->values.items[v].kind != RF_VALUE_STATE || !span.buffer) continue;
        p->saved[v] = rf_calloc(1, (size_t)span.size);
        if (!p->saved[v]) return RF_ERROR_OUT_OF_HOST_MEMORY;
        RF_TRY(rf_gpu_buffer_read(span.buffer, span.offset, p->saved[v], span.size));
    }
    return RF_OK;
}

static rf_result restore_states(const profile *p)
{
    for (rf_value v = 1; v < p->instance->graph->values.count; v++) {
        if (!p->saved[v]) continue;
        const rf_span span = rf_instance_span(p->instance, p->frame, v);
        RF_TRY(rf_gpu_buffer_write(span.buffer, span.offset, p->saved[v], span.size));
    }
    return RF_OK;
}

/* ---- measuring ---- */

static rf_result submit_and_wait(rf_exec *exec, rf_gpu_recording **rec)
{
    RF_TRY(rf_gpu_submit(exec->device, rec, 1, &exec->last_ticket));
    return rf_gpu_wait(exec->device, exec->last_ticket, RF_GPU_TIMEOUT_NS);
}

static rf_result run_once(profile *p)
{
    rf_exec *exec = p->instance->program->exec;
    for (uint32_t i = 0; i < p->num_recs; i++) {
        if (!p->timestamps && i == 1) p->ns[0] = rf_now_ns();
        RF_TRY(submit_and_wait(exec, &p->recs[i]));
        if (!p->timestamps && i > 0) p->ns[i] = rf_now_ns();
    }
    return p->timestamps ? rf_gpu_recording_timestamps(p->recs[0], p->ns, p->instance->num_nodes + 1) : RF_OK;
}

static rf_result profile_measure(profile *p, uint32_t runs)
{
    const uint32_t count = p->instance->num_nodes;
    RF_TRY(run_once(p)); /* warms up */
    for (uint32_t run = 0; run < runs; run++) {
        RF_TRY(run_once(p));
        for (uint32_t i = 0; i < count; i++) {
            const uint64_t ns = p->ns[i + 1] - p->ns[i];
            if (run == 0 || ns < p->best[i]) p->best[i] = ns;
        }
    }
    return RF_OK;
}

static rf_result run_profile(profile *p, uint32_t runs)
{
    const uint32_t count = p->instance->num_nodes;
    p->recs = RF_NEW_ARRAY(rf_gpu_recording *, count + 1);
    p->ns = RF_NEW_ARRAY(uint64_t, count + 1);
    p->best = RF_NEW_ARRAY(uint64_t, count);
    p->saved = RF_NEW_ARRAY(unsigned char *, p->instance->graph->values.count);
    if (!p->recs || !p->ns || !p->best || !p->saved) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(profile_record(p));
    RF_TRY(save_states(p));
    const rf_result r = profile_measure(p, runs);
    const rf_result restored = restore_states(p);
    return r < 0 ? r : restored;
}

static void profile_free(profile *p)
{
    drop_recordings(p);
    for (rf_value v = 0; p->saved && v < p->instance->graph->values.count; v++) rf_free(p->saved[v]);
    rf_free(p->saved);
    rf_free(p->recs);
    rf_free(p->ns);
    rf_free(p->best);
}

rf_result rf_program_profile(rf_program *program, int64_t batch, uint32_t runs, rf_node_time **times, uint32_t *count)
{
    *times = NULL;
    *count = 0;
    RF_REQUIRE(runs > 0, "rf_program_profile: runs is 0");
    profile p = { 0 };
    RF_TRY(rf_program_instance(program, batch, &p.instance));
    p.frame = p.instance->latest_frame ? p.instance->latest_frame : p.instance->frames[0];
    if (program->exec->last_ticket)
        RF_TRY(rf_gpu_wait(program->exec->device, program->exec->last_ticket, RF_GPU_TIMEOUT_NS));
    rf_result r = run_profile(&p, runs);
    rf_node_time *list = NULL;
    if (r >= 0 && !(list = RF_NEW_ARRAY(rf_node_time, p.instance->num_nodes))) r = RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; list && i < p.instance->num_nodes; i++) {
        const rf_node_plan *node = &p.instance->nodes[i];
        list[i] = (rf_node_time){ node->op->name, node->kernel->name, p.best[i], node->cost };
    }
    if (list) {
        *times = list;
        *count = p.instance->num_nodes;
    }
    profile_free(&p);
    return rf_error_context(r, "profiling %s", program->name);
}
