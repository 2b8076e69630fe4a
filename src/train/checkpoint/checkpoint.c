/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint: its objects, and the end of a save in the background. */
#include "train/checkpoint/checkpoint.h"

#include <string.h>
#include <sys/mman.h>

#include "base/platform.h"

/* ---- the seed of initial values and dropout ---- */

static rf_result collect_seed(const rf_item *item, rf_item_value *value)
{
    rf_item_value_set_number(value, rf_strategy_seed(item->tracked->strategy));
    return RF_OK;
}

static rf_result apply_seed(rf_item *item, const rf_item_value *value)
{
    rf_strategy_set_seed(item->tracked->strategy, value->number);
    return RF_OK;
}

static rf_result append_seed(const rf_tracked *t, rf_item_list *list)
{
    static const rf_item_kind seed_kind = { .form = RF_ITEM_NUMBER, .collect = collect_seed, .apply = apply_seed };
    return rf_item_append_plain(list, t, "/seed", &seed_kind);
}

/* ---- objects ---- */

static rf_result append_object(rf_checkpoint *checkpoint, const char *name, rf_tracked tracked)
{
    RF_TRY(RF_VEC_GROW(&checkpoint->objects));
    tracked.name = rf_strdup(name);
    if (!tracked.name) return RF_ERROR_OUT_OF_HOST_MEMORY;
    tracked.checkpoint = checkpoint;
    tracked.strategy = checkpoint->strategy;
    checkpoint->objects.items[checkpoint->objects.count++] = tracked;
    return RF_OK;
}

rf_result rf_checkpoint_add(rf_checkpoint *checkpoint, const char *function, const char *name, rf_tracked tracked)
{
    RF_REQUIRE(checkpoint, "%s: checkpoint is NULL", function);
    RF_REQUIRE(name && *name, "%s: name is empty", function);
    RF_REQUIRE(!strchr(name, '/'), "%s: name '%s' contains a '/'", function, name);
    RF_REQUIRE(strcmp(name, "strategy") != 0, "%s: the name 'strategy' is taken by the strategy itself", function);
    RF_REQUIRE(tracked.object || tracked.blob.save, "%s: '%s' is NULL", function, name);
    RF_REQUIRE(!tracked.strategy || tracked.strategy == checkpoint->strategy,
               "%s: '%s' is on another strategy than the checkpoint", function, name);
    for (uint32_t i = 0; i < checkpoint->objects.count; i++)
        RF_REQUIRE(strcmp(checkpoint->objects.items[i].name, name) != 0, "%s: there is a '%s' already", function, name);
    if (tracked.kind->check_alive && !tracked.kind->checked_later)
        RF_TRY(tracked.kind->check_alive(&tracked, function));
    return append_object(checkpoint, name, tracked);
}

rf_result rf_checkpoint_check_alive(const rf_checkpoint *checkpoint, const char *function)
{
    for (uint32_t i = 0; i < checkpoint->objects.count; i++) {
        const rf_tracked *tracked = &checkpoint->objects.items[i];
        if (tracked->kind->check_alive) RF_TRY(tracked->kind->check_alive(tracked, function));
    }
    return RF_OK;
}

/* ---- a save in the background ---- */

void rf_checkpoint_free_staging(rf_checkpoint *c)
{
    if (c->staging) (void)munmap(c->staging, c->staging_size);
    c->staging = NULL;
    c->staging_size = 0;
}

static void tell_end(rf_checkpoint *c, bool written)
{
    void (*const fn)(void *, bool) = c->on_end;
    c->on_end = NULL;
    if (fn) fn(c->on_end_user, written);
}

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
    r = rf_snapshot_commit(checkpoint->strategy, s, r);
    rf_snapshot_free(&s);
    tell_end(checkpoint, r >= 0);
    return r;
}

/* ---- creation, destruction ---- */

rf_result rf_checkpoint_create_bare(rf_strategy *strategy, const char *type, rf_checkpoint **out)
{
    rf_checkpoint *checkpoint = *out = RF_NEW(rf_checkpoint);
    if (!checkpoint) return RF_ERROR_OUT_OF_HOST_MEMORY;
    checkpoint->strategy = strategy;
    checkpoint->type = type;
    return RF_OK;
}

rf_result rf_checkpoint_create(rf_strategy *strategy, rf_checkpoint **out)
{
    static const rf_tracked_kind seed_kind = { .append = append_seed };
    RF_REQUIRE(out, "rf_checkpoint_create: out is NULL");
    *out = NULL;
    RF_REQUIRE(strategy, "rf_checkpoint_create: strategy is NULL");
    rf_checkpoint *checkpoint;
    RF_TRY(rf_checkpoint_create_bare(strategy, "checkpoint", &checkpoint));
    const rf_result r = append_object(checkpoint, "strategy", (rf_tracked){ .kind = &seed_kind });
    if (r < 0)
        rf_checkpoint_destroy(&checkpoint);
    else
        *out = checkpoint;
    return r;
}

void rf_checkpoint_destroy(rf_checkpoint **checkpoint)
{
    if (!checkpoint || !*checkpoint) return;
    rf_checkpoint *c = *checkpoint;
    *checkpoint = NULL;
    if (rf_strategy_is_foreign(c->strategy)) return;
    /* Its parts become a checkpoint only when all workers agree. */
    if (c->pending && c->pending->plan.sharded && rf_checkpoint_wait(c) < 0)
        rf_log_message(RF_LOG_WARN, "%s", rf_error_message());
    if (c->threaded) (void)pthread_join(c->thread, NULL);
    tell_end(c, c->pending && c->pending->result >= 0);
    for (rf_checkpoint_link *user = c->users; user; user = user->next) user->checkpoint = NULL;
    rf_snapshot_free(&c->pending);
    rf_checkpoint_free_staging(c);
    for (uint32_t i = 0; i < c->objects.count; i++) {
        rf_tracked *tracked = &c->objects.items[i];
        if (tracked->kind->release) tracked->kind->release(tracked);
        rf_free(tracked->name);
    }
    rf_free(c->objects.items);
    rf_free(c);
}
