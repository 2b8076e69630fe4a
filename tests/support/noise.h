/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RF_TESTS_SUPPORT_NOISE_H
#define RF_TESTS_SUPPORT_NOISE_H

#include <stdint.h>

/* 24 bits that look random: a linear congruential generator, the same everywhere. */
static inline uint32_t mix(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

#endif
