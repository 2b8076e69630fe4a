/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Optimizers and learning-rate schedules. The rules of train.h for all of its functions hold here
 * as well.
 */
#ifndef RINGFIRE_OPTIMIZERS_H
#define RINGFIRE_OPTIMIZERS_H

#include <ringfire/common.h>
#include <ringfire/ops.h>
#include <ringfire/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Updates variables from gradients. Owns its state (moments, step). */
typedef struct rf_optimizer rf_optimizer;

/* ---- learning-rate schedules ---- */

/** How the learning rate depends on the step, after the warm-up. */
typedef enum rf_schedule_kind {
    RF_SCHEDULE_CONSTANT, /**< initial */
    /** initial * decay_rate^(step / decay_steps); with `staircase` the exponent is rounded down. */
    RF_SCHEDULE_EXPONENTIAL_DECAY,
    RF_SCHEDULE_PIECEWISE_CONSTANT, /**< values[i] while step <= boundaries[i] */
    /**
     * initial * ((1 - alpha) * (1 + cos(pi * p)) / 2 + alpha), p = min(step / decay_steps, 1),
     * where steps count from the end of the warm-up.
     */
    RF_SCHEDULE_COSINE_DECAY,
    /**
     * (initial - end) * (1 - p)^power + end, p = min(step / decay_steps, 1). With
     * `cycle` the decay is stretched to the next multiple of decay_steps, so that the rate rises
     * again where it came to `end`.
     */
    RF_SCHEDULE_POLYNOMIAL_DECAY,
    /** initial / (1 + decay_rate * step / decay_steps); with `staircase` the quotient is rounded
       down. */
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
    double initial, decay_rate, alpha, end;
    double power; /**< POLYNOMIAL_DECAY; 0: 1 */
    uint64_t decay_steps;
    /**
     * During so many steps the rate goes from `warmup_initial`, in a straight line, to `initial`
     * (values[0] of a piecewise constant; INVERSE_SQRT to its own peak, and needs at least one).
     * All kinds but COSINE_DECAY then continue with their value at `step`, as BERT's warm-up does.
     */
    uint64_t warmup_steps;
    bool staircase;
    uint32_t num_boundaries; /**< at most 15 */
    uint64_t boundaries[15];
    double values[16];
    double t_mul;          /**< COSINE_RESTARTS, at least 1; 0: 2 */
    double m_mul;          /**< COSINE_RESTARTS; 0: 1 */
    double warmup_initial; /**< where a warm-up begins */
    bool cycle;            /**< POLYNOMIAL_DECAY */
    uint64_t reserved[4];  /**< zero: room for later fields */
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
    /**
     * Muon (Jordan et al. 2024), along matrices whose singular values are about 1. The gradient of
     * each weight of two dimensions is added to `momentum` times its m, which gives the new m; then
     * rate * scale * rf_orthogonalize(gradient + momentum * m) is taken off the weight
     * (::rf_muon_params). All others are updated as by RF_OPTIMIZER_ADAMW: biases, gains, kernels
     * of more dimensions, and embeddings, which are told by "embedding" in their names, as in
     * Keras. The last kernel of a classifier is usually left to AdamW as well, by a group that
     * names it. Needs the memory of Adam's m and v, where v of matrices stays 0, and that of one
     * more m. Matrices are made where the new weights are: with several replicas each makes its
     * share.
     */
    RF_OPTIMIZER_MUON,
} rf_optimizer_kind;
/** The factor of a step of Muon, beside the rate. */
typedef enum rf_muon_scale {
    /**
     * rms_rate * sqrt(max(rows, columns)): the weights change as much as AdamW would change them,
     * so that both share a learning rate (Liu et al. 2025). Keras' form.
     */
    RF_MUON_SCALE_RMS,
    RF_MUON_SCALE_SHAPE, /**< sqrt(max(1, rows / columns)): Jordan's form */
} rf_muon_scale;
/** How Muon updates the matrices of a group. Zeroed: as those of no group. */
typedef struct rf_muon_params {
    bool adamw;          /**< by AdamW; nothing else may be set then */
    bool embeddings;     /**< also those that have "embedding" in their names */
    bool plain_momentum; /**< along m, not along gradient + momentum * m: Keras' nesterov=False */
    /**
     * The number of leading dimensions that together are the rows, for weights of more than two:
     * the others the columns, e.g. 1 for the query's kernel of attention, 3 for that of a
     * convolution. 0: such weights are left to AdamW, as in Keras.
     */
    uint32_t row_dimensions;
    rf_muon_scale scale;
    double rms_rate;      /**< RMS; 0: 0.2 */
    uint32_t steps;       /**< of rf_orthogonalize(), at most 100; 0: 5 */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_muon_params;
/**
 * Where Adam and AdamW add epsilon: to the root of the second moment with its bias correction, or
 * without it.
 * In the first steps the difference is large wherever gradients are near epsilon.
 */
typedef enum rf_epsilon_form {
    /** m / (sqrt(v) + epsilon), with m and v corrected: the form of the paper and of PyTorch. */
    RF_EPSILON_CORRECTED,
    /**
     * m / (sqrt(v) + epsilon), with the corrections in the rate: "epsilon hat" of the same paper,
     * the form of Keras and TensorFlow.
     */
    RF_EPSILON_UNCORRECTED,
} rf_epsilon_form;
/**
 * How an optimizer stores the numbers that it keeps for each weight. It computes in f32, and
 * weights stay in f32.
 */
typedef enum rf_optimizer_state_type {
    RF_OPTIMIZER_STATE_F32,  /**< 4 bytes each */
    RF_OPTIMIZER_STATE_BF16, /**< 2 bytes; rounded up or down by chance, so that sums stay right */
    /**
     * 1.016 bytes: a value of the dynamic map, times a scale that 256 neighbours share (Dettmers et
     * al., "8-bit Optimizers via Block-wise Quantization", 2022).
     */
    RF_OPTIMIZER_STATE_8BIT,
} rf_optimizer_state_type;
/** Variables that an optimizer treats in a way of their own. */
typedef struct rf_parameter_group {
    /**
     * Which ones: patterns of variables' names, separated by commas, in which * stands for any text
     * and ? for one character, e.g. "*bias,*gamma". A variable belongs to the first group that
     * names it, and to none where no group does.
     */
    const char *names;
    double rate_factor;         /**< multiplies the learning rate; 0: 1 */
    bool no_weight_decay;       /**< leaves out weight_decay */
    const rf_muon_params *muon; /**< MUON; NULL: zeroed; copied */
    uint64_t reserved[3];       /**< zero: room for later fields */
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
/** The inputs of a custom update. Tensors are f32: [n] (n is any number) or scalars. */
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
 * double. Every worker of a job must give the same numbers: where there are several, they compare
 * them before each step, for which it is called once more.
 */
typedef void (*rf_hyperparameters_fn)(void *user, uint64_t step, double learning_rate,
                                      double *hyperparameters);
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
 * averages and the number of updates as they are, and the scale is halved. It is doubled after
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
/** The state of a loss scale. */
typedef struct rf_loss_scale {
    double scale;
    uint64_t skipped_steps; /**< since the optimizer was created */
    uint32_t finite_steps;  /**< in a row, since the scale changed or a step was skipped */
    uint64_t reserved[4];   /**< zero */
} rf_loss_scale;
/**
 * An optimizer before it is created.
 * Defaults are those of Keras (including its epsilon of 1e-7), except for the place of epsilon in
 * Adam, AdamW and the AdamW in Muon, which is PyTorch's unless `epsilon_form` selects Keras'. All
 * others have Keras' form: Nadam is PyTorch's with a momentum decay of 1, and Adagrad adds epsilon
 * below the root. LAMB's weight_decay is part of the step whose norm is taken, as in the paper;
 * Keras takes it off the weight before. Fields that the kind does not use must be zero, and at most
 * one of the three clips may be set. Clipping sees the reduced (and accumulated) gradient.
 */
typedef struct rf_optimizer_params {
    rf_optimizer_kind kind;
    double learning_rate;        /**< 0: 0.01 for SGD, 0.001 for the others */
    const rf_schedule *schedule; /**< instead of learning_rate; copied */
    double momentum;             /**< SGD, RMSprop; MUON, 0: 0.95 */
    bool nesterov;
    double beta_1, beta_2;   /**< Adam's relatives; 0: 0.9 and 0.999, LION 0.9 and 0.99 */
    double epsilon;          /**< 0: 1e-7 */
    double rho;              /**< RMSprop; 0: 0.9 */
    double weight_decay;     /**< decoupled; ADAMW, MUON: 0 means 0.004 */
    double clip_value;       /**< limits every gradient element; 0: off */
    double clip_norm;        /**< limits the norm of each variable's gradient; 0: off */
    double global_clip_norm; /**< limits the norm of all gradients together; 0: off */
    /**
     * Update every n-th step, with the mean of n gradients; 0: 1. A step counts as much as its loss
     * was divided by: examples (rf_compute_average_loss(), a mean), or weights of tokens
     * (rf_compute_weighted_loss(), RF_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT). So n steps of any sizes
     * give what one step with all of their examples gives. Where parts of a loss differ in that, a
     * step is ::RF_ERROR_UNSUPPORTED; parts without such a divisor count alike in each step.
     */
    uint32_t accumulation_steps;
    rf_epsilon_form epsilon_form; /**< ADAM, ADAMW, MUON */
    /**
     * At most 64, copied. A step fails whose variables, and those of the optimizer's steps before,
     * leave a group empty. With parameter servers the chief finds the names
     * (rf_coordinator_params::optimizer).
     */
    const rf_parameter_group *groups;
    uint32_t num_groups;
    /**
     * ADAM, ADAMW, LION and SGD with a momentum: how slots are stored. Averages (use_ema) stay in
     * f32. Checkpoints hold f32 always: a run goes on with its bits, or with another type.
     */
    rf_optimizer_state_type state_type;
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
/**
 * Creates an optimizer. `params` may be NULL: SGD with its defaults.
 *
 * Workers of one job create the same optimizers, change their settings alike (rate,
 * hyper-parameters, state from checkpoints) and update the same variables. They compare all of it
 * before each step: one that differs fails on all of them with ::RF_ERROR_INVALID_ARGUMENT, which
 * names what differs, and nothing has changed.
 */
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
 * clips, and updates. At most one call per step and optimizer, in a function that was created with
 * rf_function_params::training.
 *
 * As in Keras, variables without influence on the loss are left out: neither momentum nor decay
 * moves them. A warning in the log names them. With rf_optimizer_create_remote() they are
 * ::RF_ERROR_UNSUPPORTED, because servers know no such variables.
 * @return RF_ERROR_NO_GRADIENT when no variable influences the loss; RF_ERROR_INVALID_ARGUMENT when
 *   `loss` is not an f32 scalar, a variable is not trainable or is listed twice, or the function
 *   does not train.
 */
RF_API rf_result rf_optimizer_minimize(rf_trace *t, rf_optimizer *optimizer, rf_tensor loss,
                                       rf_variable_list variables);
/**
 * Like rf_optimizer_minimize(), with gradients that the caller computes: one for each variable, of
 * its shape. Zeros of rf_gradients() for a variable without influence, and multiples of them, leave
 * the variable out.
 *
 * A gradient of rf_gradients() is this replica's contribution. It is summed over replicas (and over
 * accumulation_steps, to a mean) before anything that is not linear in it. Whatever the step
 * computes from gradients, such as clipping by their norm, taking their sign or adding weight
 * decay, sees the gradients of the whole batch, as in an optimizer of one replica. Besides
 * gradients it may use variables and constants. Multiples and sums of gradients are summed as they
 * are, and so is what the caller computes from examples by other means.
 *
 * With several replicas or accumulation_steps a step is ::RF_ERROR_UNSUPPORTED where such a
 * computation also uses examples, numbers computed from them (weight the loss instead), or the size
 * of the batch. It is ::RF_ERROR_INVALID_ARGUMENT where the computation uses the gradient of a
 * variable that is not in the list, or two different multiples of one. With parameter servers it is
 * ::RF_ERROR_UNSUPPORTED always: no worker has the sum.
 *
 * rf_variable_read_gradient() gives what was applied. A value that the step itself reports of
 * gradients, a norm say, is still that of one replica, and of the scaled loss where the optimizer
 * scales it.
 */
RF_API rf_result rf_optimizer_apply_gradients(rf_trace *t, rf_optimizer *optimizer,
                                              const rf_tensor *gradients,
                                              rf_variable_list variables);
/**
 * Muon as a part of a step, for those who apply several optimizers in it; ::RF_OPTIMIZER_MUON does
 * all of it by itself. In Jordan's form with Nesterov's momentum. The gradient of each matrix
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

#ifdef __cplusplus
}
#endif

#endif
