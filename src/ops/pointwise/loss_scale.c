/* SPDX-License-Identifier: Apache-2.0 */
/* Loss scaling on the device: gradients divided by the scale, what they make of it, and numbers for an update of which
 * the host does not know whether it will be made. */
#include <float.h>
#include <math.h>

#include "ops/kit.h"
#include "ops/ops.h"
#include "rf_shaders.h"

static rf_result expect_count(const rf_op_call *call, uint32_t input, uint64_t count)
{
    char shape[96];
    RF_TRY(rf_expect_dtype(call, input, RF_F32));
    if (rf_desc_count(&call->in[input]) == count) return RF_OK;
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: input %u has shape %s, not %llu elements", call->op->name, input,
                   rf_shape_format(call->in[input].shape, shape, sizeof(shape)), (unsigned long long)count);
}

static double score_any(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    (void)call, (void)caps;
    return RF_SCORE_ANY;
}

#define NUMBERS(n, least, end) RF_TENSOR(RF_F32, RF_FILL_INTEGER, least, end, 1, n)

/* ---- gradients ---- */

static rf_result gradients_infer(rf_op_call *call)
{
    RF_TRY(rf_expect_dtype(call, 0, RF_F32));
    return expect_count(call, 1, RF_SCALE_TALLY);
}

static rf_result unscale_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    float *gradients = in[0], *tally = in[1];
    (void)out;
    for (uint64_t i = 0; i < rf_desc_count(&call->in[0]); i++) {
        gradients[i] *= tally[RF_SCALE_INVERSE];
        if (!isfinite(gradients[i])) tally[RF_SCALE_FOUND] = 1;
    }
    return RF_OK;
}

static rf_cost unscale_cost(const rf_op_call *call)
{
    return (rf_cost){ (double)rf_desc_count(&call->in[0]), 2.0 * (double)rf_tensor_bytes(&call->in[0]) };
}

static rf_result unscale_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                              rf_kernel_plan *plan)
{
    const rf_flat_job k = { .shader = &rf_shader_unscale,
                            .width = 4,
                            .n_tensors = 1,
                            .tensors = { { .index = 0, .write = true } },
                            .n_small = 1,
                            .small = { 1 } };
    RF_TRY(rf_flat_job_plan(&k, rf_desc_count(&call->in[0]), caps, plan));
    for (uint32_t i = 0; i < plan->count; i++) plan->items[i].bind[1].write = true;
    return RF_OK;
}

/* The note of what is found begins as none, as on the device. */
#define UNSCALE_CASE(n, ...)                                                                                           \
    {                                                                                                                  \
        .name = #n, .n_in = 2, .in = { RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 1, 1, n), NUMBERS(RF_SCALE_TALLY, 0, 2) }, \
        .rtol = 1e-6, __VA_ARGS__                                                                                      \
    }
static const rf_op_case unscale_cases[] = {
    UNSCALE_CASE(1, ),
    UNSCALE_CASE(3, ),
    UNSCALE_CASE(4, ),
    UNSCALE_CASE(257, ),
    UNSCALE_CASE(2051, ),
    UNSCALE_CASE(121930, .large = true, .benchmark = true),
    { .name = "overflow", /* some are infinite afterwards */
      .n_in = 2,
      .in = { RF_TENSOR(RF_F32, RF_FILL_UNIFORM, 1e38f, 3e38f, 1, 61), NUMBERS(RF_SCALE_TALLY, 2, 3) },
      .rtol = 1e-6 },
};
static const rf_kernel unscale_kernel = { "vec4", score_any, unscale_plan };
static const rf_kernel *const unscale_kernels[] = { &unscale_kernel };

const rf_op rf_op_unscale = {
    .name = "unscale",
    .min_in = 2,
    .max_in = 2,
    .mutates = 3,
    .settings = 1u << 1,
    .flags = RF_OP_NO_GRADIENT | RF_OP_NO_ONNX,
    .infer = gradients_infer,
    .reference = unscale_reference,
    .cost = unscale_cost,
    RF_KERNELS(unscale_kernels),
    RF_CASES(unscale_cases),
};

rf_result rf_emit_unscale(rf_graph *g, rf_value gradients, rf_value tally)
{
    return rf_emit_update(g, &rf_op_unscale, NULL, (rf_value[]){ gradients, tally }, 2);
}

/* ---- gradients that are about to be added up ---- */

typedef struct overflow_check_attr {
    float most;
} overflow_check_attr;

static bool is_beyond(float x, float most)
{
    return !(fabsf(x) <= most);
}

