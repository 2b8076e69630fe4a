#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of columns of a matrix, W columns an invocation; each slice of rows makes one row of the
 * output. */
#extension GL_GOOGLE_include_directive : require
#include "include/wide.glsl"

layout(push_constant) uniform Push {
    uint rows, columns, rows_per_slice, slices;
    uint in_offset, out_offset; /* columns and offsets count vectors of W */
} p;
layout(std430, binding = 0) readonly buffer In { VEC x[]; };
layout(std430, binding = 1) writeonly buffer Out { VEC y[]; };

void main()
{
    uint t = rf_invocation();
    uint slice = t / p.columns, column = t - slice * p.columns;
    if (slice >= p.slices) return;
    uint row = slice * p.rows_per_slice, end = min(row + p.rows_per_slice, p.rows);
    /* Two accumulators halve the chain of dependent additions; their number is fixed, so sums are
     * reproducible. */
    VEC even = VEC(0), odd = VEC(0);
    uint at = p.in_offset + row * p.columns + column;
    for (; row + 1 < end; row += 2) {
        even += x[at];
        odd += x[at + p.columns];
        at += 2 * p.columns;
    }
    if (row < end) even += x[at];
    y[p.out_offset + t] = even + odd;
}
