/* SPDX-License-Identifier: Apache-2.0 */
/* Norms of the gradients of an update, over the segments of all workers. */
#include <math.h>
#include <string.h>

#include "replica/update/update.h"

/* ---- sums of squares ---- */

/* The replica whose sums of a segment count: the owner; of a segment that all have, the first, so that all use the same
 * number. */
static uint32_t norm_reader(const rf_segment *segment)
{
    return segment->owner == RF_OWNER_ALL ? 0 : segment->owner;
}

uint64_t rf_update_num_blocks(const rf_update *update, const rf_segment *segment)
{
    const uint64_t block = rf_updater_block(update->updater);
    return block > 0 ? rf_div_up(segment->range.end - segment->range.begin, block) : 1;
}

/* Results of a replica's program, one for each segment that it makes sums of, go to their places in update->sums. */
static void collect_replica(const rf_update *update, rf_frame *frame, uint32_t index, uint32_t width,
                            rf_sum_maker makes)
{
    const rf_strategy *s = update->updater->strategy;
    float *to = update->sums;
    for (uint32_t i = 0, k = 0; i < update->segments.count; i++) {
        const rf_segment *segment = &update->segments.items[i];
        const uint64_t sums = width * rf_update_num_blocks(update, segment);
        if (makes(s, segment, index)) {
            if (norm_reader(segment) == s->members.first + index)
                memcpy(to, rf_frame_result(frame, k), sums * sizeof(float));
            k++;
        }
        to += sums;
    }
}

/* Each rank sends its own, in order of segments. */
static rf_result share_sums(rf_update *update, uint32_t width)
{
    rf_world *w = &update->updater->strategy->members.world;
    const rf_segment_list *segments = &update->segments;
    if (w->size == 1) return RF_OK;
    uint64_t sent = 0, at = 0;
    memset(update->counts, 0, w->size * sizeof(update->counts[0]));
    for (uint32_t i = 0; i < segments->count; i++) {
        const uint32_t rank = rf_world_rank_of(w, norm_reader(&segments->items[i]));
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
            if (rf_world_rank_of(w, norm_reader(&segments->items[i])) == rank) {
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
enum { PASSES = 2 };

float rf_update_pass_scale(uint32_t pass)
{
    return pass == 0 ? 1.0f : 0x1p-100f;
}

rf_result rf_update_collect_sums(const rf_step_stage *stage, const rf_step_schedule_run *run, uint32_t width,
                                 rf_sum_maker makes)
{
    rf_update *update = stage->user;
    const double scale = (double)rf_update_pass_scale(stage->pass);
    uint64_t count = 0;
    for (uint32_t r = 0; r < run->strategy->members.num_local; r++) {
        const rf_stage_work *work = rf_step_schedule_work(run->schedule, stage->reads, r);
        if (work->frame) collect_replica(update, work->frame, r, width, makes);
    }
    RF_TRY(share_sums(update, width));
    for (uint32_t i = 0; i < update->segments.count; i++)
        count += width * rf_update_num_blocks(update, &update->segments.items[i]);
    update->state.overflowed = false;
    for (uint64_t i = 0; i < count; i++) {
        if (stage->pass == 0 || isinf(update->exact[i])) update->exact[i] = (double)update->sums[i] / (scale * scale);
        update->state.overflowed = update->state.overflowed || isinf(update->exact[i]);
    }
    return RF_OK;
}

rf_result rf_update_append_sums(rf_step_schedule *schedule, const rf_step_stage *program,
                                const rf_stage_action *collect)
{
    for (uint32_t pass = 0; pass < PASSES; pass++) {
        rf_step_stage stage = *program;
        stage.pass = pass;
        stage.late = pass > 0;
        if (pass > 0) stage.when |= RF_WHEN_OVERFLOWED;
        RF_TRY(rf_step_schedule_append(schedule, &stage, &stage.reads));
        stage.op = RF_STAGE_HOST;
        stage.action = collect;
        stage.changes = stage.late = false;
        stage.after = RF_AFTER(stage.reads);
        RF_TRY(rf_step_schedule_append(schedule, &stage, NULL));
    }
    return RF_OK;
}

/* ---- norms of gradients ---- */

static bool reads_norm(const rf_strategy *s, const rf_segment *segment, uint32_t index)
{
    return norm_reader(segment) == s->members.first + index;
}

/* Norms of segments that all replicas have are taken on the first alone, so that all use the same number. */
static rf_result emit_norms(const rf_step_stage *stage, uint32_t index, rf_range_graph *g)
{
    const rf_update *update = stage->user;
    const bool blocks = rf_updater_block(update->updater) > 0;
    for (uint32_t i = 0; i < update->segments.count; i++) {
        const rf_segment *segment = &update->segments.items[i];
        rf_value x, sums;
        if (!reads_norm(update->updater->strategy, segment, index)) continue;
        RF_TRY(rf_range_graph_state(g, segment, rf_update_gradients(update)->buffers[index], segment->range.begin,
                                    segment->range.end - segment->range.begin, &x));
        RF_TRY(g->graph->core->update.sum_squares(g->graph, x, rf_update_pass_scale(stage->pass), blocks, &sums));
        RF_TRY(rf_range_graph_result(g, sums));
    }
    return RF_OK;
}

static rf_result collect_norms(const rf_step_stage *stage, const rf_step_schedule_run *run)
{
    return rf_update_collect_sums(stage, run, 1, reads_norm);
}

/* Squares are added up for each variable, or for each segment's numbers; then all of them. */
static rf_result add_squares(const rf_step_stage *stage, const rf_step_schedule_run *run)
{
    rf_update *update = stage->user;
    const bool global = update->updater->params.norms == RF_NORMS_GLOBAL;
    const bool by_variable = rf_updater_by_variable(update->updater);
    const double *sum = update->exact;
    double total = 0;
    (void)run;
    for (uint32_t i = 0; i < update->num_hypers; i++) update->squares[i] = 0;
    for (uint32_t i = 0; i < update->segments.count; i++) {
        const rf_segment *segment = &update->segments.items[i];
        const uint64_t count = rf_update_num_blocks(update, segment);
        for (uint64_t k = 0; k < count; k++) update->squares[global && !by_variable ? 0 : segment->hyper] += *sum++;
    }
    if (!global) return RF_OK;
    for (uint32_t i = 0; i < update->num_hypers; i++) total += update->squares[i];
    for (uint32_t i = 0; i < update->num_hypers; i++) update->squares[i] = total;
    return RF_OK;
}

rf_result rf_update_append_norms(rf_step_schedule *schedule, rf_update *update)
{
    static const rf_stage_action norms = { .name = "norms", .emit = emit_norms },
                                 collect = { .name = "sums of squares", .host = collect_norms },
                                 add = { .name = "norms of gradients", .host = add_squares };
    rf_step_stage stage = rf_update_stage(update, RF_STAGE_PROGRAM, &norms);
    stage.when |= rf_update_when_made(update);
    RF_TRY(rf_update_append_sums(schedule, &stage, &collect));
    stage.op = RF_STAGE_HOST;
    stage.action = &add;
    return rf_step_schedule_append(schedule, &stage, NULL);
}