static rf_result overflow_check_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const overflow_check_attr *attr = call->attr;
    const float *gradients = in[0];
    float *tally = in[1];
    (void)out;
    for (uint64_t i = 0; i < rf_desc_count(&call->in[0]); i++)
        if (is_beyond(gradients[i], attr->most) || is_beyond(gradients[i] * tally[RF_SCALE_INVERSE], attr->most))
            tally[RF_SCALE_FOUND] = 1;
    return RF_OK;
}

static rf_cost overflow_check_cost(const rf_op_call *call)
{
    return (rf_cost){ 2.0 * (double)rf_desc_count(&call->in[0]), (double)rf_tensor_bytes(&call->in[0]) };
}

static rf_result overflow_check_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                     rf_kernel_plan *plan)
{
    const overflow_check_attr *attr = call->attr;
    const rf_flat_job k = { .shader = &rf_shader_overflow_check,
                            .width = 4,
                            .n_tensors = 1,
                            .tensors = { { .index = 0 } },
                            .n_small = 1,
                            .small = { 1 },
                            .push_size = 4,
                            .push = { rf_float_word(attr->most) } };
    RF_TRY(rf_flat_job_plan(&k, rf_desc_count(&call->in[0]), caps, plan));
    for (uint32_t i = 0; i < plan->count; i++) plan->items[i].bind[1].write = true;
    return RF_OK;
}

/* Inverses are 1 or 2, or as said; the note begins as none or one. */
static const overflow_check_attr any_finite = { .most = FLT_MAX }, below_three = { .most = 3 };
#define CHECK_CASE(label, attributes, least, end, n, tally, ...)                                                       \
    {                                                                                                                  \
        .name = label, .attr = &attributes, .n_in = 2,                                                                 \
        .in = { RF_TENSOR(RF_F32, RF_FILL_UNIFORM, least, end, 1, n), tally }, __VA_ARGS__                             \
    }
static const rf_op_case overflow_check_cases[] = {
    CHECK_CASE("1", any_finite, -1, 1, 1, NUMBERS(RF_SCALE_TALLY, 0, 1), ),
    CHECK_CASE("finite_257", any_finite, -1e38f, 1e38f, 257, NUMBERS(RF_SCALE_TALLY, 1, 2), ),
    CHECK_CASE("infinite_divided_61", any_finite, 2e38f, 3e38f, 61, NUMBERS(RF_SCALE_TALLY, 2, 3), ),
    CHECK_CASE("small_2051", below_three, -1, 1, 2051, NUMBERS(RF_SCALE_TALLY, 0, 1), ),
    CHECK_CASE("negative_2051", below_three, -3.002f, 0, 2051, NUMBERS(RF_SCALE_TALLY, 0, 1), ),
    CHECK_CASE("divided_5", below_three, -2, 1.9f, 5, NUMBERS(RF_SCALE_TALLY, 2, 3), ),
    CHECK_CASE("all_too_large_3", below_three, 3.5f, 4, 3, NUMBERS(RF_SCALE_TALLY, 0, 1), ),
    CHECK_CASE("121930", below_three, -2, 2, 121930, NUMBERS(RF_SCALE_TALLY, 1, 2), .large = true, .benchmark = true),
};
static const rf_kernel overflow_check_kernel = { "vec4", score_any, overflow_check_plan };
static const rf_kernel *const overflow_check_kernels[] = { &overflow_check_kernel };
static const rf_attr_field overflow_check_fields[] = { RF_ATTR_NUMBER(overflow_check_attr, most) };

const rf_op rf_op_overflow_check = {
    .name = "overflow_check",
    RF_ATTRIBUTES(overflow_check_attr, overflow_check_fields),
    .min_in = 2,
    .max_in = 2,
    .mutates = 2,
    .settings = 1u << 1,
    .flags = RF_OP_NO_GRADIENT | RF_OP_NO_ONNX,
    .infer = gradients_infer,
    .reference = overflow_check_reference,
    .cost = overflow_check_cost,
    RF_KERNELS(overflow_check_kernels),
    RF_CASES(overflow_check_cases),
};

rf_result rf_emit_overflow_check(rf_graph *g, rf_value gradients, rf_value tally, float most)
{
    const overflow_check_attr attr = { most };
    return rf_emit_update(g, &rf_op_overflow_check, &attr, (rf_value[]){ gradients, tally }, 2);
}

/* ---- the scale ---- */

typedef struct loss_scale_attr {
    uint32_t growth_steps, is_fixed;
} loss_scale_attr;

