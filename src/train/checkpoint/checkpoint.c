/* SPDX-License-Identifier: Apache-2.0 */
/* The objects of a checkpoint. */
#include "train/checkpoint/checkpoint.h"

#include <string.h>

#include "base/platform.h"
#include "data/pipeline.h"
#include "replica/strategy.h"
#include "train/metrics/metric.h"
#include "train/model/model.h"
#include "train/optimizer/optimizer.h"

/* What initial values and dropout are drawn from. */
static rf_result add_seed(rf_checkpoint *checkpoint)
{
    RF_TRY(RF_VEC_GROW(&checkpoint->objects));
    rf_tracked seed = { .kind = RF_TRACKED_SEED, .name = rf_strdup("strategy"), .strategy = checkpoint->strategy };
    if (!seed.name) return RF_ERROR_OUT_OF_HOST_MEMORY;
    checkpoint->objects.items[checkpoint->objects.count++] = seed;
    return RF_OK;
}

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
    RF_REQUIRE(out, "rf_checkpoint_create: out is NULL");
    *out = NULL;
    RF_REQUIRE(strategy, "rf_checkpoint_create: strategy is NULL");
    rf_checkpoint *checkpoint;
    RF_TRY(rf_checkpoint_create_bare(strategy, "checkpoint", &checkpoint));
    const rf_result r = add_seed(checkpoint);
    if (r < 0)
        rf_checkpoint_destroy(&checkpoint);
    else
        *out = checkpoint;
    return r;
}

/* ---- objects that are destroyed while a checkpoint has them ---- */

static void retain_object(const rf_tracked *t)
{
    switch (t->kind) {
    case RF_TRACKED_MODEL: rf_model_retain(t->u.model); break;
    case RF_TRACKED_OPTIMIZER: rf_optimizer_retain(t->u.optimizer); break;
    case RF_TRACKED_METRIC: rf_metric_retain(t->u.metric); break;
    case RF_TRACKED_VARIABLE: rf_variable_retain(t->u.variable); break;
    case RF_TRACKED_FUNCTION: rf_function_retain(t->u.function); break;
    case RF_TRACKED_ITERATOR: rf_dataset_retain(t->dataset); break;
    case RF_TRACKED_COUNTER:
    case RF_TRACKED_BLOB:
    case RF_TRACKED_TEXT:
    case RF_TRACKED_SEED: break;
    }
}

static void release_object(rf_tracked *t)
{
    switch (t->kind) {
    case RF_TRACKED_MODEL: rf_model_release(t->u.model); break;
    case RF_TRACKED_OPTIMIZER: rf_optimizer_release(t->u.optimizer); break;
    case RF_TRACKED_METRIC: rf_metric_release(t->u.metric); break;
    case RF_TRACKED_VARIABLE: rf_variable_release(t->u.variable); break;
    case RF_TRACKED_FUNCTION: rf_function_release(t->u.function); break;
    case RF_TRACKED_ITERATOR: rf_dataset_destroy(&t->dataset); break;
    case RF_TRACKED_COUNTER:
    case RF_TRACKED_BLOB:
    case RF_TRACKED_TEXT:
    case RF_TRACKED_SEED: break;
    }
    rf_free(t->name);
}

/* Counters and what callbacks save are the program's memory, and a variable that was destroyed is still whole. */
static rf_result check_object(const rf_tracked *t, const char *function)
{
    switch (t->kind) {
    case RF_TRACKED_MODEL: return rf_model_check_alive(t->u.model, function);
    case RF_TRACKED_OPTIMIZER: return rf_optimizer_check_alive(t->u.optimizer, function);
    case RF_TRACKED_METRIC: return rf_metric_check_alive(t->u.metric, function);
    case RF_TRACKED_FUNCTION: return rf_function_check_alive(t->u.function, function);
    case RF_TRACKED_ITERATOR:
        RF_REQUIRE(
            !*t->u.iterator || rf_dataset_has_iterator(t->dataset, *t->u.iterator),
            "%s: the iterator '%s' has been destroyed, or is not over the dataset that was added with it; set it "
            "to NULL, or create it from that dataset",
            function, t->name);
        return RF_OK;
    case RF_TRACKED_VARIABLE:
    case RF_TRACKED_COUNTER:
    case RF_TRACKED_BLOB:
    case RF_TRACKED_TEXT:
    case RF_TRACKED_SEED: return RF_OK;
    }
    return RF_OK;
}

void rf_checkpoint_destroy(rf_checkpoint **checkpoint)
{
    if (!checkpoint || !*checkpoint) return;
    rf_checkpoint *c = *checkpoint;
    *checkpoint = NULL;
    if (rf_strategy_is_foreign(c->strategy)) return;
    /* Its parts become a checkpoint only when all workers agree. */
    if (c->pending && c->pending->sharded && rf_checkpoint_wait(c) < 0)
        rf_log_message(RF_LOG_WARN, "%s", rf_error_message());
    if (c->threaded) (void)pthread_join(c->thread, NULL);
    rf_checkpoint_tell_end(c, c->pending && c->pending->result >= 0);
    rf_checkpoint_leave_managers(c);
    rf_snapshot_free(&c->pending);
    rf_checkpoint_free_room(c);
    for (uint32_t i = 0; i < c->objects.count; i++) release_object(&c->objects.items[i]);
    rf_free(c->objects.items);
    rf_free(c);
}

