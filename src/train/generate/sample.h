/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of the next token from its logits: a pure function. */
#ifndef RF_TRAIN_GENERATE_SAMPLE_H
#define RF_TRAIN_GENERATE_SAMPLE_H

#include <ringfire/model.h>

typedef struct rf_candidate {
    float logit;
    int32_t token;
} rf_candidate;

/* `function` begins messages. */
rf_result rf_sampling_check(const rf_sampling_params *p, const char *function);
/* The uniform number, from 0 to below 1, for a token. */
double rf_sampling_uniform(uint64_t seed, uint32_t prompt, uint32_t place);
/* `text` are the tokens so far; `candidates` is room for the vocabulary. The first token is chosen of equal logits. */
rf_result rf_sample_token(const rf_sampling_params *p, const float *logits, uint32_t vocabulary, const int32_t *text,
                          uint32_t length, double uniform, rf_candidate *candidates, int32_t *token);

#endif
