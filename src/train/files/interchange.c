/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of models in files that are not checkpoints of their own: under other names, and in safetensors. */
#include <ringfire/interchange.h>

#include <string.h>

#include "base/params.h"
#include "persist/archive/reader.h"
#include "train/checkpoint/checkpoint.h"
#include "train/files/weight_plan.h"
#include "train/model/model.h"

static rf_result arguments_check(const rf_model *model, const char *path, const char *function)
{
    RF_REQUIRE(model, "%s: model is NULL", function);
    RF_REQUIRE(path && *path, "%s: path is empty", function);
    RF_REQUIRE(model->built, "%s: the model has no variables yet; call rf_model_build() first", function);
    return RF_OK;
}

static void free_arrays(rf_named_array *arrays, uint32_t count)
{
    for (uint32_t i = 0; arrays && i < count; i++) rf_free(arrays[i].array.data);
    rf_free(arrays);
}

/* Room for the value of every variable; names are borrowed from the model. */
static rf_result make_arrays(const rf_model *model, rf_named_array **out)
{
    const uint32_t count = model->tracked.count;
    rf_named_array *arrays = *out = RF_NEW_ARRAY(rf_named_array, count);
    if (!arrays) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        const rf_variable *v = model->tracked.items[i].variable;
        const rf_shape shape = rf_variable_shape(v);
        float *values = RF_NEW_ARRAY(float, rf_shape_count(shape));
        if (!values) return RF_ERROR_OUT_OF_HOST_MEMORY;
        arrays[i] = (rf_named_array){ model->tracked.items[i].name, { RF_F32, shape, values } };
    }
    return RF_OK;
}

static rf_result write_weights(const rf_model *model, const char *path)
{
    rf_named_array *arrays = NULL;
    rf_result r = make_arrays(model, &arrays);
    for (uint32_t i = 0; r >= 0 && i < model->tracked.count; i++)
        r = rf_variable_read(model->tracked.items[i].variable, arrays[i].array.data);
    if (r >= 0) r = rf_safetensors_write(path, arrays, model->tracked.count);
    free_arrays(arrays, model->tracked.count);
    return r;
}

rf_result rf_model_export_safetensors(rf_model *model, const char *path)
{
    RF_TRY(arguments_check(model, path, "rf_model_export_safetensors"));
    rf_result r = RF_OK;
    if (rf_strategy_is_chief(model->strategy)) r = write_weights(model, path);
    return rf_broadcast_result(model->strategy, r);
}

/* ---- reading ---- */

/* The file that the chief reads: one of the two. */
typedef struct weights_file {
    rf_safetensors *safetensors;
    rf_archive *archive;
    const char *prefix;        /* what all wanted names in it begin with */
    rf_archive_entry *tensors; /* the wanted ones, without it */
    uint64_t count;
} weights_file;

static void file_close(weights_file *file)
{
    rf_safetensors_close(&file->safetensors);
    rf_archive_close(&file->archive);
    rf_free(file->tensors);
}

static rf_result entry_at(const weights_file *file, uint64_t index, rf_archive_entry *out)
{
    return file->archive ? rf_archive_entry_at(file->archive, index, out)
                         : rf_safetensors_entry_at(file->safetensors, index, out);
}

/* Where an archive has a model, the rest of it is of no interest. */
static rf_result list_tensors(weights_file *file)
{
    static const char model[] = "model/";
    const uint64_t all =
        file->archive ? rf_archive_num_tensors(file->archive) : rf_safetensors_num_tensors(file->safetensors);
    uint64_t prefixed = 0;
    file->prefix = "";
    file->tensors = RF_NEW_ARRAY(rf_archive_entry, all);
    if (!file->tensors) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint64_t i = 0; i < all; i++) {
        rf_archive_entry *entry = &file->tensors[i];
        RF_TRY(entry_at(file, i, entry));
        if (!file->archive || strncmp(entry->name, model, sizeof(model) - 1) != 0) continue;
        file->tensors[prefixed] = *entry;
        file->tensors[prefixed++].name += sizeof(model) - 1;
    }
    file->count = prefixed ? prefixed : all;
    if (prefixed) file->prefix = model;
    return RF_OK;
}

static rf_result file_open(const char *path, weights_file *out)
{
    bool archive;
    *out = (weights_file){ 0 };
    RF_TRY(rf_archive_recognize(&rf_system_file_ops, path, &archive));
    rf_result r = archive ? rf_archive_open(path, &out->archive) : rf_safetensors_open(path, &out->safetensors);
    if (r >= 0) r = list_tensors(out);
    if (r < 0) file_close(out);
    return r;
}

