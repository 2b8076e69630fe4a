/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const bert_config bert_base = { .layers = 12,
                                .heads = 12,
                                .width = 768,
                                .inner_width = 3072,
                                .vocabulary = 30522,
                                .length = 128,
                                .max_length = 512,
                                .dropout = 0.1f,
                                .predictions = 20 };
const bert_config bert_tiny = { .layers = 2,
                                .heads = 2,
                                .width = 128,
                                .inner_width = 512,
                                .vocabulary = 2048,
                                .length = 64,
                                .max_length = 64,
                                .predictions = 10 };

static const rf_initializer initial = { .kind = RF_INIT_TRUNCATED_NORMAL, .b = 0.02f };
static const char *const encoder_names = "encoder/"; /* what the names of its variables begin with */

typedef struct bert_layer {
    rf_layer *attention, *attention_norm, *expand, *contract, *norm;
} bert_layer;

struct bert {
    bert_config config;
    rf_model *model;
    rf_layer *words, *places, *segments, *norm, *pooler;
    rf_layer *transform, *transform_norm, *masked, *next; /* pretraining */
    rf_layer *classifier;
    bert_layer layers[];
};

/* ---- forward ---- */

typedef struct walk {
    rf_trace *t;
    const bert *b;
    rf_mode mode;
} walk;

static rf_tensor apply(const walk *w, rf_layer *layer, rf_tensor x)
{
    return rf_layer_call(w->t, w->b->model, layer, x, w->mode);
}

static rf_tensor drop(const walk *w, rf_tensor x)
{
    return w->mode == RF_TRAINING ? rf_dropout(w->t, x, w->b->config.dropout, 0) : x;
}

static rf_tensor embed(const walk *w, rf_tensor tokens, rf_tensor segments)
{
    const rf_tensor words = apply(w, w->b->places, apply(w, w->b->words, tokens));
    return drop(w, apply(w, w->b->norm, rf_add(w->t, words, apply(w, w->b->segments, segments))));
}

/* f32 1 where a token is not padding. */
static rf_tensor mask_padding(const walk *w, rf_tensor tokens)
{
    static const int32_t padding = BERT_PADDING;
    const rf_array constant = { RF_I32, RF_SHAPE(1), (void *)(uintptr_t)&padding };
    return rf_compare(w->t, RF_NOT_EQUAL, tokens, rf_constant_array(w->t, &constant));
}

static rf_tensor run_layer(const walk *w, const bert_layer *layer, rf_tensor x, rf_tensor mask)
{
    const rf_layer_apply_params params = { .in = &x, .num_in = 1, .mask = mask, .mode = w->mode };
    rf_tensor mixed;
    (void)rf_layer_apply(w->t, w->b->model, layer->attention, &params, &mixed, 1);
    const rf_tensor seen = apply(w, layer->attention_norm, rf_add(w->t, x, drop(w, mixed)));
    const rf_tensor thought = apply(w, layer->contract, apply(w, layer->expand, seen));
    return apply(w, layer->norm, rf_add(w->t, seen, drop(w, thought)));
}

/* The state of the first token, which stands for all of them: [n, width]. */
static rf_tensor pool(const walk *w, rf_tensor x)
{
    const int64_t begin[] = { 0, 0 }, end[] = { INT64_MAX, 1 };
    const rf_tensor first = rf_slice(w->t, x, begin, end, NULL, 2);
    return apply(w, w->b->pooler, rf_reshape(w->t, first, RF_SHAPE(-1, w->b->config.width)));
}

static rf_result forward(rf_trace *t, rf_model *model, const rf_tensor *in, rf_tensor *out, rf_mode mode, void *user)
{
    (void)model;
    const bert *b = user;
    const walk w = { t, b, mode };
    const rf_tensor mask = mask_padding(&w, in[0]);
    rf_tensor x = embed(&w, in[0], in[1]);
    for (int32_t i = 0; i < b->config.layers; i++) x = run_layer(&w, &b->layers[i], x, mask);
    const rf_tensor pooled = pool(&w, x);
    if (b->classifier) {
        out[0] = apply(&w, b->classifier, drop(&w, pooled));
        return rf_trace_status(t);
    }
    const rf_tensor there = apply(&w, b->transform, rf_gather_positions(t, x, in[2]));
    out[0] = apply(&w, b->masked, apply(&w, b->transform_norm, there));
    out[1] = apply(&w, b->next, pooled);
    return rf_trace_status(t);
}

/* The mean over this replica's words, which counts as much as its examples do. */
static rf_tensor mean_of_own(rf_trace *t, rf_tensor words, rf_tensor weights)
{
    const int32_t axis = 1;
    const rf_tensor sums = rf_reduce_sum(t, rf_multiply(t, words, weights), &axis, 1, RF_DROP_DIMS);
    const rf_tensor each = rf_reduce_mean(t, rf_reduce_sum(t, weights, &axis, 1, RF_DROP_DIMS), NULL, 0, RF_DROP_DIMS);
    return rf_compute_average_loss(t, rf_divide(t, sums, each), NULL);
}

