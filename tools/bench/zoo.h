/* SPDX-License-Identifier: Apache-2.0 */
/* Options and functions that the two measurements of `ringfire-bench zoo` share. */
#ifndef RINGFIRE_BENCH_ZOO_H
#define RINGFIRE_BENCH_ZOO_H

#include "bench/measure/measure.h"

#include "bench/zoo_nets.h"

enum { ZOO_MAX_NODES = 4096 };

typedef struct zoo_options {
    const char *device, *model, *json_path;
    double seconds;
    uint32_t batch;
    bool profile, first;
    rf_dtype mixed;
    const char *cache; /* first: the directory of caches */
} zoo_options;

typedef struct zoo_node {
    rf_bench_node times; /* The names of the process that measured end with it. */
    char op[96], kernel[64];
} zoo_node;

/* In memory that the measuring process shares. */
typedef struct zoo_result {
    char device[256];
    double first_step, step, peak_bytes;
    double processor;   /* first: seconds of it, of the whole process */
    uint32_t pipelines; /* first: that were created */
    uint64_t parameters;
    uint32_t num_nodes;
    zoo_node nodes[ZOO_MAX_NODES];
} zoo_result;

rf_result zoo_net_create(zoo_net *n, const zoo_entry *e, const zoo_options *o);
void zoo_net_destroy(zoo_net *n, const zoo_entry *e);
/* At least one; *step is the mean of what one takes. */
rf_result zoo_run_steps(zoo_net *n, double seconds, double *step);
/* Measures in a process of its own. */
bool zoo_run_entry(const zoo_entry *e, const zoo_options *o, zoo_result *out);

/* NULL: there is none of that name. */
const zoo_entry *zoo_entry_find(const char *name);
/* argp_error() with the names that there are, where this is none of them. */
void zoo_check_name(struct argp_state *state, const char *name);

/* --first-step */
int zoo_first_child(const zoo_entry *e, const zoo_options *o, zoo_result *out);
int zoo_first_steps(zoo_options *o, zoo_result *shared);

#endif
