/* SPDX-License-Identifier: Apache-2.0 */
/* Saving: values are collected on all workers, the chief writes them, at once or in a thread. */
#include <string.h>

#include "replica/strategy.h"
#include "train/checkpoint.h"

/* ---- snapshots ---- */

static void free_snapshot(rf_snapshot **snapshot)
{
    rf_snapshot *s = *snapshot;
    if (!s) return;
    rf_item_values_free(s->values, s->items.count);
    rf_items_free(&s->items);
    rf_free(s->path);
    rf_free(s);
    *snapshot = NULL;
}

/* Only the chief keeps what is collected. */
static rf_result collect(const rf_checkpoint *c, rf_snapshot *s)
{
    s->values = RF_NEW_ARRAY(rf_item_value, s->items.count);
    if (!s->values) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < s->items.count; i++) {
        const rf_item *item = &s->items.items[i];
        RF_TRY(rf_error_context(item->kind->collect(item, &s->values[i]), "saving '%s'", item->name));
        if (rf_strategy_is_chief(c->strategy)) continue;
        rf_free(s->values[i].data);
        s->values[i] = (rf_item_value){ 0 };
    }
    return RF_OK;
}

static rf_result take_snapshot(const rf_checkpoint *c, const char *path, const rf_save_params *params,
                               rf_snapshot **out)
{
    rf_snapshot *s = *out = RF_NEW(rf_snapshot);
    if (!s) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (params) s->params = *params;
    s->type = c->type;
    s->ops = c->ops ? c->ops : &rf_system_file_ops;
    s->path = rf_strdup(path);
    if (!s->path) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(rf_items_make(c, &s->items));
    return collect(c, s);
}

/* ---- the file ---- */

static rf_archive_value as_value(const rf_item *item, const rf_item_value *value)
{
    static const rf_archive_value_kind kinds[] = {
        [RF_ITEM_NUMBER] = RF_VALUE_UINT, [RF_ITEM_BYTES] = RF_VALUE_BYTES, [RF_ITEM_TEXT] = RF_VALUE_STRING
    };
    return (rf_archive_value){ .name = item->name,
                               .kind = kinds[item->kind->form],
                               .number = value->number,
                               .bytes = value->data,
                               .size = value->size };
}

static rf_result write_snapshot(const rf_snapshot *s)
{
    rf_archive_tensor *tensors = RF_NEW_ARRAY(rf_archive_tensor, s->items.count);
    rf_archive_value *values = RF_NEW_ARRAY(rf_archive_value, s->items.count);
    rf_archive_contents contents = { .type = s->type, .tensors = tensors, .values = values };
    for (uint32_t i = 0; tensors && values && i < s->items.count; i++) {
        const rf_item *item = &s->items.items[i];
        const rf_item_value *value = &s->values[i];
        if (!value->present) continue;
        if (item->kind->form == RF_ITEM_TENSOR)
            tensors[contents.num_tensors++] =
                (rf_archive_tensor){ item->name, item->kind->dtype, value->shape, value->data };
        else
            values[contents.num_values++] = as_value(item, value);
    }
    const rf_result r =
        tensors && values ? rf_archive_write_with(s->ops, s->path, &contents, &s->params) : RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_free(tensors);
    rf_free(values);
    return r;
}

static void *write_in_thread(void *argument)
{
    rf_snapshot *s = argument;
    s->result = write_snapshot(s);
    if (s->result < 0) rf_error_save(&s->error);
    return NULL;
}

/* The checkpoint owns the snapshot from here on. */
static void start(rf_checkpoint *c, rf_snapshot *s)
{
    c->pending = s;
    if (!rf_strategy_is_chief(c->strategy)) return;
    c->threaded = pthread_create(&c->thread, NULL, write_in_thread, s) == 0;
    if (!c->threaded) (void)write_in_thread(s); /* no thread to be had: then it takes as long as it takes */
}

/* ---- public ---- */

rf_result rf_checkpoint_wait(rf_checkpoint *checkpoint)
{
    RF_REQUIRE(checkpoint, "rf_checkpoint_wait: checkpoint is NULL");
    rf_snapshot *s = checkpoint->pending;
    if (!s) return RF_OK;
    if (checkpoint->threaded) (void)pthread_join(checkpoint->thread, NULL);
    checkpoint->threaded = false;
    checkpoint->pending = NULL;
    rf_result r = s->result < 0 ? rf_error_restore(&s->error) : RF_OK;
    r = rf_error_context(r, "saving checkpoint '%s' in the background", s->path);
    free_snapshot(&s);
    return rf_share_result(checkpoint->strategy, r);
}

rf_result rf_checkpoint_save(rf_checkpoint *checkpoint, const char *path, const rf_save_params *params)
{
    RF_REQUIRE(checkpoint, "rf_checkpoint_save: checkpoint is NULL");
    RF_REQUIRE(path && *path, "rf_checkpoint_save: path is empty");
    RF_TRY(rf_checkpoint_wait(checkpoint));
    rf_snapshot *s = NULL;
    rf_result r = take_snapshot(checkpoint, path, params, &s);
    if (r < 0) {
        free_snapshot(&s);
        r = rf_error_context(r, "rf_checkpoint_save");
        return rf_strategy_give_up(checkpoint->strategy, r);
    }
    if (s->params.async) {
        start(checkpoint, s);
        return RF_OK;
    }
    if (rf_strategy_is_chief(checkpoint->strategy)) r = write_snapshot(s);
    free_snapshot(&s);
    return rf_share_result(checkpoint->strategy, r);
}