rf_tensor bert_pretraining_loss(rf_trace *t, const rf_tensor outputs[2], rf_tensor ids, rf_tensor weights,
                                rf_tensor labels, bool own_words)
{
    const rf_tensor words = rf_sparse_categorical_crossentropy(t, ids, outputs[0], RF_LOGITS);
    const rf_tensor next = rf_sparse_categorical_crossentropy(t, labels, outputs[1], RF_LOGITS);
    const rf_tensor masked = own_words ? mean_of_own(t, words, weights) : rf_compute_weighted_loss(t, words, weights);
    return rf_add(t, masked, rf_compute_average_loss(t, next, NULL));
}

rf_optimizer_params bert_optimizer(const rf_schedule *schedule)
{
    static const rf_parameter_group undecayed = { .names = "*bias,*layer_norm/*", .no_weight_decay = true };
    return (rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAMW,
                                  .schedule = schedule,
                                  .epsilon = 1e-6,
                                  .epsilon_form = RF_EPSILON_UNCORRECTED,
                                  .weight_decay = 0.01,
                                  .global_clip_norm = 1.0,
                                  .groups = &undecayed,
                                  .num_groups = 1 };
}

/* ---- layers ---- */

/* Gives layers to the model until one of them fails. */
typedef struct maker {
    bert *b;
    rf_result result; /* of the first failure; nothing is made after it */
    char path[48];    /* what names begin with */
} maker;

static const char *name_of(const maker *k, const char *name, char full[96])
{
    snprintf(full, 96, "%s%s", k->path, name);
    return full;
}

/* `r` is how making the layer went. */
static rf_layer *adopt(maker *k, rf_result r, rf_layer *layer)
{
    k->result = r;
    if (r >= 0) k->result = rf_model_add_layer(k->b->model, layer);
    return k->result >= 0 ? layer : NULL;
}

static rf_layer *make_dense(maker *k, const char *name, int32_t units, rf_activation activation)
{
    char full[96];
    rf_layer *layer = NULL;
    if (k->result < 0) return NULL;
    const rf_dense_params params = {
        .units = units, .activation = activation, .kernel_initializer = initial, .name = name_of(k, name, full)
    };
    const rf_result r = rf_layer_dense(&params, &layer);
    return adopt(k, r, layer);
}

static rf_layer *make_norm(maker *k, const char *name)
{
    char full[96];
    rf_layer *layer = NULL;
    if (k->result < 0) return NULL;
    const rf_result r =
        rf_layer_layer_norm(&(rf_layer_norm_params){ .epsilon = 1e-12, .name = name_of(k, name, full) }, &layer);
    return adopt(k, r, layer);
}

static rf_layer *make_embedding(maker *k, const char *name, int32_t rows)
{
    char full[96];
    rf_layer *layer = NULL;
    if (k->result < 0) return NULL;
    const rf_embedding_params params = {
        .input_dim = rows, .output_dim = k->b->config.width, .initializer = &initial, .name = name_of(k, name, full)
    };
    const rf_result r = rf_layer_embedding(&params, &layer);
    return adopt(k, r, layer);
}

static rf_layer *make_places(maker *k)
{
    char full[96];
    rf_layer *layer = NULL;
    if (k->result < 0) return NULL;
    const rf_result r =
        rf_layer_position_embedding(k->b->config.max_length, &initial, name_of(k, "positions", full), &layer);
    return adopt(k, r, layer);
}

static rf_layer *make_attention(maker *k, const char *name)
{
    char full[96];
    rf_layer *layer = NULL;
    if (k->result < 0) return NULL;
    const bert_config *c = &k->b->config;
    const rf_multi_head_attention_params params = { .num_heads = c->heads,
                                                    .key_dim = c->width / c->heads,
                                                    .dropout = c->dropout,
                                                    .kernel_initializer = &initial,
                                                    .name = name_of(k, name, full) };
    const rf_result r = rf_layer_multi_head_attention(&params, &layer);
    return adopt(k, r, layer);
}

/* The table of the words, transposed. */
static rf_layer *make_masked(maker *k)
{
    rf_layer *layer = NULL;
    if (k->result < 0) return NULL;
    const rf_result r = rf_layer_embedding_head(k->b->words, RF_WITH_BIAS, "masked_words", &layer);
    return adopt(k, r, layer);
}

