/* SPDX-License-Identifier: Apache-2.0 */
/* State that translating keeps between tokens. */
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

/* ---- in steps ---- */

void nmt_keep(rf_trace *t, rf_variable *kept, rf_tensor value)
{
    (void)rf_variable_update(t, kept, value, RF_AGGREGATE_FIRST_REPLICA);
}

rf_tensor nmt_recall(rf_trace *t, rf_variable *kept, rf_tensor parents)
{
    const rf_tensor all = rf_variable_tensor(t, kept);
    return parents.id ? rf_gather(t, all, parents, 0) : all;
}

rf_result nmt_read(rf_trace *t, const nmt_cache *cache, rf_tensor sources)
{
    if (cache->m->config.units)
        recurrent_read(t, cache, sources);
    else
        transformer_read(t, cache, sources);
    return rf_trace_status(t);
}

rf_tensor nmt_go_on(rf_trace *t, const nmt_cache *cache, rf_tensor tokens, rf_tensor place, rf_tensor parents)
{
    return cache->m->config.units ? recurrent_go_on(t, cache, tokens, parents)
                                  : transformer_go_on(t, cache, tokens, place, parents);
}

/* ---- lifetime ---- */

static rf_result make_room(rf_strategy *strategy, const char *name, rf_shape shape, rf_variable **out)
{
    char path[64];
    snprintf(path, sizeof(path), "cache/%s", name);
    const rf_variable_params params = {
        .name = path, .shape = shape, .initializer = { .kind = RF_INIT_ZEROS }, .not_trainable = true
    };
    return rf_variable_create(strategy, &params, out);
}

static rf_result make_pairs(rf_strategy *strategy, const nmt_config *c, const char *name, uint32_t rows,
                            uint32_t length, rf_variable *pairs[][2])
{
    rf_result r = RF_OK;
    for (uint32_t i = 0; i < 2 * c->layers && r >= 0; i++) {
        char path[48];
        snprintf(path, sizeof(path), "decoder_%u/%s/%s", i / 2, name, i % 2 ? "value" : "key");
        r = make_room(strategy, path, RF_SHAPE(rows, c->heads, length, c->key_width), &pairs[i / 2][i % 2]);
    }
    return r;
}

static rf_result create(rf_strategy *strategy, uint32_t rows, nmt_cache *cache)
{
    const nmt_config *c = &cache->m->config;
    const rf_shape memory = RF_SHAPE(rows, c->source_length, c->units);
    rf_result r = make_room(strategy, "mask", RF_SHAPE(rows, c->source_length), &cache->mask);
    if (r >= 0 && c->units) r = make_room(strategy, "memory", memory, &cache->memory);
    if (r >= 0 && c->units) r = make_room(strategy, "keys", memory, &cache->keys);
    if (r >= 0 && c->units) r = make_room(strategy, "state", RF_SHAPE(rows, c->units), &cache->state);
    if (r >= 0) r = make_pairs(strategy, c, "self", rows, c->target_length, cache->self);
    return r >= 0 ? make_pairs(strategy, c, "cross", rows, c->source_length, cache->cross) : r;
}

rf_result nmt_cache_create(rf_strategy *strategy, const nmt *m, uint32_t rows, nmt_cache **out)
{
    nmt_cache *cache = *out = calloc(1, sizeof(*cache));
    if (!cache) return RF_ERROR_OUT_OF_HOST_MEMORY;
    cache->m = m;
    const rf_result r = create(strategy, rows, cache);
    if (r < 0) nmt_cache_destroy(out);
    return r;
}

void nmt_cache_destroy(nmt_cache **cache)
{
    nmt_cache *c = *cache;
    if (!c) return;
    rf_variable **single[] = { &c->mask, &c->memory, &c->keys, &c->state };
    for (size_t i = 0; i < sizeof(single) / sizeof(single[0]); i++) rf_variable_destroy(single[i]);
    for (uint32_t i = 0; i < 2 * MAX_LAYERS; i++) {
        rf_variable_destroy(&c->self[i / 2][i % 2]);
        rf_variable_destroy(&c->cross[i / 2][i % 2]);
    }
    free(c);
    *cache = NULL;
}
