/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the devices of one process meet without the host's help: one allocation of host memory that all of them have
 * imported. Every replica puts its gradients there; the owner of a segment adds them up with a kernel, in the order of
 * the replicas, and puts new values there, from which the others copy them. The host only waits.
 *
 * That saves a card the way through memory of its own driver, and the host the sum. It is worth nothing where the host
 * reaches all of the devices' memory anyway: there nothing is copied to begin with.
 */
#ifndef RF_REPLICA_EXCHANGE_MEETING_H
#define RF_REPLICA_EXCHANGE_MEETING_H

#include "replica/store/flat.h"

typedef struct rf_meeting {
    void *memory;   /* NULL: there is none */
    rf_flat arrays; /* buffers[r]: all of the memory, as device r sees it; `capacity` is that of one array */
    bool refused;   /* by a driver: not tried again */
} rf_meeting;

typedef struct rf_meeting_device {
    bool staged;               /* the host reaches its memory only through copies */
    uint64_t import_alignment; /* as rf_gpu_import_alignment() */
} rf_meeting_device;

/* Pure. The alignment of memory that suits all of these devices; 0: they do not meet so. */
uint64_t rf_meeting_alignment(const rf_meeting_device *devices, uint32_t count);
/* Memory for all variables, where it pays and drivers take it. Nothing may be in flight. */
rf_result rf_meeting_ensure(rf_strategy *strategy);
void rf_meeting_free(rf_strategy *strategy);

/* Where the array of a replica's gradients begins, in elements, and, for num_local, that of values. */
static inline uint64_t rf_meeting_array(const rf_meeting *meeting, uint32_t replica)
{
    return replica * meeting->arrays.capacity;
}

/* The host's view of all of it. */
static inline float *rf_meeting_mapped(const rf_meeting *meeting)
{
    return rf_flat_mapped(&meeting->arrays, 0);
}

/* Makes a replica's gradients in this range such that adding them changes nothing: those of a replica without examples.
 */
void rf_meeting_leave_out(const rf_meeting *meeting, uint32_t replica, uint64_t begin, uint64_t end);

#endif
