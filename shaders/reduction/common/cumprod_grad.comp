// SPDX-License-Identifier: Apache-2.0
// Gradient of cumulative products along rows. An element's is the product of those before it times
// what follows: with u, from the other end, dy + x * u of the next element (of exclusive products),
// or x * (dy + u). Both factors keep exponents of their own, and only what they make together has
// to be a float. Rows are cut into blocks of one invocation each, in the order of the products:
// TOTALS makes what a block is for those before it and behind it, and then each walks its own both
// ways.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "exponents.glsl"
#include "include/reduction.glsl"

layout(std430, binding = 0) readonly buffer Dy { float dy[]; };
layout(std430, binding = 1) readonly buffer X { float x[]; };
// A product and a sum of every block of a row, whose totals begin at whole 256 bytes, and the
// products before every element.
#if defined(TOTALS)
layout(std430, binding = 2) writeonly buffer Totals { int totals[]; };
#else
layout(std430, binding = 2) writeonly buffer Dx { float dx[]; };
layout(std430, binding = 3) readonly buffer Totals { int totals[]; };
layout(std430, binding = 4) buffer Mantissas { float mantissas[]; };
layout(std430, binding = 5) buffer Exponents { int exponents[]; };
#endif
layout(push_constant) uniform Push { uint rows, columns, blocks, block_len, exclusive, reverse; };

#if defined(TOTALS)
void keep(uint at, Wide a)
{
    totals[at] = floatBitsToInt(a.m);
    totals[at + 1] = a.e;
}
#else
Wide total_at(uint at)
{
    return Wide(intBitsToFloat(totals[at]), totals[at + 1]);
}
#endif

// The first element that is met has nothing behind it: its factor has no part, whatever it is.
Wide next(Wide u, uint at, bool first)
{
    const Wide by = wide_of(x[at]), own = wide_of(dy[at]);
    if (exclusive == 0) return times(by, plus(own, u));
    if (first) return own;
    return plus(own, times(by, u));
}

void main()
{
    const uint thread = rf_thread();
    if (thread >= rows * blocks) return;
    const uint row = thread / blocks, block = thread % blocks;
    const uint start = block * block_len, len = min(block_len, columns - start);
    const uint row_totals = ((4 * blocks + 63) & ~63u) * row, products = columns * row;
    // Element i of the block is at first + i * step.
    const uint first = row * columns + (reverse != 0 ? columns - 1 - start : start),
        step = reverse != 0 ? ~0u : 1u;
    Wide product = Wide(1.0, 0), u = Wide(0.0, 0);
#if defined(TOTALS)
    for (uint i = len; i > 0; i--) {
        const uint at = first + (i - 1) * step;
        u = next(u, at, i == len);
        product = times(product, wide_of(x[at]));
    }
    keep(row_totals + 4 * block, product);
    keep(row_totals + 4 * block + 2, u);
#else
    for (uint b = 0; b < block; b++) product = times(product, total_at(row_totals + 4 * b));
    for (uint b = blocks - 1; b > block; b--) {
        const Wide sum = total_at(row_totals + 4 * b + 2);
        if (b == blocks - 1)
            u = sum;
        else
            u = plus(sum, times(total_at(row_totals + 4 * b), u));
    }
    for (uint i = 0; i < len; i++) {
        mantissas[products + start + i] = product.m;
        exponents[products + start + i] = product.e;
        product = times(product, wide_of(x[first + i * step]));
    }
    for (uint i = len; i > 0; i--) {
        const uint at = first + (i - 1) * step;
        const uint kept = products + start + i - 1;
        const Wide before = Wide(mantissas[kept], exponents[kept]);
        const float d = float_of(times(before, exclusive != 0 ? u : plus(wide_of(dy[at]), u)));
        u = next(u, at, start + i == columns);
        // Behind a zero there is no gradient, whatever is there.
        dx[at] = before.m == 0.0 ? 0.0 : d;
    }
#endif
}
