/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All operations: the registry, their attributes, and functions that append them to a graph. Gradients and the public
 * tracing functions are written with these. Each `rf_emit_*` infers shapes and returns a failure that names the op and
 * shapes.
 */
#ifndef RF_OPS_OPS_H
#define RF_OPS_OPS_H

#include <ringfire/ops.h>

#include "graph/graph.h"

/* Every op, in a fixed order: what tests, benchmarks and docs walk. */
const rf_op *const *rf_ops_all(uint32_t *count);
const rf_op *rf_ops_find(const char *name); /* NULL when unknown */
const rf_core_ops *rf_ops_core(void);
/* As files call them, by number; the functions give "?" for a number that is none. */
extern const char *const rf_padding_names[RF_PADDING_EXPLICIT + 1];
extern const char *const rf_activation_names[RF_ACTIVATION_SOFTMAX + 1];
const char *rf_padding_name(uint32_t padding);
const char *rf_activation_name(uint32_t activation);

/* ---- element-wise (elementwise.c): one op runs a short program per element ---- */
typedef enum rf_scalar_fn {
    /* one operand */
    RF_FN_COPY,
    RF_FN_NEGATIVE,
    RF_FN_ABS,
    RF_FN_SIGN,
    RF_FN_SQUARE,
    RF_FN_EXP,
    RF_FN_LOG,
    RF_FN_SQRT,
    RF_FN_TANH,
    RF_FN_SIGMOID,
    RF_FN_RELU,
    RF_FN_LEAKY_RELU /* imm: alpha */,
    RF_FN_GELU_ERF,
    RF_FN_GELU_TANH,
    RF_FN_GELU_ERF_SLOPE,
    RF_FN_GELU_TANH_SLOPE,
    RF_FN_ADD_IMM,
    RF_FN_MUL_IMM,
    /* two operands */
    RF_FN_ADD,
    RF_FN_SUBTRACT,
    RF_FN_MULTIPLY,
    RF_FN_DIVIDE,
    RF_FN_POW,
    RF_FN_MAXIMUM,
    RF_FN_MINIMUM,
    RF_FN_GREATER /* 1, 0 */,
    RF_FN_GREATER_EQUAL,
    RF_FN_EQUAL,
    RF_FN_RELU_GRAD /* (dy, y): y > 0 ? dy : 0 */,
    RF_FN_LEAKY_RELU_GRAD /* (dy, y), imm: alpha */,
    RF_FN_TANH_GRAD /* (dy, y) */,
    RF_FN_SIGMOID_GRAD /* (dy, y) */,
    RF_FN_SQRT_GRAD /* (dy, y) */,
    RF_FN_POW_SLOPE /* (a, b): d a^b / da */,
    RF_FN_POW_LOG /* (a, b): times a^b: d a^b / db */,
    RF_FN_COUNT
} rf_scalar_fn;
#define RF_MAX_STEPS 8
/* Step i computes register n_in + i from registers (inputs are registers 0 .. n_in - 1); the last step is the output.
 */
typedef struct rf_scalar_step {
    uint8_t fn, a, b, unused;
    float imm;
} rf_scalar_step;
typedef struct rf_elementwise_attr {
    uint32_t n_steps;
    rf_scalar_step steps[RF_MAX_STEPS];
} rf_elementwise_attr;
extern const rf_op rf_op_elementwise; /* inputs broadcast together (NumPy's rules); output f32 */
rf_result rf_emit_unary(rf_graph *g, rf_scalar_fn fn, float imm, rf_value x, rf_value *out);
rf_result rf_emit_binary(rf_graph *g, rf_scalar_fn fn, float imm, rf_value a, rf_value b, rf_value *out);
/* Sums over the axes that broadcasting added, so that the result has `like`'s shape. Identity where shapes agree. */
extern const rf_op rf_op_sum_to_like;
rf_result rf_emit_sum_to_like(rf_graph *g, rf_value x, rf_value like, rf_value *out);
extern const rf_op rf_op_fill_like; /* in[0] shape only; attr: float */
rf_result rf_emit_fill_like(rf_graph *g, float value, rf_value like, rf_value *out);
extern const rf_op rf_op_broadcast_like; /* x broadcast to the shape of in[1] (shape only) */
rf_result rf_emit_broadcast_like(rf_graph *g, rf_value x, rf_value like, rf_value *out);

