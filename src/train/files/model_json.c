/* SPDX-License-Identifier: Apache-2.0 */
#include "train/files/model_json.h"

#include <string.h>

#include "ops/ops.h"
#include "train/files/layer_json.h"
#include "train/fit/compile.h"
#include "train/loss.h"
#include "train/metric.h"
#include "train/optimizer/optimizer.h"

enum { MOST_LAYERS = 4096, MOST_INPUTS = 1 << 26 /* elements of an example */ };

#define COUNT(names) ((int)(sizeof(names) / sizeof((names)[0])))
static const char *const reduction_names[] = { "auto", "none", "sum", "sum_over_batch_size" };

/* ---- models ---- */

rf_result rf_model_check_describable(const rf_model *model, const char *function)
{
    RF_REQUIRE(model, "%s: model is NULL", function);
    if (!rf_model_is_sequential(model))
        return RF_FAIL(RF_ERROR_UNSUPPORTED,
                       "%s: the model's forward function is code, which a file cannot hold; save its weights "
                       "(rf_model_save_weights()) and build the model in the program, or export it for inference with "
                       "rf_model_export()",
                       function);
    for (uint32_t i = 0; i < model->layers.count; i++) {
        const rf_layer *layer = model->layers.items[i];
        if (!rf_layer_is_describable(layer))
            return RF_FAIL(RF_ERROR_UNSUPPORTED,
                           "%s: layer '%s' (%s) is code, which a file cannot hold; save the weights "
                           "(rf_model_save_weights()) and build the model in the program, or export it for inference "
                           "with rf_model_export()",
                           function, layer->name, layer->kind->type_name);
    }
    RF_REQUIRE(model->built, "%s: the model has no variables yet; call rf_model_build() first", function);
    return RF_OK;
}

static rf_result describe_layers(const rf_architecture *a, json_t *list)
{
    for (uint32_t i = 0; i < a->count; i++) {
        const rf_layer *layer = a->layers[i];
        json_t *object;
        RF_TRY(rf_layer_to_json(layer, &object));
        if (json_array_append_new(list, object) != 0) return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    return RF_OK;
}

rf_result rf_architecture_text(const rf_architecture *architecture, char **text)
{
    *text = NULL;
    json_t *layers = json_array();
    rf_result r = describe_layers(architecture, layers);
    json_t *root = json_pack("{s:o, s:o}", "input_shape", rf_shape_to_json(architecture->input), "layers", layers);
    if (r >= 0 && architecture->dtype != RF_F32)
        r = rf_json_set(root, "input_dtype", json_string(rf_dtype_name(architecture->dtype)));
    if (r < 0) {
        json_decref(root);
        return RF_FAIL(r, "out of memory for the description of a model");
    }
    return rf_json_text(root, text);
}

rf_result rf_model_describe(const rf_model *model, char **text)
{
    *text = NULL;
    RF_TRY(rf_model_check_describable(model, "describing a model"));
    const rf_architecture architecture = { model->inputs[0].shape, model->inputs[0].dtype, model->layers.items,
                                           model->layers.count };
    return rf_architecture_text(&architecture, text);
}

/* f32 where there is none. */
static rf_result dtype_from_json(const json_t *object, const char *name, rf_dtype *out)
{
    const json_t *value = json_object_get(object, name);
    const char *text = json_string_value(value);
    *out = RF_F32;
    if (!value) return RF_OK;
    for (int dtype = RF_DTYPE_INVALID + 1; text && dtype < RF_DTYPE_COUNT; dtype++) {
        *out = (rf_dtype)dtype;
        if (strcmp(rf_dtype_name(*out), text) == 0) return RF_OK;
    }
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s' is not a type", name);
}

static rf_result read_architecture(const json_t *root, rf_architecture *out)
{
    RF_TRY(rf_shape_from_json(root, "input_shape", &out->input));
    RF_TRY(dtype_from_json(root, "input_dtype", &out->dtype));
    const json_t *list = json_object_get(root, "layers");
    const size_t count = json_array_size(list);
    const int64_t inputs = rf_shape_count(out->input);
    if (out->input.rank < 1 || inputs < 1 || inputs > MOST_INPUTS || count < 1 || count > MOST_LAYERS)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%zu layers for examples of %lld numbers", count, (long long)inputs);
    out->layers = RF_NEW_ARRAY(rf_layer *, count);
    if (!out->layers) return RF_ERROR_OUT_OF_HOST_MEMORY;
    out->count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) RF_TRY(rf_layer_from_json(json_array_get(list, i), &out->layers[i]));
    return RF_OK;
}

rf_result rf_architecture_parse(const char *text, size_t size, rf_architecture *out)
{
    json_t *root;
    *out = (rf_architecture){ 0 };
    RF_TRY(rf_json_parse(text, size, "architecture", &root));
    const rf_result r = read_architecture(root, out);
    json_decref(root);
    if (r < 0) rf_architecture_free(out);
    return rf_error_context(r, "architecture");
}

void rf_architecture_free(rf_architecture *architecture)
{
    for (uint32_t i = 0; i < architecture->count; i++) rf_layer_destroy(&architecture->layers[i]);
    rf_free(architecture->layers);
    *architecture = (rf_architecture){ 0 };
}