static rf_result loss_scale_infer(rf_op_call *call)
{
    RF_TRY(expect_count(call, 0, 1));
    RF_TRY(expect_count(call, 1, RF_SCALE_TALLY));
    RF_TRY(expect_count(call, 2, 1));
    call->out[0] = (rf_tensor_desc){ RF_F32, RF_SHAPE(2) };
    return RF_OK;
}

static rf_result loss_scale_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const loss_scale_attr *attr = call->attr;
    float *scale = in[0], *tally = in[1], *decided = out[0];
    const bool skip = tally[RF_SCALE_FOUND] != 0 || *(const float *)in[2] != 0;
    float factor = 1;
    tally[RF_SCALE_FOUND] = 0;
    tally[RF_SCALE_FINITE] = skip ? 0 : tally[RF_SCALE_FINITE] + 1;
    tally[RF_SCALE_SKIPPED] += skip;
    if (skip && !attr->is_fixed) factor = 0.5f;
    if (!skip && !attr->is_fixed && attr->growth_steps > 0 && tally[RF_SCALE_FINITE] >= (float)attr->growth_steps) {
        tally[RF_SCALE_FINITE] = 0;
        factor = 2;
    }
    if (*scale * factor < RF_SCALE_LEAST || *scale * factor > RF_SCALE_MOST) factor = 1;
    *scale *= factor;
    tally[RF_SCALE_INVERSE] /= factor;
    decided[0] = skip;
    decided[1] = tally[RF_SCALE_SKIPPED];
    return RF_OK;
}

static rf_cost small_cost(const rf_op_call *call)
{
    return rf_cost_of(call, 1);
}

static rf_result loss_scale_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                 rf_kernel_plan *plan)
{
    const loss_scale_attr *attr = call->attr;
    const uint32_t push[4] = { attr->growth_steps, attr->is_fixed, rf_float_word(RF_SCALE_LEAST),
                               rf_float_word(RF_SCALE_MOST) };
    rf_dispatch *d = rf_kernel_plan_add(plan, &rf_shader_loss_scale, RF_NO_LOOPS);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, 1);
    rf_dispatch_push(d, push, sizeof(push));
    rf_bind_whole(d, RF_BIND_INPUT, 0)->write = true;
    rf_bind_whole(d, RF_BIND_INPUT, 1)->write = true;
    rf_bind_whole(d, RF_BIND_INPUT, 2);
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    rf_dispatch_groups(d, caps, 1);
    return RF_OK;
}

static const loss_scale_attr every_step = { .growth_steps = 1 }, second_step = { .growth_steps = 2 },
                             stays = { .growth_steps = 1, .is_fixed = 1 };
#define SCALE_CASE(label, attributes, scale, tally, others)                                                            \
    {                                                                                                                  \
        .name = label, .attr = &attributes, .n_in = 3, .in = {                                                         \
            RF_TENSOR(RF_F32, RF_FILL_UNIFORM, scale, scale, 1, 1),                                                    \
            tally,                                                                                                     \
            NUMBERS(1, others, others + 1)                                                                             \
        }                                                                                                              \
    }
static const rf_op_case loss_scale_cases[] = {
    SCALE_CASE("finite", second_step, 32768, NUMBERS(RF_SCALE_TALLY, 0, 1), 0),
    SCALE_CASE("grows", every_step, 32768, NUMBERS(RF_SCALE_TALLY, 0, 1), 0),
    SCALE_CASE("found", second_step, 3, NUMBERS(RF_SCALE_TALLY, 1, 2), 0),
    SCALE_CASE("found_elsewhere", every_step, 3, NUMBERS(RF_SCALE_TALLY, 0, 1), 1),
    SCALE_CASE("fixed_found", stays, 1024, NUMBERS(RF_SCALE_TALLY, 1, 2), 0),
    SCALE_CASE("fixed_finite", stays, 1024, NUMBERS(RF_SCALE_TALLY, 0, 1), 0),
    SCALE_CASE("most", every_step, 0x1p100f, NUMBERS(RF_SCALE_TALLY, 0, 1), 0),
    SCALE_CASE("least", every_step, 0x1p-100f, NUMBERS(RF_SCALE_TALLY, 5, 6), 1),
};
static const rf_kernel loss_scale_kernel = { "one", score_any, loss_scale_plan };
static const rf_kernel *const loss_scale_kernels[] = { &loss_scale_kernel };
static const rf_attr_field loss_scale_fields[] = {
    RF_ATTR_UINT(loss_scale_attr, growth_steps, RF_SCALE_MAX_GROWTH_STEPS),
    RF_ATTR_FLAG(loss_scale_attr, is_fixed),
};

