/* SPDX-License-Identifier: Apache-2.0 */
/* A language model of a directory of the Hugging Face hub, and texts that it goes on with. */
#ifndef EXAMPLE_LANGUAGE_H
#define EXAMPLE_LANGUAGE_H

#include "common.h"

typedef struct language {
    rf_strategy *strategy;
    rf_pretrained *pretrained;
    rf_tokenizer *tokenizer;
    rf_chat_template *chat_template; /* NULL: the directory has none */
} language;

/* Opens a directory on all workers, its weights in few bits unless `bits` is RF_QUANTIZATION_NONE, with the adapter of
 * another directory unless that is NULL; each reads the tokenizer's files. Says what is wrong and returns -1. */
int language_open(rf_strategy *strategy, const char *directory, rf_quantization bits, const char *adapter,
                  language *out);
/* "nf4", "q4_0" or "int8"; for anything else the program ends with an error. */
rf_quantization language_parse_bits(struct argp_state *state, const char *text);
void language_close(language *l);

/* Writes the model, its adapter merged, as a directory, or as a GGUF file where the path ends with ".gguf". Says what
 * is wrong and returns -1. */
int language_save(language *l, const char *path);

/* How texts are written; zeros are what the directory says, and greedy where it says nothing. */
typedef struct language_settings {
    rf_sampling_params sampling; /* each field that is not 0 replaces that of the directory */
    bool greedy;
    uint32_t max_new_tokens; /* 0: what the directory says, else 128 */
    const char *stops[8];    /* texts that end a text */
    uint32_t num_stops;
    uint64_t seed;
    bool raw; /* go on with the prompt itself, also where there is a chat template */
    const char *system;
} language_settings;
/* Options of argp for all of them, as a child; its input is the settings. */
extern const struct argp language_parser;

/* Prints an answer to each of the prompts while it is written, and how fast that was. All workers call it alike. 0,
 * STOPPED, or -1 after saying what is wrong. */
int language_write(language *l, const char *const *prompts, uint32_t num_prompts, const language_settings *settings);

#endif
