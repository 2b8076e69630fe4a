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
    /* Positions count tokens, from the number of the padding on; tokens that are all of one type have no input for it.
     */
    bool padded_positions;
    int32_t padding;
    bool own_pooler;       /* the classifier has one, beside that of the bare model */
    double pooler_dropout; /* before it */
} rf_encoder;

/* All that configurations of BERT's kind call the same; `classes` in the order of rf_encoder_kind. */
rf_encoder rf_encoder_read_bert(const rf_blocks *b, const char *const *classes);
/* `heads_key` is what the configuration calls the number of heads. */
void rf_encoder_build(const rf_blocks *b, const rf_encoder *e, const char *heads_key, rf_pretrained_outputs *outputs);

/* Older files call gains of norms gamma, and their biases beta. */
#define RF_ENCODER_NORM(OF, TO)                                                                                        \
    { .tensor = OF ".weight", .variable = TO "/gamma" }, { .tensor = OF ".bias", .variable = TO "/beta" },             \
        { .tensor = OF ".gamma", .variable = TO "/gamma" },                                                            \
    {                                                                                                                  \
        .tensor = OF ".beta", .variable = TO "/beta"                                                                   \
    }
#define RF_ENCODER_PRODUCT(OF, TO)                                                                                     \
    { .tensor = OF ".weight", .variable = TO "/kernel", .layout = RF_PRETRAINED_TRANSPOSED },                          \
    {                                                                                                                  \
        .tensor = OF ".bias", .variable = TO "/bias"                                                                   \
    }
/* Heads that a class may be without. */
#define RF_ENCODER_HEAD(OF, TO)                                                                                        \
    { .tensor = OF ".weight",                                                                                          \
      .variable = TO "/kernel",                                                                                        \
      .layout = RF_PRETRAINED_TRANSPOSED,                                                                              \
      .optional = true,                                                                                                \
      .head = true },                                                                                                  \
    {                                                                                                                  \
        .tensor = OF ".bias", .variable = TO "/bias", .optional = true, .head = true                                   \
    }
#define RF_ENCODER_HEAD_NORM(OF, TO)                                                                                   \
    { .tensor = OF ".weight", .variable = TO "/gamma", .optional = true, .head = true },                               \
        { .tensor = OF ".bias", .variable = TO "/beta", .optional = true, .head = true },                              \
        { .tensor = OF ".gamma", .variable = TO "/gamma", .optional = true, .head = true },                            \
    {                                                                                                                  \
        .tensor = OF ".beta", .variable = TO "/beta", .optional = true, .head = true                                   \
    }

/* Rows of all that are called as BERT's. */
#define RF_ENCODER_BERT_TENSORS                                                                                        \
    { .tensor = "embeddings.word_embeddings.weight", .variable = "word_embeddings/embeddings" },                       \
        { .tensor = "embeddings.position_embeddings.weight", .variable = "position_embeddings/embeddings" },           \
        { .tensor = "embeddings.token_type_embeddings.weight", .variable = "token_type_embeddings/embeddings" },       \
        RF_ENCODER_NORM("embeddings.LayerNorm", "embeddings_norm"),                                                    \
        RF_ENCODER_PRODUCT("encoder.layer.{}.attention.self.query", "layer/{}/attention/query"),                       \
        RF_ENCODER_PRODUCT("encoder.layer.{}.attention.self.key", "layer/{}/attention/key"),                           \
        RF_ENCODER_PRODUCT("encoder.layer.{}.attention.self.value", "layer/{}/attention/value"),                       \
        RF_ENCODER_PRODUCT("encoder.layer.{}.attention.output.dense", "layer/{}/attention/attention_output"),          \
        RF_ENCODER_NORM("encoder.layer.{}.attention.output.LayerNorm", "layer/{}/attention_norm"),                     \
        RF_ENCODER_PRODUCT("encoder.layer.{}.intermediate.dense", "layer/{}/intermediate"),                            \
        RF_ENCODER_PRODUCT("encoder.layer.{}.output.dense", "layer/{}/output"),                                        \
        RF_ENCODER_NORM("encoder.layer.{}.output.LayerNorm", "layer/{}/output_norm"),                                  \
        { .tensor = "pooler.dense.weight",                                                                             \
          .variable = "pooler/kernel",                                                                                 \
          .layout = RF_PRETRAINED_TRANSPOSED,                                                                          \
          .optional = true },                                                                                          \
        { .tensor = "pooler.dense.bias", .variable = "pooler/bias", .optional = true },                                \
    {                                                                                                                  \
        .tensor = "embeddings.position_ids"                                                                            \
    }

#endif
