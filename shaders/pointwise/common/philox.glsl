/* SPDX-License-Identifier: Apache-2.0 */
/* Philox4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011. The same
 * function as rf_philox() of src/base/philox.h; tests hold them together. */
#ifndef RF_PHILOX_GLSL
#define RF_PHILOX_GLSL

uvec4 rf_philox(uvec2 key, uvec4 counter)
{
#define ROUND                                                                                      \
    {                                                                                              \
        uint high0, low0, high1, low1;                                                             \
        umulExtended(0xd2511f53u, counter.x, high0, low0);                                         \
        umulExtended(0xcd9e8d57u, counter.z, high1, low1);                                         \
        counter = uvec4(high1 ^ counter.y ^ key.x, low1, high0 ^ counter.w ^ key.y, low0);         \
        key += uvec2(0x9e3779b9u, 0xbb67ae85u);                                                    \
    }
    ROUND ROUND ROUND ROUND ROUND ROUND ROUND ROUND ROUND ROUND
#undef ROUND
    return counter;
}

#endif
