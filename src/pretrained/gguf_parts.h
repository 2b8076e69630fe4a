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
/* A setting: its key in a file, behind the architecture's name, in config.json, and its place in rf_decoder. */
typedef struct rf_gguf_setting {
    const char *gguf, *hub;
    size_t place;  /* of an int32_t, or of a double */
    bool number;   /* a double */
    bool optional; /* a file need not have it */
} rf_gguf_setting;
typedef struct rf_gguf_architecture {
    const char *model_type, *name, *prefix;
    const char *classes[2]; /* with a head, and without one */
    const rf_gguf_name *names;
    const rf_gguf_setting *settings;
    uint32_t num_names, num_settings;
    bool pairs;          /* rotated halves become neighbours; else queries and keys are kept */
    bool attention_bias; /* the key says whether there are biases; else the architecture does */
    bool mlp_bias;
} rf_gguf_architecture;
#define RF_GGUF_FREQUENCIES "rope_freqs.weight" /* divisors of Llama 3's rotary frequencies */

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
/* The other way: the tensor's name in the hub's files, with the prefix where it has it. */
rf_result rf_gguf_find_hub_name(const rf_gguf_architecture *a, const char *gguf, const rf_gguf_name **row, char **name);
/* NULL: none of that name in GGUF is known. */
const rf_gguf_architecture *rf_gguf_find_architecture(const char *name);
/* The row of a tensor of heads in the hub's files that is row `row` in GGUF, and the other way: llama.cpp rotates
 * neighbours, the hub's models the halves of a head. */
uint64_t rf_gguf_row_in_hub(uint64_t row, uint64_t rows, uint64_t heads);
uint64_t rf_gguf_row_in_file(uint64_t row, uint64_t rows, uint64_t heads);
/* The divisors that RF_ROTARY_LLAMA3 has, of `width` / 2 frequencies. */
void rf_gguf_divisors(const rf_rotary_params *rotary, double base, uint32_t width, float *out);
/* The scaling that has these divisors; false: that of no Llama 3. */
bool rf_gguf_fit_divisors(const float *divisors, double base, uint32_t width, rf_rotary_params *out);

#endif
