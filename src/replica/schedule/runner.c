/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/schedule/schedule.h"

#include <string.h>

#include "base/platform.h"
#include "base/profiler.h"

/* ---- which stages take place ---- */

/* As far as it is known before anything is submitted. */
static bool may_take_place(const rf_step_stage *stage)
{
    const rf_stage_state *at = stage->state;
    if (!at) return true;
    if (stage->when & (at->first ? RF_WHEN_LATER : RF_WHEN_FIRST)) return false;
    return at->due || !(stage->when & RF_WHEN_DUE);
}

static bool takes_place(const rf_step_stage *stage)
{
    const rf_stage_state *at = stage->state;
    if (!may_take_place(stage)) return false;
    if (at && at->skipped && (stage->when & RF_WHEN_MADE)) return false;
    return !at || at->overflowed || !(stage->when & RF_WHEN_OVERFLOWED);
}

bool rf_step_schedule_waits(const rf_step_schedule *s)
{
    for (uint32_t i = 0; i < s->stages.count; i++) {
        const rf_step_stage *stage = &s->stages.items[i];
        const bool host = stage->op == RF_STAGE_HOST && stage->state;
        if ((stage->after != RF_AFTER_NOTHING || host) && may_take_place(stage)) return true;
    }
    return false;
}

static bool takes_part(rf_stage_replicas on, const rf_step_schedule_run *run, uint32_t index)
{
    const uint32_t replica = run->strategy->members.first + index;
    uint32_t first = 0;
    switch (on) {
    case RF_ON_ALL: return true;
    case RF_ON_ACTIVE: return run->examples[replica] > 0;
    case RF_ON_IDLE: return run->examples[replica] == 0;
    case RF_ON_FIRST_ACTIVE:
        while (first < replica && run->examples[first] == 0) first++;
        return first == replica && run->examples[replica] > 0;
    }
    return false;
}

/* ---- time that nothing hides ---- */

/* Whether some device still works on what it was given. */
static bool devices_busy(const rf_strategy *s)
{
    for (uint32_t r = 0; r < s->members.num_local; r++) {
        const rf_replica *replica = &s->members.replicas[r];
        if (replica->ticket != 0 && rf_gpu_watch(replica->device, replica->ticket, 0) == RF_ERROR_TIMEOUT) return true;
    }
    return false;
}

/* The host's work for the exchange since `begin` was hidden if the devices are still busy. If they are not, all
 * of it counts, because it is not known when they became idle. */
static void count_exposed(rf_step_schedule *s, uint64_t begin)
{
    if (!devices_busy(s->strategy)) s->exposed += 1e-9 * (double)(rf_now_ns() - begin);
}

/* ---- work for one replica ---- */

/* The work that a replica is given at once. */
typedef struct submission {
    uint32_t count; /* frames that are to be submitted */
    bool any;       /* was submitted */
} submission;

static rf_result flush_frames(const rf_step_schedule *s, uint32_t index, submission *at)
{
    const uint32_t pending = at->count;
    at->count = 0;
    at->any = at->any || pending > 0;
    return rf_replica_submit_frames(&s->strategy->members.replicas[index], s->frames, pending);
}

static void fill_inputs(rf_step_schedule *s, const rf_step_schedule_run *run, uint32_t index)
{
    if (s->filled[index]) return;
    if (run->paced) rf_step_timing_begin(s->strategy->members.balancing.timing, index);
    run->fill(run->user, index);
    s->filled[index] = true;
}

/* A piece of the step's program. */
static rf_result submit_step(rf_step_schedule *s, const rf_step_schedule_run *run, const rf_step_stage *stage,
                             uint32_t index, submission *at)
{
    rf_replica *replica = &s->strategy->members.replicas[index];
    rf_frame *frame = run->frames[index];
    fill_inputs(s, run, index);
    if (stage->piece == RF_PIECE_WHOLE) {
        s->frames[at->count++] = frame;
        return RF_OK;
    }
    RF_TRY(flush_frames(s, index, at));
    if (stage->piece == RF_PIECE_SUM)
        return rf_frame_submit_sum_part(replica->exec, frame, stage->part, &replica->ticket);
    return rf_frame_submit_part(replica->exec, frame, stage->part, &replica->ticket);
}

