/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that models of images are made of, as blocks.h has those of texts, and the names of their tensors. */
#ifndef RF_PRETRAINED_VISION_H
#define RF_PRETRAINED_VISION_H

#include "pretrained/blocks.h"

/* f32 "pixel_values" [n, height, width, channels]. */
rf_symbol rf_vision_input(const rf_blocks *b, int32_t height, int32_t width, int32_t channels);

/* A convolution, which takes zeros around the image that keep its size where the stride is 1, as PyTorch's networks do,
 * and the batch normalization after it. */
typedef struct rf_vision_unit {
    int32_t filters; /* 0: each channel has a kernel of its own */
    int32_t size, stride;
    int32_t dilation;         /* 0: 1 */
    double momentum, epsilon; /* of the normalization; momentum: the part that stays */
    rf_activation activation; /* after it */
    const char *conv, *norm;  /* names */
} rf_vision_unit;
rf_symbol rf_vision_add_unit(const rf_blocks *b, rf_symbol x, const rf_vision_unit *unit);

/* Patches [n, height / size * width / size, width] of images. */
rf_symbol rf_vision_patches(const rf_blocks *b, rf_symbol x, int32_t size, int32_t width, const char *name);
rf_symbol rf_vision_class_token(const rf_blocks *b, rf_symbol x, const char *name);
/* The maximum of 3 x 3 pixels, at every second one. */
rf_symbol rf_vision_max_pool(const rf_blocks *b, rf_symbol x);
rf_symbol rf_vision_mean(const rf_blocks *b, rf_symbol x); /* of all pixels: [n, channels] */
/* x [n, h, w, c] times a factor [n, c] of each channel. */
rf_symbol rf_vision_weigh(const rf_blocks *b, rf_symbol x, rf_symbol factors, int32_t channels);

/* ---- rows of tables ---- */

#define RF_VISION_CONV(OF, TO)                                                                                         \
    {                                                                                                                  \
        .tensor = OF ".weight", .variable = TO "/kernel", .layout = RF_PRETRAINED_TRANSPOSED                           \
    }
/* PyTorch counts the batches, too, which nothing needs that has a momentum. */
#define RF_VISION_NORM(OF, TO)                                                                                         \
    { .tensor = OF ".weight", .variable = TO "/gamma" }, { .tensor = OF ".bias", .variable = TO "/beta" },             \
        { .tensor = OF ".running_mean", .variable = TO "/moving_mean" },                                               \
        { .tensor = OF ".running_var", .variable = TO "/moving_variance" },                                            \
    {                                                                                                                  \
        .tensor = OF ".num_batches_tracked"                                                                            \
    }

#endif
