/* SPDX-License-Identifier: Apache-2.0 */
/* The transformer. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

/* ---- forward ---- */

static rf_tensor add_normalized(rf_trace *t, rf_tensor x, rf_tensor y, const normalization *n)
{
    return rf_layer_norm(t, rf_add(t, x, y), rf_variable_tensor(t, n->gamma), rf_variable_tensor(t, n->beta), 1e-3f);
}

/* [n, length, heads * key_width] -> [n, heads, length, key_width] */
static rf_tensor split_heads(rf_trace *t, const nmt *m, rf_tensor x, int64_t length)
{
    const rf_tensor heads = rf_reshape(t, x, RF_SHAPE(-1, length, m->config.heads, m->config.key_width));
    return rf_transpose(t, heads, (const int32_t[]){ 0, 2, 1, 3 });
}

/* What rf_attention() computes between, which it does not give away: the mean over the heads. */
static rf_tensor attention_weights(rf_trace *t, const nmt *m, rf_tensor query, rf_tensor key, rf_tensor mask)
{
    const int32_t heads = 1;
    const float far = -1e9f, scale = 1 / sqrtf((float)m->config.key_width);
    const rf_tensor scores = rf_multiply(t, rf_matmul(t, query, key, false, true), rf_constant(t, scale));
    return rf_reduce_mean(t, rf_softmax(t, rf_where(t, mask, scores, rf_constant(t, far))), &heads, 1, false);
}

/* From `x` to `memory`, which has `length` places; without a mask, to places that are not later. */
static rf_tensor attend(rf_trace *t, const nmt *m, const attention *a, rf_tensor x, int64_t x_length, rf_tensor memory,
                        int64_t length, rf_tensor mask, rf_tensor *weights)
{
    rf_tensor pair[2];
    const rf_tensor query = split_heads(t, m, nmt_project(t, x, &a->query), x_length);
    (void)rf_split_tensor(t, nmt_project(t, memory, &a->key_value), -1, 2, pair);
    const rf_tensor key = split_heads(t, m, pair[0], length), value = split_heads(t, m, pair[1], length);
    const rf_attention_params how = { .mask = mask, .causal = mask.id == 0, .dropout = m->config.dropout };
    const rf_tensor mixed = rf_transpose(t, rf_attention(t, query, key, value, &how), (const int32_t[]){ 0, 2, 1, 3 });
    if (weights) *weights = attention_weights(t, m, query, key, mask);
    const rf_tensor joined = rf_reshape(t, mixed, RF_SHAPE(-1, x_length, m->config.heads * m->config.key_width));
    return add_normalized(t, x, nmt_project(t, joined, &a->output), &a->norm);
}

static rf_tensor think(rf_trace *t, const nmt *m, const perceptron *p, rf_tensor x)
{
    const rf_tensor inner = rf_relu(t, nmt_project(t, x, &p->expand));
    return add_normalized(t, x, rf_dropout(t, nmt_project(t, inner, &p->contract), m->config.dropout, 0), &p->norm);
}

/* Scaled, and with the places added. */
static rf_tensor embed(rf_trace *t, const nmt *m, rf_variable *table, rf_tensor tokens, int64_t length)
{
    const int64_t width = m->config.width;
    const rf_array places = { RF_F32, RF_SHAPE(length, width), m->transformer.positions };
    const rf_tensor rows = rf_gather(t, rf_variable_tensor(t, table), tokens, 0);
    const rf_tensor scaled = rf_multiply(t, rows, rf_constant(t, sqrtf((float)width)));
    return rf_dropout(t, rf_add(t, scaled, rf_constant_array(t, &places)), m->config.dropout, 0);
}

