/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Neural collaborative filtering (He et al. 2017), NeuMF: the product of a user's and an item's factors, and a
 * perceptron over others of both, together say how likely the user takes the item.
 */
#ifndef EXAMPLE_NCF_MODEL_H
#define EXAMPLE_NCF_MODEL_H

#include <ringfire/ringfire.h>

enum { NCF_MAX_LAYERS = 8 };

typedef struct ncf_config {
    int32_t num_users, num_items;
    int32_t factors; /* of the product */
    int32_t num_layers;
    int32_t layers[NCF_MAX_LAYERS]; /* units of the perceptron; the first ones are a user's and an item's factors */
} ncf_config;

/* The network for ratings of 6,040 users for 3,706 films, as TensorFlow's model garden has it. */
extern const ncf_config ncf_movielens_1m;

/* A built functional model: user i32 [n...], item i32 [n...] -> the logit [n..., 1]. */
rf_result ncf_create(rf_strategy *strategy, const ncf_config *config, rf_model **out);

#endif
