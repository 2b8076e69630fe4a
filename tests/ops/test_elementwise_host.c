/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise, broadcasting and shape ops without a device: inference, references, fusion, gradients, plans on made-up
 * devices. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../skip.h"
#include "../support/op_call.h"
#include "base/error.h"
#include "base/memory.h"
#include "ops/kit.h"
#include "ops/pointwise/common/elementwise.h"
#include "ops/pointwise/common/gather.h"
#include "tests/room.h"

static rf_tensor_desc f32(rf_shape shape)
{
    return (rf_tensor_desc){ RF_F32, shape };
}

/* Limits of a roomy GPU; clamped, Vulkan's minimum. */
static rf_device_caps make_caps(bool clamped)
{
    rf_device_caps caps = {
        .driver = RF_DRIVER_OTHER,
        .subgroup_size = 32,
        .max_workgroup_size = { 1024, 1024, 64 },
        .max_workgroup_invocations = 1024,
        .max_grid = { 0x7fffffff, 65535, 65535 },
        .max_shared_memory = 49152,
        .max_push_constants = 256,
        .max_storage_range = 0xffffffffu,
        .max_texel_elements = 1u << 27,
        .buffer_alignment = 256,
        .int64 = true,
    };
    if (clamped) rf_device_caps_clamp(&caps);
    return caps;
}

static rf_elementwise_attr one(rf_scalar_fn fn)
{
    return (rf_elementwise_attr){ 1, { { (uint8_t)fn, 0, (uint8_t)(rf_scalar_table[fn].arity - 1), 0, 0 } } };
}

/* ---- registry ---- */

TEST(registry_finds_every_op_by_its_unique_name)
{
    uint32_t count;
    const rf_op *const *all = rf_ops_all(&count);
    assert_true(count >= 35);
    for (uint32_t i = 0; i < count; i++) assert_ptr_equal(rf_ops_find(all[i]->name), all[i]);
    assert_null(rf_ops_find("no such op"));
    assert_non_null(rf_ops_core()->add);
}

/* ---- inference ---- */

TEST(errors_name_the_op_and_the_shapes)
{
    const rf_elementwise_attr add = one(RF_FN_ADD);
    const rf_tensor_desc odd[2] = { f32(RF_SHAPE(3, 4)), f32(RF_SHAPE(3)) };
    check_error(&rf_op_elementwise, &add, 2, odd, "add: shapes [3,4] and [3]");
    const rf_tensor_desc typed[2] = { f32(RF_SHAPE(3)), { RF_I32, RF_SHAPE(3) } };
    check_error(&rf_op_elementwise, &add, 2, typed, "operand 1 is i32");
    rf_elementwise_attr early = { 2, { { RF_FN_ADD, 0, 3, 0, 0 }, { RF_FN_EXP, 2, 0, 0, 0 } } };
    check_error(&rf_op_elementwise, &early, 2, odd, "step 0 (add) reads a register");
    early.n_steps = 9;
    check_error(&rf_op_elementwise, &early, 2, odd, "1 to 8 steps");
    check_error(&rf_op_sum_to_like, NULL, 2, odd, "sum_to_like: shape [3] does not broadcast to [3,4]");
    check_error(&rf_op_reshape_like, NULL, 2, odd, "reshape_like: [3,4] and [3]");
    const rf_shape five = { 2, { 5, -1 } };
    check_error(&rf_op_reshape, &five, 1, odd, "reshape: [3,4] does not divide into [5,-1]");
    const int32_t twice[RF_MAX_RANK] = { 1, 1 };
    check_error(&rf_op_transpose, twice, 1, odd, "transpose: entry 1 of the permutation is 1");
    rf_slice_attr range = { .begin = { 0, 4 }, .end = { INT64_MAX, INT64_MAX }, .step = { 1, 1 } };
    check_error(&rf_op_slice, &range, 1, odd,
                "slice: the range from 4 to 9223372036854775807 by 1 is empty along axis 1");
    range.step[1] = INT64_MIN;
    check_error(&rf_op_slice, &range, 1, odd, "slice: the step of axis 1 is -9223372036854775808");
    range.step[1] = 0;
    range.step[2] = -1;
    check_error(&rf_op_slice, &range, 1, odd, "slice: there is a range for axis 2, which shape [3,4] does not have");
    range.step[2] = 0;
    check_error(&rf_op_slice_grad, &range, 2, odd, "slice_grad: input 0 has shape [3,4], needs [3]");
    const rf_tensor_desc bytes = { RF_U8, RF_SHAPE(3, 4) };
    check_error(&rf_op_slice, &range, 1, &bytes, "slice: u8 tensors are not supported");
    const rf_concat_attr second = { 1, 0 }, third = { 2, 0 }, none = { 1, 1 };
    const rf_tensor_desc join[3] = { f32(RF_SHAPE(3, 4)), f32(RF_SHAPE(2, 4)), { RF_I32, RF_SHAPE(3, 4) } };
    check_error(&rf_op_concat, &second, 2, join, "concat: shapes [3,4] and [2,4] differ beside axis 1");
    check_error(&rf_op_concat, &third, 1, join, "concat: shape [3,4] has no axis 2");
    check_error(&rf_op_concat, &second, 2, join + 1, "concat: input 1 is i32");
    check_error(&rf_op_concat, &second, 1, &bytes, "concat: u8 tensors are not supported");
    check_error(&rf_op_concat_grad, &second, 2, join, "concat_grad: input 0 has shape [3,4], needs [2,4]");
    check_error(&rf_op_concat_grad, &none, 2, (rf_tensor_desc[]){ join[0], join[0] }, "no gradient is asked for");
    const rf_split_attr thirds = { 1, 2, { 1, 2 } }, no_parts = { 1, 0, { 0 } }, beyond = { 2, 1, { 1 } };
    check_error(&rf_op_split, &thirds, 1, join, "split: axis 1 of shape [3,4] does not divide into 3 equal parts");
    check_error(&rf_op_split, &no_parts, 1, join, "split: no parts are asked for");
    check_error(&rf_op_split, &beyond, 1, join, "split: shape [3,4] has no axis 2");
    const rf_axis_attr fourth = { 3 }, last = { 1 };
    const rf_tensor_desc full = f32(RF_SHAPE(1, 2, 3, 4, 5, 6));
    check_error(&rf_op_expand_dims, &fourth, 1, join, "expand_dims: there is no axis 3 for shape [3,4]");
    check_error(&rf_op_expand_dims, &last, 1, &full, "expand_dims: shape [1,2,3,4,5,6] has 6 dimensions already");
    check_error(&rf_op_squeeze, &last, 1, join, "squeeze: axis 1 of shape [3,4] is not 1");
    rf_gather_attr along = { 1, 0 };
    const rf_tensor_desc taken[3] = { f32(RF_SHAPE(3, 4)), { RF_I32, RF_SHAPE(2, 5) }, f32(RF_SHAPE(3, 4)) };
    check_error(&rf_op_gather, &along, 2, odd, "gather: indices are f32 [3], need i32");
    along.dtype = RF_F16;
    check_error(&rf_op_gather, &along, 2, taken, "gather: x is f32 [3,4], of which no f16 is taken");
    along.dtype = 0;
    check_error(&rf_op_gather, &along, 2, (rf_tensor_desc[]){ { RF_U8, RF_SHAPE(2, 5, 6) }, taken[1] },
                "gather: of x, u8 [2,5,6], words are taken: what is behind axis 1 must be a multiple of 4");
    check_error(&rf_op_gather_grad, &along, 3, taken, "gather_grad: input 0 has shape [3,4], needs [3,2,5]");
    along.batch_dims = 1;
    check_error(&rf_op_gather, &along, 2, taken,
                "gather: x of shape [3,4] and indices of shape [2,5] must agree in the first 1 dimensions");
    along.axis = 2;
    check_error(&rf_op_gather, &along, 2, taken, "gather: axis 2 of x of shape [3,4], which has 2");
    const rf_tensor_desc high[2] = { f32(RF_SHAPE(2, 2, 2, 2)), { RF_I32, RF_SHAPE(1, 1, 1, 1) } };
    along = (rf_gather_attr){ 0, 0 };
    check_error(&rf_op_gather, &along, 2, high, "gather: x of shape [2,2,2,2] by indices of shape [1,1,1,1] has more");
    rf_dropout_attr all = { .rate = 1 };
    const rf_tensor_desc drop[2] = { f32(RF_SHAPE(3)), { RF_I32, RF_SHAPE(6) } };
    check_error(&rf_op_dropout, &all, 2, drop, "dropout: rate is 1");
    all = (rf_dropout_attr){ .outer = 1, .inner = 2 };
    check_error(&rf_op_dropout, &all, 2, drop, "dropout: shape [3] does not divide into examples of 2 elements");
    all.inner = 0;
    check_error(&rf_op_dropout, &all, 2, drop, "dropout: shape [3] does not divide into examples of 0 elements");
    const rf_tensor_desc adam[5] = { f32(RF_SHAPE(4)), f32(RF_SHAPE(5)), f32(RF_SHAPE(4)), f32(RF_SHAPE(4)),
                                     f32(RF_SHAPE(RF_HYPER_COUNT)) };
    check_error(&rf_op_adam_update, NULL, 5, adam, "adam_update: input 1 has shape [5]");
}

