/* SPDX-License-Identifier: Apache-2.0 */
/* The public tracing functions of losses. Most are composed of other operations, and take the mean, or the sum, over
 * the last axis. */
#include <ringfire/ops.h>

#include <math.h>
#include <stdio.h>

#include "base/params.h"
#include "trace/logits.h"
#include "trace/trace.h"

/* Both of one shape, of at least one dimension; false where the trace has failed. They become f32: squares, products
 * and the numbers that probabilities are clipped to are not what 16 bits can store. */
static bool widen_pair(rf_trace *t, const char *function, rf_tensor *labels, rf_tensor *predictions)
{
    rf_tensor_desc l, p;
    char name[64], a[96], b[96];
    snprintf(name, sizeof(name), "%s: labels", function);
    if (!rf_operand_desc(t, *labels, name, &l)) return false;
    snprintf(name, sizeof(name), "%s: predictions", function);
    if (!rf_operand_desc(t, *predictions, name, &p)) return false;
    if (rf_shape_equal(l.shape, p.shape) && l.shape.rank >= 1) {
        *labels = rf_upcast(t, *labels);
        *predictions = rf_upcast(t, *predictions);
        return true;
    }
    (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                        "%s: labels %s and predictions %s must have one shape of at least one dimension", function,
                        rf_shape_format(l.shape, a, sizeof(a)), rf_shape_format(p.shape, b, sizeof(b)));
    return false;
}

static rf_tensor mean_of_last(rf_trace *t, rf_tensor x)
{
    static const int32_t last = -1;
    return rf_reduce_mean(t, x, &last, 1, RF_DROP_DIMS);
}

/* factor * x + offset */
static rf_tensor tensor_affine(rf_trace *t, rf_tensor x, float factor, float offset)
{
    const rf_tensor scaled = rf_multiply(t, x, rf_constant(t, factor));
    return offset == 0.0f ? scaled : rf_add(t, scaled, rf_constant(t, offset));
}

/* Predictions as the loss reads them: where they are not logits, but the graph shows those, they become the logits. */
static rf_tensor read_predictions(rf_trace *t, rf_tensor predictions, rf_squash squash, bool *from_logits)
{
    if (*from_logits) return predictions;
    const rf_tensor logits = rf_logits_behind(t, predictions, squash);
    *from_logits = logits.id != 0;
    return *from_logits ? logits : predictions;
}

typedef rf_result (*emit_crossentropy_fn)(rf_graph *g, rf_value labels, rf_value predictions, bool from_logits,
                                          rf_value *out);

