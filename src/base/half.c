/* SPDX-License-Identifier: Apache-2.0 */
#include "base/half.h"

#include <string.h>

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

uint16_t rf_f32_to_f16(float value)
{
    const uint32_t bits = bits_of(value);
    const uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return (uint16_t)(sign | 0x7E00u | (magnitude >> 13 & 0x3FFu)); /* NaN, made quiet */
    if (magnitude >= 0x477FF000u) return (uint16_t)(sign | 0x7C00u); /* rounds to 65536 or more: infinity */
    if (magnitude < 0x38800000u) { /* below the smallest normal: the float adder rounds at the right bit */
        const uint32_t shifted = bits_of(from_bits(magnitude) + 0.5f) - bits_of(0.5f);
        return (uint16_t)(sign | shifted);
    }
    const uint32_t odd = magnitude >> 13 & 1u;
    return (uint16_t)(sign | ((magnitude - 0x38000000u + 0xFFFu + odd) >> 13));
}

float rf_f16_to_f32(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = half >> 10 & 0x1Fu, mantissa = half & 0x3FFu;
    if (exponent == 31) return from_bits(sign | 0x7F800000u | mantissa << 13);
    if (exponent == 0) {
        const float magnitude = (float)mantissa * 0x1p-24f;
        return from_bits(sign | bits_of(magnitude));
    }
    return from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t rf_f32_to_bf16(float value)
{
    const uint32_t bits = bits_of(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

float rf_bf16_to_f32(uint16_t half)
{
    return from_bits((uint32_t)half << 16);
}
