// SPDX-License-Identifier: Apache-2.0
// Softmax or (LOG) its logarithm along rows, or (GRAD) the gradient of either from dy and y. One
// invocation a row; VEC4:
// four columns at a time, in types of 16 bits, too; GROUP: one workgroup a row, and LANES: some
// lanes of a subgroup a row, for GPUs.
#version 450
#extension GL_GOOGLE_include_directive : require
#ifdef VEC4
#define LANES_ID 2
#else
#define LANES_ID 1
#endif
#include "row_group.glsl"
#include "include/scalar_math.glsl"

#ifdef VEC4
#define T vec4
#define WIDTH 4
#define STORED
#define RF_TYPES_ID 1
#include "include/stored.glsl"
#else
#define T float
#define WIDTH 1
#endif

#ifdef GRAD
#ifdef STORED
RF_STORED4(0, dy, readonly)
RF_STORED4(1, y, readonly)
#define DY(i) RF_LOAD4(0, dy, i)
#define Y(i) RF_LOAD4(1, y, i)
#else
layout(std430, binding = 0) readonly buffer InputDy { T dy[]; };
layout(std430, binding = 1) readonly buffer InputY { T y[]; };
#define DY(i) dy[i]
#define Y(i) y[i]
#endif
#ifdef STORED
RF_STORED4(2, dx, writeonly)
#define PUT(i, v) RF_STORE4(2, dx, i, v)
#else
layout(std430, binding = 2) writeonly buffer Dx { T dx[]; };
#define PUT(i, v) dx[i] = v;
#endif
#else
#ifdef STORED
RF_STORED4(0, x, readonly)
#define X(i) RF_LOAD4(0, x, i)
#else
layout(std430, binding = 0) readonly buffer InputX { T x[]; };
#define X(i) x[i]
#endif
#ifdef STORED
RF_STORED4(1, y, writeonly)
#define PUT(i, v) RF_STORE4(1, y, i, v)
#else
layout(std430, binding = 1) writeonly buffer OutputY { T y[]; };
#define PUT(i, v) y[i] = v;
#endif
#endif
layout(push_constant) uniform Push { uint rows, columns; };

#ifdef VEC4
#define ALL_SUM(v) rf_row_sum((v.x + v.y) + (v.z + v.w))
#define ALL_MAX(v) rf_row_max(rf_larger(rf_larger(v.x, v.y), rf_larger(v.z, v.w)))
#else
#define ALL_SUM(v) rf_row_sum(v)
#define ALL_MAX(v) rf_row_max(v)
#endif

// Sums `term`, which depends on the column c, in blocks of 64: the rounding error of one long sum
// would show in logarithms.
#define SUM(total, term)                                                                           \
    for (uint block = FIRST; block < n; block += 64 * STEP) {                                      \
        T part = T(0.0);                                                                           \
        for (uint c = block; c < min(block + 64 * STEP, n); c += STEP) part += term;               \
        total += part;                                                                             \
    }

void main()
{
    const uint row = rf_row();
    if (row >= rows) return;
    const uint n = columns / WIDTH, base = row * n;
    T sum = T(0.0);
#ifdef GRAD
#ifdef LOG
    SUM(sum, DY(base + c))
    const float total = ALL_SUM(sum);
    for (uint c = FIRST; c < n; c += STEP) PUT(base + c, DY(base + c) - rf_exp(Y(base + c)) * total)
#else
    SUM(sum, DY(base + c) * Y(base + c))
    const float total = ALL_SUM(sum);
    for (uint c = FIRST; c < n; c += STEP) PUT(base + c, Y(base + c) * (DY(base + c) - total))
#endif
#else
    T top = T(uintBitsToFloat(0xff800000u));
    for (uint c = FIRST; c < n; c += STEP) top = rf_larger(top, X(base + c));
    const float shift = ALL_MAX(top);
#ifdef LOG
    SUM(sum, exp(X(base + c) - shift))
    const float log_total = rf_log(rf_if_finite(ALL_SUM(sum), shift));
    for (uint c = FIRST; c < n; c += STEP) PUT(base + c, X(base + c) - shift - log_total)
#else
    SUM(sum, exp(X(base + c) - shift))
    const float scale = 1.0 / rf_if_finite(ALL_SUM(sum), shift);
    for (uint c = FIRST; c < n; c += STEP) PUT(base + c, exp(X(base + c) - shift) * scale)
#endif
#endif
}
