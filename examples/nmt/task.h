/* SPDX-License-Identifier: Apache-2.0 */
/* The task that a translator learns, as tokens: dates (dates.h), or messages of programs (messages.h). */
#ifndef EXAMPLE_NMT_TASK_H
#define EXAMPLE_NMT_TASK_H

#include <stdint.h>

#include <ringfire/ringfire.h>

#include "messages.h"

enum { TASK_MAX_LENGTH = 32, TASK_MAX_TEXT = 512, TASK_LEAST_MESSAGES = 5000 };

typedef struct task {
    const char *name;                                                            /* what the pairs are */
    uint32_t source_vocabulary, target_vocabulary, source_length, target_length; /* padding and ends included */
    int32_t start, end; /* the tokens that begin and end a translation; NMT_PADDING is 0 */
    uint64_t num_train;
    uint32_t num_tests;
    /* The rest is the task's own. */
    uint64_t seed;
    messages messages; /* none: dates; those for tests stand last */
    rf_tokenizer *source_pieces, *target_pieces;
    int32_t *sources, *targets; /* of the messages, [count, length]; targets without their ends */
} task;

/* Tests are as many as `most_tests`, but no more than what there is to train on. All return -1 after saying what is
 * wrong. */
int task_create_dates(uint64_t seed, uint64_t limit, uint32_t most_tests, task *out);
/* With at most `vocabulary` word pieces of each language, which are learned from the messages. `limit` 0: all of them.
 * With fewer than TASK_LEAST_MESSAGES the task has no name, and that is no failure. Catalogues that
 * cannot be read are named unless `quiet`. */
int task_create_messages(const char *locales, const char *language, uint32_t vocabulary, uint64_t limit,
                         uint32_t most_tests, bool quiet, task *out);
void task_free(task *t);

/* Elements (source i32 [source_length], target i32 [target_length] that begins with `start`, the tokens that follow
 * each of it). */
int task_dataset(const task *t, rf_dataset **out);
/* The texts of a test, numbered from 0. */
void task_test(const task *t, uint32_t index, char source[TASK_MAX_TEXT], char target[TASK_MAX_TEXT]);

/* Tokens of a text, filled up with padding; false where it is empty, too long or has no tokens. */
bool task_encode_source(const task *t, const char *text, int32_t *tokens);
/* Tokens of a translation, without those that begin and end it; their number, 0 where it is too long. */
uint32_t task_encode_target(const task *t, const char *text, int32_t *tokens);
/* How many tokens a translation has before its end. */
uint32_t task_length(const task *t, const int32_t *tokens);
/* The text of a translation up to its end. */
int task_decode_target(const task *t, const int32_t *tokens, char text[TASK_MAX_TEXT]);

#endif
