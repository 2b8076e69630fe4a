/* SPDX-License-Identifier: Apache-2.0 */
/* The networks of the examples, as `ringfire-bench zoo` trains them on made-up data. */
#ifndef RINGFIRE_BENCH_ZOO_NETS_H
#define RINGFIRE_BENCH_ZOO_NETS_H

#include "net.h"

typedef struct zoo_net {
    bench_net net;
    rf_dtype mixed;                 /* what layers compute with; 0: f32 */
    void *network;                  /* owns the model */
    void *owned[RF_MAX_COMPONENTS]; /* what the batch points to; free() */
} zoo_net;

typedef struct zoo_entry {
    const char *name, *unit;
    uint32_t batch, units; /* examples of a step unless told otherwise; what an example counts for */
    rf_optimizer_params optimizer;
    rf_result (*create)(zoo_net *n);
    void (*destroy)(zoo_net *n);
    rf_result (*make_batch)(zoo_net *n, uint32_t count);
    rf_step_fn step; /* its user is the zoo_net; NULL: the crossentropy of classes */
} zoo_entry;
extern const zoo_entry zoo_entries[];
extern const uint32_t zoo_num_entries;

/* The step of training, with all else that is there. */
rf_result zoo_create_step(zoo_net *n, const zoo_entry *entry);

#endif
