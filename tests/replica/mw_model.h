/* SPDX-License-Identifier: Apache-2.0 */
/* Models and training loops that jobs of several workers run in tests. */
#ifndef RF_TESTS_REPLICA_MW_MODEL_H
#define RF_TESTS_REPLICA_MW_MODEL_H

#include "job.h"

/* A training of a job: its model, steps and optimizer. */
typedef struct training {
    uint32_t steps, batch; /* batch: global */
    bool cnn;              /* the CNN of the custom-loop example, else a small dense net with dropout */
    rf_optimizer_params optimizer;
    bool checks;       /* compare the replicas after every step */
    uint32_t overflow; /* 1 + a step whose last example overflows; its loss counts as -1 */
    double tolerance;  /* of losses, relative */
} training;

typedef struct net {
    rf_model *model;
    rf_optimizer *optimizer;
    rf_metric *accuracy;
    rf_function *step;
    float *images;
    int32_t *labels;
    bool cnn;
    uint32_t overflow; /* as of the training */
} net;
rf_result net_create(worker *w, const training *t, net *n);
/* One step on batch number `step` of endless data. */
rf_result net_step(worker *w, net *n, uint32_t step, uint32_t batch, float *loss);
/* Hash of all variables of this worker's first replica. */
rf_result net_hash(const net *n, uint64_t *hash);
/* `user` is a training: trains, and reports losses, hash and accuracy (numbers[0]). */
rf_result train_net(worker *w);

/* Losses of the reports agree within the tolerance, variables of the workers are the same. */
void compare_jobs(const report *got, uint32_t num_workers, const report *want, double tolerance);

#endif
