/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients against central differences of the interpreted graph, and when differentiation refuses. */
#include <math.h>

#include "graph/batch_dims.h"
#include "tests/room.h"
#include "toy.h"

static const char object;

static double run_loss(const rf_graph *g, rf_arena *arena, void **values, rf_value loss)
{
    OK(rf_graph_interpret(g, arena, values));
    return *(float *)values[loss];
}

/* Compares grads[i] with finite differences in every element of leaf targets[i]. */
static void check_gradients(rf_graph *g, rf_value loss, const rf_value *targets, uint32_t num_targets,
                            const rf_value *grads)
{
    toy_check_order(g);
    rf_arena arena = { 0 };
    void **values = toy_fill_leaves(g, &arena, 5);
    (void)run_loss(g, &arena, values, loss);
    for (uint32_t t = 0; t < num_targets; t++) {
        const int64_t count = rf_shape_count(rf_graph_desc(g, targets[t])->shape);
        assert_true(rf_shape_equal(rf_graph_desc(g, targets[t])->shape, rf_graph_desc(g, grads[t])->shape));
        float analytic[64];
        assert_true(count <= 64);
        memcpy(analytic, values[grads[t]], (size_t)count * sizeof(float));
        float *leaf = values[targets[t]];
        for (int64_t i = 0; i < count; i++) {
            const float was = leaf[i], h = 0x1p-6f;
            leaf[i] = was + h;
            const double up = run_loss(g, &arena, values, loss);
            leaf[i] = was - h;
            const double down = run_loss(g, &arena, values, loss);
            leaf[i] = was;
            const double numeric = (up - down) / (2 * (double)h);
            if (fabs(numeric - analytic[i]) > 2e-3 * (1 + fabs(numeric)))
                fail_msg("target %u element %d: %g, expected %g", t, (int)i, (double)analytic[i], numeric);
        }
        (void)run_loss(g, &arena, values, loss);
    }
    rf_arena_free(&arena);
}

/* sum(flatten(sin(x) * x + (x * w)^2) * 0.5) + sum(2x of split) ...: every value is read more than once. */
static rf_value nested_loss(rf_graph *g, rf_value x, rf_value w)
{
    const rf_value s = toy1(g, &toy_sin, x);
    const rf_value a = toy2(g, &toy_mul, s, x);
    const rf_value b = toy1(g, &toy_square, toy2(g, &toy_mul, x, w));
    const rf_value c = toy2(g, &toy_add, a, b);
    rf_value split[2];
    OK(rf_graph_add(g, &toy_split, NULL, &c, 1, split));
    const rf_value both = toy2(g, &toy_mul, split[0], toy1(g, &toy_sin, split[1]));
    const rf_value flat = toy_scaled(g, toy1(g, &toy_flatten, both), 0.5f);
    const rf_value self = toy2(g, &toy_mul, toy2(g, &toy_add, s, s), toy2(g, &toy_add, s, s));
    return toy2(g, &toy_add, toy1(g, &toy_sum, flat), toy1(g, &toy_sum, self));
}

TEST(nested_with_fan_out)
{
    rf_graph *g;
    OK(rf_graph_create(&toy_core, &g));
    rf_value x, w;
    OK(rf_graph_input(g, 0, F32(2, 3, 1), &x));
    OK(rf_graph_state(g, &object, F32(2, 3, 1), "w", &w));
    const rf_value loss = nested_loss(g, x, w), targets[] = { x, w };
    rf_value grads[2];
    OK(rf_graph_differentiate(g, loss, targets, 2, grads));
    check_gradients(g, loss, targets, 2, grads);
    /* And after the rewrites. */
    const rf_value results[] = { loss, grads[0], grads[1] };
    OK(rf_graph_optimize(g, &(rf_graph_roots){ results, 3 }));
    check_gradients(g, loss, targets, 2, grads);
    rf_graph_destroy(&g);
}

/* f = sum(p q), with p and q both sin(x): d f / d p is q, and only d f / d x counts both. Joined afterwards, they are
 * computed once. */
