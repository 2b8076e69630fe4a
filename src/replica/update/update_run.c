/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage of a step in which gradients become new values: each bucket is reduced, updated and gathered.
 *
 * Where gradients are exchanged while the backward pass goes on, every replica's stage A is submitted in parts, each of
 * which ends when the gradients of one bucket are there (overlap_plan.h says in which order, the same on all workers:
 * their collective calls must be). Two parts are under way at a time, so that a device always has the next one, while
 * updates of buckets that are reduced can still be submitted between parts. The first turn of a step with four buckets
 * and the turns after it:
 *
 *     turn 0: part 0 done: reduce 0                                         submit part 2
 *     turn 1: part 1 done: reduce 1              await reduce 0, update 0   submit part 3
 *     turn 2: part 2 done: reduce 2, gather 0    await reduce 1, update 1
 *     turn 3: part 3 done: reduce 3, gather 1    await reduce 2, update 2
 *     turn 4:                        gather 2    await reduce 3, update 3
 *     turn 5:                        gather 3    await all
 *
 * The plan follows the traced graph. A device may compute in another order, because its kernels fuse other nodes: then
 * parts that still read a variable are submitted, and waited for, before it is written; that costs time, no more.
 *
 * Elsewhere everything is one bucket, and stage A, which was submitted as a whole, its one part: the same turns, one
 * after the other. What the step computes from gradients, and norms of them, come between reduction and
 * update. So do what an optimizer computes before it takes norms of its own (ratios.c), and what it makes of whole
 * variables (directions.c). Before all of these comes the decision whether there is an update at all, for which the
 * devices check gradients of scaled losses before they are exchanged (loss_scale.c).
 */
#include <math.h>
#include <string.h>

#include "base/platform.h"
#include "base/profiler.h"
#include "replica/exchange/exchange_stats.h"
#include "replica/exchange/staging.h"
#include "replica/internal.h"
#include "replica/store/copying.h"
#include "replica/update/turns.h"
#include "replica/update/update.h"
#include "replica/update/updater.h"

#define PARTS_UNDER_WAY 2

static bool wants_norms(const rf_updater *u)
{
    return u->params.variable_norms || u->params.global_norm;
}

/* ---- numbers of the update ---- */

static void compute_hypers(rf_update *update)
{
    const rf_updater *u = update->updater;
    if (rf_update_decides(update)) {
        rf_update_compute_rows(update);
        return;
    }
    for (uint32_t i = 0; i < update->num_hypers; i++) {
        const double norm = wants_norms(u) ? sqrt(update->squares[i]) / update->divisor : 0;
        float *values = update->hypers + (size_t)i * rf_updater_num_numbers(u);
        u->params.hyper(u->params.user, u->iterations, norm, update->hyper_groups[i], values);
        rf_update_weigh_numbers(update, values);
    }
}

void rf_update_fill_hypers(const rf_update *update, uint32_t index, rf_frame *frame)
{
    const rf_updater *u = update->updater;
    const uint32_t count = u->params.hyper_count, scalars = u->params.num_scalars, rate = u->params.rate_hyper;
    /* RINGFIRE_TEST_PERTURB: a device whose arithmetic rounds differently. */
    const float factor = u->strategy->first + index == u->strategy->perturbed ? 1 + 0x1p-23f : 1;
    if (rf_update_decides(update)) {
        rf_update_fill_rows(update, frame);
        return;
    }
    for (uint32_t i = 0; i < update->num_hypers; i++) {
        const float *from = update->hypers + (size_t)i * (count + scalars);
        float *values = rf_frame_host(frame, i * (1 + scalars));
        if (values) memcpy(values, from, count * sizeof(float));
        if (values && rate < count) values[rate] *= factor;
        for (uint32_t k = 0; k < scalars; k++) {
            float *value = rf_frame_host(frame, i * (1 + scalars) + 1 + k);
            if (value) *value = from[count + k] * (rate == count + k ? factor : 1);
        }
    }
}

/* ---- before a step ---- */