static rf_result submit_program(rf_step_schedule *s, const rf_step_stage *stage, uint32_t index, submission *at)
{
    rf_stage_work *work = &stage->works[index];
    RF_TRY(rf_step_schedule_make_program(s, stage, index));
    if (!work->program) return RF_OK;
    if (stage->changes && rf_strategy_is_copied(s->strategy)) {
        /* The device computes meanwhile: only what changes has to wait for the copy. */
        RF_TRY(flush_frames(s, index, at));
        RF_TRY(rf_strategy_await_copy(s->strategy));
    }
    if (!work->frame) RF_TRY(rf_program_acquire(work->program, 0, &work->frame));
    if (stage->action->fill) RF_TRY(stage->action->fill(stage, index, work->frame));
    s->frames[at->count++] = work->frame;
    return RF_OK;
}

static rf_result submit_copy(const rf_step_schedule *s, const rf_step_stage *stage, uint32_t index, submission *at)
{
    RF_TRY(flush_frames(s, index, at));
    at->any = true;
    return rf_replica_submit_one(&s->strategy->members.replicas[index], stage->works[index].copy);
}

/* Values leave the device for an exchange. */
static rf_result submit_departure(const rf_step_schedule *s, const rf_step_schedule_run *run,
                                  const rf_stage_exchange *x, uint32_t index)
{
    if (x->verb != RF_EXCHANGE_GATHER && !takes_part(x->on, run, index)) return RF_OK;
    return rf_replica_submit_one(&s->strategy->members.replicas[index], x->replicas[index].down);
}

/* The stage and those that go with it. */
static uint32_t group_end(const rf_step_schedule *s, uint32_t head)
{
    do head++;
    while (head < s->stages.count && s->stages.items[head].joins);
    return head;
}

static rf_result submit_stage(rf_step_schedule *s, const rf_step_schedule_run *run, const rf_step_stage *stage,
                              uint32_t index, submission *at)
{
    if (stage->op == RF_STAGE_STEP) return submit_step(s, run, stage, index, at);
    return stage->op == RF_STAGE_PROGRAM ? submit_program(s, stage, index, at) : submit_copy(s, stage, index, at);
}

static rf_result submit_group(rf_step_schedule *s, const rf_step_schedule_run *run, uint32_t head, uint32_t index)
{
    const uint32_t end = group_end(s, head);
    rf_replica *replica = &s->strategy->members.replicas[index];
    submission at = { 0 };
    for (uint32_t i = head; i < end; i++) {
        const rf_step_stage *stage = &s->stages.items[i];
        if (takes_place(stage) && takes_part(stage->on, run, index)) RF_TRY(submit_stage(s, run, stage, index, &at));
    }
    RF_TRY(flush_frames(s, index, &at));
    if (s->stages.items[head].departs) {
        rf_stage_exchange *x = &s->exchanges.items[s->stages.items[head].departs - 1];
        RF_TRY(submit_departure(s, run, x, index));
        x->departed = true;
        at.any = at.any || x->replicas[index].down;
    }
    /* A step's stages have one also where a replica has nothing to do in them: what it was given before may still use
     * its arrays. */
    for (uint32_t i = head; i < end; i++)
        if (at.any || s->stages.items[i].op == RF_STAGE_STEP) s->stages.items[i].works[index].ticket = replica->ticket;
    return RF_OK;
}

/* Whether the whole step has been given to a replica with this stage. */
static bool ends_step(const rf_step_schedule *s, const rf_step_stage *stage)
{
    if (stage->op != RF_STAGE_STEP || stage->piece == RF_PIECE_SUM) return false;
    return stage->piece == RF_PIECE_WHOLE || stage->part + 1 >= s->num_parts;
}

static rf_result submit_replica(rf_step_schedule *s, const rf_step_schedule_run *run, uint32_t head, uint32_t index)
{
    const rf_step_stage *stage = &s->stages.items[head];
    const rf_replica *replica = &s->strategy->members.replicas[index];
    const uint64_t begin = rf_span_begin();
    RF_TRY(rf_replica_context(s->strategy, index, submit_group(s, run, head, index)));
    if (stage->op != RF_STAGE_STEP || !run->frames[index]) return RF_OK;
    rf_span_end_with(begin, "replica", "submit", (rf_span_arg){ "replica", s->strategy->members.first + index },
                     (rf_span_arg){ "part", stage->part });
    if (run->paced && ends_step(s, stage))
        rf_step_timing_submitted(s->strategy->members.balancing.timing, index, replica->device, replica->ticket);
    return RF_OK;
}

