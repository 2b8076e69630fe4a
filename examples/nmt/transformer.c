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

/* [n, length, heads * key_width] -> [n, heads, length, key_width]; those of one place stand so as they are. */
static rf_tensor split_heads(rf_trace *t, const nmt *m, rf_tensor x, int64_t length)
{
    const int64_t heads = m->config.heads, width = m->config.key_width;
    if (length == 1) return rf_reshape(t, x, RF_SHAPE(-1, heads, 1, width));
    return rf_transpose(t, rf_reshape(t, x, RF_SHAPE(-1, length, heads, width)), (const int32_t[]){ 0, 2, 1, 3 });
}

static rf_tensor join_heads(rf_trace *t, const nmt *m, rf_tensor x, int64_t length)
{
    if (length > 1) x = rf_transpose(t, x, (const int32_t[]){ 0, 2, 1, 3 });
    return rf_reshape(t, x, RF_SHAPE(-1, length, m->config.heads * m->config.key_width));
}

/* The weights that rf_attention() computes between and does not give away: the mean over the heads. */
static rf_tensor attention_weights(rf_trace *t, const nmt *m, rf_tensor query, rf_tensor key, rf_tensor mask)
{
    const int32_t heads = 1;
    const float far = -1e9f, scale = 1 / sqrtf((float)m->config.key_width);
    const rf_tensor scores = rf_multiply(t, rf_matmul(t, query, key, RF_TRANSPOSE_B), rf_constant(t, scale));
    return rf_reduce_mean(t, rf_softmax(t, rf_where(t, mask, scores, rf_constant(t, far))), &heads, 1, RF_DROP_DIMS);
}

/* Key and value of each of `length` places. */
static void find_pair(rf_trace *t, const nmt *m, const attention *a, rf_tensor places, int64_t length,
                      rf_tensor pair[2])
{
    (void)rf_split_tensor(t, nmt_project(t, places, &a->key_value), -1, 2, pair);
    for (int i = 0; i < 2; i++) pair[i] = split_heads(t, m, pair[i], length);
}

/* From `x` to places with these keys and values. */
static rf_tensor attend(rf_trace *t, const nmt *m, const attention *a, rf_tensor x, int64_t x_length,
                        const rf_tensor pair[2], rf_attention_params how, rf_tensor *weights)
{
    const rf_tensor query = split_heads(t, m, nmt_project(t, x, &a->query), x_length);
    how.dropout = m->config.dropout;
    const rf_tensor joined = join_heads(t, m, rf_attention(t, query, pair[0], pair[1], &how), x_length);
    if (weights) *weights = attention_weights(t, m, query, pair[0], how.mask);
    return add_normalized(t, x, nmt_project(t, joined, &a->output), &a->norm);
}

static rf_tensor think(rf_trace *t, const nmt *m, const perceptron *p, rf_tensor x)
{
    const rf_tensor inner = rf_relu(t, nmt_project(t, x, &p->expand));
    return add_normalized(t, x, rf_dropout(t, nmt_project(t, inner, &p->contract), m->config.dropout, 0), &p->norm);
}

/* The values that are added to the places 0 to length - 1. */
static rf_tensor places_before(rf_trace *t, const nmt *m, int64_t length)
{
    const rf_array places = { RF_F32, RF_SHAPE(length, m->config.width), m->transformer.positions };
    return rf_constant_array(t, &places);
}

/* Scaled, and with the places added. */
static rf_tensor embed(rf_trace *t, const nmt *m, rf_variable *table, rf_tensor tokens, rf_tensor places)
{
    const rf_tensor rows = rf_gather(t, rf_variable_tensor(t, table), tokens, 0);
    const rf_tensor scaled = rf_multiply(t, rows, rf_constant(t, sqrtf((float)m->config.width)));
    return rf_dropout(t, rf_add(t, scaled, places), m->config.dropout, 0);
}

/* A mask of attention that lets through what is not padding. */
static rf_tensor mask_scores(rf_trace *t, const nmt *m, rf_tensor mask)
{
    return rf_reshape(t, mask, RF_SHAPE(-1, 1, 1, m->config.source_length));
}

