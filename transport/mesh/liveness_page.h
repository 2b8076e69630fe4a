/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signs of life of the ranks that share a host with rank 0, where it passes on (topology.h): memory with a line for
 * each rank, in which it writes the time and how far it is. Reading a line costs next to nothing; a heartbeat over a
 * connection wakes its receiver, who then reads, verifies, seals and sends: 0.2 ms of a processor, most of it spent on
 * memory that is no longer in any cache. Whoever has no line that moves is sent heartbeats.
 */
#ifndef RF_TRANSPORT_MESH_LIVENESS_PAGE_H
#define RF_TRANSPORT_MESH_LIVENESS_PAGE_H

#include <stdatomic.h>

#include "base/error.h"

typedef struct rf_liveness_line {
    _Atomic uint64_t beat_ns;         /* rf_now_ns() of its rank, 0: it does not use the liveness page */
    _Atomic uint64_t begun, finished; /* operations */
    uint8_t unused[40];               /* a cache line for each rank */
} rf_liveness_line;

typedef struct rf_liveness_page {
    rf_liveness_line *lines; /* [world] */
    uint32_t world;
} rf_liveness_page;

/* Rank 0 makes the memory. *fd is to be passed to the others and closed. */
rf_result rf_liveness_create(uint32_t world, rf_liveness_page *out, int *fd);
/* Checks that the memory has the right size and keeps it; the caller closes `fd`. */
rf_result rf_liveness_open(uint32_t world, int fd, rf_liveness_page *out);
void rf_liveness_close(rf_liveness_page *liveness);

/* Those who write and read in a doze (thread.c) have these in the page of their own code. The caller of operations
 * writes which there are: a doze would have to look for it in a page of its own. */
static inline void rf_liveness_write(rf_liveness_line *line, uint64_t now)
{
    atomic_store_explicit(&line->beat_ns, now, memory_order_release);
}

/* Written after `now` was read, on another processor; not by a process whose clock goes ahead. */
#define RF_BOARD_AHEAD_NS UINT64_C(1000000000)

/* When the rank of this line gave its last sign of life, 0: it never did, or the two have different clocks. */
static inline uint64_t rf_liveness_read(const rf_liveness_line *line, uint64_t now)
{
    const uint64_t at = atomic_load_explicit(&line->beat_ns, memory_order_acquire);
    if (at <= now) return at;
    return at - now < RF_BOARD_AHEAD_NS ? now : 0;
}

#endif
