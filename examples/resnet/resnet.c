/* SPDX-License-Identifier: Apache-2.0 */
/* A residual network learns to tell the articles of Fashion-MNIST apart. */
#include "../common/image_trainer.h"
#include "model.h"

static rf_result create(rf_strategy *strategy, const image_network *wanted, void **network)
{
    resnet_config config = wanted->full ? resnet_20 : resnet_8;
    resnet *r;
    config.classes = wanted->classes;
    config.synchronized = wanted->synchronized;
    const rf_result result = resnet_create(strategy, &config, wanted->image, &r);
    *network = r;
    return result;
}

static rf_model *model(const void *network)
{
    return resnet_model(network);
}

static void destroy(void *network)
{
    resnet *r = network;
    resnet_destroy(&r);
}

int main(int argc, char **argv)
{
    return image_trainer_main(
        argc, argv,
        &(image_trainer){ .purpose = "Trains a residual network on Fashion-MNIST, or on CIFAR-10 or CIFAR-100 where "
                                     "--data names a directory of their binary files.",
                          .full_help = "The smallest network and the training of the paper: 20 layers, 64,000 steps of "
                                       "128 images (default: 8 layers, batches of 64)",
                          .small = { .epochs = 2, .batch_size = 64 },
                          .full = { .epochs = 137, .batch_size = 128 },
                          .learning_rate = 0.1,
                          .drops = { 0.5, 0.75 },
                          .create = create,
                          .model = model,
                          .destroy = destroy });
}
