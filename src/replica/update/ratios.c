/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ratios of two norms of each variable, taken in the middle of an update. Devices sum squares within blocks that begin
 * where the variable does; all sums go to all workers, which add them up in double, block after block: in the same
 * order whoever owns what.
 */
#include <math.h>

#include "replica/internal.h"
#include "replica/update/update.h"
#include "replica/update/updater.h"

static rf_result run_ratios(rf_update *update, uint32_t pass)
{
    rf_strategy *s = update->updater->strategy;
    for (uint32_t r = 0; r < s->num_local; r++) {
        rf_program *ratios;
        RF_TRY(rf_replica_context(s, r, rf_update_sums_program(update, r, true, pass, &ratios)));
        if (!ratios) continue;
        RF_TRY(rf_replica_context(s, r, rf_program_acquire(ratios, 0, &update->frames[r])));
        rf_update_fill_hypers(update, r, update->frames[r]);
        RF_TRY(rf_replica_context(s, r, rf_replica_submit_frames(&s->replicas[r], &update->frames[r], 1)));
    }
    for (uint32_t r = 0; r < s->num_local; r++) {
        if (update->replicas[r].num_ratios == 0) continue;
        RF_TRY(rf_strategy_wait_local(s, r));
        const rf_update_replica *at = &update->replicas[r];
        rf_update_collect_sums(update, r, at->ratio_segments, at->num_ratios, 2);
    }
    return RF_OK;
}

rf_result rf_update_take_ratios(rf_update *update)
{
    const rf_updater *u = update->updater;
    RF_TRY(rf_update_take_sums(update, 2, run_ratios));
    for (uint32_t h = 0; h < update->num_hypers; h++) {
        double squares[2] = { 0, 0 };
        const double *sum = update->exact;
        for (uint32_t i = 0; i < update->segments.count; i++) {
            const rf_segment *segment = &update->segments.items[i];
            const uint64_t count = 2 * rf_update_num_blocks(update, segment);
            for (uint64_t k = 0; segment->hyper == h && k < count; k++) squares[k % 2] += sum[k];
            sum += count;
        }
        const double norms[2] = { sqrt(squares[0]), sqrt(squares[1]) };
        u->params.ratio(u->params.user, norms, update->hypers + (size_t)h * rf_updater_num_numbers(u));
    }
    return RF_OK;
}
