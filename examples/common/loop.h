/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of training loops that a trainer writes itself: a pass over the data, and checkpoints, of which there are none
 * where the manager is NULL. */
#ifndef EXAMPLE_LOOP_H
#define EXAMPLE_LOOP_H

#include "common.h"

/* A manager for options->checkpoint_dir, which restores the latest checkpoint. 1: there was one; 0: none; -1 after
 * saying what failed. */
int example_open_manager(const example_options *options, rf_checkpoint *checkpoint, rf_checkpoint_manager **manager);
/* A checkpoint with the number of the optimizer's steps. */
int example_save(rf_checkpoint_manager *manager, const rf_optimizer *optimizer);
/* On a request to stop in `epoch`, from 0: a complete checkpoint. STOPPED, or 0 where there are none. */
int example_stop(rf_checkpoint *checkpoint, rf_checkpoint_manager *manager, const rf_optimizer *optimizer,
                 uint64_t epoch);
/* Steps of `function`, whose first result is the loss, until the pass or the training ends; `digits` of the loss behind
 * the point are shown. Blocking. */
rf_result example_run_epoch(rf_strategy *strategy, rf_function *function, rf_iterator *data, int digits, progress *bar,
                            float *loss);

#endif
