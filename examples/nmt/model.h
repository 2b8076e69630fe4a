/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Networks that translate. A transformer (Vaswani et al. 2017): the encoder reads the source at once; the decoder
 * gives, for each place of the translation, what comes next after the tokens before it. Normalisation comes after each
 * sum, as in the paper and in TensorFlow's tutorial. Or gated recurrent units with additive attention (Bahdanau, Cho &
 * Bengio 2015), which read one token after the other; a state of the decoder goes on from the one before it, and the
 * first one from the encoder's last.
 */
#ifndef EXAMPLE_NMT_MODEL_H
#define EXAMPLE_NMT_MODEL_H

#include <ringfire/ringfire.h>

enum {
    NMT_PADDING = 0,            /* the token that fills up sources and translations */
    RECURRENT_MAX_LENGTH = 256, /* of the recurrent network's translations */
};

typedef struct nmt_config {
    uint32_t units;                /* of the recurrent network; 0: the transformer, which has all the rest */
    uint32_t layers, heads, width; /* of encoder and decoder each; width is that of embeddings */
    uint32_t key_width;            /* of each head */
    uint32_t inner_width;          /* between the two matrices of a perceptron */
    float dropout;
    uint32_t source_vocabulary, target_vocabulary;
    uint32_t source_length, target_length;
} nmt_config;

typedef struct nmt nmt;

/* A built model of the inputs source i32 [n, source_length] and target i32 [n, target_length], which begins with the
 * token that begins translations; it gives logits [n, target_length, target_vocabulary] of the token after each. */
rf_result nmt_create(rf_strategy *strategy, const nmt_config *config, nmt **out);
rf_model *nmt_model(const nmt *m); /* owned by `m` */
void nmt_destroy(nmt **m);

/* In a step. Where `weights` is not NULL, it becomes the attention of the last layer to the source, the mean over its
 * heads: [n, target_length, source_length]. */
rf_tensor nmt_call(rf_trace *t, const nmt *m, rf_tensor source, rf_tensor target, rf_mode mode, rf_tensor *weights);
/* Translations that grow, `rows` of them: what the network has made of their sources and of their tokens so far, so
 * that each token is computed once. It lives on the device, in variables that steps assign. */
typedef struct nmt_cache nmt_cache;
rf_result nmt_cache_create(rf_strategy *strategy, const nmt *m, uint32_t rows, nmt_cache **out); /* borrows `m` */
void nmt_cache_destroy(nmt_cache **cache);
/* In a step of inference: reads the sources, i32 [rows, source_length]; translations begin anew. */
rf_result nmt_read(rf_trace *t, const nmt_cache *cache, rf_tensor sources);
/* In a step of inference: the logits [rows, target_vocabulary] of what follows `tokens` i32 [rows], which stand at
 * `place`, i32 of one element; at 0 those that begin translations, and then one place after the other. Row r goes on
 * from what row parents[r], of the same source, was before; i32 [rows], zeroed: each from itself. */
rf_tensor nmt_go_on(rf_trace *t, const nmt_cache *cache, rf_tensor tokens, rf_tensor place, rf_tensor parents);
/* Cross-entropy of each translation, summed over its tokens that are not padding: [n]. */
rf_tensor nmt_loss(rf_trace *t, rf_tensor labels, rf_tensor logits);
/* f32 1 where a token is not padding. */
rf_tensor nmt_mask(rf_trace *t, rf_tensor tokens);

#endif
