/* SPDX-License-Identifier: Apache-2.0 */
/* A variable in a checkpoint: its values. */
#include "train/checkpoint/checkpoint.h"

/* Every worker has all of it: each writes what it updates. Others than trainable variables may differ; the chief's
 * count. */
static rf_result find_owners(const rf_item *item, rf_owned_list *out)
{
    const rf_checkpoint *c = item->tracked->checkpoint;
    const bool trainable = rf_variable_trainable(item->variable);
    for (uint32_t i = 0; trainable && i < c->objects.count && out->count == 0; i++) {
        const rf_tracked *t = &c->objects.items[i];
        if (t->kind->updater) RF_TRY(rf_updater_owners(t->kind->updater(t), item->variable, out));
    }
    if (out->count > 0) return RF_OK;
    RF_TRY(RF_VEC_GROW(out));
    out->items[out->count++] = (rf_owned){ trainable ? RF_RANK_ALL : 0, { 0, (uint64_t)rf_shape_count(item->shape) } };
    return RF_OK;
}

static rf_result read_values(const rf_item *item, rf_range range, float *to)
{
    return rf_variable_read_range(item->variable, range, to);
}

static rf_result defer_values(const rf_item *item, rf_state_copy *copy, rf_range range, float *to, bool *taken)
{
    return rf_state_copy_variable(copy, item->variable, range, to, taken);
}

static rf_result apply_values(rf_item *item, const rf_item_value *value)
{
    return rf_variable_assign(item->variable, value->data);
}

static const rf_item_kind values_kind = { .form = RF_ITEM_TENSOR,
                                          .dtype = RF_F32,
                                          .owners = find_owners,
                                          .read = read_values,
                                          .defer = defer_values,
                                          .apply = apply_values };

rf_result rf_item_append_variable(rf_item_list *list, char *name, const rf_tracked *tracked, rf_variable *variable)
{
    return rf_item_append(
        list, name,
        (rf_item){
            .kind = &values_kind, .tracked = tracked, .variable = variable, .shape = rf_variable_shape(variable) });
}

/* ---- one that was added by itself ---- */

static rf_result append_variable(const rf_tracked *t, rf_item_list *list)
{
    return rf_item_append_variable(list, rf_strdup(t->name), t, t->object);
}

static rf_variable *get_variable(const rf_tracked *t, uint32_t index, const char **name)
{
    if (index > 0) return NULL;
    *name = rf_variable_name(t->object);
    return t->object;
}

static void release_variable(rf_tracked *t)
{
    rf_variable_release(t->object);
}

/* A variable that was destroyed is still whole. */
static const rf_tracked_kind variable_kind = { .append = append_variable,
                                               .release = release_variable,
                                               .variable = get_variable };

rf_result rf_checkpoint_add_variable(rf_checkpoint *checkpoint, const char *name, rf_variable *variable)
{
    RF_TRY(rf_checkpoint_add(checkpoint, "rf_checkpoint_add_variable", name,
                             (rf_tracked){ .kind = &variable_kind,
                                           .strategy = variable ? rf_variable_strategy(variable) : NULL,
                                           .object = variable }));
    rf_variable_retain(variable);
    return RF_OK;
}
