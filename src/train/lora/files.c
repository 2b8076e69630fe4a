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

#define CONFIG_FILE "adapter_config.json"
#define TENSOR_FILE "adapter_model.safetensors"
#define PREFIX "base_model.model."
enum { MOST_CONFIG = 1 << 20 };

/* ---- tensors of a module ---- */

typedef enum tensor_kind { TENSOR_A, TENSOR_B, TENSOR_MAGNITUDE, NUM_TENSORS } tensor_kind;
/* What follows a module's name; those of embeddings are the second. */
static const char *const suffixes[NUM_TENSORS][2] = {
    [TENSOR_A] = { ".lora_A.weight", ".lora_embedding_A" },
    [TENSOR_B] = { ".lora_B.weight", ".lora_embedding_B" },
    [TENSOR_MAGNITUDE] = { ".lora_magnitude_vector", ".lora_magnitude_vector" },
};

static const char *suffix_of(const rf_lora_module *module, tensor_kind kind)
{
    return suffixes[kind][rf_lora_kind(module) == RF_PRODUCT_LOOKUP];
}

/* Dimensions of the window of a convolution; 0: the module is none. Along sequences it has one of them. */
static int32_t window_rank(const rf_lora_module *module)
{
    const rf_product *product = &rf_lora_site(&module->parts[0])->product;
    return product->kind == RF_PRODUCT_CONV ? rf_variable_shape(product->weight).rank - 2 : 0;
}

/* As PyTorch has it: outputs first, then inputs, then the window. */
static rf_shape file_shape(const rf_lora_module *module, tensor_kind kind, uint32_t rank)
{
    const int32_t window = window_rank(module);
    const int64_t out = (int64_t)rf_lora_out(module);
    rf_shape shape = { .rank = 2 + window, .dim = { out, rank, 1, 1 } };
    if (kind == TENSOR_MAGNITUDE && window == 0) return RF_SHAPE(out);
    if (kind == TENSOR_MAGNITUDE) {
        shape.dim[0] = 1;
        shape.dim[1] = out;
    }
    if (kind != TENSOR_A) return shape;
    shape.dim[0] = rank;
    shape.dim[1] = module->a.dim[module->a.rank - 2];
    for (int32_t i = 0; i < window; i++) shape.dim[2 + i] = module->a.dim[2 - window + i];
    return shape;
}

/* The place in the file's tensor of an element of the first matrix, [window, c, rank] there and [rank, c, window] in
 * the file. */
static uint64_t place_in_a(const rf_lora_module *module, uint64_t index, uint64_t rank)
{
    const uint64_t channels = (uint64_t)module->a.dim[module->a.rank - 2], window = rf_lora_in(module) / channels;
    const uint64_t k = index % rank, c = index / rank % channels, w = index / rank / channels;
    return (k * channels + c) * window + w;
}

/* Numbers of the variables of an item, as the file has them or from there. */
static rf_result move_tensor(const rf_lora_module *module, rf_lora_item *item, tensor_kind kind, uint32_t rank,
                             float *file, bool to_file)
{
    uint64_t first = 0;
    const uint32_t parts = kind == TENSOR_A ? 1 : module->num_parts;
    for (uint32_t p = 0; p < parts; p++) {
        rf_adapter *part = &item->parts[p];
        rf_variable *variable = kind == TENSOR_A ? part->a : kind == TENSOR_B ? part->b : part->magnitude;
        const uint64_t out = module->parts[p].out;
        float *values = RF_NEW_ARRAY(float, variable->count);
        if (!values) return RF_ERROR_OUT_OF_HOST_MEMORY;
        rf_result r = to_file ? rf_variable_read(variable, values) : RF_OK;
        for (uint64_t i = 0; r >= 0 && i < variable->count; i++) {
            const uint64_t at = kind == TENSOR_A   ? place_in_a(module, i, rank)
                                : kind == TENSOR_B ? (first + i % out) * rank + i / out
                                                   : first + i;
            if (to_file)
                file[at] = values[i];
            else
                values[i] = file[at];
        }
        if (r >= 0 && !to_file) r = rf_variable_assign(variable, values);
        rf_free(values);
        RF_TRY(r);
        first += out;
    }
    return RF_OK;
}

