/* SPDX-License-Identifier: Apache-2.0 */
/* Fusion of graphs of the library's ops, without a device: which nodes are left, and that results stay. */
#include <math.h>
#include <string.h>

#include "../support/expect.h"
#include "ops/kit.h"
#include "ops/ops.h"
#include "tests/room.h"

#define FLOATS(...) ((rf_tensor_desc){ RF_F32, RF_SHAPE(__VA_ARGS__) })

TEST(test_pool_absorbs_relu_gradient)
{
    rf_graph *g;
    rf_value x, y, pooled, loss, grad;
    rf_arena arena = { 0 };
    float data[2 * 5 * 5 * 3], before[2 * 5 * 5 * 3];
    OK(rf_graph_create(rf_ops_core(), &g));
    OK(rf_graph_input(g, 0, FLOATS(2, 5, 5, 3), &x));
    OK(rf_emit_unary(g, RF_FN_RELU, 0, x, &y));
    OK(rf_emit_max_pool2d(g, y, NULL, &pooled));
    OK(rf_emit_reduce(g, RF_REDUCE_KIND_SUM_SQUARES, pooled, NULL, 0, false, &loss));
    OK(rf_graph_differentiate(g, loss, &x, 1, &grad));
    for (uint32_t i = 0; i < RF_LENGTH(data); i++) data[i] = (float)((int)(i * 37 % 23) - 16);
    for (int pass = 0; pass < 2; pass++) {
        void **values = rf_arena_alloc(&arena, g->values.count * sizeof(void *));
        assert_non_null(values);
        values[x] = data;
        OK(rf_graph_interpret(g, &arena, values));
        if (pass == 1) {
            assert_memory_equal(values[grad], before, sizeof(before));
            break;
        }
        memcpy(before, values[grad], sizeof(before));
        OK(rf_graph_optimize(g, &(rf_graph_roots){ &grad, 1 }));
    }
    int masked = 0;
    for (uint32_t n = 0; n < g->nodes.count; n++) {
        const rf_node_info *node = &g->nodes.items[n];
        if (!node->dead && node->op == &rf_op_max_pool2d_grad)
            masked += ((const rf_pool2d_attr *)node->attr)->relu_mask;
    }
    assert_int_equal(masked, 1);
    rf_arena_free(&arena);
    rf_graph_destroy(&g);
}

static uint32_t live_nodes(const rf_graph *g, const rf_op *op, const rf_shape *shape)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < g->nodes.count; n++) {
        const rf_node_info *node = &g->nodes.items[n];
        if (!node->dead && node->op == op)
            count += !shape || rf_shape_equal(rf_graph_desc(g, node->out[0])->shape, *shape);
    }
    return count;
}

/* Nodes that are left of losses, their mean and its gradient, or that of a multiple of the mean; results are as before.
 */
