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
    rf_dtype compute; /* f16 or bf16: what blocks and logits are stored in; 0: f32 */
} gpt_config;

extern const gpt_config gpt_2_small; /* the published one: 124 million parameters */

typedef struct gpt gpt;

/* The model takes tokens i32 [n, block] and gives logits [n, block, vocabulary]. A configuration
 * whose width is no multiple of its heads fails when it is traced. Variables are normal with deviation 0.02; those that
 * write to the residual path, 0.02 / sqrt(2 layers). */
rf_result gpt_create(rf_strategy *strategy, const gpt_config *config, gpt **out);
rf_model *gpt_model(const gpt *g); /* owned by `g` */
void gpt_destroy(gpt **g);

#endif
