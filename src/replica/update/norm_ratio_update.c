/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Updates with the ratio of two norms of each variable, taken in their middle (LAMB). Devices sum squares within blocks
 * that begin where the variable does; all sums go to all workers, which add them up in double, block after block: in
 * the same order whoever owns what. The bits do not depend on who updates what, also those of the norms of gradients.
 */
#include <math.h>

#include "replica/update/update.h"

static rf_result emit_segments(const rf_step_stage *stage, uint32_t index, rf_range_graph *g, rf_segment_values *v)
{
    const rf_update *update = stage->user;
    const rf_updater_params *p = &update->updater->params;
    RF_TRY(rf_update_list_hosts(update, g, v));
    for (uint32_t i = 0; i < update->segments.count; i++) {
        const rf_segment *segment = &update->segments.items[i];
        rf_value sums;
        if (!rf_segment_is_owned(update->updater->strategy, segment, index)) continue;
        RF_TRY(rf_update_list_values(update, index, g, segment, v));
        RF_TRY(p->norm_ratio->emit(p->user, g->graph, v->param, v->grad, v->slots, v->hyper,
                                   rf_update_pass_scale(stage->pass), &sums));
        RF_TRY(rf_range_graph_result(g, sums));
    }
    return RF_OK;
}

/* Every owner changes its slots, also of segments that all have. */
static rf_result emit_sums(const rf_step_stage *stage, uint32_t index, rf_range_graph *g)
{
    rf_segment_values v;
    rf_result r = rf_segment_values_init(&v, stage->user);
    if (r >= 0) r = emit_segments(stage, index, g, &v);
    rf_free(v.hyper);
    return r;
}

static rf_result collect_sums(const rf_step_stage *stage, const rf_step_schedule_run *run)
{
    return rf_update_collect_sums(stage, run, 2, rf_segment_is_owned);
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
        const double norms[2] = { sqrt(squares[0]), sqrt(squares[1]) };
        u->params.norm_ratio->ratio(u->params.user, norms, update->hypers + (size_t)h * rf_updater_num_numbers(u));
    }
    return RF_OK;
}

rf_result rf_update_append_norm_ratios(rf_step_schedule *schedule, rf_update *update)
{
    static const rf_stage_action sums = { .name = "ratios", .emit = emit_sums, .fill = rf_update_fill_numbers },
                                 collect = { .name = "sums of squares", .host = collect_sums },
                                 ratios = { .name = "ratios of norms", .host = take_ratios };
    rf_step_stage stage = rf_update_stage(update, RF_STAGE_PROGRAM, &sums);
    stage.when |= rf_update_when_made(update);
    stage.changes = true;
    RF_TRY(rf_update_append_sums(schedule, &stage, &collect));
    stage.op = RF_STAGE_HOST;
    stage.action = &ratios;
    stage.changes = false;
    return rf_step_schedule_append(schedule, &stage, NULL);
}
