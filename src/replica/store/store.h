/* SPDX-License-Identifier: Apache-2.0 */
/* Where the variables of a strategy lie. */
#ifndef RF_REPLICA_STORE_STORE_H
#define RF_REPLICA_STORE_STORE_H

#include "replica/store/flat.h"

/* Variables one after the other, in creation order where none has gone, the same places on every replica. Elements from
 * a variable's end up to where the next may begin are zero. */
typedef struct rf_store {
    rf_flat values;
    uint64_t used; /* elements */
    struct {
        rf_variable **items;
        uint32_t count, capacity;
    } variables; /* by offset; not counted references */
} rf_store;

#endif
