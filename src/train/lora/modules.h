/* SPDX-License-Identifier: Apache-2.0 */
/* The modules of a model that adapters can be put on. */
#ifndef RF_TRAIN_LORA_MODULES_H
#define RF_TRAIN_LORA_MODULES_H

#include "train/layers/product.h"
#include "train/model/model.h"

enum { RF_LORA_MOST_PARTS = 8 };
/* One product of the model: all of a module, or consecutive outputs of it. */
typedef struct rf_lora_part {
    const rf_layer *layer;
    uint32_t site;   /* of the layer's */
    uint32_t number; /* among the parts, from 1 on; 0: it is all */
    uint64_t out;
} rf_lora_part;
typedef struct rf_lora_module {
    char *name; /* "transformer.h.0.attn.c_attn" */
    rf_lora_part parts[RF_LORA_MOST_PARTS];
    uint32_t num_parts;
    rf_shape a;          /* of the first matrix, with 0 for the rank, which comes last */
    bool fan_in_fan_out; /* the files have the weight as [in, out] */
    bool head;           /* makes outputs of the model */
} rf_lora_module;
typedef struct rf_lora_modules {
    rf_lora_module *items;
    uint32_t count, capacity;
} rf_lora_modules;

/* Freed with rf_lora_modules_clear(), also when it fails. */
rf_result rf_lora_modules_find(rf_lora_modules *modules, const rf_model *model);
void rf_lora_modules_clear(rf_lora_modules *modules);

rf_product_site *rf_lora_site(const rf_lora_part *part);
rf_product_kind rf_lora_kind(const rf_lora_module *module);
/* Rows of the first matrix, and columns of the second one. */
uint64_t rf_lora_in(const rf_lora_module *module);
uint64_t rf_lora_out(const rf_lora_module *module);

/* Whether a name, or what follows one of its dots, is of the pattern, in which "*" stands for any characters and "/"
 * for a dot. */
bool rf_lora_pattern_matches(const char *pattern, const char *name);
/* Sets chosen[i] for each module that the targets name; those that NULL stands for: dense layers but heads. A target
 * that names none is an error. */
rf_result rf_lora_choose(const rf_lora_modules *modules, const char *const *targets, uint32_t num_targets,
                         bool *chosen);

#endif