/* ---- parts of the step ---- */

/* The first `count` parts of a replica's run are submitted after this. */
static rf_result submit_parts(rf_step_schedule *s, const rf_step_schedule_run *run, uint32_t index, uint32_t count)
{
    while (s->next_part[index] < count && s->next_part[index] < s->num_parts)
        RF_TRY(submit_replica(s, run, s->part_of[s->next_part[index]++], index));
    return RF_OK;
}

/* The program that changes a bucket's variables on a replica; NULL: it owns none of them. */
static rf_program *changer_of(const rf_step_schedule *s, uint32_t bucket, uint32_t index)
{
    for (uint32_t i = 0; i < s->stages.count; i++) {
        const rf_step_stage *stage = &s->stages.items[i];
        if (stage->clear && stage->op == RF_STAGE_PROGRAM && stage->bucket == bucket)
            return stage->works[index].program;
    }
    return NULL;
}

/* Which part touches the variables of a bucket last. A device may compute in another order than the plan's, because its
 * kernels fuse other nodes. Where updates need room in the slab, which belongs to the run until its end, they come
 * after the last part. */
static rf_result learn_uses(rf_step_schedule *s, uint32_t index, const rf_frame *frame)
{
    uint32_t *last = s->last_use + (size_t)index * s->num_parts, *parts = RF_NEW_ARRAY(uint32_t, s->num_states);
    rf_result r = parts ? rf_frame_state_parts(frame, parts) : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t b = 0; r >= 0 && b < s->num_parts; b++) {
        rf_program *apply = changer_of(s, b, index);
        rf_program_stats stats = { 0 };
        if (apply) r = rf_program_stats_get(apply, 0, &stats);
        last[b] = stats.slab_size > 0 ? s->num_parts - 1 : 0;
    }
    for (uint32_t slot = 0; r >= 0 && slot < s->num_states; slot++) {
        const uint32_t b = s->bucket_of_state[slot];
        if (b != UINT32_MAX && parts[slot] > last[b]) last[b] = parts[slot];
    }
    rf_free(parts);
    s->known[index] = r >= 0;
    return r;
}

/* ---- waits ---- */

static rf_result await_replica(rf_step_schedule *s, const rf_step_schedule_run *run, const rf_step_stage *stage,
                               uint32_t index)
{
    const uint32_t use = s->num_parts > 0 ? s->last_use[(size_t)index * s->num_parts + stage->bucket] : 0;
    if (stage->after == RF_AFTER_ALL)
        return rf_replica_wait(s->strategy, index, s->strategy->members.replicas[index].ticket);
    if (s->num_parts > 0 && stage->clear) {
        RF_TRY(submit_parts(s, run, index, use + 1));
        RF_TRY(rf_replica_wait(s->strategy, index, s->stages.items[s->part_of[use]].works[index].ticket));
    }
    return rf_replica_wait(s->strategy, index, s->stages.items[stage->after - 1].works[index].ticket);
}

static rf_result await_stage(rf_step_schedule *s, const rf_step_schedule_run *run, const rf_step_stage *stage)
{
    for (uint32_t r = 0; stage->after != RF_AFTER_NOTHING && r < s->strategy->members.num_local; r++)
        RF_TRY(await_replica(s, run, stage, r));
    return RF_OK;
}

/* ---- exchanges ---- */

static float *host_address(const rf_step_schedule *s, uint32_t index, const rf_stage_array *array)
{
    return rf_flat_mapped(s->strategy->members.replicas[index].staged ? array->staging : array->flat, index);
}

static rf_bucket_exchange *handle_of(const rf_step_schedule *s, const rf_stage_exchange *x)
{
    return x->shares ? s->exchanges.items[x->shares - 1].handle : x->handle;
}

/* Devices do it themselves: what is not there is made to add nothing. */
static void start_imported(const rf_step_schedule *s, const rf_step_schedule_run *run, const rf_stage_exchange *x)
{
    for (uint32_t i = 0; i < x->num_segments; i++) {
        const rf_range range = x->segments[i].range;
        for (uint32_t r = 0; x->verb != RF_EXCHANGE_GATHER && r < s->strategy->members.num_local; r++)
            if (!takes_part(x->on, run, r))
                rf_imported_memory_leave_out(&s->strategy->exchange.imported, r, range.begin, range.end);
        run->strategy->exchange.between.bytes += (range.end - range.begin) * sizeof(float);
    }
}

