/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/mesh/detector.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/numbers.h"
#include "transport/mesh/topology.h"

typedef enum peer_state { ALIVE, CLOSED, LEFT } peer_state;
typedef enum peer_kind { WATCHED, WITNESS, REMOTE } peer_kind;

typedef struct peer_record {
    peer_kind kind;
    peer_state state;
    uint64_t heard;  /* last sign of life */
    uint64_t asked;  /* witness: since when an answer is due, 0: none is */
    uint64_t closed; /* when its connection ended */
    uint64_t said;   /* when its list of late ranks arrived */
    uint64_t *late;  /* bit per rank it misses */
} peer_record;

struct rf_detector {
    uint32_t rank, world;
    uint64_t interval, timeout;
    peer_record *peers;
    uint64_t *bits; /* storage of all peers' lists */
    uint32_t links; /* peers that are not remote */
    /* Those, this rank and remote ones that were lost, in order: nothing is to be found of the rest. */
    uint32_t *known, num_known;
    /* alarms */
    uint32_t told; /* ranks that were missed when peers were asked last */
    bool called;   /* a peer misses a witness of ours */
};

static peer_kind kind_of(uint32_t rank, uint32_t peer, uint32_t world)
{
    if (rf_mesh_is_full(world) || rank == 0 || peer == 0) return WATCHED;
    return rf_mesh_linked(rank, peer, world) ? WITNESS : REMOTE;
}

rf_result rf_detector_create(uint32_t rank, uint32_t world, uint64_t interval_ns, uint64_t timeout_ns, uint64_t now,
                             rf_detector **out)
{
    *out = NULL;
    rf_detector *d = RF_NEW(rf_detector);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    *d = (rf_detector){ .rank = rank, .world = world, .interval = interval_ns, .timeout = timeout_ns };
    const size_t words = (world + 63) / 64;
    d->peers = RF_NEW_ARRAY(peer_record, world);
    d->bits = rf_calloc(world, words * sizeof(uint64_t));
    d->known = RF_NEW_ARRAY(uint32_t, world);
    if (!d->peers || !d->bits || !d->known) {
        rf_detector_destroy(&d);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    for (uint32_t r = 0; r < world; r++) {
        d->peers[r] = (peer_record){ .kind = kind_of(rank, r, world), .heard = now, .late = d->bits + r * words };
        d->links += rf_mesh_linked(rank, r, world);
        if (r == rank || rf_mesh_linked(rank, r, world)) d->known[d->num_known++] = r;
    }
    d->peers[rank].state = LEFT; /* never watched */
    *out = d;
    return RF_OK;
}

void rf_detector_destroy(rf_detector **detector)
{
    if (!*detector) return;
    rf_free((*detector)->peers);
    rf_free((*detector)->bits);
    rf_free((*detector)->known);
    rf_free(*detector);
    *detector = NULL;
}

static uint64_t time_since(uint64_t then, uint64_t now)
{
    return now > then ? now - then : 0;
}

/* A process that was stopped finds every clock run down, though the others did send all the time. Their messages lie in
 * the sockets, but the newest may still be on its way: they get the lost time back. */
void rf_detector_woke(rf_detector *d, uint64_t now, uint64_t planned)
{
    const uint64_t late = time_since(planned, now);
    if (late <= d->interval) return;
    for (uint32_t i = 0; i < d->num_known; i++) {
        const uint32_t r = d->known[i];
        peer_record *peer = &d->peers[r];
        const uint64_t heard = peer->heard + late, asked = peer->asked + late;
        peer->heard = heard < now ? heard : now;
        if (peer->asked) peer->asked = asked < now ? asked : now;
    }
}

void rf_detector_heard(rf_detector *d, uint32_t peer, uint64_t now)
{
    d->peers[peer].heard = now;
    d->peers[peer].asked = 0;
}

void rf_detector_heard_at(rf_detector *d, uint32_t peer, uint64_t at)
{
    if (at > d->peers[peer].heard) d->peers[peer].heard = at;
}

void rf_detector_clear_late(rf_detector *d, uint32_t peer, uint64_t now)
{
    memset(d->peers[peer].late, 0, (d->world + 63) / 64 * sizeof(uint64_t));
    d->peers[peer].said = now;
}

void rf_detector_set_late(rf_detector *d, uint32_t peer, uint32_t late)
{
    d->peers[peer].late[late / 64] |= UINT64_C(1) << late % 64;
    if (d->peers[late].kind == WITNESS && d->peers[late].state == ALIVE && !d->peers[late].asked) d->called = true;
}

static bool is_missed(const rf_detector *d, uint32_t peer, uint32_t other)
{
    return d->peers[peer].late[other / 64] >> other % 64 & 1;
}

void rf_detector_left(rf_detector *d, uint32_t peer)
{
    d->peers[peer].state = LEFT;
}

static void add_known(rf_detector *d, uint32_t peer)
{
    uint32_t at = d->num_known++;
    for (; at > 0 && d->known[at - 1] > peer; at--) d->known[at] = d->known[at - 1];
    d->known[at] = peer;
}

bool rf_detector_closed(rf_detector *d, uint32_t peer, uint64_t now)
{
    if (d->peers[peer].state != ALIVE) return false;
    d->peers[peer].state = CLOSED;
    d->peers[peer].closed = now;
    if (d->peers[peer].kind == REMOTE) add_known(d, peer);
    return true;
}

/* Half the timeout: heartbeats come several times as often, so a late one has truly missed some; and there is time left
 * for the others to hear of it before anybody's patience ends. */
static bool is_silent(const rf_detector *d, uint32_t r, uint64_t now)
{
    const peer_record *peer = &d->peers[r];
    if (peer->kind == WATCHED) return time_since(peer->heard, now) > d->timeout / 2;
    return peer->kind == WITNESS && peer->asked && time_since(peer->asked, now) > d->timeout / 8;
}

static bool is_late(const rf_detector *d, uint32_t r, uint64_t now)
{
    return d->peers[r].state == CLOSED || (d->peers[r].state == ALIVE && is_silent(d, r, now));
}

/* Nothing is known of witnesses that were not asked for long: they are neither late nor fresh. */
static bool is_fresh(const rf_detector *d, uint32_t r, uint64_t now)
{
    return d->peers[r].kind != REMOTE && d->peers[r].state == ALIVE && !is_late(d, r, now) &&
           time_since(d->peers[r].heard, now) <= d->timeout / 2;
}

bool rf_detector_watches(const rf_detector *d, uint32_t peer)
{
    return d->peers[peer].kind == WATCHED;
}

bool rf_detector_alarm(rf_detector *d, uint64_t now)
{
    if (rf_mesh_is_full(d->world)) return false;
    uint32_t late = 0;
    for (uint32_t i = 0; i < d->num_known; i++) late += is_late(d, d->known[i], now);
    const bool alarm = d->called || late > d->told;
    d->called = false;
    d->told = late;
    for (uint32_t i = 0; alarm && i < d->num_known; i++) {
        peer_record *peer = &d->peers[d->known[i]];
        if (peer->kind == WITNESS && !peer->asked) peer->asked = now;
    }
    return alarm;
}

bool rf_detector_calm(const rf_detector *d)
{
    for (uint32_t i = 0; i < d->num_known; i++) {
        const peer_record *peer = &d->peers[d->known[i]];
        if (peer->state == CLOSED || peer->asked) return false;
    }
    return !d->called;
}

uint32_t rf_detector_late(const rf_detector *d, uint64_t now, uint32_t *ranks)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < d->num_known; i++)
        if (is_late(d, d->known[i], now)) ranks[count++] = d->known[i];
    return count;
}

