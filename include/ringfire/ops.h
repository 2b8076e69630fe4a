/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Tracing: operations on symbolic tensors inside a step (::rf_step_fn).
 *
 * Tensors are dense and row-major. Images are NHWC, kernels [kh, kw, cin / groups, cout].
 * Arithmetic is f32 unless stated otherwise. Dimension 0 of the step's inputs is the batch and may
 * differ from run to run: use -1 in rf_reshape() instead of a number read from rf_tensor_shape().
 * Any dimension of a tensor may be the batch. A step that holds numbers or constants of the traced
 * batch is refused for other ones, with a message that names the call.
 *
 * The following holds for every tracing function of the library.
 *  - It may be called only by the step that is being traced, by the thread that traces it, and with
 *    tensors of its own trace. It records an operation and does not block.
 *  - When it fails it returns the invalid tensor (id 0) and records its error in the trace.
 *    Operations on invalid tensors do nothing, so a step may check once, with rf_trace_status(), at
 *    its end.
 *  - Wrong shapes, types and values are RF_ERROR_INVALID_ARGUMENT. The message names function and
 *    shapes.
 *  - Operands are f32, and results have the type and shape of their operand, unless the comment
 *    states otherwise.
 *
 * NaN in, NaN out, on every device, whatever is fused: rf_maximum(), rf_minimum(), rf_reduce_max(),
 * rf_max_pool2d(), activations, losses and their gradients propagate NaN. Comparisons with NaN are
 * false; rf_argmax() returns the first NaN; rf_pow() is 1 for an exponent of 0 or a base of 1, as
 * in C; a cast to integers gives 0. Infinities behave as in C. Denormals may be treated as zeros.
 */
#ifndef RINGFIRE_OPS_H
#define RINGFIRE_OPS_H

#include <ringfire/common.h>
#include <ringfire/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Handle of a symbolic tensor of one trace. A zero-initialised handle is the invalid tensor.
 * Handles may be copied freely.
 */
typedef struct rf_tensor {
    uint32_t id;
    uint32_t trace;
} rf_tensor;

/**
 * The first error of the trace, which also becomes the error of the thread; RF_OK when there was
 * none.
 */
RF_API rf_result rf_trace_status(const rf_trace *t);
/** Makes the trace fail with a message of the caller. Returns `result`. */
RF_API rf_result rf_trace_fail(rf_trace *t, rf_result result, const char *format, ...)
    RF_PRINTF(3, 4);
/** Whether a function created with `training` is being traced. */
RF_API bool rf_trace_training(const rf_trace *t);
/** Number of replicas of the strategy, over all workers. */
RF_API uint32_t rf_trace_num_replicas(const rf_trace *t);
/**
 * Shape of a tensor in this trace. Dimension 0 of what depends on the batch may differ in other
 * runs.
 */
RF_API rf_shape rf_tensor_shape(const rf_trace *t, rf_tensor x);
/** Element type of a tensor; RF_DTYPE_INVALID for the invalid tensor. */
RF_API rf_dtype rf_tensor_dtype(const rf_trace *t, rf_tensor x);

/* ---- leaves ---- */
/** Value of a variable at the start of the step. A variable of another strategy is an error. */
RF_API rf_tensor rf_variable_tensor(rf_trace *t, rf_variable *variable);
/** How the values that replicas compute for one variable become one; after tf.VariableAggregation.
 */
typedef enum rf_aggregation {
    /**
     * The mean, weighted by the replicas' examples: of means over examples, the mean over the whole
     * batch. Rounding differs with the split of the batch.
     */
    RF_AGGREGATE_MEAN,
    RF_AGGREGATE_SUM, /**< of the replicas that have examples */
    /**
     * That of the first replica that has examples: exact, and the cheapest, for what all replicas
     * compute alike (a counter, a moving average of weights).
     */
    RF_AGGREGATE_FIRST_REPLICA,
} rf_aggregation;
/**
 * Gives a variable a new value after this step, and after the updates of its optimizers. `variable`
 * is one that is not trainable (rf_variable_params::not_trainable), `value` an f32 tensor of its
 * shape. rf_variable_tensor() goes on giving the value from before, and so do all trainable
 * variables that `value` is computed from; gradients in it are those of the replica's examples.
 *
 * All replicas, of all workers, get the same bits: values are combined once and copied. A step that
 * fails, or that runs without any examples, changes nothing. Optimizers that accumulate gradients
 * make no difference: it happens in every run of the function. Once per step and variable.
 *
 * Workers of parameter servers push the change; see rf_worker_params::state_variables.
 * @return rf_trace_status(t); a variable that is trainable, of another strategy or updated before,
 *   and a value of another type or shape, or whose shape depends on the batch, make the trace fail.
 */
RF_API rf_result rf_variable_update(rf_trace *t, rf_variable *variable, rf_tensor value,
                                    rf_aggregation aggregation);
/**
 * The sum of x over all replicas of all workers, in the step: every replica gets the same bits. It
 * corresponds to `tf.distribute.ReplicaContext.all_reduce(SUM)`. x is f32, of a shape that does not
 * depend on the batch; replicas without examples add zeros. On one replica it is x.
 *
 * The gradient is the sum of the replicas' gradients, so that losses that are sums over replicas
 * (as rf_compute_average_loss() makes them) are differentiated through statistics of the whole
 * batch.
 *
 * A step waits once for each sum that depends on another one; sums that do not are made together.
 * Gradients of such a step are exchanged after its backward pass instead of during it, and
 * RF_BALANCE_AUTO, which cannot tell fast replicas from those that wait, leaves its split as it is.
 * Not with the workers of parameter servers, whose steps then fail with RF_ERROR_UNSUPPORTED.
 * @return the sum; a type other than f32 makes the trace fail, and so does, at the end of the step,
 *   a shape that depends on the batch.
 */
RF_API rf_tensor rf_all_replica_sum(rf_trace *t, rf_tensor x);
/** A scalar constant. */
RF_API rf_tensor rf_constant(rf_trace *t, float value);
/** A constant of any type that tensors have, and any shape without zeros. `values` is copied. */
RF_API rf_tensor rf_constant_array(rf_trace *t, const rf_array *values);
/**
 * Number of examples in the global batch of the step being run, over all replicas: an f32 scalar
 * that is known at run time.
 */
