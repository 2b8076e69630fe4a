/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step whose gradients are exchanged while the backward pass goes on.
 *
 * Every replica's stage A is submitted in parts, each of which ends when the gradients of one bucket are there
 * (overlap_plan.h says in which order, the same on all workers: their collective calls must be). Two parts are under
 * way at a time, so that a device always has the next one, while updates of buckets that are reduced can still be
 * submitted between parts. The first turn of a step with four buckets and the turns after it:
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
 */
#include <string.h>

#include "base/platform.h"
#include "base/profiler.h"
#include "replica/internal.h"
#include "replica/update/overlap_plan.h"

#define PARTS_UNDER_WAY 2

typedef struct bucket_replica {
    rf_frame *frame;   /* of the update; NULL: it owns nothing of the bucket */
    uint32_t last_use; /* part of the replica's run that touches its variables last */
    uint64_t ticket;   /* of the update */
} bucket_replica;

typedef struct bucket {
    rf_bucket_exchange *exchange;
    bucket_replica *replicas; /* [num_local] */
    bool gathering;
} bucket;

typedef struct local {
    rf_frame *frame;   /* NULL: no examples */
    uint64_t *tickets; /* [num_buckets]: end of each part that was submitted, staging included */
    uint32_t submitted;
    bool known; /* bucket_replica::last_use is */
} local;

struct rf_overlap {
    rf_strategy *strategy;
    const rf_signature *signature;
    rf_update *update;
    uint32_t *bucket_of; /* by variable of the update */
    rf_overlap_plan plan;
    bucket *buckets;
    local *locals;      /* [num_local] */
    uint32_t *parts;    /* [number of states]: room */
    const float **from; /* [num_local]: room */
    float **to;         /* [num_local]: room */
    uint32_t depth;     /* parts under way */
    double exposed;     /* seconds of this step */
};

/* ---- creation ---- */

bool rf_overlap_wanted(const rf_strategy *s, const rf_signature *sig)
{
    if (!s->overlap || s->num_replicas == 1 || sig->updates.count != 1) return false;
    const rf_updater_params *p = &sig->updates.items[0].updater->params;
    return p->accumulation_steps == 1 && !p->variable_norms && !p->global_norm;
}

static bool within(const rf_update_part *part, const rf_variable *v)
{
    for (uint32_t i = 0; i < part->num_pieces; i++)
        if (part->pieces[i].range.begin <= v->offset && v->offset < part->pieces[i].range.end) return true;
    return false;
}

static void find_buckets(rf_overlap *o)
{
    for (uint32_t i = 0; i < o->update->count; i++)
        while (o->bucket_of[i] + 1 < o->update->num_parts &&
               !within(&o->update->parts[o->bucket_of[i]], o->update->variables[i]))
            o->bucket_of[i]++;
}

/* The bucket of the variable behind a state; UINT32_MAX where the update has none. */
static uint32_t bucket_of_state(const rf_overlap *o, uint32_t slot)
{
    const rf_variable *v = o->signature->states.items[slot].variable;
    for (uint32_t i = 0; v && i < o->update->count; i++)
        if (o->update->variables[i] == v) return o->bucket_of[i];
    return UINT32_MAX;
}

static void find_lives(const rf_overlap *o, rf_bucket_life *lives)
{
    const rf_graph *g = o->signature->graph;
    for (uint32_t i = 0; i < o->update->count; i++) {
        const rf_value_info *gradient = &g->values.items[o->update->gradients[i]];
        rf_bucket_life *life = &lives[o->bucket_of[i]];
        if (gradient->kind == RF_VALUE_RESULT && gradient->producer > life->ready) life->ready = gradient->producer;
    }
    for (rf_node n = 0; n < g->nodes.count; n++) {
        const rf_node_info *node = &g->nodes.items[n];
        for (uint32_t i = 0; i < node->n_in && !node->dead; i++) {
            if (!node->in[i]) continue;
            const rf_value_info *info = &g->values.items[g->values.items[node->in[i]].storage];
            const uint32_t b = info->kind == RF_VALUE_STATE ? bucket_of_state(o, info->slot) : UINT32_MAX;
            if (b != UINT32_MAX) lives[b].last_use = n;
        }
    }
}

static rf_result make_plan(rf_overlap *o)
{
    const uint32_t count = o->update->num_parts;
    rf_bucket_life *lives = RF_NEW_ARRAY(rf_bucket_life, count);
    if (!lives) return RF_ERROR_OUT_OF_HOST_MEMORY;
    find_lives(o, lives);
    const rf_result r = rf_overlap_plan_make(lives, count, &o->plan);
    rf_free(lives);
    return r;
}

