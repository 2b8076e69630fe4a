/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Training: models of the layers in layers.h, losses, optimizers, learning-rate schedules, fit /
 * evaluate / predict, with the metrics of metrics.h. Names and defaults follow Keras.
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
#include <ringfire/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Layers or a function, and the variables that they use. */
typedef struct rf_model rf_model;
/** Updates variables from gradients. Owns its state (moments, step). */
typedef struct rf_optimizer rf_optimizer;
/** Functions that rf_model_fit() calls as training proceeds. */
typedef struct rf_callback rf_callback;

/* ---- models ---- */

/**
 * Whether a model is called for training, which is where dropout acts and batch normalization uses
 * the statistics of the batch.
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
RF_API uint64_t rf_model_count_params(const rf_model *model);
/**
 * Table of layers, output shapes and parameter counts, as text.
 * @param[out] text owned by the caller, who frees it with rf_string_free().
 */
RF_API RF_MUST_USE rf_result rf_model_summary(const rf_model *model, char **text);
/** Frees a string that the library allocated. NULL does nothing. Thread-safe. */
RF_API void rf_string_free(char *text);
/**
 * Sum of the regularisation penalties of the model's layers: a scalar, the constant 0 when there
 * are none.
 */
RF_API rf_tensor rf_model_regularization_loss(rf_trace *t, rf_model *model);

/* ---- losses ---- */

/** What a loss computes; see the function of the same name in ops.h. */
typedef enum rf_loss_kind {
    RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
    RF_LOSS_CATEGORICAL_CROSSENTROPY,
    RF_LOSS_MEAN_SQUARED_ERROR,
    RF_LOSS_BINARY_CROSSENTROPY,
    RF_LOSS_MEAN_ABSOLUTE_ERROR,
    RF_LOSS_HUBER,
    RF_LOSS_KL_DIVERGENCE,
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
     * graph does not show it. Crossentropies of classes with one column are refused.
     */
    bool from_logits;
    rf_reduction reduction;
    /**
     * CATEGORICAL and BINARY_CROSSENTROPY, in [0, 1): what of the labels is spread evenly over the
     * classes, y (1 - s) + s / c; c is 2 for the binary one.
     */
    float label_smoothing;
    float delta;          /**< HUBER; 0: 1 */
    uint64_t reserved[3]; /**< zero: room for later fields */
} rf_loss;
/**
 * Applies a loss in a custom step: losses per example (NONE) or a scalar (SUM).
 * AUTO and SUM_OVER_BATCH_SIZE are refused, because they would divide by the replica's share of the
 * batch; use NONE with rf_compute_average_loss(), or SUM.
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
 * The mean of losses by their weights, such as a mask that leaves out padding: the sum of loss *
 * weight, divided by the sum of the weights over all replicas, in the shape of the losses. Uneven
 * masks on the replicas therefore change nothing; where all weights are 0 the loss is 0. Its
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

/* ---- learning-rate schedules ---- */