RF_API rf_tensor rf_global_batch_size(rf_trace *t);

/* ---- element-wise; two-operand forms broadcast as NumPy does ---- */
/** a + b. */
RF_API rf_tensor rf_add(rf_trace *t, rf_tensor a, rf_tensor b);
/** a - b. */
RF_API rf_tensor rf_subtract(rf_trace *t, rf_tensor a, rf_tensor b);
/** a * b. */
RF_API rf_tensor rf_multiply(rf_trace *t, rf_tensor a, rf_tensor b);
/** a / b. */
RF_API rf_tensor rf_divide(rf_trace *t, rf_tensor a, rf_tensor b);
/** a to the power b, with the special cases of C's pow(). */
RF_API rf_tensor rf_pow(rf_trace *t, rf_tensor a, rf_tensor b);
/** The larger of a and b. */
RF_API rf_tensor rf_maximum(rf_trace *t, rf_tensor a, rf_tensor b);
/** The smaller of a and b. */
RF_API rf_tensor rf_minimum(rf_trace *t, rf_tensor a, rf_tensor b);
/** How rf_compare() compares. */
typedef enum rf_comparison {
    RF_EQUAL,
    RF_NOT_EQUAL,
    RF_LESS,
    RF_LESS_EQUAL,
    RF_GREATER,
    RF_GREATER_EQUAL,
} rf_comparison;
/**
 * f32 1 where `a` compares so with `b`, else 0, as C has it. Both are f32, or both are i32, which
 * are compared exactly. It has no gradient: zeros flow.
 */
RF_API rf_tensor rf_compare(rf_trace *t, rf_comparison comparison, rf_tensor a, rf_tensor b);
/**
 * a where `mask` is not 0, else b; all three broadcast. An element that is not taken has no part in
 * the result, even where it is NaN. It has none in gradients through functions of elements, their
 * sums and reshapes either, even where slopes are infinite or NaN, as that of rf_sqrt() at 0. It is
 * otherwise with operations that mix elements (products, softmax, norms): there a gradient of 0
 * times NaN is NaN, so that their operand is to be chosen, too. No gradient flows to the mask. A
 * NaN in the mask gives NaN.
 */
RF_API rf_tensor rf_where(rf_trace *t, rf_tensor mask, rf_tensor a, rf_tensor b);
/** a / b, and 0 where b is 0, whatever a is; gradients are 0 there, too. */
RF_API rf_tensor rf_divide_no_nan(rf_trace *t, rf_tensor a, rf_tensor b);
/** x y, and 0 where y is 0, even for an x that is infinite or NaN, whose gradients are 0 there. */
RF_API rf_tensor rf_multiply_no_nan(rf_trace *t, rf_tensor x, rf_tensor y);
/** x log y, and 0 where x is 0, whatever y is; gradients are 0 there, too. */
RF_API rf_tensor rf_xlogy(rf_trace *t, rf_tensor x, rf_tensor y);
/** x log(1 + y), in the same way. */
RF_API rf_tensor rf_xlog1py(rf_trace *t, rf_tensor x, rf_tensor y);
/** x / y, in the same way. */
RF_API rf_tensor rf_xdivy(rf_trace *t, rf_tensor x, rf_tensor y);
/**
 * x, but not less than `low` nor more than `high`, which must not be less than `low`. The gradient
 * is that of x where x is within the two, ends included, and 0 elsewhere.
 */
RF_API rf_tensor rf_clip(rf_trace *t, rf_tensor x, float low, float high);
/** -x. */
RF_API rf_tensor rf_negative(rf_trace *t, rf_tensor x);
/** |x|. */
RF_API rf_tensor rf_abs(rf_trace *t, rf_tensor x);
/** x * x. */
RF_API rf_tensor rf_square(rf_trace *t, rf_tensor x);
/** e to the power x. */
RF_API rf_tensor rf_exp(rf_trace *t, rf_tensor x);
/** Natural logarithm. */
RF_API rf_tensor rf_log(rf_trace *t, rf_tensor x);
/** Square root. */
RF_API rf_tensor rf_sqrt(rf_trace *t, rf_tensor x);
/** 1 / sqrt(x): infinite at 0, NaN below. */
RF_API rf_tensor rf_rsqrt(rf_trace *t, rf_tensor x);
/** log(1 + x), exact near 0 too. */
RF_API rf_tensor rf_log1p(rf_trace *t, rf_tensor x);
/** e to the power x, less 1; exact near 0 too. */
RF_API rf_tensor rf_expm1(rf_trace *t, rf_tensor x);
/**
 * Sine of x in radians, to 1e-6 for |x| up to 100,000. The result for larger ones is a number
 * between -1 and 1 without a right digit, for infinity NaN.
 */
