/* SPDX-License-Identifier: Apache-2.0 */
/* Where the variables of a strategy lie. */
#ifndef RF_REPLICA_STORE_STORE_H
#define RF_REPLICA_STORE_STORE_H

#include "replica/store/flat.h"

/* Variables one after the other in creation order, the same places on every replica. Gaps and what follows are zero. */
typedef struct rf_store {
    rf_flat values;
    uint64_t used; /* elements */
    struct {
        rf_variable **items;
        uint32_t count, capacity;
    } variables; /* by offset; not counted references */
} rf_store;

#endif
