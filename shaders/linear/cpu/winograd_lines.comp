/* SPDX-License-Identifier: Apache-2.0 */
/*
 * B^T along the lines of images, for lanes_winograd_4.comp: six matrices [line][block of four
 * pixels][channel], each of one combination of the six pixels that a block depends on. A line of
 * zeros follows the last one.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#define W 8
#define TEXEL
#include "include/wide.glsl"
#include "winograd_4.glsl"

layout(binding = 0) uniform samplerBuffer from;
layout(std430, binding = 1) writeonly buffer To { VEC to[]; };
layout(push_constant) uniform P {
    int total;      /* eights of a matrix */
    int eights;     /* of a pixel */
    int fours;      /* of a pixel of `from` */
    int block_line; /* blocks of a line */
    int lines, w;   /* of `from` */
    int pad_x;
};

void main()
{
    int i = int(rf_invocation()), item = min(i, total - 1);
    int block = item / eights, eight = item - block * eights, line = block / block_line;
    int first_x = (block - line * block_line) * 4 - pad_x,
        first = (line * w + first_x) * fours + eight * 2;
    int to_second = eight * 2 + 1 < fours ? 1 : 0;
    vec4 d[2][6], t[2][6];
    [[unroll]] for (int x = 0; x < 6; x++) {
        bool there = line < lines && uint(first_x + x) < uint(w);
        int at = there ? first + x * fours : 0;
        vec4 low = texelFetch(from, at), high = texelFetch(from, at + to_second);
        d[0][x] = there ? low : vec4(0.0);
        d[1][x] = there ? high : vec4(0.0);
    }
    TIMES_B(t[0], d[0])
    TIMES_B(t[1], d[1])
    [[unroll]] for (int x = 0; x < 6; x++) {
        uint at = uint(x * total + i), end = uint(x * total + total);
        Reg r = Reg(t[0][x], t[1][x]);
        RF_WRITE(to, end, at, r)
    }
}