static rf_result replica_ready(const rf_update *update, uint32_t r)
{
    const rf_strategy *s = update->updater->strategy;
    const rf_update_replica *at = &update->replicas[r];
    rf_program *programs[] = { at->accumulate, at->transform, at->norms[0],   at->ratios[0], at->check,
                               at->unscale,    at->decide,    at->directions, at->wholes };
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
        if (programs[i]) RF_TRY(rf_replica_context(s, r, rf_program_ready(programs[i], 0)));
    for (uint32_t b = 0; b < update->num_buckets; b++) {
        const rf_update_bucket_replica *made = &update->buckets[b].replicas[r];
        if (made->apply) RF_TRY(rf_replica_context(s, r, rf_program_ready(made->apply, 0)));
        if (made->sum) RF_TRY(rf_replica_context(s, r, rf_program_ready(made->sum, 0)));
    }
    return RF_OK;
}

rf_result rf_update_ready(rf_update *update)
{
    for (uint32_t r = 0; !update->ready && r < update->updater->strategy->num_local; r++)
        RF_TRY(replica_ready(update, r));
    update->ready = true;
    return RF_OK;
}

/* ---- together with stage A ---- */

rf_result rf_update_join_submission(rf_update *update, uint32_t index, rf_frame **frames, uint32_t *count)
{
    rf_updater *u = update->updater;
    if (u->accumulated > 0) {
        RF_TRY(rf_program_acquire(update->replicas[index].accumulate, 0, &frames[*count]));
        ++*count;
    }
    if (!rf_update_joins(update) || !rf_update_is_due(update)) return RF_OK;
    RF_TRY(rf_program_acquire(update->buckets[0].replicas[index].apply, 0, &frames[*count]));
    /* Its frame may be that of a pending update: it has ended, and its results are there until the next submission. */
    if (rf_update_decides(update)) RF_TRY(rf_updater_make_way(u, update->num_rows));
    RF_TRY(rf_update_take_divisor(update, NULL));
    compute_hypers(update);
    rf_update_fill_hypers(update, index, frames[*count]);
    update->frames[index] = frames[*count];
    ++*count;
    return RF_OK;
}

/* ---- time that nothing hides ---- */

/* Whether some device still works on what it was given. */
static bool devices_busy(const rf_turns *t)
{
    const rf_strategy *s = t->strategy;
    for (uint32_t r = 0; r < s->num_local; r++) {
        const rf_replica *replica = &s->replicas[r];
        if (replica->ticket != 0 && rf_gpu_watch(replica->device, replica->ticket, 0) == RF_ERROR_TIMEOUT) return true;
    }
    return false;
}

/* What the host has done for the exchange since `begin` was hidden if the devices are still busy. If they are not, all
 * of it counts, because it is not known when they became idle. */
static void count_exposed(rf_turns *t, uint64_t begin)
{
    if (!devices_busy(t)) t->exposed += 1e-9 * (double)(rf_now_ns() - begin);
}

/* ---- before the first part ---- */

/* Which part touches the variables of a bucket last. Where updates need room in the slab, which belongs to the run
 * until its end, they come after the last one. */
static rf_result learn_uses(rf_turns *t, uint32_t r)
{
    rf_turn_replica *at = &t->locals[r];
    if (at->known || !at->frame) return RF_OK;
    RF_TRY(rf_frame_state_parts(at->frame, t->parts));
    for (uint32_t b = 0; b < t->plan.num_buckets; b++) {
        rf_program *apply = t->update->buckets[b].replicas[r].apply;
        rf_program_stats stats = { 0 };
        if (apply) RF_TRY(rf_program_stats_get(apply, 0, &stats));
        t->buckets[b].replicas[r].last_use = stats.slab_size > 0 ? t->plan.num_buckets - 1 : 0;
    }
    for (uint32_t slot = 0; slot < t->traced.count; slot++) {
        const uint32_t b = rf_turns_bucket_of_state(t, slot);
        if (b == UINT32_MAX) continue;
        rf_turn_bucket_replica *br = &t->buckets[b].replicas[r];
        if (t->parts[slot] > br->last_use) br->last_use = t->parts[slot];
    }
    at->known = true;
    return RF_OK;
}

/* Acquires everything beforehand: nothing may come between parts, and a lack of memory shows before any replica has
 * changed. */
