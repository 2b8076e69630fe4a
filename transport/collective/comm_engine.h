/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries out a schedule over the data connections. Steps are divided into chunks; a chunk is sent as soon as the data
 * that it depends on has arrived, so that sending, receiving and adding overlap. Receives are posted ahead, directly
 * into place where nothing is added. The first message to each peer begins with a header that identifies the call: a
 * rank that makes another call is detected before its data is used.
 */
#ifndef RF_TRANSPORT_COLLECTIVE_COMM_ENGINE_H
#define RF_TRANSPORT_COLLECTIVE_COMM_ENGINE_H

#include "transport/collective/schedule.h"
#include "transport/fabric/fabric.h"

typedef struct rf_engine rf_engine;

typedef struct rf_call {
    rf_collective_task task;
    rf_dtype dtype;
    rf_comm_op op;
    rf_dtype wire; /* RF_DTYPE_INVALID: as in memory */
    const void *input;
    void *output;
    const char *name; /* "" or what the caller calls it */
    uint64_t serial;
} rf_call;

/* The engine uses job and mesh for as long as it lives. Collective. */
rf_result rf_engine_create(const rf_job *job, rf_mesh *mesh, bool register_memory, rf_engine **out);
void rf_engine_destroy(rf_engine **engine);
const char *rf_engine_provider(const rf_engine *engine);
/* One at a time. A failure has ended the epoch on all ranks, closed the connections, and is what rf_mesh_status() says.
 */
rf_result rf_engine_run(rf_engine *engine, const rf_call *call);
/* Makes a running call return; thread-safe. The mesh must have failed already. */
void rf_engine_wake(rf_engine *engine);

#endif
