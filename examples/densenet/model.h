/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Densely connected networks (Huang et al. 2016): each layer of a block sees what all layers before it have computed,
 * and adds a few channels of its own. Between blocks, transitions halve height and width. Activation comes before
 * convolution.
 */
#ifndef EXAMPLE_DENSENET_MODEL_H
#define EXAMPLE_DENSENET_MODEL_H

#include <ringfire/ringfire.h>

enum { DENSENET_BLOCKS = 3 };

typedef struct densenet_config {
    uint32_t layers;    /* of each of the three blocks */
    uint32_t growth;    /* channels that a layer adds; there are twice as many before the first one */
    bool bottleneck;    /* a layer begins with a 1x1 convolution to 4 times as many channels */
    double compression; /* part of the channels that a transition keeps */
    int32_t classes;
    float weight_decay; /* of kernels: so much of them is part of their gradients */
    bool synchronized;  /* statistics of all replicas' examples together, so that no split changes the results */
} densenet_config;

/* For images of 28 x 28 or 32 x 32. The names say the depth and the growth; "bc" is for bottleneck and compression. */
extern const densenet_config densenet_bc_16_8, densenet_bc_16_12, densenet_bc_100_12, densenet_40_12;

typedef struct densenet densenet;

/* A built model: images f32 [n, height, width, channels] of the shape `image` -> logits [n, classes]. */
rf_result densenet_create(rf_strategy *strategy, const densenet_config *config, rf_shape image, densenet **out);
rf_model *densenet_model(const densenet *d); /* owned by `d` */
void densenet_destroy(densenet **d);

#endif
