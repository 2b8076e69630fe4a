/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of workers and the chief to a parameter server: gradients and changes in chunks and the ends of steps, one
 * message after the other: type, bytes, and so many of them. The first byte says whether training is synchronous, and
 * how many of the parameters an optimizer updates. They move only by whole gradients that were asked for, in order; to
 * the others the changes are added.
 */
#include <string.h>

#include "base/memory.h"
#include "fuzz.h"
#include "server/server_internal.h"

enum { COUNT = 3, SHARES = 2 };

typedef struct state {
    rf_ps_shard shard;
    float *gradient;   /* of the push that is coming in */
    uint64_t received; /* elements of it */
    uint64_t updates;
} state;

static rf_result apply(void *store, const float *gradient, float *values)
{
    state *s = store;
    for (uint64_t i = 0; i < s->shard.optimized; i++) values[i] -= gradient[i];
    s->updates++;
    return RF_OK;
}

static uint32_t num_slots(void *store)
{
    (void)store;
    return 1;
}

static rf_result read_slot(void *store, uint32_t slot, float *values)
{
    const state *s = store;
    PROMISE(slot == 0);
    for (uint64_t i = 0; i < s->shard.optimized; i++) values[i] = (float)s->updates;
    return RF_OK;
}

static void destroy(void *store)
{
    (void)store;
}

static const rf_ps_store_fns fns = {
    .apply = apply, .num_slots = num_slots, .read_slot = read_slot, .destroy = destroy
};

/* As a client's thread does. */
static void push(state *s, const rf_ps_message *m)
{
    uint64_t version = 0, staleness = 0;
    const uint64_t before = s->shard.version, had = s->received;
    const float last = s->shard.values[COUNT - 1];
    if (!rf_ps_message_take(m, s->gradient, COUNT, &s->received)) {
        PROMISE(s->received == had);
        return;
    }
    PROMISE(s->received > had && s->received <= COUNT);
    if (s->received < COUNT) return;
    s->received = 0;
    const float change = s->gradient[COUNT - 1];
    const rf_result r = rf_ps_shard_push(&s->shard, m, &s->gradient, &version, &staleness);
    PROMISE(s->gradient && version == s->shard.version);
    PROMISE(version == before + (r == RF_OK && !s->shard.synchronous));
    if (r == RF_OK) PROMISE(m->version <= before && staleness == before - m->version);
    const bool moves = r == RF_OK && !s->shard.synchronous, added = s->shard.optimized < COUNT;
    const float expected = !moves ? last : added ? last + change : last - change, now = s->shard.values[COUNT - 1];
    PROMISE(now == expected || (now != now && expected != expected));
}

/* Nothing is written that was not asked for. */
static void pull(state *s, const rf_ps_message *m)
{
    float values[COUNT + 1] = { 0 };
    uint64_t count = 0, version;
    values[COUNT] = 5;
    const rf_result r = rf_ps_shard_read(&s->shard, m->slot, values, &count, &version);
    PROMISE(version == s->shard.version && values[COUNT] == 5);
    PROMISE((r == RF_OK) == (m->slot == 0 || (m->slot == 1 && s->shard.store != NULL)));
    if (r == RF_OK) PROMISE(count == (m->slot == 0 ? COUNT : s->shard.optimized));
}

static void commit(state *s, const rf_ps_message *m)
{
    uint64_t version = 0;
    const uint64_t before = s->shard.version;
    const rf_result r = rf_ps_shard_commit(&s->shard, m->step, m->count, &version);
    PROMISE(version == s->shard.version && version == before + (r == RF_OK && m->count > 0));
    if (r == RF_OK) PROMISE(s->shard.synchronous && m->step == before && m->count <= SHARES);
}

FUZZ_TARGET(ps_shard)
{
    if (size == 0) return 0;
    state s = { .shard = { .fns = &fns, .count = COUNT, .num_shares = SHARES, .synchronous = data[0] & 1 } };
    s.shard.optimized = COUNT - (data[0] >> 1) % (COUNT + 1);
    s.shard.store = s.shard.optimized > 0 ? &s : NULL;
    pthread_mutex_init(&s.shard.lock, NULL);
    s.shard.shares = RF_NEW_ARRAY(rf_ps_share, SHARES);
    s.shard.values = RF_NEW_ARRAY(float, COUNT);
    s.shard.sum = RF_NEW_ARRAY(float, COUNT);
    s.gradient = RF_NEW_ARRAY(float, COUNT);
    if (!s.shard.shares || !s.shard.values || !s.shard.sum || !s.gradient) abort();
    for (size_t at = 1; at + 2 <= size;) {
        rf_ps_message m;
        const uint16_t type = data[at];
        size_t length = data[at + 1];
        at += 2;
        if (length > size - at) length = size - at;
        if (rf_ps_message_decode(type, data + at, length, &m) == RF_OK) {
            if (type == RF_PS_PUSH) push(&s, &m);
            if (type == RF_PS_COMMIT) commit(&s, &m);
            if (type == RF_PS_PULL) pull(&s, &m);
        }
        at += length;
        PROMISE((!s.shard.store || s.updates == s.shard.version) && rf_ps_shard_status(&s.shard) == RF_OK);
    }
    rf_ps_shard_free(&s.shard);
    pthread_mutex_destroy(&s.shard.lock);
    rf_free(s.gradient);
    return 0;
}
