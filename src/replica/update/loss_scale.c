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
    if (update->numbers_version != u->numbers_version || update->rows_divisor != update->divisor)
        memset(update->rows_made, 0, update->num_rows * sizeof(update->rows_made[0]));
    update->numbers_version = u->numbers_version;
    update->rows_divisor = update->divisor;
    for (uint32_t skipped = 0; skipped <= u->scaling.pending; skipped++) {
        const uint64_t iteration = next_iteration(u, skipped);
        uint64_t *made = &update->rows_made[iteration % update->num_rows];
        if (*made == iteration + 1) continue;
        for (uint32_t i = 0; i < update->num_hypers; i++) {
            u->params.hyper(u->params.user, iteration, 0, update->hyper_groups[i], row_of(update, i, iteration));
            rf_update_weigh_numbers(update, row_of(update, i, iteration));
        }
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

rf_dtype rf_update_wire(const rf_update *update)
{
    const rf_strategy *s = update->updater->strategy;
    if (s->world.size == 1) return RF_F32;
    if (s->compression.kind == RF_COMPRESSION_F16) return RF_F16;
    return s->compression.kind == RF_COMPRESSION_BF16 ? RF_BF16 : RF_F32;
}

rf_result rf_update_start_finding(rf_update *update, rf_frame *const *checks)
{
    const rf_strategy *s = update->updater->strategy;
    const rf_collective_params params = { .name = "loss scale" };
    update->found_here = 0;
    for (uint32_t r = 0; r < s->num_local; r++)
        if (checks[r] && ((const float *)rf_frame_result(checks[r], 0))[RF_SCALE_FOUND] != 0) update->found_here = 1;
    update->found = update->found_here;
    if (s->world.size == 1) return RF_OK;
    return rf_comm_start_all_reduce(s->world.comm, &update->found_here, &update->found, 1, RF_F32, RF_COMM_MAX, &params,
                                    &update->finding);
}

void rf_update_stop_finding(rf_update *update)
{
    if (update->finding && rf_comm_wait(&update->finding) < 0) update->finding = NULL;
}

static rf_result submit_program(rf_update *update, uint32_t r, rf_program *program)
{
    rf_strategy *s = update->updater->strategy;
    rf_frame **frame = &update->frames[r];
    RF_TRY(rf_program_acquire(program, 0, frame));
    if (program == update->replicas[r].decide) *(float *)rf_frame_host(*frame, 0) = update->found;
    return rf_replica_submit_frames(&s->replicas[r], frame, 1);
}

rf_result rf_update_unscale(rf_update *update)
{
    rf_updater *u = update->updater;
    rf_strategy *s = u->strategy;
    RF_TRY(rf_updater_settle(u));
    if (update->finding) RF_TRY(rf_comm_wait(&update->finding));
    update->skipped = update->found != 0;
    if (update->skipped) u->scaling.skipped++;
    for (uint32_t r = 0; r < s->num_local; r++) {
        const rf_update_replica *at = &update->replicas[r];
        if (at->unscale) RF_TRY(rf_replica_context(s, r, submit_program(update, r, at->unscale)));
        RF_TRY(rf_replica_context(s, r, submit_program(update, r, at->decide)));
    }
    return RF_OK;
}
