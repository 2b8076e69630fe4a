/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of tokenizers. One is filled with tokens in the order of their numbers, finished, and never changed then.
 */
#ifndef RF_TEXT_TOKENIZER_H
#define RF_TEXT_TOKENIZER_H

#include <ringfire/text.h>

#include "text/table.h"

enum {
    RF_TOKENIZER_KINDS = RF_TOKENIZER_BYTE_PAIR + 1, /* that are made of parameters */
    RF_MAX_MERGED_BYTES = 128,                       /* of a token that merging made */
    RF_MAX_WORD_CHARACTERS = 100                     /* of a word that WordPiece looks into */
};

struct rf_tokenizer {
    rf_tokenizer_kind kind;
    struct rf_pipeline *pipeline; /* RF_TOKENIZER_PIPELINE alone */
    bool keep_case, keep_punctuation;
    rf_string_table tokens; /* by number */
    bool *special;          /* [tokens.count] */
    int32_t unknown;        /* "[UNK]"; -1: there is none */
    uint32_t longest;       /* bytes of the longest token */
    rf_pair_table merges;   /* RF_TOKENIZER_BYTE_PAIR: two tokens to the one that they become; lower ones first */
    struct {
        uint64_t *items; /* keys of `merges`, in order */
        uint32_t count, capacity;
    } merge_list;
};

/* The special tokens of a kind. */
const char *const *rf_tokenizer_own_tokens(rf_tokenizer_kind kind, uint32_t *count);

/* Whether the kind and the special tokens make sense. */
rf_result rf_tokenizer_check_params(const rf_tokenizer_params *params);
/* Without tokens. `params` were checked. */
rf_result rf_tokenizer_new(const rf_tokenizer_params *params, rf_tokenizer **out);
/* The next token; `failure` is the code where there is one of the same text. */
rf_result rf_tokenizer_add(rf_tokenizer *t, const char *bytes, size_t size, rf_result failure);
/* The next tokens: the kind's special ones, where they come first, or those of `params`. */
rf_result rf_tokenizer_add_own(rf_tokenizer *t);
rf_result rf_tokenizer_add_special(rf_tokenizer *t, const rf_tokenizer_params *params);
/* Byte pairs only: the 256 bytes. */
rf_result rf_tokenizer_add_bytes(rf_tokenizer *t);
/* The next token is what `left` and `right`, tokens, become. False in `*taken`: it would be too long, or there is one
 * of the same text. */
rf_result rf_tokenizer_add_merged(rf_tokenizer *t, uint32_t left, uint32_t right, bool *taken);
/* When all tokens are there: finds the special ones and checks the others; `failure` is the code where one is missing
 * or can never occur. */
rf_result rf_tokenizer_finish(rf_tokenizer *t, const rf_tokenizer_params *params, rf_result failure);

/* The number of a token that text can become; RF_TABLE_NONE where there is none. */
static inline uint32_t rf_tokenizer_find(const rf_tokenizer *t, const char *bytes, size_t size)
{
    const uint32_t number = rf_string_table_find(&t->tokens, bytes, size);
    return number != RF_TABLE_NONE && t->special[number] ? RF_TABLE_NONE : number;
}

/* The content of a tokenizer's file; rf_free(). */
rf_result rf_tokenizer_text(const rf_tokenizer *t, char **text);
/* `check` false: whatever the checksum says. */
rf_result rf_tokenizer_parse(const char *text, size_t size, bool check, rf_tokenizer **out);

#endif
