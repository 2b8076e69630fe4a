/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics: running totals on the devices, summed over replicas when they are read. */
#include "train/metrics/metric.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/params.h"
#include "ops/ops.h"
#include "trace/trace.h"
#include "train/metrics/curve.h"
#include "train/metrics/logs.h"
#include "train/metrics/loss.h"
#include "train/metrics/scores.h"

/* Each column has sums, and what these could not hold. */
enum { STATE_TOTAL, STATE_COMPENSATION, STATE_WEIGHT, STATE_WEIGHT_COMPENSATION, STATE_COUNT };

struct rf_metric {
    uint32_t references; /* its maker's, and one of each checkpoint that has it */
    bool destroyed;      /* by its maker */
    rf_strategy *strategy;
    rf_metric_kind kind;
    float threshold; /* of predictions as they come: a logit where these are logits */
    bool from_logits;
    rf_metric_average average;
    bool largest; /* with an average of classes: the largest is predicted */
    uint32_t k, num_classes;
    uint32_t columns; /* one for each threshold of a curve, two for each class that is counted, else 1 */
    char *name;
    rf_local_state *state;
};

const char *const rf_metric_kind_names[RF_METRIC_KINDS] = {
    [RF_METRIC_MEAN] = "mean",
    [RF_METRIC_SUM] = "sum",
    [RF_METRIC_SPARSE_CATEGORICAL_ACCURACY] = "sparse_categorical_accuracy",
    [RF_METRIC_CATEGORICAL_ACCURACY] = "categorical_accuracy",
    [RF_METRIC_BINARY_ACCURACY] = "binary_accuracy",
    [RF_METRIC_PRECISION] = "precision",
    [RF_METRIC_RECALL] = "recall",
    [RF_METRIC_SPARSE_TOP_K_CATEGORICAL_ACCURACY] = "sparse_top_k_categorical_accuracy",
    [RF_METRIC_TOP_K_CATEGORICAL_ACCURACY] = "top_k_categorical_accuracy",
    [RF_METRIC_MEAN_SQUARED_ERROR] = "mean_squared_error",
    [RF_METRIC_MEAN_ABSOLUTE_ERROR] = "mean_absolute_error",
    [RF_METRIC_F1] = "f1_score",
    [RF_METRIC_AUC_ROC] = "auc",
    [RF_METRIC_AUC_PR] = "auc_pr",
    [RF_METRIC_PERPLEXITY] = "perplexity",
    [RF_METRIC_HIT_RATE] = "hit_rate",
    [RF_METRIC_NDCG] = "ndcg",
};

const char *rf_metric_kind_name(rf_metric_kind kind)
{
    return (uint32_t)kind < RF_METRIC_KINDS ? rf_metric_kind_names[kind] : NULL;
}

bool rf_metric_compares(rf_metric_kind kind)
{
    return rf_metric_kind_name(kind) && kind != RF_METRIC_MEAN && kind != RF_METRIC_SUM;
}

bool rf_metric_is_accuracy(rf_metric_kind kind)
{
    return kind == RF_METRIC_SPARSE_CATEGORICAL_ACCURACY || kind == RF_METRIC_CATEGORICAL_ACCURACY ||
           kind == RF_METRIC_BINARY_ACCURACY;
}

static bool has_threshold(rf_metric_kind kind)
{
    return kind == RF_METRIC_BINARY_ACCURACY || kind == RF_METRIC_PRECISION || kind == RF_METRIC_RECALL ||
           kind == RF_METRIC_F1;
}

static bool is_curve(rf_metric_kind kind)
{
    return kind == RF_METRIC_AUC_ROC || kind == RF_METRIC_AUC_PR;
}

/* Probabilities are more to it than an order: it has a `from_logits`. */
static bool reads_probabilities(rf_metric_kind kind)
{
    return has_threshold(kind) || is_curve(kind) || kind == RF_METRIC_PERPLEXITY;
}

