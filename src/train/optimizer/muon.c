/* SPDX-License-Identifier: Apache-2.0 */
/* Muon: momentum whose singular values are made about 1. As a kind of optimizer, and as gradients that plain SGD
 * applies in a step of the caller's. */
#include <math.h>

#include "base/memory.h"
#include "trace/trace.h"
#include "train/optimizer/optimizer.h"

/* Jordan et al. 2024: a x + b x^3 + c x^5 takes singular values in (0, 1] to about 1 in few steps. */
static const float cubic_a = 3.4445f, cubic_b = -4.7750f, cubic_c = 2.0315f;

/* One step; products are square matrices of the shorter side. */
static rf_result iterate_once(rf_graph *g, rf_value *x, bool tall)
{
    rf_value square, fourth, factor, product;
    RF_TRY(rf_emit_matmul(g, *x, *x, tall, !tall, &square));
    RF_TRY(rf_emit_matmul(g, square, square, false, false, &fourth));
    RF_TRY(rf_emit_unary(g, RF_FN_MUL_IMM, cubic_b, square, &square));
    RF_TRY(rf_emit_unary(g, RF_FN_MUL_IMM, cubic_c, fourth, &fourth));
    RF_TRY(rf_emit_binary(g, RF_FN_ADD, 0, square, fourth, &factor));
    RF_TRY(rf_emit_matmul(g, tall ? *x : factor, tall ? factor : *x, false, false, &product));
    RF_TRY(rf_emit_unary(g, RF_FN_MUL_IMM, cubic_a, *x, x));
    return rf_emit_binary(g, RF_FN_ADD, 0, *x, product, x);
}

static rf_result emit_orthogonal(rf_graph *g, rf_value x, uint32_t steps, rf_value *out)
{
    static const int32_t matrix[] = { -2, -1 };
    static const float least = 1e-7f;
    const rf_shape shape = rf_graph_desc(g, x)->shape;
    const bool tall = shape.dim[shape.rank - 2] > shape.dim[shape.rank - 1];
    rf_value norm, epsilon, most;
    /* x / (norm + epsilon), of x over its largest element: squares of that are floats. It cancels out, for gradients
     * too; a matrix of zeros stays one. */
    RF_TRY(rf_graph_constant(g, (rf_tensor_desc){ RF_F32, RF_SCALAR_SHAPE }, &least, &epsilon));
    RF_TRY(rf_emit_unary(g, RF_FN_ABS, 0, x, &most));
    RF_TRY(rf_emit_reduce(g, RF_REDUCE_KIND_MAX, most, matrix, 2, true, &most));
    RF_TRY(rf_emit_binary(g, RF_FN_MAXIMUM, 0, most, epsilon, &most));
    RF_TRY(rf_emit_stop_gradient(g, most, &most));
    RF_TRY(rf_emit_binary(g, RF_FN_DIVIDE, 0, x, most, &x));
    RF_TRY(rf_emit_reduce(g, RF_REDUCE_KIND_SUM_SQUARES, x, matrix, 2, true, &norm));
    RF_TRY(rf_emit_unary(g, RF_FN_SQRT, 0, norm, &norm));
    RF_TRY(rf_emit_binary(g, RF_FN_DIVIDE, 0, epsilon, most, &epsilon));
    RF_TRY(rf_emit_binary(g, RF_FN_ADD, 0, norm, epsilon, &norm));
    RF_TRY(rf_emit_binary(g, RF_FN_DIVIDE, 0, x, norm, out));
    for (uint32_t i = 0; i < (steps ? steps : 5); i++) RF_TRY(iterate_once(g, out, tall));
    return RF_OK;
}

rf_tensor rf_orthogonalize(rf_trace *t, rf_tensor x, uint32_t steps)
{
    RF_TRACING(t);
    rf_tensor_desc desc;
    rf_value v, out = 0;
    char text[96];
    if (!rf_operand_desc(t, x, "rf_orthogonalize: x", &desc) || !rf_operand(t, x, "rf_orthogonalize: x", &v))
        return RF_NO_TENSOR;
    if (desc.dtype != RF_F32 || desc.shape.rank < 2 || steps > RF_MAX_ORTHOGONAL_STEPS) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                            "rf_orthogonalize: x is %s %s, and steps %u; it must be f32 of two dimensions or more, "
                            "and steps at most %d",
                            rf_dtype_name(desc.dtype), rf_shape_format(desc.shape, text, sizeof(text)), steps,
                            (int)RF_MAX_ORTHOGONAL_STEPS);
        return RF_NO_TENSOR;
    }
    const rf_result r = emit_orthogonal(rf_trace_graph(t), v, steps, &out);
    return rf_trace_emit(t, rf_error_context(r, "rf_orthogonalize"), out);
}

