/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_LAYERS = 16, VARIABLES_PER_LAYER = 26, FIXED_VARIABLES = 4 };

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

struct nmt {
    nmt_config config;
    rf_model *model;
    rf_variable *source_table, *target_table;
    encoder_layer encoder[MAX_LAYERS];
    decoder_layer decoder[MAX_LAYERS];
    projection classifier;
    float *positions;                                                           /* [longest, width] */
    rf_variable *variables[MAX_LAYERS * VARIABLES_PER_LAYER + FIXED_VARIABLES]; /* all of them */
    uint32_t num_variables;
};

/* ---- forward ---- */

static rf_tensor project(rf_trace *t, rf_tensor x, const projection *p)
{
    const rf_tensor product = rf_matmul(t, x, rf_variable_tensor(t, p->kernel), false, false);
    return rf_bias_add(t, product, rf_variable_tensor(t, p->bias));
}

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
    const rf_tensor query = split_heads(t, m, project(t, x, &a->query), x_length);
    (void)rf_split_tensor(t, project(t, memory, &a->key_value), -1, 2, pair);
    const rf_tensor key = split_heads(t, m, pair[0], length), value = split_heads(t, m, pair[1], length);
    const rf_attention_params how = { .mask = mask, .causal = mask.id == 0, .dropout = m->config.dropout };
    const rf_tensor mixed = rf_transpose(t, rf_attention(t, query, key, value, &how), (const int32_t[]){ 0, 2, 1, 3 });
    if (weights) *weights = attention_weights(t, m, query, key, mask);
    const rf_tensor joined = rf_reshape(t, mixed, RF_SHAPE(-1, x_length, m->config.heads * m->config.key_width));
    return add_normalized(t, x, project(t, joined, &a->output), &a->norm);
}

static rf_tensor think(rf_trace *t, const nmt *m, const perceptron *p, rf_tensor x)
{
    const rf_tensor inner = rf_relu(t, project(t, x, &p->expand));
    return add_normalized(t, x, rf_dropout(t, project(t, inner, &p->contract), m->config.dropout, 0), &p->norm);
}

/* Scaled, and with the places added. */
static rf_tensor embed(rf_trace *t, const nmt *m, rf_variable *table, rf_tensor tokens, int64_t length)
{
    const int64_t width = m->config.width;
    const rf_array places = { RF_F32, RF_SHAPE(length, width), m->positions };
    const rf_tensor rows = rf_gather(t, rf_variable_tensor(t, table), tokens, 0);
    const rf_tensor scaled = rf_multiply(t, rows, rf_constant(t, sqrtf((float)width)));
    return rf_dropout(t, rf_add(t, scaled, rf_constant_array(t, &places)), m->config.dropout, 0);
}

rf_tensor nmt_mask(rf_trace *t, rf_tensor tokens)
{
    static const int32_t padding = NMT_PADDING;
    return rf_compare(t, RF_NOT_EQUAL, tokens,
                      rf_constant_array(t, &(rf_array){ RF_I32, RF_SHAPE(1), (void *)(uintptr_t)&padding }));
}

rf_tensor nmt_call(rf_trace *t, const nmt *m, rf_tensor source, rf_tensor target, rf_mode mode, rf_tensor *weights)
{
    (void)mode; /* dropout knows whether it is traced for training */
    const int64_t from = m->config.source_length, to = m->config.target_length;
    const rf_tensor mask = rf_reshape(t, nmt_mask(t, source), RF_SHAPE(-1, 1, 1, from));
    rf_tensor memory = embed(t, m, m->source_table, source, from);
    for (uint32_t i = 0; i < m->config.layers; i++) {
        const encoder_layer *layer = &m->encoder[i];
        memory = attend(t, m, &layer->self, memory, from, memory, from, mask, NULL);
        memory = think(t, m, &layer->perceptron, memory);
    }
    rf_tensor x = embed(t, m, m->target_table, target, to);
    for (uint32_t i = 0; i < m->config.layers; i++) {
        const decoder_layer *layer = &m->decoder[i];
        const bool is_last = i + 1 == m->config.layers;
        x = attend(t, m, &layer->self, x, to, x, to, (rf_tensor){ 0 }, NULL);
        x = attend(t, m, &layer->cross, x, to, memory, from, mask, is_last ? weights : NULL);
        x = think(t, m, &layer->perceptron, x);
    }
    return project(t, x, &m->classifier);
}

rf_tensor nmt_loss(rf_trace *t, rf_tensor labels, rf_tensor logits)
{
    const int32_t tokens = 1;
    const rf_tensor each = rf_sparse_categorical_crossentropy(t, labels, logits, true);
    return rf_reduce_sum(t, rf_multiply(t, each, nmt_mask(t, labels)), &tokens, 1, false);
}

static rf_result forward(rf_trace *t, rf_model *model, const rf_tensor *in, rf_tensor *out, rf_mode mode, void *user)
{
    (void)model;
    out[0] = nmt_call(t, user, in[0], in[1], mode, NULL);
    return rf_trace_status(t);
}

/* ---- variables ---- */

typedef struct maker {
    rf_strategy *strategy;
    nmt *m;
    rf_result result; /* of the first failure; nothing is made after it */
    char path[48];    /* what names begin with */
} maker;

static rf_variable *make(maker *k, const char *name, rf_shape shape, rf_initializer_kind kind)
{
    char full[96];
    rf_variable *v = NULL;
    if (k->result < 0) return NULL;
    snprintf(full, sizeof(full), "%s%s", k->path, name);
    k->result = rf_variable_create(
        k->strategy, &(rf_variable_params){ .name = full, .shape = shape, .initializer = { .kind = kind } }, &v);
    if (v) k->m->variables[k->m->num_variables++] = v;
    return v;
}

