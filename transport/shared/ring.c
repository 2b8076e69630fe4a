/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/shared/ring.h"

#include <string.h>

/* A message: a line whose first eight bytes are its size, then its bytes, up to the end of a line. */
static uint64_t message_space(uint64_t size)
{
    return RF_RING_LINE + (size + RF_RING_LINE - 1) / RF_RING_LINE * RF_RING_LINE;
}

static uint8_t *ring_at(const rf_ring *ring, uint64_t count)
{
    return ring->data + (count & (ring->capacity - 1));
}

/* ---- writer ---- */

/* How far the reader is now. */
static rf_result reader_look(rf_ring *ring)
{
    const uint64_t read = atomic_load_explicit(&ring->counts->read, memory_order_acquire);
    if (read < ring->read || read > ring->written)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "it says that it has read %llu bytes of shared memory, of %llu",
                       (unsigned long long)read, (unsigned long long)ring->written);
    ring->read = read;
    return RF_OK;
}

rf_result rf_ring_write(rf_ring *ring, const struct iovec *parts, uint32_t num_parts)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < num_parts; i++) size += parts[i].iov_len;
    if (size > rf_ring_limit(ring->capacity))
        return RF_FAIL(RF_ERROR_INTERNAL, "a message of %llu bytes is longer than shared memory takes",
                       (unsigned long long)size);
    const uint64_t space = message_space(size);
    if (ring->written + space - ring->read > ring->capacity) {
        RF_TRY(reader_look(ring));
        ring->wanted = space;
        if (ring->written + space - ring->read > ring->capacity) return RF_END;
    }
    uint8_t *to = ring_at(ring, ring->written);
    memcpy(to, &size, sizeof(size));
    to += RF_RING_LINE;
    for (uint32_t i = 0; i < num_parts; i++) {
        if (parts[i].iov_len > 0) memcpy(to, parts[i].iov_base, parts[i].iov_len);
        to += parts[i].iov_len;
    }
    ring->written += space;
    atomic_store(&ring->counts->written, ring->written);
    return RF_OK;
}

bool rf_ring_has_room(const rf_ring *ring)
{
    const uint64_t read = atomic_load(&ring->counts->read);
    return ring->written + ring->wanted - read <= ring->capacity || read > ring->written;
}

/* ---- reader ---- */

rf_result rf_ring_read(rf_ring *ring, const uint8_t **data, size_t *size, uint64_t *end)
{
    if (ring->next == ring->written) {
        const uint64_t written = atomic_load_explicit(&ring->counts->written, memory_order_acquire);
        if (written < ring->written || written - ring->read > ring->capacity || written % RF_RING_LINE != 0)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA,
                           "it says that it has written %llu bytes of shared memory, after %llu, of which %llu were "
                           "read",
                           (unsigned long long)written, (unsigned long long)ring->written,
                           (unsigned long long)ring->read);
        if (written == ring->written) return RF_END;
        ring->written = written;
    }
    /* Read once: the writer may still change it. */
    const uint64_t claimed =
        atomic_load_explicit((_Atomic uint64_t *)(void *)ring_at(ring, ring->next), memory_order_relaxed);
    const uint64_t there = ring->written - ring->next;
    if (claimed > rf_ring_limit(ring->capacity) || message_space(claimed) > there)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "a message of %llu bytes in shared memory, where %llu were written",
                       (unsigned long long)claimed, (unsigned long long)there);
    *data = ring_at(ring, ring->next) + RF_RING_LINE;
    *size = (size_t)claimed;
    ring->next += message_space(claimed);
    *end = ring->next;
    return RF_OK;
}

bool rf_ring_has_message(const rf_ring *ring)
{
    return ring->next != ring->written || atomic_load(&ring->counts->written) != ring->written;
}

void rf_ring_release(rf_ring *ring, uint64_t end)
{
    ring->read = end;
    atomic_store(&ring->counts->read, end);
}
