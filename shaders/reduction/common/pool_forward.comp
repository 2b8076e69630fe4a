// SPDX-License-Identifier: Apache-2.0
// Maximum or (AVERAGE) mean of each window; padding does not count. One invocation per output
// element.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "pool.glsl"

POOL_INPUT(0, X, x)
POOL_OUTPUT(1, y)

void main()
{
    const Place p = rf_place(out_height, out_width);
    if (!p.inside) return;
    const int top = p.row * stride_height - pad_top, left = p.column * stride_width - pad_left;
    const ivec2 lines = RF_LINES(top, window_height, height),
        columns = RF_LINES(left, window_width, width);
#ifdef AVERAGE
    T result = T(0.0);
#else
    T result = POOL_READ(x, rf_in_at(max(top, 0), max(left, 0), p.channel));
#endif
    for (int i = lines.x; i < lines.y; i++) {
        const int row = RF_LINE(top + i, height);
        for (int k = columns.x; k < columns.y; k++) {
            const int column = RF_LINE(left + k, width);
            const T v = POOL_READ(x, rf_in_at(row, column, p.channel));
#ifdef AVERAGE
            result += row == top + i && column == left + k ? v : T(0.0);
#else
            result = rf_larger(result, v);
#endif
        }
    }
#ifdef AVERAGE
    result /= float((min(top + window_height, height) - max(top, 0)) *
        (min(left + window_width, width) - max(left, 0)));
#endif
    POOL_WRITE(y, rf_out_at(p.row, p.column, p.channel), result)
}
