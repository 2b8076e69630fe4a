/* SPDX-License-Identifier: Apache-2.0 */
/* Losses and their scaling to the global batch. */
#include "train/metrics/loss.h"

#include <math.h>

#include <ringfire/ctc.h>

#include "base/error.h"
#include "base/params.h"
#include "base/platform.h"
#include "ops/ops.h"
#include "trace/trace.h"

const char *const rf_loss_kind_names[RF_LOSS_KINDS] = {
    [RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY] = "sparse_categorical_crossentropy",
    [RF_LOSS_CATEGORICAL_CROSSENTROPY] = "categorical_crossentropy",
    [RF_LOSS_MEAN_SQUARED_ERROR] = "mean_squared_error",
    [RF_LOSS_BINARY_CROSSENTROPY] = "binary_crossentropy",
    [RF_LOSS_MEAN_ABSOLUTE_ERROR] = "mean_absolute_error",
    [RF_LOSS_HUBER] = "huber",
    [RF_LOSS_KL_DIVERGENCE] = "kl_divergence",
    [RF_LOSS_CTC] = "ctc",
};

static bool is_crossentropy(const rf_loss *loss)
{
    return loss->kind == RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY || loss->kind == RF_LOSS_CATEGORICAL_CROSSENTROPY ||
           loss->kind == RF_LOSS_BINARY_CROSSENTROPY || loss->kind == RF_LOSS_CTC;
}

rf_result rf_loss_check(const rf_loss *loss, const char *function)
{
    RF_TRY(RF_PARAMS_CHECK(rf_loss, loss));
    RF_REQUIRE((int)loss->kind >= RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY && (int)loss->kind < RF_LOSS_KINDS,
               "%s: loss.kind %d does not exist", function, (int)loss->kind);
    RF_REQUIRE((int)loss->reduction >= RF_REDUCTION_AUTO &&
                   (int)loss->reduction <= RF_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT,
               "%s: loss.reduction %d does not exist", function, (int)loss->reduction);
    RF_REQUIRE(!loss->from_logits || is_crossentropy(loss),
               "%s: loss.from_logits has a meaning for crossentropies only", function);
    RF_REQUIRE(loss->label_smoothing >= 0.0f && loss->label_smoothing < 1.0f,
               "%s: loss.label_smoothing %g is not in [0, 1)", function, (double)loss->label_smoothing);
    RF_REQUIRE(loss->label_smoothing == 0.0f || loss->kind == RF_LOSS_CATEGORICAL_CROSSENTROPY ||
                   loss->kind == RF_LOSS_BINARY_CROSSENTROPY,
               "%s: loss.label_smoothing is for the categorical and the binary crossentropy", function);
    RF_REQUIRE(loss->delta >= 0.0f && isfinite(loss->delta), "%s: loss.delta %g must be finite and not negative",
               function, (double)loss->delta);
    RF_REQUIRE(loss->delta != RF_ZERO, "%s: loss.delta is RF_ZERO: every loss would be 0; 0 stands for 1", function);
    RF_REQUIRE(!loss->ignore_class || loss->kind == RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
               "%s: loss.ignore_class is for the sparse crossentropy, whose labels are class numbers", function);
    RF_REQUIRE(loss->delta == 0.0f || loss->kind == RF_LOSS_HUBER, "%s: loss.delta is for Huber's loss", function);
    return RF_OK;
}

/* ---- predictions that cannot be what the loss takes them for ---- */

typedef enum range { RANGE_UNKNOWN, RANGE_PROBABILITIES, RANGE_SOFTMAX, RANGE_ANY } range;

/* The range of values that a scalar function gives, as far as it is known. */
static range range_of_fn(uint8_t fn)
{
    switch (fn) {
    case RF_FN_SIGMOID: return RANGE_PROBABILITIES;
    case RF_FN_TANH:
    case RF_FN_RELU:
    case RF_FN_LEAKY_RELU:
    case RF_FN_GELU_ERF:
    case RF_FN_GELU_TANH: return RANGE_ANY;
    default: return RANGE_UNKNOWN;
    }
}

