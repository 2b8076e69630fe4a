// SPDX-License-Identifier: Apache-2.0
// Puts together what batch_sums.comp found in slices of the rows, a column an invocation: mean and variance by the formula of
// Chan, Golub and LeVeque (1979), with AVERAGES also what normalization makes of them, or (PRODUCTS) from two sums what its gradient
// has for each channel.
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
#ifdef AVERAGES
layout(std430, binding = 3) writeonly buffer Scale { float scale[]; };
layout(std430, binding = 4) writeonly buffer NextMean { float next_mean[]; };
layout(std430, binding = 5) writeonly buffer NextVariance { float next_variance[]; };
layout(std430, binding = 6) readonly buffer AverageMean { float average_mean[]; };
layout(std430, binding = 7) readonly buffer AverageVariance { float average_variance[]; };
layout(std430, binding = 8) readonly buffer Gamma { float gamma[]; };
layout(constant_id = 1) const uint SCALED = 0;
#endif
layout(push_constant) uniform Push {
    uint rows, columns, slice_length, slices;
    float epsilon;
#ifdef AVERAGES
    float keep, take;
#endif
};

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
    const float variance = squares / all;
    first[column] = mean;
    second[column] = variance;
#ifdef AVERAGES
    const float deviation = sqrt(variance + epsilon);
    scale[column] = (SCALED != 0u ? gamma[column] : 1.0) / deviation;
    next_mean[column] = average_mean[column] * keep + mean * take;
    next_variance[column] = average_variance[column] * keep + variance * take;
#endif
#endif
}
