/* SPDX-License-Identifier: Apache-2.0 */
/* Adapters in PEFT's files, adapter_model.safetensors and adapter_config.json. */
#include <string.h>

#include "base/error.h"
#include "base/half.h"
#include "base/platform.h"
#include "persist/arrays/interchange_files.h"
#include "replica/store/variables.h"
#include "train/checkpoint/checkpoint.h"
#include "train/lora/config.h"
#include "train/lora/tensors.h"

#define TENSOR_FILE "adapter_model.safetensors"
enum { MOST_CONFIG = 1 << 20 };

/* ---- writing ---- */

static rf_result collect_tensors(const rf_lora_set *set, const rf_lora_adapter *adapter, rf_named_array *arrays)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < adapter->num_items; i++) {
        rf_lora_item *item = &adapter->items[i];
        const rf_lora_module *module = &set->modules.items[item->module];
        for (uint32_t k = 0; k < rf_lora_num_tensors(&adapter->config); k++) {
            rf_named_array *to = &arrays[count++];
            const rf_shape shape = rf_lora_tensor_shape(module, (rf_lora_tensor)k, adapter->config.rank);
            to->name = rf_lora_tensor_name(module, (rf_lora_tensor)k);
            to->array = (rf_array){ RF_F32, shape, RF_NEW_ARRAY(float, (size_t)rf_shape_count(shape)) };
            if (!to->name || !to->array.data) return RF_ERROR_OUT_OF_HOST_MEMORY;
            RF_TRY(rf_lora_tensor_move(module, item, (rf_lora_tensor)k, adapter->config.rank, to->array.data, true));
        }
    }
    return RF_OK;
}

static rf_result write_tensors(const rf_lora_set *set, const rf_lora_adapter *adapter, const char *directory)
{
    const uint32_t count = adapter->num_items * rf_lora_num_tensors(&adapter->config);
    rf_named_array *arrays = RF_NEW_ARRAY(rf_named_array, count);
    char *path = rf_asprintf("%s/" TENSOR_FILE, directory);
    rf_result r = arrays && path ? collect_tensors(set, adapter, arrays) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) r = rf_safetensors_write_from(&rf_system_file_ops, path, arrays, count, "{\"format\":\"pt\"}", NULL);
    for (uint32_t i = 0; arrays && i < count; i++) {
        rf_free((char *)arrays[i].name);
        rf_free(arrays[i].array.data);
    }
    rf_free(arrays);
    rf_free(path);
    return r;
}

static rf_result config_describe(const rf_lora_set *set, const rf_lora_adapter *adapter, const char **names,
                                 bool *chosen, char **text)
{
    const rf_weight_names *from = set->model->weight_names;
    rf_lora_description d = { .targets = names,
                              .origin = from ? from->origin : NULL,
                              .task = from ? from->task : NULL };
    for (uint32_t i = 0; i < adapter->num_items; i++) {
        const rf_lora_module *module = &set->modules.items[adapter->items[i].module];
        chosen[adapter->items[i].module] = true;
        d.fan_in_fan_out = d.fan_in_fan_out || (module->fan_in_fan_out && rf_lora_kind(module) == RF_PRODUCT_DENSE);
    }
    d.num_targets = rf_lora_target_names(&set->modules, chosen, names);
    return rf_lora_config_write(&adapter->config, &d, text);
}

static rf_result write_config(const rf_lora_set *set, const rf_lora_adapter *adapter, const char *directory)
{
    char *text = NULL, *path = rf_asprintf("%s/" RF_LORA_CONFIG_FILE, directory);
    const char **names = RF_NEW_ARRAY(const char *, set->modules.count);
    bool *chosen = RF_NEW_ARRAY(bool, set->modules.count);
    rf_result r =
        path && names && chosen ? config_describe(set, adapter, names, chosen, &text) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) r = rf_file_write_atomic(path, text, strlen(text));
    rf_free(text);
    rf_free(path);
    rf_free(names);
    rf_free(chosen);
    return r;
}

rf_result rf_lora_save(rf_model *model, const char *name, const char *path)
{
    rf_lora_adapter *adapter;
    rf_result r = RF_OK;
    RF_TRY(rf_lora_find(model, name, "rf_lora_save", &adapter));
    RF_REQUIRE(path && *path, "rf_lora_save: path is empty");
    if (rf_strategy_is_chief(model->strategy)) {
        r = rf_make_directories(path, 0777);
        if (r >= 0) r = write_tensors(model->lora, adapter, path);
        if (r >= 0) r = write_config(model->lora, adapter, path);
    }
    return rf_broadcast_result(model->strategy, r);
}

