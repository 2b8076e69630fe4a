#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/* dx [batch, outer, choices, inner]: the sum of dy [batch, outer, places, inner] over the places
 * whose index [batch, places] is this choice, in the order of the places, which stand in lists
 * (gather_list.comp). An invocation has SPAN vectors of W elements of a row: what a list holds is
 * looked up once for all of them. They are `inner` apart, so that neighbours read and write
 * neighbours. Without FEW each choice has its invocations; with it, where places are fewer, each
 * place has, of which the first of its choice adds and the others rest: dx is zeros before. FEW
 * takes lists of one part. */
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_GOOGLE_include_directive : require
#include "include/wide.glsl"
#include "include/division.glsl"

layout(constant_id = 1) const uint CONTINUES = 0; /* whether dx holds the sum of places before */
layout(push_constant) uniform Push {
    /* inner: invocations for a row */
    uint count, inner, inner_magic, inner_shift, outer, outer_magic, outer_shift;
    uint places, places_magic, places_shift, choices, choices_magic, choices_shift;
    uint parts, keys;      /* lists of a choice; choices of all batches */
    uint first;            /* choice of this dispatch */
    uint unused;           /* here: other kernels push the same */
    uint dy_offset, indices_offset, dx_offset;
} p;

layout(std430, binding = 2) buffer Dx { VEC dx[]; };
/* For lavapipe, which fetches texels at once and copies their bits, also those of integers. */
layout(binding = 0) uniform samplerBuffer dy; /* of fours */
#ifdef FEW
layout(binding = 1) uniform samplerBuffer indices;
#endif
/* of each key in each part: a place + 1, 0: none */
layout(binding = 3) uniform samplerBuffer heads;
/* of each place: the next one + 1 */
layout(binding = 4) uniform samplerBuffer next;
#define WORD(buffer, i) floatBitsToUint(texelFetch(buffer, int(i)).x)

void main()
{
    /* all invocations take part in writing */
    const uint t = rf_invocation(), item = min(t, p.count - 1);
    const uint row = rf_divide(item, p.inner_magic, p.inner_shift), k = item - row * p.inner,
        pitch = p.inner * SPAN;
#ifdef FEW
    const uint at = rf_divide(row, p.outer_magic, p.outer_shift), outer = row - at * p.outer;
    const uint choice = WORD(indices, p.indices_offset + at) - p.first,
        batch = rf_divide(at, p.places_magic, p.places_shift);
    const uint key = batch * p.choices + min(choice, p.choices - 1);
    const bool has = t < p.count && choice < p.choices && WORD(heads, key) == at + 1;
    const uint goal = p.dx_offset + (key + (batch * (p.outer - 1) + outer) * p.choices) * pitch + k;
#else
    const uint at = 0u, slab = rf_divide(row, p.choices_magic, p.choices_shift),
        choice = row - slab * p.choices;
    const uint batch = rf_divide(slab, p.outer_magic, p.outer_shift),
        outer = slab - batch * p.outer;
    const uint key = batch * p.choices + choice, goal = p.dx_offset + row * pitch + k;
    const bool has = t < p.count;
#endif
    const uint skipped = batch * (p.outer - 1) * p.places + outer * p.places;
    Reg sum[SPAN];
    for (uint j = 0; j < SPAN; j++) sum[j] = rf_splat(0.0);
    if (CONTINUES != 0u)
        for (uint j = 0; j < SPAN; j++) sum[j] = rf_unpack(dx[goal + j * p.inner]);
    uint part = 0;
    do {
#ifdef FEW
        uint after = has ? at + 1 : 0u;
#else
        uint after = WORD(heads, part * p.keys + key);
#endif
        /* All leave at once, after as many turns as the longest list has places. A loop that each
         * leaves by itself takes one turn more, in which software devices do all the work for
         * nobody. */
        for (;;) {
            const bool counts = after != 0;
            const uint place = counts ? after - 1 : at,
                from = p.dy_offset + (place + skipped) * pitch + k;
            for (uint j = 0; j < SPAN; j++) {
                const int low = int(2 * (from + j * p.inner));
                const vec4 one = texelFetch(dy, low), other = texelFetch(dy, low + 1);
                sum[j].lo += counts ? one : vec4(0.0);
                sum[j].hi += counts ? other : vec4(0.0);
            }
            after = counts ? WORD(next, place) : 0u;
            if (!subgroupAny(after != 0)) break;
        }
        part++;
    } while (part < p.parts);
    for (uint j = 0; j < SPAN; j++) {
        const uint to = has ? goal + j * p.inner : ~0u;
        RF_WRITE(dx, ~0u, to, sum[j])
    }
}
