/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All operations: the registry, their attributes, and functions that append them to a graph. Gradients and the public
 * tracing functions are written with these. Each `rf_emit_*` infers shapes and returns a failure that names the op and
 * shapes.
 */
#ifndef RF_OPS_OPS_H
#define RF_OPS_OPS_H

#include <ringfire/ops.h>

#include "base/loss_scale.h"
#include "graph/graph.h"
#include "ops/op_list.h"

#define RF_OP_DECLARE(name) extern const rf_op rf_op_##name;
RF_ALL_OPS(RF_OP_DECLARE)
#undef RF_OP_DECLARE

/* Every op, in a fixed order: what tests, benchmarks and docs walk. */
const rf_op *const *rf_ops_all(uint32_t *count);
const rf_op *rf_ops_find(const char *name); /* NULL when unknown */
const rf_core_ops *rf_ops_core(void);
/* As files call them, by number; the functions give "?" for a number that is none. */
extern const char *const rf_padding_names[RF_PADDING_EXPLICIT + 1];
enum { RF_ACTIVATION_COUNT = RF_ACTIVATION_HARD_SIGMOID + 1 };
extern const char *const rf_activation_names[RF_ACTIVATION_COUNT];
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
    RF_FN_SIN,
    RF_FN_COS,
    RF_FN_FLOOR,
    RF_FN_ROUND /* halves to the even neighbour */,
    RF_FN_LOG1P,
    RF_FN_EXPM1,
    RF_FN_ERF,
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
    RF_FN_WHERE /* (mask, b): b where mask is not 0, else 0 */,
    RF_FN_WHERE_NOT /* (mask, b): b where mask is 0, else 0 */,
    /* Comparisons of i32, which only inputs of a program can be; the results are f32. */
    RF_FN_WHOLE_GREATER,
    RF_FN_WHOLE_GREATER_EQUAL,
    RF_FN_WHOLE_EQUAL,
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
rf_result rf_emit_unary(rf_graph *g, rf_scalar_fn fn, float imm, rf_value x, rf_value *out);
rf_result rf_emit_binary(rf_graph *g, rf_scalar_fn fn, float imm, rf_value a, rf_value b, rf_value *out);
/* Identity where shapes agree. */
rf_result rf_emit_sum_to_like(rf_graph *g, rf_value x, rf_value like, rf_value *out);
rf_result rf_emit_fill_like(rf_graph *g, float value, rf_value like, rf_value *out);
rf_result rf_emit_broadcast_like(rf_graph *g, rf_value x, rf_value like, rf_value *out);

/* ---- matmul.c ---- */
typedef struct rf_matmul_attr {
    uint32_t transpose_a, transpose_b, activation /* rf_activation */;
    /* 1 asks for a second output, the sums of b over its rows: of a transposed by b, both matrices, as in the gradient
     * of a dense layer's kernel, where they are the bias' gradient. A kernel that does not make them refuses. */
    uint32_t bias_gradient;
    uint32_t relu_mask; /* 1: input 2 is no bias but like the product, which counts only where that is > 0 */
    uint32_t f32;       /* 1: the product is stored so, whatever a and b are stored in */
} rf_matmul_attr;
rf_result rf_emit_matmul(rf_graph *g, rf_value a, rf_value b, bool transpose_a, bool transpose_b, rf_value *out);
/* The same in f32, whatever the operands are stored in. */
rf_result rf_emit_wide_matmul(rf_graph *g, rf_value a, rf_value b, bool transpose_a, bool transpose_b, rf_value *out);
rf_result rf_emit_bias_add(rf_graph *g, rf_value x, rf_value bias, rf_value *out);

/* ---- quantized.c ---- */
/* A matrix of few bits: how it is stored, and its shape. transposed: a product is one with its transpose. */
typedef struct rf_quantized_attr {
    uint32_t kind /* rf_quantization */, transposed;
    int64_t lines, length;
} rf_quantized_attr;
/* x [..., lines] W -> [..., length], or x [..., length] W^T -> [..., lines]. */
rf_result rf_emit_matmul_quantized(rf_graph *g, rf_value x, rf_value words, const rf_quantized_attr *attr,
                                   rf_value *out);
/* Lines of W, in f32. */
rf_result rf_emit_gather_quantized(rf_graph *g, rf_value words, rf_value indices, const rf_quantized_attr *attr,
                                   rf_value *out);

