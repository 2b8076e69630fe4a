/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recording that several runs submit which are under way at the same time. No recording may be submitted twice before
 * it has ended, so copies of it take turns, as many as there are runs under way: those have frames, of which there are
 * RF_MAX_FRAMES at most.
 */
#ifndef RF_REPLICA_SCHEDULE_RECORDING_RING_H
#define RF_REPLICA_SCHEDULE_RECORDING_RING_H

#include "replica/internal.h"

typedef struct rf_ring_copy {
    rf_gpu_recording *rec;
    uint64_t ticket; /* of its latest submission; 0: none */
} rf_ring_copy;

typedef struct rf_recording_ring {
    rf_ring_copy *items;
    uint32_t count, capacity;
    uint32_t turn;
} rf_recording_ring;

/* Whether a copy is to be added before the next submission. */
bool rf_recording_ring_is_busy(const rf_recording_ring *ring, const rf_replica *replica);
/* Its turn is next. Takes the recording, also when it fails. */
rf_result rf_recording_ring_add(rf_recording_ring *ring, rf_gpu_recording *recording);
/* There is a copy. Waits where there are no more of them. */
rf_result rf_recording_ring_submit(rf_recording_ring *ring, rf_replica *replica);
void rf_recording_ring_free(rf_recording_ring *ring);

#endif
