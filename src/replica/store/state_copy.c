/* SPDX-License-Identifier: Apache-2.0 */
/* State as it is now, copied out of the devices' memory by another thread while the next step's forward and backward
 * pass, which only read it, compute. Whatever would change it waits: updates, and all that waits for the devices before
 * it writes. */
#include <string.h>
#include <time.h>

#include "base/platform.h"
#include "base/profiler.h"
#include "replica/internal.h"

typedef struct piece {
    const float *from; /* mapped memory of a device */
    float *to;
    uint64_t count;
} piece;

struct rf_state_copy {
    rf_strategy *strategy;
    struct {
        piece *items;
        uint32_t count, capacity;
    } pieces;
    uint64_t *tickets; /* [num_local]: what is copied is there then */
};

rf_result rf_state_copy_create(rf_strategy *strategy, rf_state_copy **out)
{
    rf_state_copy *c = *out = RF_NEW(rf_state_copy);
    if (!c) return RF_ERROR_OUT_OF_HOST_MEMORY;
    c->strategy = strategy;
    c->tickets = RF_NEW_ARRAY(uint64_t, strategy->num_local);
    if (c->tickets) return RF_OK;
    rf_state_copy_destroy(out);
    return RF_ERROR_OUT_OF_HOST_MEMORY;
}

void rf_state_copy_destroy(rf_state_copy **copy)
{
    rf_state_copy *c = *copy;
    if (!c) return;
    rf_free(c->pieces.items);
    rf_free(c->tickets);
    rf_free(c);
    *copy = NULL;
}

static rf_result add(rf_state_copy *c, const float *from, float *to, uint64_t count)
{
    RF_TRY(RF_VEC_GROW(&c->pieces));
    c->pieces.items[c->pieces.count++] = (piece){ from, to, count };
    return RF_OK;
}

rf_result rf_state_copy_variable(rf_state_copy *c, const rf_variable *v, rf_range range, float *to, bool *taken)
{
    const float *from = rf_flat_mapped(&rf_variable_store(v)->values, 0);
    *taken = v->trainable && from;
    return *taken ? add(c, from + v->offset + range.begin, to, range.end - range.begin) : RF_OK;
}

rf_result rf_state_copy_slot(rf_state_copy *c, const rf_updater *u, uint32_t slot, const rf_variable *v, rf_range range,
                             float *to, bool *taken)
{
    const rf_strategy *s = c->strategy;
    const uint32_t before = c->pieces.count;
    const rf_range wanted = { v->offset + range.begin, v->offset + range.end };
    uint64_t found = 0;
    for (uint32_t i = 0; i < u->plan.count; i++) {
        const rf_piece *p = &u->plan.items[i];
        const uint64_t begin = p->range.begin > wanted.begin ? p->range.begin : wanted.begin;
        const uint64_t end = p->range.end < wanted.end ? p->range.end : wanted.end;
        if (begin >= end) continue;
        if (p->owner != RF_OWNER_ALL && !rf_strategy_is_local(s, p->owner)) break;
        const rf_gpu_buffer *buffer = u->slots[slot][p->owner == RF_OWNER_ALL ? 0 : p->owner - s->first];
        const float *from = rf_gpu_buffer_mapped(buffer);
        if (!from) break;
        RF_TRY(add(c, from + p->slot_offset + (begin - p->range.begin), to + (begin - wanted.begin), end - begin));
        found += end - begin;
    }
    *taken = found == range.end - range.begin;
    if (!*taken) c->pieces.count = before;
    return RF_OK;
}

rf_result rf_state_copy_begin(rf_state_copy *c)
{
    rf_strategy *s = c->strategy;
    RF_TRY(rf_strategy_status(s));
    RF_TRY(rf_strategy_await_copy(s));
    for (uint32_t r = 0; r < s->num_local; r++)
        RF_TRY(rf_replica_context(s, r, rf_gpu_submit_host_flush(s->replicas[r].device, &c->tickets[r])));
    s->copying.under_way = true; /* no other thread yet */
    return RF_OK;
}

static rf_result copy(const rf_state_copy *c)
{
    for (uint32_t r = 0; r < c->strategy->num_local; r++) {
        const rf_result waited = rf_gpu_watch(c->strategy->replicas[r].device, c->tickets[r], RF_GPU_TIMEOUT_NS);
        if (waited < 0)
            return RF_FAIL(waited, "%s: the step before the save did not end", rf_strategy_device_name(c->strategy, r));
    }
    for (uint32_t i = 0; i < c->pieces.count; i++) {
        const piece *p = &c->pieces.items[i];
        memcpy(p->to, p->from, p->count * sizeof(float));
    }
    return RF_OK;
}

rf_result rf_state_copy_run(rf_state_copy *c)
{
    rf_copying *at = &c->strategy->copying;
    const uint64_t begin = rf_span_begin();
    const rf_result r = copy(c);
    rf_span_end(begin, "replica", "copy state");
    pthread_mutex_lock(&at->mutex);
    at->under_way = false;
    pthread_cond_broadcast(&at->ended);
    pthread_mutex_unlock(&at->mutex);
    return r;
}

bool rf_strategy_is_copied(rf_strategy *s)
{
    pthread_mutex_lock(&s->copying.mutex);
    const bool under_way = s->copying.under_way;
    pthread_mutex_unlock(&s->copying.mutex);
    return under_way;
}

rf_result rf_strategy_await_copy(rf_strategy *s)
{
    rf_copying *at = &s->copying;
    if (!rf_strategy_is_copied(s)) return RF_OK;
    const uint64_t begin = rf_span_begin(), until = rf_now_ns() + 2 * RF_GPU_TIMEOUT_NS;
    const struct timespec deadline = { (time_t)(until / 1000000000u), (long)(until % 1000000000u) };
    int waited = 0;
    pthread_mutex_lock(&at->mutex);
    while (at->under_way && waited == 0) waited = pthread_cond_timedwait(&at->ended, &at->mutex, &deadline);
    const bool under_way = at->under_way;
    pthread_mutex_unlock(&at->mutex);
    rf_span_end(begin, "replica", "await copy");
    if (!under_way) return RF_OK;
    return RF_FAIL(RF_ERROR_TIMEOUT, "an asynchronous save has not copied the state after %llu s",
                   2 * RF_GPU_TIMEOUT_NS / 1000000000u);
}

rf_result rf_copying_init(rf_copying *copying)
{
    pthread_condattr_t attributes;
    int e = pthread_mutex_init(&copying->mutex, NULL);
    if (e == 0 && (e = pthread_condattr_init(&attributes)) == 0) {
        (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC); /* the clock of rf_now_ns() */
        e = pthread_cond_init(&copying->ended, &attributes);
        (void)pthread_condattr_destroy(&attributes);
    }
    return e == 0 ? RF_OK : RF_FAIL_NATIVE(RF_ERROR_OUT_OF_HOST_MEMORY, "errno", e, "cannot make a condition");
}

void rf_copying_free(rf_copying *copying)
{
    pthread_cond_destroy(&copying->ended);
    pthread_mutex_destroy(&copying->mutex);
}
