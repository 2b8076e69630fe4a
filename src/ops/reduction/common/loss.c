/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cross-entropy losses, one number for each row of predictions, and their gradients. Predictions are logits, or
 * probabilities p, which count as clip(p / sum(p), 1e-7, 1 - 1e-7), as in Keras. A fused gradient takes what flows in
 * as one number for all rows, and makes the losses, too; of these the sum, and whether predictions are right.
 */
#include "ops/reduction/common/loss.h"
#include "ops/ops.h"
#include "ops/scalar.h"

#include <math.h>
#include <string.h>

#define CLIP_LOW 1e-7f
#define CLIP_HIGH (1.0f - 1e-7f)

/* The gradient that flows into the row's loss. */
static double dloss_of(const rf_op_call *call, const float *dloss, uint64_t row)
{
    const rf_loss_attr *attr = rf_loss_attr_of(call);
    if (attr->dloss == RF_DLOSS_ROWS) return (double)dloss[row];
    return attr->dloss == RF_DLOSS_SCALAR ? (double)dloss[0] : (double)(attr->numerator / dloss[0]);
}

/* ---- inference and emission ---- */

static rf_result loss_infer(rf_op_call *call)
{
    RF_TRY(rf_expect_rows(call, 1));
    rf_tensor_desc loss = { .dtype = RF_F32, .shape = call->in[1].shape };
    loss.shape.dim[--loss.shape.rank] = 0;
    if (call->op->role == RF_LOSS_DENSE) {
        RF_TRY(rf_expect_dtype(call, 0, RF_F32));
        RF_TRY(rf_expect_shape(call, 0, &call->in[1].shape, "labels like the predictions"));
    } else {
        RF_TRY(rf_expect_dtype(call, 0, RF_I32));
        RF_TRY(rf_expect_shape(call, 0, &loss.shape, "one class number for each row of predictions"));
    }
    call->out[0] = loss;
    return RF_OK;
}

static rf_result loss_grad_infer(rf_op_call *call)
{
    static const rf_shape scalar = { 0 };
    const rf_loss_attr *attr = rf_loss_attr_of(call);
    RF_TRY(loss_infer(call));
    RF_TRY(rf_expect_dtype(call, 2, RF_F32));
    if (attr->dloss == RF_DLOSS_ROWS)
        RF_TRY(rf_expect_shape(call, 2, &call->out[0].shape, "one gradient for each row of predictions"));
    else
        RF_TRY(rf_expect_shape(call, 2, &scalar, "one gradient for all rows"));
    const rf_tensor_desc rows = call->out[0];
    call->out[0] = call->in[1];
    call->n_out = 1;
    if (!attr->with_loss) return RF_OK;
    call->out[call->n_out++] = rows;
    if (attr->with_hits) call->out[call->n_out++] = rows;
    if (attr->with_hits && call->op->role == RF_LOSS_DENSE)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: has no class numbers to compare with", call->op->name);
    if (attr->total == RF_TOTAL_QUOTIENT && attr->dloss == RF_DLOSS_ROWS)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: divides losses by a single number only", call->op->name);
    if (attr->total != RF_TOTAL_NONE) call->out[call->n_out++] = (rf_tensor_desc){ .dtype = RF_F32 };
    return RF_OK;
}

static rf_result emit_loss(rf_graph *g, const rf_op *op, rf_value labels, rf_value predictions, bool logits,
                           rf_value *out)
{
    const rf_loss_attr attr = { .from_logits = logits };
    const rf_value in[2] = { labels, predictions };
    return rf_graph_add(g, op, &attr, in, 2, out);
}

rf_result rf_emit_sparse_crossentropy(rf_graph *g, rf_value labels, rf_value predictions, bool logits, rf_value *out)
{
    return emit_loss(g, &rf_op_sparse_crossentropy, labels, predictions, logits, out);
}

rf_result rf_emit_crossentropy(rf_graph *g, rf_value labels, rf_value predictions, bool logits, rf_value *out)
{
    return emit_loss(g, &rf_op_crossentropy, labels, predictions, logits, out);
}

