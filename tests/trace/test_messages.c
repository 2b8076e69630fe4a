/* SPDX-License-Identifier: Apache-2.0 */
/* Every tracing function of ops.h with something wrong: the message begins with the function that was called, and shows
 * what it was given. A function that has no row here is an error. */
#include "../support/strategies.h"
#include "tests/room.h"

#include <ctype.h>

/* f32 [2,3] and [2,4], i32 [2,3], f32 scalar and [1,2,3,4], f16 [2,3] and what is no tensor. */
typedef struct material {
    rf_tensor x, y, whole, one, image, half, none;
} material;

/* The function, without "rf_"; a part of the message that is expected besides, or "". */
#define WRONG_CALLS(W)                                                                                                 \
    W(add, "[2,4]", rf_add(t, m.x, m.y))                                                                               \
    W(subtract, "[2,4]", rf_subtract(t, m.x, m.y))                                                                     \
    W(multiply, "[2,3]", rf_multiply(t, m.x, m.y))                                                                     \
    W(divide, "[2,4]", rf_divide(t, m.x, m.y))                                                                         \
    W(pow, "[2,4]", rf_pow(t, m.x, m.y))                                                                               \
    W(maximum, "[2,4]", rf_maximum(t, m.x, m.y))                                                                       \
    W(minimum, "[2,4]", rf_minimum(t, m.x, m.y))                                                                       \
    W(compare, "[2,4]", rf_compare(t, RF_GREATER_EQUAL, m.x, m.y))                                                     \
    W(where, "[2,4]", rf_where(t, m.x, m.y, m.one))                                                                    \
    W(divide_no_nan, "[2,4]", rf_divide_no_nan(t, m.x, m.y))                                                           \
    W(multiply_no_nan, "[2,4]", rf_multiply_no_nan(t, m.x, m.y))                                                       \
    W(xlogy, "[2,4]", rf_xlogy(t, m.x, m.y))                                                                           \
    W(xlog1py, "[2,4]", rf_xlog1py(t, m.x, m.y))                                                                       \
    W(xdivy, "[2,4]", rf_xdivy(t, m.x, m.y))                                                                           \
    W(clip, "i32", rf_clip(t, m.whole, 0, 1))                                                                          \
    W(negative, "i32", rf_negative(t, m.whole))                                                                        \
    W(abs, "i32", rf_abs(t, m.whole))                                                                                  \
    W(square, "i32", rf_square(t, m.whole))                                                                            \
    W(exp, "i32", rf_exp(t, m.whole))                                                                                  \
    W(log, "i32", rf_log(t, m.whole))                                                                                  \
    W(sqrt, "i32", rf_sqrt(t, m.whole))                                                                                \
    W(rsqrt, "i32", rf_rsqrt(t, m.whole))                                                                              \
    W(log1p, "i32", rf_log1p(t, m.whole))                                                                              \
    W(expm1, "i32", rf_expm1(t, m.whole))                                                                              \
    W(sin, "i32", rf_sin(t, m.whole))                                                                                  \
    W(cos, "i32", rf_cos(t, m.whole))                                                                                  \
    W(erf, "i32", rf_erf(t, m.whole))                                                                                  \
    W(sign, "i32", rf_sign(t, m.whole))                                                                                \
    W(floor, "i32", rf_floor(t, m.whole))                                                                              \
    W(round, "i32", rf_round(t, m.whole))                                                                              \
    W(tanh, "i32", rf_tanh(t, m.whole))                                                                                \
    W(sigmoid, "i32", rf_sigmoid(t, m.whole))                                                                          \
    W(relu, "i32", rf_relu(t, m.whole))                                                                                \
    W(leaky_relu, "i32", rf_leaky_relu(t, m.whole, 0.1f))                                                              \
    W(gelu, "i32", rf_gelu(t, m.whole, RF_GELU_ERF))                                                                   \
    W(softplus, "i32", rf_softplus(t, m.whole))                                                                        \
    W(silu, "i32", rf_silu(t, m.whole))                                                                                \
    W(hard_sigmoid, "i32", rf_hard_sigmoid(t, m.whole))                                                                \
    W(hard_silu, "i32", rf_hard_silu(t, m.whole))                                                                      \
    W(mish, "i32", rf_mish(t, m.whole))                                                                                \
    W(elu, "i32", rf_elu(t, m.whole, 1))                                                                               \
    W(selu, "i32", rf_selu(t, m.whole))                                                                                \
    W(activate, "i32", rf_activate(t, m.whole, RF_ACTIVATION_SILU))                                                    \
    W(matmul, "[2,4]", rf_matmul(t, m.x, m.y, RF_TRANSPOSE_NONE))                                                      \
    W(einsum, "[2,4]", rf_einsum(t, "abc,bc", (rf_tensor[]){ m.y, m.x }, 2))                                           \
    W(orthogonalize, "i32", rf_orthogonalize(t, m.whole, 1))                                                           \
    W(bias_add, "[2,4]", rf_bias_add(t, m.x, m.y))                                                                     \
    W(conv2d, "[2,3]", rf_conv2d(t, m.x, m.y, NULL))                                                                   \
    W(conv2d_transpose, "[2,3]", rf_conv2d_transpose(t, m.x, m.y, NULL))                                               \
    W(max_pool2d, "[2,3]", rf_max_pool2d(t, m.x, NULL))                                                                \
    W(avg_pool2d, "[2,3]", rf_avg_pool2d(t, m.x, NULL))                                                                \
    W(global_avg_pool2d, "[2,3]", rf_global_avg_pool2d(t, m.x))                                                        \
    W(reshape, "[2,3]", rf_reshape(t, m.x, RF_SHAPE(-1, 4)))                                                           \
    W(flatten, "", rf_flatten(t, m.one))                                                                               \
    W(transpose, "", rf_transpose(t, m.x, (const int32_t[]){ 0, 0 }))                                                  \
    W(slice, "[2,3]", rf_slice(t, m.x, (const int64_t[]){ 2 }, (const int64_t[]){ 2 }, NULL, 1))                       \
    W(slice_update, "[2,4]", rf_slice_update(t, m.x, m.y, place(t), 0))                                                \
    W(reverse, "[2,3]", rf_reverse(t, m.x, 2))                                                                         \
    W(pad, "", rf_pad(t, m.x, (const int64_t[]){ -1 }, (const int64_t[]){ 0 }, 1, 0))                                  \
    W(concat, "[2,4]", rf_concat(t, (const rf_tensor[]){ m.x, m.y }, 2, 0))                                            \
    W(split_tensor, "", rf_split_tensor(t, m.x, 1, 2, parts))                                                          \
    W(stack, "[2,4]", rf_stack(t, (const rf_tensor[]){ m.x, m.y }, 2, 0))                                              \
    W(tile, "", rf_tile(t, m.x, (const int64_t[]){ 0 }, 1))                                                            \
    W(expand_dims, "[2,3]", rf_expand_dims(t, m.x, 5))                                                                 \
    W(squeeze, "[2,3]", rf_squeeze(t, m.x, 0))                                                                         \
    W(gather, "[2,4]", rf_gather(t, m.x, m.y, 0))                                                                      \
    W(gather_positions, "[2,4]", rf_gather_positions(t, m.x, m.y))                                                     \
    W(upsample2d, "[2,3]", rf_upsample2d(t, m.x, (const int32_t[]){ 2, 2 }, RF_INTERPOLATION_NEAREST))                 \
    W(resize2d, "[2,3]", rf_resize2d(t, m.x, &(rf_resize2d_params){ .size = { 1, 1 } }))                               \
    W(depth_to_space, "[2,3]", rf_depth_to_space(t, m.x, 2, RF_CHANNELS_INNER))                                        \
    W(space_to_depth, "[2,3]", rf_space_to_depth(t, m.x, 2, RF_CHANNELS_INNER))                                        \
    W(reduce_sum, "[2,3]", rf_reduce_sum(t, m.x, (const int32_t[]){ 2 }, 1, RF_DROP_DIMS))                             \
    W(reduce_mean, "[2,3]", rf_reduce_mean(t, m.whole, NULL, 0, RF_DROP_DIMS))                                         \
    W(moments, "[2,3]", rf_moments(t, m.x, (const int32_t[]){ 2 }, 1, RF_DROP_DIMS, &parts[0], &parts[1]))             \
    W(reduce_max, "[2,3]", rf_reduce_max(t, m.whole, NULL, 0, RF_DROP_DIMS))                                           \
    W(reduce_min, "[2,3]", rf_reduce_min(t, m.whole, NULL, 0, RF_DROP_DIMS))                                           \
    W(argmax, "[2,3]", rf_argmax(t, m.whole))                                                                          \
    W(argmin, "i32", rf_argmin(t, m.whole))                                                                            \
    W(top_k, "[2,3]", rf_top_k(t, m.x, 4, &parts[0], &parts[1]))                                                       \
    W(sort, "[2,3]", rf_sort(t, m.whole, 0, RF_ASCENDING))                                                             \
    W(argsort, "[2,3]", rf_argsort(t, m.whole, 0, RF_ASCENDING))                                                       \
    W(cumsum, "i32 [2,3]", rf_cumsum(t, m.whole, RF_SCAN_INCLUSIVE))                                                   \
    W(cumprod, "i32 [2,3]", rf_cumprod(t, m.whole, RF_SCAN_INCLUSIVE))                                                 \
    W(rnn, "[2,3]", rf_rnn(t, m.x, m.y, m.none, NULL, NULL, parts, NULL))                                              \
    W(layer_norm, "[2,4]", rf_layer_norm(t, m.x, m.y, m.none, 0))                                                      \
    W(rms_norm, "[2,4]", rf_rms_norm(t, m.x, m.y, 0))                                                                  \
    W(group_norm, "[2,3]", rf_group_norm(t, m.whole, m.none, m.none, 1, 0, 0))                                         \
    W(attention, "[2,4]", rf_attention(t, m.x, m.y, m.x, NULL))                                                        \
    W(softmax, "i32 [2,3]", rf_softmax(t, m.whole))                                                                    \
    W(log_softmax, "i32 [2,3]", rf_log_softmax(t, m.whole))                                                            \
    W(one_hot, "[2,3]", rf_one_hot(t, m.x, 3))                                                                         \
    W(sparse_categorical_crossentropy, "[2,4]", rf_sparse_categorical_crossentropy(t, m.whole, m.y, RF_LOGITS))        \
    W(categorical_crossentropy, "[2,4]", rf_categorical_crossentropy(t, m.x, m.y, RF_LOGITS))                          \
    W(binary_crossentropy, "[2,4]", rf_binary_crossentropy(t, m.x, m.y, RF_LOGITS))                                    \
    W(mean_squared_error, "[2,4]", rf_mean_squared_error(t, m.x, m.y))                                                 \
    W(mean_absolute_error, "i32", rf_mean_absolute_error(t, m.whole, m.whole))                                         \
    W(huber, "[2,4]", rf_huber(t, m.x, m.y, 1))                                                                        \
    W(kl_divergence, "[2,4]", rf_kl_divergence(t, m.x, m.y))                                                           \
    W(dropout, "i32", rf_dropout(t, m.whole, 0.5f, 1))                                                                 \
    W(random_uniform, "", rf_random_uniform(t, m.x, 1, 0, 1))                                                          \
    W(random_normal, "invalid tensor", rf_random_normal(t, m.none, 1))                                                 \
    W(cast, "", rf_cast(t, m.x, RF_I64))                                                                               \
    W(stop_gradient, "invalid tensor", rf_stop_gradient(t, m.none))                                                    \
    W(gradients, "[2,3]", rf_gradients(t, m.x, &m.x, 1, parts))                                                        \
    W(variable_tensor, "NULL", rf_variable_tensor(t, NULL))                                                            \
    W(variable_update, "NULL", rf_variable_update(t, NULL, m.x, RF_AGGREGATE_MEAN))                                    \
    W(all_replica_sum, "i32", rf_all_replica_sum(t, m.whole))                                                          \
    W(constant_array, "", rf_constant_array(t, NULL))

