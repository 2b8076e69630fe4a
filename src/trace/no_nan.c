/* SPDX-License-Identifier: Apache-2.0 */
/* Products and quotients that have a value, and gradients, where the plain ones have none, as TensorFlow has them: the
 * operand that makes it is replaced before it is used. */
#include <ringfire/ops.h>

#include <float.h>

#include "trace/trace.h"

/* 1 where x is 0; false, with the trace failed, for operands that are none. */
static bool find_zeros(rf_trace *t, rf_tensor x, const char *name_x, rf_tensor other, const char *name_other,
                       rf_tensor *zeros)
{
    rf_value v;
    if (!rf_operand(t, x, name_x, &v) || !rf_operand(t, other, name_other, &v)) return false;
    *zeros = rf_compare(t, RF_EQUAL, x, rf_constant(t, 0));
    return true;
}

rf_tensor rf_divide_no_nan(rf_trace *t, rf_tensor a, rf_tensor b)
{
    RF_TRACING(t);
    rf_tensor zeros;
    if (!find_zeros(t, b, "rf_divide_no_nan: b", a, "rf_divide_no_nan: a", &zeros)) return RF_NO_TENSOR;
    const rf_tensor quotient = rf_divide(t, a, rf_where(t, zeros, rf_constant(t, 1), b));
    return rf_where(t, zeros, rf_constant(t, 0), quotient);
}

rf_tensor rf_multiply_no_nan(rf_trace *t, rf_tensor x, rf_tensor y)
{
    RF_TRACING(t);
    rf_tensor zeros;
    if (!find_zeros(t, y, "rf_multiply_no_nan: y", x, "rf_multiply_no_nan: x", &zeros)) return RF_NO_TENSOR;
    const rf_tensor finite = rf_compare(t, RF_LESS_EQUAL, rf_abs(t, x), rf_constant(t, FLT_MAX));
    const rf_tensor replaced = rf_multiply(t, zeros, rf_subtract(t, rf_constant(t, 1), finite));
    return rf_multiply(t, rf_where(t, replaced, rf_constant(t, 0), x), y);
}

rf_tensor rf_xlogy(rf_trace *t, rf_tensor x, rf_tensor y)
{
    RF_TRACING(t);
    rf_tensor zeros;
    if (!find_zeros(t, x, "rf_xlogy: x", y, "rf_xlogy: y", &zeros)) return RF_NO_TENSOR;
    return rf_multiply(t, x, rf_log(t, rf_where(t, zeros, rf_constant(t, 1), y)));
}

rf_tensor rf_xlog1py(rf_trace *t, rf_tensor x, rf_tensor y)
{
    RF_TRACING(t);
    rf_tensor zeros;
    if (!find_zeros(t, x, "rf_xlog1py: x", y, "rf_xlog1py: y", &zeros)) return RF_NO_TENSOR;
    return rf_multiply(t, x, rf_log1p(t, rf_where(t, zeros, rf_constant(t, 0), y)));
}

rf_tensor rf_xdivy(rf_trace *t, rf_tensor x, rf_tensor y)
{
    RF_TRACING(t);
    rf_tensor zeros;
    if (!find_zeros(t, x, "rf_xdivy: x", y, "rf_xdivy: y", &zeros)) return RF_NO_TENSOR;
    const rf_tensor quotient = rf_divide(t, x, rf_where(t, zeros, rf_constant(t, 1), y));
    return rf_where(t, zeros, rf_constant(t, 0), quotient);
}
