/* SPDX-License-Identifier: Apache-2.0 */
/* A classifier of texts: long short-term memory (Hochreiter & Schmidhuber 1997) reads the words in both directions. */
#ifndef EXAMPLE_LSTM_MODEL_H
#define EXAMPLE_LSTM_MODEL_H

#include <ringfire/ringfire.h>

enum { LSTM_PADDING = 0, LSTM_MAX_LAYERS = 4 };

typedef struct lstm_config {
    int32_t vocabulary, length; /* tokens that there are, and those of a text */
    int32_t width;              /* of embeddings */
    int32_t num_layers;         /* of recurrence; all but the last give a sequence */
    int32_t units[LSTM_MAX_LAYERS];
    int32_t dense_units;
    float dropout; /* before the last layer */
} lstm_config;

/* The networks of TensorFlow's tutorial, for its 1,000 tokens: one recurrent layer, or two. */
extern const lstm_config lstm_tutorial, lstm_stacked;

/* A built functional model: tokens i32 [n, length], padded at the end -> the logit [n, 1] that a text is of class 1. */
rf_result lstm_create(rf_strategy *strategy, const lstm_config *config, rf_model **out);

#endif