/* Functions that cannot be called wrongly. */
static const char *const never_fail[] = { "trace_fail", "constant", "global_batch_size" };

static rf_tensor place(rf_trace *t)
{
    int32_t zero = 0;
    return rf_constant_array(t, &(rf_array){ RF_I32, RF_SHAPE(1), &zero });
}

#define DEFINE(name, part, call)                                                                                       \
    static void call_##name(rf_trace *t, material m)                                                                   \
    {                                                                                                                  \
        rf_tensor parts[4];                                                                                            \
        (void)m, (void)parts;                                                                                          \
        (void)call;                                                                                                    \
    }
WRONG_CALLS(DEFINE)

static const struct wrong_call {
    const char *name, *part;
    void (*call)(rf_trace *t, material m);
} wrong_calls[] = {
#define ROW(name, part, call) { #name, part, call_##name },
    WRONG_CALLS(ROW)
};
enum { NUM_CALLS = sizeof(wrong_calls) / sizeof(wrong_calls[0]) };

static rf_result wrong_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const struct wrong_call *w = user;
    float zeros[24] = { 0 };
    int32_t wholes[6] = { 0 };
    const material m = {
        .x = rf_constant_array(t, &(rf_array){ RF_F32, RF_SHAPE(2, 3), zeros }),
        .y = rf_constant_array(t, &(rf_array){ RF_F32, RF_SHAPE(2, 4), zeros }),
        .whole = rf_constant_array(t, &(rf_array){ RF_I32, RF_SHAPE(2, 3), wholes }),
        .one = rf_constant(t, 1),
        .image = rf_constant_array(t, &(rf_array){ RF_F32, RF_SHAPE(1, 2, 3, 4), zeros }),
    };
    (void)in, (void)out;
    if (rf_trace_status(t) < 0) return RF_ERROR_INTERNAL;
    w->call(t, m);
    return rf_trace_status(t);
}

