/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of a dataset. A part counts elements, so over a shuffle that gives each pass another order it has other
 * elements in each: what is split off by take() and skip() for validation is trained on in later passes. Whoever makes
 * two such parts is warned; rf_dataset_split() reads what it splits in one order for ever.
 */
#include <math.h>

#include "base/params.h"
#include "base/platform.h"
#include "data/pipeline.h"

/* ---- the input's first pass, whichever is wanted ---- */

static rf_result open_first_pass(rf_stage *stage)
{
    RF_TRY(rf_stage_open(stage->dataset->input, 0, &stage->input));
    stage->indexed = stage->input->indexed;
    if (stage->indexed) stage->count = stage->input->count;
    return RF_OK;
}

static rf_result get_of_first_pass(rf_stage *stage, uint64_t index, const rf_element **out)
{
    return stage->input->dataset->kind->get(stage->input, index, out);
}

static rf_result next_of_first_pass(rf_stage *stage, const rf_element **out)
{
    return rf_stage_next(stage->input, out);
}

const rf_dataset_kind rf_dataset_kind_first_pass = {
    .name = "first_pass",
    .open = open_first_pass,
    .get = get_of_first_pass,
    .next = next_of_first_pass,
    .pass_over = rf_stage_pass_over_input,
    .opens_own_input = true,
};

/* ---- parts that leak ---- */

/* Another pass has the elements in another order. A cache keeps those of the first one. */
static bool is_reordered(const rf_dataset *d)
{
    if (!d || d->kind == &rf_dataset_kind_first_pass || d->kind->keeps_elements) return false;
    if (d->kind == &rf_dataset_kind_shuffle && d->flag) return true;
    bool reordered = is_reordered(d->input);
    for (uint32_t i = 0; i < d->num_others; i++) reordered = reordered || is_reordered(d->others[i]);
    return reordered;
}

/* The whole that the part is taken from: the nearest step below that is itself a part, or changes the order. */
static rf_dataset *find_whole(const rf_dataset *in)
{
    const rf_dataset *d = in;
    while (d->input && d->num_others == 0 && d->kind != &rf_dataset_kind_window &&
           !(d->kind == &rf_dataset_kind_shuffle && d->flag))
        d = d->input;
    return (rf_dataset *)(uintptr_t)d; /* only what its lock is for changes */
}

enum { PART_TAKE = 1, PART_SKIP = 2, PART_SHARD = 4, PART_OTHER_SHARD = 8, PART_TOLD = 16 };

/* Two parts of one whole that have no element in common, until the order changes. */
static void note_part(const rf_dataset *in, const char *function, uint32_t part, uint32_t shard)
{
    if (!in || part == 0 || !is_reordered(in)) return;
    rf_dataset *whole = find_whole(in);
    pthread_mutex_lock(&whole->lock);
    if (part == PART_SHARD && whole->parts & PART_SHARD && whole->first_shard != shard) part = PART_OTHER_SHARD;
    if (part == PART_SHARD) whole->first_shard = shard;
    whole->parts |= part;
    const uint32_t both = PART_TAKE | PART_SKIP;
    const bool split = (whole->parts & both) == both || whole->parts & PART_OTHER_SHARD;
    const bool tells = split && !(whole->parts & PART_TOLD);
    if (tells) whole->parts |= PART_TOLD;
    pthread_mutex_unlock(&whole->lock);
    if (tells)
        rf_log_message(RF_LOG_WARN,
                       "%s: another part of the same dataset was made before, and a shuffle below gives each pass "
                       "another order: what is in one part now is in the other one later, as of training and "
                       "validation; use rf_dataset_split(), or shuffle without reshuffle_each_iteration",
                       function);
}

rf_result rf_dataset_take(const rf_dataset *in, uint64_t count, rf_dataset **out)
{
    note_part(in, "rf_dataset_take", PART_TAKE, 0);
    return rf_dataset_window(in, 0, 1, count, out);
}

rf_result rf_dataset_skip(const rf_dataset *in, uint64_t count, rf_dataset **out)
{
    note_part(in, "rf_dataset_skip", count > 0 ? PART_SKIP : 0, 0);
    return rf_dataset_window(in, count, 1, UINT64_MAX, out);
}

rf_result rf_dataset_shard(const rf_dataset *in, uint32_t num_shards, uint32_t index, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_shard: out is NULL");
    *out = NULL;
    RF_REQUIRE(num_shards > 0 && index < num_shards, "rf_dataset_shard: index %u of %u shards", index, num_shards);
    note_part(in, "rf_dataset_shard", PART_SHARD, index);
    return rf_dataset_window(in, index, num_shards, UINT64_MAX, out);
}

/* ---- parts that do not ---- */

static rf_result count_first(const rf_dataset *in, const rf_split_params *p, uint64_t *count)
{
    const int64_t all = in->cardinality;
    RF_REQUIRE(all != RF_CARDINALITY_INFINITE, "rf_dataset_split: the dataset is infinite; split what is repeated");
    RF_REQUIRE((p->count > 0) != (p->fraction != 0.0), "rf_dataset_split: set either count or fraction");
    RF_REFUSE_ZERO(p->fraction, "rf_dataset_split: fraction", "the first part would be empty");
    RF_REQUIRE(p->fraction >= 0.0 && p->fraction < 1.0, "rf_dataset_split: fraction %g is not in (0, 1)", p->fraction);
    RF_REQUIRE(all >= 0 || (p->count > 0 && !p->shuffle),
               "rf_dataset_split: the number of elements is unknown, which fraction and shuffle need; set count alone");
    *count = p->count > 0 ? p->count : (uint64_t)llround(p->fraction * (double)all);
    RF_REQUIRE(all < 0 || (*count > 0 && *count < (uint64_t)all),
               "rf_dataset_split: a first part of %llu of %lld elements leaves one of the parts empty",
               (unsigned long long)*count, (long long)all);
    return RF_OK;
}

rf_result rf_dataset_split(const rf_dataset *in, const rf_split_params *params, rf_dataset **first, rf_dataset **second)
{
    RF_REQUIRE(first && second, "rf_dataset_split: %s is NULL", first ? "second" : "first");
    *first = *second = NULL;
    RF_REQUIRE(in && params, "rf_dataset_split: %s is NULL", in ? "params" : "in");
    RF_TRY(RF_PARAMS_CHECK(rf_split_params, params));
    uint64_t count = 0;
    RF_TRY(count_first(in, params, &count));
    rf_dataset *fixed, *drawn = NULL;
    RF_TRY(rf_dataset_derive(in, &rf_dataset_kind_first_pass, &fixed));
    rf_result r = RF_OK;
    if (params->shuffle)
        r = rf_dataset_shuffle(fixed, (uint64_t)in->cardinality, params->seed, RF_SHUFFLE_ONCE, &drawn);
    if (r >= 0) r = rf_dataset_window(drawn ? drawn : fixed, 0, 1, count, first);
    if (r >= 0) r = rf_dataset_window(drawn ? drawn : fixed, count, 1, UINT64_MAX, second);
    if (r < 0) rf_dataset_destroy(first);
    rf_dataset_destroy(&drawn);
    rf_dataset_destroy(&fixed);
    return r;
}
