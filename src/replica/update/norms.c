/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Norms: of the gradients of an update, and of what optimizers take the ratio of in its middle (LAMB). Devices sum
 * squares within blocks that begin where the variable does; all sums go to all workers, which add them up in double,
 * block after block: in the same order whoever owns what. The bits do not depend on who updates what.
 */
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

typedef bool (*sum_maker)(const rf_strategy *strategy, const rf_segment *segment, uint32_t index);

/* Results of a replica's program, one for each segment that it makes sums of, go to their places in update->sums. */
static void collect_replica(const rf_update *update, rf_frame *frame, uint32_t index, uint32_t width, sum_maker makes)
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

/* ---- sums of squares that are no floats ---- */

/* Squares leave the range of floats where numbers are beyond 1.8e19. Sums that have come out as infinite are taken
 * again, of numbers that are 2^-100 times as large. */
enum { PASSES = 2 };

static float pass_scale(uint32_t pass)
{
    return pass == 0 ? 1.0f : 0x1p-100f;
}

/* Takes results for the segments that a replica has made some for, unless others' count. Each sum comes from one
 * worker: those of the others are zeros. */
static rf_result collect_sums(const rf_step_stage *stage, const rf_step_schedule_run *run, uint32_t width,
                              sum_maker makes)
{
    rf_update *update = stage->user;
    const rf_world *w = &run->strategy->members.world;
    const uint64_t count = update->num_sums / (update->updater->params.norm_ratio ? 2 : 1) * width;
    const double scale = (double)pass_scale(stage->pass);
    memset(update->sums, 0, count * sizeof(float));
    for (uint32_t r = 0; r < run->strategy->members.num_local; r++) {
        const rf_stage_work *work = rf_step_schedule_work(run->schedule, stage->reads, r);
        if (work->frame) collect_replica(update, work->frame, r, width, makes);
    }
    if (w->size > 1)
        RF_TRY(rf_comm_all_reduce(w->comm, update->sums, update->sums, count, RF_F32, RF_COMM_SUM,
                                  &(rf_collective_params){ .name = "norms" }));
    update->state.overflowed = false;
    for (uint64_t i = 0; i < count; i++) {
        if (stage->pass == 0 || isinf(update->exact[i])) update->exact[i] = (double)update->sums[i] / (scale * scale);
        update->state.overflowed = update->state.overflowed || isinf(update->exact[i]);
    }
    return RF_OK;
}

/* Stages that bring sums of squares from the devices to update->exact. `program` gives one result for each segment
 * that it makes some of; `collect` calls collect_sums(). */
static rf_result append_sums(rf_step_schedule *schedule, const rf_step_stage *program, const rf_stage_action *collect)
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
        RF_TRY(g->graph->core->update.sum_squares(g->graph, x, pass_scale(stage->pass), blocks, &sums));
        RF_TRY(rf_range_graph_result(g, sums));
    }
    return RF_OK;
}

static rf_result collect_norms(const rf_step_stage *stage, const rf_step_schedule_run *run)
{
    return collect_sums(stage, run, 1, reads_norm);
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
    RF_TRY(append_sums(schedule, &stage, &collect));
    stage.op = RF_STAGE_HOST;
    stage.action = &add;
    return rf_step_schedule_append(schedule, &stage, NULL);
}

/* ---- ratios of norms ---- */

static rf_result emit_ratio(const rf_step_stage *stage, uint32_t index, rf_range_graph *g, const rf_segment *segment,
                            const rf_segment_values *v)
{
    const rf_updater_params *p = &((const rf_update *)stage->user)->updater->params;
    rf_value sums;
    (void)index, (void)segment;
    RF_TRY(
        p->norm_ratio->emit(p->user, g->graph, v->param, v->grad, v->slots, v->hyper, pass_scale(stage->pass), &sums));
    return rf_range_graph_result(g, sums);
}

/* Every owner changes its slots, also of segments that all have. */
static rf_result emit_ratios(const rf_step_stage *stage, uint32_t index, rf_range_graph *g)
{
    const rf_segment_list *segments = &((const rf_update *)stage->user)->segments;
    return rf_update_emit_segments(stage, index, g, segments->items, segments->count, emit_ratio);
}

static rf_result collect_ratios(const rf_step_stage *stage, const rf_step_schedule_run *run)
{
    return collect_sums(stage, run, 2, rf_segment_is_owned);
}

static rf_result take_ratios(const rf_step_stage *stage, const rf_step_schedule_run *run)
{
    const rf_update *update = stage->user;
    const rf_updater *u = update->updater;
    (void)run;
    for (uint32_t h = 0; h < update->num_hypers; h++) {
        double squares[2] = { 0, 0 };
        const double *sum = update->exact;
        for (uint32_t i = 0; i < update->segments.count; i++) {
            const rf_segment *segment = &update->segments.items[i];
            const uint64_t count = 2 * rf_update_num_blocks(update, segment);
            for (uint64_t k = 0; segment->hyper == h && k < count; k++) squares[k % 2] += sum[k];
            sum += count;
        }
        float *values = update->hypers + (size_t)h * rf_updater_num_numbers(u);
        if (squares[0] > 0 && squares[1] > 0)
            values[u->params.norm_ratio->ratio_hyper] = (float)(sqrt(squares[0]) / sqrt(squares[1]));
    }
    return RF_OK;
}

rf_result rf_update_append_norm_ratios(rf_step_schedule *schedule, rf_update *update)
{
    static const rf_stage_action sums = { .name = "ratios", .emit = emit_ratios, .fill = rf_update_fill_numbers },
                                 collect = { .name = "sums of squares", .host = collect_ratios },
                                 ratios = { .name = "ratios of norms", .host = take_ratios };
    rf_step_stage stage = rf_update_stage(update, RF_STAGE_PROGRAM, &sums);
    stage.when |= rf_update_when_made(update);
    stage.changes = true;
    RF_TRY(append_sums(schedule, &stage, &collect));
    stage.op = RF_STAGE_HOST;
    stage.action = &ratios;
    stage.changes = false;
    return rf_step_schedule_append(schedule, &stage, NULL);
}