static uint32_t fuse_losses(bool multiplied)
{
    static const char divisor_object, factor_object;
    rf_graph *g;
    rf_value labels, logits, divisor, factor, losses, sum, mean, total, grad;
    rf_arena arena = { 0 };
    int32_t classes[4] = { 2, 0, 1, 1 };
    float data[12], count = 8, three = 3, before_grad[12], before_mean = 0, before_losses[4];
    OK(rf_graph_create(rf_ops_core(), &g));
    OK(rf_graph_input(g, 0, (rf_tensor_desc){ RF_I32, RF_SHAPE(4) }, &labels));
    OK(rf_graph_input(g, 1, FLOATS(4, 3), &logits));
    OK(rf_graph_host(g, &divisor_object, (rf_tensor_desc){ .dtype = RF_F32 }, "count", &divisor));
    OK(rf_graph_host(g, &factor_object, FLOATS(1), "factor", &factor));
    OK(rf_emit_sparse_crossentropy(g, labels, logits, true, &losses));
    OK(rf_emit_reduce(g, RF_REDUCE_KIND_SUM, losses, NULL, 0, false, &sum));
    OK(rf_emit_binary(g, RF_FN_DIVIDE, 0, sum, divisor, &mean));
    total = mean;
    if (multiplied) OK(rf_emit_binary(g, RF_FN_MULTIPLY, 0, mean, factor, &total)); /* with a dimension */
    if (multiplied) OK(rf_emit_reshape_like(g, total, mean, &total));
    OK(rf_graph_differentiate(g, total, &logits, 1, &grad));
    for (uint32_t i = 0; i < RF_LENGTH(data); i++) data[i] = (float)((int)(i * 37 % 23) - 11) / 4;
    for (int pass = 0; pass < 2; pass++) {
        void **values = rf_arena_alloc(&arena, g->values.count * sizeof(void *));
        assert_non_null(values);
        values[labels] = classes;
        values[logits] = data;
        values[divisor] = &count;
        values[factor] = &three;
        OK(rf_graph_interpret(g, &arena, values));
        if (pass == 1) {
            assert_memory_equal(values[losses], before_losses, sizeof(before_losses));
            assert_memory_equal(values[mean], &before_mean, sizeof(before_mean));
            for (uint32_t i = 0; i < RF_LENGTH(data); i++)
                assert_float_equal(((float *)values[grad])[i], before_grad[i], 1e-7f);
            break;
        }
        memcpy(before_losses, values[losses], sizeof(before_losses));
        memcpy(before_grad, values[grad], sizeof(before_grad));
        memcpy(&before_mean, values[mean], sizeof(before_mean));
        OK(rf_graph_optimize(g, &(rf_graph_roots){ (rf_value[]){ mean, grad, losses }, 3 }));
    }
    uint32_t live = 0;
    for (uint32_t n = 0; n < g->nodes.count; n++) live += !g->nodes.items[n].dead;
    assert_int_equal(live_nodes(g, &rf_op_sparse_crossentropy_grad, NULL), 1);
    assert_int_equal(live_nodes(g, &rf_op_reduce, NULL), multiplied); /* what flows in is made later */
    rf_arena_free(&arena);
    rf_graph_destroy(&g);
    return live;
}

/* The mean's gradient is a number that the losses' gradient divides by itself, and which makes the losses and their
 * mean as well. Other quotients are computed before. */
TEST(test_losses_and_their_gradient_are_one)
{
    assert_int_equal(fuse_losses(false), 1);
    assert_true(fuse_losses(true) > 1);
}

/* A dense layer's bias' gradient comes out of the product that its kernel's is, but not where the layer is applied to
 * more than vectors, or where it is read along the other axis. */
TEST(test_products_make_the_bias_gradient)
{
    rf_graph *g;
    rf_value x, kernel, bias, y, loss, grads[2], other;
    rf_arena arena = { 0 };
    float data[5 * 3], weights[3 * 2] = { 1, -2, 0.5f, 3, 0, 1 }, shifts[2] = { 0.5f, -1 }, before[2][6];
    OK(rf_graph_create(rf_ops_core(), &g));
    OK(rf_graph_input(g, 0, FLOATS(5, 3), &x));
    OK(rf_graph_input(g, 1, FLOATS(3, 2), &kernel));
    OK(rf_graph_input(g, 2, FLOATS(2), &bias));
    OK(rf_emit_matmul(g, x, kernel, false, false, &y));
    OK(rf_emit_bias_add(g, y, bias, &y));
    OK(rf_emit_reduce(g, RF_REDUCE_KIND_SUM_SQUARES, y, NULL, 0, false, &loss));
    OK(rf_graph_differentiate(g, loss, (rf_value[]){ kernel, bias }, 2, grads));
    OK(rf_emit_reduce(g, RF_REDUCE_KIND_SUM, y, (const int32_t[]){ 1 }, 1, false, &other));
    for (uint32_t i = 0; i < RF_LENGTH(data); i++) data[i] = (float)((int)(i * 37 % 23) - 11);
    for (int pass = 0; pass < 2; pass++) {
        void **values = rf_arena_alloc(&arena, g->values.count * sizeof(void *));
        assert_non_null(values);
        values[x] = data;
        values[kernel] = weights;
        values[bias] = shifts;
        OK(rf_graph_interpret(g, &arena, values));
        for (uint32_t i = 0; pass == 1 && i < 6; i++)
            assert_float_equal(((float *)values[grads[0]])[i], before[0][i], 1e-4f);
        for (uint32_t i = 0; pass == 1 && i < 2; i++)
            assert_float_equal(((float *)values[grads[1]])[i], before[1][i], 1e-4f);
        if (pass == 1) break;
        memcpy(before[0], values[grads[0]], sizeof(before[0]));
        memcpy(before[1], values[grads[1]], 2 * sizeof(float));
        OK(rf_graph_optimize(g, &(rf_graph_roots){ (rf_value[]){ grads[0], grads[1], other }, 3 }));
    }
    assert_int_equal(live_nodes(g, &rf_op_matmul, NULL), 2);
    assert_int_equal(live_nodes(g, &rf_op_reduce, NULL), 2); /* the loss, whose shape is read, and the other axis */
    assert_int_equal(g->values.items[grads[0]].producer, g->values.items[grads[1]].producer);
    rf_op_call call;
    rf_graph_call(g, g->values.items[grads[1]].producer, &call);
    assert_int_equal(call.n_out, 2);
    rf_arena_free(&arena);
    rf_graph_destroy(&g);
}

