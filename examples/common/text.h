/* SPDX-License-Identifier: Apache-2.0 */
/* Text as numbers: files are joined, and each byte that occurs in them, or each byte pair of a tokenizer, has a number.
 */
#ifndef EXAMPLE_TEXT_H
#define EXAMPLE_TEXT_H

#include <stdint.h>

#include <ringfire/ringfire.h>

typedef struct text {
    int32_t *tokens; /* what stands at each place, below `vocabulary` */
    uint64_t length, num_bytes;
    uint32_t vocabulary;
    rf_tokenizer *byte_pairs; /* NULL: bytes are the tokens */
    char byte_of[256];
    int32_t token_of[256]; /* -1 where the byte does not occur */
} text;

/* Files of text. */
typedef struct text_files {
    char **paths;
    uint32_t count;
} text_files;

/* The own documentation of this project, which programs learn from unless they are told otherwise. */
#define EXAMPLE_TEXTS EXAMPLE_SOURCE "/README.md", EXAMPLE_SOURCE "/CONTRIBUTING.md", EXAMPLE_SOURCE "/docs"

/* The files among `paths`, and those in and below its directories whose names end with one of `suffixes` (with a NULL
 * after the last), by name. Says what is wrong and returns -1 when one is not there. */
int text_find_files(const char *const *paths, uint32_t num_paths, const char *const *suffixes, text_files *out);
void text_free_files(text_files *files);

/* Reads the files and directories (*.md and *.txt in and below them, by name) one after the other. Says what is wrong
 * and returns -1 when one cannot be read, or when there is no text. `byte_pairs`: the file of a tokenizer, which is
 * learned from the text, with at most `max_tokens`, and written where it does not exist yet. NULL: bytes. */
int text_load(const char *const *paths, uint32_t num_paths, const char *byte_pairs, uint32_t max_tokens, text *out);
void text_free(text *t);

/* Tokens of another text, without what the vocabulary lacks. The caller frees them with free(). */
int text_encode(const text *t, const char *other, int32_t **tokens, uint64_t *count);
/* The bytes of a token. */
const char *text_of(const text *t, int32_t token, size_t *size);

/* Windows of tokens [begin, end) of `t`, as rf_dataset_from_tokens() makes them of all. */
int text_windows(const text *t, uint64_t begin, uint64_t end, uint32_t length, uint32_t step, rf_dataset **out);

#endif
