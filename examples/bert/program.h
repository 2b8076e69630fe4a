/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the parts of the program share. */
#ifndef EXAMPLE_BERT_PROGRAM_H
#define EXAMPLE_BERT_PROGRAM_H

#include "../common/common.h"
#include "corpus.h"
#include "model.h"

typedef enum bert_task { TASK_NEXT, TASK_DOCUMENT, TASK_NONE } bert_task;

typedef struct bert_settings {
    uint32_t steps, warmup, report; /* of the pretraining; what is reported and saved every so many */
    double learning_rate;
    bert_task task;
    uint32_t labels, tuning_epochs, tuning_batch;
    double tuning_rate;
} bert_settings;

/* Trains, or goes on from a checkpoint, until all steps are made. The caller destroys the model. Says what is wrong and
 * returns -1; STOPPED after a request. */
int pretrain(rf_strategy *strategy, const example_options *options, const bert_settings *settings, const corpus *c,
             const bert_config *config, bert **out);

/* Trains classifiers on few labels, from the encoder of `pretrained` and from scratch, and says how many held-out
 * examples each gets right. Returns as pretrain() does. */
int fine_tune(rf_strategy *strategy, const example_options *options, const bert_settings *settings, const corpus *c,
              const bert_config *config, const bert *pretrained);

#endif