/* ---- gradients ---- */

/* d loss / d labels of the dense form: minus the logarithm of the prediction. */
static rf_result label_gradient(rf_grad_context *ctx)
{
    const rf_loss_attr *attr = ctx->attr;
    rf_graph *g = ctx->graph;
    rf_value logs, dloss;
    if (attr->from_logits) {
        RF_TRY(rf_emit_log_softmax(g, ctx->in[1], &logs));
    } else {
        static const int32_t last = -1;
        static const float low = CLIP_LOW, high = CLIP_HIGH;
        const rf_tensor_desc scalar = { .dtype = RF_F32 };
        rf_value total, low_value, high_value;
        RF_TRY(rf_emit_reduce(g, RF_REDUCE_KIND_SUM, ctx->in[1], &last, 1, true, &total));
        RF_TRY(rf_emit_binary(g, RF_FN_DIVIDE, 0, ctx->in[1], total, &logs));
        RF_TRY(rf_graph_constant(g, scalar, &low, &low_value));
        RF_TRY(rf_graph_constant(g, scalar, &high, &high_value));
        RF_TRY(rf_emit_binary(g, RF_FN_MAXIMUM, 0, logs, low_value, &logs));
        RF_TRY(rf_emit_binary(g, RF_FN_MINIMUM, 0, logs, high_value, &logs));
        RF_TRY(rf_emit_unary(g, RF_FN_LOG, 0, logs, &logs));
    }
    RF_TRY(rf_emit_expand_dims(g, ctx->dout[0], -1, &dloss));
    RF_TRY(rf_emit_unary(g, RF_FN_NEGATIVE, 0, dloss, &dloss));
    return rf_emit_binary(g, RF_FN_MULTIPLY, 0, logs, dloss, &ctx->din[0]);
}

static rf_result loss_gradient(rf_grad_context *ctx, const rf_op *grad)
{
    const rf_value in[3] = { ctx->in[0], ctx->in[1], ctx->dout[0] };
    if (ctx->dout[0] == 0) return RF_OK;
    if (ctx->needed[0] && grad == &rf_op_crossentropy_grad) RF_TRY(label_gradient(ctx));
    if (!ctx->needed[1]) return RF_OK;
    rf_value made[RF_MAX_OUTPUTS];
    RF_TRY(rf_graph_add(ctx->graph, grad, ctx->attr, in, 3, made));
    ctx->din[1] = made[0];
    return RF_OK;
}

static rf_result sparse_gradient(rf_grad_context *ctx)
{
    return loss_gradient(ctx, &rf_op_sparse_crossentropy_grad);
}
static rf_result dense_gradient(rf_grad_context *ctx)
{
    return loss_gradient(ctx, &rf_op_crossentropy_grad);
}

/* ---- references ---- */

/* Normalising terms of one row: logits: the maximum and the sum of exponentials; probabilities: 0 and the sum. */
static void row_terms(const float *x, uint64_t columns, bool logits, double *shift, double *total)
{
    *shift = logits ? -INFINITY : 0;
    *total = 0;
    for (uint64_t c = 0; logits && c < columns; c++) *shift = rf_larger(*shift, x[c]);
    for (uint64_t c = 0; c < columns; c++) *total += logits ? exp(x[c] - *shift) : x[c];
}

static void compute_losses(const rf_op_call *call, void *const *in, float *loss)
{
    const uint64_t rows = rf_desc_rows(&call->in[1]), columns = rf_desc_columns(&call->in[1]);
    const bool logits = rf_loss_attr_of(call)->from_logits, dense = call->op->role == RF_LOSS_DENSE;
    for (uint64_t r = 0; r < rows; r++) {
        const float *x = (const float *)in[1] + r * columns;
        double shift, total, result = 0;
        row_terms(x, columns, logits, &shift, &total);
        const int32_t label = dense ? 0 : ((const int32_t *)in[0])[r];
        for (uint64_t c = 0; c < columns; c++) {
            const double weight = dense ? ((const float *)in[0])[r * columns + c] : (uint64_t)label == c;
            if (weight == 0) continue;
            result -= weight * (logits ? x[c] - shift - log(total) : log(rf_clamp(x[c] / total, CLIP_LOW, CLIP_HIGH)));
        }
        loss[r] = label < 0 || (uint64_t)label >= columns ? NAN : (float)result;
    }
}