static range range_of_activation(uint32_t activation)
{
    if (activation == RF_ACTIVATION_SOFTMAX) return RANGE_SOFTMAX;
    return activation == RF_ACTIVATION_SIGMOID ? RANGE_PROBABILITIES : RANGE_ANY;
}

/* The range of a value as far as the graph proves it. Only layers' last operations are looked at: arithmetic of the
 * caller's own may normalise. */
static range range_of(const rf_graph *g, rf_value v)
{
    for (;;) {
        const rf_value_info *info = &g->values.items[v];
        if (info->kind != RF_VALUE_RESULT) return RANGE_UNKNOWN;
        const rf_node_info *node = &g->nodes.items[info->producer];
        if (node->op == &rf_op_reshape || node->op == &rf_op_reshape_like || node->op == &rf_op_expand_dims ||
            node->op == &rf_op_squeeze || node->op == &rf_op_transpose || node->op == &rf_op_slice ||
            node->op == &rf_op_cast || node->op == &rf_op_stop_gradient) {
            v = node->in[0];
            continue;
        }
        if (node->op == &rf_op_softmax) return RANGE_SOFTMAX;
        if (node->op == &rf_op_bias_add) return RANGE_ANY;
        if (node->op == &rf_op_matmul) return range_of_activation(((const rf_matmul_attr *)node->attr)->activation);
        if (node->op == &rf_op_conv2d) return range_of_activation(((const rf_conv2d_attr *)node->attr)->activation);
        if (node->op != &rf_op_elementwise) return RANGE_UNKNOWN;
        const rf_elementwise_attr *program = node->attr;
        return range_of_fn(program->steps[program->n_steps - 1].fn);
    }
}

/* Classes need at least two columns: of one, the softmax is 1 and the largest is the first, whatever the model says. */
bool rf_check_columns(rf_trace *t, rf_tensor predictions, const char *what)
{
    rf_tensor_desc p;
    if (!rf_operand_desc(t, predictions, "predictions", &p)) return false;
    if (p.shape.rank < 1 || !rf_dim_is_one(t, predictions, -1)) return true;
    char text[96];
    (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                        "%s: predictions %s have one column, with which every prediction is correct; give the model "
                        "one output for each class, 2 for yes and no",
                        what, rf_shape_format(p.shape, text, sizeof(text)));
    return false;
}

bool rf_loss_check_predictions(rf_trace *t, const rf_loss *loss, rf_tensor predictions, const char *function)
{
    rf_value v;
    if (!is_crossentropy(loss)) return true;
    const bool binary = loss->kind == RF_LOSS_BINARY_CROSSENTROPY;
    if (!rf_operand(t, predictions, "predictions", &v)) return false;
    if (!binary && !rf_check_columns(t, predictions, function)) return false;
    const range known = range_of(rf_trace_graph(t), v);
    if (!loss->from_logits && known == RANGE_ANY) {
        (void)rf_trace_fail(
            t, RF_ERROR_INVALID_ARGUMENT,
            "%s: loss.from_logits is false, but the predictions are not probabilities: their layer ends "
            "without softmax or sigmoid; set loss.from_logits, or give the layer RF_ACTIVATION_SOFTMAX",
            function);
        return false;
    }
    if (!loss->from_logits && known == RANGE_UNKNOWN)
        rf_log_message(RF_LOG_WARN,
                       "%s: loss.from_logits is false, and the model does not end with softmax or sigmoid; if its "
                       "outputs are logits, set loss.from_logits",
                       function);
    if (loss->from_logits && known == (binary ? RANGE_PROBABILITIES : RANGE_SOFTMAX))
        rf_log_message(RF_LOG_WARN,
                       "%s: loss.from_logits is set, but the model ends with %s; the loss takes the logits in front of "
                       "it; clear loss.from_logits, or leave out the activation",
                       function, binary ? "sigmoid" : "softmax");
    return true;
}

/* ---- losses ---- */

rf_tensor rf_class_labels(rf_trace *t, rf_tensor labels, rf_tensor predictions)
{
    rf_tensor_desc l, p;
    if (!rf_operand_desc(t, labels, "class labels", &l) || !rf_operand_desc(t, predictions, "predictions", &p)) {
        return RF_NO_TENSOR;
    }
    if (l.dtype != RF_I32) labels = rf_cast(t, labels, RF_I32);
    const bool column = l.shape.rank >= 2 && l.shape.rank == p.shape.rank && rf_dim_is_one(t, labels, -1);
    return column ? rf_squeeze(t, labels, -1) : labels;
}

