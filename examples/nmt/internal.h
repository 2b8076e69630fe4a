/* SPDX-License-Identifier: Apache-2.0 */
/* Parts that the two networks are made of. */
#ifndef EXAMPLE_NMT_INTERNAL_H
#define EXAMPLE_NMT_INTERNAL_H

#include "model.h"

enum { MAX_LAYERS = 16, VARIABLES_PER_LAYER = 26, FIXED_VARIABLES = 20 };

typedef struct projection {
    rf_variable *kernel, *bias;
} projection;

typedef struct normalization {
    rf_variable *gamma, *beta;
} normalization;

typedef struct attention {
    projection query, key_value, output;
    normalization norm;
} attention;

typedef struct perceptron {
    projection expand, contract;
    normalization norm;
} perceptron;

typedef struct encoder_layer {
    attention self;
    perceptron perceptron;
} encoder_layer;

typedef struct decoder_layer {
    attention self, cross;
    perceptron perceptron;
} decoder_layer;

typedef struct gated {
    projection input, recurrent; /* gates update, reset, candidate */
} gated;

typedef struct transformer {
    encoder_layer encoder[MAX_LAYERS];
    decoder_layer decoder[MAX_LAYERS];
    float *positions; /* [longest, width] */
} transformer;

typedef struct recurrent {
    gated encoder, decoder;
    projection memory, query, score; /* of the attention */
} recurrent;

struct nmt {
    nmt_config config;
    rf_model *model;
    rf_variable *source_table, *target_table;
    projection classifier;
    transformer transformer; /* one of the two is used */
    recurrent recurrent;
    rf_variable *variables[MAX_LAYERS * VARIABLES_PER_LAYER + FIXED_VARIABLES]; /* all of them */
    uint32_t num_variables;
};

struct nmt_cache {
    const nmt *m;
    rf_variable *mask;                                       /* of the sources, [rows, source_length] */
    rf_variable *self[MAX_LAYERS][2], *cross[MAX_LAYERS][2]; /* keys and values, [rows, heads, length, key_width] */
    rf_variable *memory, *keys, *state;                      /* of the recurrent network; [rows, ..., units] */
};
/* Keeps a value for the steps that follow. */
void nmt_keep(rf_trace *t, rf_variable *kept, rf_tensor value);
/* Gives what was kept, for each row that of its parent. */
rf_tensor nmt_recall(rf_trace *t, rf_variable *kept, rf_tensor parents);

/* Makes variables until one of them fails. */
typedef struct maker {
    rf_strategy *strategy;
    nmt *m;
    rf_result result; /* of the first failure; nothing is made after it */
    char path[48];    /* what names begin with */
} maker;
rf_variable *nmt_make(maker *k, const char *name, rf_shape shape, rf_initializer_kind kind);
projection nmt_make_projection(maker *k, const char *name, uint32_t from, uint32_t to);

rf_tensor nmt_project(rf_trace *t, rf_tensor x, const projection *p);

/* ---- transformer.c ---- */
bool transformer_begin(nmt *m); /* false: no memory */
void transformer_make(maker *k);
rf_tensor transformer_call(rf_trace *t, const nmt *m, rf_tensor source, rf_tensor target, rf_tensor *weights);
void transformer_read(rf_trace *t, const nmt_cache *cache, rf_tensor sources);
rf_tensor transformer_go_on(rf_trace *t, const nmt_cache *cache, rf_tensor tokens, rf_tensor place, rf_tensor parents);

/* ---- recurrent.c ---- */
void recurrent_make(maker *k);
rf_tensor recurrent_call(rf_trace *t, const nmt *m, rf_tensor source, rf_tensor target, rf_tensor *weights);
void recurrent_read(rf_trace *t, const nmt_cache *cache, rf_tensor sources);
rf_tensor recurrent_go_on(rf_trace *t, const nmt_cache *cache, rf_tensor tokens, rf_tensor parents);

#endif
