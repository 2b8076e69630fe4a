/* SPDX-License-Identifier: Apache-2.0 */
/* Scheduled work that is not done yet. */
#include <stdio.h>
#include <string.h>

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

rf_work_share *rf_work_share_take(rf_coordinator *c)
{
    rf_work_share *share = c->first_ready;
    if (!share) return NULL;
    c->first_ready = share->next;
    if (!c->first_ready) c->last_ready = NULL;
    share->next = NULL;
    return share;
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