TEST(equal_expressions_are_two_targets)
{
    rf_graph *g;
    OK(rf_graph_create(&toy_core, &g));
    rf_value x;
    OK(rf_graph_input(g, 0, F32(2, 3), &x));
    const rf_value p = toy1(g, &toy_sin, x), q = toy1(g, &toy_sin, x);
    const rf_value loss = toy1(g, &toy_sum, toy2(g, &toy_mul, p, q)), targets[] = { p, q, x };
    rf_value grads[3], results[4];
    OK(rf_graph_differentiate(g, loss, targets, 3, grads));
    rf_value *map = test_calloc(g->values.count, sizeof(*map));
    OK(rf_graph_merge_common(g, map));
    toy_check_order(g);
    assert_int_equal(map[p], map[q]);
    assert_int_equal(1, toy_count(g, &toy_sin));
    results[0] = map[loss];
    for (uint32_t i = 0; i < 3; i++) results[1 + i] = map[grads[i]];
    OK(rf_graph_optimize(g, &(rf_graph_roots){ results, 4 }));
    rf_arena arena = { 0 };
    void **values = toy_fill_leaves(g, &arena, 3);
    OK(rf_graph_interpret(g, &arena, values));
    for (uint32_t i = 0; i < 6; i++) {
        const float at = ((float *)values[x])[i];
        assert_float_equal(((float *)values[results[1]])[i], sinf(at), 1e-6);
        assert_float_equal(((float *)values[results[2]])[i], sinf(at), 1e-6);
        assert_float_equal(((float *)values[results[3]])[i], 2 * sinf(at) * cosf(at), 1e-6);
    }
    rf_arena_free(&arena);
    test_free(map);
    rf_graph_destroy(&g);
}

TEST(one_output_of_several)
{
    rf_graph *g;
    OK(rf_graph_create(&toy_core, &g));
    rf_value x, split[2], grad;
    OK(rf_graph_input(g, 0, F32(4, 2), &x));
    OK(rf_graph_add(g, &toy_split, NULL, &x, 1, split));
    const rf_value loss = toy1(g, &toy_sum, toy1(g, &toy_sin, split[1]));
    OK(rf_graph_differentiate(g, loss, &x, 1, &grad));
    check_gradients(g, loss, &x, 1, &grad);
    rf_graph_destroy(&g);
}

/* As many outputs as an op may have, the first of which nothing reads; fused and planned like any other. */
TEST(all_outputs_there_may_be)
{
    assert_true(RF_MAX_OUTPUTS >= 8);
    rf_graph *g;
    OK(rf_graph_create(&toy_core, &g));
    rf_value x, fan[RF_MAX_OUTPUTS], grad;
    OK(rf_graph_input(g, 0, F32(4, 2), &x));
    const rf_value small = toy_scaled(g, x, 0.125f); /* for differences: the sine of the last output is steep */
    OK(rf_graph_add(g, &toy_fan, NULL, &small, 1, fan));
    rf_value total = toy1(g, &toy_sin, fan[1]);
    for (uint32_t i = 2; i < RF_MAX_OUTPUTS; i++) total = toy2(g, &toy_add, total, toy1(g, &toy_sin, fan[i]));
    const rf_value loss = toy1(g, &toy_sum, total);
    OK(rf_graph_differentiate(g, loss, &x, 1, &grad));
    check_gradients(g, loss, &x, 1, &grad);
    const rf_op wider = {
        .name = "wider", .min_in = 1, .max_in = 1, .n_out = RF_MAX_OUTPUTS + 1, .infer = toy_fan.infer
    };
    FAILS(rf_graph_add(g, &wider, NULL, &x, 1, fan), RF_ERROR_INTERNAL, "too many outputs");
    rf_graph_destroy(&g);
}

TEST(no_influence_gives_zeros)
{
    rf_graph *g;
    OK(rf_graph_create(&toy_core, &g));
    rf_value x, y, grads[3];
    OK(rf_graph_input(g, 0, F32(2, 2), &x));
    OK(rf_graph_input(g, 1, F32(3), &y));
    /* y lends its shape only; x passes through an op that stops the gradient. */
    const rf_value e = toy2(g, &toy_expand_like, toy1(g, &toy_sum, toy1(g, &toy_stop, x)), y);
    const rf_value loss = toy1(g, &toy_sum, e);
    const rf_value targets[] = { x, y, loss };
    OK(rf_graph_differentiate(g, loss, targets, 3, grads));
    check_gradients(g, loss, targets + 1, 1, grads + 1);
    rf_arena arena = { 0 };
    void **values = toy_fill_leaves(g, &arena, 1);
    OK(rf_graph_interpret(g, &arena, values));
    for (uint32_t i = 0; i < 4; i++) assert_true(((float *)values[grads[0]])[i] == 0);
    assert_true(*(float *)values[grads[2]] == 1);
    rf_arena_free(&arena);
    rf_graph_destroy(&g);
}

