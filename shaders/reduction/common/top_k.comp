// SPDX-License-Identifier: Apache-2.0
// The k first elements of rows in one of three orders, in two ways. Candidates are pairs of a key,
// which is larger the
// earlier an element comes, and the column; of equal keys the first column comes first. Where there
// is none the key is 0.
//
// By insertion: an invocation keeps the k best of a block of a row (FIRST), or of the candidates of
// several blocks
// (MERGE).
// By sorting (after Shanbhag, Pirk & Madden, "Efficient top-k query processing on GPUs", 2018):
// LOAD makes candidates;
// bitonic steps (STEP) sort blocks of K candidates, K a power of two, one downwards and one upwards
// by turns; KEEP leaves
// the K best of two such blocks in the first, until one block is left. CHUNK takes several steps at
// once: those within
// `len` candidates, which belong to one invocation.
// FINISH writes the k first candidates of each row.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "include/reduction.glsl"

#if defined(FIRST) || defined(LOAD)
layout(std430, binding = 0) readonly buffer X { uint x[]; };
layout(std430, binding = 1) buffer To { uvec2 to[]; };
#elif defined(MERGE)
layout(std430, binding = 0) readonly buffer From { uvec2 from[]; };
layout(std430, binding = 1) buffer To { uvec2 to[]; };
#elif defined(FINISH)
layout(std430, binding = 0) readonly buffer X { uint x[]; };
layout(std430, binding = 1) readonly buffer From { uvec2 from[]; };
layout(std430, binding = 2) writeonly buffer Values { uint values[]; };
layout(std430, binding = 3) writeonly buffer Indices { uint indices[]; };
#else
layout(std430, binding = 0) buffer To { uvec2 to[]; };
#endif
// threads: of a row. columns: elements, or candidates, of a row that is read; row_length: of one
// that is written, or of
// what FINISH reads. len: what a block of an insertion reads. block, spacing, stride, sizes and, of
// steps, threads are
// powers of two. turned: all bits where the order is ascending; nan: NaN's key, the largest or the
// smallest.
layout(push_constant) uniform Push
{
    uint rows, threads, columns, row_length, k, len, block, spacing, size, stride, last_size,
        turned, nan;
};

// -0 is 0 here.
uint key_of(uint bits)
{
    const uint magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return nan;
    if (magnitude == 0) return 0x80000000u ^ turned;
    return (bits == magnitude ? bits | 0x80000000u : ~bits) ^ turned;
}

bool comes_before(uvec2 a, uvec2 b)
{
    return a.x > b.x || (a.x == b.x && a.y < b.y);
}

#if defined(STEP) || defined(CHUNK)
void exchange(uint a, uint b, bool downwards)
{
    const uvec2 first = to[a], second = to[b];
    const bool swap = comes_before(second, first) == downwards;
    to[a] = mix(first, second, bvec2(swap));
    to[b] = mix(second, first, bvec2(swap));
}
#endif

void main()
{
    const uint thread = rf_thread();
    if (thread >= rows * threads) return;
#if defined(STEP) || defined(CHUNK) || defined(KEEP)
    const uint row = thread >> findLSB(threads), part = thread & (threads - 1);
#else
    const uint row = thread / threads, part = thread % threads;
#endif
#if defined(FIRST) || defined(MERGE)
    // Candidates come in the order of their columns where keys are equal, so that only a greater
    // one displaces another.
    const uint list = row * row_length + part * k, first = part * len,
        last = min(first + len, columns);
    uint count = 0, least = 0;
    for (uint c = first; c < last; c++) {
#ifdef FIRST
        const uvec2 candidate = uvec2(key_of(x[row * columns + c]), c);
#else
        const uvec2 candidate = from[row * columns + c];
#endif
        if (candidate.x == 0 || (count == k && candidate.x <= least)) continue;
        uint at = count < k ? count++ : k - 1;
        while (at > 0 && to[list + at - 1].x < candidate.x) {
            to[list + at] = to[list + at - 1];
            at--;
        }
        to[list + at] = candidate;
        least = to[list + count - 1].x;
    }
    for (; count < k; count++) to[list + count] = uvec2(0, 0xffffffffu);
#elif defined(LOAD)
    to[thread] = part < columns ? uvec2(key_of(x[row * columns + part]), part) :
        uvec2(0, 0xffffffffu);
#elif defined(FINISH)
    const uint column = from[row * row_length + part].y;
    values[thread] = x[row * columns + column];
    indices[thread] = column;
#else
    // Blocks stand `spacing` apart.
    const uint base = row * row_length;
#if defined(KEEP)
    const uint a = base + (part >> findLSB(block)) * 2 * spacing + (part & (block - 1)),
        b = a + spacing;
    if (comes_before(to[b], to[a])) to[a] = to[b];
#elif defined(CHUNK)
    const uint place = part * len, number = place >> findLSB(block), start = place & (block - 1);
    const uint chunk = base + number * spacing + start;
    for (uint s = size; s <= last_size; s *= 2)
        for (uint d = min(s, len) / 2; d > 0; d /= 2)
            for (uint pair = 0; pair < len / 2; pair++) {
                const uint i = 2 * pair - (pair & (d - 1));
                exchange(chunk + i, chunk + i + d, s < block ? ((start + i) & s) == 0 :
                    (number & 1) == 0);
            }
#else
    const uint half_block = block / 2, number = part >> findLSB(half_block),
        pair = part & (half_block - 1);
    const uint i = 2 * pair - (pair & (stride - 1)), a = base + number * spacing + i;
    exchange(a, a + stride, size < block ? (i & size) == 0 : (number & 1) == 0);
#endif
#endif
}
