/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Communicators: the workers of one job and the collective operations between them, on host memory.
 *
 * Every rank calls the same operations in the same order with the same counts and types; a rank
 * that does not is reported by name before any data is mixed. Every wait has a deadline. When a
 * worker is lost, every pending and every later call on every other worker returns
 * ::RF_ERROR_PEER_LOST and says which rank and why. A communicator may be used by one thread at a
 * time; rf_comm_abort() may be called from any thread.
 */
#ifndef RINGFIRE_COMM_H
#define RINGFIRE_COMM_H

#include <ringfire/common.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_comm rf_comm;
typedef struct rf_comm_request rf_comm_request;

/**
 * Which job this process belongs to and how its workers find and trust each other. Zero fields are
 * taken from the environment: Ringfire's own variables, torchrun's, TF_CONFIG, Open MPI's, Slurm's,
 * PMIx, in that order; without any of them the job is this process alone.
 */
typedef struct rf_comm_params {
    uint32_t
        world_size; /**< workers of the job; 0: this struct describes no job, see the environment */
    uint32_t rank;  /**< this worker's number, 0 .. world_size - 1; used when world_size is given */
    const char *master_address; /**< host of rank 0 */
    uint16_t master_port;       /**< where rank 0 listens for the others */
    const char
        *bind_address; /**< address that this worker listens on and announces; NULL: RINGFIRE_BIND,
                          else the one that reaches the master (loopback in a job of one host) */
    const char
        *job;       /**< name of the job; workers of another job are turned away; NULL: "default" */
    uint64_t epoch; /**< number of the job's (re)start; workers of another one are turned away */
    const char
        *key_file; /**< job key (`ringfire keygen`), readable by its owner only; NULL:
                      RINGFIRE_KEY_FILE, else the one of rf_key_file_default() if it exists */
    bool insecure; /**< no job key: anybody who reaches the ports may join */
    bool
        encrypt; /**< AES-256-GCM for tensor data too (control messages are always authenticated) */
    const char
        *provider; /**< libfabric provider; NULL: RINGFIRE_PROVIDER, else chosen by capability */
    double bootstrap_timeout;  /**< seconds until all workers must have joined; 0: 60 */
    double heartbeat_interval; /**< seconds; 0: an eighth of peer_timeout */
    double peer_timeout;       /**< a worker that is silent for so many seconds is lost; 0: 10 */
    double operation_timeout;  /**< seconds one collective may take; 0: 300 */
    uint64_t reserved[8];      /**< zero: room for later fields */
} rf_comm_params;

/** Joins the job: returns when all its workers have. World size 1 opens no socket. Blocking.
 *  @return RF_ERROR_TIMEOUT names the ranks that are missing; RF_ERROR_INVALID_ARGUMENT a
 * contradiction (duplicate rank, other world size, other version, unusable key); RF_ERROR_IO a port
 * in use. */
RF_API RF_MUST_USE rf_result rf_comm_create(const rf_comm_params *params, rf_comm **out);
/** Leaves the job. All ranks should; the others see an orderly end, not a lost worker. */
RF_API void rf_comm_destroy(rf_comm **comm);

RF_API uint32_t rf_comm_rank(const rf_comm *comm);
RF_API uint32_t rf_comm_world_size(const rf_comm *comm);
/** Rank and number of the workers on this host. */
RF_API uint32_t rf_comm_local_rank(const rf_comm *comm);
RF_API uint32_t rf_comm_local_size(const rf_comm *comm);
/** The libfabric provider in use, "" in a world of one. */
RF_API const char *rf_comm_provider(const rf_comm *comm);

typedef enum rf_comm_op { RF_COMM_SUM, RF_COMM_MAX, RF_COMM_MIN } rf_comm_op;

/** Ways to do a collective; AUTO chooses by size and world size. */
typedef enum rf_comm_algorithm {
    RF_COMM_AUTO,
    RF_COMM_RING,
    RF_COMM_RECURSIVE_DOUBLING, /**< few bytes: fewest rounds */
    RF_COMM_RECURSIVE_HALVING,  /**< reduce-scatter by halving, all-gather by doubling */
    RF_COMM_HIERARCHICAL,       /**< within each host first, then between hosts */
    RF_COMM_ALGORITHM_COUNT
} rf_comm_algorithm;

