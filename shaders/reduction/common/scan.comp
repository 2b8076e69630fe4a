// SPDX-License-Identifier: Apache-2.0
// Scans along rows: cumulative sums, cumulative products (PRODUCT) and linear recurrences
// (RECURRENCE). One invocation a
// row; or rows cut into blocks of one invocation each: TOTALS makes the total of every block, then
// BLOCKED starts each
// block from the totals of those before it (reduce, then scan: Blelloch, "Prefix sums and their
// applications", 1990).
// "Before" is in the order of the scan, which `reverse` turns round. FOURS: four columns at a time,
// read as texels; rows are
// multiples of four long, except when there is only one, whose last few elements come through a
// second view. GROUP, with FOURS: both steps in one
// dispatch, by a subgroup for each row, whose lanes have a block each and hand their totals on.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "include/reduction.glsl"

#if defined(FOURS)
#include "include/write_fours.glsl"
#extension GL_EXT_control_flow_attributes : require
layout(binding = 0) uniform samplerBuffer x;
#if defined(BLOCKED)
layout(std430, binding = 3) readonly buffer XTail { float x_tail[]; };
#else
layout(std430, binding = 2) readonly buffer XTail { float x_tail[]; };
#endif
#else
layout(std430, binding = 0) readonly buffer X { float x[]; };
#endif
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
#if defined(FOURS)
layout(std430, binding = OUTPUT) writeonly buffer YFours { u64vec2 y_fours[]; };
#endif
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
#define NEUTRAL 1.0
#define VALUES(at) x[at]
void take(uint i, float v) { product = times(product, wide_of(v)); }
#if defined(GROUP)
// From here on: the totals of the blocks before, of those that lanes have now.
void take_totals(uint block)
{
    const Wide own = product;
    product = Wide(1.0, 0);
    for (uint b = 0; b + 1 < blocks; b++) {
        const Wide its = Wide(subgroupShuffle(own.m, b), subgroupShuffle(own.e, b));
        const Wide next = times(product, its);
        product = Wide(b < block ? next.m : product.m, b < block ? next.e : product.e);
    }
}
#endif
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
#define NEUTRAL 0.0
#define VALUES(at) x[at]
void take(uint i, float v)
{
    if (i % 64 == 0) {
        whole += part;
        part = 0.0;
    }
    part += v;
}

#if defined(GROUP)
void take_totals(uint block)
{
    const float own = value();
    whole = part = 0.0;
    for (uint b = 0; b + 1 < blocks; b++) {
        const float its = subgroupShuffle(own, b);
        whole += b < block ? its : 0.0;
    }
}
#endif
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

#if defined(FOURS)
// Takes v and says what stands in its place.
float step(uint i, float v)
{
    const float before = value();
    take(i, v);
    return exclusive != 0 ? before : value();
}

// The last few elements of the only row; `writes`: not only into the total.
void tail(bool writes)
{
    const uint rest = columns % 4, start = columns - rest;
    for (uint i = 0; i < rest; i++) {
        const uint at = start + (reverse != 0 ? rest - 1 - i : i);
#if defined(TOTALS)
        take(1, x_tail[at]);
#else
        const float v = step(1, x_tail[at]);
        if (writes) y[at] = v;
#endif
    }
}

#if defined(GROUP)
// Lanes beyond the end of a short row have nothing.
void main()
{
    const uint row = rf_group(), block = gl_SubgroupInvocationID,
        there = reverse != 0 ? blocks - 1 - block : block;
    if (row >= rows) return;
    const uint fours = columns / 4, start = min(there * (block_len / 4), fours),
        len = min(block_len / 4, fours - start);
    const uint each = block_len / 4, base = row * fours + start;
    const bool has_tail = columns % 4 != 0 && there == blocks - 1;
    const bool back = reverse != 0;
    if (has_tail && back) tail(false);
    for (uint i = 0; i < each; i++) {
        const bool has = i < len;
        vec4 v = texelFetch(x, int(has ? base + (back ? len - 1 - i : i) : 0));
        v = has ? back ? v.wzyx : v : vec4(NEUTRAL);
        [[unroll]] for (uint k = 0; k < 4; k++) take(4 * i + k, v[k]);
    }
    if (has_tail && !back) tail(false);
    take_totals(block);
    if (has_tail && back) tail(true);
    for (uint i = 0; i < each; i++) {
        const bool has = i < len;
        const uint at = has ? base + (back ? len - 1 - i : i) : 0;
        vec4 v = texelFetch(x, int(at));
        v = has ? back ? v.wzyx : v : vec4(NEUTRAL);
        [[unroll]] for (uint k = 0; k < 4; k++) v[k] = step(4 * i + k, v[k]);
        v = back ? v.wzyx : v;
        RF_WRITE4(y_fours, has, at, v)
    }
    if (has_tail && !back) tail(true);
}
#else
// All invocations take part throughout: those beyond the end go with the last one. Blocks lie in
// memory as in a scan that
// goes forward, and `block` counts them in the order of the scan.
void main()
{
    const bool live = rf_thread() < rows * blocks;
    const uint thread = min(rf_thread(), rows * blocks - 1), row = thread / blocks,
        block = thread % blocks;
    const uint there = reverse != 0 ? blocks - 1 - block : block;
    const uint fours = columns / 4, each = block_len / 4, start = there * each,
        len = min(each, fours - start);
    const bool has_tail = live && columns % 4 != 0 && there == blocks - 1;
#if defined(BLOCKED)
    for (uint b = 0; b < block; b++) take_total(b, WORDS * (row * blocks + b));
    start_block();
#endif
    if (has_tail && reverse != 0) tail(true);
    for (uint i = 0; i < each; i++) {
        const bool has = i < len;
        const uint at = has ? row * fours + start + (reverse != 0 ? len - 1 - i : i) : 0;
        vec4 v = texelFetch(x, int(at));
        v = has ? reverse != 0 ? v.wzyx : v : vec4(NEUTRAL);
#if defined(TOTALS)
        [[unroll]] for (uint k = 0; k < 4; k++) take(4 * i + k, v[k]);
#else
        [[unroll]] for (uint k = 0; k < 4; k++) v[k] = step(4 * i + k, v[k]);
        v = reverse != 0 ? v.wzyx : v;
        RF_WRITE4(y_fours, has && live, at, v)
#endif
    }
    if (has_tail && reverse == 0) tail(true);
#if defined(TOTALS)
    if (live) write_total(WORDS * thread);
#endif
}
#endif
#else
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
#endif
