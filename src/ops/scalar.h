/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of references that treat NaN as shaders do; the rule is in shaders/include/scalar_fns.h. */
#ifndef RF_OPS_SCALAR_H
#define RF_OPS_SCALAR_H

#include <math.h>
#include <stdbool.h>

static inline double rf_larger(double a, double b)
{
    return b > a || isnan(b) ? b : a;
}

static inline double rf_smaller(double a, double b)
{
    return b < a || isnan(b) ? b : a;
}

static inline double rf_clamp(double a, double low, double high)
{
    return a < low ? low : a > high ? high : a;
}

/* Whether v takes the place of the first maximum so far: it is greater, or the first NaN. */
static inline bool rf_exceeds(double v, double best)
{
    return v > best || (isnan(v) && !isnan(best));
}

static inline double rf_relu_grad(double dy, double a)
{
    return a > 0 ? dy : isnan(a) ? a : 0;
}

#endif
