/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loss scaling. Scale and tally are states of every replica, which steps read and change on the device; all replicas
 * have the same, because all are told whether any of the reduced gradients is not finite.
 *
 * Where one replica trains and nothing else waits for the host, the device alone decides whether an update is made, and
 * the host learns it when it happens to see that the step has ended, at the latest when as many are under way as may
 * be. Elsewhere the host asks every owner and tells all replicas.
 */
#include <string.h>

#include "replica/internal.h"
#include "replica/store/flat.h"
#include "replica/store/local_state.h"
#include "replica/update/update.h"
#include "replica/update/updater.h"

/* ---- the state ---- */

static rf_result write_all(rf_local_state *state, const float *values)
{
    const uint32_t replicas = state->strategy->num_replicas;
    float *all = RF_NEW_ARRAY(float, (size_t)replicas * state->count);
    if (!all) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t r = 0; r < replicas; r++) memcpy(all + (size_t)r * state->count, values, state->count * sizeof(*all));
    const rf_result result = rf_local_state_write(state, all);
    rf_free(all);
    return result;
}

/* All replicas have the same. */
static rf_result read_one(rf_local_state *state, float *values)
{
    rf_strategy *s = state->strategy;
    RF_TRY(rf_strategy_wait(s));
    RF_TRY(rf_strategy_status(s));
    return rf_flat_read(&state->values, 0, 0, state->count, values);
}

rf_result rf_updater_write_scale(rf_updater *u, float scale, uint32_t finite)
{
    RF_TRY(rf_updater_settle(u));
    const float tally[RF_SCALE_TALLY] = {
        [RF_SCALE_INVERSE] = 1.0f / scale, [RF_SCALE_FINITE] = (float)finite, [RF_SCALE_SKIPPED] = u->scaling.skipped
    };
    RF_TRY(write_all(u->scaling.scale, &scale));
    return write_all(u->scaling.tally, tally);
}

