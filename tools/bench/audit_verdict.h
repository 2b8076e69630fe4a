/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernels earn their place on a device (CONTRIBUTING.md, admission rule). Pure. */
#ifndef RINGFIRE_BENCH_AUDIT_VERDICT_H
#define RINGFIRE_BENCH_AUDIT_VERDICT_H

#include "bench/measure/measure.h"

enum { AUDIT_NETWORKS = 16, AUDIT_VARIANTS = 512 }; /* the most */

/* Gains that keep a kernel: of one network, or of each of two. */
#define AUDIT_GAIN_OF_ONE 0.15
#define AUDIT_GAIN_OF_TWO 0.05

typedef enum audit_verdict { AUDIT_UNUSED, AUDIT_GOES, AUDIT_STAYS, AUDIT_ONLY_ONE } audit_verdict;
const char *audit_verdict_name(audit_verdict verdict);

/* The use that one network makes of a kernel. */
typedef struct audit_use {
    uint32_t nodes;          /* 0: it does not use it */
    double seconds, without; /* of these nodes, with the kernel and with those that run in its place */
    bool only;               /* no other kernel takes one of them */
} audit_use;

typedef struct audit_variant {
    char op[96], kernel[64]; /* of several that are left out together: their pattern, and nothing */
    char instead[96];        /* the first kernel that runs in its place */
    audit_use use[AUDIT_NETWORKS];
} audit_variant;

typedef struct audit_table {
    const char *network[AUDIT_NETWORKS];
    double seconds[AUDIT_NETWORKS]; /* of all nodes */
    uint32_t num_networks, num_variants;
    audit_variant variants[AUDIT_VARIANTS];
} audit_table;

/* Adds a network with the choices of its nodes, or a kernel that the device can run. False where there is no room.
 * pattern: of kernels that are left out together; NULL: each was left out by itself. */
bool audit_add_network(audit_table *t, const char *name, const char *pattern, const rf_bench_choice *choices,
                       uint32_t count);
bool audit_add_kernel(audit_table *t, const char *op, const char *kernel);

/* How much longer a step's nodes take without the kernel: 0.05 is 5 %. */
double audit_gain(const audit_table *t, const audit_variant *v, uint32_t network);
/* The networks that gain most and second most; num_networks where there is none. */
void audit_best_two(const audit_table *t, const audit_variant *v, uint32_t best[2]);
audit_verdict audit_decide(const audit_table *t, const audit_variant *v);

#endif
