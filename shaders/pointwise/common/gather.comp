#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/* y [batch, outer, places, inner]: of x [batch, outer, choices, inner] what the indices [batch,
 * places] name, SPAN times W neighbours an invocation (8: read as texels of four). A dispatch may
 * have only some of the choices: it leaves the places of others alone. One of them marks the places
 * of indices that name nothing with NaN. Elements of 16 bits are copied as words of two. Where
 * TYPES has bit 2, those of x are f32, and rounded to 16 bits. */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#if W == 8
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#endif
#include "include/wide.glsl"
#include "include/division.glsl"
#if W > 1
#define RF_TYPES_ID 1
#include "include/stored.glsl"
#endif

#if W == 8
#define WORDS u64vec4
#elif W == 4
#define WORDS uvec4 /* copied bit by bit */
#else
#define WORDS uint
#endif

layout(push_constant) uniform Push {
    uint count, inner, inner_magic, inner_shift, places, places_magic, places_shift, outer_magic,
        outer_shift;
    uint first, choices, all_choices; /* this dispatch has `choices` of them from `first` on */
    uint x_offset, indices_offset, y_offset;
    uint mark; /* a word of NaN; 0: another dispatch marks */
} p;
#if W == 8
layout(binding = 0) uniform samplerBuffer x; /* of fours: software devices fetch these at once */
#else
layout(std430, binding = 0) readonly buffer X { WORDS x[]; };
#endif
layout(std430, binding = 1) readonly buffer Indices { uint indices[]; };
layout(std430, binding = 2) writeonly buffer Y { WORDS y[]; };
#if W == 8
layout(std430, binding = 2) writeonly buffer Halves { u64vec2 halves[]; };
#elif W == 4
layout(std430, binding = 2) writeonly buffer Halves { uvec2 halves[]; };
#endif

void main()
{
    const uint t = rf_invocation();
#if W == 8
    const uint item = min(t, p.count - 1); /* all invocations take part in writing */
#else
    if (t >= p.count) return;
    const uint item = t;
#endif
    const uint row = rf_divide(item, p.inner_magic, p.inner_shift), k = item - row * p.inner;
    const uint slab = rf_divide(row, p.places_magic, p.places_shift), place = row - slab * p.places;
    const uint batch = rf_divide(slab, p.outer_magic, p.outer_shift);
    /* As unsigned numbers negative ones are too large. */
    const uint index = indices[p.indices_offset + batch * p.places + place],
        choice = index - p.first;
    const bool known = choice < p.choices, marked = p.mark != 0u && index >= p.all_choices;
#if W == 8
    const uint from = known ? 2 * (p.x_offset + ((slab * p.choices + choice) * p.inner + k) *
        SPAN) : 0u;
    const vec4 nothing = uintBitsToFloat(uvec4(p.mark));
    const bool writes = t < p.count && (known || marked);
    [[unroll]] for (uint i = 0; i < SPAN; i++) {
        const vec4 lo = texelFetch(x, int(from + 2 * i)), hi = texelFetch(x, int(from + 2 * i + 1));
        const Reg r = Reg(known ? lo : nothing, known ? hi : nothing);
        const uint to = writes ? p.y_offset + t * SPAN + i : ~0u;
        if (RF_NARROW(2)) {
            const uvec2 low = rf_narrow(RF_STORED_TYPE, r.lo),
                high = rf_narrow(RF_STORED_TYPE, r.hi);
            RF_WRITE_NARROW(halves, ~0u, to, uvec4(low, high))
        } else {
            RF_WRITE(y, ~0u, to, r)
        }
    }
#else
    if (!known && !marked) return;
    WORDS words = WORDS(p.mark);
    if (known) words = x[p.x_offset + (slab * p.choices + choice) * p.inner + k];
#if W == 4
    if (RF_NARROW(2))
        halves[p.y_offset + t] = rf_narrow(RF_STORED_TYPE, uintBitsToFloat(words));
    else
#endif
        y[p.y_offset + t] = words;
#endif
}
