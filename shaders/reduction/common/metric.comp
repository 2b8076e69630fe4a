// SPDX-License-Identifier: Apache-2.0
// Adds weighted values to a metric's state by Neumaier's compensated summation (A. Neumaier,
// "Rundungsfehleranalyse einiger
// Verfahren zur Summation endlicher Summen", ZAMM 54, 1974). One workgroup for each column: each
// invocation adds up a run of
// rows, the first one adds up theirs. Where there are many, halves of them take over the others'
// before.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "include/reduction.glsl"
#include "include/scalar_math.glsl"

// of each column: total, compensation, weight, compensation
layout(std430, binding = 0) buffer State { float state[]; };
layout(std430, binding = 1) readonly buffer X { float x[]; };
#ifdef WEIGHTED
layout(std430, binding = 2) readonly buffer W { float w[]; };
#endif
// half of the invocations, or 0
layout(push_constant) uniform Push { uint count, columns, halves; };

shared float totals[128], rests[128], weights[128], weight_rests[128];

// Without `precise` a compiler may cancel the compensation away. An infinite sum has none: infinity
// less infinity is NaN.
void add(inout float total, inout float rest, float v)
{
    precise const float sum = total + v;
    if (abs(total) >= abs(v)) {
        precise const float lost = (total - sum) + v;
        precise const float next = rest + lost;
        rest = rf_is_finite(sum) ? next : rest;
    } else {
        precise const float lost = (v - sum) + total;
        precise const float next = rest + lost;
        rest = rf_is_finite(sum) ? next : rest;
    }
    total = sum;
}

void main()
{
    const uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x;
    const uint column = gl_WorkGroupID.x, at = 4 * column, run = (count + lanes - 1) / lanes;
    const uint first = min(lane * run, count), end = min(first + run, count);
    float total = 0.0, rest = 0.0, weight_rest = 0.0;
#ifdef WEIGHTED
    float weight = 0.0;
#else
    float weight = float(end - first);
#endif
    for (uint i = first; i < end; i++) {
        const uint place = i * columns + column;
#ifdef WEIGHTED
        add(total, rest, x[place] * w[place]);
        add(weight, weight_rest, w[place]);
#else
        add(total, rest, x[place]);
#endif
    }
    totals[lane] = total;
    rests[lane] = rest;
    weights[lane] = weight;
    weight_rests[lane] = weight_rest;
    barrier();
    for (uint width = halves; width > 0; width /= 2) {
        if (lane < width) {
            const uint other = lane + width;
            add(total, rest, totals[other]);
            rest += rests[other];
            add(weight, weight_rest, weights[other]);
            weight_rest += weight_rests[other];
            totals[lane] = total;
            rests[lane] = rest;
            weights[lane] = weight;
            weight_rests[lane] = weight_rest;
        }
        barrier();
    }
    if (lane != 0) return;
    total = state[at];
    rest = state[at + 1];
    weight = state[at + 2];
    weight_rest = state[at + 3];
    const uint left = halves > 0 ? 1 : lanes;
    for (uint l = 0; l < left; l++) {
        add(total, rest, totals[l]);
        rest += rests[l];
        add(weight, weight_rest, weights[l]);
        weight_rest += weight_rests[l];
    }
    // So that the rests are what the sums could not hold, whatever the order of additions was.
    float sum = total, lost = 0.0;
    add(sum, lost, rest);
    state[at] = sum;
    state[at + 1] = lost;
    sum = weight;
    lost = 0.0;
    add(sum, lost, weight_rest);
    state[at + 2] = sum;
    state[at + 3] = lost;
}
