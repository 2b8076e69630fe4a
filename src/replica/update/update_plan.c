/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stages in which gradients become new values: each bucket is reduced, updated and gathered.
 *
 * Where gradients are exchanged while the backward pass goes on, every replica's step is submitted in parts, each of
 * which ends when the gradients of one bucket are there (overlap_plan.c says in which order, the same on all workers:
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
 * Elsewhere everything is one bucket, and the step, which was submitted as a whole, its one part: the same turns, one
 * after the other. Between reduction and update come the decision whether there is an update at all (loss_scale.c),
 * what the step computes from gradients, norms of them (norms.c), what an optimizer makes of whole matrices
 * (whole_matrix_update.c), and what it computes before it takes norms of its own (norms.c, too).
 */
#include "replica/update/update.h"

#define PARTS_UNDER_WAY 2

typedef struct plan {
    rf_step_schedule *schedule;
    rf_update *update;
    uint32_t reduce, gather; /* exchanges of bucket 0; those of the others follow */
    uint32_t *parts;         /* [num_buckets]: stages of the parts of the step */
    uint32_t *applied;       /* [num_buckets]: those that change a bucket's variables */
} plan;

/* ---- exchanges ---- */

static rf_result append_exchange(const plan *p, rf_stage_op op, uint32_t b, uint32_t exchange, uint32_t after)
{
    rf_step_stage stage = rf_update_stage(p->update, op, NULL);
    stage.bucket = b;
    stage.exchange = exchange;
    stage.after = after;
    const bool gathers = p->update->overlap.overlaps && exchange == p->gather + b;
    stage.clear = gathers && op == RF_STAGE_START;
    stage.early = gathers && op == RF_STAGE_FINISH;
    return rf_step_schedule_append(p->schedule, &stage, NULL);
}

/* Transforms take whole gradients: every replica gets all sums. Those of segments that all replicas own, and of
 * segments that one owns alone, are there. */
static rf_exchange_verb reduce_verb(const rf_update_facts *f)
{
    return f->transform && f->hands_on && !f->central ? RF_EXCHANGE_SUM_TO_ALL : RF_EXCHANGE_SUM;
}

/* Each bucket has one that sums gradients, and one that gathers values. */
static rf_result add_exchanges(plan *p)
{
    const rf_update_facts *f = &p->update->facts;
    const rf_strategy *s = p->schedule->strategy;
    const rf_flat *gradients = rf_updater_gradients(p->update->updater), *values = &s->store.trainable.values;
    const uint32_t count = f->exchanges ? p->update->num_buckets : 0;
    rf_stage_exchange reduce = { .name = "reduce",
                                 .verb = reduce_verb(f),
                                 .from = { gradients, &s->exchange.trained.down },
                                 .to = { gradients, &s->exchange.trained.up },
                                 /* Sums over several steps may not be zero, even where this step has no examples. */
                                 .on = f->accumulates ? RF_ON_ALL : RF_ON_ACTIVE,
                                 .gradients = true,
                                 .background = p->update->overlap.overlaps,
                                 .imported = f->imported };
    rf_stage_exchange gather = reduce;
    gather.name = "gather";
    gather.verb = RF_EXCHANGE_GATHER;
    gather.from.flat = gather.to.flat = values;
    p->reduce = p->schedule->exchanges.count;
    p->gather = p->reduce + count;
    for (uint32_t b = 0; b < count; b++) {
        uint32_t number;
        reduce.segments = p->update->buckets[b].segments;
        reduce.num_segments = p->update->buckets[b].num_segments;
        RF_TRY(rf_step_schedule_add_exchange(p->schedule, &reduce, &number));
    }
    for (uint32_t b = 0; f->hands_on && b < count; b++) {
        uint32_t number;
        gather.segments = p->update->buckets[b].segments;
        gather.num_segments = p->update->buckets[b].num_segments;
        gather.shares = 1 + p->reduce + b;
        RF_TRY(rf_step_schedule_add_exchange(p->schedule, &gather, &number));
    }
    return RF_OK;
}

/* ---- from sums to new values ---- */

static rf_result append_numbers(const plan *p, uint32_t b)
{
    rf_step_stage stage = rf_update_stage(p->update, RF_STAGE_HOST, &rf_update_divisor_action);
    stage.when |= rf_update_when_made(p->update);
    stage.bucket = b;
    RF_TRY(rf_step_schedule_append(p->schedule, &stage, NULL));
    stage.op = RF_STAGE_PROGRAM;
    stage.action = &rf_update_transform_action;
    if (p->update->facts.transform) RF_TRY(rf_step_schedule_append(p->schedule, &stage, NULL));
    if (p->update->updater->params.norms != RF_NORMS_NONE) RF_TRY(rf_update_append_norms(p->schedule, p->update));
    stage.op = RF_STAGE_HOST;
    stage.action = &rf_update_numbers_action;
    return rf_step_schedule_append(p->schedule, &stage, NULL);
}

/* The program that changes the variables of a bucket. */
static rf_step_stage apply_stage(rf_update *update, uint32_t b)
{
    rf_step_stage stage = rf_update_stage(update, RF_STAGE_PROGRAM, &rf_update_apply_action);
    stage.when |= rf_update_when_made(update);
    stage.bucket = b;
    stage.changes = true;
    stage.clear = update->overlap.overlaps;
    stage.picks_numbers = update->facts.device_decides;
    return stage;
}

/* A step that is skipped hands on the values that there are. */
static rf_result append_update(const plan *p, uint32_t b)
{
    const rf_updater_params *params = &p->update->updater->params;
    rf_step_stage apply = apply_stage(p->update, b);
    if (p->update->facts.exchanges) RF_TRY(append_exchange(p, RF_STAGE_FINISH, b, p->reduce + b, RF_AFTER_NOTHING));
    if (p->update->facts.host_decides) RF_TRY(rf_update_append_unscale(p->schedule, p->update));
    RF_TRY(append_numbers(p, b));
    if (params->whole_matrix) RF_TRY(rf_update_append_whole_matrices(p->schedule, p->update));
    if (params->norm_ratio) RF_TRY(rf_update_append_norm_ratios(p->schedule, p->update));
    if (p->update->overlap.overlaps && p->update->facts.hands_on) apply.departs = 1 + p->gather + b;
    return rf_step_schedule_append(p->schedule, &apply, &p->applied[b]);
}

/* ---- turns ---- */

/* Part k of the step, which ends with the gradients of its bucket. */
static rf_result append_part(const plan *p, uint32_t k)
{
    const rf_overlap_schedule *o = &p->update->overlap;
    rf_step_stage stage = {
        .op = RF_STAGE_STEP, .action = &rf_step_action, .on = RF_ON_ACTIVE, .piece = RF_PIECE_PART, .part = k
    };
    if (!o->overlaps || k >= o->plan.num_buckets) return RF_OK;
    stage.departs = 1 + p->reduce + o->plan.order[k];
    return rf_step_schedule_append(p->schedule, &stage, &p->parts[k]);
}

/* The gradients of the bucket whose turn is k begin to travel. */
static rf_result append_departure(const plan *p, uint32_t k)
{
    const rf_update_facts *f = &p->update->facts;
    const uint32_t b = p->update->overlap.plan.order[k];
    if (f->host_decides) {
        RF_TRY(rf_update_append_check(p->schedule, p->update, f->exchanges ? 1 + p->reduce + b : 0));
        RF_TRY(rf_update_append_finding(p->schedule, p->update));
    }
    if (!f->exchanges) return RF_OK;
    return append_exchange(p, RF_STAGE_START, b, p->reduce + b,
                           p->update->overlap.overlaps ? RF_AFTER(p->parts[k]) : RF_AFTER_ALL);
}

static rf_result append_gather(const plan *p, uint32_t b)
{
    return append_exchange(p, RF_STAGE_START, b, p->gather + b,
                           p->update->overlap.overlaps ? RF_AFTER(p->applied[b]) : RF_AFTER_ALL);
}

static rf_result append_turn(const plan *p, uint32_t k, uint32_t depth)
{
    const rf_overlap_plan *turns = &p->update->overlap.plan;
    const rf_step_stage poll = { .op = RF_STAGE_POLL };
    if (k < turns->num_buckets) RF_TRY(append_departure(p, k));
    for (uint32_t i = 0; p->update->facts.hands_on && i < turns->num_buckets; i++)
        if (turns->gather[turns->order[i]] == k) RF_TRY(append_gather(p, turns->order[i]));
    for (uint32_t i = 0; i < turns->num_buckets; i++)
        if (turns->gather[turns->order[i]] == k + 1) RF_TRY(append_update(p, turns->order[i]));
    RF_TRY(append_part(p, k + depth));
    const bool polls = p->update->overlap.overlaps && p->update->facts.hands_on;
    return polls ? rf_step_schedule_append(p->schedule, &poll, NULL) : RF_OK;
}

static rf_result append_turns(plan *p)
{
    const rf_overlap_plan *turns = &p->update->overlap.plan;
    const uint32_t depth = p->update->facts.paced ? turns->num_buckets : PARTS_UNDER_WAY;
    RF_TRY(add_exchanges(p));
    for (uint32_t k = 0; k < depth; k++) RF_TRY(append_part(p, k));
    for (uint32_t k = 0; k < turns->num_turns; k++) RF_TRY(append_turn(p, k, depth));
    for (uint32_t i = 0; p->update->facts.hands_on && i < turns->num_buckets; i++)
        RF_TRY(append_exchange(p, RF_STAGE_FINISH, turns->order[i], p->gather + turns->order[i], RF_AFTER_NOTHING));
    return RF_OK;
}

/* ---- the update ---- */

rf_result rf_update_append_joined(rf_step_schedule *schedule, rf_update *update)
{
    rf_step_stage accumulate = rf_update_stage(update, RF_STAGE_PROGRAM, &rf_update_accumulate_action);
    accumulate.when = RF_WHEN_LATER;
    accumulate.on = RF_ON_ACTIVE;
    accumulate.joins = true;
    if (update->facts.accumulates) RF_TRY(rf_step_schedule_append(schedule, &accumulate, NULL));
    rf_step_stage apply = apply_stage(update, 0);
    apply.joins = true;
    return update->facts.joins ? rf_step_schedule_append(schedule, &apply, NULL) : RF_OK;
}

/* The first of several accumulated steps replaces what was summed up before; without examples that is zeros. */
static rf_result append_first(rf_step_schedule *schedule, rf_update *update)
{
    static const rf_stage_action first = { .name = "first gradients" }, clear = { .name = "clear gradients" };
    rf_step_stage stage = rf_update_stage(update, RF_STAGE_COPY, &first);
    stage.when = RF_WHEN_FIRST;
    stage.on = RF_ON_ACTIVE;
    stage.copy.from = &schedule->strategy->store.gradients;
    stage.copy.to = &update->updater->totals;
    stage.copy.segments = update->runs.items;
    stage.copy.num_segments = update->runs.count;
    RF_TRY(rf_step_schedule_append(schedule, &stage, NULL));
    stage.action = &clear;
    stage.on = RF_ON_IDLE;
    stage.copy.from = NULL;
    return rf_step_schedule_append(schedule, &stage, NULL);
}

rf_result rf_update_append(rf_step_schedule *schedule, rf_update *update)
{
    plan p = { .schedule = schedule, .update = update };
    if (update->facts.accumulates) RF_TRY(append_first(schedule, update));
    if (!update->facts.joins) {
        p.parts = RF_NEW_ARRAY(uint32_t, update->num_buckets);
        p.applied = RF_NEW_ARRAY(uint32_t, update->num_buckets);
        const rf_result r = p.parts && p.applied ? append_turns(&p) : RF_ERROR_OUT_OF_HOST_MEMORY;
        rf_free(p.parts);
        rf_free(p.applied);
        RF_TRY(r);
    }
    if (update->overlap.overlaps) {
        schedule->num_parts = update->num_buckets;
        schedule->bucket_of_state = update->overlap.bucket_of_state;
        schedule->num_states = update->overlap.num_states;
    }
    const rf_step_stage *applied = rf_step_schedule_find(schedule, &rf_update_apply_action, update, 0);
    const rf_step_stage count = { .op = RF_STAGE_HOST,
                                  .action = &rf_update_count_action,
                                  .user = update,
                                  .reads = (uint32_t)(applied - schedule->stages.items) };
    return rf_step_schedule_append(schedule, &count, NULL);
}
