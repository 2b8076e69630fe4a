/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dropout and random numbers. Whether an element is kept is a function of seed, stream, step and the element's position
 * in the global batch, counted as if the batch were the first dimension: the 24 upper bits of one word of
 * Philox4x32-10, compared with rate * 2^24. Key: the seed, its upper half xored with the upper half of the step;
 * counter: position / 4 (64 bits), lower half of the step, stream; word: position % 4. Random numbers are the 23 upper
 * bits of that word, in the middle of steps of 2^-23 between 0 and 1: the same bits on every device.
 */
#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "ops/kit.h"
#include "ops/ops.h"
#include "rf_shaders.h"

enum { DROPOUT, UNIFORM }; /* roles */

static rf_result random_infer(rf_op_call *call)
{
    const rf_dropout_attr *attr = call->attr;
    char shape[96];
    if (!(attr->rate >= 0 && attr->rate < 1))
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: rate is %g; it must be at least 0 and below 1", call->op->name,
                       (double)attr->rate);
    if (call->in[0].dtype != RF_F32)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: input is %s, not f32; cast it first", call->op->name,
                       rf_dtype_name(call->in[0].dtype));
    if (call->in[1].dtype != RF_I32 || rf_shape_count(call->in[1].shape) != 6)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: the random state is %s %s, not i32 [6]", call->op->name,
                       rf_dtype_name(call->in[1].dtype), rf_shape_format(call->in[1].shape, shape, sizeof(shape)));
    const uint64_t per = (uint64_t)attr->outer * attr->inner;
    if (attr->outer > 0 && (per == 0 || (uint64_t)rf_shape_count(call->in[0].shape) % per != 0))
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: shape %s does not divide into examples of %llu elements",
                       call->op->name, rf_shape_format(call->in[0].shape, shape, sizeof(shape)),
                       (unsigned long long)per);
    call->out[0] = call->in[0];
    return RF_OK;
}

/* Elements of an example; 0: examples are not told from each other. */
static uint64_t per_example(const rf_op_call *call)
{
    const rf_dropout_attr *attr = call->attr;
    return (uint64_t)attr->outer * attr->inner;
}

/* Where an element of the tensor is. */
typedef struct place {
    uint64_t outer, example, inner;
} place;
static place place_of(const rf_op_call *call, uint64_t element)
{
    const rf_dropout_attr *attr = call->attr;
    if (attr->outer == 0) return (place){ 0, 0, element };
    const uint64_t examples = (uint64_t)rf_shape_count(call->out[0].shape) / per_example(call);
    const uint64_t row = element / attr->inner;
    return (place){ row / examples, row % examples, element % attr->inner };
}

static uint32_t kept_threshold(float rate)
{
    return (uint32_t)ceil((double)rate * 16777216.0);
}
/* One of a uniform distribution in (0, 1). */
static float uniform_of(uint32_t word)
{
    return ((float)(word >> 9) + 0.5f) * 0x1p-23f;
}
static float kept_scale(float rate)
{
    return (float)(1.0 / (1.0 - (double)rate));
}

static rf_result random_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_dropout_attr *attr = call->attr;
    const int64_t count = rf_shape_count(call->out[0].shape);
    uint32_t random[6];
    memcpy(random, in[1], sizeof(random));
    const uint64_t seed = attr->seed ? attr->seed : random[0] | (uint64_t)random[1] << 32;
    for (int64_t e = 0; e < count; e++) {
        const place at = place_of(call, (uint64_t)e);
        const uint64_t row = (random[4] + at.example) * attr->outer + at.outer;
        const uint64_t position = row * attr->inner + at.inner;
        const rf_philox4 r =
            rf_philox(seed ^ (uint64_t)random[3] << 32, position / 4, random[2] | (uint64_t)attr->stream << 32);
        const bool keep = r.v[position % 4] >> 8 >= kept_threshold(attr->rate);
        if (call->op->role == UNIFORM)
            ((float *)out[0])[e] = uniform_of(r.v[position % 4]);
        else
            ((float *)out[0])[e] = keep ? ((const float *)in[0])[e] * kept_scale(attr->rate) : 0;
    }
    return RF_OK;
}

static rf_result random_gradient(rf_grad_context *ctx)
{
    return rf_graph_add(ctx->graph, &rf_op_dropout_grad, ctx->attr, (rf_value[]){ ctx->dout[0], ctx->in[1] }, 2,
                        &ctx->din[0]);
}

static rf_cost random_cost(const rf_op_call *call)
{
    /* Ten rounds of about ten integer operations give four numbers. */
    const double arrays = call->op->role == UNIFORM ? 1 : 2;
    return (rf_cost){ 25.0 * (double)rf_shape_count(call->out[0].shape),
                      arrays * (double)rf_tensor_bytes(&call->out[0]) };
}

static double random_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    (void)caps;
    return per_example(call) < 1ull << 32 ? RF_SCORE_ANY : RF_SCORE_NONE;
}

/* The batch is not the first dimension: neighbours may belong to places far from each other. */
static bool is_scattered(const rf_op_call *call)
{
    return ((const rf_dropout_attr *)call->attr)->outer > 1;
}
/* Blocks of four begin at multiples of four elements, and none is incomplete. */
static bool is_aligned(const rf_op_call *call)
{
    const rf_dropout_attr *attr = call->attr;
    const uint64_t whole = is_scattered(call) ? attr->inner : per_example(call);
    return whole % 4 == 0 && rf_shape_count(call->out[0].shape) % 4 == 0;
}
static bool random_narrow(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    (void)caps;
    return is_aligned(call);
}