TEST(dimensions_collapse)
{
    const rf_tensor_desc in[3] = { f32(RF_SHAPE(2, 3, 4, 5)), f32(RF_SHAPE(4, 5)), f32(RF_SHAPE(2, 1, 1, 1)) };
    rf_collapsed c;
    rf_broadcast_collapse(RF_SHAPE(2, 3, 4, 5), in, 3, &c);
    assert_int_equal(c.rank, 3);
    assert_int_equal(c.size[0], 2);
    assert_int_equal(c.size[1], 3);
    assert_int_equal(c.size[2], 20);
    assert_int_equal(c.present[0], 7);
    assert_int_equal(c.present[1], 4);
    assert_int_equal(c.present[2], 1);
}

/* ---- references ---- */

TEST(references_agree_with_known_values)
{
    static const struct {
        rf_scalar_fn fn;
        double a, b, imm, expected;
    } rows[] = {
        { RF_FN_GELU_ERF, 1, 0, 0, 0.8413447460685429 },
        { RF_FN_GELU_TANH, 1, 0, 0, 0.8411919906082768 },
        { RF_FN_SIGMOID, 0, 0, 0, 0.5 },
        { RF_FN_SIGMOID, -1000, 0, 0, 0 },
        { RF_FN_TANH, 1000, 0, 0, 1 },
        { RF_FN_RELU, -2, 0, 0, 0 },
        { RF_FN_LEAKY_RELU, -2, 0, 0.25, -0.5 },
        { RF_FN_POW, -2, 3, 0, -8 },
        { RF_FN_MAXIMUM, 2, 5, 0, 5 },
        { RF_FN_GREATER_EQUAL, 2, 2, 0, 1 },
        { RF_FN_RELU_GRAD, 3, 0, 0, 0 },
        { RF_FN_SIN, 0.5, 0, 0, 0.479425538604203 },
        { RF_FN_COS, 0.5, 0, 0, 0.8775825618903728 },
        { RF_FN_FLOOR, -1.5, 0, 0, -2 },
        { RF_FN_ROUND, 2.5, 0, 0, 2 },
        { RF_FN_LOG1P, 1e-20, 0, 0, 1e-20 },
        { RF_FN_EXPM1, 1, 0, 0, 1.718281828459045 },
        { RF_FN_ERF, 0.5, 0, 0, 0.5204998778130465 },
        { RF_FN_WHERE, 0, NAN, 0, 0 },
        { RF_FN_WHERE, -3, 7, 0, 7 },
        { RF_FN_WHERE_NOT, -3, NAN, 0, 0 },
        { RF_FN_WHERE_NOT, 0, 7, 0, 7 },
        { RF_FN_SQRT_GRAD, 3, 2, 0, 0.75 },
        { RF_FN_GELU_ERF_SLOPE, 0, 0, 0, 0.5 },
        { RF_FN_GELU_TANH_SLOPE, 0, 0, 0, 0.5 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const double got = rf_scalar_table[rows[i].fn].reference(rows[i].a, rows[i].b, rows[i].imm);
        if (fabs(got - rows[i].expected) > 1e-12) fail_msg("%s: %.17g", rf_scalar_table[rows[i].fn].name, got);
    }
}

static double derivative_at(const rf_scalar_derivative *d, double a, double b, double y, double imm)
{
    double reg[RF_REG_STEP + RF_MAX_STEPS] = { 1, a, b, y };
    if (d->kind == RF_DERIVATIVE_ZERO) return 0;
    for (uint32_t i = 0; i < d->n_steps; i++) {
        const rf_scalar_step *s = &d->steps[i];
        reg[RF_REG_STEP + i] = rf_scalar_table[s->fn].reference(reg[s->a], reg[s->b], isnan(s->imm) ? imm : s->imm);
    }
    return reg[d->n_steps == 0 ? RF_REG_DY : RF_REG_STEP + d->n_steps - 1];
}

/* Every function by every operand, away from kinks and jumps, where it is defined. */
TEST(derivatives_agree_with_differences)
{
    static const double points[] = { -2.3, -0.7, 0.3, 0.8, 1.7, 2.4 }, others[] = { -1.6, 0.45, 1.3 };
    const double imm = 0.7f, h = 1e-5;
    uint32_t compared = 0;
    for (uint32_t k = 0; k < 2 * RF_FN_COUNT * 18; k++) {
        const uint32_t fn = k % RF_FN_COUNT, operand = k / RF_FN_COUNT % 2, at = k / RF_FN_COUNT / 2;
        const rf_scalar_info *info = &rf_scalar_table[fn];
        if (operand >= info->arity || info->derivative[operand].kind == RF_DERIVATIVE_NONE) continue;
        const double a = points[at / 3], b = others[at % 3], step_a = operand == 0 ? h : 0, step_b = h - step_a;
        const double above = info->reference(a + step_a, b + step_b, imm),
                     below = info->reference(a - step_a, b - step_b, imm), slope = (above - below) / (2 * h),
                     got = derivative_at(&info->derivative[operand], a, b, info->reference(a, b, imm), imm);
        if (!isfinite(slope)) continue;
        if (!(fabs(got - slope) <= 1e-6 * (1 + fabs(slope))))
            fail_msg("%s at %g, %g by operand %u: %.9g, not %.9g", info->name, a, b, operand, got, slope);
        compared++;
    }
    assert_true(compared > 20 * RF_FN_COUNT);
}

/* x[1:3, ::-2] of a matrix of rows 0 1 2 3 4, 10 11 ..., and back among zeros. */
TEST(slices_follow_pythons_rules)
{
    const rf_slice_attr attr = { .begin = { 1, INT64_MAX }, .end = { 3, INT64_MIN }, .step = { 1, -2 } };
    const rf_tensor_desc in[2] = { f32(RF_SHAPE(2, 3)), f32(RF_SHAPE(4, 5)) };
    static const float expected[6] = { 14, 12, 10, 24, 22, 20 };
    float x[20], y[6] = { 0 }, dx[20];
    for (int i = 0; i < 20; i++) x[i] = (float)(10 * (i / 5) + i % 5);
    rf_op_call call = make_call(&rf_op_slice, &attr, 1, &in[1]);
    assert_int_equal(rf_op_slice.infer(&call), RF_OK);
    assert_true(rf_shape_equal(call.out[0].shape, RF_SHAPE(2, 3)));
    assert_int_equal(rf_op_slice.reference(&call, (void *[]){ x }, (void *[]){ y }), RF_OK);
    assert_memory_equal(y, expected, sizeof(y));
    rf_op_call grad = make_call(&rf_op_slice_grad, &attr, 2, in);
    assert_int_equal(rf_op_slice_grad.infer(&grad), RF_OK);
    assert_int_equal(rf_op_slice_grad.reference(&grad, (void *[]){ y, NULL }, (void *[]){ dx }), RF_OK);
    for (int i = 0; i < 20; i++) {
        const bool taken = (i / 5 == 1 || i / 5 == 2) && i % 5 % 2 == 0;
        assert_true(dx[i] == (taken ? x[i] : 0));
    }
}

/* Columns 0 1 | 2 | 3 4 5 of rows 0 .. and 10 ..: joined, taken apart again, and all parts but the second. */
TEST(parts_are_joined_and_taken_apart)
{
    float a[4] = { 0, 1, 10, 11 }, b[2] = { 2, 12 }, c[6] = { 3, 4, 5, 13, 14, 15 }, y[12] = { 0 };
    static const float whole[12] = { 0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15 };
    const rf_concat_attr columns = { 1, 0 }, but_second = { 1, 2 };
    const rf_split_attr weights = { 1, 2, { 2, 1 } };
    const rf_tensor_desc in[4] = { f32(RF_SHAPE(2, 6)), f32(RF_SHAPE(2, 2)), f32(RF_SHAPE(2, 1)), f32(RF_SHAPE(2, 3)) };
    rf_op_call call = make_call(&rf_op_concat, &columns, 3, in + 1);
    assert_int_equal(rf_op_concat.infer(&call), RF_OK);
    assert_true(rf_shape_equal(call.out[0].shape, RF_SHAPE(2, 6)));
    assert_int_equal(rf_op_concat.reference(&call, (void *[]){ a, b, c }, (void *[]){ y }), RF_OK);
    assert_memory_equal(y, whole, sizeof(y));

    float first[4], last[6], four[8], two[4];
    rf_op_call grad = make_call(&rf_op_concat_grad, &but_second, 4, in);
    assert_int_equal(rf_op_concat_grad.infer(&grad), RF_OK);
    assert_int_equal(grad.n_out, 2);
    assert_int_equal(rf_op_concat_grad.reference(&grad, (void *[]){ y }, (void *[]){ first, last }), RF_OK);
    assert_memory_equal(first, a, sizeof(a));
    assert_memory_equal(last, c, sizeof(c));

    rf_op_call split = make_call(&rf_op_split, &weights, 1, in);
    assert_int_equal(rf_op_split.infer(&split), RF_OK);
    assert_int_equal(split.n_out, 2);
    assert_int_equal(rf_op_split.reference(&split, (void *[]){ y }, (void *[]){ four, two }), RF_OK);
    assert_memory_equal(four, ((const float[8]){ 0, 1, 2, 3, 10, 11, 12, 13 }), sizeof(four));
    assert_memory_equal(two, ((const float[4]){ 4, 5, 14, 15 }), sizeof(two));
}

/* Rows 2, none, 0, 2, none of three rows; then what row 2 gets back is the sum of two. */
TEST(gathers_take_rows_and_add_them_up)
{
    const rf_gather_attr attr = { 0, 0 };
    const rf_tensor_desc in[2] = { f32(RF_SHAPE(3, 2)), { RF_I32, RF_SHAPE(5) } };
    const float x[6] = { 1, 2, 3, 4, 5, 6 }, dy[10] = { 1, 2, 90, 91, 3, 4, 10, 20, 92, 93 };
    static const float dx_expected[6] = { 3, 4, 0, 0, 11, 22 };
    const int32_t rows[5] = { 2, -1, 0, 2, 3 };
    float y[10], dx[6];
    rf_op_call call = make_call(&rf_op_gather, &attr, 2, in);
    assert_int_equal(rf_op_gather.infer(&call), RF_OK);
    assert_true(rf_shape_equal(call.out[0].shape, RF_SHAPE(5, 2)));
    assert_int_equal(rf_op_gather.reference(&call, (void *[]){ (void *)x, (void *)rows }, (void *[]){ y }), RF_OK);
    for (int p = 0; p < 5; p++)
        for (int k = 0; k < 2; k++) {
            const bool known = rows[p] >= 0 && rows[p] < 3;
            assert_true(known ? y[2 * p + k] == x[2 * rows[p] + k] : isnan(y[2 * p + k]));
        }
    const rf_tensor_desc grad_in[3] = { f32(RF_SHAPE(5, 2)), in[1], in[0] };
    rf_op_call grad = make_call(&rf_op_gather_grad, &attr, 3, grad_in);
    assert_int_equal(rf_op_gather_grad.infer(&grad), RF_OK);
    assert_int_equal(rf_op_gather_grad.reference(&grad, (void *[]){ (void *)dy, (void *)rows, NULL }, (void *[]){ dx }),
                     RF_OK);
    assert_memory_equal(dx, dx_expected, sizeof(dx));
}

TEST(references_keep_nan)
{
    for (uint32_t fn = 0; fn < RF_FN_COUNT; fn++) {
        const rf_scalar_info *info = &rf_scalar_table[fn];
        const bool compares =
            fn == RF_FN_GREATER || fn == RF_FN_GREATER_EQUAL || fn == RF_FN_EQUAL || rf_scalar_takes_i32(fn);
        for (uint32_t operand = 0; operand < info->arity; operand++) {
            const double y = info->reference(operand == 0 ? NAN : 0.5, operand == 1 ? NAN : 0.5, 0.5);
            if (fn == RF_FN_WHERE_NOT && operand == 1) continue; /* left out */
            if (fn == RF_FN_POW_LOG && operand == 1) continue;   /* what it is multiplied by is NaN: a^b */
            if (compares ? y != 0 : !isnan(y)) fail_msg("%s of NaN as operand %u: %g", info->name, operand, y);
        }
    }
    assert_true(rf_scalar_table[RF_FN_POW].reference(NAN, 0, 0) == 1);
    assert_true(rf_scalar_table[RF_FN_POW].reference(1, NAN, 0) == 1);
}

TEST(slopes_are_the_derivatives_of_gelu)
{
    const rf_scalar_fn pairs[2][2] = { { RF_FN_GELU_ERF, RF_FN_GELU_ERF_SLOPE },
                                       { RF_FN_GELU_TANH, RF_FN_GELU_TANH_SLOPE } };
    for (int p = 0; p < 2; p++)
        for (double x = -4; x <= 4; x += 0.37) {
            const double h = 1e-5;
            const double numeric = (rf_scalar_table[pairs[p][0]].reference(x + h, 0, 0) -
                                    rf_scalar_table[pairs[p][0]].reference(x - h, 0, 0)) /
                                   (2 * h);
            assert_true(fabs(numeric - rf_scalar_table[pairs[p][1]].reference(x, 0, 0)) < 1e-8);
        }
}

/* The examples from `first` on, of N with OUTER rows of INNER elements, which x and the random state describe. */
enum { N = 12, OUTER = 3, INNER = 7, PER = OUTER * INNER };
static void drop(const rf_dropout_attr *attr, uint32_t first, float *out)
{
    static float x[N * PER];
    for (int i = 0; i < N * PER; i++) x[i] = 1;
    int32_t random[6] = { 11, 22, 33, 0, (int32_t)first, 0 };
    const rf_tensor_desc in[2] = { f32(RF_SHAPE(OUTER, N - first, INNER)), { RF_I32, RF_SHAPE(6) } };
    rf_op_call call = make_call(&rf_op_dropout, attr, 2, in);
    assert_int_equal(rf_op_dropout.infer(&call), RF_OK);
    assert_int_equal(rf_op_dropout.reference(&call, (void *[]){ x, random }, (void *[]){ out }), RF_OK);
}

TEST(dropout_depends_on_the_global_position_only)
{
    const rf_dropout_attr front = { 0.5f, 3, 0, 1, PER }, middle = { 0.5f, 3, 0, OUTER, INNER }, common = { 0.5f, 3 };
    float whole[N * PER], part[N * PER];
    drop(&front, 0, whole);
    /* A replica that has examples 5 to 11. */
    drop(&front, 5, part);
    assert_memory_equal(part, whole + 5 * PER, (N - 5) * PER * sizeof(float));
    /* Where the batch stands does not matter to an example. */
    for (uint32_t first = 0; first < N; first += 5) {
        drop(&middle, first, part);
        for (uint32_t o = 0; o < OUTER; o++)
            for (uint32_t n = first; n < N; n++)
                assert_memory_equal(part + (o * (N - first) + n - first) * INNER, whole + (n * OUTER + o) * INNER,
                                    INNER * sizeof(float));
    }
    drop(&common, 5, part);
    assert_memory_equal(part, whole, (N - 5) * PER * sizeof(float));
    int kept = 0;
    for (int i = 0; i < N * PER; i++) {
        assert_true(whole[i] == 0 || whole[i] == 2);
        kept += whole[i] != 0;
    }
    assert_in_range(kept, N * PER / 4, N * PER * 3 / 4);
}

/* ---- fusion ---- */

typedef struct fixture {
    rf_graph *graph;
    rf_value x, y, row;
} fixture;

static fixture make_graph(void)
{
    fixture f = { 0 };
    assert_int_equal(rf_graph_create(rf_ops_core(), &f.graph), RF_OK);
    assert_int_equal(rf_graph_input(f.graph, 0, f32(RF_SHAPE(4, 3)), &f.x), RF_OK);
    assert_int_equal(rf_graph_input(f.graph, 1, f32(RF_SHAPE(4, 3)), &f.y), RF_OK);
    assert_int_equal(rf_graph_state(f.graph, &f, f32(RF_SHAPE(3)), "row", &f.row), RF_OK);
    return f;
}

static rf_node producer(const rf_graph *g, rf_value v)
{
    return g->values.items[v].producer;
}

TEST(chains_join_and_share_inputs_and_steps)
{
    fixture f = make_graph();
    rf_value sum, product;
    /* x + row, then (x + row) * x: three reads become two inputs. */
    assert_int_equal(rf_emit_binary(f.graph, RF_FN_ADD, 0, f.x, f.row, &sum), RF_OK);
    assert_int_equal(rf_emit_binary(f.graph, RF_FN_MULTIPLY, 0, sum, f.x, &product), RF_OK);
    rf_fused fused;
    assert_true(rf_op_elementwise.absorb_consumer(f.graph, producer(f.graph, sum), producer(f.graph, product), &fused));
    const rf_elementwise_attr *attr = (const void *)fused.attr;
    assert_int_equal(fused.n_in, 2);
    assert_int_equal(attr->n_steps, 2);
    const rf_tensor_desc in[2] = { f32(RF_SHAPE(4, 3)), f32(RF_SHAPE(3)) };
    rf_op_call call = make_call(&rf_op_elementwise, attr, 2, in);
    assert_int_equal(rf_op_elementwise.infer(&call), RF_OK);
    float x[12], row[3] = { 1, 2, 3 }, y[12];
    for (int i = 0; i < 12; i++) x[i] = (float)i;
    assert_int_equal(rf_op_elementwise.reference(&call, (void *[]){ x, row }, (void *[]){ y }), RF_OK);
    for (int i = 0; i < 12; i++) assert_float_equal(y[i], (x[i] + row[i % 3]) * x[i], 0);
    rf_graph_destroy(&f.graph);
}

TEST(common_subexpressions_are_computed_once)
{
    fixture f = make_graph();
    /* exp(x), then a program that has exp(x) of its own: exp(x) - (exp(x)), whose steps come to be two. */
    rf_value e, out;
    assert_int_equal(rf_emit_unary(f.graph, RF_FN_EXP, 0, f.x, &e), RF_OK);
    const rf_elementwise_attr again = { 2, { { RF_FN_EXP, 1, 0, 0, 0 }, { RF_FN_SUBTRACT, 0, 2, 0, 0 } } };
    assert_int_equal(rf_graph_add(f.graph, &rf_op_elementwise, &again, (rf_value[]){ e, f.x }, 2, &out), RF_OK);
    rf_fused fused;
    assert_true(rf_op_elementwise.absorb_consumer(f.graph, producer(f.graph, e), producer(f.graph, out), &fused));
    const rf_elementwise_attr *attr = (const void *)fused.attr;
    assert_int_equal(fused.n_in, 1);
    assert_int_equal(attr->n_steps, 2);
    assert_int_equal(attr->steps[1].a, attr->steps[1].b);
    rf_graph_destroy(&f.graph);
}

TEST(fusion_stops_at_its_limits)
{
    fixture f = make_graph();
    rf_value row2, out;
    rf_fused fused;
    /* A producer smaller than the result would be computed again for every row. */
    assert_int_equal(rf_emit_unary(f.graph, RF_FN_EXP, 0, f.row, &row2), RF_OK);
    assert_int_equal(rf_emit_binary(f.graph, RF_FN_ADD, 0, f.x, row2, &out), RF_OK);
    assert_false(rf_op_elementwise.absorb_consumer(f.graph, producer(f.graph, row2), producer(f.graph, out), &fused));
    /* Nine steps are too many. */
    rf_elementwise_attr eight = { .n_steps = RF_MAX_STEPS };
    for (uint32_t i = 0; i < RF_MAX_STEPS; i++)
        eight.steps[i] = (rf_scalar_step){ .fn = RF_FN_SQUARE, .a = (uint8_t)i };
    rf_value deep;
    assert_int_equal(rf_graph_add(f.graph, &rf_op_elementwise, &eight, &f.x, 1, &deep), RF_OK);
    assert_int_equal(rf_emit_unary(f.graph, RF_FN_EXP, 0, deep, &out), RF_OK);
    assert_false(rf_op_elementwise.absorb_consumer(f.graph, producer(f.graph, deep), producer(f.graph, out), &fused));
    rf_graph_destroy(&f.graph);
}

TEST(equal_shapes_need_no_sum)
{
    fixture f = make_graph();
    rf_value out;
    assert_int_equal(rf_emit_sum_to_like(f.graph, f.x, f.y, &out), RF_OK);
    assert_int_equal(out, f.x);
    assert_int_equal(rf_emit_sum_to_like(f.graph, f.x, f.row, &out), RF_OK);
    assert_true(rf_shape_equal(rf_graph_desc(f.graph, out)->shape, RF_SHAPE(3)));
    rf_graph_destroy(&f.graph);
}

/* ---- plans ---- */

/* Every dispatch within the limits, and the ranges written to the output together exactly the output. */
static rf_kernel_plan check_plan(const rf_op_call *call, const rf_kernel *kernel, const rf_device_caps *caps)
{
    rf_kernel_plan plan = { 0 };
    assert_true(kernel->score(call, caps, kernel->data) > 0);
    assert_int_equal(kernel->plan(call, caps, kernel->data, &plan), RF_OK);
    uint64_t written = 0;
    for (uint32_t i = 0; i < plan.count; i++) {
        const rf_dispatch *d = &plan.items[i];
        for (int k = 0; k < 3; k++) assert_in_range(d->grid[k], 1, caps->max_grid[k]);
        assert_in_range(d->spec[0], 1, caps->max_workgroup_invocations);
        assert_in_range(d->push_size, 0, 128);
        for (uint32_t b = 0; b < d->n_bind; b++) {
            const rf_binding *bind = &d->bind[b];
            const rf_tensor_desc *t = bind->kind == RF_BIND_OUTPUT ? &call->out[bind->index] : &call->in[bind->index];
            const uint64_t size = bind->size ? bind->size : rf_tensor_bytes(t) - bind->offset;
            assert_int_equal(bind->offset % caps->buffer_alignment, 0);
            assert_in_range(size, 1, caps->max_storage_range);
            assert_true(bind->offset + size <= rf_align_up(rf_tensor_bytes(t), 4));
            if (bind->kind == RF_BIND_OUTPUT) written += size;
        }
    }
    if (call->op->n_out) assert_int_equal(written, rf_align_up(rf_tensor_bytes(&call->out[0]), 4));
    return plan;
}

TEST(large_tensors_are_cut_into_chunks)
{
    const rf_device_caps caps = make_caps(true);
    const rf_elementwise_attr add = one(RF_FN_ADD);
    const rf_tensor_desc in[2] = { f32(RF_SHAPE(1000003, 100)), f32(RF_SHAPE(100)) };
    rf_op_call call = make_call(&rf_op_elementwise, &add, 2, in);
    assert_int_equal(rf_op_elementwise.infer(&call), RF_OK);
    const uint64_t bytes = rf_tensor_bytes(&call.out[0]);
    for (uint32_t k = 0; k < rf_op_num_kernels(&rf_op_elementwise); k++) {
        if (rf_op_kernel(&rf_op_elementwise, k)->score(&call, &caps, rf_op_kernel(&rf_op_elementwise, k)->data) <= 0)
            continue;
        rf_kernel_plan plan = check_plan(&call, rf_op_kernel(&rf_op_elementwise, k), &caps);
        assert_true(plan.count >= rf_div_up(bytes, caps.max_storage_range));
        rf_kernel_plan_free(&plan);
    }
    const uint32_t to = RF_U8;
    rf_op_call cast = make_call(&rf_op_cast, &to, 1, in);
    assert_int_equal(rf_op_cast.infer(&cast), RF_OK);
    rf_kernel_plan plan = check_plan(&cast, rf_op_kernel(&rf_op_cast, 0), &caps);
    assert_true(plan.count > 1);
    rf_kernel_plan_free(&plan);

    const float zero = 0;
    rf_op_call fill = make_call(&rf_op_fill_like, &zero, 1, in);
    assert_int_equal(rf_op_fill_like.infer(&fill), RF_OK);
    fill.n_in = 0; /* shape only */
    plan = check_plan(&fill, rf_op_kernel(&rf_op_fill_like, 0), &caps);
    assert_true(plan.count > 1);
    rf_kernel_plan_free(&plan);
}

static const rf_kernel *kernel_named(const rf_op *op, const char *name)
{
    const rf_kernel *kernel = rf_op_find_kernel(op, name);
    assert_non_null(kernel);
    return kernel;
}

/* Inputs that are read by fours are texels of four, others texels of one; the view of each must fit the device. */
TEST(texel_views_fit_their_inputs)
{
#ifdef RF_NO_SOFTWARE_KERNELS
    SKIP("the library was built without software_kernels");
#endif
    rf_device_caps caps = make_caps(false);
    caps.max_storage_range = 1u << 20;
    caps.subgroup_size = 8;
    caps.subgroup_shuffle = caps.full_subgroups = true;
    const rf_elementwise_attr program = { 2, { { RF_FN_MULTIPLY, 0, 1, 0, 0 }, { RF_FN_ADD, 3, 2, 0, 0 } } };
    const rf_tensor_desc in[3] = { f32(RF_SHAPE(6001, 100)), f32(RF_SHAPE(100)), f32(RF_SHAPE(6001, 1)) };
    rf_op_call call = make_call(&rf_op_elementwise, &program, 3, in);
    assert_int_equal(rf_op_elementwise.infer(&call), RF_OK);
    const rf_kernel *texel = kernel_named(&rf_op_elementwise, "texel");
    rf_kernel_plan plan = check_plan(&call, texel, &caps);
    assert_int_equal(plan.count, 3);
    for (uint32_t i = 0; i < plan.count; i++) {
        assert_int_equal(plan.items[i].bind[0].view, RF_VIEW_TEXEL_RGBA32F);
        assert_int_equal(plan.items[i].bind[1].view, RF_VIEW_TEXEL_RGBA32F);
        assert_int_equal(plan.items[i].bind[2].view, RF_VIEW_TEXEL_R32F);
        assert_int_equal(plan.items[i].bind[3].view, RF_VIEW_STORAGE);
    }
    rf_kernel_plan_free(&plan);
    caps.max_texel_elements = 1u << 16; /* a chunk's fours */
    assert_true(texel->score(&call, &caps, texel->data) > 0);
    caps.max_texel_elements--;
    assert_true(texel->score(&call, &caps, texel->data) == 0);
    caps.max_storage_range = 16384;
    caps.max_texel_elements = 6001; /* the column's elements */
    assert_true(texel->score(&call, &caps, texel->data) ==
                0); /* it does not fit a storage range, which other kernels need */
    caps.max_storage_range = 65536;
    assert_true(texel->score(&call, &caps, texel->data) > 0);
    caps.max_texel_elements--;
    assert_true(texel->score(&call, &caps, texel->data) == 0);
    caps.max_texel_elements = 1u << 27;
    assert_true(texel->score(&call, &caps, texel->data) > 0);
    caps.int64 = false;
    assert_true(texel->score(&call, &caps, texel->data) == 0);
    caps.int64 = true;
    caps.subgroup_size = 4; /* RF_WRITE exchanges with the lane four further on, but not on lavapipe */
    assert_true(texel->score(&call, &caps, texel->data) == 0);
    caps.driver = RF_DRIVER_LAVAPIPE;
    assert_true(texel->score(&call, &caps, texel->data) > 0);
}

/* Kernels that add a tensor which repeats to a larger one than a descriptor spans; each cuts it. */
static uint32_t kernels_that_cut(rf_shape large, rf_shape repeated)
{
    const rf_device_caps caps = make_caps(true);
    const rf_elementwise_attr add = one(RF_FN_ADD);
    const rf_tensor_desc in[2] = { f32(large), f32(repeated) };
    rf_op_call call = make_call(&rf_op_elementwise, &add, 2, in);
    assert_int_equal(rf_op_elementwise.infer(&call), RF_OK);
    uint32_t eligible = 0;
    for (uint32_t k = 0; k < rf_op_num_kernels(&rf_op_elementwise); k++) {
        if (rf_op_kernel(&rf_op_elementwise, k)->score(&call, &caps, rf_op_kernel(&rf_op_elementwise, k)->data) <= 0)
            continue;
        rf_kernel_plan plan = check_plan(&call, rf_op_kernel(&rf_op_elementwise, k), &caps);
        assert_true(plan.count > 1);
        rf_kernel_plan_free(&plan);
        eligible++;
    }
    return eligible;
}

TEST(any_broadcasting_of_large_tensors_is_cut)
{
    assert_int_equal(kernels_that_cut(RF_SHAPE(4096, 7, 61, 67), RF_SHAPE(4096, 1, 61, 1)), 1);
    assert_int_equal(kernels_that_cut(RF_SHAPE(4096, 7, 4001), RF_SHAPE(4096, 1, 4001)), 2); /* a window with a gap */
}

TEST(large_transposes_are_cut_into_boxes)
{
    const rf_device_caps caps = make_caps(true);
    const int32_t perm[RF_MAX_RANK] = { 1, 0 };
    const rf_tensor_desc in = f32(RF_SHAPE(9001, 8009));
    rf_op_call call = make_call(&rf_op_transpose, perm, 1, &in);
    assert_int_equal(rf_op_transpose.infer(&call), RF_OK);
    const rf_kernel *strided = rf_op_find_kernel(&rf_op_transpose, "strided");
    rf_kernel_plan plan = { 0 };
    assert_int_equal(strided->plan(&call, &caps, strided->data, &plan), RF_OK);
    uint64_t elements = 0;
    for (uint32_t i = 0; i < plan.count; i++) {
        for (uint32_t b = 0; b < plan.items[i].n_bind; b++) {
            assert_int_equal(plan.items[i].bind[b].offset % caps.buffer_alignment, 0);
            assert_true(plan.items[i].bind[b].size <= caps.max_storage_range);
        }
        elements += plan.items[i].push[0];
    }
    assert_int_equal(elements, 9001ull * 8009);
    rf_kernel_plan_free(&plan);
}

/* Every element once, wherever the cut falls: along the rows, along a row, backwards. */
TEST(large_slices_are_cut_into_boxes)
{
    rf_device_caps caps = make_caps(true);
    caps.max_storage_range = 4096;
    static const rf_slice_attr ranges[] = {
        { .step = { 0 } },
        { .begin = { 1 }, .end = { INT64_MAX }, .step = { 1 } },
        { .begin = { -1, 3 }, .end = { INT64_MIN, INT64_MAX }, .step = { -3, 2 } },
        { .begin = { 0, INT64_MAX }, .end = { 40, 0 }, .step = { 1, -700 } },
    };
    for (size_t r = 0; r < RF_LENGTH(ranges); r++) {
        const rf_tensor_desc in = f32(RF_SHAPE(97, 3001));
        rf_op_call call = make_call(&rf_op_slice, &ranges[r], 1, &in);
        assert_int_equal(rf_op_slice.infer(&call), RF_OK);
        rf_kernel_plan plan = { 0 };
        assert_int_equal(rf_kernel_plan_make(rf_op_kernel(&rf_op_slice, 0), &call, &caps, &plan), RF_OK);
        uint64_t elements = 0;
        assert_true(plan.count > 1);
        for (uint32_t i = 0; i < plan.count; i++) {
            for (uint32_t b = 0; b < plan.items[i].n_bind; b++) {
                assert_int_equal(plan.items[i].bind[b].offset % caps.buffer_alignment, 0);
                assert_true(plan.items[i].bind[b].size <= caps.max_storage_range);
            }
            elements += plan.items[i].push[0] * (strstr(plan.items[i].shader->name, "w4") ? 4ull : 1);
        }
        assert_int_equal(elements, rf_shape_count(call.out[0].shape));
        rf_kernel_plan_free(&plan);
    }
}

/* The chunks of a gather cover every element of x and of y once, and descriptors span them. */
TEST(large_gathers_are_cut_into_chunks)
{
    rf_device_caps caps = make_caps(true);
    caps.max_storage_range = 4096;
    static const rf_gather_shape shapes[] = {
        { 1, 1, 30000, 17, 1 }, { 1, 1, 5, 3001, 32 }, { 1, 1, 701, 309, 8 },   { 301, 1, 7, 3, 5 },
        { 1, 99, 64, 31, 4 },   { 3, 5, 200, 300, 1 }, { 2, 2, 2000, 1999, 3 }, { 1, 1, 1, 1, 900 },
    };
    for (size_t i = 0; i < RF_LENGTH(shapes); i++) {
        const rf_gather_shape all = shapes[i], size = rf_gather_chunk_size(&all, &caps, 2);
        uint64_t pairs = 0, before = 0;
        assert_true(size.choices > 0 && size.places > 0);
        for (rf_gather_chunk chunk = { 0 }; rf_gather_chunk_next(&all, &size, &chunk);) {
            const rf_gather_shape *n = &chunk.size;
            const uint64_t slabs = n->batch * n->outer;
            assert_true((slabs * n->choices * n->inner + 64) * 4 <= caps.max_storage_range);
            assert_true((slabs * n->places * n->inner + 64) * 4 <= caps.max_storage_range);
            assert_true((n->batch * n->places * 2 + 64) * 4 <= caps.max_storage_range);
            assert_true(n->batch == 1 || (n->outer == all.outer && n->choices == all.choices));
            assert_true(slabs == 1 || (n->choices == all.choices && n->places == all.places));
            /* places run fastest: the sums of a choice are complete when the next one begins */
            const uint64_t at =
                ((chunk.batch * all.outer + chunk.outer) * all.choices + chunk.choice) * all.places + chunk.place;
            assert_true(pairs == 0 || at > before);
            before = at;
            pairs += slabs * n->choices * n->places;
        }
        assert_int_equal(pairs, all.batch * all.outer * all.choices * all.places);
    }
    const rf_gather_shape wide = { 1, 1, 4, 4, 5000 };
    assert_int_equal(rf_gather_chunk_size(&wide, &caps, 1).choices, 0);
}

TEST(wide_grids_fold_into_rows)
{
    rf_device_caps caps = make_caps(true);
    uint32_t grid[3];
    rf_dispatch d = { .spec = { rf_local_size(&caps, RF_FLAT_LOCAL) }, .n_spec = 1 };
    const uint64_t n = 50ull * 1000 * 1000;
    rf_dispatch_items(&d, &caps, n);
    assert_true(d.grid[0] <= caps.max_grid[0] && d.grid[1] > 1);
    assert_true((uint64_t)d.grid[0] * d.grid[1] * d.spec[0] >= n);
    assert_true((uint64_t)d.grid[0] * d.grid[1] < rf_div_up(n, d.spec[0]) + d.grid[1]); /* hardly any is idle */
    assert_true(rf_grid_make(&caps, (uint64_t)caps.max_grid[0] * caps.max_grid[1], grid));
    assert_false(rf_grid_make(&caps, (uint64_t)caps.max_grid[0] * caps.max_grid[1] + 1, grid));
    assert_false(rf_grid_make(&caps, 0, grid));
}

TEST(small_programs_take_small_shaders)
{
    const rf_device_caps caps = make_caps(false);
    const rf_elementwise_attr relu = one(RF_FN_RELU);
    const rf_tensor_desc in = f32(RF_SHAPE(64, 100));
    rf_op_call call = make_call(&rf_op_elementwise, &relu, 1, &in);
    assert_int_equal(rf_op_elementwise.infer(&call), RF_OK);
    rf_kernel_plan plan = check_plan(&call, rf_op_kernel(&rf_op_elementwise, 0), &caps);
    assert_string_equal(plan.items[0].shader->name, "elementwise_1_w4");
    /* Another batch: other push constants, the same pipeline. */
    call.in[0].shape.dim[0] = call.out[0].shape.dim[0] = 48;
    rf_kernel_plan other = check_plan(&call, rf_op_kernel(&rf_op_elementwise, 0), &caps);
    assert_int_equal(plan.items[0].n_spec, other.items[0].n_spec);
    assert_memory_equal(plan.items[0].spec, other.items[0].spec, sizeof(other.items[0].spec));
    rf_kernel_plan_free(&plan);
    rf_kernel_plan_free(&other);
}

TEST(magic_division_is_exact)
{
    const uint32_t divisors[] = { 1,   2,     3,     5,       7,          13,         64,        255,
                                  641, 65535, 65537, 1000003, 0x3fffffff, 0x40000001, 0x7fffffff };
    for (size_t i = 0; i < sizeof(divisors) / sizeof(divisors[0]); i++) {
        const uint32_t d = divisors[i];
        const rf_magic m = rf_magic_make(d);
        uint32_t n = 0;
        for (int k = 0; k < 200000; k++) {
            const uint32_t q = m.magic == 0 ? n : (uint32_t)(((uint64_t)n * m.magic) >> 32) >> m.shift;
            assert_int_equal(q, n / d);
            n = k % 3 == 0 ? (n / d) * d + d - 1 : k % 3 == 1 ? n + 1 : n * 1664525u + 1013904223u;
            n &= 0x7fffffffu;
        }
    }
}

TESTS(elementwise_host, NULL, NULL)
