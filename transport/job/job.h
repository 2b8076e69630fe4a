/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's knowledge of its job before it contacts any other. */
#ifndef RF_TRANSPORT_JOB_JOB_H
#define RF_TRANSPORT_JOB_JOB_H

#include <ringfire/comm.h>

#include "base/error.h"

#define RF_JOB_KEY_BYTES 32
#define RF_JOB_TEXT 256
#define RF_MAX_WORLD 1024

#define RF_MESH_FULL 16u /* the largest world whose ranks are all connected (mesh/topology.h) */

typedef struct rf_job {
    uint32_t rank, world_size;
    uint32_t local_rank, local_size; /* on this host, where the launcher says so; else 0 and 0 */
    char master_address[RF_JOB_TEXT];
    uint16_t master_port;
    char bind_address[RF_JOB_TEXT]; /* "": the local address that reaches the master */
    char name[64];
    uint64_t epoch;
    bool secure; /* `key` is in use */
    uint8_t key[RF_JOB_KEY_BYTES];
    bool encrypt;
    char provider[64]; /* "": by capability */
    bool network_only; /* also between workers of one host */
    uint64_t bootstrap_timeout_ns, heartbeat_interval_ns, peer_timeout_ns, operation_timeout_ns;
    const char *launcher; /* static text: where rank and world size came from, e.g. "TF_CONFIG" */
} rf_job;

/* Looks a variable up; NULL when unset or empty. Tests pass their own. */
typedef const char *(*rf_lookup_fn)(void *user, const char *name);

/* From what the caller gives and, for what it leaves open, from the environment. Pure but for reading the key file and,
 * under PMIx, asking the launcher. Errors name the variable and the fix. `lookup` NULL: the process environment. */
rf_result rf_job_resolve(const rf_comm_params *params, rf_lookup_fn lookup, void *user, rf_job *out);
/* The key alone, and what decides about it, for connections that are none of the job's own. */
rf_result rf_job_resolve_key(const rf_comm_params *params, rf_lookup_fn lookup, void *user, rf_job *out);
/* Overwrites the key. */
void rf_job_forget(rf_job *job);

/* The key file: 64 hexadecimal digits. Reading refuses files that others can read; writing makes mode 0600 and never
 * replaces a file. */
rf_result rf_key_read(const char *path, uint8_t key[RF_JOB_KEY_BYTES]);
/* Its text, which may end in spaces and new lines; `path` is for the message. */
rf_result rf_key_parse(const char *path, const char *text, size_t length, uint8_t key[RF_JOB_KEY_BYTES]);
rf_result rf_key_write(const char *path);

#endif
