// SPDX-License-Identifier: Apache-2.0
// Scans along rows: cumulative sums, cumulative products (PRODUCT) and linear recurrences
// (RECURRENCE). One invocation a
// row; or rows cut into blocks of one invocation each: TOTALS makes the total of every block, then
// BLOCKED starts each
// block from the totals of those before it (reduce, then scan: Blelloch, "Prefix sums and their
// applications", 1990).
// "Before" is in the order of the scan, which `reverse` turns round.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "include/reduction.glsl"

layout(std430, binding = 0) readonly buffer X { float x[]; };
#if defined(RECURRENCE)
layout(std430, binding = 1) readonly buffer Factors { float factors[]; };
#define OUTPUT 2
#else
#define OUTPUT 1
#endif
#if defined(TOTALS)
layout(std430, binding = OUTPUT) writeonly buffer Totals { int totals[]; };
#else
layout(std430, binding = OUTPUT) writeonly buffer Y { float y[]; };
#if defined(BLOCKED)
layout(std430, binding = OUTPUT + 1) readonly buffer Totals { int totals[]; };
#endif
#endif
layout(push_constant) uniform Push { uint rows, columns, blocks, block_len, exclusive, reverse; };

#if defined(PRODUCT) || defined(RECURRENCE)
#include "exponents.glsl"
#endif

#if defined(PRODUCT)
#define WORDS 2
Wide product = Wide(1.0, 0);
float value() { return float_of(product); }
#define VALUES(at) x[at]
void take(uint i, float v) { product = times(product, wide_of(v)); }
#if defined(BLOCKED)
void take_total(uint b, uint at) { product = times(product,
    Wide(intBitsToFloat(totals[at]), totals[at + 1])); }
void start_block() {}
#endif
#if defined(TOTALS)
void write_total(uint at)
{
    totals[at] = floatBitsToInt(product.m);
    totals[at + 1] = product.e;
}
#endif

#elif defined(RECURRENCE)
// Nothing comes before the first element: its factor has no part, whatever it is.
#define WORDS 3
float last = 0.0;
bool first = true;
Wide factor = Wide(1.0, 0); // of what a block starts from in what it ends with
float value() { return last; }
#define VALUES(at) x[at], factors[at]
void take(uint i, float v, float by)
{
    last = first ? v : v + by * last;
    first = false;
#if defined(TOTALS)
    factor = times(factor, wide_of(by));
#endif
}
#if defined(BLOCKED)
void take_total(uint b, uint at)
{
    const float own = intBitsToFloat(totals[at]);
    const Wide by = Wide(intBitsToFloat(totals[at + 1]), totals[at + 2]);
    last = first ? own : own + float_of(times(by, wide_of(last)));
    first = false;
}
void start_block() {}
#endif
#if defined(TOTALS)
void write_total(uint at)
{
    totals[at] = floatBitsToInt(last);
    totals[at + 1] = floatBitsToInt(factor.m);
    totals[at + 2] = factor.e;
}
#endif

#else
// The sum so far is whole + part. Parts have 64 addends: the rounding error of one long sum would
// show.
#define WORDS 1
float whole = 0.0, part = 0.0;
float value() { return whole + part; }

// `i` counts the addends; the same for all rows, so that invocations do not branch apart.
#define VALUES(at) x[at]
void take(uint i, float v)
{
    if (i % 64 == 0) {
        whole += part;
        part = 0.0;
    }
    part += v;
}

#if defined(BLOCKED)
void take_total(uint b, uint at) { take(b, intBitsToFloat(totals[at])); }
void start_block()
{
    whole += part;
    part = 0.0;
}
#endif
#if defined(TOTALS)
void write_total(uint at) { totals[at] = floatBitsToInt(value()); }
#endif
#endif

void main()
{
    const uint thread = rf_thread();
    if (thread >= rows * blocks) return;
    const uint row = thread / blocks, block = thread % blocks;
    const uint start = block * block_len, len = min(block_len, columns - start);
    const uint base = row * columns;
#if defined(BLOCKED)
    for (uint b = 0; b < block; b++) take_total(b, WORDS * (row * blocks + b));
    start_block();
#endif
    for (uint i = 0; i < len; i++) {
        const uint at = base + (reverse != 0 ? columns - 1 - start - i : start + i);
#if defined(TOTALS)
        take(i, VALUES(at));
#else
        const float before = value();
        take(i, VALUES(at));
        y[at] = exclusive != 0 ? before : value();
#endif
    }
#if defined(TOTALS)
    write_total(WORDS * thread);
#endif
}