/* ---- the kind of optimizer ---- */

static const rf_muon_params *params_of(const rf_optimizer_params *p, uint32_t group)
{
    static const rf_muon_params none = { 0 };
    const uint32_t number = group % (p->num_groups + 1);
    return number > 0 && p->groups[number - 1].muon ? p->groups[number - 1].muon : &none;
}

bool rf_muon_updates(const rf_optimizer_params *p, uint32_t group, const char *name, rf_shape shape)
{
    static const rf_parameter_group tables = { .names = "*embedding*,*Embedding*" };
    const rf_muon_params *muon = params_of(p, group);
    if (muon->adamw || (!muon->embeddings && rf_parameter_group_matches(&tables, name))) return false;
    return shape.rank == 2 ||
           (shape.rank > 2 && muon->row_dimensions > 0 && (int32_t)muon->row_dimensions < shape.rank);
}

rf_result rf_muon_emit_direction(const rf_optimizer_params *p, rf_graph *g, uint32_t group, rf_value direction,
                                 rf_value grad, rf_value m, rf_value hyper)
{
    const uint32_t nesterov = !params_of(p, group)->plain_momentum;
    return rf_emit_update(g, &rf_op_muon_momentum, &nesterov, (rf_value[]){ direction, grad, m, hyper }, 4);
}

static double scale_of(const rf_muon_params *muon, double rows, double columns)
{
    if (muon->scale == RF_MUON_SCALE_SHAPE) return rows > columns ? sqrt(rows / columns) : 1.0;
    return (muon->rms_rate == 0.0 ? 0.2 : muon->rms_rate) * sqrt(rows > columns ? rows : columns);
}

rf_result rf_muon_emit_whole(const rf_optimizer_params *p, rf_graph *g, uint32_t group, rf_value direction)
{
    const rf_muon_params *muon = params_of(p, group);
    const rf_shape shape = rf_graph_desc(g, direction)->shape;
    const int32_t leading = shape.rank == 2 ? 1 : (int32_t)muon->row_dimensions;
    int64_t rows = 1, columns = 1;
    for (int32_t i = 0; i < shape.rank; i++) *(i < leading ? &rows : &columns) *= shape.dim[i];
    rf_value x = direction;
    if (shape.rank > 2) RF_TRY(rf_emit_reshape(g, x, RF_SHAPE(rows, columns), &x));
    RF_TRY(emit_orthogonal(g, x, muon->steps, &x));
    RF_TRY(rf_emit_unary(g, RF_FN_MUL_IMM, (float)scale_of(muon, (double)rows, (double)columns), x, &x));
    return rf_emit_update(g, &rf_op_assign, NULL, (rf_value[]){ direction, x }, 2);
}

/* ---- in a step of the caller's ---- */

static rf_tensor scale_tensor(rf_trace *t, rf_tensor x, double factor)
{
    return rf_multiply(t, x, rf_constant(t, (float)factor));
}

/* Plain SGD, so that what is applied is what was orthogonalised. */
static rf_result check_optimizer(rf_trace *t, const rf_optimizer *optimizer)
{
    if (!optimizer) return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_optimizer_apply_muon: optimizer is NULL");
    const rf_optimizer_params *p = &rf_optimizer_configuration(optimizer)->params;
    if (p->kind != RF_OPTIMIZER_SGD || p->momentum > 0.0)
        return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                             "rf_optimizer_apply_muon: the optimizer is not RF_OPTIMIZER_SGD without a momentum");
    if (p->clip_value > 0.0 || p->clip_norm > 0.0 || p->global_clip_norm > 0.0)
        return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                             "rf_optimizer_apply_muon: the optimizer clips, which would act on the orthogonal "
                             "matrices; clip the gradients that are passed in");
    if (p->loss_scale)
        return rf_trace_fail(t, RF_ERROR_UNSUPPORTED,
                             "rf_optimizer_apply_muon: the optimizer scales losses, and momentums would add up scaled "
                             "gradients; leave out loss_scale");
    if (p->accumulation_steps > 1)
        return rf_trace_fail(t, RF_ERROR_UNSUPPORTED,
                             "rf_optimizer_apply_muon: the optimizer accumulates gradients, and the momentum would "
                             "change with every part of a batch; leave out accumulation_steps");
    return RF_OK;
}