static rf_result update_begin(rf_turns *t, rf_frame *const *frames, const uint32_t *examples)
{
    rf_strategy *s = t->strategy;
    t->examples = examples;
    for (uint32_t r = 0; r < s->num_local; r++) {
        rf_turn_replica *at = &t->locals[r];
        at->frame = t->overlaps ? frames[r] : NULL;
        /* Sums over several steps may not be zero, even where this step has no examples. */
        at->contributes = examples[r] > 0 || t->update->updater->params.accumulation_steps > 1;
        at->submitted = 0;
        for (uint32_t b = 0; b < t->plan.num_buckets; b++) {
            rf_turn_bucket_replica *br = &t->buckets[b].replicas[r];
            br->frame = br->sum = NULL;
            br->ticket = 0;
            const rf_update_bucket_replica *made = &t->update->buckets[b].replicas[r];
            if (made->sum) RF_TRY(rf_replica_context(s, r, rf_program_acquire(made->sum, 0, &br->sum)));
            if (made->apply) RF_TRY(rf_replica_context(s, r, rf_program_acquire(made->apply, 0, &br->frame)));
        }
        rf_program *check = t->update->replicas[r].check;
        t->checks[r] = NULL;
        if (check && at->contributes) RF_TRY(rf_replica_context(s, r, rf_program_acquire(check, 0, &t->checks[r])));
        RF_TRY(rf_replica_context(s, r, learn_uses(t, r)));
    }
    t->depth = !t->overlaps ? 0 : s->balancing.pace ? t->plan.num_buckets : PARTS_UNDER_WAY;
    t->exposed = 0;
    return RF_OK;
}

/* ---- parts ---- */

/* The first `count` parts of a replica's run are submitted after this. */
static rf_result submit_parts(rf_turns *t, uint32_t r, uint32_t count)
{
    rf_turn_replica *at = &t->locals[r];
    rf_replica *replica = &t->strategy->replicas[r];
    rf_pace *pace = t->strategy->balancing.pace;
    if (count > t->plan.num_buckets) count = t->plan.num_buckets;
    for (; at->submitted < count; at->submitted++) {
        const uint32_t part = at->submitted;
        const rf_update_bucket_replica *update = &t->update->buckets[t->plan.order[part]].replicas[r];
        if (at->frame) {
            RF_TRY(rf_frame_submit_part(replica->exec, at->frame, part, &replica->ticket));
            if (pace && part + 1 == t->plan.num_buckets) rf_pace_submitted(pace, r, replica->device, replica->ticket);
        }
        if (t->checks[r]) RF_TRY(rf_replica_submit_frames(replica, &t->checks[r], 1));
        if (at->contributes) RF_TRY(rf_replica_submit_one(replica, update->gradients_down));
        at->tickets[part] = replica->ticket;
    }
    return RF_OK;
}

static rf_result submit_all(rf_turns *t, uint32_t count)
{
    for (uint32_t r = 0; r < t->strategy->num_local; r++)
        RF_TRY(rf_replica_context(t->strategy, r, submit_parts(t, r, count)));
    return RF_OK;
}

static rf_result wait_for(rf_turns *t, uint32_t r, uint64_t ticket)
{
    if (ticket == 0) return RF_OK;
    const uint64_t begun = rf_span_begin();
    RF_TRY(rf_replica_context(t->strategy, r, rf_gpu_wait(t->strategy->replicas[r].device, ticket, RF_GPU_TIMEOUT_NS)));
    rf_span_end_with(begun, "replica", "wait", (rf_span_arg){ "replica", t->strategy->first + r },
                     (rf_span_arg){ NULL, 0 });
    return RF_OK;
}

static rf_result finish_part(rf_turns *t, uint32_t r, uint32_t part)
{
    RF_TRY(rf_replica_context(t->strategy, r, submit_parts(t, r, part + 1)));
    return wait_for(t, r, t->locals[r].tickets[part]);
}

/* ---- buckets ---- */

static void count_met(rf_turns *t, uint32_t b)
{
    const rf_update_bucket *bucket = &t->update->buckets[b];
    for (uint32_t i = 0; i < bucket->num_segments; i++)
        t->strategy->exchange->bytes +=
            (bucket->segments[i].range.end - bucket->segments[i].range.begin) * sizeof(float);
}

/* All gradients have met: what is not there is made to add nothing. */
static void reduce_met(rf_turns *t, uint32_t b)
{
    const rf_update_bucket *bucket = &t->update->buckets[b];
    for (uint32_t r = 0; r < t->strategy->num_local; r++)
        for (uint32_t i = 0; !t->locals[r].contributes && i < bucket->num_segments; i++)
            rf_meeting_leave_out(&t->strategy->meeting, r, bucket->segments[i].range.begin,
                                 bucket->segments[i].range.end);
    count_met(t, b);
}

