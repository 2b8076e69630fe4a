/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a step after the replicas' own: reduce gradients, update, spread the values. */
#include <math.h>
#include <string.h>

#include "base/profiler.h"
#include "replica/internal.h"

static bool wants_norms(const rf_updater *u)
{
    return u->params.variable_norms || u->params.global_norm;
}

/* The step being made is the one after which variables change. */
static bool is_due(const rf_updater *u)
{
    return u->accumulated + 1 == u->params.accumulation_steps;
}

/* ---- numbers of the update ---- */

void rf_update_compute_hypers(rf_update *update)
{
    const rf_updater *u = update->updater;
    for (uint32_t i = 0; i < update->num_hypers; i++) {
        const double norm = wants_norms(u) ? sqrt(update->squares[i]) / u->params.accumulation_steps : 0;
        u->params.hyper(u->params.user, u->iterations, norm, update->hypers + (size_t)i * u->params.hyper_count);
    }
}

rf_result rf_update_acquire_apply(rf_update *update, uint32_t part, uint32_t index, rf_frame **frame)
{
    const rf_updater *u = update->updater;
    RF_TRY(rf_program_acquire(update->parts[part].replicas[index].apply, 0, frame));
    const size_t count = u->params.hyper_count;
    const bool perturbed = u->strategy->first + index == u->strategy->perturbed;
    for (uint32_t i = 0; i < update->num_hypers; i++) {
        float *values = rf_frame_host(*frame, i);
        if (!values) continue;
        memcpy(values, update->hypers + i * count, count * sizeof(float));
        /* RINGFIRE_TEST_PERTURB: a device whose arithmetic rounds differently. */
        if (perturbed) values[u->params.rate_hyper] *= 1 + 0x1p-23f;
    }
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
    if (u->strategy->num_replicas > 1 || wants_norms(u) || !is_due(u)) return RF_OK;
    rf_update_compute_hypers(update);
    RF_TRY(rf_update_acquire_apply(update, 0, index, &frames[*count]));
    ++*count;
    return RF_OK;
}

/* ---- reduce ---- */

static rf_result submit_one(rf_strategy *s, uint32_t index, rf_gpu_recording *rec)
{
    return rf_replica_submit_one(&s->replicas[index], rec);
}

static rf_result reduce_gradients(rf_update *update, const uint32_t *examples)
{
    rf_updater *u = update->updater;
    rf_strategy *s = u->strategy;
    const rf_flat *gradients = rf_updater_gradients(u);
    for (uint32_t r = 0; r < s->num_local; r++) {
        /* Sums over several steps hold something whatever this step's share was. */
        const bool contributes = examples[r] > 0 || u->params.accumulation_steps > 1;
        if (contributes) RF_TRY(submit_one(s, r, update->parts[0].replicas[r].gradients_down));
        update->from[r] = contributes ? rf_replica_reachable(s, r, gradients, &s->download) : NULL;
        update->to[r] = rf_replica_reachable(s, r, gradients, &s->upload);
    }
    RF_TRY(rf_strategy_wait(s));
    const uint64_t begin = rf_span_begin(), start = rf_now_ns();
    const rf_exchange_mark mark = rf_exchange_mark_now(s);
    RF_TRY(s->exchange->fns->reduce_scatter(s->exchange, update->pieces.items, update->pieces.count, update->from,
                                            update->to));
    rf_exchange_count(s, &mark, 1e-9 * (double)(rf_now_ns() - start));
    rf_span_end(begin, "replica", "reduce");
    for (uint32_t r = 0; r < s->num_local; r++) RF_TRY(submit_one(s, r, update->parts[0].replicas[r].gradients_up));
    return RF_OK;
}

/* ---- norms ---- */

/* The replica that takes the norm of a piece: the owner; of a piece that all have, the first, so that all use the same
 * number. */
static uint32_t reader(const rf_piece *piece)
{
    return piece->owner == RF_OWNER_ALL ? 0 : piece->owner;
}

/* Partials of this worker's pieces become those of all pieces: each rank sends its own, in order of pieces. */
static rf_result share_partials(rf_update *update)
{
    rf_world *w = &update->updater->strategy->world;
    if (w->size == 1) return RF_OK;
    const rf_piece_list *pieces = &update->pieces;
    uint32_t sent = 0;
    memset(update->counts, 0, w->size * sizeof(update->counts[0]));
    for (uint32_t i = 0; i < pieces->count; i++) {
        const uint32_t rank = rf_world_rank_of(w, reader(&pieces->items[i]));
        update->counts[rank] += sizeof(float);
        if (rank == w->rank) update->partials[sent++] = update->partials[i];
    }
    RF_TRY(rf_world_gather_bytes(w, "norms", update->partials, update->gathered, update->counts));
    for (uint32_t rank = 0, from = 0; rank < w->size; rank++) {
        for (uint32_t i = 0; i < pieces->count; i++)
            if (rf_world_rank_of(w, reader(&pieces->items[i])) == rank) update->partials[i] = update->gathered[from++];
    }
    return RF_OK;
}