static rf_result start_exchange(rf_step_schedule *s, const rf_step_schedule_run *run, const rf_step_stage *stage)
{
    const rf_strategy *strategy = s->strategy;
    rf_stage_exchange *x = &s->exchanges.items[stage->exchange];
    const bool gathers = x->verb == RF_EXCHANGE_GATHER;
    for (uint32_t r = 0; !x->departed && r < strategy->members.num_local; r++)
        RF_TRY(rf_replica_context(strategy, r, submit_departure(s, run, x, r)));
    RF_TRY(await_stage(s, run, stage));
    x->under_way = true;
    if (x->imported) {
        start_imported(s, run, x);
        return RF_OK;
    }
    for (uint32_t r = 0; r < strategy->members.num_local; r++) {
        const bool gives = gathers || takes_part(x->on, run, r);
        s->from[r] = gives ? host_address(s, r, &x->from) : NULL;
        s->to[r] = host_address(s, r, &x->to);
    }
    const uint64_t begun = rf_now_ns(), span = rf_span_begin();
    RF_TRY((gathers ? rf_bucket_exchange_gather : rf_bucket_exchange_reduce)(handle_of(s, x), s->from, s->to));
    count_exposed(s, begun);
    rf_span_end_with(span, "replica", x->name, (rf_span_arg){ "bucket", stage->bucket }, (rf_span_arg){ NULL, 0 });
    return RF_OK;
}

static rf_result await_exchange(rf_step_schedule *s, const rf_stage_exchange *x)
{
    if (x->imported) return RF_OK;
    const uint64_t begun = rf_now_ns(), span = rf_span_begin();
    RF_TRY(rf_bucket_exchange_finish(handle_of(s, x)));
    if (x->verb == RF_EXCHANGE_SUM_TO_ALL) {
        for (uint32_t r = 0; r < s->strategy->members.num_local; r++) s->to[r] = host_address(s, r, &x->to);
        RF_TRY(rf_bucket_exchange_gather(handle_of(s, x), (const float *const *)s->to, s->to));
        RF_TRY(rf_bucket_exchange_finish(handle_of(s, x)));
    }
    count_exposed(s, begun);
    rf_span_end_with(span, "replica", "await", (rf_span_arg){ "exchange", x->number }, (rf_span_arg){ NULL, 0 });
    return RF_OK;
}

/* The devices get what has arrived, unless a poll has been here. */
static rf_result finish_exchange(rf_step_schedule *s, const rf_step_stage *stage)
{
    rf_stage_exchange *x = &s->exchanges.items[stage->exchange];
    if (!x->under_way) return RF_OK;
    x->under_way = x->departed = false;
    RF_TRY(await_exchange(s, x));
    for (uint32_t r = 0; r < s->strategy->members.num_local; r++) {
        rf_exchange_replica *at = &x->replicas[r];
        rf_replica *replica = &s->strategy->members.replicas[r];
        RF_TRY(rf_replica_context(s->strategy, r, rf_replica_submit_one(replica, at->up)));
        if (at->frame) RF_TRY(rf_replica_context(s->strategy, r, rf_replica_submit_frames(replica, &at->frame, 1)));
    }
    return RF_OK;
}

static rf_result poll_exchanges(rf_step_schedule *s)
{
    for (uint32_t i = 0; i < s->stages.count; i++) {
        const rf_step_stage *stage = &s->stages.items[i];
        if (stage->op != RF_STAGE_FINISH || !stage->early) continue;
        const rf_stage_exchange *x = &s->exchanges.items[stage->exchange];
        if (x->under_way && (x->imported || rf_bucket_exchange_done(handle_of(s, x))))
            RF_TRY(finish_exchange(s, stage));
    }
    return RF_OK;
}

/* ---- the list ---- */

static rf_result submit_all(rf_step_schedule *s, const rf_step_schedule_run *run, uint32_t head)
{
    const rf_step_stage *stage = &s->stages.items[head];
    for (uint32_t r = 0; r < s->strategy->members.num_local; r++) {
        if (s->num_parts > 0 && stage->op == RF_STAGE_STEP) {
            RF_TRY(submit_parts(s, run, r, stage->part + 1));
            continue;
        }
        if (s->num_parts > 0 && stage->clear)
            RF_TRY(submit_parts(s, run, r, s->last_use[(size_t)r * s->num_parts + stage->bucket] + 1));
        RF_TRY(submit_replica(s, run, head, r));
    }
    return RF_OK;
}

