/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Training: models of the layers in layers.h, losses, fit / evaluate / predict, with the optimizers
 * of optimizers.h and the metrics of metrics.h. Names and defaults follow Keras.
 *
 * The following holds for the whole header unless a comment states otherwise.
 *  - Objects belong to a strategy and follow its rules (strategy.h): one thread at a time, created
 *    in the same order on every worker, destroyed before the strategy.
 *  - Functions with an ::rf_trace are tracing functions and follow the rules in ops.h.
 *  - Parameters that are out of range, contradict each other or do not apply to the kind are
 *    RF_ERROR_INVALID_ARGUMENT. The message names the parameter.
 */
#ifndef RINGFIRE_TRAIN_H
#define RINGFIRE_TRAIN_H

#include <ringfire/common.h>
#include <ringfire/dataset.h>
#include <ringfire/device_data.h>
#include <ringfire/layers.h>
#include <ringfire/metrics.h>
#include <ringfire/ops.h>
#include <ringfire/optimizers.h>
#include <ringfire/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Layers or a function, and the variables that they use. */
typedef struct rf_model rf_model;
/** Functions that rf_model_fit() calls as training proceeds. */
typedef struct rf_callback rf_callback;

/* ---- models ---- */

/**
 * Whether a model is called for training, which is where dropout acts and batch normalization uses
 * the statistics of the batch: in functions with rf_function_params::training. In others every call
 * is one for inference.
 */
typedef enum rf_mode { RF_INFERENCE = 0, RF_TRAINING = 1 } rf_mode;

/**
 * The forward function of rf_model_create_custom(). It follows the rules of a step (::rf_step_fn).
 */
typedef rf_tensor (*rf_model_call_fn)(rf_trace *t, rf_model *model, rf_tensor x, rf_mode mode,
                                      void *user);

/**
 * Creates a model whose layers are applied one after the other.
 * Takes over `layers`, also when it fails. `input_shape` is without the batch dimension; NULL, or
 * rank 0: the model is built at its first call.
 */
RF_API RF_MUST_USE rf_result rf_model_create_sequential(rf_strategy *strategy,
                                                        rf_layer *const *layers,
                                                        uint32_t num_layers,
                                                        const rf_shape *input_shape,
                                                        rf_model **out);
/**
 * Creates a model from a function: subclassing in C. `call` applies the layers of the model with
 * rf_layer_call(), and any operations in between. Layers are added with rf_model_add_layer().
 * `user` is borrowed for the lifetime of the model.
 * As in Keras, what a call uses belongs to the model: variables that `call` obtains with
 * rf_variable_tensor(), and those of other models that it calls, are trained, counted, saved and
 * exported with it. They live as long as the model does, no matter who created them. A variable
 * whose name occurs in the model already is saved with a number appended.
 */
RF_API RF_MUST_USE rf_result rf_model_create_custom(rf_strategy *strategy, rf_model_call_fn call,
                                                    void *user, rf_model **out);
/**
 * Gives a layer to a custom model, which takes it over also when this fails. The pointer stays
 * valid as long as the model.
 * @return RF_ERROR_INVALID_ARGUMENT for a sequential model, or when the name of the layer occurs
 *   already.
 */
RF_API RF_MUST_USE rf_result rf_model_add_layer(rf_model *model, rf_layer *layer);
/** Applies a layer of the model inside its `call`. */
RF_API rf_tensor rf_layer_call(rf_trace *t, rf_model *model, rf_layer *layer, rf_tensor x,
                               rf_mode mode);
/**
 * Destroys a model with its layers, and its variables where nothing else uses them. Blocking: waits
 * for work in flight.
 */
RF_API void rf_model_destroy(rf_model **model);
/**
 * Creates the variables for inputs of this shape, which is without the batch dimension. The first
 * call of the model does it where it has not been done. Inputs are i32 where the model is
 * sequential and begins with an embedding layer, otherwise f32. Blocking.
 * @return RF_ERROR_INVALID_ARGUMENT when the model was built for another shape.
 */
