/* SPDX-License-Identifier: Apache-2.0 */
/* The last operations of a worker, for the report that an abort leaves behind. Thread-safe. */
#ifndef RF_TRANSPORT_MESH_OPERATIONS_H
#define RF_TRANSPORT_MESH_OPERATIONS_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/error.h"

#define RF_OPERATIONS_KEPT 16
#define RF_OPERATION_WHAT 192 /* characters of a call's description */
#define RF_OPERATION_LINE (RF_OPERATION_WHAT + 64)
#define RF_OPERATIONS_TEXT (RF_OPERATIONS_KEPT * RF_OPERATION_LINE)

typedef struct rf_operation {
    uint64_t serial, begun_ns, finished_ns; /* finished 0: not yet */
    char what[RF_OPERATION_WHAT];
} rf_operation;

typedef struct rf_operations {
    pthread_mutex_t lock;
    rf_operation kept[RF_OPERATIONS_KEPT];
    uint64_t count; /* ever begun */
    _Atomic uint64_t begun, finished;
} rf_operations;

void rf_operations_init(rf_operations *o);
void rf_operations_destroy(rf_operations *o);
void rf_operations_begin(rf_operations *o, uint64_t serial, const char *what, uint64_t now);
void rf_operations_finish(rf_operations *o, uint64_t serial, uint64_t now);
/* "18 all_reduce pending for 2100.0 ms", "17 all_reduce done in 0.8 ms"; `age` 0 is the newest. False beyond the last
 * kept. */
bool rf_operations_line(rf_operations *o, uint32_t age, uint64_t now, char *text, size_t size);
/* All of them in one line, newest first, with semicolons between; "none" before the first. */
void rf_operations_text(rf_operations *o, uint64_t now, char *text, size_t size);

#endif
