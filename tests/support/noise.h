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

/* Batch `number`: `rows` examples of `width` values in [-1, 1), and labels below `classes`. */
static inline void noise_batch(uint32_t number, uint32_t rows, uint32_t width, uint32_t classes, float *x,
                               int32_t *labels)
{
    uint32_t noise = number * 7919u + 1;
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t k = 0; k < width; k++) x[i * width + k] = (float)mix(&noise) * 0x1p-23f - 1;
        labels[i] = (int32_t)((noise >> 10) % classes);
    }
}

#endif