static rf_result allocate(rf_overlap *o)
{
    const uint32_t count = o->update->num_parts, num_local = o->strategy->num_local;
    o->bucket_of = RF_NEW_ARRAY(uint32_t, o->update->count);
    o->buckets = RF_NEW_ARRAY(bucket, count);
    o->locals = RF_NEW_ARRAY(local, num_local);
    o->parts = RF_NEW_ARRAY(uint32_t, o->signature->graph->num_states);
    o->from = RF_NEW_ARRAY(const float *, num_local);
    o->to = RF_NEW_ARRAY(float *, num_local);
    if (!o->bucket_of || !o->buckets || !o->locals || !o->parts || !o->from || !o->to)
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t r = 0; r < num_local; r++)
        if (!(o->locals[r].tickets = RF_NEW_ARRAY(uint64_t, count))) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t b = 0; b < count; b++)
        if (!(o->buckets[b].replicas = RF_NEW_ARRAY(bucket_replica, num_local))) return RF_ERROR_OUT_OF_HOST_MEMORY;
    return RF_OK;
}

static rf_result create(rf_overlap *o)
{
    rf_exchange *exchange = o->strategy->exchange;
    RF_TRY(allocate(o));
    find_buckets(o);
    RF_TRY(make_plan(o));
    for (uint32_t b = 0; b < o->plan.num_buckets; b++) {
        const rf_update_part *part = &o->update->parts[b];
        RF_TRY(exchange->fns->open(exchange, part->pieces, part->num_pieces, &o->buckets[b].exchange));
    }
    return RF_OK;
}

rf_result rf_overlap_create(rf_strategy *strategy, const rf_signature *signature, rf_overlap **out)
{
    *out = NULL;
    if (signature->updates.items[0].num_parts == 1) return RF_OK;
    rf_overlap *o = RF_NEW(rf_overlap);
    if (!o) return RF_ERROR_OUT_OF_HOST_MEMORY;
    o->strategy = strategy;
    o->signature = signature;
    o->update = &signature->updates.items[0];
    const rf_result r = create(o);
    if (r < 0)
        rf_overlap_free(&o);
    else
        *out = o;
    return r;
}

void rf_overlap_free(rf_overlap **overlap)
{
    rf_overlap *o = *overlap;
    if (!o) return;
    const rf_exchange_fns *fns = o->strategy->exchange->fns;
    for (uint32_t b = 0; o->buckets && b < o->update->num_parts; b++) {
        if (o->buckets[b].exchange) fns->close(&o->buckets[b].exchange);
        rf_free(o->buckets[b].replicas);
    }
    for (uint32_t r = 0; o->locals && r < o->strategy->num_local; r++) rf_free(o->locals[r].tickets);
    rf_overlap_plan_free(&o->plan);
    rf_free(o->bucket_of);
    rf_free(o->buckets);
    rf_free(o->locals);
    rf_free(o->parts);
    rf_free(o->from);
    rf_free(o->to);
    rf_free(o);
    *overlap = NULL;
}

uint32_t rf_overlap_part(const rf_overlap *o, uint32_t variable)
{
    return o->plan.part[o->bucket_of[variable]];
}

/* ---- time that nothing hides ---- */

/* Whether some device still works on what it was given. */
static bool busy(const rf_overlap *o)
{
    const rf_strategy *s = o->strategy;
    for (uint32_t r = 0; r < s->num_local; r++) {
        const rf_replica *replica = &s->replicas[r];
        if (replica->ticket != 0 && rf_gpu_watch(replica->device, replica->ticket, 0) == RF_ERROR_TIMEOUT) return true;
    }
    return false;
}

/* What the host has done for the exchange since `begin` was hidden where the devices are busy still; else it counts as
 * a whole: when they became idle is not known. */
static void count_exposed(rf_overlap *o, uint64_t begin)
{
    if (!busy(o)) o->exposed += 1e-9 * (double)(rf_now_ns() - begin);
}

/* ---- before the first part ---- */

/* Which part touches the variables of a bucket last. Where updates need room in the slab, which belongs to the run
 * until its end, they come after the last one. */
static rf_result learn_uses(rf_overlap *o, uint32_t r)
{
    local *at = &o->locals[r];
    if (at->known || !at->frame) return RF_OK;
    RF_TRY(rf_frame_state_parts(at->frame, o->parts));
    for (uint32_t b = 0; b < o->plan.num_buckets; b++) {
        rf_program *apply = o->update->parts[b].replicas[r].apply;
        rf_program_stats stats = { 0 };
        if (apply) RF_TRY(rf_program_stats_get(apply, 0, &stats));
        o->buckets[b].replicas[r].last_use = stats.slab_size > 0 ? o->plan.num_buckets - 1 : 0;
    }
    for (uint32_t slot = 0; slot < o->signature->states.count; slot++) {
        const uint32_t b = bucket_of_state(o, slot);
        if (b == UINT32_MAX) continue;
        bucket_replica *br = &o->buckets[b].replicas[r];
        if (o->parts[slot] > br->last_use) br->last_use = o->parts[slot];
    }
    at->known = true;
    return RF_OK;
}

