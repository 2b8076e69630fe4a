// SPDX-License-Identifier: Apache-2.0
// Sums down the columns of [rows, columns], W columns an invocation, over a slice of the rows.
// batch_total.comp puts slices together.
//   without a definition: of x, to its sum, its mean, and the sum of squared deviations from that
//   PRODUCTS: to the sums of dy * (x - mean) and of dy; with RELU of what the gradient of a ReLU
//   behind the normalization leaves of dy
//   JOINED: the workgroup that comes last puts slices together (reduce_whole.glsl); AVERAGES as in
//   batch_total.glsl
// Tensors may be stored in 16 bits, but not with TEXEL, which reads through texel buffers.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "include/reduction.glsl"
#include "include/scalar_math.glsl"

#if W == 4
#define VEC vec4
#else
#define VEC float
#endif
#ifdef TEXEL
layout(binding = 0) uniform samplerBuffer x;
#define X(i) texelFetch(x, int(i))
#else
#define RF_TYPES_ID 1
#include "include/stored.glsl"
#if W == 4
#define STORED(i, name) RF_STORED4(i, name, readonly)
#define LOAD RF_LOAD4
#else
#define STORED RF_STORED1
#define LOAD RF_LOAD1
#endif
STORED(0, x)
#define X(i) LOAD(0, x, i)
#endif
#ifdef JOINED
#define LISTS_ACCESS coherent
#else
#define LISTS_ACCESS writeonly
#endif
#ifdef PRODUCTS
#ifdef TEXEL
layout(binding = 1) uniform samplerBuffer dy;
#define DY(i) texelFetch(dy, int(i))
#else
STORED(1, dy)
#define DY(i) LOAD(1, dy, i)
#endif
layout(std430, binding = 2) readonly buffer Mean { VEC mean[]; };
layout(std430, binding = 3) readonly buffer Scale { VEC scale[]; };
layout(std430, binding = 4) readonly buffer Shift { VEC shift[]; };
layout(std430, binding = 5) LISTS_ACCESS buffer Lists { VEC lists[]; };
layout(constant_id = 2) const uint RELU = 0;
#else
layout(std430, binding = 1) LISTS_ACCESS buffer Lists { VEC lists[]; };
#endif
// Columns and the distance of the lists count vectors.
layout(push_constant) uniform Push {
    uint rows, columns, slice_length, slices, first_slice, list;
    float epsilon, keep, take; // JOINED
};

void sum_slice(uint t)
{
    const uint slice = t / columns, column = t - slice * columns, first = slice * slice_length;
    const uint length = min(rows - first, slice_length), step = columns;
    uint at = first * step + column, left = length;
    const uint to = first_slice * step + t;
#ifdef PRODUCTS
    const VEC centre = mean[column];
    VEC product = VEC(0), sum = VEC(0), factor = VEC(0), offset = VEC(0);
    if (RELU != 0u) {
        factor = scale[column];
        offset = shift[column];
    }
    for (; left >= 4; left -= 4, at += 4 * step) {
        const VEC xa = X(at) - centre, xb = X(at + step) - centre, xc = X(at + 2 * step) - centre,
            xd = X(at + 3 * step) - centre;
        VEC a = DY(at), b = DY(at + step), c = DY(at + 2 * step), d = DY(at + 3 * step);
        if (RELU != 0u) {
            a = rf_relu_grad(a, xa * factor + offset);
            b = rf_relu_grad(b, xb * factor + offset);
            c = rf_relu_grad(c, xc * factor + offset);
            d = rf_relu_grad(d, xd * factor + offset);
        }
        sum += (a + b) + (c + d);
        product += (a * xa + b * xb) + (c * xc + d * xd);
    }
    for (; left > 0; left--, at += step) {
        const VEC xa = X(at) - centre;
        VEC a = DY(at);
        if (RELU != 0u) a = rf_relu_grad(a, xa * factor + offset);
        sum += a;
        product += a * xa;
    }
    lists[to] = product;
    lists[list + to] = sum;
#else
    // Deviations from the first row are small where the mean is large: little is lost when its
    // square is taken off.
    const VEC origin = X(at);
    VEC sum = VEC(0), deviation = VEC(0), squares = VEC(0);
    for (; left >= 4; left -= 4, at += 4 * step) {
        const VEC va = X(at), vb = X(at + step), vc = X(at + 2 * step), vd = X(at + 3 * step);
        const VEC a = va - origin, b = vb - origin, c = vc - origin, d = vd - origin;
        sum += (va + vb) + (vc + vd);
        deviation += (a + b) + (c + d);
        squares += (a * a + b * b) + (c * c + d * d);
    }
    for (; left > 0; left--, at += step) {
        const VEC v = X(at), a = v - origin;
        sum += v;
        deviation += a;
        squares += a * a;
    }
    const VEC offset = deviation / float(length);
    lists[to] = sum;
    lists[list + to] = origin + offset;
    lists[2 * list + to] = rf_larger(squares - deviation * offset, VEC(0));
#endif
}

#ifdef JOINED
#ifdef PRODUCTS
#define TOTAL_BINDING 6
#define ARRIVALS 11
#else
#define TOTAL_BINDING 2
#ifdef AVERAGES
layout(constant_id = 2) const uint SCALED = 0;
#define ARRIVALS 10
#else
#define ARRIVALS 4
#endif
#endif
#include "reduce_whole.glsl"
#define TOTAL VEC
#include "batch_total.glsl"
#endif

void main()
{
#ifdef JOINED
    const uint groups = rf_groups_of(columns * slices);
    if (rf_group() >= groups) return;
    if (rf_thread() < columns * slices) sum_slice(rf_thread());
    if (!rf_comes_last(groups)) return;
    for (uint column = gl_SubgroupInvocationID; column < columns; column += gl_SubgroupSize)
        total_column(column, columns, rows, slice_length, slices);
#else
    if (rf_thread() < columns * slices) sum_slice(rf_thread());
#endif
}
