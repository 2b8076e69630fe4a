/* SPDX-License-Identifier: Apache-2.0 */
#include "batch_rows.h"

#include <stddef.h>

#include "../support/expect.h"
#include "train/metrics/loss.h"

#define INTS(...) ((const int32_t[]){ __VA_ARGS__ })
#define LONGS(...) ((const int64_t[]){ __VA_ARGS__ })
#define NONE ((rf_tensor){ 0, 0 })

/* ---- what takes more than an expression ---- */

static rf_tensor first_of(rf_trace *t,
                          rf_result (*call)(rf_trace *, rf_tensor, const int32_t *, uint32_t, rf_reduced_dims,
                                            rf_tensor *, rf_tensor *),
                          rf_tensor x, const int32_t *axes, uint32_t num_axes, rf_reduced_dims dims)
{
    rf_tensor mean, variance;
    (void)call(t, x, axes, num_axes, dims, &mean, &variance);
    return rf_add(t, mean, rf_square(t, variance));
}

static rf_tensor largest(rf_trace *t, rf_tensor x, int32_t k)
{
    rf_tensor values, places;
    (void)rf_top_k(t, x, k, &values, &places);
    return rf_add(t, values, rf_cast(t, places, RF_F32));
}

static rf_tensor halves(rf_trace *t, rf_tensor x, int32_t axis)
{
    rf_tensor part[2];
    (void)rf_split_tensor(t, x, axis, 2, part);
    return rf_multiply(t, part[0], part[1]);
}

static rf_tensor sequence_of(rf_trace *t, const rf_tensor *x, rf_rnn_kind kind, bool backwards, bool state)
{
    rf_tensor sequence, last[2];
    const rf_rnn_params params = { .kind = kind, .backwards = backwards };
    const rf_tensor initial[2] = { state ? x[2] : NONE, NONE };
    (void)rf_rnn(t, x[0], x[1], NONE, initial, &params, &sequence, last);
    return rf_multiply(t, sequence, rf_expand_dims(t, last[0], 1));
}

static rf_tensor einsum(rf_trace *t, const rf_tensor *x, uint32_t count, const char *equation)
{
    return rf_einsum(t, equation, x, count);
}

static rf_tensor attention(rf_trace *t, const rf_tensor *x, rf_attention_form form, bool causal)
{
    return rf_attention(t, x[0], x[1], x[2], &(rf_attention_params){ .form = form, .causal = causal });
}

/* A place that the step is given: the first number of its operand, cut to the axis. */
static rf_tensor place_of(rf_trace *t, rf_tensor numbers)
{
    return rf_slice(t, numbers, LONGS(0), LONGS(1), NULL, 1);
}

static rf_tensor slice_updated(rf_trace *t, const rf_tensor *x, int32_t axis)
{
    return rf_slice_update(t, x[0], x[1], place_of(t, x[2]), axis);
}

/* Scores of all pairs of rows: [n, n] where both follow the batch. */
static rf_tensor pairs(rf_trace *t, const rf_tensor *x)
{
    return rf_matmul(t, x[0], x[1], RF_TRANSPOSE_B);
}

/* [n, n, 3] */
static rf_tensor triples(rf_trace *t, const rf_tensor *x)
{
    return rf_tile(t, rf_expand_dims(t, pairs(t, x), 2), LONGS(1, 1, 3), 3);
}

static rf_tensor loss_of(rf_trace *t, rf_loss loss, rf_tensor labels, rf_tensor predictions)
{
    rf_tensor counts;
    return rf_loss_per_example(t, &loss, labels, predictions, &counts);
}

static rf_metric_params metric_params[] = {
    { .kind = RF_METRIC_SPARSE_TOP_K_CATEGORICAL_ACCURACY, .k = 2 },
    { .kind = RF_METRIC_HIT_RATE, .k = 2 },
    { .kind = RF_METRIC_NDCG, .k = 2 },
    { .kind = RF_METRIC_PERPLEXITY, .from_logits = true },
    { .kind = RF_METRIC_SPARSE_CATEGORICAL_ACCURACY },
    { .kind = RF_METRIC_MEAN_SQUARED_ERROR },
    { .kind = RF_METRIC_F1 },
    { .kind = RF_METRIC_AUC_ROC, .num_thresholds = 5 },
    { .kind = RF_METRIC_TOP_K_CATEGORICAL_ACCURACY, .k = 2 },
    { .kind = RF_METRIC_CATEGORICAL_ACCURACY },
};
enum { TOP_K, HIT_RATE, NDCG, PERPLEXITY, ACCURACY, SQUARED, F1, AUC, TOP_K_DENSE, DENSE_ACCURACY, NUM_METRICS };
static rf_metric *metrics[NUM_METRICS];

