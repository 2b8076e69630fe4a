/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizers in GGUF files. */
#ifndef RF_TEXT_GGUF_TOKENIZER_H
#define RF_TEXT_GGUF_TOKENIZER_H

#include <jansson.h>

#include "persist/arrays/gguf_values.h"

/* The types of tokens, by the numbers of the format. */
enum {
    RF_GGUF_NORMAL = 1,
    RF_GGUF_UNKNOWN = 2,
    RF_GGUF_CONTROL = 3,
    RF_GGUF_USER_DEFINED = 4,
    RF_GGUF_UNUSED = 5,
    RF_GGUF_BYTE = 6
};
/* Rules that cut text into words before bytes are merged. */
typedef struct rf_gguf_rules {
    const char *names[4]; /* that llama.cpp has for them; the first one is written */
    const char *pattern;  /* of words; NULL: GPT-2's */
    bool digits;          /* each is a word */
    bool whole_words;     /* a word that is a token is not made of merges */
    bool composed;        /* models of this name bring text into normal form C first; llama.cpp does not */
} rf_gguf_rules;
extern const rf_gguf_rules rf_gguf_rules_known[];
enum { RF_GGUF_RULES = 4 };
/* Special tokens in tokenizer_config.json, and in the values of a file. */
extern const char *const rf_gguf_special_names[][2];
enum { RF_GGUF_SPECIALS = 6 };

/* The files of a directory that a tokenizer is made of; NULL: not there. `config` is config.json. */
typedef struct rf_tokenizer_files {
    const json_t *tokenizer, *tokenizer_config, *config;
    const char *chat_template, *path; /* of tokenizer.json, for messages */
} rf_tokenizer_files;
/* `pre` is the name of the rules that cut text into words, where the files' are none of those known; NULL: none. */
rf_result rf_gguf_describe_tokenizer(const rf_tokenizer_files *files, uint32_t vocabulary, const char *pre,
                                     rf_gguf_values *v);

/* A file's tokenizer as tokenizer.json and tokenizer_config.json would say it; new references. `tokenizer` NULL: not
 * asked. RF_ERROR_UNSUPPORTED names the key of a tokenizer that is not known. */
rf_result rf_gguf_read_tokenizer(const rf_gguf *file, json_t **tokenizer, json_t **settings);
/* The same of the file at a path. */
rf_result rf_gguf_load_tokenizer(const char *path, json_t **tokenizer, json_t **settings);

#endif
