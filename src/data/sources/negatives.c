/* SPDX-License-Identifier: Apache-2.0 */
/* A source of pairs of users and items, with items beside each that its user does not have. */
#include <stdlib.h>
#include <string.h>

#include "base/params.h"
#include "data/pipeline.h"

enum { MOST_NEGATIVES = 1000000 };

typedef struct pair_source {
    int32_t *users, *items; /* of the pairs that are examples */
    uint64_t *first;        /* [num_users + 1]: where in `known` a user's items begin */
    int32_t *known;         /* what is not drawn: those of each user after each other, ascending, each once */
    uint32_t num_users, num_items;
} pair_source;

static void free_pairs(rf_dataset *dataset)
{
    pair_source *source = dataset->data;
    if (!source) return;
    rf_free(source->users);
    rf_free(source->items);
    rf_free(source->first);
    rf_free(source->known);
    rf_free(source);
}

/* ---- elements ---- */

/* The item that `place` items are before which the user does not have. */
static int32_t find_other(const pair_source *source, int32_t user, uint64_t place)
{
    const int32_t *known = source->known + source->first[user];
    uint64_t low = 0, high = source->first[user + 1] - source->first[user];
    while (low < high) { /* so many of the user's items are before it */
        const uint64_t middle = low + (high - low) / 2;
        if ((uint64_t)known[middle] - middle <= place)
            low = middle + 1;
        else
            high = middle;
    }
    return (int32_t)(place + low);
}

static rf_result open_pairs(rf_stage *stage)
{
    stage->indexed = true;
    stage->count = (uint64_t)stage->dataset->cardinality;
    return rf_stage_allocate_element(stage, &stage->dataset->spec);
}

static rf_result get_pair(rf_stage *stage, uint64_t index, const rf_element **out)
{
    const rf_dataset *d = stage->dataset;
    const pair_source *source = d->data;
    const uint64_t pair = index / (d->count + 1);
    const bool own = index % (d->count + 1) == 0;
    const int32_t user = source->users[pair];
    int32_t item = source->items[pair];
    if (!own) {
        const uint64_t others = source->num_items - (source->first[user + 1] - source->first[user]);
        const rf_random_key key = { d->seed, stage->epoch, index };
        item = find_other(source, user, rf_random_key_below(key, 0, others));
    }
    *(int32_t *)stage->element.component[0].data = user;
    *(int32_t *)stage->element.component[1].data = item;
    *(float *)stage->element.component[2].data = own ? 1.0f : 0.0f;
    *out = &stage->element;
    return RF_OK;
}

const rf_dataset_kind rf_dataset_kind_negatives = {
    .name = "negatives",
    .open = open_pairs,
    .get = get_pair,
    .free_dataset = free_pairs,
};

/* ---- creation ---- */

static rf_result check_pairs(const char *what, const rf_array *users, const rf_array *items, uint32_t num_items,
                             uint32_t *num_users)
{
    const rf_array *both[] = { users, items };
    for (int k = 0; k < 2; k++)
        RF_REQUIRE(both[k]->dtype == RF_I32 && both[k]->shape.rank == 1 && both[k]->shape.dim[0] >= 0 &&
                       both[k]->shape.dim[0] == users->shape.dim[0] && (both[k]->data || both[k]->shape.dim[0] == 0),
                   "rf_dataset_from_pairs: %s are not users and items i32 [n] of one length", what);
    for (int64_t i = 0; i < users->shape.dim[0]; i++) {
        const int32_t user = ((const int32_t *)users->data)[i], item = ((const int32_t *)items->data)[i];
        RF_REQUIRE(user >= 0 && user < INT32_MAX && item >= 0 && (uint32_t)item < num_items,
                   "rf_dataset_from_pairs: number %lld of the %s is user %d with item %d of %u", (long long)i, what,
                   user, item, num_items);
        if ((uint32_t)user >= *num_users) *num_users = (uint32_t)user + 1;
    }
    return RF_OK;
}

static void count_pairs(pair_source *source, const rf_array *users)
{
    for (int64_t i = 0; i < users->shape.dim[0]; i++) source->first[((const int32_t *)users->data)[i] + 1]++;
}

/* `next`: where the next item of each user goes. */
static void place_pairs(pair_source *source, const rf_array *users, const rf_array *items, uint64_t *next)
{
    for (int64_t i = 0; i < users->shape.dim[0]; i++)
        source->known[next[((const int32_t *)users->data)[i]]++] = ((const int32_t *)items->data)[i];
}