static rf_result start_reduce(rf_turns *t, uint32_t b)
{
    rf_strategy *s = t->strategy;
    if (t->meets) {
        reduce_met(t, b);
        return RF_OK;
    }
    const rf_flat *gradients = rf_updater_gradients(t->update->updater);
    for (uint32_t r = 0; r < s->num_local; r++) {
        t->from[r] = t->locals[r].contributes ? rf_replica_reachable(s, r, gradients, &s->download) : NULL;
        t->to[r] = rf_replica_reachable(s, r, gradients, &s->upload);
    }
    const uint64_t begun = rf_now_ns(), span = rf_span_begin();
    RF_TRY(s->exchange->fns->start_reduce(t->buckets[b].exchange, t->from, t->to));
    count_exposed(t, begun);
    rf_span_end_with(span, "replica", "reduce", (rf_span_arg){ "bucket", b }, (rf_span_arg){ NULL, 0 });
    return RF_OK;
}

static rf_result finish_exchange(rf_turns *t, uint32_t b)
{
    if (t->meets) return RF_OK;
    const uint64_t begun = rf_now_ns(), span = rf_span_begin();
    RF_TRY(t->strategy->exchange->fns->finish(t->buckets[b].exchange));
    count_exposed(t, begun);
    rf_span_end_with(span, "replica", "await", (rf_span_arg){ "bucket", b }, (rf_span_arg){ NULL, 0 });
    return RF_OK;
}

/* Sums that owners got become visible to their devices, or are made there. */
static rf_result upload_gradients(rf_turns *t, uint32_t b)
{
    for (uint32_t r = 0; r < t->strategy->num_local; r++) {
        const rf_update_bucket_replica *at = &t->update->buckets[b].replicas[r];
        rf_replica *replica = &t->strategy->replicas[r];
        rf_frame *sum = t->buckets[b].replicas[r].sum;
        if (!at->apply) continue;
        RF_TRY(rf_replica_context(t->strategy, r, rf_replica_submit_one(replica, at->gradients_up)));
        if (sum) RF_TRY(rf_replica_context(t->strategy, r, rf_replica_submit_frames(replica, &sum, 1)));
    }
    return RF_OK;
}

static rf_result update_replica(rf_turns *t, uint32_t b, uint32_t r)
{
    rf_replica *replica = &t->strategy->replicas[r];
    rf_turn_bucket_replica *br = &t->buckets[b].replicas[r];
    if (!br->frame) return RF_OK;
    if (!t->update->skipped) rf_update_fill_hypers(t->update, r, br->frame);
    RF_TRY(submit_parts(t, r, br->last_use + 1));
    if (!t->update->skipped) RF_TRY(rf_replica_submit_frames(replica, &br->frame, 1));
    RF_TRY(rf_replica_submit_one(replica, t->update->buckets[b].replicas[r].values_down));
    br->ticket = replica->ticket;
    return RF_OK;
}

/* Transforms take whole gradients: every replica gets all sums. Those of segments that all replicas own, and of
 * segments that one owns alone, are there. */
static rf_result gather_gradients(rf_turns *t, uint32_t b)
{
    rf_strategy *s = t->strategy;
    if (!t->gathers || s->central) return RF_OK;
    const rf_flat *gradients = rf_updater_gradients(t->update->updater);
    for (uint32_t r = 0; r < s->num_local; r++)
        t->from[r] = t->to[r] = rf_replica_reachable(s, r, gradients, &s->upload);
    const uint64_t begun = rf_now_ns(), span = rf_span_begin();
    RF_TRY(s->exchange->fns->start_gather(t->buckets[b].exchange, t->from, t->to));
    count_exposed(t, begun);
    rf_span_end_with(span, "replica", "gather gradients", (rf_span_arg){ "bucket", b }, (rf_span_arg){ NULL, 0 });
    return finish_exchange(t, b);
}

/* Sums to means, and back: what transforms compute with, and what updates take. */
static void fill_transform(const rf_update *update, rf_frame *frame)
{
    float *mean = update->transform.weighs ? rf_frame_host(frame, 0) : NULL;
    float *sum = update->transform.weighs ? rf_frame_host(frame, 1) : NULL;
    if (mean) *mean = (float)(1 / update->divisor);
    if (sum) *sum = (float)update->divisor;
}