static rf_tensor classes_crossentropy(rf_trace *t, emit_crossentropy_fn emit, rf_tensor labels, rf_tensor predictions,
                                      bool from_logits)
{
    rf_value l, p, out = 0;
    predictions = read_predictions(t, predictions, RF_SQUASH_SOFTMAX, &from_logits);
    if (!rf_operand(t, labels, "labels", &l) || !rf_operand(t, predictions, "predictions", &p)) return RF_NO_TENSOR;
    const rf_result r = emit(rf_trace_graph(t), l, p, from_logits, &out);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_sparse_categorical_crossentropy(rf_trace *t, rf_tensor labels, rf_tensor predictions,
                                             rf_prediction_form form)
{
    RF_TRACING(t);
    if (!rf_choice(t, "rf_sparse_categorical_crossentropy: form", (int)form, RF_LOGITS)) return RF_NO_TENSOR;
    rf_value v;
    if (!rf_operand(t, labels, "rf_sparse_categorical_crossentropy: labels", &v) ||
        !rf_operand(t, predictions, "rf_sparse_categorical_crossentropy: predictions", &v))
        return RF_NO_TENSOR;
    return classes_crossentropy(t, rf_emit_sparse_crossentropy, labels, predictions, form == RF_LOGITS);
}

rf_tensor rf_categorical_crossentropy(rf_trace *t, rf_tensor labels, rf_tensor predictions, rf_prediction_form form)
{
    RF_TRACING(t);
    if (!rf_choice(t, "rf_categorical_crossentropy: form", (int)form, RF_LOGITS)) return RF_NO_TENSOR;
    rf_value v;
    if (!rf_operand(t, labels, "rf_categorical_crossentropy: labels", &v) ||
        !rf_operand(t, predictions, "rf_categorical_crossentropy: predictions", &v))
        return RF_NO_TENSOR;
    return classes_crossentropy(t, rf_emit_crossentropy, labels, predictions, form == RF_LOGITS);
}

rf_tensor rf_binary_crossentropy(rf_trace *t, rf_tensor labels, rf_tensor predictions, rf_prediction_form form)
{
    RF_TRACING(t);
    if (!rf_choice(t, "rf_binary_crossentropy: form", (int)form, RF_LOGITS)) return RF_NO_TENSOR;
    const rf_tensor given = predictions;
    if (!widen_pair(t, "rf_binary_crossentropy", &labels, &predictions)) return RF_NO_TENSOR;
    bool from_logits = form == RF_LOGITS;
    const rf_tensor read = read_predictions(t, given, RF_SQUASH_SIGMOID, &from_logits);
    if (read.id != given.id) predictions = rf_upcast(t, read);
    if (from_logits) {
        const rf_tensor product = rf_multiply(t, labels, predictions);
        return mean_of_last(t, rf_subtract(t, rf_softplus(t, predictions), product));
    }
    const rf_tensor p = rf_clip(t, predictions, 1e-7f, 1.0f - 1e-7f), not_p = tensor_affine(t, p, -1.0f, 1.0f);
    const rf_tensor yes = rf_multiply(t, labels, rf_log(t, p)), not_labels = tensor_affine(t, labels, -1.0f, 1.0f);
    const rf_tensor no = rf_multiply(t, not_labels, rf_log(t, not_p));
    return rf_negative(t, mean_of_last(t, rf_add(t, yes, no)));
}

rf_tensor rf_mean_squared_error(rf_trace *t, rf_tensor labels, rf_tensor predictions)
{
    RF_TRACING(t);
    if (!widen_pair(t, "rf_mean_squared_error", &labels, &predictions)) return RF_NO_TENSOR;
    return mean_of_last(t, rf_square(t, rf_subtract(t, predictions, labels)));
}

rf_tensor rf_mean_absolute_error(rf_trace *t, rf_tensor labels, rf_tensor predictions)
{
    RF_TRACING(t);
    if (!widen_pair(t, "rf_mean_absolute_error", &labels, &predictions)) return RF_NO_TENSOR;
    return mean_of_last(t, rf_abs(t, rf_subtract(t, predictions, labels)));
}

/* q (e - q / 2) with q = min(e, delta) is e^2 / 2 below delta and delta e - delta^2 / 2 above. */
rf_tensor rf_huber(rf_trace *t, rf_tensor labels, rf_tensor predictions, float delta)
{
    RF_TRACING(t);
    if (!widen_pair(t, "rf_huber", &labels, &predictions)) return RF_NO_TENSOR;
    if (!(delta >= 0.0f) || !isfinite(delta)) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_huber: delta is %g; it must be finite and not negative",
                            (double)delta);
        return RF_NO_TENSOR;
    }
    if (delta == RF_ZERO) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_huber: delta is RF_ZERO: every loss would be 0");
        return RF_NO_TENSOR;
    }
    const rf_tensor error = rf_abs(t, rf_subtract(t, predictions, labels));
    const rf_tensor inner = rf_minimum(t, error, rf_constant(t, delta == 0.0f ? 1.0f : delta));
    const rf_tensor outer = rf_subtract(t, error, tensor_affine(t, inner, 0.5f, 0.0f));
    return mean_of_last(t, rf_multiply(t, inner, outer));
}

rf_tensor rf_kl_divergence(rf_trace *t, rf_tensor labels, rf_tensor predictions)
{
    RF_TRACING(t);
    static const int32_t last = -1;
    if (!widen_pair(t, "rf_kl_divergence", &labels, &predictions)) return RF_NO_TENSOR;
    const rf_tensor y = rf_clip(t, labels, 1e-7f, 1.0f), p = rf_clip(t, predictions, 1e-7f, 1.0f);
    const rf_tensor log_y = rf_log(t, y), logarithm = rf_subtract(t, log_y, rf_log(t, p));
    return rf_reduce_sum(t, rf_multiply(t, y, logarithm), &last, 1, RF_DROP_DIMS);
}
