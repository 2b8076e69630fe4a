/* SPDX-License-Identifier: Apache-2.0 */
#include "swish.h"

#include <math.h>
#include <string.h>

/* Made from swish.comp by the build. */
#include "swish_gradient_spirv.h"
#include "swish_spirv.h"

enum { LOCAL_SIZE = 64, LINE = 32768 /* workgroups along x, before y is used */ };

/* ---- the operations ---- */

static rf_result infer_like_x(const rf_custom_call *call, rf_custom_tensor *outputs)
{
    const rf_custom_tensor *x = &call->inputs[0], *beta = &call->inputs[1];
    if (x->dtype != RF_F32 || beta->dtype != RF_F32 || x->shape.rank < 1 || beta->shape.rank != 1)
        return RF_ERROR_INVALID_ARGUMENT;
    if (beta->shape.dim[0] != x->shape.dim[x->shape.rank - 1]) return RF_ERROR_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < call->num_outputs; i++) outputs[i] = *x;
    return RF_OK;
}

/* One invocation for each element of x. */
static rf_result dispatch_elements(const rf_custom_call *call, rf_custom_dispatch *dispatch)
{
    const rf_shape *x = &call->inputs[0].shape;
    const int64_t count = rf_shape_count(*x);
    if (count > UINT32_MAX - LOCAL_SIZE) return RF_ERROR_UNSUPPORTED;
    const uint32_t groups = ((uint32_t)count + LOCAL_SIZE - 1) / LOCAL_SIZE;
    dispatch->groups[0] = groups < LINE ? groups : LINE;
    dispatch->groups[1] = (groups + LINE - 1) / LINE;
    dispatch->push[0] = (uint32_t)count;
    dispatch->push[1] = (uint32_t)x->dim[x->rank - 1];
    return RF_OK;
}

/* The shader gives what each element adds to beta's gradient; the library's sum adds up all dimensions but the last. */
static rf_result trace_gradient(rf_trace *t, const rf_custom_gradient *g, rf_tensor *input_gradients)
{
    const swish_ops *ops = g->user;
    const rf_tensor in[] = { g->inputs[0], g->inputs[1], g->output_gradients[0] };
    rf_tensor out[2];
    rf_custom_op_call(t, ops->gradient, NULL, in, 3, out, 2);
    input_gradients[0] = out[0];
    const int64_t columns = rf_tensor_shape(t, g->inputs[1]).dim[0];
    const int32_t rows = 0;
    if (g->needed[1])
        input_gradients[1] = rf_reduce_sum(t, rf_reshape(t, out[1], RF_SHAPE(-1, columns)), &rows, 1, RF_DROP_DIMS);
    return rf_trace_status(t);
}

static rf_result compute_forward(const rf_custom_call *call, const void *const *inputs, void *const *outputs)
{
    const float *x = inputs[0], *beta = inputs[1];
    float *y = outputs[0];
    const int64_t columns = call->inputs[1].shape.dim[0], count = rf_shape_count(call->inputs[0].shape);
    for (int64_t i = 0; i < count; i++)
        y[i] = (float)((double)x[i] / (1.0 + exp(-(double)beta[i % columns] * (double)x[i])));
    return RF_OK;
}

static rf_result compute_gradient(const rf_custom_call *call, const void *const *inputs, void *const *outputs)
{
    const float *x = inputs[0], *beta = inputs[1], *dy = inputs[2];
    float *dx = outputs[0], *dbeta = outputs[1];
    const int64_t columns = call->inputs[1].shape.dim[0], count = rf_shape_count(call->inputs[0].shape);
    for (int64_t i = 0; i < count; i++) {
        const double v = (double)x[i], b = (double)beta[i % columns], s = 1.0 / (1.0 + exp(-b * v));
        const double slope = v * s * (1.0 - s);
        dx[i] = (float)((double)dy[i] * (s + b * slope));
        dbeta[i] = (float)((double)dy[i] * v * slope);
    }
    return RF_OK;
}

rf_result swish_create(swish_ops *ops)
{
    const rf_custom_op_params gradient = { .name = "swish_gradient",
                                           .spirv = swish_gradient_spirv,
                                           .spirv_size = sizeof(swish_gradient_spirv),
                                           .num_inputs = 3,
                                           .num_outputs = 2,
                                           .push_size = 8,
                                           .local_size = { LOCAL_SIZE },
                                           .unbatched_inputs = 1u << 1,
                                           .infer = infer_like_x,
                                           .dispatch = dispatch_elements,
                                           .reference = compute_gradient };
    const rf_custom_op_params forward = { .name = "swish",
                                          .spirv = swish_spirv,
                                          .spirv_size = sizeof(swish_spirv),
                                          .num_inputs = 2,
                                          .num_outputs = 1,
                                          .push_size = 8,
                                          .local_size = { LOCAL_SIZE },
                                          .unbatched_inputs = 1u << 1,
                                          .infer = infer_like_x,
                                          .dispatch = dispatch_elements,
                                          .gradient = trace_gradient,
                                          .reference = compute_forward,
                                          .user = ops };
    memset(ops, 0, sizeof(*ops));
    const rf_result r = rf_custom_op_create(&gradient, &ops->gradient);
    return r < 0 ? r : rf_custom_op_create(&forward, &ops->forward);
}

void swish_destroy(swish_ops *ops)
{
    rf_custom_op_destroy(&ops->forward);
    rf_custom_op_destroy(&ops->gradient);
}

/* ---- the layer ---- */

static rf_result build_layer(rf_layer *layer, const rf_custom_tensor *inputs, uint32_t num_inputs, void *user)
{
    (void)num_inputs;
    (void)user;
    const rf_shape *x = &inputs[0].shape;
    return rf_custom_layer_add_variable(
        layer, &(rf_custom_variable_params){ .name = "beta",
                                             .shape = RF_SHAPE(x->dim[x->rank - 1]),
                                             .initializer = { .kind = RF_INIT_CONSTANT, .a = 1.0f } });
}

static rf_result call_layer(rf_trace *t, const rf_layer *layer, const rf_tensor *inputs, rf_tensor *outputs,
                            rf_mode mode, void *user)
{
    (void)mode;
    const swish_ops *ops = user;
    const rf_tensor in[] = { inputs[0], rf_variable_tensor(t, rf_layer_variable(layer, "beta")) };
    if (ops) return rf_custom_op_call(t, ops->forward, NULL, in, 2, outputs, 1);
    outputs[0] = rf_multiply(t, in[0], rf_sigmoid(t, rf_multiply(t, in[0], in[1])));
    return rf_trace_status(t);
}

rf_result swish_layer(const swish_ops *ops, const char *name, rf_layer **out)
{
    return rf_layer_custom(&(rf_custom_layer_params){ .type = "swish",
                                                      .name = name,
                                                      .build = build_layer,
                                                      .call = call_layer,
                                                      .user = (void *)(uintptr_t)ops,
                                                      .config = ops ? "shader" : "built-in" },
                           out);
}

static rf_result make_layer(void *user, const char *name, const char *config, rf_layer **out)
{
    return swish_layer(strcmp(config, "shader") == 0 ? user : NULL, name, out);
}

rf_result swish_register(swish_ops *ops)
{
    return rf_custom_layer_register("swish", make_layer, ops);
}
