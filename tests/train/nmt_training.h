/* SPDX-License-Identifier: Apache-2.0 */
/* A network of examples/nmt follows a trajectory. */
#ifndef RF_TESTS_TRAIN_NMT_TRAINING_H
#define RF_TESTS_TRAIN_NMT_TRAINING_H

#include "../../examples/nmt/model.h"
#include "trajectory.h"

/* The test's. */
extern const nmt_config nmt_followed;
/* Trains with Adam on the sum over tokens, against TRAJECTORY_FILE, and keeps the losses. */
void nmt_follow(rf_strategy *strategy);
/* Does so elsewhere: the losses agree with those that were kept. */
void nmt_compare(rf_strategy *strategy);

#endif
