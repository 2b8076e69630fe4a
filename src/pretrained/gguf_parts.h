/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a GGUF file that is made of a directory of the hub: the names of its tensors and its settings, as
 * llama.cpp reads them. */
#ifndef RF_PRETRAINED_GGUF_PARTS_H
#define RF_PRETRAINED_GGUF_PARTS_H

#include "persist/arrays/gguf_values.h"
#include "pretrained/config.h"
#include "pretrained/names.h"

/* ---- architectures ---- */

/* How the rows of a tensor change on its way into a file. */
typedef enum rf_gguf_change {
    RF_GGUF_KEPT,
    RF_GGUF_TURNED,    /* [in, out] becomes [out, in] */
    RF_GGUF_OF_QUERY,  /* the halves of a head that rotate together become neighbours */
    RF_GGUF_OF_KEY,    /* the same of heads of keys */
    RF_GGUF_OMITTED,   /* other programs make it themselves */
    RF_GGUF_IF_UNTIED, /* the head, which is not there where it is the embedding's table */
} rf_gguf_change;
typedef struct rf_gguf_name {
    const char *hub, *gguf; /* patterns; that of the hub is without the prefix */
    rf_gguf_change change;
} rf_gguf_name;
typedef struct rf_gguf_architecture {
    const char *model_type, *name, *prefix;
    const rf_gguf_name *names;
    uint32_t num_names;
    bool pairs; /* rotated halves become neighbours; else queries and keys are kept */
} rf_gguf_architecture;

/* The part of config.json that tensors need. */
typedef struct rf_gguf_model {
    const rf_gguf_architecture *architecture;
    uint32_t heads, key_heads, vocabulary;
    bool tied;
    float *frequencies; /* `num_frequencies` divisors of rotary frequencies, in the values' arena; NULL: none */
    uint32_t num_frequencies;
} rf_gguf_model;

/* Fails for a model type that has no table, and for what llama.cpp has no setting for, naming the key. */
rf_result rf_gguf_describe_model(rf_pretrained_config *config, rf_gguf_values *v, rf_gguf_model *out);
/* The row of a tensor, and its name in GGUF, to be freed; RF_ERROR_UNSUPPORTED names one that has none. */
rf_result rf_gguf_find_name(const rf_gguf_model *model, const char *hub, const rf_gguf_name **row, char **name);

#endif
