/* SPDX-License-Identifier: Apache-2.0 */
/* Files of whole models: a checkpoint of the model and its optimizer with their descriptions. */
#include "train/files/model_file.h"

#include <string.h>

#include "base/params.h"
#include "train/checkpoint/checkpoint.h"
#include "train/files/model_json.h"
#include "train/files/training_json.h"
#include "train/fit/compile.h"
#include "train/optimizer/optimizer.h"

/* ---- saving ---- */

static rf_result check_save(const rf_model *model, const char *path, const rf_save_params *params, const char *function)
{
    RF_TRY(RF_PARAMS_CHECK(rf_save_params, params));
    RF_REQUIRE(model, "%s: model is NULL", function);
    RF_REQUIRE(path && *path, "%s: path is empty", function);
    RF_REQUIRE(!params || !params->async, "%s: params->async is for rf_checkpoint_save()", function);
    return RF_OK;
}

/* The checkpoint is destroyed whatever happens. `r` says how preparing it went. */
static rf_result save_and_destroy(rf_checkpoint *c, rf_result r, const char *path, const rf_save_params *params)
{
    if (r >= 0) r = rf_checkpoint_save(c, path, params);
    rf_checkpoint_destroy(&c);
    return r;
}

rf_result rf_model_save_weights(rf_model *model, const char *path, const rf_save_params *params)
{
    RF_TRY(check_save(model, path, params, "rf_model_save_weights"));
    rf_checkpoint *c;
    RF_TRY(rf_checkpoint_create_bare(model->strategy, "weights", &c));
    return save_and_destroy(c, rf_checkpoint_add_model(c, "model", model), path, params);
}

static rf_result check_compiled(const rf_compiled *c)
{
    bool code = c->loss_fn != NULL;
    for (uint32_t i = 0; i < c->num_metrics; i++) code = code || c->metric_fns[i];
    if (code)
        return RF_FAIL(RF_ERROR_UNSUPPORTED,
                       "rf_model_save: a loss or a metric of the model is code, which a file cannot hold; save the "
                       "weights (rf_model_save_weights()), or save before rf_model_compile()");
    RF_TRY(rf_optimizer_check_alive(c->optimizer, "rf_model_save"));
    if (rf_optimizer_configuration(c->optimizer)->params.kind == RF_OPTIMIZER_CUSTOM)
        return RF_FAIL(RF_ERROR_UNSUPPORTED,
                       "rf_model_save: the optimizer '%s' is code, which a file cannot hold; save the weights "
                       "(rf_model_save_weights()), or a checkpoint (rf_checkpoint_add_optimizer())",
                       rf_optimizer_config_name(rf_optimizer_configuration(c->optimizer)));
    return RF_OK;
}

rf_result rf_model_save(rf_model *model, const char *path, const rf_save_params *params)
{
    RF_TRY(check_save(model, path, params, "rf_model_save"));
    if (model->adapted)
        return RF_FAIL(
            RF_ERROR_UNSUPPORTED,
            "rf_model_save: the model has adapters, which such a file cannot hold; rf_lora_save() writes them, "
            "and rf_lora_merge() with rf_lora_detach() makes them part of the weights");
    RF_TRY(rf_model_check_describable(model, "rf_model_save"));
    if (model->compiled) RF_TRY(check_compiled(model->compiled));
    rf_checkpoint *c;
    char *architecture = NULL, *training = NULL;
    RF_TRY(rf_checkpoint_create_bare(model->strategy, "model", &c));
    rf_result r = rf_model_describe(model, &architecture);
    if (r >= 0) r = rf_checkpoint_add_text(c, "architecture", architecture);
    if (r >= 0) r = rf_checkpoint_add_model(c, "model", model);
    if (r >= 0 && model->compiled) {
        r = rf_compiled_describe(model->compiled, &training);
        if (r >= 0) r = rf_checkpoint_add_text(c, "training", training);
        if (r >= 0) r = rf_checkpoint_add_optimizer(c, "optimizer", model->compiled->optimizer);
        if (r >= 0) r = rf_checkpoint_add_function(c, "train_step", model->compiled->train);
    }
    r = save_and_destroy(c, r, path, params);
    rf_free(architecture);
    rf_free(training);
    return r;
}

/* ---- loading ---- */

/* Only what the model needs is looked for in the file. */
static rf_result load_weights(rf_model *model, const char *path)
{
    rf_checkpoint *c;
    RF_TRY(rf_checkpoint_create_bare(model->strategy, "weights", &c));
    c->subset = true;
    rf_result r = rf_checkpoint_add_model(c, "model", model);
    if (r >= 0) r = rf_checkpoint_restore(c, path, NULL);
    rf_checkpoint_destroy(&c);
    return r;
}

