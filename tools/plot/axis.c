/* SPDX-License-Identifier: Apache-2.0 */
/* Axes, ranges and colours of charts, for whichever way they are drawn. */
#include <math.h>
#include <stdio.h>

#include "plot/plot.h"

plot_axis plot_make_axis(double low, double high, int ticks, bool whole)
{
    if (!(high > low)) {
        const double room = low != 0 ? fabs(low) * 0.1 : 1;
        low -= whole ? 0 : room;
        high += whole ? 1 : room;
    }
    const double raw = (high - low) / (ticks > 1 ? ticks : 1), power = pow(10, floor(log10(raw))), part = raw / power;
    double step = power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
    if (whole && step < 1) step = 1;
    plot_axis axis = { .low = floor(low / step + 1e-9) * step, .high = ceil(high / step - 1e-9) * step, .step = step };
    const double largest = fmax(fabs(axis.low), fabs(axis.high));
    const int needed = step < 1 ? (int)ceil(-log10(step) - 1e-9) : 0;
    axis.decimals = needed > 4 || largest >= 1e6 ? -1 : needed;
    return axis;
}

void plot_label(const plot_axis *axis, double value, char *text, size_t size)
{
    if (fabs(value) < axis->step * 1e-6) value = 0;
    if (axis->decimals >= 0)
        snprintf(text, size, "%.*f", axis->decimals, value);
    else
        snprintf(text, size, "%.3g", value);
}

bool plot_range(const plot_chart *chart, double x[2], double y[2])
{
    x[0] = y[0] = INFINITY;
    x[1] = y[1] = -INFINITY;
    for (size_t i = 0; i < chart->count; i++) {
        const plot_series *s = chart->curves[i].series;
        for (size_t k = 0; k < s->count; k++) {
            if (!isfinite(s->x[k]) || !isfinite(s->y[k])) continue;
            x[0] = fmin(x[0], s->x[k]);
            x[1] = fmax(x[1], s->x[k]);
            y[0] = fmin(y[0], s->y[k]);
            y[1] = fmax(y[1], s->y[k]);
        }
    }
    return x[0] <= x[1];
}

/* Okabe & Ito 2008: also distinct to colour-blind readers. */
uint32_t plot_rgb(uint32_t color)
{
    static const uint32_t colors[] = { 0x0072b2, 0xd55e00, 0x009e73, 0xcc79a7, 0xe69f00, 0x56b4e9, 0x555555 };
    return colors[color % (sizeof(colors) / sizeof(colors[0]))];
}
