/* SPDX-License-Identifier: Apache-2.0 */
/* Examples of BERT's two trainings, made from a corpus. */
#ifndef EXAMPLE_BERT_PAIRS_H
#define EXAMPLE_BERT_PAIRS_H

#include "corpus.h"
#include "model.h"

/* Makes pairs of segments for pretraining. */
typedef struct pair_maker {
    const corpus *corpus;
    int32_t length, predictions;
    uint32_t *starts; /* sentences that another one of the same section follows */
    uint32_t num_starts;
} pair_maker;

enum { PAIR_TOKENS, PAIR_SEGMENTS, PAIR_POSITIONS, PAIR_WORDS, PAIR_WEIGHTS, PAIR_LABEL, PAIR_COMPONENTS };

/* Makes pairs of the sections that are held out, or of the others. Says what is wrong and returns -1. */
int pairs_begin(const corpus *c, const bert_config *config, bool held_out, pair_maker *out);
void pairs_end(pair_maker *p);

/* The example of `start`: [CLS] A [SEP] B [SEP], where in half of the cases B follows A in the text (label 0), and
 * otherwise it comes from another section (label 1). Its words are to be predicted in 15 % of the cases: 8 in 10 of
 * them are masked, one is replaced by any word, and one stays. All is drawn from the key: every pass has other pairs
 * and masks, and they do not depend on how the work is split or where it was interrupted. */
rf_result pairs_make(const pair_maker *p, rf_random_key key, uint32_t start, rf_element *out);

/* Elements with the components above, in another order in each pass where `shuffled`. Borrows `p`. Says what is wrong
 * and returns -1. */
int pairs_dataset(pair_maker *p, uint64_t seed, bool shuffled, rf_dataset **out);

/* `count` pairs without masks, always the same ones for a seed: elements (tokens i32 [length], segments i32 [length],
 * label i32 []). `num_follow` of them have label 0. Says what is wrong and returns -1. */
int pairs_labelled(const pair_maker *p, uint32_t count, uint64_t seed, uint32_t *num_follow, rf_dataset **out);

/* ---- passages, and which document they come from ---- */

enum { MAX_CLASSES = 4, LEAST_TOKENS = 5 /* of a passage */ };

/* A passage begins with a sentence and goes on to the end of its section, as far as the network sees. */
typedef struct passage_set {
    uint32_t documents[MAX_CLASSES]; /* classes: those with the most passages for tests */
    uint32_t num_classes;
    uint32_t *train, *test; /* first sentences; the latter are all that are held out */
    uint32_t num_train, num_test;
    uint32_t largest; /* passages for the test of the class that has the most */
} passage_set;

/* At most `labels` passages of each class to train on, chosen by the seed. Says what is wrong and returns -1. */
int passages_choose(const corpus *c, uint32_t labels, uint64_t seed, passage_set *out);
void passages_free(passage_set *s);

/* Elements (tokens i32 [length], segments i32 [length], class i32 []). Says what is wrong and returns -1. */
int passages_dataset(const corpus *c, const passage_set *s, bool training, uint32_t length, rf_dataset **out);

#endif
