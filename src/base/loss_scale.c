/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loss_scale.h"

#include <float.h>
#include <math.h>

float rf_loss_scale_most(rf_dtype wire, uint32_t replicas)
{
    /* Largest finite numbers; each addition makes a sum larger by at most this part of it. */
    const double largest = wire == RF_F16 ? 65504 : wire == RF_BF16 ? 0x1.fep127 : FLT_MAX;
    const double rounding = wire == RF_F16 ? 0x1p-11 : wire == RF_BF16 ? 0x1p-8 : 0x1p-24;
    if (replicas < 2) return (float)largest;
    return (float)(largest / (replicas * exp(rounding * replicas)));
}
