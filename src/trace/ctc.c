/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of connectionist temporal classification as a public tracing function. */
#include <ringfire/ctc.h>

#include "base/params.h"
#include "trace/logits.h"
#include "trace/trace.h"

/* -1 from the given length of each example on. */
static rf_tensor end_labels(rf_trace *t, rf_tensor labels, rf_tensor lengths)
{
    rf_tensor_desc l, n;
    char a[96], b[96];
    if (!rf_operand_desc(t, labels, "rf_ctc_loss: labels", &l) ||
        !rf_operand_desc(t, lengths, "rf_ctc_loss: label_lengths", &n))
        return RF_NO_TENSOR;
    if (l.dtype != RF_I32 || n.dtype != RF_I32 || l.shape.rank != 2 || n.shape.rank != 1 ||
        l.shape.dim[0] != n.shape.dim[0]) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                            "rf_ctc_loss: labels are %s %s and label_lengths %s %s; they must be i32 [n, s] and [n]",
                            rf_dtype_name(l.dtype), rf_shape_format(l.shape, a, sizeof(a)), rf_dtype_name(n.dtype),
                            rf_shape_format(n.shape, b, sizeof(b)));
        return RF_NO_TENSOR;
    }
    const rf_tensor places = rf_positions_along(t, labels, 1), ends = rf_cast(t, rf_expand_dims(t, lengths, 1), RF_F32);
    const rf_tensor counts = rf_compare(t, RF_LESS, places, ends);
    return rf_cast(t, rf_where(t, counts, rf_cast(t, labels, RF_F32), rf_constant(t, -1.0f)), RF_I32);
}

/* Logarithms of probabilities that add up to 1. */
static rf_tensor log_probabilities(rf_trace *t, rf_tensor predictions, rf_prediction_form form)
{
    const rf_tensor logits = form == RF_LOGITS ? predictions : rf_logits_behind(t, predictions, RF_SQUASH_SOFTMAX);
    const rf_tensor wide = rf_upcast(t, logits.id != 0 ? logits : predictions);
    return rf_log_softmax(t, logits.id != 0 ? wide : rf_log(t, rf_clip(t, wide, 1e-7f, 1.0f)));
}

rf_tensor rf_ctc_loss(rf_trace *t, rf_tensor labels, rf_tensor predictions, rf_prediction_form form,
                      const rf_ctc_params *params)
{
    RF_TRACING(t);
    rf_value v[3] = { 0 }, out = 0;
    rf_result r = RF_PARAMS_CHECK(rf_ctc_params, params);
    if (r < 0) return rf_trace_emit(t, r, 0);
    if (!rf_choice(t, "rf_ctc_loss: form", (int)form, RF_LOGITS) ||
        !rf_two_operands(t, labels, "rf_ctc_loss: labels", predictions, "rf_ctc_loss: predictions", v))
        return RF_NO_TENSOR;
    const rf_ctc_params p = params ? *params : (rf_ctc_params){ 0 };
    const rf_ctc_attr attr = { .blank = p.blank, .zero_infinity = p.zero_infinity };
    if (p.label_lengths.id != 0) labels = end_labels(t, labels, p.label_lengths);
    const rf_tensor logs = log_probabilities(t, predictions, form);
    if (!rf_two_operands(t, logs, "rf_ctc_loss: predictions", labels, "rf_ctc_loss: labels", v)) return RF_NO_TENSOR;
    if (p.input_lengths.id != 0 && !rf_operand(t, p.input_lengths, "rf_ctc_loss: input_lengths", &v[2]))
        return RF_NO_TENSOR;
    r = rf_emit_ctc_loss(rf_trace_graph(t), v[0], v[1], v[2], &attr, &out);
    return rf_trace_emit(t, r, out);
}