RF_API rf_tensor rf_sin(rf_trace *t, rf_tensor x);
/** Cosine, as rf_sin(). */
RF_API rf_tensor rf_cos(rf_trace *t, rf_tensor x);
/** The error function. */
RF_API rf_tensor rf_erf(rf_trace *t, rf_tensor x);
/** -1, 0 or 1. It has no gradient: zeros flow. */
RF_API rf_tensor rf_sign(rf_trace *t, rf_tensor x);
/** The largest whole number that is not above x. It has no gradient: zeros flow. */
RF_API rf_tensor rf_floor(rf_trace *t, rf_tensor x);
/** The nearest whole number, of two the even one. It has no gradient: zeros flow. */
RF_API rf_tensor rf_round(rf_trace *t, rf_tensor x);
/** Hyperbolic tangent. */
RF_API rf_tensor rf_tanh(rf_trace *t, rf_tensor x);
/** 1 / (1 + e^-x). */
RF_API rf_tensor rf_sigmoid(rf_trace *t, rf_tensor x);
/** max(x, 0). */
RF_API rf_tensor rf_relu(rf_trace *t, rf_tensor x);
/** x for x > 0, alpha * x otherwise. `alpha` must not be negative. */
RF_API rf_tensor rf_leaky_relu(rf_trace *t, rf_tensor x, float alpha);
/** The form of rf_gelu(). */
typedef enum rf_gelu_form {
    RF_GELU_ERF,  /**< x * (1 + erf(x / sqrt(2))) / 2 */
    RF_GELU_TANH, /**< the tanh form, which is close to it, as BERT and GPT-2 have it */
} rf_gelu_form;
/** Gaussian error linear unit (Hendrycks & Gimpel 2016). */
RF_API rf_tensor rf_gelu(rf_trace *t, rf_tensor x, rf_gelu_form form);
/** log(1 + e^x), without overflow. */
RF_API rf_tensor rf_softplus(rf_trace *t, rf_tensor x);
/** x * sigmoid(x), also called swish. */
RF_API rf_tensor rf_silu(rf_trace *t, rf_tensor x);
/** x * min(max(x + 3, 0), 6) / 6, also called hard swish (Howard et al. 2019). */
RF_API rf_tensor rf_hard_silu(rf_trace *t, rf_tensor x);
/** min(max(x + 3, 0), 6) / 6. */
RF_API rf_tensor rf_hard_sigmoid(rf_trace *t, rf_tensor x);
/** x * tanh(log(1 + e^x)) (Misra 2019). */
RF_API rf_tensor rf_mish(rf_trace *t, rf_tensor x);
/** x for x > 0, alpha * (e^x - 1) otherwise; Keras' alpha is 1. `alpha` must not be negative. */
RF_API rf_tensor rf_elu(rf_trace *t, rf_tensor x, float alpha);
/** 1.05070098 times rf_elu() with alpha 1.67326324: the self-normalising unit. */
RF_API rf_tensor rf_selu(rf_trace *t, rf_tensor x);

/** Activations that layers and fused kernels provide. */
typedef enum rf_activation {
    RF_ACTIVATION_LINEAR,
    RF_ACTIVATION_RELU,
    RF_ACTIVATION_LEAKY_RELU, /**< alpha 0.2, as Keras' string form */
    RF_ACTIVATION_SIGMOID,
    RF_ACTIVATION_TANH,
    RF_ACTIVATION_GELU, /**< the erf form */
    RF_ACTIVATION_SOFTMAX,
    RF_ACTIVATION_GELU_TANH, /**< GELU in the tanh form, as BERT and GPT-2 have it */
    RF_ACTIVATION_SILU,
    RF_ACTIVATION_ELU, /**< alpha 1 */
    RF_ACTIVATION_SELU,
    RF_ACTIVATION_SOFTPLUS,
    RF_ACTIVATION_MISH,
    RF_ACTIVATION_HARD_SILU,
    RF_ACTIVATION_HARD_SIGMOID,
} rf_activation;
/** Applies an activation. Softmax is along the last axis. */
RF_API rf_tensor rf_activate(rf_trace *t, rf_tensor x, rf_activation activation);

/* ---- linear algebra and convolution ---- */
/** The operands of rf_matmul() whose last two dimensions are exchanged first. */
typedef enum rf_matmul_transpose {
    RF_TRANSPOSE_NONE = 0,
    RF_TRANSPOSE_A = 1,
    RF_TRANSPOSE_B = 2,
    RF_TRANSPOSE_BOTH = 3,
} rf_matmul_transpose;
/** a [..., m, k] x b [..., k, n] -> [..., m, n]; the leading dimensions broadcast. */
RF_API rf_tensor rf_matmul(rf_trace *t, rf_tensor a, rf_tensor b, rf_matmul_transpose transpose);
/**
 * Einstein's sum convention, as NumPy's and TensorFlow's einsum: each operand has a letter for each
 * dimension, and what the result lacks is summed, "bthd,bshd->bhts". Without "->" the result has
 * the letters that occur once, in the order of the alphabet. "..." stands for further dimensions,
 * which broadcast, as do dimensions of 1. A letter twice in one operand (a diagonal) is refused.
 * There are one to 8 operands, f32. More than two are contracted in pairs, each by a product of
 * matrices where letters are summed. Pairs go from left to right, or in another order where a
 * product on the way would have more than 6 dimensions. Any letter may stand for the batch; a sum
 * over it is one over the examples that this replica has, as rf_reduce_sum() is.
 * @return the result; the trace fails with RF_ERROR_INVALID_ARGUMENT for what does not fit.
 */
RF_API rf_tensor rf_einsum(rf_trace *t, const char *equation, const rf_tensor *operands,
                           uint32_t num_operands);
/**
 * Makes the singular values of matrices x [..., m, n] about 1 (0.7 to 1.2) and leaves their
 * singular vectors: the nearest orthogonal matrix, roughly. `steps` of a Newton-Schulz iteration on
 * x divided by its norm, with the quintic of Jordan et al. 2024, each of three products; 0: 5, at
 * most 100. Singular values below a thousandth of the norm need more steps.
 */
RF_API rf_tensor rf_orthogonalize(rf_trace *t, rf_tensor x, uint32_t steps);
/** x [..., c] + bias [c] -> [..., c]. */
RF_API rf_tensor rf_bias_add(rf_trace *t, rf_tensor x, rf_tensor bias);

/** Padding as in Keras: none, so much that the result has the size of x / stride, or as given. */
typedef enum rf_padding { RF_PADDING_VALID, RF_PADDING_SAME, RF_PADDING_EXPLICIT } rf_padding;
/** How a kernel moves over an image. NULL or zeroed: valid padding, stride 1. */
typedef struct rf_conv2d_params {
    rf_padding padding;
    int32_t stride[2];           /**< height, width; 0 means 1 */
    int32_t dilation[2];         /**< 0 means 1 */
    int32_t groups;              /**< 0 means 1 */
    int32_t explicit_padding[4]; /**< top, bottom, left, right; for RF_PADDING_EXPLICIT */
    uint64_t reserved[4];        /**< zero: room for later fields */
} rf_conv2d_params;
/**
 * x [n, h, w, cin], kernel [kh, kw, cin / groups, cout] -> [n, oh, ow, cout].
 * Cross-correlation, as TensorFlow's. `params` may be NULL.
 */