static rf_result check_matrix(rf_trace *t, const rf_variable *variable, const rf_variable *momentum)
{
    char text[96], other[96];
    if (!variable || !momentum)
        return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_optimizer_apply_muon: a %s is NULL",
                             variable ? "momentum" : "variable");
    const rf_shape shape = rf_variable_shape(variable), own = rf_variable_shape(momentum);
    if (shape.rank != 2)
        return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                             "rf_optimizer_apply_muon: '%s' is %s and no matrix; give it to another optimizer",
                             rf_variable_name(variable), rf_shape_format(shape, text, sizeof(text)));
    if (!rf_shape_equal(own, shape))
        return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                             "rf_optimizer_apply_muon: momentum '%s' is %s, but '%s' is %s", rf_variable_name(momentum),
                             rf_shape_format(own, other, sizeof(other)), rf_variable_name(variable),
                             rf_shape_format(shape, text, sizeof(text)));
    return RF_OK;
}

/* The new momentum is b m + g of the whole batch. What is applied is linear in the replica's gradient, so that the
 * reduction completes it: g + b (b m + g). */
static rf_result replace_gradient(rf_trace *t, rf_tensor gradient, const rf_variable *variable, rf_variable *momentum,
                                  double beta, uint32_t steps, rf_tensor *out)
{
    const rf_shape shape = rf_variable_shape(variable);
    const rf_tensor m = rf_variable_tensor(t, momentum);
    const rf_tensor next = rf_add(t, scale_tensor(t, m, beta), rf_all_replica_sum(t, gradient));
    RF_TRY(rf_variable_update(t, momentum, next, RF_AGGREGATE_FIRST_REPLICA));
    const rf_tensor ahead = rf_add(t, scale_tensor(t, gradient, 1 + beta), scale_tensor(t, m, beta * beta));
    const double ratio = (double)shape.dim[0] / (double)shape.dim[1];
    *out = scale_tensor(t, rf_orthogonalize(t, ahead, steps), ratio > 1 ? sqrt(ratio) : 1);
    return rf_trace_status(t);
}

rf_result rf_optimizer_apply_muon(rf_trace *t, rf_optimizer *optimizer, const rf_tensor *gradients,
                                  rf_variable_list variables, rf_variable *const *momentums, double momentum,
                                  uint32_t steps)
{
    RF_REQUIRE(t, "rf_optimizer_apply_muon: the trace is NULL");
    RF_TRY(rf_trace_status(t));
    RF_TRY(check_optimizer(t, optimizer));
    if (!gradients || !momentums || (variables.count > 0 && !variables.items))
        return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_optimizer_apply_muon: %s is NULL",
                             !gradients   ? "gradients"
                             : !momentums ? "momentums"
                                          : "the list of variables");
    if (!(momentum >= 0.0 && momentum < 1.0))
        return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_optimizer_apply_muon: momentum %g is not in [0, 1)",
                             momentum);
    rf_tensor *applied = RF_NEW_ARRAY(rf_tensor, variables.count);
    if (!applied) return rf_trace_emit(t, RF_ERROR_OUT_OF_HOST_MEMORY, 0), rf_trace_status(t);
    rf_result r = RF_OK;
    for (uint32_t i = 0; r >= 0 && i < variables.count; i++) {
        rf_value v;
        r = check_matrix(t, variables.items[i], momentums[i]);
        if (r >= 0 && !rf_operand(t, gradients[i], "rf_optimizer_apply_muon: gradients", &v)) r = rf_trace_status(t);
        if (r >= 0 && rf_trace_is_unreached(t, v))
            applied[i] = gradients[i]; /* no influence on the loss: the momentum stays, too */
        else if (r >= 0)
            r = replace_gradient(t, gradients[i], variables.items[i], momentums[i], momentum == 0.0 ? 0.95 : momentum,
                                 steps, &applied[i]);
    }
    if (r >= 0) r = rf_optimizer_apply_gradients(t, optimizer, applied, variables);
    rf_free(applied);
    return r;
}