const rf_op rf_op_loss_scale = {
    .name = "loss_scale",
    RF_ATTRIBUTES(loss_scale_attr, loss_scale_fields),
    .min_in = 3,
    .max_in = 3,
    .n_out = 1,
    .mutates = 3,
    .settings = 7,
    .flags = RF_OP_NO_GRADIENT | RF_OP_NO_ONNX,
    .unbatched_in = 7,
    .unbatched_out = 1,
    .infer = loss_scale_infer,
    .reference = loss_scale_reference,
    .cost = small_cost,
    RF_KERNELS(loss_scale_kernels),
    RF_CASES(loss_scale_cases),
};

rf_result rf_emit_loss_scale(rf_graph *g, const rf_loss_scaling *scaling, rf_value scale, rf_value tally,
                             rf_value found, rf_value *out)
{
    const loss_scale_attr attr = { scaling->growth_steps, scaling->fixed };
    return rf_graph_add(g, &rf_op_loss_scale, &attr, (rf_value[]){ scale, tally, found }, 3, out);
}

/* ---- numbers of an update ---- */

/* Behind them stands one number more. */
static uint32_t count_rows(const rf_op_call *call)
{
    return (uint32_t)(rf_desc_count(&call->in[0]) / RF_HYPER_COUNT);
}

static rf_result update_numbers_infer(rf_op_call *call)
{
    const uint64_t rows = count_rows(call);
    RF_TRY(expect_count(call, 0, (rows > 0 ? rows : 1) * RF_HYPER_COUNT + 1));
    RF_TRY(expect_count(call, 1, 2));
    call->out[0] = (rf_tensor_desc){ RF_F32, RF_SHAPE(RF_HYPER_COUNT) };
    return RF_OK;
}

static rf_result update_numbers_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const float *rows = in[0], *decided = in[1];
    const uint32_t last = count_rows(call) - 1;
    const float since = decided[1] - rows[(last + 1) * RF_HYPER_COUNT];
    const uint32_t row = since < 0 ? 0 : since > (float)last ? last : (uint32_t)since;
    float *y = out[0];
    for (uint32_t i = 0; i < RF_HYPER_COUNT; i++) y[i] = rows[row * RF_HYPER_COUNT + i];
    y[RF_HYPER_SKIP] = decided[0];
    return RF_OK;
}

static rf_result update_numbers_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                     rf_kernel_plan *plan)
{
    const uint32_t push[3] = { RF_HYPER_COUNT, count_rows(call) - 1, RF_HYPER_SKIP };
    rf_dispatch *d = rf_kernel_plan_add(plan, &rf_shader_update_numbers, RF_NO_LOOPS);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, rf_local_size(caps, 16));
    rf_dispatch_push(d, push, sizeof(push));
    rf_bind_whole(d, RF_BIND_INPUT, 0);
    rf_bind_whole(d, RF_BIND_INPUT, 1);
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    rf_dispatch_items(d, caps, RF_HYPER_COUNT);
    return RF_OK;
}

/* What the host knew stands among the rows, so that it is a random one of these numbers too. */
#define NUMBERS_CASE(label, rows, first)                                                                               \
    {                                                                                                                  \
        .name = label, .n_in = 2, .in = { NUMBERS((rows)*RF_HYPER_COUNT + 1, 4, 9), NUMBERS(2, first, first + 1) }     \
    }
static const rf_op_case update_numbers_cases[] = {
    NUMBERS_CASE("0", 3, 0),   NUMBERS_CASE("5", 3, 5),       NUMBERS_CASE("7", 3, 7),         NUMBERS_CASE("8", 3, 8),
    NUMBERS_CASE("11", 3, 11), NUMBERS_CASE("one_row", 1, 7), NUMBERS_CASE("64_rows", 64, 40),
};
static const rf_kernel update_numbers_kernel = { "one", score_any, update_numbers_plan };
static const rf_kernel *const update_numbers_kernels[] = { &update_numbers_kernel };

const rf_op rf_op_update_numbers = {
    .name = "update_numbers",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .settings = 3,
    .flags = RF_OP_NO_GRADIENT | RF_OP_NO_ONNX,
    .unbatched_in = 3,
    .unbatched_out = 1,
    .infer = update_numbers_infer,
    .reference = update_numbers_reference,
    .cost = small_cost,
    RF_KERNELS(update_numbers_kernels),
    RF_CASES(update_numbers_cases),
};

rf_result rf_emit_update_numbers(rf_graph *g, rf_value rows, rf_value decided, rf_value *out)
{
    return rf_graph_add(g, &rf_op_update_numbers, NULL, (rf_value[]){ rows, decided }, 2, out);
}