#define NORM_EPSILON 1e-3
enum { NORM_ROWS = 6, NORM_CHANNELS = 4, NORM_SIZE = NORM_ROWS * NORM_CHANNELS };
typedef struct norm_numbers {
    double x[NORM_SIZE], gamma[NORM_CHANNELS], beta[NORM_CHANNELS];
} norm_numbers;

/* The sum of squares of what is positive after batch normalization. */
static double normalized_loss(const norm_numbers *n)
{
    double loss = 0;
    for (int c = 0; c < NORM_CHANNELS; c++) {
        double mean = 0, variance = 0;
        for (int r = 0; r < NORM_ROWS; r++) mean += n->x[r * NORM_CHANNELS + c] / NORM_ROWS;
        for (int r = 0; r < NORM_ROWS; r++) variance += pow(n->x[r * NORM_CHANNELS + c] - mean, 2) / NORM_ROWS;
        for (int r = 0; r < NORM_ROWS; r++) {
            const double scale = n->gamma[c] / sqrt(variance + NORM_EPSILON);
            const double y = (n->x[r * NORM_CHANNELS + c] - mean) * scale + n->beta[c];
            if (y > 0) loss += y * y;
        }
    }
    return loss;
}

static void expect_slopes(norm_numbers *n, double *at, uint32_t count, const float *slopes)
{
    for (uint32_t i = 0; i < count; i++) {
        const double before = at[i], step = 1e-6;
        at[i] = before + step;
        const double above = normalized_loss(n);
        at[i] = before - step;
        const double slope = (above - normalized_loss(n)) / (2 * step);
        at[i] = before;
        assert_float_equal(slopes[i], slope, 1e-5 * (1 + fabs(slope)));
    }
}

/* Forward one walk for the moments and one for the result with its activation; backward one for what the loss sends
 * back, with the activation where there is no shift, one for both sums and one for the gradient of x; of the channels
 * alone only the scale. Gradients are those of the whole, with gamma and shift or without. */
