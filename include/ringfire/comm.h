/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Communicators: the workers of one job and the collective operations between them, on host memory.
 *
 * The following holds for the whole header unless a comment states otherwise.
 *  - Every rank calls the same operations in the same order with the same counts and types. A rank
 *    that does not is reported by name (RF_ERROR_INVALID_ARGUMENT) before any data is mixed.
 *  - Operations are blocking, and every wait has a deadline: rf_comm_params::operation_timeout
 *    gives RF_ERROR_TIMEOUT.
 *  - When a worker is lost, every pending and every later call on every other worker returns
 *    ::RF_ERROR_PEER_LOST, with the rank and the reason in its message.
 *  - A communicator may be used by one thread at a time. Functions marked thread-safe may be called
 *    from any thread meanwhile.
 *  - Buffers are borrowed for the call, or until rf_comm_wait().
 */
#ifndef RINGFIRE_COMM_H
#define RINGFIRE_COMM_H

#include <ringfire/common.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The workers of one job, as one of them sees it. */
typedef struct rf_comm rf_comm;
/** An operation that was started and has to be waited for. */
typedef struct rf_comm_request rf_comm_request;

/**
 * Which job this process belongs to, and how its workers find and trust each other.
 * Fields that are zero are taken from the environment: Ringfire's own variables, torchrun's,
 * TF_CONFIG, Open MPI's, Slurm's, PMIx, in that order. Without any of them the job is this process
 * alone.
 */
typedef struct rf_comm_params {
    /**
     * Number of workers of the job. 0: this struct does not describe a job, see the environment.
     */
    uint32_t world_size;
    uint32_t rank; /**< This worker, 0 .. world_size - 1. Used when world_size is set. */
    const char *master_address; /**< host of rank 0 */
    uint16_t master_port;       /**< where rank 0 listens for the others */
    /**
     * Address on which this worker listens and which it announces; 0.0.0.0 and :: listen on all.
     * NULL: RINGFIRE_BIND, else loopback in a job of one host, all addresses in a job with a key,
     * and without one the address that its name or its connection to the master has.
     */
    const char *bind_address;
    /**
     * Name of the job; workers of another job are rejected. NULL: RINGFIRE_JOB, else "default".
     * The launcher's name for this start of the job is added to it.
     */
    const char *job;
    uint64_t epoch; /**< number of the (re)start of the job; workers of another one are rejected */
    /**
     * Job key (`ringfire keygen`), readable by its owner only. NULL: RINGFIRE_KEY_FILE, else the
     * one of rf_key_file_default() if it exists.
     */
    const char *key_file;
    bool insecure; /**< no job key: anyone who reaches the ports may join */
    /** AES-256-GCM for tensor data as well. Control messages are always authenticated. */
    bool encrypt;
    /**
     * libfabric provider between hosts. NULL: RINGFIRE_PROVIDER, else chosen by capability. Workers
     * of one host share memory, unless RINGFIRE_SHARED_MEMORY is 0.
     */
    const char *provider;
    double bootstrap_timeout;  /**< seconds within which all workers must join; 0: 60 */
    double heartbeat_interval; /**< seconds; 0: peer_timeout / 8, / 3 for more than 16 workers */
    double peer_timeout;       /**< a worker that is silent for this many seconds is lost; 0: 10 */
    double operation_timeout;  /**< seconds one collective may take; 0: 300 */
    uint64_t reserved[8];      /**< zero: room for later fields */
} rf_comm_params;

/**
 * Joins the job: returns when all its workers have joined. With a world size of 1 it opens no
 * socket. `params` may be NULL.
 * @return RF_ERROR_TIMEOUT names the ranks that are missing; RF_ERROR_INVALID_ARGUMENT names a
 *   contradiction (duplicate rank, other world size, other version, unusable key); RF_ERROR_IO
 *   names a port that is in use.
 */
RF_API RF_MUST_USE rf_result rf_comm_create(const rf_comm_params *params, rf_comm **out);
/**
 * Leaves the job. All ranks should do so; the others see an orderly end instead of a lost worker.
 * Blocking.
 */
RF_API void rf_comm_destroy(rf_comm **comm);

/** Rank of this worker. Thread-safe. */
RF_API uint32_t rf_comm_rank(const rf_comm *comm);
/** Number of workers. Thread-safe. */
RF_API uint32_t rf_comm_world_size(const rf_comm *comm);
/** Rank of this worker among those on its host. Thread-safe. */
RF_API uint32_t rf_comm_local_rank(const rf_comm *comm);
/** Number of workers on this host. Thread-safe. */
RF_API uint32_t rf_comm_local_size(const rf_comm *comm);
/**
 * How this worker's data travels: the libfabric provider, "shared memory", or both: "shared memory,
 * tcp". "" in a world of one. Thread-safe.
 */
RF_API const char *rf_comm_transport(const rf_comm *comm);

/** How the values of the ranks are combined. */
typedef enum rf_comm_op { RF_COMM_SUM, RF_COMM_MAX, RF_COMM_MIN } rf_comm_op;

/** Algorithms of a collective. AUTO chooses by size, world size and ranks per host. */
typedef enum rf_comm_algorithm {
    RF_COMM_AUTO,
    RF_COMM_RING,
    RF_COMM_RECURSIVE_DOUBLING, /**< fewest rounds: for few bytes */
    RF_COMM_RECURSIVE_HALVING,  /**< reduce-scatter by halving, all-gather by doubling */
    /**
     * Within each host first, then between hosts. Not for broadcasts; reduce-scatter and all-gather
     * where the ranks of a host are numbered one after the other.
     */
    RF_COMM_HIERARCHICAL,
    RF_COMM_ALGORITHM_COUNT
} rf_comm_algorithm;