static int compare_items(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Sorts each user's items and removes those that are there twice. */
static rf_result arrange_users(pair_source *source)
{
    uint64_t kept = 0, begin = 0;
    for (uint32_t user = 0; user < source->num_users; user++) {
        const uint64_t end = source->first[user + 1], from = kept;
        if (end > begin) qsort(source->known + begin, end - begin, sizeof(int32_t), compare_items);
        for (uint64_t i = begin; i < end; i++)
            if (kept == from || source->known[i] != source->known[kept - 1]) source->known[kept++] = source->known[i];
        RF_REQUIRE(kept - from < source->num_items, "rf_dataset_from_pairs: user %u has all of the %u items", user,
                   source->num_items);
        begin = end;
        source->first[user + 1] = kept;
    }
    return RF_OK;
}

static rf_result copy_pairs(const rf_pairs_params *params, pair_source *source)
{
    const rf_array none = { RF_I32, RF_SHAPE(0), NULL };
    const rf_array *users = params->other_users ? params->other_users : &none;
    const rf_array *items = params->other_items ? params->other_items : &none;
    RF_TRY(check_pairs("pairs", params->users, params->items, params->num_items, &source->num_users));
    RF_TRY(check_pairs("other pairs", users, items, params->num_items, &source->num_users));
    const size_t count = (size_t)params->users->shape.dim[0], all = count + (size_t)users->shape.dim[0];
    RF_REQUIRE(count > 0, "rf_dataset_from_pairs: there are no pairs");
    source->num_items = params->num_items;
    source->users = RF_NEW_ARRAY(int32_t, count);
    source->items = RF_NEW_ARRAY(int32_t, count);
    source->known = RF_NEW_ARRAY(int32_t, all);
    source->first = RF_NEW_ARRAY(uint64_t, (size_t)source->num_users + 1);
    uint64_t *next = RF_NEW_ARRAY(uint64_t, (size_t)source->num_users);
    const bool ok = source->users && source->items && source->known && source->first && next;
    if (ok) {
        memcpy(source->users, params->users->data, count * sizeof(int32_t));
        memcpy(source->items, params->items->data, count * sizeof(int32_t));
        count_pairs(source, params->users);
        count_pairs(source, users);
        for (uint32_t user = 0; user < source->num_users; user++) {
            source->first[user + 1] += source->first[user];
            next[user] = source->first[user];
        }
        place_pairs(source, params->users, params->items, next);
        place_pairs(source, users, items, next);
    }
    rf_free(next);
    return ok ? arrange_users(source) : RF_ERROR_OUT_OF_HOST_MEMORY;
}

rf_result rf_dataset_from_pairs(const rf_pairs_params *params, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_from_pairs: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_pairs_params, params));
    RF_REQUIRE(params && params->users && params->items, "rf_dataset_from_pairs: no users and items given");
    RF_REQUIRE(!params->other_users == !params->other_items,
               "rf_dataset_from_pairs: of other_users and other_items one is NULL");
    RF_REQUIRE(params->num_items >= 1 && params->num_items <= INT32_MAX,
               "rf_dataset_from_pairs: num_items is %u, not 1 to %d", params->num_items, INT32_MAX);
    RF_REQUIRE(params->negatives >= 1 && params->negatives <= MOST_NEGATIVES,
               "rf_dataset_from_pairs: negatives is %u, not 1 to %d", params->negatives, (int)MOST_NEGATIVES);
    const rf_element_spec spec = {
        3, { RF_I32, RF_I32, RF_F32 }, { RF_SCALAR_SHAPE, RF_SCALAR_SHAPE, RF_SHAPE(1) }, { 0 }
    };
    RF_TRY(rf_dataset_new(&rf_dataset_kind_negatives, &spec, out));
    rf_dataset *d = *out;
    pair_source *source = d->data = RF_NEW(pair_source);
    rf_result r = source ? copy_pairs(params, source) : RF_ERROR_OUT_OF_HOST_MEMORY;
    d->count = params->negatives;
    d->index = params->num_items;
    d->seed = params->seed;
    d->cardinality = params->users->shape.dim[0] * (1 + (int64_t)params->negatives);
    if (r < 0) rf_dataset_destroy(out);
    return r;
}
