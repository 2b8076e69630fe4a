/* SPDX-License-Identifier: Apache-2.0 */
/* Runs in flight: buffers that the host touches, recordings, submission. */
#include <string.h>

#include "exec/internal.h"

/* So few bytes, the numbers of an update, are read where the host writes them: a kernel that fetches them from there
 * takes less than a copy and a barrier in front of it. */
#define DIRECT_BYTES 256

/* ---- buffers ---- */

static rf_result create_inputs(rf_instance *in, rf_frame *frame)
{
    rf_gpu_device *device = in->program->exec->device;
    const bool direct = in->input_size <= DIRECT_BYTES || in->program->picks_numbers;
    if (!in->program->exec->caps.host_visible && direct) {
        RF_TRY(rf_gpu_buffer_create(device, RF_GPU_MEMORY_UPLOAD, in->input_size, "inputs", &frame->inputs));
        frame->input_bytes = rf_gpu_buffer_mapped(frame->inputs);
        return RF_OK;
    }
    RF_TRY(rf_gpu_buffer_create(device, RF_GPU_MEMORY_DEVICE, in->input_size, "inputs", &frame->inputs));
    if (in->program->exec->caps.host_visible) frame->input_bytes = rf_gpu_buffer_mapped(frame->inputs);
    if (frame->input_bytes) return RF_OK;
    RF_TRY(rf_gpu_buffer_create(device, RF_GPU_MEMORY_UPLOAD, in->input_size, "upload", &frame->upload));
    frame->input_bytes = rf_gpu_buffer_mapped(frame->upload);
    return RF_OK;
}

static rf_result create_buffers(rf_instance *in, rf_frame *frame)
{
    if (in->input_size > 0) RF_TRY(create_inputs(in, frame));
    if (in->result_size > 0) {
        RF_TRY(rf_gpu_buffer_create(in->program->exec->device, RF_GPU_MEMORY_READBACK, in->result_size, "results",
                                    &frame->results));
        frame->result_bytes = rf_gpu_buffer_mapped(frame->results);
    }
    return RF_OK;
}

rf_result rf_frame_create(rf_instance *in, rf_frame **out)
{
    *out = NULL;
    rf_frame *frame = RF_NEW(rf_frame);
    if (!frame) return RF_ERROR_OUT_OF_HOST_MEMORY;
    frame->instance = in;
    frame->run = &frame->plain;
    const rf_result r = create_buffers(in, frame);
    if (r < 0)
        rf_frame_destroy(&frame);
    else
        *out = frame;
    return r;
}

static void drop_recordings(rf_frame_recs *run)
{
    for (uint32_t i = 0; i < run->num_recs; i++) rf_gpu_recording_destroy(&run->recs[i]);
    rf_free(run->recs);
    rf_free(run->part_recs);
    rf_free(run->stamps);
    *run = (rf_frame_recs){ 0 };
}

void rf_frame_destroy(rf_frame **frame_pointer)
{
    rf_frame *frame = *frame_pointer;
    if (!frame) return;
    *frame_pointer = NULL;
    /* A wait fails only when the device is lost or hangs; there is no better moment for freeing than now. */
    if (rf_frame_wait(frame) >= 0) rf_frame_trace(frame);
    drop_recordings(&frame->plain);
    drop_recordings(&frame->detailed);
    rf_gpu_buffer_destroy(&frame->upload);
    rf_gpu_buffer_destroy(&frame->inputs);
    rf_gpu_buffer_destroy(&frame->results);
    rf_free(frame);
}

rf_result rf_frame_wait(const rf_frame *frame)
{
    /* Not waited for where it has ended: that tells how long groups of runs should be (rf_gpu_num_drains()). */
    rf_gpu_device *device = frame->instance->program->exec->device;
    return rf_gpu_is_done(device, frame->ticket) ? RF_OK : rf_gpu_wait(device, frame->ticket, RF_GPU_TIMEOUT_NS);
}