rf_tensor transformer_call(rf_trace *t, const nmt *m, rf_tensor source, rf_tensor target, rf_tensor *weights)
{
    const int64_t from = m->config.source_length, to = m->config.target_length;
    const rf_tensor mask = rf_reshape(t, nmt_mask(t, source), RF_SHAPE(-1, 1, 1, from));
    rf_tensor memory = embed(t, m, m->source_table, source, from);
    for (uint32_t i = 0; i < m->config.layers; i++) {
        const encoder_layer *layer = &m->transformer.encoder[i];
        memory = attend(t, m, &layer->self, memory, from, memory, from, mask, NULL);
        memory = think(t, m, &layer->perceptron, memory);
    }
    rf_tensor x = embed(t, m, m->target_table, target, to);
    for (uint32_t i = 0; i < m->config.layers; i++) {
        const decoder_layer *layer = &m->transformer.decoder[i];
        const bool is_last = i + 1 == m->config.layers;
        x = attend(t, m, &layer->self, x, to, x, to, (rf_tensor){ 0 }, NULL);
        x = attend(t, m, &layer->cross, x, to, memory, from, mask, is_last ? weights : NULL);
        x = think(t, m, &layer->perceptron, x);
    }
    return nmt_project(t, x, &m->classifier);
}

/* ---- variables ---- */

static normalization make_norm(maker *k, const char *gamma, const char *beta)
{
    const rf_shape shape = RF_SHAPE(k->m->config.width);
    return (normalization){ nmt_make(k, gamma, shape, RF_INIT_ONES), nmt_make(k, beta, shape, RF_INIT_ZEROS) };
}

static attention make_attention(maker *k)
{
    const nmt_config *c = &k->m->config;
    const uint32_t inner = c->heads * c->key_width;
    const attention a = { .query = nmt_make_projection(k, "query", c->width, inner),
                          .key_value = nmt_make_projection(k, "key_value", c->width, 2 * inner),
                          .output = nmt_make_projection(k, "output", inner, c->width),
                          .norm = make_norm(k, "norm/gamma", "norm/beta") };
    return a;
}

static perceptron make_perceptron(maker *k)
{
    const nmt_config *c = &k->m->config;
    const perceptron p = { .expand = nmt_make_projection(k, "expand", c->width, c->inner_width),
                           .contract = nmt_make_projection(k, "contract", c->inner_width, c->width),
                           .norm = make_norm(k, "norm/gamma", "norm/beta") };
    return p;
}

static void go_to(maker *k, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void go_to(maker *k, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(k->path, sizeof(k->path), format, args);
    va_end(args);
}

void transformer_make(maker *k)
{
    transformer *n = &k->m->transformer;
    for (uint32_t i = 0; i < k->m->config.layers; i++) {
        go_to(k, "encoder_%u/self/", i);
        n->encoder[i].self = make_attention(k);
        go_to(k, "encoder_%u/perceptron/", i);
        n->encoder[i].perceptron = make_perceptron(k);
    }
    for (uint32_t i = 0; i < k->m->config.layers; i++) {
        go_to(k, "decoder_%u/self/", i);
        n->decoder[i].self = make_attention(k);
        go_to(k, "decoder_%u/cross/", i);
        n->decoder[i].cross = make_attention(k);
        go_to(k, "decoder_%u/perceptron/", i);
        n->decoder[i].perceptron = make_perceptron(k);
    }
    go_to(k, "%s", "");
}

/* Sines, then cosines, of wavelengths from 2 pi to 10,000 times that. */
bool transformer_begin(nmt *m)
{
    const uint32_t width = m->config.width, half = width / 2;
    const uint32_t longest =
        m->config.source_length > m->config.target_length ? m->config.source_length : m->config.target_length;
    m->transformer.positions = malloc((size_t)longest * width * sizeof(float));
    for (uint32_t p = 0; m->transformer.positions && p < longest; p++)
        for (uint32_t i = 0; i < half; i++) {
            const double angle = p / pow(10000, (double)i / half);
            m->transformer.positions[p * width + i] = (float)sin(angle);
            m->transformer.positions[p * width + half + i] = (float)cos(angle);
        }
    return m->transformer.positions != NULL;
}