rf_reads_logits rf_metric_reads_logits(const rf_metric_params *p, const rf_loss *loss)
{
    const bool largest = p->kind == RF_METRIC_SPARSE_CATEGORICAL_ACCURACY || p->kind == RF_METRIC_CATEGORICAL_ACCURACY;
    if (!loss) return RF_READS_PREDICTIONS;
    if (largest) return RF_READS_ORDER;
    if (!loss->from_logits || p->from_logits || !reads_probabilities(p->kind)) return RF_READS_PREDICTIONS;
    const bool classes = loss->kind != RF_LOSS_BINARY_CROSSENTROPY;
    return classes ? RF_READS_SOFTMAX : RF_READS_LOGITS;
}

static bool is_ranking(rf_metric_kind kind)
{
    return kind == RF_METRIC_HIT_RATE || kind == RF_METRIC_NDCG;
}

static bool is_top_k(rf_metric_kind kind)
{
    return kind == RF_METRIC_SPARSE_TOP_K_CATEGORICAL_ACCURACY || kind == RF_METRIC_TOP_K_CATEGORICAL_ACCURACY;
}

static rf_result check_params(const rf_metric_params *p, const char *function)
{
    RF_REQUIRE(rf_metric_kind_name(p->kind), "%s: kind %d does not exist", function, (int)p->kind);
    RF_REQUIRE(p->threshold >= 0.0f && p->threshold < 1.0f, "%s: threshold %g is not in [0, 1)", function,
               (double)p->threshold);
    const bool scored = p->kind == RF_METRIC_PRECISION || p->kind == RF_METRIC_RECALL || p->kind == RF_METRIC_F1;
    RF_REQUIRE((uint32_t)p->average <= RF_METRIC_AVERAGE_WEIGHTED, "%s: average %d does not exist", function,
               (int)p->average);
    RF_REQUIRE(p->average == RF_METRIC_AVERAGE_ELEMENTS || scored, "%s: average is for precision, recall and F1",
               function);
    RF_REQUIRE((p->average != RF_METRIC_AVERAGE_ELEMENTS) == (p->num_classes != 0) && p->num_classes <= 10000,
               "%s: num_classes %u is not in 1 .. 10000, for an average of classes, or 0, without one", function,
               p->num_classes);
    RF_REQUIRE(p->threshold == 0.0f || has_threshold(p->kind),
               "%s: threshold is for binary accuracy, precision, recall and F1", function);
    RF_REQUIRE(!p->from_logits || reads_probabilities(p->kind),
               "%s: from_logits is for metrics of probabilities, not for %s", function, rf_metric_kind_name(p->kind));
    RF_REQUIRE(p->k == 0 || is_top_k(p->kind) || is_ranking(p->kind), "%s: k is for top-k accuracies and rankings",
               function);
    RF_REQUIRE(p->num_thresholds == 0 || is_curve(p->kind), "%s: num_thresholds is for areas under curves", function);
    RF_REQUIRE(p->num_thresholds == 0 || (p->num_thresholds >= 3 && p->num_thresholds <= 10000),
               "%s: num_thresholds %llu is not in 3 .. 10000", function, (unsigned long long)p->num_thresholds);
    return RF_OK;
}

static rf_result metric_create(rf_strategy *strategy, const rf_metric_params *p, rf_metric **out)
{
    rf_metric *metric = RF_NEW(rf_metric);
    if (!metric) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const float threshold = (float)rf_setting((double)p->threshold, 0.5);
    metric->references = 1;
    metric->strategy = strategy;
    metric->kind = p->kind;
    metric->threshold = p->from_logits ? logf(threshold / (1.0f - threshold)) : threshold;
    metric->from_logits = p->from_logits;
    metric->k = p->k != 0 ? p->k : is_ranking(p->kind) ? 10 : 5;
    metric->average = p->average;
    metric->largest = p->threshold == 0.0f;
    metric->num_classes = p->num_classes;
    metric->columns = p->num_classes != 0      ? 2 * p->num_classes
                      : !is_curve(p->kind)     ? 1
                      : p->num_thresholds == 0 ? 200
                                               : (uint32_t)p->num_thresholds;
    metric->name = rf_strdup(p->name ? p->name : rf_metric_kind_name(p->kind));
    const rf_result r =
        metric->name ? rf_local_state_create(strategy, metric->columns * STATE_COUNT, metric->name, &metric->state)
                     : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r < 0) {
        rf_metric_destroy(&metric);
        return r;
    }
    *out = metric;
    return RF_OK;
}

