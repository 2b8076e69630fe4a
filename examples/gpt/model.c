/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_NAME = 48, MAX_PATH = 64 };

/* A kernel or a gain, and what is added after it; NULL without biases. */
typedef struct affine {
    rf_variable *weight, *bias;
} affine;

typedef struct block {
    affine norm_1, qkv, attention_output, norm_2, expand, contract;
} block;

struct gpt {
    gpt_config config;
    rf_model *model;
    rf_variable *tokens, *positions;
    affine last_norm;
    uint32_t num_blocks; /* of which variables may exist */
    block blocks[];
};

struct gpt_cache {
    const gpt *gpt;
    uint32_t num_kept;
    rf_variable *kept[]; /* keys and values of each block, [rows, heads, block, width / heads] */
};

const gpt_config gpt_2_small = {
    .layers = 12, .heads = 12, .width = 768, .block = 1024, .vocabulary = 50257, .dropout = 0.1f, .bias = true
};

static rf_tensor normalize(rf_trace *t, rf_tensor x, affine a)
{
    const rf_tensor beta = a.bias ? rf_variable_tensor(t, a.bias) : (rf_tensor){ 0 };
    return rf_layer_norm(t, x, rf_variable_tensor(t, a.weight), beta, 1e-5f);
}

/* In the type of x. */
static rf_tensor project(rf_trace *t, rf_tensor x, affine a)
{
    const rf_tensor weight = rf_cast(t, rf_variable_tensor(t, a.weight), rf_tensor_dtype(t, x));
    const rf_tensor y = rf_matmul(t, x, weight, RF_TRANSPOSE_NONE);
    return a.bias ? rf_bias_add(t, y, rf_variable_tensor(t, a.bias)) : y;
}

/* [n, t, width] -> [n, heads, t, width / heads]; those of one position stand so as they are. */
static rf_tensor split_heads(rf_trace *t, const gpt *g, rf_tensor x)
{
    const int64_t positions = rf_tensor_shape(t, x).dim[1], heads = g->config.heads, width = g->config.width / heads;
    if (positions == 1) return rf_reshape(t, x, RF_SHAPE(-1, heads, 1, width));
    return rf_transpose(t, rf_reshape(t, x, RF_SHAPE(-1, positions, heads, width)), (const int32_t[]){ 0, 2, 1, 3 });
}

static rf_tensor join_heads(rf_trace *t, const gpt *g, rf_tensor x)
{
    const int64_t positions = rf_tensor_shape(t, x).dim[2];
    if (positions > 1) x = rf_transpose(t, x, (const int32_t[]){ 0, 2, 1, 3 });
    return rf_reshape(t, x, RF_SHAPE(-1, positions, g->config.width));
}

/* One of query, key and value, which stand side by side in [n, t, 3 width]. */
static rf_tensor take_heads(rf_trace *t, const gpt *g, rf_tensor qkv, int which)
{
    const int64_t width = g->config.width, begin[3] = { 0, 0, which * width };
    const int64_t end[3] = { INT64_MAX, INT64_MAX, (which + 1) * width };
    return split_heads(t, g, rf_slice(t, qkv, begin, end, NULL, 3));
}

/* Puts the keys or values of new tokens behind those of earlier ones, and keeps all of them for the next step. */
static rf_tensor extend(rf_trace *t, rf_variable *kept, rf_tensor added, rf_tensor place)
{
    const rf_tensor all = rf_slice_update(t, rf_variable_tensor(t, kept), added, place, 2);
    (void)rf_variable_update(t, kept, all, RF_AGGREGATE_FIRST_REPLICA);
    return all;
}

/* Vaswani et al. 2017: each position takes a mean of the values at its own and earlier ones, weighted by how well its
 * query matches their keys. `kept` are the keys and values of the positions before `place`; NULL: there are none. */
static rf_tensor attend(rf_trace *t, const gpt *g, const block *b, rf_tensor x, rf_variable *const *kept,
                        rf_tensor place)
{
    const rf_tensor qkv = project(t, x, b->qkv), query = take_heads(t, g, qkv, 0);
    rf_tensor key = take_heads(t, g, qkv, 1), value = take_heads(t, g, qkv, 2);
    rf_attention_params how = { .causal = true, .dropout = g->config.dropout };
    if (kept) {
        key = extend(t, kept[0], key, place);
        value = extend(t, kept[1], value, place);
        how.first_query = place;
    }
    const rf_tensor joined = join_heads(t, g, rf_attention(t, query, key, value, &how));
    return rf_dropout(t, project(t, joined, b->attention_output), g->config.dropout, 0);
}

