/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of a step that add to a metric's totals. */
#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "trace/trace.h"
#include "train/metrics/curve.h"
#include "train/metrics/loss.h"
#include "train/metrics/metric_object.h"

/* 1 where the label's class is the one with the largest prediction, else 0. */
static rf_tensor count_hits(rf_trace *t, rf_tensor labels, rf_tensor predictions)
{
    rf_value l, p, out = 0;
    if (!rf_operand(t, labels, "rf_metric_update: labels", &l)) return RF_NO_TENSOR;
    if (!rf_operand(t, predictions, "rf_metric_update: predictions", &p)) return RF_NO_TENSOR;
    const rf_result r = rf_emit_accuracy(rf_trace_graph(t), l, p, &out);
    return rf_trace_emit(t, r, out);
}

/* One-hot labels may be whole numbers; classes, which have an axis less, must be. */
static rf_tensor rows_in_f32(rf_trace *t, rf_tensor labels, rf_tensor predictions)
{
    rf_tensor_desc l, p;
    if (!rf_operand_desc(t, labels, "rf_metric_update: labels", &l) ||
        !rf_operand_desc(t, predictions, "rf_metric_update: predictions", &p))
        return RF_NO_TENSOR;
    return l.shape.rank == p.shape.rank && l.dtype != RF_F32 ? rf_cast(t, labels, RF_F32) : labels;
}

/* The prediction for each label: labels [...] and predictions [..., c] give [..., 1]. */
static rf_tensor own_scores(rf_trace *t, rf_tensor labels, rf_tensor predictions)
{
    rf_value p, l, own = 0;
    const rf_tensor column = rf_expand_dims(t, labels, -1);
    if (!rf_operand(t, predictions, "rf_metric_update: predictions", &p) ||
        !rf_operand(t, column, "rf_metric_update: labels", &l))
        return RF_NO_TENSOR;
    const int32_t last = rf_graph_desc(rf_trace_graph(t), p)->shape.rank - 1;
    const rf_result r = rf_emit_gather(rf_trace_graph(t), p, l, last, last, &own);
    return rf_trace_emit(t, r, own);
}

/* 1 where fewer than k classes have a larger prediction than the label's. A label that does not exist gathers NaN,
 * which does not equal itself: it is never among them. */
static rf_tensor hits_of_k(rf_trace *t, rf_tensor labels, rf_tensor predictions, uint32_t k)
{
    static const int32_t last = -1;
    const rf_tensor own = own_scores(t, labels, predictions);
    const rf_tensor larger = rf_compare(t, RF_GREATER, predictions, own), known = rf_compare(t, RF_EQUAL, own, own);
    const rf_tensor rank = rf_reduce_sum(t, larger, &last, 1, RF_KEEP_DIMS);
    const rf_tensor among = rf_multiply(t, rf_compare(t, RF_LESS, rank, rf_constant(t, (float)k)), known);
    return rf_squeeze(t, among, -1);
}

/* Rows of candidates, of which the label names the true one; one that does not exist, or whose score is NaN, is never
 * among the first k. */
static rf_tensor rank_gain(rf_trace *t, const rf_metric *metric, rf_tensor labels, rf_tensor predictions)
{
    static const int32_t last = -1;
    const rf_tensor own = own_scores(t, labels, predictions);
    const rf_tensor before =
        rf_reduce_sum(t, rf_compare(t, RF_GREATER_EQUAL, predictions, own), &last, 1, RF_KEEP_DIMS);
    const rf_tensor rank = rf_maximum(t, before, rf_constant(t, 1.0f)), known = rf_compare(t, RF_EQUAL, own, own);
    rf_tensor gain = rf_multiply(t, rf_compare(t, RF_LESS_EQUAL, rank, rf_constant(t, (float)metric->k)), known);
    if (metric->kind == RF_METRIC_NDCG) {
        const rf_tensor discount = rf_log(t, rf_add(t, rank, rf_constant(t, 1.0f)));
        gain = rf_divide(t, rf_multiply(t, gain, rf_constant(t, logf(2.0f))), discount);
    }
    return rf_squeeze(t, gain, -1);
}