rf_gpu_commands rf_frame_commands(const rf_frame *frame)
{
    rf_gpu_commands sum = { 0 };
    for (uint32_t i = 0; i < frame->run->num_recs; i++) {
        const rf_gpu_commands one = rf_gpu_recording_commands(frame->run->recs[i]);
        sum.dispatches += one.dispatches;
        sum.barriers += one.barriers;
        sum.copies += one.copies;
    }
    return sum;
}

/* ---- recording ---- */

static rf_result frame_stamp(const rf_frame *frame, rf_recorder *recorder)
{
    uint32_t index;
    return frame->run->stamps ? rf_gpu_record_timestamp(recorder->rec, &index) : RF_OK;
}

static rf_result frame_begin(rf_frame *frame, rf_recorder *recorder, uint32_t first_node)
{
    const rf_program *p = frame->instance->program;
    rf_frame_recs *run = frame->run;
    RF_TRY(rf_gpu_recording_begin(p->exec->device, p->name, &recorder->rec));
    if (run->stamps) run->stamps[run->num_recs].first_node = first_node;
    run->recs[run->num_recs++] = recorder->rec;
    return frame_stamp(frame, recorder);
}

/* `next_node` is the first that the recording does not have. */
static rf_result frame_end(rf_frame *frame, rf_recorder *recorder, uint32_t next_node)
{
    RF_TRY(frame_stamp(frame, recorder));
    if (frame->run->stamps) {
        rf_stamps *stamps = &frame->run->stamps[frame->run->num_recs - 1];
        stamps->num_nodes = next_node - stamps->first_node;
    }
    return rf_gpu_recording_end(recorder->rec);
}

/* Copies of a part. */
static rf_result end_part(rf_frame *frame, rf_recorder *recorder, uint32_t part, uint32_t next_node)
{
    const rf_instance *in = frame->instance;
    for (uint32_t i = 0; i < in->copies.count; i++)
        if (in->copies.items[i].part == part)
            RF_TRY(rf_record_copy(recorder, rf_instance_span(in, frame, in->copies.items[i].value),
                                  rf_instance_copy_target(in, frame, i)));
    frame->run->part_recs[part] = frame->run->num_recs;
    return frame_end(frame, recorder, next_node);
}

static rf_result begin_next(rf_frame *frame, rf_recorder *recorder, uint32_t first_node)
{
    rf_hazards_clear(&recorder->hazards); /* submissions are ordered */
    return frame_begin(frame, recorder, first_node);
}

/* cut[d]: a recording begins before dispatch d of the node. */
static rf_result record_node(rf_frame *frame, rf_recorder *recorder, uint32_t i, const bool *cut)
{
    const rf_node_plan *node = &frame->instance->nodes[i];
    rf_span inputs[RF_MAX_INPUTS], outputs[RF_MAX_OUTPUTS], workspace;
    rf_instance_node_spans(frame->instance, frame, i, inputs, outputs, &workspace);
    uint32_t first = 0;
    for (uint32_t d = 1; d < node->plan.count; d++) {
        if (!cut[d]) continue;
        RF_TRY(rf_record_dispatches(recorder, node, first, d, inputs, outputs, workspace));
        RF_TRY(frame_end(frame, recorder, i));
        RF_TRY(begin_next(frame, recorder, i));
        first = d;
    }
    return rf_record_dispatches(recorder, node, first, node->plan.count, inputs, outputs, workspace);
}

