/* SPDX-License-Identifier: Apache-2.0 */
/* Who writes what of a checkpoint: plans of saves as text, without devices. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/room.h"
#include "train/checkpoint/save_plan.h"

enum { ALL = -1, MOST_OWNERS = 4, MOST_ITEMS = 8 };

/* One item as a test states it; owners end with an empty one. */
typedef struct planned {
    const char *name;
    rf_save_reach reach;
    struct {
        int rank;
        uint64_t begin, end;
    } owners[MOST_OWNERS];
} planned;

static void plan_for(const planned *items, uint32_t count, bool sharded, uint32_t rank, uint32_t ranks,
                     rf_save_plan *plan)
{
    rf_save_input inputs[MOST_ITEMS] = { { 0 } };
    rf_owned owned[MOST_ITEMS][MOST_OWNERS];
    assert_true(count <= MOST_ITEMS);
    for (uint32_t i = 0; i < count; i++) {
        inputs[i].reach = items[i].reach;
        inputs[i].owners.items = owned[i];
        for (uint32_t k = 0; k < MOST_OWNERS && items[i].owners[k].end > 0; k++)
            owned[i][inputs[i].owners.count++] =
                (rf_owned){ items[i].owners[k].rank == ALL ? RF_RANK_ALL : (uint32_t)items[i].owners[k].rank,
                            { items[i].owners[k].begin, items[i].owners[k].end } };
    }
    assert_int_equal(rf_save_plan_make(inputs, count, sharded, rank, ranks, plan), RF_OK);
    assert_int_equal(plan->count, count);
}

/* A line for each worker: its file, what it takes and where in its staging memory that lies, and what is collected. */
static void expect_plans(const planned *items, uint32_t count, bool sharded, uint32_t ranks, const char *const *lines)
{
    static const char *const files[] = {
        [RF_SAVE_NO_FILE] = "none", [RF_SAVE_WHOLE] = "whole", [RF_SAVE_PART] = "part"
    };
    for (uint32_t rank = 0; rank < ranks; rank++) {
        rf_save_plan plan;
        char text[1000];
        plan_for(items, count, sharded, rank, ranks, &plan);
        int used = snprintf(text, sizeof(text), "%s:", files[plan.file]);
        for (uint32_t i = 0; i < count; i++) {
            const rf_save_entry *e = &plan.entries[i];
            if (e->collected)
                used += snprintf(text + used, sizeof(text) - (size_t)used, " %s collected", items[i].name);
            for (uint32_t k = 0; k < e->writers.count; k++)
                if (e->writers.items[k].rank == rank)
                    used +=
                        snprintf(text + used, sizeof(text) - (size_t)used, " %s %u..%u", items[i].name,
                                 (unsigned)e->writers.items[k].range.begin, (unsigned)e->writers.items[k].range.end);
            if (e->count > 0) used += snprintf(text + used, sizeof(text) - (size_t)used, " at %u", (unsigned)e->offset);
        }
        snprintf(text + used, sizeof(text) - (size_t)used, "; staging %u", (unsigned)plan.staging_size);
        assert_string_equal(text, lines[rank]);
        rf_save_plan_free(&plan);
        assert_null(plan.entries);
    }
}

/* Weights that all have and three workers update, their moments, small ones that all update, the mean of a batch
 * normalization, a slot without a value, and the state of a metric. */
static const planned job[] = {
    { "w", RF_SAVE_EVERYWHERE, { { 0, 0, 4000 }, { 1, 4000, 8000 }, { 2, 8000, 10000 } } },
    { "m", RF_SAVE_OWNERS, { { 0, 0, 4000 }, { 1, 4000, 8000 }, { 2, 8000, 10000 } } },
    { "b", RF_SAVE_OWNERS, { { ALL, 0, 10 } } },
    { "mean", RF_SAVE_EVERYWHERE, { { 0, 0, 10 } } },
    { "none", RF_SAVE_OWNERS, { { 0 } } },
    { "metric", RF_SAVE_TOGETHER, { { 0 } } },
};
enum { JOB = sizeof(job) / sizeof(job[0]) };

TEST(whole)
{
    static const char *const three[] = {
        ("whole: w 0..4000 w 4000..8000 w 8000..10000 at 0 m collected b 0..10 at 40000 mean 0..10 at 40064"
         " metric collected; staging 40128"),
        "none: m collected metric collected; staging 0",
        "none: m collected metric collected; staging 0",
    };
    (void)state;
    expect_plans(job, JOB, false, 3, three);
}

