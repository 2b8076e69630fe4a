/* SPDX-License-Identifier: Apache-2.0 */
/* Runs in flight: buffers that the host touches, recordings, submission. */
#include <string.h>

#include "exec/internal.h"

#define SUBMISSION_SECONDS 0.4 /* drivers kill submissions that run for seconds; 0.5 is what we promise */

/* ---- buffers ---- */

static rf_result create_inputs(rf_instance *in, rf_frame *frame)
{
    rf_gpu_device *device = in->program->exec->device;
    RF_TRY(rf_gpu_buffer_create(device, RF_GPU_MEMORY_DEVICE, in->input_size, "inputs", &frame->inputs));
    if (in->program->exec->caps.host_visible) frame->input_bytes = rf_gpu_buffer_mapped(frame->inputs);
    if (frame->input_bytes) return RF_OK;
    RF_TRY(rf_gpu_buffer_create(device, RF_GPU_MEMORY_UPLOAD, in->input_size, "upload", &frame->upload));
    frame->input_bytes = rf_gpu_buffer_mapped(frame->upload);
    return RF_OK;
}

rf_result rf_frame_init(rf_instance *in, rf_frame *frame)
{
    frame->instance = in;
    if (in->input_size > 0) RF_TRY(create_inputs(in, frame));
    if (in->result_size > 0) {
        RF_TRY(rf_gpu_buffer_create(in->program->exec->device, RF_GPU_MEMORY_READBACK, in->result_size, "results",
                                    &frame->results));
        frame->result_bytes = rf_gpu_buffer_mapped(frame->results);
    }
    return RF_OK;
}

static void drop_recordings(rf_frame *frame)
{
    for (uint32_t i = 0; i < frame->num_recs; i++) rf_gpu_recording_destroy(&frame->recs[i]);
    rf_free(frame->recs);
    frame->recs = NULL;
    frame->num_recs = 0;
}

void rf_frame_finish(rf_frame *frame)
{
    if (!frame->instance) return; /* never came to be */
    /* A wait fails only when the device is lost or hangs; there is no better moment for freeing than now. */
    (void)rf_frame_wait(frame);
    drop_recordings(frame);
    rf_gpu_buffer_destroy(&frame->upload);
    rf_gpu_buffer_destroy(&frame->inputs);
    rf_gpu_buffer_destroy(&frame->results);
}

rf_result rf_frame_wait(const rf_frame *frame)
{
    if (!frame->ticket) return RF_OK;
    return rf_gpu_wait(frame->instance->program->exec->device, frame->ticket, RF_GPU_TIMEOUT_NS);
}

/* ---- recording ---- */

static rf_result begin(rf_frame *frame, rf_recorder *recorder)
{
    const rf_program *p = frame->instance->program;
    RF_TRY(rf_gpu_recording_begin(p->exec->device, p->name, &recorder->rec));
    frame->recs[frame->num_recs++] = recorder->rec;
    return RF_OK;
}

static rf_result record_nodes(rf_frame *frame, rf_recorder *recorder, const bool *cut)
{
    rf_instance *in = frame->instance;
    RF_TRY(begin(frame, recorder));
    if (frame->upload)
        RF_TRY(rf_record_copy(recorder, (rf_span){ frame->upload, 0, in->input_size },
                              (rf_span){ frame->inputs, 0, in->input_size }));
    for (uint32_t i = 0; i < in->num_nodes; i++) {
        rf_span inputs[RF_MAX_INPUTS], outputs[RF_MAX_OUTPUTS], workspace;
        if (cut[i]) {
            RF_TRY(rf_gpu_recording_end(recorder->rec));
            rf_hazards_clear(&recorder->hazards); /* submissions are ordered */
            RF_TRY(begin(frame, recorder));
        }
        rf_instance_node_spans(in, frame, i, inputs, outputs, &workspace);
        RF_TRY(rf_record_node(recorder, &in->nodes[i], inputs, outputs, workspace));
    }
    for (uint32_t i = 0; i < in->copies.count; i++)
        RF_TRY(rf_record_copy(recorder, rf_instance_span(in, frame, in->copies.items[i].value),
                              rf_instance_copy_target(in, frame, i)));
    rf_gpu_record_host_barrier(
        recorder->rec); /* for results, and for states and placements that are read while mapped */
    return rf_gpu_recording_end(recorder->rec);
}

static rf_result plan_cuts(const rf_instance *in, bool *cut, uint32_t *parts)
{
    *parts = 1;
    if (in->program->exec->caps.is_cpu || in->num_nodes == 0) return RF_OK;
    rf_cost *costs = RF_NEW_ARRAY(rf_cost, in->num_nodes);
    if (!costs) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < in->num_nodes; i++) costs[i] = in->nodes[i].cost;
    *parts = rf_split_run(costs, in->num_nodes, SUBMISSION_SECONDS, cut);
    rf_free(costs);
    return RF_OK;
}

