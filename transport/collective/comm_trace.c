/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks in the trace of include/ringfire/profile.h: a line for each peer and direction. */
#include <stdio.h>

#include "base/profiler.h"
#include "transport/collective/comm_engine_internal.h"

void rf_engine_trace_chunk(rf_engine *e, rf_peer *peer, const rf_chunk *chunk, bool out)
{
    if (chunk->posted_ns == 0) return;
    const uint64_t end = rf_now_ns();
    if (peer->tracks[out] == 0) {
        char name[48];
        snprintf(name, sizeof(name), "%s rank %u", out ? "to" : "from", peer->rank);
        peer->tracks[out] = rf_profiler_track(name);
        if (peer->tracks[out] == 0) return;
    }
    /* Several are under way at a time; the wire carries one after the other. */
    const uint64_t begin = chunk->posted_ns > peer->traced_ns[out] ? chunk->posted_ns : peer->traced_ns[out];
    peer->traced_ns[out] = end;
    rf_profiler_event(
        &(rf_span_event){ .category = "chunk",
                          .name = out ? "send" : "receive",
                          .begin_ns = begin,
                          .end_ns = end,
                          .track = peer->tracks[out],
                          .args = { { "bytes", (int64_t)(chunk->count * e->wire_element) }, { "peer", peer->rank } } });
}
