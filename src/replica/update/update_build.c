/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges, segments and buckets that the stages of an update are about, and room. */
#include <string.h>

#include "replica/store/variables.h"
#include "replica/update/update.h"

/* ---- facts ---- */

rf_update_facts rf_update_facts_of(const rf_update *update)
{
    const rf_updater *u = update->updater;
    const rf_updater_params *p = &u->params;
    const rf_strategy *s = u->strategy;
    const bool scales = rf_updater_scales(u);
    rf_update_facts f = { .accumulates = p->accumulation_steps > 1,
                          .exchanges = s->members.num_replicas > 1,
                          .hands_on = s->members.num_replicas > 1 && s->update_mode == RF_UPDATE_SHARDED,
                          .central = s->central,
                          .imported = s->exchange.imported.memory && !update->transform.graph,
                          .paced = s->members.balancing.timing != NULL,
                          .transform = update->transform.graph != NULL };
    /* Scalars are made anew for each update by a function of the user's, which must not be called for one that may not
     * be made. */
    f.joins = !u->weights.device && !f.exchanges && !f.transform && p->norms == RF_NORMS_NONE && !p->norm_ratio &&
              !p->whole_matrix && !(scales && p->num_scalars > 0);
    f.device_decides = scales && f.joins;
    f.host_decides = scales && !f.joins;
    return f;
}

bool rf_update_can_overlap(const rf_update *update)
{
    const rf_strategy *s = update->updater->strategy;
    const rf_updater_params *p = &update->updater->params;
    if (!s->exchange.overlap || s->members.num_replicas == 1 || update->transform.graph) return false;
    if (rf_updater_scales(update->updater)) return false; /* all gradients decide about each update */
    return p->accumulation_steps == 1 && p->norms == RF_NORMS_NONE && !p->norm_ratio && !p->whole_matrix;
}

/* ---- ranges and buckets ---- */

/* Spans of the variables in order, and what they merge to. */
static rf_result list_ranges(rf_update *update, uint64_t max_segment)
{
    rf_segment_list *runs = &update->runs;
    for (uint32_t i = 0; i < update->count; i++) update->spans[i] = rf_variable_span(update->sorted[i]);
    for (uint32_t i = 0; i < update->count;) {
        rf_range run = update->spans[i];
        for (i++; i < update->count && update->spans[i].begin == run.end; i++) run.end = update->spans[i].end;
        for (; run.begin < run.end; run.begin += max_segment) {
            const uint64_t end = run.end - run.begin > max_segment ? run.begin + max_segment : run.end;
            RF_TRY(RF_VEC_GROW(runs));
            runs->items[runs->count++] = (rf_segment){ .range = { run.begin, end }, .owner = RF_OWNER_ALL };
        }
    }
    return RF_OK;
}

/* One for all segments, or one for each bucket of the plan. */
static rf_result list_buckets(rf_update *update, bool by_bucket)
{
    const rf_segment_list *segments = &update->segments;
    RF_TRY(RF_ARENA_ARRAY(&update->room, update->buckets, segments->count));
    for (uint32_t i = 0; i < segments->count; i++) {
        if (i == 0 || (by_bucket && segments->items[i].bucket != segments->items[i - 1].bucket))
            update->buckets[update->num_buckets++].segments = &segments->items[i];
        update->buckets[update->num_buckets - 1].num_segments++;
    }
    return RF_OK;
}

static rf_result list_wholes(rf_update *update)
{
    for (uint32_t i = 0; i < update->segments.count; i++) {
        if (!rf_update_is_whole(update, update->segments.items[i].hyper)) continue;
        RF_TRY(RF_VEC_GROW(&update->wholes));
        update->wholes.items[update->wholes.count++] = update->segments.items[i];
    }
    return RF_OK;
}

static rf_result make_room(rf_update *update, const rf_updater *u)
{
    rf_arena *room = &update->room;
    for (uint32_t i = 0; i < update->segments.count; i++)
        update->num_sums += (u->params.norm_ratio ? 2 : 1) * rf_update_num_blocks(update, &update->segments.items[i]);
    RF_TRY(RF_ARENA_ARRAY(room, update->hypers, rf_updater_num_numbers(u) * update->num_hypers * update->num_rows));
    RF_TRY(RF_ARENA_ARRAY(room, update->rows_made, update->num_rows));
    RF_TRY(RF_ARENA_ARRAY(room, update->squares, update->num_hypers));
    RF_TRY(RF_ARENA_ARRAY(room, update->sums, update->num_sums));
    return RF_ARENA_ARRAY(room, update->exact, update->num_sums);
}

