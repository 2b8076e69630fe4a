/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Training with parameter servers, after tf.distribute's ParameterServerStrategy and
 * ClusterCoordinator.
 *
 * TF_CONFIG describes the cluster: tasks of type "ps" hold the parameters and run the optimizer on
 * what they hold, tasks of type "worker" compute gradients, and the task "chief" decides what is
 * done. All run the same program, which asks rf_cluster_task_get() which task it is:
 *
 *  - a server calls rf_parameter_server_run();
 *  - a worker creates strategy, model and functions as for training on its own devices (with
 *    rf_optimizer_create_remote() for the optimizer) and calls rf_worker_run();
 *  - the chief creates the model (its values are the initial values everywhere) and a coordinator,
 *    schedules work by the name of a function and a range of examples, and joins.
 *
 * To do scheduled work a worker pulls the parameters from the servers, runs the function and pushes
 * the gradients back. With them go the changes of variables that the step assigns and no optimizer
 * updates (moving averages of batch normalization). A change is the value after the step minus the
 * one that was pulled. There are two ways to train:
 *
 *  - **asynchronous** (the default): scheduled work goes to whichever worker is free, and servers
 *    apply gradients as they arrive. Each push carries the version of the parameters from which it
 *    was computed, so that its staleness (updates made in between) is measured. Changes are added
 *    as they arrive, too: none is lost, and each counts in full. `max_ahead` bounds
 *    it: no worker begins a step while it is so many steps ahead of the slowest (stale synchronous
 *    parallel; Ho et al. 2013). A push is then at most (workers - 1) * (2 * max_ahead - 1) updates
 *    old.
 *  - **synchronous**: each scheduled range is one step. It is cut into one share per worker of the
 *    cluster. Servers add the gradients of the shares, each weighted by its number of examples,
 *    in a fixed order, and update once when all are there. The result is that of one device with
 *    the whole range as its batch, and its bits do not depend on which workers compute the shares.
 *    Random numbers follow the step and an example's place in its range. Changes are weighted in
 *    the same way: a variable becomes the mean of the values that the shares would give it.
 *    Statistics of batch normalization are those of a share, as those of a replica are elsewhere:
 *    workers then compute what so many replicas of a mirrored strategy do.
 *
 * A worker may be lost at any time, and its work is given to another one. Asynchronous training may
 * then count a push twice, at those servers that the first worker had reached. A share of a
 * synchronous step that only the lost worker's own dataset has waits for it
 * (rf_worker_function::whole_data). It may be started again and rejoins. A lost server or chief
 * ends the job: every task returns ::RF_ERROR_PEER_LOST, which names it ("ps 1 (10.0.0.3:2222) was
 * lost: ..."). Tasks may be started in any order.
 *
 * Losses must be averages over the batch (rf_compute_average_loss()). Connections are authenticated
 * with the job key like those of rf_comm_create(); see ::rf_comm_params. Every wait has a deadline.
 * Objects may be used by one thread at a time.
 */
#ifndef RINGFIRE_PARAMETER_SERVER_H
#define RINGFIRE_PARAMETER_SERVER_H

#include <ringfire/comm.h>
#include <ringfire/common.h>
#include <ringfire/dataset.h>
#include <ringfire/strategy.h>
#include <ringfire/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- which task this is ---- */

/** The role of a task of the cluster. */
typedef enum rf_cluster_role {
    RF_ROLE_CHIEF,
    RF_ROLE_WORKER,
    RF_ROLE_PARAMETER_SERVER,
    RF_ROLE_EVALUATOR, /**< takes no part in the training */
} rf_cluster_role;

/** One task of the cluster. */
typedef struct rf_cluster_task {
    rf_cluster_role role;
    uint32_t index;                    /**< among the tasks of its role */
    uint32_t num_workers, num_servers; /**< of the cluster */
    uint64_t reserved[4];              /**< zero until a later version has more to say */
} rf_cluster_task;
/**
 * Fills in which task of TF_CONFIG this process is. Thread-safe.
 * @return RF_ERROR_NOT_FOUND without TF_CONFIG; RF_ERROR_INVALID_ARGUMENT names what is wrong in
 *   it.
 */
RF_API RF_MUST_USE rf_result rf_cluster_task_get(rf_cluster_task *out);

/* ---- parameter servers ---- */

/** How a server joins and where it computes. */
typedef struct rf_parameter_server_params {
    rf_comm_params comm; /**< key and timeouts; rank, world and master are those of TF_CONFIG */
    rf_one_device_params device; /**< where the parameters are stored and updated */
    uint64_t reserved[4];        /**< zero: room for later fields */
} rf_parameter_server_params;

/**
 * Serves until the chief ends the job. The chief provides parameters and optimizer: a server knows
 * nothing of the model. Blocking. `params` may be NULL.
 * @return RF_OK at the end of the job; RF_ERROR_TIMEOUT when no chief came within
 *   comm.bootstrap_timeout; RF_ERROR_PEER_LOST names the task that was lost.
 */
RF_API RF_MUST_USE rf_result rf_parameter_server_run(const rf_parameter_server_params *params);

/* ---- workers ---- */

/** The largest number of results of a function. */
#define RF_MAX_RESULTS 8
#define RF_MAX_FUNCTION_NAME_BYTES 64

/**
 * Creates an optimizer for steps of workers: rf_optimizer_minimize() and
 * rf_optimizer_apply_gradients() sum gradients over the replicas of the strategy as usual, but
 * leave the variables to the servers.
 * Its owner destroys it with rf_optimizer_destroy().
 */
RF_API RF_MUST_USE rf_result rf_optimizer_create_remote(rf_strategy *strategy, rf_optimizer **out);

/**
 * Makes the batch of examples [first, first + count) that the chief asked for. `out` borrows memory
 * that must stay unchanged until the next call.
 * @return RF_OK or an error, which is reported to the chief. A positive code is
 *   RF_ERROR_INVALID_ARGUMENT.
 */
typedef rf_result (*rf_batch_fn)(void *user, uint64_t first, uint64_t count, rf_element *out);

/**
 * A function that the chief can schedule on a worker. `name` and `function` are required, and
 * `batch` or `data`.
 */
typedef struct rf_worker_function {
    const char *name; /**< borrowed */
    /**
     * A step on the worker's strategy. Its first `num_results` outputs are scalars, which are
     * summed over the replicas and sent to the chief. Borrowed.
     */
    rf_function *function;
    uint32_t num_results; /**< at most RF_MAX_RESULTS */
    /** The step has no optimizer: parameters are pulled, but no gradients are pushed. */
    bool no_update;
    rf_batch_fn batch; /**< makes batches by range; or use `data` */
    void *user;        /**< passed to `batch`; borrowed */
    /**
     * A dataset, batched: used where the chief gives no range. It begins again at its end.
     * Borrowed.
     */
    const rf_dataset *data;
    /**
     * `data` is the whole dataset, and the same on all workers: work number i takes batch i, and in
     * synchronous training its share number s of n takes batch n * i + s. A lost worker's share is
     * then computed by any other one, to the same bits. Otherwise `data` is this worker's own, such
     * as a part made by rf_dataset_shard(). Its share of a synchronous step is its own batch number
     * i. A lost worker's share waits for it to be started again, unless the batches that both had
     * show that another worker has the same data.
     */
    bool whole_data;
    uint64_t reserved[3]; /**< zero: room for later fields */
} rf_worker_function;

/**
 * The functions and variables that a worker offers to the chief. All of it is borrowed until
 * rf_worker_run() returns.
 */
typedef struct rf_worker_params {
    rf_comm_params comm;
    rf_strategy *strategy; /**< of this process alone: one device, mirrored or central storage */
    /**
     * The variables that optimizers update, e.g. rf_model_variables(); names and shapes as the
     * chief's.
     */
    rf_variable_list variables;
    const rf_worker_function *functions;
    uint32_t num_functions;
    /**
     * Limits the norm of all gradients of a share before they are pushed, as the optimizers of
     * tf.distribute's workers do; 0: off. With one worker that is the `global_clip_norm` of an
     * optimizer. Several synchronous workers each limit their share, not the sum. A worker that
     * clips otherwise than the one that joined first is refused with ::RF_ERROR_INVALID_ARGUMENT.
     */
    double global_clip_norm;
    /**
     * Variables that servers hold besides, e.g. rf_model_state_variables(); as the chief's.
     * Functions with `no_update` push no changes of it. A step that assigns another variable, or
     * one with ::RF_AGGREGATE_SUM, is ::RF_ERROR_UNSUPPORTED.
     */
    rf_variable_list state_variables;
    uint64_t reserved[5]; /**< zero: room for later fields */
} rf_worker_params;

/**
 * Runs what the chief schedules until the chief ends the job. Blocking. Afterwards `variables` hold
 * the values that were pulled last; `state_variables` may hold those of the last step.
 * A function that fails is reported to the chief and does not end the worker.
 * @return as rf_parameter_server_run(); RF_ERROR_INVALID_ARGUMENT where the variables differ from
 *   those of the chief.
 */
RF_API RF_MUST_USE rf_result rf_worker_run(const rf_worker_params *params);

/* ---- the chief ---- */

/** The chief's view of the cluster. */
typedef struct rf_coordinator rf_coordinator;
/** The result of scheduled work, present or expected (TensorFlow's RemoteValue). */
typedef struct rf_remote_value rf_remote_value;

/** How the chief trains. */
typedef struct rf_coordinator_params {
    rf_comm_params comm;
    rf_variable_list variables; /**< trainable; their values become the servers' */
    /**
     * The optimizer of the servers; NULL: the defaults. Its groups go by the names of `variables`.
     * Clipping by norm is refused: it needs whole gradients, which no server has; workers can do it
     * (rf_worker_params::global_clip_norm).
     */
    const rf_optimizer_params *optimizer;
    bool synchronous;
    uint32_t max_ahead;       /**< asynchronous training: see above; 0: no bound */
    uint64_t max_shard_bytes; /**< larger variables are cut into ranges; 0: 4 MiB */
    /**
     * Variables that steps assign and no optimizer updates, e.g. rf_model_state_variables():
     * servers hold it, too. Its values become theirs.
     */
    rf_variable_list state_variables;
    /**
     * In the place of `optimizer`: servers run with its settings and go on with its state
     * (iterations and slots, e.g. from a checkpoint), and rf_coordinator_read_optimizer() copies
     * theirs to it. It belongs to the strategy of the variables, has accumulation_steps 1, and is
     * kept alive.
     */
    rf_optimizer *local_optimizer;
    uint64_t reserved[5]; /**< zero: room for later fields */
} rf_coordinator_params;

/**
 * Waits for the servers, gives them parameters and optimizer, and begins to accept workers.
 * Blocking, up to comm.bootstrap_timeout (then RF_ERROR_TIMEOUT). The variables are kept alive.
 */
RF_API RF_MUST_USE rf_result rf_coordinator_create(const rf_coordinator_params *params,
                                                   rf_coordinator **out);
/** Ends the job on all tasks. Scheduled work that is not done is dropped. Blocking. */
RF_API void rf_coordinator_destroy(rf_coordinator **coordinator);

/**
 * Adds work: examples [first, first + count) for a function. Works of a function are numbered in
 * the order in which they are scheduled, from the iterations of
 * rf_coordinator_params::local_optimizer on. They draw the random numbers of a step of that number
 * from the seed of the chief's strategy. With `count` 0 the work is on batches of
 * rf_worker_function::data, of all passes over it: see rf_worker_function::whole_data. It is then
 * numbered from 0, or from `first` where that is more: a training that goes on, or a worker that
 * joins later, need not begin at the beginning. (Asynchronous workers without whole_data take batch
 * `first` of their own at first, and then one after the other. Passes of unknown cardinality are
 * read up to the batch that is wanted.) Returns at once.
 * @param[out] value NULL, or receives the result, owned by the caller, who destroys it with
 *   rf_remote_value_destroy().
 * @return the failure of an earlier function, once, as rf_coordinator_join().
 */
RF_API RF_MUST_USE rf_result rf_coordinator_schedule(rf_coordinator *coordinator,
                                                     const char *function, uint64_t first,
                                                     uint64_t count, rf_remote_value **value);
/**
 * Waits until all scheduled work is done. Blocking.
 * @return the first failure of a function. Work that was scheduled and had not begun by then is
 * dropped;
 *   later work may be scheduled again.
 * @return RF_ERROR_PEER_LOST for a lost server, or when no worker is left, or none that has the
 *   data of a share, and none rejoins within comm.bootstrap_timeout.
 * @return RF_ERROR_TIMEOUT when nothing was finished for comm.operation_timeout.
 */
RF_API RF_MUST_USE rf_result rf_coordinator_join(rf_coordinator *coordinator);
/** Whether rf_coordinator_join() would return at once. Does not block. */
RF_API bool rf_coordinator_done(rf_coordinator *coordinator);
/**
 * Waits for one result: `results` receives the scalars of the function, combined over the shares in
 * proportion to their examples. Blocking.
 * @param num_results as in rf_worker_function.
 */
RF_API RF_MUST_USE rf_result rf_remote_value_fetch(rf_remote_value *value, float *results,
                                                   uint32_t num_results);
/** Frees a result, before or after its coordinator is destroyed. */
RF_API void rf_remote_value_destroy(rf_remote_value **value);

/**
 * Copies what the servers hold to the chief's variables, `state_variables` included. Blocking.
 * In asynchronous training, while work is in progress, the parameters of different servers may be
 * of different versions.
 */
RF_API RF_MUST_USE rf_result rf_coordinator_read_variables(rf_coordinator *coordinator);

/**
 * Copies the servers' iterations and slots to rf_coordinator_params::local_optimizer, for a
 * checkpoint of it; as rf_coordinator_read_variables(). ::RF_ERROR_INVALID_ARGUMENT without one.
 * After a failure some of it may be old.
 */
RF_API RF_MUST_USE rf_result rf_coordinator_read_optimizer(rf_coordinator *coordinator);

/** Counts of what has happened in the job so far. */
typedef struct rf_coordinator_stats {
    uint32_t num_workers; /**< that take part at present */
    uint32_t workers_lost, workers_rejoined;
    uint64_t finished; /**< shares of work done */
    uint64_t retried;  /**< shares given to another worker */
    uint64_t pushes;   /**< shares that brought gradients */
    /** updates between pull and push: the largest of any push on any server */
    uint64_t max_staleness;
    double mean_staleness; /**< the largest among the servers, averaged over the pushes */
    /** the most steps that a worker was ahead of the slowest when it began one */
    uint64_t max_ahead;
    uint64_t reserved[8]; /**< zero until a later version has more to say */
} rf_coordinator_stats;
/** Fills in the statistics. Does not block. */
RF_API void rf_coordinator_get_stats(rf_coordinator *coordinator, rf_coordinator_stats *out);

#ifdef __cplusplus
}
#endif
#endif
