/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loss scaling: what the device keeps of it, and how. The loss is multiplied by the scale before it is differentiated.
 * Once gradients are reduced they are divided by it, and where one of them is not finite the step changes nothing, and
 * the scale is halved; it is doubled after `growth_steps` steps in a row that were finite.
 */
#ifndef RF_BASE_LOSS_SCALE_H
#define RF_BASE_LOSS_SCALE_H

#include <stdbool.h>
#include <stdint.h>

#include <ringfire/common.h>

typedef struct rf_loss_scaling {
    float initial; /* 0: losses are not scaled */
    uint32_t growth_steps;
    bool fixed; /* the scale stays what it is; steps are skipped all the same */
} rf_loss_scaling;

/* Places in the tally, f32 [RF_SCALE_TALLY], beside the scale itself, which steps read and which is f32 [1]. */
enum {
    RF_SCALE_FOUND /* 1: a gradient of this step is not finite */,
    RF_SCALE_INVERSE,
    RF_SCALE_FINITE /* steps in a row */,
    RF_SCALE_SKIPPED /* steps in all */,
    RF_SCALE_TALLY
};

/* Halving and doubling end at 2^-100 and 2^100, where the scale and its inverse are still normal numbers. */
#define RF_SCALE_LEAST 0x1p-100f
#define RF_SCALE_MOST 0x1p100f
/* Pure. The largest magnitude of a gradient at which no sum of those of `replicas` replicas overflows, in whatever
 * order they are added, where each addition rounds to `wire` (RF_F32, RF_F16 or RF_BF16). */
float rf_loss_scale_most(rf_dtype wire, uint32_t replicas);

/* Counts in f32 are exact up to here. */
#define RF_SCALE_MAX_GROWTH_STEPS (1u << 24)

#endif