static rf_result loss_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    compute_losses(call, in, out[0]);
    return RF_OK;
}

static void compute_hits(const rf_op_call *call, void *const *in, float *hits)
{
    const uint64_t rows = rf_desc_rows(&call->in[1]), columns = rf_desc_columns(&call->in[1]);
    for (uint64_t r = 0; r < rows; r++) {
        const float *x = (const float *)in[1] + r * columns;
        uint64_t best = 0;
        for (uint64_t c = 1; c < columns; c++)
            if (rf_exceeds(x[c], x[best])) best = c;
        hits[r] = ((const int32_t *)in[0])[r] == (int64_t)best;
    }
}

static void add_losses(const rf_op_call *call, const float *loss, const float *divisor, float *total)
{
    double sum = 0;
    for (uint64_t r = 0; r < rf_desc_rows(&call->in[1]); r++) sum += (double)loss[r];
    *total = rf_loss_attr_of(call)->total == RF_TOTAL_QUOTIENT ? (float)sum / *divisor : (float)sum;
}

static rf_result loss_grad_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const uint64_t rows = rf_desc_rows(&call->in[1]), columns = rf_desc_columns(&call->in[1]);
    const bool logits = rf_loss_attr_of(call)->from_logits, dense = call->op->role == RF_LOSS_DENSE;
    if (call->n_out > 1) compute_losses(call, in, out[1]);
    if (call->n_out > 1 && rf_loss_attr_of(call)->with_hits) compute_hits(call, in, out[2]);
    if (call->n_out > 1 && rf_loss_attr_of(call)->total) add_losses(call, out[1], in[2], out[call->n_out - 1]);
    for (uint64_t r = 0; r < rows; r++) {
        const double dloss = dloss_of(call, in[2], r);
        const float *x = (const float *)in[1] + r * columns;
        float *dx = (float *)out[0] + r * columns;
        double shift, total, sum = 0;
        row_terms(x, columns, logits, &shift, &total);
        const int32_t label = dense ? 0 : ((const int32_t *)in[0])[r];
        const bool known = label >= 0 && (uint64_t)label < columns;
        /* Walks the row twice: the sum of the weights that count comes first. */
        for (int pass = 0; pass < 2; pass++) {
            for (uint64_t c = 0; c < columns; c++) {
                const double weight = dense ? ((const float *)in[0])[r * columns + c] : (uint64_t)label == c;
                /* Rounded as in kernels: a number below the smallest float is 0, which makes NaN of an infinite dloss.
                 */
                const double q = (float)((logits ? exp(x[c] - shift) : x[c]) / total);
                const double counts = logits || !(q < CLIP_LOW || q > CLIP_HIGH) ? weight : 0; /* NaN: it does */
                if (pass == 0)
                    sum += counts;
                else if (!known)
                    dx[c] = NAN;
                else if (logits)
                    dx[c] = (float)(dloss * (q * sum - weight));
                else
                    dx[c] = (float)(dloss * (sum - (counts != 0 ? counts / q : 0)) / total);
            }
        }
    }
    return RF_OK;
}

static rf_cost loss_cost(const rf_op_call *call)
{
    return rf_cost_of(call, 5.0 * (double)rf_desc_count(&call->in[1]));
}

/* ---- the sum of the losses ---- */

