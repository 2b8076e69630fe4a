/* SPDX-License-Identifier: Apache-2.0 */
/* Long sums beside products, as exact as those of a reduction of their own: what an addition rounds
 * off is left out of the next one (Kahan 1965). `lost` begins with zeros. `no_bits` is 0, which
 * compilers do not know: lavapipe's takes (a + b) - a for b, `precise` or not. Nothing is left out
 * of sums that are not finite: infinity less infinity would make NaN of an infinite sum. */
#ifndef RF_EXACT_SUM_GLSL
#define RF_EXACT_SUM_GLSL

float rf_lost(float x) { return abs(x) < 3e38 ? x : 0.0; }
vec4 rf_lost(vec4 x) { return mix(vec4(0.0), x, lessThan(abs(x), vec4(3e38))); }

#define RF_NO_BITS(total) (uint(total) >> 31)
#define RF_ADD_EXACTLY(T, sum, lost, x, no_bits)                                                   \
    {                                                                                              \
        precise T addend_ = (x)-lost, next_ = sum + addend_;                                       \
        next_ = uintBitsToFloat(floatBitsToUint(next_) ^ no_bits);                                 \
        precise T lost_ = (next_ - sum) - addend_;                                                 \
        sum = next_;                                                                               \
        lost = rf_lost(lost_);                                                                     \
    }

#endif