/* ---- reading ---- */

/* All that the chief has read. */
typedef struct adapter_files {
    rf_lora_config config;
    rf_array_set tensors;
    const rf_named_array **found; /* for each module its tensors */
    bool *chosen;
} adapter_files;

static rf_result read_files(adapter_files *f, const rf_lora_modules *modules, const char *directory)
{
    void *text = NULL;
    size_t size;
    char *path = rf_asprintf("%s/" RF_LORA_CONFIG_FILE, directory);
    char *tensors = rf_asprintf("%s/" TENSOR_FILE, directory);
    f->found = RF_NEW_ARRAY(const rf_named_array *, (size_t)modules->count *RF_LORA_NUM_TENSORS);
    rf_result r =
        path && tensors && f->found ? rf_file_read(path, MOST_CONFIG, &text, &size) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) r = rf_lora_config_read(path, text, size, &f->config);
    if (r >= 0) r = rf_safetensors_read(tensors, &f->tensors);
    if (r >= 0)
        r = rf_error_context(rf_lora_tensors_match(modules, &f->config, &f->tensors, f->found, f->chosen), "'%s'",
                             tensors);
    rf_free(text);
    rf_free(tensors);
    rf_free(path);
    return r;
}

/* From the chief to all replicas of all workers. */
static rf_result load_item(const rf_lora_set *set, const adapter_files *f, rf_lora_item *item)
{
    const rf_lora_module *module = &set->modules.items[item->module];
    for (uint32_t k = 0; k < rf_lora_num_tensors(&f->config); k++) {
        const uint64_t count =
            (uint64_t)rf_shape_count(rf_lora_tensor_shape(module, (rf_lora_tensor)k, f->config.rank));
        float *values = RF_NEW_ARRAY(float, count);
        rf_result r = rf_strategy_fail_in_job(set->model->strategy, values ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY);
        if (r >= 0 && f->found) {
            const rf_array *from = &f->found[item->module * RF_LORA_NUM_TENSORS + k]->array;
            rf_floats_widen(values, from->data, from->dtype, (size_t)count);
        }
        if (r >= 0) r = rf_lora_agree(set->model->strategy, values, count);
        if (r >= 0) r = rf_lora_tensor_move(module, item, (rf_lora_tensor)k, f->config.rank, values, false);
        rf_free(values);
        RF_TRY(r);
    }
    return RF_OK;
}

static rf_result load_all(rf_lora_set *set, const char *name, const char *path, adapter_files *f)
{
    rf_strategy *strategy = set->model->strategy;
    rf_result r = (f->chosen = RF_NEW_ARRAY(bool, set->modules.count)) ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(rf_strategy_fail_in_job(strategy, r));
    if (rf_strategy_is_chief(strategy)) r = read_files(f, &set->modules, path);
    RF_TRY(rf_broadcast_result(strategy, r));
    RF_TRY(rf_broadcast_bytes(strategy, "adapter", &f->config, sizeof(f->config)));
    RF_TRY(rf_broadcast_bytes(strategy, "modules", f->chosen, set->modules.count * sizeof(bool)));
    RF_TRY(rf_lora_attach_to(set, name, &f->config, f->chosen));
    rf_lora_adapter *adapter = set->active;
    for (uint32_t i = 0; i < adapter->num_items && r >= 0; i++) r = load_item(set, f, &adapter->items[i]);
    if (r < 0) {
        (void)rf_lora_activate(set, NULL);
        rf_lora_remove(set, adapter);
    }
    return r;
}

rf_result rf_lora_load(rf_model *model, const char *name, const char *path)
{
    rf_lora_set *set;
    adapter_files f = { .chosen = NULL };
    RF_TRY(rf_lora_set_of(model, "rf_lora_load", &set));
    RF_REQUIRE(path && *path, "rf_lora_load: path is empty");
    const rf_result r = load_all(set, name, path, &f);
    rf_array_set_free(&f.tensors);
    rf_free(f.found);
    rf_free(f.chosen);
    return rf_error_context(r, "rf_lora_load");
}
