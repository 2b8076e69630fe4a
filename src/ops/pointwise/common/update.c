/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optimizer steps on flat ranges of parameters, and accumulation. The gradient is scaled, then clipped to +- the clip
 * value; weight decay is taken off the parameter first (decoupled: Loshchilov & Hutter, "Decoupled weight decay
 * regularization", 2019). Momentum and RMSprop are in Keras' form, Adam is Kingma & Ba's (2015), with the bias
 * corrections as factors. (A number that the optimizer passes decides where epsilon is added.) Adagrad is Duchi et
 * al.'s (2011) in Keras' form, Lion Chen et al.'s (2023), Nadam Dozat's (2016). LAMB (You et al., "Large batch
 * optimization for deep learning", 2020) is two ops, because norms are taken between them (block_norms.c); its decay is
 * part of the step. So is Muon (Jordan et al. 2024): between its momentum and its step whole matrices are made
 * orthogonal. Averages of parameters are updated after the parameters.
 *
 * Ops that change parameters take one tensor more, behind all others: the parameter's shadow, f16 or bf16, which the
 * same dispatch writes.
 */
#include <math.h>

#include "base/half.h"
#include "ops/kit.h"
#include "ops/ops.h"
#include "ops/pointwise/common/update.h"
#include "ops/pointwise/cpu/cpu.h"
#include "ops/scalar.h"

static bool is_shadow(const rf_op_call *call, uint32_t i)
{
    return i == call->op->min_in;
}

static rf_result update_infer(rf_op_call *call)
{
    const uint32_t hyper = call->op->min_in - 1;
    const int64_t count = rf_shape_count(call->in[0].shape);
    for (uint32_t i = 0; i < call->n_in; i++) {
        const int64_t n = rf_shape_count(call->in[i].shape);
        char shape[96];
        rf_shape_format(call->in[i].shape, shape, sizeof(shape));
        const bool narrow = is_shadow(call, i);
        if (narrow ? !rf_dtype_is_narrow(call->in[i].dtype) : call->in[i].dtype != RF_F32)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: input %u is %s, not %s", call->op->name, i,
                           rf_dtype_name(call->in[i].dtype), narrow ? "f16 or bf16" : "f32");
        if (rf_update_has_hyper(call->op) && i == hyper && n < RF_HYPER_COUNT)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: hyperparameters have shape %s, not [%d]", call->op->name,
                           shape, RF_HYPER_COUNT);
        if (!(rf_update_has_hyper(call->op) && i == hyper) && n != count)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: input %u has shape %s, but the parameter has %lld elements",
                           call->op->name, i, shape, (long long)count);
    }
    return RF_OK;
}

/* True for rules that have something else, y, in the place of a gradient: *x is updated. */
static bool refer_to_average(const rf_op *op, const float *hyper, double *x, double y)
{
    const double keeps = op->role == RF_RULE_AVERAGE ? hyper[RF_HYPER_AVERAGE] : 0;
    if (op->role == RF_RULE_ACCUMULATE)
        *x += y;
    else if (op->role == RF_RULE_ASSIGN)
        *x = y;
    else if (op->role == RF_RULE_AVERAGE)
        *x = keeps * *x + (1 - keeps) * y;
    else if (op->role == RF_RULE_OVERWRITE)
        *x = hyper[RF_HYPER_OVERWRITE] > 0 ? y : *x;
    else
        return false;
    return true;
}

static double lamb_step(const float *hyper, double x, double m, double v)
{
    return m * hyper[RF_HYPER_CORRECTION_1] / (sqrt(v * hyper[RF_HYPER_CORRECTION_2]) + hyper[RF_HYPER_EPSILON]) +
           hyper[RF_HYPER_WEIGHT_DECAY] * x;
}

