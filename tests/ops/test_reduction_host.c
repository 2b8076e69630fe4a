/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions, softmax, losses, pooling and metrics without a device: references against numbers worked out by hand,
 * what inference refuses, gradients that follow the batch, and plans for devices that do not exist.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../support/expect.h"
#include "ops/kit.h"
#include "ops/ops.h"
#include "tests/ops/cases/cases.h"
#include "tests/room.h"

#define F32(...)                                                                                                       \
    {                                                                                                                  \
        .dtype = RF_F32, .shape = {(int32_t)(sizeof((int[]){ __VA_ARGS__ }) / sizeof(int)), { __VA_ARGS__ } }          \
    }
#define I32(...)                                                                                                       \
    {                                                                                                                  \
        .dtype = RF_I32, .shape = {(int32_t)(sizeof((int[]){ __VA_ARGS__ }) / sizeof(int)), { __VA_ARGS__ } }          \
    }

/* ---- references ---- */

static void expect(const rf_op *op, const void *attr, const rf_tensor_desc *descs, void *const *in, uint32_t n_in,
                   const float *expected)
{
    rf_op_call call = { .op = op, .attr = attr, .n_in = n_in, .n_out = op->n_out };
    float y[64] = { 0 };
    for (uint32_t i = 0; i < n_in; i++) call.in[i] = descs[i];
    OK(op->infer(&call));
    const uint64_t count = rf_desc_count(&call.out[0]);
    assert_true(count <= 64);
    OK(op->reference(&call, in, (void *[]){ y }));
    for (uint64_t i = 0; i < count; i++) {
        const float got = call.out[0].dtype == RF_I32 ? (float)((int32_t *)(void *)y)[i] : y[i];
        if (isnan(expected[i]) ? !isnan(got) : !(got == expected[i] || fabsf(got - expected[i]) <= 1e-5f))
            fail_msg("%s: element %d is %g, expected %g", op->name, (int)i, (double)got, (double)expected[i]);
    }
}
#define EXPECT(op, attr, descs, in, ...)                                                                               \
    expect(&rf_op_##op, attr, descs, in, (uint32_t)(sizeof(in) / sizeof((in)[0])), (const float[]){ __VA_ARGS__ })

TEST(test_reduce_references)
{
    const rf_tensor_desc desc[] = { F32(2, 3) };
    float x[] = { 1, -2, 3, 4, 5, -6 };
    void *in[] = { x };
    EXPECT(reduce, (&(rf_reduce_attr){ RF_REDUCE_KIND_SUM, 0, 0 }), desc, in, 5);
    EXPECT(reduce, (&(rf_reduce_attr){ RF_REDUCE_KIND_SUM, 1, 0 }), desc, in, 5, 3, -3);
    EXPECT(reduce, (&(rf_reduce_attr){ RF_REDUCE_KIND_MEAN, 2, 1 }), desc, in, 2.0f / 3, 1);
    EXPECT(reduce, (&(rf_reduce_attr){ RF_REDUCE_KIND_MAX, 2, 0 }), desc, in, 3, 5);
    EXPECT(reduce, (&(rf_reduce_attr){ RF_REDUCE_KIND_SUM_SQUARES, 0, 0 }), desc, in, 91);
    EXPECT(reduce, (&(rf_reduce_attr){ RF_REDUCE_KIND_SUM_ABS, 2, 0 }), desc, in, 6, 15);
    float ties[] = { 2, 7, 7, 3, 3, 3 };
    in[0] = ties;
    EXPECT(argmax, NULL, desc, in, 1, 0);
}

/* Blocks have 1024 elements; LAMB's steps are 2 / (2 + 1) + 3 / 2 and 4 / (4 + 1) + 4 / 2. */
TEST(test_block_references)
{
    static float ones[1025];
    float x[] = { 3, 4 }, m[] = { 1, 2 }, v[] = { 4, 16 };
    float hyper[RF_HYPER_COUNT] = {
        [RF_HYPER_CORRECTION_1] = 2, [RF_HYPER_CORRECTION_2] = 1, [RF_HYPER_EPSILON] = 1, [RF_HYPER_WEIGHT_DECAY] = 0.5f
    };
    const rf_tensor_desc few[] = { F32(2) }, many[] = { F32(1025) };
    rf_tensor_desc lamb[] = { F32(2), F32(2), F32(2), F32(RF_HYPER_COUNT) };
    void *in[] = { x }, *in_many[] = { ones }, *in_lamb[] = { x, m, v, hyper };
    for (int i = 0; i < 1025; i++) ones[i] = 1;
    EXPECT(block_squares, NULL, few, in, 25);
    EXPECT(block_squares, NULL, many, in_many, 1024, 1);
    const float first = 2.0f / 3 + 1.5f, second = 0.8f + 2;
    EXPECT(lamb_norms, NULL, lamb, in_lamb, 25, first * first + second * second);
    rf_op_call call = { .op = &rf_op_lamb_norms, .n_in = 4, .n_out = 1 };
    lamb[2].shape.dim[0] = 3;
    memcpy(call.in, lamb, sizeof(lamb));
    FAILS(rf_op_lamb_norms.infer(&call), RF_ERROR_INVALID_ARGUMENT, "lamb_norms: input 2 has shape [3], needs [2]");
    lamb[2].shape.dim[0] = 2;
    lamb[3].shape.dim[0] = 5;
    memcpy(call.in, lamb, sizeof(lamb));
    FAILS(rf_op_lamb_norms.infer(&call), RF_ERROR_INVALID_ARGUMENT, "lamb_norms: there are 5 hyperparameters");
}

TEST(test_row_references)
{
    const float log2f_ = logf(2), log4f_ = logf(4);
    /* exponentials 1, 1, 2; and ones that overflow unless the maximum is taken off first */
    float x[] = { 0, 0, log2f_, 1000, 1000, 1000 };
    const rf_tensor_desc desc[] = { F32(2, 3) };
    void *in[] = { x };
    const float third = 1.0f / 3;
    EXPECT(softmax, NULL, desc, in, 0.25f, 0.25f, 0.5f, third, third, third);
    EXPECT(log_softmax, NULL, desc, in, -log4f_, -log4f_, -log2f_, -logf(3), -logf(3), -logf(3));
    /* dx = y (dy - sum(dy y)), with y = 1/4, 1/4, 1/2 and dy = 1, 2, 3: sum = 2.25 */
    float dy[] = { 1, 2, 3 }, y[] = { 0.25f, 0.25f, 0.5f };
    const rf_tensor_desc row[] = { F32(1, 3), F32(1, 3) };
    void *grad_in[] = { dy, y };
    EXPECT(softmax_grad, NULL, row, grad_in, -0.3125f, -0.0625f, 0.375f);
    float log_y[] = { logf(0.25f), logf(0.25f), logf(0.5f) };
    void *log_grad_in[] = { dy, log_y };
    EXPECT(log_softmax_grad, NULL, row, log_grad_in, 1 - 1.5f, 2 - 1.5f, 3 - 3.0f);
    float addends[] = { 1, 2, 4, -1, 0, 5 };
    void *sum_in[] = { addends };
    EXPECT(cumsum, (&(rf_cumsum_attr){ 0, 0 }), desc, sum_in, 1, 3, 7, -1, -1, 4);
    EXPECT(cumsum, (&(rf_cumsum_attr){ .exclusive = 1 }), desc, sum_in, 0, 1, 3, 0, -1, -1);
    EXPECT(cumsum, (&(rf_cumsum_attr){ .reverse = 1 }), desc, sum_in, 7, 6, 4, 4, 5, 5);
    EXPECT(cumsum, (&(rf_cumsum_attr){ 1, 1 }), desc, sum_in, 6, 4, 0, 5, 5, 0);
    /* products that no float holds, nor a double, and then do again */
    float factors[] = { 2, 3, -4, 5, 0, 7 }, far[] = { 1e-30f, 1e-30f, 1e38f, 1e-38f, 1e30f, 1e30f };
    void *product_in[] = { factors }, *far_in[] = { far };
    EXPECT(cumprod, (&(rf_cumprod_attr){ 0, 0 }), desc, product_in, 2, 6, -24, 5, 0, 0);
    EXPECT(cumprod, (&(rf_cumprod_attr){ .exclusive = 1 }), desc, product_in, 1, 2, 6, 1, 5, 0);
    EXPECT(cumprod, (&(rf_cumprod_attr){ .reverse = 1 }), desc, product_in, -24, -12, -4, 0, 0, 7);
    EXPECT(cumprod, (&(rf_cumprod_attr){ 1, 1 }), desc, product_in, -12, -4, 1, 0, 7, 1);
    EXPECT(cumprod, (&(rf_cumprod_attr){ 0, 0 }), (&(rf_tensor_desc)F32(1, 6)), far_in, 1e-30f, 0, 1e-22f, 0, 1e-30f,
           1);
    /* The gradient of the zero is 1e60 * 1e-60, that of the other factors is 0 times something. */
    float last[] = { 0, 0, 0, 0, 1 }, first[] = { 1, 0, 0, 0, 0 }, zero[] = { 1e30f, 1e30f, 0, 1e-30f, 1e-30f },
          turned[] = { 1e-30f, 1e-30f, 0, 1e30f, 1e30f };
    const rf_tensor_desc five[] = { F32(1, 5), F32(1, 5) };
    void *zero_in[] = { last, zero }, *turned_in[] = { first, turned };
    EXPECT(cumprod_grad, (&(rf_cumprod_attr){ 0, 0 }), five, zero_in, 0, 0, 1, 0, 0);
    EXPECT(cumprod_grad, (&(rf_cumprod_attr){ .exclusive = 1 }), five, zero_in, 0, 0, 1e30f, 0, 0);
    EXPECT(cumprod_grad, (&(rf_cumprod_attr){ .reverse = 1 }), five, turned_in, 0, 0, 1, 0, 0);
    /* 0; 1; 2 + 3 * 1; and from the other end 0; 4; 2 + 3 * 4 */
    float added[] = { 1, 2, 4 }, by[] = { 7, 3, 5 };
    const rf_tensor_desc steps[] = { F32(1, 3), F32(1, 3) };
    void *steps_in[] = { added, by };
    EXPECT(recurrence, (&(rf_recurrence_attr){ 0 }), steps, steps_in, 0, 1, 5);
    EXPECT(recurrence, (&(rf_recurrence_attr){ 1 }), steps, steps_in, 14, 4, 0);
}

TEST(test_loss_references)
{
    const rf_loss_attr logits = { 1 }, probabilities = { 0 };
    const float log2f_ = logf(2), log4f_ = logf(4);
    int32_t labels[] = { 2, 0, 3, -1 };
    float x[] = { 0, 0, log2f_, 0, 0, log2f_, 0, 0, 0, 0, 0, 0 };
    const rf_tensor_desc sparse[] = { I32(4), F32(4, 3), F32(4) };
    void *in[] = { labels, x };
    EXPECT(sparse_crossentropy, &logits, sparse, in, log2f_, log4f_, NAN, NAN);
    float dloss[] = { 1, 2, 1, 1 };
    void *grad_in[] = { labels, x, dloss };
    EXPECT(sparse_crossentropy_grad, &logits, sparse, grad_in, 0.25f, 0.25f, -0.5f, -1.5f, 0.5f, 1, NAN, NAN, NAN, NAN,
           NAN, NAN);
    /* 1, 1, 2 count as 1/4, 1/4, 1/2; a zero counts as 1e-7 */
    float p[] = { 1, 1, 2, 0, 3, 1 };
    int32_t p_labels[] = { 2, 0 };
    const rf_tensor_desc sparse_p[] = { I32(2), F32(2, 3), F32(2) };
    void *p_in[] = { p_labels, p };
    EXPECT(sparse_crossentropy, &probabilities, sparse_p, p_in, log2f_, -logf(1e-7f));
    /* (sum of labels - label / q) / sum(p); nothing through what was clipped */
    float p_dloss[] = { 1, 1 };
    void *p_grad_in[] = { p_labels, p, p_dloss };
    EXPECT(sparse_crossentropy_grad, &probabilities, sparse_p, p_grad_in, 0.25f, 0.25f, -0.25f, 0, 0, 0);
    float weights[] = { 0.5f, 0, 0.5f };
    const rf_tensor_desc dense[] = { F32(1, 3), F32(1, 3), F32(1) };
    void *dense_in[] = { weights, x };
    EXPECT(crossentropy, &logits, dense, dense_in, 0.5f * log4f_ + 0.5f * log2f_);
    void *dense_grad_in[] = { weights, x, dloss };
    EXPECT(crossentropy_grad, &logits, dense, dense_grad_in, -0.25f, 0.25f, 0);
    void *dense_p_in[] = { weights, p };
    EXPECT(crossentropy, &probabilities, dense, dense_p_in, 0.5f * log4f_ + 0.5f * log2f_);
}

/* Rows of mean 4 and variance 16, and of mean square 12.5. */
TEST(test_norm_references)
{
    const rf_layer_norm_attr full = { 9, 0, 1, 1 }, rms = { 3.5f, 1, 0, 0 }, scaled = { 9, 0, 1, 0 };
    const rf_tensor_desc descs[] = { F32(1, 2), F32(2), F32(2) };
    float x[] = { 0, 8 }, gamma[] = { 1, 2 }, beta[] = { 10, 0 }, legs[] = { 3, 4 }, y[2], mean, inverse,
          dy[] = { 1, 1 };
    rf_op_call call = {
        .op = &rf_op_layer_norm, .attr = &full, .n_in = 3, .n_out = 3, .in = { F32(1, 2), F32(2), F32(2) }
    };
    OK(rf_op_layer_norm.infer(&call));
    assert_true(rf_shape_equal(call.out[1].shape, RF_SHAPE(1, 1)));
    OK(rf_op_layer_norm.reference(&call, (void *[]){ x, gamma, beta }, (void *[]){ y, &mean, &inverse }));
    assert_true(y[0] == 9.2f && y[1] == 1.6f && mean == 4 && inverse == 0.2f);
    call = (rf_op_call){ .op = &rf_op_layer_norm, .attr = &rms, .n_in = 1, .n_out = 3, .in = { descs[0] } };
    OK(rf_op_layer_norm.infer(&call));
    OK(rf_op_layer_norm.reference(&call, (void *[]){ legs }, (void *[]){ y, &mean, &inverse }));
    assert_true(y[0] == 0.75f && y[1] == 1 && mean == 0 && inverse == 0.25f);
    /* dy gamma = { 1, 2 }: less its mean 1.5, less the mean 0.4 of its products with { -0.8, 0.8 } times these, over 5
     */
    const rf_tensor_desc grad[] = { F32(1, 2), F32(1, 2), F32(1, 1), F32(1, 1), F32(2) };
    float four = 4, fifth = 0.2f;
    void *grad_in[] = { dy, x, &four, &fifth, gamma };
    EXPECT(layer_norm_grad, &scaled, grad, grad_in, -0.036f, 0.036f);
}

TEST(test_label_references)
{
    int32_t labels[] = { 1, 5, 0 };
    const rf_tensor_desc desc[] = { I32(3), F32(3, 2) };
    void *hot_in[] = { labels };
    EXPECT(one_hot, (&(rf_one_hot_attr){ 2 }), desc, hot_in, 0, 1, 0, 0, 1, 0);
    float predictions[] = { 0, 1, 0, 1, 2, 2 };
    void *in[] = { labels, predictions };
    EXPECT(accuracy, NULL, desc, in, 1, 0, 1);
    float one_hot[] = { 1, 0, 0, 1, 1, 0 };
    const rf_tensor_desc hot_desc[] = { F32(3, 2), F32(3, 2) };
    void *one_hot_in[] = { one_hot, predictions };
    EXPECT(accuracy, NULL, hot_desc, one_hot_in, 0, 1, 1);
}

TEST(test_pool_references)
{
    const rf_tensor_desc desc[] = { F32(1, 3, 3, 1) };
    float x[] = { 1, 4, 2, 4, 3, 8, 5, 6, 7 };
    void *in[] = { x };
    const rf_pool2d_attr valid = { { 2, 2 }, { 2, 2 }, RF_PADDING_VALID, { 0 }, 0 };
    const rf_pool2d_attr same = { { 2, 2 }, { 2, 2 }, RF_PADDING_SAME, { 0 }, 0 };
    const rf_pool2d_attr sliding = { { 2, 2 }, { 1, 1 }, RF_PADDING_VALID, { 0 }, 0 };
    const rf_pool2d_attr padded = { { 2, 2 }, { 2, 2 }, RF_PADDING_EXPLICIT, { 1, 0, 1, 0 }, 0 };
    EXPECT(max_pool2d, &valid, desc, in, 4);
    EXPECT(max_pool2d, &same, desc, in, 4, 8, 6, 7);
    EXPECT(max_pool2d, &sliding, desc, in, 4, 8, 6, 8);
    EXPECT(max_pool2d, &padded, desc, in, 1, 4, 5, 8);
    EXPECT(avg_pool2d, &same, desc, in, 3, 5, 5.5f, 7);
    EXPECT(avg_pool2d, &padded, desc, in, 1, 3, 4.5f, 6);
    /* the window with two fours gives to the first */
    float dy[] = { 10, 20, 30, 40 }, y[4] = { 0 };
    const rf_tensor_desc grad_desc[] = { F32(1, 2, 2, 1), F32(1, 3, 3, 1), F32(1, 2, 2, 1) };
    void *grad_in[] = { dy, x, y };
    EXPECT(max_pool2d_grad, &sliding, grad_desc, grad_in, 0, 10, 0, 0, 0, 60, 0, 30, 0);
    void *avg_in[] = { dy, x };
    EXPECT(avg_pool2d_grad, &same, grad_desc, avg_in, 2.5f, 2.5f, 10, 2.5f, 2.5f, 10, 15, 15, 40);
    rf_pool2d_attr masked = sliding;
    masked.relu_mask = 1;
    for (int i = 0; i < 9; i++) x[i] -= 6;
    EXPECT(max_pool2d_grad, &masked, grad_desc, grad_in, 0, 0, 0, 0, 0, 60, 0, 0, 0);
}

/* NaN in, NaN out. argmax tells the first of several, max pooling's gradient goes to the last. */
TEST(test_nan_references)
{
    float x[] = { 1, NAN, 3, NAN, 4, INFINITY };
    void *in[] = { x };
    const rf_tensor_desc rows[] = { F32(2, 3) }, image[] = { F32(1, 2, 3, 1) };
    EXPECT(reduce, (&(rf_reduce_attr){ RF_REDUCE_KIND_MAX, 2, 0 }), rows, in, NAN, NAN);
    EXPECT(reduce, (&(rf_reduce_attr){ RF_REDUCE_KIND_MAX, 1, 0 }), rows, in, NAN, NAN, INFINITY);
    EXPECT(argmax, NULL, rows, in, 1, 0);
    EXPECT(softmax, NULL, rows, in, NAN, NAN, NAN, NAN, NAN, NAN);
    const rf_pool2d_attr sliding = { { 2, 2 }, { 1, 1 }, RF_PADDING_VALID, { 0 }, 0 };
    rf_pool2d_attr masked = sliding;
    masked.relu_mask = 1;
    EXPECT(max_pool2d, &sliding, image, in, NAN, NAN);
    float dy[] = { 10, 20 }, y[2] = { 0 };
    const rf_tensor_desc grad_desc[] = { F32(1, 1, 2, 1), F32(1, 2, 3, 1), F32(1, 1, 2, 1) };
    void *grad_in[] = { dy, x, y };
    EXPECT(max_pool2d_grad, &sliding, grad_desc, grad_in, 0, 20, 0, 10, 0, 0);
    EXPECT(max_pool2d_grad, &masked, grad_desc, grad_in, 0, NAN, 0, NAN, 0, 0);

    /* Probabilities: one row with NaN, one without. */
    float p[] = { 0.25f, NAN, 0.5f, 0.25f, 0.25f, 0.5f }, dloss[] = { 1, 1 }, weights[] = { 0, 0, 1, 0, 0, 1 };
    int32_t labels[] = { 2, 2 };
    const rf_tensor_desc sparse[] = { I32(2), F32(2, 3), F32(2) }, dense[] = { F32(2, 3), F32(2, 3), F32(2) };
    void *sparse_in[] = { labels, p }, *sparse_grad_in[] = { labels, p, dloss };
    void *dense_in[] = { weights, p }, *dense_grad_in[] = { weights, p, dloss };
    const rf_loss_attr probabilities = { 0 };
    EXPECT(sparse_crossentropy, &probabilities, sparse, sparse_in, NAN, logf(2));
    EXPECT(sparse_crossentropy_grad, &probabilities, sparse, sparse_grad_in, NAN, NAN, NAN, 1, 1, -1);
    EXPECT(crossentropy, &probabilities, dense, dense_in, NAN, logf(2));
    EXPECT(crossentropy_grad, &probabilities, dense, dense_grad_in, NAN, NAN, NAN, 1, 1, -1);
}

TEST(test_top_k_reference)
{
    float x[] = { 1, 5, -0.0f, 5, 0, 9, NAN, 3, -INFINITY, NAN, INFINITY, 3 }, y[6];
    int32_t at[6];
    rf_op_call call = {
        .op = &rf_op_top_k, .attr = &(rf_top_k_attr){ .k = 3 }, .n_in = 1, .n_out = 2, .in = { F32(2, 6) }
    };
    OK(call.op->infer(&call));
    assert_true(call.out[0].shape.dim[1] == 3 && call.out[1].dtype == RF_I32);
    OK(call.op->reference(&call, (void *[]){ x }, (void *[]){ y, at }));
    assert_true(y[0] == 9 && y[1] == 5 && y[2] == 5 && isnan(y[3]) && isnan(y[4]) && y[5] == INFINITY);
    assert_memory_equal(at, ((int32_t[]){ 5, 1, 3, 0, 3, 4 }), sizeof(at));
    call.attr = &(rf_top_k_attr){ .k = 6 };
    float all[12];
    int32_t order[12];
    OK(call.op->infer(&call));
    OK(call.op->reference(&call, (void *[]){ x }, (void *[]){ all, order }));
    assert_memory_equal(order, ((int32_t[]){ 5, 1, 3, 0, 2, 4, 0, 3, 4, 1, 5, 2 }), sizeof(order));
    /* sorted, NaN comes last in either direction */
    call.attr = &(rf_top_k_attr){ .order = RF_TOP_K_ASCENDING };
    OK(call.op->infer(&call));
    OK(call.op->reference(&call, (void *[]){ x }, (void *[]){ all, order }));
    assert_memory_equal(order, ((int32_t[]){ 2, 4, 0, 1, 3, 5, 2, 1, 5, 4, 0, 3 }), sizeof(order));
    call.attr = &(rf_top_k_attr){ .order = RF_TOP_K_DESCENDING };
    OK(call.op->reference(&call, (void *[]){ x }, (void *[]){ all, order }));
    assert_memory_equal(order, ((int32_t[]){ 5, 1, 3, 0, 2, 4, 4, 1, 5, 2, 0, 3 }), sizeof(order));
}

TEST(test_metric_reference)
{
    /* 2^24 cannot hold one more in a float; the compensation does */
    float metric[4] = { 16777216.0f, 0, 100, 0 }, x[3] = { 1, 1, 1 }, w[3] = { 1, 0, 2 };
    rf_op_call call = { .op = &rf_op_metric_accumulate, .n_in = 2, .in = { F32(4), F32(3), F32(3) } };
    OK(call.op->infer(&call));
    OK(call.op->reference(&call, (void *[]){ metric, x }, NULL));
    assert_true((double)metric[0] + (double)metric[1] == 16777219.0);
    assert_true(metric[2] == 103.0f);
    call.n_in = 3;
    OK(call.op->infer(&call));
    OK(call.op->reference(&call, (void *[]){ metric, x, w }, NULL));
    assert_true((double)metric[0] + (double)metric[1] == 16777222.0);
    assert_true(metric[2] == 106.0f);
    /* so does that of the weight; each column has its own state */
    float columns[8] = { 0, 0, 16777216.0f, 0, 5, 0, 7, 0 }, values[6] = { 1, 10, 2, 20, 3, 30 };
    const rf_op_call two = { .op = &rf_op_metric_accumulate, .n_in = 2, .in = { F32(8), F32(3, 2) } };
    OK(two.op->reference(&two, (void *[]){ columns, values }, NULL));
    assert_true(columns[0] == 6.0f && columns[4] == 65.0f && columns[6] == 10.0f);
    assert_true((double)columns[2] + (double)columns[3] == 16777219.0);
}

/* ---- inference ---- */

static void refuse(const rf_op *op, const void *attr, const rf_tensor_desc *in, uint32_t n_in, const char *part)
{
    rf_op_call call = { .op = op, .attr = attr, .n_in = n_in, .n_out = op->n_out };
    for (uint32_t i = 0; i < n_in; i++) call.in[i] = in[i];
    assert_int_equal(op->infer(&call), RF_ERROR_INVALID_ARGUMENT);
    if (!strstr(rf_error_message(), op->name) || !strstr(rf_error_message(), part))
        fail_msg("the message of %s does not say \"%s\": %s", op->name, part, rf_error_message());
}
#define REFUSE(op, attr, part, ...)                                                                                    \
    do {                                                                                                               \
        const rf_tensor_desc in_[] = { __VA_ARGS__ };                                                                  \
        refuse(&rf_op_##op, attr, in_, RF_LENGTH(in_), part);                                                          \
    } while (0)

TEST(test_refusals)
{
    REFUSE(reduce, (&(rf_reduce_attr){ RF_REDUCE_KIND_SUM, 4, 0 }), "[2,3]", F32(2, 3));
    REFUSE(reduce, NULL, "i32", I32(2, 3));
    REFUSE(reduce, NULL, "[2,0]", F32(2, 0));
    REFUSE(softmax, NULL, "scalar", { .dtype = RF_F32 });
    REFUSE(softmax_grad, NULL, "[2,4]", F32(2, 3), F32(2, 4));
    REFUSE(sparse_crossentropy, NULL, "[5]", I32(5), F32(4, 3));
    REFUSE(sparse_crossentropy, NULL, "cast", F32(4), F32(4, 3));
    REFUSE(crossentropy, NULL, "[4,2]", F32(4, 2), F32(4, 3));
    REFUSE(accuracy, NULL, "[3]", I32(3), F32(4, 3));
    REFUSE(one_hot, (&(rf_one_hot_attr){ -1 }), "-1", I32(3));
    REFUSE(max_pool2d, NULL, "[2,3]", F32(2, 3));
    REFUSE(max_pool2d, (&(rf_pool2d_attr){ .window = { 5, 5 } }), "[1,4,4,1]", F32(1, 4, 4, 1));
    REFUSE(avg_pool2d,
           (&(rf_pool2d_attr){ .window = { 2, 2 }, .padding = RF_PADDING_EXPLICIT, .explicit_padding = { 2 } }),
           "padding", F32(1, 4, 4, 1));
    REFUSE(max_pool2d_grad, NULL, "[1,2,2,1]", F32(1, 3, 3, 1), F32(1, 4, 4, 1), F32(1, 2, 2, 1));
    REFUSE(metric_accumulate, NULL, "[3]", F32(3), F32(8));
    REFUSE(metric_accumulate, NULL, "[6]", F32(6), F32(8));
    REFUSE(metric_accumulate, NULL, "[4,3] do not have the state's 2 columns", F32(8), F32(4, 3));
    REFUSE(metric_accumulate, NULL, "[7]", F32(4), F32(8), F32(7));
}

/* ---- graphs ---- */

TEST(test_mean_gradient_follows_batch)
{
    rf_graph *g;
    rf_value x, rows, loss, grad;
    rf_arena arena = { 0 };
    OK(rf_graph_create(rf_ops_core(), &g));
    OK(rf_graph_input(g, 0, (rf_tensor_desc)F32(4, 3), &x));
    OK(rf_emit_reduce(g, RF_REDUCE_KIND_MEAN, x, (int32_t[]){ -1 }, 1, false, &rows));
    OK(rf_emit_reduce(g, RF_REDUCE_KIND_MEAN, rows, NULL, 0, false, &loss));
    OK(rf_graph_differentiate(g, loss, &x, 1, &grad));
    rf_value twice;
    assert_int_equal(rf_emit_reduce(g, RF_REDUCE_KIND_SUM, x, (const int32_t[]){ 0, 0 }, 2, false, &twice),
                     RF_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(rf_error_message(), "axis 0 of shape "));
    OK(rf_graph_specialize(g, 10));
    float data[30] = { 0 };
    void **values = rf_arena_alloc(&arena, g->values.count * sizeof(void *));
    assert_non_null(values);
    values[x] = data;
    OK(rf_graph_interpret(g, &arena, values));
    for (int i = 0; i < 30; i++) assert_true(fabsf(((float *)values[grad])[i] - 1.0f / 30) < 1e-8f);
    rf_arena_free(&arena);
    rf_graph_destroy(&g);
}

/* ---- plans ---- */

#define ADDRESS(name) &rf_op_##name,
static const rf_op *const ops[] = { RF_REDUCTION_OPS(ADDRESS) };

static const rf_device_caps devices[] = {
    { .driver = RF_DRIVER_LAVAPIPE,
      .is_cpu = true,
      .subgroup_size = 8,
      .max_workgroup_size = { 1024, 1024, 1024 },
      .max_workgroup_invocations = 1024,
      .max_push_constants = 128,
      .max_grid = { 65535, 65535, 65535 },
      .max_storage_range = 1u << 27,
      .max_texel_elements = 1u << 27,
      .buffer_alignment = 64 },
    { .driver = RF_DRIVER_NVIDIA,
      .subgroup_size = 32,
      .max_workgroup_size = { 1024, 1024, 64 },
      .max_workgroup_invocations = 1024,
      .max_push_constants = 128,
      .max_grid = { 65535, 65535, 65535 },
      .max_storage_range = UINT32_MAX,
      .max_texel_elements = 1u << 27,
      .buffer_alignment = 256 },
    /* the guaranteed minimum, and less: everything must be cut into chunks */
    { .driver = RF_DRIVER_OTHER,
      .subgroup_size = 4,
      .max_workgroup_size = { 128, 128, 64 },
      .max_workgroup_invocations = 128,
      .max_push_constants = 128,
      .max_grid = { 65535, 65535, 65535 },
      .max_storage_range = 1u << 27,
      .max_texel_elements = 65536,
      .buffer_alignment = 256 },
    { .driver = RF_DRIVER_LAVAPIPE,
      .is_cpu = true,
      .subgroup_size = 4,
      .max_workgroup_size = { 100, 1, 1 },
      .max_workgroup_invocations = 100,
      .max_push_constants = 128,
      .max_grid = { 300, 40, 1 },
      .max_storage_range = 1u << 18,
      .max_texel_elements = 4096,
      .buffer_alignment = 256 },
};

static void check_binding(const rf_op_call *call, const rf_device_caps *caps, const rf_kernel_plan *plan,
                          const rf_binding *b, const char *where)
{
    const uint64_t whole = b->kind == RF_BIND_WORKSPACE ? plan->workspace
                           : b->kind == RF_BIND_INPUT   ? rf_tensor_bytes(&call->in[b->index])
                                                        : rf_tensor_bytes(&call->out[b->index]);
    const uint64_t size = b->size != 0 ? b->size : whole - b->offset;
    if (b->offset % caps->buffer_alignment != 0 || b->offset + size > whole || size > caps->max_storage_range ||
        (b->view == RF_VIEW_TEXEL_RGBA32F && size > 16ull * caps->max_texel_elements))
        fail_msg("%s: binds %llu bytes at %llu of %llu", where, (unsigned long long)size, (unsigned long long)b->offset,
                 (unsigned long long)whole);
    if (b->kind == RF_BIND_INPUT && call->op->shape_only >> b->index & 1) fail_msg("%s: binds a shape", where);
}

/* Limits hold, and the writes of each output follow each other without a gap; what is complete may be written again. */
static void check_plan(const rf_op_call *call, const rf_device_caps *caps, const rf_kernel_plan *plan,
                       const char *where)
{
    uint64_t written[RF_MAX_OUTPUTS] = { 0 };
    if (plan->count == 0 || plan->items[0].concurrent) fail_msg("%s: a first dispatch that waits for nothing", where);
    for (uint32_t i = 0; i < plan->count; i++) {
        const rf_dispatch *d = &plan->items[i];
        for (int k = 0; k < 3; k++)
            if (d->grid[k] == 0 || d->grid[k] > caps->max_grid[k]) fail_msg("%s: grid[%d] = %u", where, k, d->grid[k]);
        if (d->spec[0] == 0 || d->spec[0] > caps->max_workgroup_size[0] ||
            d->spec[0] > caps->max_workgroup_invocations || (d->spec[0] & (d->spec[0] - 1)) != 0)
            fail_msg("%s: workgroups of %u", where, d->spec[0]);
        for (uint32_t b = 0; b < d->n_bind; b++) {
            check_binding(call, caps, plan, &d->bind[b], where);
            const uint32_t out = d->bind[b].index;
            if (d->bind[b].kind != RF_BIND_OUTPUT || !d->bind[b].write) continue;
            if (written[out] == rf_tensor_bytes(&call->out[out])) written[out] = 0;
            if (d->bind[b].offset != written[out]) fail_msg("%s: a gap in what is written", where);
            written[out] += d->bind[b].size != 0 ? d->bind[b].size : rf_tensor_bytes(&call->out[out]);
        }
    }
    for (uint32_t i = 0; i < call->n_out; i++)
        if (written[i] != rf_tensor_bytes(&call->out[i])) fail_msg("%s: output %u is not written", where, i);
}

TEST(test_plans)
{
    uint32_t plans = 0, cut = 0;
    for (uint32_t o = 0; o < RF_LENGTH(ops); o++)
        for (uint32_t c = 0; c < rf_op_cases(ops[o])->count; c++)
            for (uint32_t d = 0; d < RF_LENGTH(devices); d++) {
                const rf_op_case *test_case = &rf_op_cases(ops[o])->items[c];
                rf_op_call call = {
                    .op = ops[o], .attr = test_case->attr, .n_in = test_case->n_in, .n_out = ops[o]->n_out
                };
                for (uint32_t i = 0; i < call.n_in; i++) call.in[i] = test_case->in[i].desc;
                OK(ops[o]->infer(&call));
                uint32_t eligible = 0;
                for (uint32_t k = 0; k < rf_op_num_kernels(ops[o]); k++) {
                    const rf_kernel *kernel = rf_op_kernel(ops[o], k);
                    if (rf_kernel_score(kernel, &call, &devices[d]) <= 0) continue;
                    char where[160];
                    rf_kernel_plan plan = { 0 };
                    snprintf(where, sizeof(where), "%s/%s/%s on device %u", ops[o]->name, test_case->name, kernel->name,
                             d);
                    OK(rf_kernel_plan_make(kernel, &call, &devices[d], &plan));
                    check_plan(&call, &devices[d], &plan, where);
                    cut += plan.count > 2;
                    rf_kernel_plan_free(&plan);
                    eligible++;
                    plans++;
                }
                /* Only the last device is too small for some: one image, say, that its descriptors cannot span. */
                if (eligible == 0 && d + 1 < RF_LENGTH(devices))
                    fail_msg("%s/%s: no kernel on device %u", ops[o]->name, test_case->name, d);
            }
    assert_true(plans > 1000);
    assert_true(cut > 20);
}

TESTS(reduction_host, NULL, NULL)
