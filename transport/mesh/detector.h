/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failure detector of one worker: a function of the clock and of what arrives, without sockets or threads. Each rank
 * tells the others which ranks it no longer hears, so that all of them report the same culprit:
 *  - a closed connection waits a moment (RF_HOLD_NS) for an abort that names the real culprit, then its rank is lost,
 *    unless most others are silent: then silence decides;
 *  - a rank that is silent for the timeout and that most of those we still hear miss as well is lost;
 *  - a rank that misses more than half of the world is itself the one that is cut off;
 *  - where the others still hear a rank that we do not, the path between the two is broken: both ends count the one
 * that more others miss as lost, else the higher of the two. Time this process did not run itself (stopped, overloaded)
 * is not held against the others.
 *
 * In a world that is not connected throughout (topology.h) "others" are those that both this rank and the one in
 * question are connected to. Rank 0 watches everybody; the rest watch rank 0 alone, and the other ranks they are
 * connected to are witnesses, who send nothing while all is well. Somebody missed is a reason to ask them, and they ask
 * in turn; a witness that does not answer in an eighth of the timeout is missed, too.
 */
#ifndef RF_TRANSPORT_MESH_DETECTOR_H
#define RF_TRANSPORT_MESH_DETECTOR_H

#include "base/error.h"

typedef struct rf_detector rf_detector;

#define RF_HOLD_NS UINT64_C(50000000)
/* A closed connection to a rank that others say they still hear: time for their word to change, since the end of a
 * process does not reach everybody at the same moment. */
#define RF_HOLD_DOUBT_NS UINT64_C(600000000)
/* A word on a closed connection counts when it came this long after we saw the end ourselves. */
#define RF_HOLD_PROBE_NS UINT64_C(300000000)

typedef enum rf_peer_loss {
    RF_PEER_LOSS_CLOSED,
    RF_PEER_LOSS_SILENT,
    RF_PEER_LOSS_CUT_OFF,
    RF_PEER_LOSS_LINK
} rf_peer_loss;

typedef struct rf_finding {
    uint32_t culprit;
    rf_peer_loss loss;
    uint64_t silent_ns;     /* how long nothing was heard */
    uint32_t link[2];       /* RF_PEER_LOSS_LINK: the two ends */
    uint32_t missed, world; /* RF_PEER_LOSS_CUT_OFF: ranks missed */
} rf_finding;

rf_result rf_detector_create(uint32_t rank, uint32_t world, uint64_t interval_ns, uint64_t timeout_ns, uint64_t now,
                             rf_detector **out);
void rf_detector_destroy(rf_detector **detector);

/* First thing after waking up; `planned` is when the caller meant to wake at the latest. */
void rf_detector_woke(rf_detector *d, uint64_t now, uint64_t planned);
void rf_detector_heard(rf_detector *d, uint32_t peer, uint64_t now);
/* A sign of life of a peer that is watched, which was given at some earlier time. */
void rf_detector_heard_at(rf_detector *d, uint32_t peer, uint64_t at);
/* A heartbeat's list: first forget what `peer` said before, then each rank that it misses. */
void rf_detector_clear_late(rf_detector *d, uint32_t peer, uint64_t now);
void rf_detector_set_late(rf_detector *d, uint32_t peer, uint32_t late);
/* Said goodbye: no longer watched, its closed connection is in order. */
void rf_detector_left(rf_detector *d, uint32_t peer);
/* False when it has left or was closed before. */
bool rf_detector_closed(rf_detector *d, uint32_t peer, uint64_t now);

/* Whether heartbeats are expected of a peer while all is well. */
bool rf_detector_watches(const rf_detector *d, uint32_t peer);
/* Whether there is a reason to ask all peers at once, which the caller does then. Never in a world that is connected
 * throughout: there everybody beats anyway. */
bool rf_detector_alarm(rf_detector *d, uint64_t now);
/* Nobody is asked or lost: as long as those that are watched give signs of life there is nothing to judge. */
bool rf_detector_calm(const rf_detector *d);
/* The ranks this worker misses, for its heartbeats; `ranks` has room for world size. */
uint32_t rf_detector_late(const rf_detector *d, uint64_t now, uint32_t *ranks);
/* Whether a rank is lost, and which. */
bool rf_detector_judge(const rf_detector *d, uint64_t now, rf_finding *out);
/* When judging again may bring something new, if nothing arrives. */
uint64_t rf_detector_next(const rf_detector *d, uint64_t now);

/* "silent for 2.0 s"... */
void rf_finding_text(const rf_finding *finding, char *text, size_t size);

#endif