rf_result rf_model_load_weights(rf_model *model, const char *path)
{
    RF_REQUIRE(model, "rf_model_load_weights: model is NULL");
    RF_REQUIRE(path && *path, "rf_model_load_weights: path is empty");
    return load_weights(model, path);
}

static rf_result load_training(rf_model *model, const char *path)
{
    rf_checkpoint *c;
    RF_TRY(rf_checkpoint_create_bare(model->strategy, "model", &c));
    c->subset = true;
    rf_result r = rf_checkpoint_add_model(c, "model", model);
    if (r >= 0) r = rf_checkpoint_add_optimizer(c, "optimizer", model->compiled->optimizer);
    if (r >= 0) r = rf_checkpoint_add_function(c, "train_step", model->compiled->train);
    if (r >= 0) r = rf_checkpoint_restore(c, path, NULL);
    rf_checkpoint_destroy(&c);
    return r;
}

static rf_result copy_text(const rf_archive *archive, const char *name, char **out)
{
    rf_archive_value value;
    RF_TRY(rf_archive_value_get(archive, name, &value));
    if (value.kind != RF_VALUE_STRING) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s' is not a text", name);
    *out = rf_asprintf("%.*s", (int)value.size, (const char *)value.bytes);
    return *out ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

/* On the chief. `training` stays NULL where there is none. */
static rf_result read_descriptions(const char *path, char **architecture, char **training)
{
    rf_archive *archive;
    RF_TRY(rf_archive_open(path, &archive));
    rf_result r = copy_text(archive, "architecture", architecture);
    if (r == RF_ERROR_NOT_FOUND)
        r = RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                    "'%s' holds a %s without its architecture; load it into a model that the program builds "
                    "(rf_model_load_weights(), rf_checkpoint_restore())",
                    path, rf_archive_type(archive));
    rf_archive_value unused;
    if (r >= 0 && rf_archive_value_get(archive, "training", &unused) >= 0) r = copy_text(archive, "training", training);
    rf_archive_close(&archive);
    return r;
}

static rf_result share_text(rf_strategy *strategy, char **text)
{
    uint64_t size = *text ? strlen(*text) + 1 : 0;
    RF_TRY(rf_broadcast_bytes(strategy, "description of a model", &size, sizeof(size)));
    if (size == 0) return RF_OK;
    if (!*text) *text = rf_calloc((size_t)size, 1);
    if (!*text) return rf_strategy_fail_in_job(strategy, RF_ERROR_OUT_OF_HOST_MEMORY);
    RF_TRY(rf_broadcast_bytes(strategy, "description of a model", *text, size));
    if ((*text)[size - 1] == '\0') return RF_OK;
    return rf_strategy_fail_in_job(strategy,
                                   RF_FAIL(RF_ERROR_CORRUPT_DATA, "rank 0 sent a description without an end"));
}

rf_result rf_model_load_file(rf_strategy *strategy, const char *path, bool compile, rf_model **out)
{
    char *architecture = NULL, *training = NULL;
    rf_result r = rf_strategy_is_chief(strategy) ? read_descriptions(path, &architecture, &training) : RF_OK;
    r = rf_broadcast_result(strategy, r);
    if (r >= 0) r = share_text(strategy, &architecture);
    if (r >= 0) r = share_text(strategy, &training);
    if (r >= 0) r = rf_model_from_description(strategy, architecture, out);
    if (r >= 0 && training && compile) r = rf_model_compile_from_description(*out, training);
    if (r >= 0) r = (*out)->compiled ? load_training(*out, path) : load_weights(*out, path);
    rf_free(architecture);
    rf_free(training);
    if (r < 0) rf_model_destroy(out);
    return r;
}

rf_result rf_model_load(rf_strategy *strategy, const char *path, rf_model **out)
{
    RF_REQUIRE(out, "rf_model_load: out is NULL");
    *out = NULL;
    RF_REQUIRE(strategy, "rf_model_load: strategy is NULL");
    RF_REQUIRE(path && *path, "rf_model_load: path is empty");
    return rf_error_context(rf_model_load_file(strategy, path, true, out), "loading the model '%s'", path);
}

rf_optimizer *rf_model_optimizer(const rf_model *model)
{
    return model && model->compiled ? model->compiled->optimizer : NULL;
}