TEST(shapes_carry_no_gradient)
{
    rf_graph *g;
    OK(rf_graph_create(&toy_core, &g));
    rf_value x, grad;
    OK(rf_graph_input(g, 0, F32(2, 2), &x));
    rf_op ones = toy_fill_like; /* without a gradient, and without saying that it stops */
    ones.flags = 0;
    const rf_value loss = toy1(g, &toy_sum, toy1(g, &ones, x));
    OK(rf_graph_differentiate(g, loss, &x, 1, &grad));
    assert_ptr_equal(&toy_fill_like, g->nodes.items[g->values.items[grad].producer].op); /* zeros */
    rf_graph_destroy(&g);
}

TEST(intermediate_targets)
{
    rf_graph *g;
    OK(rf_graph_create(&toy_core, &g));
    rf_value x;
    OK(rf_graph_input(g, 0, F32(2, 2), &x));
    const rf_value y = toy_scaled(g, x, 3), loss = toy1(g, &toy_sum, toy_scaled(g, y, 5));
    const rf_value targets[] = { y, x };
    rf_value grads[2];
    OK(rf_graph_differentiate(g, loss, targets, 2, grads));
    rf_arena arena = { 0 };
    void **values = toy_fill_leaves(g, &arena, 1);
    OK(rf_graph_interpret(g, &arena, values));
    assert_true(*(float *)values[grads[0]] == 5 && *(float *)values[grads[1]] == 15);
    rf_arena_free(&arena);
    rf_graph_destroy(&g);
}

TEST(missing_gradient_is_an_error_only_on_the_way)
{
    rf_graph *g;
    OK(rf_graph_create(&toy_core, &g));
    rf_value x, w, grad;
    OK(rf_graph_input(g, 0, F32(2, 2), &x));
    OK(rf_graph_state(g, &object, F32(2, 2), "w", &w));
    const rf_value fl = toy1(g, &toy_floor, x);
    const rf_value loss = toy1(g, &toy_sum, toy2(g, &toy_mul, fl, w));
    OK(rf_graph_differentiate(g, loss, &w, 1, &grad));
    check_gradients(g, loss, &w, 1, &grad);
    FAILS(rf_graph_differentiate(g, loss, &x, 1, &grad), RF_ERROR_NO_GRADIENT, "toy_floor");
    /* It reads x, but the loss does not read it. */
    const rf_value other = toy1(g, &toy_sum, toy1(g, &toy_sin, x));
    OK(rf_graph_differentiate(g, other, &x, 1, &grad));
    check_gradients(g, other, &x, 1, &grad);
    /* A stop before it: nothing flows. */
    const rf_value stopped = toy1(g, &toy_sum, toy1(g, &toy_floor, toy1(g, &toy_stop, x)));
    OK(rf_graph_differentiate(g, stopped, &x, 1, &grad));
    FAILS(rf_graph_check_influence(g, stopped, &x, 1), RF_ERROR_NO_GRADIENT, "influence");
    FAILS(rf_graph_check_influence(g, other, &w, 1), RF_ERROR_NO_GRADIENT, "influence");
    OK(rf_graph_check_influence(g, other, (rf_value[]){ w, x }, 2));
    rf_graph_destroy(&g);
}