/* Counts what those we hear say of `rank`, if it is connected to them: how many speak (since `from`), how many miss
 * it. */
static void count_votes(const rf_detector *d, uint32_t rank, uint64_t from, uint64_t now, uint32_t *speak,
                        uint32_t *miss)
{
    *speak = *miss = 0;
    for (uint32_t i = 0; i < d->num_known; i++) {
        const uint32_t r = d->known[i];
        if (!rf_mesh_linked(r, rank, d->world) || !is_fresh(d, r, now) || d->peers[r].said < from) continue;
        ++*speak;
        *miss += is_missed(d, r, rank);
    }
}

/* The path between us and `peer` is broken. The other end judges by the same rule. */
static void blame_link(const rf_detector *d, uint32_t peer, uint64_t now, rf_finding *out)
{
    uint32_t speak, miss_us;
    count_votes(d, d->rank, 0, now, &speak, &miss_us);
    const bool us = 2 * miss_us > speak || d->rank > peer;
    *out = (rf_finding){ .culprit = us ? d->rank : peer, .loss = RF_PEER_LOSS_LINK, .world = d->world };
    out->link[0] = d->rank < peer ? d->rank : peer;
    out->link[1] = d->rank < peer ? peer : d->rank;
    out->silent_ns = time_since(d->peers[peer].heard, now);
}

/* Most of those whose connections are open have fallen silent: we may be the one that is cut off, and then broken
 * connections say nothing about their other ends. */
static bool hears_few(const rf_detector *d, uint64_t now)
{
    uint32_t silent = 0, heard = 0;
    for (uint32_t i = 0; i < d->num_known; i++) {
        const uint32_t r = d->known[i];
        if (d->peers[r].state != ALIVE) continue;
        silent += is_late(d, r, now);
        heard += is_fresh(d, r, now);
    }
    return silent > heard;
}

