/* SPDX-License-Identifier: Apache-2.0 */
/* A densely connected network learns to tell the articles of Fashion-MNIST apart. */
#include "../common/image_trainer.h"
#include "model.h"

static rf_result create(rf_strategy *strategy, const image_network *wanted, void **network)
{
    densenet_config config = wanted->full ? densenet_bc_100_12 : densenet_bc_16_12;
    densenet *d;
    config.classes = wanted->classes;
    config.synchronized = wanted->synchronized;
    const rf_result result = densenet_create(strategy, &config, wanted->image, &d);
    *network = d;
    return result;
}

static rf_model *model(const void *network)
{
    return densenet_model(network);
}

static void destroy(void *network)
{
    densenet *d = network;
    densenet_destroy(&d);
}

int main(int argc, char **argv)
{
    return image_trainer_main(
        argc, argv,
        &(image_trainer){ .purpose = "Trains a densely connected network on Fashion-MNIST, or on CIFAR-10 or CIFAR-100 "
                                     "where --data names a directory of their binary files.",
                          .full_help =
                              "A network and the training of the paper: 100 layers, 300 epochs with batches of "
                              "64 (default: 16 layers)",
                          .small = { .epochs = 2, .batch_size = 64 },
                          .full = { .epochs = 300, .batch_size = 64 },
                          .learning_rate = 0.1,
                          .drops = { 0.5, 0.75 },
                          .nesterov = true,
                          .create = create,
                          .model = model,
                          .destroy = destroy });
}