static rf_tensor classes_hit(rf_trace *t, const rf_metric *metric, rf_tensor labels, rf_tensor predictions)
{
    if (!rf_check_columns(t, predictions, "rf_metric_update")) return RF_NO_TENSOR;
    switch (metric->kind) {
    case RF_METRIC_SPARSE_CATEGORICAL_ACCURACY:
        return count_hits(t, rf_class_labels(t, labels, predictions), predictions);
    case RF_METRIC_SPARSE_TOP_K_CATEGORICAL_ACCURACY:
        return hits_of_k(t, rf_class_labels(t, labels, predictions), predictions, metric->k);
    case RF_METRIC_PERPLEXITY:
        return rf_sparse_categorical_crossentropy(t, rf_class_labels(t, labels, predictions), predictions,
                                                  metric->from_logits ? RF_LOGITS : RF_PROBABILITIES);
    case RF_METRIC_HIT_RATE:
    case RF_METRIC_NDCG: return rank_gain(t, metric, rf_class_labels(t, labels, predictions), predictions);
    case RF_METRIC_TOP_K_CATEGORICAL_ACCURACY:
        return hits_of_k(t, rf_argmax(t, rf_regression_labels(t, labels, predictions)), predictions, metric->k);
    default: return count_hits(t, rows_in_f32(t, labels, predictions), predictions);
    }
}

/* Labels in f32, of the predictions' shape. */
static rf_tensor labels_of_elements(rf_trace *t, const rf_metric *metric, rf_tensor labels, rf_tensor predictions)
{
    rf_tensor_desc l, p;
    char a[96], b[96];
    labels = rf_regression_labels(t, labels, predictions);
    if (!rf_operand_desc(t, labels, "rf_metric_update: labels", &l)) return RF_NO_TENSOR;
    if (!rf_operand_desc(t, predictions, "rf_metric_update: predictions", &p)) return RF_NO_TENSOR;
    if (rf_shape_equal(l.shape, p.shape)) return labels;
    (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                        "rf_metric_update: labels %s and predictions %s of metric '%s' must have one shape",
                        rf_shape_format(l.shape, a, sizeof(a)), rf_shape_format(p.shape, b, sizeof(b)), metric->name);
    return RF_NO_TENSOR;
}

/* Precision is the mean of labels weighted by what is predicted, recall that of what is predicted weighted by labels,
 * F1 that of where both are 1 weighted by their sum: twice the hits are divided by all labels and all predictions. */
static rf_tensor elements_hit(rf_trace *t, const rf_metric *metric, rf_tensor labels, rf_tensor predictions,
                              rf_tensor *weight)
{
    labels = labels_of_elements(t, metric, labels, predictions);
    const rf_tensor positive = rf_compare(t, RF_GREATER, predictions, rf_constant(t, metric->threshold));
    if (metric->kind == RF_METRIC_BINARY_ACCURACY) return rf_compare(t, RF_EQUAL, labels, positive);
    rf_tensor among = labels, hit = positive;
    if (metric->kind == RF_METRIC_PRECISION) {
        among = positive;
        hit = labels;
    } else if (metric->kind == RF_METRIC_F1) {
        among = rf_add(t, labels, positive);
        hit = rf_multiply(t, labels, positive);
    }
    *weight = weight->id ? rf_multiply(t, among, rf_align_weight(t, *weight, among)) : among;
    return hit;
}

/* The values that are accumulated: 1 or 0 for accuracies, errors of examples, else the value itself. Metrics that are
 * of some elements only put these into the weight. */
static rf_tensor measured_values(rf_trace *t, const rf_metric *metric, rf_tensor labels, rf_tensor predictions,
                                 rf_tensor *weight)
{
    rf_tensor_desc desc;
    switch (metric->kind) {
    case RF_METRIC_BINARY_ACCURACY:
    case RF_METRIC_PRECISION:
    case RF_METRIC_RECALL:
    case RF_METRIC_F1: return elements_hit(t, metric, labels, predictions, weight);
    case RF_METRIC_MEAN_SQUARED_ERROR:
        return rf_mean_squared_error(t, rf_regression_labels(t, labels, predictions), predictions);
    case RF_METRIC_MEAN_ABSOLUTE_ERROR:
        return rf_mean_absolute_error(t, rf_regression_labels(t, labels, predictions), predictions);
    case RF_METRIC_MEAN:
    case RF_METRIC_SUM: break;
    default: return classes_hit(t, metric, labels, predictions);
    }
    if (!rf_operand_desc(t, predictions, "rf_metric_update: predictions", &desc)) return RF_NO_TENSOR;
    return desc.dtype == RF_F32 ? predictions : rf_cast(t, predictions, RF_F32);
}

/* state += sum of x, weighted, where there are weights; both in the shape that the state's columns need. */
static rf_result metric_accumulate(rf_trace *t, rf_metric *metric, rf_tensor x, rf_tensor weight)
{
    rf_value in[3];
    uint32_t n = 1;
    if (!rf_operand(t, x, "rf_metric_update: predictions", &in[n++])) return rf_trace_status(t);
    if (weight.id != 0 && !rf_operand(t, weight, "rf_metric_update: sample_weight", &in[n++]))
        return rf_trace_status(t);
    in[0] = rf_trace_local_state(t, metric->state);
    if (in[0] == 0) return rf_trace_status(t);
    const rf_result r = rf_emit_update(rf_trace_graph(t), &rf_op_metric_accumulate, NULL, in, n);
    if (r < 0) (void)rf_trace_emit(t, r, 0);
    return r;
}