static void batch_normalization_takes_five_walks(bool scaled, bool shifted)
{
    rf_graph *g;
    rf_normalize_values v = { 0 };
    rf_value gamma, beta, deviation, y, loss, grad[3];
    rf_arena arena = { 0 };
    const rf_shape full = RF_SHAPE(2, 3, 4), channels = RF_SHAPE(4);
    norm_numbers n = { .gamma = { 1, 1, 1, 1 } };
    float data[NORM_SIZE], weights[4] = { 1, 1, 1, 1 }, shifts[4];
    OK(rf_graph_create(rf_ops_core(), &g));
    OK(rf_graph_input(g, 0, FLOATS(2, 3, 4), &v.x));
    OK(rf_graph_input(g, 1, FLOATS(4), &gamma));
    OK(rf_graph_input(g, 2, FLOATS(4), &beta));
    v.gamma = scaled ? gamma : 0;
    v.shift = shifted ? beta : 0;
    OK(rf_emit_batch_moments(g, v.x, &v.mean, &v.variance));
    OK(rf_emit_unary(g, RF_FN_ADD_IMM, (float)NORM_EPSILON, v.variance, &deviation));
    OK(rf_emit_unary(g, RF_FN_SQRT, 0, deviation, &deviation));
    OK(rf_emit_binary(g, RF_FN_DIVIDE, 0, gamma, deviation, &v.scale));
    OK(rf_emit_normalize(g, &v, (float)NORM_EPSILON, &y));
    OK(rf_emit_unary(g, RF_FN_RELU, 0, y, &y));
    OK(rf_emit_reduce(g, RF_REDUCE_KIND_SUM_SQUARES, y, NULL, 0, false, &loss));
    rf_value by[3] = { v.x };
    uint32_t num_by = 1;
    if (scaled) by[num_by++] = gamma;
    if (shifted) by[num_by++] = beta;
    OK(rf_graph_differentiate(g, loss, by, num_by, grad));
    for (uint32_t i = 0; i < NORM_SIZE; i++) n.x[i] = data[i] = (float)((int)(i * 37 % 23) - 11) * 0.5f;
    for (uint32_t i = 0; i < NORM_CHANNELS; i++) {
        if (scaled) n.gamma[i] = weights[i] = 1.5f - (float)i;
        n.beta[i] = shifts[i] = shifted ? 0.25f * (float)i : 0;
    }
    for (int pass = 0; pass < 2; pass++) {
        void **values = rf_arena_alloc(&arena, g->values.count * sizeof(void *));
        assert_non_null(values);
        values[v.x] = data;
        values[gamma] = weights;
        values[beta] = shifts;
        OK(rf_graph_interpret(g, &arena, values));
        expect_slopes(&n, n.x, NORM_SIZE, values[grad[0]]);
        if (scaled) expect_slopes(&n, n.gamma, NORM_CHANNELS, values[grad[1]]);
        if (shifted) expect_slopes(&n, n.beta, NORM_CHANNELS, values[grad[num_by - 1]]);
        OK(rf_graph_optimize(g, &(rf_graph_roots){ grad, num_by }));
    }
    assert_int_equal(live_nodes(g, &rf_op_batch_moments, NULL), 1);
    assert_int_equal(live_nodes(g, &rf_op_batch_sums, NULL), 1);
    assert_int_equal(live_nodes(g, &rf_op_elementwise, &full), 3);
    assert_int_equal(live_nodes(g, &rf_op_elementwise, &channels), 1);
    assert_int_equal(live_nodes(g, &rf_op_normalize, NULL) + live_nodes(g, &rf_op_broadcast_like, &full), 0);
    assert_int_equal(live_nodes(g, &rf_op_mean_scale, NULL) + live_nodes(g, &rf_op_sum_to_like, NULL), 0);
    rf_arena_free(&arena);
    rf_graph_destroy(&g);
}

TEST(test_batch_normalization_takes_five_walks)
{
    for (uint32_t form = 0; form < 4; form++) batch_normalization_takes_five_walks(form & 1, form & 2);
}