static rf_result transform_gradients(rf_turns *t)
{
    rf_update *update = t->update;
    for (uint32_t r = 0; r < t->strategy->num_local; r++) {
        rf_program *transform = update->replicas[r].transform;
        if (!transform) continue;
        RF_TRY(rf_replica_context(t->strategy, r, rf_program_acquire(transform, 0, &update->frames[r])));
        fill_transform(update, update->frames[r]);
        RF_TRY(rf_replica_context(t->strategy, r,
                                  rf_replica_submit_frames(&t->strategy->replicas[r], &update->frames[r], 1)));
    }
    return RF_OK;
}

/* What the update reads, from reduced gradients. */
static rf_result update_prepare_numbers(rf_turns *t)
{
    RF_TRY(rf_update_take_divisor(t->update, t->examples));
    if (t->update->transform.graph) RF_TRY(transform_gradients(t));
    if (wants_norms(t->update->updater)) RF_TRY(rf_update_reduce_norms(t->update));
    compute_hypers(t->update);
    RF_TRY(rf_strategy_await_copy(t->strategy));
    if (t->update->wholes.count > 0) RF_TRY(rf_update_take_directions(t->update));
    return t->update->updater->params.emit_norms ? rf_update_take_ratios(t->update) : RF_OK;
}

/* A step that is skipped hands on the values that there are. */
static rf_result update_bucket(rf_turns *t, uint32_t b)
{
    if (t->exchanges) RF_TRY(finish_exchange(t, b));
    if (t->update->transform.graph) RF_TRY(gather_gradients(t, b));
    RF_TRY(upload_gradients(t, b));
    if (rf_update_asks(t->update)) RF_TRY(rf_update_unscale(t->update));
    if (!t->update->skipped) RF_TRY(update_prepare_numbers(t));
    for (uint32_t r = 0; r < t->strategy->num_local; r++)
        RF_TRY(rf_replica_context(t->strategy, r, update_replica(t, b, r)));
    return RF_OK;
}

static rf_result start_gather(rf_turns *t, uint32_t b)
{
    rf_strategy *s = t->strategy;
    for (uint32_t r = 0; r < s->num_local; r++) {
        RF_TRY(finish_part(t, r, t->buckets[b].replicas[r].last_use));
        RF_TRY(wait_for(t, r, t->buckets[b].replicas[r].ticket));
        t->from[r] = rf_replica_reachable(s, r, &s->trainable.values, &s->download);
        t->to[r] = rf_replica_reachable(s, r, &s->trainable.values, &s->upload);
    }
    t->buckets[b].gathering = true;
    if (t->meets) {
        count_met(t, b);
        return RF_OK;
    }
    const uint64_t begun = rf_now_ns(), span = rf_span_begin();
    RF_TRY(s->exchange->fns->start_gather(t->buckets[b].exchange, t->from, t->to));
    count_exposed(t, begun);
    rf_span_end_with(span, "replica", "gather", (rf_span_arg){ "bucket", b }, (rf_span_arg){ NULL, 0 });
    return RF_OK;
}

/* Those that are done, or all. */
static rf_result finish_gathers(rf_turns *t, bool all)
{
    rf_strategy *s = t->strategy;
    for (uint32_t k = 0; k < t->plan.num_buckets; k++) {
        const uint32_t b = t->plan.order[k];
        rf_turn_bucket *at = &t->buckets[b];
        if (!at->gathering || (!all && !t->meets && !s->exchange->fns->done(at->exchange))) continue;
        at->gathering = false;
        RF_TRY(finish_exchange(t, b));
        for (uint32_t r = 0; r < s->num_local; r++)
            RF_TRY(rf_replica_submit_one(&s->replicas[r], t->update->buckets[b].replicas[r].values_up));
    }
    return RF_OK;
}

/* ---- the step ---- */

