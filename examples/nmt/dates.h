/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs for a translator, made by a program: a date as people write it, and the same date as ISO 8601 has it. "thursday
 * 3 march 1870", "3.3.70"... A translator can get every one of them right, so that what it gets wrong is its own.
 */
#ifndef EXAMPLE_NMT_DATES_H
#define EXAMPLE_NMT_DATES_H

#include <stdint.h>

#include <ringfire/ringfire.h>

enum {
    DATES_SOURCE_LENGTH = 30, /* characters of the longest date, and padding */
    DATES_TARGET_LENGTH = 11, /* ten characters and the end */
    DATES_START = 1,          /* the token that begins a translation; NMT_PADDING is 0 */
    DATES_END = 2,
    DATES_FIRST = 3, /* of the characters */
};

/* Tokens that there are, those above included. */
extern const uint32_t dates_source_vocabulary, dates_target_vocabulary;

/* Tokens of `text`, filled up with padding. False where it is too long or has a character that no date has. */
bool dates_encode_source(const char *text, int32_t tokens[DATES_SOURCE_LENGTH]);
/* Tokens of a date in ISO 8601's form, without those that begin and end it; their number. */
uint32_t dates_encode_target(const char *text, int32_t tokens[DATES_TARGET_LENGTH]);
/* The text of a translation up to its end. */
void dates_decode_target(const int32_t *tokens, uint32_t count, char text[DATES_TARGET_LENGTH + 1]);

typedef struct date_pair {
    char source[64];                  /* of at most DATES_SOURCE_LENGTH characters */
    char target[DATES_TARGET_LENGTH]; /* "1998-03-03" */
} date_pair;
/* The pair number `index` of a seed. No day of 1900 to 2099 is both in pairs for training and in pairs for tests. */
date_pair dates_make(uint64_t seed, uint64_t index, bool for_training);

/* Elements (source i32 [DATES_SOURCE_LENGTH], target i32 [DATES_TARGET_LENGTH] that begins with DATES_START, the tokens
 * that follow each of it). Says what is wrong and returns -1. */
int dates_dataset(uint64_t seed, uint64_t count, bool for_training, rf_dataset **out);

#endif
