/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Layers, which models are made of. Names and defaults follow Keras. What train.h says for all of
 * its functions holds here as well.
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
 * [input_dim, output_dim]. An index outside 0 .. input_dim - 1 gives NaN, as rf_gather() says.
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
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_batch_norm_params;
/**
 * Batch normalization (Ioffe & Szegedy 2015): y = (x - mean) / sqrt(variance + epsilon) * gamma +
 * beta, for each channel; x [n, ...] with the channels along `axis`, y as x.
 * In ::RF_TRAINING mean and (biased) variance are those of the examples of this replica, and after
 * the step the moving averages become momentum * average + (1 - momentum) * (the mean of the
 * replicas' values, weighted by their examples), the same bits on all replicas. In ::RF_INFERENCE
 * the moving averages are used, and in exported models. Variables: "gamma", "beta", "moving_mean",
 * "moving_variance"; the latter two are not trainable (rf_model_state_variables()).
 *
 * With several replicas results depend on how the batch is split, in Keras too; with
 * ::RF_BALANCE_AUTO, where measured speeds decide on that, a warning is logged once. With
 * `synchronized` they do not: mean and variance are those of the whole batch, for which replicas
 * wait for each other four times a step and layer (rf_all_replica_sum()). Not for training with
 * parameter servers, which have no place for the averages (rf_variable_update()).
 * `params` may be NULL.
 */
RF_API RF_MUST_USE rf_result rf_layer_batch_norm(const rf_batch_norm_params *params,
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
    const rf_initializer *gamma_initializer; /**< NULL: ones */
    const char *name;
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_rms_norm_params;
/** Layer of rf_rms_norm(), with a variable "gamma" [c]. `params` may be NULL. */
RF_API RF_MUST_USE rf_result rf_layer_rms_norm(const rf_rms_norm_params *params, rf_layer **out);
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

#ifdef __cplusplus
}
#endif
#endif