/* ---- matmul.c ---- */
typedef struct rf_matmul_attr {
    uint32_t transpose_a, transpose_b, activation /* rf_activation */;
} rf_matmul_attr;
extern const rf_op rf_op_matmul; /* a, b[, bias] */
rf_result rf_emit_matmul(rf_graph *g, rf_value a, rf_value b, bool transpose_a, bool transpose_b, rf_value *out);
extern const rf_op rf_op_bias_add; /* x [..., c], bias [c] */
rf_result rf_emit_bias_add(rf_graph *g, rf_value x, rf_value bias, rf_value *out);

/* ---- conv2d*.c ---- */
typedef struct rf_conv2d_attr {
    int32_t padding, stride[2], dilation[2], groups, explicit_padding[4];
    uint32_t activation;
    uint32_t relu_mask;     /* gradient ops with an extra input y: dy counts only where y > 0 */
    uint32_t bias_gradient; /* filter_grad: 1 asks for its second output */
} rf_conv2d_attr;
extern const rf_attr_field rf_conv2d_fields[8]; /* of all three */
extern const rf_op rf_op_conv2d;                /* x, kernel[, bias] */
extern const rf_op rf_op_conv2d_data_grad;      /* dy, kernel, x (shape only) -> dx */
extern const rf_op rf_op_conv2d_filter_grad;    /* x, dy, kernel (shape only) -> dkernel[, dbias] */
rf_result rf_emit_conv2d(rf_graph *g, rf_value x, rf_value kernel, const rf_conv2d_params *params, rf_value *out);

/* ---- pool.c ---- */
typedef struct rf_pool2d_attr {
    int32_t window[2], stride[2], padding, explicit_padding[4];
    uint32_t relu_mask;
} rf_pool2d_attr;
extern const rf_op rf_op_max_pool2d, rf_op_max_pool2d_grad /* dy, x, y -> dx */;
extern const rf_op rf_op_avg_pool2d, rf_op_avg_pool2d_grad /* dy, x (shape only) -> dx */;
rf_result rf_emit_max_pool2d(rf_graph *g, rf_value x, const rf_pool2d_params *params, rf_value *out);
rf_result rf_emit_avg_pool2d(rf_graph *g, rf_value x, const rf_pool2d_params *params, rf_value *out);
rf_result rf_emit_global_avg_pool2d(rf_graph *g, rf_value x, rf_value *out);

/* ---- shape.c ---- */
extern const rf_op rf_op_reshape, rf_op_reshape_like /* x, like (shape only) */, rf_op_transpose, rf_op_stop_gradient;
rf_result rf_emit_reshape(rf_graph *g, rf_value x, rf_shape shape, rf_value *out);
rf_result rf_emit_reshape_like(rf_graph *g, rf_value x, rf_value like, rf_value *out);
rf_result rf_emit_flatten(rf_graph *g, rf_value x, rf_value *out);
rf_result rf_emit_transpose(rf_graph *g, rf_value x, const int32_t *perm, rf_value *out);
rf_result rf_emit_stop_gradient(rf_graph *g, rf_value x, rf_value *out);

/* ---- reduce.c ---- */
typedef enum rf_reduce_kind {
    RF_REDUCE_KIND_SUM,
    RF_REDUCE_KIND_MEAN,
    RF_REDUCE_KIND_MAX,
    RF_REDUCE_KIND_SUM_SQUARES,
    RF_REDUCE_KIND_SUM_ABS
} rf_reduce_kind;
typedef struct rf_reduce_attr {
    uint32_t kind, axes_mask, keep_dims;
} rf_reduce_attr;
extern const rf_op rf_op_reduce, rf_op_argmax;
rf_result rf_emit_reduce(rf_graph *g, rf_reduce_kind kind, rf_value x, const int32_t *axes, uint32_t num_axes,
                         bool keep_dims, rf_value *out);
rf_result rf_emit_argmax(rf_graph *g, rf_value x, rf_value *out);

