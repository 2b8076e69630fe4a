/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that two processes share: a memfd, which no other process can open, sealed so that it keeps its size (who
 * reads beyond the end of a file that was made shorter is killed). A page of counts, then the bytes of the two rings,
 * each mapped twice in a row.
 */
#ifndef RF_TRANSPORT_SHARED_SEGMENT_H
#define RF_TRANSPORT_SHARED_SEGMENT_H

#include "transport/shared/ring.h"

/* Bytes of one ring. Four chunks of the largest size, so that the writer is not held up by a reader that adds. */
#define RF_SHARED_RING (UINT64_C(1) << 21)

/* The beginning of the shared memory. Side 0 is the lower rank, whose ring 0 it writes. */
typedef struct rf_shared_head {
    rf_ring_counts rings[2];
    /* The events that side 0 and side 1 want to be woken for; RF_WISH_*. The side that fulfils it clears it. */
    struct {
        _Alignas(RF_RING_LINE) _Atomic uint32_t wish;
    } sides[2];
} rf_shared_head;

enum { RF_WISH_MESSAGE = 1, RF_WISH_ROOM = 2 };

typedef struct rf_shared_segment {
    rf_shared_head *head;
    uint8_t *data[2];
    size_t page;
} rf_shared_segment;

/* A new one; *fd is for the other side, the caller closes it. */
rf_result rf_shared_segment_create(rf_shared_segment *out, int *fd);
/* One that another process has made. RF_ERROR_CORRUPT_DATA where it is not what rf_shared_segment_create() makes. */
rf_result rf_shared_segment_open(rf_shared_segment *out, int fd);
void rf_shared_segment_close(rf_shared_segment *segment);
/* The ring that this side writes (`out`), or reads. */
rf_ring rf_shared_segment_ring(const rf_shared_segment *segment, uint32_t side, bool out);

#endif