rf_result rf_metric_create(rf_strategy *strategy, const rf_metric_params *params, rf_metric **out)
{
    RF_REQUIRE(out, "rf_metric_create: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_metric_params, params));
    RF_REQUIRE(params, "rf_metric_create: params is NULL");
    RF_REQUIRE(strategy, "rf_metric_create: strategy is NULL");
    RF_TRY(check_params(params, "rf_metric_create"));
    return metric_create(strategy, params, out);
}

rf_metric *rf_metric_retain(rf_metric *metric)
{
    metric->references++;
    return metric;
}

void rf_metric_release(rf_metric *metric)
{
    if (--metric->references > 0) return;
    rf_local_state_destroy(&metric->state);
    rf_free(metric->name);
    rf_free(metric);
}

/* Checkpoints that have it notice. A second time, through a copy of the handle, changes nothing while they do. */
void rf_metric_destroy(rf_metric **metric)
{
    if (!metric || !*metric) return;
    rf_metric *m = *metric;
    *metric = NULL;
    if (m->destroyed) return;
    m->destroyed = true;
    rf_metric_release(m);
}

rf_result rf_metric_check_alive(const rf_metric *metric, const char *function)
{
    RF_REQUIRE(!metric->destroyed,
               "%s: the metric '%s' has been destroyed; destroy it after the checkpoints that it was added to",
               function, metric->name);
    return RF_OK;
}

rf_metric_kind rf_metric_kind_of(const rf_metric *metric)
{
    return metric->kind;
}

const char *rf_metric_name(const rf_metric *metric)
{
    return metric ? metric->name : "";
}

rf_result rf_metric_reset(rf_metric *metric)
{
    RF_REQUIRE(metric, "rf_metric_reset: metric is NULL");
    return rf_local_state_reset(metric->state);
}

/* Sums of one column over replicas, whose states have `count` numbers each. */
static void add_up(const float *states, uint32_t count, uint32_t num_replicas, uint32_t column, double *total,
                   double *weight)
{
    *total = *weight = 0.0;
    for (uint32_t i = 0; i < num_replicas; i++) {
        const float *state = states + (size_t)i * count + (size_t)column * STATE_COUNT;
        *total += (double)state[STATE_TOTAL] + (double)state[STATE_COMPENSATION];
        *weight += (double)state[STATE_WEIGHT] + (double)state[STATE_WEIGHT_COMPENSATION];
    }
}

static rf_result combine_curve(const rf_metric *metric, const float *states, uint32_t num_replicas, double *out)
{
    rf_curve_point *points = RF_NEW_ARRAY(rf_curve_point, metric->columns);
    if (!points) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t c = 0; c < metric->columns; c++)
        add_up(states, metric->columns * STATE_COUNT, num_replicas, c, &points[c].hits, &points[c].positives);
    *out = metric->kind == RF_METRIC_AUC_ROC ? rf_curve_area_roc(points, metric->columns)
                                             : rf_curve_area_pr(points, metric->columns);
    rf_free(points);
    return RF_OK;
}

/* Columns of hits among what is predicted to be of each class, then among what is. */
static rf_result combine_classes(const rf_metric *metric, const float *states, uint32_t num_replicas, bool all,
                                 double *out)
{
    const uint32_t n = metric->num_classes, count = metric->columns * STATE_COUNT;
    rf_class_counts *counts = RF_NEW_ARRAY(rf_class_counts, n);
    if (!counts) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t c = 0; c < n; c++) {
        add_up(states, count, num_replicas, c, &counts[c].hits, &counts[c].predicted);
        add_up(states, count, num_replicas, n + c, &counts[c].hits, &counts[c].labelled);
        if (all) out[c] = rf_class_score(metric->kind, &counts[c]);
    }
    if (!all) *out = rf_class_scores_average(metric->kind, metric->average, counts, n);
    rf_free(counts);
    return RF_OK;
}

/* The value of a metric, or all of them, from its state on some replicas. */
static rf_result combine_states(const rf_metric *metric, const float *states, uint32_t num_replicas, bool all,
                                double *out)
{
    double total, weight;
    if (metric->num_classes != 0) return combine_classes(metric, states, num_replicas, all, out);
    if (is_curve(metric->kind)) return combine_curve(metric, states, num_replicas, out);
    add_up(states, STATE_COUNT, num_replicas, 0, &total, &weight);
    const double mean = weight != 0.0 ? total / weight : 0.0;
    *out = metric->kind == RF_METRIC_SUM ? total : mean;
    if (metric->kind == RF_METRIC_PERPLEXITY && weight != 0.0) *out = exp(mean);
    return RF_OK;
}

