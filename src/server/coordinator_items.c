/* SPDX-License-Identifier: Apache-2.0 */
/* Scheduled work that is not done yet. */
#include <stdio.h>
#include <string.h>

#include "replica/strategy.h"
#include "server/coordinator_internal.h"

/* ---- life ---- */

/* Asynchronous: one share. Synchronous: one for each worker of the cluster, whichever of them are there, so that the
 * result does not depend on it. */
static rf_result cut_shares(const rf_coordinator *c, rf_remote_value *item)
{
    uint64_t shares = c->synchronous ? c->num_workers : 1;
    if (item->count > 0 && shares > item->count) shares = item->count;
    item->shares = RF_NEW_ARRAY(rf_work_share, shares);
    if (!item->shares) return RF_ERROR_OUT_OF_HOST_MEMORY;
    item->num_shares = item->shares_left = (uint32_t)shares;
    uint64_t first = item->first;
    for (uint32_t p = 0; p < shares; p++) {
        const uint64_t count = item->count / shares + (p < item->count % shares);
        item->shares[p] = (rf_work_share){ .item = item, .index = p, .first = first, .count = count };
        first += count;
    }
    return RF_OK;
}

rf_result rf_remote_value_create(rf_coordinator *c, const char *function, uint64_t first, uint64_t count,
                                 rf_remote_value **out)
{
    *out = NULL;
    rf_remote_value *item = RF_NEW(rf_remote_value);
    if (!item) return RF_ERROR_OUT_OF_HOST_MEMORY;
    atomic_init(&item->references, 1);
    atomic_init(&item->done, false);
    item->coordinator = c;
    item->first = first;
    item->count = count;
    snprintf(item->function, sizeof(item->function), "%s", function);
    const rf_result r = cut_shares(c, item);
    if (r < 0) {
        rf_remote_value_release(item);
        return r;
    }
    *out = item;
    return RF_OK;
}

void rf_remote_value_release(rf_remote_value *item)
{
    if (!item || atomic_fetch_sub(&item->references, 1) > 1) return;
    rf_free(item->shares);
    rf_free(item);
}

static rf_result find_kind(rf_coordinator *c, const rf_remote_value *item, uint32_t *out)
{
    for (*out = 0; *out < c->kinds.count; ++*out)
        if (strcmp(c->kinds.items[*out].function, item->function) == 0) return RF_OK;
    RF_TRY(RF_VEC_GROW(&c->kinds));
    rf_work_kind *kind = &c->kinds.items[*out];
    if (!(kind->same_data = RF_NEW_ARRAY(uint32_t, c->num_workers))) return RF_ERROR_OUT_OF_HOST_MEMORY;
    snprintf(kind->function, sizeof(kind->function), "%s", item->function);
    kind->next = item->count > 0 ? c->updates : 0;
    c->kinds.count++;
    return RF_OK;
}

rf_result rf_coordinator_number(rf_coordinator *c, rf_remote_value *item)
{
    RF_TRY(find_kind(c, item, &item->kind));
    uint64_t *next = &c->kinds.items[item->kind].next;
    if (item->count == 0 && item->first > *next) *next = item->first;
    item->number = (*next)++;
    if (c->variables.count > 0) item->seed = rf_strategy_seed(rf_variable_strategy(c->variables.items[0]));
    return RF_OK;
}

void rf_remote_value_append(rf_coordinator *c, rf_remote_value *item)
{
    item->previous = c->last;
    if (c->last)
        c->last->next = item;
    else
        c->first = item;
    c->last = item;
}

/* ---- shares ---- */

static void append_ready(rf_coordinator *c, rf_work_share *share)
{
    share->next = NULL;
    if (c->last_ready)
        c->last_ready->next = share;
    else
        c->first_ready = share;
    c->last_ready = share;
}

void rf_coordinator_make_ready(rf_coordinator *c)
{
    for (rf_remote_value *item = c->first; item; item = item->next) {
        if (!item->begun) {
            item->begun = true;
            for (uint32_t p = 0; p < item->num_shares; p++) append_ready(c, &item->shares[p]);
        }
        if (c->synchronous) return; /* one step after the other */
    }
}

void rf_work_share_remove(rf_coordinator *c, rf_work_share *share)
{
    rf_work_share *before = NULL;
    for (rf_work_share *s = c->first_ready; s != share; s = s->next) before = s;
    if (before)
        before->next = share->next;
    else
        c->first_ready = share->next;
    if (c->last_ready == share) c->last_ready = before;
    share->next = NULL;
}

rf_work_share *rf_work_share_take(rf_coordinator *c)
{
    rf_work_share *share = c->first_ready;
    if (share) rf_work_share_remove(c, share);
    return share;
}

bool rf_work_share_fits(const rf_coordinator *c, const rf_work_share *share, uint32_t w)
{
    const rf_ps_seat *seat = &c->seats[w], *holder = &c->seats[share->index];
    if (!c->synchronous || share->count > 0 || !seat->own_data) return true;
    if (holder->joined || w == share->index) return w == share->index;
    const uint32_t *same = c->kinds.items[share->item->kind].same_data;
    return same[w] > 0 && same[w] == same[share->index];
}

void rf_coordinator_compare_data(rf_coordinator *c, const rf_remote_value *item)
{
    if (!c->synchronous || item->count > 0) return;
    for (uint32_t p = 0; p < item->num_shares; p++) {
        uint32_t first = 0;
        while (item->shares[first].hash != item->shares[p].hash) first++;
        if (item->shares[p].hash) c->kinds.items[item->kind].same_data[p] = 1 + first;
    }
}

void rf_work_share_give_back(rf_coordinator *c, rf_work_share *share)
{
    share->next = c->first_ready;
    c->first_ready = share;
    if (!c->last_ready) c->last_ready = share;
}

/* ---- the end of an item ---- */

void rf_remote_value_finish(rf_coordinator *c, rf_remote_value *item)
{
    if (item->previous)
        item->previous->next = item->next;
    else
        c->first = item->next;
    if (item->next)
        item->next->previous = item->previous;
    else
        c->last = item->previous;
    atomic_store(&item->done, true);
    rf_remote_value_release(item);
    pthread_cond_broadcast(&c->changed);
}

static void fail_item(rf_remote_value *item)
{
    if (item->result < 0) return;
    rf_error_save(&item->failure);
    item->result = item->failure.info.result;
}

void rf_coordinator_fail_work(rf_coordinator *c, rf_remote_value *item)
{
    if (!c->work_failed) {
        c->work_failed = true;
        rf_error_save(&c->work_failure);
    }
    fail_item(item);
    for (rf_work_share *share; (share = rf_work_share_take(c));) {
        fail_item(share->item);
        share->item->shares_left--;
    }
    for (rf_remote_value *other = c->first, *next; other; other = next) {
        next = other->next;
        if (other == item) continue;
        if (!other->begun) {
            fail_item(other);
            other->shares_left = 0;
        }
        /* In synchronous training the one that has begun is `item`. */
        if (other->shares_left == 0) rf_remote_value_finish(c, other);
    }
}

void rf_coordinator_end_values(rf_coordinator *c)
{
    while (rf_work_share_take(c)) continue;
    c->committing = NULL;
    for (uint32_t w = 0; w < c->num_workers; w++) c->seats[w].busy = NULL;
    while (c->first) {
        fail_item(c->first);
        rf_remote_value_finish(c, c->first);
    }
}
