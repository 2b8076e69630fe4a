// SPDX-License-Identifier: Apache-2.0
// What batch_total.glsl does, by itself: a column an invocation.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "include/reduction.glsl"

layout(std430, binding = 0) readonly buffer Lists { float lists[]; };
#ifdef PRODUCTS
layout(std430, binding = 1) readonly buffer Scale { float scale[]; };
#define TOTAL_BINDING 2
#else
#define TOTAL_BINDING 1
#endif
#ifdef AVERAGES
layout(constant_id = 1) const uint SCALED = 0;
#endif
layout(push_constant) uniform Push {
    uint rows, columns, slice_length, slices;
    float epsilon;
#ifdef AVERAGES
    float keep, take;
#endif
};
#define TOTAL float
#include "batch_total.glsl"

void main()
{
    const uint column = rf_thread();
    if (column < columns) total_column(column, columns, rows, slice_length, slices);
}