static rf_tensor measured(rf_trace *t, int which, rf_tensor labels, rf_tensor predictions)
{
    (void)rf_metric_update(t, metrics[which], labels, predictions, NONE);
    return predictions;
}

static rf_model *model;
enum { DENSE, CONV1D, CONV2D, STEPS, ATTENTION, LAYER_NORM, GROUP_NORM, SINES, GRU, BATCH_NORM, KNOWN, NUM_LAYERS };
static rf_layer *layers[NUM_LAYERS];

static rf_tensor layered(rf_trace *t, int which, rf_tensor x)
{
    return rf_layer_call(t, model, layers[which], x, RF_TRAINING);
}

/* ---- the rows: function, variant, operands, refused, order, call ---- */

/* clang-format off */
#define UNARY(f, order) ROW(rf_##f, plain, "ac", "", order, rf_##f(t, x[0]))
#define BINARY(f, order)                                                                                               \
    ROW(rf_##f, same, "ac,ac", "", order, rf_##f(t, x[0], x[1]))                                                       \
    ROW(rf_##f, broadcast, "+abc,+1c", "", order, rf_##f(t, x[0], x[1]))                                               \
    ROW(rf_##f, columns, "+b1,+abc", "", order, rf_##f(t, x[0], x[1]))

#define ELEMENTWISE                                                                                                    \
    BINARY(add, 2)                                                                                                     \
    BINARY(subtract, 2)                                                                                                \
    BINARY(multiply, 2)                                                                                                \
    BINARY(divide, 2)                                                                                                  \
    BINARY(maximum, 1)                                                                                                 \
    BINARY(minimum, 1)                                                                                                 \
    ROW(rf_pow, plain, "+abc,+c", "", 2, rf_pow(t, x[0], x[1]))                                                        \
    ROW(rf_divide_no_nan, plain, "abc,+c", "", 2, rf_divide_no_nan(t, x[0], x[1]))                                     \
    ROW(rf_multiply_no_nan, plain, "abc,c", "", 2, rf_multiply_no_nan(t, x[0], x[1]))                                  \
    ROW(rf_xlogy, plain, "abc,+c", "", 2, rf_xlogy(t, x[0], x[1]))                                                     \
    ROW(rf_xlog1py, plain, "abc,+c", "", 2, rf_xlog1py(t, x[0], x[1]))                                                 \
    ROW(rf_xdivy, plain, "abc,+c", "", 2, rf_xdivy(t, x[0], x[1]))                                                     \
    ROW(rf_compare, plain, "abc,bc", "", 0, rf_compare(t, RF_LESS, x[0], x[1]))                                        \
    ROW(rf_where, plain, "ab,abc,c", "", 1,                                                                            \
        rf_where(t, rf_expand_dims(t, rf_compare(t, RF_LESS, x[0], rf_constant(t, 0)), 2), x[1], x[2]))                \
    ROW(rf_clip, plain, "ac", "", 1, rf_clip(t, x[0], -0.5f, 0.5f))                                                    \
    UNARY(negative, 2)                                                                                                 \
    UNARY(abs, 1)                                                                                                      \
    UNARY(square, 2)                                                                                                   \
    UNARY(exp, 2)                                                                                                      \
    UNARY(expm1, 2)                                                                                                    \
    UNARY(sin, 2)                                                                                                      \
    UNARY(cos, 2)                                                                                                      \
    UNARY(erf, 2)                                                                                                      \
    UNARY(sign, 0)                                                                                                     \
    UNARY(floor, 0)                                                                                                    \
    UNARY(round, 0)                                                                                                    \
    UNARY(tanh, 2)                                                                                                     \
    UNARY(sigmoid, 2)                                                                                                  \
    UNARY(relu, 1)                                                                                                     \
    UNARY(softplus, 2)                                                                                                 \
    UNARY(silu, 2)                                                                                                     \
    UNARY(hard_sigmoid, 1)                                                                                             \
    UNARY(hard_silu, 1)                                                                                                \
    UNARY(mish, 2)                                                                                                     \
    UNARY(selu, 1)                                                                                                     \
    ROW(rf_log, plain, "+ac", "", 2, rf_log(t, x[0]))                                                                  \
    ROW(rf_log1p, plain, "+ac", "", 2, rf_log1p(t, x[0]))                                                              \
    ROW(rf_sqrt, plain, "+ac", "", 2, rf_sqrt(t, x[0]))                                                                \
    ROW(rf_rsqrt, plain, "+ac", "", 2, rf_rsqrt(t, x[0]))                                                              \
    ROW(rf_leaky_relu, plain, "ac", "", 1, rf_leaky_relu(t, x[0], 0.1f))                                               \
    ROW(rf_gelu, plain, "ac", "", 1, rf_gelu(t, x[0], RF_GELU_TANH))                                                           \
    ROW(rf_elu, plain, "ac", "", 1, rf_elu(t, x[0], 1))                                                                \
    ROW(rf_activate, softmax, "ac", "", 1, rf_activate(t, x[0], RF_ACTIVATION_SOFTMAX))

#define LINEAR                                                                                                         \
    ROW(rf_matmul, plain, "mk,kn", "", 2, rf_matmul(t, x[0], x[1], RF_TRANSPOSE_NONE))                                      \
    ROW(rf_matmul, exchanged, "bkm,nk", "", 2, rf_matmul(t, x[0], x[1], RF_TRANSPOSE_BOTH))                                   \
    ROW(rf_matmul, batched, "abmk,1bkn", "", 2, rf_matmul(t, x[0], x[1], RF_TRANSPOSE_NONE))                                \
    ROW(rf_matmul, narrow, "bmk,bkn", "", 1,                                                                           \
        rf_cast(t, rf_matmul(t, rf_cast(t, x[0], RF_F16), rf_cast(t, x[1], RF_F16), RF_TRANSPOSE_NONE), RF_F32))            \
    ROW(rf_matmul, one_kernel, "abmk,kn", "", 2, rf_matmul(t, x[0], x[1], RF_TRANSPOSE_NONE))                               \
    ROW(rf_bias_add, plain, "abc,c", "", 2, rf_bias_add(t, x[0], x[1]))                                                \
    ROW(rf_orthogonalize, plain, "bmn", "", 1, rf_orthogonalize(t, x[0], 2))                                           \
    ROW(rf_einsum, heads, "bthd,bshd", "", 1, einsum(t, x, 2, "bthd,bshd->bhts"))                                      \
    ROW(rf_einsum, rows, "bcj,jk", "", 1, einsum(t, x, 2, "bcj,jk->bck"))                                              \
    ROW(rf_einsum, squares, "ab,cb,cd", "", 1, einsum(t, x, 3, "ab,cb,cd->ad"))                                        \
    ROW(rf_einsum, kernels, "bthd,hdm", "", 1, einsum(t, x, 2, "bthd,hdm->btm"))                                       \
    ROW(rf_einsum, outer, "abc,de", "", 1, einsum(t, x, 2, "abc,de->eabd"))                                            \
    ROW(rf_einsum, own_pairs, "atc,bsc", "", 1, einsum(t, x, 2, "atc,bsc->abts"))                                      \
    ROW(rf_einsum, pairs, "ad,ad,ok", "o", 1, rf_einsum(t, "abj,jk->abk", (rf_tensor[]){ triples(t, x), x[2] }, 2))    \
    ROW(rf_einsum, rest, "ac,bc", "", 1,                                                                               \
        rf_einsum(t, "ac,bc->ab", (rf_tensor[]){ rf_slice(t, x[0], LONGS(1), LONGS(INT64_MAX), NULL, 1), x[1] }, 2))   \
    ROW(rf_einsum, means, "ab", "", 1, einsum(t, x, 1, "ab->b"))                                                       \
    ROW(rf_conv2d, plain, "nhwc,ijcm", "", 2, rf_conv2d(t, x[0], x[1], NULL))                                          \
    ROW(rf_conv2d, strided, "nhwc,ijcm", "", 1,                                                                        \
        rf_conv2d(t, x[0], x[1], &(rf_conv2d_params){ .padding = RF_PADDING_SAME, .stride = { 2, 3 } }))               \
    ROW(rf_conv2d_transpose, plain, "nhwc,ijmc", "", 1,                                                                \
        rf_conv2d_transpose(t, x[0], x[1], &(rf_conv2d_params){ .stride = { 2, 1 } }))                                 \
    ROW(rf_max_pool2d, plain, "nhwc", "", 1, rf_max_pool2d(t, x[0], NULL))                                             \
    ROW(rf_conv2d, first_layer, "nhw1,ij1m,m", "", 1,                                                                  \
        rf_max_pool2d(t, rf_relu(t, rf_bias_add(t, rf_conv2d(t, rf_stop_gradient(t, x[0]), x[1], NULL), x[2])), NULL)) \
    ROW(rf_avg_pool2d, plain, "nhwc", "", 1,                                                                           \
        rf_avg_pool2d(t, x[0], &(rf_pool2d_params){ .window = { 3, 2 }, .padding = RF_PADDING_SAME }))                 \
    ROW(rf_global_avg_pool2d, plain, "nhwc", "", 2, rf_global_avg_pool2d(t, x[0]))                                     \
    ROW(rf_upsample2d, plain, "nhwc", "", 2, rf_upsample2d(t, x[0], NULL, RF_INTERPOLATION_BILINEAR))                  \
    ROW(rf_resize2d, plain, "nhwc", "hw", 1,                                                                           \
        rf_resize2d(t, x[0], &(rf_resize2d_params){ .size = { 3, 7 }, .method = RF_RESIZE_BICUBIC }))                  \
    ROW(rf_depth_to_space, plain, "nhwk", "k", 2, rf_depth_to_space(t, x[0], 2, RF_CHANNELS_OUTER))                    \
    ROW(rf_space_to_depth, plain, "nhxc", "hx", 2, rf_space_to_depth(t, x[0], 2, RF_CHANNELS_INNER))                   \
    ROW(rf_rnn, gru, "nsg,ug", "ug", 1, sequence_of(t, x, RF_RNN_GRU, false, false))                                   \
    ROW(rf_rnn, backwards, "nsg,ug,nu", "ug", 1, sequence_of(t, x, RF_RNN_GRU, true, true))                            \
    ROW(rf_rnn, simple, "nsu,uu,nu", "u", 1, sequence_of(t, x, RF_RNN_SIMPLE, false, true))                            \
    ROW(rf_attention, composed, "bhtk,bhsk,bhsv", "", 1, attention(t, x, RF_ATTENTION_COMPOSED, false))                \
    ROW(rf_attention, causal, "bhtk,bhsk,bhsv", "", 1, attention(t, x, RF_ATTENTION_COMPOSED, true))                   \
    ROW(rf_attention, self, "bhtk,bhtk,bhtv", "", 1, attention(t, x, RF_ATTENTION_COMPOSED, true))                     \
    ROW(rf_attention, automatic, "bhtk,bhtk,bhtv", "", 1, attention(t, x, RF_ATTENTION_AUTO, true))                    \
    ROW(rf_attention, fused, "bhtk,bhtk,bhtv", "", 1, attention(t, x, RF_ATTENTION_FUSED, true))                       \
    ROW(rf_attention, masked, "bhtk,bhsk,bhsv,1htb", "", 1,                                                            \
        rf_attention(t, x[0], x[1], x[2],                                                                              \
                     &(rf_attention_params){ .mask = rf_reduce_sum(t, x[3], INTS(3), 1, RF_KEEP_DIMS), .causal = true }))      \
    ROW(rf_attention, pieces, "bhtk,bhsk,bhsv,#e", "", 1,                                                              \
        rf_attention(t, x[0], x[1], x[2], &(rf_attention_params){ .causal = true, .first_query = place_of(t, x[3]) }))

#define SHAPES                                                                                                         \
    ROW(rf_reshape, tokens, "abc", "b", 2, rf_reshape(t, x[0], RF_SHAPE(-1, 3, 4)))                                    \
    ROW(rf_flatten, plain, "abc", "", 2, rf_flatten(t, x[0]))                                                          \
    ROW(rf_transpose, plain, "abc", "", 2, rf_transpose(t, x[0], INTS(2, 0, 1)))                                       \
    ROW(rf_slice, plain, "abc", "", 2, rf_slice(t, x[0], LONGS(0, -2, 0), LONGS(2, INT64_MAX, 9), LONGS(1, 1, 2), 3))  \
    ROW(rf_slice_update, plain, "yc,ac,#e", "", 1, slice_updated(t, x, 0))                                             \
    ROW(rf_slice_update, last, "cy,ca,#e", "", 1, slice_updated(t, x, -1))                                             \
    ROW(rf_reverse, plain, "abc", "", 2, rf_reverse(t, rf_reverse(t, x[0], 0), -1))                                    \
    ROW(rf_pad, plain, "abc", "", 2, rf_pad(t, x[0], LONGS(1, 0, 2), LONGS(0, 3, 1), 3, 0.5f))                         \
    ROW(rf_concat, first, "abc,dbc", "", 2, rf_concat(t, x, 2, 0))                                                     \
    ROW(rf_concat, last, "abc,abd", "", 2, rf_concat(t, x, 2, -1))                                                     \
    ROW(rf_split_tensor, plain, "xc", "", 2, halves(t, x[0], 0))                                                       \
    ROW(rf_split_tensor, last, "ax", "", 2, halves(t, x[0], 1))                                                        \
    ROW(rf_stack, plain, "ab,ab", "", 2, rf_stack(t, x, 2, 1))                                                         \
    ROW(rf_tile, plain, "abc", "", 2, rf_tile(t, x[0], LONGS(2, 1, 3), 3))                                             \
    ROW(rf_expand_dims, plain, "ab", "", 2, rf_expand_dims(t, x[0], 1))                                                \
    ROW(rf_squeeze, plain, "a1b", "", 2, rf_squeeze(t, x[0], 1))                                                       \
    ROW(rf_gather, rows, "vc,#ab", "", 2, rf_gather(t, x[0], x[1], 0))                                                 \
    ROW(rf_gather, columns, "avc,#b", "", 2, rf_gather(t, x[0], x[1], 1))                                              \
    ROW(rf_gather, narrow, "avc,#b", "", 1,                                                                            \
        rf_cast(t, rf_square(t, rf_cast(t, rf_gather(t, x[0], x[1], 1), RF_F16)), RF_F32))                             \
    ROW(rf_gather_positions, plain, "asc,#ap", "", 2, rf_gather_positions(t, x[0], x[1]))                              \
    ROW(rf_cast, plain, "ac", "", 1, rf_cast(t, rf_cast(t, x[0], RF_F16), RF_F32))                                     \
    ROW(rf_stop_gradient, plain, "ac", "", 1, rf_multiply(t, x[0], rf_stop_gradient(t, x[0])))                         \
    ROW(rf_one_hot, plain, "#ab", "", 0, rf_one_hot(t, x[0], 3))

#define REDUCE(f, order)                                                                                               \
    ROW(rf_##f, first, "abc", "", order, rf_##f(t, x[0], INTS(0), 1, false))                                           \
    ROW(rf_##f, middle, "abc", "", order, rf_##f(t, x[0], INTS(1), 1, false))                                          \
    ROW(rf_##f, last, "abc", "", order, rf_##f(t, x[0], INTS(-1), 1, false))                                           \
    ROW(rf_##f, ends, "abcd", "", order, rf_##f(t, x[0], INTS(0, 2), 2, false))                                        \
    ROW(rf_##f, kept, "abc", "", order, rf_##f(t, x[0], INTS(1, 2), 2, true))                                          \
    ROW(rf_##f, all, "abc", "", order, rf_##f(t, x[0], NULL, 0, false))
#define REDUCTIONS                                                                                                     \
    REDUCE(reduce_sum, 2)                                                                                              \
    REDUCE(reduce_mean, 2)                                                                                             \
    REDUCE(reduce_max, 1)                                                                                              \
    REDUCE(reduce_min, 1)                                                                                              \
    ROW(rf_moments, channels, "abc", "", 1, first_of(t, rf_moments, x[0], INTS(0, 1), 2, RF_DROP_DIMS))                       \
    ROW(rf_moments, middle, "abc", "", 1, first_of(t, rf_moments, x[0], INTS(1), 1, RF_DROP_DIMS))                            \
    ROW(rf_moments, kept, "abc", "", 1, first_of(t, rf_moments, x[0], INTS(0, 2), 2, RF_KEEP_DIMS))                            \
    ROW(rf_argmax, plain, "abc", "", 0, rf_argmax(t, x[0]))                                                            \
    ROW(rf_argmin, plain, "abc", "", 0, rf_argmin(t, x[0]))                                                            \
    ROW(rf_top_k, plain, "abc", "", 2, largest(t, x[0], 2))                                                            \
    ROW(rf_sort, first, "abc", "", 2, rf_sort(t, x[0], 0, RF_ASCENDING))                                                      \
    ROW(rf_sort, middle, "abc", "", 1, rf_sort(t, x[0], 1, RF_DESCENDING))                                                      \
    ROW(rf_sort, last, "abc", "", 2, rf_sort(t, x[0], -1, RF_ASCENDING))                                                      \
    ROW(rf_argsort, first, "abc", "", 0, rf_argsort(t, x[0], 0, RF_ASCENDING))                                                \
    ROW(rf_cumsum, plain, "abc", "", 2, rf_cumsum(t, x[0], RF_SCAN_EXCLUSIVE))                                               \
    ROW(rf_cumprod, plain, "abc", "", 2, rf_cumprod(t, x[0], RF_SCAN_INCLUSIVE_REVERSE))                                             \
    ROW(rf_softmax, plain, "abc", "", 1, rf_softmax(t, x[0]))                                                          \
    ROW(rf_log_softmax, plain, "abc", "", 1, rf_log_softmax(t, x[0]))                                                  \
    ROW(rf_layer_norm, plain, "abc,c,c", "", 1, rf_layer_norm(t, x[0], x[1], x[2], 0))                                 \
    ROW(rf_rms_norm, plain, "abc,c", "", 1, rf_rms_norm(t, x[0], x[1], 0))                                             \
    ROW(rf_group_norm, images, "nhwc,c,c", "c", 1, rf_group_norm(t, x[0], x[1], x[2], 2, -1, 0))                       \
    ROW(rf_group_norm, instances, "nhwc,c,c", "", 1, rf_group_norm(t, x[0], x[1], x[2], -1, -1, 0))                    \
    ROW(rf_group_norm, channels_first, "nchw", "c", 1, rf_group_norm(t, x[0], NONE, NONE, 2, 1, 0))                    \
    ROW(rf_group_norm, pairs, "ad,ad", "", 1, rf_group_norm(t, triples(t, x), NONE, NONE, 3, -1, 0))                   \
    ROW(rf_flatten, pairs, "ad,ad", "", 2, rf_flatten(t, triples(t, x)))                                               \
    ROW(rf_mean_squared_error, pairs, "ad,ad", "", 1,                                                                  \
        rf_mean_squared_error(t, triples(t, x), rf_sin(t, triples(t, x))))                                             \
    ROW(rf_matmul, pairs, "ad,ad,oc", "o", 1, rf_matmul(t, triples(t, x), x[2], RF_TRANSPOSE_NONE))                         \
    ROW(rf_sort, pairs, "ad,ad", "", 1, rf_sort(t, triples(t, x), 1, RF_DESCENDING))                                            \
    ROW(rf_layer_norm, pairs, "ad,ad", "", 1, rf_layer_norm(t, pairs(t, x), NONE, NONE, 0))                            \
    ROW(rf_attention, pairs, "ad,ad", "", 1,                                                                           \
        rf_attention(t, rf_expand_dims(t, triples(t, x), 0), rf_expand_dims(t, triples(t, x), 0),                      \
                     rf_expand_dims(t, triples(t, x), 0),                                                              \
                     &(rf_attention_params){ .causal = true, .form = RF_ATTENTION_COMPOSED }))                         \
    ROW(rf_group_norm, between, "ahcw,c,c", "", 1, rf_group_norm(t, x[0], x[1], x[2], -1, 2, 0))

#define LOSSES                                                                                                         \
    ROW(rf_sparse_categorical_crossentropy, logits, "#ab,abc", "", 1,                                                  \
        rf_sparse_categorical_crossentropy(t, x[0], x[1], RF_LOGITS))                                                       \
    ROW(rf_sparse_categorical_crossentropy, pairs, "ad,bd,#a", "", 1,                                                  \
        rf_sparse_categorical_crossentropy(t, x[2], pairs(t, x), RF_LOGITS))                                                \
    ROW(rf_sparse_categorical_crossentropy, pairs_of_batch, "ad,ad,#a", "", 1,                                         \
        rf_sparse_categorical_crossentropy(t, x[2], pairs(t, x), RF_LOGITS))                                                \
    ROW(rf_categorical_crossentropy, logits, "+abc,abc", "", 1, rf_categorical_crossentropy(t, x[0], x[1], RF_LOGITS))      \
    ROW(rf_categorical_crossentropy, probabilities, "+abc,+abc", "", 1,                                                \
        rf_categorical_crossentropy(t, x[0], x[1], RF_PROBABILITIES))                                                             \
    ROW(rf_binary_crossentropy, logits, "+abc,abc", "", 2, rf_binary_crossentropy(t, x[0], x[1], RF_LOGITS))                \
    ROW(rf_binary_crossentropy, probabilities, "+abc,+abc", "", 2, rf_binary_crossentropy(t, x[0], x[1], RF_PROBABILITIES))       \
    ROW(rf_mean_squared_error, plain, "abc,abc", "", 2, rf_mean_squared_error(t, x[0], x[1]))                          \
    ROW(rf_mean_absolute_error, plain, "abc,abc", "", 1, rf_mean_absolute_error(t, x[0], x[1]))                        \
    ROW(rf_huber, plain, "abc,abc", "", 1, rf_huber(t, x[0], x[1], 0.5f))                                              \
    ROW(rf_kl_divergence, plain, "+abc,+abc", "", 2, rf_kl_divergence(t, x[0], x[1]))                                  \
    ROW(rf_ctc_loss, plain, "#as,atc", "", 1, rf_ctc_loss(t, x[0], x[1], RF_LOGITS, &(rf_ctc_params){ .blank = 2 }))   \
    ROW(rf_ctc_loss, lengths, "#as,+atc,#a", "", 1,                                                                    \
        rf_ctc_loss(t, x[0], x[1], RF_PROBABILITIES,                                                                   \
                    &(rf_ctc_params){ .blank = 2, .zero_infinity = true, .input_lengths = x[2],                        \
                                      .label_lengths = x[2] }))                                                        \
    ROW(loss, smoothed, "+abc,abc", "", 1,                                                                             \
        loss_of(t,                                                                                                     \
                (rf_loss){ .kind = RF_LOSS_CATEGORICAL_CROSSENTROPY, .from_logits = true, .label_smoothing = 0.1f },   \
                x[0], x[1]))                                                                                           \
    ROW(loss, smoothed_pairs, "ad,bd,+ab", "", 1,                                                                      \
        loss_of(t,                                                                                                     \
                (rf_loss){ .kind = RF_LOSS_CATEGORICAL_CROSSENTROPY, .from_logits = true, .label_smoothing = 0.1f },   \
                x[2], pairs(t, x)))                                                                                    \
    ROW(loss, smoothed_batch, "ad,ad,+d", "", 1,                                                                       \
        loss_of(t,                                                                                                     \
                (rf_loss){ .kind = RF_LOSS_CATEGORICAL_CROSSENTROPY, .from_logits = true, .label_smoothing = 0.1f },   \
                rf_sigmoid(t, pairs(t, x)), pairs(t, x)))                                                              \
    ROW(loss, binary_smoothed, "+abc,abc", "", 1,                                                                      \
        loss_of(t, (rf_loss){ .kind = RF_LOSS_BINARY_CROSSENTROPY, .from_logits = true, .label_smoothing = 0.1f },     \
                x[0], x[1]))                                                                                           \
    ROW(metric, top_k, "#ab,abc", "", 0, measured(t, TOP_K, x[0], x[1]))                                               \
    ROW(metric, top_k_pairs, "ad,bd,#a", "", 0, measured(t, TOP_K, x[2], pairs(t, x)))                                 \
    ROW(metric, hit_rate, "#ab,abc", "", 0, measured(t, HIT_RATE, x[0], x[1]))                                         \
    ROW(metric, hit_rate_pairs, "ad,bd,#a", "", 0, measured(t, HIT_RATE, x[2], pairs(t, x)))                           \
    ROW(metric, hit_rate_of_batch, "ad,ad,#a", "", 0, measured(t, HIT_RATE, x[2], pairs(t, x)))                        \
    ROW(metric, top_k_of_batch, "ad,ad,#a", "", 0, measured(t, TOP_K, x[2], pairs(t, x)))                              \
    ROW(metric, ndcg, "#ab,abc", "", 0, measured(t, NDCG, x[0], x[1]))                                                 \
    ROW(metric, perplexity, "#ab,abc", "", 0, measured(t, PERPLEXITY, x[0], x[1]))                                     \
    ROW(metric, accuracy, "#ab,abc", "", 0, measured(t, ACCURACY, x[0], x[1]))                                         \
    ROW(metric, accuracy_of_rows, "+abc,abc", "", 0, measured(t, DENSE_ACCURACY, x[0], x[1]))                          \
    ROW(metric, top_k_of_rows, "+abc,abc", "", 0, measured(t, TOP_K_DENSE, x[0], x[1]))                                \
    ROW(metric, squared_error, "abc,abc", "", 0, measured(t, SQUARED, x[0], x[1]))                                     \
    ROW(metric, f1, "#abc,+abc", "", 0, measured(t, F1, x[0], x[1]))                                                   \
    ROW(metric, auc, "#abc,+abc", "", 0, measured(t, AUC, x[0], x[1]))

/* Layers make their variables for the sizes of the first call. */
#define LAYERS                                                                                                         \
    ROW(layer, dense, "abc", "c", 1, layered(t, DENSE, x[0]))                                                          \
    ROW(layer, conv1d, "abc", "c", 1, layered(t, CONV1D, x[0]))                                                        \
    ROW(layer, conv2d, "nhwc", "c", 1, layered(t, CONV2D, x[0]))                                                       \
    ROW(layer, steps, "abc", "c", 1, layered(t, STEPS, x[0]))                                                          \
    ROW(layer, attention, "abc", "c", 1, layered(t, ATTENTION, x[0]))                                                  \
    ROW(layer, layer_norm, "abc", "c", 1, layered(t, LAYER_NORM, x[0]))                                                \
    ROW(layer, group_norm, "nhwc", "c", 1, layered(t, GROUP_NORM, x[0]))                                               \
    ROW(layer, sines, "abc", "bc", 1, layered(t, SINES, x[0]))                                                         \
    ROW(layer, gru, "abc", "c", 1, layered(t, GRU, x[0]))                                                              \
    ROW(layer, batch_norm, "nhwc", "c", 1, layered(t, BATCH_NORM, x[0]))                                               \
    ROW(layer, normalization, "nhwc", "c", 1, layered(t, KNOWN, x[0]))

#define ROW(function, variant, operands, refused, order, expression)                                                   \
    static rf_tensor function##_##variant(rf_trace *t, const rf_tensor *x)                                             \
    {                                                                                                                  \
        return expression;                                                                                             \
    }
ELEMENTWISE LINEAR SHAPES REDUCTIONS LOSSES LAYERS
#undef ROW
#define ROW(function, variant, operands, refused, order, expression)                                                   \
    { #function, #variant, operands, refused, order, function##_##variant },
const batch_row batch_rows[] = { ELEMENTWISE LINEAR SHAPES REDUCTIONS LOSSES LAYERS };
const unsigned num_batch_rows = sizeof(batch_rows) / sizeof(batch_rows[0]);

/* clang-format on */

/* ---- what rows use ---- */

static void make_layers(void)
{
    rf_layer *inner;
    OK(rf_layer_dense(&(rf_dense_params){ .units = 3 }, &layers[DENSE]));
    OK(rf_layer_conv1d(&(rf_conv1d_layer_params){ .filters = 2, .kernel_size = 2, .causal = true }, &layers[CONV1D]));
    OK(rf_layer_conv2d(&(rf_conv2d_layer_params){ .filters = 2, .kernel_size = { 2, 2 } }, &layers[CONV2D]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 3 }, &inner));
    OK(rf_layer_time_distributed(inner, NULL, &layers[STEPS]));
    OK(rf_layer_multi_head_attention(&(rf_multi_head_attention_params){ .num_heads = 2, .key_dim = 2, .causal = true },
                                     &layers[ATTENTION]));
    OK(rf_layer_layer_norm(NULL, &layers[LAYER_NORM]));
    OK(rf_layer_group_norm(&(rf_group_norm_params){ .groups = 2 }, &layers[GROUP_NORM]));
    OK(rf_layer_sine_position_encoding(0, &layers[SINES]));
    OK(rf_layer_rnn(&(rf_rnn_layer_params){ .kind = RF_RNN_GRU, .units = 2, .return_sequences = true }, &layers[GRU]));
    OK(rf_layer_batch_norm(NULL, &layers[BATCH_NORM]));
    OK(rf_layer_normalization(NULL, &layers[KNOWN]));
}

static rf_result apply_nothing(rf_trace *t, rf_model *m, const rf_tensor *in, rf_tensor *out, rf_mode mode, void *user)
{
    (void)m;
    (void)mode;
    (void)user;
    out[0] = in[0];
    return rf_trace_status(t);
}

void batch_rows_open(rf_strategy *strategy)
{
    for (int i = 0; i < NUM_METRICS; i++) OK(rf_metric_create(strategy, &metric_params[i], &metrics[i]));
    OK(rf_model_create(strategy, &(rf_model_params){ .apply = apply_nothing }, &model));
    make_layers();
    for (int i = 0; i < NUM_LAYERS; i++) OK(rf_model_add_layer(model, layers[i]));
}

void batch_rows_close(void)
{
    for (int i = 0; i < NUM_METRICS; i++) rf_metric_destroy(&metrics[i]);
    rf_model_destroy(&model);
}
