/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A decoder-only transformer in the form of GPT-2 (Radford et al. 2019): token and position embeddings, blocks of
 * causal self-attention and a two-layer perceptron with layer normalisation before each, a last normalisation, and an
 * output that shares the matrix of the token embedding.
 */
#ifndef EXAMPLE_GPT_MODEL_H
#define EXAMPLE_GPT_MODEL_H

#include <ringfire/ringfire.h>

typedef struct gpt_config {
    uint32_t layers, heads, width; /* width is a multiple of heads */
    uint32_t block;                /* tokens that the model sees */
    uint32_t vocabulary;
    float dropout;
    bool bias;        /* after each projection and in each normalisation, as GPT-2 has them */
    rf_dtype compute; /* RF_F16 or RF_BF16: what the blocks compute with in training; 0: f32 */
} gpt_config;

extern const gpt_config gpt_2_small; /* the published one: 124 million parameters */

typedef struct gpt gpt;

/* The model takes tokens i32 [n, block] and gives logits [n, block, vocabulary]. A configuration
 * whose width is no multiple of its heads fails when it is traced. Variables are normal with deviation 0.02; those that
 * write to the residual path, 0.02 / sqrt(2 layers). */
rf_result gpt_create(rf_strategy *strategy, const gpt_config *config, gpt **out);
rf_model *gpt_model(const gpt *g); /* owned by `g` */
void gpt_destroy(gpt **g);

/* The keys and values of what a model has read of `rows` texts, so that it need not read it again for each token that
 * follows. They live on the device, in variables that steps assign. */
typedef struct gpt_cache gpt_cache;
rf_result gpt_cache_create(rf_strategy *strategy, const gpt *g, uint32_t rows, gpt_cache **out); /* borrows `g` */
void gpt_cache_destroy(gpt_cache **cache);

/* In a step of inference: reads tokens i32 [rows, t], which stand at `places` i32 [t], consecutive ones below `block`,
 * and keeps their keys and values. Tokens before them have been read by earlier steps. Gives the logits of what comes
 * after number `last` (i32 [1], 0 to t - 1) of these tokens: [rows, vocabulary]. Tokens after it are read again when
 * their turn comes, so they may be anything. */
rf_tensor gpt_go_on(rf_trace *t, const gpt_cache *cache, rf_tensor tokens, rf_tensor places, rf_tensor last);

#endif
