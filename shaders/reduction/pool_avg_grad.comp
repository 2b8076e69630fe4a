// SPDX-License-Identifier: Apache-2.0
// Gradient of means over windows. One invocation per input element adds up its share of the windows that cover it.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "pool.glsl"

layout(std430, binding = 0) readonly buffer Dy { T dy[]; };
layout(std430, binding = 1) writeonly buffer Dx { T dx[]; };

void main()
{
    const Place p = rf_place(height, width);
    if (!p.inside) return;
    const ivec2 rows = rf_windows(p.row + pad_top, window_height, stride_height, out_height);
    const ivec2 columns = rf_windows(p.column + pad_left, window_width, stride_width, out_width);
    T sum = T(0.0);
    for (int out_row = rows.x; out_row < rows.y; out_row++) {
        const int top = out_row * stride_height - pad_top;
        const int covered_rows = min(top + window_height, height) - max(top, 0);
        for (int out_column = columns.x; out_column < columns.y; out_column++) {
            const int left = out_column * stride_width - pad_left;
            const int covered_columns = min(left + window_width, width) - max(left, 0);
            sum += dy[rf_out_at(out_row, out_column, p.channel)] / float(covered_rows * covered_columns);
        }
    }
    dx[rf_in_at(p.row, p.column, p.channel)] = sum;
}
