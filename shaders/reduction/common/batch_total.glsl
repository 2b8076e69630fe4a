// SPDX-License-Identifier: Apache-2.0
// Puts together what batch_sums.comp found in slices of the rows, for one column or, where TOTAL is
// vec4, four: mean and variance by the
// formula of Chan, Golub and LeVeque (1979), with AVERAGES also what normalization makes of them,
// or (PRODUCTS) from two sums what its
// gradient has for each channel. Includers have lists[], with PRODUCTS scale[] and with AVERAGES
// the constant SCALED, and push constants
// epsilon, keep and take. Bindings begin at TOTAL_BINDING.
#ifndef RF_BATCH_TOTAL_GLSL
#define RF_BATCH_TOTAL_GLSL
#include "include/scalar_math.glsl"

layout(std430, binding = TOTAL_BINDING) writeonly buffer First { TOTAL first[]; };
layout(std430, binding = TOTAL_BINDING + 1) writeonly buffer Second { TOTAL second[]; };
#ifdef PRODUCTS
layout(std430, binding = TOTAL_BINDING + 2) writeonly buffer Third { TOTAL third[]; };
layout(std430, binding = TOTAL_BINDING + 3) writeonly buffer Fourth { TOTAL fourth[]; };
layout(std430, binding = TOTAL_BINDING + 4) readonly buffer Variance { TOTAL variance[]; };
#endif
#ifdef AVERAGES
layout(std430, binding = TOTAL_BINDING + 2) writeonly buffer ScaleOut { TOTAL scale_out[]; };
layout(std430, binding = TOTAL_BINDING + 3) writeonly buffer NextMean { TOTAL next_mean[]; };
layout(std430, binding = TOTAL_BINDING + 4) writeonly buffer NextVariance { TOTAL next_variance[];
    };
layout(std430, binding = TOTAL_BINDING + 5) readonly buffer AverageMean { TOTAL average_mean[]; };
layout(std430, binding = TOTAL_BINDING + 6) readonly buffer AverageVariance {
    TOTAL average_variance[]; };
layout(std430, binding = TOTAL_BINDING + 7) readonly buffer Gamma { TOTAL gamma[]; };
#endif

// `step`: columns, in units of TOTAL.
void total_column(uint column, uint step, uint rows, uint slice_length, uint slices)
{
    const uint list = slices * step;
#ifdef PRODUCTS
    TOTAL product = TOTAL(0), sum = TOTAL(0);
    for (uint at = column; at < list; at += step) {
        product += lists[at];
        sum += lists[list + at];
    }
    const TOTAL spread = variance[column] + epsilon, per_row = -scale[column] / float(rows);
    first[column] = product / sqrt(spread);
    second[column] = sum;
    third[column] = per_row * (product / spread);
    fourth[column] = per_row * sum;
#else
    // All slices but the last have the same length. Distances are from the first one's mean.
    const float all = float(rows), length = float(slice_length),
        last = float(rows - (slices - 1) * slice_length);
    const TOTAL origin = lists[list + column];
    TOTAL away = TOTAL(0), squares = TOTAL(0);
    for (uint at = column; at < list; at += step) {
        const TOTAL distance = lists[list + at] - origin,
            part = distance * (at + step < list ? length : last);
        away += part;
        squares += lists[2 * list + at] + distance * part;
    }
    const TOTAL offset = away / all;
    TOTAL mean = origin + offset, sum = TOTAL(0);
    // Distances from an infinite number are NaN, its mean is not.
    for (uint at = rf_some_nan(mean) ? column : list; at < list; at += step) sum += lists[at];
    mean = rf_known(mean, sum / all);
    const TOTAL variance = rf_larger(squares - away * offset, TOTAL(0)) / all;
    first[column] = mean;
    second[column] = variance;
#ifdef AVERAGES
    const TOTAL deviation = sqrt(variance + epsilon);
    scale_out[column] = (SCALED != 0u ? gamma[column] : TOTAL(1)) / deviation;
    next_mean[column] = average_mean[column] * keep + mean * take;
    next_variance[column] = average_variance[column] * keep + variance * take;
#endif
#endif
}

#endif