static uint32_t stored_types(const rf_op_call *call, const rf_device_caps *caps, bool dropout)
{
    uint32_t types = 0;
    if (dropout && rf_dtype_is_narrow(call->in[0].dtype)) types |= 1u | rf_type_word(call->in[0].dtype, caps) << 8;
    if (rf_dtype_is_narrow(call->out[0].dtype))
        types |= (dropout ? 4u : 2u) | rf_type_word(call->out[0].dtype, caps) << 8;
    return types;
}

static rf_result add_dispatch(const rf_op_call *call, const rf_device_caps *caps, uint64_t start, uint64_t n,
                              rf_kernel_plan *out)
{
    const rf_dropout_attr *attr = call->attr;
    const bool dropout = call->op->role != UNIFORM, aligned = is_aligned(call), scattered = is_scattered(call);
    rf_dispatch *d = rf_kernel_plan_add(out, dropout ? &rf_shader_dropout : &rf_shader_random_uniform, RF_NO_LOOPS);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    d->concurrent = start > 0;
    rf_dispatch_spec(d, rf_local_size(caps, RF_FLAT_LOCAL));
    rf_dispatch_spec(d, aligned);
    rf_dispatch_spec(d, stored_types(call, caps, dropout));
    rf_dispatch_spec(d, scattered);
    const place at = place_of(call, start);
    const uint64_t count = (uint64_t)rf_shape_count(call->out[0].shape), per = per_example(call);
    const rf_push_dropout push = { .count = (uint32_t)n,
                                   .start_low = (uint32_t)start,
                                   .start_high = (uint32_t)(start >> 32),
                                   .per_example = (uint32_t)per,
                                   .threshold = kept_threshold(attr->rate),
                                   .stream = attr->stream,
                                   .scale = kept_scale(attr->rate),
                                   .seed_low = (uint32_t)attr->seed,
                                   .seed_high = (uint32_t)(attr->seed >> 32),
                                   .inner = attr->inner,
                                   .examples = per ? (uint32_t)(count / per) : 1,
                                   .outer_at = (uint32_t)at.outer,
                                   .example_at = (uint32_t)at.example,
                                   .inner_at = (uint32_t)at.inner };
    rf_dispatch_push(d, &push, sizeof(push));
    const size_t from = rf_dtype_size(call->in[0].dtype), to = rf_dtype_size(call->out[0].dtype);
    if (dropout) rf_bind_bytes(d, RF_BIND_INPUT, 0, start * from, n * from);
    rf_bind_whole(d, RF_BIND_INPUT, 1);
    rf_bind_bytes(d, RF_BIND_OUTPUT, 0, start * to, n * to);
    rf_dispatch_items(d, caps, aligned ? n / 4 : scattered ? n : n / 4 + 2);
    return RF_OK;
}

static rf_result random_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *out)
{
    const uint64_t count = (uint64_t)rf_shape_count(call->out[0].shape), chunk = rf_flat_chunk(caps, sizeof(float));
    for (uint64_t start = 0; start < count; start += chunk)
        RF_TRY(add_dispatch(call, caps, start, rf_min(count - start, chunk), out));
    return RF_OK;
}

static const rf_kernel kernels[] = {
    { "philox", random_score, random_plan, .narrow = random_narrow },
};

static const rf_attr_field dropout_fields[] = {
    RF_ATTR_NUMBER(rf_dropout_attr, rate),
    RF_ATTR_UINT(rf_dropout_attr, stream, UINT32_MAX),
    RF_ATTR_BITS(rf_dropout_attr, seed),
    RF_ATTR_UINT(rf_dropout_attr, outer, UINT32_MAX),
    RF_ATTR_UINT(rf_dropout_attr, inner, UINT32_MAX),
};

#define DROPOUT_OP(op_name)                                                                                            \
    {                                                                                                                  \
        .name = op_name, RF_ATTRIBUTES(rf_dropout_attr, dropout_fields), .min_in = 2, .max_in = 2, .n_out = 1,         \
        RF_STORES_16(1), .flags = RF_OP_INPLACE | RF_OP_NO_ONNX, .infer = random_infer, .gradient = random_gradient,   \
        .reference = random_reference, .cost = random_cost, RF_KERNELS(kernels),                                       \
    }
const rf_op rf_op_dropout = DROPOUT_OP("dropout");
/* The same mask on the gradient: recomputed, not stored. */
const rf_op rf_op_dropout_grad = DROPOUT_OP("dropout_grad");

/* Like the input, of which only the shape is read; the rate is 0. */
const rf_op rf_op_random_uniform = {
    .name = "random_uniform",
    .role = UNIFORM,
    RF_ATTRIBUTES(rf_dropout_attr, dropout_fields),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = RF_OP_NO_GRADIENT | RF_OP_NO_ONNX,
    .shape_only = 1u << 0,
    RF_STORES_16(0),
    .infer = random_infer,
    .reference = random_reference,
    .cost = random_cost,
    RF_KERNELS(kernels),
};

rf_result rf_emit_random_uniform(rf_graph *g, rf_value like, rf_value random, const rf_dropout_attr *attr,
                                 rf_value *out)
{
    return rf_graph_add(g, &rf_op_random_uniform, attr, (rf_value[]){ like, random }, 2, out);
}

rf_result rf_emit_dropout(rf_graph *g, rf_value x, rf_value random, const rf_dropout_attr *attr, rf_value *out)
{
    return rf_graph_add(g, &rf_op_dropout, attr, (rf_value[]){ x, random }, 2, out);
}