static uint32_t num_tensors(const rf_lora_config *config)
{
    return config->weight_decomposed ? NUM_TENSORS : TENSOR_MAGNITUDE;
}

/* ---- writing ---- */

static rf_result collect_tensors(const rf_lora_set *set, const rf_lora_adapter *adapter, rf_named_array *arrays)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < adapter->num_items; i++) {
        rf_lora_item *item = &adapter->items[i];
        const rf_lora_module *module = &set->modules.items[item->module];
        for (uint32_t k = 0; k < num_tensors(&adapter->config); k++) {
            rf_named_array *to = &arrays[count++];
            const rf_shape shape = file_shape(module, (tensor_kind)k, adapter->config.rank);
            to->name = rf_asprintf(PREFIX "%s%s", module->name, suffix_of(module, (tensor_kind)k));
            to->array = (rf_array){ RF_F32, shape, RF_NEW_ARRAY(float, (size_t)rf_shape_count(shape)) };
            if (!to->name || !to->array.data) return RF_ERROR_OUT_OF_HOST_MEMORY;
            RF_TRY(move_tensor(module, item, (tensor_kind)k, adapter->config.rank, to->array.data, true));
        }
    }
    return RF_OK;
}

static rf_result write_tensors(const rf_lora_set *set, const rf_lora_adapter *adapter, const char *directory)
{
    const uint32_t count = adapter->num_items * num_tensors(&adapter->config);
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

static rf_result describe(const rf_lora_set *set, const rf_lora_adapter *adapter, const char **names, bool *chosen,
                          char **text)
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
    char *text = NULL, *path = rf_asprintf("%s/" CONFIG_FILE, directory);
    const char **names = RF_NEW_ARRAY(const char *, set->modules.count);
    bool *chosen = RF_NEW_ARRAY(bool, set->modules.count);
    rf_result r = path && names && chosen ? describe(set, adapter, names, chosen, &text) : RF_ERROR_OUT_OF_HOST_MEMORY;
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

/* What the chief has read. */
typedef struct adapter_files {
    rf_lora_config config;
    rf_array_set tensors;
    const rf_named_array **found; /* for each module its tensors */
    bool *chosen;
    char *path; /* of the tensors */
} adapter_files;

static bool ends_module(const char *name, const char *module, const char *suffix)
{
    const size_t length = strlen(module);
    return strncmp(name, module, length) == 0 && strcmp(name + length, suffix) == 0;
}

/* Which module's a tensor is, and which of its tensors; false: none. */
static bool find_place(const rf_lora_modules *modules, const char *name, uint32_t *place)
{
    const size_t prefix = strlen(PREFIX);
    if (strncmp(name, PREFIX, prefix) != 0) return false;
    for (uint32_t i = 0; i < modules->count; i++)
        for (uint32_t k = 0; k < NUM_TENSORS; k++) {
            *place = i * NUM_TENSORS + k;
            if (ends_module(name + prefix, modules->items[i].name, suffix_of(&modules->items[i], (tensor_kind)k)))
                return true;
        }
    return false;
}

static rf_result check_tensor(const adapter_files *f, const rf_lora_module *module, tensor_kind kind,
                              const rf_named_array *tensor)
{
    char a[96], b[96];
    const rf_shape wanted = file_shape(module, kind, f->config.rank);
    const rf_dtype type = tensor->array.dtype;
    if (kind == TENSOR_MAGNITUDE && !f->config.weight_decomposed)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "'%s': tensor '%.200s' is of an adapter with use_dora, which " CONFIG_FILE " does not say",
                       f->path, tensor->name);
    if (type != RF_F32 && type != RF_F16 && type != RF_BF16)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s': tensor '%.200s' is of type %s; weights are F32, F16 or BF16",
                       f->path, tensor->name, rf_dtype_name(type));
    if (rf_shape_equal(tensor->array.shape, wanted)) return RF_OK;
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                   "'%s': tensor '%.200s' is %s, not %s, as the model and the rank %u of " CONFIG_FILE " have it",
                   f->path, tensor->name, rf_shape_format(tensor->array.shape, a, sizeof(a)),
                   rf_shape_format(wanted, b, sizeof(b)), f->config.rank);
}