static void refer_to_rule(const rf_op_call *call, void *const *in)
{
    const int64_t count = rf_shape_count(call->in[0].shape);
    const uint32_t n_in = call->op->min_in;
    const float *hyper = in[n_in - 1];
    float *param = in[0], *a = n_in > 3 ? in[2] : NULL, *b = n_in > 4 ? in[3] : NULL;
    for (int64_t i = 0; i < count; i++) {
        double g = ((const float *)in[1])[i], x = param[i];
        if (refer_to_average(call->op, hyper, &x, g)) {
            param[i] = (float)x;
            continue;
        }
        if (call->op->role == RF_RULE_LAMB) {
            param[i] = (float)(x - (double)hyper[RF_HYPER_RATE] * hyper[RF_HYPER_RATIO] * lamb_step(hyper, x, g, a[i]));
            continue;
        }
        if (call->op->role == RF_RULE_MUON) {
            param[i] = (float)(x - (double)hyper[RF_HYPER_WEIGHT_DECAY] * x - (double)hyper[RF_HYPER_RATE] * g);
            continue;
        }
        const double rate = hyper[RF_HYPER_RATE], clip = hyper[RF_HYPER_CLIP_VALUE],
                     momentum = hyper[RF_HYPER_MOMENTUM];
        g *= hyper[RF_HYPER_GRAD_SCALE];
        if (clip > 0) g = rf_clamp(g, -clip, clip);
        if (call->op->role == RF_RULE_LAMB_MOMENTS) {
            const double b1 = hyper[RF_HYPER_BETA_1], b2 = hyper[RF_HYPER_BETA_2];
            param[i] = (float)(b1 * x + (1 - b1) * g);
            a[i] = (float)(b2 * a[i] + (1 - b2) * g * g);
            continue;
        }
        if (call->op->role == RF_RULE_MUON_MOMENTUM) {
            const double m = momentum * a[i] + g;
            param[i] = (float)(rf_update_looks_ahead(call) ? g + momentum * m : m);
            a[i] = (float)m;
            continue;
        }
        x -= hyper[RF_HYPER_WEIGHT_DECAY] * x;
        if (call->op->role == RF_RULE_SGD) {
            x -= rate * g;
        } else if (call->op->role == RF_RULE_MOMENTUM) {
            const double m = momentum * a[i] - rate * g;
            x += rf_update_looks_ahead(call) ? momentum * m - rate * g : m;
            a[i] = (float)m;
        } else if (call->op->role == RF_RULE_ADAM) {
            const double b1 = hyper[RF_HYPER_BETA_1], b2 = hyper[RF_HYPER_BETA_2];
            const double m = b1 * a[i] + (1 - b1) * g, v = b2 * b[i] + (1 - b2) * g * g;
            x -= rate * m * hyper[RF_HYPER_CORRECTION_1] /
                 (sqrt(v * hyper[RF_HYPER_CORRECTION_2]) + hyper[RF_HYPER_EPSILON]);
            a[i] = (float)m;
            b[i] = (float)v;
        } else if (call->op->role == RF_RULE_ADAGRAD) {
            const double s = a[i] + g * g;
            x -= rate * g / sqrt(s + hyper[RF_HYPER_EPSILON]);
            a[i] = (float)s;
        } else if (call->op->role == RF_RULE_LION) {
            const double b1 = hyper[RF_HYPER_BETA_1], b2 = hyper[RF_HYPER_BETA_2];
            const double direction = b1 * a[i] + (1 - b1) * g, m = b2 * a[i] + (1 - b2) * g;
            x -= rate * (isnan(direction) ? direction : (direction > 0) - (direction < 0));
            a[i] = (float)m;
        } else if (call->op->role == RF_RULE_NADAM) {
            const double b1 = hyper[RF_HYPER_BETA_1], b2 = hyper[RF_HYPER_BETA_2];
            const double m = b1 * a[i] + (1 - b1) * g, v = b2 * b[i] + (1 - b2) * g * g;
            x -= rate * (m * hyper[RF_HYPER_CORRECTION_1] + g * hyper[RF_HYPER_GRADIENT]) /
                 (sqrt(v * hyper[RF_HYPER_CORRECTION_2]) + hyper[RF_HYPER_EPSILON]);
            a[i] = (float)m;
            b[i] = (float)v;
        } else {
            const double rho = hyper[RF_HYPER_RHO];
            const double s = rho * a[i] + (1 - rho) * g * g;
            const double m = momentum * b[i] + rate * g / sqrt(s + hyper[RF_HYPER_EPSILON]);
            x -= m;
            a[i] = (float)s;
            b[i] = (float)m;
        }
        param[i] = (float)x;
    }
}

rf_result rf_update_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    (void)out;
    const uint32_t last = call->op->min_in;
    if (rf_update_has_hyper(call->op) && ((const float *)in[last - 1])[RF_HYPER_SKIP] >= 1) return RF_OK;
    refer_to_rule(call, in);
    if (rf_update_has_shadow(call))
        rf_floats_narrow(in[last], call->in[last].dtype, in[0], (size_t)rf_shape_count(call->in[0].shape));
    return RF_OK;
}