/* ---- conv2d*.c ---- */
typedef struct rf_conv2d_attr {
    int32_t padding, stride[2], dilation[2], groups, explicit_padding[4];
    uint32_t activation;
    uint32_t relu_mask;     /* gradient ops with an extra input y: dy counts only where y > 0 */
    uint32_t bias_gradient; /* filter_grad: 1 asks for its second output */
    uint32_t max_pool;      /* conv2d: 1 asks for its second output, the maxima of 2 x 2 windows side by side */
    uint32_t f32;           /* filter_grad: 1 asks for its first output in f32, whatever x and dy are stored in */
} rf_conv2d_attr;
extern const rf_attr_field rf_conv2d_fields[10]; /* of all four */
rf_result rf_emit_conv2d(rf_graph *g, rf_value x, rf_value kernel, const rf_conv2d_params *params, rf_value *out);
rf_result rf_emit_conv2d_transpose(rf_graph *g, rf_value x, rf_value kernel, const rf_conv2d_params *params,
                                   rf_value *out);

/* ---- rnn.c ---- */
/* `state`: initial states are given; of the gradient: one flows into the cell states. */
typedef struct rf_rnn_attr {
    uint32_t kind, reset_before, backwards, state, mask;
} rf_rnn_attr;
/* bias, states and mask may be 0: there is none. final[1] is a cell state's, and 0 where there is none. */
rf_result rf_emit_rnn(rf_graph *g, rf_value x, rf_value recurrent, rf_value bias, const rf_value state[2],
                      rf_value mask, const rf_rnn_attr *attr, rf_value *sequence, rf_value final[2]);

/* ---- pool.c ---- */
typedef struct rf_pool2d_attr {
    int32_t window[2], stride[2], padding, explicit_padding[4];
    uint32_t relu_mask;
} rf_pool2d_attr;
rf_result rf_emit_max_pool2d(rf_graph *g, rf_value x, const rf_pool2d_params *params, rf_value *out);
rf_result rf_emit_avg_pool2d(rf_graph *g, rf_value x, const rf_pool2d_params *params, rf_value *out);
rf_result rf_emit_global_avg_pool2d(rf_graph *g, rf_value x, rf_value *out);

/* ---- shape.c ---- */
/* In a reshape's attribute: the size of that dimension of x. Only graphs of files have it. */
enum { RF_RESHAPE_KEEP = -2 };
rf_result rf_emit_reshape(rf_graph *g, rf_value x, rf_shape shape, rf_value *out);
rf_result rf_emit_reshape_like(rf_graph *g, rf_value x, rf_value like, rf_value *out);
/* ---- regroup.c ---- */
/* Dimension d of the result is times[d], multiplied by those dimensions of input from[d] that axes[d] has a bit for. */
typedef struct rf_regroup_attr {
    uint32_t rank, from[RF_MAX_RANK], axes[RF_MAX_RANK], unused;
    int64_t times[RF_MAX_RANK];
} rf_regroup_attr;
/* So many times the product of dimensions of a tensor: bit d of `axes` is dimension d. No axes: a fixed number. */
typedef struct rf_size {
    int64_t times;
    rf_value of;
    uint32_t axes;
} rf_size;
/* Reshapes x, whatever the batch: a number that is read from a shape is that of the traced one. It is a plain reshape
 * where at most one of the sizes follows the batch. */
rf_result rf_emit_regroup(rf_graph *g, rf_value x, const rf_size *sizes, uint32_t rank, rf_value *out);
/* Makes `count` dimensions of x one. */
rf_result rf_emit_join_dims(rf_graph *g, rf_value x, uint32_t first, uint32_t count, rf_value *out);
/* ---- shape.c ---- */
typedef struct rf_axis_attr {
    uint32_t axis;
} rf_axis_attr;
/* A dimension of 1 more or less. Axes may be negative; those of expand_dims are the result's. */
rf_result rf_emit_expand_dims(rf_graph *g, rf_value x, int32_t axis, rf_value *out);
rf_result rf_emit_squeeze(rf_graph *g, rf_value x, int32_t axis, rf_value *out);
rf_result rf_emit_flatten(rf_graph *g, rf_value x, rf_value *out);
typedef struct rf_transpose_attr {
    int32_t perm[RF_MAX_RANK];
} rf_transpose_attr;
rf_result rf_emit_transpose(rf_graph *g, rf_value x, const int32_t *perm, rf_value *out);
rf_result rf_emit_stop_gradient(rf_graph *g, rf_value x, rf_value *out);
/* f32. */
rf_result rf_emit_all_replica_sum(rf_graph *g, rf_value x, rf_value *out);