static rf_result record_parts(rf_frame *frame, rf_recorder *recorder, bool *cut)
{
    uint32_t parts;
    RF_TRY(plan_cuts(frame->instance, cut, &parts));
    frame->recs = RF_NEW_ARRAY(rf_gpu_recording *, parts);
    if (!frame->recs) return RF_ERROR_OUT_OF_HOST_MEMORY;
    return record_nodes(frame, recorder, cut);
}

rf_result rf_frame_record(rf_frame *frame)
{
    rf_instance *in = frame->instance;
    const rf_exec *exec = in->program->exec;
    if (frame->num_recs > 0 && frame->slab_generation == exec->slab_generation) return RF_OK;
    RF_TRY(rf_frame_wait(frame));
    drop_recordings(frame);
    bool *cut = RF_NEW_ARRAY(bool, in->num_nodes);
    if (!cut) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_recorder recorder = { 0 };
    const rf_result r = record_parts(frame, &recorder, cut);
    rf_hazards_free(&recorder.hazards);
    rf_free(cut);
    if (r < 0) {
        drop_recordings(frame);
        return rf_error_context(r, "recording %s", in->program->name);
    }
    in->num_barriers = recorder.num_barriers;
    frame->slab_generation = exec->slab_generation;
    return RF_OK;
}

/* ---- use ---- */

rf_result rf_program_acquire(rf_program *program, int64_t batch, rf_frame **out)
{
    *out = NULL;
    rf_instance *in;
    RF_TRY(rf_program_instance(program, batch, &in));
    rf_frame *frame = &in->frames[in->next_frame];
    RF_TRY(rf_frame_wait(frame));
    RF_TRY(rf_frame_record(frame));
    in->next_frame = (in->next_frame + 1) % RF_FRAMES_PER_INSTANCE;
    frame->acquired = true;
    *out = frame;
    return RF_OK;
}

void *rf_frame_input(rf_frame *frame, uint32_t slot)
{
    const rf_instance *in = frame->instance;
    if (slot >= in->graph->num_inputs || in->input_offset[slot] == UINT64_MAX) return NULL;
    return frame->input_bytes + in->input_offset[slot];
}

void *rf_frame_host(rf_frame *frame, uint32_t slot)
{
    const rf_instance *in = frame->instance;
    if (slot >= in->graph->num_hosts || in->host_offset[slot] == UINT64_MAX) return NULL;
    return frame->input_bytes + in->host_offset[slot];
}

/* Frames of one recording go together; one that was cut goes piece by piece, which is why it was cut. */
static rf_result submit_all(rf_exec *exec, rf_frame *const *frames, uint32_t count, rf_gpu_recording **recs)
{
    uint32_t pending = 0;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < frames[i]->num_recs; k++) {
            recs[pending++] = frames[i]->recs[k];
            if (frames[i]->num_recs == 1) continue;
            RF_TRY(rf_gpu_submit(exec->device, recs, pending, &exec->last_ticket));
            pending = 0;
        }
    }
    return pending > 0 ? rf_gpu_submit(exec->device, recs, pending, &exec->last_ticket) : RF_OK;
}

rf_result rf_frames_submit(rf_exec *exec, rf_frame *const *frames, uint32_t count, uint64_t *ticket)
{
    *ticket = 0;
    RF_REQUIRE(count > 0, "rf_frames_submit: no frames");
    for (uint32_t i = 0; i < count; i++) {
        RF_REQUIRE(frames[i]->instance->program->exec == exec, "rf_frames_submit: frame %u is of another context", i);
        RF_REQUIRE(frames[i]->acquired, "rf_frames_submit: frame %u is not acquired", i);
        for (uint32_t k = 0; k < i; k++)
            RF_REQUIRE(frames[i] != frames[k], "rf_frames_submit: frame %u comes twice", i);
    }
    /* Another program may have moved the slab since the frame was acquired. */
    for (uint32_t i = 0; i < count; i++) RF_TRY(rf_frame_record(frames[i]));
    rf_gpu_recording **recs = RF_NEW_ARRAY(rf_gpu_recording *, count + 1);
    if (!recs) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_result r = submit_all(exec, frames, count, recs);
    rf_free(recs);
    for (uint32_t i = 0; i < count; i++) {
        frames[i]->ticket = exec->last_ticket;
        frames[i]->acquired = false;
        frames[i]->instance->latest_frame = (uint32_t)(frames[i] - frames[i]->instance->frames);
    }
    RF_TRY(r);
    *ticket = exec->last_ticket;
    return RF_OK;
}

const void *rf_frame_result(const rf_frame *frame, uint32_t i)
{
    const rf_instance *in = frame->instance;
    return i < in->program->num_results ? frame->result_bytes + in->result_offset[i] : NULL;
}

const rf_tensor_desc *rf_frame_result_desc(const rf_frame *frame, uint32_t i)
{
    const rf_instance *in = frame->instance;
    return i < in->program->num_results ? rf_graph_desc(in->graph, in->program->results[i]) : NULL;
}
