/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workers of a job as a strategy sees them: each sends a few bytes to all others. Without a communicator, or in
 * a world of one, nothing leaves the process. All of these are collective. A failure of the communicator sticks to it.
 */
#ifndef RF_REPLICA_WORLD_H
#define RF_REPLICA_WORLD_H

#include <ringfire/comm.h>

#include "base/error.h"

typedef struct rf_world {
    rf_comm *comm; /* NULL: none */
    uint32_t rank, size;
    uint32_t *first;  /* [size + 1]: number of each rank's first replica, then that of all */
    uint64_t *counts; /* [size]: room */
} rf_world;

/* Takes `comm` (NULL: this process alone). */
rf_result rf_world_create(rf_comm *comm, rf_world *out);
void rf_world_free(rf_world *world);
/* To the other workers this one has ended in good order. Collective calls fail from here on. */
void rf_world_leave(rf_world *world);

static inline uint32_t rf_world_rank_of(const rf_world *world, uint32_t replica)
{
    uint32_t rank = 0;
    while (rank + 1 < world->size && replica >= world->first[rank + 1]) rank++;
    return rank;
}

/* `size` bytes of each rank, in order of rank. */
rf_result rf_world_gather(rf_world *world, const char *name, const void *mine, void *all, size_t size);
/* `size` bytes of each replica, in order of replica; `mine` holds this worker's. */
rf_result rf_world_gather_replicas(rf_world *world, const char *name, const void *mine, void *all, size_t size);
/* sizes[r] bytes of rank r. */
rf_result rf_world_gather_bytes(rf_world *world, const char *name, const void *mine, void *all, const uint64_t *sizes);
/* From the worker of a replica to all. */
rf_result rf_world_broadcast(rf_world *world, const char *name, void *data, size_t size, uint32_t replica);

#endif
