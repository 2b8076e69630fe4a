/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BERT (Devlin et al. 2019): an encoder that reads two segments of text at once, in both directions. It is trained to
 * fill in words that were masked and to tell whether the second segment follows the first one; after that it is
 * fine-tuned with another head. Normalisation comes after each sum, with an epsilon of 1e-12; the activation is the
 * tanh form of GELU; initial values are normal, cut at two deviations of 0.02.
 */
#ifndef EXAMPLE_BERT_MODEL_H
#define EXAMPLE_BERT_MODEL_H

#include <ringfire/ringfire.h>

enum { BERT_PADDING = 0, BERT_SEGMENTS = 2 };

typedef struct bert_config {
    int32_t layers, heads, width, inner_width; /* width is a multiple of heads */
    int32_t vocabulary;
    int32_t length;     /* tokens that the model sees */
    int32_t max_length; /* places that have an embedding; at least `length` */
    float dropout;
    int32_t predictions; /* masked places of an example; 0: a model that classifies */
    int32_t classes;     /* of such a model; otherwise 0 */
} bert_config;

/* The published configuration, BERT-base, for pretraining. */
extern const bert_config bert_base;
/* 2 layers, 128 wide: what two cores train in minutes. */
extern const bert_config bert_tiny;

typedef struct bert bert;

/* A built model. The inputs are tokens i32 [n, length], filled up with BERT_PADDING, and the segment of each, i32 of 0
 * and 1. For pretraining there is a third one, the masked places i32 [n, predictions], and the outputs are
 * logits [n, predictions, vocabulary] of the words that are there and [n, 2] of "follows" and "does not". Otherwise the
 * output is logits [n, classes]. */
rf_result bert_create(rf_strategy *strategy, const bert_config *config, bert **out);
rf_model *bert_model(const bert *b); /* owned by `b` */
void bert_destroy(bert **b);

/* The encoder of `to` gets the weights of that of `from`. Blocking; all workers of a job call it. */
rf_result bert_copy_encoder(const bert *from, bert *to);

/* The losses that pretraining minimises: the mean crossentropy of the masked words `ids` i32 [n, predictions], by
 * `weights` that are 0 where an example has fewer of them, and that of the next sentence's `labels` i32 [n]. Both are
 * means over the whole batch, whatever replica has how many of the words; with `own_words` the first is one over those
 * of each replica, for workers of parameter servers, none of which knows how many words the others have. */
rf_tensor bert_pretraining_loss(rf_trace *t, const rf_tensor outputs[2], rf_tensor ids, rf_tensor weights,
                                rf_tensor labels, bool own_words);

/* AdamW as BERT has it: no decay of biases and normalisation, gradients of norm 1 at most. */
rf_optimizer_params bert_optimizer(const rf_schedule *schedule);

#endif
