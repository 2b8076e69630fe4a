// SPDX-License-Identifier: Apache-2.0
// Gradient of maxima over windows that do not overlap. One invocation per window fills in its cell:
// the window, what lies
// between it and the next, and at the image's edges what no window covers.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "pool.glsl"

POOL_INPUT(0, Gradients, dy)
POOL_INPUT(1, Images, x)
POOL_OUTPUT(2, dx)

void main()
{
    const Place p = rf_place(out_height, out_width);
    if (!p.inside) return;
    const int top = p.row * stride_height - pad_top, left = p.column * stride_width - pad_left;
    const int first_row = max(top, 0), end_row = min(top + window_height, height);
    const int first_column = max(left, 0), end_column = min(left + window_width, width);
    T best = POOL_READ(x, rf_in_at(first_row, first_column, p.channel));
    T best_at = T(0.0);
    int at = 0;
    for (int row = first_row; row < end_row; row++) {
        for (int column = first_column; column < end_column; column++, at++) {
            const T v = POOL_READ(x, rf_in_at(row, column, p.channel));
            const BOOL takes = rf_takes_place(v, best);
            best_at = mix(best_at, T(float(at)), takes);
            best = mix(best, v, takes);
        }
    }
    T g = POOL_READ(dy, rf_out_at(p.row, p.column, p.channel));
    if (relu_mask != 0) g = rf_relu_grad(g, best);

    const int cell_top = p.row == 0 ? 0 : top, cell_end_row = p.row == out_height - 1 ? height :
        top + stride_height;
    const int cell_left = p.column == 0 ? 0 : left;
    const int cell_end_column = p.column == out_width - 1 ? width : left + stride_width;
    at = 0;
    for (int row = cell_top; row < cell_end_row; row++) {
        for (int column = cell_left; column < cell_end_column; column++) {
            T value = T(0.0);
            if (row >= first_row && row < end_row && column >= first_column &&
                column < end_column) {
                value = mix(value, g, EQ(best_at, T(float(at))));
                at++;
            }
            POOL_WRITE(dx, rf_in_at(row, column, p.channel), value)
        }
    }
}
