/* SPDX-License-Identifier: Apache-2.0 */
/* An optimizer in a checkpoint: the state of each of its variables, its counters and its settings. */
#include "train/optimizer/items.h"

#include <string.h>

#include "train/checkpoint/checkpoint.h"

/* ---- the list ---- */

/* A variable that an optimizer may have state for, and what it is called in the file. */
typedef struct candidate {
    rf_variable *variable;
    const char *name;   /* the variable's, or what its model calls it */
    const char *object; /* it was added with; NULL: only the optimizer knows it */
} candidate;
typedef struct candidate_list {
    candidate *items;
    uint32_t count, capacity;
} candidate_list;

static rf_result add_candidate(candidate_list *list, rf_variable *variable, const char *name, const char *object)
{
    if (!rf_variable_trainable(variable)) return RF_OK;
    for (uint32_t i = 0; i < list->count; i++)
        if (list->items[i].variable == variable) return RF_OK;
    RF_TRY(RF_VEC_GROW(list));
    list->items[list->count++] = (candidate){ variable, name, object };
    return RF_OK;
}

static rf_result find_candidates(const rf_tracked *tracked, candidate_list *list)
{
    const rf_checkpoint *c = tracked->checkpoint;
    for (uint32_t i = 0; i < c->objects.count; i++) {
        const rf_tracked *t = &c->objects.items[i];
        const char *name;
        rf_variable *v;
        for (uint32_t k = 0; t->kind->variable && (v = t->kind->variable(t, k, &name)); k++)
            RF_TRY(add_candidate(list, v, name, t->name));
    }
    const rf_variable_list known = rf_updater_variables(rf_optimizer_updater(tracked->object));
    for (uint32_t i = 0; i < known.count; i++)
        RF_TRY(add_candidate(list, known.items[i], rf_variable_name(known.items[i]), NULL));
    return RF_OK;
}