/* ---- slice.c ---- */
/* Ranges as Python's: negative numbers count from the end, both ends are cut to the dimension. step 0: the whole axis.
 */
typedef struct rf_slice_attr {
    int64_t begin[RF_MAX_RANK], end[RF_MAX_RANK], step[RF_MAX_RANK];
} rf_slice_attr;
rf_result rf_emit_slice(rf_graph *g, rf_value x, const int64_t *begin, const int64_t *end, const int64_t *step,
                        uint32_t num_axes, rf_value *out);

/* ---- upsample.c ---- */
typedef struct rf_upsample_attr {
    int32_t factor[2];
    uint32_t interpolation /* rf_interpolation */;
} rf_upsample_attr;
#define RF_MAX_UPSAMPLE_FACTOR 512 /* gradients loop over 6 times as much at most: any device allows it */
extern const char *const rf_interpolation_names[RF_INTERPOLATION_BILINEAR + 1];
/* `factor` NULL: 2 and 2. */
rf_result rf_emit_upsample2d(rf_graph *g, rf_value x, const int32_t *factor, rf_interpolation interpolation,
                             rf_value *out);

/* ---- pad.c ---- */
typedef struct rf_pad_attr {
    int32_t before[RF_MAX_RANK], after[RF_MAX_RANK];
    float value;
} rf_pad_attr;
rf_result rf_emit_pad(rf_graph *g, rf_value x, const int64_t *before, const int64_t *after, uint32_t num_axes,
                      float value, rf_value *out);

/* ---- concat.c ---- */
#define RF_CONCAT_INPUTS (RF_MAX_INPUTS - 1) /* of one op: its gradient reads the shapes of all, and what flows in */
typedef struct rf_concat_attr {
    uint32_t axis;
    uint32_t left_out; /* of the gradient: bit i says that that of tensor i is not asked for */
} rf_concat_attr;
typedef struct rf_split_attr {
    uint32_t axis, num_parts;
    int32_t weight[RF_CONCAT_INPUTS]; /* the sizes of the parts are to each other as these */
} rf_split_attr;
/* Any number of tensors and parts: what is more than one op takes becomes a tree of them. A single one is x itself. */
rf_result rf_emit_concat(rf_graph *g, const rf_value *in, uint32_t n_in, int32_t axis, rf_value *out);
/* copies[d] of x along each of the first axes. */
rf_result rf_emit_tile(rf_graph *g, rf_value x, const int64_t *copies, uint32_t num_axes, rf_value *out);
rf_result rf_emit_split(rf_graph *g, rf_value x, int32_t axis, uint32_t num_parts, rf_value *out);
/* ---- gather*.c ---- */
/* `axis` is not negative. batch_dims is 0, or `axis`: then the dimensions before it are those of the indices, too.
 * `dtype`: of f32 that is taken, f16 or bf16 which it is stored in; 0: as x. */
typedef struct rf_gather_attr {
    int32_t axis, batch_dims;
    uint32_t dtype;
} rf_gather_attr;
rf_result rf_emit_gather(rf_graph *g, rf_value x, rf_value indices, int32_t axis, int32_t batch_dims, rf_value *out);
/* Rows of x [n, ...] in this type. */
rf_result rf_emit_gather_rows(rf_graph *g, rf_value x, rf_value indices, rf_dtype dtype, rf_value *out);

/* ---- attention.c ---- */
typedef struct rf_attention_attr {
    float scale;
    uint32_t causal, mask; /* mask: there is one, the input after the others */
} rf_attention_attr;
/* For such a call, which is that of the op, and its gradient the device has kernels that are faster than products and a
 * softmax, or whose memory is worth more. */
bool rf_attention_pays(const rf_op_call *call, const rf_device_caps *caps);
rf_result rf_emit_attention(rf_graph *g, rf_value query, rf_value key, rf_value value, rf_value mask, float scale,
                            bool causal, rf_value *out);

