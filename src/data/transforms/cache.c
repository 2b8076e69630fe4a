/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache: elements are kept in chunks that never move, so that readers hold no lock while they use one.
 *
 * The input is always opened for epoch 0, whatever the iterator's epoch is: a shuffle below gives the same order to all
 * passes, iterators, workers and resumed runs, and elements of different passes are never mixed.
 *
 * Over an indexed input an element is the same whenever it is fetched, so one store is shared and filled in any order.
 * An input that is read in order may be a function with a state of its own: there each iterator fills a store of its
 * own, which becomes the dataset's when the pass reaches its end, and is discarded otherwise.
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
    struct {
        cache_chunk **items;
        uint32_t count, capacity;
    } chunks;
    uint64_t appended; /* elements filled in order */
} cache_store;

/* The elements that a dataset keeps. */
typedef struct cache_data {
    pthread_mutex_t lock;
    cache_store shared;    /* over an indexed input */
    cache_store *complete; /* over others: of the first complete pass; NULL before */
} cache_data;

/* A pass over an input that is read in order. */
typedef struct cache_pass {
    cache_store *own;            /* being filled; NULL: it reads, or its store is the dataset's now */
    const cache_store *complete; /* NULL before the end, and where it fills */
} cache_pass;

static void clear_store(cache_store *store)
{
    for (uint32_t i = 0; i < store->chunks.count; i++) {
        rf_free(store->chunks.items[i]->bytes);
        rf_free(store->chunks.items[i]->shapes);
        rf_free(store->chunks.items[i]);
    }
    rf_free(store->chunks.items);
}

static void destroy_store(cache_store *store)
{
    if (store) clear_store(store);
    rf_free(store);
}

static void free_cache(rf_dataset *dataset)
{
    cache_data *data = dataset->data;
    if (!data) return;
    clear_store(&data->shared);
    destroy_store(data->complete);
    pthread_mutex_destroy(&data->lock);
    rf_free(data);
}

/* ---- a store ---- */

static rf_result chunk_at(cache_store *store, const rf_element_spec *spec, uint64_t number, cache_chunk **out)
{
    while (store->chunks.count <= number) {
        RF_TRY(RF_VEC_GROW(&store->chunks));
        cache_chunk *chunk = RF_NEW(cache_chunk);
        if (!chunk) return RF_ERROR_OUT_OF_HOST_MEMORY;
        store->chunks.items[store->chunks.count++] = chunk;
    }
    cache_chunk *chunk = store->chunks.items[number];
    if (!chunk->bytes) {
        size_t size;
        if (!rf_mul_size(rf_element_bytes(spec), CHUNK_ELEMENTS, &size)) size = SIZE_MAX / 2;
        if (!chunk->shapes) chunk->shapes = RF_NEW_ARRAY(rf_shape, CHUNK_ELEMENTS * spec->num_components);
        if (chunk->shapes) chunk->bytes = rf_aligned_calloc(size);
        if (!chunk->bytes) return rf_error_context(RF_ERROR_OUT_OF_HOST_MEMORY, "cache");
    }
    *out = chunk;
    return RF_OK;
}

/* Points the stage's element at place `index` of a chunk. */
static void point_at(rf_stage *stage, const cache_chunk *chunk, uint64_t index)
{
    const uint64_t place = index % CHUNK_ELEMENTS;
    const rf_element_spec *spec = &stage->dataset->spec;
    rf_element_place(&stage->element, spec, chunk->bytes + place * rf_element_bytes(spec));
    for (uint32_t i = 0; chunk->filled[place] && i < spec->num_components; i++)
        stage->element.component[i].shape = chunk->shapes[place * spec->num_components + i];
}

/* Copies an element to place `index`, which is empty, and points the stage's element there. */
static void fill_place(rf_stage *stage, cache_chunk *chunk, uint64_t index, const rf_element *in)
{
    const uint64_t place = index % CHUNK_ELEMENTS;
    point_at(stage, chunk, index);
    for (uint32_t i = 0; i < in->num_components; i++) {
        const rf_array *a = &in->component[i];
        memcpy(stage->element.component[i].data, a->data, (size_t)rf_shape_count(a->shape) * rf_dtype_size(a->dtype));
        stage->element.component[i].shape = chunk->shapes[place * in->num_components + i] = a->shape;
    }
    chunk->filled[place] = true;
}

