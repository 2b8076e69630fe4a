// SPDX-License-Identifier: Apache-2.0
// Adds weighted values to a metric's state by Neumaier's compensated summation (A. Neumaier, "Rundungsfehleranalyse einiger
// Verfahren zur Summation endlicher Summen", ZAMM 54, 1974). One workgroup: each invocation adds up a run of neighbours, the
// first one adds up theirs.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "include/reduction.glsl"
#include "include/scalar_math.glsl"

layout(std430, binding = 0) buffer State { float state[]; }; // total, compensation, weight, unused
layout(std430, binding = 1) readonly buffer X { float x[]; };
#ifdef WEIGHTED
layout(std430, binding = 2) readonly buffer W { float w[]; };
#endif
layout(push_constant) uniform Push { uint count; };

shared float totals[128], rests[128], weights[128];

// Without `precise` a compiler may cancel the compensation away. An infinite sum has none: infinity less infinity is NaN.
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
    const uint run = (count + lanes - 1) / lanes;
    float total = 0.0, rest = 0.0, weight = 0.0;
    for (uint i = lane * run; i < min((lane + 1) * run, count); i++) {
#ifdef WEIGHTED
        add(total, rest, x[i] * w[i]);
        weight += w[i];
#else
        add(total, rest, x[i]);
        weight += 1.0;
#endif
    }
    totals[lane] = total;
    rests[lane] = rest;
    weights[lane] = weight;
    barrier();
    if (lane != 0) return;
    total = state[0];
    rest = state[1];
    weight = state[2];
    for (uint l = 0; l < lanes; l++) {
        add(total, rest, totals[l]);
        rest += rests[l];
        weight += weights[l];
    }
    // So that the rest is what the total could not hold, whatever the order of additions was.
    float sum = total, lost = 0.0;
    add(sum, lost, rest);
    state[0] = sum;
    state[1] = lost;
    state[2] = weight;
}
