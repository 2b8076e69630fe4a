/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/update/overlap_plan.h"

#include "base/memory.h"

/* Turns between the end of a bucket's part and the gathering of its values: one for the reduction, one for the update,
 * while the device computes the parts after it. */
#define LAG 2

void rf_overlap_plan_free(rf_overlap_plan *plan)
{
    rf_free(plan->order);
    rf_free(plan->part);
    rf_free(plan->gather);
    *plan = (rf_overlap_plan){ 0 };
}

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

rf_result rf_overlap_plan_make(const rf_bucket_life *lives, uint32_t num_buckets, rf_overlap_plan *p)
{
    *p = (rf_overlap_plan){ .num_buckets = num_buckets };
    p->order = RF_NEW_ARRAY(uint32_t, num_buckets);
    p->part = RF_NEW_ARRAY(uint32_t, num_buckets);
    p->gather = RF_NEW_ARRAY(uint32_t, num_buckets);
    if (!p->order || !p->part || !p->gather) {
        rf_overlap_plan_free(p);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
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
