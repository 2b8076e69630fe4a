/* SPDX-License-Identifier: Apache-2.0 */
/* Models, and layers of models, as layers of other models; layers of a model by name. */
#include <string.h>

#include "base/error.h"
#include "base/params.h"
#include "trace/trace.h"
#include "train/model/model.h"

/* ---- the layer ---- */

static rf_result build_model_layer(rf_layer *layer, rf_strategy *strategy, const rf_tensor_desc *in, uint32_t num_in)
{
    (void)in;
    (void)num_in;
    RF_REQUIRE(layer->u.model.model->strategy == strategy,
               "layer '%s' is of a model on another strategy than the one that it is in", layer->name);
    return RF_OK;
}

/* The variables that the model uses meanwhile become the outer one's under the layer's name. */
static void apply_model_layer(rf_trace *t, const rf_layer *layer, const rf_layer_apply_params *params, rf_tensor *out,
                              uint32_t num_out)
{
    rf_model *outer = layer->model, *inner = layer->u.model.model;
    rf_tensor results[RF_MAX_COMPONENTS] = { { 0, 0 } };
    const rf_layer *calling = outer->calling;
    outer->calling = layer;
    (void)rf_model_apply_part(t, inner, params->in, params->mode, layer->u.model.last, results);
    outer->calling = calling;
    memcpy(out, results, num_out * sizeof(*out));
}

static void release_model(rf_layer *layer)
{
    if (layer->u.model.model) rf_model_release(layer->u.model.model);
    rf_model_destroy(&layer->u.model.own);
    rf_free(layer->u.model.last);
    rf_free(layer->u.model.description);
}

static const rf_layer_kind model_layer_kind = { .base_name = "model",
                                                .type_name = "Model",
                                                .build_inputs = build_model_layer,
                                                .apply = apply_model_layer,
                                                .destroy = release_model,
                                                .applies_model = true };

static const rf_layer *layer_find(const rf_model *model, const char *name)
{
    for (uint32_t i = 0; i < model->layers.count; i++)
        if (strcmp(model->layers.items[i]->name, name) == 0) return model->layers.items[i];
    return NULL;
}

static rf_result check_last(const rf_model *model, const char *last, const char *function)
{
    RF_REQUIRE(rf_model_is_data(model), "%s: last_layer is of sequential and functional models; this one is code",
               function);
    RF_REQUIRE(model->built, "%s: last_layer: the model is not built yet; call rf_model_build() first", function);
    RF_REQUIRE(layer_find(model, last), "%s: last_layer: the model has no layer '%s'", function, last);
    return RF_OK;
}

void rf_model_layer_attach(rf_layer *layer, rf_model *model)
{
    layer->u.model.model = rf_model_retain(model);
    layer->u.model.num_inputs = model->num_inputs;
    layer->u.model.num_outputs = layer->u.model.last ? 1 : model->num_outputs;
}

rf_result rf_model_layer_new(const char *name, const char *last, rf_layer **out)
{
    RF_TRY(rf_layer_new(&model_layer_kind, name, out));
    if (!last || ((*out)->u.model.last = rf_strdup(last))) return RF_OK;
    rf_layer_free(*out);
    *out = NULL;
    return RF_ERROR_OUT_OF_HOST_MEMORY;
}

rf_result rf_layer_from_model(const rf_model_layer_params *params, rf_layer **out)
{
    static const char function[] = "rf_layer_from_model";
    RF_REQUIRE(out, "%s: out is NULL", function);
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_model_layer_params, params));
    RF_REQUIRE(params && params->model, "%s: params->model is NULL", function);
    RF_TRY(rf_model_check_alive(params->model, function));
    if (params->last_layer) RF_TRY(check_last(params->model, params->last_layer, function));
    RF_TRY(rf_model_layer_new(params->name, params->last_layer, out));
    rf_model_layer_attach(*out, params->model);
    return RF_OK;
}

/* ---- layers of other models ---- */

static void apply_shared(rf_trace *t, const rf_layer *layer, const rf_layer_apply_params *params, rf_tensor *out,
                         uint32_t num_out)
{
    (void)rf_layer_apply(t, layer->u.shared->model, layer->u.shared, params, out, num_out);
}

static void release_shared(rf_layer *layer)
{
    if (layer->u.shared) rf_model_release(layer->u.shared->model);
}

static const rf_layer_kind shared_kind = {
    .base_name = "shared", .type_name = "Shared", .apply = apply_shared, .destroy = release_shared, .shares = true
};

rf_result rf_layer_share(rf_layer *layer, rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_share: out is NULL");
    *out = NULL;
    RF_REQUIRE(layer, "rf_layer_share: layer is NULL");
    RF_REQUIRE(layer->model, "rf_layer_share: no model has the layer; give it to one first");
    if (layer->kind->shares) return rf_layer_share(layer->u.shared, out);
    if (layer->kind->applies_model) {
        RF_TRY(rf_model_layer_new(layer->name, layer->u.model.last, out));
        rf_model_layer_attach(*out, layer->u.model.model);
        return RF_OK;
    }
    RF_TRY(rf_layer_new(&shared_kind, layer->name, out));
    (*out)->u.shared = layer;
    rf_model_retain(layer->model);
    return RF_OK;
}

/* ---- what such layers have ---- */

void rf_layer_set_trainable(rf_layer *layer, bool trainable)
{
    const rf_model *inner = rf_layer_model(layer);
    if (!layer) return;
    if (layer->kind->shares) rf_layer_set_trainable(layer->u.shared, trainable);
    layer->frozen = !trainable;
    rf_layer_freeze_variables(layer);
    for (uint32_t i = 0; inner && i < inner->layers.count; i++)
        rf_layer_set_trainable(inner->layers.items[i], trainable);
}

rf_variable *rf_layer_variable(const rf_layer *layer, const char *name)
{
    const rf_model *inner = rf_layer_model(layer);
    layer = rf_layer_original(layer);
    if (!name) return NULL;
    for (uint32_t i = 0; inner && i < inner->tracked.count; i++)
        if (strcmp(inner->tracked.items[i].name, name) == 0) return inner->tracked.items[i].variable;
    for (uint32_t i = 0; layer && layer->name && i < layer->num_variables; i++) {
        /* Variables are called "<layer>/<name>". */
        const char *full = rf_variable_name(layer->variables[i]);
        const size_t prefix = strlen(layer->name);
        if (strlen(full) > prefix && strcmp(full + prefix + 1, name) == 0) return layer->variables[i];
    }
    return NULL;
}

/* ---- layers by name ---- */

uint32_t rf_model_num_layers(const rf_model *model)
{
    return model ? model->layers.count : 0;
}

rf_layer *rf_model_layer_at(const rf_model *model, uint32_t index)
{
    return model && index < model->layers.count ? model->layers.items[index] : NULL;
}

rf_layer *rf_model_find_layer(const rf_model *model, const char *name)
{
    if (!model || !name) return NULL;
    for (uint32_t i = 0; i < model->layers.count; i++) {
        rf_layer *layer = model->layers.items[i];
        const size_t size = strlen(layer->name);
        if (strncmp(layer->name, name, size) != 0) continue;
        if (name[size] == '\0') return layer;
        rf_layer *found = name[size] == '/' ? rf_model_find_layer(rf_layer_model(layer), name + size + 1) : NULL;
        if (found) return found;
    }
    return NULL;
}
