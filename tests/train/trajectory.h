/* SPDX-License-Identifier: Apache-2.0 */
/* A model's first steps as PyTorch computes them in double precision (trajectory.py describes the file), and the same
 * steps with the library. */
#ifndef RF_TESTS_TRAIN_TRAJECTORY_H
#define RF_TESTS_TRAIN_TRAJECTORY_H

#include "../support/strategies.h"
#include "tests/room.h"

enum { TRAJECTORY_MAX_VARIABLES = 256, TRAJECTORY_MAX_STEPS = 32 };

typedef struct trajectory_variable {
    char name[128];
    rf_shape shape;
    float *initial, *gradient; /* of the first step */
} trajectory_variable;

typedef struct trajectory {
    uint32_t num_variables, num_steps, num_components;
    trajectory_variable variables[TRAJECTORY_MAX_VARIABLES];
    rf_element batches[TRAJECTORY_MAX_STEPS];
    double losses[TRAJECTORY_MAX_STEPS];
} trajectory;

/* The file that a program's groups of tests open as trajectory_reference. */
extern const char *trajectory_file;
extern trajectory trajectory_reference;
int trajectory_open(void **state);
int trajectory_close(void **state);

void trajectory_load(const char *path, trajectory *t);
void trajectory_free(trajectory *t);

/* Gives the model's variables, found by name, their initial values; both must have the same ones. */
void trajectory_assign(const trajectory *t, const rf_model *model);
/* Runs the first `num_steps` steps. Losses agree within 1e-4 relative, and so do the gradients of the first step: in
 * norm, and in each element but for a floor of 1e-4 of the largest. A gradient that PyTorch computes as 0, but for
 * rounding, is below 1e-6 of the largest of all. Returns the losses in `losses`. */
void trajectory_follow(const trajectory *t, rf_strategy *strategy, rf_model *model, rf_function *step,
                       uint32_t num_steps, double *losses);

/* A test's training, which returns as many losses as it has steps. */
typedef void (*trajectory_train_fn)(rf_strategy *strategy, double *losses);
/* Trains, and keeps the losses. */
void trajectory_keep(rf_strategy *strategy, trajectory_train_fn train);
/* Trains elsewhere: the losses agree with those that were kept. */
void trajectory_compare(rf_strategy *strategy, trajectory_train_fn train);

/* A network that Adam trains by the file's steps. */
typedef struct trajectory_network {
    void *(*create)(rf_strategy *strategy);                               /* with its variables */
    rf_model *(*model)(void *network);                                    /* NULL: it is the network itself */
    void (*destroy)(void *network);                                       /* NULL: the model alone */
    rf_tensor (*losses)(rf_trace *t, void *network, const rf_tensor *in); /* of examples */
    uint32_t num_steps;                                                   /* 0: all */
    trajectory_train_fn train;                                            /* instead of all of these; NULL: none */
} trajectory_network;
/* A program's tests: the network follows the file on one driver, and agrees on one driver twice; then the program's own
 * ones. With the argument "drivers": on each driver and on both. */
int trajectory_run(const char *file, const trajectory_network *network, room_test *own, int argc, char **argv);

/* The shape of an example of the first component. */
rf_shape trajectory_example_shape(const trajectory *t);
/* A model that gives logits of component 0 follows the first `num_steps` steps with the mean crossentropy of the
 * labels, component 1. Replicas share the batch. */
void trajectory_train_classifier(const trajectory *t, rf_strategy *strategy, rf_model *model,
                                 const rf_optimizer_params *optimizer, uint32_t num_steps, double *losses);
/* The same, of all steps, where the model has batch normalization of each replica: all of them get all examples. */
void trajectory_follow_classifier(const trajectory *t, rf_strategy *strategy, rf_model *model,
                                  const rf_optimizer_params *optimizer);

/* Elements of all trainable variables. */
uint64_t trajectory_count_trainable(const rf_model *model);

#endif