RF_API RF_MUST_USE rf_result rf_model_build(rf_model *model, rf_shape input_shape);
/**
 * rf_model_build() for inputs of any type, such as indices for a custom model. Blocking.
 * @return RF_ERROR_INVALID_ARGUMENT also when the model was built for another type.
 */
RF_API RF_MUST_USE rf_result rf_model_build_for(rf_model *model, rf_dtype dtype,
                                                rf_shape input_shape);
/** Applies the model inside a step. */
RF_API rf_tensor rf_model_call(rf_trace *t, rf_model *model, rf_tensor x, rf_mode mode);
/**
 * Trainable variables in the order of their first use. They are borrowed from the model. The list
 * is empty before the model is built.
 */
RF_API rf_variable_list rf_model_variables(const rf_model *model);
/**
 * The variables that are not trainable, such as the moving averages of batch normalization, in the
 * order of their first use; as rf_model_variables().
 */
RF_API rf_variable_list rf_model_state_variables(const rf_model *model);
/** Number of scalars in all variables, including those that are not trainable. */
RF_API uint64_t rf_model_num_params(const rf_model *model);
/**
 * Table of layers, output shapes and parameter counts, as text.
 * @param[out] text owned by the caller, who frees it with rf_string_free().
 */
RF_API RF_MUST_USE rf_result rf_model_summary(const rf_model *model, char **text);
/**
 * Sum of the regularisation penalties of the model's layers: a scalar, the constant 0 when there
 * are none.
 */
RF_API rf_tensor rf_model_regularization_loss(rf_trace *t, rf_model *model);

/* ---- losses ---- */

/** The function that a loss computes; see the function of the same name in ops.h. */
typedef enum rf_loss_kind {
    RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
    RF_LOSS_CATEGORICAL_CROSSENTROPY,
    RF_LOSS_MEAN_SQUARED_ERROR,
    RF_LOSS_BINARY_CROSSENTROPY,
    RF_LOSS_MEAN_ABSOLUTE_ERROR,
    RF_LOSS_HUBER,
    RF_LOSS_KL_DIVERGENCE,
    /** rf_ctc_loss() with the blank 0; labels that cannot be spelt have loss 0. */
    RF_LOSS_CTC,
} rf_loss_kind;
/** How losses per example become the result of a loss. */
typedef enum rf_reduction {
    /**
     * SUM_OVER_BATCH_SIZE in fit. An error in a custom step, on one replica too: a step that worked
     * there would be wrong on two.
     */
    RF_REDUCTION_AUTO,
    RF_REDUCTION_NONE,
    RF_REDUCTION_SUM,
    RF_REDUCTION_SUM_OVER_BATCH_SIZE,
    /**
     * In fit: the sum of loss * sample weight, divided by the sum of the weights of all replicas
     * (rf_compute_weighted_loss()). Without sample weights as SUM_OVER_BATCH_SIZE.
     */
    RF_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT,
} rf_reduction;
/** A loss of fit or of rf_loss_call(). */
typedef struct rf_loss {
    rf_loss_kind kind;
    /**
     * Whether the predictions of a crossentropy are logits; otherwise they are probabilities.
     * For probabilities, predictions of a layer whose last operation is neither softmax nor sigmoid
     * are RF_ERROR_INVALID_ARGUMENT when the step is traced, and a warning is logged where the
     * graph does not show it. Crossentropies of classes with one column are refused. A loss of
     * predictions that the graph shows to be made by softmax (of the binary one by sigmoid) is
     * computed from its logits either way, as in Keras.
     */
    bool from_logits;
    rf_reduction reduction;
    /**
     * CATEGORICAL and BINARY_CROSSENTROPY, in [0, 1): what of the labels is spread evenly over the
     * classes, y (1 - s) + s / c; c is 2 for the binary one.
     */
    float label_smoothing;
    float delta; /**< HUBER; 0: 1 */
    /**
     * SPARSE_CATEGORICAL_CROSSENTROPY: where the label is this number, such as -100, the loss is 0
     * and has no gradient. A mean of fit is then over all other labels of the step, on all
     * replicas; without any it is 0. rf_model_compile() copies the number. NULL: none
     */
    const int32_t *ignore_class;
    uint64_t reserved[2]; /**< zero: room for later fields */
} rf_loss;
/**
 * Applies a loss in a custom step: losses per example (NONE) or a scalar (SUM).
 * AUTO and SUM_OVER_BATCH_SIZE are refused, because they would divide by the replica's share of the
 * batch; use NONE with rf_compute_average_loss(), or SUM.
 * With an `ignore_class` give rf_compute_weighted_loss() weights that are 0 for these labels and 1
 * for others.
 * Labels may have any type that tensors have. Those of the sparse crossentropy may be [n...] or
 * [n..., 1]; targets [n] match predictions [n, 1], also labels of the binary crossentropy.
 */
