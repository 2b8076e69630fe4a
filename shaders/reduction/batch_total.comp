// SPDX-License-Identifier: Apache-2.0
// Puts together what batch_sums.comp found in slices of the rows, a column an invocation: mean and variance by the formula of
// Chan, Golub and LeVeque (1979), or (PRODUCTS) from two sums what normalization's gradient has for each channel.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "include/reduction.glsl"
#include "include/scalar_math.glsl"

layout(std430, binding = 0) readonly buffer Lists { float lists[]; };
layout(std430, binding = 1) writeonly buffer First { float first[]; };
layout(std430, binding = 2) writeonly buffer Second { float second[]; };
#ifdef PRODUCTS
layout(std430, binding = 3) writeonly buffer Third { float third[]; };
layout(std430, binding = 4) writeonly buffer Fourth { float fourth[]; };
layout(std430, binding = 5) readonly buffer Scale { float scale[]; };
layout(std430, binding = 6) readonly buffer Variance { float variance[]; };
#endif
layout(push_constant) uniform Push { uint rows, columns, slice_length, slices; float epsilon; };

void main()
{
    const uint column = rf_thread(), step = columns, list = slices * columns;
    if (column >= step) return;
#ifdef PRODUCTS
    float product = 0.0, sum = 0.0;
    for (uint at = column; at < list; at += step) {
        product += lists[at];
        sum += lists[list + at];
    }
    const float spread = variance[column] + epsilon, per_row = -scale[column] / float(rows);
    first[column] = product / sqrt(spread);
    second[column] = sum;
    third[column] = per_row * (product / spread);
    fourth[column] = per_row * sum;
#else
    // All slices but the last have the same length.
    const float all = float(rows), length = float(slice_length), last = float(rows - (slices - 1) * slice_length);
    float sum = 0.0, mean = 0.0, squares = 0.0;
    for (uint at = column; at < list; at += step) {
        sum += lists[at];
        mean += lists[list + at] * (at + step < list ? length : last);
    }
    mean /= all;
    // Deviations from an infinite number are NaN.
    if (rf_is_nan(mean)) mean = sum / all;
    for (uint at = column; at < list; at += step) {
        const float a = lists[list + at] - mean;
        squares += lists[2 * list + at] + a * a * (at + step < list ? length : last);
    }
    first[column] = mean;
    second[column] = squares / all;
#endif
}
