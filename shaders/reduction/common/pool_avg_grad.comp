// SPDX-License-Identifier: Apache-2.0
// Gradient of means over windows. One invocation per input element adds up its share of the windows
// that cover it.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "pool.glsl"

POOL_INPUT(0, Dy, dy)
POOL_OUTPUT(1, dx)

void main()
{
    const Place p = rf_place(height, width);
    if (!p.inside) return;
    const int lines = (window_height + stride_height - 1) / stride_height,
        columns = (window_width + stride_width - 1) / stride_width;
    const int first_row = (p.row + pad_top) / stride_height - lines + 1,
        first_column = (p.column + pad_left) / stride_width - columns + 1;
    T sum = T(0.0);
    for (int i = 0; i < lines; i++) {
        const int row = first_row + i, top = row * stride_height - pad_top;
        const int covered_rows = min(top + window_height, height) - max(top, 0);
        const bool row_covers = rf_covers(row, p.row, pad_top, window_height, stride_height,
            out_height);
        for (int k = 0; k < columns; k++) {
            const int column = first_column + k, left = column * stride_width - pad_left;
            const int covered_columns = min(left + window_width, width) - max(left, 0);
            const bool covers = row_covers && rf_covers(column, p.column, pad_left, window_width,
                stride_width, out_width);
            const T g = POOL_READ(dy, covers ? rf_out_at(row, column, p.channel) : 0);
            sum += covers ? g / float(covered_rows * covered_columns) : T(0.0);
        }
    }
    POOL_WRITE(dx, rf_in_at(p.row, p.column, p.channel), sum)
}
