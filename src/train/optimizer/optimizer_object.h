/* SPDX-License-Identifier: Apache-2.0 */
/* An optimizer, for the files that make it up. */
#ifndef RF_TRAIN_OPTIMIZER_OPTIMIZER_OBJECT_H
#define RF_TRAIN_OPTIMIZER_OPTIMIZER_OBJECT_H

#include "train/optimizer/optimizer.h"

struct rf_optimizer {
    uint32_t references; /* its maker's, and one of each model and checkpoint that uses it */
    bool destroyed;      /* by its maker */
    rf_strategy *strategy;
    bool remote; /* leaves gradients behind, for servers to update with */
    rf_optimizer_config config;
    rf_parameter_group *groups;    /* what `config` points to */
    rf_custom_update *custom;      /* the same; NULL: an update of the library */
    rf_whole_matrix_rule matrices; /* of Muon */
    rf_updater *updater;
    bool swapped; /* weights and averages */
};

/* Makes the updater of an optimizer that is complete but for it. */
rf_result rf_optimizer_make_updater(rf_optimizer *optimizer);

static inline bool rf_optimizer_scales_losses(const rf_optimizer *optimizer)
{
    return optimizer->config.params.loss_scale != NULL;
}

#endif
