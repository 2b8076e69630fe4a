#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of up to four tensors one behind the other, whatever their lengths: four elements of the result an invocation, read by texels of
 * one from every tensor, of which one has it.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#include "include/wide.glsl"
#include "include/division.glsl"

layout(constant_id = 1) const uint INPUTS = 4;
layout(push_constant) uniform Push {
    uint count, columns, magic, shift; /* of the result: elements, those of a row and the division by them */
    uint begin[5];                     /* of each tensor in a row, and the end of the last one */
} p;
layout(binding = 0) uniform samplerBuffer x0;
layout(binding = 1) uniform samplerBuffer x1;
layout(binding = 2) uniform samplerBuffer x2;
layout(binding = 3) uniform samplerBuffer x3;
layout(std430, binding = 4) writeonly buffer Y { u64vec2 y[]; };
layout(std430, binding = 4) writeonly buffer YOne { float y_one[]; };

float element(uint row, uint column)
{
    float v = 0.0;
#define FROM(i)                                                                                                        \
    if (INPUTS > i) {                                                                                                  \
        bool own = column >= p.begin[i] && column < p.begin[i + 1];                                                    \
        uint at = row * (p.begin[i + 1] - p.begin[i]) + column - p.begin[i];                                           \
        float there = texelFetch(x##i, int(own ? at : 0u)).x;                                                          \
        v = own ? there : v;                                                                                           \
    }
    FROM(0) FROM(1) FROM(2) FROM(3)
    return v;
}

/* All invocations take part throughout: those beyond the end read what the last one does. Rows have four elements at least. */
void main()
{
    uint t = rf_invocation(), first = 4 * t, from = min(first, p.count - 1);
    uint row = rf_divide(from, p.magic, p.shift), column = from - row * p.columns;
    vec4 v;
    [[unroll]] for (uint k = 0; k < 4; k++) {
        bool next = column + k >= p.columns, beyond = from + k >= p.count;
        v[k] = element(next && !beyond ? row + 1 : row, beyond ? column : next ? column + k - p.columns : column + k);
    }
    bool whole = first + 3 < p.count;
    RF_WRITE4(y, whole, t, v)
    if (!whole)
        [[unroll]] for (uint k = 0; k < 3; k++)
            if (first + k < p.count) y_one[first + k] = v[k];
}