static rf_tensor think(rf_trace *t, const gpt *g, const block *b, rf_tensor x)
{
    const rf_tensor inner = rf_gelu(t, project(t, x, b->expand), RF_GELU_ERF);
    return rf_dropout(t, project(t, inner, b->contract), g->config.dropout, 0);
}

/* [n, t, width] of tokens [n, t], at `positions` [t, width]. */
static rf_tensor embed(rf_trace *t, const gpt *g, rf_tensor tokens, rf_tensor positions)
{
    const rf_tensor one_hot = rf_one_hot(t, tokens, (int32_t)g->config.vocabulary);
    const rf_tensor embedded = rf_matmul(t, one_hot, rf_variable_tensor(t, g->tokens), RF_TRANSPOSE_NONE);
    return rf_dropout(t, rf_add(t, embedded, positions), g->config.dropout, 0);
}

/* The blocks; `cache` and `place` as in attend(). */
static rf_tensor transform(rf_trace *t, const gpt *g, rf_tensor x, const gpt_cache *cache, rf_tensor place)
{
    for (uint32_t i = 0; i < g->num_blocks; i++) {
        const block *b = &g->blocks[i];
        x = rf_add(t, x, attend(t, g, b, normalize(t, x, b->norm_1), cache ? &cache->kept[2 * i] : NULL, place));
        x = rf_add(t, x, think(t, g, b, normalize(t, x, b->norm_2)));
    }
    return x;
}

static rf_tensor classify(rf_trace *t, const gpt *g, rf_tensor x)
{
    const rf_tensor last = rf_cast(t, normalize(t, x, g->last_norm), RF_F32);
    return rf_matmul(t, last, rf_variable_tensor(t, g->tokens), RF_TRANSPOSE_B);
}

static rf_tensor forward(rf_trace *t, rf_model *model, rf_tensor tokens, rf_mode mode, void *user)
{
    (void)model;
    const gpt *g = user;
    rf_tensor x = embed(t, g, tokens, rf_variable_tensor(t, g->positions));
    if (mode == RF_TRAINING && g->config.compute) x = rf_cast(t, x, g->config.compute);
    return classify(t, g, transform(t, g, x, NULL, (rf_tensor){ 0 }));
}

rf_tensor gpt_go_on(rf_trace *t, const gpt_cache *cache, rf_tensor tokens, rf_tensor places, rf_tensor last)
{
    const gpt *g = cache->gpt;
    const int64_t first = 0, second = 1;
    const rf_tensor positions = rf_gather(t, rf_variable_tensor(t, g->positions), places, 0);
    const rf_tensor place = rf_slice(t, places, &first, &second, NULL, 1);
    const rf_tensor x = transform(t, g, embed(t, g, tokens, positions), cache, place);
    return rf_squeeze(t, classify(t, g, rf_gather(t, x, last, 1)), 1);
}

static rf_result create_matrix(rf_strategy *strategy, const char *name, uint32_t rows, uint32_t columns,
                               float deviation, rf_variable **out)
{
    return rf_variable_create(strategy,
                              &(rf_variable_params){ .name = name,
                                                     .shape = RF_SHAPE(rows, columns),
                                                     .initializer = { RF_INIT_RANDOM_NORMAL, 0, deviation } },
                              out);
}

static rf_result create_vector(rf_strategy *strategy, const char *name, const char *part, uint32_t width,
                               rf_initializer_kind kind, rf_variable **out)
{
    char path[MAX_PATH];
    snprintf(path, sizeof(path), "%s/%s", name, part);
    return rf_variable_create(
        strategy, &(rf_variable_params){ .name = path, .shape = RF_SHAPE(width), .initializer = { .kind = kind } },
        out);
}

static rf_result create_norm(rf_strategy *strategy, const gpt_config *c, const char *name, affine *out)
{
    const rf_result r = create_vector(strategy, name, "gamma", c->width, RF_INIT_ONES, &out->weight);
    return r < 0 || !c->bias ? r : create_vector(strategy, name, "beta", c->width, RF_INIT_ZEROS, &out->bias);
}

static rf_result create_projection(rf_strategy *strategy, const gpt_config *c, const char *name, uint32_t rows,
                                   uint32_t columns, float deviation, affine *out)
{
    char path[MAX_PATH];
    snprintf(path, sizeof(path), "%s/kernel", name);
    const rf_result r = create_matrix(strategy, path, rows, columns, deviation, &out->weight);
    return r < 0 || !c->bias ? r : create_vector(strategy, name, "bias", columns, RF_INIT_ZEROS, &out->bias);
}