/* Where norms are taken of each variable, each has numbers of its own. */
static rf_result list_hypers(rf_update *update)
{
    const rf_updater_params *p = &update->updater->params;
    const bool by_variable = rf_updater_by_variable(update->updater);
    const uint32_t num_groups = p->num_groups > 0 ? p->num_groups : 1;
    update->num_hypers = by_variable ? update->count : num_groups;
    RF_TRY(RF_ARENA_ARRAY(&update->room, update->hyper_of, update->count));
    RF_TRY(RF_ARENA_ARRAY(&update->room, update->hyper_groups, update->num_hypers));
    for (uint32_t i = 0; i < update->num_hypers; i++) update->hyper_groups[i] = by_variable ? 0 : i;
    for (uint32_t i = 0; i < update->count; i++) {
        const uint32_t group = num_groups > 1 ? p->group(p->user, update->sorted[i]) : 0;
        update->hyper_of[i] = by_variable ? i : group;
        if (by_variable) update->hyper_groups[i] = group;
    }
    return RF_OK;
}

static rf_result update_prepare(rf_update *update, const rf_traced_states *traced, bool by_bucket, uint32_t under_way)
{
    const rf_updater *u = update->updater;
    update->facts = rf_update_facts_of(update);
    update->num_rows = update->facts.device_decides ? under_way : 1;
    RF_REQUIRE(
        u->params.accumulation_steps == 1 || u->variables.count == update->count,
        "an optimizer that accumulates gradients must update the same variables in every function: %u here, %u in all",
        update->count, u->variables.count);
    RF_TRY(RF_ARENA_ARRAY(&update->room, update->sorted, update->count));
    RF_TRY(RF_ARENA_ARRAY(&update->room, update->spans, update->count));
    memcpy(update->sorted, update->variables, update->count * sizeof(update->sorted[0]));
    rf_variables_sort(update->sorted, update->count);
    RF_TRY(list_ranges(update, u->strategy->store.max_segment));
    RF_TRY(list_hypers(update));
    RF_TRY(rf_segments_restrict(&u->plan, update->spans, update->hyper_of, update->count, &update->segments));
    RF_TRY(list_buckets(update, by_bucket));
    RF_TRY(list_wholes(update));
    RF_TRY(make_room(update, u));
    return rf_overlap_schedule_make(update, traced, by_bucket && update->num_buckets > 1, &update->room,
                                    &update->overlap);
}

rf_result rf_update_prepare(rf_update *update, const rf_traced_states *traced, bool by_bucket, uint32_t under_way)
{
    const rf_result r = update_prepare(update, traced, by_bucket, under_way);
    if (r < 0) rf_update_unprepare(update);
    return r;
}

void rf_update_unprepare(rf_update *update)
{
    rf_arena_free(&update->room);
    rf_segment_list_free(&update->runs);
    rf_segment_list_free(&update->wholes);
    rf_segment_list_free(&update->segments);
    *update = (rf_update){ .updater = update->updater,
                           .variables = update->variables,
                           .gradients = update->gradients,
                           .count = update->count,
                           .transform = update->transform,
                           .transform_hash = update->transform_hash,
                           .weighing = update->weighing };
}

void rf_gradient_transform_free(rf_gradient_transform *transform)
{
    rf_graph_destroy(&transform->graph);
    rf_free(transform->results);
    rf_free(transform->states.items);
    *transform = (rf_gradient_transform){ 0 };
}

void rf_update_free(rf_update *update)
{
    rf_update_unprepare(update);
    for (uint32_t i = 0; i < update->count; i++) rf_variable_release(update->variables[i]);
    rf_free(update->variables);
    rf_free(update->gradients);
    rf_gradient_transform_free(&update->transform);
    rf_updater_release(update->updater);
    *update = (rf_update){ 0 };
}
