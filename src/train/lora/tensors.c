/* SPDX-License-Identifier: Apache-2.0 */
#include "train/lora/tensors.h"

#include <string.h>

#include "base/error.h"
#include "replica/store/variables.h"

#define PREFIX "base_model.model."

/* ---- tensors of a module ---- */

/* Ends of names, after the module's; those of embeddings are the second. */
static const char *const suffixes[RF_LORA_NUM_TENSORS][2] = {
    [RF_LORA_TENSOR_A] = { ".lora_A.weight", ".lora_embedding_A" },
    [RF_LORA_TENSOR_B] = { ".lora_B.weight", ".lora_embedding_B" },
    [RF_LORA_TENSOR_MAGNITUDE] = { ".lora_magnitude_vector", ".lora_magnitude_vector" },
};

static const char *suffix_of(const rf_lora_module *module, rf_lora_tensor kind)
{
    return suffixes[kind][rf_lora_kind(module) == RF_PRODUCT_LOOKUP];
}

char *rf_lora_tensor_name(const rf_lora_module *module, rf_lora_tensor kind)
{
    return rf_asprintf(PREFIX "%s%s", module->name, suffix_of(module, kind));
}

/* Dimensions of the window of a convolution; 0: the module is none. Along sequences it has one of them. */
static int32_t window_rank(const rf_lora_module *module)
{
    const rf_product *product = &rf_lora_site(&module->parts[0])->product;
    return product->kind == RF_PRODUCT_CONV ? rf_variable_shape(product->weight).rank - 2 : 0;
}

rf_shape rf_lora_tensor_shape(const rf_lora_module *module, rf_lora_tensor kind, uint32_t rank)
{
    const int32_t window = window_rank(module);
    const int64_t out = (int64_t)rf_lora_out(module);
    rf_shape shape = { .rank = 2 + window, .dim = { out, rank, 1, 1 } };
    if (kind == RF_LORA_TENSOR_MAGNITUDE && window == 0) return RF_SHAPE(out);
    if (kind == RF_LORA_TENSOR_MAGNITUDE) {
        shape.dim[0] = 1;
        shape.dim[1] = out;
    }
    if (kind != RF_LORA_TENSOR_A) return shape;
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

rf_result rf_lora_tensor_move(const rf_lora_module *module, rf_lora_item *item, rf_lora_tensor kind, uint32_t rank,
                              float *file, bool to_file)
{
    uint64_t first = 0;
    const uint32_t parts = kind == RF_LORA_TENSOR_A ? 1 : module->num_parts;
    for (uint32_t p = 0; p < parts; p++) {
        rf_adapter *part = &item->parts[p];
        rf_variable *variable = kind == RF_LORA_TENSOR_A   ? part->a
                                : kind == RF_LORA_TENSOR_B ? part->b
                                                           : part->magnitude;
        const uint64_t out = module->parts[p].out;
        float *values = RF_NEW_ARRAY(float, variable->count);
        if (!values) return RF_ERROR_OUT_OF_HOST_MEMORY;
        rf_result r = to_file ? rf_variable_read(variable, values) : RF_OK;
        for (uint64_t i = 0; r >= 0 && i < variable->count; i++) {
            const uint64_t at = kind == RF_LORA_TENSOR_A   ? place_in_a(module, i, rank)
                                : kind == RF_LORA_TENSOR_B ? (first + i % out) * rank + i / out
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

uint32_t rf_lora_num_tensors(const rf_lora_config *config)
{
    return config->weight_decomposed ? RF_LORA_NUM_TENSORS : RF_LORA_TENSOR_MAGNITUDE;
}

/* ---- reading ---- */

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
        for (uint32_t k = 0; k < RF_LORA_NUM_TENSORS; k++) {
            *place = i * RF_LORA_NUM_TENSORS + k;
            if (ends_module(name + prefix, modules->items[i].name, suffix_of(&modules->items[i], (rf_lora_tensor)k)))
                return true;
        }
    return false;
}

static rf_result no_place(const rf_lora_modules *modules, const char *name)
{
    char shown[200];
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "tensor '%s' has no place in the model; a module of it is '" PREFIX "%s'",
                   rf_error_show(name, shown, sizeof(shown)), modules->count > 0 ? modules->items[0].name : "");
}

static rf_result check_tensor(const rf_lora_module *module, rf_lora_tensor kind, const rf_lora_config *config,
                              const rf_named_array *tensor)
{
    char a[96], b[96];
    const rf_shape wanted = rf_lora_tensor_shape(module, kind, config->rank);
    const rf_dtype type = tensor->array.dtype;
    if (kind == RF_LORA_TENSOR_MAGNITUDE && !config->weight_decomposed)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "tensor '%.200s' is of an adapter with use_dora, which " RF_LORA_CONFIG_FILE " does not say",
                       tensor->name);
    if (type != RF_F32 && type != RF_F16 && type != RF_BF16)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "tensor '%.200s' is of type %s; weights are F32, F16 or BF16",
                       tensor->name, rf_dtype_name(type));
    if (rf_shape_equal(tensor->array.shape, wanted)) return RF_OK;
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                   "tensor '%.200s' is %s, not %s, as the model and the rank %u of " RF_LORA_CONFIG_FILE " have it",
                   tensor->name, rf_shape_format(tensor->array.shape, a, sizeof(a)),
                   rf_shape_format(wanted, b, sizeof(b)), config->rank);
}

/* The tensors that a module with one of them has to have. */
static rf_result check_whole(const rf_lora_module *module, const rf_lora_config *config,
                             const rf_named_array *const *found)
{
    for (uint32_t k = 0; k < rf_lora_num_tensors(config); k++)
        if (!found[k])
            return RF_FAIL(RF_ERROR_NOT_FOUND, "there is no tensor '" PREFIX "%s%s'", module->name,
                           suffix_of(module, (rf_lora_tensor)k));
    return RF_OK;
}

rf_result rf_lora_tensors_match(const rf_lora_modules *modules, const rf_lora_config *config, const rf_array_set *set,
                                const rf_named_array **found, bool *chosen)
{
    for (uint32_t i = 0; i < set->count; i++) {
        const rf_named_array *tensor = &set->items[i];
        uint32_t place;
        if (!find_place(modules, tensor->name, &place)) return no_place(modules, tensor->name);
        const uint32_t module = place / RF_LORA_NUM_TENSORS, kind = place % RF_LORA_NUM_TENSORS;
        RF_TRY(check_tensor(&modules->items[module], (rf_lora_tensor)kind, config, tensor));
        found[place] = tensor;
        chosen[module] = true;
    }
    for (uint32_t i = 0; i < modules->count; i++)
        if (chosen[i]) RF_TRY(check_whole(&modules->items[i], config, &found[i * RF_LORA_NUM_TENSORS]));
    return set->count > 0 ? RF_OK : RF_FAIL(RF_ERROR_NOT_FOUND, "there are no tensors");
}
