/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a step after the replicas' own: reduce gradients, update, spread the values. */
#include <math.h>
#include <string.h>

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

static void compute_hypers(rf_update *update)
{
    const rf_updater *u = update->updater;
    for (uint32_t i = 0; i < update->num_hypers; i++) {
        const double norm = wants_norms(u) ? sqrt(update->squares[i]) / u->params.accumulation_steps : 0;
        u->params.hyper(u->params.user, u->iterations, norm, update->hypers + (size_t)i * u->params.hyper_count);
    }
}

static rf_result acquire_apply(rf_update *update, uint32_t replica, rf_frame **frame)
{
    RF_TRY(rf_program_acquire(update->replicas[replica].apply, 0, frame));
    const size_t count = update->updater->params.hyper_count;
    for (uint32_t i = 0; i < update->num_hypers; i++) {
        float *values = rf_frame_host(*frame, i);
        if (values) memcpy(values, update->hypers + i * count, count * sizeof(float));
    }
    return RF_OK;
}

/* ---- together with stage A ---- */

rf_result rf_update_join_submission(rf_update *update, uint32_t replica, rf_frame **frames, uint32_t *count)
{
    rf_updater *u = update->updater;
    if (u->accumulated > 0) {
        RF_TRY(rf_program_acquire(update->replicas[replica].accumulate, 0, &frames[*count]));
        ++*count;
    }
    if (u->strategy->num_replicas > 1 || wants_norms(u) || !is_due(u)) return RF_OK;
    compute_hypers(update);
    RF_TRY(acquire_apply(update, replica, &frames[*count]));
    ++*count;
    return RF_OK;
}

/* ---- reduce ---- */

static rf_result submit_one(rf_strategy *s, uint32_t replica, rf_gpu_recording *rec)
{
    return rec ? rf_replica_submit_recordings(&s->replicas[replica], &rec, 1) : RF_OK;
}

/* Host addresses for the exchange: device memory itself where it is mapped, else staging. */
static float *reachable(const rf_strategy *s, uint32_t replica, const rf_flat *flat, const rf_flat *staging)
{
    return rf_flat_mapped(s->replicas[replica].staged ? staging : flat, replica);
}

static rf_result reduce_gradients(rf_update *update, const uint32_t *examples)
{
    rf_updater *u = update->updater;
    rf_strategy *s = u->strategy;
    const rf_flat *gradients = rf_updater_gradients(u);
    for (uint32_t r = 0; r < s->num_replicas; r++) {
        /* Sums over several steps hold something whatever this step's share was. */
        const bool contributes = examples[r] > 0 || u->params.accumulation_steps > 1;
        if (contributes) RF_TRY(submit_one(s, r, update->replicas[r].gradients_down));
        update->from[r] = contributes ? reachable(s, r, gradients, &s->download) : NULL;
        update->to[r] = reachable(s, r, gradients, &s->upload);
    }
    RF_TRY(rf_strategy_wait(s));
    RF_TRY(s->exchange->fns->reduce_scatter(s->exchange, update->pieces.items, update->pieces.count, update->from,
                                            update->to));
    for (uint32_t r = 0; r < s->num_replicas; r++) RF_TRY(submit_one(s, r, update->replicas[r].gradients_up));
    return RF_OK;
}

/* ---- norms ---- */

/* Sums of squares per piece on their owners; the rest here, in double and in the order of the pieces. */
static rf_result reduce_norms(rf_update *update)
{
    rf_strategy *s = update->updater->strategy;
    for (uint32_t r = 0; r < s->num_replicas; r++) {
        const rf_update_replica *at = &update->replicas[r];
        if (!at->norms) continue;
        RF_TRY(rf_program_acquire(at->norms, 0, &update->frames[r]));
        RF_TRY(rf_replica_submit_frames(&s->replicas[r], &update->frames[r], 1));
    }
    for (uint32_t r = 0; r < s->num_replicas; r++) {
        const rf_update_replica *at = &update->replicas[r];
        if (!at->norms) continue;
        RF_TRY(rf_strategy_wait_replica(s, r));
        for (uint32_t i = 0; i < at->num_norms; i++)
            memcpy(&update->partials[at->norm_pieces[i]], rf_frame_result(update->frames[r], i), sizeof(float));
    }
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
    compute_hypers(update);
    for (uint32_t r = 0; r < s->num_replicas; r++)
        if (update->replicas[r].apply) RF_TRY(acquire_apply(update, r, &update->frames[r]));
    for (uint32_t r = 0; r < s->num_replicas; r++) {
        if (!update->replicas[r].apply) continue;
        RF_TRY(rf_replica_submit_frames(&s->replicas[r], &update->frames[r], 1));
        RF_TRY(submit_one(s, r, update->replicas[r].values_down));
    }
    return RF_OK;
}

static rf_result gather_values(rf_update *update)
{
    rf_strategy *s = update->updater->strategy;
    const rf_flat *values = &s->trainable.values;
    for (uint32_t r = 0; r < s->num_replicas; r++) {
        update->from[r] = reachable(s, r, values, &s->download);
        update->to[r] = reachable(s, r, values, &s->upload);
    }
    RF_TRY(rf_strategy_wait(s));
    RF_TRY(s->exchange->fns->all_gather(s->exchange, update->pieces.items, update->pieces.count, update->from,
                                        update->to));
    for (uint32_t r = 0; r < s->num_replicas; r++) RF_TRY(submit_one(s, r, update->replicas[r].values_up));
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
    for (uint32_t r = 0; r < s->num_replicas; r++)
        RF_TRY(submit_one(s, r, examples[r] > 0 ? update->replicas[r].first : update->replicas[r].clear));
    return RF_OK;
}

rf_result rf_update_finish(rf_update *update, const uint32_t *examples)
{
    rf_updater *u = update->updater;
    if (u->params.accumulation_steps > 1 && u->accumulated == 0) RF_TRY(begin_totals(update, examples));
    if (is_due(u)) {
        RF_TRY(finish_due(update, examples));
        u->iterations++;
        u->accumulated = 0;
    } else {
        u->accumulated++;
    }
    for (uint32_t i = 0; i < update->count; i++) update->variables[i]->updater = u;
    return RF_OK;
}
