/* SPDX-License-Identifier: Apache-2.0 */
/* Muon in a step of the caller's: gradients that plain SGD applies. */
#include <math.h>

#include "base/memory.h"
#include "base/params.h"
#include "trace/trace.h"
#include "train/optimizer/optimizer.h"

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

/* The new momentum is b m + g of the whole batch. The applied g + b (b m + g) is linear in the replica's gradient, so
 * that the reduction completes it. */
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
            r = replace_gradient(t, gradients[i], variables.items[i], momentums[i], rf_setting(momentum, 0.95), steps,
                                 &applied[i]);
    }
    if (r >= 0) r = rf_optimizer_apply_gradients(t, optimizer, applied, variables);
    rf_free(applied);
    return r;
}