/* All that has to be acquired: nothing may be between parts. */
static rf_result begin(rf_overlap *o, rf_frame *const *frames)
{
    rf_strategy *s = o->strategy;
    rf_update_compute_hypers(o->update);
    for (uint32_t r = 0; r < s->num_local; r++) {
        o->locals[r].frame = frames[r];
        o->locals[r].submitted = 0;
        for (uint32_t b = 0; b < o->plan.num_buckets; b++) {
            bucket_replica *br = &o->buckets[b].replicas[r];
            br->frame = NULL;
            br->ticket = 0;
            if (o->update->parts[b].replicas[r].apply)
                RF_TRY(rf_replica_context(s, r, rf_update_acquire_apply(o->update, b, r, &br->frame)));
        }
        RF_TRY(rf_replica_context(s, r, learn_uses(o, r)));
    }
    o->depth = s->balancing.pace ? o->plan.num_buckets : PARTS_UNDER_WAY;
    o->exposed = 0;
    return RF_OK;
}

/* ---- parts ---- */

/* The first `count` parts of a replica's run are submitted after this. */
static rf_result submit_parts(rf_overlap *o, uint32_t r, uint32_t count)
{
    local *at = &o->locals[r];
    rf_replica *replica = &o->strategy->replicas[r];
    rf_pace *pace = o->strategy->balancing.pace;
    if (count > o->plan.num_buckets) count = o->plan.num_buckets;
    for (; at->frame && at->submitted < count; at->submitted++) {
        const uint32_t part = at->submitted;
        RF_TRY(rf_frame_submit_part(replica->exec, at->frame, part, &replica->ticket));
        if (pace && part + 1 == o->plan.num_buckets) rf_pace_submitted(pace, r, replica->device, replica->ticket);
        RF_TRY(rf_replica_submit_one(replica, o->update->parts[o->plan.order[part]].replicas[r].gradients_down));
        at->tickets[part] = replica->ticket;
    }
    return RF_OK;
}

static rf_result submit_all(rf_overlap *o, uint32_t count)
{
    for (uint32_t r = 0; r < o->strategy->num_local; r++)
        RF_TRY(rf_replica_context(o->strategy, r, submit_parts(o, r, count)));
    return RF_OK;
}

static rf_result wait_for(rf_overlap *o, uint32_t r, uint64_t ticket)
{
    if (ticket == 0) return RF_OK;
    const uint64_t begun = rf_span_begin();
    RF_TRY(rf_replica_context(o->strategy, r, rf_gpu_wait(o->strategy->replicas[r].device, ticket, RF_GPU_TIMEOUT_NS)));
    rf_span_end_with(begun, "replica", "wait", (rf_span_arg){ "replica", o->strategy->first + r },
                     (rf_span_arg){ NULL, 0 });
    return RF_OK;
}

static rf_result finish_part(rf_overlap *o, uint32_t r, uint32_t part)
{
    RF_TRY(rf_replica_context(o->strategy, r, submit_parts(o, r, part + 1)));
    return o->locals[r].frame ? wait_for(o, r, o->locals[r].tickets[part]) : RF_OK;
}

/* ---- buckets ---- */

static rf_result start_reduce(rf_overlap *o, uint32_t b)
{
    rf_strategy *s = o->strategy;
    for (uint32_t r = 0; r < s->num_local; r++) {
        o->from[r] = o->locals[r].frame ? rf_replica_reachable(s, r, &s->gradients, &s->download) : NULL;
        o->to[r] = rf_replica_reachable(s, r, &s->gradients, &s->upload);
    }
    const uint64_t begun = rf_now_ns(), span = rf_span_begin();
    RF_TRY(s->exchange->fns->start_reduce(o->buckets[b].exchange, o->from, o->to));
    count_exposed(o, begun);
    rf_span_end_with(span, "replica", "reduce", (rf_span_arg){ "bucket", b }, (rf_span_arg){ NULL, 0 });
    return RF_OK;
}

static rf_result finish_exchange(rf_overlap *o, uint32_t b)
{
    const uint64_t begun = rf_now_ns(), span = rf_span_begin();
    RF_TRY(o->strategy->exchange->fns->finish(o->buckets[b].exchange));
    count_exposed(o, begun);
    rf_span_end_with(span, "replica", "await", (rf_span_arg){ "bucket", b }, (rf_span_arg){ NULL, 0 });
    return RF_OK;
}