/* ---- reduce.c ---- */
typedef enum rf_reduce_kind {
    RF_REDUCE_KIND_SUM,
    RF_REDUCE_KIND_MEAN,
    RF_REDUCE_KIND_MAX,
    RF_REDUCE_KIND_SUM_SQUARES,
    RF_REDUCE_KIND_SUM_ABS,
    RF_REDUCE_KIND_MIN,
    RF_REDUCE_KIND_COUNT
} rf_reduce_kind;
typedef struct rf_reduce_attr {
    uint32_t kind, axes_mask, keep_dims;
} rf_reduce_attr;
/* Axes as functions take them (negative ones count from the end, none means all), a bit each. `name`: for errors. */
rf_result rf_axes_of(const char *name, rf_shape shape, const int32_t *axes, uint32_t num_axes, uint32_t *out);
rf_result rf_emit_reduce(rf_graph *g, rf_reduce_kind kind, rf_value x, const int32_t *axes, uint32_t num_axes,
                         bool keep_dims, rf_value *out);
rf_result rf_emit_argmax(rf_graph *g, rf_value x, rf_value *out);

/* ---- top_k.c ---- */
typedef enum rf_top_k_order {
    RF_TOP_K_LARGEST,   /* and NaN before them */
    RF_TOP_K_ASCENDING, /* NaN last, as in descending */
    RF_TOP_K_DESCENDING
} rf_top_k_order;
/* k 0, of the last two orders: all elements, which sorts them. */
typedef struct rf_top_k_attr {
    int32_t k;
    uint32_t order; /* rf_top_k_order */
} rf_top_k_attr;
rf_result rf_emit_top_k(rf_graph *g, rf_value x, int32_t k, rf_value *values, rf_value *indices);
rf_result rf_emit_sort(rf_graph *g, rf_value x, bool descending, rf_value *values, rf_value *indices);

/* ---- ctc.c ---- */
typedef struct rf_ctc_attr {
    int32_t blank;
    uint32_t zero_infinity; /* losses and gradients of labels that cannot be spelt are 0, not infinite and NaN */
} rf_ctc_attr;
/* A negative label ends those of its example. `lengths` may be 0: all steps count. A label that is no class or the
 * blank, and a length that is none, give NaN. */
rf_result rf_emit_ctc_loss(rf_graph *g, rf_value log_probabilities, rf_value labels, rf_value lengths,
                           const rf_ctc_attr *attr, rf_value *out);

/* ---- cumsum.c ---- */
typedef struct rf_cumsum_attr {
    uint32_t exclusive, reverse;
} rf_cumsum_attr;
rf_result rf_emit_cumsum(rf_graph *g, rf_value x, bool exclusive, bool reverse, rf_value *out);

/* ---- cumprod.c ---- */
typedef struct rf_cumprod_attr {
    uint32_t exclusive, reverse;
} rf_cumprod_attr;
rf_result rf_emit_cumprod(rf_graph *g, rf_value x, bool exclusive, bool reverse, rf_value *out);
/* cumprod_grad.c: the attributes are those of the products. */
rf_result rf_emit_cumprod_grad(rf_graph *g, const rf_cumprod_attr *attr, rf_value dy, rf_value x, rf_value *out);
typedef struct rf_recurrence_attr {
    uint32_t reverse;
} rf_recurrence_attr;
/* Along the last dimension y[0] = 0, y[i + 1] = x[i] + factors[i] * y[i]; `reverse`: from the other end. */
rf_result rf_emit_recurrence(rf_graph *g, rf_value x, rf_value factors, bool reverse, rf_value *out);

/* ---- batch_moments.c, normalize.c ---- */
rf_result rf_emit_batch_moments(rf_graph *g, rf_value x, rf_value *mean, rf_value *variance);
/* The same with what batch normalization makes of them: scale = gamma / sqrt(variance + epsilon), and the averages
 * keep * average + take * moment. Nothing of this is for gradients but what rf_emit_normalize() reads. */
typedef struct rf_batch_averages_attr {
    float epsilon, keep, take;
    uint32_t scaled; /* there is a gamma, which is 1 otherwise */
} rf_batch_averages_attr;
typedef struct rf_batch_averages {
    rf_value mean, variance, scale, next_mean, next_variance;
} rf_batch_averages;
/* in: x, the averages of mean and variance, and with scaled gamma. */
rf_result rf_emit_batch_averages(rf_graph *g, const rf_value in[4], const rf_batch_averages_attr *attr,
                                 rf_batch_averages *averages);
/* Batch normalization's gradient has these for each channel: gamma's and the shift's, and x's beside dy * scale, which
 * is (x - mean) * slope + level. */