static rf_cost update_cost(const rf_op_call *call)
{
    const uint32_t n = rf_update_num_tensors(call);
    uint32_t written = 0;
    for (uint32_t i = 0; i < n; i++) written += call->op->mutates >> i & 1;
    return (rf_cost){ (n == 4 ? 14.0 : 4.0) * (double)rf_shape_count(call->in[0].shape),
                      ((double)(n + written) + (rf_update_has_shadow(call) ? 0.5 : 0)) *
                          (double)rf_tensor_bytes(&call->in[0]) };
}

/* ---- the ops ---- */

#define UPDATE_OP(rule, op_name, n_inputs, shadows, mutated, ...)                                                      \
    {                                                                                                                  \
        .name = op_name, .role = rule, .min_in = n_inputs, .max_in = n_inputs + shadows, .flags = RF_OP_NO_ONNX,       \
        .mutates = mutated | shadows << n_inputs, .infer = update_infer, .reference = rf_update_reference,             \
        .cost = update_cost, .families = { &rf_update_common, RF_SOFTWARE(&rf_update_cpu) }, __VA_ARGS__               \
    }
/* Whether the op takes a shadow. */
#define SHADOW 1u
#define NO_SHADOW 0u
static const rf_attr_field update_fields[] = { RF_ATTR_FLAG(rf_update_attr, nesterov) };
const rf_op rf_op_sgd_update = UPDATE_OP(RF_RULE_SGD, "sgd_update", 3, SHADOW, 1u, .settings = 1u << 2);
const rf_op rf_op_momentum_update = UPDATE_OP(RF_RULE_MOMENTUM, "momentum_update", 4, SHADOW, 1u | 4u,
                                              .settings = 1u << 3, RF_ATTRIBUTES(rf_update_attr, update_fields));
const rf_op rf_op_adam_update = UPDATE_OP(RF_RULE_ADAM, "adam_update", 5, SHADOW, 1u | 4u | 8u, .settings = 1u << 4);
const rf_op rf_op_rmsprop_update =
    UPDATE_OP(RF_RULE_RMSPROP, "rmsprop_update", 5, SHADOW, 1u | 4u | 8u, .settings = 1u << 4);
const rf_op rf_op_adagrad_update =
    UPDATE_OP(RF_RULE_ADAGRAD, "adagrad_update", 4, SHADOW, 1u | 4u, .settings = 1u << 3);
const rf_op rf_op_lion_update = UPDATE_OP(RF_RULE_LION, "lion_update", 4, SHADOW, 1u | 4u, .settings = 1u << 3);
const rf_op rf_op_nadam_update = UPDATE_OP(RF_RULE_NADAM, "nadam_update", 5, SHADOW, 1u | 4u | 8u, .settings = 1u << 4);
const rf_op rf_op_lamb_moments =
    UPDATE_OP(RF_RULE_LAMB_MOMENTS, "lamb_moments", 4, NO_SHADOW, 1u | 4u, .settings = 1u << 3);
const rf_op rf_op_lamb_update = UPDATE_OP(RF_RULE_LAMB, "lamb_update", 4, SHADOW, 1u, .settings = 1u << 3);
const rf_op rf_op_muon_momentum = UPDATE_OP(RF_RULE_MUON_MOMENTUM, "muon_momentum", 4, NO_SHADOW, 1u | 4u,
                                            .settings = 1u << 3, RF_ATTRIBUTES(rf_update_attr, update_fields));
const rf_op rf_op_muon_update = UPDATE_OP(RF_RULE_MUON, "muon_update", 3, SHADOW, 1u, .settings = 1u << 2);
const rf_op rf_op_average_update = UPDATE_OP(RF_RULE_AVERAGE, "average_update", 3, NO_SHADOW, 1u, .settings = 1u << 2);
const rf_op rf_op_overwrite = UPDATE_OP(RF_RULE_OVERWRITE, "overwrite", 3, SHADOW, 1u, .settings = 1u << 2);
const rf_op rf_op_assign = UPDATE_OP(RF_RULE_ASSIGN, "assign", 2, SHADOW, 1u, );
const rf_op rf_op_accumulate = UPDATE_OP(RF_RULE_ACCUMULATE, "accumulate", 2, NO_SHADOW, 1u, );

rf_result rf_emit_update(rf_graph *g, const rf_op *op, const void *attr, const rf_value *in, uint32_t n_in)
{
    rf_value none[RF_MAX_OUTPUTS];
    return rf_graph_add(g, op, attr, in, n_in, none);
}
