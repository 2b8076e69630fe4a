/* SPDX-License-Identifier: Apache-2.0 */
/* Parts that trainers of image classifiers share: Fashion-MNIST or CIFAR with flips and moves, SGD whose rate falls in
 * steps, a bar, checkpoints, events. */
#ifndef EXAMPLE_IMAGE_TRAINER_H
#define EXAMPLE_IMAGE_TRAINER_H

#include <ringfire/ringfire.h>

typedef struct image_training {
    uint32_t epochs, batch_size; /* where the user gives none; the latter per replica */
} image_training;

/* The purpose that the network is made for. */
typedef struct image_network {
    bool full;
    bool synchronized; /* batch normalization takes the statistics of all replicas */
    rf_shape image;
    int32_t classes;
} image_network;

typedef struct image_trainer {
    const char *purpose;   /* of the program: the first line of --help */
    const char *full_help; /* what --full trains */
    image_training small, full;
    double learning_rate; /* where the user gives none; a tenth and a hundredth of it later */
    double drops[2];      /* after these parts of the training */
    bool nesterov;
    /* A built model that gives logits, in *network, which the other two functions take. */
    rf_result (*create)(rf_strategy *strategy, const image_network *wanted, void **network);
    rf_model *(*model)(const void *network);
    void (*destroy)(void *network);
} image_trainer;

/* main() of such a program. */
int image_trainer_main(int argc, char **argv, const image_trainer *trainer);

#endif