/* The variable's own name; with the object's in front where several have that. */
static rf_result candidate_name(const candidate_list *list, uint32_t index, char **out)
{
    const candidate *mine = &list->items[index];
    const char *name = mine->name;
    bool shared = false;
    for (uint32_t i = 0; i < list->count; i++) shared |= i != index && strcmp(list->items[i].name, name) == 0;
    RF_REQUIRE(!shared || mine->object,
               "checkpoint: the optimizer updates two variables '%s'; add them or their models to the checkpoint",
               name);
    *out = shared ? rf_asprintf("%s/%s", mine->object, name) : rf_strdup(name);
    return *out ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

static rf_result append_state(rf_item_list *list, const rf_tracked *tracked, rf_variable *v, const char *name)
{
    rf_updater *u = rf_optimizer_updater(tracked->object);
    const rf_optimizer_config *config = rf_optimizer_configuration(tracked->object);
    const uint32_t num_slots = rf_updater_parameters(u)->num_slots;
    for (uint32_t k = 0; k < num_slots; k++)
        RF_TRY(rf_item_append(list, rf_asprintf("%s/%s/%s", tracked->name, rf_optimizer_config_slot(config, k), name),
                              (rf_item){ .kind = &rf_slot_item_kind,
                                         .tracked = tracked,
                                         .variable = v,
                                         .slot = k,
                                         .siblings = k == 0 ? num_slots - 1 : 0,
                                         .shape = rf_variable_shape(v) }));
    if (rf_updater_parameters(u)->accumulation_steps == 1) return RF_OK;
    return rf_item_append(list, rf_asprintf("%s/accumulated_gradient/%s", tracked->name, name),
                          (rf_item){ .kind = &rf_totals_item_kind,
                                     .tracked = tracked,
                                     .variable = v,
                                     .shape = RF_SHAPE(rf_strategy_num_replicas_in_sync(tracked->strategy),
                                                       rf_shape_count(rf_variable_shape(v))) });
}

static rf_result append_optimizer(const rf_tracked *tracked, rf_item_list *list)
{
    candidate_list candidates = { 0 };
    rf_result r = find_candidates(tracked, &candidates);
    for (uint32_t i = 0; r >= 0 && i < candidates.count; i++) {
        char *name = NULL;
        r = candidate_name(&candidates, i, &name);
        if (r >= 0) r = append_state(list, tracked, candidates.items[i].variable, name);
        rf_free(name);
    }
    rf_free(candidates.items);
    RF_TRY(r);
    RF_TRY(rf_item_append_plain(list, tracked, "/iterations", &rf_iterations_item_kind));
    RF_TRY(rf_item_append_plain(list, tracked, "/accumulated_steps", &rf_accumulated_item_kind));
    RF_TRY(rf_item_append_plain(list, tracked, "/accumulated_weight", &rf_weight_item_kind));
    if (rf_optimizer_configuration(tracked->object)->params.loss_scale)
        RF_TRY(rf_item_append(list, rf_asprintf("%s/loss_scale", tracked->name),
                              (rf_item){ .kind = &rf_scale_item_kind, .tracked = tracked, .shape = RF_SHAPE(2) }));
    RF_TRY(rf_item_append_plain(list, tracked, "/kind", &rf_optimizer_item_kind));
    RF_TRY(rf_item_append_plain(list, tracked, "/settings", &rf_settings_item_kind));
    return rf_item_append_plain(list, tracked, "/learning_rate", &rf_schedule_item_kind);
}

/* ---- the object ---- */

/* A file of an optimizer that has made steps has slots of some variable. */
static rf_result find_missing(const rf_tracked *tracked, const rf_item_list *list, const rf_item_value *values,
                              rf_missing_fn missing, void *user)
{
    bool steps = false, slots = false;
    for (uint32_t i = 0; i < list->count; i++) {
        const rf_item *item = &list->items[i];
        if (item->tracked != tracked) continue;
        if (item->kind == &rf_slot_item_kind) slots |= values[i].present;
        if (item->kind == &rf_iterations_item_kind || item->kind == &rf_accumulated_item_kind)
            steps |= values[i].number > 0;
    }
    for (uint32_t i = 0; steps && !slots && i < list->count; i++)
        if (list->items[i].tracked == tracked && list->items[i].kind == &rf_slot_item_kind)
            RF_TRY(missing(user, list->items[i].name));
    return RF_OK;
}

/* Makes the variables whose state was found known, all at once. */
static rf_result begin_apply(const rf_tracked *tracked, const rf_item_list *list, const rf_item_value *values)
{
    rf_variable **found = RF_NEW_ARRAY(rf_variable *, list->count);
    uint32_t count = 0;
    if (!found) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < list->count; i++) {
        const rf_item *item = &list->items[i];
        const bool state = item->kind == &rf_slot_item_kind || item->kind == &rf_totals_item_kind;
        if (!state || item->tracked != tracked || !values[i].present) continue;
        if (count == 0 || found[count - 1] != item->variable) found[count++] = item->variable;
    }
    const rf_result r = rf_updater_learn(rf_optimizer_updater(tracked->object), found, count);
    rf_free(found);
    return r;
}

static rf_result check_optimizer(const rf_tracked *t, const char *function)
{
    return rf_optimizer_check_alive(t->object, function);
}

static void release_optimizer(rf_tracked *t)
{
    rf_optimizer_release(t->object);
}

static rf_updater *get_updater(const rf_tracked *t)
{
    return rf_optimizer_updater(t->object);
}

rf_result rf_checkpoint_add_optimizer(rf_checkpoint *checkpoint, const char *name, rf_optimizer *optimizer)
{
    static const rf_tracked_kind kind = { .append = append_optimizer,
                                          .check_alive = check_optimizer,
                                          .release = release_optimizer,
                                          .updater = get_updater,
                                          .find_missing = find_missing,
                                          .begin_apply = begin_apply };
    RF_TRY(rf_checkpoint_add(checkpoint, "rf_checkpoint_add_optimizer", name,
                             (rf_tracked){ .kind = &kind,
                                           .strategy = optimizer ? rf_optimizer_strategy(optimizer) : NULL,
                                           .object = optimizer }));
    rf_optimizer_retain(optimizer);
    return RF_OK;
}
