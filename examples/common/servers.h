/* SPDX-License-Identifier: Apache-2.0 */
/* --strategy parameter_server: every task of the cluster that TF_CONFIG describes runs the same trainer. Servers hold
 * the variables and update them, workers compute gradients on batches in turn, and the chief trains and
 * evaluates as the only process would. With --checkpoint-dir the chief keeps checkpoints there, of what servers hold
 * and of their optimizer's state, and a cluster that is started again goes on after the latest epoch. */
#ifndef EXAMPLE_SERVERS_H
#define EXAMPLE_SERVERS_H

#include "common.h"

/* An optimizer for models of this strategy; with parameter servers they have the one of `params`, and this one leaves
 * the gradients to them. */
int servers_create_optimizer(const example_options *options, rf_strategy *strategy, const rf_optimizer_params *params,
                             rf_optimizer **out);

/* Examples of a step: a synchronous one takes a batch of every worker, whose replicas are taken to be as many as those
 * of this task. */
int servers_count_batch(const example_options *options, const rf_strategy *strategy, uint64_t *examples);

typedef struct server_training {
    const example_options *options;
    rf_strategy *strategy;
    rf_model *model;
    const rf_optimizer_params *optimizer; /* global_clip_norm is that of each worker */
    /* The step that a worker runs on a batch. Its first output is the average loss; NULL: `loss` of the model's only
     * output. */
    rf_function *step;
    const rf_loss *loss;
    rf_optimizer *minimizer; /* of servers_create_optimizer(); for `loss` */
    const rf_dataset *data;  /* batches: the same on all tasks */
    uint64_t examples;       /* in it */
    uint64_t steps;          /* of an epoch; 0: as many as all examples make */
    uint64_t most_steps;     /* of all epochs: the last one may have fewer; 0: no limit */
    uint32_t epochs;
    int (*end_epoch)(void *user, uint32_t epoch); /* on the chief, whose model has the weights; NULL: nothing to do */
    void *user;
} server_training;

/* Does what this task has to do in the training. The chief returns 0 and has a trained model; a worker returns SERVED
 * when the chief has ended the job. Says what is wrong and returns -1. */
int servers_train(const server_training *training);

#endif