/* A column for each threshold: what is predicted to be 1 is the weight, what of it is 1 the total. */
static rf_result accumulate_curve(rf_trace *t, rf_metric *metric, rf_tensor labels, rf_tensor predictions,
                                  rf_tensor weight)
{
    const rf_shape column = RF_SHAPE(-1, 1);
    float *thresholds = RF_NEW_ARRAY(float, metric->columns);
    if (!thresholds) return rf_trace_fail(t, RF_ERROR_OUT_OF_HOST_MEMORY, "rf_metric_update: thresholds");
    rf_curve_thresholds(thresholds, metric->columns);
    const rf_array array = { RF_F32, RF_SHAPE(1, (int32_t)metric->columns), thresholds };
    const rf_tensor limits = rf_constant_array(t, &array);
    rf_free(thresholds);
    labels = labels_of_elements(t, metric, labels, predictions);
    const rf_tensor p = metric->from_logits ? rf_sigmoid(t, predictions) : predictions;
    rf_tensor positive = rf_compare(t, RF_GREATER, rf_reshape(t, p, column), limits);
    const rf_tensor hit = rf_multiply(t, positive, rf_reshape(t, labels, column));
    if (weight.id != 0)
        positive = rf_multiply(t, positive, rf_reshape(t, rf_broadcast_weight(t, weight, predictions), column));
    RF_TRY(rf_trace_status(t));
    return metric_accumulate(t, metric, hit, positive);
}

/* False, with the trace failed, where the last axis is not that of the metric's classes. */
static bool check_class_columns(rf_trace *t, const rf_metric *metric, rf_tensor predictions)
{
    rf_tensor_desc p;
    char text[96];
    if (!rf_operand_desc(t, predictions, "rf_metric_update: predictions", &p)) return false;
    if (p.shape.rank >= 2 && p.shape.dim[p.shape.rank - 1] == (int64_t)metric->num_classes &&
        !rf_dim_follows(t, predictions, -1))
        return true;
    (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                        "rf_metric_update: predictions %s of metric '%s' are not of its %u classes",
                        rf_shape_format(p.shape, text, sizeof(text)), metric->name, metric->num_classes);
    return false;
}

/* One-hot labels in f32, of the predictions' shape. */
static rf_tensor labels_of_classes(rf_trace *t, const rf_metric *metric, rf_tensor labels, rf_tensor predictions)
{
    rf_tensor_desc l, p;
    if (!rf_operand_desc(t, labels, "rf_metric_update: labels", &l) || !check_class_columns(t, metric, predictions) ||
        !rf_operand_desc(t, predictions, "rf_metric_update: predictions", &p))
        return RF_NO_TENSOR;
    const bool one_hot = l.shape.rank == p.shape.rank && l.shape.dim[l.shape.rank - 1] == p.shape.dim[p.shape.rank - 1];
    if (metric->num_classes == 1 || one_hot) return labels_of_elements(t, metric, labels, predictions);
    return rf_one_hot(t, rf_class_labels(t, labels, predictions), (int32_t)metric->num_classes);
}

/* 1 for what is predicted, in rows of classes. Keras leaves out a largest probability of 0. */
static rf_tensor predicted_classes(rf_trace *t, const rf_metric *metric, rf_tensor rows)
{
    static const int32_t last = -1;
    if (!metric->largest) return rf_compare(t, RF_GREATER, rows, rf_constant(t, metric->threshold));
    const rf_tensor first = rf_compare(t, RF_GREATER_EQUAL, rows, rf_reduce_max(t, rows, &last, 1, RF_KEEP_DIMS));
    if (metric->from_logits) return first;
    return rf_multiply(t, first, rf_compare(t, RF_GREATER, rf_abs(t, rows), rf_constant(t, 1e-9f)));
}