static projection make_projection(maker *k, const char *name, uint32_t from, uint32_t to)
{
    char kernel[48], bias[48];
    snprintf(kernel, sizeof(kernel), "%s/kernel", name);
    snprintf(bias, sizeof(bias), "%s/bias", name);
    const projection p = { .kernel = make(k, kernel, RF_SHAPE(from, to), RF_INIT_GLOROT_UNIFORM),
                           .bias = make(k, bias, RF_SHAPE(to), RF_INIT_ZEROS) };
    return p;
}

static normalization make_norm(maker *k, const char *gamma, const char *beta)
{
    const rf_shape shape = RF_SHAPE(k->m->config.width);
    return (normalization){ make(k, gamma, shape, RF_INIT_ONES), make(k, beta, shape, RF_INIT_ZEROS) };
}

static attention make_attention(maker *k)
{
    const nmt_config *c = &k->m->config;
    const uint32_t inner = c->heads * c->key_width;
    const attention a = { .query = make_projection(k, "query", c->width, inner),
                          .key_value = make_projection(k, "key_value", c->width, 2 * inner),
                          .output = make_projection(k, "output", inner, c->width),
                          .norm = make_norm(k, "norm/gamma", "norm/beta") };
    return a;
}

static perceptron make_perceptron(maker *k)
{
    const nmt_config *c = &k->m->config;
    const perceptron p = { .expand = make_projection(k, "expand", c->width, c->inner_width),
                           .contract = make_projection(k, "contract", c->inner_width, c->width),
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

static rf_result create_variables(rf_strategy *strategy, nmt *m)
{
    const nmt_config *c = &m->config;
    maker k = { .strategy = strategy, .m = m };
    m->source_table = make(&k, "source/embeddings", RF_SHAPE(c->source_vocabulary, c->width), RF_INIT_RANDOM_UNIFORM);
    m->target_table = make(&k, "target/embeddings", RF_SHAPE(c->target_vocabulary, c->width), RF_INIT_RANDOM_UNIFORM);
    for (uint32_t i = 0; i < c->layers; i++) {
        go_to(&k, "encoder_%u/self/", i);
        m->encoder[i].self = make_attention(&k);
        go_to(&k, "encoder_%u/perceptron/", i);
        m->encoder[i].perceptron = make_perceptron(&k);
    }
    for (uint32_t i = 0; i < c->layers; i++) {
        go_to(&k, "decoder_%u/self/", i);
        m->decoder[i].self = make_attention(&k);
        go_to(&k, "decoder_%u/cross/", i);
        m->decoder[i].cross = make_attention(&k);
        go_to(&k, "decoder_%u/perceptron/", i);
        m->decoder[i].perceptron = make_perceptron(&k);
    }
    go_to(&k, "%s", "");
    m->classifier = make_projection(&k, "classifier", c->width, c->target_vocabulary);
    return k.result;
}

/* Sines, then cosines, of wavelengths from 2 pi to 10,000 times that. */
static bool make_positions(nmt *m)
{
    const uint32_t width = m->config.width, half = width / 2;
    const uint32_t longest =
        m->config.source_length > m->config.target_length ? m->config.source_length : m->config.target_length;
    m->positions = malloc((size_t)longest * width * sizeof(float));
    for (uint32_t p = 0; m->positions && p < longest; p++)
        for (uint32_t i = 0; i < half; i++) {
            const double angle = p / pow(10000, (double)i / half);
            m->positions[p * width + i] = (float)sin(angle);
            m->positions[p * width + half + i] = (float)cos(angle);
        }
    return m->positions != NULL;
}

static rf_result build(rf_strategy *strategy, nmt *m)
{
    static const char *const inputs[] = { "source", "target" }, *const outputs[] = { "logits" };
    const nmt_config *c = &m->config;
    rf_result r = create_variables(strategy, m);
    if (r >= 0)
        r = rf_model_create(strategy,
                            &(rf_model_params){ .apply = forward,
                                                .user = m,
                                                .num_inputs = 2,
                                                .num_outputs = 1,
                                                .input_names = inputs,
                                                .output_names = outputs },
                            &m->model);
    if (r < 0) return r;
    const rf_element_spec spec = {
        2, { RF_I32, RF_I32 }, { RF_SHAPE(-1, c->source_length), RF_SHAPE(-1, c->target_length) }, { 0 }
    };
    return rf_model_build_inputs(m->model, &spec);
}

rf_result nmt_create(rf_strategy *strategy, const nmt_config *config, nmt **out)
{
    *out = NULL;
    if (config->layers == 0 || config->layers > MAX_LAYERS || config->width % 2 != 0) return RF_ERROR_INVALID_ARGUMENT;
    nmt *m = calloc(1, sizeof(*m));
    if (!m) return RF_ERROR_OUT_OF_HOST_MEMORY;
    m->config = *config;
    const rf_result r = make_positions(m) ? build(strategy, m) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r < 0) nmt_destroy(&m);
    *out = m;
    return r;
}

rf_model *nmt_model(const nmt *m)
{
    return m->model;
}

void nmt_destroy(nmt **m)
{
    if (!*m) return;
    rf_model_destroy(&(*m)->model);
    for (uint32_t i = 0; i < (*m)->num_variables; i++) rf_variable_destroy(&(*m)->variables[i]);
    free((*m)->positions);
    free(*m);
    *m = NULL;
}
