/* SPDX-License-Identifier: Apache-2.0 */
/* The adapters of a model, and what they have changed about it. */
#ifndef RF_TRAIN_LORA_SET_H
#define RF_TRAIN_LORA_SET_H

#include <ringfire/lora.h>

#include "train/lora/modules.h"

/* rf_lora_params with its defaults. */
typedef struct rf_lora_config {
    uint32_t rank;
    float alpha, dropout;
    bool rank_stabilized, weight_decomposed;
} rf_lora_config;
/* The matrices of a module: of several parts all have the first matrix of the first one. */
typedef struct rf_lora_item {
    uint32_t module;
    rf_adapter parts[RF_LORA_MOST_PARTS];
} rf_lora_item;
typedef struct rf_lora_adapter {
    char *name;
    rf_lora_config config;
    rf_lora_item *items;
    uint32_t num_items;
    bool merged;
} rf_lora_adapter;
/* Whether a layer or a variable was frozen before there were adapters. */
typedef struct rf_lora_frozen {
    rf_layer *layer;
    rf_variable *variable;
    bool was;
} rf_lora_frozen;
typedef struct rf_lora_original {
    rf_variable *variable;
    float *values;
} rf_lora_original;

struct rf_lora_set {
    rf_model *model;
    rf_lora_modules modules;
    struct {
        rf_lora_adapter **items;
        uint32_t count, capacity;
    } adapters;
    rf_lora_adapter *active; /* NULL: none */
    struct {
        rf_lora_frozen *items;
        uint32_t count, capacity;
    } frozen;
    struct {
        rf_lora_original *items;
        uint32_t count, capacity;
    } originals; /* weights into which adapters are merged */
};

/* The adapters of a built model, made where it has none yet; `function` is for messages. */
rf_result rf_lora_set_of(rf_model *model, const char *function, rf_lora_set **out);
/* The adapter of a name; fails where there is none. */
rf_result rf_lora_find(rf_model *model, const char *name, const char *function, rf_lora_adapter **out);
/* rf_lora_set_active() of an adapter, or of none: sites and variables are told. */
rf_result rf_lora_activate(rf_lora_set *set, rf_lora_adapter *adapter);
/* Takes an adapter out of the set, and frees it. */
void rf_lora_remove(rf_lora_set *set, rf_lora_adapter *adapter);

/* ---- attach.c ---- */
rf_result rf_lora_config_check(const rf_lora_config *config, const char *function);
float rf_lora_scale(const rf_lora_config *config);
/* Attaches an adapter to the modules that are chosen, and lets it act. */
rf_result rf_lora_attach_to(rf_lora_set *set, const char *name, const rf_lora_config *config, const bool *chosen);
/* The chief's numbers to all workers: other processors may round otherwise. */
rf_result rf_lora_agree(rf_strategy *strategy, float *values, uint64_t count);
/* The weight of a part as a matrix [in, out]. */
rf_result rf_lora_read_matrix(const rf_lora_part *part, float *values);

#endif
