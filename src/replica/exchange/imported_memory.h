/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the devices of one process meet without the host's help: one allocation of host memory that all of them have
 * imported. Every replica puts its gradients there; the owner of a segment adds them up with a kernel, in the order of
 * the replicas, and puts new values there, from which the others copy them. The host only waits.
 *
 * That saves a card the way through memory of its own driver, and the host the sum. It is worth nothing where the host
 * reaches all of the devices' memory anyway: there nothing is copied to begin with.
 */
#ifndef RF_REPLICA_EXCHANGE_IMPORTED_MEMORY_H
#define RF_REPLICA_EXCHANGE_IMPORTED_MEMORY_H

#include "replica/store/flat.h"

typedef struct rf_imported_memory {
    void *memory;   /* NULL: there is none */
    rf_flat arrays; /* buffers[r]: all of the memory, as device r sees it; `capacity` is that of one array */
    bool refused;   /* by a driver: not tried again */
} rf_imported_memory;

typedef struct rf_importing_device {
    bool staged;               /* the host reaches its memory only through copies */
    uint64_t import_alignment; /* as rf_gpu_import_alignment() */
} rf_importing_device;

/* Pure. The alignment of memory that suits all of these devices; 0: they do not meet so. */
uint64_t rf_imported_memory_alignment(const rf_importing_device *devices, uint32_t count);
/* Memory for all variables, where it pays and drivers take it. Nothing may be in flight. */
rf_result rf_imported_memory_ensure(rf_strategy *strategy);
void rf_imported_memory_free(rf_strategy *strategy);

/* Where the array of a replica's gradients begins, in elements, and, for num_local, that of values. */
static inline uint64_t rf_imported_memory_array(const rf_imported_memory *memory, uint32_t replica)
{
    return replica * memory->arrays.capacity;
}

/* The host's view of all of it. */
static inline float *rf_imported_memory_mapped(const rf_imported_memory *memory)
{
    return rf_flat_mapped(&memory->arrays, 0);
}

/* Makes a replica's gradients in this range such that adding them changes nothing: those of a replica without examples.
 */
void rf_imported_memory_leave_out(const rf_imported_memory *memory, uint32_t replica, uint64_t begin, uint64_t end);

#endif
