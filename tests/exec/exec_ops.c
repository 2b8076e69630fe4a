/* SPDX-License-Identifier: Apache-2.0 */
#include "exec_ops.h"

#include <string.h>

#include "base/error.h"
#include "test_push.h"

extern const rf_shader rf_shader_exec_test, rf_shader_exec_test_scribble, rf_shader_exec_test_fan;

static float factor_of(const rf_op_call *call)
{
    return ((const test_attr *)call->attr)->factor;
}

static uint32_t count_of(const rf_tensor_desc *desc)
{
    return (uint32_t)rf_shape_count(desc->shape);
}

/* ---- inference and references ---- */

static rf_result infer_same(rf_op_call *call)
{
    if (!rf_shape_equal(call->in[0].shape, call->in[1].shape))
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "test op: shapes differ");
    call->out[0] = call->in[0];
    return RF_OK;
}

static rf_result infer_none(rf_op_call *call)
{
    (void)call;
    return RF_OK;
}

static rf_result infer_columns(rf_op_call *call)
{
    call->out[0] = (rf_tensor_desc){ RF_F32, RF_SHAPE(call->in[0].shape.dim[1]) };
    return RF_OK;
}

static rf_result infer_flat(rf_op_call *call)
{
    call->out[0] = (rf_tensor_desc){ RF_F32, RF_SHAPE(rf_shape_count(call->in[0].shape)) };
    return RF_OK;
}

static rf_result reference_axpy(const rf_op_call *call, void *const *in, void *const *out)
{
    for (uint32_t i = 0; i < count_of(&call->out[0]); i++)
        ((float *)out[0])[i] = factor_of(call) * ((float *)in[0])[i] + ((float *)in[1])[i];
    return RF_OK;
}

static rf_result reference_update(const rf_op_call *call, void *const *in, void *const *out)
{
    (void)out;
    for (uint32_t i = 0; i < count_of(&call->in[0]); i++) ((float *)in[0])[i] += factor_of(call) * ((float *)in[1])[i];
    return RF_OK;
}

static rf_result reference_columns(const rf_op_call *call, void *const *in, void *const *out)
{
    const uint32_t rows = (uint32_t)call->in[0].shape.dim[0], columns = (uint32_t)call->in[0].shape.dim[1];
    for (uint32_t c = 0; c < columns; c++) {
        float sum = 0;
        for (uint32_t r = 0; r < rows; r++) sum += ((float *)in[0])[r * columns + c] * factor_of(call);
        ((float *)out[0])[c] = sum;
    }
    return RF_OK;
}

static rf_result reference_flat(const rf_op_call *call, void *const *in, void *const *out)
{
    memcpy(out[0], in[0], rf_tensor_bytes(&call->out[0]));
    return RF_OK;
}

static rf_result infer_fan(rf_op_call *call)
{
    for (uint32_t k = 0; k < RF_MAX_OUTPUTS; k++) call->out[k] = call->in[0];
    return RF_OK;
}

static rf_result reference_fan(const rf_op_call *call, void *const *in, void *const *out)
{
    for (uint32_t k = 0; k < RF_MAX_OUTPUTS; k++)
        for (uint32_t i = 0; out[k] && i < count_of(&call->in[0]); i++)
            ((float *)out[k])[i] = (float)(k + 1) * factor_of(call) * ((float *)in[0])[i];
    return RF_OK;
}

static rf_cost cost(const rf_op_call *call)
{
    return (rf_cost){ .flops = (double)((const test_attr *)call->attr)->cost };
}

/* ---- kernels ---- */

static const rf_shader *shader_of(uint32_t mode)
{
    return mode == 5 ? &rf_shader_exec_test_scribble : mode == 6 ? &rf_shader_exec_test_fan : &rf_shader_exec_test;
}

static rf_dispatch *add(rf_kernel_plan *plan, const rf_op_call *call, uint32_t mode, uint32_t count)
{
    rf_dispatch *d = rf_kernel_plan_add(plan, shader_of(mode), RF_NO_LOOPS);
    if (!d) return NULL;
    rf_push_exec_test p = { .mode = mode, .count = count, .factor = factor_of(call) };
    if (call->in[0].shape.rank == 2) {
        p.rows = (uint32_t)call->in[0].shape.dim[0];
        p.columns = (uint32_t)call->in[0].shape.dim[1];
    }
    rf_dispatch_spec(d, 64);
    rf_dispatch_push(d, &p, sizeof(p));
    d->grid[0] = (count + 63) / 64;
    d->grid[1] = d->grid[2] = 1;
    return d;
}

static rf_result plan_ternary(const rf_op_call *call, rf_kernel_plan *plan, uint32_t mode)
{
    rf_dispatch *d = add(plan, call, mode, count_of(&call->out[0]));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_bind(d, RF_BIND_INPUT, 0, RF_VIEW_STORAGE, false);
    rf_dispatch_bind(d, RF_BIND_INPUT, 1, RF_VIEW_STORAGE, false);
    rf_dispatch_bind(d, RF_BIND_OUTPUT, 0, RF_VIEW_STORAGE, true);
    return RF_OK;
}

static rf_result plan_axpy(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    (void)data;
    (void)caps;
    return plan_ternary(call, plan, 0);
}

static rf_result plan_forgetful(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                rf_kernel_plan *plan)
{
    (void)data;
    (void)caps;
    return plan_ternary(call, plan, 4);
}