static rf_result create_block(rf_strategy *strategy, const gpt_config *c, uint32_t number, block *b)
{
    const float residual = 0.02f / sqrtf(2.0f * (float)c->layers);
    const uint32_t width = c->width;
    char name[MAX_NAME];
#define NAME(text) (snprintf(name, sizeof(name), "block_%u/%s", number, text), name)
    rf_result r = create_norm(strategy, c, NAME("norm_1"), &b->norm_1);
    if (r >= 0) r = create_projection(strategy, c, NAME("attention/qkv"), width, 3 * width, 0.02f, &b->qkv);
    if (r >= 0)
        r = create_projection(strategy, c, NAME("attention/output"), width, width, residual, &b->attention_output);
    if (r >= 0) r = create_norm(strategy, c, NAME("norm_2"), &b->norm_2);
    if (r >= 0) r = create_projection(strategy, c, NAME("mlp/expand"), width, 4 * width, 0.02f, &b->expand);
    if (r >= 0) r = create_projection(strategy, c, NAME("mlp/contract"), 4 * width, width, residual, &b->contract);
#undef NAME
    return r;
}

static rf_result create_variables(rf_strategy *strategy, gpt *g)
{
    const gpt_config *c = &g->config;
    rf_result r = create_matrix(strategy, "tokens/embeddings", c->vocabulary, c->width, 0.02f, &g->tokens);
    if (r >= 0) r = create_matrix(strategy, "positions/embeddings", c->block, c->width, 0.02f, &g->positions);
    while (r >= 0 && g->num_blocks < c->layers) {
        r = create_block(strategy, c, g->num_blocks, &g->blocks[g->num_blocks]);
        g->num_blocks++;
    }
    if (r >= 0) r = create_norm(strategy, c, "last_norm", &g->last_norm);
    return r;
}

rf_result gpt_create(rf_strategy *strategy, const gpt_config *config, gpt **out)
{
    *out = NULL;
    gpt *g = calloc(1, sizeof(*g) + config->layers * sizeof(block));
    if (!g) return RF_ERROR_OUT_OF_HOST_MEMORY;
    g->config = *config;
    rf_result r = create_variables(strategy, g);
    if (r >= 0) r = rf_model_create_custom(strategy, forward, g, &g->model);
    if (r < 0) gpt_destroy(&g);
    *out = g;
    return r;
}

rf_model *gpt_model(const gpt *g)
{
    return g->model;
}

rf_result gpt_cache_create(rf_strategy *strategy, const gpt *g, uint32_t rows, gpt_cache **out)
{
    const gpt_config *c = &g->config;
    rf_result r = RF_OK;
    gpt_cache *cache = calloc(1, sizeof(*cache) + 2 * (size_t)c->layers * sizeof(cache->kept[0]));
    *out = cache;
    if (!cache) return RF_ERROR_OUT_OF_HOST_MEMORY;
    cache->gpt = g;
    while (r >= 0 && cache->num_kept < 2 * c->layers) {
        char name[MAX_NAME];
        snprintf(name, sizeof(name), "cache/block_%u/%s", cache->num_kept / 2, cache->num_kept % 2 ? "value" : "key");
        const rf_variable_params params = { .name = name,
                                            .shape = RF_SHAPE(rows, c->heads, c->block, c->width / c->heads),
                                            .initializer = { .kind = RF_INIT_ZEROS },
                                            .not_trainable = true };
        r = rf_variable_create(strategy, &params, &cache->kept[cache->num_kept++]);
    }
    if (r < 0) gpt_cache_destroy(out);
    return r;
}

void gpt_cache_destroy(gpt_cache **cache)
{
    if (!*cache) return;
    for (uint32_t i = 0; i < (*cache)->num_kept; i++) rf_variable_destroy(&(*cache)->kept[i]);
    free(*cache);
    *cache = NULL;
}

static void destroy_affine(affine *a)
{
    rf_variable_destroy(&a->weight);
    rf_variable_destroy(&a->bias);
}

void gpt_destroy(gpt **g)
{
    if (!*g) return;
    rf_model_destroy(&(*g)->model);
    rf_variable_destroy(&(*g)->tokens);
    rf_variable_destroy(&(*g)->positions);
    destroy_affine(&(*g)->last_norm);
    for (uint32_t i = 0; i < (*g)->num_blocks; i++) {
        block *b = &(*g)->blocks[i];
        affine *all[] = { &b->norm_1, &b->qkv, &b->attention_output, &b->norm_2, &b->expand, &b->contract };
        for (uint32_t k = 0; k < sizeof(all) / sizeof(all[0]); k++) destroy_affine(all[k]);
    }
    free(*g);
    *g = NULL;
}