rf_tensor rf_leave_out_labels(rf_trace *t, int32_t ignored, rf_tensor *labels)
{
    const rf_array number = { RF_I32, RF_SCALAR_SHAPE, &ignored };
    const rf_tensor counts = rf_compare(t, RF_NOT_EQUAL, *labels, rf_constant_array(t, &number));
    const rf_tensor known = rf_where(t, counts, rf_cast(t, *labels, RF_F32), rf_constant(t, 0.0f));
    *labels = rf_cast(t, known, RF_I32);
    return counts;
}

/* Targets [n...] for predictions [n..., 1] get the missing dimension. */
rf_tensor rf_regression_labels(rf_trace *t, rf_tensor labels, rf_tensor predictions)
{
    rf_tensor_desc l, p;
    if (!rf_operand_desc(t, labels, "labels", &l) || !rf_operand_desc(t, predictions, "predictions", &p)) {
        return RF_NO_TENSOR;
    }
    if (l.dtype != RF_F32) labels = rf_cast(t, labels, RF_F32);
    const bool column = p.shape.rank >= 2 && l.shape.rank + 1 == p.shape.rank && rf_dim_is_one(t, predictions, -1);
    return column ? rf_expand_dims(t, labels, -1) : labels;
}

rf_tensor rf_smooth_labels(rf_trace *t, rf_tensor labels, float smoothing, rf_tensor classes)
{
    if (smoothing == 0.0f) return labels;
    const rf_shape shape = rf_tensor_shape(t, classes);
    const int32_t last = shape.rank - 1;
    const rf_tensor kept = rf_multiply(t, labels, rf_constant(t, 1.0f - smoothing));
    const rf_tensor share = last >= 0 && rf_dim_follows(t, classes, last)
                                ? rf_divide(t, rf_constant(t, smoothing), rf_count_along(t, classes, last))
                                : rf_constant(t, smoothing / (last < 0 ? 2.0f : (float)shape.dim[last]));
    return rf_add(t, kept, share);
}

/* Predictions that the graph shows to be probabilities are none, whatever the caller says: the functions of ops.h then
 * go back to the logits. */
static bool takes_logits(rf_trace *t, const rf_loss *loss, rf_tensor predictions)
{
    rf_value v;
    if (!loss->from_logits || !rf_operand(t, predictions, "predictions", &v)) return false;
    const range shown = loss->kind == RF_LOSS_BINARY_CROSSENTROPY ? RANGE_PROBABILITIES : RANGE_SOFTMAX;
    return range_of(rf_trace_graph(t), v) != shown;
}

/* *counts: 0 where the label is ignored, else 1; the invalid tensor where all labels count. */
static rf_tensor sparse_losses(rf_trace *t, const rf_loss *loss, rf_tensor labels, rf_tensor predictions,
                               rf_prediction_form form, rf_tensor *counts)
{
    labels = rf_class_labels(t, labels, predictions);
    if (!loss->ignore_class) return rf_sparse_categorical_crossentropy(t, labels, predictions, form);
    *counts = rf_leave_out_labels(t, *loss->ignore_class, &labels);
    const rf_tensor losses = rf_sparse_categorical_crossentropy(t, labels, predictions, form);
    return rf_where(t, *counts, losses, rf_constant(t, 0.0f));
}

