#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of the places of a gather that take the same, in order: for devices on which one invocation is fast. Places are split
 * into parts, whose lists nobody else touches. CLEAR: lists without places. Otherwise an invocation makes the lists of a part
 * and begins with its last place, so that the first one becomes the head. */
#extension GL_GOOGLE_include_directive : require
#include "include/reduction.glsl"
#include "include/division.glsl"

layout(push_constant) uniform Push {
    uint count;                              /* of all places; CLEAR: of heads */
    uint places, places_magic, places_shift; /* of one batch */
    uint first, choices, keys;               /* this dispatch has `choices` of them from `first` on, in all batches `keys` */
    uint indices_offset;
    uint parts, part_size;                   /* in places */
} p;

layout(std430, binding = 0) readonly buffer Indices { uint indices[]; };
layout(std430, binding = 1) buffer Heads { uint heads[]; };
layout(std430, binding = 2) writeonly buffer Next { uint next[]; };

void main()
{
#ifdef CLEAR
    const uint t = rf_thread();
    if (t < p.count) heads[t] = 0u;
#else
    const uint part = rf_thread();
    if (part >= p.parts) return;
    const uint first = part * p.part_size, end = min(first + p.part_size, p.count);
    for (uint after = end; after > first; after--) {
        const uint place = after - 1, choice = indices[p.indices_offset + place] - p.first;
        if (choice >= p.choices) continue;
        const uint at = part * p.keys + rf_divide(place, p.places_magic, p.places_shift) * p.choices + choice;
        next[place] = heads[at];
        heads[at] = after;
    }
#endif
}
