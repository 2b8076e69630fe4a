#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/* dx [batch, outer, choices, inner]: the sum of dy [batch, outer, places, inner] over the places
 * whose index [batch, places] is this choice, in the order of the places; W neighbours an
 * invocation. Plain: each looks through all places. Otherwise places are sorted by choice
 * (gather_sort.comp). A block is `block_size` sorted places; BLOCKS adds up those that belong to
 * one choice as a whole, so that a choice with many places has few numbers to add. ROWS has an
 * invocation for each choice; FEW, where places are fewer, one for each place, of which the first
 * of its choice adds and the others rest. */
#extension GL_GOOGLE_include_directive : require
#include "include/wide.glsl"
#include "include/division.glsl"

layout(push_constant) uniform Push {
    uint count, inner, inner_magic, inner_shift, outer, outer_magic, outer_shift;
    uint places, places_magic, places_shift, choices, choices_magic, choices_shift;
    uint block_size, unknown;   /* of a block; the key of indices that name nothing */
    /* first choice of this dispatch; whether dx holds the sum of places before */
    uint first, adds;
    uint dy_offset, indices_offset, dx_offset;
} p;

layout(std430, binding = 0) readonly buffer Dy { VEC dy[]; };
#ifdef FEW
#define ROWS
#endif
#if defined(BLOCKS) || defined(ROWS)
/* key, place with its batch */
layout(std430, binding = 1) readonly buffer Sorted { uvec2 sorted[]; };
#else
layout(std430, binding = 1) readonly buffer Indices { uint indices[]; };
#endif
#ifdef BLOCKS
layout(std430, binding = 2) writeonly buffer Sums { VEC sums[]; };
#else
layout(std430, binding = 2) buffer Dx { VEC dx[]; };
#endif
#ifdef ROWS
/* of each key among the sorted */
layout(std430, binding = 3) readonly buffer Spans { uvec2 spans[]; };
layout(std430, binding = 4) readonly buffer Sums { VEC sums[]; };
#endif

#define ADD(v) sum.lo += rf_unpack(v).lo;
#define ADD_DY(i) ADD(dy[i])

void main()
{
    const uint t = rf_invocation();
    if (t >= p.count) return;
    const uint row = rf_divide(t, p.inner_magic, p.inner_shift), k = t - row * p.inner;
    Reg sum = rf_splat(0.0);
#ifdef BLOCKS
    const uint block = rf_divide(row, p.outer_magic, p.outer_shift), outer = row - block * p.outer;
    const uint first = block * p.block_size, key = sorted[first].x;
    if (key == p.unknown || sorted[first + p.block_size - 1].x != key) return;
    const uint batch = rf_divide(sorted[first].y, p.places_magic, p.places_shift);
    const uint skipped = batch * (p.outer - 1) * p.places + outer * p.places;
    for (uint i = first; i < first + p.block_size; i++) ADD_DY(p.dy_offset +
        (sorted[i].y + skipped) * p.inner + k)
    sums[t] = rf_pack(sum);
#else
#if defined(FEW)
    const uint at = rf_divide(row, p.outer_magic, p.outer_shift), outer = row - at * p.outer,
        key = sorted[at].x;
    if (key == p.unknown || (at > 0 && sorted[at - 1].x == key)) return;
    const uint batch = rf_divide(key, p.choices_magic, p.choices_shift);
    const uint goal = p.dx_offset + (key + (batch * (p.outer - 1) + outer) * p.choices) * p.inner +
        k;
#else
    const uint slab = rf_divide(row, p.choices_magic, p.choices_shift),
        choice = row - slab * p.choices;
    const uint batch = rf_divide(slab, p.outer_magic, p.outer_shift),
        outer = slab - batch * p.outer;
    const uint key = batch * p.choices + choice, goal = p.dx_offset + t;
#endif
    if (p.adds != 0u) sum = rf_unpack(dx[goal]);
#ifdef ROWS
    const uint skipped = batch * (p.outer - 1) * p.places + outer * p.places;
    const uvec2 span = spans[key];
    const uint low = (span.x + p.block_size - 1) / p.block_size, high = span.y / p.block_size;
    const bool blocks = low < high;
    const uint head = blocks ? low * p.block_size : span.y,
        tail = blocks ? high * p.block_size : span.y;
    for (uint i = span.x; i < head; i++) ADD_DY(p.dy_offset + (sorted[i].y + skipped) * p.inner + k)
    for (uint b = low; b < high; b++) ADD(sums[(b * p.outer + outer) * p.inner + k])
    for (uint i = tail; i < span.y; i++) ADD_DY(p.dy_offset + (sorted[i].y + skipped) * p.inner + k)
#else
    for (uint place = 0; place < p.places; place++)
        if (indices[p.indices_offset + batch * p.places + place] == p.first + choice)
            ADD_DY(p.dy_offset + (slab * p.places + place) * p.inner + k)
#endif
    dx[goal] = rf_pack(sum);
#endif
}