/** How the learning rate depends on the step, after the warm-up. */
typedef enum rf_schedule_kind {
    RF_SCHEDULE_CONSTANT, /**< initial */
    /** initial * rate^(step / decay_steps); with `staircase` the exponent is rounded down. */
    RF_SCHEDULE_EXPONENTIAL_DECAY,
    RF_SCHEDULE_PIECEWISE_CONSTANT, /**< values[i] while step <= boundaries[i] */
    /**
     * initial * ((1 - alpha) * (1 + cos(pi * p)) / 2 + alpha), p = min(step / decay_steps, 1),
     * where steps count from the end of the warm-up.
     */
    RF_SCHEDULE_COSINE_DECAY,
    /** (initial - end) * (1 - p)^power + end, p = min(step / decay_steps, 1); power 0: 1 */
    RF_SCHEDULE_POLYNOMIAL_DECAY,
    /** initial / (1 + rate * step / decay_steps); with `staircase` the quotient is rounded down. */
    RF_SCHEDULE_INVERSE_TIME_DECAY,
    /** initial * min(step^(-1/2), step * warmup_steps^(-3/2)); Vaswani et al. 2017 */
    RF_SCHEDULE_INVERSE_SQRT,
    /**
     * Cosine decay over decay_steps, again and again: each period is t_mul times as long as the one
     * before, and begins m_mul times as high; Loshchilov & Hutter 2017.
     */
    RF_SCHEDULE_COSINE_RESTARTS,
} rf_schedule_kind;
/** A learning rate as a function of the step. Fields that the kind does not use must be zero. */
typedef struct rf_schedule {
    rf_schedule_kind kind;
    double initial, rate, alpha, end, power;
    uint64_t decay_steps;
    /**
     * During so many steps the rate rises from 0, in a straight line, to `initial` (values[0] of a
     * piecewise constant; INVERSE_SQRT rises to its own peak and needs at least one). All kinds but
     * COSINE_DECAY then continue with their value at `step`, as BERT's warm-up does.
     */
    uint64_t warmup_steps;
    bool staircase;
    uint32_t num_boundaries; /**< at most 15 */
    uint64_t boundaries[15];
    double values[16];
    double t_mul;         /**< COSINE_RESTARTS, at least 1; 0: 2 */
    double m_mul;         /**< COSINE_RESTARTS; 0: 1 */
    uint64_t reserved[6]; /**< zero: room for later fields */
} rf_schedule;
/**
 * The learning rate at a step. A pure function. Thread-safe.
 * NaN for an invalid schedule, e.g. with a field set that its kind does not use;
 * rf_optimizer_create() refuses such a schedule and gives the reason.
 */
RF_API double rf_schedule_value(const rf_schedule *schedule, uint64_t step);

/* ---- optimizers ---- */

/** The update rule of an optimizer. */
typedef enum rf_optimizer_kind {
    RF_OPTIMIZER_SGD,
    RF_OPTIMIZER_ADAM,
    RF_OPTIMIZER_ADAMW,
    RF_OPTIMIZER_RMSPROP,
    RF_OPTIMIZER_ADAGRAD, /**< Duchi, Hazan & Singer 2011 */
    RF_OPTIMIZER_NADAM,   /**< Dozat 2016: Adam with Nesterov's momentum */
    RF_OPTIMIZER_LION, /**< Chen et al. 2023: steps of one size, by the sign of a moving average */
    /**
     * You et al. 2020, for large batches: Adam's step of each variable, times the ratio of the
     * variable's norm to that of the step. Norms are taken in the middle of an update, which the
     * host waits for.
     */
    RF_OPTIMIZER_LAMB,
    RF_OPTIMIZER_CUSTOM, /**< what rf_optimizer_params::custom describes */
} rf_optimizer_kind;
/**
 * Where Adam and AdamW add epsilon: to the root of the second moment with its bias correction, or
 * without it.
 * In the first steps the difference is large wherever gradients are near epsilon.
 */