/** How one operation is done; NULL: the defaults. Must be the same on every rank. */
typedef struct rf_collective_params {
    rf_comm_algorithm algorithm;
    rf_dtype wire;    /**< RF_F16 or RF_BF16 halve an f32 operation's bytes; sums stay f32. 0: as in
                         memory */
    const char *name; /**< for error messages and traces; borrowed during the call */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_collective_params;

/**
 * recv = op over the ranks' send, `count` elements, the same bits on every rank. `send` may be
 * `recv`. Types of all reductions: f32, f16, bf16 (added in f32), i32, i64.
 */
RF_API RF_MUST_USE rf_result rf_comm_all_reduce(rf_comm *comm, const void *send, void *recv,
                                                uint64_t count, rf_dtype dtype, rf_comm_op op,
                                                const rf_collective_params *params);
/**
 * Rank r gets op over the ranks' part r of `send`: counts[r] elements that begin after those of the
 * ranks before it. `recv` takes counts[rank] elements and may be this rank's part of `send`.
 * `counts` has world_size entries, zeros allowed.
 */
RF_API RF_MUST_USE rf_result rf_comm_reduce_scatter(rf_comm *comm, const void *send, void *recv,
                                                    const uint64_t *counts, rf_dtype dtype,
                                                    rf_comm_op op,
                                                    const rf_collective_params *params);
/** The reverse: every rank's `send` (counts[rank] elements) ends up in its part of everybody's
 * `recv`. Any type. */
RF_API RF_MUST_USE rf_result rf_comm_all_gather(rf_comm *comm, const void *send, void *recv,
                                                const uint64_t *counts, rf_dtype dtype,
                                                const rf_collective_params *params);
/** Copies root's `data` to everybody. */
RF_API RF_MUST_USE rf_result rf_comm_broadcast(rf_comm *comm, void *data, uint64_t count,
                                               rf_dtype dtype, uint32_t root,
                                               const rf_collective_params *params);
/** Returns when every rank has called it. */
RF_API RF_MUST_USE rf_result rf_comm_barrier(rf_comm *comm);

/**
 * The same, done by the communicator's own thread in the order of the calls, while the caller does
 * something else. Buffers and `counts` must stay as they are until rf_comm_wait(). Blocking calls
 * wait for what was started before them.
 */
RF_API RF_MUST_USE rf_result rf_comm_start_all_reduce(rf_comm *comm, const void *send, void *recv,
                                                      uint64_t count, rf_dtype dtype, rf_comm_op op,
                                                      const rf_collective_params *params,
                                                      rf_comm_request **out);
RF_API RF_MUST_USE rf_result rf_comm_start_reduce_scatter(rf_comm *comm, const void *send,
                                                          void *recv, const uint64_t *counts,
                                                          rf_dtype dtype, rf_comm_op op,
                                                          const rf_collective_params *params,
                                                          rf_comm_request **out);
RF_API RF_MUST_USE rf_result rf_comm_start_all_gather(rf_comm *comm, const void *send, void *recv,
                                                      const uint64_t *counts, rf_dtype dtype,
                                                      const rf_collective_params *params,
                                                      rf_comm_request **out);
/** Waits for a started operation, frees the request and nulls the pointer. */
RF_API RF_MUST_USE rf_result rf_comm_wait(rf_comm_request **request);
/** Whether rf_comm_wait() would return at once. */
RF_API bool rf_comm_done(const rf_comm_request *request);
/** Time that this rank has spent in collective operations so far, waiting for slower ranks
 * included. Thread-safe. */
RF_API double rf_comm_seconds(const rf_comm *comm);

/** Ends the job on all ranks: every pending and later call there returns RF_ERROR_PEER_LOST with
 * this rank and `reason`. Thread-safe. */
RF_API void rf_comm_abort(rf_comm *comm, const char *reason);
/** RF_OK, or the failure that ended the job. Thread-safe. */
RF_API RF_MUST_USE rf_result rf_comm_status(rf_comm *comm);
/** Rank that was lost, or -1. */
RF_API int32_t rf_comm_lost_rank(const rf_comm *comm);

/** Makes a job key in a new file that only its owner can read. NULL: where rf_key_file_default()
 * says. Never replaces a file. */
RF_API RF_MUST_USE rf_result rf_key_file_create(const char *path);
/** Writes the path of the key file that jobs use when none is named:
 * $XDG_CONFIG_HOME/ringfire/job.key, else
 *  ~/.config/ringfire/job.key. */
RF_API RF_MUST_USE rf_result rf_key_file_default(char *path, size_t size);

/** Exit status with which a program should say "a worker was lost; start me again from the last
 * checkpoint". */
#define RF_EXIT_RESTARTABLE 75

#ifdef __cplusplus
}
#endif
#endif
