/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Strategies decide where replicas live and how they stay in sync; functions are steps that run on
 * every replica.
 *
 * Synchronous data parallelism, after tf.distribute.MirroredStrategy: every replica holds the same
 * variables and takes its share of the global batch. Gradients are *summed* over replicas before
 * one update is applied everywhere.
 *
 * The following holds for the whole header unless a comment states otherwise.
 *  - A strategy and everything created on it may be used by one thread at a time.
 *  - Destroy what was created on a strategy (functions, models, optimizers, metrics, variables)
 *    before the strategy. Variables and functions that are destroyed after it remain valid: devices
 *    are closed with the last of them. But the worker has left its job then, and what is collective
 *    fails.
 *  - `replica` counts over all workers of the job, from 0.
 *  - Calls marked *collective* return only when every worker of the job has made them.
 *    rf_strategy_create_multi_worker() states the rules. In a job of one worker they are ordinary
 *    calls.
 *  - Functions that wait for devices are marked *blocking*. They return RF_ERROR_TIMEOUT or
 *    RF_ERROR_DEVICE_LOST when a device does not finish. When that leaves the replicas with
 *    different values, every later call on the strategy that needs them returns the same failure.
 */
#ifndef RINGFIRE_STRATEGY_H
#define RINGFIRE_STRATEGY_H

#include <ringfire/comm.h>
#include <ringfire/common.h>
#include <ringfire/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Where replicas live and how they stay in sync. Created by one of the rf_strategy_create_...()
 * functions.
 */
typedef struct rf_strategy rf_strategy;
/** A tensor that lasts between steps, with the same value on every replica. */
typedef struct rf_variable rf_variable;
/** A step that is traced once for each signature and then runs on every replica. */
typedef struct rf_function rf_function;
/** A result of a run: one value for each replica. It belongs to the function that ran. */
typedef struct rf_per_replica rf_per_replica;
/** The recording of a step while its function is called; see ops.h. */
typedef struct rf_trace rf_trace;

/** How replicas stay identical after a step. */
typedef enum rf_update_mode {
    /**
     * Gradients are reduce-scattered, the owner of a shard updates it, and parameters are
     * all-gathered.
     * Every weight is computed on exactly one device, so replicas are bit-identical even where
     * their drivers round differently.
     */
    RF_UPDATE_SHARDED,
    /**
     * Gradients are all-reduced and every replica runs the whole update.
     * Only for devices that share one driver.
     */
    RF_UPDATE_LOCAL,
} rf_update_mode;

/** How the global batch is split over replicas. */
typedef enum rf_balance_mode {
    /** By `shares`, always. */
    RF_BALANCE_OFF,
    /**
     * Begins with `shares`; then the share of every replica follows the speed measured in training
     * steps, so that all replicas finish at the same time.
     * A replica whose memory does not suffice for its share gets a smaller one, and the step is
     * tried again instead of failing. A share of 0 stays 0.
     * Only the speed changes: losses and gradients divide by the global batch.
     */
    RF_BALANCE_AUTO,
} rf_balance_mode;

