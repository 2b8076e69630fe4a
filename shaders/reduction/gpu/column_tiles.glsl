// SPDX-License-Identifier: Apache-2.0
// Columns of a matrix on GPUs: a workgroup takes a strip of `width` neighbouring columns and a part
// of the rows, and its
// invocations read `lines` rows of it at once, neighbours what is next to each other. Then the
// lines are merged in shared
// memory. Where there are several parts, the workgroup that comes last merges what all of them left
// behind. The order is always
// the same. src/ops/reduction/gpu/column_tiles.h says how a device cuts a matrix. ARRIVALS: the
// binding of the counters.
#ifndef RF_STRIPS_GLSL
#define RF_STRIPS_GLSL

#include "include/reduction.glsl"

const uint STRIP_LANES = 256; // the most that a workgroup has

// Where an invocation stands; with `left` lines of its own from row `first` on.
struct Place {
    uint part, strip, line, column, first, left;
};

Place rf_place(uint group, uint rows, uint columns, uint part_rows, uint strips, uint width,
    uint lines)
{
    Place p;
    const uint lane = gl_LocalInvocationID.x;
    p.part = group / strips;
    p.strip = group - p.part * strips;
    p.line = lane / width;
    p.column = p.strip * width + (lane - p.line * width);
    p.first = p.part * part_rows + p.line;
    const uint end = min(rows, (p.part + 1) * part_rows);
    const bool busy = p.line < lines && p.column < columns && p.first < end;
    p.left = busy ? (end - p.first + lines - 1) / lines : 0;
    return p;
}

// zero before and after
layout(std430, binding = ARRIVALS) coherent buffer Arrivals { uint arrivals[]; };
shared uint arrived;

// After what a workgroup found is written: whether the other parts of its strip have written
// theirs.
bool rf_all_arrived(uint counter, uint parts)
{
    memoryBarrierBuffer();
    barrier();
    if (gl_LocalInvocationID.x == 0) arrived = atomicAdd(arrivals[counter], 1u);
    barrier();
    if (arrived != parts - 1) return false;
    memoryBarrierBuffer();
    if (gl_LocalInvocationID.x == 0) arrivals[counter] = 0u;
    return true;
}

// MERGE(a, b) takes line b of a column into line a.
#define RF_MERGE_LINES(place, width, lines, merges)                                                \
    barrier();                                                                                     \
    for (uint half_of = merges; half_of > 0; half_of /= 2) {                                       \
        const uint lane = gl_LocalInvocationID.x;                                                  \
        if (place.line < half_of && place.line + half_of < lines) MERGE(lane,                      \
            lane + half_of * width);                                                               \
        barrier();                                                                                 \
    }

#endif
