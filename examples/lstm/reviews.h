/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts with a class, 1 or 0: of files, or reviews made by a program. One clause of a made review has the say
 * ("although the cast was awful, the music was not bad"): what the words are does not tell the class, their order does.
 */
#ifndef EXAMPLE_LSTM_REVIEWS_H
#define EXAMPLE_LSTM_REVIEWS_H

#include <stdint.h>

#include <ringfire/ringfire.h>

typedef struct reviews {
    const char **texts;
    int32_t *labels;
    uint32_t count;
    char *made;           /* of texts that were made */
    rf_text_lines *lines; /* of texts that were read */
} reviews;

enum { REVIEW_SIZE = 256 };
/* The review number `index` of a seed, for training or for tests. Returns its class. */
int32_t reviews_make(uint64_t seed, uint64_t index, bool for_training, char text[REVIEW_SIZE]);

/* Both say what is wrong and return -1. Reviews that were made: */
int reviews_make_all(uint64_t seed, uint32_t count, bool for_training, reviews *out);
/* Reads a file's lines, each a class (0 or 1), a tab and a text. */
int reviews_read(const char *path, reviews *out);
/* The same of lines, which it takes over. Returns what is wrong, with the line or 0; NULL: nothing. */
const char *reviews_take(rf_text_lines *lines, reviews *out, uint64_t *line);
/* Moves the last `count` of them to `tail`. */
int reviews_split(reviews *all, uint32_t count, reviews *tail);
void reviews_free(reviews *r);

/* i32 [count, length] of texts; `sizes` NULL: each ends with a zero byte. */
rf_result reviews_encode(const rf_tokenizer *tokenizer, const char *const *texts, const size_t *sizes, uint32_t count,
                         uint32_t length, rf_array *out);
/* Elements (tokens i32 [length], class f32 [1]). */
rf_result reviews_dataset(const reviews *r, const rf_tokenizer *tokenizer, uint32_t length, rf_dataset **out);

#endif
