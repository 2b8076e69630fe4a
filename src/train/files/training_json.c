/* SPDX-License-Identifier: Apache-2.0 */
#include "train/files/training_json.h"

#include <string.h>

#include "train/fit/compile.h"
#include "train/metrics/loss.h"
#include "train/optimizer/config_json.h"

#define COUNT(names) ((int)(sizeof(names) / sizeof((names)[0])))
static const char *const reduction_names[] = { "auto", "none", "sum", "sum_over_batch_size",
                                               "mean_with_sample_weight" };
static const char *const average_names[] = { "elements", "none", "micro", "macro", "weighted" };
static const char *const normalize_names[] = { "none", "labels", "predictions", "all" };

/* ---- writing ---- */

static json_t *loss_to_json(const rf_loss *loss)
{
    json_t *object = json_pack("{s:s, s:b, s:s, s:f, s:f}", "kind", rf_loss_kind_names[loss->kind], "from_logits",
                               loss->from_logits, "reduction", reduction_names[loss->reduction], "label_smoothing",
                               (double)loss->label_smoothing, "delta", (double)loss->delta);
    if (object && loss->ignore_class)
        (void)json_object_set_new(object, "ignore_class", json_integer(*loss->ignore_class));
    return object;
}

/* Its name alone where nothing else is set, as files have it that know nothing else. */
static json_t *metric_to_json(const rf_output_metric *m)
{
    static const rf_metric_params plain = { 0 };
    rf_metric_params rest = m->metric;
    rest.kind = plain.kind;
    const char *kind = rf_metric_kind_names[m->metric.kind];
    if (m->output == 0 && !m->weighted && !rest.name && rest.threshold == 0.0f && !rest.from_logits && rest.k == 0 &&
        rest.num_thresholds == 0 && rest.num_classes == 0 && !rest.ignore_class)
        return json_string(kind);
    json_t *object = json_pack("{s:s, s:I, s:f, s:b, s:I, s:I}", "kind", kind, "output", (json_int_t)m->output,
                               "threshold", (double)rest.threshold, "from_logits", rest.from_logits, "k",
                               (json_int_t)rest.k, "num_thresholds", (json_int_t)rest.num_thresholds);
    if (object && m->weighted) (void)json_object_set_new(object, "weighted", json_true());
    if (object && rest.average != RF_METRIC_AVERAGE_ELEMENTS)
        (void)json_object_set_new(object, "average", json_string(average_names[rest.average]));
    if (object && rest.num_classes != 0)
        (void)json_object_set_new(object, "num_classes", json_integer(rest.num_classes));
    if (object && rest.normalize != RF_METRIC_NORMALIZE_NONE)
        (void)json_object_set_new(object, "normalize", json_string(normalize_names[rest.normalize]));
    if (object && rest.ignore_class)
        (void)json_object_set_new(object, "ignore_class", json_integer(*rest.ignore_class));
    if (object && rest.name) (void)json_object_set_new(object, "name", json_string(rest.name));
    return object;
}

static rf_result add_output_losses(json_t *root, const rf_training *t)
{
    json_t *losses = json_array(), *weights = json_array();
    RF_TRY(rf_json_set(root, "losses", losses));
    RF_TRY(rf_json_set(root, "loss_weights", weights));
    for (uint32_t i = 0; i < t->num_losses; i++)
        if (json_array_append_new(losses, loss_to_json(&t->losses[i])) != 0 ||
            json_array_append_new(weights, json_real(t->loss_weights[i])) != 0)
            return RF_ERROR_OUT_OF_HOST_MEMORY;
    return RF_OK;
}

rf_result rf_training_text(const rf_training *t, char **text)
{
    *text = NULL;
    json_t *metrics = json_array();
    for (uint32_t i = 0; i < t->num_metrics; i++) json_array_append_new(metrics, metric_to_json(&t->metrics[i]));
    json_t *root = json_pack("{s:o, s:o, s:o, s:I}", "optimizer", rf_optimizer_to_json(&t->optimizer, &t->schedule),
                             "loss", loss_to_json(&t->losses[0]), "metrics", metrics, "steps_per_execution",
                             (json_int_t)t->steps_per_execution);
    /* "loss" says it all where there is one of weight 1. */
    if (root && (t->num_losses > 1 || t->loss_weights[0] != 1.0) && add_output_losses(root, t) < 0) {
        json_decref(root);
        root = NULL;
    }
    return rf_json_text(root, text);
}