/* Sums of squares per piece on their owners; the rest here, in double and in the order of the pieces. */
static rf_result reduce_norms(rf_update *update)
{
    rf_strategy *s = update->updater->strategy;
    for (uint32_t r = 0; r < s->num_local; r++) {
        const rf_update_replica *at = &update->replicas[r];
        if (!at->norms) continue;
        RF_TRY(rf_program_acquire(at->norms, 0, &update->frames[r]));
        RF_TRY(rf_replica_submit_frames(&s->replicas[r], &update->frames[r], 1));
    }
    for (uint32_t r = 0; r < s->num_local; r++) {
        const rf_update_replica *at = &update->replicas[r];
        if (!at->norms) continue;
        RF_TRY(rf_strategy_wait_local(s, r));
        for (uint32_t i = 0; i < at->num_norms; i++)
            memcpy(&update->partials[at->norm_pieces[i]], rf_frame_result(update->frames[r], i), sizeof(float));
    }
    RF_TRY(share_partials(update));
    for (uint32_t i = 0; i < update->num_hypers; i++) update->squares[i] = 0;
    for (uint32_t i = 0; i < update->pieces.count; i++) {
        const uint32_t variable = update->pieces.items[i].variable;
        update->squares[variable == RF_VARIABLES_ALL ? 0 : variable] += update->partials[i];
    }
    return RF_OK;
}

/* ---- apply and gather ---- */

/* Frames for all first: what can still fail for want of memory fails before any replica has changed. */
static rf_result apply(rf_update *update)
{
    rf_strategy *s = update->updater->strategy;
    RF_TRY(rf_strategy_await_copy(s));
    rf_update_compute_hypers(update);
    for (uint32_t r = 0; r < s->num_local; r++)
        if (update->parts[0].replicas[r].apply) RF_TRY(rf_update_acquire_apply(update, 0, r, &update->frames[r]));
    for (uint32_t r = 0; r < s->num_local; r++) {
        if (!update->parts[0].replicas[r].apply) continue;
        RF_TRY(rf_replica_submit_frames(&s->replicas[r], &update->frames[r], 1));
        RF_TRY(submit_one(s, r, update->parts[0].replicas[r].values_down));
    }
    return RF_OK;
}

static rf_result gather_values(rf_update *update)
{
    rf_strategy *s = update->updater->strategy;
    const rf_flat *values = &s->trainable.values;
    for (uint32_t r = 0; r < s->num_local; r++) {
        update->from[r] = rf_replica_reachable(s, r, values, &s->download);
        update->to[r] = rf_replica_reachable(s, r, values, &s->upload);
    }
    RF_TRY(rf_strategy_wait(s));
    const uint64_t begin = rf_span_begin(), start = rf_now_ns();
    const rf_exchange_mark mark = rf_exchange_mark_now(s);
    RF_TRY(s->exchange->fns->all_gather(s->exchange, update->pieces.items, update->pieces.count, update->from,
                                        update->to));
    rf_exchange_count(s, &mark, 1e-9 * (double)(rf_now_ns() - start));
    rf_span_end(begin, "replica", "gather");
    for (uint32_t r = 0; r < s->num_local; r++) RF_TRY(submit_one(s, r, update->parts[0].replicas[r].values_up));
    return RF_OK;
}

/* ---- the step's end ---- */

static rf_result finish_due(rf_update *update, const uint32_t *examples)
{
    const rf_updater *u = update->updater;
    const bool several = u->strategy->num_replicas > 1;
    if (!several && !wants_norms(u)) return RF_OK; /* went with stage A */
    if (several) RF_TRY(reduce_gradients(update, examples));
    if (wants_norms(u)) RF_TRY(reduce_norms(update));
    RF_TRY(apply(update));
    return several && u->strategy->update_mode == RF_UPDATE_SHARDED ? gather_values(update) : RF_OK;
}

/* The first of several accumulated steps replaces what was summed up before; without examples that is zeros. */
static rf_result begin_totals(rf_update *update, const uint32_t *examples)
{
    rf_strategy *s = update->updater->strategy;
    for (uint32_t r = 0; r < s->num_local; r++)
        RF_TRY(submit_one(s, r, examples[r] > 0 ? update->replicas[r].first : update->replicas[r].clear));
    return RF_OK;
}

void rf_update_count(rf_update *update)
{
    rf_updater *u = update->updater;
    if (is_due(u)) {
        u->iterations++;
        u->accumulated = 0;
        if (u->strategy->num_replicas > 1) u->strategy->stats.updates++;
    } else {
        u->accumulated++;
    }
    for (uint32_t i = 0; i < update->count; i++) update->variables[i]->updater = u;
}

rf_result rf_update_finish(rf_update *update, const uint32_t *examples)
{
    const rf_updater *u = update->updater;
    if (u->params.accumulation_steps > 1 && u->accumulated == 0) RF_TRY(begin_totals(update, examples));
    if (is_due(u)) RF_TRY(finish_due(update, examples));
    rf_update_count(update);
    return RF_OK;
}