struct rf_local_state *rf_metric_state(rf_metric *metric)
{
    return metric->state;
}

rf_strategy *rf_metric_strategy(const rf_metric *metric)
{
    return metric->strategy;
}

static void store_sum(float *state, double sum)
{
    state[0] = (float)sum;
    state[1] = isfinite(state[0]) ? (float)(sum - (double)state[0]) : 0.0f;
}

void rf_metric_spread(const float *saved, uint32_t num_saved, float *states, uint32_t num_replicas, uint32_t count)
{
    memset(states, 0, (size_t)num_replicas * count * sizeof(float));
    if (num_saved == num_replicas) {
        memcpy(states, saved, (size_t)num_saved * count * sizeof(float));
        return;
    }
    for (uint32_t c = 0; c < count / STATE_COUNT; c++) {
        double total, weight;
        add_up(saved, count, num_saved, c, &total, &weight);
        store_sum(&states[c * STATE_COUNT + STATE_TOTAL], total);
        store_sum(&states[c * STATE_COUNT + STATE_WEIGHT], weight);
    }
}

static rf_result read_metric(rf_metric *metric, uint32_t num_replicas, rf_result (*read)(rf_local_state *, float *),
                             bool all, double *out)
{
    float *values = RF_NEW_ARRAY(float, (size_t)num_replicas * metric->columns * STATE_COUNT);
    if (!values) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = read(metric->state, values);
    if (r >= 0) r = combine_states(metric, values, num_replicas, all, out);
    rf_free(values);
    return r;
}

rf_result rf_metric_result(rf_metric *metric, double *out)
{
    RF_REQUIRE(out, "rf_metric_result: out is NULL");
    *out = 0.0;
    RF_REQUIRE(metric, "rf_metric_result: metric is NULL");
    return read_metric(metric, rf_strategy_num_replicas_in_sync(metric->strategy), rf_local_state_read, false, out);
}

rf_result rf_metric_results(rf_metric *metric, double *out, uint32_t capacity, uint32_t *count)
{
    if (count) *count = 0;
    RF_REQUIRE(metric, "rf_metric_results: metric is NULL");
    const uint32_t needed = metric->average == RF_METRIC_AVERAGE_NONE ? metric->num_classes : 1;
    if (count) *count = needed;
    RF_REQUIRE(out, "rf_metric_results: out is NULL");
    RF_REQUIRE(capacity >= needed, "rf_metric_results: metric '%s' has %u values, and there is room for %u",
               metric->name, needed, capacity);
    return read_metric(metric, rf_strategy_num_replicas_in_sync(metric->strategy), rf_local_state_read,
                       metric->average == RF_METRIC_AVERAGE_NONE, out);
}

rf_result rf_metric_local_result(rf_metric *metric, double *out)
{
    RF_REQUIRE(out, "rf_metric_local_result: out is NULL");
    *out = 0.0;
    RF_REQUIRE(metric, "rf_metric_local_result: metric is NULL");
    return read_metric(metric, rf_strategy_num_local_replicas(metric->strategy), rf_local_state_read_local, false, out);
}

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

/* One-hot labels in f32, of the predictions' shape. */
static rf_tensor labels_of_classes(rf_trace *t, const rf_metric *metric, rf_tensor labels, rf_tensor predictions)
{
    rf_tensor_desc l, p;
    char text[96];
    if (!rf_operand_desc(t, labels, "rf_metric_update: labels", &l) ||
        !rf_operand_desc(t, predictions, "rf_metric_update: predictions", &p))
        return RF_NO_TENSOR;
    if (p.shape.rank < 2 || p.shape.dim[p.shape.rank - 1] != (int64_t)metric->num_classes ||
        rf_dim_follows(t, predictions, -1)) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                            "rf_metric_update: predictions %s of metric '%s' are not of its %u classes",
                            rf_shape_format(p.shape, text, sizeof(text)), metric->name, metric->num_classes);
        return RF_NO_TENSOR;
    }
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

