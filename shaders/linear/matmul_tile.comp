/* SPDX-License-Identifier: Apache-2.0 */
/* Product for devices with real shared memory. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "include/linear_tile.glsl"
#include "include/linear_epilogue.glsl"

layout(std430, binding = 0) readonly buffer A { float a[]; };
layout(std430, binding = 1) readonly buffer B { float b[]; };
layout(std430, binding = 2) readonly buffer Bias { float bias[]; };
layout(std430, binding = 3) writeonly buffer C { float c[]; };
layout(push_constant) uniform P {
    int total, row_tiles, column_tiles, parts;
    int m, n, k, split, c_split;   /* summands per part, elements from part to part */
    int a_line, b_line;            /* from row to row as stored */
    int unused;
    ivec4 dim, a_stride, b_stride; /* batch dimensions */
};

int a_first = 0, b_first = 0;

float a_value(int row, int p)
{
    if (row >= m) return 0.0;
#ifdef A_ALONG_K
    return a[a_first + row * a_line + p];
#else
    return a[a_first + p * a_line + row];
#endif
}

float b_value(int p, int column)
{
    if (column >= n) return 0.0;
#ifdef B_ALONG_K
    return b[b_first + column * b_line + p];
#else
    return b[b_first + p * b_line + column];
#endif
}

void main()
{
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x);
    if (id >= total) return;
    int first_row = id % row_tiles * TILE_ROWS;
    id /= row_tiles;
    int first_column = id % column_tiles * TILE_COLUMNS;
    id /= column_tiles;
    int part = id % parts, z = id / parts;
    for (int d = 3, rest = z; d >= 0; d--) {
        a_first += rest % dim[d] * a_stride[d];
        b_first += rest % dim[d] * b_stride[d];
        rest /= dim[d];
    }
    float sum[4][4];
    tile_multiply(first_row, first_column, part * split, min(part * split + split, k), sum);
    int thread = int(gl_LocalInvocationID.x), row = first_row + thread / (TILE_COLUMNS / 4) * 4;
    int column = first_column + thread % (TILE_COLUMNS / 4) * 4, at = part * c_split + (z * m + row) * n + column;
    [[unroll]] for (int r = 0; r < 4; r++) [[unroll]] for (int s = 0; s < 4; s++)
        if (row + r < m && column + s < n) {
            float v = sum[r][s];
            if (HAS_BIAS != 0) v += bias[column + s];
            c[at + r * n + s] = linear_activate(v);
        }
}