rf_tensor rf_loss_per_example(rf_trace *t, const rf_loss *loss, rf_tensor labels, rf_tensor predictions,
                              rf_tensor *counts)
{
    *counts = RF_NO_TENSOR;
    const rf_prediction_form form = takes_logits(t, loss, predictions) ? RF_LOGITS : RF_PROBABILITIES;
    switch (loss->kind) {
    case RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY: return sparse_losses(t, loss, labels, predictions, form, counts);
    case RF_LOSS_CATEGORICAL_CROSSENTROPY:
        labels = rf_smooth_labels(t, rf_regression_labels(t, labels, predictions), loss->label_smoothing, predictions);
        return rf_categorical_crossentropy(t, labels, predictions, form);
    case RF_LOSS_MEAN_SQUARED_ERROR:
        return rf_mean_squared_error(t, rf_regression_labels(t, labels, predictions), predictions);
    case RF_LOSS_BINARY_CROSSENTROPY:
        labels = rf_smooth_labels(t, rf_regression_labels(t, labels, predictions), loss->label_smoothing, RF_NO_TENSOR);
        return rf_binary_crossentropy(t, labels, predictions, form);
    case RF_LOSS_MEAN_ABSOLUTE_ERROR:
        return rf_mean_absolute_error(t, rf_regression_labels(t, labels, predictions), predictions);
    case RF_LOSS_HUBER: return rf_huber(t, rf_regression_labels(t, labels, predictions), predictions, loss->delta);
    case RF_LOSS_KL_DIVERGENCE: return rf_kl_divergence(t, rf_regression_labels(t, labels, predictions), predictions);
    case RF_LOSS_CTC:
        return rf_ctc_loss(t, rf_cast(t, labels, RF_I32), predictions, form, &(rf_ctc_params){ .zero_infinity = true });
    }
    return RF_NO_TENSOR;
}

rf_tensor rf_loss_call(rf_trace *t, const rf_loss *loss, rf_tensor labels, rf_tensor predictions)
{
    RF_TRACING(t);
    rf_tensor_desc desc;
    rf_tensor counts;
    if (!rf_operand_desc(t, labels, "rf_loss_call: labels", &desc) ||
        !rf_operand_desc(t, predictions, "rf_loss_call: predictions", &desc)) {
        return RF_NO_TENSOR;
    }
    const rf_result r =
        loss ? rf_loss_check(loss, "rf_loss_call") : RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_loss_call: loss is NULL");
    if (r < 0) return rf_trace_emit(t, r, 0);
    if (loss->reduction == RF_REDUCTION_AUTO) {
        (void)rf_trace_fail(
            t, RF_ERROR_INVALID_ARGUMENT,
            "rf_loss_call: loss.reduction AUTO is refused in a custom step, where only you know how losses of "
            "several replicas add up; use RF_REDUCTION_NONE with rf_compute_average_loss(), or "
            "RF_REDUCTION_SUM");
        return RF_NO_TENSOR;
    }
    if (loss->reduction == RF_REDUCTION_SUM_OVER_BATCH_SIZE) {
        (void)rf_trace_fail(
            t, RF_ERROR_INVALID_ARGUMENT,
            "rf_loss_call: loss.reduction SUM_OVER_BATCH_SIZE is refused in a custom step: it would divide by "
            "this replica's share of the batch, but gradients are summed over replicas, so each must divide "
            "by the global batch; use RF_REDUCTION_NONE with rf_compute_average_loss()");
        return RF_NO_TENSOR;
    }
    if (loss->reduction == RF_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT) {
        (void)rf_trace_fail(
            t, RF_ERROR_INVALID_ARGUMENT,
            "rf_loss_call: loss.reduction MEAN_WITH_SAMPLE_WEIGHT is refused in a custom step, which has "
            "the weights; use RF_REDUCTION_NONE with rf_compute_weighted_loss()");
        return RF_NO_TENSOR;
    }
    if (!rf_loss_check_predictions(t, loss, predictions, "rf_loss_call")) return RF_NO_TENSOR;
    const rf_tensor losses = rf_loss_per_example(t, loss, labels, predictions, &counts);
    return loss->reduction == RF_REDUCTION_SUM ? rf_reduce_sum(t, losses, NULL, 0, RF_DROP_DIMS) : losses;
}