static rf_result match_tensors(adapter_files *f, const rf_lora_modules *modules)
{
    for (uint32_t i = 0; i < f->tensors.count; i++) {
        const rf_named_array *tensor = &f->tensors.items[i];
        uint32_t place;
        if (!find_place(modules, tensor->name, &place))
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                           "'%s': tensor '%.200s' has no place in the model; a module of it is "
                           "'" PREFIX "%s'",
                           f->path, tensor->name, modules->count > 0 ? modules->items[0].name : "");
        RF_TRY(check_tensor(f, &modules->items[place / NUM_TENSORS], (tensor_kind)(place % NUM_TENSORS), tensor));
        f->found[place] = tensor;
        f->chosen[place / NUM_TENSORS] = true;
    }
    for (uint32_t i = 0; i < modules->count; i++)
        for (uint32_t k = 0; f->chosen[i] && k < num_tensors(&f->config); k++)
            if (!f->found[i * NUM_TENSORS + k])
                return RF_FAIL(RF_ERROR_NOT_FOUND, "'%s' has no tensor '" PREFIX "%s%s'", f->path,
                               modules->items[i].name, suffix_of(&modules->items[i], (tensor_kind)k));
    return f->tensors.count > 0 ? RF_OK : RF_FAIL(RF_ERROR_NOT_FOUND, "'%s' has no tensors", f->path);
}

static rf_result read_files(adapter_files *f, const rf_lora_modules *modules, const char *directory)
{
    void *text = NULL;
    size_t size;
    char *path = rf_asprintf("%s/" CONFIG_FILE, directory);
    f->path = rf_asprintf("%s/" TENSOR_FILE, directory);
    f->found = RF_NEW_ARRAY(const rf_named_array *, (size_t)modules->count *NUM_TENSORS);
    rf_result r =
        path && f->path && f->found ? rf_file_read(path, MOST_CONFIG, &text, &size) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) r = rf_lora_config_read(path, text, size, &f->config);
    if (r >= 0) r = rf_safetensors_read(f->path, &f->tensors);
    if (r >= 0) r = match_tensors(f, modules);
    rf_free(text);
    rf_free(path);
    return r;
}

static void widen(const rf_array *array, float *values, uint64_t count)
{
    const uint16_t *half = array->data;
    if (array->dtype == RF_F32) memcpy(values, array->data, (size_t)count * sizeof(float));
    for (uint64_t i = 0; array->dtype == RF_F16 && i < count; i++) values[i] = rf_f16_to_f32(half[i]);
    for (uint64_t i = 0; array->dtype == RF_BF16 && i < count; i++) values[i] = rf_bf16_to_f32(half[i]);
}

/* From the chief to all replicas of all workers. */
static rf_result load_item(const rf_lora_set *set, const adapter_files *f, rf_lora_item *item)
{
    const rf_lora_module *module = &set->modules.items[item->module];
    for (uint32_t k = 0; k < num_tensors(&f->config); k++) {
        const uint64_t count = (uint64_t)rf_shape_count(file_shape(module, (tensor_kind)k, f->config.rank));
        float *values = RF_NEW_ARRAY(float, count);
        rf_result r = rf_strategy_fail_in_job(set->model->strategy, values ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY);
        if (r >= 0 && f->found) widen(&f->found[item->module * NUM_TENSORS + k]->array, values, count);
        if (r >= 0) r = rf_lora_agree(set->model->strategy, values, count);
        if (r >= 0) r = move_tensor(module, item, (tensor_kind)k, f->config.rank, values, false);
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
    rf_free(f.path);
    return rf_error_context(r, "rf_lora_load");
}
