/* SPDX-License-Identifier: Apache-2.0 */
#include "train/layers/rotary.h"

#include <math.h>

#define PI 3.14159265358979323846

rf_result rf_rotary_check(const rf_rotary_params *p, const char *function)
{
    if (!p) return RF_OK;
    RF_REQUIRE(p->scaling >= RF_ROTARY_UNSCALED && p->scaling <= RF_ROTARY_LLAMA3,
               "%s: rotary: scaling %d does not exist", function, (int)p->scaling);
    RF_REQUIRE(p->scaling == RF_ROTARY_UNSCALED ? p->factor == 0.0 : isfinite(p->factor) && p->factor >= 1.0,
               "%s: rotary: factor %g; it is at least 1, and needs a scaling", function, p->factor);
    RF_REQUIRE(p->scaling == RF_ROTARY_DYNAMIC || p->scaling == RF_ROTARY_LLAMA3 ? p->original_length > 0
                                                                                 : p->original_length == 0,
               "%s: rotary: original_length %d; it belongs to DYNAMIC and LLAMA3, and is positive there", function,
               (int)p->original_length);
    if (p->scaling == RF_ROTARY_LLAMA3)
        RF_REQUIRE(p->low_frequency_factor > 0.0 && p->high_frequency_factor > p->low_frequency_factor &&
                       isfinite(p->high_frequency_factor),
                   "%s: rotary: low_frequency_factor %g must be positive, and high_frequency_factor %g larger",
                   function, p->low_frequency_factor, p->high_frequency_factor);
    else
        RF_REQUIRE(p->low_frequency_factor == 0.0 && p->high_frequency_factor == 0.0,
                   "%s: rotary: low_frequency_factor and high_frequency_factor belong to RF_ROTARY_LLAMA3", function);
    return RF_OK;
}

/* Waves that are long beside the original length are stretched, short ones are not, and between there is a ramp. */
static double scale_llama3(const rf_rotary_params *p, double angle)
{
    const double waves = (double)p->original_length * angle / (2.0 * PI); /* in the original length */
    if (waves > p->high_frequency_factor) return angle;
    if (waves < p->low_frequency_factor) return angle / p->factor;
    const double kept = (waves - p->low_frequency_factor) / (p->high_frequency_factor - p->low_frequency_factor);
    return (1.0 - kept) * angle / p->factor + kept * angle;
}

double rf_rotary_angle(const rf_rotary_params *p, double base, int64_t i, int64_t half, int64_t steps)
{
    if (p->scaling == RF_ROTARY_DYNAMIC && steps > p->original_length && half > 1)
        base *= pow(p->factor * (double)steps / (double)p->original_length - (p->factor - 1.0),
                    (double)half / (double)(half - 1));
    const double angle = pow(base, -(double)i / (double)half);
    if (p->scaling == RF_ROTARY_LINEAR) return angle / p->factor;
    return p->scaling == RF_ROTARY_LLAMA3 ? scale_llama3(p, angle) : angle;
}