/* A broadcast goes where another operand gives the result its shape, and stays where it does that alone. */
TEST(test_broadcasts_go_into_what_reads_them)
{
    for (int alone = 0; alone < 2; alone++) {
        rf_graph *g;
        rf_value x, v, wide, y;
        OK(rf_graph_create(rf_ops_core(), &g));
        OK(rf_graph_input(g, 0, FLOATS(5, 4), &x));
        OK(rf_graph_input(g, 1, FLOATS(4), &v));
        OK(rf_emit_broadcast_like(g, v, x, &wide));
        OK(rf_emit_binary(g, RF_FN_MULTIPLY, 0, wide, alone ? v : x, &y));
        OK(rf_graph_optimize(g, &(rf_graph_roots){ &y, 1 }));
        assert_int_equal(live_nodes(g, &rf_op_broadcast_like, NULL), alone);
        assert_int_equal(live_nodes(g, &rf_op_elementwise, NULL), 1);
        rf_graph_destroy(&g);
    }
}

/* A small classifier: the convolution pools, and its kernel's and bias' gradients come of that of the maxima; the
 * product behind the ReLU's gradient takes its mask, and the gradient of the losses makes their mean and says which
 * predictions are right. */
TEST(test_a_classifier_is_short)
{
    static const char divisor_object;
    (void)state;
    rf_graph *g;
    rf_value x, labels, divisor, kernel, bias, weights, last, y, logits, losses, mean, hits, grads[4];
    rf_arena arena = { 0 };
    int32_t classes[2] = { 2, 0 };
    float images[60], kernels[36], dense[40], head[15], offsets[4], count = 2, before[9];
    OK(rf_graph_create(rf_ops_core(), &g));
    OK(rf_graph_input(g, 0, FLOATS(2, 6, 5, 1), &x));
    OK(rf_graph_input(g, 1, (rf_tensor_desc){ RF_I32, RF_SHAPE(2) }, &labels));
    OK(rf_graph_input(g, 2, FLOATS(3, 3, 1, 4), &kernel));
    OK(rf_graph_input(g, 3, FLOATS(8, 5), &weights));
    OK(rf_graph_input(g, 4, FLOATS(5, 3), &last));
    OK(rf_graph_input(g, 5, FLOATS(4), &bias));
    OK(rf_graph_host(g, &divisor_object, (rf_tensor_desc){ .dtype = RF_F32 }, "count", &divisor));
    OK(rf_emit_conv2d(g, x, kernel, NULL, &y));
    OK(rf_emit_bias_add(g, y, bias, &y));
    OK(rf_emit_unary(g, RF_FN_RELU, 0, y, &y));
    OK(rf_emit_max_pool2d(g, y, NULL, &y));
    OK(rf_emit_reshape(g, y, (rf_shape){ 2, { -1, 8 } }, &y));
    OK(rf_emit_matmul(g, y, weights, false, false, &y));
    OK(rf_emit_unary(g, RF_FN_RELU, 0, y, &y));
    OK(rf_emit_matmul(g, y, last, false, false, &logits));
    OK(rf_emit_sparse_crossentropy(g, labels, logits, true, &losses));
    OK(rf_emit_reduce(g, RF_REDUCE_KIND_SUM, losses, NULL, 0, false, &mean));
    OK(rf_emit_binary(g, RF_FN_DIVIDE, 0, mean, divisor, &mean));
    OK(rf_emit_accuracy(g, labels, logits, &hits));
    OK(rf_graph_differentiate(g, mean, (rf_value[]){ kernel, weights, last, bias }, 4, grads));
    float *const data[] = { images, kernels, dense, head, offsets };
    const uint32_t counts[] = { 60, 36, 40, 15, 4 };
    for (uint32_t t = 0; t < 5; t++)
        for (uint32_t i = 0; i < counts[t]; i++) data[t][i] = (float)((int)(i * 37 % 23) - 9) / 8;
    for (int pass = 0; pass < 2; pass++) {
        void **values = rf_arena_alloc(&arena, g->values.count * sizeof(void *));
        assert_non_null(values);
        values[x] = images;
        values[labels] = classes;
        values[kernel] = kernels;
        values[weights] = dense;
        values[last] = head;
        values[bias] = offsets;
        values[divisor] = &count;
        OK(rf_graph_interpret(g, &arena, values));
        const float *const found[] = { values[mean],     values[hits],     values[grads[0]],
                                       values[grads[1]], values[grads[2]], values[grads[3]] };
        const float now[] = { found[0][0], found[1][0], found[1][1],  found[2][0], found[2][35],
                              found[3][7], found[4][0], found[4][14], found[5][3] };
        for (uint32_t i = 0; pass == 1 && i < 9; i++) assert_float_equal(now[i], before[i], 1e-5f);
        memcpy(before, now, sizeof(before));
        if (pass == 1) break;
        OK(rf_graph_optimize(
            g, &(rf_graph_roots){ (rf_value[]){ mean, hits, grads[0], grads[1], grads[2], grads[3] }, 6 }));
    }
    static const rf_op *const gone[] = { &rf_op_max_pool2d,         &rf_op_max_pool2d_grad, &rf_op_conv2d_filter_grad,
                                         &rf_op_elementwise,        &rf_op_reduce,          &rf_op_accuracy,
                                         &rf_op_sparse_crossentropy };
    for (uint32_t i = 0; i < RF_LENGTH(gone); i++) assert_int_equal(live_nodes(g, gone[i], NULL), 0);
    assert_int_equal(live_nodes(g, &rf_op_matmul, NULL), 6);
    assert_int_equal(live_nodes(g, &rf_op_conv2d_pool_filter_grad, NULL), 1);
    rf_arena_free(&arena);
    rf_graph_destroy(&g);
}

