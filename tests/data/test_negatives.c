/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of users and items with others beside them: which are drawn, how evenly, anew in each pass, and the same
 * however the pass is cut. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include <ringfire/dataset.h>

#include "../support/expect.h"
#include "tests/room.h"

enum { USERS = 9, ITEMS = 13, PAIRS = 30, OTHERS = 9, K = 3, ROWS = PAIRS * (1 + K) };

typedef struct pairs {
    int32_t users[PAIRS], items[PAIRS], other_users[OTHERS], other_items[OTHERS];
    rf_array arrays[4];
    rf_pairs_params params;
    bool has[USERS][ITEMS];
} pairs;

/* User 4 has all items but 0, user 7 none, and some pairs come twice. */
static void make_pairs(pairs *p)
{
    for (int i = 0; i < PAIRS; i++) {
        p->users[i] = i < 11 ? 4 : i * 5 % USERS == 7 ? 0 : i * 5 % USERS;
        p->items[i] = p->users[i] == 4 ? 12 - i % 11 : i * i % ITEMS;
    }
    for (int i = 0; i < OTHERS; i++) {
        p->other_users[i] = i == 7 ? 4 : i;
        p->other_items[i] = p->other_users[i] == 4 ? 1 : i;
    }
    p->arrays[0] = (rf_array){ RF_I32, RF_SHAPE(PAIRS), p->users };
    p->arrays[1] = (rf_array){ RF_I32, RF_SHAPE(PAIRS), p->items };
    p->arrays[2] = (rf_array){ RF_I32, RF_SHAPE(OTHERS), p->other_users };
    p->arrays[3] = (rf_array){ RF_I32, RF_SHAPE(OTHERS), p->other_items };
    p->params = (rf_pairs_params){ .users = &p->arrays[0],
                                   .items = &p->arrays[1],
                                   .other_users = &p->arrays[2],
                                   .other_items = &p->arrays[3],
                                   .num_items = ITEMS,
                                   .negatives = K,
                                   .seed = 6 };
    for (int u = 0; u < USERS; u++)
        for (int i = 0; i < ITEMS; i++) p->has[u][i] = false;
    for (int i = 0; i < PAIRS; i++) p->has[p->users[i]][p->items[i]] = true;
    for (int i = 0; i < OTHERS; i++) p->has[p->other_users[i]][p->other_items[i]] = true;
}

typedef struct row {
    int32_t user, item;
    float label;
} row;

static uint32_t read_rows(rf_iterator *it, row *rows, uint32_t most)
{
    const rf_element *e;
    uint32_t count = 0;
    while (count < most && rf_iterator_next(it, &e) == RF_OK)
        rows[count++] =
            (row){ *(int32_t *)e->component[0].data, *(int32_t *)e->component[1].data, *(float *)e->component[2].data };
    return count;
}

static void read_pass(const rf_dataset *data, uint64_t epoch, row rows[ROWS])
{
    rf_iterator *it;
    const rf_element *e;
    OK(rf_iterator_create(data, epoch, &it));
    assert_int_equal(read_rows(it, rows, ROWS), ROWS);
    assert_int_equal(rf_iterator_next(it, &e), RF_END);
    rf_iterator_destroy(&it);
}

TEST(test_rows)
{
    pairs p;
    rf_dataset *data, *other_seed;
    row rows[3][ROWS];
    make_pairs(&p);
    OK(rf_dataset_from_pairs(&p.params, &data));
    p.params.seed = 7;
    OK(rf_dataset_from_pairs(&p.params, &other_seed));
    for (int i = 0; i < PAIRS; i++) p.users[i] = -1; /* they have been copied */
    assert_int_equal(rf_dataset_cardinality(data), ROWS);
    for (uint64_t pass = 0; pass < 2; pass++) read_pass(data, pass, rows[pass]);
    read_pass(other_seed, 0, rows[2]);
    uint32_t moved[2] = { 0 };
    for (int i = 0; i < ROWS; i++) {
        const row *r = &rows[0][i];
        const bool own = i % (1 + K) == 0;
        if (own) assert_int_equal(r->item, p.items[i / (1 + K)]);
        assert_int_equal(r->user, rows[0][i - i % (1 + K)].user);
        assert_true(r->label == (own ? 1.0f : 0.0f) && r->item >= 0 && r->item < ITEMS);
        for (int k = 0; k < 3; k++) {
            assert_true(rows[k][i].user == r->user && p.has[r->user][rows[k][i].item] == own);
            if (k > 0) moved[k - 1] += rows[k][i].item != r->item;
        }
        if (r->user == 4 && !own) assert_int_equal(r->item, 0); /* the only one left */
    }
    assert_true(moved[0] > ROWS / 4 && moved[1] > ROWS / 4);
    rf_dataset_destroy(&other_seed);
    rf_dataset_destroy(&data);
}

