/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/update/overlap_schedule.h"

#include "replica/update/update.h"

static bool contains_variable(const rf_update_bucket *bucket, const rf_variable *v)
{
    for (uint32_t i = 0; i < bucket->num_segments; i++)
        if (bucket->segments[i].range.begin <= v->offset && v->offset < bucket->segments[i].range.end) return true;
    return false;
}

static void find_buckets(const rf_update *update, const rf_traced_states *traced, rf_overlap_schedule *o)
{
    for (uint32_t i = 0; i < update->count; i++)
        while (o->bucket_of[i] + 1 < update->num_buckets &&
               !contains_variable(&update->buckets[o->bucket_of[i]], update->variables[i]))
            o->bucket_of[i]++;
    for (uint32_t slot = 0; slot < o->num_states; slot++) {
        o->bucket_of_state[slot] = UINT32_MAX;
        for (uint32_t i = 0; slot < traced->count && i < update->count; i++)
            if (update->variables[i] == traced->states[slot].variable) o->bucket_of_state[slot] = o->bucket_of[i];
    }
}

static void find_lives(const rf_update *update, const rf_graph *g, const rf_overlap_schedule *o, rf_bucket_life *lives)
{
    for (uint32_t i = 0; i < update->count; i++) {
        const rf_value_info *gradient = &g->values.items[update->gradients[i]];
        rf_bucket_life *life = &lives[o->bucket_of[i]];
        if (gradient->kind == RF_VALUE_RESULT && gradient->producer > life->ready) life->ready = gradient->producer;
    }
    for (rf_node n = 0; n < g->nodes.count; n++) {
        const rf_node_info *node = &g->nodes.items[n];
        for (uint32_t i = 0; i < node->n_in && !node->dead; i++) {
            if (!node->in[i]) continue;
            const rf_value_info *info = &g->values.items[g->values.items[node->in[i]].storage];
            const uint32_t b = info->kind == RF_VALUE_STATE ? o->bucket_of_state[info->slot] : UINT32_MAX;
            if (b != UINT32_MAX) lives[b].last_use = n;
        }
    }
}

rf_result rf_overlap_schedule_make(const rf_update *update, const rf_traced_states *traced, bool overlaps,
                                   rf_overlap_schedule *o)
{
    o->overlaps = overlaps;
    o->num_states = traced->graph->num_states;
    o->bucket_of = RF_NEW_ARRAY(uint32_t, update->count);
    o->bucket_of_state = RF_NEW_ARRAY(uint32_t, o->num_states);
    rf_bucket_life *lives = RF_NEW_ARRAY(rf_bucket_life, update->num_buckets);
    rf_result r = o->bucket_of && o->bucket_of_state && lives ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) find_buckets(update, traced, o);
    if (r >= 0 && overlaps) find_lives(update, traced->graph, o, lives);
    if (r >= 0) r = rf_overlap_plan_make(lives, update->num_buckets, &o->plan);
    rf_free(lives);
    return r;
}

void rf_overlap_schedule_free(rf_overlap_schedule *o)
{
    rf_overlap_plan_free(&o->plan);
    rf_free(o->bucket_of);
    rf_free(o->bucket_of_state);
    *o = (rf_overlap_schedule){ 0 };
}
