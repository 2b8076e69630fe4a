/* SPDX-License-Identifier: Apache-2.0 */
#include "step/batched_submission.h"

#include "base/platform.h"

#define LONGEST_SECONDS 0.1
#define GROWTH 4u

/* ---- decisions ---- */

const char *rf_submission_batch_obstacle(const rf_submission_batch_facts *f)
{
    if (f->wanted <= 1) return "nothing else is to go with it";
    if (f->waits) return "the host takes part in the step";
    if (f->paced) return "the pace of the replicas is measured";
    if (f->updates && f->copied) return "a checkpoint is being made";
    return NULL;
}

uint32_t rf_submission_batch_size(const rf_submission_batch_limits *l)
{
    uint32_t size = l->previous > 0 ? l->previous * GROWTH : 1;
    if (size > l->wanted) size = l->wanted;
    if (size > l->frames / RF_BATCHES_UNDER_WAY) size = l->frames / RF_BATCHES_UNDER_WAY;
    if (size * l->seconds > l->longest) size = (uint32_t)(l->longest / l->seconds);
    return size > 0 ? size : 1;
}

/* ---- groups ---- */

rf_result rf_submission_batch_init(rf_submission_batch *group, const rf_strategy *s, uint32_t wanted)
{
    *group = (rf_submission_batch){ .wanted = wanted > 0 ? wanted : 1, .longest = LONGEST_SECONDS };
    if (group->wanted == 1) return RF_OK;
    for (uint32_t i = 0; i < RF_BATCHES_UNDER_WAY; i++) {
        group->tickets[i] = RF_NEW_ARRAY(uint64_t, s->members.num_local);
        if (!group->tickets[i]) return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    for (uint32_t r = 0; r < s->members.num_local; r++)
        rf_exec_keep_frames(s->members.replicas[r].exec, rf_submission_batch_most(group));
    return RF_OK;
}

uint32_t rf_submission_batch_most(const rf_submission_batch *group)
{
    const uint32_t most = RF_MAX_FRAMES / RF_BATCHES_UNDER_WAY;
    return RF_BATCHES_UNDER_WAY * (group->wanted < most ? group->wanted : most);
}

void rf_submission_batch_free(rf_submission_batch *group)
{
    for (uint32_t i = 0; i < RF_BATCHES_UNDER_WAY; i++) {
        rf_free(group->tickets[i]);
        group->tickets[i] = NULL;
    }
}

static uint64_t count_drains(const rf_strategy *s)
{
    uint64_t sum = 0;
    for (uint32_t r = 0; r < s->members.num_local; r++) sum += rf_gpu_num_drains(s->members.replicas[r].device);
    return sum;
}

/* Somebody has waited for runs of it, or something that is not held back was submitted after them. */
static bool was_submitted(const rf_strategy *s)
{
    for (uint32_t r = 0; r < s->members.num_local; r++)
        if (rf_gpu_has_held(s->members.replicas[r].device)) return false;
    return true;
}

static void group_close(rf_submission_batch *group, const rf_strategy *s)
{
    uint64_t *tickets = group->tickets[RF_BATCHES_UNDER_WAY - 1];
    for (uint32_t i = RF_BATCHES_UNDER_WAY - 1; i > 0; i--) {
        group->sizes[i] = group->sizes[i - 1];
        group->tickets[i] = group->tickets[i - 1];
    }
    for (uint32_t r = 0; r < s->members.num_local; r++) tickets[r] = s->members.replicas[r].ticket;
    group->tickets[0] = tickets;
    group->sizes[0] = group->count;
    group->count = group->size = 0;
}

/* Between two moments at which the older of two groups had ended, the device has computed that group, or had nothing to
 * do because the host took longer. */
static void group_measure(rf_submission_batch *group)
{
    const uint64_t now = rf_now_ns();
    const uint32_t runs = group->sizes[RF_BATCHES_UNDER_WAY - 1];
    if (runs > 0) group->seconds = 1e-9 * (double)(now - group->opened_ns) / runs;
    group->opened_ns = now;
}

rf_result rf_submission_batch_begin(rf_submission_batch *group, rf_strategy *s)
{
    if (group->wanted == 1) return RF_OK;
    if (group->count > 0 && was_submitted(s)) group_close(group, s);
    if (group->count > 0) return RF_OK;
    const uint64_t drains = count_drains(s);
    if (drains != group->drains)
        for (uint32_t i = 0; i < RF_BATCHES_UNDER_WAY; i++) group->sizes[i] = 0;
    for (uint32_t r = 0; group->sizes[RF_BATCHES_UNDER_WAY - 1] > 0 && r < s->members.num_local; r++)
        RF_TRY(rf_replica_wait(s, r, group->tickets[RF_BATCHES_UNDER_WAY - 1][r]));
    group_measure(group);
    group->drains = count_drains(s);
    return RF_OK;
}

void rf_submission_batch_hold(rf_submission_batch *group, rf_strategy *s, rf_frame *const *frames, bool holds)
{
    if (!holds) return;
    rf_submission_batch_limits limits = { .wanted = group->wanted,
                                          .frames = RF_MAX_FRAMES,
                                          .previous = group->sizes[0],
                                          .seconds = group->seconds,
                                          .longest = group->longest };
    for (uint32_t r = 0; r < s->members.num_local; r++) {
        rf_gpu_hold(s->members.replicas[r].device, true);
        const uint32_t most = frames[r] ? rf_frame_most(frames[r]) : RF_MAX_FRAMES;
        if (most < limits.frames) limits.frames = most;
    }
    if (group->count++ == 0) group->size = rf_submission_batch_size(&limits);
}

rf_result rf_submission_batch_end(rf_submission_batch *group, rf_strategy *s, rf_result result)
{
    if (group->count == 0) return result;
    for (uint32_t r = 0; r < s->members.num_local; r++) rf_gpu_hold(s->members.replicas[r].device, false);
    if (result < 0 || group->count < group->size) return result;
    for (uint32_t r = 0; r < s->members.num_local; r++)
        RF_TRY(rf_replica_context(s, r, rf_gpu_flush(s->members.replicas[r].device)));
    group_close(group, s);
    return result;
}