static rf_result metric_update(rf_trace *t, rf_metric *metric, rf_tensor labels, rf_tensor predictions,
                               rf_tensor sample_weight)
{
    if (metric->num_classes != 0) return accumulate_classes(t, metric, labels, predictions, sample_weight);
    if (is_curve(metric->kind)) return accumulate_curve(t, metric, labels, predictions, sample_weight);
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

/* ---- the meters of fit and evaluate ---- */

rf_result rf_meters_create(rf_strategy *strategy, const rf_metric_params *metrics, uint32_t num_metrics,
                           uint32_t num_output_losses, rf_meters *out)
{
    *out = (rf_meters){ 0 };
    rf_result r = rf_metric_create(strategy, &(rf_metric_params){ .kind = RF_METRIC_SUM, .name = "loss" }, &out->loss);
    for (uint32_t i = 0; i < num_output_losses && r == RF_OK; i++) {
        char name[32];
        snprintf(name, sizeof(name), "loss_%u", i);
        r = rf_metric_create(strategy, &(rf_metric_params){ .kind = RF_METRIC_SUM, .name = name },
                             &out->output_losses[i]);
        if (r == RF_OK) out->num_output_losses++;
    }
    for (uint32_t i = 0; i < num_metrics && r == RF_OK; i++) {
        r = rf_metric_create(strategy, &metrics[i], &out->metrics[i]);
        if (r == RF_OK) out->num_metrics++;
    }
    if (r < 0) rf_meters_destroy(out);
    return r;
}

void rf_meters_destroy(rf_meters *meters)
{
    rf_metric_destroy(&meters->loss);
    for (uint32_t i = 0; i < meters->num_output_losses; i++) rf_metric_destroy(&meters->output_losses[i]);
    for (uint32_t i = 0; i < meters->num_metrics; i++) rf_metric_destroy(&meters->metrics[i]);
    *meters = (rf_meters){ 0 };
}

rf_result rf_meters_reset(rf_meters *meters)
{
    meters->examples = 0;
    RF_TRY(rf_metric_reset(meters->loss));
    for (uint32_t i = 0; i < meters->num_output_losses; i++) RF_TRY(rf_metric_reset(meters->output_losses[i]));
    for (uint32_t i = 0; i < meters->num_metrics; i++) RF_TRY(rf_metric_reset(meters->metrics[i]));
    return RF_OK;
}

rf_result rf_meters_add_loss(rf_trace *t, rf_meters *meters, rf_tensor losses)
{
    return rf_metric_update(t, meters->loss, RF_NO_TENSOR, losses, RF_NO_TENSOR);
}

rf_result rf_meters_add_output_loss(rf_trace *t, rf_meters *meters, uint32_t output, rf_tensor losses)
{
    return rf_metric_update(t, meters->output_losses[output], RF_NO_TENSOR, losses, RF_NO_TENSOR);
}

rf_result rf_meters_update(rf_trace *t, rf_meters *meters, uint32_t metric, rf_tensor labels, rf_tensor predictions,
                           rf_tensor weight)
{
    return rf_metric_update(t, meters->metrics[metric], labels, predictions, weight);
}

uint32_t rf_meters_count(const rf_meters *meters)
{
    return 1 + meters->num_output_losses + meters->num_metrics;
}

static rf_result read_mean(const rf_meters *meters, rf_metric *loss, const char *name, rf_logs *logs)
{
    double value;
    RF_TRY(rf_metric_result(loss, &value));
    rf_logs_add(logs, name, meters->examples > 0 ? value / (double)meters->examples : 0.0);
    return RF_OK;
}

rf_result rf_meters_read(rf_meters *meters, const char *const *names, rf_logs *logs)
{
    RF_TRY(read_mean(meters, meters->loss, *names++, logs));
    for (uint32_t i = 0; i < meters->num_output_losses; i++)
        RF_TRY(read_mean(meters, meters->output_losses[i], *names++, logs));
    for (uint32_t i = 0; i < meters->num_metrics; i++) {
        double value;
        RF_TRY(rf_metric_result(meters->metrics[i], &value));
        rf_logs_add(logs, *names++, value);
    }
    return RF_OK;
}