/** How one operation is done; NULL: the defaults. It must be the same on every rank. */
typedef struct rf_collective_params {
    rf_comm_algorithm algorithm;
    /**
     * RF_F16 or RF_BF16 halve the bytes of an f32 operation; sums remain f32, and are rounded
     * whenever they travel. 0: the type in memory. The result of an all-reduce or an all-gather is
     * rounded on every rank alike, also where it came from. A part that a reduce-scatter gives is
     * rounded only where its last addend was added on another rank (RF_COMM_HIERARCHICAL).
     */
    rf_dtype wire;
    const char *name;     /**< for error messages and traces; borrowed during the call */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_collective_params;

/**
 * recv = op over the `send` of all ranks: `count` elements, with the same bits on every rank.
 * `send` may be `recv`.
 * Reductions exist for f32, f16, bf16 (both added in f32), i32 and i64.
 */
RF_API RF_MUST_USE rf_result rf_comm_all_reduce(rf_comm *comm, const void *send, void *recv,
                                                uint64_t count, rf_dtype dtype, rf_comm_op op,
                                                const rf_collective_params *params);
/**
 * Rank r receives op over part r of the `send` of all ranks: counts[r] elements, which follow those
 * of the ranks before it.
 * `recv` takes counts[rank] elements and may be the part of `send` that belongs to this rank.
 * `counts` has world_size entries; zeros are allowed.
 */
RF_API RF_MUST_USE rf_result rf_comm_reduce_scatter(rf_comm *comm, const void *send, void *recv,
                                                    const uint64_t *counts, rf_dtype dtype,
                                                    rf_comm_op op,
                                                    const rf_collective_params *params);
/**
 * The reverse: the `send` of every rank (counts[rank] elements) is copied to its part of `recv` on
 * all ranks. Any type.
 */
RF_API RF_MUST_USE rf_result rf_comm_all_gather(rf_comm *comm, const void *send, void *recv,
                                                const uint64_t *counts, rf_dtype dtype,
                                                const rf_collective_params *params);
/** Copies the `data` of `root` to all ranks: `count` elements of any type. */
RF_API RF_MUST_USE rf_result rf_comm_broadcast(rf_comm *comm, void *data, uint64_t count,
                                               rf_dtype dtype, uint32_t root,
                                               const rf_collective_params *params);
/** Returns when every rank has called it. */
RF_API RF_MUST_USE rf_result rf_comm_barrier(rf_comm *comm);

/**
 * Starts rf_comm_all_reduce() and returns at once.
 * Operations that are started run on a thread of the communicator, in the order of the calls.
 * Buffers and `counts` must stay unchanged until rf_comm_wait(). Blocking calls wait for what was
 * started before them.
 * @param[out] out to be passed to rf_comm_wait(), also when the operation fails.
 */
RF_API RF_MUST_USE rf_result rf_comm_start_all_reduce(rf_comm *comm, const void *send, void *recv,
                                                      uint64_t count, rf_dtype dtype, rf_comm_op op,
                                                      const rf_collective_params *params,
                                                      rf_comm_request **out);
/** Starts rf_comm_reduce_scatter(); see rf_comm_start_all_reduce(). */
RF_API RF_MUST_USE rf_result rf_comm_start_reduce_scatter(rf_comm *comm, const void *send,
                                                          void *recv, const uint64_t *counts,
                                                          rf_dtype dtype, rf_comm_op op,
                                                          const rf_collective_params *params,
                                                          rf_comm_request **out);
/** Starts rf_comm_all_gather(); see rf_comm_start_all_reduce(). */
RF_API RF_MUST_USE rf_result rf_comm_start_all_gather(rf_comm *comm, const void *send, void *recv,
                                                      const uint64_t *counts, rf_dtype dtype,
                                                      const rf_collective_params *params,
                                                      rf_comm_request **out);
/**
 * Waits for an operation that was started, returns its result, frees the request and sets the
 * pointer to NULL.
 */
RF_API RF_MUST_USE rf_result rf_comm_wait(rf_comm_request **request);
/** Whether rf_comm_wait() would return at once. Does not block. */
RF_API bool rf_comm_done(const rf_comm_request *request);
/**
 * Seconds that this rank has spent in collective operations so far, including waits for slower
 * ranks. Thread-safe.
 */
RF_API double rf_comm_seconds(const rf_comm *comm);

/**
 * Ends the job on all ranks: every pending and later call there returns RF_ERROR_PEER_LOST with
 * this rank and `reason`. Thread-safe.
 */
RF_API void rf_comm_abort(rf_comm *comm, const char *reason);
/** RF_OK, or the failure that ended the job. Does not block. Thread-safe. */
RF_API RF_MUST_USE rf_result rf_comm_status(rf_comm *comm);
/** Rank that was lost, or -1. Thread-safe. */
RF_API int32_t rf_comm_lost_rank(const rf_comm *comm);

/**
 * Writes a new job key to a file that only its owner can read. `path` NULL: the path of
 * rf_key_file_default(). Thread-safe.
 * @return RF_ERROR_INVALID_ARGUMENT when the file exists: it is never replaced; RF_ERROR_IO.
 */
RF_API RF_MUST_USE rf_result rf_key_file_create(const char *path);
/**
 * Writes the path of the key file that jobs use when none is named:
 * $XDG_CONFIG_HOME/ringfire/job.key, else ~/.config/ringfire/job.key. Thread-safe.
 */
RF_API RF_MUST_USE rf_result rf_key_file_default(char *path, size_t size);

/**
 * Exit status by which a program says "a worker was lost; start me again from the last checkpoint".
 */
#define RF_EXIT_RESTARTABLE 75

#ifdef __cplusplus
}
#endif
#endif
