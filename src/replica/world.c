/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/world.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/platform.h"
#include "base/profiler.h"
#include "transport/collective/comm_internal.h"

/* The epoch of a process that is no job by itself; a job's communicator has begun its trace. */
static uint64_t epoch_of_launcher(void)
{
    const char *text = rf_env("RINGFIRE_EPOCH");
    return text ? strtoull(text, NULL, 10) : 0;
}

rf_result rf_world_create(rf_comm *comm, rf_world *out)
{
    *out = (rf_world){ .comm = comm, .size = 1 };
    if (comm) {
        out->rank = rf_comm_rank(comm);
        out->size = rf_comm_world_size(comm);
    }
    out->first = RF_NEW_ARRAY(uint32_t, (size_t)out->size + 1);
    out->counts = RF_NEW_ARRAY(uint64_t, out->size);
    if (!out->first || !out->counts) return RF_ERROR_OUT_OF_HOST_MEMORY;
    return rf_profiler_join(out->rank, out->size, epoch_of_launcher());
}

void rf_world_leave(rf_world *world)
{
    if (world->comm) rf_comm_leave(world->comm);
}

void rf_world_free(rf_world *world)
{
    rf_comm_destroy(&world->comm);
    rf_free(world->first);
    rf_free(world->counts);
    *world = (rf_world){ 0 };
}

rf_result rf_world_gather_bytes(rf_world *w, const char *name, const void *mine, void *all, const uint64_t *sizes)
{
    if (w->size == 1) {
        if (sizes[0] > 0) memcpy(all, mine, (size_t)sizes[0]);
        return RF_OK;
    }
    return rf_comm_all_gather(w->comm, mine, all, sizes, RF_U8, &(rf_collective_params){ .name = name });
}

rf_result rf_world_gather(rf_world *w, const char *name, const void *mine, void *all, size_t size)
{
    for (uint32_t r = 0; r < w->size; r++) w->counts[r] = size;
    return rf_world_gather_bytes(w, name, mine, all, w->counts);
}

rf_result rf_world_gather_replicas(rf_world *w, const char *name, const void *mine, void *all, size_t size)
{
    for (uint32_t r = 0; r < w->size; r++) w->counts[r] = (uint64_t)(w->first[r + 1] - w->first[r]) * size;
    return rf_world_gather_bytes(w, name, mine, all, w->counts);
}

rf_result rf_world_broadcast(rf_world *w, const char *name, void *data, size_t size, uint32_t replica)
{
    if (w->size == 1) return RF_OK;
    return rf_comm_broadcast(w->comm, data, size, RF_U8, rf_world_rank_of(w, replica),
                             &(rf_collective_params){ .name = name });
}