/* A column of each class for labels among predictions, and one for predictions among labels. */
static rf_result accumulate_classes(rf_trace *t, rf_metric *metric, rf_tensor labels, rf_tensor predictions,
                                    rf_tensor weight)
{
    const rf_shape rows = RF_SHAPE(-1, (int64_t)metric->num_classes);
    labels = labels_of_classes(t, metric, labels, predictions);
    if (rf_trace_status(t) < 0) return rf_trace_status(t);
    const rf_tensor y = rf_reshape(t, labels, rows);
    const rf_tensor positive = predicted_classes(t, metric, rf_reshape(t, predictions, rows));
    const rf_tensor sides[2] = { y, positive };
    rf_tensor among[2] = { positive, y };
    if (weight.id != 0) {
        const rf_tensor w = rf_reshape(t, rf_broadcast_weight(t, weight, predictions), rows);
        for (int i = 0; i < 2; i++) among[i] = rf_multiply(t, among[i], w);
    }
    const rf_tensor x = rf_concat(t, sides, 2, 1), parts = rf_concat(t, among, 2, 1);
    RF_TRY(rf_trace_status(t));
    return metric_accumulate(t, metric, x, parts);
}

/* Rows of classes times columns of classes, summed over the examples: one value for each place of the matrix. Labels
 * that name no class have no row. */
static rf_result accumulate_matrix(rf_trace *t, rf_metric *metric, rf_tensor labels, rf_tensor predictions,
                                   rf_tensor weight)
{
    const int32_t classes = (int32_t)metric->num_classes;
    const rf_shape rows = RF_SHAPE(-1, classes), column = RF_SHAPE(-1, 1);
    if (!check_class_columns(t, metric, predictions)) return rf_trace_status(t);
    labels = rf_class_labels(t, labels, predictions);
    rf_tensor is = rf_reshape(t, rf_one_hot(t, labels, classes), rows);
    const rf_tensor taken_for = rf_reshape(t, rf_one_hot(t, rf_argmax(t, predictions), classes), rows);
    if (weight.id != 0) {
        const rf_tensor each = rf_cast(t, labels, RF_F32);
        is = rf_multiply(t, is, rf_reshape(t, rf_broadcast_weight(t, weight, each), column));
    }
    const rf_tensor matrix = rf_matmul(t, is, taken_for, RF_TRANSPOSE_A);
    const rf_tensor places = rf_reshape(t, matrix, RF_SHAPE(1, (int64_t)metric->columns));
    RF_TRY(rf_trace_status(t));
    return metric_accumulate(t, metric, places, RF_NO_TENSOR);
}

/* Labels that do not count have the weight 0, and name a class that there is. */
static void leave_out(rf_trace *t, const rf_metric *metric, rf_tensor *labels, rf_tensor predictions, rf_tensor *weight)
{
    *labels = rf_class_labels(t, *labels, predictions);
    const rf_tensor counts = rf_leave_out_labels(t, metric->ignored, labels);
    *weight = weight->id ? rf_multiply(t, counts, rf_align_weight(t, *weight, counts)) : counts;
}

static rf_result metric_update(rf_trace *t, rf_metric *metric, rf_tensor labels, rf_tensor predictions,
                               rf_tensor sample_weight)
{
    if (metric->ignores) leave_out(t, metric, &labels, predictions, &sample_weight);
    RF_TRY(rf_trace_status(t));
    if (metric->kind == RF_METRIC_CONFUSION_MATRIX)
        return accumulate_matrix(t, metric, labels, predictions, sample_weight);
    if (metric->num_classes != 0) return accumulate_classes(t, metric, labels, predictions, sample_weight);
    if (rf_metric_is_curve(metric)) return accumulate_curve(t, metric, labels, predictions, sample_weight);
    const rf_tensor x = measured_values(t, metric, labels, predictions, &sample_weight);
    RF_TRY(rf_trace_status(t));
    if (sample_weight.id != 0) sample_weight = rf_reshape(t, rf_broadcast_weight(t, sample_weight, x), RF_SHAPE(-1));
    return metric_accumulate(t, metric, rf_reshape(t, x, RF_SHAPE(-1)), sample_weight);
}

rf_result rf_metric_update(rf_trace *t, rf_metric *metric, rf_tensor labels, rf_tensor predictions,
                           rf_tensor sample_weight)
{
    RF_TRACING(t);
    RF_REQUIRE(t, "rf_metric_update: the trace is NULL");
    RF_TRY(rf_trace_status(t));
    if (!metric) return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_metric_update: metric is NULL");
    if (metric->strategy != rf_trace_strategy(t)) {
        return rf_trace_fail(
            t, RF_ERROR_INVALID_ARGUMENT,
            "rf_metric_update: metric '%s' was created on another strategy than the function being traced",
            metric->name);
    }
    if (!rf_metric_compares(metric->kind) && labels.id != 0) {
        return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                             "rf_metric_update: metric '%s' takes only a value; pass the invalid tensor as labels",
                             metric->name);
    }
    (void)metric_update(t, metric, labels, predictions, sample_weight);
    return rf_trace_status(t);
}
