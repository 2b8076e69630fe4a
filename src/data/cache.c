/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache: elements are kept in chunks that never move, so that readers hold no lock while they use one. One store per
 * dataset, shared by its iterators. Over an indexed input any element may be filled at any time; otherwise elements are
 * appended in order, and an iterator that gets ahead of the store reads on from an input of its own.
 */
#include <pthread.h>
#include <string.h>

#include "data/pipeline.h"

enum { CHUNK_ELEMENTS = 256 };

typedef struct cache_chunk {
    char *bytes;
    bool filled[CHUNK_ELEMENTS];
    rf_shape *shapes; /* [CHUNK_ELEMENTS][components]: short batches differ */
} cache_chunk;

typedef struct cache_store {
    pthread_mutex_t lock;
    struct {
        cache_chunk **items;
        uint32_t count, capacity;
    } chunks;
    uint64_t appended; /* elements filled in order */
    bool complete;     /* not indexed: the end has been seen after `appended` elements */
} cache_store;

static void free_store(rf_dataset *dataset)
{
    cache_store *store = dataset->data;
    if (!store) return;
    for (uint32_t i = 0; i < store->chunks.count; i++) {
        rf_free(store->chunks.items[i]->bytes);
        rf_free(store->chunks.items[i]->shapes);
        rf_free(store->chunks.items[i]);
    }
    rf_free(store->chunks.items);
    pthread_mutex_destroy(&store->lock);
    rf_free(store);
}

static rf_result chunk_at(const rf_dataset *dataset, uint64_t number, cache_chunk **out)
{
    cache_store *store = dataset->data;
    while (store->chunks.count <= number) {
        RF_TRY(RF_VEC_GROW(&store->chunks));
        cache_chunk *chunk = RF_NEW(cache_chunk);
        if (!chunk) return RF_ERROR_OUT_OF_HOST_MEMORY;
        store->chunks.items[store->chunks.count++] = chunk;
    }
    cache_chunk *chunk = store->chunks.items[number];
    if (!chunk->bytes) {
        size_t size;
        if (!rf_mul_size(rf_element_bytes(&dataset->spec), CHUNK_ELEMENTS, &size)) size = SIZE_MAX / 2;
        if (!chunk->shapes) chunk->shapes = RF_NEW_ARRAY(rf_shape, CHUNK_ELEMENTS * dataset->spec.num_components);
        if (chunk->shapes) chunk->bytes = rf_aligned_calloc(size);
        if (!chunk->bytes) return rf_error_context(RF_ERROR_OUT_OF_HOST_MEMORY, "cache");
    }
    *out = chunk;
    return RF_OK;
}

/* Under the lock: points `out` at a stored element; false when it is not there. */
static rf_result look_up(rf_stage *stage, uint64_t index, bool *found)
{
    cache_chunk *chunk = NULL;
    RF_TRY(chunk_at(stage->dataset, index / CHUNK_ELEMENTS, &chunk));
    const uint64_t place = index % CHUNK_ELEMENTS;
    const rf_element_spec *spec = &stage->dataset->spec;
    *found = chunk->filled[place];
    rf_element_place(&stage->element, spec, chunk->bytes + place * rf_element_bytes(spec));
    for (uint32_t i = 0; *found && i < spec->num_components; i++)
        stage->element.component[i].shape = chunk->shapes[place * spec->num_components + i];
    return RF_OK;
}

/* Under the lock: stage->element points at the empty place that look_up found. */
static void store(rf_stage *stage, uint64_t index, const rf_element *in)
{
    const cache_store *s = stage->dataset->data;
    cache_chunk *chunk = s->chunks.items[index / CHUNK_ELEMENTS];
    const uint64_t place = index % CHUNK_ELEMENTS;
    for (uint32_t i = 0; i < in->num_components; i++) {
        const rf_array *a = &in->component[i];
        memcpy(stage->element.component[i].data, a->data, (size_t)rf_shape_count(a->shape) * rf_dtype_size(a->dtype));
        stage->element.component[i].shape = chunk->shapes[place * in->num_components + i] = a->shape;
    }
    chunk->filled[place] = true;
}

static rf_result open_cache(rf_stage *stage)
{
    RF_TRY(rf_stage_open(stage->dataset->input, stage->epoch, &stage->input));
    stage->indexed = stage->input->indexed;
    stage->count = stage->input->count;
    return RF_OK;
}

static rf_result get_cached(rf_stage *stage, uint64_t index, const rf_element **out)
{
    cache_store *s = stage->dataset->data;
    bool found = false;
    *out = &stage->element;
    pthread_mutex_lock(&s->lock);
    rf_result r = look_up(stage, index, &found);
    pthread_mutex_unlock(&s->lock);
    if (r < 0 || found) return r;
    const rf_element *in;
    RF_TRY(stage->input->dataset->kind->get(stage->input, index, &in)); /* unlocked: it may take long */
    pthread_mutex_lock(&s->lock);
    r = look_up(stage, index, &found);
    if (r == RF_OK && !found) store(stage, index, in);
    pthread_mutex_unlock(&s->lock);
    return r;
}

/* Sequential: read from the store as far as it goes, then from the input, which is first brought to this place. */
static rf_result next_cached(rf_stage *stage, const rf_element **out)
{
    cache_store *s = stage->dataset->data;
    bool found = false;
    pthread_mutex_lock(&s->lock);
    const bool ended = s->complete && stage->position >= s->appended;
    rf_result r = ended ? RF_END : look_up(stage, stage->position, &found);
    pthread_mutex_unlock(&s->lock);
    *out = &stage->element;
    if (r != RF_OK || found) return r;
    RF_TRY(rf_stage_skip(stage->input, stage->position - stage->input->position));
    const rf_element *in;
    r = rf_stage_next(stage->input, &in);
    pthread_mutex_lock(&s->lock);
    if (r == RF_END && s->appended == stage->position) s->complete = true;
    if (r == RF_OK) r = look_up(stage, stage->position, &found);
    if (r == RF_OK && !found) {
        store(stage, stage->position, in);
        if (s->appended == stage->position) s->appended++;
    }
    pthread_mutex_unlock(&s->lock);
    return r;
}

const rf_dataset_kind rf_dataset_kind_cache = {
    .name = "cache",
    .open = open_cache,
    .get = get_cached,
    .next = next_cached,
    .free_dataset = free_store,
    .keeps_elements = true,
    .opens_own_input = true,
};

rf_result rf_dataset_cache(const rf_dataset *in, rf_dataset **out)
{
    RF_TRY(rf_dataset_derive(in, &rf_dataset_kind_cache, out));
    cache_store *s = (*out)->data = RF_NEW(cache_store);
    if (!s) {
        rf_dataset_destroy(out);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    pthread_mutex_init(&s->lock, NULL);
    return RF_OK;
}
