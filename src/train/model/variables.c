/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which variables and layers belong to a model, and how long they live. As in Keras, what a model uses when it is
 * called belongs to it: the variables of models that a forward function calls, and those that it or a lambda layer uses
 * directly, are trained, counted, saved and exported with the model, no matter who created them.
 */
#include <string.h>

#include "base/error.h"
#include "replica/store/variables.h"
#include "train/model/layer_graph.h"

/* ---- variables ---- */

static bool name_taken(const rf_model *model, const char *name)
{
    for (uint32_t i = 0; i < model->tracked.count; i++)
        if (strcmp(model->tracked.items[i].name, name) == 0) return true;
    return false;
}

/* "dense/kernel", "dense/kernel_1", ...; within a model that is a layer, "encoder/dense/kernel". */
static char *make_name(const rf_model *model, const rf_variable *variable)
{
    const rf_layer *layer = model->calling;
    const char *inside = layer ? rf_model_variable_name(rf_layer_model(layer), variable) : NULL;
    char *base = inside ? rf_asprintf("%s/%s", layer->name, inside) : rf_strdup(rf_variable_name(variable));
    char *name = base ? rf_strdup(base) : NULL;
    for (uint32_t n = 1; name && name_taken(model, name); n++) {
        rf_free(name);
        name = rf_asprintf("%s_%u", base, n);
    }
    rf_free(base);
    return name;
}

rf_result rf_model_track(rf_model *model, rf_variable *variable)
{
    for (uint32_t i = 0; i < model->tracked.count; i++)
        if (model->tracked.items[i].variable == variable) return RF_OK;
    RF_TRY(RF_VEC_GROW(&model->tracked));
    RF_TRY(RF_VEC_GROW(&model->trainable));
    RF_TRY(RF_VEC_GROW(&model->others));
    char *name = make_name(model, variable);
    if (!name) return RF_ERROR_OUT_OF_HOST_MEMORY;
    model->tracked.items[model->tracked.count++] =
        (rf_model_variable){ .variable = rf_variable_retain(variable), .name = name };
    model->trainable.count++;
    model->others.count++;
    return RF_OK;
}

void rf_model_untrack(rf_model *model, uint32_t num_tracked, uint32_t num_callees)
{
    while (model->tracked.count > num_tracked) {
        const rf_model_variable *last = &model->tracked.items[--model->tracked.count];
        model->trainable.count--;
        model->others.count--;
        rf_variable_release(last->variable);
        rf_free(last->name);
    }
    while (model->callees.count > num_callees) rf_model_release(model->callees.items[--model->callees.count]);
}

void rf_model_forget(rf_model *model, const rf_variable *variable)
{
    for (uint32_t i = 0; i < model->tracked.count; i++) {
        rf_model_variable *items = model->tracked.items;
        if (items[i].variable != variable) continue;
        const rf_model_variable gone = items[i];
        memmove(&items[i], &items[i + 1], (model->tracked.count - i - 1) * sizeof(*items));
        items[model->tracked.count - 1] = gone;
        rf_model_untrack(model, model->tracked.count - 1, model->callees.count);
        return;
    }
}

bool rf_model_keeps(const rf_model *model, const rf_model_variable *variable)
{
    return !model->adapted || variable->adapter || !variable->variable->frozen;
}

const char *rf_model_variable_name(const rf_model *model, const rf_variable *variable)
{
    for (uint32_t i = 0; model && i < model->tracked.count; i++)
        if (model->tracked.items[i].variable == variable) return model->tracked.items[i].name;
    return NULL;
}

/* ---- how long a model lives ---- */

rf_model *rf_model_retain(rf_model *model)
{
    model->references++;
    return model;
}

void rf_model_release(rf_model *m)
{
    if (--m->references > 0) return;
    if (m->lora) m->destroy_lora(&m->lora);
    rf_model_untrack(m, 0, 0);
    for (uint32_t i = 0; i < m->layers.count; i++) rf_layer_free(m->layers.items[i]);
    rf_free(m->layers.items);
    rf_free(m->tracked.items);
    rf_free(m->trainable.items);
    rf_free(m->others.items);
    rf_iterator_state_free(m->position);
    rf_layer_graph_free(m->graph);
    rf_free(m->callees.items);
    rf_arena_free(&m->names);
    rf_free(m);
}

/* ---- lists of variables ---- */

/* Those that are trained, or the others, into `items`, which has room for all. */
static rf_variable_list select_variables(const rf_model *model, bool trained, rf_variable **items)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < model->tracked.count; i++) {
        rf_variable *variable = model->tracked.items[i].variable;
        if ((rf_variable_trainable(variable) && !variable->frozen) == trained) items[count++] = variable;
    }
    return (rf_variable_list){ .items = items, .count = count };
}

rf_variable_list rf_model_variables(const rf_model *model)
{
    return model ? select_variables(model, true, model->trainable.items) : (rf_variable_list){ 0 };
}

rf_variable_list rf_model_state_variables(const rf_model *model)
{
    return model ? select_variables(model, false, model->others.items) : (rf_variable_list){ 0 };
}

/* ---- calls ---- */

static rf_result use_variable(void *user, rf_variable *variable)
{
    return rf_model_track(user, variable);
}

static rf_result add_callee(rf_model *caller, rf_model *callee)
{
    if (caller == callee) return RF_OK;
    for (uint32_t i = 0; i < caller->callees.count; i++)
        if (caller->callees.items[i] == callee) return RF_OK;
    RF_TRY(RF_VEC_GROW(&caller->callees));
    caller->callees.items[caller->callees.count++] = rf_model_retain(callee);
    return RF_OK;
}

rf_result rf_model_note_callee(rf_trace *t, rf_model *model)
{
    for (const rf_trace_listener *l = rf_trace_listeners(t); l; l = l->outer) RF_TRY(add_callee(l->user, model));
    return RF_OK;
}

rf_result rf_model_enter_call(rf_trace *t, rf_model *model, rf_model_call_scope *scope)
{
    scope->listener = (rf_trace_listener){ use_variable, model, rf_trace_listeners(t) };
    const rf_result r = rf_model_note_callee(t, model);
    rf_trace_listen(t, &scope->listener);
    return r;
}

void rf_model_leave_call(rf_trace *t, const rf_model_call_scope *scope)
{
    rf_trace_listen(t, scope->listener.outer);
}

/* ---- layers ---- */

bool rf_model_contains(const rf_model *model, const rf_model *part)
{
    if (model == part) return true;
    for (uint32_t i = 0; i < model->layers.count; i++) {
        const rf_model *inner = rf_layer_model(model->layers.items[i]);
        if (inner && rf_model_contains(inner, part)) return true;
    }
    return false;
}

uint32_t rf_model_num_all_layers(const rf_model *model)
{
    uint32_t count = model->layers.count;
    for (uint32_t i = 0; i < model->callees.count; i++) count += model->callees.items[i]->layers.count;
    return count;
}

rf_layer *rf_model_any_layer(const rf_model *model, uint32_t index)
{
    if (index < model->layers.count) return model->layers.items[index];
    index -= model->layers.count;
    for (uint32_t i = 0; i < model->callees.count; i++) {
        const rf_model *callee = model->callees.items[i];
        if (index < callee->layers.count) return callee->layers.items[index];
        index -= callee->layers.count;
    }
    return NULL;
}
