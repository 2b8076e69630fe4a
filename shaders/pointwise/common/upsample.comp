#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images enlarged by whole factors. Forward, an invocation makes an element of the result out of
 * the element it lies on and, bilinearly, the nearest neighbour along each axis. GRAD: an
 * invocation adds up what all results took from its element, in their order. W 4: channels, and so
 * elements, count in fours.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "include/wide.glsl"
#include "include/division.glsl"

layout(push_constant) uniform Push {
    uint rows, threads;                         /* of this dispatch; invocations of a row */
    uint channels, channels_magic, channels_shift;
    uint columns, columns_magic, columns_shift; /* of the result; GRAD: of the image */
    uint height, height_magic, height_shift;    /* of the image */
    uint width;                                 /* of the image */
    uint factor_y, y_magic, y_shift, factor_x, x_magic, x_shift;
    float per_y, per_x;                         /* 1 / 2 factors */
} p;
/* No push constant: lavapipe would run the other way, too. */
layout(constant_id = 1) const uint BILINEAR = 0;

layout(std430, binding = 0) readonly buffer From { VEC from[]; };
layout(std430, binding = 1) writeonly buffer To { VEC to[]; };
#define FROM(i) from[i]

/* Where result r of an element's `factor` results lies, from its middle, in steps of 1 / 2
 * factor. */
int from_middle(uint r, uint factor) { return 2 * int(r) + 1 - int(factor); }

/* The neighbour on that side along an axis of n elements; at the end there is none but the element
 * itself. */
uint neighbour(uint at, int offset, uint n)
{
    return offset < 0 ? at - uint(at > 0u) : at + uint(offset > 0 && at + 1u < n);
}

#ifdef GRAD
/* The results that take from an element: its own and, bilinearly, those of its neighbours that lie
 * on its side. */
uvec2 results_of(uint at, uint factor, uint n)
{
    uint beyond = BILINEAR != 0u ? factor / 2u : 0u;
    return uvec2(at * factor - (at > 0u ? beyond : 0u),
        (at + 1u) * factor + (at + 1u < n ? beyond : 0u));
}

/* How much result number `result` took from element `at`. */
float weight(uint result, uint at, uint factor, float per, uint n)
{
    uint first = at * factor;
    if (BILINEAR == 0u) return 1.0;
    if (result < first) return float(from_middle(result + factor - first, factor)) * per;
    if (result >= first + factor) return -float(from_middle(result - first - factor, factor)) * per;
    int offset = from_middle(result - first, factor);
    return neighbour(at, offset, n) == at ? 1.0 : 1.0 - float(abs(offset)) * per;
}

VEC result_of(uint i)
{
    uint pixel = rf_divide(i, p.channels_magic, p.channels_shift), channel = i - pixel * p.channels;
    uint line = rf_divide(pixel, p.columns_magic, p.columns_shift),
        column = pixel - line * p.columns;
    uint image = rf_divide(line, p.height_magic, p.height_shift), row = line - image * p.height;
    uvec2 ys = results_of(row, p.factor_y, p.height), xs = results_of(column, p.factor_x, p.width);
    uint first_line = image * p.height * p.factor_y, out_width = p.width * p.factor_x;
    VEC sum = VEC(0.0);
    for (uint y = ys.x; y < ys.y; y++) {
        VEC along = VEC(0.0);
        for (uint x = xs.x; x < xs.y; x++)
            along += weight(x, column, p.factor_x, p.per_x, p.width) *
                     FROM(((first_line + y) * out_width + x) * p.channels + channel);
        sum += weight(y, row, p.factor_y, p.per_y, p.height) * along;
    }
    return sum;
}
#else
/* Where the neighbour has no part, an infinity there makes no NaN. */
VEC between(VEC own, VEC other, float t) { return t > 0.0 ? (1.0 - t) * own + t * other : own; }

/* A line of results is made of these: two lines of the image, and how far it is on the way to the
 * second. */
struct Line { uint own, other; float way; };

Line line_of(uint out_line)
{
    uint line = rf_divide(out_line, p.y_magic, p.y_shift);
    if (BILINEAR == 0u) return Line(line, line, 0.0);
    uint image = rf_divide(line, p.height_magic, p.height_shift), row = line - image * p.height;
    int down = from_middle(out_line - line * p.factor_y, p.factor_y);
    return Line(line, line - row + neighbour(row, down, p.height), float(abs(down)) * p.per_y);
}

VEC result_in(Line line, uint out_column, uint channel)
{
    uint column = rf_divide(out_column, p.x_magic, p.x_shift);
    VEC result = FROM((line.own * p.width + column) * p.channels + channel);
    if (BILINEAR == 0u) return result;
    int right = from_middle(out_column - column * p.factor_x, p.factor_x);
    uint other_column = neighbour(column, right, p.width);
    float way = float(abs(right)) * p.per_x;
    VEC own = between(result, FROM((line.own * p.width + other_column) * p.channels + channel),
        way);
    VEC other = between(FROM((line.other * p.width + column) * p.channels + channel),
                        FROM((line.other * p.width + other_column) * p.channels + channel), way);
    return between(own, other, line.way);
}

VEC result_of(uint i)
{
    uint pixel = rf_divide(i, p.channels_magic, p.channels_shift),
        out_line = rf_divide(pixel, p.columns_magic, p.columns_shift);
    return result_in(line_of(out_line), pixel - out_line * p.columns, i - pixel * p.channels);
}
#endif

void main()
{
    uint i = rf_invocation();
    if (i < p.rows * p.threads) to[i] = result_of(i);
}