/* The gradient of a node would read what the update behind it wrote; that before the node is what it read. */
TEST(no_gradient_across_an_update)
{
    for (int between = 0; between < 2; between++) {
        rf_value x, w, grad;
        rf_graph *g = toy_graph(&x, &w);
        toy_accumulated(g, w, x);
        const rf_value product = toy2(g, &toy_mul, x, w);
        OK(rf_graph_differentiate(g, toy1(g, &toy_sum, product), &x, 1, &grad));
        rf_graph_destroy(&g);

        g = toy_graph(&x, &w);
        const rf_value later = toy2(g, &toy_mul, x, w);
        if (between) (void)toy1(g, &toy_sin, x);
        toy_accumulated(g, w, x);
        FAILS(rf_graph_differentiate(g, toy1(g, &toy_sum, later), &x, 1, &grad), RF_ERROR_INVALID_ARGUMENT,
              "gradient of 'toy_mul': its input, state 'w', is updated in place later in the step");
        rf_graph_destroy(&g);
    }
}

static rf_result wrong_gradient(rf_grad_context *c)
{
    c->din[0] = c->dout[0]; /* a scalar instead of the input's shape */
    return RF_OK;
}

TEST(bad_requests)
{
    rf_graph *g;
    OK(rf_graph_create(&toy_core, &g));
    rf_value x, w, grad, labels;
    OK(rf_graph_input(g, 0, F32(2, 2), &x));
    OK(rf_graph_state(g, &object, F32(2, 2), "w", &w));
    OK(rf_graph_input(g, 1, (rf_tensor_desc){ RF_I32, RF_SHAPE(2) }, &labels));
    const rf_value y = toy2(g, &toy_mul, w, x), loss = toy1(g, &toy_sum, y);
    FAILS(rf_graph_differentiate(g, y, &x, 1, &grad), RF_ERROR_INVALID_ARGUMENT, "f32[2,2]");
    FAILS(rf_graph_differentiate(g, 0, &x, 1, &grad), RF_ERROR_INVALID_ARGUMENT, "loss");
    FAILS(rf_graph_differentiate(g, loss, &labels, 1, &grad), RF_ERROR_INVALID_ARGUMENT, "i32");
    rf_op wrong = toy_sum;
    wrong.name = "wrong";
    wrong.gradient = wrong_gradient;
    FAILS(rf_graph_differentiate(g, toy1(g, &wrong, x), &x, 1, &grad), RF_ERROR_INTERNAL, "wrong");
    /* The gradient would multiply with what w becomes. */
    toy_accumulated(g, w, x);
    FAILS(rf_graph_differentiate(g, loss, &x, 1, &grad), RF_ERROR_INVALID_ARGUMENT, "state 'w'");
    const rf_value later = toy1(g, &toy_sum, toy2(g, &toy_mul, w, x));
    OK(rf_graph_differentiate(g, later, &x, 1, &grad));
    rf_graph_destroy(&g);
    OK(rf_graph_create(NULL, &g));
    FAILS(rf_graph_differentiate(g, loss, &x, 1, &grad), RF_ERROR_INVALID_ARGUMENT, "core");
    rf_graph_destroy(&g);
}

/* Its gradient is a state, which has the shape of the traced batch. */
static rf_result infer_same(rf_op_call *call)
{
    call->out[0] = call->in[0];
    return RF_OK;
}
static rf_result grad_fixed(rf_grad_context *c)
{
    return rf_graph_state(c->graph, &object, F32(4, 3), "slopes", &c->din[0]);
}
static const rf_op fixed_slope = {
    .name = "fixed_slope", .min_in = 1, .max_in = 1, .n_out = 1, .infer = infer_same, .gradient = grad_fixed
};

TEST(gradients_keep_their_shape_with_other_batches)
{
    rf_graph *g;
    rf_value x, grad;
    OK(rf_graph_create(&toy_core, &g));
    OK(rf_graph_input(g, 0, F32(4, 3), &x));
    OK(rf_graph_set_call(g, "custom"));
    const rf_value loss = toy1(g, &toy_sum, toy1(g, &fixed_slope, toy1(g, &toy_sin, x)));
    OK(rf_graph_differentiate(g, loss, &x, 1, &grad));
    OK(rf_graph_check_batches(g, &loss, 1));
    assert_null(g->fixed_by); /* nobody needs the gradient */
    OK(rf_graph_check_batches(g, &grad, 1));
    assert_non_null(g->fixed_by);
    FAILS(rf_graph_specialize(g, 7), RF_ERROR_INVALID_ARGUMENT, "fits n = 4 alone");
    OK(rf_graph_specialize(g, 4));
    rf_graph_destroy(&g);
}

TESTS(autodiff, NULL, NULL)
