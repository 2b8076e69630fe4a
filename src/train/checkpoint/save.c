/* SPDX-License-Identifier: Apache-2.0 */
/* Saving: values are collected on all workers, and the chief writes them, or each worker its own, at once or in a
 * thread. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/params.h"
#include "base/threads.h"
#include "train/checkpoint/checkpoint.h"

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

/* Elements of an item with owners that this worker writes. */
static uint64_t owned_count(const rf_snapshot *s, uint32_t index)
{
    const rf_owned_list *owners = &s->values[index].owners;
    uint64_t count = 0;
    for (uint32_t i = 0; i < owners->count; i++)
        if (owners->items[i].rank == s->rank) count += owners->items[i].range.end - owners->items[i].range.begin;
    return count;
}

static uint64_t room_for(const rf_snapshot *s, uint32_t index)
{
    const rf_item *item = &s->items.items[index];
    uint64_t count = 0;
    if (s->values[index].owners.count > 0)
        count = owned_count(s, index);
    else if (item->kind->defer && s->rank == 0)
        count = (uint64_t)rf_shape_count(item->shape);
    return rf_align_up(count * sizeof(float), 64);
}

/* In pages of the ordinary size: to make large ones the system may have to move others first, which took four times as
 * long. */
static rf_result make_room(rf_checkpoint *c, const rf_snapshot *s)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < s->items.count; i++) size += room_for(s, i);
    if (size <= c->room_size) return RF_OK;
    rf_checkpoint_free_room(c);
    void *room = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return RF_FAIL_ERRNO(RF_ERROR_OUT_OF_HOST_MEMORY, "no %llu bytes for a copy of the variables",
                             (unsigned long long)size);
    c->room = room;
    c->room_size = size;
    return RF_OK;
}

/* Takes what it uses of the room. */
static rf_result collect_whole(const rf_snapshot *s, uint32_t index, char **room)
{
    const rf_item *item = &s->items.items[index];
    const rf_item_kind *kind = item->kind;
    rf_item_value *value = &s->values[index];
    const uint64_t count = kind->defer ? (uint64_t)rf_shape_count(item->shape) : 0;
    bool taken = false;
    if (kind->defer && !(kind->exchanged && s->world_size > 1))
        RF_TRY(kind->defer(item, s->copy, (rf_range){ 0, count }, (float *)(void *)*room, &taken));
    if (!taken) {
        RF_TRY(kind->collect(item, value));
        if (s->rank == 0) return RF_OK;
        rf_free(value->data); /* only the chief keeps it */
        *value = (rf_item_value){ 0 };
        return RF_OK;
    }
    *value = (rf_item_value){
        .present = true, .borrowed = true, .shape = item->shape, .data = *room, .size = count * sizeof(float)
    };
    if (*room) *room += room_for(s, index); /* NULL but on the chief */
    return RF_OK;
}

/* What this worker owns, from its own memory. */
static rf_result collect_owned(const rf_snapshot *s, uint32_t index, char **room)
{
    const rf_item *item = &s->items.items[index];
    rf_item_value *value = &s->values[index];
    float *to = (float *)(void *)*room;
    value->present = value->borrowed = true;
    value->shape = item->shape;
    value->data = *room;
    value->size = owned_count(s, index) * sizeof(float);
    for (uint32_t i = 0; i < value->owners.count; i++) {
        const rf_owned *owned = &value->owners.items[i];
        bool taken = false;
        if (owned->rank != s->rank) continue;
        if (item->kind->defer) RF_TRY(item->kind->defer(item, s->copy, owned->range, to, &taken));
        if (!taken) RF_TRY(item->kind->read(item, owned->range, to));
        to += owned->range.end - owned->range.begin;
    }
    if (*room) *room += room_for(s, index);
    return RF_OK;
}

static rf_result snapshot_collect(const rf_checkpoint *c, const rf_snapshot *s)
{
    char *room = c->room;
    for (uint32_t i = 0; i < s->items.count; i++) {
        const rf_result r = s->values[i].owners.count > 0 ? collect_owned(s, i, &room) : collect_whole(s, i, &room);
        RF_TRY(rf_error_context(r, "saving '%s'", s->items.items[i].name));
    }
    return RF_OK;
}

/* Who writes what. */
static rf_result share_out(const rf_checkpoint *c, rf_snapshot *s)
{
    for (uint32_t i = 0; i < s->items.count; i++) {
        const rf_item *item = &s->items.items[i];
        if (item->kind->owners)
            RF_TRY(rf_error_context(item->kind->owners(c, item, &s->values[i].owners), "saving '%s'", item->name));
    }
    return rf_part_id_draw(c->strategy, &s->id);
}

