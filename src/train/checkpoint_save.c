/* SPDX-License-Identifier: Apache-2.0 */
/* Saving: values are collected on all workers, the chief writes them, at once or in a thread. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/platform.h"
#include "train/checkpoint.h"

/* ---- snapshots ---- */

void rf_snapshot_free(rf_snapshot **snapshot)
{
    rf_snapshot *s = *snapshot;
    if (!s) return;
    rf_state_copy_destroy(&s->copy);
    rf_item_values_free(s->values, s->items.count);
    rf_items_free(&s->items);
    rf_free(s->path);
    rf_free(s);
    *snapshot = NULL;
}

void rf_checkpoint_free_room(rf_checkpoint *c)
{
    if (c->room) (void)munmap(c->room, c->room_size);
    c->room = NULL;
    c->room_size = 0;
}

static uint64_t room_for(const rf_item *item)
{
    return rf_align_up((uint64_t)rf_shape_count(item->shape) * sizeof(float), 64);
}

/* In large pages where the system has some: there are fewer of them to be made. */
static rf_result make_room(rf_checkpoint *c, const rf_item_list *items)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < items->count; i++)
        if (items->items[i].kind->defer) size += room_for(&items->items[i]);
    if (size <= c->room_size) return RF_OK;
    rf_checkpoint_free_room(c);
    void *room = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return RF_FAIL_ERRNO(RF_ERROR_OUT_OF_HOST_MEMORY, "no %llu bytes for a copy of the variables",
                             (unsigned long long)size);
    (void)madvise(room, size, MADV_HUGEPAGE);
    c->room = room;
    c->room_size = size;
    return RF_OK;
}

/* Only the chief keeps what is collected. */
static rf_result collect(const rf_checkpoint *c, rf_snapshot *s)
{
    char *room = c->room; /* NULL but on the chief */
    s->values = RF_NEW_ARRAY(rf_item_value, s->items.count);
    if (!s->values) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < s->items.count; i++) {
        const rf_item *item = &s->items.items[i];
        rf_item_value *value = &s->values[i];
        bool taken = false;
        rf_result r = RF_OK;
        if (item->kind->defer) r = item->kind->defer(item, s->copy, (float *)(void *)room, &taken);
        if (r >= 0 && taken) {
            const uint64_t size = (uint64_t)rf_shape_count(item->shape) * sizeof(float);
            *value =
                (rf_item_value){ .present = true, .borrowed = true, .shape = item->shape, .data = room, .size = size };
            if (room) room += room_for(item);
        } else if (r >= 0) {
            r = item->kind->collect(item, value);
        }
        RF_TRY(rf_error_context(r, "saving '%s'", item->name));
        if (rf_strategy_is_chief(c->strategy) || taken) continue;
        rf_free(value->data);
        *value = (rf_item_value){ 0 };
    }
    return RF_OK;
}

static rf_result take_snapshot(rf_checkpoint *c, const char *path, const rf_save_params *params, rf_snapshot **out)
{
    rf_snapshot *s = *out = RF_NEW(rf_snapshot);
    if (!s) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (params) s->params = *params;
    s->type = c->type;
    s->ops = c->ops ? c->ops : &rf_system_file_ops;
    s->path = rf_strdup(path);
    if (!s->path) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(rf_items_make(c, &s->items));
    if (rf_strategy_is_chief(c->strategy)) RF_TRY(make_room(c, &s->items));
    RF_TRY(rf_state_copy_create(c->strategy, &s->copy));
    RF_TRY(collect(c, s));
    return rf_strategy_is_chief(c->strategy) ? rf_state_copy_begin(s->copy) : RF_OK;
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

static rf_result copy_and_write(const rf_snapshot *s)
{
    RF_TRY(rf_state_copy_run(s->copy));
    return write_snapshot(s);
}

/* The next update waits for the copy; nothing waits for the rest, and the training goes first. */
static rf_result write_behind(const rf_snapshot *s)
{
    RF_TRY(rf_state_copy_run(s->copy));
    rf_thread_step_back();
    return write_snapshot(s);
}

static void *write_in_thread(void *argument)
{
    rf_snapshot *s = argument;
    s->result = write_behind(s);
    if (s->result < 0) rf_error_save(&s->error);
    return NULL;
}

/* The checkpoint owns the snapshot from here on. */
static void start(rf_checkpoint *c, rf_snapshot *s)
{
    c->pending = s;
    if (!rf_strategy_is_chief(c->strategy)) return;
    c->threaded = pthread_create(&c->thread, NULL, write_in_thread, s) == 0;
    if (c->threaded) return;
    s->result = copy_and_write(s); /* no thread to be had: then it takes as long as it takes */
    if (s->result < 0) rf_error_save(&s->error);
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
    rf_snapshot_free(&s);
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
        rf_snapshot_free(&s);
        r = rf_error_context(r, "rf_checkpoint_save");
        return rf_strategy_give_up(checkpoint->strategy, r);
    }
    if (s->params.async) {
        start(checkpoint, s);
        return RF_OK;
    }
    if (rf_strategy_is_chief(checkpoint->strategy)) r = copy_and_write(s);
    rf_snapshot_free(&s);
    rf_checkpoint_free_room(checkpoint);
    return rf_share_result(checkpoint->strategy, r);
}
