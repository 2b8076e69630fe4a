// SPDX-License-Identifier: Apache-2.0
// Maximum or (AVERAGE) mean of each window; padding does not count. One invocation per output element.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "pool.glsl"

layout(std430, binding = 0) readonly buffer X { T x[]; };
layout(std430, binding = 1) writeonly buffer Y { T y[]; };

void main()
{
    const Place p = rf_place(out_height, out_width);
    if (!p.inside) return;
    const int top = p.row * stride_height - pad_top, left = p.column * stride_width - pad_left;
    const int first_row = max(top, 0), end_row = min(top + window_height, height);
    const int first_column = max(left, 0), end_column = min(left + window_width, width);
#ifdef AVERAGE
    T result = T(0.0);
#else
    T result = x[rf_in_at(first_row, first_column, p.channel)];
#endif
    for (int row = first_row; row < end_row; row++) {
        for (int column = first_column; column < end_column; column++) {
            const T v = x[rf_in_at(row, column, p.channel)];
#ifdef AVERAGE
            result += v;
#else
            result = rf_larger(result, v);
#endif
        }
    }
#ifdef AVERAGE
    result /= float((end_row - first_row) * (end_column - first_column));
#endif
    y[rf_out_at(p.row, p.column, p.channel)] = result;
}
