/* SPDX-License-Identifier: Apache-2.0 */
/*
 * B^T along the lines of images, for lanes_winograd_grad_4.comp: six matrices, each of one
 * combination of the six pixels of a line that a block depends on, in the order in which that
 * kernel reads them: [sixteen channels][walk][line][four blocks side by side][channel]. Blocks lie
 * side by side in lines of all images, one image after the other. A line of zeros follows the last
 * one of a matrix.
 * -DOUTPUTS: A of the four pixels of blocks of outputs.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#define W 8
#define TEXEL
#include "include/wide.glsl"
#include "include/division.glsl"
#include "winograd_grad_4.glsl"

#ifdef OUTPUTS
#define PIXELS 4
#define TRANSFORM TIMES_A_PIXELS
#else
#define PIXELS 6
#define TRANSFORM TIMES_B
#endif

layout(binding = 0) uniform samplerBuffer from;
layout(std430, binding = 1) writeonly buffer To { VEC to[]; };
layout(push_constant) uniform P {
    int total;             /* eights of all lines */
    int eights, fours;     /* of a pixel; of one of `from` */
    int images, h, w;
    int walks, line_blocks; /* blocks side by side: in all images in fours, and in one */
    int pad_x;
    int tile, plane;       /* from sixteen channels to the next, from matrix to matrix, in eights */
    uint eights_magic, eights_shift, h_magic, h_shift, blocks_magic, blocks_shift;
};

void main()
{
    int i = int(rf_invocation()), real = min(i, total - 1);
    int item = int(rf_divide(uint(real), eights_magic, eights_shift)), eight = real - item * eights;
    int line = int(rf_divide(uint(item), blocks_magic, blocks_shift)),
        block = item - line * line_blocks;
    int image = int(rf_divide(uint(line), h_magic, h_shift)), y = line - image * h;
    int position = image * line_blocks + block, walk = position >> 2, first_x = block * 4 - pad_x,
        first = (line * w + first_x) * fours + eight * 2;
    int to_second = eight * 2 + 1 < fours ? 1 : 0;
    bool live = i < total && image < images;
    vec4 d[2][PIXELS], t[2][6];
    [[unroll]] for (int x = 0; x < PIXELS; x++) {
        bool there = live && uint(first_x + x) < uint(w);
        int at = there ? first + x * fours : 0;
        vec4 low = texelFetch(from, at), high = texelFetch(from, at + to_second);
        d[0][x] = there ? low : vec4(0.0);
        d[1][x] = there ? high : vec4(0.0);
    }
    TRANSFORM(t[0], d[0])
    TRANSFORM(t[1], d[1])
    int place = (eight >> 1) * tile + ((walk * h + y) * 4 + (position & 3)) * 2 + (eight & 1);
    place = walk < walks ? place : plane * 6;
    uint at = uint(i < total ? place : plane - 8 + i - total);
    [[unroll]] for (int x = 0; x < 6; x++) {
        uint end = uint((x + 1) * plane);
        Reg r = Reg(t[0][x], t[1][x]);
        RF_WRITE(to, end, at, r)
        at += uint(plane);
    }
}