static void make_encoder(maker *k)
{
    bert *b = k->b;
    snprintf(k->path, sizeof(k->path), "%s", encoder_names);
    b->words = make_embedding(k, "words", b->config.vocabulary);
    b->places = make_places(k);
    b->segments = make_embedding(k, "segments", BERT_SEGMENTS);
    b->norm = make_norm(k, "layer_norm");
    for (int32_t i = 0; i < b->config.layers; i++) {
        snprintf(k->path, sizeof(k->path), "%slayer_%d/", encoder_names, (int)i);
        b->layers[i] = (bert_layer){ .attention = make_attention(k, "attention"),
                                     .attention_norm = make_norm(k, "attention/layer_norm"),
                                     .expand = make_dense(k, "expand", b->config.inner_width, RF_ACTIVATION_GELU_TANH),
                                     .contract = make_dense(k, "contract", b->config.width, RF_ACTIVATION_LINEAR),
                                     .norm = make_norm(k, "layer_norm") };
    }
    snprintf(k->path, sizeof(k->path), "%s", encoder_names);
    b->pooler = make_dense(k, "pooler", b->config.width, RF_ACTIVATION_TANH);
}

static void make_heads(maker *k)
{
    bert *b = k->b;
    k->path[0] = '\0';
    if (b->config.classes) {
        b->classifier = make_dense(k, "classifier", b->config.classes, RF_ACTIVATION_LINEAR);
        return;
    }
    b->transform = make_dense(k, "transform", b->config.width, RF_ACTIVATION_GELU_TANH);
    b->transform_norm = make_norm(k, "transform/layer_norm");
    b->masked = make_masked(k);
    b->next = make_dense(k, "next_sentence", 2, RF_ACTIVATION_LINEAR);
}

static rf_result build(rf_strategy *strategy, bert *b)
{
    static const char *const inputs[] = { "tokens", "segments", "positions" };
    static const char *const outputs[] = { "words", "next_sentence" }, *const classes[] = { "classes" };
    const bert_config *c = &b->config;
    const bool pretraining = c->classes == 0;
    const rf_model_params params = { .apply = forward,
                                     .user = b,
                                     .num_inputs = pretraining ? 3 : 2,
                                     .num_outputs = pretraining ? 2 : 1,
                                     .input_names = inputs,
                                     .output_names = pretraining ? outputs : classes };
    maker k = { .b = b, .result = rf_model_create(strategy, &params, &b->model) };
    make_encoder(&k);
    make_heads(&k);
    if (k.result < 0) return k.result;
    const rf_element_spec spec = { .num_components = params.num_inputs,
                                   .dtype = { RF_I32, RF_I32, RF_I32 },
                                   .shape = { RF_SHAPE(-1, c->length), RF_SHAPE(-1, c->length),
                                              RF_SHAPE(-1, c->predictions) } };
    return rf_model_build_inputs(b->model, &spec);
}

/* ---- lifetime ---- */

rf_result bert_create(rf_strategy *strategy, const bert_config *config, bert **out)
{
    *out = NULL;
    if (config->heads < 1 || config->width % config->heads != 0 || (config->classes == 0) == (config->predictions == 0))
        return RF_ERROR_INVALID_ARGUMENT;
    bert *b = calloc(1, sizeof(*b) + (size_t)config->layers * sizeof(bert_layer));
    if (!b) return RF_ERROR_OUT_OF_HOST_MEMORY;
    b->config = *config;
    const rf_result r = build(strategy, b);
    if (r < 0) bert_destroy(&b);
    *out = b;
    return r;
}

rf_model *bert_model(const bert *b)
{
    return b->model;
}

void bert_destroy(bert **b)
{
    if (!*b) return;
    rf_model_destroy(&(*b)->model);
    free(*b);
    *b = NULL;
}

/* ---- weights ---- */

static rf_variable *find_named(rf_variable_list list, const char *name)
{
    for (uint32_t i = 0; i < list.count; i++)
        if (strcmp(rf_variable_name(list.items[i]), name) == 0) return list.items[i];
    return NULL;
}

rf_result bert_copy_encoder(const bert *from, bert *to)
{
    const rf_variable_list sources = rf_model_variables(from->model), targets = rf_model_variables(to->model);
    for (uint32_t i = 0; i < targets.count; i++) {
        const char *name = rf_variable_name(targets.items[i]);
        if (strncmp(name, encoder_names, strlen(encoder_names)) != 0) continue;
        rf_variable *source = find_named(sources, name);
        const int64_t count = rf_shape_count(rf_variable_shape(targets.items[i]));
        if (!source || rf_shape_count(rf_variable_shape(source)) != count) return RF_ERROR_INVALID_ARGUMENT;
        float *values = malloc((size_t)count * sizeof(float));
        rf_result r = values ? rf_variable_read(source, values) : RF_ERROR_OUT_OF_HOST_MEMORY;
        if (r >= 0) r = rf_variable_assign(targets.items[i], values);
        free(values);
        if (r < 0) return r;
    }
    return RF_OK;
}
