/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Strategies decide where replicas live and how they stay in sync; functions are steps that run on
 * every replica.
 *
 * Synchronous data parallelism, after tf.distribute.MirroredStrategy: every replica holds the same
 * variables, takes its share of the global batch, and gradients are *summed* over replicas before
 * one update is applied everywhere. Lifetime: destroy what was created on a strategy (functions,
 * models, optimizers, metrics, variables) before it. Variables and functions destroyed after it do
 * no harm: devices are closed with the last of them.
 */
#ifndef RINGFIRE_STRATEGY_H
#define RINGFIRE_STRATEGY_H

#include <ringfire/comm.h>
#include <ringfire/common.h>
#include <ringfire/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_strategy rf_strategy;
typedef struct rf_variable rf_variable;
typedef struct rf_function rf_function;
typedef struct rf_per_replica rf_per_replica;
typedef struct rf_trace rf_trace;

/** How replicas stay identical after a step. */
typedef enum rf_update_mode {
    /** Gradients are reduce-scattered, the owner of a shard updates it, parameters are
     * all-gathered: every weight is computed on exactly one device, so replicas are bit-identical
     * whatever their drivers round differently. */
    RF_UPDATE_SHARDED,
    /** Gradients are all-reduced and every replica runs the whole update. Only for devices of one
       driver. */
    RF_UPDATE_LOCAL,
} rf_update_mode;

/** How the global batch is split over replicas. */
typedef enum rf_balance_mode {
    /** By `shares`, always. */
    RF_BALANCE_OFF,
    /** Begins with `shares`; then every replica's share follows the speed that training steps are
     * measured to have, so that all of them end at the same time. A replica that has no memory for
     * its part gets a smaller one, and the step is tried again instead of failing. Changes nothing
     * but speed: losses and gradients divide by the global batch. A share of 0 stays. */
    RF_BALANCE_AUTO,
} rf_balance_mode;