static rf_result take_turn(rf_turns *t, uint32_t k)
{
    const rf_overlap_plan *p = &t->plan;
    const bool asks = rf_update_asks(t->update);
    if ((t->exchanges || asks) && k < p->num_buckets) {
        for (uint32_t r = 0; r < t->strategy->num_local; r++) RF_TRY(finish_part(t, r, k));
        if (asks) RF_TRY(rf_update_start_finding(t->update, t->checks));
        if (t->exchanges) RF_TRY(start_reduce(t, p->order[k]));
    }
    for (uint32_t i = 0; i < p->num_buckets; i++)
        if (t->gathers && p->gather[p->order[i]] == k) RF_TRY(start_gather(t, p->order[i]));
    for (uint32_t i = 0; i < p->num_buckets; i++)
        if (p->gather[p->order[i]] == k + 1) RF_TRY(update_bucket(t, p->order[i]));
    RF_TRY(submit_all(t, k + 1 + t->depth));
    return finish_gathers(t, false);
}

static rf_result take_turns(rf_turns *t, rf_frame *const *frames, const uint32_t *examples)
{
    RF_TRY(update_begin(t, frames, examples));
    RF_TRY(submit_all(t, t->depth));
    for (uint32_t k = 0; k < t->plan.num_turns; k++) RF_TRY(take_turn(t, k));
    return finish_gathers(t, true);
}

/* Nothing may be under way in memory that is about to be used for something else. */
static rf_result give_up(rf_turns *t, rf_result result)
{
    rf_error_record record;
    rf_strategy_stick(t->strategy, result); /* ends the job: nothing is waited for long */
    rf_error_save(&record);
    rf_update_stop_finding(t->update);
    for (uint32_t b = 0; t->exchanges && b < t->plan.num_buckets; b++) {
        t->buckets[b].gathering = false;
        (void)t->strategy->exchange->fns->finish(t->buckets[b].exchange);
    }
    return rf_error_restore(&record);
}

static rf_result run_due(rf_turns *t, rf_frame *const *frames, const uint32_t *examples)
{
    const rf_exchange_mark mark = rf_exchange_mark_now(t->strategy);
    const rf_result r = take_turns(t, frames, examples);
    if (r < 0) return give_up(t, r);
    if (t->exchanges) rf_exchange_count(t->strategy, &mark, t->exposed);
    if (t->gathers) t->strategy->shadows.stale = true;
    return RF_OK;
}

static rf_result add_first(rf_update *update, uint32_t r, bool clear, rf_repeated *copies)
{
    rf_gpu_recording *rec = NULL;
    RF_TRY(rf_replica_context(update->updater->strategy, r, rf_update_record_first(update, r, clear, &rec)));
    return rf_repeated_add(copies, rec);
}

/* The first of several accumulated steps replaces what was summed up before; without examples that is zeros. */
static rf_result begin_totals(rf_update *update, const uint32_t *examples)
{
    rf_strategy *s = update->updater->strategy;
    for (uint32_t r = 0; r < s->num_local; r++) {
        rf_update_replica *at = &update->replicas[r];
        rf_replica *replica = &s->replicas[r];
        const bool clear = examples[r] == 0;
        rf_repeated *copies = clear ? &at->clear : &at->first;
        if (rf_repeated_is_busy(copies, replica)) RF_TRY(add_first(update, r, clear, copies));
        RF_TRY(rf_replica_context(s, r, rf_repeated_submit(copies, replica)));
    }
    return RF_OK;
}

static void count_step(rf_update *update)
{
    rf_updater *u = update->updater;
    u->runs++;
    if (rf_update_is_due(update)) {
        u->latest = rf_update_gradients(update);
        if (!update->skipped) u->iterations++;
        if (rf_update_decides(update)) rf_updater_add_pending(u, update->frames[0], u->strategy->replicas[0].ticket);
        u->accumulated = 0;
        if (u->strategy->num_replicas > 1) u->strategy->stats.updates++;
    } else {
        u->accumulated++;
    }
    for (uint32_t i = 0; i < update->count; i++) {
        update->variables[i]->updater = u;
        update->variables[i]->run = u->runs;
    }
}

rf_result rf_update_run(rf_update *update, rf_frame *const *frames, const uint32_t *examples)
{
    const rf_updater *u = update->updater;
    if (u->params.accumulation_steps > 1 && u->accumulated == 0) RF_TRY(begin_totals(update, examples));
    if (rf_update_is_due(update) && !rf_update_joins(update)) RF_TRY(run_due(update->turns, frames, examples));
    rf_update_count_weight(update, examples);
    count_step(update);
    return RF_OK;
}
