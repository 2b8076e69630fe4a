/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adapters in PEFT's files. The first byte says what is read: 0 an adapter_config.json, which is written and read
 * again; 1 tensors, with the header of a safetensors file up to the first line feed and their bytes after it, for a
 * model of a dense layer, a projection of two parts, an embedding and a convolution. The second byte is the rank then,
 * and whether the adapter has magnitudes.
 */
#include <string.h>

#include "base/memory.h"
#include "fuzz.h"
#include "one_file.h"
#include "persist/arrays/interchange_files.h"
#include "replica/store/variables.h"
#include "train/lora/config.h"
#include "train/lora/tensors.h"

enum { MODULES = 4, NUM_SITES = 5 };

/* ---- the configuration ---- */

static void read_config(const char *text, size_t size)
{
    static const char *const targets[] = { "q_proj" };
    const rf_lora_description description = { .targets = targets, .num_targets = 1 };
    rf_lora_config config, again;
    char *written;
    if (rf_lora_config_read("f", text, size, &config) < 0) {
        promise_message();
        return;
    }
    PROMISE(config.rank >= 1 && config.rank <= 65536 && config.alpha > 0 && config.dropout >= 0 && config.dropout < 1);
    PROMISE(rf_lora_config_write(&config, &description, &written) == RF_OK);
    PROMISE(rf_lora_config_read("f", written, strlen(written), &again) == RF_OK);
    PROMISE(config.rank == again.rank && config.alpha == again.alpha && config.dropout == again.dropout);
    PROMISE(config.rank_stabilized == again.rank_stabilized && config.weight_decomposed == again.weight_decomposed);
    rf_free(written);
}

/* ---- tensors ---- */

static rf_variable weights[NUM_SITES] = { { .shape = { .rank = 2, .dim = { 3, 2 } } },
                                          { .shape = { .rank = 2, .dim = { 2, 1 } } },
                                          { .shape = { .rank = 2, .dim = { 2, 3 } } },
                                          { .shape = { .rank = 2, .dim = { 5, 2 } } },
                                          { .shape = { .rank = 4, .dim = { 2, 1, 3, 2 } } } };
static rf_product_site places[NUM_SITES] = {
    { .product = { .kind = RF_PRODUCT_DENSE, .weight = &weights[0] } },
    { .product = { .kind = RF_PRODUCT_DENSE, .weight = &weights[1] } },
    { .product = { .kind = RF_PRODUCT_DENSE, .weight = &weights[2] } },
    { .product = { .kind = RF_PRODUCT_LOOKUP, .weight = &weights[3] } },
    { .product = { .kind = RF_PRODUCT_CONV, .weight = &weights[4] } },
};
static rf_product_sites sites = { .items = places, .count = NUM_SITES };
static const rf_layer layer = { .sites = &sites };
#define MATRIX(rows) .a = { .rank = 2, .dim = { rows, 0 } }
static rf_lora_module items[MODULES] = {
    { .name = (char[]){ "h.0.mlp" }, .parts = { { &layer, 0, 0, 2 } }, .num_parts = 1, MATRIX(3) },
    { .name = (char[]){ "h.0.attn" },
      .parts = { { &layer, 1, 1, 1 }, { &layer, 2, 2, 3 } },
      .num_parts = 2,
      MATRIX(2) },
    { .name = (char[]){ "wte" }, .parts = { { &layer, 3, 0, 2 } }, .num_parts = 1, MATRIX(5) },
    { .name = (char[]){ "conv" },
      .parts = { { &layer, 4, 0, 2 } },
      .num_parts = 1,
      .a = { .rank = 4, .dim = { 2, 1, 3, 0 } } },
};
static const rf_lora_modules modules = { .items = items, .count = MODULES };

/* Each module that is chosen has all of its tensors, in their shapes, and no other module has any. */
static void check_match(const rf_lora_config *config, const rf_named_array *const *found, const bool *chosen)
{
    for (uint32_t i = 0; i < MODULES; i++)
        for (uint32_t k = 0; k < RF_LORA_NUM_TENSORS; k++) {
            const rf_named_array *tensor = found[i * RF_LORA_NUM_TENSORS + k];
            PROMISE((tensor != NULL) == (chosen[i] && k < rf_lora_num_tensors(config)));
            if (!tensor) continue;
            const rf_shape shape = rf_lora_tensor_shape(&items[i], (rf_lora_tensor)k, config->rank);
            char *name = rf_lora_tensor_name(&items[i], (rf_lora_tensor)k);
            PROMISE(rf_shape_equal(tensor->array.shape, shape) && strcmp(tensor->name, name) == 0);
            rf_free(name);
        }
}

static void read_tensors(const rf_lora_config *config, const uint8_t *data, size_t size)
{
    const rf_named_array *found[MODULES * RF_LORA_NUM_TENSORS] = { NULL };
    bool chosen[MODULES] = { false };
    const uint8_t *end = memchr(data, '\n', size);
    const size_t length = end ? (size_t)(end - data) : size, rest = end ? size - length - 1 : 0;
    uint8_t *bytes = malloc(8 + length + rest);
    PROMISE(bytes);
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)((uint64_t)length >> (8 * i));
    memcpy(bytes + 8, data, length);
    if (rest > 0) memcpy(bytes + 8 + length, end + 1, rest);
    one_file file = { .bytes = bytes, .size = 8 + length + rest };
    const rf_file_ops ops = one_file_ops(&file);
    rf_array_set set;
    rf_result r = rf_safetensors_read_with(&ops, "f", &set);
    if (r >= 0) r = rf_lora_tensors_match(&modules, config, &set, found, chosen);
    if (r < 0)
        promise_message();
    else
        check_match(config, found, chosen);
    rf_array_set_free(&set);
    free(bytes);
}

FUZZ_TARGET(lora)
{
    if (size < 2) return 0;
    const rf_lora_config config = { .rank = data[1] >> 1 & 7, .weight_decomposed = data[1] & 1 };
    if (data[0] & 1)
        read_tensors(&config, data + 2, size - 2);
    else
        read_config((const char *)data + 1, size - 1);
    return 0;
}