/** Where device code and tuning results are remembered, and how devices are opened. */
typedef struct rf_device_options {
    bool validation;   /**< load VK_LAYER_KHRONOS_validation (also: RINGFIRE_VALIDATION=1) */
    bool clamp_limits; /**< pretend that the device has only Vulkan's guaranteed minimum limits */
    bool no_cache;     /**< neither read nor write the pipeline and tuning cache */
    /** NULL: RINGFIRE_CACHE, else XDG_CACHE_HOME/ringfire, else ~/.cache/ringfire. It is made where
     * it is missing. One that was named (here or in RINGFIRE_CACHE) and cannot be written is
     * RF_ERROR_IO; without the default one there is no cache and a warning in the log. */
    const char *cache_directory;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_device_options;

typedef struct rf_mirrored_params {
    /** Comma-separated list of indices ("0,2"), of names or parts of names ("llvmpipe", "radeon";
     * letter case does not matter), or "all". A name stands for the first usable device whose
     * device or driver name contains it. Repeating an entry opens the device again as a further
     * logical replica. NULL: RINGFIRE_DEVICES, else all usable devices. */
    const char *devices;
    rf_update_mode update_mode;
    /** Relative share of the global batch per replica, NULL: equal shares. `num_shares` must be the
     * replica count. */
    const double *shares;
    uint32_t num_shares;
    rf_balance_mode balance; /**< the same on every worker */
    uint64_t bucket_bytes;   /**< gradients are exchanged in buckets of about this size; 0: a
                                sixteenth of all gradients, 1 to 16 MiB */
    /** Variables of all replicas are compared (by a hash) before the first update after a variable
     * was created, and then before every n-th: a difference is an error that names variable,
     * replica and rank. 0: 100. */
    uint32_t check_interval;
    /** Exchange gradients after the backward pass, not bucket by bucket while it goes on (also:
     * RINGFIRE_OVERLAP=0). The results are the same to the bit. Optimizers that need norms of
     * gradients or accumulate them always do. */
    bool no_overlap;
    rf_device_options device;
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_mirrored_params;

/** One process, one replica per device. @return RF_ERROR_NOT_FOUND names a device entry that
 * matches nothing. */
RF_API RF_MUST_USE rf_result rf_strategy_create_mirrored(const rf_mirrored_params *params,
                                                         rf_strategy **out);

/** A mirrored strategy that spans the workers of a job. */
typedef struct rf_multi_worker_params {
    /** Devices and shares of this worker; workers may have different ones (shares count over all
     * replicas of the job; a worker without shares gives each of its replicas 1). The other fields
     * must be the same on every worker. */
    rf_mirrored_params mirrored;
    rf_comm_params comm;  /**< zeroed: the job that the environment describes */
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_multi_worker_params;

/**
 * Every worker of a job calls this, and then everything else in the same order: all of them run the
 * same functions with the same global batches, of which each computes its replicas' part. Replicas
 * are numbered over the job, a worker's after those of the ranks before it. Where the environment
 * describes no job it is the mirrored strategy of this process.
 *
 * Calls that are *collective* return only when every worker has made them: creating the strategy,
 * rf_strategy_run(), rf_strategy_reduce(), rf_strategy_gather(), rf_strategy_check_identical(),
 * rf_variable_read_gradient(), rf_metric_result(), rf_model_fit(), rf_model_evaluate(),
 * rf_model_predict(). They must not depend on a worker's clock or number. A worker that is lost, or
 * whose device is, ends the job: these calls then fail on all others with
 * ::RF_ERROR_PEER_LOST, which names it, and so does every later call on the strategy.
 */
RF_API RF_MUST_USE rf_result rf_strategy_create_multi_worker(const rf_multi_worker_params *params,
                                                             rf_strategy **out);

/** Devices and so on as for the mirrored strategy; `update_mode` must be zero. */
typedef struct rf_central_storage_params {
    rf_mirrored_params mirrored;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_central_storage_params;

/**
 * One process, after tf.distribute's CentralStorageStrategy: variables and the optimizer's state
 * belong to the first device of the list, which makes every update; the other replicas compute with
 * copies that they get after it. Worth it where the first device has much more memory than the
 * others, which then hold no optimizer state, or where it computes updates best; else the mirrored
 * strategy shares that work out.
 */
RF_API RF_MUST_USE rf_result
rf_strategy_create_central_storage(const rf_central_storage_params *params, rf_strategy **out);

typedef struct rf_one_device_params {
    const char *device; /**< one entry as above; NULL: the first entry of RINGFIRE_DEVICES, else the
                           first usable device, GPUs before software */
    rf_device_options options;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_one_device_params;
RF_API RF_MUST_USE rf_result rf_strategy_create_one_device(const rf_one_device_params *params,
                                                           rf_strategy **out);

/** Waits for work in flight, then frees everything of the strategy. */
RF_API void rf_strategy_destroy(rf_strategy **strategy);

/** Number of replicas that take part in a step, over all workers. */
RF_API uint32_t rf_strategy_num_replicas_in_sync(const rf_strategy *strategy);
/** Replicas of this worker: how many, and the number of the first. */
RF_API uint32_t rf_strategy_num_local_replicas(const rf_strategy *strategy);
RF_API uint32_t rf_strategy_first_local_replica(const rf_strategy *strategy);
/** This worker's number and that of workers: 0 and 1 where there is no job. The chief is rank 0. */
RF_API uint32_t rf_strategy_rank(const rf_strategy *strategy);
RF_API uint32_t rf_strategy_world_size(const rf_strategy *strategy);
RF_API bool rf_strategy_is_chief(const rf_strategy *strategy);
/** A replica's share of the global batch of the next run; all of them add up to 1. 0 when out of
 * range. */
RF_API double rf_strategy_share(const rf_strategy *strategy, uint32_t replica);
/** Rank of the worker that a replica lives on. */
RF_API uint32_t rf_strategy_replica_rank(const rf_strategy *strategy, uint32_t replica);
/** The communicator of a multi-worker strategy, owned by it; NULL for the others. What is called on
 * it must be called on every worker, between the same calls on the strategy. */
RF_API rf_comm *rf_strategy_comm(const rf_strategy *strategy);
/** Asks all workers to stop; may be called from a signal handler or another thread. */
RF_API void rf_strategy_request_stop(rf_strategy *strategy);
/** Whether some worker had asked to stop before the latest rf_strategy_run(): the same on all
 * workers after the same run. A training loop should end then; rf_model_fit() does. Stays true. */
RF_API bool rf_strategy_stop_agreed(const rf_strategy *strategy);
/** Name of a replica's device, "" when out of range. */
RF_API const char *rf_strategy_device_name(const rf_strategy *strategy, uint32_t replica);
/** Number of validation-layer messages (warnings and errors) of all devices so far. */
RF_API uint64_t rf_strategy_validation_messages(const rf_strategy *strategy);

/* ---- variables ---- */

/** What an initial value is drawn from. fan_in/fan_out follow Keras: for [kh,kw,cin,cout] kernels
 * the receptive field counts, for [in,out] matrices in and out. */
typedef enum rf_initializer_kind {
    RF_INIT_GLOROT_UNIFORM, /**< U(-l, l), l = sqrt(6 / (fan_in + fan_out)); Glorot & Bengio 2010 */
    RF_INIT_GLOROT_NORMAL,  /**< truncated normal, sd = sqrt(2 / (fan_in + fan_out)) */
    RF_INIT_HE_UNIFORM,     /**< U(-l, l), l = sqrt(6 / fan_in); He et al. 2015 */
    RF_INIT_HE_NORMAL,      /**< truncated normal, sd = sqrt(2 / fan_in) */
    RF_INIT_RANDOM_NORMAL,  /**< mean a, sd b (b = 0: 0.05) */
    RF_INIT_RANDOM_UNIFORM, /**< between a and b (both 0: -0.05 .. 0.05) */
    RF_INIT_ZEROS,
    RF_INIT_ONES,
    RF_INIT_CONSTANT, /**< a everywhere */
} rf_initializer_kind;
typedef struct rf_initializer {
    rf_initializer_kind kind;
    float a, b;
    uint64_t seed; /**< 0: derived from the strategy's seed and the variable's creation order */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_initializer;

typedef struct rf_variable_params {
    const char *name; /**< NULL: "variable_<n>" */
    rf_shape shape;
    rf_initializer initializer;
    const float *value; /**< initial value instead of the initializer; rf_shape_count(shape) floats,
                           copied */
    bool not_trainable;
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_variable_params;

/** Seed that variables without one of their own derive theirs from; also of dropout. Set before
 * creating them. */
RF_API void rf_strategy_set_seed(rf_strategy *strategy, uint64_t seed);
/** Creates an f32 variable with the same value on every replica. */
RF_API RF_MUST_USE rf_result rf_variable_create(rf_strategy *strategy,
                                                const rf_variable_params *params,
                                                rf_variable **out);
RF_API void rf_variable_destroy(rf_variable **variable);
RF_API const char *rf_variable_name(const rf_variable *variable);
RF_API rf_shape rf_variable_shape(const rf_variable *variable);
RF_API bool rf_variable_trainable(const rf_variable *variable);
/** Reads the value of this worker's first replica / of one replica of this worker. `values` holds
 * rf_shape_count() floats. Blocking. */
RF_API RF_MUST_USE rf_result rf_variable_read(const rf_variable *variable, float *values);
RF_API RF_MUST_USE rf_result rf_variable_read_replica(const rf_variable *variable, uint32_t replica,
                                                      float *values);
/** Sets the value on all replicas of this worker: every worker must set the same. Blocking. */
RF_API RF_MUST_USE rf_result rf_variable_assign(rf_variable *variable, const float *values);
/** Gradient of the last update after the sum over replicas (and over accumulated steps), before
 * clipping. Collective.
 *  @return RF_ERROR_NOT_FOUND when no optimizer step has run for this variable, or when gradients
 * are being accumulated. */
RF_API RF_MUST_USE rf_result rf_variable_read_gradient(const rf_variable *variable, float *values);

/** A list of variables, borrowed. */
typedef struct rf_variable_list {
    rf_variable *const *items;
    uint32_t count;
} rf_variable_list;

/** Compares every variable on every replica by a hash of its bits. *replica and *variable (may be
 * NULL) name the first difference: a replica that differs from what most have. Collective.
 *  @return RF_OK when all are identical, RF_ERROR_INTERNAL with both names in the message
 * otherwise. */
RF_API RF_MUST_USE rf_result rf_strategy_check_identical(rf_strategy *strategy, uint32_t *replica,
                                                         const rf_variable **variable);

/** What this worker's replicas spent on the exchange of gradients and of updated values. */
typedef struct rf_exchange_stats {
    uint64_t updates; /**< with several replicas */
    uint64_t bytes;   /**< gradients and values, each counted once */
    double seconds;   /**< sums and copies in host memory and collective operations, waiting for
                         slower workers   included */
    double exposed_seconds; /**< the part of it during which this worker's devices had no work, at
                               most: a wait at whose end they have none counts as a whole */
    uint64_t reserved[4];   /**< zero until a later version has more to say */
} rf_exchange_stats;
RF_API void rf_strategy_exchange_stats(const rf_strategy *strategy, rf_exchange_stats *out);
RF_API void rf_strategy_reset_exchange_stats(rf_strategy *strategy);

/* ---- functions ---- */

struct rf_tensor;

/**
 * A step. Called once per input signature to trace a graph (never again after that); must only call
 * tracing functions. `in` are the components of the batch, `out` takes up to RF_MAX_COMPONENTS
 * results. A signature is the number, types and shapes of the components without dimension 0.
 * Variables may be created inside. After a failure the next run traces again.
 * @return rf_trace_status(t), or an error of its own, which aborts tracing.
 */
typedef rf_result (*rf_step_fn)(rf_trace *t, const struct rf_tensor *in, struct rf_tensor *out,
                                void *user);

typedef struct rf_function_params {
    rf_step_fn step;
    void *user;           /**< passed to `step`; must live as long as the function */
    uint32_t num_outputs; /**< how many entries of `out` the step sets */
    const char *name;     /**< for error messages and traces; NULL: "function" */
    bool training; /**< what rf_trace_training() says inside; dropout acts only when set, and draws
                      anew each run */
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_function_params;
RF_API RF_MUST_USE rf_result rf_function_create(rf_strategy *strategy,
                                                const rf_function_params *params,
                                                rf_function **out);
RF_API void rf_function_destroy(rf_function **function);
/** Number of times the step was traced so far. */
RF_API uint32_t rf_function_num_traces(const rf_function *function);

/**
 * Runs a function on every replica. The batch is split along dimension 0 of every component; a
 * replica may get fewer examples than others, or none. Returns when the work is submitted; reading
 * a result waits for it. With several replicas and an optimizer it returns when the replicas'
 * parameters are the same again. A failure after work was submitted (a lost device, say) may leave
 * replicas with different values: from then on every call that needs them returns that failure.
 * Failures before that, in tracing or for want of memory, change nothing. With several workers it
 * is collective: every worker passes the same global batch and computes its replicas' part of it,
 * or passes the rows of it that it computes (rf_strategy_distribute_dataset()). A failure of the
 * second kind on one worker is returned on all of them.
 * @param batch         global batch in host memory, or this worker's rows of it; its bytes are
 * copied before the call returns.
 * @param[out] results  `num_outputs` pointers, each a value per replica. Owned by the function and
 * valid until its next-but-one run. May be NULL.
 */
RF_API RF_MUST_USE rf_result rf_strategy_run(rf_strategy *strategy, rf_function *function,
                                             const rf_element *batch, rf_per_replica **results);

/* ---- input ---- */

/** What each worker of a job reads. */
typedef enum rf_distribute_policy {
    RF_DISTRIBUTE_AUTO, /**< by example: the same batches on any number of workers */
    /** Each worker prepares its replicas' rows of every batch. Where the steps below
     * rf_dataset_batch() can be read in any order (arrays and files; map, cache, take, skip, a
     * shuffle of the whole dataset) no other examples are read, else whole batches are made and
     * cut. A position saved with one number of workers continues with any other. */
    RF_DISTRIBUTE_BY_EXAMPLE,
    /** Each worker reads files of its own (rf_dataset_from_idx_files()): file f is worker (f mod
     * workers)'s. Every example comes once per pass, but in other batches than on one worker. A
     * worker that has read all of its files goes on with batches to which it adds nothing until all
     * have. A position continues only with the same number of workers. */
    RF_DISTRIBUTE_BY_FILE,
    RF_DISTRIBUTE_OFF, /**< every worker prepares whole batches and uses its part of them */
} rf_distribute_policy;
typedef struct rf_distribute_params {
    rf_distribute_policy policy;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_distribute_params;
/**
 * A dataset for loops around rf_strategy_run(): of the same number of batches, each this worker's
 * rows of a global one (rf_element_global_rows() of it). `dataset` must be batched with the global
 * batch size and be the same on every worker. It is `dataset` itself (to be destroyed all the same)
 * where there is one worker, where it has been distributed, and with
 * ::RF_BALANCE_AUTO: who gets which rows is not known ahead then. rf_model_fit(),
 * rf_model_evaluate() and rf_model_predict() do this themselves. Not collective.
 */
RF_API RF_MUST_USE rf_result rf_strategy_distribute_dataset(rf_strategy *strategy,
                                                            const rf_dataset *dataset,
                                                            const rf_distribute_params *params,
                                                            rf_dataset **out);

/** How values of replicas are combined. */
typedef enum rf_reduce_op { RF_REDUCE_SUM, RF_REDUCE_MEAN } rf_reduce_op;
/** Combines a scalar over replicas in replica order (replicas without examples are left out; MEAN
 * divides by the others). Collective. @return RF_ERROR_INVALID_ARGUMENT when the value is no
 * scalar. */
RF_API RF_MUST_USE rf_result rf_strategy_reduce(rf_strategy *strategy, rf_reduce_op op,
                                                const rf_per_replica *value, float *out);
/** Value of one replica of this worker; `out->data` is owned by the per-replica value. A replica
 * without examples gives dim[0] = 0, or data NULL for a scalar. Blocking. */
RF_API RF_MUST_USE rf_result rf_per_replica_local(const rf_per_replica *value, uint32_t replica,
                                                  rf_array *out);
/** Examples that each replica got in the run that made this value. */
RF_API uint32_t rf_per_replica_examples(const rf_per_replica *value, uint32_t replica);
/** All replicas' values joined along dimension 0, in batch order. `out->data` is the caller's:
 * rf_array_free(). Collective. */
RF_API RF_MUST_USE rf_result rf_strategy_gather(rf_strategy *strategy, const rf_per_replica *value,
                                                rf_array *out);
/** Waits until all submitted work is done and reports its failure, if any. */
RF_API RF_MUST_USE rf_result rf_strategy_synchronize(rf_strategy *strategy);

#ifdef __cplusplus
}
#endif
#endif
