/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device times of runs, for the trace of include/ringfire/profile.h. While one is written, recordings carry a timestamp
 * at their begin and end; every n-th run uses recordings with one after each node besides, which costs more. The clocks
 * of Vulkan and the host are unrelated, but work begins after it is submitted and has ended when its completion is
 * observed: each run narrows down the difference.
 */
#include <stdio.h>

#include "base/profiler.h"
#include "exec/internal.h"

bool rf_frame_stamps(const rf_frame *frame)
{
    const rf_exec *exec = frame->instance->program->exec;
    const bool for_cuts = exec->split_policy.target > 0 && !frame->instance->paced;
    return (for_cuts || rf_profiler_on()) && rf_gpu_has_timestamps(exec->device);
}

void rf_frame_choose_recs(rf_frame *frame)
{
    frame->run = &frame->plain;
    if (!rf_profiler_on()) return;
    if (rf_profiler_times_ops(frame->instance->num_runs++) && rf_frame_stamps(frame)) frame->run = &frame->detailed;
}

void rf_frame_submitting(rf_frame *frame, uint32_t index)
{
    if (!frame->run->stamps) return;
    frame->timed = true;
    if (!rf_profiler_on()) return;
    frame->run->stamps[index].submit_ns = rf_now_ns();
    frame->traced = true;
}

double rf_frame_seconds(rf_frame *frame)
{
    if (!frame->timed) return 0;
    frame->timed = false;
    double sum = 0;
    uint64_t *ns = RF_NEW_ARRAY(uint64_t, (size_t)frame->instance->num_nodes + 2);
    for (uint32_t i = 0; ns && i < frame->run->num_recs; i++) {
        const uint32_t count = frame->run == &frame->detailed ? frame->run->stamps[i].num_nodes + 2 : 2;
        if (rf_gpu_recording_timestamps(frame->run->recs[i], ns, count) < 0) {
            sum = 0;
            break;
        }
        sum += (double)ns[count - 1] * 1e-9;
    }
    rf_free(ns);
    return sum;
}

/* ---- clocks ---- */

static void stamps_narrow(rf_exec_clock *clock, const rf_stamps *stamps, uint64_t begin, uint64_t end)
{
    const int64_t least = (int64_t)(stamps->submit_ns - begin), most = (int64_t)(rf_now_ns() - end);
    if (!clock->known || clock->offset < least) clock->offset = least;
    if (clock->offset > most) clock->offset = most; /* the clocks drift */
    clock->known = true;
}

/* ---- telling ---- */

static void span_tell(const rf_exec_clock *clock, const char *category, const char *name, uint64_t begin, uint64_t end,
                      int64_t shift, rf_span_arg arg)
{
    rf_profiler_event(&(rf_span_event){ .category = category,
                                        .name = name,
                                        .begin_ns = begin + (uint64_t)shift,
                                        .end_ns = end + (uint64_t)shift,
                                        .track = clock->track,
                                        .args = { arg } });
}

static void tell_nodes(const rf_frame *frame, const rf_stamps *stamps, const uint64_t *ns, int64_t shift)
{
    const rf_instance *in = frame->instance;
    for (uint32_t i = 0; i < stamps->num_nodes; i++) {
        const rf_node_plan *node = &in->nodes[stamps->first_node + i];
        char name[96];
        snprintf(name, sizeof(name), "%s (%s)", node->op->name, node->kernel->name);
        span_tell(&in->program->exec->clock, "op", name, ns[i], ns[i + 1], shift,
                  (rf_span_arg){ "bytes", (int64_t)node->cost.bytes });
    }
}

static void tell_recording(const rf_frame *frame, uint32_t i, uint64_t *ns)
{
    const rf_instance *in = frame->instance;
    rf_exec_clock *clock = &in->program->exec->clock;
    const rf_stamps *stamps = &frame->run->stamps[i];
    const uint32_t count = frame->run == &frame->detailed ? stamps->num_nodes + 2 : 2;
    if (rf_gpu_recording_times(frame->run->recs[i], ns, count) < 0) return;
    const uint64_t begin = ns[0], end = ns[count - 1];
    stamps_narrow(clock, stamps, begin, end);
    int64_t shift = clock->offset;
    /* A device does one thing after the other; a better guess of the difference must not make it look otherwise. */
    if (begin + (uint64_t)shift < clock->last_ns) shift = (int64_t)(clock->last_ns - begin);
    clock->last_ns = end + (uint64_t)shift;
    span_tell(clock, "device", in->program->name, begin, end, shift, (rf_span_arg){ "examples", in->batch });
    if (count > 2) tell_nodes(frame, stamps, ns, shift);
}

void rf_frame_trace(rf_frame *frame)
{
    if (!frame->traced) return;
    frame->traced = false;
    rf_exec *exec = frame->instance->program->exec;
    if (!rf_profiler_on() || !frame->run->stamps) return;
    if (exec->clock.track == 0) exec->clock.track = rf_profiler_track(rf_gpu_info(exec->device)->name);
    uint64_t *ns = exec->clock.track ? RF_NEW_ARRAY(uint64_t, (size_t)frame->instance->num_nodes + 2) : NULL;
    for (uint32_t i = 0; ns && i < frame->run->num_recs; i++) tell_recording(frame, i, ns);
    rf_free(ns);
}
