/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution and its gradients as implicit products for devices with real shared memory. Build variants:
 *   FORWARD rows are output pixels, columns output channels, summands (tap, input channel)
 *   DATA    rows are input pixels, columns input channels, summands (tap, output channel)
 *   FILTER  rows are (tap, input channel) and one of ones for the bias' gradient, columns output channels, summands pixels
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#ifndef FILTER
#define A_ALONG_K
#endif
#ifdef DATA
#define B_ALONG_K
#endif
#include "include/linear_tile.glsl"
#include "include/linear_epilogue.glsl"

layout(std430, binding = 0) readonly buffer A { float a[]; }; /* x; DATA: dy */
layout(std430, binding = 1) readonly buffer B { float b[]; }; /* kernel; FILTER: dy */
layout(std430, binding = 2) readonly buffer Bias { float bias[]; };
layout(std430, binding = 3) writeonly buffer C { float c[]; };
layout(std430, binding = 4) writeonly buffer Extra { float extra[]; }; /* FILTER: the bias' gradient */
layout(push_constant) uniform P {
    int n, h, w, cin, oh, ow, cout, kh, kw;
    int cig, cog, sy, sx, dy, dx, pt, pl;
    int total, row_tiles, column_tiles, parts;
    int rows, columns, length, split, c_split, extra_at; /* of the product; summands per part; elements from part to part */
};

int group = 0;

float image_value(int image, int y, int x, int channel) /* of x */
{
    if (uint(y) >= uint(h) || uint(x) >= uint(w)) return 0.0;
    return a[((image * h + y) * w + x) * cin + channel];
}

#if defined(FORWARD)
float a_value(int row, int k)
{
    if (row >= rows) return 0.0;
    int tap = k / cig, channel = k - tap * cig, ky = tap / kw, kx = tap - ky * kw;
    int line = row / ow, ox = row - line * ow, image = line / oh, oy = line - image * oh;
    return image_value(image, oy * sy + ky * dy - pt, ox * sx + kx * dx - pl, group * cig + channel);
}
float b_value(int k, int column) { return column < columns ? b[k * cout + group * cog + column] : 0.0; }
#elif defined(DATA)
float a_value(int row, int k)
{
    if (row >= rows) return 0.0;
    int tap = k / cog, channel = k - tap * cog, ky = tap / kw, kx = tap - ky * kw;
    int line = row / w, x = row - line * w, image = line / h, y = line - image * h;
    int ty = y + pt - ky * dy, tx = x + pl - kx * dx, oy = ty / sy, ox = tx / sx;
    if (ty < 0 || tx < 0 || oy * sy != ty || ox * sx != tx || oy >= oh || ox >= ow) return 0.0;
    return a[((image * oh + oy) * ow + ox) * cout + group * cog + channel];
}
float b_value(int k, int column)
{
    if (column >= columns) return 0.0;
    int tap = k / cog, channel = k - tap * cog;
    return b[(tap * cig + column) * cout + group * cog + channel];
}
#else
float a_value(int row, int k)
{
    if (row >= rows) return 0.0;
    int tap = row / cig, channel = row - tap * cig, ky = tap / kw, kx = tap - ky * kw;
    if (tap == kh * kw) return 1.0;
    int line = k / ow, ox = k - line * ow, image = line / oh, oy = line - image * oh;
    return image_value(image, oy * sy + ky * dy - pt, ox * sx + kx * dx - pl, group * cig + channel);
}
float b_value(int k, int column) { return column < columns ? b[k * cout + group * cog + column] : 0.0; }
#endif

void main()
{
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x);
    if (id >= total) return;
    int first_row = id % row_tiles * TILE_ROWS;
    id /= row_tiles;
    int first_column = id % column_tiles * TILE_COLUMNS;
    id /= column_tiles;
    int part = id % parts;
    group = id / parts;
    float sum[4][4];
    tile_multiply(first_row, first_column, part * split, min(part * split + split, length), sum);
    int thread = int(gl_LocalInvocationID.x), row = first_row + thread / (TILE_COLUMNS / 4) * 4;
    int column = first_column + thread % (TILE_COLUMNS / 4) * 4;
    [[unroll]] for (int r = 0; r < 4; r++) [[unroll]] for (int s = 0; s < 4; s++)
        if (row + r < rows && column + s < columns) {
            float v = sum[r][s];
#if defined(FILTER)
            if (row + r == kh * kw * cig) extra[part * c_split + extra_at + group * cog + column + s] = v;
            else c[part * c_split + (row + r) * cout + group * cog + column + s] = v;
#elif defined(DATA)
            c[part * c_split + (row + r) * cin + group * cig + column + s] = v;
#else
            if (HAS_BIAS != 0) v += bias[group * cog + column + s];
            c[part * c_split + (row + r) * cout + group * cog + column + s] = linear_activate(v);
#endif
        }
}
