/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a model file about its model, as rf_model_load() and rf_inference_load() read it: the first byte chooses
 * the architecture, what it was compiled with, an optimizer's schedule as checkpoints hold it, or an optimizer as
 * parameter servers receive it. A text that is accepted must come out the same when it is written and read again.
 */
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "fuzz.h"
#include "train/files/model_json.h"
#include "train/files/training_json.h"
#include "train/layers/layer.h"
#include "train/model/layer_graph.h"
#include "train/optimizer/config_json.h"
#include "train/optimizer/schedule.h"

static void check_failure(rf_result r)
{
    PROMISE((r == RF_ERROR_CORRUPT_DATA || r == RF_ERROR_UNSUPPORTED) && rf_error_message()[0]);
}

static void architecture(const char *text, size_t size)
{
    rf_architecture one, two;
    const rf_result r = rf_architecture_parse(text, size, &one);
    if (r < 0) {
        check_failure(r);
        PROMISE(!one.layers && one.count == 0);
        return;
    }
    PROMISE(one.count > 0 && (one.graph ? one.graph->num_outputs > 0 : rf_shape_count(one.input) > 0));
    for (uint32_t i = 0; i < one.count; i++) PROMISE(one.layers[i]->name && one.layers[i]->name[0]);
    char *first, *second;
    PROMISE(rf_architecture_text(&one, &first) == RF_OK);
    PROMISE(rf_architecture_parse(first, strlen(first), &two) == RF_OK);
    PROMISE(rf_architecture_text(&two, &second) == RF_OK && strcmp(first, second) == 0);
    rf_free(first);
    rf_free(second);
    rf_architecture_free(&one);
    rf_architecture_free(&two);
}

/* As compiling and saving a model do it. False where the optimizer refuses its numbers. */
static bool describe(const rf_training *training, char **text)
{
    rf_optimizer_config config;
    rf_training configured = *training;
    if (rf_optimizer_configure(&training->optimizer, &config) < 0) return false;
    configured.optimizer = config.params;
    configured.schedule = config.schedule;
    PROMISE(rf_training_text(&configured, text) == RF_OK);
    return true;
}

static void training(const char *text, size_t size)
{
    rf_training one, two;
    char *first, *second;
    const rf_result r = rf_training_parse(text, size, &one);
    if (r < 0) {
        check_failure(r);
        return;
    }
    PROMISE(one.optimizer.schedule == &one.schedule && one.num_metrics <= RF_MAX_COMPILED_METRICS);
    if (!describe(&one, &first)) {
        rf_training_free(&one);
        return;
    }
    PROMISE(rf_training_parse(first, strlen(first), &two) == RF_OK);
    PROMISE(describe(&two, &second) && strcmp(first, second) == 0);
    rf_training_free(&one);
    rf_training_free(&two);
    rf_free(first);
    rf_free(second);
}

static void schedule(const char *text, size_t size)
{
    json_t *root;
    rf_schedule s;
    if (rf_json_parse(text, size, "schedule", &root) < 0) return;
    const rf_result r = rf_schedule_from_json(root, &s);
    json_decref(root);
    if (r < 0) {
        check_failure(r);
        return;
    }
    for (uint64_t i = 1; i; i *= 16) PROMISE(!(rf_schedule_value(&s, i - 1) < 0));
    char *first, *second;
    PROMISE(rf_json_text(rf_schedule_to_json(&s), &first) == RF_OK);
    PROMISE(rf_json_parse(first, strlen(first), "schedule", &root) == RF_OK);
    PROMISE(rf_schedule_from_json(root, &s) == RF_OK);
    PROMISE(rf_json_text(rf_schedule_to_json(&s), &second) == RF_OK && strcmp(first, second) == 0);
    json_decref(root);
    rf_free(first);
    rf_free(second);
}

static void optimizer(const char *text, size_t size)
{
    rf_optimizer_params params, again;
    rf_schedule schedule;
    rf_optimizer_config one, two;
    char *first, *second;
    const rf_result r = rf_optimizer_parse(text, size, &params, &schedule);
    if (r < 0) {
        check_failure(r);
        return;
    }
    PROMISE(params.schedule == &schedule);
    if (rf_optimizer_configure(&params, &one) == RF_OK) {
        PROMISE(rf_optimizer_text(&one, &first) == RF_OK);
        PROMISE(rf_optimizer_parse(first, strlen(first), &again, &schedule) == RF_OK);
        PROMISE(rf_optimizer_configure(&again, &two) == RF_OK);
        PROMISE(rf_optimizer_text(&two, &second) == RF_OK && strcmp(first, second) == 0);
        rf_optimizer_params_free(&again);
        rf_free(first);
        rf_free(second);
    }
    rf_optimizer_params_free(&params);
}

FUZZ_TARGET(model)
{
    if (size == 0) return 0;
    static void (*const texts[])(const char *, size_t) = { architecture, training, schedule, optimizer };
    texts[data[0] % 4]((const char *)data + 1, size - 1);
    return 0;
}
