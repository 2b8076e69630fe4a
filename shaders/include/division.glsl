/* SPDX-License-Identifier: Apache-2.0 */
/* n / d for n < 2^31 by a multiplication; the host computes magic and shift (rf_magic in
 * src/ops/kit.h). After Granlund & Montgomery, "Division by invariant integers using
 * multiplication", PLDI 1994. magic 0 stands for d = 1. */
#ifndef RF_DIVISION_GLSL
#define RF_DIVISION_GLSL

uint rf_divide(uint n, uint magic, uint shift)
{
    uint high, low;
    umulExtended(n, magic, high, low);
    return magic == 0u ? n : high >> shift;
}

#endif
