#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/* y [batch, outer, places, inner]: of x [batch, outer, choices, inner] what the indices [batch, places] name, W neighbours
 * an invocation. A dispatch may have only some of the choices: it leaves the places of others
 * alone. One of them marks the places of indices that name nothing with NaN. */
#extension GL_GOOGLE_include_directive : require
#if W == 8
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#endif
#include "include/wide.glsl"
#include "include/division.glsl"

#if W == 8
#define WORDS u64vec4
#define NOTHING WORDS(0x7fc000007fc00000ul)
#elif W == 4
#define WORDS uvec4 /* copied bit by bit */
#else
#define WORDS uint
#endif
#if W != 8
#define NOTHING WORDS(0x7fc00000u)
#endif

layout(push_constant) uniform Push {
    uint count, inner, inner_magic, inner_shift, places, places_magic, places_shift, outer_magic, outer_shift;
    uint first, choices, all_choices; /* this dispatch has `choices` of them from `first` on */
    uint x_offset, indices_offset, y_offset;
    uint marks;
} p;
#if W == 8
layout(binding = 0) uniform samplerBuffer x; /* of fours: software devices fetch these at once */
#define X(i) rf_pack(Reg(texelFetch(x, int(2 * (i))), texelFetch(x, int(2 * (i) + 1))))
#else
layout(std430, binding = 0) readonly buffer X { WORDS x[]; };
#define X(i) x[i]
#endif
layout(std430, binding = 1) readonly buffer Indices { uint indices[]; };
layout(std430, binding = 2) writeonly buffer Y { WORDS y[]; };

void main()
{
    const uint t = rf_invocation();
    if (t >= p.count) return;
    const uint row = rf_divide(t, p.inner_magic, p.inner_shift), k = t - row * p.inner;
    const uint slab = rf_divide(row, p.places_magic, p.places_shift), place = row - slab * p.places;
    const uint batch = rf_divide(slab, p.outer_magic, p.outer_shift);
    /* As unsigned numbers negative ones are too large. */
    const uint index = indices[p.indices_offset + batch * p.places + place], choice = index - p.first;
    if (choice < p.choices)
        y[p.y_offset + t] = X(p.x_offset + (slab * p.choices + choice) * p.inner + k);
    else if (p.marks != 0u && index >= p.all_choices)
        y[p.y_offset + t] = NOTHING;
}
