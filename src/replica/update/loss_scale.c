/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loss scaling. Scale and tally are states of every replica, which steps read and change on the device; all replicas
 * have the same, because all are told whether any of the gradients is not finite.
 *
 * Where one replica trains and nothing else waits for the host, the device alone decides whether an update is made, and
 * the host learns it when it happens to see that the step has ended, at the latest when as many are under way as may
 * be.
 *
 * Elsewhere gradients go through the host's hands before they are used: they are exchanged, or norms of them are taken.
 * Each replica then checks its own as the last thing before they are, and what it finds goes with them to all. So when
 * the sums are there the host knows whether they are used, and waits for nothing else. Nothing may be found in the sums
 * that is not in what is added: checks allow each replica its part of the largest number only.
 */
#include <string.h>

#include "replica/store/flat.h"
#include "replica/store/local_state.h"
#include "replica/update/update.h"
#include "replica/update/updater.h"

/* ---- the state ---- */

rf_result rf_updater_write_scale(rf_updater *u, float scale, uint32_t finite)
{
    RF_TRY(rf_updater_settle(u));
    const float tally[RF_SCALE_TALLY] = {
        [RF_SCALE_INVERSE] = 1.0f / scale, [RF_SCALE_FINITE] = (float)finite, [RF_SCALE_SKIPPED] = u->scaling.skipped
    };
    RF_TRY(rf_local_state_write_same(u->scaling.scale, &scale));
    return rf_local_state_write_same(u->scaling.tally, tally);
}

rf_result rf_updater_read_scale(rf_updater *u, float *scale, uint32_t *finite, uint64_t *skipped)
{
    float tally[RF_SCALE_TALLY];
    RF_TRY(rf_updater_settle(u));
    RF_TRY(rf_local_state_read_first(u->scaling.scale, scale));
    RF_TRY(rf_local_state_read_first(u->scaling.tally, tally));
    *finite = (uint32_t)tally[RF_SCALE_FINITE];
    *skipped = (uint64_t)tally[RF_SCALE_SKIPPED];
    return RF_OK;
}

rf_result rf_updater_create_scale(rf_updater *u)
{
    if (!rf_updater_scales(u)) return RF_OK;
    RF_TRY(rf_local_state_create(u->strategy, 1, "loss scale", &u->scaling.scale));
    RF_TRY(rf_local_state_create(u->strategy, RF_SCALE_TALLY, "tally of the loss scale", &u->scaling.tally));
    return rf_updater_write_scale(u, u->params.scaling.initial, 0);
}

void rf_updater_free_scale(rf_updater *u)
{
    rf_local_state_destroy(&u->scaling.scale);
    rf_local_state_destroy(&u->scaling.tally);
}

/* ---- updates of which the host does not know whether they are made ---- */

static void learn_skipped(rf_updater *u, float skipped)
{
    u->iterations -= (uint64_t)(skipped - u->scaling.skipped);
    u->scaling.skipped = skipped;
}

rf_result rf_updater_learn_pending(rf_updater *u, uint32_t most)
{
    rf_gpu_device *device = u->strategy->members.replicas[0].device;
    for (; u->scaling.pending > 0; u->scaling.pending--) {
        const rf_pending_update oldest = u->scaling.updates[0];
        if (!rf_gpu_is_done(device, oldest.ticket)) {
            if (u->scaling.pending < most) return RF_OK;
            RF_TRY(rf_replica_wait(u->strategy, 0, oldest.ticket));
        }
        learn_skipped(u, ((const float *)rf_frame_result(oldest.frame, 0))[1]);
        memmove(u->scaling.updates, u->scaling.updates + 1, (u->scaling.pending - 1) * sizeof(oldest));
    }
    return RF_OK;
}

void rf_updater_add_pending(rf_updater *u, rf_frame *frame, uint64_t ticket)
{
    u->scaling.updates[u->scaling.pending++] = (rf_pending_update){ frame, ticket };
}

