// SPDX-License-Identifier: Apache-2.0
// Maximum of 2 x 2 windows side by side without padding, the usual case, without loops.
#version 450
#extension GL_GOOGLE_include_directive : require
#define VEC4
#include "pool.glsl"

POOL_INPUT(0, Images, x)
#define X(i) POOL_READ(x, i)
POOL_OUTPUT(1, y)

void main()
{
    const Place p = rf_place(out_height, out_width);
    if (!p.inside) return;
    const int upper = rf_in_at(2 * p.row, 2 * p.column, p.channel),
        lower = upper + width * channels;
    const vec4 v0 = X(upper), v1 = X(upper + channels), v2 = X(lower), v3 = X(lower + channels);
    POOL_WRITE(y, rf_out_at(p.row, p.column, p.channel),
        rf_larger(rf_larger(v0, v1), rf_larger(v2, v3)))
}