/* ---- cumsum.c ---- */
typedef struct rf_cumsum_attr {
    uint32_t exclusive, reverse;
} rf_cumsum_attr;
extern const rf_op rf_op_cumsum; /* along the last axis */
rf_result rf_emit_cumsum(rf_graph *g, rf_value x, bool exclusive, bool reverse, rf_value *out);

/* ---- softmax.c, loss.c ---- */
extern const rf_op rf_op_softmax, rf_op_softmax_grad, rf_op_log_softmax, rf_op_log_softmax_grad, rf_op_one_hot;
extern const rf_op rf_op_sparse_crossentropy, rf_op_sparse_crossentropy_grad;
extern const rf_op rf_op_crossentropy, rf_op_crossentropy_grad;
extern const rf_op rf_op_accuracy; /* labels (i32 or one-hot f32), predictions -> f32 1 or 0 per example; no gradient */
rf_result rf_emit_softmax(rf_graph *g, rf_value x, rf_value *out);
rf_result rf_emit_log_softmax(rf_graph *g, rf_value x, rf_value *out);
rf_result rf_emit_one_hot(rf_graph *g, rf_value indices, int32_t depth, rf_value *out);
rf_result rf_emit_sparse_crossentropy(rf_graph *g, rf_value labels, rf_value predictions, bool from_logits,
                                      rf_value *out);
rf_result rf_emit_crossentropy(rf_graph *g, rf_value labels, rf_value predictions, bool from_logits, rf_value *out);
rf_result rf_emit_mean_squared_error(rf_graph *g, rf_value labels, rf_value predictions, rf_value *out);
rf_result rf_emit_accuracy(rf_graph *g, rf_value labels, rf_value predictions, rf_value *out);

/* ---- random.c, cast.c ---- */
/* random: HOST value i32 [6] = { seed low, seed high, step low, step high, first example of this replica, 0 }. The
 * counter of element e of example n is (first + n) * elements_per_example + e. */
typedef struct rf_dropout_attr {
    float rate;
    uint32_t stream;
    uint64_t seed;
} rf_dropout_attr;
extern const rf_op rf_op_dropout, rf_op_dropout_grad; /* x (or dy), random */
rf_result rf_emit_dropout(rf_graph *g, rf_value x, rf_value random, float rate, uint32_t stream, uint64_t seed,
                          rf_value *out);
extern const rf_op rf_op_cast; /* attr: uint32_t dtype */
rf_result rf_emit_cast(rf_graph *g, rf_value x, rf_dtype dtype, rf_value *out);

/* ---- update.c: flat ranges of parameters ---- */
/* Numbers an update reads at run time, one HOST value f32 [RF_HYPER_COUNT]; set by the optimizer before each step. */
enum {
    RF_HYPER_RATE,
    RF_HYPER_GRAD_SCALE /* clip and accumulation factor */,
    RF_HYPER_CLIP_VALUE /* 0: off */,
    RF_HYPER_WEIGHT_DECAY /* already times the rate */,
    RF_HYPER_BETA_1,
    RF_HYPER_BETA_2,
    RF_HYPER_CORRECTION_1 /* 1 / (1 - beta_1^t) */,
    RF_HYPER_CORRECTION_2,
    RF_HYPER_EPSILON,
    RF_HYPER_MOMENTUM,
    RF_HYPER_RHO,
    RF_HYPER_COUNT = 12
};
/* All mutate param (and slots) of one length; in: param, grad, slots..., hyper. */
extern const rf_op rf_op_sgd_update;      /* no slot */
extern const rf_op rf_op_momentum_update; /* 1 slot; attr: uint32_t nesterov */
extern const rf_op rf_op_adam_update;     /* 2 slots: m, v */
extern const rf_op rf_op_rmsprop_update;  /* 2 slots: mean square, momentum */
extern const rf_op rf_op_accumulate;      /* total (mutated) += x, same shape */
/* Metric state f32 [4] (mutated) = { total, compensation, weight, unused }: adds sum(x * w) by Neumaier's compensated
 * sum and sum(w); x [n], w [n] optional (else 1 each). */
extern const rf_op rf_op_metric_accumulate;
rf_result rf_emit_update(rf_graph *g, const rf_op *op, const void *attr, const rf_value *in, uint32_t n_in);

#endif