rf_result rf_updater_settle(rf_updater *u)
{
    float tally[RF_SCALE_TALLY];
    if (u->scaling.pending == 0) return RF_OK;
    u->scaling.pending = 0;
    RF_TRY(rf_local_state_read_first(u->scaling.tally, tally));
    learn_skipped(u, tally[RF_SCALE_SKIPPED]);
    return RF_OK;
}

/* ---- programs ---- */

/* The type that sums are rounded to on their way. */
static rf_dtype wire_type(const rf_update *update)
{
    const rf_strategy *s = update->updater->strategy;
    if (s->members.world.size == 1) return RF_F32;
    if (s->exchange.compression.kind == RF_COMPRESSION_F16) return RF_F16;
    return s->exchange.compression.kind == RF_COMPRESSION_BF16 ? RF_BF16 : RF_F32;
}

static rf_result list_state(const rf_local_state *state, uint32_t index, rf_range_graph *g, rf_value *out)
{
    return rf_range_graph_state(g, state, state->values.buffers[index], 0, state->count, out);
}

static rf_result emit_decision(const rf_update *update, uint32_t index, rf_range_graph *g, rf_value found,
                               rf_value *decided)
{
    const rf_updater *u = update->updater;
    rf_value scale, tally;
    RF_TRY(list_state(u->scaling.scale, index, g, &scale));
    RF_TRY(list_state(u->scaling.tally, index, g, &tally));
    return g->graph->core->update.loss_scale(g->graph, &u->params.scaling, scale, tally, found, decided);
}

static rf_result list_gradients(const rf_update *update, uint32_t index, rf_range_graph *g, const rf_segment *segment,
                                rf_value *out)
{
    return rf_range_graph_state(g, segment, rf_updater_gradients(update->updater)->buffers[index], segment->range.begin,
                                segment->range.end - segment->range.begin, out);
}

/* The check covers all gradients that the replica adds to the sums. */
static rf_result emit_check(const rf_step_stage *stage, uint32_t index, rf_range_graph *g)
{
    const rf_update *update = stage->user;
    const float most = rf_loss_scale_most(wire_type(update), update->updater->strategy->members.num_replicas);
    rf_value tally, x;
    RF_TRY(list_state(update->updater->scaling.tally, index, g, &tally));
    for (uint32_t i = 0; i < update->runs.count; i++) {
        RF_TRY(list_gradients(update, index, g, &update->runs.items[i], &x));
        RF_TRY(g->graph->core->update.overflow_check(g->graph, x, tally, most));
    }
    return rf_range_graph_result(g, tally);
}

/* All gradients where the replica has all, alone or because something is computed from whole gradients; else those that
 * it owns. Nothing where it owns nothing. */
static rf_result emit_unscale(const rf_step_stage *stage, uint32_t index, rf_range_graph *g)
{
    const rf_update *update = stage->user;
    const rf_strategy *s = update->updater->strategy;
    const bool all = s->members.num_replicas == 1 || update->transform.graph;
    const rf_segment_list *segments = all ? &update->runs : &update->segments;
    const bool owns = rf_update_owns_some(update, index);
    rf_value tally, x;
    RF_TRY(list_state(update->updater->scaling.tally, index, g, &tally));
    for (uint32_t i = 0; owns && i < segments->count; i++) {
        if (!all && !rf_segment_is_owned(s, &segments->items[i], index)) continue;
        RF_TRY(list_gradients(update, index, g, &segments->items[i], &x));
        RF_TRY(g->graph->core->update.unscale(g->graph, x, tally));
    }
    return RF_OK;
}

/* Every replica is told of the decision, also those that own nothing. */
static rf_result emit_decide(const rf_step_stage *stage, uint32_t index, rf_range_graph *g)
{
    const rf_update *update = stage->user;
    rf_value found, decided;
    RF_TRY(rf_graph_host(g->graph, &update->found, (rf_tensor_desc){ RF_F32, RF_SHAPE(1) }, "found", &found));
    return emit_decision(update, index, g, found, &decided);
}