RF_API rf_tensor rf_conv2d(rf_trace *t, rf_tensor x, rf_tensor kernel,
                           const rf_conv2d_params *params);

/**
 * Transposed convolution, which enlarges images: x [n, h, w, cin], kernel
 * [kh, kw, cout / groups, cin] -> [n, oh, ow, cout].
 * Without padding oh is h * stride + max(kh - stride, 0), as Keras' (with dilation, kh is the
 * distance from the kernel's first row to its last one, plus 1). With ::RF_PADDING_SAME it is h *
 * stride. With ::RF_PADDING_EXPLICIT it is (h - 1) * stride + kh without what the padding takes
 * away. `params` may be NULL.
 */
RF_API rf_tensor rf_conv2d_transpose(rf_trace *t, rf_tensor x, rf_tensor kernel,
                                     const rf_conv2d_params *params);

/** Windows of a pooling. NULL or zeroed: 2 x 2, without overlap or padding. */
typedef struct rf_pool2d_params {
    int32_t window[2]; /**< 0 means 2 */
    int32_t stride[2]; /**< 0 means the window */
    rf_padding padding;
    int32_t explicit_padding[4];
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_pool2d_params;
/**
 * Maximum over windows: [n, h, w, c] -> [n, oh, ow, c]. `params` may be NULL.
 * The gradient goes to the first maximum in row-major order.
 */
RF_API rf_tensor rf_max_pool2d(rf_trace *t, rf_tensor x, const rf_pool2d_params *params);
/** Mean over windows, padding excluded: [n, h, w, c] -> [n, oh, ow, c]. `params` may be NULL. */
RF_API rf_tensor rf_avg_pool2d(rf_trace *t, rf_tensor x, const rf_pool2d_params *params);
/** Mean over height and width: [n, h, w, c] -> [n, c]. */
RF_API rf_tensor rf_global_avg_pool2d(rf_trace *t, rf_tensor x);

/* ---- shape ---- */
/**
 * The same elements in another shape, of any type. At most one dimension may be -1, which stands
 * for the rest.
 */
RF_API rf_tensor rf_reshape(rf_trace *t, rf_tensor x, rf_shape shape);
/** [n, ...] -> [n, product of the rest]. */
RF_API rf_tensor rf_flatten(rf_trace *t, rf_tensor x);
/**
 * Permutes dimensions: dimension i of the result is dimension perm[i] of x. `perm` has as many
 * entries as x has dimensions.
 */
RF_API rf_tensor rf_transpose(rf_trace *t, rf_tensor x, const int32_t *perm);
/**
 * Takes ranges of the first `num_axes` axes, as NumPy's x[begin:end:step] does; the other axes stay
 * whole, and no axis is dropped. x is f32 or i32, other types are RF_ERROR_UNSUPPORTED.
 *
 * The range of axis i is begin[i], begin[i] + step[i], and so on, without end[i]. Negative begins
 * and ends count from the end of the axis; then both are cut to it. So INT64_MAX ends a range after
 * the last element, and INT64_MIN ends one with a negative step before the first. Steps are not 0
 * and fit 32 bits; a `step` of NULL means 1 everywhere. A range without elements is an error. Axis
 * 0 of a batch holds the examples of this replica. The arrays are read before the function returns.
 */
RF_API rf_tensor rf_slice(rf_trace *t, rf_tensor x, const int64_t *begin, const int64_t *end,
                          const int64_t *step, uint32_t num_axes);

/**
 * x with `updates` in the place of the elements start, start + 1, ... along `axis`, which may be
 * negative; as Keras' slice_update(), along one axis. x and updates are f32 and of one shape, but
 * for that axis, which must be no longer in updates. `start` is i32 of one element: a number of the
 * step, so that one trace serves all places. Updates that would lie outside of x are left out.
 * Where the axis follows the batch, a batch with which updates are longer than x is refused.
 * Gradients flow to x and updates.
 *
 * The keys and values that attention computed for earlier tokens are kept so: a variable that is
 * not trainable has room for all, each step adds its own, and rf_variable_update() keeps them.
 *
 * @code
 *     key = rf_slice_update(t, rf_variable_tensor(t, keys), key, place, 2);
 *     value = rf_slice_update(t, rf_variable_tensor(t, values), value, place, 2);
 *     y = rf_attention(t, query, key, value,
 *                      &(rf_attention_params){ .causal = true, .first_query = place });
 *     rf_variable_update(t, keys, key, RF_AGGREGATE_FIRST_REPLICA);
 *     rf_variable_update(t, values, value, RF_AGGREGATE_FIRST_REPLICA);
 * @endcode
 */
RF_API rf_tensor rf_slice_update(rf_trace *t, rf_tensor x, rf_tensor updates, rf_tensor start,
                                 int32_t axis);
/** x with the elements of `axis`, which may be negative, in reverse order; see rf_slice(). */
RF_API rf_tensor rf_reverse(rf_trace *t, rf_tensor x, int32_t axis);
/**
 * x (f32) with before[i] elements more before axis i and after[i] after it, for the first
 * `num_axes` axes, all of them `value`. None may be negative. Axis 0 of a batch holds the examples
 * of this replica. The arrays are read before the function returns.
 */
RF_API rf_tensor rf_pad(rf_trace *t, rf_tensor x, const int64_t *before, const int64_t *after,
                        uint32_t num_axes, float value);

/* ---- joining and splitting: of f32 or i32, other types are RF_ERROR_UNSUPPORTED; axes may be
 * negative. Axis 0 of a batch holds the examples of this replica: each joins or splits its own. */
/**
 * Joins tensors along `axis`, in their order. There is at least one; all have one type, and one
 * shape but for the axis. More than 7 are joined in groups, some elements of them more than once.
 */
RF_API rf_tensor rf_concat(rf_trace *t, const rf_tensor *tensors, uint32_t num_tensors,
                           int32_t axis);
/**
 * Splits x along `axis` into num_parts equal parts, out[0 .. num_parts - 1]. A dimension that does
 * not divide is an error. Its gradient is one rf_concat() of the parts' gradients.
 * @return the status of the trace; after a failure the parts are invalid tensors.
 */
RF_API rf_result rf_split_tensor(rf_trace *t, rf_tensor x, int32_t axis, uint32_t num_parts,
                                 rf_tensor *out);
/** Joins tensors of one shape along a new axis, which is number `axis` of the result. */
RF_API rf_tensor rf_stack(rf_trace *t, const rf_tensor *tensors, uint32_t num_tensors,
                          int32_t axis);
/**
 * copies[i] copies of x one after the other along axis i, for the first `num_axes` axes, as NumPy's
 * tile(). Each is 1 or more. The array is read before the function returns.
 */
RF_API rf_tensor rf_tile(rf_trace *t, rf_tensor x, const int64_t *copies, uint32_t num_axes);
/** x with a dimension of 1 more, which is number `axis` of the result. x has any type. */
RF_API rf_tensor rf_expand_dims(rf_trace *t, rf_tensor x, int32_t axis);
/** x without its dimension `axis`, which must be 1. x has any type. */
RF_API rf_tensor rf_squeeze(rf_trace *t, rf_tensor x, int32_t axis);
/**
 * Takes what i32 `indices` name along `axis` of x (f32, f16, bf16, i32, or u8 with a multiple of 4
 * elements behind that axis), as NumPy's take() does. The result has the indices' dimensions in the
 * place of that axis, and may have 6 in all. x is a table of rows [v, d] and `axis` 0: indices [n,
 * s] give [n, s, d], which is an embedding. `axis` may be negative.
 *
 * An index outside 0 .. v - 1, negative ones included, gives NaN, in whole numbers a value without
 * meaning. rf_strategy_run() refuses a batch that holds such a number where the step takes it for
 * an index as it is, and v is the same for every batch. The gradient of x adds up what was taken
 * several times in the order of its places, the same bits each time; indices have none.
 */
RF_API rf_tensor rf_gather(rf_trace *t, rf_tensor x, rf_tensor indices, int32_t axis);
/**
 * Takes positions of each example of its own: x f32 [n, s, ...], positions i32 [n, p] ->
 * [n, p, ...]. Otherwise as rf_gather().
 */
RF_API rf_tensor rf_gather_positions(rf_trace *t, rf_tensor x, rf_tensor positions);

/** How rf_upsample2d() fills in. */
typedef enum rf_interpolation {
    RF_INTERPOLATION_NEAREST,  /**< each pixel is repeated */
    RF_INTERPOLATION_BILINEAR, /**< between the middles of pixels; the border is repeated */
} rf_interpolation;
/**
 * Enlarges images by whole factors: x [n, h, w, c] -> [n, h * factor[0], w * factor[1], c], as
 * Keras' UpSampling2D. `factor` is two numbers, 1 to 512 each; NULL: 2 and 2. The array is read
 * before the function returns. Bilinear coordinates are those of ONNX' "half_pixel" and PyTorch's
 * align_corners=False. The gradient has a fixed order of additions.
 */
RF_API rf_tensor rf_upsample2d(rf_trace *t, rf_tensor x, const int32_t *factor,
                               rf_interpolation interpolation);

/** How rf_resize2d() computes a pixel. */
typedef enum rf_resize_method {
    RF_RESIZE_NEAREST,
    RF_RESIZE_BILINEAR,
    RF_RESIZE_BICUBIC, /**< of 16 pixels (Keys 1981) */
} rf_resize_method;
/** Where pixel i of a result of `to` pixels lies among the `from` pixels, scale being to / from. */
typedef enum rf_resize_coordinates {
    RF_RESIZE_HALF_PIXEL,         /**< (i + 0.5) / scale - 0.5: PyTorch's align_corners=False */
    RF_RESIZE_ALIGN_CORNERS,      /**< i (from - 1) / (to - 1): first and last pixels meet */
    RF_RESIZE_ASYMMETRIC,         /**< i / scale; rounded down, it is PyTorch's "nearest" */
    RF_RESIZE_PYTORCH_HALF_PIXEL, /**< as the first, but 0 where `to` is 1 */
    RF_RESIZE_TF_HALF_PIXEL,      /**< (i + 0.5) / scale: ONNX' "tf_half_pixel_for_nn" */
} rf_resize_coordinates;
/** Which pixel is nearest to a place between two. */
typedef enum rf_resize_rounding {
    RF_ROUND_HALF_DOWN, /**< the nearest; in the middle the first one */
    RF_ROUND_HALF_UP,
    RF_ROUND_DOWN,
    RF_ROUND_UP,
} rf_resize_rounding;
/** Size and method of rf_resize2d(). */
typedef struct rf_resize2d_params {
    int32_t size[2]; /**< height and width of the result: 1 to 2^20 */
    rf_resize_method method;
    rf_resize_coordinates coordinates;
    rf_resize_rounding rounding; /**< of RF_RESIZE_NEAREST */
    float scale[2];              /**< as coordinates have it, where it is not to / from; 0: it is */
    float cubic;                 /**< coefficient of RF_RESIZE_BICUBIC; 0: -0.75 (Keys has -0.5) */
    bool skip_outside; /**< pixels beyond the border have no weight; else the border is repeated */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_resize2d_params;
/** Images of another size, x [n, h, w, c] -> [n, size[0], size[1], c]: ONNX' Resize. Height and
 * width of x must not follow the batch. Nothing is smoothed where images become smaller. */
RF_API rf_tensor rf_resize2d(rf_trace *t, rf_tensor x, const rf_resize2d_params *params);
/** Where the channels of a pixel are among those that blocks of pixels become. */
typedef enum rf_block_order {
    RF_CHANNELS_INNER, /**< [block, block, c]: TensorFlow's, and "DCR" of ONNX */
    RF_CHANNELS_OUTER, /**< [c, block, block]: PyTorch's PixelShuffle, and "CRD" of ONNX */
} rf_block_order;
/** x [n, h, w, c * block * block] -> [n, h * block, w * block, c]. `block` is 1 to 1024. */
RF_API rf_tensor rf_depth_to_space(rf_trace *t, rf_tensor x, int32_t block, rf_block_order order);
/** The reverse of rf_depth_to_space(). */
RF_API rf_tensor rf_space_to_depth(rf_trace *t, rf_tensor x, int32_t block, rf_block_order order);

/* ---- reductions: axes may be negative; num_axes 0 reduces all ---- */
/** Whether a result has the dimensions that were reduced. */
typedef enum rf_reduced_dims {
    RF_DROP_DIMS, /**< the result lacks them */
    RF_KEEP_DIMS, /**< they remain as dimensions of 1 */
} rf_reduced_dims;
/** Sum over `axes`. */
RF_API rf_tensor rf_reduce_sum(rf_trace *t, rf_tensor x, const int32_t *axes, uint32_t num_axes,
                               rf_reduced_dims dims);
/**
 * Mean over `axes`, of the elements that this replica has: over the batch axis this is NOT the
 * global mean; see rf_compute_average_loss().
 */
RF_API rf_tensor rf_reduce_mean(rf_trace *t, rf_tensor x, const int32_t *axes, uint32_t num_axes,
                                rf_reduced_dims dims);
/**
 * Mean and variance over `axes`, as TensorFlow's tf.nn.moments(): of the elements that this replica
 * has, the variance divided by their number. Where the axes are all but the last, one walk over x
 * makes both.
 * @param variance one more tensor of the mean's shape.
 * @return the trace's status; on failure both are the invalid tensor.
 */
RF_API rf_result rf_moments(rf_trace *t, rf_tensor x, const int32_t *axes, uint32_t num_axes,
                            rf_reduced_dims dims, rf_tensor *mean, rf_tensor *variance);
/**
 * Maximum over `axes`. The gradient is divided equally among the elements that attain the maximum.
 */
RF_API rf_tensor rf_reduce_max(rf_trace *t, rf_tensor x, const int32_t *axes, uint32_t num_axes,
                               rf_reduced_dims dims);
/** Minimum over `axes`; otherwise as rf_reduce_max(). */
RF_API rf_tensor rf_reduce_min(rf_trace *t, rf_tensor x, const int32_t *axes, uint32_t num_axes,
                               rf_reduced_dims dims);
/** Index (i32) of the first maximum along the last axis: [..., c] -> [...]. It has no gradient. */
RF_API rf_tensor rf_argmax(rf_trace *t, rf_tensor x);
/** Index (i32) of the first minimum along the last axis, as rf_argmax(). */
RF_API rf_tensor rf_argmin(rf_trace *t, rf_tensor x);

/**
 * The k largest elements along the last axis, the largest first, and where they are: [..., c] ->
 * [..., k]. The first of equal ones comes first; NaN counts as the largest number, so that it is
 * not overlooked. k is 1 to c. The gradient of the values goes to the elements that they are.
 * @param[out] values f32
 * @param[out] indices i32; NULL where they are not wanted
 * @return the status of the trace; after a failure the results are invalid tensors.
 */
RF_API rf_result rf_top_k(rf_trace *t, rf_tensor x, int32_t k, rf_tensor *values,
                          rf_tensor *indices);

/** The order of rf_sort(). */
typedef enum rf_sort_order {
    RF_ASCENDING,
    RF_DESCENDING, /**< the largest element comes first */
} rf_sort_order;
/**
 * Sorts x along `axis`; negative axes count from the end. Equal elements keep their order, and NaN
 * comes last in either direction. Along the batch axis each replica sorts the examples that it has.
 * The gradient goes back to where the elements were.
 */
RF_API rf_tensor rf_sort(rf_trace *t, rf_tensor x, int32_t axis, rf_sort_order order);
/** Where the elements of rf_sort() were along `axis`: i32, of the shape of x, without gradient. */
RF_API rf_tensor rf_argsort(rf_trace *t, rf_tensor x, int32_t axis, rf_sort_order order);

/* ---- scans ---- */
/**
 * The elements that a cumulative sum or product covers. The inclusive forms count each element in
 * its own result; the exclusive ones leave it out, so that the first result is 0 or 1. The reverse
 * forms begin with the last element.
 */
typedef enum rf_scan_form {
    RF_SCAN_INCLUSIVE = 0,
    RF_SCAN_EXCLUSIVE = 1,
    RF_SCAN_INCLUSIVE_REVERSE = 2,
    RF_SCAN_EXCLUSIVE_REVERSE = 3,
} rf_scan_form;
/** Cumulative sums along the last axis. */
RF_API rf_tensor rf_cumsum(rf_trace *t, rf_tensor x, rf_scan_form form);
/**
 * Cumulative products along the last axis. A product that does not fit a float on the way, but
 * again behind it, is right there: products keep exponents of their own. So is the gradient, with
 * factors of 0 too: nothing is divided by them. Its rounding error is that of the largest addend.
 * Gradients of the gradient are right where the products before and behind an element fit a float.
 */
RF_API rf_tensor rf_cumprod(rf_trace *t, rf_tensor x, rf_scan_form form);

/* ---- recurrence: all steps of a sequence in one operation ---- */
/** Kinds of recurrent layers. */
typedef enum rf_rnn_kind {
    RF_RNN_GRU,   /**< gates update, reset, candidate; h = z * h + (1 - z) * candidate */
    RF_RNN_LSTM,  /**< gates input, forget, cell, output */
    RF_RNN_SIMPLE /**< h = tanh(x + h * recurrent + bias) */
} rf_rnn_kind;
/** Options of rf_rnn(). NULL or zeroed: a GRU in Keras' default form. */
typedef struct rf_rnn_params {
    rf_rnn_kind kind;
    bool reset_before; /**< GRU: the state is reset before the product (Keras' reset_after = false)
                        */
    bool backwards;    /**< from the last step to the first; outputs stay where their inputs are */
    rf_tensor mask;    /**< f32 [n, steps]; a step where it is 0 keeps the state and repeats it as
                            its output, the initial one too (Keras gives zeros before the
                            first step that counts). Zeroed: none */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_rnn_params;
/**
 * A recurrent layer over x [n, steps, gates * units], which is its input times the kernel (a GRU
 * has 3 gates, an LSTM 4, in the order above, the simple one 1). `recurrent` is [units, gates *
 * units]. `bias` is [gates * units], which joins the product of state and recurrent, or the invalid
 * tensor. `state` is two tensors, the initial h and (LSTM) c, [n, units] each, both or none; NULL
 * or invalid tensors stand for zeros. A device executes the steps one after the other: programs
 * grow with their number. No gradient flows into the mask.
 * @param[out] sequence h after each step, [n, steps, units]
 * @param[out] final two tensors, the last h and (LSTM) c, [n, units]; final[1] is otherwise the
 *   invalid tensor. May be NULL.
 * @return RF_ERROR_INVALID_ARGUMENT for other shapes and types, and for a state without a part. The
 *   trace then has failed, as with every other error.
 */
RF_API rf_result rf_rnn(rf_trace *t, rf_tensor x, rf_tensor recurrent, rf_tensor bias,
                        const rf_tensor *state, const rf_rnn_params *params, rf_tensor *sequence,
                        rf_tensor *final);

/* ---- normalization: of each example by itself ---- */
/**
 * Layer normalization (Ba, Kiros & Hinton 2016): (x - mean) / sqrt(variance + epsilon) * gamma +
 * beta, where mean and (biased) variance are those of the row: x [n..., c], gamma and beta [c].
 * gamma or beta may be the invalid tensor: there is none. `epsilon` 0: 1e-3, as in Keras (PyTorch
 * has 1e-5). The variance is the mean of squares of centred values, so that rows far from zero
 * keep their digits.
 */
RF_API rf_tensor rf_layer_norm(rf_trace *t, rf_tensor x, rf_tensor gamma, rf_tensor beta,
                               float epsilon);
/**
 * Root mean square normalization (Zhang & Sennrich 2019): x / sqrt(mean of squares + epsilon) *
 * gamma. gamma [c] may be the invalid tensor: there is none. `epsilon` 0: 1e-6, as in Keras.
 */
RF_API rf_tensor rf_rms_norm(rf_trace *t, rf_tensor x, rf_tensor gamma, float epsilon);
/**
 * Group normalization (Wu & He 2018): the channels of x [n, ...] are divided into `groups` of
 * consecutive ones, and each group of each example is normalised over all its places: (x - mean) /
 * sqrt(variance + epsilon) * gamma + beta. gamma and beta are [channels]; each may be the invalid
 * tensor: there is none.
 * @param groups 0: 32, as in Keras; -1: as many as there are channels, which is instance
 *   normalization (Ulyanov, Vedaldi & Lempitsky 2016). They must divide the channels.
 * @param axis of the channels; negative counts from the last. 0 (the batch): the last
 * @param epsilon 0: 1e-3, as in Keras (PyTorch has 1e-5)
 */
RF_API rf_tensor rf_group_norm(rf_trace *t, rf_tensor x, rf_tensor gamma, rf_tensor beta,
                               int32_t groups, int32_t axis, float epsilon);

/* ---- attention ---- */
/** How rf_attention() is computed. The results agree up to rounding. */
typedef enum rf_attention_form {
    RF_ATTENTION_AUTO,     /**< fused in training where that is faster on all devices, and there is
                                    no dropout; else composed */
    RF_ATTENTION_COMPOSED, /**< of products and a softmax: memory for all scores, [n, heads, t, s],
                                in f32 whatever the operands are stored in */
    RF_ATTENTION_FUSED /**< one operation that never writes all scores, so that memory grows with
                            t + s. Slow where a device has no fast kernel; without dropout and ONNX
                            form */
} rf_attention_form;

/** Options of rf_attention(): the keys that a query attends to. NULL or zeroed: every key. */
typedef struct rf_attention_params {
    rf_tensor mask; /**< f32, 0 where a query does not attend to a key; the shape of the scores
                         [n, heads, t, s], or 1 in some of its dimensions. Zeroed: none */
    float scale;    /**< of the scores; 0 means 1 / sqrt(k) */
    float dropout;  /**< rate in [0, 1) of rf_dropout() on the weights, in training */
    uint64_t dropout_seed;  /**< as that of rf_dropout() */
    bool causal;            /**< query i attends to the keys 0 .. i + s - t: the last one to all */
    rf_attention_form form; /**< zeroed: chosen by shapes and devices */
    /** With `causal`: i32 of one element, not negative, a number of the step. Query i attends to
     * the keys 0 .. first_query + i: earlier steps had the queries of the first ones, and the last
     * ones need not be there yet; see rf_slice_update(). Zeroed: s - t */
    rf_tensor first_query;
    int32_t window; /**< with `causal`: at most so many keys, the last of those; 0: all of them */
    /** c: scores become c * tanh(score / c) before the softmax, in the composed form; 0: not */
    float softcap;
    /** i32 or f32 [n, t], t = s, whole numbers below 2^24: a query attends to keys with its own
     * number, as of the sequences in a row of rf_dataset_pack(). Zeroed: all are of one */
    rf_tensor segments;
    uint64_t reserved[1]; /**< zero: room for later fields */
} rf_attention_params;
/**
 * Scaled dot-product attention (Vaswani et al. 2017): query [n, heads, t, k], key [n, heads, s, k],
 * value [n, heads, s, v] -> [n, heads, t, v]. Each row of the result is a mean of the values,
 * weighted by softmax(scale * query . key) over the keys that the query attends to; where there are
 * none it is 0. No gradient goes to the mask, and a NaN in it counts as attended to. A key that a
 * query does not attend to has weight 0; whether infinities and NaN among such values make the
 * result NaN depends on the form. `params` may be NULL.
 * @return the result; the trace fails with RF_ERROR_INVALID_ARGUMENT for other shapes and types.
 */
RF_API rf_tensor rf_attention(rf_trace *t, rf_tensor query, rf_tensor key, rf_tensor value,
                              const rf_attention_params *params);

/*
 * ---- classification and regression ----
 * The predictions of a crossentropy are probabilities or logits. Where the graph shows that
 * probabilities are what rf_softmax() (of the binary one rf_sigmoid()) made, perhaps converted or
 * in another shape, the loss is computed from the logits in front of it, as in Keras. A model that
 * is sure of the wrong class still has a gradient. rf_gradients() by the probabilities themselves
 * is then RF_ERROR_INVALID_ARGUMENT.
 */
/** The form of a crossentropy's predictions. */
typedef enum rf_prediction_form {
    RF_PROBABILITIES, /**< numbers that softmax or a sigmoid made */
    RF_LOGITS,        /**< numbers of any size, from which they are made */
} rf_prediction_form;
/** Softmax along the last axis. */
RF_API rf_tensor rf_softmax(rf_trace *t, rf_tensor x);
/** Logarithm of the softmax along the last axis. */
RF_API rf_tensor rf_log_softmax(rf_trace *t, rf_tensor x);
/** i32 class numbers [...] -> f32 [..., depth]. Numbers out of range give zeros. */
RF_API rf_tensor rf_one_hot(rf_trace *t, rf_tensor indices, int32_t depth);
/**
 * labels i32 [n...], predictions [n..., c] -> losses per example [n...].
 * A label outside 0 .. c - 1 gives NaN, and is refused in a batch as rf_gather() says.
 * Probabilities are treated as in rf_categorical_crossentropy().
 */
RF_API rf_tensor rf_sparse_categorical_crossentropy(rf_trace *t, rf_tensor labels,
                                                    rf_tensor predictions, rf_prediction_form form);
/**
 * labels f32 [n..., c], predictions [n..., c] -> losses per example [n...].
 * Probabilities that no softmax made are normalised and clipped to [1e-7, 1 - 1e-7], as in Keras.
 */
RF_API rf_tensor rf_categorical_crossentropy(rf_trace *t, rf_tensor labels, rf_tensor predictions,
                                             rf_prediction_form form);
/**
 * labels f32 [n..., c] of 0 to 1, predictions [n..., c] -> the mean over the last axis of
 * -(y log p + (1 - y) log(1 - p)), [n...]. Probabilities that no sigmoid
 * made are clipped to [1e-7, 1 - 1e-7], as in Keras.
 */
RF_API rf_tensor rf_binary_crossentropy(rf_trace *t, rf_tensor labels, rf_tensor predictions,
                                        rf_prediction_form form);
/** Mean over the last axis of squared differences: [n..., c] -> [n...]. */
RF_API rf_tensor rf_mean_squared_error(rf_trace *t, rf_tensor labels, rf_tensor predictions);
/** Mean over the last axis of absolute differences: [n..., c] -> [n...]. */
RF_API rf_tensor rf_mean_absolute_error(rf_trace *t, rf_tensor labels, rf_tensor predictions);
/**
 * Mean over the last axis of e^2 / 2 where the difference |e| is `delta` at most, else of delta *
 * |e| - delta^2 / 2: [n..., c] -> [n...]. `delta` 0: 1, as in Keras.
 */
RF_API rf_tensor rf_huber(rf_trace *t, rf_tensor labels, rf_tensor predictions, float delta);
/**
 * Kullback-Leibler divergence of predictions from labels, both probabilities [n..., c], clipped to
 * [1e-7, 1] as in Keras: the sum over the last axis of y log(y / p), [n...].
 */
RF_API rf_tensor rf_kl_divergence(rf_trace *t, rf_tensor labels, rf_tensor predictions);

/* ---- other ---- */
/**
 * In training, sets elements to zero with probability `rate` in [0, 1) and scales the others by 1 /
 * (1 - rate). Outside of training it returns x.
 * The mask is a function of seed, step and position in the global batch alone (Philox4x32-10,
 * Salmon et al. 2011): it is the same on every device and for every split of the batch. The batch
 * may be any dimension of x, a part of one ([n * t, c]) or several in a row ([2 * n, c]): elements
 * keep the numbers of their example. A tensor without a batch, such as a variable, has the same
 * mask on all replicas. `seed` 0: derived from the seed of the strategy and the place in the trace.
 * Where others compute a share of the batch, too, ::RF_ERROR_UNSUPPORTED names the operation since
 * which elements do not belong to one example each. Then x is [n, n], or the batch was reversed,
 * sorted, shifted or joined with other rows.
 */
RF_API rf_tensor rf_dropout(rf_trace *t, rf_tensor x, float rate, uint64_t seed);
/**
 * Numbers of a uniform distribution between `low` and `high`, in the shape of `like`, f32, whose
 * elements are not read. As with rf_dropout(), each is a function of the seed, the step and the
 * element's place in the global batch. It does not depend on how many replicas there are, and the
 * same tensors are refused. They are drawn in inference too, where a function without `training`
 * has the same ones in each run. No gradient.
 * @param seed 0: the strategy's, and another sequence for each call in a step.
 */
RF_API rf_tensor rf_random_uniform(rf_trace *t, rf_tensor like, float low, float high,
                                   uint64_t seed);
/** The same with mean 0 and deviation 1, normally distributed; none is beyond 5.8. */
RF_API rf_tensor rf_random_normal(rf_trace *t, rf_tensor like, uint64_t seed);
/** Converts the element type. Tensors cannot be i64. */
RF_API rf_tensor rf_cast(rf_trace *t, rf_tensor x, rf_dtype dtype);
/** The value of x, without a gradient. */
RF_API rf_tensor rf_stop_gradient(rf_trace *t, rf_tensor x);
/**
 * Differentiates: grads[i] becomes d loss / d targets[i], of the shape of the target, with zeros
 * where a target has no influence. `loss` must be a scalar.
 * Every handle that a tracing function returned is a target of its own: of two equal expressions
 * each gets the gradient that flows through it alone, although they are computed only once.
 * Variables and inputs of the step are one target each, however often they are read.
 * @return RF_ERROR_NO_GRADIENT when an operation in between has no gradient; `grads` are then
 *   invalid tensors.
 */
RF_API rf_result rf_gradients(rf_trace *t, rf_tensor loss, const rf_tensor *targets,
                              uint32_t num_targets, rf_tensor *grads);

#ifdef __cplusplus
}
#endif
#endif
