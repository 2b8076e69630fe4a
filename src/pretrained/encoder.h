/* SPDX-License-Identifier: Apache-2.0 */
/* Encoders as BERT is one: learned positions, norms after attention and network, a mask of padding. */
#ifndef RF_PRETRAINED_ENCODER_H
#define RF_PRETRAINED_ENCODER_H

#include "pretrained/blocks.h"

/* The first is that of a configuration without `architectures`. */
typedef enum rf_encoder_kind {
    RF_ENCODER_MASKED_LM,
    RF_ENCODER_BARE,
    RF_ENCODER_CLASSIFIER,
    RF_ENCODER_KINDS
} rf_encoder_kind;

typedef struct rf_encoder {
    rf_encoder_kind kind;
    int32_t width, inner, layers, heads, vocabulary, positions;
    int32_t types; /* of tokens; 0: none */
    double epsilon, dropout, attention_dropout, classifier_dropout;
    rf_activation activation, pooler_activation;
    bool pooler; /* the bare model has one */
} rf_encoder;

/* `heads_key` is what the configuration calls the number of heads. */
void rf_encoder_build(const rf_blocks *b, const rf_encoder *e, const char *heads_key, rf_pretrained_outputs *outputs);

#endif