static rf_result run_group(rf_step_schedule *s, const rf_step_schedule_run *run, uint32_t head)
{
    const rf_step_stage *stage = &s->stages.items[head];
    if (!takes_place(stage) && group_end(s, head) == head + 1 && stage->op != RF_STAGE_FINISH) return RF_OK;
    switch (stage->op) {
    case RF_STAGE_STEP:
    case RF_STAGE_PROGRAM:
    case RF_STAGE_COPY: return submit_all(s, run, head);
    case RF_STAGE_START: return start_exchange(s, run, stage);
    case RF_STAGE_FINISH: return finish_exchange(s, stage);
    case RF_STAGE_POLL: return poll_exchanges(s);
    case RF_STAGE_HOST: RF_TRY(await_stage(s, run, stage)); return stage->action->host(stage, run);
    }
    return RF_OK;
}

/* Acquires everything beforehand: nothing may come between the parts of a step, and a lack of memory shows before any
 * replica has changed. */
static rf_result schedule_begin(rf_step_schedule *s, const rf_step_schedule_run *run)
{
    const uint32_t num_local = s->strategy->members.num_local;
    memset(s->next_part, 0, num_local * sizeof(s->next_part[0]));
    memset(s->filled, 0, num_local * sizeof(s->filled[0]));
    s->exposed = 0;
    for (uint32_t i = 0; i < s->stages.count; i++) {
        const rf_step_stage *stage = &s->stages.items[i];
        for (uint32_t r = 0; r < num_local; r++) {
            rf_stage_work *work = &stage->works[r];
            work->frame = NULL;
            work->ticket = 0;
            if (work->program && !stage->late && may_take_place(stage) && takes_part(stage->on, run, r))
                RF_TRY(rf_replica_context(s->strategy, r, rf_program_acquire(work->program, 0, &work->frame)));
        }
    }
    for (uint32_t i = 0; i < s->exchanges.count; i++) {
        rf_stage_exchange *x = &s->exchanges.items[i];
        x->departed = x->under_way = false;
        for (uint32_t r = 0; r < num_local; r++)
            if (x->replicas[r].sum)
                RF_TRY(rf_replica_context(s->strategy, r,
                                          rf_program_acquire(x->replicas[r].sum, 0, &x->replicas[r].frame)));
    }
    for (uint32_t r = 0; s->num_parts > 0 && r < num_local; r++)
        if (!s->known[r] && run->frames[r])
            RF_TRY(rf_replica_context(s->strategy, r, learn_uses(s, r, run->frames[r])));
    return RF_OK;
}

static rf_result carry_out(rf_step_schedule *s, const rf_step_schedule_run *run)
{
    RF_TRY(schedule_begin(s, run));
    for (uint32_t head = 0; head < s->stages.count; head = group_end(s, head)) RF_TRY(run_group(s, run, head));
    return RF_OK;
}

/* Nothing may be under way in memory that is about to be used for something else. */
static rf_result give_up(rf_step_schedule *s, rf_result result)
{
    rf_error_record record;
    rf_strategy_fail(s->strategy, result); /* ends the job: nothing is waited for long */
    rf_error_save(&record);
    for (uint32_t i = 0; i < s->stages.count; i++)
        if (s->stages.items[i].action && s->stages.items[i].action->abandon)
            s->stages.items[i].action->abandon(&s->stages.items[i]);
    for (uint32_t i = 0; i < s->exchanges.count; i++) {
        if (s->exchanges.items[i].handle) (void)rf_bucket_exchange_finish(s->exchanges.items[i].handle);
    }
    return rf_error_restore(&record);
}

rf_result rf_step_schedule_carry_out(rf_step_schedule *s, const rf_step_schedule_run *run)
{
    const rf_exchange_mark mark = rf_exchange_mark_now(s->strategy);
    const rf_result r = carry_out(s, run);
    if (r < 0) return give_up(s, r);
    if (s->exchanges.count > 0) rf_exchange_count(s->strategy, &mark, s->exposed);
    return RF_OK;
}
