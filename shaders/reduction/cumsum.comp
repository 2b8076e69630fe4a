// SPDX-License-Identifier: Apache-2.0
// Cumulative sums along rows. One invocation a row; or rows cut into blocks of one invocation each: TOTALS makes the sum
// of every block, then BLOCKED starts each block from the totals of those before it (reduce, then scan: Blelloch, "Prefix
// sums and their applications", 1990). "Before" is in the order of addition, which `reverse` turns round.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "include/reduction.glsl"

layout(std430, binding = 0) readonly buffer X { float x[]; };
#if defined(TOTALS)
layout(std430, binding = 1) writeonly buffer Totals { float totals[]; };
#else
layout(std430, binding = 1) writeonly buffer Y { float y[]; };
#if defined(BLOCKED)
layout(std430, binding = 2) readonly buffer Totals { float totals[]; };
#endif
#endif
layout(push_constant) uniform Push { uint rows, columns, blocks, block_len, exclusive, reverse; };

// The sum so far is whole + part. Parts have 64 addends: the rounding error of one long sum would show.
float whole = 0.0, part = 0.0;

// `i` counts the addends; the same for all rows, so that invocations do not branch apart.
void add(uint i, float v)
{
    if (i % 64 == 0) {
        whole += part;
        part = 0.0;
    }
    part += v;
}

void main()
{
    const uint thread = rf_thread();
    if (thread >= rows * blocks) return;
    const uint row = thread / blocks, block = thread % blocks;
    const uint first = block * block_len, len = min(block_len, columns - first);
    const uint base = row * columns;
#if defined(BLOCKED)
    for (uint b = 0; b < block; b++) add(b, totals[row * blocks + b]);
    whole += part;
    part = 0.0;
#endif
    for (uint i = 0; i < len; i++) {
        const uint at = base + (reverse != 0 ? columns - 1 - first - i : first + i);
        const float v = x[at];
#if defined(TOTALS)
        add(i, v);
#else
        const float before = whole + part;
        add(i, v);
        y[at] = exclusive != 0 ? before : whole + part;
#endif
    }
#if defined(TOTALS)
    totals[thread] = whole + part;
#endif
}