static rf_result append_total(const rf_op_call *call, const rf_device_caps *caps, rf_kernel_plan *plan)
{
    static const rf_reduce_attr sum = { .kind = RF_REDUCE_KIND_SUM };
    static const rf_elementwise_attr divide = { 1, { { .fn = RF_FN_DIVIDE, .a = 0, .b = 1 } } };
    const rf_loss_attr *attr = rf_loss_attr_of(call);
    if (call->n_in < 3 || call->n_out < 2 || attr->total == RF_TOTAL_NONE) return RF_OK;
    const rf_plan_tensor losses = { RF_BIND_OUTPUT, 1 }, total = { RF_BIND_OUTPUT, call->n_out - 1 };
    rf_op_call reduce = { .op = &rf_op_reduce, .attr = &sum, .n_in = 1, .n_out = 1 };
    reduce.in[0] = call->out[1];
    reduce.out[0] = call->out[total.index];
    RF_TRY(rf_plan_append(plan, &reduce, caps, &losses, &total));
    if (attr->total != RF_TOTAL_QUOTIENT) return RF_OK;
    rf_op_call quotient = { .op = &rf_op_elementwise, .attr = &divide, .n_in = 2, .n_out = 1 };
    quotient.in[0] = quotient.out[0] = reduce.out[0];
    quotient.in[1] = call->in[2];
    return rf_plan_append(plan, &quotient, caps, (const rf_plan_tensor[]){ total, { RF_BIND_INPUT, 2 } }, &total);
}

/* ---- the ops ---- */

static const char *dloss_name(uint32_t dloss)
{
    static const char *const names[] = { "rows", "scalar", "quotient" };
    return dloss < RF_LENGTH(names) ? names[dloss] : "?";
}

static const char *total_name(uint32_t total)
{
    static const char *const names[] = { "none", "sum", "quotient" };
    return total < RF_LENGTH(names) ? names[total] : "?";
}

static const rf_attr_field loss_fields[] = {
    RF_ATTR_FLAG(rf_loss_attr, from_logits), RF_ATTR_NAMED(rf_loss_attr, dloss, RF_DLOSS_QUOTIENT, dloss_name),
    RF_ATTR_NUMBER(rf_loss_attr, numerator), RF_ATTR_FLAG(rf_loss_attr, with_loss),
    RF_ATTR_FLAG(rf_loss_attr, with_hits),   RF_ATTR_NAMED(rf_loss_attr, total, RF_TOTAL_QUOTIENT, total_name),
};

static int64_t class_choices(const rf_op_call *call)
{
    const rf_shape *predictions = &call->in[1].shape;
    return predictions->dim[predictions->rank - 1];
}

#define LOSS_OP(id, role_, inputs, choices_, infer_, gradient_, absorb_, reference_)                                   \
    const rf_op rf_op_##id = {                                                                                         \
        .name = #id,                                                                                                   \
        .role = role_,                                                                                                 \
        .choices = choices_,                                                                                           \
        RF_ATTRIBUTES(rf_loss_attr, loss_fields),                                                                      \
        .min_in = inputs,                                                                                              \
        .max_in = inputs,                                                                                              \
        .n_out = inputs == 3 ? 4 : 1,                                                                                  \
        .flags = RF_OP_NO_ONNX,                                                                                        \
        RF_STORES_16(inputs == 3), /* losses themselves are f32 */                                                     \
        .finish = append_total,                                                                                        \
        .infer = infer_,                                                                                               \
        .gradient = gradient_,                                                                                         \
        .absorb_sibling = absorb_,                                                                                     \
        .reference = reference_,                                                                                       \
        .cost = loss_cost,                                                                                             \
        .families = { &rf_loss_common },                                                                               \
    }
LOSS_OP(sparse_crossentropy, RF_LOSS_SPARSE, 2, class_choices, loss_infer, sparse_gradient, NULL, loss_reference);
LOSS_OP(sparse_crossentropy_grad, RF_LOSS_SPARSE, 3, NULL, loss_grad_infer, NULL, rf_loss_absorb, loss_grad_reference);
LOSS_OP(crossentropy, RF_LOSS_DENSE, 2, NULL, loss_infer, dense_gradient, NULL, loss_reference);
LOSS_OP(crossentropy_grad, RF_LOSS_DENSE, 3, NULL, loss_grad_infer, NULL, rf_loss_absorb, loss_grad_reference);
