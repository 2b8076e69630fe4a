// SPDX-License-Identifier: Apache-2.0
// Gradient of maxima over large windows, in three steps of one invocation per result, so that loops
// grow with the sides
// of windows and not with their areas:
//   LINES    where the first maximum of each line of a window is: its column, for every line of the
//            image
//   WINDOWS  where the first maximum of each window is, from those of its lines: its place in the
//            image
//   else each input element adds up the gradients of the windows whose maximum it is, some lines of
//   windows at a time
#version 450
#extension GL_GOOGLE_include_directive : require
#define PARTS
#include "pool.glsl"

#if defined(LINES)
layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) writeonly buffer Columns { int column_at[]; };
#elif defined(WINDOWS)
layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) readonly buffer Columns { int column_at[]; };
layout(std430, binding = 2) writeonly buffer Places { int place_at[]; };
#else
layout(std430, binding = 0) readonly buffer Dy { float dy[]; };
layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(std430, binding = 2) readonly buffer Places { int place_at[]; };
layout(std430, binding = 3) buffer Dx { float dx[]; };
#endif

void main()
{
#if defined(LINES)
    const Place p = rf_place(height, out_width);
    if (!p.inside) return;
    const int left = p.column * stride_width - pad_left;
    const int first = max(left, 0), end = min(left + window_width, width);
    int at = first;
    float best = x[rf_in_at(p.row, first, p.channel)];
    for (int column = first; column < end; column++) {
        const float v = x[rf_in_at(p.row, column, p.channel)];
        if (rf_takes_place(v, best)) {
            best = v;
            at = column;
        }
    }
    column_at[((rf_image() * height + p.row) * out_width + p.column) * channels + p.channel] = at;
#elif defined(WINDOWS)
    const Place p = rf_place(out_height, out_width);
    if (!p.inside) return;
    const int top = p.row * stride_height - pad_top;
    const int first = max(top, 0), end = min(top + window_height, height);
    int at = 0;
    float best = 0.0;
    for (int row = first; row < end; row++) {
        const int column = column_at[((rf_image() * height + row) * out_width + p.column) *
            channels + p.channel];
        const float v = x[rf_in_at(row, column, p.channel)];
        if (row == first || rf_takes_place(v, best)) {
            best = v;
            at = row * width + column;
        }
    }
    place_at[rf_out_at(p.row, p.column, p.channel)] = at;
#else
    const Place p = rf_place(height, width);
    if (!p.inside) return;
    const ivec2 rows = rf_windows(p.row + pad_top, window_height, stride_height, out_height);
    const ivec2 columns = rf_windows(p.column + pad_left, window_width, stride_width, out_width);
    const int own = p.row * width + p.column, at = rf_in_at(p.row, p.column, p.channel);
    float sum = 0.0;
    for (int out_row = rows.x + first_line; out_row < min(rows.x + end_line, rows.y); out_row++) {
        for (int out_column = columns.x; out_column < columns.y; out_column++) {
            const int window = rf_out_at(out_row, out_column, p.channel);
            const float g = relu_mask != 0 ? rf_relu_grad(dy[window], x[at]) : dy[window];
            sum += place_at[window] == own ? g : 0.0;
        }
    }
    dx[at] = first_line > 0 ? dx[at] + sum : sum;
#endif
}
