/* SPDX-License-Identifier: Apache-2.0 */
#include "train/metrics/curve.h"

#include <math.h>

void rf_curve_thresholds(float *thresholds, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) thresholds[i] = (float)((double)i / (double)(count - 1));
    thresholds[0] = -1e-7f;
    thresholds[count - 1] = 1 + 1e-7f;
}

static double ratio_of(double a, double b)
{
    return b != 0 ? a / b : 0;
}

double rf_curve_area_roc(const rf_curve_point *points, uint32_t count)
{
    const double ones = points[0].hits, zeros = points[0].positives - points[0].hits;
    double area = 0;
    for (uint32_t i = 0; i + 1 < count; i++) {
        const rf_curve_point *a = &points[i], *b = &points[i + 1];
        const double width = ratio_of((a->positives - a->hits) - (b->positives - b->hits), zeros);
        area += width * ratio_of(a->hits + b->hits, 2 * ones);
    }
    return area;
}

double rf_curve_area_pr(const rf_curve_point *points, uint32_t count)
{
    const double ones = points[0].hits;
    double area = 0;
    for (uint32_t i = 0; i + 1 < count; i++) {
        const rf_curve_point *a = &points[i], *b = &points[i + 1];
        const double hits = a->hits - b->hits, slope = ratio_of(hits, fmax(a->positives - b->positives, 0));
        const double ratio = a->positives > 0 && b->positives > 0 ? a->positives / b->positives : 1;
        area += slope * (hits + (b->hits - slope * b->positives) * log(ratio));
    }
    return ratio_of(area, ones);
}
