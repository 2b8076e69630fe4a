// SPDX-License-Identifier: Apache-2.0
// Gradient of maxima over small windows that overlap, in two steps of one invocation per result:
//   WINDOWS  where the first maximum of each window is: its place in the image
//   else     each input element adds up the gradients of the windows whose maximum it is
// Places are whole numbers below 2^24, kept as floats.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "pool.glsl"

#ifdef WINDOWS
POOL_INPUT(0, Images, x)
layout(std430, binding = 1) writeonly buffer Places { T place_at[]; };
#else
POOL_INPUT(0, Gradients, dy)
POOL_INPUT(1, Images, x)
POOL_INPUT(2, Places, place_at)
layout(std430, binding = 3) writeonly buffer Dx { T dx[]; };
#endif

void main()
{
#ifdef WINDOWS
    const Place p = rf_place(out_height, out_width);
    if (!p.inside) return;
    const int top = p.row * stride_height - pad_top, left = p.column * stride_width - pad_left;
    const ivec2 lines = RF_LINES(top, window_height, height),
        columns = RF_LINES(left, window_width, width);
    T best = POOL_READ(x, rf_in_at(max(top, 0), max(left, 0), p.channel));
    T at = T(float(max(top, 0) * width + max(left, 0)));
    for (int i = lines.x; i < lines.y; i++) {
        const int row = RF_LINE(top + i, height);
        for (int k = columns.x; k < columns.y; k++) {
            const int column = RF_LINE(left + k, width);
            const T v = POOL_READ(x, rf_in_at(row, column, p.channel));
            const BOOL takes = rf_takes_place(v, best);
            at = mix(at, T(float(row * width + column)), takes);
            best = mix(best, v, takes);
        }
    }
    place_at[rf_out_at(p.row, p.column, p.channel)] = at;
#else
    const Place p = rf_place(height, width);
    if (!p.inside) return;
    const int own = rf_in_at(p.row, p.column, p.channel);
    const T place = T(float(p.row * width + p.column));
    T sum = T(0.0);
    BOOL has_one = BOOL(false);
    const int lines = (window_height + stride_height - 1) / stride_height,
        columns = (window_width + stride_width - 1) / stride_width;
    const int first_row = (p.row + pad_top) / stride_height - lines + 1,
        first_column = (p.column + pad_left) / stride_width - columns + 1;
    for (int i = 0; i < lines; i++) {
        const int row = first_row + i;
        const bool row_covers = rf_covers(row, p.row, pad_top, window_height, stride_height,
            out_height);
        for (int k = 0; k < columns; k++) {
            const int column = first_column + k;
            const bool covers = row_covers && rf_covers(column, p.column, pad_left, window_width,
                stride_width, out_width);
            const int window = covers ? rf_out_at(row, column, p.channel) : 0;
            const T g = POOL_READ(dy, window), at = POOL_READ(place_at, window);
            const BOOL has = EQ(covers ? at : T(-1.0), place);
            has_one = OR(has_one, has);
            sum += mix(T(0.0), g, has);
        }
    }
    if (relu_mask != 0) sum = mix(sum, rf_relu_grad(sum, POOL_READ(x, own)), has_one);
    dx[own] = sum;
#endif
}
