/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control mesh: one authenticated TCP connection between each pair of workers of a small job, in a larger one
 * between some of them (topology.h), served by one thread. It assembles the job, detects lost workers (closed
 * connections at once, silent ones by missing heartbeats), and floods an abort. A mesh that was aborted stays so.
 * Functions are thread-safe unless they say otherwise.
 */
#ifndef RF_TRANSPORT_MESH_MESH_H
#define RF_TRANSPORT_MESH_MESH_H

#include "transport/job/job.h"
#include "transport/mesh/liveness_page.h"

typedef struct rf_mesh rf_mesh;

/* Rendezvous at the master, then connections between all. Returns with everybody present, or within the bootstrap
 * timeout with an error that names who or what is missing. Not for worlds of one. */
rf_result rf_mesh_create(const rf_job *job, rf_mesh **out);
/* Says goodbye: others see an orderly end. Waits (bounded) until all have said so or an abort happened. */
void rf_mesh_destroy(rf_mesh **mesh);

uint32_t rf_mesh_rank(const rf_mesh *mesh);
uint32_t rf_mesh_world_size(const rf_mesh *mesh);
/* Address (text, no port) under which others reach a rank; for messages and data connections. */
const char *rf_mesh_address(const rf_mesh *mesh, uint32_t rank);
/* Number of the host a rank lives on: hosts are numbered by their lowest rank's order. Same on every rank. */
uint32_t rf_mesh_host(const rf_mesh *mesh, uint32_t rank);
/* Address (text, no port) under which this worker is reached by others. */
const char *rf_mesh_local_address(const rf_mesh *mesh);
/* Nanoseconds; the master's word. */
uint64_t rf_mesh_peer_timeout(const rf_mesh *mesh);

/* Whether ranks on the host of rank 0 are to share a liveness page (liveness_page.h): the same on every rank. */
bool rf_mesh_wants_liveness(const rf_mesh *mesh);
/* From now on signs of life go through it where they can. Takes it over. Once, before the first operation. */
void rf_mesh_use_liveness(rf_mesh *mesh, rf_liveness_page *liveness);

/* All-gather of small messages over the mesh, in order of calls; at most 60,000 bytes each, sizes may differ.
 * `all` takes world_size slots of `slot` bytes; sizes[r] says how much of slot r is used. One caller at a time. */
rf_result rf_mesh_exchange(rf_mesh *mesh, const void *mine, size_t size, void *all, size_t slot, size_t *sizes);

/* Called at most once, from the mesh's thread or the one that calls rf_mesh_abort(), when the epoch is lost: must
 * release everybody who waits, quickly, without blocking. Called at once when it is lost already. `fn` NULL: no longer;
 * returns when a call that is under way has ended (so not from within it). */
void rf_mesh_on_abort(rf_mesh *mesh, void (*fn)(void *user), void *user);
/* Ends the epoch everywhere. The first reason that reaches a rank stays. `reason` is the whole message that every
 * rank's rf_mesh_status() gives: it names the culprit itself. Returns when the reason has been sent, or after a moment
 * where somebody takes nothing: the process may end at once. */
void rf_mesh_abort(rf_mesh *mesh, uint32_t culprit, rf_result result, const char *reason);
/* A data connection to `rank` failed. Treated like the end of its control connection: after a moment, in which an abort
 * may still name the real culprit, the epoch ends with "rank 2 (10.0.0.3) was lost: <reason>". Returns at once. */
void rf_mesh_report_lost(rf_mesh *mesh, uint32_t rank, const char *reason);
/* RF_OK, or the failure that ended the epoch, put into the caller's error record. One atomic load while all is well.
 * The first call after the end writes the last operations to the log: in the thread that is about to learn of it, so
 * that the mesh's own never waits for a sink and the program's message comes last. */
rf_result rf_mesh_status(rf_mesh *mesh);
int32_t rf_mesh_lost_rank(const rf_mesh *mesh);

/* The last operation this worker began and finished: heartbeats carry it. `what` is kept for the dump on abort (the
 * last 16). */
void rf_mesh_begin_operation(rf_mesh *mesh, uint64_t serial, const char *what);
void rf_mesh_finish_operation(rf_mesh *mesh, uint64_t serial);
/* Latest finished operation that a peer reported. */
uint64_t rf_mesh_peer_operation(const rf_mesh *mesh, uint32_t rank);
/* A rank that said goodbye and had not begun operation `serial` (so it never will), or -1. */
int32_t rf_mesh_left_before(const rf_mesh *mesh, uint64_t serial);

/* After the end of the epoch: this worker's last operations and their state in one line, newest first, for messages; ""
 * while all is well. Valid until the mesh is destroyed. */
const char *rf_mesh_last_operations(const rf_mesh *mesh);

/* A key of its own for a data connection between two ranks of this epoch (derived; the job key never leaves the mesh).
 * False (and zeros) in an insecure job. The same on both sides. */
bool rf_mesh_link_key(const rf_mesh *mesh, uint32_t peer, const char *purpose, uint8_t key[RF_JOB_KEY_BYTES]);

#endif