rf_tensor rf_align_weight(rf_trace *t, rf_tensor weight, rf_tensor values)
{
    rf_tensor_desc v, w;
    if (!rf_operand_desc(t, values, "weighted values", &v) || !rf_operand_desc(t, weight, "sample_weight", &w)) {
        return RF_NO_TENSOR;
    }
    bool fits = w.shape.rank <= v.shape.rank;
    for (int32_t i = 0; fits && i < w.shape.rank; i++) {
        fits = w.shape.dim[i] == v.shape.dim[i] || (i > 0 && w.shape.dim[i] == 1);
    }
    if (!fits) {
        char a[96], b[96];
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "sample_weight %s does not match values %s",
                            rf_shape_format(w.shape, a, sizeof(a)), rf_shape_format(v.shape, b, sizeof(b)));
        return RF_NO_TENSOR;
    }
    if (w.dtype != RF_F32) weight = rf_cast(t, weight, RF_F32);
    return w.shape.rank == 0 ? weight : rf_append_axes(t, weight, v.shape.rank - w.shape.rank);
}

rf_tensor rf_broadcast_weight(rf_trace *t, rf_tensor weight, rf_tensor values)
{
    rf_graph *g = rf_trace_graph(t);
    rf_value v, w, wide = 0;
    weight = rf_align_weight(t, weight, values);
    if (!rf_operand(t, values, "weighted values", &v) || !rf_operand(t, weight, "sample_weight", &w)) {
        return RF_NO_TENSOR;
    }
    const rf_result r = rf_emit_broadcast_like(g, w, v, &wide);
    return wide == w ? weight : rf_trace_emit(t, r, wide);
}

static rf_tensor weigh_losses(rf_trace *t, rf_tensor losses, rf_tensor weight)
{
    return rf_multiply(t, losses, rf_align_weight(t, weight, losses));
}

rf_tensor rf_compute_average_loss(rf_trace *t, rf_tensor per_example_loss, const rf_average_loss_params *params)
{
    RF_TRACING(t);
    rf_value v;
    if (!rf_operand(t, per_example_loss, "rf_compute_average_loss: per_example_loss", &v)) return RF_NO_TENSOR;
    const rf_result r = RF_PARAMS_CHECK(rf_average_loss_params, params);
    if (r < 0) return rf_trace_emit(t, r, 0);
    const rf_average_loss_params p = params ? *params : (rf_average_loss_params){ 0 };
    if (p.sample_weight.id != 0) per_example_loss = weigh_losses(t, per_example_loss, p.sample_weight);
    const rf_tensor sum = rf_reduce_sum(t, per_example_loss, NULL, 0, RF_DROP_DIMS);
    const rf_tensor batch = p.global_batch_size ? rf_constant(t, (float)p.global_batch_size) : rf_global_batch_size(t);
    return rf_divide(t, sum, batch);
}

/* For steps whose gradients are accumulated. */
static rf_tensor note_weights(rf_trace *t, rf_tensor loss, rf_tensor own, rf_tensor sum, rf_tensor weight,
                              rf_tensor given)
{
    const rf_shape shape = rf_tensor_shape(t, weight);
    rf_value v;
    rf_step_divisor divisor = { .kind = RF_DIVISOR_WEIGHTS, .elements = 1 };
    if (!rf_operand(t, loss, "rf_compute_weighted_loss", &v) ||
        !rf_operand(t, own, "rf_compute_weighted_loss", &divisor.own) ||
        !rf_operand(t, sum, "rf_compute_weighted_loss", &divisor.total) ||
        !rf_operand(t, given, "rf_compute_weighted_loss", &divisor.weights))
        return RF_NO_TENSOR;
    divisor.weights = rf_trace_graph(t)->values.items[divisor.weights].storage;
    for (int32_t i = 1; i < shape.rank; i++) divisor.elements *= (double)shape.dim[i];
    const rf_result r = rf_trace_note_divisor(t, v, &divisor);
    return r < 0 ? rf_trace_emit(t, r, 0) : loss;
}