RF_API rf_tensor rf_loss_call(rf_trace *t, const rf_loss *loss, rf_tensor labels,
                              rf_tensor predictions);

/** Weights and divisor of rf_compute_average_loss(). */
typedef struct rf_average_loss_params {
    /** Weights per example [n], or with as many dimensions as the losses. Zeroed: none. */
    rf_tensor sample_weight;
    /** Fixed divisor. 0: the number of examples of the step being run, over all replicas. */
    uint32_t global_batch_size;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_average_loss_params;
/**
 * Sum of all losses, of any rank, divided by the global batch size: the loss whose gradients may be
 * summed over replicas.
 * `params` may be NULL. The result is a scalar.
 */
RF_API rf_tensor rf_compute_average_loss(rf_trace *t, rf_tensor per_example_loss,
                                         const rf_average_loss_params *params);
/**
 * The mean of losses by their weights, such as a mask that leaves out padding. It is the sum of
 * loss * weight, divided by the sum of the weights over all replicas, in the shape of the losses.
 * Uneven masks on the replicas therefore change nothing; where all weights are 0 the loss is 0. Its
 * gradients may be summed over replicas, as those of rf_compute_average_loss(); none goes through
 * the sum of the weights. A loss that is infinite or NaN counts even with weight 0.
 * @param sample_weight per example [n], or with as many dimensions as the losses; of any type.
 * Replicas wait for each other once in the step, as rf_all_replica_sum() says. The result is a
 * scalar.
 */
RF_API rf_tensor rf_compute_weighted_loss(rf_trace *t, rf_tensor per_example_loss,
                                          rf_tensor sample_weight);
/**
 * Regularisation loss, a scalar, divided by the number of replicas that have examples in this step.
 */
RF_API rf_tensor rf_scale_regularization_loss(rf_trace *t, rf_tensor loss);

/* ---- fit ---- */

/**
 * A loss of the caller, traced within the step of fit and evaluate: `labels` and `predictions` have
 * a tensor for each output of the model. It follows the rules of a step (::rf_step_fn) and returns
 * losses of examples [n...]; weights and averages are for the caller of it.
 */
typedef rf_tensor (*rf_loss_fn)(rf_trace *t, const rf_tensor *labels, const rf_tensor *predictions,
                                void *user);
/** A metric of the caller in the same way: values of examples [n...], whose mean it is. */
typedef rf_tensor (*rf_metric_fn)(rf_trace *t, rf_tensor labels, rf_tensor predictions, void *user);
/** A metric of one output of a model. */
typedef struct rf_output_metric {
    uint32_t output;         /**< its number */
    rf_metric_params metric; /**< all kinds but MEAN and SUM; `name`, if set, is that in the logs */
    rf_metric_fn fn; /**< instead of a kind: `metric` is zeroed but for `name`, which is set */
    void *user;      /**< of `fn`; borrowed as long as the model is compiled with it */
    bool weighted;   /**< by the sample weight, where the data has one: Keras' weighted_metrics */
    uint64_t reserved[1]; /**< zero: room for later fields */
} rf_output_metric;
/**
 * The optimizer, loss and metrics of rf_model_fit() and rf_model_evaluate(). `optimizer` and `loss`
 * are required.
 */
typedef struct rf_compile_params {
    rf_optimizer *optimizer; /**< borrowed; must live as long as the model */
    rf_loss loss;
    const rf_metric_kind *metrics; /**< all but MEAN and SUM, each at most once; NULL: none */
    uint32_t num_metrics;
    /**
     * n batches are one execution; 0: 1. on_batch_begin and on_batch_end are called once for them,
     * and they are submitted to the devices together where that is possible
     * (rf_function_params::steps_per_execution). Weights, losses and metrics have the same bits.
     */
    uint32_t steps_per_execution;
    /** Instead of `loss`: one for each output. */
    const rf_loss *losses;
    const double *loss_weights; /**< of `losses`, finite; the loss is their weighted sum. NULL: 1 */
    /** Instead of `metrics`: with settings, and of any output. */
    const rf_output_metric *output_metrics;
    uint32_t num_losses; /**< the model's number of outputs; 0: `loss` is that of the only one */
    uint32_t num_output_metrics;
    /** Instead of `loss` and `losses`, of all outputs together. rf_model_save() cannot keep it. */
    rf_loss_fn loss_fn;
    void *loss_user;      /**< borrowed as long as the model is compiled with it */
    uint64_t reserved[2]; /**< zero: room for later fields */
} rf_compile_params;
/**
 * Prepares fit and evaluate. The variables that are trainable now are those that rf_model_fit()
 * will train (rf_layer_set_trainable()). It may be called again. `metrics` have their default
 * settings. Metrics of probabilities (those that have rf_metric_params::from_logits) whose output
 * has a crossentropy with `from_logits` get the probabilities of the logits: a sigmoid's beside the
 * binary one, else a softmax's. Errors are of the predictions as they are.
 * Metrics that have rf_metric_params::ignore_class leave out what the loss of their output does.
 * The logs of a model with several outputs have "loss", "NAME_loss" of each output before its
 * weight, and "NAME_METRIC"; all of them at most 7.
 */
RF_API RF_MUST_USE rf_result rf_model_compile(rf_model *model, const rf_compile_params *params);
/**
 * The metric that logs have under a name, such as "f1_score": that of training, or with "val_" that
 * of evaluation and validation, for rf_metric_results(). A callback may read it, on all workers.
 * Owned by the model, until that is compiled again or destroyed. NULL when there is none, or the
 * name is that of a loss.
 */
RF_API rf_metric *rf_model_metric(const rf_model *model, const char *name);

/** The largest number of values in ::rf_logs. */
#define RF_MAX_LOGS 16
/**
 * Values at a callback, under the names that they have in CSV logs, event files (after "epoch_" and
 * "batch_"), plots and histories. There are "loss", "accuracy", further metrics such as
 * "precision", and "learning_rate"; with validation also "val_loss" and "val_accuracy". The
 * accuracy is that of the classes or the binary one. A model compiled with several of these has
 * "sparse_categorical_accuracy", "categorical_accuracy" and "binary_accuracy". After a batch:
 * "loss" and metrics of the epoch so far. Reading them waits for the devices, so they are read only
 * when some callback has on_batch_end. Names are borrowed from the model.
 */
typedef struct rf_logs {
    uint32_t count;
    const char *name[RF_MAX_LOGS];
    double value[RF_MAX_LOGS];
} rf_logs;
/** Looks up the value of a name. Returns false, and leaves `*value` alone, when there is none. */
RF_API bool rf_logs_get(const rf_logs *logs, const char *name, double *value);

/**
 * State that callbacks may read, and change through `stop_training`.
 * In a job of several workers every worker calls its own callbacks; the values are the same
 * everywhere, except for `rank` and times.
 */
typedef struct rf_fit_state {
    rf_model *model;
    rf_optimizer *optimizer;
    uint32_t epoch, num_epochs; /**< epoch counts from 0 */
    uint64_t batch;             /**< within the epoch, from 0; the latest one */
    int64_t batches_per_epoch;  /**< -1 while unknown */
    /** examples of the batch (or batches, with steps_per_execution) that just ended */
    uint32_t batch_examples;
    double seconds; /**< since the epoch began */
    /** of this worker; 0: the chief, who should do what is done once for the job */
    uint32_t rank;
    /** set it (on any worker) to end after the current epoch's end callbacks */
    bool stop_training;
    uint64_t epoch_examples; /**< examples that the epoch has trained on so far, on all workers */
    /** at the epoch's end: the time that training took, without validation */
    double train_seconds;
    /** those of epoch_examples that this took: all but the ones before a resumed fit began */
    uint64_t timed_examples;
} rf_fit_state;
/**
 * The functions of a callback. Any of them may be NULL. They are called by the thread that calls
 * rf_model_fit().
 * An error stops fit, which returns it. A positive code, even RF_END, is RF_ERROR_INVALID_ARGUMENT:
 * training ends early through `stop_training`. `state` and `logs` are borrowed for the call.
 */
typedef struct rf_callback_fns {
    rf_result (*on_train_begin)(void *user, rf_fit_state *state);
    rf_result (*on_train_end)(void *user, rf_fit_state *state, const rf_logs *logs);
    rf_result (*on_epoch_begin)(void *user, rf_fit_state *state);
    rf_result (*on_epoch_end)(void *user, rf_fit_state *state, const rf_logs *logs);
    rf_result (*on_batch_begin)(void *user, rf_fit_state *state);
    rf_result (*on_batch_end)(void *user, rf_fit_state *state, const rf_logs *logs);
    void (*destroy)(void *user); /**< called by rf_callback_destroy() */
    uint64_t reserved[8];        /**< zero: room for later fields */
} rf_callback_fns;
/** Creates a callback. It owns `user` from then on if this succeeds. */
RF_API RF_MUST_USE rf_result rf_callback_create(const rf_callback_fns *fns, void *user,
                                                rf_callback **out);
/** Learning rate of the epoch that begins, given the current one. */
typedef double (*rf_learning_rate_fn)(void *user, uint32_t epoch, double rate);
/**
 * Creates a callback that sets the learning rate at the beginning of each epoch. `user` is
 * borrowed.
 */
RF_API RF_MUST_USE rf_result rf_callback_learning_rate_scheduler(rf_learning_rate_fn fn, void *user,
                                                                 rf_callback **out);
/** When rf_callback_early_stopping() ends training. */
typedef struct rf_early_stopping_params {
    const char *monitor; /**< NULL: "val_loss" */
    double min_delta;
    uint32_t patience;
    bool maximize;
    bool restore_best_weights;
    const double *baseline;    /**< epochs that are not better count, too; NULL: none */
    uint32_t start_from_epoch; /**< earlier epochs, which count from 0, are not looked at */
    uint64_t reserved[2];      /**< zero: room for later fields */
} rf_early_stopping_params;
/**
 * Creates a callback that stops when the value has not improved by more than min_delta for
 * `patience` epochs (0 and 1: at the first such epoch). As in Keras an epoch that improves does not
 * end training, though it counts while it is not better than a baseline.
 * With restore_best_weights the weights of the best epoch are put back when training ends. Each fit
 * begins anew. A monitored value that is not in the logs is RF_ERROR_INVALID_ARGUMENT of
 * rf_model_fit(), before it trains.
 */
RF_API RF_MUST_USE rf_result rf_callback_early_stopping(const rf_early_stopping_params *params,
                                                        rf_callback **out);
/** When rf_callback_reduce_lr_on_plateau() lowers the learning rate, and how far. */
typedef struct rf_reduce_lr_on_plateau_params {
    const char *monitor; /**< NULL: "val_loss" */
    double factor;       /**< of the new rate to the old one, below 1; 0: 0.1 */
    double min_delta;    /**< 0: 1e-4 */
    double min_lr;       /**< no rate is below it */
    uint32_t patience;   /**< 0: 10 */
    uint32_t cooldown;   /**< epochs after a reduction that do not count */
    bool maximize;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_reduce_lr_on_plateau_params;
/**
 * Creates a callback that multiplies the learning rate by `factor` when the value has not improved
 * by more than min_delta for `patience` epochs, as Keras' ReduceLROnPlateau. A schedule of the
 * optimizer is replaced by the reduced rate. Each fit begins anew. A monitored value that is not in
 * the logs is RF_ERROR_INVALID_ARGUMENT of rf_model_fit(), before it trains.
 */
RF_API RF_MUST_USE rf_result
rf_callback_reduce_lr_on_plateau(const rf_reduce_lr_on_plateau_params *params, rf_callback **out);
/** Whether rf_callback_csv_log() keeps the lines of a file that exists. */
typedef enum rf_csv_log_mode { RF_CSV_LOG_REPLACE, RF_CSV_LOG_APPEND } rf_csv_log_mode;
/**
 * Creates a callback that writes one line per epoch, below a header that is written when fit
 * begins. An epoch that is not validated leaves those columns empty.
 * An existing file is replaced. With ::RF_CSV_LOG_APPEND, and when fit continues from a backup, its
 * lines are kept, except those of epochs that are trained once more. Those are the lines written
 * after the backup was made. Where fit begins at an initial_epoch, they are the lines from that
 * epoch on of the last run in the file. An incomplete line is removed, too. In a job of several
 * workers only the chief writes. rf_model_fit() fails with RF_ERROR_INVALID_ARGUMENT before it
 * trains when the file has other columns, or when another process is writing it; the message names
 * that process.
 */
RF_API RF_MUST_USE rf_result rf_callback_csv_log(const char *path, rf_csv_log_mode mode,
                                                 rf_callback **out);
/** Receives the speed of the epoch that has ended, over all workers, without validation. */
typedef void (*rf_throughput_fn)(void *user, const rf_fit_state *state, double examples_per_second);
/**
 * Creates a callback that calls `fn` at the end of each epoch. Unlike on_batch_end it does not make
 * the host wait for the devices in between. `user` is borrowed.
 */
RF_API RF_MUST_USE rf_result rf_callback_throughput(rf_throughput_fn fn, void *user,
                                                    rf_callback **out);
/** Options of rf_callback_tensorboard(). */
typedef struct rf_tensorboard_params {
    const char *directory;   /**< NULL: "logs" */
    uint32_t histogram_freq; /**< histograms of the weights every n epochs; 0: none */
    /**
     * 0: values per epoch. n: also those after every n-th on_batch_end. Reading them makes the host
     * wait for the devices, so combine it with rf_compile_params::steps_per_execution.
     */
    uint32_t update_freq;
    bool no_graph;        /**< leave out the graph of the training step */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_tensorboard_params;
/**
 * Creates a callback that writes event files (events.h) to directory/train and
 * directory/validation, under Keras' tags: "epoch_loss", "epoch_accuracy", "epoch_learning_rate",
 * "batch_loss", ... "<variable>/histogram". `ringfire report` reads besides:
 * "epoch_examples_per_second", "replica_0/share", ... and texts such as "ringfire/devices" and, of
 * compiled confusion matrices, "ringfire/confusion/val_confusion_matrix", ... after each epoch.
 * The files are opened when fit begins. In a job of several workers only the chief writes.
 */
RF_API RF_MUST_USE rf_result rf_callback_tensorboard(const rf_tensorboard_params *params,
                                                     rf_callback **out);
/** Destroys a callback, and `user` through its `destroy`. */
RF_API void rf_callback_destroy(rf_callback **callback);

/** Values per epoch, as Keras' History. */
typedef struct rf_history {
    uint32_t num_epochs;
    rf_logs *epochs; /**< names are owned by the model */
} rf_history;
/** Frees the arrays of a history and zeroes it. NULL does nothing. */
RF_API void rf_history_free(rf_history *history);

/** The data and options of rf_model_fit(). `data` is required. */
typedef struct rf_fit_params {
    /** batched; elements (inputs ..., label of each output ...[, sample weight]) */
    const rf_dataset *data;
    const rf_dataset *validation_data; /**< NULL: none */
    uint32_t epochs;                   /**< 0: 1 */
    uint32_t initial_epoch; /**< number of the first epoch; of a new process also its first pass */
    /**
     * 0: the whole dataset. Otherwise epochs follow each other through the dataset, which begins
     * again when it ends; so do those of the model's next fit with the same pipeline.
     */
    uint64_t steps_per_epoch;
    rf_callback *const *callbacks; /**< borrowed */
    uint32_t num_callbacks;
    /**
     * The part that each worker of a job reads; see rf_strategy_distribute_dataset().
     * `validation_data` is never distributed by file.
     */
    rf_distribute_policy distribute;
    /**
     * Whether `data` is kept in the memory of the devices while fit runs (rf_device_data_create());
     * losses, weights and backups are those of batches from the host. The train step is traced anew
     * by each such fit.
     */
    rf_device_cache device_cache;
    /**
     * Validation after every n-th epoch; 0: 1. The logs of other epochs have no "val_" values, so
     * that these epochs do not count for callbacks that watch one.
     */
    uint64_t validation_freq;
    /**
     * Weights of classes, of a model with one output; others have 1. In training they multiply the
     * sample weight. A label has a class number, or is one-hot where its last dimension is above 1
     * and the loss is not the sparse crossentropy. The host looks them up, so that such data is not
     * kept on the devices. NULL: none
     */
    const double *class_weights;
    uint32_t num_class_weights;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_fit_params;
/**
 * Trains a compiled model. Collective; blocking until training ends.
 * Successive fits of a model continue: each pass through the data is another one (see
 * rf_iterator_create()), so that order, augmentation and negatives do not repeat, and random
 * operations of the step go on.
 * The loss is the mean over the global batch, plus regularisation. The sample weight, a last
 * component [n] or as the losses, multiplies losses. They are divided by the number of examples
 * (Keras' sum_over_batch_size) or, with ::RF_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT, by the sum of the
 * weights, in each step over all replicas. "loss" of an epoch is the mean of that of its batches,
 * each as often as it has examples. Metrics take the weight where rf_output_metric::weighted says
 * so. When a stop is agreed (rf_strategy_request_stop()) training or validation ends after that
 * batch: the end of the epoch is left out, on_train_end is called, and the result is RF_OK. The
 * same happens when an on_epoch_end returns ::RF_ERROR_CANCELLED then, as rf_model_evaluate() in it
 * does. The callbacks after it are not called. A fit that is resumed from a backup repeats the end
 * of the epoch, so that such callbacks should be the first ones. A callback that fails on one
 * worker ends the job on all.
 * @param history may be NULL. The caller frees it with rf_history_free(), also after a failure: it
 *   then holds the epochs before it.
 * @return RF_ERROR_NOT_FINITE when the loss (or "val_loss") is infinite or NaN, which is noticed
 *   after a batch if a callback has on_batch_end, else at the end of the epoch.
 *   RF_ERROR_INVALID_ARGUMENT when the model is not compiled or the data does not match it; errors
 *   of the dataset and the callbacks.
 */
RF_API RF_MUST_USE rf_result rf_model_fit(rf_model *model, const rf_fit_params *params,
                                          rf_history *history);
/**
 * Loss and metrics over a dataset. Collective; blocking.
 * @return RF_ERROR_NOT_FINITE, with `out` filled in, when the loss is infinite or NaN.
 * RF_ERROR_CANCELLED, on all workers after the same batch, when a stop is agreed meanwhile
 * (rf_strategy_request_stop()); one that was agreed before does not matter.
 * RF_ERROR_INVALID_ARGUMENT when the dataset is empty or infinite.
 */
RF_API RF_MUST_USE rf_result rf_model_evaluate(rf_model *model, const rf_dataset *data,
                                               rf_logs *out);
/**
 * Predictions for all elements (component 0) of a batched dataset, joined along dimension 0.
 * Collective; blocking.
 * @param[out] out `data` is owned by the caller, who frees it with rf_array_free().
 * @return RF_ERROR_INVALID_ARGUMENT when the dataset is empty or infinite, or the model has several
 *   outputs (rf_model_predict_many()); RF_ERROR_CANCELLED as rf_model_evaluate().
 */
RF_API RF_MUST_USE rf_result rf_model_predict(rf_model *model, const rf_dataset *data,
                                              rf_array *out);

#ifdef __cplusplus
}
#endif
#endif
