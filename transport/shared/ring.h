/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages through memory that two processes share: one writer, one reader, no system calls. The writer copies a
 * message in and publishes how far it has written; the reader uses the message where it is and publishes how far it has
 * read. Both count bytes since the beginning and never wrap.
 *
 * Counts are published, and looked at before a sleep, in one order for both sides (sequentially consistent), as wishes
 * to be woken are: no wake-up is lost.
 *
 * Numbers that the other side writes are not trusted. Each side works with counts of its own; those of the other side
 * are read once, checked (they never go back, nor further than the memory), and only then used. Bytes of a message may
 * change while they are read: what decides anything must be copied first.
 */
#ifndef RF_TRANSPORT_SHARED_RING_H
#define RF_TRANSPORT_SHARED_RING_H

#include <stdatomic.h>
#include <sys/uio.h>

#include "base/error.h"

#define RF_RING_LINE 64 /* of a cache; messages begin at multiples of it */

/* How far both sides are, each in a line of its own. In shared memory. */
typedef struct rf_ring_counts {
    _Alignas(RF_RING_LINE) _Atomic uint64_t written;
    _Alignas(RF_RING_LINE) _Atomic uint64_t read;
} rf_ring_counts;

/* One side of a ring. */
typedef struct rf_ring {
    rf_ring_counts *counts;
    uint8_t *data;     /* `capacity` bytes, and once more the same bytes behind them: no message is cut */
    uint64_t capacity; /* power of two */
    uint64_t written;  /* the writer's own count; the reader's: as far as the writer was when it last looked */
    uint64_t read;     /* the other way round */
    uint64_t next;     /* reader: begin of the next message; those before it may still be in use */
    uint64_t wanted;   /* writer: what the message takes for which there was no room */
} rf_ring;

/* The longest message: two of them always fit. */
static inline size_t rf_ring_limit(uint64_t capacity)
{
    return capacity / 2 - RF_RING_LINE;
}

/* Writer. One message of some buffers. RF_END: no room yet. RF_ERROR_CORRUPT_DATA: the reader's count cannot be. */
rf_result rf_ring_write(rf_ring *ring, const struct iovec *parts, uint32_t num_parts);
/* After RF_END: whether there is room now. A reader that lies has some: the next write finds it out. */
bool rf_ring_has_room(const rf_ring *ring);

/* Reader. The next message, in shared memory until it is released; *end names it then. RF_END: there is none.
 * RF_ERROR_CORRUPT_DATA: the writer's count or the message's size cannot be. */
rf_result rf_ring_read(rf_ring *ring, const uint8_t **data, size_t *size, uint64_t *end);
bool rf_ring_has_message(const rf_ring *ring);
/* Gives back the memory of all messages up to this one. */
void rf_ring_release(rf_ring *ring, uint64_t end);
/* Whether at least half of the memory is free, as far as this side knows: worth waking the writer for. */
static inline bool rf_ring_is_half_free(const rf_ring *ring)
{
    return ring->written - ring->read <= ring->capacity / 2;
}

#endif