TEST(sharded)
{
    static const char *const three[] = {
        "part: w 0..4000 at 0 m 0..4000 at 16000 b 0..10 at 32000 mean 0..10 at 32064 metric collected; staging 32128",
        "part: w 4000..8000 at 0 m 4000..8000 at 16000 metric collected; staging 32000",
        "part: w 8000..10000 at 0 m 8000..10000 at 8000 metric collected; staging 16000",
    };
    (void)state;
    expect_plans(job, JOB, true, 3, three);
}

/* One worker has all of it, so nothing is collected that it can read. */
TEST(one_worker)
{
    static const planned items[] = {
        { "w", RF_SAVE_EVERYWHERE, { { ALL, 0, 100 } } },
        { "m", RF_SAVE_OWNERS, { { 0, 0, 60 }, { ALL, 60, 100 } } },
        { "seed", RF_SAVE_TOGETHER, { { 0 } } },
    };
    static const char *const one[] = { "whole: w 0..100 at 0 m 0..60 m 60..100 at 448 seed collected; staging 896" };
    (void)state;
    expect_plans(items, 3, false, 1, one);
    expect_plans(items, 3, true, 1, one);
}

/* A tensor that all have is cut at multiples of 4096 elements. */
TEST(equal_shares)
{
    static const planned items[] = {
        { "large", RF_SAVE_EVERYWHERE, { { ALL, 0, 20000 } } },
        { "half", RF_SAVE_OWNERS, { { 1, 0, 100 }, { ALL, 100, 9000 } } },
    };
    static const char *const two[] = {
        "part: large 0..12288 at 0 half 100..8292 at 49152; staging 81920",
        "part: large 12288..20000 at 0 half 0..100 half 8292..9000 at 30848; staging 34112",
    };
    (void)state;
    expect_plans(items, 2, true, 2, two);
}

static void draw_items(planned *items, int ranks)
{
    for (int i = 0; i < MOST_ITEMS; i++) {
        const int owners = rand() % (MOST_OWNERS + 1);
        uint64_t at = 0;
        items[i].reach = (rf_save_reach)(rand() % 3);
        for (int k = 0; k < owners; k++) {
            items[i].owners[k].rank = rand() % (ranks + 1) - 1;
            items[i].owners[k].begin = at;
            items[i].owners[k].end = at += 1 + (uint64_t)rand() % 20000;
        }
    }
}

/* Every element has one writer, and copies do not overlap. Returns elements that the workers write in total. */
static uint64_t check_plan(const planned *items, const rf_save_plan *plan)
{
    uint64_t total = 0, end = 0;
    for (uint32_t i = 0; i < plan->count; i++) {
        const rf_save_entry *e = &plan->entries[i];
        uint64_t at = 0, mine = 0, all = 0;
        for (int k = 0; k < MOST_OWNERS; k++) all = items[i].owners[k].end > all ? items[i].owners[k].end : all;
        for (uint32_t k = 0; k < e->writers.count; k++) {
            const rf_owned *owned = &e->writers.items[k];
            assert_true(owned->rank < (plan->sharded ? plan->world_size : 1));
            assert_true(owned->range.begin == at && owned->range.end > at);
            at = owned->range.end;
            if (owned->rank == plan->rank) mine += owned->range.end - owned->range.begin;
        }
        assert_int_equal(at, e->collected ? 0 : all);
        assert_int_equal(e->count, mine);
        assert_true(e->offset >= end && e->offset % 64 == 0);
        end = e->offset + mine * sizeof(float);
        total += at;
    }
    assert_true(plan->staging_size >= end);
    return total;
}

/* Whatever the owners are, the workers write everything between them. */
TEST(any_owners)
{
    srand(7);
    for (int round = 0; round < 500; round++) {
        planned items[MOST_ITEMS] = { { 0 } };
        const uint32_t ranks = 1 + (uint32_t)rand() % 5;
        const bool split = rand() % 2;
        uint64_t total = 0, written = 0;
        draw_items(items, (int)ranks);
        for (uint32_t rank = 0; rank < ranks; rank++) {
            rf_save_plan plan;
            plan_for(items, MOST_ITEMS, split, rank, ranks, &plan);
            total = check_plan(items, &plan);
            for (uint32_t i = 0; i < plan.count; i++) written += plan.entries[i].count;
            rf_save_plan_free(&plan);
        }
        assert_int_equal(written, total);
    }
}

TESTS(checkpoint_plan, NULL, NULL)
