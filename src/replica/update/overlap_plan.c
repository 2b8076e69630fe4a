/* SPDX-License-Identifier: Apache-2.0 */
/* In which order buckets are exchanged while a backward pass goes on. Pure. */
#include "replica/update/update.h"

/* Turns between the end of a bucket's part and the gathering of its values: one for the reduction, one for the update,
 * while the device computes the parts after it. */
#define LAG 2

/* By readiness; buckets that are ready together keep their order. */
static void lives_sort(const rf_bucket_life *lives, rf_overlap_plan *p)
{
    for (uint32_t i = 0; i < p->num_buckets; i++) {
        uint32_t at = i;
        for (; at > 0 && lives[p->order[at - 1]].ready > lives[i].ready; at--) p->order[at] = p->order[at - 1];
        p->order[at] = i;
    }
    for (uint32_t k = 0; k < p->num_buckets; k++) p->part[p->order[k]] = k;
}

rf_result rf_overlap_plan_make(const rf_bucket_life *lives, uint32_t num_buckets, rf_arena *arena, rf_overlap_plan *p)
{
    *p = (rf_overlap_plan){ .num_buckets = num_buckets };
    RF_TRY(RF_ARENA_ARRAY(arena, p->order, num_buckets));
    RF_TRY(RF_ARENA_ARRAY(arena, p->part, num_buckets));
    RF_TRY(RF_ARENA_ARRAY(arena, p->gather, num_buckets));
    lives_sort(lives, p);
    for (uint32_t b = 0; b < num_buckets; b++) {
        /* No part that is still to run may read a variable that is written. */
        uint32_t free_after = 0;
        while (free_after + 1 < num_buckets && lives[p->order[free_after]].ready < lives[b].last_use) free_after++;
        const uint32_t soonest = p->part[b] + LAG;
        p->gather[b] = soonest > free_after ? soonest : free_after;
        if (p->gather[b] >= p->num_turns) p->num_turns = p->gather[b] + 1;
    }
    return RF_OK;
}

/* ---- of an update ---- */

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
                                   rf_arena *arena, rf_overlap_schedule *o)
{
    rf_bucket_life *lives;
    o->overlaps = overlaps;
    o->num_states = traced->graph->num_states;
    RF_TRY(RF_ARENA_ARRAY(arena, o->bucket_of, update->count));
    RF_TRY(RF_ARENA_ARRAY(arena, o->bucket_of_state, o->num_states));
    RF_TRY(RF_ARENA_ARRAY(arena, lives, update->num_buckets));
    find_buckets(update, traced, o);
    if (overlaps) find_lives(update, traced->graph, o, lives);
    return rf_overlap_plan_make(lives, update->num_buckets, arena, &o->plan);
}