static bool writes_file(const rf_snapshot *s)
{
    return s->sharded || s->rank == 0;
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
    s->rank = rf_strategy_rank(c->strategy);
    s->world_size = rf_strategy_world_size(c->strategy);
    s->sharded = s->params.sharded && s->world_size > 1;
    RF_TRY(rf_items_make(c, &s->items));
    s->values = RF_NEW_ARRAY(rf_item_value, s->items.count);
    if (!s->values) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (s->sharded) RF_TRY(share_out(c, s));
    RF_TRY(make_room(c, s));
    RF_TRY(rf_state_copy_create(c->strategy, &s->copy));
    RF_TRY(snapshot_collect(c, s));
    return writes_file(s) ? rf_state_copy_begin(s->copy) : RF_OK;
}

static rf_result write_mine(rf_snapshot *s)
{
    return s->sharded ? rf_snapshot_write_part(s) : rf_snapshot_write(s);
}

static rf_result copy_and_write(rf_snapshot *s)
{
    RF_TRY(rf_state_copy_run(s->copy));
    return write_mine(s);
}

/* The next update waits for the copy; nothing waits for the rest, and the training goes first. */
static rf_result write_behind(rf_snapshot *s)
{
    RF_TRY(rf_state_copy_run(s->copy));
    rf_thread_step_back();
    return write_mine(s);
}

static void *write_in_thread(void *argument)
{
    rf_snapshot *s = argument;
    s->result = write_behind(s);
    if (s->result < 0) rf_error_save(&s->error);
    return NULL;
}

/* The checkpoint owns the snapshot from here on. */
static void start_thread(rf_checkpoint *c, rf_snapshot *s)
{
    c->pending = s;
    if (!writes_file(s)) return;
    c->threaded = pthread_create(&c->thread, NULL, write_in_thread, s) == 0;
    if (c->threaded) return;
    s->result = copy_and_write(s); /* no thread to be had: then it takes as long as it takes */
    if (s->result < 0) rf_error_save(&s->error);
}

/* All workers learn how it went, and the parts become a checkpoint. `mine` is how this worker's writing went. */
static rf_result conclude_save(rf_checkpoint *c, rf_snapshot *s, rf_result mine)
{
    return s->sharded ? rf_snapshot_commit(c->strategy, s, mine) : rf_share_result(c->strategy, mine);
}

void rf_checkpoint_tell_end(rf_checkpoint *c, bool written)
{
    void (*const fn)(void *, bool) = c->on_end;
    c->on_end = NULL;
    if (fn) fn(c->on_end_user, written);
}

/* ---- public ---- */

rf_result rf_checkpoint_wait(rf_checkpoint *checkpoint)
{
    RF_REQUIRE(checkpoint, "rf_checkpoint_wait: checkpoint is NULL");
    RF_TRY(rf_strategy_check_process(checkpoint->strategy));
    rf_snapshot *s = checkpoint->pending;
    if (!s) return RF_OK;
    if (checkpoint->threaded) (void)pthread_join(checkpoint->thread, NULL);
    checkpoint->threaded = false;
    checkpoint->pending = NULL;
    rf_result r = s->result < 0 ? rf_error_restore(&s->error) : RF_OK;
    r = rf_error_context(r, "saving checkpoint '%s' in the background", s->path);
    r = conclude_save(checkpoint, s, r);
    rf_snapshot_free(&s);
    rf_checkpoint_tell_end(checkpoint, r >= 0);
    return r;
}

rf_result rf_checkpoint_save(rf_checkpoint *checkpoint, const char *path, const rf_save_params *params)
{
    RF_TRY(RF_PARAMS_CHECK(rf_save_params, params));
    RF_REQUIRE(checkpoint, "rf_checkpoint_save: checkpoint is NULL");
    RF_TRY(rf_strategy_check_process(checkpoint->strategy));
    RF_REQUIRE(path && *path, "rf_checkpoint_save: path is empty");
    RF_TRY(rf_checkpoint_check_alive(checkpoint, "rf_checkpoint_save"));
    RF_TRY(rf_checkpoint_wait(checkpoint));
    rf_snapshot *s = NULL;
    rf_result r = take_snapshot(checkpoint, path, params, &s);
    if (r < 0) {
        rf_snapshot_free(&s);
        r = rf_error_context(r, "rf_checkpoint_save");
        return rf_strategy_give_up(checkpoint->strategy, r);
    }
    if (s->params.async) {
        start_thread(checkpoint, s);
        return RF_OK;
    }
    if (writes_file(s)) r = copy_and_write(s);
    r = conclude_save(checkpoint, s, r);
    rf_snapshot_free(&s);
    rf_checkpoint_free_room(checkpoint);
    return r;
}