static rf_tensor encode(rf_trace *t, const nmt *m, rf_tensor source, rf_tensor mask)
{
    const int64_t from = m->config.source_length;
    rf_tensor pair[2], memory = embed(t, m, m->source_table, source, places_before(t, m, from));
    for (uint32_t i = 0; i < m->config.layers; i++) {
        const encoder_layer *layer = &m->transformer.encoder[i];
        find_pair(t, m, &layer->self, memory, from, pair);
        memory = attend(t, m, &layer->self, memory, from, pair, (rf_attention_params){ .mask = mask }, NULL);
        memory = think(t, m, &layer->perceptron, memory);
    }
    return memory;
}

rf_tensor transformer_call(rf_trace *t, const nmt *m, rf_tensor source, rf_tensor target, rf_tensor *weights)
{
    const int64_t from = m->config.source_length, to = m->config.target_length;
    const rf_attention_params order = { .causal = true }, all = { .mask = mask_scores(t, m, nmt_mask(t, source)) };
    const rf_tensor memory = encode(t, m, source, all.mask);
    rf_tensor pair[2], x = embed(t, m, m->target_table, target, places_before(t, m, to));
    for (uint32_t i = 0; i < m->config.layers; i++) {
        const decoder_layer *layer = &m->transformer.decoder[i];
        const bool is_last = i + 1 == m->config.layers;
        find_pair(t, m, &layer->self, x, to, pair);
        x = attend(t, m, &layer->self, x, to, pair, order, NULL);
        find_pair(t, m, &layer->cross, memory, from, pair);
        x = attend(t, m, &layer->cross, x, to, pair, all, is_last ? weights : NULL);
        x = think(t, m, &layer->perceptron, x);
    }
    return nmt_project(t, x, &m->classifier);
}

/* ---- one token after the other ---- */

/* The source's keys and values are the same for all tokens. */
void transformer_read(rf_trace *t, const nmt_cache *cache, rf_tensor sources)
{
    const nmt *m = cache->m;
    const rf_tensor mask = nmt_mask(t, sources), memory = encode(t, m, sources, mask_scores(t, m, mask));
    nmt_keep(t, cache->mask, mask);
    for (uint32_t i = 0; i < m->config.layers; i++) {
        rf_tensor pair[2];
        find_pair(t, m, &m->transformer.decoder[i].cross, memory, m->config.source_length, pair);
        for (int k = 0; k < 2; k++) nmt_keep(t, cache->cross[i][k], pair[k]);
    }
}

rf_tensor transformer_go_on(rf_trace *t, const nmt_cache *cache, rf_tensor tokens, rf_tensor place, rf_tensor parents)
{
    const nmt *m = cache->m;
    const rf_attention_params order = { .causal = true, .first_query = place };
    const rf_attention_params all = { .mask = mask_scores(t, m, rf_variable_tensor(t, cache->mask)) };
    const rf_tensor places = rf_gather(t, places_before(t, m, m->config.target_length), place, 0);
    rf_tensor x = embed(t, m, m->target_table, rf_expand_dims(t, tokens, 1), places);
    for (uint32_t i = 0; i < m->config.layers; i++) {
        const decoder_layer *layer = &m->transformer.decoder[i];
        rf_tensor own[2], source[2];
        find_pair(t, m, &layer->self, x, 1, own);
        for (int k = 0; k < 2; k++) {
            own[k] = rf_slice_update(t, nmt_recall(t, cache->self[i][k], parents), own[k], place, 2);
            nmt_keep(t, cache->self[i][k], own[k]);
            source[k] = rf_variable_tensor(t, cache->cross[i][k]);
        }
        x = attend(t, m, &layer->self, x, 1, own, order, NULL);
        x = attend(t, m, &layer->cross, x, 1, source, all, NULL);
        x = think(t, m, &layer->perceptron, x);
    }
    return nmt_project(t, rf_squeeze(t, x, 1), &m->classifier);
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