/* Gradients of weights that were cast to 16 bits are made in f32: not rounded, and nothing casts them. A gradient that
 * something else reads as well stays what it was. */
TEST(test_products_make_f32)
{
    static const rf_shape image = { 4, { 1, 4, 4, 2 } };
    for (int read_twice = 0; read_twice < 2; read_twice++) {
        rf_graph *g;
        rf_value x, kernel, filter, narrow[3], y, z, loss, sum, grads[2], roots[3];
        OK(rf_graph_create(rf_ops_core(), &g));
        OK(rf_graph_input(g, 0, (rf_tensor_desc){ RF_F32, image }, &x));
        OK(rf_graph_input(g, 1, FLOATS(8, 5), &kernel));
        OK(rf_graph_input(g, 2, FLOATS(3, 3, 2, 2), &filter));
        OK(rf_emit_cast(g, x, RF_F16, &narrow[0]));
        OK(rf_emit_cast(g, kernel, RF_F16, &narrow[1]));
        OK(rf_emit_cast(g, filter, RF_F16, &narrow[2]));
        OK(rf_emit_conv2d(g, narrow[0], narrow[2], NULL, &y));
        OK(rf_emit_reshape(g, y, RF_SHAPE(1, 8), &y));
        OK(rf_emit_matmul(g, y, narrow[1], false, false, &z));
        OK(rf_emit_reduce(g, RF_REDUCE_KIND_SUM_SQUARES, z, NULL, 0, false, &loss));
        OK(rf_graph_differentiate(g, loss, (rf_value[]){ kernel, filter }, 2, grads));
        const rf_node_info *cast = &g->nodes.items[g->values.items[grads[0]].producer];
        assert_ptr_equal(cast->op, &rf_op_cast);
        OK(rf_emit_reduce(g, RF_REDUCE_KIND_SUM, cast->in[0], NULL, 0, false, &sum));
        memcpy(roots, (rf_value[]){ grads[0], grads[1], sum }, sizeof(roots));
        OK(rf_graph_optimize(g, &(rf_graph_roots){ roots, 2 + (uint32_t)read_twice }));
        const rf_op *ops[2];
        for (int i = 0; i < 2; i++) {
            assert_int_equal(rf_graph_desc(g, grads[i])->dtype, RF_F32);
            ops[i] = g->nodes.items[g->values.items[grads[i]].producer].op;
        }
        assert_ptr_equal(ops[0], read_twice ? &rf_op_cast : &rf_op_matmul);
        assert_ptr_equal(ops[1], &rf_op_conv2d_filter_grad);
        rf_graph_destroy(&g);
    }
}

TESTS(fusion_host, NULL, NULL)