rf_result rf_update_emit_decided(const rf_step_stage *stage, uint32_t index, rf_range_graph *g, rf_value *decided)
{
    const float none = 0;
    rf_value found;
    RF_TRY(emit_unscale(stage, index, g));
    RF_TRY(rf_graph_constant(g->graph, (rf_tensor_desc){ RF_F32, RF_SHAPE(1) }, &none, &found));
    return emit_decision(stage->user, index, g, found, decided);
}

/* ---- stages ---- */

/* Starts to tell the other workers what the checks of this worker's replicas found. Those without gradients have none.
 */
static rf_result tell_finding(const rf_step_stage *stage, const rf_step_schedule_run *run)
{
    rf_update *update = stage->user;
    const rf_strategy *s = run->strategy;
    const rf_collective_params params = { .name = "loss scale" };
    update->found_here = 0;
    for (uint32_t r = 0; r < s->members.num_local; r++) {
        rf_frame *check = rf_step_schedule_work(run->schedule, stage->reads, r)->frame;
        if (check && ((const float *)rf_frame_result(check, 0))[RF_SCALE_FOUND] != 0) update->found_here = 1;
    }
    update->found = update->found_here;
    if (s->members.world.size == 1) return RF_OK;
    return rf_comm_start_all_reduce(s->members.world.comm, &update->found_here, &update->found, 1, RF_F32, RF_COMM_MAX,
                                    &params, &update->finding);
}

static void abandon_finding(const rf_step_stage *stage)
{
    rf_update *update = stage->user;
    if (update->finding && rf_comm_wait(&update->finding) < 0) update->finding = NULL;
}

/* All workers alike. */
static rf_result decide_update(const rf_step_stage *stage, const rf_step_schedule_run *run)
{
    rf_update *update = stage->user;
    rf_updater *u = update->updater;
    (void)run;
    RF_TRY(rf_updater_settle(u));
    if (update->finding) RF_TRY(rf_comm_wait(&update->finding));
    update->state.skipped = update->found != 0;
    if (update->state.skipped) u->scaling.skipped++;
    return RF_OK;
}

static rf_result fill_found(const rf_step_stage *stage, uint32_t index, rf_frame *frame)
{
    const rf_update *update = stage->user;
    (void)index;
    *(float *)rf_frame_host(frame, 0) = update->found;
    return RF_OK;
}

static const rf_stage_action check_action = { .name = "overflow check", .emit = emit_check };

rf_result rf_update_append_check(rf_step_schedule *schedule, rf_update *update, uint32_t departs)
{
    rf_step_stage stage = rf_update_stage(update, RF_STAGE_PROGRAM, &check_action);
    stage.on = update->facts.accumulates ? RF_ON_ALL : RF_ON_ACTIVE;
    stage.departs = departs;
    return rf_step_schedule_append(schedule, &stage, NULL);
}

rf_result rf_update_append_finding(rf_step_schedule *schedule, rf_update *update)
{
    static const rf_stage_action finding = { .name = "tell whether gradients are finite",
                                             .host = tell_finding,
                                             .abandon = abandon_finding };
    rf_step_stage stage = rf_update_stage(update, RF_STAGE_HOST, &finding);
    stage.reads = (uint32_t)(rf_step_schedule_find(schedule, &check_action, update, 0) - schedule->stages.items);
    stage.after = RF_AFTER_ALL;
    return rf_step_schedule_append(schedule, &stage, NULL);
}

rf_result rf_update_append_unscale(rf_step_schedule *schedule, rf_update *update)
{
    static const rf_stage_action decide = { .name = "decide whether there is an update", .host = decide_update },
                                 unscale = { .name = "unscale", .emit = emit_unscale },
                                 scale = { .name = "loss scale", .emit = emit_decide, .fill = fill_found };
    rf_step_stage stage = rf_update_stage(update, RF_STAGE_HOST, &decide);
    RF_TRY(rf_step_schedule_append(schedule, &stage, NULL));
    stage.op = RF_STAGE_PROGRAM;
    stage.action = &unscale;
    RF_TRY(rf_step_schedule_append(schedule, &stage, NULL));
    stage.action = &scale;
    return rf_step_schedule_append(schedule, &stage, NULL);
}
