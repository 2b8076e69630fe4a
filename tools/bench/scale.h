/* SPDX-License-Identifier: Apache-2.0 */
/* Options and functions that the parts of `ringfire-bench scale` share. */
#ifndef RINGFIRE_BENCH_SCALE_H
#define RINGFIRE_BENCH_SCALE_H

#include "bench/scale_model.h"

enum { SCALE_LIST = 16 }; /* numbers in a list of the command line */

typedef struct scale_options {
    bool model;
    uint32_t ranks[SCALE_LIST], num_ranks;
    uint32_t workers[SCALE_LIST], num_workers; /* none: nothing is measured */
    uint64_t gradients[SCALE_LIST];            /* bytes of a step's */
    uint32_t num_gradients;
    uint64_t bucket; /* bytes; 0: the library's */
    double compute;  /* seconds a step */
    double seconds;  /* of measuring, for each number of workers */
    scale_network network;
    const char *json_path;
} scale_options;

/* Bytes of buckets of one size, the library's or the one that was asked for, and their number. */
double scale_cut(const scale_options *options, uint64_t gradients, uint32_t *buckets);

/* Returns the exit code. */
int scale_measure(const scale_options *options);

#endif