/** How devices are opened, and where device code and tuning results are cached. */
typedef struct rf_device_options {
    bool validation;   /**< load VK_LAYER_KHRONOS_validation (also: RINGFIRE_VALIDATION=1) */
    bool clamp_limits; /**< pretend that the device has only Vulkan's guaranteed minimum limits */
    bool no_cache;     /**< neither read nor write the pipeline cache and the tuning cache */
    /**
     * NULL: RINGFIRE_CACHE, else XDG_CACHE_HOME/ringfire, else ~/.cache/ringfire. A missing
     * directory is created.
     * A directory that cannot be written is used as it is where files of a cache are in it: that of
     * an image, for example. Where there are none, one that was named here or in RINGFIRE_CACHE is
     * RF_ERROR_IO; without the default directory there is no cache, and a warning is logged.
     */
    const char *cache_directory;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_device_options;

/** Devices and exchange of a mirrored strategy. */
typedef struct rf_mirrored_params {
    /**
     * Comma-separated list. An entry is an index ("0"), a name (which may have commas itself), a
     * part of a device's or driver's name ("radeon", "3060"), a UUID (32 hexadecimal digits) or a
     * PCI address ("01:00.0"). "all" stands for every usable device. Letter case does not matter. A
     * name selects a usable device that no entry before it has selected, if there is one: with two
     * RTX 4090, "RTX 4090,RTX 4090" opens both. Where there is none, and for the other kinds of
     * entries, repeating an entry opens the device again as another logical replica. NULL:
     * RINGFIRE_DEVICES, else the default (rf_device_info::by_default): all usable GPUs, of whatever
     * vendors, each of them once; software drivers where there is no usable GPU. The log tells at
     * level RF_LOG_INFO what is left out.
     */
    const char *devices;
    rf_update_mode update_mode;
    /** Relative share of the global batch of each replica. NULL: equal shares. */
    const double *shares;
    uint32_t num_shares;     /**< the number of replicas, or 0 without `shares` */
    rf_balance_mode balance; /**< must be the same on every worker */
    /**
     * Gradients are exchanged in buckets of about this size. 0: a sixteenth of all gradients,
     * within 1 to 16 MiB.
     */
    uint64_t bucket_bytes;
    /**
     * Variables of all replicas are compared by a hash before the first update after a variable was
     * created, and then before every n-th update.
     * A difference is an error that names variable, replica and rank. 0: 100.
     */
    uint32_t check_interval;
    /**
     * Exchange gradients after the backward pass instead of bucket by bucket during it (also:
     * RINGFIRE_OVERLAP=0).
     * The results are bit-identical. Optimizers that need norms of gradients, or that accumulate
     * them, always exchange afterwards, and so do steps that compute with gradients before they
     * apply them.
     */
    bool no_overlap;
    rf_device_options device;
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_mirrored_params;

/**
 * Creates a strategy of one process with one replica for each device.
 * Blocking: opens the devices. `params` may be NULL.
 * @return RF_ERROR_NOT_FOUND names a device entry that matches nothing, RF_ERROR_UNSUPPORTED a
 *   device that is not usable; RF_ERROR_INVALID_ARGUMENT when `num_shares` is not the number of
 *   replicas; RF_ERROR_IO for the cache directory.
 */
RF_API RF_MUST_USE rf_result rf_strategy_create_mirrored(const rf_mirrored_params *params,
                                                         rf_strategy **out);

/**
 * The form in which gradients travel between workers. Replicas stay identical whatever it is: every
 * sum is computed on one worker, or from the same numbers in the same order on all, and updated
 * values travel as they are.
 */
typedef enum rf_compression {
    RF_COMPRESSION_NONE, /**< all of them, as f32 */
    /**
     * As f16, which halves the bytes; sums are f32. Numbers beyond 65,504 become infinite, and
     * those below 6e-8 become 0.
     */
    RF_COMPRESSION_F16,
    RF_COMPRESSION_BF16, /**< as bf16: the range of f32, with 8 bits of precision; sums are f32 */
    /**
     * The largest ones only (Aji & Heafield 2017). A worker keeps the others and adds them to what
     * it computes in the next step, so that nothing is lost but time; checkpoints do not hold what
     * is kept.
     */
    RF_COMPRESSION_TOP_K,
} rf_compression;
/**
 * Reads "none", "f16", "bf16", "top-k" or "top-k=SHARE". *share is 0 where none is given.
 * Thread-safe.
 * @return RF_ERROR_INVALID_ARGUMENT for any other text.
 */
RF_API RF_MUST_USE rf_result rf_compression_parse(const char *text, rf_compression *kind,
                                                  double *share);

/** A mirrored strategy that spans the workers of a job. */
typedef struct rf_multi_worker_params {
    /**
     * Devices and shares of this worker; workers may have different ones. Shares are relative over
     * all replicas of the job, and a worker without shares gives 1 to each of its replicas.
     * The other fields must be the same on every worker.
     */
    rf_mirrored_params mirrored;
    rf_comm_params comm; /**< zeroed: the job that the environment describes */
    /**
     * Must be the same on every worker. Gradients are exchanged as f32 within a worker, and so is
     * what steps assign or sum over replicas everywhere.
     */
    rf_compression compression;
    double top_k_share;   /**< TOP_K: of the elements of a bucket, in (0, 1]; 0: 0.01 */
    uint64_t reserved[6]; /**< zero: room for later fields */
} rf_multi_worker_params;

/**
 * Creates the strategy of a job of several workers.
 * Every worker of the job calls this, and then everything else in the same order. All of them run
 * the same functions with the same global batches, of which each computes the part of its own
 * replicas. Replicas are numbered over the job, those of a worker after those of the ranks before
 * it. Where the environment describes no job, the result is the mirrored strategy of this process.
 *
 * Collective calls return only when every worker has made them: creating the strategy,
 * rf_strategy_run(), rf_strategy_reduce(), rf_strategy_gather(), rf_strategy_check_identical(),
 * rf_variable_read_gradient(), rf_metric_result(), rf_model_fit(), rf_model_evaluate(),
 * rf_model_predict(), and those of checkpoint.h and interchange.h that are marked so. Whether they
 * are made must not depend on the clock or the rank of a worker.
 * When a worker or one of its devices is lost, the job ends. These calls then fail on all other
 * workers with ::RF_ERROR_PEER_LOST, which names the worker, and so does every later call on the
 * strategy.
 *
 * Collective and blocking. `params` may be NULL.
 * @return as rf_comm_create() and rf_strategy_create_mirrored(); RF_ERROR_INVALID_ARGUMENT also
 *   when workers disagree about the params.
 */
RF_API RF_MUST_USE rf_result rf_strategy_create_multi_worker(const rf_multi_worker_params *params,
                                                             rf_strategy **out);

/** Devices and the rest as for the mirrored strategy; `update_mode` must be zero. */
typedef struct rf_central_storage_params {
    rf_mirrored_params mirrored;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_central_storage_params;

/**
 * Creates a strategy of one process, after tf.distribute's CentralStorageStrategy.
 * Variables and the state of the optimizer belong to the first device of the list, which makes
 * every update; the other replicas compute with copies that they receive after it. This is
 * worthwhile where the first device has much more memory than the others, which then hold no
 * optimizer state, or where it computes updates best. Otherwise use the mirrored strategy, which
 * shares that work.
 * Blocking: opens the devices. `params` may be NULL.
 * @return as rf_strategy_create_mirrored().
 */
RF_API RF_MUST_USE rf_result
rf_strategy_create_central_storage(const rf_central_storage_params *params, rf_strategy **out);

/** The device of a strategy with one replica. */
typedef struct rf_one_device_params {
    /**
     * One entry as in rf_mirrored_params::devices. NULL: the first entry of RINGFIRE_DEVICES, else
     * the first usable device of the best type, GPUs before software.
     */
    const char *device;
    rf_device_options options;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_one_device_params;
/**
 * Creates a strategy of one process with one replica.
 * Blocking: opens the device. `params` may be NULL.
 * @return as rf_strategy_create_mirrored(); RF_ERROR_INVALID_ARGUMENT also when `device` is a list.
 */
RF_API RF_MUST_USE rf_result rf_strategy_create_one_device(const rf_one_device_params *params,
                                                           rf_strategy **out);

/**
 * Waits for work in flight, then frees everything that belongs to the strategy. Blocking.
 * The worker leaves the job, whatever is left of what was created on the strategy: the others see
 * an orderly end, for which this call waits until all have left, for `peer_timeout` at most. In a
 * child of fork() nothing is freed.
 */
RF_API void rf_strategy_destroy(rf_strategy **strategy);

/** Number of replicas that take part in a step, over all workers. */
RF_API uint32_t rf_strategy_num_replicas_in_sync(const rf_strategy *strategy);
/** Number of replicas of this worker. */
RF_API uint32_t rf_strategy_num_local_replicas(const rf_strategy *strategy);
/** Number of the first replica of this worker. */
RF_API uint32_t rf_strategy_first_local_replica(const rf_strategy *strategy);
/** Rank of this worker; 0 where there is no job. */
RF_API uint32_t rf_strategy_rank(const rf_strategy *strategy);
/** Number of workers; 1 where there is no job. */
RF_API uint32_t rf_strategy_world_size(const rf_strategy *strategy);
/** Whether this worker is the chief, which has rank 0. */
RF_API bool rf_strategy_is_chief(const rf_strategy *strategy);
/**
 * Share of a replica in the global batch of the next run. The shares of all replicas add up to 1.
 * 0 when `replica` is out of range.
 */
RF_API double rf_strategy_share(const rf_strategy *strategy, uint32_t replica);
/** Rank of the worker that a replica lives on. */
RF_API uint32_t rf_strategy_replica_rank(const rf_strategy *strategy, uint32_t replica);
/**
 * The communicator of a multi-worker strategy, which owns it; NULL for the other strategies.
 * Each call on it must be made on every worker, between the same calls on the strategy.
 */
RF_API rf_comm *rf_strategy_comm(const rf_strategy *strategy);
/**
 * Asks all workers to stop; see rf_strategy_stop_agreed(). Does not block.
 * Thread-safe, and may be called from a signal handler.
 */
RF_API void rf_strategy_request_stop(rf_strategy *strategy);
/**
 * Whether some worker had asked to stop before the latest rf_strategy_run(). It is the same on all
 * workers after the same run, and stays true.
 * A training loop should end then, as rf_model_fit() does.
 */
RF_API bool rf_strategy_stop_agreed(const rf_strategy *strategy);
/** Name of a replica's device; "" when `replica` is out of range. */
RF_API const char *rf_strategy_device_name(const rf_strategy *strategy, uint32_t replica);
/** Number of messages (warnings and errors) of the validation layer about all devices so far. */
RF_API uint64_t rf_strategy_num_validation_messages(const rf_strategy *strategy);

/* ---- variables ---- */

/**
 * The distribution that an initial value is drawn from. fan_in and fan_out follow Keras: for
 * kernels [kh, kw, cin, cout] they include the receptive field, for matrices [in, out] they are in
 * and out.
 */
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
    /** mean a, sd b (b = 0: 0.05), without numbers farther than 2 b from a; as in BERT */
    RF_INIT_TRUNCATED_NORMAL,
    RF_INIT_LECUN_UNIFORM, /**< U(-l, l), l = sqrt(3 / fan_in); LeCun et al. 1998 */
    RF_INIT_LECUN_NORMAL,  /**< truncated normal, sd = sqrt(1 / fan_in) */
    /** a (a = 0: 1) times a matrix with orthonormal rows or columns; Saxe et al. 2014 */
    RF_INIT_ORTHOGONAL,
    /** Keras' VarianceScaling: variance a (a = 0: 1) / fan, by `fan` and `distribution` */
    RF_INIT_VARIANCE_SCALING,
} rf_initializer_kind;
/** The number that ::RF_INIT_VARIANCE_SCALING divides by. */
typedef enum rf_fan { RF_FAN_IN, RF_FAN_OUT, RF_FAN_AVG } rf_fan;
/** The distribution that ::RF_INIT_VARIANCE_SCALING draws from. */
typedef enum rf_distribution {
    RF_DISTRIBUTION_TRUNCATED_NORMAL, /**< cut at two deviations; the variance is what remains */
    RF_DISTRIBUTION_UNTRUNCATED_NORMAL,
    RF_DISTRIBUTION_UNIFORM,
} rf_distribution;
/** An initial value: a distribution with its parameters, where the kind uses them. */
typedef struct rf_initializer {
    rf_initializer_kind kind;
    float a; /**< mean, lower end, gain, variance or value; 0: what the kind says, else zero */
    float b; /**< deviation or upper end; 0: what the kind says, else zero */
    /** 0: derived from the strategy's seed and the order in which variables are created */
    uint64_t seed;
    rf_fan fan;                   /**< VARIANCE_SCALING only */
    rf_distribution distribution; /**< VARIANCE_SCALING only */
    uint64_t reserved[3];         /**< zero: room for later fields */
} rf_initializer;

/** A variable before it is created. `shape` is required. */
typedef struct rf_variable_params {
    const char *name; /**< NULL: "variable_<n>" */
    rf_shape shape;
    rf_initializer initializer;
    /** Initial value instead of the initializer: rf_shape_count(shape) floats, which are copied. */
    const float *value;
    bool not_trainable;
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_variable_params;

/**
 * Sets the seed from which variables without a seed of their own, and dropout, derive theirs.
 * Call it before variables are created. A step that draws random numbers is
 * ::RF_ERROR_INVALID_ARGUMENT where workers have different ones.
 */
RF_API void rf_strategy_set_seed(rf_strategy *strategy, uint64_t seed);
/** The types that layers compute with. */
typedef struct rf_dtype_policy {
    /**
     * ::RF_F16 or ::RF_BF16: inputs, results and weights of products are stored in 16 bits, and so
     * are their gradients on the way back. Variables, arithmetic, sums, norms, statistics, losses
     * and what leaves a model stay f32. ::RF_F32, or 0: everything does.
     */
    rf_dtype compute;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_dtype_policy;
/**
 * The policy of layers that are called for the first time from here on, unless they have their own
 * (rf_layer_set_dtype_policy()). Files do not hold it: layers of a loaded model take it as others
 * do, and what is exported computes in f32. With ::RF_F16, give the optimizer a loss_scale. NULL
 * policy: f32.
 * @return RF_ERROR_INVALID_ARGUMENT for another type.
 */
RF_API RF_MUST_USE rf_result rf_strategy_set_dtype_policy(rf_strategy *strategy,
                                                          const rf_dtype_policy *policy);
/** How weights are stored. NULL or zeroed: in f32. */
typedef struct rf_quantize_params {
    rf_quantization kind;
    /**
     * Names of the weights, such as "h/0/mlp/c_fc/kernel", where "*" stands for any characters.
     * NULL: the kernels of dense layers and of the projections of attention, but for one of
     * "lm_head"; no tables of embeddings
     */
    const char *const *weights;
    uint32_t num_weights;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_quantize_params;
/**
 * Stores the weights of layers that are called for the first time from here on in 8 or 4 bits:
 * kernels of dense layers and of the projections of attention, and tables of embeddings, which a
 * head may share. Other weights stay in f32. Only the few bits ever get to a device. Products
 * decode them as they go and add up in f32; so does their gradient by the activation. Matrix units,
 * which activations in 16 bits may use, round decoded weights to the activations' type.
 *
 * Such a weight is not trained: it has no gradient, takes no slots of an optimizer, and is in
 * rf_model_variables() as one that is not trainable. Adapters (lora.h) train beside it.
 * rf_variable_read(), checkpoints and files of weights have its values in f32, and assigning
 * quantizes anew; what was read comes back to the bit. Models with such weights cannot be exported.
 * Every worker makes the same call.
 * @param params copied; NULL: f32 again
 * @return RF_ERROR_INVALID_ARGUMENT for a kind that does not exist and for an empty name.
 */
RF_API RF_MUST_USE rf_result rf_strategy_set_quantization(rf_strategy *strategy,
                                                          const rf_quantize_params *params);
/**
 * Creates an f32 variable with the same value on every replica.
 * Every worker must create the same variables in the same order. Blocking: waits for work in
 * flight.
 * @return RF_ERROR_INVALID_ARGUMENT when the shape has no elements or too many dimensions, or does
 *   not suit the initializer (an orthogonal matrix needs two dimensions).
 */
RF_API RF_MUST_USE rf_result rf_variable_create(rf_strategy *strategy,
                                                const rf_variable_params *params,
                                                rf_variable **out);
/** Releases a variable. A model or function that uses it keeps it alive. */
RF_API void rf_variable_destroy(rf_variable **variable);
/** Name of a variable, owned by it. */
RF_API const char *rf_variable_name(const rf_variable *variable);
/** Shape of a variable. */
RF_API rf_shape rf_variable_shape(const rf_variable *variable);
/** Whether optimizers may update a variable. */
RF_API bool rf_variable_trainable(const rf_variable *variable);
/**
 * Reads the value that this worker's first replica has. `values` holds rf_shape_count() floats.
 * Blocking.
 */
RF_API RF_MUST_USE rf_result rf_variable_read(const rf_variable *variable, float *values);
/**
 * Reads the value that one replica of this worker has. `values` holds rf_shape_count() floats.
 * Blocking.
 * @return RF_ERROR_INVALID_ARGUMENT when the replica is on another worker.
 */
RF_API RF_MUST_USE rf_result rf_variable_read_replica(const rf_variable *variable, uint32_t replica,
                                                      float *values);
/**
 * Sets the value on all replicas of this worker to rf_shape_count() floats. Every worker must set
 * the same. Blocking.
 */
RF_API RF_MUST_USE rf_result rf_variable_assign(rf_variable *variable, const float *values);
/**
 * Reads the gradient of the last update: the sum over replicas and accumulated steps, each of which
 * counts in units of the first one's divisor, before clipping. `values` holds rf_shape_count()
 * floats. Collective; blocking.
 * @return RF_ERROR_NOT_FOUND when no optimizer step has run for this variable, or while gradients
 *   are being accumulated.
 */
RF_API RF_MUST_USE rf_result rf_variable_read_gradient(const rf_variable *variable, float *values);

/** A list of variables, borrowed. */
typedef struct rf_variable_list {
    rf_variable *const *items;
    uint32_t count;
} rf_variable_list;

/**
 * Compares every variable on every replica by a hash of its bits. Collective; blocking.
 * @param[out] replica the first one that differs from what most replicas have; may be NULL
 * @param[out] variable the first one that differs, or NULL when all are identical; may be NULL
 * @return RF_OK when all are identical, else RF_ERROR_INTERNAL with both names in the message;
 *   RF_ERROR_INVALID_ARGUMENT when workers have different variables.
 */
RF_API RF_MUST_USE rf_result rf_strategy_check_identical(rf_strategy *strategy, uint32_t *replica,
                                                         const rf_variable **variable);

/**
 * The time and bytes that the replicas of this worker spent on the exchange of gradients and
 * updated values.
 */
typedef struct rf_exchange_stats {
    uint64_t updates; /**< updates with several replicas */
    uint64_t bytes;   /**< gradients and values, each counted once */
    /**
     * Sums and copies in host memory and collective operations, including waits for slower workers;
     * 0 where devices add up among themselves in host memory that all of them can reach.
     */
    double seconds;
    /**
     * The part of `seconds` during which the devices of this worker were idle. It is an upper
     * bound: a wait at the end of which they are idle counts as a whole.
     */
    double exposed_seconds;
    uint64_t reserved[4]; /**< zero until a later version has more to say */
} rf_exchange_stats;
/** Fills in the statistics since the strategy was created or they were reset. */
RF_API void rf_strategy_exchange_stats(const rf_strategy *strategy, rf_exchange_stats *out);
/** Sets the statistics to zero. */
RF_API void rf_strategy_reset_exchange_stats(rf_strategy *strategy);

/** Memory of a device that buffers of one kind take. */
typedef struct rf_memory_use {
    const char *name;     /**< such as "slab" or "variables"; valid until the strategy goes */
    uint64_t bytes, peak; /**< now, and the most there were at once */
    uint64_t reserved[4]; /**< zero until a later version has more to say */
} rf_memory_use;
/**
 * Tells the memory of a device by its uses. Not counted are the driver's own, and host memory.
 * @param index which replica of this worker, from 0 on
 * @param entry which use: 0 is all of them together; the others follow in the order in which they
 *   came
 * @return whether there is such a replica and such an entry
 */
RF_API bool rf_strategy_memory_use(const rf_strategy *strategy, uint32_t index, uint32_t entry,
                                   rf_memory_use *out);

/* ---- functions ---- */

struct rf_tensor;

/**
 * A step. It is called once for each signature of its input, to trace a graph, and must only call
 * tracing functions; variables may be created inside.
 * `in` are the components of the batch; `out` receives up to RF_MAX_COMPONENTS results. A signature
 * is the number, types and shapes of the components without dimension 0. After a failure the next
 * run traces again.
 * @return rf_trace_status(t), or an error of its own, which ends tracing. A positive code is
 *   RF_ERROR_INVALID_ARGUMENT.
 */
typedef rf_result (*rf_step_fn)(rf_trace *t, const struct rf_tensor *in, struct rf_tensor *out,
                                void *user);

/** A function before it is created. `step` is required. */
typedef struct rf_function_params {
    rf_step_fn step;
    void *user;           /**< passed to `step`; borrowed for the lifetime of the function */
    uint32_t num_outputs; /**< how many entries of `out` the step sets */
    const char *name;     /**< for error messages and traces; NULL: "function" */
    /**
     * The value of rf_trace_training() inside. Steps that update variables by an optimizer need it
     * (::RF_ERROR_INVALID_ARGUMENT). Without it all layers act as in ::RF_INFERENCE, also where a
     * model is called for training: no dropout and noise, moving averages are used and stay as they
     * are. With it random numbers are drawn anew in each run.
     */
    bool training;
    /**
     * So many runs are submitted to the devices together; 0 and 1: each by itself. A submission
     * then costs the host once what it costs for each run otherwise, which matters where steps are
     * short. Results have the same bits. Runs are held back until there are so many of them, or
     * until something waits for one of them: reading a result, a variable or a metric, a
     * checkpoint, destroying. A failure of the device may therefore be returned by a later call
     * than that of its run. Groups are smaller after such a wait, where memory for inputs and
     * results is short, and where a submission would take more than a tenth of a second.
     *
     * Runs go by themselves where the host takes part in each: where several replicas exchange
     * gradients or values, where RF_BALANCE_AUTO measures them, and while an asynchronous
     * checkpoint is made. They also do where an update clips by norms, has ratios or directions
     * (LAMB, Muon), or takes numbers that the step computes from gradients. So do updates that have
     * scalars of a custom optimizer and a scaled loss, and those that accumulate losses that are
     * means by weights. Where gradients are accumulated (rf_optimizer_params::accumulation_steps),
     * that concerns the runs that end with the update: the others go together, and with it. Losses
     * that are scaled (rf_optimizer_params::loss_scale) change nothing: the device decides which
     * updates are made.
     */
    uint32_t steps_per_execution;
    uint64_t reserved[7]; /**< zero: room for later fields */
} rf_function_params;
/** Creates a function on a strategy. Nothing is traced before its first run. */
RF_API RF_MUST_USE rf_result rf_function_create(rf_strategy *strategy,
                                                const rf_function_params *params,
                                                rf_function **out);
/** Destroys a function and its results. Blocking: waits for work in flight. */
RF_API void rf_function_destroy(rf_function **function);
/** Number of times that the step has been traced. */
RF_API uint32_t rf_function_num_traces(const rf_function *function);

/**
 * Runs a function on every replica.
 * The batch is split along dimension 0 of every component; a replica may get fewer examples than
 * others, or none.
 *
 * Blocking: returns when the work is submitted, and reading a result waits for it. The first run of
 * a signature traces and compiles. With several replicas and an optimizer it returns when the
 * parameters of the replicas are the same again.
 * Collective: every worker passes the same global batch, of which it computes the part of its
 * replicas, or the rows that it computes (rf_strategy_distribute_dataset()).
 *
 * A failure before work is submitted, in tracing or for lack of memory, changes nothing; on one
 * worker it is returned on all of them. A failure afterwards (a lost device, say) may leave
 * replicas with different values: from then on every call that needs them returns that failure.
 * @param batch global batch in host memory, or the rows of this worker. Its bytes are copied before
 *   the call returns.
 * @param[out] results `num_outputs` pointers, each to one value for every replica. They are owned
 *   by the function and valid until its next but one run. May be NULL.
 */
RF_API RF_MUST_USE rf_result rf_strategy_run(rf_strategy *strategy, rf_function *function,
                                             const rf_element *batch, rf_per_replica **results);

/* ---- input ---- */

/** The part of a dataset that each worker of a job reads. */
typedef enum rf_distribute_policy {
    RF_DISTRIBUTE_AUTO, /**< by example: the same batches on any number of workers */
    /**
     * Each worker prepares the rows of its replicas of every batch.
     * Where the steps below rf_dataset_batch() can be read in any order (arrays and files; map,
     * cache, take, skip, zip, concatenate, a shuffle of the whole dataset) no other examples are
     * read. Elsewhere whole batches are made and cut. A position saved with one number of workers
     * continues with any other.
     */
    RF_DISTRIBUTE_BY_EXAMPLE,
    /**
     * Each worker reads files of its own (rf_dataset_from_idx_files(), rf_dataset_from_csv(),
     * rf_dataset_from_tfrecord(), rf_dataset_from_image_directory()): worker (f mod workers) reads
     * file f.
     * Every example occurs once per pass, but in other batches than on one worker. A worker that
     * has read all of its files continues with batches to which it adds nothing, until all have. A
     * position continues only with the same number of workers.
     */
    RF_DISTRIBUTE_BY_FILE,
    RF_DISTRIBUTE_OFF, /**< every worker prepares whole batches and uses its part of them */
} rf_distribute_policy;
/** How rf_strategy_distribute_dataset() divides a dataset. */
typedef struct rf_distribute_params {
    rf_distribute_policy policy;
    /**
     * Consecutive rows of a batch that go to one worker, so that each one's rows are a multiple,
     * but for the last ones: rf_batch_norm_params::virtual_batch_size. 0: 1
     */
    uint32_t keep_together;
    uint64_t reserved[3]; /**< zero: room for later fields */
} rf_distribute_params;
/**
 * Makes the dataset for a loop around rf_strategy_run(): it has the same number of batches, each
 * with the rows of a global batch that this worker computes (rf_element_global_rows() of it).
 * `dataset` must be batched with the global batch size and be the same on every worker. The result
 * is `dataset` itself where there is one worker, where it has been distributed already, and with
 * ::RF_BALANCE_AUTO, because the division of the rows is not known in advance then. In every case
 * it must be destroyed.
 * rf_model_fit(), rf_model_evaluate() and rf_model_predict() do this themselves. Not collective.
 * `params` may be NULL.
 */
RF_API RF_MUST_USE rf_result rf_strategy_distribute_dataset(rf_strategy *strategy,
                                                            const rf_dataset *dataset,
                                                            const rf_distribute_params *params,
                                                            rf_dataset **out);

/** How values of replicas are combined. */
typedef enum rf_reduce_op { RF_REDUCE_SUM, RF_REDUCE_MEAN } rf_reduce_op;
/**
 * Combines a scalar over replicas, in the order of the replicas. Replicas without examples are left
 * out, and MEAN divides by the number of the others. Collective; blocking.
 * @return RF_ERROR_INVALID_ARGUMENT when the value is not a scalar or belongs to another strategy.
 */
RF_API RF_MUST_USE rf_result rf_strategy_reduce(rf_strategy *strategy, rf_reduce_op op,
                                                const rf_per_replica *value, float *out);
/**
 * Value of one replica of this worker. `out->data` is owned by the per-replica value. Blocking.
 * For a replica without examples dim[0] is 0 and `data` is NULL.
 * @return RF_ERROR_INVALID_ARGUMENT when the replica is on another worker.
 */
RF_API RF_MUST_USE rf_result rf_per_replica_local(const rf_per_replica *value, uint32_t replica,
                                                  rf_array *out);
/** Number of examples that a replica got in the run that made this value. */
RF_API uint32_t rf_per_replica_num_examples(const rf_per_replica *value, uint32_t replica);
/**
 * All values of the replicas joined along dimension 0, in the order of the batch. Collective;
 * blocking.
 * `out->data` is owned by the caller, who frees it with rf_array_free().
 * @return RF_ERROR_INVALID_ARGUMENT when the value is a scalar or belongs to another strategy.
 */
RF_API RF_MUST_USE rf_result rf_strategy_gather(rf_strategy *strategy, const rf_per_replica *value,
                                                rf_array *out);
/**
 * Waits until all submitted work is done, and reports its failure, if any. Blocking; not
 * collective.
 */
RF_API RF_MUST_USE rf_result rf_strategy_synchronize(rf_strategy *strategy);

#ifdef __cplusplus
}
#endif
#endif
