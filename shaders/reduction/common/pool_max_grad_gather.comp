// SPDX-License-Identifier: Apache-2.0
// Gradient of maxima over any windows. One invocation per input element looks for the first maximum
// of every window that
// covers the element, and adds up the gradients of those where it is the element.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "pool.glsl"

POOL_INPUT(0, Gradients, dy)
POOL_INPUT(1, Images, x)
POOL_OUTPUT(2, dx)

void main()
{
    const Place p = rf_place(height, width);
    if (!p.inside) return;
    const ivec2 rows = rf_windows(p.row + pad_top, window_height, stride_height, out_height);
    const ivec2 columns = rf_windows(p.column + pad_left, window_width, stride_width, out_width);
    T sum = T(0.0);
    for (int out_row = rows.x; out_row < rows.y; out_row++) {
        const int top = out_row * stride_height - pad_top;
        const int first_row = max(top, 0), end_row = min(top + window_height, height);
        for (int out_column = columns.x; out_column < columns.y; out_column++) {
            const int left = out_column * stride_width - pad_left;
            const int first_column = max(left, 0), end_column = min(left + window_width, width);
            T best = POOL_READ(x, rf_in_at(first_row, first_column, p.channel));
            T is_own = T(p.row == first_row && p.column == first_column ? 1.0 : 0.0);
            for (int row = first_row; row < end_row; row++) {
                for (int column = first_column; column < end_column; column++) {
                    const T v = POOL_READ(x, rf_in_at(row, column, p.channel));
                    const BOOL takes = rf_takes_place(v, best);
                    is_own = mix(is_own, T(row == p.row && column == p.column ? 1.0 : 0.0), takes);
                    best = mix(best, v, takes);
                }
            }
            T g = POOL_READ(dy, rf_out_at(out_row, out_column, p.channel));
            if (relu_mask != 0) g = rf_relu_grad(g, best);
            sum += mix(T(0.0), g, EQ(is_own, T(1.0)));
        }
    }
    POOL_WRITE(dx, rf_in_at(p.row, p.column, p.channel), sum)
}
