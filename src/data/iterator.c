/* SPDX-License-Identifier: Apache-2.0 */
/* The public iterator over the stages of a pipeline, and its saved positions. */
#include <stddef.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/philox.h"
#include "data/pipeline.h"

struct rf_iterator {
    rf_dataset *dataset;
    rf_iterator *next; /* over the same dataset */
    rf_stage *stage;
    rf_dataset *rest; /* what the stage walks where the pass began with another batch size, else NULL */
    uint64_t first;   /* examples of the pass that came before `rest` */
    uint64_t epoch;
};

static void join_list(rf_iterator *it)
{
    pthread_mutex_lock(&it->dataset->lock);
    it->next = it->dataset->iterators;
    it->dataset->iterators = it;
    pthread_mutex_unlock(&it->dataset->lock);
}

static void leave_list(rf_iterator *it)
{
    pthread_mutex_lock(&it->dataset->lock);
    rf_iterator **at = &it->dataset->iterators;
    while (*at != it) at = &(*at)->next;
    *at = it->next;
    pthread_mutex_unlock(&it->dataset->lock);
}

bool rf_dataset_has_iterator(const rf_dataset *dataset, const rf_iterator *iterator)
{
    rf_dataset *d = (rf_dataset *)(uintptr_t)dataset; /* only the lock changes */
    pthread_mutex_lock(&d->lock);
    const rf_iterator *it = d->iterators;
    while (it && it != iterator) it = it->next;
    pthread_mutex_unlock(&d->lock);
    return it;
}

rf_result rf_iterator_create(const rf_dataset *dataset, uint64_t epoch, rf_iterator **out)
{
    RF_REQUIRE(out, "rf_iterator_create: out is NULL");
    *out = NULL;
    RF_REQUIRE(dataset, "rf_iterator_create: dataset is NULL");
    rf_iterator *it = RF_NEW(rf_iterator);
    if (!it) return RF_ERROR_OUT_OF_HOST_MEMORY;
    it->epoch = epoch;
    it->dataset = rf_dataset_retain(dataset);
    join_list(it);
    const rf_result r = rf_stage_open(dataset, epoch, &it->stage);
    if (r < 0)
        rf_iterator_destroy(&it);
    else
        *out = it;
    return r;
}

rf_result rf_iterator_next(rf_iterator *iterator, const rf_element **out)
{
    RF_REQUIRE(iterator && out, "rf_iterator_next: %s is NULL", iterator ? "out" : "iterator");
    return rf_stage_next(iterator->stage, out);
}

void rf_iterator_destroy(rf_iterator **iterator)
{
    if (!iterator || !*iterator) return;
    leave_list(*iterator);
    rf_stage_close(&(*iterator)->stage);
    rf_dataset_destroy(&(*iterator)->rest);
    rf_dataset_destroy(&(*iterator)->dataset);
    rf_free(*iterator);
    *iterator = NULL;
}

/* ---- saved positions: epoch and number of elements delivered; everything else follows from the description ---- */

/* Version 2 has neither a checksum nor the names of files in its fingerprints. It is read as long as there is a
 * library, and not written any more. */
enum { STATE_VERSION = 3, UNCHECKED_VERSION = 2 };
static const char state_magic[7] = { 'R', 'F', 'I', 'T', 'E', 'R', 0 };
typedef struct saved_position {
    char magic[7];
    uint8_t version;
    uint64_t fingerprint,
        examples;          /* of the pipeline; of the examples that it makes batches of, 0: of other elements */
    uint64_t batch, first; /* the position counts batches of that size, after `first` examples */
    uint64_t epoch, position;
    uint64_t checksum; /* CRC-32C of all that stands before */
} saved_position;

/* The role of a step in a position: a worker's slice is what it stands for, or nothing (NULL). */
static const char *role_of(const rf_dataset *d)
{
    return d->kind == &rf_dataset_kind_slice ? rf_slice_stands_for(d) : d->kind->name;
}

/* Whether a step repeats without end what has an unknown number of elements. */
static bool repeats_unknown(const rf_dataset *d)
{
    for (; d; d = d->input)
        if (d->kind == &rf_dataset_kind_repeat && d->count == 0 && d->input->cardinality == RF_CARDINALITY_UNKNOWN)
            return true;
    return false;
}

/* The first release's files have -1 for unknown, which such repetitions were then, and -2 for infinite, the reverse of
 * RF_CARDINALITY_*; they stay valid. */
static uint64_t saved_cardinality(const rf_dataset *d)
{
    const bool infinite = d->cardinality == RF_CARDINALITY_INFINITE;
    const int64_t saved = d->cardinality == RF_CARDINALITY_UNKNOWN || (infinite && repeats_unknown(d)) ? -1
                          : infinite                                                                   ? -2
                                                                                                       : d->cardinality;
    return (uint64_t)saved;
}

/* A position means nothing for another pipeline. */
static uint64_t dataset_fingerprint(const rf_dataset *d, uint8_t version)
{
    uint64_t h = 0;
    for (; d; d = d->input) {
        if (d->stands_for) d = d->stands_for;
        const uint64_t numbers[] = {
            d->count, d->seed, d->index, d->flag, saved_cardinality(d), d->spec.num_components
        };
        const char *name = role_of(d);
        if (!name) continue;
        h = rf_hash_bytes(name, strlen(name), h);
        h = rf_hash_bytes(numbers, sizeof(numbers), h);
        for (uint32_t i = 0; i < d->spec.num_components; i++) {
            const uint64_t type = (uint64_t)d->spec.dtype[i], count = (uint64_t)rf_shape_count(d->spec.shape[i]);
            h = rf_hash64(h, type << 56 ^ count);
        }
        if (version > UNCHECKED_VERSION && d->names) h = rf_hash64(h, d->names);
        for (uint32_t i = 0; i < d->num_others; i++) h = rf_hash64(h, dataset_fingerprint(d->others[i], version));
    }
    return h;
}

