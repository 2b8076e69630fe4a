/* SPDX-License-Identifier: Apache-2.0 */
/* A model in a checkpoint: all of its variables. */
#include "train/checkpoint/item.h"
#include "train/model/model.h"

static rf_result append_model(const rf_tracked *t, rf_item_list *list)
{
    const rf_model *model = t->object;
    RF_REQUIRE(model->built, "checkpoint: '%s' has no variables yet; call rf_model_build() first", t->name);
    for (uint32_t i = 0; i < model->tracked.count; i++) {
        const rf_model_variable *v = &model->tracked.items[i];
        if (!rf_model_keeps(model, v)) continue;
        RF_TRY(rf_item_append_variable(list, rf_asprintf("%s/%s", t->name, v->name), t, v->variable));
    }
    return RF_OK;
}

static rf_result check_model(const rf_tracked *t, const char *function)
{
    return rf_model_check_alive(t->object, function);
}

static void release_model(rf_tracked *t)
{
    rf_model_release(t->object);
}

static rf_variable *get_variable(const rf_tracked *t, uint32_t index, const char **name)
{
    const rf_model *model = t->object;
    for (uint32_t i = 0; i < model->tracked.count; i++) {
        const rf_model_variable *v = &model->tracked.items[i];
        if (!rf_model_keeps(model, v) || index-- > 0) continue;
        *name = v->name;
        return v->variable;
    }
    return NULL;
}

rf_result rf_checkpoint_add_model(rf_checkpoint *checkpoint, const char *name, rf_model *model)
{
    static const rf_tracked_kind kind = {
        .append = append_model, .check_alive = check_model, .release = release_model, .variable = get_variable
    };
    RF_TRY(
        rf_checkpoint_add(checkpoint, "rf_checkpoint_add_model", name,
                          (rf_tracked){ .kind = &kind, .strategy = model ? model->strategy : NULL, .object = model }));
    rf_model_retain(model);
    return RF_OK;
}
