/* SPDX-License-Identifier: Apache-2.0 */
/* Translations, token by token: greedily, or with several hypotheses at a time (beam search). */
#ifndef EXAMPLE_NMT_DECODE_H
#define EXAMPLE_NMT_DECODE_H

#include "model.h"

typedef struct decoder_params {
    const nmt_config *config;
    int32_t start, end; /* the tokens that begin and end a translation */
    uint32_t beam;      /* hypotheses; 1: greedy */
} decoder_params;

typedef struct decoder decoder;

/* Borrows strategy and model. Says what is wrong and returns -1. */
int decoder_create(rf_strategy *strategy, const nmt *m, const decoder_params *params, decoder **out);
void decoder_destroy(decoder **d);

/* Translates `count` sources, [count, source_length], into [count, target_length] tokens, with the end and padding
 * after it. The hypothesis with the largest mean of its tokens' log probabilities is taken. All workers of a job call
 * this alike, and get the same. Says what is wrong and returns -1, or STOPPED. */
int decoder_run(decoder *d, const int32_t *sources, uint32_t count, int32_t *translations);

#endif