/* ---- indexed ---- */

/* Under the lock: points the stage's element at the stored one, storing `in` (NULL: nothing) where there is none. */
static rf_result find_or_fill(rf_stage *stage, uint64_t index, const rf_element *in, bool *found)
{
    cache_data *data = stage->dataset->data;
    cache_chunk *chunk = NULL;
    RF_TRY(chunk_at(&data->shared, &stage->dataset->spec, index / CHUNK_ELEMENTS, &chunk));
    *found = chunk->filled[index % CHUNK_ELEMENTS];
    if (*found)
        point_at(stage, chunk, index);
    else if (in)
        fill_place(stage, chunk, index, in);
    return RF_OK;
}

static rf_result get_cached(rf_stage *stage, uint64_t index, const rf_element **out)
{
    cache_data *data = stage->dataset->data;
    bool found = false;
    *out = &stage->element;
    pthread_mutex_lock(&data->lock);
    rf_result r = find_or_fill(stage, index, NULL, &found);
    pthread_mutex_unlock(&data->lock);
    if (r < 0 || found) return r;
    const rf_element *in;
    RF_TRY(stage->input->dataset->kind->get(stage->input, index, &in)); /* unlocked: it may take long */
    pthread_mutex_lock(&data->lock);
    r = find_or_fill(stage, index, in, &found);
    pthread_mutex_unlock(&data->lock);
    return r;
}

/* ---- in order ---- */

static rf_result open_cache(rf_stage *stage)
{
    RF_TRY(rf_stage_open(stage->dataset->input, 0, &stage->input));
    stage->indexed = stage->input->indexed;
    stage->count = stage->input->count;
    if (stage->indexed) return RF_OK;
    cache_data *data = stage->dataset->data;
    cache_pass *pass = stage->data = RF_NEW(cache_pass);
    if (!pass) return RF_ERROR_OUT_OF_HOST_MEMORY;
    pthread_mutex_lock(&data->lock);
    pass->complete = data->complete;
    pthread_mutex_unlock(&data->lock);
    if (pass->complete) return RF_OK;
    pass->own = RF_NEW(cache_store);
    return pass->own ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

static void close_cache(rf_stage *stage)
{
    cache_pass *pass = stage->data;
    if (pass) destroy_store(pass->own);
    rf_free(pass);
}

/* The pass has come to its end: what it kept serves all that follow, unless another iterator was first. */
static void complete_pass(cache_data *data, cache_pass *pass)
{
    pass->complete = pass->own;
    pthread_mutex_lock(&data->lock);
    if (!data->complete) {
        data->complete = pass->own;
        pass->own = NULL;
    }
    pthread_mutex_unlock(&data->lock);
}

static rf_result next_cached(rf_stage *stage, const rf_element **out)
{
    cache_pass *pass = stage->data;
    *out = &stage->element;
    if (pass->complete) {
        if (stage->position >= pass->complete->appended) return RF_END;
        point_at(stage, pass->complete->chunks.items[stage->position / CHUNK_ELEMENTS], stage->position);
        return RF_OK;
    }
    const rf_element *in;
    const rf_result r = rf_stage_peek_input(stage, &in);
    if (r == RF_END) complete_pass(stage->dataset->data, pass);
    if (r != RF_OK) return r;
    cache_chunk *chunk = NULL;
    const uint64_t place = pass->own->appended; /* the position counts elements that were dropped, too */
    RF_TRY(chunk_at(pass->own, &stage->dataset->spec, place / CHUNK_ELEMENTS, &chunk));
    fill_place(stage, chunk, place, in);
    pass->own->appended++;
    rf_stage_take_input(stage);
    return RF_OK;
}

const rf_dataset_kind rf_dataset_kind_cache = {
    .name = "cache",
    .open = open_cache,
    .close = close_cache,
    .get = get_cached,
    .next = next_cached,
    .free_dataset = free_cache,
    .keeps_elements = true,
    .opens_own_input = true,
};

rf_result rf_dataset_cache(const rf_dataset *in, rf_dataset **out)
{
    RF_TRY(rf_dataset_derive(in, &rf_dataset_kind_cache, out));
    cache_data *data = (*out)->data = RF_NEW(cache_data);
    if (!data) {
        rf_dataset_destroy(out);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    pthread_mutex_init(&data->lock, NULL);
    return RF_OK;
}
