/* SPDX-License-Identifier: Apache-2.0 */
/* Norms of the gradients of an update, over the segments of all workers. */
#include <math.h>
#include <string.h>

#include "replica/internal.h"
#include "replica/update/update.h"
#include "replica/update/updater.h"

uint32_t rf_update_norm_reader(const rf_segment *segment)
{
    return segment->owner == RF_OWNER_ALL ? 0 : segment->owner;
}

uint64_t rf_update_num_blocks(const rf_update *update, const rf_segment *segment)
{
    const uint64_t block = update->updater->params.norm_block;
    return block > 0 ? rf_div_up(segment->range.end - segment->range.begin, block) : 1;
}

void rf_update_collect_sums(rf_update *update, uint32_t index, const uint32_t *segments, uint32_t count, uint32_t width)
{
    const uint32_t mine = update->updater->strategy->first + index;
    uint64_t to = 0;
    for (uint32_t i = 0, k = 0; i < update->segments.count; i++) {
        const rf_segment *segment = &update->segments.items[i];
        const uint64_t sums = width * rf_update_num_blocks(update, segment);
        if (k < count && segments[k] == i) {
            if (rf_update_norm_reader(segment) == mine)
                memcpy(update->sums + to, rf_frame_result(update->frames[index], k), sums * sizeof(float));
            k++;
        }
        to += sums;
    }
}

/* Each rank sends its own, in order of segments. */
rf_result rf_update_share_sums(rf_update *update, uint32_t width)
{
    rf_world *w = &update->updater->strategy->world;
    const rf_segment_list *segments = &update->segments;
    if (w->size == 1) return RF_OK;
    uint64_t sent = 0, at = 0;
    memset(update->counts, 0, w->size * sizeof(update->counts[0]));
    for (uint32_t i = 0; i < segments->count; i++) {
        const uint32_t rank = rf_world_rank_of(w, rf_update_norm_reader(&segments->items[i]));
        const uint64_t sums = width * rf_update_num_blocks(update, &segments->items[i]);
        update->counts[rank] += sums * sizeof(float);
        if (rank == w->rank) memmove(update->sums + sent, update->sums + at, sums * sizeof(float));
        if (rank == w->rank) sent += sums;
        at += sums;
    }
    RF_TRY(rf_world_gather_bytes(w, "norms", update->sums, update->gathered, update->counts));
    const float *from = update->gathered;
    for (uint32_t rank = 0; rank < w->size; rank++) {
        at = 0;
        for (uint32_t i = 0; i < segments->count; i++) {
            const uint64_t sums = width * rf_update_num_blocks(update, &segments->items[i]);
            if (rf_world_rank_of(w, rf_update_norm_reader(&segments->items[i])) == rank) {
                memcpy(update->sums + at, from, sums * sizeof(float));
                from += sums;
            }
            at += sums;
        }
    }
    return RF_OK;
}

/* ---- sums of squares that are no floats ---- */

/* Squares leave the range of floats where numbers are beyond 1.8e19. Sums that have come out as infinite are taken
 * again, of numbers that are 2^-100 times as large. */
float rf_update_pass_scale(uint32_t pass)
{
    return pass == 0 ? 1.0f : 0x1p-100f;
}

rf_result rf_update_take_sums(rf_update *update, uint32_t width, rf_result (*run)(rf_update *update, uint32_t pass))
{
    uint64_t count = 0;
    bool again = true;
    for (uint32_t i = 0; i < update->segments.count; i++)
        count += width * rf_update_num_blocks(update, &update->segments.items[i]);
    for (uint32_t pass = 0; again && pass < RF_UPDATE_PASSES; pass++) {
        const double scale = (double)rf_update_pass_scale(pass);
        RF_TRY(run(update, pass));
        RF_TRY(rf_update_share_sums(update, width));
        again = false;
        for (uint64_t i = 0; i < count; i++) {
            if (pass == 0 || isinf(update->exact[i])) update->exact[i] = (double)update->sums[i] / (scale * scale);
            again = again || isinf(update->exact[i]);
        }
    }
    return RF_OK;
}

/* ---- norms of gradients ---- */

/* Of each variable, or of each segment's numbers; then of all. */
static void add_squares(rf_update *update)
{
    const bool global = update->updater->params.global_norm;
    const bool by_variable = rf_updater_by_variable(update->updater);
    const double *sum = update->exact;
    double total = 0;
    for (uint32_t i = 0; i < update->num_hypers; i++) update->squares[i] = 0;
    for (uint32_t i = 0; i < update->segments.count; i++) {
        const rf_segment *segment = &update->segments.items[i];
        const uint64_t count = rf_update_num_blocks(update, segment);
        for (uint64_t k = 0; k < count; k++) update->squares[global && !by_variable ? 0 : segment->hyper] += *sum++;
    }
    if (!global) return;
    for (uint32_t i = 0; i < update->num_hypers; i++) total += update->squares[i];
    for (uint32_t i = 0; i < update->num_hypers; i++) update->squares[i] = total;
}

static rf_result run_norms(rf_update *update, uint32_t pass)
{
    rf_strategy *s = update->updater->strategy;
    for (uint32_t r = 0; r < s->num_local; r++) {
        rf_program *norms;
        RF_TRY(rf_update_sums_program(update, r, false, pass, &norms));
        if (!norms) continue;
        RF_TRY(rf_program_acquire(norms, 0, &update->frames[r]));
        RF_TRY(rf_replica_submit_frames(&s->replicas[r], &update->frames[r], 1));
    }
    for (uint32_t r = 0; r < s->num_local; r++) {
        const rf_update_replica *at = &update->replicas[r];
        if (at->num_norms == 0) continue;
        RF_TRY(rf_strategy_wait_local(s, r));
        rf_update_collect_sums(update, r, at->norm_segments, at->num_norms, 1);
    }
    return RF_OK;
}

/* Sums of squares on their owners; the rest here, in double and in the order of the segments. */
rf_result rf_update_reduce_norms(rf_update *update)
{
    RF_TRY(rf_update_take_sums(update, 1, run_norms));
    add_squares(update);
    return RF_OK;
}