static bool judge_closed(const rf_detector *d, uint64_t now, rf_finding *out)
{
    uint32_t first = d->world;
    for (uint32_t i = 0; i < d->num_known; i++) {
        const uint32_t r = d->known[i];
        if (d->peers[r].state != CLOSED) continue;
        if (first == d->world || d->peers[r].closed < d->peers[first].closed) first = r;
    }
    if (first == d->world) return false;
    const uint64_t held = time_since(d->peers[first].closed, now);
    if (held < RF_HOLD_NS || hears_few(d, now)) return false; /* in time judge_silent() knows */
    uint32_t speak, miss;
    count_votes(d, first, 0, now, &speak, &miss);
    if (2 * miss < speak) {
        if (held < RF_HOLD_DOUBT_NS) return false;
        count_votes(d, first, d->peers[first].closed + RF_HOLD_PROBE_NS, now, &speak, &miss);
        if (2 * miss < speak) {
            blame_link(d, first, now, out);
            return true;
        }
    }
    *out = (rf_finding){ .culprit = first, .loss = RF_PEER_LOSS_CLOSED, .world = d->world };
    out->silent_ns = time_since(d->peers[first].heard, now);
    return true;
}

static bool judge_silent(const rf_detector *d, uint64_t now, rf_finding *out)
{
    uint32_t silent = d->world, missed = 0, heard = 0;
    uint64_t longest = 0;
    for (uint32_t i = 0; i < d->num_known; i++) {
        const uint32_t r = d->known[i];
        if (is_fresh(d, r, now)) heard++;
        const uint64_t time = time_since(d->peers[r].heard, now);
        if (d->peers[r].state == LEFT || !is_silent(d, r, now)) continue;
        missed++;
        if (d->peers[r].state == CLOSED || d->peers[r].kind == WITNESS) continue;
        if (time > longest) longest = time;
        /* The lowest of several that fell silent together (their last heartbeats are up to an interval apart) is named,
         * so that everybody names the same. */
        if (silent == d->world && time + d->interval >= d->timeout) silent = r;
    }
    if (longest < d->timeout) return false;
    *out = (rf_finding){ .culprit = silent, .loss = RF_PEER_LOSS_SILENT, .silent_ns = longest, .world = d->links + 1 };
    if (missed >= 2 && missed > heard + 1) {
        uint32_t lowest = d->rank;
        for (uint32_t i = 0; i < d->num_known && d->known[i] < d->rank; i++) {
            const uint32_t r = d->known[i];
            if (!is_fresh(d, r, now) || !is_missed(d, r, silent)) continue;
            lowest = r;
            break;
        }
        out->culprit = lowest;
        out->loss = RF_PEER_LOSS_CUT_OFF;
        out->missed = missed;
        return true;
    }
    uint32_t speak, miss;
    count_votes(d, silent, 0, now, &speak, &miss);
    if (2 * miss < speak) blame_link(d, silent, now, out);
    return true;
}

bool rf_detector_judge(const rf_detector *d, uint64_t now, rf_finding *out)
{
    return judge_closed(d, now, out) || judge_silent(d, now, out);
}

uint64_t rf_detector_next(const rf_detector *d, uint64_t now)
{
    const bool full = rf_mesh_is_full(d->world);
    /* Who is watched by nobody else has a wake-up in each interval, by a heartbeat. */
    uint64_t next = now + (full ? 1 : 2) * d->interval;
    for (uint32_t i = 0; i < d->num_known; i++) {
        const uint32_t r = d->known[i];
        const peer_record *peer = &d->peers[r];
        uint64_t at = UINT64_MAX;
        if (peer->state == ALIVE && peer->kind == WATCHED) {
            at = peer->heard + d->timeout / 2 + 1;
            if (full || at <= now) at = peer->heard + d->timeout;
        }
        if (peer->state == ALIVE && peer->asked) {
            at = peer->asked + d->timeout / 8 + 1;
            if (at <= now) at = UINT64_MAX;
        }
        if (peer->state == CLOSED)
            at = peer->closed + (time_since(peer->closed, now) < RF_HOLD_NS ? RF_HOLD_NS : RF_HOLD_DOUBT_NS);
        if (at < next) next = at;
    }
    return next > now ? next : now + 1;
}

void rf_finding_text(const rf_finding *finding, char *text, size_t size)
{
    const double seconds = (double)finding->silent_ns * 1e-9;
    switch (finding->loss) {
    case RF_PEER_LOSS_CLOSED: snprintf(text, size, "connection closed"); break;
    case RF_PEER_LOSS_SILENT: rf_number_print(text, size, "silent for %.1f s", seconds); break;
    case RF_PEER_LOSS_CUT_OFF:
        rf_number_print(text, size, "cut off from %u of %u ranks for %.1f s (or those are stopped)", finding->missed,
                        finding->world, seconds);
        break;
    case RF_PEER_LOSS_LINK:
        snprintf(text, size, "ranks %u and %u no longer reach each other, though others reach both", finding->link[0],
                 finding->link[1]);
        break;
    }
}