rf_tensor rf_compute_weighted_loss(rf_trace *t, rf_tensor per_example_loss, rf_tensor sample_weight)
{
    RF_TRACING(t);
    rf_value v;
    if (!rf_operand(t, per_example_loss, "rf_compute_weighted_loss: per_example_loss", &v) ||
        !rf_operand(t, sample_weight, "rf_compute_weighted_loss: sample_weight", &v)) {
        return RF_NO_TENSOR;
    }
    const rf_tensor weight = rf_broadcast_weight(t, sample_weight, per_example_loss);
    const rf_tensor mine = rf_reduce_sum(t, rf_multiply(t, per_example_loss, weight), NULL, 0, RF_DROP_DIMS);
    const rf_tensor own = rf_reduce_sum(t, rf_stop_gradient(t, weight), NULL, 0, RF_DROP_DIMS);
    const rf_tensor sum = rf_all_replica_sum(t, own);
    const rf_tensor zero = rf_constant(t, 0.0f), one = rf_constant(t, 1.0f), empty = rf_compare(t, RF_EQUAL, sum, zero);
    const rf_tensor loss = rf_where(t, empty, zero, rf_divide(t, mine, rf_where(t, empty, one, sum)));
    return note_weights(t, loss, own, sum, weight, sample_weight);
}

rf_tensor rf_scale_regularization_loss(rf_trace *t, rf_tensor loss)
{
    RF_TRACING(t);
    rf_value v;
    if (!rf_operand(t, loss, "rf_scale_regularization_loss: loss", &v)) return RF_NO_TENSOR;
    if (rf_graph_desc(rf_trace_graph(t), v)->shape.rank != 0) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_scale_regularization_loss: loss is not a scalar");
        return RF_NO_TENSOR;
    }
    const rf_value inverse = rf_trace_host(t, RF_HOST_INVERSE_ACTIVE);
    return inverse ? rf_multiply(t, loss, rf_trace_wrap(t, inverse)) : RF_NO_TENSOR;
}

rf_tensor rf_loss_average(rf_trace *t, rf_tensor losses, rf_tensor sample_weight, rf_tensor *measured)
{
    rf_tensor_desc desc;
    *measured = RF_NO_TENSOR;
    if (sample_weight.id != 0) losses = weigh_losses(t, losses, sample_weight);
    if (!rf_operand_desc(t, losses, "losses", &desc)) return RF_NO_TENSOR;
    int32_t axes[RF_MAX_RANK];
    for (int32_t i = 1; i < desc.shape.rank; i++) axes[i - 1] = i;
    if (desc.shape.rank > 1) losses = rf_reduce_mean(t, losses, axes, (uint32_t)desc.shape.rank - 1, RF_DROP_DIMS);
    *measured = losses;
    return rf_compute_average_loss(t, losses, NULL);
}

/* The losses of ignored labels are no part of a mean, whose divisor is the number of the others, or their weights. */
static rf_tensor mean_of_counted(rf_trace *t, const rf_loss *loss, rf_tensor losses, rf_tensor counts,
                                 rf_tensor sample_weight, rf_tensor *measured)
{
    if (sample_weight.id != 0 && loss->reduction == RF_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT)
        counts = weigh_losses(t, counts, sample_weight);
    else if (sample_weight.id != 0)
        losses = weigh_losses(t, losses, sample_weight);
    const rf_tensor total = rf_compute_weighted_loss(t, losses, counts);
    *measured = rf_multiply(t, total, rf_global_batch_size(t));
    return total;
}

rf_tensor rf_loss_total(rf_trace *t, const rf_loss *loss, rf_tensor labels, rf_tensor predictions,
                        rf_tensor sample_weight, rf_tensor *measured)
{
    *measured = RF_NO_TENSOR;
    if (!rf_loss_check_predictions(t, loss, predictions, "rf_model_compile")) return RF_NO_TENSOR;
    rf_tensor counts, losses = rf_loss_per_example(t, loss, labels, predictions, &counts);
    if (counts.id != 0 && loss->reduction != RF_REDUCTION_SUM)
        return mean_of_counted(t, loss, losses, counts, sample_weight, measured);
    const bool by_weight = loss->reduction == RF_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT && sample_weight.id != 0;
    if (loss->reduction != RF_REDUCTION_SUM && !by_weight) return rf_loss_average(t, losses, sample_weight, measured);
    if (sample_weight.id != 0 && !by_weight) losses = weigh_losses(t, losses, sample_weight);
    const rf_tensor total = by_weight ? rf_compute_weighted_loss(t, losses, sample_weight)
                                      : rf_reduce_sum(t, losses, NULL, 0, RF_DROP_DIMS);
    *measured = rf_multiply(t, total, rf_global_batch_size(t));
    return total;
}