typedef struct rf_batch_sums_attr {
    float epsilon;
    uint32_t relu; /* dy counts where (x - mean) * scale + shift is positive */
} rf_batch_sums_attr;
typedef struct rf_batch_sums {
    rf_value dgamma, dshift, slope, level;
} rf_batch_sums;
/* in: dy, x, mean, scale, variance, and with relu shift. */
rf_result rf_emit_batch_sums(rf_graph *g, const rf_value in[6], const rf_batch_sums_attr *attr, rf_batch_sums *sums);
/* (x - mean) * scale + shift, where mean and variance are x's own, and scale is gamma / sqrt(variance + epsilon):
 * gradients flow to x, gamma and the shift alone. 0: no gamma (which is 1), no shift. */
typedef struct rf_normalize_attr {
    float epsilon;
    uint32_t scaled, shifted; /* there is a gamma, a shift */
} rf_normalize_attr;
typedef struct rf_normalize_values {
    rf_value x, mean, variance, scale, gamma, shift;
} rf_normalize_values;
rf_result rf_emit_normalize(rf_graph *g, const rf_normalize_values *v, float epsilon, rf_value *out);

/* ---- layer_norm.c ---- */
/* `rms`: by the root mean square, without taking the mean off. The gradient's `center` is always 0. */
typedef struct rf_layer_norm_attr {
    float epsilon;
    uint32_t rms, scale, center;
} rf_layer_norm_attr;
/* gamma and beta may be 0: there is none. */
rf_result rf_emit_layer_norm(rf_graph *g, rf_value x, rf_value gamma, rf_value beta, float epsilon, bool rms,
                             rf_value *out);

/* ---- softmax.c, loss.c, one_hot.c ---- */
/* The gradient that flows into the losses, the third input of their gradients. */
enum { RF_DLOSS_ROWS /* a number for each row */, RF_DLOSS_SCALAR, RF_DLOSS_QUOTIENT /* numerator / it */ };
typedef struct rf_loss_attr {
    uint32_t from_logits;
    uint32_t dloss; /* of gradients, like the rest: RF_DLOSS_* */
    float numerator;
    uint32_t with_loss; /* 1 asks for the losses as well, the second output, without which there are no others */
    uint32_t with_hits; /* 1 asks for what `accuracy` makes of the class numbers, too */
    uint32_t total;     /* RF_TOTAL_*: asks for the losses' sum, the last output */
} rf_loss_attr;
enum { RF_TOTAL_NONE, RF_TOTAL_SUM, RF_TOTAL_QUOTIENT /* by the third input, one number */ };
typedef struct rf_one_hot_attr {
    int32_t depth;
} rf_one_hot_attr;
rf_result rf_emit_softmax(rf_graph *g, rf_value x, rf_value *out);
rf_result rf_emit_log_softmax(rf_graph *g, rf_value x, rf_value *out);
rf_result rf_emit_one_hot(rf_graph *g, rf_value indices, int32_t depth, rf_value *out);
rf_result rf_emit_sparse_crossentropy(rf_graph *g, rf_value labels, rf_value predictions, bool from_logits,
                                      rf_value *out);
rf_result rf_emit_crossentropy(rf_graph *g, rf_value labels, rf_value predictions, bool from_logits, rf_value *out);
rf_result rf_emit_accuracy(rf_graph *g, rf_value labels, rf_value predictions, rf_value *out);

/* ---- random.c, cast.c ---- */
/* random: HOST value i32 [6] = { seed low, seed high, step low, step high, first example of this replica, 0 }.
 * The tensor has n = count / (outer * inner) examples; its element (o * n + example) * inner + i has the counter
 * ((first + example) * outer + o) * inner + i. `outer` 0: no example is told from another, counters begin at 0. */
typedef struct rf_dropout_attr {
    float rate;
    uint32_t stream;
    uint64_t seed;
    uint32_t outer, inner;
} rf_dropout_attr;
rf_result rf_emit_dropout(rf_graph *g, rf_value x, rf_value random, const rf_dropout_attr *attr, rf_value *out);
rf_result rf_emit_random_uniform(rf_graph *g, rf_value like, rf_value random, const rf_dropout_attr *attr,
                                 rf_value *out);
rf_result rf_emit_cast(rf_graph *g, rf_value x, rf_dtype dtype, rf_value *out);