rf_result rf_compiled_describe(const rf_compiled *c, char **text)
{
    const rf_optimizer_config *optimizer = rf_optimizer_configuration(c->optimizer);
    rf_training t = { .optimizer = optimizer->params,
                      .schedule = optimizer->schedule,
                      .num_losses = c->model->num_outputs,
                      .num_metrics = c->num_metrics,
                      .steps_per_execution = c->steps_per_execution };
    memcpy(t.losses, c->losses, sizeof(t.losses));
    memcpy(t.loss_weights, c->loss_weights, sizeof(t.loss_weights));
    for (uint32_t i = 0; i < c->num_metrics; i++) {
        t.metrics[i] =
            (rf_output_metric){ .output = c->metric_outputs[i], .metric = c->metrics[i], .weighted = c->weighted[i] };
        t.metrics[i].metric.name = c->given_names[i];
    }
    return rf_training_text(&t, text);
}

/* ---- reading ---- */

/* *out stays NULL where there is none. */
static rf_result read_ignored(const json_t *object, int32_t *kept, const int32_t **out)
{
    if (!json_object_get(object, "ignore_class")) return RF_OK;
    RF_TRY(rf_json_i32(object, "ignore_class", kept));
    *out = kept;
    return RF_OK;
}

static rf_result read_loss(const json_t *object, int32_t *ignored, rf_loss *out)
{
    int kind = 0, reduction = 0;
    *out = (rf_loss){ 0 };
    RF_TRY(rf_json_choice(object, "kind", rf_loss_kind_names, COUNT(rf_loss_kind_names), &kind));
    RF_TRY(rf_json_bool(object, "from_logits", &out->from_logits));
    RF_TRY(rf_json_choice(object, "reduction", reduction_names, COUNT(reduction_names), &reduction));
    RF_TRY(rf_json_float(object, "label_smoothing", &out->label_smoothing));
    RF_TRY(rf_json_float(object, "delta", &out->delta));
    RF_TRY(read_ignored(object, ignored, &out->ignore_class));
    out->kind = (rf_loss_kind)kind;
    out->reduction = (rf_reduction)reduction;
    return RF_OK;
}

static rf_result read_losses(const json_t *root, rf_training *out)
{
    const json_t *losses = json_object_get(root, "losses"), *weights = json_object_get(root, "loss_weights");
    const size_t count = json_array_size(losses);
    out->num_losses = 1;
    out->loss_weights[0] = 1.0;
    if (!losses) return read_loss(json_object_get(root, "loss"), &out->ignored[0], &out->losses[0]);
    if (count < 1 || count > RF_MAX_COMPONENTS || json_array_size(weights) != count)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%zu losses with %zu weights", count, json_array_size(weights));
    for (size_t i = 0; i < count; i++) {
        const json_t *weight = json_array_get(weights, i);
        if (!json_is_number(weight)) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'loss_weights' holds no numbers");
        out->loss_weights[i] = json_number_value(weight);
        RF_TRY(read_loss(json_array_get(losses, i), &out->ignored[i], &out->losses[i]));
    }
    out->num_losses = (uint32_t)count;
    return RF_OK;
}

static rf_result read_metric_kind(const char *name, rf_metric_kind *out)
{
    int kind = 0;
    while (name && kind < RF_METRIC_KINDS && strcmp(rf_metric_kind_names[kind], name) != 0) kind++;
    if (!name || kind == RF_METRIC_KINDS) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "a metric of no known kind");
    *out = (rf_metric_kind)kind;
    return RF_OK;
}