static rf_result plan_scribble(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                               rf_kernel_plan *plan)
{
    (void)data;
    (void)caps;
    return plan_ternary(call, plan, 5);
}

static rf_result plan_update(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    (void)data;
    (void)caps;
    rf_dispatch *d = add(plan, call, 1, count_of(&call->in[0]));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_bind(d, RF_BIND_INPUT, 1, RF_VIEW_STORAGE, false);
    rf_dispatch_bind(d, RF_BIND_INPUT, 1, RF_VIEW_STORAGE, false);
    rf_dispatch_bind(d, RF_BIND_INPUT, 0, RF_VIEW_STORAGE, true);
    return RF_OK;
}

static rf_result plan_columns(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                              rf_kernel_plan *plan)
{
    (void)data;
    (void)caps;
    plan->workspace = rf_tensor_bytes(&call->in[0]);
    rf_dispatch *d = add(plan, call, 2, count_of(&call->in[0]));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_bind(d, RF_BIND_INPUT, 0, RF_VIEW_STORAGE, false);
    rf_dispatch_bind(d, RF_BIND_INPUT, 0, RF_VIEW_STORAGE, false);
    rf_dispatch_bind(d, RF_BIND_WORKSPACE, 0, RF_VIEW_STORAGE, true);
    d = add(plan, call, 3, count_of(&call->out[0]));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_bind(d, RF_BIND_WORKSPACE, 0, RF_VIEW_STORAGE, false);
    rf_dispatch_bind(d, RF_BIND_WORKSPACE, 0, RF_VIEW_STORAGE, false);
    rf_dispatch_bind(d, RF_BIND_OUTPUT, 0, RF_VIEW_STORAGE, true);
    return RF_OK;
}

static rf_result plan_fan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    (void)data;
    (void)caps;
    rf_dispatch *d = add(plan, call, 6, count_of(&call->in[0]));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_bind(d, RF_BIND_INPUT, 0, RF_VIEW_STORAGE, false);
    for (uint32_t k = 0; k < RF_MAX_OUTPUTS; k++) rf_dispatch_bind(d, RF_BIND_OUTPUT, k, RF_VIEW_STORAGE, true);
    return RF_OK;
}

/* A kernel's data is its score. */
static double given(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    (void)call;
    (void)caps;
    return *(const double *)data;
}

static const double least = 1, usual = 2, none = 0;
#define KERNELS(list, ...)                                                                                             \
    static const rf_kernel list##_rows[] = { __VA_ARGS__ };                                                            \
    static const rf_kernel_list list = { list##_rows, sizeof(list##_rows) / sizeof(list##_rows[0]) }
KERNELS(kernels_axpy, { "lower", given, plan_axpy, &least }, { "axpy", given, plan_axpy, &usual },
        { "never", given, plan_axpy, &none });
KERNELS(kernels_never, { "never", given, plan_axpy, &none });
KERNELS(kernels_update, { "update", given, plan_update, &usual });
KERNELS(kernels_columns, { "columns", given, plan_columns, &usual });
KERNELS(kernels_forgetful, { "forgetful", given, plan_forgetful, &usual });
KERNELS(kernels_scribble, { "scribble", given, plan_scribble, &usual });
KERNELS(kernels_fan, { "fan", given, plan_fan, &usual });

#define AXPY_LIKE(text, list)                                                                                          \
    .name = text, .attr_size = sizeof(test_attr), .min_in = 2, .max_in = 2, .n_out = 1, .infer = infer_same,           \
    .reference = reference_axpy, .cost = cost, .families = { &list }

const rf_op op_axpy = { AXPY_LIKE("axpy", kernels_axpy), .flags = RF_OP_INPLACE };
const rf_op op_forgetful = { AXPY_LIKE("forgetful", kernels_forgetful) };
const rf_op op_scribble = { AXPY_LIKE("scribble", kernels_scribble) };
const rf_op op_nowhere = { AXPY_LIKE("nowhere", kernels_never) };
const rf_op op_update = { .name = "update",
                          .attr_size = sizeof(test_attr),
                          .min_in = 2,
                          .max_in = 2,
                          .mutates = 1,
                          .infer = infer_none,
                          .reference = reference_update,
                          .cost = cost,
                          .families = { &kernels_update } };
const rf_op op_column_sums = { .name = "column_sums",
                               .attr_size = sizeof(test_attr),
                               .min_in = 1,
                               .max_in = 1,
                               .n_out = 1,
                               .infer = infer_columns,
                               .reference = reference_columns,
                               .cost = cost,
                               .families = { &kernels_columns } };
const rf_op op_fan = { .name = "fan",
                       .attr_size = sizeof(test_attr),
                       .min_in = 1,
                       .max_in = 1,
                       .n_out = RF_MAX_OUTPUTS,
                       .infer = infer_fan,
                       .reference = reference_fan,
                       .cost = cost,
                       .families = { &kernels_fan } };
const rf_op op_flat = { .name = "flat",
                        .attr_size = sizeof(test_attr),
                        .min_in = 1,
                        .max_in = 1,
                        .n_out = 1,
                        .flags = RF_OP_VIEW,
                        .infer = infer_flat,
                        .reference = reference_flat };

rf_result emit(rf_graph *g, const rf_op *op, float factor, rf_value a, rf_value b, rf_value *out)
{
    const test_attr attr = { .factor = factor };
    const rf_value in[2] = { a, b };
    return rf_graph_add(g, op, &attr, in, b ? 2 : 1, out);
}