/* ends[p]: nodes up to the end of part p; cut[i]: a recording begins before dispatch i of all nodes. */
static rf_result record_nodes(rf_frame *frame, rf_recorder *recorder, const bool *cut, const uint32_t *ends)
{
    rf_instance *in = frame->instance;
    const uint32_t last = in->program->num_parts - 1;
    uint32_t part = 0;
    RF_TRY(frame_begin(frame, recorder, 0));
    if (frame->upload)
        RF_TRY(rf_record_copy(recorder, (rf_span){ frame->upload, 0, in->input_size },
                              (rf_span){ frame->inputs, 0, in->input_size }));
    for (uint32_t i = 0; i < in->num_nodes; i++) {
        bool fresh = i == 0;
        for (; part < last && ends[part] == i; part++) {
            RF_TRY(end_part(frame, recorder, part, i));
            RF_TRY(begin_next(frame, recorder, i));
            fresh = true;
        }
        if (*cut && !fresh) {
            RF_TRY(frame_end(frame, recorder, i));
            RF_TRY(begin_next(frame, recorder, i));
        }
        RF_TRY(record_node(frame, recorder, i, cut));
        cut += in->nodes[i].plan.count;
        if (frame->run == &frame->detailed) RF_TRY(frame_stamp(frame, recorder));
    }
    for (; part < last; part++) {
        RF_TRY(end_part(frame, recorder, part, in->num_nodes));
        RF_TRY(begin_next(frame, recorder, in->num_nodes));
    }
    return end_part(frame, recorder, last, in->num_nodes);
}

static rf_result record_parts(rf_frame *frame, rf_recorder *recorder, bool *cut, uint32_t *ends)
{
    const uint32_t num_parts = frame->instance->program->num_parts;
    uint32_t num_recs; /* without those that end a part */
    RF_TRY(rf_instance_split_run(frame->instance, cut, &num_recs));
    RF_TRY(rf_instance_part_ends(frame->instance, ends));
    const bool stamped = rf_frame_stamps(frame);
    rf_frame_recs *run = frame->run;
    run->recs = RF_NEW_ARRAY(rf_gpu_recording *, num_recs + num_parts);
    run->part_recs = RF_NEW_ARRAY(uint32_t, num_parts);
    if (stamped) run->stamps = RF_NEW_ARRAY(rf_stamps, num_recs + num_parts);
    if (!run->recs || !run->part_recs || (stamped && !run->stamps)) return RF_ERROR_OUT_OF_HOST_MEMORY;
    return record_nodes(frame, recorder, cut, ends);
}

rf_result rf_frame_record(rf_frame *frame)
{
    rf_instance *in = frame->instance;
    const rf_exec *exec = in->program->exec;
    rf_frame_recs *run = frame->run;
    const bool current =
        run->num_recs > 0 && run->slab_generation == exec->slab_generation && run->cut_generation == in->cut_generation;
    if (current && (run->stamps || !rf_frame_stamps(frame))) return RF_OK;
    RF_TRY(rf_frame_wait(frame));
    drop_recordings(run);
    bool *cut = RF_NEW_ARRAY(bool, in->num_dispatches);
    uint32_t *ends = RF_NEW_ARRAY(uint32_t, in->program->num_parts);
    rf_recorder recorder = { 0 };
    const rf_result r = cut && ends ? record_parts(frame, &recorder, cut, ends) : RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_hazards_free(&recorder.hazards);
    rf_free(cut);
    rf_free(ends);
    if (r < 0) {
        drop_recordings(run);
        return rf_error_context(r, "recording %s", in->program->name);
    }
    in->num_barriers = recorder.num_barriers;
    run->slab_generation = exec->slab_generation;
    run->cut_generation = in->cut_generation;
    return RF_OK;
}

/* ---- use ---- */

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

/* Frames of one recording are submitted together. One that was cut, to keep submissions short, is submitted recording
 * by recording. */
static rf_result submit_all(rf_exec *exec, rf_frame *const *frames, uint32_t count, rf_gpu_recording **recs)
{
    uint32_t pending = 0;
    for (uint32_t i = 0; i < count; i++) {
        const rf_frame_recs *run = frames[i]->run;
        for (uint32_t k = 0; k < run->num_recs; k++) {
            recs[pending++] = run->recs[k];
            rf_frame_submitting(frames[i], k);
            if (run->num_recs == 1) continue;
            RF_TRY(rf_gpu_submit(exec->device, recs, pending, &exec->last_ticket));
            RF_TRY(rf_gpu_flush(exec->device)); /* not with other runs either */
            pending = 0;
        }
    }
    return pending > 0 ? rf_gpu_submit(exec->device, recs, pending, &exec->last_ticket) : RF_OK;
}