typedef enum rf_epsilon_form {
    /**
     * m / (sqrt(v) + epsilon), with the corrections in the rate: "epsilon hat" of the same paper,
     * the form of Keras and TensorFlow.
     */
    RF_EPSILON_CORRECTED,
    RF_EPSILON_UNCORRECTED,
} rf_epsilon_form;
/** Variables that an optimizer treats in a way of their own. */
typedef struct rf_parameter_group {
    /**
     * Which ones: patterns of variables' names, separated by commas, in which * stands for any text
     * and ? for one character, e.g. "*bias,*gamma". A variable belongs to the first group that
     * names it, and to none where no group does.
     */
    const char *names;
    double rate_factor;   /**< multiplies the learning rate; 0: 1 */
    bool no_weight_decay; /**< leaves out weight_decay */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_parameter_group;
/** The largest number of slots of a ::rf_custom_optimizer. */
#define RF_MAX_CUSTOM_SLOTS 7
/** The largest number of hyper-parameters of a ::rf_custom_optimizer. */
#define RF_MAX_HYPERPARAMETERS 16
/** A number that a custom optimizer keeps for each weight from step to step. */
typedef struct rf_optimizer_slot {
    const char *name;     /**< in checkpoints: "optimizer/NAME/..." */
    float initial;        /**< what it begins as */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_optimizer_slot;
/** A number of a custom optimizer that is the same for all weights. */
typedef struct rf_hyperparameter {
    const char *name;
    double value;         /**< until rf_optimizer_set_hyperparameter() gives it another */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_hyperparameter;
/** What a custom update is computed from. Tensors are f32: [n] (n is any number) or scalars. */
typedef struct rf_update_inputs {
    rf_tensor weight;        /**< [n]; weight_decay, times the rate, has been taken off */
    rf_tensor gradient;      /**< [n]: of the whole batch, mean of accumulated ones, clipped */
    const rf_tensor *slots;  /**< [n] each, in the order of rf_custom_optimizer::slots */
    rf_tensor learning_rate; /**< a scalar: schedule and rate_factor of the group included */
    rf_tensor step;          /**< a scalar: number of the update, from 1 */
    const rf_tensor *hyperparameters; /**< scalars, in the order of the optimizer */
} rf_update_inputs;
/**
 * The update of a custom optimizer, traced once by rf_optimizer_create(): sets `*weight` and
 * slots[i] to what they become. It follows the rules of a step (::rf_step_fn), but reads nothing
 * except its inputs and rf_constant(), and every operation is element-wise: arithmetic, functions
 * such as rf_sqrt(), rf_compare(), rf_where(), rf_clip(), rf_cast(). A slot that it does not set
 * stays as it is.
 */
typedef rf_result (*rf_update_fn)(rf_trace *t, const rf_update_inputs *in, rf_tensor *weight,
                                  rf_tensor *slots, void *user);
/**
 * Called before each update, and for each parameter group, by the thread that runs the step:
 * changes the hyper-parameters of this update alone, e.g. turns a beta into its bias correction, in
 * double. Every worker of a job must give the same numbers.
 */
typedef void (*rf_hyperparameters_fn)(uint64_t step, double learning_rate, double *hyperparameters,
                                      void *user);
/** An optimizer of the caller. Copied, with all names. */
typedef struct rf_custom_optimizer {
    /** Checkpoints of one name are not restored into another. Letters, digits and _. */
    const char *name;
    rf_update_fn update;
    void *user;                     /**< borrowed as long as the optimizer and its functions live */
    const rf_optimizer_slot *slots; /**< NULL: none */
    const rf_hyperparameter *hyperparameters; /**< NULL: none */
    uint32_t num_slots;                       /**< at most ::RF_MAX_CUSTOM_SLOTS */
    uint32_t num_hyperparameters;             /**< at most ::RF_MAX_HYPERPARAMETERS */
    rf_hyperparameters_fn prepare;            /**< NULL: hyper-parameters are used as they are */
    uint64_t reserved[4];                     /**< zero: room for later fields */
} rf_custom_optimizer;
/**
 * Loss scaling, as Keras' LossScaleOptimizer does it: small gradients survive types of 16 bits when
 * the loss is multiplied by a large number before it is differentiated. Gradients are divided by it
 * once they are summed over replicas (and accumulated), before clipping and anything else. Where
 * one of them is then infinite or NaN, on whichever replica, the step leaves weights, slots,
 * averages and the number of updates as they are, and the scale is halved; it is doubled after
 * `growth_steps` updates in a row. With powers of two, results have the bits that they have
 * without, as long as no number on the way leaves the range of its type. Not with
 * ::RF_COMPRESSION_TOP_K, which keeps gradients of one step for later ones.
 */
typedef struct rf_loss_scale_params {
    double initial;        /**< 0: 32768; from 2^-100 to 2^100, where the scale stays, too */
    uint32_t growth_steps; /**< 0: 2000; at most 2^24 */
    bool fixed;            /**< the scale stays the initial one; growth_steps must be 0 */
    uint64_t reserved[4];  /**< zero: room for later fields */
} rf_loss_scale_params;
/** What has become of a loss scale. */
typedef struct rf_loss_scale {
    double scale;
    uint64_t skipped_steps; /**< since the optimizer was created */
    uint32_t finite_steps;  /**< in a row, since the scale changed or a step was skipped */
    uint64_t reserved[4];   /**< zero */
} rf_loss_scale;
/**
 * An optimizer before it is created.
 * Defaults are those of Keras (including its epsilon of 1e-7), except for the place of epsilon in
 * Adam and AdamW, which is PyTorch's unless `epsilon_form` selects Keras'. All others have Keras'
 * form: Nadam is PyTorch's with a momentum decay of 1, and Adagrad adds epsilon below the root.
 * LAMB's weight_decay is part of the step whose norm is taken, as in the paper; Keras takes it off
 * the weight before.
 * Fields that the kind does not use must be zero, and at most one of the three clips may be set.
 * Clipping sees the reduced (and accumulated) gradient.
 */
typedef struct rf_optimizer_params {
    rf_optimizer_kind kind;
    double learning_rate;        /**< 0: 0.01 for SGD, 0.001 for the others */
    const rf_schedule *schedule; /**< instead of learning_rate; copied */
    double momentum;             /**< SGD, RMSprop */
    bool nesterov;
    double beta_1, beta_2;        /**< Adam's relatives; 0: 0.9 and 0.999, LION 0.9 and 0.99 */
    double epsilon;               /**< 0: 1e-7 */
    double rho;                   /**< RMSprop; 0: 0.9 */
    double weight_decay;          /**< decoupled; ADAMW: 0 means 0.004 */
    double clip_value;            /**< limits every gradient element; 0: off */
    double clip_norm;             /**< limits the norm of each variable's gradient; 0: off */
    double global_clip_norm;      /**< limits the norm of all gradients together; 0: off */
    uint32_t accumulation_steps;  /**< update every n-th step with the mean of n gradients; 0: 1 */
    rf_epsilon_form epsilon_form; /**< ADAM, ADAMW */
    /**
     * At most 64, copied. A step fails whose variables, and those of the optimizer's steps before,
     * leave a group empty. Not for parameter servers, which know no names.
     */
    const rf_parameter_group *groups;
    uint32_t num_groups;
    double initial_accumulator_value; /**< ADAGRAD: of the sum of squares; 0: 0.1 */
    /** CUSTOM: the update. Not for files of models and parameter servers, which hold no code. */
    const rf_custom_optimizer *custom;
    /**
     * Keeps an average of each variable: ema_momentum times the average, the rest of the new
     * weight, after each update. The first update sets it to the weight. Slots "average" of
     * checkpoints. See rf_optimizer_swap_averages(). Not for parameter servers.
     */
    bool use_ema;
    uint32_t ema_overwrite_frequency; /**< weights become averages every n-th update; 0: never */
    double ema_momentum;              /**< 0: 0.99 */
    const rf_loss_scale_params *loss_scale; /**< NULL: losses are not scaled; copied */
    uint64_t reserved[1];                   /**< zero: room for later fields */
} rf_optimizer_params;
/** Creates an optimizer. `params` may be NULL: SGD with its defaults. */
RF_API RF_MUST_USE rf_result rf_optimizer_create(rf_strategy *strategy,
                                                 const rf_optimizer_params *params,
                                                 rf_optimizer **out);
/**
 * Releases an optimizer. A function that has traced it keeps its state alive, as do a model that
 * was compiled with it and a checkpoint that it was added to. All of these fail from then on where
 * they need it, and say so.
 */
RF_API void rf_optimizer_destroy(rf_optimizer **optimizer);
/**
 * In a step: differentiates `loss` with respect to the variables, sums gradients over replicas,
 * clips, and updates. At most one call per step and optimizer.
 * @return RF_ERROR_NO_GRADIENT when no variable influences the loss; RF_ERROR_INVALID_ARGUMENT when
 *   `loss` is not an f32 scalar, or a variable is not trainable or is listed twice.
 */
RF_API rf_result rf_optimizer_minimize(rf_trace *t, rf_optimizer *optimizer, rf_tensor loss,
                                       rf_variable_list variables);
/**
 * Like rf_optimizer_minimize(), with gradients that the caller computes: one for each variable, of
 * its shape.
 *
 * A gradient of rf_gradients() is this replica's contribution. It is summed over replicas (and over
 * accumulation_steps, to a mean) before anything that is not linear in it: what the step computes
 * from gradients, such as clipping by their norm, taking their sign or adding weight decay, sees
 * the gradients of the whole batch, as in an optimizer of one replica. Besides gradients it may use
 * variables and constants. Multiples and sums of gradients are summed as they are, and so is what
 * the caller computes from examples by other means.
 *
 * With several replicas or accumulation_steps a step fails:
 * ::RF_ERROR_UNSUPPORTED where such a computation also uses examples, or what is computed from
 * them (weight the loss instead), or the size of the batch; ::RF_ERROR_INVALID_ARGUMENT where it
 * uses the gradient of a variable that is not in the list, or two different multiples of one.
 * With parameter servers it is ::RF_ERROR_UNSUPPORTED always: no worker has the sum.
 *
 * rf_variable_read_gradient() gives what was applied. What the step itself reports of gradients, a
 * norm say, is still that of one replica, and of the scaled loss where the optimizer scales it.
 */
RF_API rf_result rf_optimizer_apply_gradients(rf_trace *t, rf_optimizer *optimizer,
                                              const rf_tensor *gradients,
                                              rf_variable_list variables);
/**
 * Muon (Jordan et al. 2024), in Keras' form with Nesterov's momentum. The gradient of each matrix
 * is added to `momentum` times its m, which gives the new m; then rate * rf_orthogonalize(gradient
 * + momentum * m) * sqrt(max(1, rows / columns)) is taken off the variable. Rate, schedule, groups,
 * decoupled weight decay and averages are those of the optimizer, which must be RF_OPTIMIZER_SGD
 * without momentum, clipping and accumulation_steps. Vectors, embeddings and the head are usually
 * left to an AdamW of their own, which the same step can apply.
 *
 * Otherwise as rf_optimizer_apply_gradients(), which it calls: once per step and optimizer.
 * Orthogonal matrices are computed from the gradients of the whole batch, and momentums are the
 * same on all replicas.
 * @param variables matrices [rows, columns]
 * @param momentums one for each variable, of its shape, created with not_trainable and
 * RF_INIT_ZEROS. They are updated with each step. Add them to checkpoints as variables.
 * @param momentum in [0, 1); 0: 0.95
 * @param steps of the iteration; 0: 5
 * @return RF_ERROR_INVALID_ARGUMENT for other optimizers and shapes, RF_ERROR_UNSUPPORTED with
 *   accumulation_steps, with loss_scale and with parameter servers.
 */
RF_API rf_result rf_optimizer_apply_muon(rf_trace *t, rf_optimizer *optimizer,
                                         const rf_tensor *gradients, rf_variable_list variables,
                                         rf_variable *const *momentums, double momentum,
                                         uint32_t steps);
/** Learning rate of the next step. With loss_scale, waits for the devices. */
RF_API double rf_optimizer_learning_rate(const rf_optimizer *optimizer);
/**
 * Replaces learning rate or schedule from the next step on.
 * @return RF_ERROR_INVALID_ARGUMENT for a rate that is negative, infinite or NaN.
 */
RF_API RF_MUST_USE rf_result rf_optimizer_set_learning_rate(rf_optimizer *optimizer, double rate);
/**
 * In a step of rf_gradients(): the loss times the optimizer's scale, of which gradients are to be
 * taken for rf_optimizer_apply_gradients(), which divides them by it. A step that applies others
 * fails. The loss itself where the optimizer does not scale losses. rf_optimizer_minimize() does
 * this by itself.
 * @param loss f32 of any shape
 */
RF_API rf_tensor rf_optimizer_scale_loss(rf_trace *t, rf_optimizer *optimizer, rf_tensor loss);
/**
 * The scale after all steps so far, for which it waits.
 * @return RF_ERROR_INVALID_ARGUMENT for an optimizer that does not scale losses.
 */
RF_API RF_MUST_USE rf_result rf_optimizer_loss_scale(const rf_optimizer *optimizer,
                                                     rf_loss_scale *out);
/** Number of updates made. With loss_scale, waits for the devices: steps may have been skipped. */
RF_API uint64_t rf_optimizer_iterations(const rf_optimizer *optimizer);
/**
 * Replaces a hyper-parameter of a custom optimizer from the next step on, on every worker alike. It
 * is a setting of the program: checkpoints compare it, but do not restore it.
 * @return RF_ERROR_NOT_FOUND when the optimizer has none of this name.
 */
RF_API RF_MUST_USE rf_result rf_optimizer_set_hyperparameter(rf_optimizer *optimizer,
                                                             const char *name, double value);
/** The value of a hyper-parameter. @return as above. */
RF_API RF_MUST_USE rf_result rf_optimizer_hyperparameter(const rf_optimizer *optimizer,
                                                         const char *name, double *value);
/**
 * Exchanges the weights that the optimizer has updated with their averages (`use_ema`), to evaluate
 * or save the averaged model; a second call exchanges them back. Steps of the optimizer fail in
 * between, and a checkpoint that is saved in between holds them exchanged. Collective. Waits for
 * the devices.
 * @return RF_ERROR_INVALID_ARGUMENT for an optimizer without averages.
 */
RF_API RF_MUST_USE rf_result rf_optimizer_swap_averages(rf_optimizer *optimizer);
/**
 * Overwrites the weights with their averages, which stay: what rf_model_fit() does at the end of
 * training, as Keras does, before on_train_end. Does nothing for an optimizer without averages.
 * Collective. Waits for the devices.
 */
RF_API RF_MUST_USE rf_result rf_optimizer_finalize_variables(rf_optimizer *optimizer);

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
/** What rf_model_fit() and rf_model_evaluate() use. `optimizer` and `loss` are required. */
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
 * Prepares fit and evaluate. It may be called again. `metrics` have their default settings: of
 * logits, thresholds of 0.5 make no sense.
 * Of a model with several outputs, logs have "loss", "NAME_loss" of each output before its weight,
 * and "NAME_METRIC"; all of them at most 7.
 */
RF_API RF_MUST_USE rf_result rf_model_compile(rf_model *model, const rf_compile_params *params);

/** The largest number of values in ::rf_logs. */
#define RF_MAX_LOGS 16
/**
 * Values at a callback, under the names that they have in CSV logs, event files (after "epoch_" and
 * "batch_"), plots and histories: "loss", "accuracy" (of the classes or binary; in a model compiled
 * with several of these, "sparse_categorical_accuracy", "categorical_accuracy" and
 * "binary_accuracy"), further metrics, such as "precision", with validation "val_loss" and
 * "val_accuracy", and "learning_rate".
 * After a batch: "loss" and metrics of the epoch so far. Reading them waits for the devices, so
 * they are read only when some callback has on_batch_end.
 * Names are borrowed from the model.
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
typedef double (*rf_epoch_rate_fn)(void *user, uint32_t epoch, double rate);
/**
 * Creates a callback that sets the learning rate at the beginning of each epoch. `user` is
 * borrowed.
 */
RF_API RF_MUST_USE rf_result rf_callback_learning_rate_scheduler(rf_epoch_rate_fn fn, void *user,
                                                                 rf_callback **out);
/** When rf_callback_early_stopping() ends training. */
typedef struct rf_early_stopping_params {
    const char *monitor; /**< NULL: "val_loss" */
    double min_delta;
    uint32_t patience;
    bool maximize;
    bool restore_best_weights;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_early_stopping_params;
/**
 * Creates a callback that stops when the value has not improved by more than min_delta for
 * `patience` epochs (0 and 1: at the first such epoch).
 * With restore_best_weights the weights of the best epoch are put back when training ends. A
 * monitored value that is not in the logs is RF_ERROR_INVALID_ARGUMENT of rf_model_fit().
 */
RF_API RF_MUST_USE rf_result rf_callback_early_stopping(const rf_early_stopping_params *params,
                                                        rf_callback **out);
/**
 * Creates a callback that writes one line per epoch, below a header that is written when fit
 * begins.
 * An existing file is replaced. With `append`, and when fit continues from a backup, its lines are
 * kept, except those of epochs that are trained once more: the lines written after the backup was
 * made, or, where fit begins at an initial_epoch, the lines from that epoch on of the last run in
 * the file. An incomplete line is removed, too.
 * In a job of several workers only the chief writes.
 * rf_model_fit() fails with RF_ERROR_INVALID_ARGUMENT before it trains when the file has other
 * columns, or when another process is writing it; the message names that process.
 */
RF_API RF_MUST_USE rf_result rf_callback_csv_log(const char *path, bool append, rf_callback **out);
/** Receives the speed of the epoch that has ended, over all workers, without validation. */
typedef void (*rf_rate_fn)(void *user, const rf_fit_state *state, double examples_per_second);
/**
 * Creates a callback that calls `fn` at the end of each epoch. Unlike on_batch_end it does not make
 * the host wait for the devices in between. `user` is borrowed.
 */
RF_API RF_MUST_USE rf_result rf_callback_rate(rf_rate_fn fn, void *user, rf_callback **out);
/** What rf_callback_tensorboard() writes. */
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
 * "batch_loss", ... "<variable>/histogram".
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

/** What rf_model_fit() trains on. `data` is required. */
typedef struct rf_fit_params {
    /** batched; elements (inputs ..., label of each output ...[, sample weight]) */
    const rf_dataset *data;
    const rf_dataset *validation_data; /**< NULL: none */
    uint32_t epochs;                   /**< 0: 1 */
    uint32_t initial_epoch;
    /**
     * 0: the whole dataset. Otherwise epochs follow each other through the dataset, which begins
     * again when it ends.
     */
    uint64_t steps_per_epoch;
    rf_callback *const *callbacks; /**< borrowed */
    uint32_t num_callbacks;
    /**
     * What each worker of a job reads; see rf_strategy_distribute_dataset(). `validation_data` is
     * never distributed by file.
     */
    rf_distribute_policy distribute;
    /**
     * Whether `data` is kept in the memory of the devices while fit runs (rf_device_data_create());
     * losses, weights and backups are those of batches from the host. The train step is traced anew
     * by each such fit.
     */
    rf_device_cache device_cache;
    uint64_t reserved[7]; /**< zero: room for later fields */
} rf_fit_params;
/**
 * Trains a compiled model. Collective; blocking until training ends.
 * The loss is the mean over the global batch, plus regularisation. The sample weight, a last
 * component [n] or as the losses, multiplies losses; they are divided by the number of examples
 * (Keras' sum_over_batch_size) or, with ::RF_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT, by the sum of the
 * weights, in each step over all replicas. "loss" of an epoch is the mean of that of its batches,
 * each as often as it has examples. Metrics take the weight where rf_output_metric::weighted says
 * so.
 * When a stop is agreed (rf_strategy_request_stop()) training ends after that batch: the end of the
 * epoch is left out, on_train_end is called, and the result is RF_OK.
 * A callback that fails on one worker ends the job on all.
 * @param history may be NULL. The caller frees it with rf_history_free(), also after a failure: it
 *   then holds the epochs before it.
 * @return RF_ERROR_NOT_FINITE when the loss (or "val_loss") is infinite or NaN, which is noticed
 *   after a batch if a callback has on_batch_end, else at the end of the epoch;
 *   RF_ERROR_INVALID_ARGUMENT when the model is not compiled or the data does not match it; errors
 *   of the dataset and the callbacks.
 */
RF_API RF_MUST_USE rf_result rf_model_fit(rf_model *model, const rf_fit_params *params,
                                          rf_history *history);
/**
 * Loss and metrics over a dataset. Collective; blocking.
 * @return RF_ERROR_NOT_FINITE, with `out` filled in, when the loss is infinite or NaN;
 *   RF_ERROR_INVALID_ARGUMENT when the dataset is empty or infinite.
 */
RF_API RF_MUST_USE rf_result rf_model_evaluate(rf_model *model, const rf_dataset *data,
                                               rf_logs *out);
/**
 * Predictions for all elements (component 0) of a batched dataset, joined along dimension 0.
 * Collective; blocking.
 * @param[out] out `data` is owned by the caller, who frees it with rf_array_free().
 * @return RF_ERROR_INVALID_ARGUMENT when the dataset is empty or infinite, or the model has several
 *   outputs (rf_model_predict_many()).
 */
RF_API RF_MUST_USE rf_result rf_model_predict(rf_model *model, const rf_dataset *data,
                                              rf_array *out);

#ifdef __cplusplus
}
#endif
#endif