static rf_result read_metric(const json_t *value, rf_arena *names, int32_t *ignored, rf_output_metric *out)
{
    rf_metric_params *m = &out->metric;
    if (json_is_string(value)) return read_metric_kind(json_string_value(value), &m->kind);
    const char *name = json_string_value(json_object_get(value, "name"));
    uint64_t output = 0, k = 0, num_classes = 0;
    int average = 0, normalize = 0;
    RF_TRY(read_metric_kind(json_string_value(json_object_get(value, "kind")), &m->kind));
    RF_TRY(rf_json_u64(value, "output", &output));
    RF_TRY(rf_json_bool(value, "weighted", &out->weighted));
    RF_TRY(rf_json_float(value, "threshold", &m->threshold));
    RF_TRY(rf_json_bool(value, "from_logits", &m->from_logits));
    RF_TRY(rf_json_u64(value, "k", &k));
    RF_TRY(rf_json_u64(value, "num_thresholds", &m->num_thresholds));
    RF_TRY(rf_json_u64(value, "num_classes", &num_classes));
    RF_TRY(rf_json_choice(value, "average", average_names, COUNT(average_names), &average));
    RF_TRY(rf_json_choice(value, "normalize", normalize_names, COUNT(normalize_names), &normalize));
    RF_TRY(read_ignored(value, ignored, &m->ignore_class));
    if (output >= RF_MAX_COMPONENTS || k > UINT32_MAX || num_classes > UINT32_MAX)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "a metric's 'output', 'k' or 'num_classes' is out of range");
    m->average = (rf_metric_average)average;
    m->normalize = (rf_metric_normalize)normalize;
    m->num_classes = (uint32_t)num_classes;
    if (name && !(m->name = rf_arena_strdup(names, name))) return RF_ERROR_OUT_OF_HOST_MEMORY;
    out->output = (uint32_t)output;
    m->k = (uint32_t)k;
    return RF_OK;
}

static rf_result read_training(const json_t *root, rf_training *out)
{
    uint64_t steps = 1;
    const json_t *metrics = json_object_get(root, "metrics");
    out->num_metrics = (uint32_t)json_array_size(metrics);
    if (out->num_metrics > RF_MAX_COMPILED_METRICS)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%u metrics", out->num_metrics);
    RF_TRY(read_losses(root, out));
    for (uint32_t i = 0; i < out->num_metrics; i++)
        RF_TRY(read_metric(json_array_get(metrics, i), &out->names, &out->metric_ignored[i], &out->metrics[i]));
    RF_TRY(rf_json_u64(root, "steps_per_execution", &steps));
    if (steps < 1 || steps > UINT32_MAX) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'steps_per_execution' is out of range");
    out->steps_per_execution = (uint32_t)steps;
    return rf_optimizer_from_json(json_object_get(root, "optimizer"), &out->optimizer, &out->schedule);
}

rf_result rf_training_parse(const char *text, size_t size, rf_training *out)
{
    json_t *root;
    *out = (rf_training){ 0 };
    RF_TRY(rf_json_parse(text, size, "training", &root));
    const rf_result r = read_training(root, out);
    json_decref(root);
    if (r < 0) rf_arena_free(&out->names);
    return rf_error_context(r, "training");
}

void rf_training_free(rf_training *training)
{
    rf_optimizer_params_free(&training->optimizer);
    rf_arena_free(&training->names);
}

static rf_result training_compile(rf_model *model, const rf_training *t)
{
    RF_TRY(rf_optimizer_create(model->strategy, &t->optimizer, &model->own_optimizer));
    rf_optimizer_retain(model->own_optimizer); /* rf_model_optimizer() gives it away: it may be destroyed there */
    const rf_compile_params p = { .optimizer = model->own_optimizer,
                                  .losses = t->losses,
                                  .loss_weights = t->loss_weights,
                                  .num_losses = t->num_losses,
                                  .output_metrics = t->metrics,
                                  .num_output_metrics = t->num_metrics,
                                  .steps_per_execution = t->steps_per_execution };
    return rf_model_compile(model, &p);
}

rf_result rf_model_compile_from_description(rf_model *model, const char *text)
{
    rf_training training;
    RF_TRY(rf_training_parse(text, strlen(text), &training));
    const rf_result r = rf_error_context(training_compile(model, &training), "training");
    rf_training_free(&training);
    return r;
}
