/* SPDX-License-Identifier: Apache-2.0 */
/* Saving the variables of a training: how long blocking saves take, and how long asynchronous ones delay training. */
#ifndef RINGFIRE_BENCH_SAVE_H
#define RINGFIRE_BENCH_SAVE_H

#include <ringfire/checkpoint.h>

typedef struct bench_save_params {
    const char *device;
    const char *path; /* of the checkpoint */
    uint64_t bytes;   /* of variables */
    uint32_t batch, rounds;
    rf_save_params save;
} bench_save_params;

/* Seconds. */
typedef struct bench_save_round {
    double blocking; /* rf_checkpoint_save() */
    double call;     /* the same, asynchronous, until it returns */
    double step;     /* of training, run and waited for, without a save */
    double next;     /* the one after the asynchronous call */
    double written;  /* from the call until the file is there, with training going on */
} bench_save_round;

typedef struct bench_save_result {
    char device[256];
    uint64_t bytes;
    bench_save_round *rounds; /* [params.rounds], the caller's */
} bench_save_result;

rf_result bench_save_run(const bench_save_params *params, bench_save_result *result);

#endif
