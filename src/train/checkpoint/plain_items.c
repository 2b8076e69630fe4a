/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, texts and bytes in a checkpoint: the steps of a function, counters of the program, what callbacks keep. */
#include "step/step.h"
#include "train/checkpoint/checkpoint.h"

/* ---- steps of a function ---- */

static rf_result collect_step(const rf_item *item, rf_item_value *value)
{
    rf_item_value_set_number(value, rf_function_step(item->tracked->object));
    return RF_OK;
}

static rf_result apply_step(rf_item *item, const rf_item_value *value)
{
    rf_function_set_step(item->tracked->object, value->number);
    return RF_OK;
}

static rf_result append_function(const rf_tracked *t, rf_item_list *list)
{
    static const rf_item_kind step_kind = { .form = RF_ITEM_NUMBER, .collect = collect_step, .apply = apply_step };
    return rf_item_append_plain(list, t, "/step", &step_kind);
}

static rf_result check_function(const rf_tracked *t, const char *function)
{
    return rf_function_check_alive(t->object, function);
}

static void release_function(rf_tracked *t)
{
    rf_function_release(t->object);
}

rf_result rf_checkpoint_add_function(rf_checkpoint *checkpoint, const char *name, rf_function *function)
{
    static const rf_tracked_kind kind = { .append = append_function,
                                          .check_alive = check_function,
                                          .release = release_function };
    RF_TRY(rf_checkpoint_add(checkpoint, "rf_checkpoint_add_function", name,
                             (rf_tracked){ .kind = &kind,
                                           .strategy = function ? rf_function_strategy(function) : NULL,
                                           .object = function }));
    rf_function_retain(function);
    return RF_OK;
}

/* ---- counters: the program's memory ---- */

static rf_result collect_counter(const rf_item *item, rf_item_value *value)
{
    rf_item_value_set_number(value, *(const uint64_t *)item->tracked->object);
    return RF_OK;
}

static rf_result apply_counter(rf_item *item, const rf_item_value *value)
{
    *(uint64_t *)item->tracked->object = value->number;
    return RF_OK;
}

static rf_result append_counter(const rf_tracked *t, rf_item_list *list)
{
    static const rf_item_kind counter_kind = { .form = RF_ITEM_NUMBER,
                                               .collect = collect_counter,
                                               .apply = apply_counter };
    return rf_item_append_plain(list, t, "", &counter_kind);
}

rf_result rf_checkpoint_add_counter(rf_checkpoint *checkpoint, const char *name, uint64_t *counter)
{
    static const rf_tracked_kind kind = { .append = append_counter };
    return rf_checkpoint_add(checkpoint, "rf_checkpoint_add_counter", name,
                             (rf_tracked){ .kind = &kind, .object = counter });
}

/* ---- bytes of anything else: a tensor, because they may be many ---- */

static rf_result collect_blob(const rf_item *item, rf_item_value *value)
{
    const rf_tracked *t = item->tracked;
    size_t size = 0;
    const uint64_t before = rf_error_count();
    const rf_result r = t->blob.save(t->object, &value->data, &size);
    RF_TRY(rf_error_context(rf_error_of_user(r, before, "the function that saves it"), "%s", item->name));
    value->present = value->data && size > 0;
    value->size = size;
    value->shape = RF_SHAPE((int64_t)size);
    return RF_OK;
}

static rf_result apply_blob(rf_item *item, const rf_item_value *value)
{
    const rf_tracked *t = item->tracked;
    if (!value->present) return RF_OK;
    const uint64_t before = rf_error_count();
    const rf_result r = t->blob.restore(t->object, value->data, (size_t)value->size);
    return rf_error_context(rf_error_of_user(r, before, "the function that restores it"), "%s", item->name);
}

static rf_result append_blob(const rf_tracked *t, rf_item_list *list)
{
    static const rf_item_kind blob_kind = { .form = RF_ITEM_TENSOR,
                                            .dtype = RF_U8,
                                            .optional = true,
                                            .free_rows = true,
                                            .collect = collect_blob,
                                            .apply = apply_blob };
    return rf_item_append(list, rf_asprintf("%s/state", t->name),
                          (rf_item){ .kind = &blob_kind, .tracked = t, .shape = RF_SHAPE(0) });
}

rf_result rf_checkpoint_add_blob(rf_checkpoint *checkpoint, const char *name, const rf_blob_fns *fns, void *user)
{
    static const rf_tracked_kind kind = { .append = append_blob };
    return rf_checkpoint_add(checkpoint, "rf_checkpoint_add_blob", name,
                             (rf_tracked){ .kind = &kind, .object = user, .blob = *fns });
}

/* ---- texts ---- */

static rf_result collect_text(const rf_item *item, rf_item_value *value)
{
    return rf_item_value_set_text(value, rf_strdup(item->tracked->object));
}

static rf_result append_text(const rf_tracked *t, rf_item_list *list)
{
    static const rf_item_kind text_kind = { .form = RF_ITEM_TEXT, .collect = collect_text };
    return rf_item_append_plain(list, t, "", &text_kind);
}

rf_result rf_checkpoint_add_text(rf_checkpoint *checkpoint, const char *name, const char *text)
{
    static const rf_tracked_kind kind = { .append = append_text };
    char *borrowed = (char *)(uintptr_t)text; /* only read */
    return rf_checkpoint_add(checkpoint, "rf_checkpoint_add_text", name,
                             (rf_tracked){ .kind = &kind, .object = borrowed });
}