/* Every item that a user lacks comes as often, within five deviations. */
TEST(test_evenness)
{
    enum { PASSES = 4000 };
    int32_t users[] = { 0, 0, 0 }, items[] = { 2, 0, 5 };
    uint32_t counts[7] = { 0 };
    const rf_array arrays[] = { { RF_I32, RF_SHAPE(3), users }, { RF_I32, RF_SHAPE(3), items } };
    const rf_pairs_params params = {
        .users = &arrays[0], .items = &arrays[1], .num_items = 7, .negatives = 2, .seed = 1
    };
    rf_dataset *data;
    OK(rf_dataset_from_pairs(&params, &data));
    for (uint64_t pass = 0; pass < PASSES; pass++) {
        rf_iterator *it;
        row rows[9];
        OK(rf_iterator_create(data, pass, &it));
        assert_int_equal(read_rows(it, rows, 9), 9);
        for (int i = 0; i < 9; i++) counts[rows[i].item] += rows[i].label < 0.5f;
        rf_iterator_destroy(&it);
    }
    const double each = 6.0 * PASSES / 4;
    for (int i = 0; i < 7; i++) {
        const bool own = i == 0 || i == 2 || i == 5;
        if (own) assert_int_equal(counts[i], 0);
        if (!own) assert_true(fabs(counts[i] - each) < 5 * sqrt(each * 0.75));
    }
    rf_dataset_destroy(&data);
}

/* Shards, and a pass that is interrupted, have the rows of the whole. */
TEST(test_splits)
{
    pairs p;
    rf_dataset *data, *shuffled, *shard, *other;
    rf_iterator *it, *again;
    row whole[ROWS], part[ROWS];
    void *position;
    size_t size;
    make_pairs(&p);
    OK(rf_dataset_from_pairs(&p.params, &data));
    OK(rf_dataset_shuffle(data, ROWS, 3, RF_SHUFFLE_EACH_PASS, &shuffled));
    read_pass(shuffled, 2, whole);
    for (uint32_t k = 0; k < 3; k++) {
        OK(rf_dataset_shard(shuffled, 3, k, &shard));
        OK(rf_iterator_create(shard, 2, &it));
        assert_int_equal(read_rows(it, part, ROWS), ROWS / 3);
        for (uint32_t i = 0; i < ROWS / 3; i++) assert_memory_equal(&part[i], &whole[3 * i + k], sizeof(row));
        rf_iterator_destroy(&it);
        rf_dataset_destroy(&shard);
    }
    OK(rf_iterator_create(data, 2, &it));
    read_pass(data, 2, whole);
    assert_int_equal(read_rows(it, part, 17), 17);
    OK(rf_iterator_save(it, &position, &size));
    OK(rf_iterator_restore(data, position, size, &again));
    assert_int_equal(read_rows(again, part + 17, ROWS), ROWS - 17);
    assert_memory_equal(part, whole, sizeof(whole));
    rf_iterator_destroy(&again);
    p.params.negatives = K + 1;
    OK(rf_dataset_from_pairs(&p.params, &other));
    FAILS(rf_iterator_restore(other, position, size, &again), RF_ERROR_INVALID_ARGUMENT, "");
    rf_iterator_state_free(position);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&other);
    rf_dataset_destroy(&shuffled);
    rf_dataset_destroy(&data);
}

TEST(test_refusals)
{
    pairs p;
    rf_dataset *data;
    make_pairs(&p);
    rf_pairs_params bad = p.params;
    bad.negatives = 0;
    FAILS(rf_dataset_from_pairs(&bad, &data), RF_ERROR_INVALID_ARGUMENT, "negatives is 0");
    bad = p.params;
    bad.num_items = 12;
    FAILS(rf_dataset_from_pairs(&bad, &data), RF_ERROR_INVALID_ARGUMENT,
          "number 0 of the pairs is user 4 with item 12 of 12");
    bad = p.params;
    bad.other_items = NULL;
    FAILS(rf_dataset_from_pairs(&bad, &data), RF_ERROR_INVALID_ARGUMENT, "one is NULL");
    bad = p.params;
    bad.items = &p.arrays[3];
    FAILS(rf_dataset_from_pairs(&bad, &data), RF_ERROR_INVALID_ARGUMENT, "of one length");
    bad = p.params;
    bad.num_items = 0;
    FAILS(rf_dataset_from_pairs(&bad, &data), RF_ERROR_INVALID_ARGUMENT, "num_items is 0");
    p.other_users[0] = 4;
    FAILS(rf_dataset_from_pairs(&p.params, &data), RF_ERROR_INVALID_ARGUMENT, "user 4 has all of the 13 items");
    p.arrays[0].shape = p.arrays[1].shape = RF_SHAPE(0);
    FAILS(rf_dataset_from_pairs(&p.params, &data), RF_ERROR_INVALID_ARGUMENT, "there are no pairs");
    FAILS(rf_dataset_from_pairs(NULL, &data), RF_ERROR_INVALID_ARGUMENT, "no users and items");
}

TESTS(negatives, NULL, NULL)
