#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of the places of a gather that take the same, in order: for devices on which one
 * subgroup is fast. Places are split into parts, whose lists nobody else touches. CLEAR: lists
 * without places. Otherwise a subgroup makes the lists of a part and begins with its last
 * places, so that the first one becomes the head: of its width of places at once, each looks
 * first for what it takes among those after it there. FEW: one part, whose lists nobody has
 * cleared; those of choices without places hold anything afterwards. */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "include/reduction.glsl"
#include "include/division.glsl"

layout(push_constant) uniform Push {
    uint count;                              /* of all places; CLEAR: of heads */
    uint places, places_magic, places_shift; /* of one batch */
    /* this dispatch has `choices` of them from `first` on, in all batches `keys` */
    uint first, choices, keys;
    uint indices_offset;
    uint parts, part_size;                   /* in places */
} p;

layout(std430, binding = 0) readonly buffer Indices { uint indices[]; };
layout(constant_id = 1) const uint SUBGROUP = 8; /* lanes of one */
layout(std430, binding = 1) coherent buffer Heads { uint heads[]; };
layout(std430, binding = 2) writeonly buffer Next { uint next[]; };

/* The number of a place's list in a part; `keys` where this dispatch has not got its choice. */
uint key_of(uint place)
{
    const uint choice = indices[p.indices_offset + place] - p.first;
    return choice < p.choices ? rf_divide(place, p.places_magic, p.places_shift) * p.choices +
        choice : p.keys;
}

void main()
{
#ifdef CLEAR
    const uint t = rf_thread();
    if (t < p.count) heads[t] = 0u;
#else
    const uint lane = gl_SubgroupInvocationID, part = rf_thread() / SUBGROUP;
    if (part >= p.parts) return;
    const uint first = part * p.part_size, end = min(first + p.part_size, p.count);
    uint block = (end - first + SUBGROUP - 1) / SUBGROUP * SUBGROUP;
    do { /* tests at its end: lavapipe would run the body of others once more */
        block -= SUBGROUP;
        const uint place = first + block + lane;
        const uint key = place < end ? key_of(place) : p.keys, at = part * p.keys + key;
        uint after = 0u; /* one more than a place, as in the lists */
        bool is_first = key != p.keys;
        [[unroll]] for (uint step = 1; step < SUBGROUP; step++) {
            const uint other = subgroupShuffle(key, (lane + step) % SUBGROUP);
            const bool same = other == key, later = lane + step < SUBGROUP;
            after = same && later && after == 0u ? place + step + 1 : after;
            is_first = is_first && !(same && !later);
        }
        if (key != p.keys && after == 0u) after = heads[at];
#ifdef FEW
        /* Whatever was there before cannot be a later place of this choice: such a place would have
         * put its own number there. */
        const uint head = clamp(after, 1u, end);
        if (after <= place + 1 || after > end || key_of(head - 1) != key) after = 0u;
#endif
        subgroupMemoryBarrierBuffer();
        if (key != p.keys) next[place] = after;
        if (is_first) heads[at] = place + 1;
        subgroupMemoryBarrierBuffer();
    } while (block != 0u);
#endif
}
