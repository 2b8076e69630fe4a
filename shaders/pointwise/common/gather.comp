#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/* y [batch, outer, places, inner]: of x [batch, outer, choices, inner] what the indices [batch,
 * places] name, W neighbours an invocation. A dispatch may have only some of the choices: it leaves
 * the places of others alone. One of them marks the places of indices that name nothing with NaN.
 * Elements of 16 bits are copied as words of two. Where TYPES has bit 2, those of x are f32, and
 * rounded to 16 bits. */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "include/wide.glsl"
#include "include/division.glsl"
#if W > 1
#define RF_TYPES_ID 1
#include "include/stored.glsl"
#endif

#if W == 4
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
layout(std430, binding = 0) readonly buffer X { WORDS x[]; };
layout(std430, binding = 1) readonly buffer Indices { uint indices[]; };
layout(std430, binding = 2) writeonly buffer Y { WORDS y[]; };
#if W == 4
layout(std430, binding = 2) writeonly buffer Halves { uvec2 halves[]; };
#endif

void main()
{
    const uint t = rf_invocation();
    if (t >= p.count) return;
    const uint item = t;
    const uint row = rf_divide(item, p.inner_magic, p.inner_shift), k = item - row * p.inner;
    const uint slab = rf_divide(row, p.places_magic, p.places_shift), place = row - slab * p.places;
    const uint batch = rf_divide(slab, p.outer_magic, p.outer_shift);
    /* As unsigned numbers negative ones are too large. */
    const uint index = indices[p.indices_offset + batch * p.places + place],
        choice = index - p.first;
    const bool known = choice < p.choices, marked = p.mark != 0u && index >= p.all_choices;
    if (!known && !marked) return;
    WORDS words = WORDS(p.mark);
    if (known) words = x[p.x_offset + (slab * p.choices + choice) * p.inner + k];
#if W == 4
    if (RF_NARROW(2))
        halves[p.y_offset + t] = rf_narrow(RF_STORED_TYPE, uintBitsToFloat(words));
    else
#endif
        y[p.y_offset + t] = words;
}
