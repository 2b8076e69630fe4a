// SPDX-License-Identifier: Apache-2.0
// Arithmetic of numbers with exponents of their own.
#ifndef RF_EXPONENTS_GLSL
#define RF_EXPONENTS_GLSL

// A number without the limits of a float's exponent: m * 2^e, where m is in [1, 2) by size, or 0,
// infinite or NaN. A product that does not fit on the way may fit again, and the totals of blocks
// would make 0 times infinity of it. Denormal numbers are 0.
struct Wide { float m; int e; };

Wide wide_of(float v)
{
    const uint bits = floatBitsToUint(v), exponent = bits >> 23 & 0xffu;
    if (exponent == 0xffu) return Wide(v, 0);
    if (exponent == 0) return Wide(uintBitsToFloat(bits & 0x80000000u), 0);
    return Wide(uintBitsToFloat((bits & 0x807fffffu) | 0x3f800000u), int(exponent) - 127);
}

Wide times(Wide a, Wide b)
{
    const Wide m = wide_of(a.m * b.m);
    return Wide(m.m, clamp(a.e + b.e + m.e, -(1 << 29), 1 << 29));
}

// A float does not show an addend that is 64 bits below.
Wide plus(Wide a, Wide b)
{
    if (a.m == 0.0) return b;
    if (b.m == 0.0) return a;
    const int e = max(a.e, b.e);
    const float low_a = uintBitsToFloat(uint(127 + max(a.e - e, -64)) << 23);
    const float low_b = uintBitsToFloat(uint(127 + max(b.e - e, -64)) << 23);
    const Wide sum = wide_of(a.m * low_a + b.m * low_b);
    return Wide(sum.m, sum.e + e);
}

float float_of(Wide a)
{
    const uint bits = floatBitsToUint(a.m), sign = bits & 0x80000000u;
    if ((bits & 0x7f800000u) != 0x3f800000u) return a.m;
    if (a.e > 127) return uintBitsToFloat(sign | 0x7f800000u);
    return uintBitsToFloat(a.e < -126 ? sign : bits + uint(a.e << 23));
}

#endif
