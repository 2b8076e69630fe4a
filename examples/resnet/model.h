/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Residual networks (He et al. 2015): blocks of convolutions, each with batch normalization, whose input is added to
 * their output; a mean over the image; a linear classifier.
 */
#ifndef EXAMPLE_RESNET_MODEL_H
#define EXAMPLE_RESNET_MODEL_H

#include <ringfire/ringfire.h>

enum { RESNET_MAX_STAGES = 4 };

typedef struct resnet_config {
    uint32_t blocks[RESNET_MAX_STAGES]; /* of each stage; 0: there are no more */
    uint32_t width;                     /* channels of the first stage; each further one has twice as many */
    /* Blocks of three convolutions, 1x1, 3x3 and 1x1, the last of which has four times as many channels, instead of two
     * 3x3. The stride is that of the 3x3, as in version 1.5. */
    bool bottleneck;
    /* Where a block changes the shape: a 1x1 convolution instead of every second pixel and zeros for the new channels.
     */
    bool projection;
    bool large_images; /* 7x7 with a stride of 2, then a maximum over 3x3 with a stride of 2, instead of 3x3 */
    int32_t classes;
    float weight_decay; /* of kernels: so much of them is part of their gradients */
    bool synchronized;  /* statistics of all replicas' examples together, so that no split changes the results */
} resnet_config;

/* For images of 28 x 28 or 32 x 32: 6 n + 2 layers. */
extern const resnet_config resnet_8, resnet_20;
/* For images of 224 x 224. */
extern const resnet_config resnet_18, resnet_50;

typedef struct resnet resnet;

/* A built model: images f32 [n, height, width, channels] of the shape `image` -> logits [n, classes]. */
rf_result resnet_create(rf_strategy *strategy, const resnet_config *config, rf_shape image, resnet **out);
rf_model *resnet_model(const resnet *r); /* owned by `r` */
void resnet_destroy(resnet **r);

#endif
