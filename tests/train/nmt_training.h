/* SPDX-License-Identifier: Apache-2.0 */
/* A network of examples/nmt follows a trajectory. */
#ifndef RF_TESTS_TRAIN_NMT_TRAINING_H
#define RF_TESTS_TRAIN_NMT_TRAINING_H

#include "../../examples/nmt/model.h"
#include "trajectory.h"

/* The program's. */
extern const nmt_config *nmt_followed;
/* Trained by the sum over tokens. */
extern const trajectory_network nmt_network;
/* With a cache it says of each token what it says of the whole translation, also of rows that go on from others. */
void nmt_goes_on(rf_strategy *strategy);

#endif
