#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts the places of a gather by what they take, stably: by the digits of their keys, lowest first
 * (Knuth, TAOCP 3, 5.2.5), each digit in three steps. Integers only: the result is the same
 * whatever runs first.
 * KEYS: a key for each place, and empty spans. COUNT: for each part of the places how often it has
 * each digit. SCAN: where a part's first place of each digit goes. SCATTER: moves the places there.
 * MARK: the span of each key among the sorted. */
#extension GL_GOOGLE_include_directive : require
#include "include/reduction.glsl"
#include "include/division.glsl"

layout(push_constant) uniform Push {
    uint count;                            /* of all places */
    uint places, places_magic, places_shift; /* of one batch */
    /* this dispatch has `choices` of them from `first` on; the key of others */
    uint first, choices, unknown;
    uint indices_offset;
    /* of places; in places; of the digit, and how many there are */
    uint parts, part_size, shift, digits;
} p;

#ifdef KEYS
layout(std430, binding = 0) readonly buffer Indices { uint indices[]; };
layout(std430, binding = 1) writeonly buffer Sorted { uvec2 sorted[]; };
layout(std430, binding = 2) writeonly buffer Spans { uvec2 spans[]; };

void main()
{
    const uint t = rf_thread();
    if (t < p.unknown) spans[t] = uvec2(0u);
    if (t >= p.count) return;
    const uint choice = indices[p.indices_offset + t] - p.first;
    sorted[t] = uvec2(choice < p.choices ? rf_divide(t, p.places_magic, p.places_shift) *
        p.choices + choice : p.unknown, t);
}
#endif

#ifdef COUNT
layout(std430, binding = 0) readonly buffer From { uvec2 from[]; };
layout(std430, binding = 1) buffer Counts { uint counts[]; };

void main()
{
    const uint part = rf_thread();
    if (part >= p.parts) return;
    const uint first = part * p.part_size, end = min(first + p.part_size, p.count);
    for (uint digit = 0; digit < p.digits; digit++) counts[digit * p.parts + part] = 0u;
    for (uint i = first; i < end; i++) counts[(from[i].x >> p.shift & (p.digits - 1)) * p.parts +
        part]++;
}
#endif

#ifdef SCAN
/* One workgroup. */
layout(std430, binding = 0) buffer Counts { uint counts[]; };
shared uint sums[1024]; /* SCAN_LOCAL of src/ops/pointwise/common/gather_grad.c is no more */

void main()
{
    const uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x, all = p.digits * p.parts;
    const uint length = (all + lanes - 1) / lanes, first = min(lane * length, all),
        end = min(first + length, all);
    uint own = 0u;
    for (uint i = first; i < end; i++) own += counts[i];
    sums[lane] = own;
    barrier();
    for (uint step = 1; step < lanes; step *= 2) {
        const uint before = lane >= step ? sums[lane - step] : 0u;
        barrier();
        sums[lane] += before;
        barrier();
    }
    uint sum = sums[lane] - own;
    for (uint i = first; i < end; i++) {
        const uint count = counts[i];
        counts[i] = sum;
        sum += count;
    }
}
#endif

#ifdef SCATTER
layout(std430, binding = 0) readonly buffer From { uvec2 from[]; };
layout(std430, binding = 1) buffer Counts { uint counts[]; };
layout(std430, binding = 2) writeonly buffer To { uvec2 to[]; };

void main()
{
    const uint part = rf_thread();
    if (part >= p.parts) return;
    const uint first = part * p.part_size, end = min(first + p.part_size, p.count);
    for (uint i = first; i < end; i++) {
        const uvec2 place = from[i];
        const uint at = (place.x >> p.shift & (p.digits - 1)) * p.parts + part, goal = counts[at];
        counts[at] = goal + 1;
        to[goal] = place;
    }
}
#endif

#ifdef MARK
layout(std430, binding = 0) readonly buffer Sorted { uvec2 sorted[]; };
layout(std430, binding = 1) writeonly buffer Spans { uint spans[]; };

void main()
{
    const uint t = rf_thread();
    if (t >= p.count) return;
    const uint key = sorted[t].x;
    if (key == p.unknown) return;
    if (t == 0 || sorted[t - 1].x != key) spans[2 * key] = t;
    if (t + 1 == p.count || sorted[t + 1].x != key) spans[2 * key + 1] = t + 1;
}
#endif