static void mark_submitted(rf_frame *frame, uint64_t ticket)
{
    frame->ticket = ticket;
    frame->acquired = false;
    frame->instance->latest_frame = frame;
}

rf_result rf_frames_submit(rf_exec *exec, rf_frame *const *frames, uint32_t count, uint64_t *ticket)
{
    *ticket = 0;
    RF_REQUIRE(count > 0, "rf_frames_submit: no frames");
    for (uint32_t i = 0; i < count; i++) {
        RF_REQUIRE(frames[i]->instance->program->exec == exec, "rf_frames_submit: frame %u is of another context", i);
        RF_REQUIRE(frames[i]->acquired, "rf_frames_submit: frame %u is not acquired", i);
        RF_REQUIRE(frames[i]->instance->program->num_sum_parts == 0,
                   "rf_frames_submit: frame %u has sums over replicas; submit its parts", i);
        for (uint32_t k = 0; k < i; k++)
            RF_REQUIRE(frames[i] != frames[k], "rf_frames_submit: frame %u is listed twice", i);
    }
    /* Another program may have moved the slab since the frame was acquired. */
    for (uint32_t i = 0; i < count; i++) RF_TRY(rf_frame_record(frames[i]));
    rf_gpu_recording **recs = RF_NEW_ARRAY(rf_gpu_recording *, count + 1);
    if (!recs) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_result r = submit_all(exec, frames, count, recs);
    rf_free(recs);
    for (uint32_t i = 0; i < count; i++) mark_submitted(frames[i], exec->last_ticket);
    RF_TRY(r);
    *ticket = exec->last_ticket;
    return RF_OK;
}

static rf_result submit_part(rf_exec *exec, rf_frame *frame, uint32_t part, uint64_t *ticket)
{
    *ticket = exec->last_ticket;
    const rf_program *p = frame->instance->program;
    RF_REQUIRE(frame->acquired && part < p->num_parts && part == frame->parts_done,
               "rf_frame_submit_part: %s: part %u of %u, but part %u is next", p->name, part, p->num_parts,
               frame->parts_done);
    if (part == 0) RF_TRY(rf_frame_record(frame));
    const rf_frame_recs *run = frame->run;
    if (run->slab_generation != exec->slab_generation)
        return RF_FAIL(RF_ERROR_INTERNAL, "%s: its intermediates were moved between two parts", p->name);
    rf_result r = RF_OK;
    for (uint32_t i = part ? run->part_recs[part - 1] : 0; r >= 0 && i < run->part_recs[part]; i++) {
        rf_frame_submitting(frame, i);
        r = rf_gpu_submit(exec->device, &run->recs[i], 1, &exec->last_ticket);
        if (r >= 0) frame->ticket = exec->last_ticket;
    }
    frame->parts_done++;
    if (r < 0 || frame->parts_done == p->num_parts) mark_submitted(frame, exec->last_ticket);
    *ticket = exec->last_ticket;
    return r;
}

rf_result rf_frame_submit_part(rf_exec *exec, rf_frame *frame, uint32_t part, uint64_t *ticket)
{
    return submit_part(exec, frame, frame->instance->program->num_sum_parts + part, ticket);
}

rf_result rf_frame_submit_sum_part(rf_exec *exec, rf_frame *frame, uint32_t part, uint64_t *ticket)
{
    RF_REQUIRE(part < frame->instance->program->num_sum_parts, "rf_frame_submit_sum_part: %s: part %u of %u",
               frame->instance->program->name, part, frame->instance->program->num_sum_parts);
    return submit_part(exec, frame, part, ticket);
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
