/* SPDX-License-Identifier: Apache-2.0 */
#include "train/lora/set.h"

#include <string.h>

#include "base/error.h"
#include "replica/store/variables.h"

/* ---- the set ---- */

static void destroy_set(rf_lora_set **set)
{
    rf_lora_set *s = *set;
    *set = NULL;
    (void)rf_lora_activate(s, NULL);
    while (s->adapters.count > 0) rf_lora_remove(s, s->adapters.items[s->adapters.count - 1]);
    rf_lora_modules_clear(&s->modules);
    rf_free(s->adapters.items);
    rf_free(s->frozen.items);
    rf_free(s->originals.items);
    rf_free(s);
}

rf_result rf_lora_set_of(rf_model *model, const char *function, rf_lora_set **out)
{
    RF_REQUIRE(model, "%s: model is NULL", function);
    RF_TRY(rf_model_check_alive(model, function));
    RF_REQUIRE(model->built, "%s: the model is not built yet; call rf_model_build() first", function);
    if (!model->lora) {
        rf_lora_set *set = RF_NEW(rf_lora_set);
        if (!set) return RF_ERROR_OUT_OF_HOST_MEMORY;
        set->model = model;
        const rf_result r = rf_lora_modules_find(&set->modules, model);
        if (r < 0) {
            destroy_set(&set);
            return rf_error_context(r, "%s", function);
        }
        model->lora = set;
        model->destroy_lora = destroy_set;
    }
    *out = model->lora;
    return RF_OK;
}

rf_result rf_lora_find(rf_model *model, const char *name, const char *function, rf_lora_adapter **out)
{
    rf_lora_set *set;
    RF_TRY(rf_lora_set_of(model, function, &set));
    RF_REQUIRE(name, "%s: name is NULL", function);
    for (uint32_t i = 0; i < set->adapters.count; i++) {
        *out = set->adapters.items[i];
        if (strcmp((*out)->name, name) == 0) return RF_OK;
    }
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: the model has no adapter '%.100s'", function, name);
}

/* ---- what acts ---- */

static void freeze_part(rf_adapter *part, bool frozen)
{
    part->a->frozen = part->b->frozen = frozen;
    if (part->magnitude) part->magnitude->frozen = frozen;
}

static void set_acting(const rf_lora_set *set, rf_lora_adapter *adapter, bool acts)
{
    for (uint32_t i = 0; adapter && i < adapter->num_items; i++) {
        rf_lora_item *item = &adapter->items[i];
        const rf_lora_module *module = &set->modules.items[item->module];
        for (uint32_t p = 0; p < module->num_parts; p++) {
            rf_lora_site(&module->parts[p])->adapter = acts ? &item->parts[p] : NULL;
            freeze_part(&item->parts[p], !acts);
        }
    }
}

/* A layer may be another model's as well, which has adapters of its own. */
static rf_result check_free(const rf_lora_set *set, const rf_lora_adapter *adapter)
{
    for (uint32_t i = 0; adapter && i < adapter->num_items; i++) {
        const rf_lora_module *module = &set->modules.items[adapter->items[i].module];
        for (uint32_t p = 0; p < module->num_parts; p++)
            RF_REQUIRE(!rf_lora_site(&module->parts[p])->adapter,
                       "module '%s' has an adapter that was attached through another model", module->name);
    }
    return RF_OK;
}

rf_result rf_lora_activate(rf_lora_set *set, rf_lora_adapter *adapter)
{
    rf_lora_adapter *before = set->active;
    set_acting(set, before, false);
    const rf_result r = check_free(set, adapter);
    set->active = r < 0 ? before : adapter;
    set_acting(set, set->active, true);
    if (set->active != before) rf_model_forget_traces(set->model);
    return r;
}

rf_result rf_lora_set_active(rf_model *model, const char *name)
{
    static const char function[] = "rf_lora_set_active";
    rf_lora_set *set = NULL;
    rf_lora_adapter *adapter = NULL;
    RF_TRY(rf_lora_set_of(model, function, &set));
    if (name) RF_TRY(rf_lora_find(model, name, function, &adapter));
    RF_REQUIRE(!adapter || !adapter->merged, "%s: adapter '%s' is merged; call rf_lora_unmerge() first", function,
               name);
    return rf_error_context(rf_lora_activate(set, adapter), "%s", function);
}

const char *rf_lora_active(const rf_model *model)
{
    return model && model->lora && model->lora->active ? model->lora->active->name : NULL;
}

/* ---- removal ---- */

/* Also of the models whose layers have it: calls made it one of theirs. */
static void drop_variable(const rf_lora_set *set, rf_variable **variable)
{
    if (!*variable) return;
    rf_model_forget(set->model, *variable);
    for (uint32_t i = 0; i < set->model->callees.count; i++) rf_model_forget(set->model->callees.items[i], *variable);
    rf_variable_destroy(variable);
}

static void frozen_restore(rf_lora_set *set)
{
    for (uint32_t i = 0; i < set->frozen.count; i++) {
        const rf_lora_frozen *f = &set->frozen.items[i];
        if (f->layer) f->layer->frozen = f->was;
        if (f->variable) f->variable->frozen = f->was;
    }
    set->frozen.count = 0;
}

/* With the last adapter, weights that hold merged ones are the model's own. */
static void forget_originals(rf_lora_set *set)
{
    for (uint32_t i = 0; i < set->originals.count; i++) rf_free(set->originals.items[i].values);
    set->originals.count = 0;
}

void rf_lora_remove(rf_lora_set *set, rf_lora_adapter *adapter)
{
    uint32_t at = 0;
    while (at < set->adapters.count && set->adapters.items[at] != adapter) at++;
    for (uint32_t i = 0; i < adapter->num_items; i++) {
        rf_adapter *parts = adapter->items[i].parts;
        drop_variable(set, &parts[0].a);
        for (uint32_t p = 0; p < RF_LORA_MOST_PARTS; p++) {
            drop_variable(set, &parts[p].b);
            drop_variable(set, &parts[p].magnitude);
        }
    }
    if (at < set->adapters.count) {
        memmove(&set->adapters.items[at], &set->adapters.items[at + 1],
                (set->adapters.count - at - 1) * sizeof(set->adapters.items[0]));
        set->adapters.count--;
    }
    rf_free(adapter->items);
    rf_free(adapter->name);
    rf_free(adapter);
    if (set->adapters.count > 0) return;
    set->model->adapted = false;
    frozen_restore(set);
    forget_originals(set);
}

rf_result rf_lora_detach(rf_model *model, const char *name)
{
    rf_lora_adapter *adapter;
    RF_TRY(rf_lora_find(model, name, "rf_lora_detach", &adapter));
    rf_lora_set *set = model->lora;
    if (set->active == adapter) RF_TRY(rf_lora_activate(set, NULL));
    rf_lora_remove(set, adapter);
    rf_model_forget_traces(model);
    return RF_OK;
}

/* ---- lists ---- */

uint32_t rf_lora_num_adapters(const rf_model *model)
{
    return model && model->lora ? model->lora->adapters.count : 0;
}

const char *rf_lora_adapter_name(const rf_model *model, uint32_t index)
{
    return index < rf_lora_num_adapters(model) ? model->lora->adapters.items[index]->name : NULL;
}

uint32_t rf_lora_num_modules(rf_model *model)
{
    rf_lora_set *set;
    return rf_lora_set_of(model, "rf_lora_num_modules", &set) < 0 ? 0 : set->modules.count;
}

const char *rf_lora_module_name(rf_model *model, uint32_t index)
{
    return index < rf_lora_num_modules(model) ? model->lora->modules.items[index].name : NULL;
}