rf_result rf_checkpoint_check_alive(const rf_checkpoint *checkpoint, const char *function)
{
    for (uint32_t i = 0; i < checkpoint->objects.count; i++)
        RF_TRY(check_object(&checkpoint->objects.items[i], function));
    return RF_OK;
}

/* Adds `tracked`, whose name is copied. `function` is for messages. */
static rf_result checkpoint_add(rf_checkpoint *checkpoint, const char *function, const char *name, const void *object,
                                rf_tracked tracked)
{
    RF_REQUIRE(checkpoint, "%s: checkpoint is NULL", function);
    RF_REQUIRE(name && *name, "%s: name is empty", function);
    RF_REQUIRE(!strchr(name, '/'), "%s: name '%s' contains a '/'", function, name);
    RF_REQUIRE(strcmp(name, "strategy") != 0, "%s: the name 'strategy' is taken by the strategy itself", function);
    RF_REQUIRE(object, "%s: '%s' is NULL", function, name);
    RF_REQUIRE(!tracked.strategy || tracked.strategy == checkpoint->strategy,
               "%s: '%s' is on another strategy than the checkpoint", function, name);
    for (uint32_t i = 0; i < checkpoint->objects.count; i++)
        RF_REQUIRE(strcmp(checkpoint->objects.items[i].name, name) != 0, "%s: there is a '%s' already", function, name);
    if (tracked.kind != RF_TRACKED_ITERATOR) RF_TRY(check_object(&tracked, function));
    RF_TRY(RF_VEC_GROW(&checkpoint->objects));
    tracked.name = rf_strdup(name);
    if (!tracked.name) return RF_ERROR_OUT_OF_HOST_MEMORY;
    tracked.strategy = checkpoint->strategy;
    retain_object(&tracked);
    checkpoint->objects.items[checkpoint->objects.count++] = tracked;
    return RF_OK;
}

rf_result rf_checkpoint_add_model(rf_checkpoint *checkpoint, const char *name, rf_model *model)
{
    return checkpoint_add(
        checkpoint, "rf_checkpoint_add_model", name, model,
        (rf_tracked){ .kind = RF_TRACKED_MODEL, .strategy = model ? model->strategy : NULL, .u.model = model });
}

rf_result rf_checkpoint_add_optimizer(rf_checkpoint *checkpoint, const char *name, rf_optimizer *optimizer)
{
    return checkpoint_add(checkpoint, "rf_checkpoint_add_optimizer", name, optimizer,
                          (rf_tracked){ .kind = RF_TRACKED_OPTIMIZER,
                                        .strategy = optimizer ? rf_optimizer_strategy(optimizer) : NULL,
                                        .u.optimizer = optimizer });
}

rf_result rf_checkpoint_add_metric(rf_checkpoint *checkpoint, const char *name, rf_metric *metric)
{
    return checkpoint_add(checkpoint, "rf_checkpoint_add_metric", name, metric,
                          (rf_tracked){ .kind = RF_TRACKED_METRIC,
                                        .strategy = metric ? rf_metric_strategy(metric) : NULL,
                                        .u.metric = metric });
}

rf_result rf_checkpoint_add_variable(rf_checkpoint *checkpoint, const char *name, rf_variable *variable)
{
    return checkpoint_add(checkpoint, "rf_checkpoint_add_variable", name, variable,
                          (rf_tracked){ .kind = RF_TRACKED_VARIABLE,
                                        .strategy = variable ? rf_variable_strategy(variable) : NULL,
                                        .u.variable = variable });
}

rf_result rf_checkpoint_add_function(rf_checkpoint *checkpoint, const char *name, rf_function *function)
{
    return checkpoint_add(checkpoint, "rf_checkpoint_add_function", name, function,
                          (rf_tracked){ .kind = RF_TRACKED_FUNCTION,
                                        .strategy = function ? rf_function_strategy(function) : NULL,
                                        .u.function = function });
}

rf_result rf_checkpoint_add_iterator(rf_checkpoint *checkpoint, const char *name, rf_iterator **iterator,
                                     const rf_dataset *dataset)
{
    RF_REQUIRE(dataset, "rf_checkpoint_add_iterator: dataset is NULL");
    return checkpoint_add(checkpoint, "rf_checkpoint_add_iterator", name, iterator,
                          (rf_tracked){ .kind = RF_TRACKED_ITERATOR,
                                        .u.iterator = iterator,
                                        .dataset = (rf_dataset *)(uintptr_t)dataset });
}

rf_result rf_checkpoint_add_counter(rf_checkpoint *checkpoint, const char *name, uint64_t *counter)
{
    return checkpoint_add(checkpoint, "rf_checkpoint_add_counter", name, counter,
                          (rf_tracked){ .kind = RF_TRACKED_COUNTER, .u.counter = counter });
}

rf_result rf_checkpoint_add_blob(rf_checkpoint *checkpoint, const char *name, const rf_blob_fns *fns, void *user)
{
    return checkpoint_add(checkpoint, "rf_checkpoint_add_blob", name, fns,
                          (rf_tracked){ .kind = RF_TRACKED_BLOB, .u.user = user, .blob = *fns });
}

rf_result rf_checkpoint_add_text(rf_checkpoint *checkpoint, const char *name, const char *text)
{
    return checkpoint_add(checkpoint, "rf_checkpoint_add_text", name, text,
                          (rf_tracked){ .kind = RF_TRACKED_TEXT, .u.text = text });
}
