/* SPDX-License-Identifier: Apache-2.0 */
/* Text as numbers: files are joined, and each byte that occurs in them has a number. */
#ifndef EXAMPLE_TEXT_H
#define EXAMPLE_TEXT_H

#include <stdint.h>

#include <ringfire/ringfire.h>

typedef struct text {
    int32_t *tokens; /* what stands at each place, below `vocabulary` */
    uint64_t length;
    uint32_t vocabulary;
    uint8_t byte_of[256];
    int32_t token_of[256]; /* -1 where the byte does not occur */
} text;

/* Reads the files and directories (their *.md and *.txt, by name) one after the other. Says what is wrong and returns
 * -1 when one cannot be read, or when there is no text. */
int text_load(const char *const *paths, uint32_t num_paths, text *out);
void text_free(text *t);

/* Windows of tokens [begin, end) of `t`, as rf_dataset_windows() makes them of all. */
int text_windows(const text *t, uint64_t begin, uint64_t end, uint32_t length, uint32_t step, rf_dataset **out);

#endif