static rf_result read_tensor(const weights_file *file, const rf_weight_choice *choice, float *out)
{
    const rf_archive_entry *tensor = choice->tensor;
    char *name = rf_asprintf("%s%s", file->prefix, tensor->name);
    void *data = rf_calloc((size_t)tensor->bytes, 1);
    rf_result r = name && data ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0 && file->archive) r = rf_archive_read(file->archive, name, data, tensor->bytes);
    if (r >= 0 && file->safetensors) r = rf_safetensors_read_range(file->safetensors, name, 0, data, tensor->bytes);
    if (r >= 0) rf_weight_convert(choice, data, out);
    rf_free(name);
    rf_free(data);
    return r;
}

/* A load: its decisions, and the numbers that it has read. */
typedef struct weights_load {
    const rf_load_weights_params *params;
    rf_named_array *arrays; /* of each variable */
    uint8_t *loaded;        /* whether there is something in it */
    uint32_t count;
    rf_weight_plan plan; /* the chief's, but for the notes */
} weights_load;

/* On the chief. */
static rf_result read_weights(weights_load *load, const char *path)
{
    weights_file file;
    rf_weight_variable *variables = RF_NEW_ARRAY(rf_weight_variable, load->count);
    rf_result r = variables ? file_open(path, &file) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) {
        for (uint32_t i = 0; i < load->count; i++)
            variables[i] = (rf_weight_variable){ load->arrays[i].name, load->arrays[i].array.shape };
        r = rf_error_context(
            rf_weight_plan_make(file.tensors, file.count, variables, load->count, load->params, &load->plan), "'%s'",
            path);
        if (r >= 0) r = rf_weight_plan_check(&load->plan, load->params, path);
        for (uint32_t i = 0; r >= 0 && i < load->count; i++) {
            load->loaded[i] = load->plan.choices[i].outcome == RF_WEIGHT_LOADED;
            if (load->loaded[i]) r = read_tensor(&file, &load->plan.choices[i], load->arrays[i].array.data);
        }
        file_close(&file);
    }
    rf_free(variables);
    return r;
}

static rf_result share_weights(rf_strategy *strategy, weights_load *load)
{
    RF_TRY(rf_broadcast_bytes(strategy, "weights", load->loaded, load->count));
    for (uint32_t i = 0; i < load->count; i++) {
        const rf_array *a = &load->arrays[i].array;
        if (load->loaded[i])
            RF_TRY(
                rf_broadcast_bytes(strategy, "weights", a->data, (uint64_t)rf_shape_count(a->shape) * sizeof(float)));
    }
    return RF_OK;
}

static rf_result load_weights(rf_model *model, const char *path, weights_load *load)
{
    rf_strategy *strategy = model->strategy;
    load->count = model->tracked.count;
    load->loaded = RF_NEW_ARRAY(uint8_t, load->count);
    rf_result r = load->loaded ? make_arrays(model, &load->arrays) : RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(rf_strategy_fail_in_job(strategy, r));
    if (rf_strategy_is_chief(strategy)) r = read_weights(load, path);
    r = rf_broadcast_result(strategy, r);
    if (load->params->report) { /* also where the chief has refused the file */
        rf_error_record record;
        rf_error_save(&record);
        RF_TRY(rf_weight_report_share(strategy, &load->plan.notes, load->params->report));
        if (r < 0) r = rf_error_restore(&record);
    }
    if (r >= 0) r = share_weights(strategy, load);
    for (uint32_t i = 0; r >= 0 && i < load->count; i++)
        if (load->loaded[i]) r = rf_variable_assign(model->tracked.items[i].variable, load->arrays[i].array.data);
    return r;
}

rf_result rf_model_load_weights_with(rf_model *model, const char *path, const rf_load_weights_params *params)
{
    static const char function[] = "rf_model_load_weights_with";
    static const rf_load_weights_params defaults = { 0 };
    if (params && params->report) *params->report = (rf_weight_report){ 0 };
    RF_TRY(RF_PARAMS_CHECK(rf_load_weights_params, params));
    weights_load load = { .params = params ? params : &defaults };
    RF_TRY(arguments_check(model, path, function));
    if (load.params->rules) RF_TRY(RF_PARAMS_CHECK_ALL(rf_weight_rule, load.params->rules, load.params->num_rules));
    RF_TRY(rf_weight_rules_check(load.params->rules, load.params->num_rules, function));
    const rf_result r = load_weights(model, path, &load);
    free_arrays(load.arrays, load.count);
    rf_free(load.loaded);
    rf_weight_plan_free(&load.plan);
    return r;
}

rf_result rf_model_import_safetensors(rf_model *model, const char *path)
{
    RF_TRY(arguments_check(model, path, "rf_model_import_safetensors"));
    return rf_model_load_weights_with(model, path, NULL);
}