rf_result rf_model_from_description(rf_strategy *strategy, const char *text, rf_model **out)
{
    rf_architecture a;
    *out = NULL;
    RF_TRY(rf_architecture_parse(text, strlen(text), &a));
    /* The layers are the model's from here on, and gone where it cannot be made. */
    rf_result r = rf_model_create_sequential(strategy, a.layers, a.count, NULL, out);
    if (r >= 0) r = rf_model_build_for(*out, a.dtype, a.input);
    if (r < 0) rf_model_destroy(out);
    rf_free(a.layers);
    return rf_error_context(r, "architecture");
}

/* ---- what a model was compiled with ---- */

rf_result rf_training_text(const rf_training *t, char **text)
{
    *text = NULL;
    json_t *metrics = json_array();
    for (uint32_t i = 0; i < t->num_metrics; i++)
        json_array_append_new(metrics, json_string(rf_metric_kind_names[t->metrics[i]]));
    return rf_json_text(json_pack("{s:o, s:{s:s, s:b, s:s, s:f, s:f}, s:o, s:I}", "optimizer",
                                  rf_optimizer_to_json(&t->optimizer, &t->schedule), "loss", "kind",
                                  rf_loss_kind_names[t->loss.kind], "from_logits", t->loss.from_logits, "reduction",
                                  reduction_names[t->loss.reduction], "label_smoothing",
                                  (double)t->loss.label_smoothing, "delta", (double)t->loss.delta, "metrics", metrics,
                                  "steps_per_execution", (json_int_t)t->steps_per_execution),
                        text);
}

rf_result rf_compiled_describe(const rf_compiled *c, char **text)
{
    const rf_optimizer_config *optimizer = rf_optimizer_configuration(c->optimizer);
    rf_training t = { .optimizer = optimizer->params,
                      .schedule = optimizer->schedule,
                      .loss = c->losses[0],
                      .num_metrics = c->train_meters.num_metrics,
                      .steps_per_execution = c->steps_per_execution };
    for (uint32_t i = 0; i < t.num_metrics; i++) t.metrics[i] = rf_metric_kind_of(c->train_meters.metrics[i]);
    return rf_training_text(&t, text);
}

static rf_result metrics_from_json(const json_t *list, rf_metric_kind *kinds, uint32_t *count)
{
    *count = (uint32_t)json_array_size(list);
    if (*count > RF_MAX_COMPILED_METRICS) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%u metrics", *count);
    for (uint32_t i = 0; i < *count; i++) {
        const char *name = json_string_value(json_array_get(list, i));
        int kind = 0;
        while (name && kind < RF_METRIC_KINDS && strcmp(rf_metric_kind_names[kind], name) != 0) kind++;
        if (!name || kind == RF_METRIC_KINDS) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "a metric of no known kind");
        kinds[i] = (rf_metric_kind)kind;
    }
    return RF_OK;
}

static rf_result read_training(const json_t *root, rf_training *out)
{
    int loss = 0, reduction = 0;
    uint64_t steps = 1;
    const json_t *loss_object = json_object_get(root, "loss");
    RF_TRY(rf_json_choice(loss_object, "kind", rf_loss_kind_names, COUNT(rf_loss_kind_names), &loss));
    RF_TRY(rf_json_bool(loss_object, "from_logits", &out->loss.from_logits));
    RF_TRY(rf_json_choice(loss_object, "reduction", reduction_names, COUNT(reduction_names), &reduction));
    double smoothing = 0, delta = 0; /* as in files that do not say */
    RF_TRY(rf_json_number(loss_object, "label_smoothing", &smoothing));
    RF_TRY(rf_json_number(loss_object, "delta", &delta));
    RF_TRY(rf_json_u64(root, "steps_per_execution", &steps));
    RF_TRY(metrics_from_json(json_object_get(root, "metrics"), out->metrics, &out->num_metrics));
    if (steps < 1 || steps > UINT32_MAX) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'steps_per_execution' is out of range");
    out->loss.kind = (rf_loss_kind)loss;
    out->loss.reduction = (rf_reduction)reduction;
    out->loss.label_smoothing = (float)smoothing;
    out->loss.delta = (float)delta;
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
    return rf_error_context(r, "training");
}

static rf_result compile(rf_model *model, const rf_training *t)
{
    RF_TRY(rf_optimizer_create(model->strategy, &t->optimizer, &model->own_optimizer));
    rf_optimizer_retain(model->own_optimizer); /* rf_model_optimizer() gives it away: it may be destroyed there */
    const rf_compile_params p = { .optimizer = model->own_optimizer,
                                  .loss = t->loss,
                                  .metrics = t->metrics,
                                  .num_metrics = t->num_metrics,
                                  .steps_per_execution = t->steps_per_execution };
    return rf_model_compile(model, &p);
}

rf_result rf_model_compile_from_description(rf_model *model, const char *text)
{
    rf_training training;
    RF_TRY(rf_training_parse(text, strlen(text), &training));
    const rf_result r = rf_error_context(compile(model, &training), "training");
    rf_optimizer_params_free(&training.optimizer);
    return r;
}