static bool makes_batches(const rf_dataset *d)
{
    const char *role = role_of(d);
    return role && strcmp(role, rf_dataset_kind_batch.name) == 0;
}

/* The step that makes the batches, where all that follows gives one element for each of them; else NULL. */
static const rf_dataset *find_batch(const rf_dataset *d)
{
    while (d && (d->kind == &rf_dataset_kind_prefetch || d->kind == &rf_dataset_kind_map || !role_of(d))) d = d->input;
    return d && makes_batches(d) ? d : NULL;
}

void rf_iterator_state_seal(void *state)
{
    saved_position *p = state;
    p->checksum = rf_crc32c(0, p, offsetof(saved_position, checksum));
}

rf_result rf_iterator_save(const rf_iterator *iterator, void **state, size_t *size)
{
    RF_REQUIRE(iterator && state && size, "rf_iterator_save: an argument is NULL");
    saved_position *p = RF_NEW(saved_position);
    if (!p) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_dataset *batch = find_batch(iterator->dataset);
    memcpy(p->magic, state_magic, sizeof(state_magic));
    p->version = STATE_VERSION;
    p->fingerprint = dataset_fingerprint(iterator->dataset, STATE_VERSION);
    p->examples = batch ? dataset_fingerprint(batch->input, STATE_VERSION) : 0;
    p->epoch = iterator->epoch;
    p->position = iterator->stage->position;
    p->batch = batch ? batch->count : 0;
    p->first = iterator->first;
    rf_iterator_state_seal(p);
    *state = p;
    *size = sizeof(*p);
    return RF_OK;
}

/* The same steps over what is left of the examples after `first` of them. */
static rf_result make_rest(const rf_dataset *d, uint64_t first, rf_dataset **out)
{
    rf_dataset *below = NULL;
    RF_TRY(makes_batches(d) ? rf_dataset_window(d->input, first, 1, UINT64_MAX, &below)
                            : make_rest(d->input, first, &below));
    const rf_result r = rf_dataset_clone_over(d, below, out);
    rf_dataset_destroy(&below);
    return r;
}

/* A pass that was begun with batches of another size: goes on with the first example that was in none of them. */
static rf_result restore_examples(const rf_dataset *dataset, const saved_position *p, rf_iterator *it)
{
    const int64_t cardinality = find_batch(dataset)->input->cardinality;
    uint64_t seen;
    if (__builtin_mul_overflow(p->position, p->batch, &seen) || __builtin_add_overflow(seen, p->first, &seen))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "iterator state: position %llu does not exist in a dataset",
                       (unsigned long long)p->position);
    if (cardinality >= 0 && seen > (uint64_t)cardinality) seen = (uint64_t)cardinality; /* the last batch was short */
    RF_TRY(make_rest(dataset, seen, &it->rest));
    rf_stage_close(&it->stage);
    it->first = seen;
    return rf_stage_open(it->rest, p->epoch, &it->stage);
}

static rf_result restore_position(const saved_position *p, rf_iterator *it)
{
    RF_TRY(rf_stage_skip(it->stage, p->position));
    if (it->stage->position == p->position) return RF_OK;
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "iterator state: position %llu is past the end of the dataset",
                   (unsigned long long)p->position);
}

static rf_result state_read(const void *state, size_t size, saved_position *p)
{
    const size_t unchecked = offsetof(saved_position, checksum);
    *p = (saved_position){ 0 };
    memcpy(p, state, size < sizeof(*p) ? size : sizeof(*p));
    if (size < sizeof(p->magic) + 1 || memcmp(p->magic, state_magic, sizeof(state_magic)) != 0)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "iterator state: %zu bytes are not a saved position", size);
    if (p->version < UNCHECKED_VERSION || p->version > STATE_VERSION)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "iterator state: a position of version %d; this library reads %d and %d",
                       p->version, UNCHECKED_VERSION, STATE_VERSION);
    if (size != (p->version == UNCHECKED_VERSION ? unchecked : sizeof(*p)))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "iterator state: %zu bytes are no position of version %d, which has %zu",
                       size, p->version, p->version == UNCHECKED_VERSION ? unchecked : sizeof(*p));
    if (p->version == STATE_VERSION && p->checksum != rf_crc32c(0, p, unchecked))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "iterator state: its checksum is another; it was damaged after it was "
                                              "saved");
    return RF_OK;
}

rf_result rf_iterator_restore(const rf_dataset *dataset, const void *state, size_t size, rf_iterator **out)
{
    RF_REQUIRE(out, "rf_iterator_restore: out is NULL");
    *out = NULL;
    RF_REQUIRE(dataset && state, "rf_iterator_restore: %s is NULL", dataset ? "state" : "dataset");
    saved_position p;
    RF_TRY(state_read(state, size, &p));
    const rf_dataset *batch = find_batch(dataset);
    const bool same = p.fingerprint == dataset_fingerprint(dataset, p.version) && p.first == 0;
    if (!same && (!batch || p.batch == 0 || p.examples != dataset_fingerprint(batch->input, p.version)))
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "iterator state: saved from another pipeline; build the dataset with the "
                       "same steps, sizes and seeds, and with the same files in the same order");
    RF_TRY(rf_iterator_create(dataset, p.epoch, out));
    const rf_result r = same ? restore_position(&p, *out) : restore_examples(dataset, &p, *out);
    if (r < 0) rf_iterator_destroy(out);
    return r;
}

void rf_iterator_state_free(void *state)
{
    rf_free(state);
}