static rf_result update_replica(rf_overlap *o, uint32_t b, uint32_t r)
{
    rf_replica *replica = &o->strategy->replicas[r];
    const rf_update_part_replica *at = &o->update->parts[b].replicas[r];
    bucket_replica *br = &o->buckets[b].replicas[r];
    if (!br->frame) return RF_OK;
    RF_TRY(rf_replica_submit_one(replica, at->gradients_up));
    RF_TRY(submit_parts(o, r, br->last_use + 1));
    RF_TRY(rf_replica_submit_frames(replica, &br->frame, 1));
    RF_TRY(rf_replica_submit_one(replica, at->values_down));
    br->ticket = replica->ticket;
    return RF_OK;
}

static rf_result update_bucket(rf_overlap *o, uint32_t b)
{
    RF_TRY(finish_exchange(o, b));
    RF_TRY(rf_strategy_await_copy(o->strategy));
    for (uint32_t r = 0; r < o->strategy->num_local; r++)
        RF_TRY(rf_replica_context(o->strategy, r, update_replica(o, b, r)));
    return RF_OK;
}

static rf_result start_gather(rf_overlap *o, uint32_t b)
{
    rf_strategy *s = o->strategy;
    for (uint32_t r = 0; r < s->num_local; r++) {
        RF_TRY(finish_part(o, r, o->buckets[b].replicas[r].last_use));
        RF_TRY(wait_for(o, r, o->buckets[b].replicas[r].ticket));
        o->from[r] = rf_replica_reachable(s, r, &s->trainable.values, &s->download);
        o->to[r] = rf_replica_reachable(s, r, &s->trainable.values, &s->upload);
    }
    const uint64_t begun = rf_now_ns(), span = rf_span_begin();
    RF_TRY(s->exchange->fns->start_gather(o->buckets[b].exchange, o->from, o->to));
    o->buckets[b].gathering = true;
    count_exposed(o, begun);
    rf_span_end_with(span, "replica", "gather", (rf_span_arg){ "bucket", b }, (rf_span_arg){ NULL, 0 });
    return RF_OK;
}

/* Those that are done, or all. */
static rf_result finish_gathers(rf_overlap *o, bool all)
{
    rf_strategy *s = o->strategy;
    for (uint32_t k = 0; k < o->plan.num_buckets; k++) {
        const uint32_t b = o->plan.order[k];
        bucket *at = &o->buckets[b];
        if (!at->gathering || (!all && !s->exchange->fns->done(at->exchange))) continue;
        at->gathering = false;
        RF_TRY(finish_exchange(o, b));
        for (uint32_t r = 0; r < s->num_local; r++)
            RF_TRY(rf_replica_submit_one(&s->replicas[r], o->update->parts[b].replicas[r].values_up));
    }
    return RF_OK;
}

/* ---- the step ---- */

static rf_result overlap_take_turn(rf_overlap *o, uint32_t k)
{
    const rf_overlap_plan *p = &o->plan;
    const bool gathers = o->strategy->update_mode == RF_UPDATE_SHARDED;
    if (k < p->num_buckets) {
        for (uint32_t r = 0; r < o->strategy->num_local; r++) RF_TRY(finish_part(o, r, k));
        RF_TRY(start_reduce(o, p->order[k]));
    }
    for (uint32_t i = 0; i < p->num_buckets; i++)
        if (gathers && p->gather[p->order[i]] == k) RF_TRY(start_gather(o, p->order[i]));
    for (uint32_t i = 0; i < p->num_buckets; i++)
        if (p->gather[p->order[i]] == k + 1) RF_TRY(update_bucket(o, p->order[i]));
    RF_TRY(submit_all(o, k + 1 + o->depth));
    return finish_gathers(o, false);
}

static rf_result run(rf_overlap *o, rf_frame *const *frames)
{
    RF_TRY(begin(o, frames));
    RF_TRY(submit_all(o, o->depth));
    for (uint32_t k = 0; k < o->plan.num_turns; k++) RF_TRY(overlap_take_turn(o, k));
    return finish_gathers(o, true);
}

/* Nothing may be under way in memory that somebody else will use. */
static rf_result give_up(rf_overlap *o, rf_result result)
{
    rf_error_record record;
    rf_strategy_stick(o->strategy, result); /* ends the job: nothing is waited for long */
    rf_error_save(&record);
    for (uint32_t b = 0; b < o->plan.num_buckets; b++) {
        o->buckets[b].gathering = false;
        (void)o->strategy->exchange->fns->finish(o->buckets[b].exchange);
    }
    return rf_error_restore(&record);
}

rf_result rf_overlap_run(rf_overlap *o, rf_frame *const *frames)
{
    const rf_exchange_mark mark = rf_exchange_mark_now(o->strategy);
    const rf_result r = run(o, frames);
    if (r < 0) return give_up(o, r);
    rf_exchange_count(o->strategy, &mark, o->exposed);
    rf_update_count(o->update);
    return RF_OK;
}
