/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics: running totals on the devices, summed over replicas when they are read. */
#include "train/metrics/metric_object.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/params.h"
#include "train/metrics/confusion.h"
#include "train/metrics/curve.h"
#include "train/metrics/scores.h"

/* Each column has sums, and what these could not hold. */
enum { STATE_TOTAL, STATE_COMPENSATION, STATE_WEIGHT, STATE_WEIGHT_COMPENSATION, STATE_COUNT };

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
    [RF_METRIC_CONFUSION_MATRIX] = "confusion_matrix",
};

const char *rf_metric_kind_name(rf_metric_kind kind)
{
    return (uint32_t)kind < RF_METRIC_KINDS ? rf_metric_kind_names[kind] : NULL;
}

bool rf_metric_compares(rf_metric_kind kind)
{
    return rf_metric_kind_name(kind) && kind != RF_METRIC_MEAN && kind != RF_METRIC_SUM;
}

bool rf_metric_ignores(rf_metric_kind kind)
{
    return kind == RF_METRIC_SPARSE_CATEGORICAL_ACCURACY || kind == RF_METRIC_SPARSE_TOP_K_CATEGORICAL_ACCURACY ||
           kind == RF_METRIC_PERPLEXITY || kind == RF_METRIC_CONFUSION_MATRIX;
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

static rf_result check_classes(const rf_metric_params *p, const char *function)
{
    const bool matrix = p->kind == RF_METRIC_CONFUSION_MATRIX;
    RF_REQUIRE(!matrix || (p->num_classes >= 2 && p->num_classes <= RF_MOST_CONFUSED),
               "%s: num_classes %u is not in 2 .. %d, for a confusion matrix", function, p->num_classes,
               RF_MOST_CONFUSED);
    RF_REQUIRE(matrix ||
                   ((p->average != RF_METRIC_AVERAGE_ELEMENTS) == (p->num_classes != 0) && p->num_classes <= 10000),
               "%s: num_classes %u is not in 1 .. 10000, for an average of classes, or 0, without one", function,
               p->num_classes);
    RF_REQUIRE((uint32_t)p->normalize <= RF_METRIC_NORMALIZE_ALL, "%s: normalize %d does not exist", function,
               (int)p->normalize);
    RF_REQUIRE(p->normalize == RF_METRIC_NORMALIZE_NONE || matrix, "%s: normalize is for confusion matrices", function);
    RF_REQUIRE(!p->ignore_class || rf_metric_ignores(p->kind),
               "%s: ignore_class is for accuracy, top-k accuracy, perplexity and confusion matrices of class numbers",
               function);
    return RF_OK;
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
    RF_TRY(check_classes(p, function));
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

static uint32_t count_columns(const rf_metric_params *p)
{
    if (p->kind == RF_METRIC_CONFUSION_MATRIX) return p->num_classes * p->num_classes;
    if (p->num_classes != 0) return 2 * p->num_classes;
    if (!is_curve(p->kind)) return 1;
    return p->num_thresholds == 0 ? 200 : (uint32_t)p->num_thresholds;
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
    metric->ignores = p->ignore_class != NULL;
    metric->ignored = p->ignore_class ? *p->ignore_class : 0;
    metric->normalize = p->normalize;
    metric->columns = count_columns(p);
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

static rf_result combine_matrix(const rf_metric *metric, const float *states, uint32_t num_replicas, bool all,
                                double *out)
{
    double weight, *matrix = all ? out : RF_NEW_ARRAY(double, metric->columns);
    if (!matrix) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t c = 0; c < metric->columns; c++)
        add_up(states, metric->columns * STATE_COUNT, num_replicas, c, &matrix[c], &weight);
    if (all) {
        rf_confusion_normalize(matrix, metric->num_classes, metric->normalize);
        return RF_OK;
    }
    *out = rf_confusion_accuracy(matrix, metric->num_classes);
    rf_free(matrix);
    return RF_OK;
}

/* The value of a metric, or all of them, from its state on some replicas. */
static rf_result combine_states(const rf_metric *metric, const float *states, uint32_t num_replicas, bool all,
                                double *out)
{
    double total, weight;
    if (metric->kind == RF_METRIC_CONFUSION_MATRIX) return combine_matrix(metric, states, num_replicas, all, out);
    if (metric->num_classes != 0) return combine_classes(metric, states, num_replicas, all, out);
    if (rf_metric_is_curve(metric)) return combine_curve(metric, states, num_replicas, out);
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

/* rf_metric_results() gives several. */
static uint32_t count_values(const rf_metric *metric)
{
    if (metric->kind == RF_METRIC_CONFUSION_MATRIX) return metric->columns;
    return metric->average == RF_METRIC_AVERAGE_NONE ? metric->num_classes : 1;
}

rf_result rf_metric_results(rf_metric *metric, double *out, uint32_t capacity, uint32_t *count)
{
    if (count) *count = 0;
    RF_REQUIRE(metric, "rf_metric_results: metric is NULL");
    const uint32_t needed = count_values(metric);
    if (count) *count = needed;
    RF_REQUIRE(out, "rf_metric_results: out is NULL");
    RF_REQUIRE(capacity >= needed, "rf_metric_results: metric '%s' has %u values, and there is room for %u",
               metric->name, needed, capacity);
    return read_metric(metric, rf_strategy_num_replicas_in_sync(metric->strategy), rf_local_state_read,
                       needed > 1 || metric->average == RF_METRIC_AVERAGE_NONE, out);
}

rf_result rf_metric_table(rf_metric *metric, const char *const *names, char **text)
{
    RF_REQUIRE(text, "rf_metric_table: text is NULL");
    *text = NULL;
    RF_REQUIRE(metric, "rf_metric_table: metric is NULL");
    RF_REQUIRE(metric->kind == RF_METRIC_CONFUSION_MATRIX,
               "rf_metric_table: metric '%s' is no confusion matrix; read it with rf_metric_results()", metric->name);
    for (uint32_t i = 0; names && i < metric->num_classes; i++)
        RF_REQUIRE(names[i], "rf_metric_table: names[%u] is NULL", i);
    double *matrix = RF_NEW_ARRAY(double, metric->columns);
    if (!matrix) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = rf_metric_results(metric, matrix, metric->columns, NULL);
    if (r >= 0) r = rf_confusion_format(matrix, metric->num_classes, names, text);
    rf_free(matrix);
    return r;
}

rf_result rf_metric_local_result(rf_metric *metric, double *out)
{
    RF_REQUIRE(out, "rf_metric_local_result: out is NULL");
    *out = 0.0;
    RF_REQUIRE(metric, "rf_metric_local_result: metric is NULL");
    return read_metric(metric, rf_strategy_num_local_replicas(metric->strategy), rf_local_state_read_local, false, out);
}
