/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Training: layers and models, losses, optimizers, learning-rate schedules, metrics, fit / evaluate
 * / predict. Names and defaults follow Keras.
 */
#ifndef RINGFIRE_TRAIN_H
#define RINGFIRE_TRAIN_H

#include <ringfire/common.h>
#include <ringfire/dataset.h>
#include <ringfire/ops.h>
#include <ringfire/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_layer rf_layer;
typedef struct rf_model rf_model;
typedef struct rf_optimizer rf_optimizer;
typedef struct rf_metric rf_metric;
typedef struct rf_callback rf_callback;

/* ---- layers ---- */

/** l1 * sum|w| + l2 * sum w^2, added to the loss. */
typedef struct rf_regularizer {
    float l1, l2;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_regularizer;

typedef struct rf_dense_params {
    int32_t units;
    rf_activation activation;
    bool no_bias;
    rf_initializer kernel_initializer;      /**< zeroed: Glorot uniform */
    const rf_initializer *bias_initializer; /**< NULL: zeros */
    rf_regularizer kernel_regularizer;
    const char *name;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_dense_params;
typedef struct rf_conv2d_layer_params {
    int32_t filters;
    int32_t kernel_size[2]; /**< [1] = 0: square */
    rf_conv2d_params conv;
    rf_activation activation;
    bool no_bias;
    rf_initializer kernel_initializer;
    const rf_initializer *bias_initializer;
    rf_regularizer kernel_regularizer;
    const char *name;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_conv2d_layer_params;
/** Layers are descriptions until a model is built. A layer created here belongs to the model it is
 * added to, or is destroyed with rf_layer_destroy(). */
RF_API RF_MUST_USE rf_result rf_layer_dense(const rf_dense_params *params, rf_layer **out);
RF_API RF_MUST_USE rf_result rf_layer_conv2d(const rf_conv2d_layer_params *params, rf_layer **out);
RF_API RF_MUST_USE rf_result rf_layer_max_pool2d(const rf_pool2d_params *params, rf_layer **out);
RF_API RF_MUST_USE rf_result rf_layer_avg_pool2d(const rf_pool2d_params *params, rf_layer **out);
RF_API RF_MUST_USE rf_result rf_layer_global_avg_pool2d(rf_layer **out);
RF_API RF_MUST_USE rf_result rf_layer_flatten(rf_layer **out);
/** `shape` without the batch dimension; one entry may be -1. */
RF_API RF_MUST_USE rf_result rf_layer_reshape(rf_shape shape, rf_layer **out);
RF_API RF_MUST_USE rf_result rf_layer_activation(rf_activation activation, rf_layer **out);
RF_API RF_MUST_USE rf_result rf_layer_dropout(float rate, uint64_t seed, rf_layer **out);
/** Any function of one tensor. Variables that it uses belong to the model, as in
 * rf_model_create_custom(). */
typedef rf_tensor (*rf_lambda_fn)(rf_trace *t, rf_tensor x, void *user);
RF_API RF_MUST_USE rf_result rf_layer_lambda(rf_lambda_fn fn, void *user, rf_layer **out);
RF_API void rf_layer_destroy(rf_layer **layer);

/* ---- models ---- */

typedef enum rf_mode { RF_INFERENCE = 0, RF_TRAINING = 1 } rf_mode;

/** A model's forward function for rf_model_create_custom(). */
typedef rf_tensor (*rf_model_call_fn)(rf_trace *t, rf_model *model, rf_tensor x, rf_mode mode,
                                      void *user);

/** Takes over `layers` (also when it fails). `input_shape` without the batch; rank 0: built at the
 * first call. */
RF_API RF_MUST_USE rf_result rf_model_create_sequential(rf_strategy *strategy,
                                                        rf_layer *const *layers,
                                                        uint32_t num_layers,
                                                        const rf_shape *input_shape,
                                                        rf_model **out);
/** Subclassing in C: `call` applies the model's layers with rf_layer_call() and any operations in
 * between. Layers are added with rf_model_add_layer(). As in Keras, what a call uses belongs to the
 * model: variables that `call` takes with rf_variable_tensor(), and those of other models that it
 * calls, are trained, counted, saved and exported with it. They live as long as the model does,
 * whoever made them. A variable whose name the model has already is saved with a number after it.
 */
RF_API RF_MUST_USE rf_result rf_model_create_custom(rf_strategy *strategy, rf_model_call_fn call,
                                                    void *user, rf_model **out);
/** Gives a layer to a custom model (also when it fails, the model's). The pointer stays valid as
 * long as the model. */
RF_API RF_MUST_USE rf_result rf_model_add_layer(rf_model *model, rf_layer *layer);
RF_API rf_tensor rf_layer_call(rf_trace *t, rf_model *model, rf_layer *layer, rf_tensor x,
                               rf_mode mode);
RF_API void rf_model_destroy(rf_model **model);
/** Creates the variables for inputs of this shape (without the batch). Done by the first call where
 * it was not done. */
RF_API RF_MUST_USE rf_result rf_model_build(rf_model *model, rf_shape input_shape);
/** Applies the model inside a step. */
RF_API rf_tensor rf_model_call(rf_trace *t, rf_model *model, rf_tensor x, rf_mode mode);
/** Trainable variables in the order of their first use; borrowed from the model; empty before it is
 * built. */
RF_API rf_variable_list rf_model_variables(const rf_model *model);
/** Number of scalars in all variables, those that are not trainable included. */
RF_API uint64_t rf_model_count_params(const rf_model *model);
/** Table of layers, output shapes and parameter counts, as text. Free with rf_string_free(). */
RF_API RF_MUST_USE rf_result rf_model_summary(const rf_model *model, char **text);
RF_API void rf_string_free(char *text);
/** Sum of the regularisation penalties of the model's layers, a scalar (constant 0 when there are
 * none). */
RF_API rf_tensor rf_model_regularization_loss(rf_trace *t, rf_model *model);

/* ---- losses ---- */

typedef enum rf_loss_kind {
    RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
    RF_LOSS_CATEGORICAL_CROSSENTROPY,
    RF_LOSS_MEAN_SQUARED_ERROR,
} rf_loss_kind;
typedef enum rf_reduction {
    RF_REDUCTION_AUTO, /**< SUM_OVER_BATCH_SIZE in fit; an error in a custom step, on one replica
                          too: a step that worked there would be wrong on two */
    RF_REDUCTION_NONE,
    RF_REDUCTION_SUM,
    RF_REDUCTION_SUM_OVER_BATCH_SIZE,
} rf_reduction;
typedef struct rf_loss {
    rf_loss_kind kind;
    /** The predictions of a crossentropy are logits; false: probabilities. With false, predictions
     * of a layer whose last operation is neither softmax nor sigmoid are RF_ERROR_INVALID_ARGUMENT
     * when the step is traced, and a warning is logged where the graph does not tell.
     * Crossentropies of one column are refused. */
    bool from_logits;
    rf_reduction reduction;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_loss;
/** Applies a loss in a custom step: per-example losses (NONE) or a scalar (SUM). AUTO and
 * SUM_OVER_BATCH_SIZE are refused: they would divide by the replica's share of the batch; use NONE
 * with rf_compute_average_loss(), or SUM. Labels of the sparse crossentropy may be [n...] or [n...,
 * 1] of any type; targets [n] go with predictions [n, 1]. */
RF_API rf_tensor rf_loss_call(rf_trace *t, const rf_loss *loss, rf_tensor labels,
                              rf_tensor predictions);

typedef struct rf_average_loss_params {
    rf_tensor sample_weight;    /**< per-example weights [n], or as many dimensions as the losses;
                                   zeroed: none */
    uint32_t global_batch_size; /**< fixed divisor; 0: the number of examples of the step being run,
                                   over all replicas */
    uint64_t reserved[4];       /**< zero: room for later fields */
} rf_average_loss_params;
/** Sum of all losses, of any rank, divided by the global batch size: what gradients that are summed
 * over replicas need. */
RF_API rf_tensor rf_compute_average_loss(rf_trace *t, rf_tensor per_example_loss,
                                         const rf_average_loss_params *params);
/** Regularisation loss divided by the number of replicas that have examples in this step. */
RF_API rf_tensor rf_scale_regularization_loss(rf_trace *t, rf_tensor loss);

/* ---- learning-rate schedules ---- */

typedef enum rf_schedule_kind {
    RF_SCHEDULE_CONSTANT,
    RF_SCHEDULE_EXPONENTIAL_DECAY,  /**< initial * rate^(step / decay_steps), floor of the exponent
                                       if staircase */
    RF_SCHEDULE_PIECEWISE_CONSTANT, /**< values[i] while step <= boundaries[i] */
    RF_SCHEDULE_COSINE_DECAY,       /**< from `initial` to alpha * initial in `decay_steps`, after a
                                       linear rise from 0       during `warmup_steps` */
    RF_SCHEDULE_POLYNOMIAL_DECAY, /**< (initial - end) * (1 - step / decay_steps)^power + end; power
                                     0: 1 */
    RF_SCHEDULE_INVERSE_TIME_DECAY, /**< initial / (1 + rate * step / decay_steps), floor of the
                                       quotient if staircase */
} rf_schedule_kind;
typedef struct rf_schedule {
    rf_schedule_kind kind;
    double initial, rate, alpha, end, power;
    uint64_t decay_steps, warmup_steps;
    bool staircase;
    uint32_t num_boundaries; /**< at most 15 */
    uint64_t boundaries[15];
    double values[16];
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_schedule;
/** The rate at a step; a pure function. NaN for a schedule that is wrong, e.g. with a field set
 * that its kind does not use; rf_optimizer_create() refuses such a schedule and says why. */
RF_API double rf_schedule_value(const rf_schedule *schedule, uint64_t step);

/* ---- optimizers ---- */

typedef enum rf_optimizer_kind {
    RF_OPTIMIZER_SGD,
    RF_OPTIMIZER_ADAM,
    RF_OPTIMIZER_ADAMW,
    RF_OPTIMIZER_RMSPROP
} rf_optimizer_kind;
/** Where Adam and AdamW add epsilon: to the root of the second moment with its bias correction, or
 * without. In the first steps the difference is large wherever gradients are near epsilon. */
typedef enum rf_epsilon_form {
    RF_EPSILON_CORRECTED, /**< m' / (sqrt(v') + epsilon), m' and v' corrected: algorithm 1 of Kingma
                             & Ba 2015, PyTorch's form */
    RF_EPSILON_UNCORRECTED, /**< m / (sqrt(v) + epsilon), and the corrections in the rate: "epsilon
                               hat" of the same paper, Keras' and TensorFlow's form */
} rf_epsilon_form;
typedef struct rf_optimizer_params {
    rf_optimizer_kind kind;
    double learning_rate;        /**< 0: 0.01 for SGD, 0.001 for the others */
    const rf_schedule *schedule; /**< instead of learning_rate; copied */
    double momentum;             /**< SGD, RMSprop */
    bool nesterov;
    double beta_1, beta_2;        /**< 0: 0.9 and 0.999 */
    double epsilon;               /**< 0: 1e-7 */
    double rho;                   /**< RMSprop; 0: 0.9 */
    double weight_decay;          /**< decoupled; ADAMW: 0 means 0.004 */
    double clip_value;            /**< limits every gradient element; 0: off */
    double clip_norm;             /**< limits the norm of each variable's gradient; 0: off */
    double global_clip_norm;      /**< limits the norm of all gradients together; 0: off */
    uint32_t accumulation_steps;  /**< update every n-th step with the mean of n gradients; 0: 1 */
    rf_epsilon_form epsilon_form; /**< ADAM, ADAMW */
    uint64_t reserved[8];         /**< zero: room for later fields */
} rf_optimizer_params;
/** Defaults are Keras' (its epsilon of 1e-7, too), but for the place of epsilon in Adam and AdamW,
 * which is PyTorch's unless `epsilon_form` says otherwise. Momentum and RMSprop are in Keras' form.
 * Fields that the kind does not use must be zero, and at most one of the three clips may be set.
 * Clipping sees the reduced (and accumulated) gradient. */
RF_API RF_MUST_USE rf_result rf_optimizer_create(rf_strategy *strategy,
                                                 const rf_optimizer_params *params,
                                                 rf_optimizer **out);
RF_API void rf_optimizer_destroy(rf_optimizer **optimizer);
/** In a step: differentiates `loss` with respect to the variables, sums gradients over replicas,
 * clips, updates. At most one call per step and optimizer. A loss that none of them influences is
 * RF_ERROR_NO_GRADIENT. */
RF_API rf_result rf_optimizer_minimize(rf_trace *t, rf_optimizer *optimizer, rf_tensor loss,
                                       rf_variable_list variables);
/** The same with gradients computed by the caller (one per variable, this replica's contribution).
 */
RF_API rf_result rf_optimizer_apply_gradients(rf_trace *t, rf_optimizer *optimizer,
                                              const rf_tensor *gradients,
                                              rf_variable_list variables);
RF_API double rf_optimizer_learning_rate(const rf_optimizer *optimizer);
/** Takes effect at the next step; replaces a schedule. */
RF_API RF_MUST_USE rf_result rf_optimizer_set_learning_rate(rf_optimizer *optimizer, double rate);
/** Number of updates made. */
RF_API uint64_t rf_optimizer_iterations(const rf_optimizer *optimizer);

/* ---- metrics ---- */

typedef enum rf_metric_kind {
    RF_METRIC_MEAN,
    RF_METRIC_SUM,
    RF_METRIC_SPARSE_CATEGORICAL_ACCURACY,
    RF_METRIC_CATEGORICAL_ACCURACY,
} rf_metric_kind;
/** Accumulates on the devices; reading sums over replicas. */
RF_API RF_MUST_USE rf_result rf_metric_create(rf_strategy *strategy, rf_metric_kind kind,
                                              const char *name, rf_metric **out);
RF_API void rf_metric_destroy(rf_metric **metric);
/** In a step. Accuracies: labels and predictions (logits or probabilities) of at least two classes.
 * MEAN and SUM: `predictions` is the value, `labels` the invalid tensor. `sample_weight`: zeroed
 * for none. */
RF_API rf_result rf_metric_update(rf_trace *t, rf_metric *metric, rf_tensor labels,
                                  rf_tensor predictions, rf_tensor sample_weight);
/** Over all replicas; 0 when nothing was accumulated. Collective: see
 * rf_strategy_create_multi_worker(). */
RF_API RF_MUST_USE rf_result rf_metric_result(rf_metric *metric, double *out);
/** Over this worker's replicas alone: for progress lines, which the clock decides to draw.
 * Blocking, not collective. */
RF_API RF_MUST_USE rf_result rf_metric_local_result(rf_metric *metric, double *out);
RF_API RF_MUST_USE rf_result rf_metric_reset(rf_metric *metric);
RF_API const char *rf_metric_name(const rf_metric *metric);

/* ---- fit ---- */

typedef struct rf_compile_params {
    rf_optimizer *optimizer; /**< borrowed; must live as long as the model */
    rf_loss loss;
    const rf_metric_kind *metrics;
    uint32_t num_metrics;
    uint32_t steps_per_execution; /**< on_batch_begin and on_batch_end are called once for n
                                     batches; 0: 1 */
    uint64_t reserved[8];         /**< zero: room for later fields */
} rf_compile_params;
/** Prepares fit and evaluate; may be called again. `metrics` are accuracies, each at most once. */
RF_API RF_MUST_USE rf_result rf_model_compile(rf_model *model, const rf_compile_params *params);

#define RF_MAX_LOGS 16
/** Values at a callback, under the names that CSV logs, event files (after "epoch_" and "batch_"),
 * plots and histories have for them: "loss", "accuracy" (of whichever kind; of a model compiled
 * with both, "sparse_categorical_accuracy" and "categorical_accuracy"), with validation "val_loss",
 * "val_accuracy", and "learning_rate". After a batch: "loss" and metrics of the epoch so far;
 * reading them waits for the devices, so they are read only when some callback has on_batch_end. */
typedef struct rf_logs {
    uint32_t count;
    const char *name[RF_MAX_LOGS];
    double value[RF_MAX_LOGS];
} rf_logs;
/** Value of a name; false when absent. */
RF_API bool rf_logs_get(const rf_logs *logs, const char *name, double *value);

/** State that callbacks may look at and change. In a job of several workers every worker calls its
 * own callbacks; values are the same everywhere. */
typedef struct rf_fit_state {
    rf_model *model;
    rf_optimizer *optimizer;
    uint32_t epoch, num_epochs; /**< epoch counts from 0 */
    uint64_t batch;             /**< within the epoch, from 0; the latest one */
    int64_t batches_per_epoch;  /**< -1 while unknown */
    uint32_t batch_examples; /**< examples of the batch (or batches, steps_per_execution) that just
                                ended */
    double seconds;          /**< since the epoch began */
    uint32_t rank; /**< of this worker; 0: the chief, who should do what is done once for the job */
    bool stop_training; /**< set (on any worker) to end after the current epoch's end callbacks */
    uint64_t epoch_examples; /**< that the epoch trained on so far, on all workers */
    double train_seconds;    /**< at the epoch's end: what these took, without validation */
} rf_fit_state;
/** Any entry may be NULL. An error returned stops fit, which returns it; a positive code, RF_END
 * too, is RF_ERROR_INVALID_ARGUMENT (`stop_training` is how training ends early). `logs` is NULL in
 * begin calls. */
typedef struct rf_callback_fns {
    rf_result (*on_train_begin)(void *user, rf_fit_state *state);
    rf_result (*on_train_end)(void *user, rf_fit_state *state, const rf_logs *logs);
    rf_result (*on_epoch_begin)(void *user, rf_fit_state *state);
    rf_result (*on_epoch_end)(void *user, rf_fit_state *state, const rf_logs *logs);
    rf_result (*on_batch_begin)(void *user, rf_fit_state *state);
    rf_result (*on_batch_end)(void *user, rf_fit_state *state, const rf_logs *logs);
    void (*destroy)(void *user); /**< by rf_callback_destroy() */
    uint64_t reserved[8];        /**< zero: room for later fields */
} rf_callback_fns;
/** Owns `user` from here on, when it succeeds. */
RF_API RF_MUST_USE rf_result rf_callback_create(const rf_callback_fns *fns, void *user,
                                                rf_callback **out);
/** Rate for the epoch that begins, given the current one. */
typedef double (*rf_epoch_rate_fn)(void *user, uint32_t epoch, double rate);
RF_API RF_MUST_USE rf_result rf_callback_learning_rate_scheduler(rf_epoch_rate_fn fn, void *user,
                                                                 rf_callback **out);
typedef struct rf_early_stopping_params {
    const char *monitor; /**< NULL: "val_loss" */
    double min_delta;
    uint32_t patience;
    bool maximize;
    bool restore_best_weights;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_early_stopping_params;
/** Stops when the value has not improved by more than min_delta for `patience` epochs (0 and 1: the
 * first such epoch). With restore_best_weights the weights of the best epoch are put back when
 * training ends. A monitored value that is not in the logs is an error. */
RF_API RF_MUST_USE rf_result rf_callback_early_stopping(const rf_early_stopping_params *params,
                                                        rf_callback **out);
/** One line per epoch, below a header that is written when fit begins. A file that is there is
 * written anew; with `append`, and when fit goes on from a backup, its lines stay, less those of
 * epochs that are trained once more: what was written after the backup was made, or where fit
 * begins at an initial_epoch the lines from that epoch on of the last run in the file. A line that
 * was cut goes, too. In a job of several workers the chief alone writes.
 * rf_model_fit() fails with RF_ERROR_INVALID_ARGUMENT before it trains when the file has other
 * columns, or when a training in another process is writing it; the message names that process. */
RF_API RF_MUST_USE rf_result rf_callback_csv_log(const char *path, bool append, rf_callback **out);
/** `examples_per_second`: of the epoch that has ended, over all workers, without its validation. */
typedef void (*rf_rate_fn)(void *user, const rf_fit_state *state, double examples_per_second);
/** Calls `fn` at the end of each epoch; unlike on_batch_end it makes nobody wait for the devices in
 * between. */
RF_API RF_MUST_USE rf_result rf_callback_rate(rf_rate_fn fn, void *user, rf_callback **out);
typedef struct rf_tensorboard_params {
    const char *directory;   /**< NULL: "logs" */
    uint32_t histogram_freq; /**< histograms of the weights every n epochs; 0: none */
    uint32_t update_freq;    /**< 0: values per epoch. n: also those after every n-th on_batch_end;
                                looking at them makes the    host wait for the devices, so go with
                                rf_compile_params::steps_per_execution */
    bool no_graph;           /**< leave out the graph of the training step */
    uint64_t reserved[4];    /**< zero: room for later fields */
} rf_tensorboard_params;
/** Writes event files (events.h) to directory/train and directory/validation, under Keras' tags:
 * "epoch_loss", "epoch_accuracy", "epoch_learning_rate", "batch_loss", ... "<variable>/histogram".
 * Opened when fit begins. In a job of several workers the chief alone writes. */
RF_API RF_MUST_USE rf_result rf_callback_tensorboard(const rf_tensorboard_params *params,
                                                     rf_callback **out);
RF_API void rf_callback_destroy(rf_callback **callback);

/** Values per epoch, as Keras' History. */
typedef struct rf_history {
    uint32_t num_epochs;
    rf_logs *epochs; /**< names are owned by the model */
} rf_history;
RF_API void rf_history_free(rf_history *history);

typedef struct rf_fit_params {
    const rf_dataset *data;            /**< batched; elements (input, label[, sample weight]) */
    const rf_dataset *validation_data; /**< NULL: none */
    uint32_t epochs;                   /**< 0: 1 */
    uint32_t initial_epoch;
    uint64_t steps_per_epoch; /**< 0: the whole dataset. Else epochs follow each other through the
                                 dataset, which begins again where it ends */
    rf_callback *const *callbacks; /**< borrowed */
    uint32_t num_callbacks;
    rf_distribute_policy
        distribute; /**< what each worker of a job reads, see rf_strategy_distribute_dataset();
                         `validation_data` is never distributed by file */
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_fit_params;
/** Trains. The loss is the mean over the global batch (with regularisation); sample weights scale
 * losses, not metrics. When a stop is agreed (rf_strategy_request_stop()) training ends after that
 * batch: the epoch's end is left out, on_train_end is called, and the result is RF_OK. A loss that
 * is infinite or NaN, "val_loss" too, is RF_ERROR_NOT_FINITE. It is
 * noticed after a batch if a callback has on_batch_end, else at the end of the epoch. Collective; a
 * callback that fails on one worker ends the job on all. @param history may be NULL;
 * rf_history_free() it, also after a failure: it then holds the epochs before. */
RF_API RF_MUST_USE rf_result rf_model_fit(rf_model *model, const rf_fit_params *params,
                                          rf_history *history);
/** Loss and metrics over a dataset. Blocking. @return RF_ERROR_NOT_FINITE, with `out` filled in,
 * when the loss is infinite or NaN. */
RF_API RF_MUST_USE rf_result rf_model_evaluate(rf_model *model, const rf_dataset *data,
                                               rf_logs *out);
/** Predictions for all elements of a batched dataset (component 0), joined. `out->data`:
 * rf_array_free(). */
RF_API RF_MUST_USE rf_result rf_model_predict(rf_model *model, const rf_dataset *data,
                                              rf_array *out);

#ifdef __cplusplus
}
#endif
#endif
