/* SPDX-License-Identifier: Apache-2.0 */
/* Saving: what the plan says is taken and written, at once or in a thread. */
#include <errno.h>
#include <sys/mman.h>

#include "base/params.h"
#include "base/threads.h"
#include "train/checkpoint/checkpoint.h"

/* ---- the plan ---- */

static rf_result plan_save(const rf_checkpoint *c, rf_snapshot *s)
{
    const uint32_t count = s->items.count;
    rf_save_input *inputs = RF_NEW_ARRAY(rf_save_input, count);
    rf_result r = inputs ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; r >= 0 && i < count; i++) {
        const rf_item *item = &s->items.items[i];
        const rf_item_kind *kind = item->kind;
        inputs[i].reach = !kind->owners ? RF_SAVE_TOGETHER : kind->collect ? RF_SAVE_OWNERS : RF_SAVE_EVERYWHERE;
        if (kind->owners) r = rf_error_context(kind->owners(item, &inputs[i].owners), "saving '%s'", item->name);
    }
    if (r >= 0)
        r = rf_save_plan_make(inputs, count, s->params.sharded, rf_strategy_rank(c->strategy),
                              rf_strategy_world_size(c->strategy), &s->plan);
    for (uint32_t i = 0; inputs && i < count; i++) rf_free(inputs[i].owners.items);
    rf_free(inputs);
    return r;
}

/* ---- values ---- */

/* In pages of the ordinary size: to make large ones the system may have to move others first, which took four times as
 * long. */
static rf_result grow_staging(rf_checkpoint *c, uint64_t size)
{
    if (size <= c->staging_size) return RF_OK;
    rf_checkpoint_free_staging(c);
    void *staging = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (staging == MAP_FAILED)
        return RF_FAIL_ERRNO(RF_ERROR_OUT_OF_HOST_MEMORY, "no %llu bytes for a copy of the variables",
                             (unsigned long long)size);
    c->staging = staging;
    c->staging_size = size;
    return RF_OK;
}

static rf_result collect_value(const rf_snapshot *s, const rf_item *item, rf_item_value *value)
{
    RF_TRY(item->kind->collect(item, value));
    if (s->plan.rank == 0) return RF_OK;
    rf_free(value->data); /* only the chief keeps it */
    *value = (rf_item_value){ 0 };
    return RF_OK;
}

/* Takes the elements that this worker writes from its own memory. */
static rf_result take_own(const rf_snapshot *s, const rf_save_entry *entry, const rf_item *item, void *staging,
                          rf_item_value *value)
{
    float *to = entry->count > 0 ? (float *)((char *)staging + entry->offset) : NULL;
    *value = (rf_item_value){ .present = entry->writers.count > 0,
                              .borrowed = true,
                              .shape = item->shape,
                              .data = to,
                              .size = entry->count * sizeof(*to) };
    for (uint32_t i = 0; i < entry->writers.count; i++) {
        const rf_owned *owned = &entry->writers.items[i];
        bool taken = false;
        if (owned->rank != s->plan.rank) continue;
        if (item->kind->defer) RF_TRY(item->kind->defer(item, s->copy, owned->range, to, &taken));
        if (!taken) RF_TRY(item->kind->read(item, owned->range, to));
        to += owned->range.end - owned->range.begin;
    }
    return RF_OK;
}

static rf_result take_values(const rf_checkpoint *c, const rf_snapshot *s)
{
    for (uint32_t i = 0; i < s->items.count; i++) {
        const rf_save_entry *entry = &s->plan.entries[i];
        const rf_item *item = &s->items.items[i];
        const rf_result r = entry->collected ? collect_value(s, item, &s->values[i])
                                             : take_own(s, entry, item, c->staging, &s->values[i]);
        RF_TRY(rf_error_context(r, "saving '%s'", item->name));
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
    s->values = RF_NEW_ARRAY(rf_item_value, s->items.count);
    if (!s->values) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(plan_save(c, s));
    if (s->plan.sharded) RF_TRY(rf_part_id_draw(c->strategy, &s->id));
    RF_TRY(grow_staging(c, s->plan.staging_size));
    RF_TRY(rf_state_copy_create(c->strategy, &s->copy));
    RF_TRY(take_values(c, s));
    return s->plan.file == RF_SAVE_NO_FILE ? RF_OK : rf_state_copy_begin(s->copy);
}

/* ---- writing ---- */

/* The next update waits for the copy; nothing waits for the rest, and in a thread of its own the training goes first.
 */
static rf_result copy_and_write(rf_snapshot *s, bool behind)
{
    RF_TRY(rf_state_copy_run(s->copy));
    if (behind) rf_thread_lower_priority();
    return rf_snapshot_write(s);
}

static void *write_in_thread(void *argument)
{
    rf_snapshot *s = argument;
    s->result = copy_and_write(s, true);
    if (s->result < 0) rf_error_save(&s->error);
    return NULL;
}

/* The checkpoint owns the snapshot from here on. */
static void start_thread(rf_checkpoint *c, rf_snapshot *s)
{
    c->pending = s;
    if (s->plan.file == RF_SAVE_NO_FILE) return;
    c->threaded = pthread_create(&c->thread, NULL, write_in_thread, s) == 0;
    if (c->threaded) return;
    s->result = copy_and_write(s, false); /* no thread to be had: then it takes as long as it takes */
    if (s->result < 0) rf_error_save(&s->error);
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
        return rf_strategy_fail_in_job(checkpoint->strategy, r);
    }
    if (s->params.async) {
        start_thread(checkpoint, s);
        return RF_OK;
    }
    if (s->plan.file != RF_SAVE_NO_FILE) r = copy_and_write(s, false);
    r = rf_snapshot_commit(checkpoint->strategy, s, r);
    rf_snapshot_free(&s);
    rf_checkpoint_free_staging(checkpoint);
    return r;
}
