// SPDX-License-Identifier: Apache-2.0
// Layer or (RMS) root mean square normalisation of rows, or (GRAD) the gradient of x. The variance
// is the mean of squares of
// centred values. One invocation a row; VEC4: four columns at a time, in types of 16 bits, too, or
// with TEXEL through texel
// buffers; GROUP: one workgroup a row, and LANES: some lanes of a subgroup a row, for GPUs.
#version 450
#extension GL_GOOGLE_include_directive : require
#ifdef VEC4
#define LANES_ID 5
#else
#define LANES_ID 4
#endif
#include "row_group.glsl"
#ifdef TEXEL
#include "include/write_fours.glsl"
#endif

#ifdef VEC4
#define T vec4
#define WIDTH 4
#define ALL_SUM(v) rf_row_sum((v.x + v.y) + (v.z + v.w))
#ifndef TEXEL
#define STORED
#define RF_TYPES_ID 4
#include "include/stored.glsl"
#endif
#else
#define T float
#define WIDTH 1
#define ALL_SUM(v) rf_row_sum(v)
#endif

layout(constant_id = 1) const bool RMS = false;
layout(constant_id = 2) const bool SCALE = true;
layout(constant_id = 3) const bool CENTER = true;
layout(push_constant) uniform Push { uint rows, columns; float epsilon; };

// Where there is no gamma or beta, other inputs are bound, which are not read.
#ifdef GRAD
#ifdef STORED
RF_STORED4(0, dy, readonly)
RF_STORED4(1, x, readonly)
#define BINDING_dy 0
#define BINDING_x 1
#elif defined(TEXEL)
layout(binding = 0) uniform samplerBuffer dy;
layout(binding = 1) uniform samplerBuffer x;
#else
layout(std430, binding = 0) readonly buffer InputDy { T dy[]; };
layout(std430, binding = 1) readonly buffer InputX { T x[]; };
#endif
layout(std430, binding = 2) readonly buffer InputMean { float mean_of[]; };
layout(std430, binding = 3) readonly buffer InputInverse { float inverse_of[]; };
#ifdef STORED
RF_STORED4(4, gamma, readonly)
RF_STORED4(5, dx, writeonly)
#define BINDING_gamma 4
#define BINDING_dx 5
#elif defined(TEXEL)
layout(binding = 4) uniform samplerBuffer gamma;
layout(std430, binding = 5) writeonly buffer Dx { u64vec2 dx[]; };
#else
layout(std430, binding = 4) readonly buffer Gamma { T gamma[]; };
layout(std430, binding = 5) writeonly buffer Dx { T dx[]; };
#endif
#else
#ifdef STORED
RF_STORED4(0, x, readonly)
RF_STORED4(1, gamma, readonly)
RF_STORED4(2, beta, readonly)
RF_STORED4(3, y, writeonly)
#define BINDING_x 0
#define BINDING_gamma 1
#define BINDING_beta 2
#define BINDING_y 3
#elif defined(TEXEL)
layout(binding = 0) uniform samplerBuffer x;
layout(binding = 1) uniform samplerBuffer gamma;
layout(binding = 2) uniform samplerBuffer beta;
layout(std430, binding = 3) writeonly buffer OutputY { u64vec2 y[]; };
#else
layout(std430, binding = 0) readonly buffer InputX { T x[]; };
layout(std430, binding = 1) readonly buffer Gamma { T gamma[]; };
layout(std430, binding = 2) readonly buffer Beta { T beta[]; };
layout(std430, binding = 3) writeonly buffer OutputY { T y[]; };
#endif
layout(std430, binding = 4) writeonly buffer OutputMean { float mean_of[]; };
layout(std430, binding = 5) writeonly buffer OutputInverse { float inverse_of[]; };
#endif

#ifdef STORED
#define AT(tensor, i) RF_LOAD4(BINDING_##tensor, tensor, i)
#define PUT(tensor, i, v) RF_STORE4(BINDING_##tensor, tensor, i, v)
#elif defined(TEXEL)
#define AT(tensor, i) texelFetch(tensor, int(i))
#define PUT(tensor, i, v) RF_WRITE4(tensor, live, i, v)
#else
#define AT(tensor, i) tensor[i]
#define PUT(tensor, i, v) tensor[i] = v;
#endif

// Sums `term`, which depends on the column c, in blocks of 64: the rounding error of one long sum
// would show.
#define SUM(total, term)                                                                           \
    for (uint block = FIRST; block < n; block += 64 * STEP) {                                      \
        T part = T(0.0);                                                                           \
        for (uint c = block; c < min(block + 64 * STEP, n); c += STEP) part += term;               \
        total += part;                                                                             \
    }

void main()
{
#ifdef TEXEL
    // all invocations take part: those beyond the end go with the last row
    const bool live = rf_row() < rows;
    const uint row = min(rf_row(), rows - 1);
#else
    const bool live = true;
    const uint row = rf_row();
    if (row >= rows) return;
#endif
    const uint n = columns / WIDTH, base = row * n;
    const float count = float(columns);
#ifdef GRAD
    const float mean = mean_of[row], inverse = inverse_of[row];
#define SCALED(c) (SCALE ? AT(dy, base + c) * AT(gamma, c) : AT(dy, base + c))
#define NORMAL(c) ((AT(x, base + c) - mean) * inverse)
    T sum = T(0.0), product = T(0.0);
    if (!RMS) SUM(sum, SCALED(c))
    const float level = RMS ? 0.0 : ALL_SUM(sum) / count;
    SUM(product, SCALED(c) * NORMAL(c))
    const float slope = ALL_SUM(product) / count;
    for (uint c = FIRST; c < n; c += STEP) PUT(dx, base + c,
        inverse * (SCALED(c) - level - NORMAL(c) * slope))
#else
    T sum = T(0.0), squares = T(0.0);
    if (!RMS) SUM(sum, AT(x, base + c))
    const float mean = RMS ? 0.0 : ALL_SUM(sum) / count;
    SUM(squares, (AT(x, base + c) - mean) * (AT(x, base + c) - mean))
    const float inverse = 1.0 / sqrt(ALL_SUM(squares) / count + epsilon);
    for (uint c = FIRST; c < n; c += STEP) {
        T v = (AT(x, base + c) - mean) * inverse;
        if (SCALE) v *= AT(gamma, c);
        if (CENTER) v += AT(beta, c);
        PUT(y, base + c, v)
    }
    if (live && FIRST == 0) {
        mean_of[row] = mean;
        inverse_of[row] = inverse;
    }
#endif
}
