// SPDX-License-Identifier: Apache-2.0
// Attention for any shape, an invocation for each row, which walks the rows of the other side one
// by one. Long walks are cut into dispatches that go on where the last one ended. STATS: the
// largest score of a query, and the sum of exponentials of what all lack to it, of which the
// logarithm is kept OUTPUT: weighted means of the values         DELTA: dout . out of each query
// QUERIES: gradient of the queries             KEYS: gradients of keys and values, whose rows walk
// the queries
#version 450
#extension GL_GOOGLE_include_directive : require
#include "include/reduction.glsl"
#include "include/scalar_math.glsl"

layout(constant_id = 1) const bool CAUSAL = false;
layout(constant_id = 2) const bool MASKED = false;
#define FIRST 1u
#define LAST 2u
// `own` rows of each item have invocations, `other` rows are walked.
layout(push_constant) uniform Push {
    uint items, first_item, heads, width, value_width;
    // of this dispatch; all that an item has
    uint own, own_first, own_rows, other, other_first, other_rows;
    int last_key; // of query 0: causal
    float scale;
    uint flags;
    uint mask_item, mask_head, mask_query, mask_key; // strides, 0 where the mask has one for all
    uint base[9];                                    // of bindings
};

#if defined STATS
layout(std430, binding = 0) readonly buffer Queries { float query[]; };
layout(std430, binding = 1) readonly buffer Keys { float key[]; };
layout(std430, binding = 2) readonly buffer Mask { float mask[]; };
layout(std430, binding = 3) buffer Sums { float sums[]; }; // two for each query
#elif defined OUTPUT
layout(std430, binding = 0) readonly buffer Queries { float query[]; };
layout(std430, binding = 1) readonly buffer Keys { float key[]; };
layout(std430, binding = 2) readonly buffer Mask { float mask[]; };
layout(std430, binding = 3) readonly buffer Values { float value[]; };
layout(std430, binding = 4) readonly buffer Sums { float sums[]; };
layout(std430, binding = 5) buffer Output { float result[]; };
#elif defined DELTA
layout(std430, binding = 0) readonly buffer Slopes { float slope[]; };
layout(std430, binding = 1) readonly buffer Output { float result[]; };
layout(std430, binding = 2) writeonly buffer Delta { float delta[]; };
#else
layout(std430, binding = 0) readonly buffer Queries { float query[]; };
layout(std430, binding = 1) readonly buffer Keys { float key[]; };
layout(std430, binding = 2) readonly buffer Mask { float mask[]; };
layout(std430, binding = 3) readonly buffer Values { float value[]; };
layout(std430, binding = 4) readonly buffer Slopes { float slope[]; };
layout(std430, binding = 5) readonly buffer Sums { float sums[]; };
layout(std430, binding = 6) readonly buffer Delta { float delta[]; };
layout(std430, binding = 7) buffer First { float first[]; };
#ifdef KEYS
layout(std430, binding = 8) buffer Second { float second[]; };
#endif
#endif

#ifndef DELTA
bool attends(uint item, uint q, uint k)
{
    bool yes = !CAUSAL || int(k) <= int(q) + last_key;
    if (MASKED) {
        const uint global = first_item + item, n = global / heads, h = global - n * heads;
        const uint bits = floatBitsToUint(mask[n * mask_item + h * mask_head + q * mask_query +
            k * mask_key]);
        yes = yes && (bits & 0x7fffffffu) != 0u;
    }
    return yes;
}

// The same bits in all passes: the largest is taken off it.
float score(uint q_at, uint k_at)
{
    precise float sum = 0.0;
    for (uint c = 0; c < width; c++) sum += query[q_at + c] * key[k_at + c];
    sum *= scale;
    return sum;
}
#ifndef STATS
// `at`: of the query's sums.
float weight_of(uint q_at, uint k_at, uint at)
    { return rf_exp(score(q_at, k_at) - sums[at] - sums[at + 1]); }
#endif
#endif

void main()
{
    const uint t = rf_thread();
    if (t >= items * own) return;
    const uint item = t / own, row = t - item * own, mine = item * own_rows + row,
        others = item * other_rows;
#if defined STATS
    const uint at = base[3] + 2 * mine;
    float most = -3.4e38, sum = 0.0;
    if ((flags & FIRST) == 0u) {
        most = sums[at];
        sum = sums[at + 1];
    }
    for (uint j = 0; j < other; j++) {
        if (!attends(item, own_first + row, other_first + j)) continue;
        const float s = score(base[0] + mine * width, base[1] + (others + j) * width),
            larger = rf_larger(most, s);
        sum = sum * rf_exp(most - larger) + rf_exp(s - larger);
        most = larger;
    }
    if ((flags & LAST) != 0u) {
        // A query that attends to nothing: every weight is 0 then.
        most = sum == 0.0 ? 0.0 : isnan(sum) ? sum : most;
        sum = sum == 0.0 ? 1e30 : rf_log(sum);
    }
    sums[at] = most;
    sums[at + 1] = sum;
#elif defined OUTPUT
    const uint to = base[5] + mine * value_width;
    if ((flags & FIRST) != 0u)
        for (uint c = 0; c < value_width; c++) result[to + c] = 0.0;
    for (uint j = 0; j < other; j++) {
        if (!attends(item, own_first + row, other_first + j)) continue;
        const float weight = weight_of(base[0] + mine * width, base[1] + (others + j) * width,
            base[4] + 2 * mine);
        const uint v_at = base[3] + (others + j) * value_width;
        for (uint c = 0; c < value_width; c++) result[to + c] += weight * value[v_at + c];
    }
#elif defined DELTA
    float sum = 0.0;
    for (uint c = 0; c < value_width; c++)
        sum += slope[base[0] + mine * value_width + c] * result[base[1] + mine * value_width + c];
    delta[base[2] + mine] = sum;
#else
    if ((flags & FIRST) != 0u) {
        for (uint c = 0; c < width; c++) first[base[7] + mine * width + c] = 0.0;
#ifdef KEYS
        for (uint c = 0; c < value_width; c++) second[base[8] + mine * value_width + c] = 0.0;
#endif
    }
    for (uint j = 0; j < other; j++) {
#ifdef KEYS
        const uint q = others + j, k = mine;
        if (!attends(item, other_first + j, own_first + row)) continue;
#else
        const uint q = mine, k = others + j;
        if (!attends(item, own_first + row, other_first + j)) continue;
#endif
        const uint q_at = base[0] + q * width, k_at = base[1] + k * width;
        const uint v_at = base[3] + k * value_width, s_at = base[4] + q * value_width;
        const float weight = weight_of(q_at, k_at, base[5] + 2 * q);
        float through = 0.0;
        for (uint c = 0; c < value_width; c++) {
            through += slope[s_at + c] * value[v_at + c];
#ifdef KEYS
            second[base[8] + mine * value_width + c] += weight * slope[s_at + c];
#endif
        }
        const float d = weight * (through - delta[base[6] + q]) * scale;
        for (uint c = 0; c < width; c++) {
#ifdef KEYS
            first[base[7] + mine * width + c] += d * query[q_at + c];
#else
            first[base[7] + mine * width + c] += d * key[k_at + c];
#endif
        }
    }
#endif
}
