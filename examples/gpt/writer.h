/* SPDX-License-Identifier: Apache-2.0 */
/* A GPT's prediction of the next token of a text that grows, one token after the other. */
#ifndef EXAMPLE_GPT_WRITER_H
#define EXAMPLE_GPT_WRITER_H

#include "model.h"

typedef struct writer writer;

/* Borrows strategy and model. With `cached` each token is read once, and the model's keys and values are kept for those
 * that follow; else all tokens are read again for each. Either way the model sees the last `block` tokens at most: when
 * there is no more room, it forgets the first half of them. Says what is wrong and returns -1. */
int writer_create(rf_strategy *strategy, const gpt *g, const gpt_config *config, bool cached, writer **out);
void writer_destroy(writer **w);

/* Adds a token to the text. */
void writer_add(writer *w, int32_t token);
/* The logits, [vocabulary], of the token that follows, from the replica that has the text; of a text without tokens,
 * those after token 0. All workers of a job call this alike, and get the same. `logits` is freed with rf_array_free().
 * Says what is wrong and returns -1. */
int writer_ask(writer *w, rf_array *logits);

#endif
