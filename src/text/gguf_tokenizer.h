/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizers in GGUF files. */
#ifndef RF_TEXT_GGUF_TOKENIZER_H
#define RF_TEXT_GGUF_TOKENIZER_H

#include <jansson.h>

#include "persist/arrays/gguf_values.h"

/* The files of a directory that a tokenizer is made of; NULL: not there. `config` is config.json. */
typedef struct rf_tokenizer_files {
    const json_t *tokenizer, *tokenizer_config, *config;
    const char *chat_template, *path; /* of tokenizer.json, for messages */
} rf_tokenizer_files;
/* `pre` is the name of the rules that cut text into words, where the files' are none of those known; NULL: none. */
rf_result rf_gguf_describe_tokenizer(const rf_tokenizer_files *files, uint32_t vocabulary, const char *pre,
                                     rf_gguf_values *v);

#endif
