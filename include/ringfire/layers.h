/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Layers, which models are made of. Names and defaults follow Keras. The rules of train.h for all
 * of its functions hold here as well.
 */
#ifndef RINGFIRE_LAYERS_H
#define RINGFIRE_LAYERS_H

#include <ringfire/common.h>
#include <ringfire/ops.h>
#include <ringfire/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A layer: a description until its model is built. */
typedef struct rf_layer rf_layer;

/** A penalty added to the loss: l1 * sum|w| + l2 * sum w^2. */
typedef struct rf_regularizer {
    float l1, l2;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_regularizer;

/** A fully connected layer. `units` is required. */
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
/** A convolution layer. `filters` and `kernel_size` are required. */
typedef struct rf_conv2d_layer_params {
    int32_t filters;
    int32_t kernel_size[2]; /**< height, width; width 0: square */
    rf_conv2d_params conv;
    rf_activation activation;
    bool no_bias;
    rf_initializer kernel_initializer;
    const rf_initializer *bias_initializer;
    rf_regularizer kernel_regularizer;
    const char *name;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_conv2d_layer_params;
/** An embedding layer. `input_dim` and `output_dim` are required. */
typedef struct rf_embedding_params {
    int32_t input_dim;                 /**< number of indices there are: rows of the table */
    int32_t output_dim;                /**< columns of the table */
    const rf_initializer *initializer; /**< NULL: uniform from -0.05 to 0.05 */
    rf_regularizer regularizer;        /**< of the whole table */
    const char *name;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_embedding_params;
/**
 * Fully connected layer: [n, in] -> [n, units].
 * The caller owns a new layer until a model takes it over, and destroys it with rf_layer_destroy()
 * where none does. That holds for all functions that create layers.
 */
RF_API RF_MUST_USE rf_result rf_layer_dense(const rf_dense_params *params, rf_layer **out);
/** Convolution layer: [n, h, w, cin] -> [n, oh, ow, filters]. */
RF_API RF_MUST_USE rf_result rf_layer_conv2d(const rf_conv2d_layer_params *params, rf_layer **out);
/**
 * Transposed convolution layer, which enlarges images: [n, h, w, cin] -> [n, oh, ow, filters]. The
 * sizes are those of rf_conv2d_transpose(); the kernel is [kh, kw, filters / groups, cin].
 */
RF_API RF_MUST_USE rf_result rf_layer_conv2d_transpose(const rf_conv2d_layer_params *params,
                                                       rf_layer **out);
/**
 * Embedding layer: i32 indices [n, ...] -> [n, ..., output_dim], rows of its variable "embeddings"
 * [input_dim, output_dim]. A batch with an index outside 0 .. input_dim - 1 is refused, as
 * rf_gather() says.
 */
RF_API RF_MUST_USE rf_result rf_layer_embedding(const rf_embedding_params *params, rf_layer **out);
/** Batch normalization. NULL or zeroed: as in Keras. */
typedef struct rf_batch_norm_params {
    int32_t axis;    /**< of the channels; negative counts from the last. 0 (the batch): the last */
    double momentum; /**< of the moving averages: the part that stays in a step. 0: 0.99 */
    double epsilon;  /**< added to variances. 0: 1e-3 */
    bool no_center;  /**< leave out beta */
    bool no_scale;   /**< leave out gamma */
    bool synchronized; /**< mean and variance are those of all replicas' examples together */
    const rf_initializer *beta_initializer;  /**< NULL: zeros */
    const rf_initializer *gamma_initializer; /**< NULL: ones */
    rf_regularizer beta_regularizer;
    rf_regularizer gamma_regularizer;
    const char *name;
    /** Mean and variance are those of so many consecutive examples of the batch. 0: see below */
    uint32_t virtual_batch_size;
    /** The moving variance takes a batch's variance times n / (n - 1), n being the examples times
     * the positions of a channel, as in PyTorch; not with `virtual_batch_size` */
    bool unbiased_variance;
    uint64_t reserved[7]; /**< zero: room for later fields */
} rf_batch_norm_params;
/**
 * Batch normalization (Ioffe & Szegedy 2015): y = (x - mean) / sqrt(variance + epsilon) * gamma +
 * beta, for each channel; x [n, ...] with the channels along `axis`, y as x.
 * In ::RF_TRAINING mean and (biased) variance are those of the examples of this replica. After the
 * step the moving averages become momentum * average + (1 - momentum) * (the mean of the replicas'
 * values, weighted by their examples), the same bits on all replicas. In ::RF_INFERENCE the moving
 * averages are used, and in exported models. Variables: "gamma", "beta", "moving_mean",
 * "moving_variance"; the latter two are not trainable (rf_model_state_variables()).
 *
 * With several replicas results depend on how the batch is split, in Keras too; with
 * ::RF_BALANCE_AUTO, where measured speeds decide on that, a warning is logged once. With
 * `synchronized` they do not: mean and variance are those of the whole batch, for which replicas
 * wait for each other four times a step and layer (rf_all_replica_sum()).
 *
 * With a `virtual_batch_size` of g, at most 65,536, results do not depend on the split either, and
 * no replica waits. Examples 0 to g - 1 of the batch have a mean and a variance of their own, so
 * have g to 2g - 1, and so on. The last group has the rest, which may be one example. Each
 * replica's part of a batch then is a multiple of g, but for the batch's last examples. The moving
 * averages take the mean over the groups, weighted by their examples. Workers that hold only their
 * own rows of a batch need a multiple of g of them: rf_distribute_params::keep_together, which
 * rf_model_fit() sets; otherwise the step is RF_ERROR_INVALID_ARGUMENT.
 *
 * With parameter servers a share of a worker is what a replica is here, and they hold the averages
 * where rf_coordinator_params::state_variables lists them; `synchronized` is refused.
 * `params` may be NULL.
 */
RF_API RF_MUST_USE rf_result rf_layer_batch_norm(const rf_batch_norm_params *params,
                                                 rf_layer **out);
/** A normalization by known numbers. NULL or zeroed: as in Keras. */
typedef struct rf_normalization_params {
    int32_t axis; /**< of the channels; negative counts from the last. 0 (the batch): the last */
    bool whole;   /**< one mean and one variance of all numbers instead (Keras' axis=None) */
    bool invert;  /**< the other way round: y * deviation + mean */
    /** f32, a number for each channel: those of rf_dataset_moments(), copied. NULL: 0 and 1, for a
     * layer whose variables are loaded or assigned */
    const rf_array *mean, *variance;
    const char *name;
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_normalization_params;
/**
 * Normalization of inputs (Keras' Normalization): y = (x - mean) / max(sqrt(variance), 1e-7), for
 * each channel; x [n, ...] with the channels along `axis`, y as x. Mean and variance are constants
 * of the model, saved and exported with it: variables "mean" and "variance", which are not
 * trainable (rf_model_state_variables()). `params` may be NULL.
 */
RF_API RF_MUST_USE rf_result rf_layer_normalization(const rf_normalization_params *params,
                                                    rf_layer **out);
/** A layer normalization. NULL or zeroed: as in Keras. */
typedef struct rf_layer_norm_params {
    double epsilon;                          /**< added to variances. 0: 1e-3 */
    bool no_center;                          /**< leave out beta */
    bool no_scale;                           /**< leave out gamma */
    const rf_initializer *beta_initializer;  /**< NULL: zeros */
    const rf_initializer *gamma_initializer; /**< NULL: ones */
    const char *name;
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_layer_norm_params;
/**
 * Layer of rf_layer_norm(): [n, ..., c], normalised along the last axis, with variables "gamma" [c]
 * and "beta" [c]. `params` may be NULL.
 */
RF_API RF_MUST_USE rf_result rf_layer_layer_norm(const rf_layer_norm_params *params,
                                                 rf_layer **out);
/** A root mean square normalization. NULL or zeroed: as in Keras. */
typedef struct rf_rms_norm_params {
    double epsilon;                          /**< added to the mean of squares. 0: 1e-6 */
    bool no_scale;                           /**< leave out gamma */
    const rf_initializer *gamma_initializer; /**< NULL: ones, or zeros with `unit_offset` */
    const char *name;
    bool unit_offset;     /**< the scale is 1 + gamma, as Gemma's */
    uint64_t reserved[7]; /**< zero: room for later fields */
} rf_rms_norm_params;
/** Layer of rf_rms_norm(), with a variable "gamma" [c]. `params` may be NULL. */
RF_API RF_MUST_USE rf_result rf_layer_rms_norm(const rf_rms_norm_params *params, rf_layer **out);
/** A group normalization. NULL or zeroed: as in Keras. */
typedef struct rf_group_norm_params {
    int32_t
        groups;   /**< 0: 32; -1: as many as there are channels, which is instance normalization */
    int32_t axis; /**< of the channels; negative counts from the last. 0 (the batch): the last */
    double epsilon;                          /**< added to variances. 0: 1e-3 */
    bool no_center;                          /**< leave out beta */
    bool no_scale;                           /**< leave out gamma */
    const rf_initializer *beta_initializer;  /**< NULL: zeros */
    const rf_initializer *gamma_initializer; /**< NULL: ones */
    rf_regularizer beta_regularizer;
    rf_regularizer gamma_regularizer;
    const char *name;
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_group_norm_params;
/**
 * Layer of rf_group_norm(): x [n, ...] with the channels along `axis`, y as x, with variables
 * "gamma" and "beta", one number for each channel. Unlike batch normalization it is the same in
 * training and inference, and does not depend on how the batch is split. `params` may be NULL.
 */
RF_API RF_MUST_USE rf_result rf_layer_group_norm(const rf_group_norm_params *params,
                                                 rf_layer **out);
/** Layer of rf_max_pool2d(). `params` may be NULL. */
RF_API RF_MUST_USE rf_result rf_layer_max_pool2d(const rf_pool2d_params *params, rf_layer **out);
/** Layer of rf_avg_pool2d(). `params` may be NULL. */
RF_API RF_MUST_USE rf_result rf_layer_avg_pool2d(const rf_pool2d_params *params, rf_layer **out);
/** Layer of rf_global_avg_pool2d(). */
RF_API RF_MUST_USE rf_result rf_layer_global_avg_pool2d(rf_layer **out);
/** Layer of rf_flatten(). */
RF_API RF_MUST_USE rf_result rf_layer_flatten(rf_layer **out);
/** Layer of rf_reshape(). `shape` is without the batch dimension; one entry may be -1. */
RF_API RF_MUST_USE rf_result rf_layer_reshape(rf_shape shape, rf_layer **out);
/** Layer of rf_activate(). */
RF_API RF_MUST_USE rf_result rf_layer_activation(rf_activation activation, rf_layer **out);
/** x * scale + offset, both finite, as Keras' Rescaling. A `scale` of 0 gives `offset` alone. */
RF_API RF_MUST_USE rf_result rf_layer_rescaling(float scale, float offset, rf_layer **out);
/** Layer of rf_dropout(), which acts in training only. */
RF_API RF_MUST_USE rf_result rf_layer_dropout(float rate, uint64_t seed, rf_layer **out);
/**
 * Any function of one tensor. Variables that it uses belong to the model, as in
 * rf_model_create_custom().
 */
typedef rf_tensor (*rf_lambda_fn)(rf_trace *t, rf_tensor x, void *user);
/** Layer of a function of the caller. `user` is borrowed for the lifetime of the layer. */
RF_API RF_MUST_USE rf_result rf_layer_lambda(rf_lambda_fn fn, void *user, rf_layer **out);
/** Destroys a layer that no model has taken over. */
RF_API void rf_layer_destroy(rf_layer **layer);

/* ---- sequences [n, steps, channels] ---- */
/** A convolution along a sequence. `filters` and `kernel_size` are required. */
typedef struct rf_conv1d_layer_params {
    int32_t filters;
    int32_t kernel_size;
    rf_padding padding; /**< valid or same; rf_layer_zero_padding1d() adds other numbers of zeros */
    bool causal;        /**< zeros before the sequence alone: no step sees a later one */
    int32_t stride;     /**< 0 means 1 */
    int32_t dilation;   /**< 0 means 1 */
    int32_t groups;     /**< 0 means 1 */
    rf_activation activation;
    bool no_bias;
    rf_initializer kernel_initializer;      /**< zeroed: Glorot uniform */
    const rf_initializer *bias_initializer; /**< NULL: zeros */
    rf_regularizer kernel_regularizer;
    const char *name;
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_conv1d_layer_params;
/**
 * Convolution layer: [n, steps, cin] -> [n, out_steps, filters], with the sizes of rf_conv2d(). The
 * kernel is [kernel_size, cin / groups, filters].
 */
RF_API RF_MUST_USE rf_result rf_layer_conv1d(const rf_conv1d_layer_params *params, rf_layer **out);
/** Windows of a pooling along a sequence. NULL or zeroed: 2, without overlap or padding. */
typedef struct rf_pool1d_params {
    int32_t window;       /**< 0 means 2 */
    int32_t stride;       /**< 0 means the window */
    rf_padding padding;   /**< valid or same */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_pool1d_params;
/** Maximum over windows: [n, steps, c] -> [n, out_steps, c]. `params` may be NULL. */
RF_API RF_MUST_USE rf_result rf_layer_max_pool1d(const rf_pool1d_params *params, rf_layer **out);
/** Mean over windows, padding excluded. `params` may be NULL. */
RF_API RF_MUST_USE rf_result rf_layer_avg_pool1d(const rf_pool1d_params *params, rf_layer **out);
/** Maximum over all steps: [n, steps, c] -> [n, c]. Equal maxima share the gradient. */
RF_API RF_MUST_USE rf_result rf_layer_global_max_pool1d(rf_layer **out);
/** Mean over all steps: [n, steps, c] -> [n, c]. */
RF_API RF_MUST_USE rf_result rf_layer_global_avg_pool1d(rf_layer **out);
/** Zeros before and after each sequence: `padding` is those two numbers. NULL: 1 and 1. */
RF_API RF_MUST_USE rf_result rf_layer_zero_padding1d(const int32_t *padding, rf_layer **out);
/** rf_layer_dropout() of whole channels: all steps of a sequence keep the same ones. */
RF_API RF_MUST_USE rf_result rf_layer_spatial_dropout1d(float rate, uint64_t seed, rf_layer **out);

/* ---- images [n, h, w, c] ---- */
/** A convolution of each channel by itself. `kernel_size` is required. */
typedef struct rf_depthwise_conv2d_params {
    int32_t kernel_size[2];   /**< height, width; width 0: square */
    int32_t depth_multiplier; /**< channels that each channel becomes. 0: 1 */
    rf_conv2d_params conv;    /**< its `groups` stay 0: they are the channels */
    rf_activation activation;
    bool no_bias;
    rf_initializer kernel_initializer;      /**< zeroed: Glorot uniform */
    const rf_initializer *bias_initializer; /**< NULL: zeros */
    rf_regularizer kernel_regularizer;
    const char *name;
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_depthwise_conv2d_params;
/**
 * Depthwise convolution layer: [n, h, w, c] -> [n, oh, ow, c * depth_multiplier]. The kernel is
 * [kh, kw, c, depth_multiplier]; output channel c * depth_multiplier + m is input channel c under
 * its kernel number m.
 */
RF_API RF_MUST_USE rf_result rf_layer_depthwise_conv2d(const rf_depthwise_conv2d_params *params,
                                                       rf_layer **out);
/** A depthwise convolution and one of 1 x 1. `filters` and `kernel_size` are required. */
typedef struct rf_separable_conv2d_params {
    int32_t filters;
    int32_t kernel_size[2];   /**< height, width; width 0: square */
    int32_t depth_multiplier; /**< of the depthwise convolution. 0: 1 */
    rf_conv2d_params conv;    /**< of the depthwise convolution; its `groups` stay 0 */
    rf_activation activation;
    bool no_bias;
    rf_initializer depthwise_initializer;   /**< zeroed: Glorot uniform */
    rf_initializer pointwise_initializer;   /**< zeroed: Glorot uniform */
    const rf_initializer *bias_initializer; /**< NULL: zeros */
    rf_regularizer depthwise_regularizer;
    rf_regularizer pointwise_regularizer;
    const char *name;
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_separable_conv2d_params;
/**
 * Separable convolution layer: [n, h, w, c] -> [n, oh, ow, filters]. Variables: "depthwise_kernel"
 * [kh, kw, c, depth_multiplier], "pointwise_kernel" [1, 1, c * depth_multiplier, filters], "bias".
 */
RF_API RF_MUST_USE rf_result rf_layer_separable_conv2d(const rf_separable_conv2d_params *params,
                                                       rf_layer **out);
/** Maximum over height and width: [n, h, w, c] -> [n, c]. Equal maxima share the gradient. */
RF_API RF_MUST_USE rf_result rf_layer_global_max_pool2d(rf_layer **out);
/**
 * Zeros around each image: `padding` is their numbers at top, bottom, left and right. NULL: 1
 * everywhere.
 */
RF_API RF_MUST_USE rf_result rf_layer_zero_padding2d(const int32_t *padding, rf_layer **out);
/** Layer of rf_upsample2d(). `factor` is two numbers; NULL: 2 and 2. */
RF_API RF_MUST_USE rf_result rf_layer_upsample2d(const int32_t *factor,
                                                 rf_interpolation interpolation, rf_layer **out);
/** rf_layer_dropout() of whole channels: all pixels of an image keep the same ones. */
RF_API RF_MUST_USE rf_result rf_layer_spatial_dropout2d(float rate, uint64_t seed, rf_layer **out);

/* ---- of any shape ---- */
/** Layer of rf_leaky_relu(). `negative_slope` 0: 0.3; it must not be negative. */
RF_API RF_MUST_USE rf_result rf_layer_leaky_relu(float negative_slope, rf_layer **out);
/** A leaky ReLU whose slopes are trained. NULL or zeroed: as in Keras. */
typedef struct rf_prelu_params {
    const rf_initializer *alpha_initializer; /**< NULL: zeros */
    rf_regularizer alpha_regularizer;
    const int32_t *shared_axes; /**< along which alpha is the same, from 1 on or negative */
    uint32_t num_shared_axes;
    const char *name;
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_prelu_params;
/**
 * Parametric ReLU (He et al. 2015): x for x > 0, alpha * x otherwise. Variable: "alpha", of the
 * shape of an example, but 1 along shared axes. `params` may be NULL; `shared_axes` is copied.
 */
RF_API RF_MUST_USE rf_result rf_layer_prelu(const rf_prelu_params *params, rf_layer **out);
/**
 * In training, adds numbers of a normal distribution with mean 0 and deviation `stddev`; see
 * rf_random_normal(), also for `seed`.
 */
RF_API RF_MUST_USE rf_result rf_layer_gaussian_noise(float stddev, uint64_t seed, rf_layer **out);
/**
 * In training, multiplies by numbers of a normal distribution with mean 1 and deviation sqrt(rate /
 * (1 - rate)); `rate` is in [0, 1).
 */
RF_API RF_MUST_USE rf_result rf_layer_gaussian_dropout(float rate, uint64_t seed, rf_layer **out);

/* ---- layers of several inputs: for functional models and rf_layer_apply() ---- */

/** Sum of all inputs, which are of shapes that broadcast. */
RF_API RF_MUST_USE rf_result rf_layer_add(rf_layer **out);
/** The first input less the second. */
RF_API RF_MUST_USE rf_result rf_layer_subtract(rf_layer **out);
/** Product of all inputs. */
RF_API RF_MUST_USE rf_result rf_layer_multiply(rf_layer **out);
/** Mean of all inputs. */
RF_API RF_MUST_USE rf_result rf_layer_average(rf_layer **out);
/** The largest of all inputs, element by element. */
RF_API RF_MUST_USE rf_result rf_layer_maximum(rf_layer **out);
/** The smallest of all inputs, element by element. */
RF_API RF_MUST_USE rf_result rf_layer_minimum(rf_layer **out);
/**
 * Joins its inputs along `axis`, as rf_concat(). Axes count the batch as 0 and may be negative; the
 * batch, 0, stands for the last one, as Keras' default.
 */
RF_API RF_MUST_USE rf_result rf_layer_concatenate(int32_t axis, rf_layer **out);
/**
 * f32 1 where the input (f32 or i32) is not `value`, else 0: with the value of padding, usually 0,
 * the mask of a sequence.
 */
RF_API RF_MUST_USE rf_result rf_layer_not_equal(int32_t value, rf_layer **out);

/* ---- sequences ---- */

/** A recurrent layer. `units` is required. */
typedef struct rf_rnn_layer_params {
    rf_rnn_kind kind;
    int32_t units;
    bool return_sequences; /**< the output after each step instead of that after the last one */
    bool go_backwards;     /**< begins with the last step; sequences come out in that order */
    bool reset_before;     /**< GRU: Keras' reset_after = false, which has no recurrent bias */
    bool no_bias;
    bool no_unit_forget_bias; /**< LSTM: the bias of the forget gate begins at 0 instead of 1 */
    const rf_initializer *kernel_initializer;    /**< NULL: Glorot uniform */
    const rf_initializer *recurrent_initializer; /**< NULL: orthogonal */
    rf_regularizer kernel_regularizer;
    rf_regularizer recurrent_regularizer;
    const char *name;
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_rnn_layer_params;
/**
 * Recurrent layer (GRU, LSTM or simple): x [n, steps, c] [, h [, c]] -> y [, h [, c]], where y is
 * [n, units], or [n, steps, units] with `return_sequences`, and h and (LSTM) c are states [n,
 * units]. Without a given state it begins with zeros. Takes a mask [n, steps]: a step where it is 0
 * keeps the state and repeats the output (rf_rnn()).
 * Variables: "kernel" [c, gates * units], "recurrent_kernel" [units, gates * units], "bias" [gates
 * * units] and, of a GRU without `reset_before`, "recurrent_bias", which is the second row of
 * Keras' bias. Gates are in the order of ::rf_rnn_kind.
 */
RF_API RF_MUST_USE rf_result rf_layer_rnn(const rf_rnn_layer_params *params, rf_layer **out);
/** How rf_layer_bidirectional() joins its two directions. */
typedef enum rf_merge {
    RF_MERGE_CONCATENATE,
    RF_MERGE_SUM,
    RF_MERGE_MULTIPLY,
    RF_MERGE_AVERAGE,
} rf_merge;
/**
 * Two recurrent layers, of which one reads the sequence backwards: x [n, steps, c] -> y [, states
 * of the first [, of the second]]. With a mask the backward one begins after the padding.
 * @param forward a layer of rf_layer_rnn() without `go_backwards`, which no model has; it is taken
 *   over, also when this fails. Its twin has the same settings, and weights of its own: "forward/
 *   kernel", "backward/kernel", ...
 */
RF_API RF_MUST_USE rf_result rf_layer_bidirectional(rf_layer *forward, rf_merge merge,
                                                    const char *name, rf_layer **out);
/**
 * Applies a layer to each step, with the same weights: x [n, steps, ...] -> [n, steps, ...], where
 * the layer gets [n * steps, ...]. Its variables are called after this layer. Batch normalization
 * takes steps for examples. Takes a mask [n, steps, ...], which it passes on as [n * steps, ...] to
 * layers that take one, and which others ignore, as in Keras.
 * @param layer one of one input, which no model has; it is taken over, also when this fails
 */
RF_API RF_MUST_USE rf_result rf_layer_time_distributed(rf_layer *layer, const char *name,
                                                       rf_layer **out);
/**
 * One step of each sequence, [n, steps, ...] -> [n, ...]: such as the first one, whose token BERT
 * classifies by. A negative number counts from the last step.
 */
RF_API RF_MUST_USE rf_result rf_layer_select_step(int32_t step, rf_layer **out);
/** How rf_rotary_params changes the angles of rotary positions. */
typedef enum rf_rotary_scaling {
    RF_ROTARY_UNSCALED,
    RF_ROTARY_LINEAR, /**< all angles divided by `factor` (Chen et al. 2023) */
    /** A larger base for rows over `original_length` ("dynamic NTK"). In rf_model_generate() rows
     * are as long as the longest prompt and its new tokens. */
    RF_ROTARY_DYNAMIC,
    RF_ROTARY_LLAMA3, /**< slow angles divided by `factor`, fast ones kept, as Llama 3.1 */
} rf_rotary_scaling;
/** Options of rotary positions. */
typedef struct rf_rotary_params {
    rf_rotary_scaling scaling;
    int32_t original_length; /**< of the sequences before scaling; DYNAMIC and LLAMA3 require it */
    double factor;           /**< at least 1; required where there is scaling */
    /** LLAMA3: waves longer than original_length / this are slow; required */
    double low_frequency_factor;
    /** LLAMA3: those shorter than original_length / this are fast; required, and larger */
    double high_frequency_factor;
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_rotary_params;
/** An attention layer. `num_heads` and `key_dim` are required. */
typedef struct rf_multi_head_attention_params {
    int32_t num_heads;
    int32_t key_dim;    /**< of queries and keys of each head */
    int32_t value_dim;  /**< of values of each head; 0: key_dim */
    int32_t output_dim; /**< 0: that of the query */
    /** Heads of keys and values, each for so many heads of queries; 0: num_heads. It divides it. */
    int32_t num_key_value_heads;
    bool causal; /**< each query attends to the keys up to its own place, as rf_attention() */
    bool no_bias;
    float dropout;     /**< of the weights, in training */
    uint64_t seed;     /**< of dropout, as that of rf_dropout() */
    float rotary_base; /**< turns queries and keys by their places (Su et al. 2021); 0: not */
    const rf_initializer *kernel_initializer; /**< NULL: Glorot uniform */
    const char *name;
    const rf_rotary_params *rotary; /**< of `rotary_base`, copied; NULL: none */
    float scale;                    /**< of the scores; 0: 1 / sqrt(key_dim) */
    /** With `causal`: a query attends to so many keys at most, its own the last; 0: to all. */
    int32_t window;
    /** Each head's queries and keys are normalised by their root mean square before they are
     * turned, with this epsilon and a learned scale; 0: not */
    float query_key_norm;
    float softcap;       /**< as rf_attention_params::softcap; 0: none */
    bool no_output_bias; /**< the output alone has no bias */
    /**
     * Rows hold several sequences (rf_dataset_pack()): the mask is i32 [n, t], the position of each
     * step in its own sequence, and a query attends to the steps of its own sequence alone. For
     * layers of one input, without a cache. Angles of rotary positions depend on distances, and
     * those of RF_ROTARY_DYNAMIC on the length of the row
     */
    bool packed;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_multi_head_attention_params;
/**
 * Multi-head attention (Vaswani et al. 2017): query [n, t, d] [, value [n, s, e] [, key [n, s, f]]]
 * -> [n, t, output_dim]. Without a value the query attends to itself; without a key it is the
 * value. Takes a mask [n, s], [n, t, s] or [n, heads, t, s]: keys where it is 0 are not attended
 * to, and a query without any gives the bias of the output.
 * Variables as in Keras: "query/kernel" [d, num_heads, key_dim], "query/bias" [num_heads, key_dim],
 * "key/...", "value/...", "attention_output/kernel" [num_heads, value_dim, output_dim] and
 * "attention_output/bias" [output_dim]. With `query_key_norm` there are "query_norm/gamma" and
 * "key_norm/gamma" [key_dim] as well. With `rotary_base` key_dim is even, and halves are turned,
 * not pairs of neighbours.
 *
 * rf_layer_apply() has two more outputs to give: the keys and values that were attended to,
 * [n, num_key_value_heads, s, key_dim] and [n, num_key_value_heads, s, value_dim], after rotation.
 * So a text that grows need not be computed again for each token. They are given back as
 * rf_layer_apply_params::cache, with the place of the first step of the query as start_index. The
 * keys and values of the query then go into their places (rf_slice_update()), and the query attends
 * to those up to its own place. That takes a `causal` layer and one input; the mask is then [n, s],
 * [n, t, s] or [n, heads, t, s] of the cache's s places. Kept in variables that are not trainable
 * (rf_variable_update()), they stay on the device.
 */
RF_API RF_MUST_USE rf_result
rf_layer_multi_head_attention(const rf_multi_head_attention_params *params, rf_layer **out);
/**
 * Adds a learned vector for each place: x [n, t, d] [, positions i32 [n, t]] with t up to
 * `max_length`; variable "embeddings" [max_length, d]. With rf_layer_apply_params::start_index the
 * first step stands at that place; beyond max_length the result is NaN. With positions each step
 * stands at its own, as where rows hold several sequences (rf_dataset_pack()).
 * @param initializer NULL: Glorot uniform
 */
RF_API RF_MUST_USE rf_result rf_layer_position_embedding(int32_t max_length,
                                                         const rf_initializer *initializer,
                                                         const char *name, rf_layer **out);
/**
 * Adds sines and cosines of each place (Vaswani et al. 2017): x [n, t, d], where element 2i of
 * place p gets sin(p / w^(2i / d)) and element 2i + 1 the cosine. With
 * rf_layer_apply_params::start_index the first step stands at that place; from place 65,536 on the
 * result is NaN then.
 * @param max_wavelength w; 0: 10,000
 */
RF_API RF_MUST_USE rf_result rf_layer_sine_position_encoding(float max_wavelength, rf_layer **out);
/**
 * Places of tokens that are padded on either side: i32 [n, steps] -> i32 [n, steps]. A token gets
 * `padding` plus its number among the tokens of its row that are not `padding`, from 1 on; padding
 * gets `padding`. As indices of rf_layer_embedding() they are the positions of RoBERTa (Liu et al.
 * 2019). `padding` must not be negative.
 */
RF_API RF_MUST_USE rf_result rf_layer_token_positions(int32_t padding, rf_layer **out);
/**
 * Puts a learned vector before each sequence, which a transformer of images classifies by
 * (Dosovitskiy et al. 2021): x [n, t, d] -> [n, 1 + t, d]; variable "token" [d].
 * @param initializer NULL: zeros
 */
RF_API RF_MUST_USE rf_result rf_layer_class_token(const rf_initializer *initializer,
                                                  const char *name, rf_layer **out);
/** Whether rf_layer_embedding_head() adds a bias. */
typedef enum rf_bias_use { RF_WITH_BIAS, RF_WITHOUT_BIAS } rf_bias_use;
/**
 * The head that a language model shares with its embedding (Press & Wolf 2017): x [n, ...,
 * output_dim] times the transposed table of `embedding` -> [n, ..., input_dim], plus a "bias"
 * [input_dim] with ::RF_WITH_BIAS.
 * @param embedding a layer of rf_layer_embedding(), of the same model, which is called first
 */
RF_API RF_MUST_USE rf_result rf_layer_embedding_head(rf_layer *embedding, rf_bias_use bias,
                                                     const char *name, rf_layer **out);

#ifdef __cplusplus
}
#endif
#endif
