// SPDX-License-Identifier: Apache-2.0
// What the reduction kernels share. Outputs are numbered over up to three groups of kept
// dimensions, reduced elements over
// up to three groups of reduced ones (group 2 is the innermost; the size of group 0 is implied).
// The reduced elements
// are cut into slices; slice s of output o goes to result[(first_slice + s) * n_out + o]. A second
// dispatch adds slices up.
#ifndef RF_REDUCE_GLSL
#define RF_REDUCE_GLSL

#include "include/reduction.glsl"
#include "include/scalar_math.glsl"

layout(constant_id = 1) const uint KIND = 0;
const uint KIND_SUM = 0, KIND_MAX = 1, KIND_SQUARES = 2, KIND_ABS = 3, KIND_MIN = 4;

#ifndef OWN_PUSH
layout(push_constant) uniform Push {
    uint n_out, slices, slice_len, total, first_slice;
    float scale;
    uint kept1, kept2, kept_stride0, kept_stride1, kept_stride2;
    uint red1, red2, red_stride0, red_stride1, red_stride2;
};
#endif

// Additions run in blocks of this many, so that rounding errors grow with the number of blocks and
// not of elements.
const uint BLOCK = 64;
// Loads in a turn of a loop.
#ifdef TEXEL
const uint TURN = 8;
#else
const uint TURN = 1;
#endif

float rf_start()
{
    return KIND == KIND_MAX ? uintBitsToFloat(0xff800000u) : KIND == KIND_MIN ?
        uintBitsToFloat(0x7f800000u) : 0.0;
}

float rf_combine(float a, float b)
{
    if (KIND == KIND_MAX) return rf_larger(a, b);
    if (KIND == KIND_MIN) return rf_smaller(a, b);
    return a + b;
}
vec4 rf_combine(vec4 a, vec4 b)
{
    if (KIND == KIND_MAX) return rf_larger(a, b);
    if (KIND == KIND_MIN) return rf_smaller(a, b);
    return a + b;
}

float rf_apply(float v)
{
    return KIND == KIND_SQUARES ? v * v : KIND == KIND_ABS ? abs(v) : v;
}
vec4 rf_apply(vec4 v)
{
    return KIND == KIND_SQUARES ? v * v : KIND == KIND_ABS ? abs(v) : v;
}

#ifndef OWN_PUSH
uint rf_kept_offset(uint o)
{
    const uint outer = o / kept2;
    return outer / kept1 * kept_stride0 + outer % kept1 * kept_stride1 + o % kept2 * kept_stride2;
}
#endif

#endif
