/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/update/turns.h"

#include "replica/internal.h"
#include "replica/store/variables.h"
#include "replica/update/update.h"
#include "replica/update/updater.h"

bool rf_update_can_overlap(const rf_update *update)
{
    const rf_strategy *s = update->updater->strategy;
    const rf_updater_params *p = &update->updater->params;
    if (!s->overlap || s->num_replicas == 1 || update->transform.graph) return false;
    if (rf_updater_scales(update->updater)) return false; /* all gradients decide about each update */
    return p->accumulation_steps == 1 && !p->variable_norms && !p->global_norm && !p->emit_norms && !p->whole;
}

static bool contains_variable(const rf_update_bucket *bucket, const rf_variable *v)
{
    for (uint32_t i = 0; i < bucket->num_segments; i++)
        if (bucket->segments[i].range.begin <= v->offset && v->offset < bucket->segments[i].range.end) return true;
    return false;
}

static void find_buckets(rf_turns *t)
{
    for (uint32_t i = 0; i < t->update->count; i++)
        while (t->bucket_of[i] + 1 < t->update->num_buckets &&
               !contains_variable(&t->update->buckets[t->bucket_of[i]], t->update->variables[i]))
            t->bucket_of[i]++;
}

uint32_t rf_turns_bucket_of_state(const rf_turns *t, uint32_t slot)
{
    const rf_variable *v = t->traced.states[slot].variable;
    for (uint32_t i = 0; v && i < t->update->count; i++)
        if (t->update->variables[i] == v) return t->bucket_of[i];
    return UINT32_MAX;
}

static void find_lives(const rf_turns *t, rf_bucket_life *lives)
{
    const rf_graph *g = t->traced.graph;
    for (uint32_t i = 0; i < t->update->count; i++) {
        const rf_value_info *gradient = &g->values.items[t->update->gradients[i]];
        rf_bucket_life *life = &lives[t->bucket_of[i]];
        if (gradient->kind == RF_VALUE_RESULT && gradient->producer > life->ready) life->ready = gradient->producer;
    }
    for (rf_node n = 0; n < g->nodes.count; n++) {
        const rf_node_info *node = &g->nodes.items[n];
        for (uint32_t i = 0; i < node->n_in && !node->dead; i++) {
            if (!node->in[i]) continue;
            const rf_value_info *info = &g->values.items[g->values.items[node->in[i]].storage];
            const uint32_t b = info->kind == RF_VALUE_STATE ? rf_turns_bucket_of_state(t, info->slot) : UINT32_MAX;
            if (b != UINT32_MAX) lives[b].last_use = n;
        }
    }
}

static rf_result make_plan(rf_turns *t)
{
    const uint32_t count = t->update->num_buckets;
    rf_bucket_life *lives = RF_NEW_ARRAY(rf_bucket_life, count);
    if (!lives) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (t->overlaps) find_lives(t, lives);
    const rf_result r = rf_overlap_plan_make(lives, count, &t->plan);
    rf_free(lives);
    return r;
}

static rf_result turns_allocate(rf_turns *t)
{
    const uint32_t count = t->update->num_buckets, num_local = t->strategy->num_local;
    t->bucket_of = RF_NEW_ARRAY(uint32_t, t->update->count);
    t->buckets = RF_NEW_ARRAY(rf_turn_bucket, count);
    t->locals = RF_NEW_ARRAY(rf_turn_replica, num_local);
    t->parts = RF_NEW_ARRAY(uint32_t, t->traced.graph->num_states);
    t->from = RF_NEW_ARRAY(const float *, num_local);
    t->to = RF_NEW_ARRAY(float *, num_local);
    t->checks = RF_NEW_ARRAY(rf_frame *, num_local);
    if (!t->bucket_of || !t->buckets || !t->locals || !t->parts || !t->from || !t->to || !t->checks)
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t r = 0; r < num_local; r++)
        if (!(t->locals[r].tickets = RF_NEW_ARRAY(uint64_t, count))) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t b = 0; b < count; b++)
        if (!(t->buckets[b].replicas = RF_NEW_ARRAY(rf_turn_bucket_replica, num_local)))
            return RF_ERROR_OUT_OF_HOST_MEMORY;
    return RF_OK;
}

static rf_result turns_create(rf_turns *t)
{
    RF_TRY(turns_allocate(t));
    find_buckets(t);
    RF_TRY(make_plan(t));
    rf_exchange *exchange = t->strategy->exchange;
    for (uint32_t b = 0; t->exchanges && b < t->plan.num_buckets; b++) {
        const rf_update_bucket *bucket = &t->update->buckets[b];
        RF_TRY(exchange->fns->open(exchange, bucket->segments, bucket->num_segments, true, t->overlaps,
                                   &t->buckets[b].exchange));
    }
    return RF_OK;
}

rf_result rf_turns_create(const rf_traced_states *traced, rf_update *update, bool by_bucket)
{
    rf_turns *t = update->turns = RF_NEW(rf_turns);
    if (!t) return RF_ERROR_OUT_OF_HOST_MEMORY;
    t->strategy = update->updater->strategy;
    t->traced = *traced;
    t->update = update;
    t->overlaps = by_bucket && update->num_buckets > 1;
    t->exchanges = t->strategy->num_replicas > 1;
    t->gathers = t->exchanges && t->strategy->update_mode == RF_UPDATE_SHARDED;
    t->meets = rf_update_meets(update);
    const rf_result r = turns_create(t);
    if (r < 0) rf_turns_free(&update->turns);
    return r;
}

void rf_turns_free(rf_turns **turns)
{
    rf_turns *t = *turns;
    if (!t) return;
    for (uint32_t b = 0; t->buckets && b < t->update->num_buckets; b++) {
        if (t->buckets[b].exchange) t->strategy->exchange->fns->close(&t->buckets[b].exchange);
        rf_free(t->buckets[b].replicas);
    }
    for (uint32_t r = 0; t->locals && r < t->strategy->num_local; r++) rf_free(t->locals[r].tickets);
    rf_overlap_plan_free(&t->plan);
    rf_free(t->bucket_of);
    rf_free(t->buckets);
    rf_free(t->locals);
    rf_free(t->parts);
    rf_free(t->from);
    rf_free(t->to);
    rf_free(t->checks);
    rf_free(t);
    *turns = NULL;
}

uint32_t rf_turns_part(const rf_turns *t, uint32_t variable)
{
    return t->plan.part[t->bucket_of[variable]];
}
