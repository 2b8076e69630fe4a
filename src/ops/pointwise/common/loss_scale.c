/* SPDX-License-Identifier: Apache-2.0 */
/* Loss scaling on the device: gradients divided by the scale, what they make of it, and numbers for an update of which
 * the host does not know whether it will be made. */
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

static const rf_kernel unscale_kernels[] = {
    { "vec4", rf_score_any, unscale_plan },
};

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
};

rf_result rf_emit_unscale(rf_graph *g, rf_value gradients, rf_value tally)
{
    return rf_emit_update(g, &rf_op_unscale, NULL, (rf_value[]){ gradients, tally }, 2);
}

/* ---- gradients that are about to be added up ---- */

static bool is_beyond(float x, float most)
{
    return !(fabsf(x) <= most);
}

static rf_result overflow_check_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_overflow_check_attr *attr = call->attr;
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
    const rf_overflow_check_attr *attr = call->attr;
    rf_flat_job k = { .shader = &rf_shader_overflow_check,
                      .width = 4,
                      .n_tensors = 1,
                      .tensors = { { .index = 0 } },
                      .n_small = 1,
                      .small = { 1 } };
    const rf_push_overflow_check push = { .most = rf_float_word(attr->most) };
    RF_FLAT_JOB_PUSH(&k, push, n_vec, n_tail);
    RF_TRY(rf_flat_job_plan(&k, rf_desc_count(&call->in[0]), caps, plan));
    for (uint32_t i = 0; i < plan->count; i++) plan->items[i].bind[1].write = true;
    return RF_OK;
}

static const rf_kernel overflow_check_kernels[] = {
    { "vec4", rf_score_any, overflow_check_plan },
};
static const rf_attr_field overflow_check_fields[] = { RF_ATTR_NUMBER(rf_overflow_check_attr, most) };

const rf_op rf_op_overflow_check = {
    .name = "overflow_check",
    RF_ATTRIBUTES(rf_overflow_check_attr, overflow_check_fields),
    .min_in = 2,
    .max_in = 2,
    .mutates = 2,
    .settings = 1u << 1,
    .flags = RF_OP_NO_GRADIENT | RF_OP_NO_ONNX,
    .infer = gradients_infer,
    .reference = overflow_check_reference,
    .cost = overflow_check_cost,
    RF_KERNELS(overflow_check_kernels),
};

rf_result rf_emit_overflow_check(rf_graph *g, rf_value gradients, rf_value tally, float most)
{
    const rf_overflow_check_attr attr = { most };
    return rf_emit_update(g, &rf_op_overflow_check, &attr, (rf_value[]){ gradients, tally }, 2);
}

/* ---- the scale ---- */

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
    const rf_loss_scale_attr *attr = call->attr;
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
    const rf_loss_scale_attr *attr = call->attr;
    const rf_push_loss_scale push = {
        .growth_steps = attr->growth_steps, .is_fixed = attr->is_fixed, .least = RF_SCALE_LEAST, .most = RF_SCALE_MOST
    };
    rf_dispatch *d = rf_kernel_plan_add(plan, &rf_shader_loss_scale, RF_NO_LOOPS);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, 1);
    rf_dispatch_push(d, &push, sizeof(push));
    rf_bind_whole(d, RF_BIND_INPUT, 0)->write = true;
    rf_bind_whole(d, RF_BIND_INPUT, 1)->write = true;
    rf_bind_whole(d, RF_BIND_INPUT, 2);
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    rf_dispatch_groups(d, caps, 1);
    return RF_OK;
}

static const rf_kernel loss_scale_kernels[] = {
    { "one", rf_score_any, loss_scale_plan },
};
static const rf_attr_field loss_scale_fields[] = {
    RF_ATTR_UINT(rf_loss_scale_attr, growth_steps, RF_SCALE_MAX_GROWTH_STEPS),
    RF_ATTR_FLAG(rf_loss_scale_attr, is_fixed),
};

const rf_op rf_op_loss_scale = {
    .name = "loss_scale",
    RF_ATTRIBUTES(rf_loss_scale_attr, loss_scale_fields),
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
};

rf_result rf_emit_loss_scale(rf_graph *g, const rf_loss_scaling *scaling, rf_value scale, rf_value tally,
                             rf_value found, rf_value *out)
{
    const rf_loss_scale_attr attr = { scaling->growth_steps, scaling->fixed };
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
    const rf_push_update_numbers push = { .count = RF_HYPER_COUNT,
                                          .last_row = count_rows(call) - 1,
                                          .skip_at = RF_HYPER_SKIP };
    rf_dispatch *d = rf_kernel_plan_add(plan, &rf_shader_update_numbers, RF_NO_LOOPS);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, rf_local_size(caps, 16));
    rf_dispatch_push(d, &push, sizeof(push));
    rf_bind_whole(d, RF_BIND_INPUT, 0);
    rf_bind_whole(d, RF_BIND_INPUT, 1);
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    rf_dispatch_items(d, caps, RF_HYPER_COUNT);
    return RF_OK;
}

static const rf_kernel update_numbers_kernels[] = {
    { "one", rf_score_any, update_numbers_plan },
};

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
};

rf_result rf_emit_update_numbers(rf_graph *g, rf_value rows, rf_value decided, rf_value *out)
{
    return rf_graph_add(g, &rf_op_update_numbers, NULL, (rf_value[]){ rows, decided }, 2, out);
}