rf_result rf_updater_read_scale(rf_updater *u, float *scale, uint32_t *finite, uint64_t *skipped)
{
    float tally[RF_SCALE_TALLY];
    RF_TRY(rf_updater_settle(u));
    RF_TRY(read_one(u->scaling.scale, scale));
    RF_TRY(read_one(u->scaling.tally, tally));
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

rf_value rf_trace_loss_scale(rf_trace *t, rf_updater *u)
{
    return rf_trace_local_state(t, u->scaling.scale);
}

/* ---- updates of which the host does not know whether they are made ---- */

static void learn_skipped(rf_updater *u, float skipped)
{
    u->iterations -= (uint64_t)(skipped - u->scaling.skipped);
    u->scaling.skipped = skipped;
}

static void forget_oldest(rf_updater *u)
{
    u->scaling.pending--;
    for (uint32_t i = 0; i < u->scaling.pending; i++) {
        u->scaling.frames[i] = u->scaling.frames[i + 1];
        u->scaling.tickets[i] = u->scaling.tickets[i + 1];
    }
}

rf_result rf_updater_make_way(rf_updater *u, uint32_t most)
{
    rf_gpu_device *device = u->strategy->replicas[0].device;
    while (u->scaling.pending > 0) {
        const uint64_t ticket = u->scaling.tickets[0];
        if (!rf_gpu_is_done(device, ticket)) {
            if (u->scaling.pending < most) return RF_OK;
            RF_TRY(rf_replica_context(u->strategy, 0, rf_gpu_wait(device, ticket, RF_GPU_TIMEOUT_NS)));
        }
        learn_skipped(u, ((const float *)rf_frame_result(u->scaling.frames[0], 0))[1]);
        forget_oldest(u);
    }
    return RF_OK;
}

void rf_updater_add_pending(rf_updater *u, rf_frame *frame, uint64_t ticket)
{
    u->scaling.frames[u->scaling.pending] = frame;
    u->scaling.tickets[u->scaling.pending++] = ticket;
}

rf_result rf_updater_settle(rf_updater *u)
{
    float tally[RF_SCALE_TALLY];
    if (u->scaling.pending == 0) return RF_OK;
    u->scaling.pending = 0;
    RF_TRY(read_one(u->scaling.tally, tally));
    learn_skipped(u, tally[RF_SCALE_SKIPPED]);
    return RF_OK;
}

/* Numbers of update number `iteration`. Any two that may be made next have places of their own. */
static float *row_of(const rf_update *update, uint32_t hyper, uint64_t iteration)
{
    const size_t row = (size_t)hyper * update->num_rows + iteration % update->num_rows;
    return update->hypers + row * update->updater->params.hyper_count;
}

/* The update that comes next where so many of the pending ones are skipped. */
static uint64_t next_iteration(const rf_updater *u, uint32_t skipped)
{
    return u->iterations > skipped ? u->iterations - skipped : 0;
}

void rf_update_compute_rows(rf_update *update)
{
    const rf_updater *u = update->updater;
    if (update->numbers_version != u->numbers_version)
        memset(update->rows_made, 0, update->num_rows * sizeof(update->rows_made[0]));
    update->numbers_version = u->numbers_version;
    for (uint32_t skipped = 0; skipped <= u->scaling.pending; skipped++) {
        const uint64_t iteration = next_iteration(u, skipped);
        uint64_t *made = &update->rows_made[iteration % update->num_rows];
        if (*made == iteration + 1) continue;
        for (uint32_t i = 0; i < update->num_hypers; i++)
            u->params.hyper(u->params.user, iteration, 0, update->hyper_groups[i], row_of(update, i, iteration));
        *made = iteration + 1;
    }
}

void rf_update_fill_rows(const rf_update *update, rf_frame *frame)
{
    const rf_updater *u = update->updater;
    const size_t count = u->params.hyper_count;
    for (uint32_t i = 0; i < update->num_hypers; i++) {
        float *rows = rf_frame_host(frame, i);
        if (!rows) continue;
        for (uint32_t skipped = 0; skipped <= u->scaling.pending; skipped++)
            memcpy(rows + skipped * count, row_of(update, i, next_iteration(u, skipped)), count * sizeof(*rows));
        rows[update->num_rows * count] = u->scaling.skipped;
    }
}

/* ---- decided by the host ---- */

static rf_result submit_program(const rf_update *update, uint32_t r)
{
    rf_strategy *s = update->updater->strategy;
    return rf_replica_context(s, r, rf_replica_submit_frames(&s->replicas[r], &update->frames[r], 1));
}

/* Divides what each replica has, and asks whether any of it is not finite. */
static rf_result unscale_all(rf_update *update, float *found)
{
    rf_strategy *s = update->updater->strategy;
    *found = 0;
    for (uint32_t r = 0; r < s->num_local; r++) {
        rf_program *unscale = update->replicas[r].unscale;
        if (!unscale) continue;
        RF_TRY(rf_replica_context(s, r, rf_program_acquire(unscale, 0, &update->frames[r])));
        RF_TRY(submit_program(update, r));
    }
    for (uint32_t r = 0; r < s->num_local; r++) {
        if (!update->replicas[r].unscale) continue;
        RF_TRY(rf_strategy_wait_local(s, r));
        if (((const float *)rf_frame_result(update->frames[r], 0))[RF_SCALE_FOUND] != 0) *found = 1;
    }
    return RF_OK;
}

static rf_result share_found(rf_update *update, float *found)
{
    rf_world *w = &update->updater->strategy->world;
    const float mine = *found;
    if (w->size == 1) return RF_OK;
    RF_TRY(rf_world_gather(w, "loss scale", &mine, update->found, sizeof(mine)));
    for (uint32_t rank = 0; rank < w->size; rank++)
        if (update->found[rank] != 0) *found = 1;
    return RF_OK;
}

rf_result rf_update_unscale(rf_update *update)
{
    rf_updater *u = update->updater;
    rf_strategy *s = u->strategy;
    float found;
    RF_TRY(rf_updater_settle(u));
    RF_TRY(unscale_all(update, &found));
    RF_TRY(share_found(update, &found));
    update->skipped = found != 0;
    if (update->skipped) u->scaling.skipped++;
    for (uint32_t r = 0; r < s->num_local; r++) {
        rf_program *decide = update->replicas[r].decide;
        RF_TRY(rf_replica_context(s, r, rf_program_acquire(decide, 0, &update->frames[r])));
        *(float *)rf_frame_host(update->frames[r], 0) = found;
        RF_TRY(submit_program(update, r));
    }
    return RF_OK;
}
