/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recording that several runs submit which are under way at the same time. No recording may be submitted twice before
 * it has ended, so copies of it take turns, as many as there are runs under way: those have frames, of which there are
 * RF_MAX_FRAMES at most.
 */
#ifndef RF_REPLICA_UPDATE_REPEATED_H
#define RF_REPLICA_UPDATE_REPEATED_H

#include "replica/internal.h"

typedef struct rf_repeated_copy {
    rf_gpu_recording *rec;
    uint64_t ticket; /* of its latest submission; 0: none */
} rf_repeated_copy;

typedef struct rf_repeated {
    rf_repeated_copy *items;
    uint32_t count, capacity;
    uint32_t turn;
} rf_repeated;

/* Whether a copy is to be added before the next submission. */
bool rf_repeated_is_busy(const rf_repeated *repeated, const rf_replica *replica);
/* Its turn is next. Takes the recording, also when it fails. */
rf_result rf_repeated_add(rf_repeated *repeated, rf_gpu_recording *recording);
/* There is a copy. Waits where there are no more of them. */
rf_result rf_repeated_submit(rf_repeated *repeated, rf_replica *replica);
void rf_repeated_free(rf_repeated *repeated);

#endif