/* ---- update.c: flat ranges of parameters ---- */
/* The attributes of momentum_update and muon_momentum. */
typedef struct rf_update_attr {
    uint32_t nesterov;
} rf_update_attr;
/* Those of updates whose slots are words (base/state_form.h). */
typedef struct rf_packed_update_attr {
    uint32_t state_type; /* rf_optimizer_state_type, not F32 */
    uint32_t nesterov;
    uint64_t first; /* place of the first element among all parameters, a multiple of 4: of random numbers */
} rf_packed_update_attr;
/* Numbers an update reads at run time, one HOST value f32 [RF_HYPER_COUNT]; set by the optimizer before each step. */
enum {
    RF_HYPER_RATE,
    RF_HYPER_GRAD_SCALE /* clip and accumulation factor */,
    RF_HYPER_CLIP_VALUE /* 0: off */,
    RF_HYPER_WEIGHT_DECAY /* already times the rate; of LAMB the decay itself */,
    RF_HYPER_BETA_1,
    RF_HYPER_BETA_2,
    RF_HYPER_CORRECTION_1 /* 1 / (1 - beta_1^t) */,
    RF_HYPER_CORRECTION_2,
    RF_HYPER_EPSILON,
    RF_HYPER_MOMENTUM,
    RF_HYPER_RHO,
    RF_HYPER_GRADIENT /* Nadam: what of the gradient itself joins the corrected m */,
    RF_HYPER_RATIO /* LAMB: what the variable's norm is to that of its step */,
    RF_HYPER_AVERAGE /* what the average of the parameter keeps of itself; 0: nothing */,
    RF_HYPER_OVERWRITE /* 1: the parameter becomes its average */,
    RF_HYPER_SKIP /* 1: nothing changes, whatever the gradient is */,
    RF_HYPER_STEP /* number of the update, below 2^24: what is rounded by chance depends on it */,
    RF_HYPER_COUNT
};
/* metric_accumulate's state, f32 [4], is { total, compensation, weight, unused }: it adds sum(x * w) by Neumaier's
 * compensated sum, and sum(w). Without w each x counts 1. */
rf_result rf_emit_update(rf_graph *g, const rf_op *op, const void *attr, const rf_value *in, uint32_t n_in);

/* ---- loss_scale.c: states and tallies are those of base/loss_scale.h ---- */
typedef struct rf_overflow_check_attr {
    float most;
} rf_overflow_check_attr;
typedef struct rf_loss_scale_attr {
    uint32_t growth_steps, is_fixed;
} rf_loss_scale_attr;
/* Multiplies gradients by the tally's inverse, in place, and notes in the tally where one is not finite. */
rf_result rf_emit_unscale(rf_graph *g, rf_value gradients, rf_value tally);
/* Notes in the tally where a gradient, as it is or multiplied by the tally's inverse, is larger than `most` or no
 * number. */
rf_result rf_emit_overflow_check(rf_graph *g, rf_value gradients, rf_value tally, float most);
/* The step's effect on scale and tally. `found`, f32 [1], is not 0 where others than the tally knows found gradients
 * that are not finite. *out, f32 [2]: whether the step is skipped (1 or 0), and how many were in all. */
rf_result rf_emit_loss_scale(rf_graph *g, const rf_loss_scaling *scaling, rf_value scale, rf_value tally,
                             rf_value found, rf_value *out);
/* Numbers for update.c: `rows`, f32 [rows * RF_HYPER_COUNT + 1], has them for as many steps as may have been skipped
 * since the host knew how many were, and at the end what it knew; `decided` is of rf_emit_loss_scale(). */
rf_result rf_emit_update_numbers(rf_graph *g, rf_value rows, rf_value decided, rf_value *out);

/* ---- block_norms.c ---- */
/* Squares are summed within blocks of so many consecutive elements, each in a fixed order: where ranges begin at
 * blocks, the sums do not depend on how parameters are cut into ranges. */
#define RF_NORM_BLOCK 1024
/* x [n] -> f32 [blocks]. */
rf_result rf_emit_block_squares(rf_graph *g, rf_value x, rf_value *out);
/* param [n], m [n], v [n], hyper -> f32 [blocks, 2]: sums of squares of the parameter and of LAMB's step. */
rf_result rf_emit_lamb_norms(rf_graph *g, rf_value param, rf_value m, rf_value v, rf_value hyper, rf_value *out);

#endif