static void messages(rf_strategy *strategy)
{
    float x[2] = { 0 };
    const rf_element batch = { 1, { array_f32(RF_SHAPE(2), x) } };
    int wrong = 0;
    for (int i = 0; i < NUM_CALLS; i++) {
        char begin[96];
        rf_function *function;
        const rf_function_params params = { .step = wrong_step,
                                            .user = (void *)(uintptr_t)&wrong_calls[i],
                                            .training = true };
        OK(rf_function_create(strategy, &params, &function));
        snprintf(begin, sizeof(begin), "': rf_%s", wrong_calls[i].name);
        const rf_result r = rf_strategy_run(strategy, function, &batch, NULL);
        const char *message = rf_error_message(), *found = r < 0 ? strstr(message, begin) : NULL;
        if (!found || isalnum((unsigned char)found[strlen(begin)]) || found[strlen(begin)] == '_' ||
            !strstr(message, wrong_calls[i].part)) {
            print_message("rf_%s (%s): %s\n", wrong_calls[i].name, wrong_calls[i].part, r < 0 ? message : "accepted");
            wrong++;
        }
        rf_function_destroy(&function);
    }
    assert_int_equal(wrong, 0);
}

static bool is_named(const char *name)
{
    for (int i = 0; i < NUM_CALLS; i++)
        if (strcmp(wrong_calls[i].name, name) == 0) return true;
    for (size_t i = 0; i < sizeof(never_fail) / sizeof(never_fail[0]); i++)
        if (strcmp(never_fail[i], name) == 0) return true;
    return false;
}

/* The declarations of the header: RF_API type rf_name(rf_trace *t... */
TEST(every_function_has_a_row)
{
    static char text[1 << 17];
    FILE *file = fopen(OPS_HEADER, "r");
    int found = 0;
    assert_non_null(file);
    const size_t length = fread(text, 1, sizeof(text) - 1, file);
    assert_true(length > 0 && length < sizeof(text) - 1);
    fclose(file);
    for (char *at = text; (at = strstr(at, "(rf_trace *t"));) {
        char *begin = at;
        while (isalnum((unsigned char)begin[-1]) || begin[-1] == '_') begin--;
        *at++ = '\0';
        if (strncmp(begin, "rf_", 3) != 0) continue;
        found++;
        if (!is_named(begin + 3)) fail_msg("%s has no row", begin);
    }
    assert_true(found > 90);
}

TEST_ON_ONE(messages)

TESTS(messages, NULL, NULL)
