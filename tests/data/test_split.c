/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a dataset for training and validation: those that mix in later passes are warned of, those of
 * rf_dataset_split() never do. */
#include "combined.h"
#include "tests/room.h"

enum { COUNT = 10, FIRST = 3, PASSES = 4 };

static int warnings;

static void count_warning(void *user, rf_log_level level, const char *message)
{
    (void)user;
    warnings += level == RF_LOG_WARN && strstr(message, "rf_dataset_split()");
}

static rf_result as_it_is(void *user, const rf_element *in, rf_element *out)
{
    (void)user;
    memcpy(out->component[0].data, in->component[0].data, sizeof(int32_t));
    return RF_OK;
}

/* ---- a warning ---- */

/* How both parts are made; `order`: what is between the shuffle and them. */
typedef enum order { PLAIN, FIXED, BATCHED, MAPPED, REPEATED, CACHED, SPLIT, NUM_ORDERS } order;

static rf_dataset *make_shuffled(order o)
{
    const rf_element_spec spec = { .num_components = 1, .dtype = { RF_I32 } };
    rf_dataset *d = count_from(0, COUNT), *rest;
    APPLY(d, rf_dataset_shuffle(d, COUNT, 5, (o != FIXED) ? RF_SHUFFLE_EACH_PASS : RF_SHUFFLE_ONCE, &applied_));
    if (o == BATCHED) APPLY(d, rf_dataset_batch(d, 2, RF_REMAINDER_KEEP, &applied_));
    if (o == MAPPED) APPLY(d, rf_dataset_map(d, as_it_is, NULL, &spec, &applied_));
    if (o == REPEATED) APPLY(d, rf_dataset_repeat(d, 2, &applied_));
    if (o == CACHED) APPLY(d, rf_dataset_cache(d, &applied_));
    if (o == SPLIT) {
        APPLY(d, rf_dataset_split(d, &(rf_split_params){ .count = COUNT - 1 }, &applied_, &rest));
        rf_dataset_destroy(&rest);
    }
    return d;
}

static int parts_of(order o, bool second_is_first, bool shards)
{
    rf_dataset *d = make_shuffled(o), *parts[3], *behind;
    rf_log_set(count_warning, NULL, RF_LOG_WARN);
    warnings = 0;
    OK(shards ? rf_dataset_shard(d, 2, 0, &parts[0]) : rf_dataset_take(d, FIRST, &parts[0]));
    assert_int_equal(warnings, 0);             /* one part is fewer elements, and nothing else */
    OK(rf_dataset_skip(parts[0], 1, &behind)); /* of the part, not beside it */
    assert_int_equal(warnings, 0);
    if (second_is_first)
        OK(shards ? rf_dataset_shard(d, 2, 0, &parts[1]) : rf_dataset_take(d, FIRST + 1, &parts[1]));
    else
        OK(shards ? rf_dataset_shard(d, 2, 1, &parts[1]) : rf_dataset_skip(d, FIRST, &parts[1]));
    const int found = warnings;
    OK(rf_dataset_skip(d, FIRST, &parts[2])); /* it was said */
    if (found) assert_int_equal(warnings, found);
    for (int i = 0; i < 3; i++) rf_dataset_destroy(&parts[i]);
    rf_dataset_destroy(&behind);
    rf_dataset_destroy(&d);
    rf_log_set(NULL, NULL, RF_LOG_WARN);
    return found;
}

TEST(mixing_parts_are_warned_of)
{
    for (order o = 0; o < NUM_ORDERS; o++) {
        const bool mixes = o != FIXED && o != CACHED && o != SPLIT;
        for (int shards = 0; shards < 2; shards++) {
            assert_int_equal(parts_of(o, false, shards), mixes);
            assert_int_equal(parts_of(o, true, shards), 0);
        }
    }
    /* A shuffle after the parts is what there should be. */
    rf_log_set(count_warning, NULL, RF_LOG_WARN);
    rf_dataset *d = count_from(0, COUNT), *a, *b;
    warnings = 0;
    OK(rf_dataset_take(d, FIRST, &a));
    OK(rf_dataset_skip(d, FIRST, &b));
    APPLY(b, rf_dataset_shuffle(b, COUNT, 5, RF_SHUFFLE_EACH_PASS, &applied_));
    assert_int_equal(warnings, 0);
    rf_dataset_destroy(&a);
    rf_dataset_destroy(&b);
    rf_dataset_destroy(&d);
    rf_log_set(NULL, NULL, RF_LOG_WARN);
}

/* ---- a split ---- */

/* The elements in a part, a bit each; `n`: how many. */
static uint32_t elements_of(const rf_dataset *d, uint64_t pass, int *n)
{
    int32_t numbers[MOST_NUMBERS];
    uint32_t found = 0;
    *n = read_pass(d, pass, numbers) / 2;
    for (int i = 0; i < *n; i++) {
        assert_false(found >> numbers[2 * i + 1] & 1);
        found |= 1u << numbers[2 * i + 1];
    }
    return found;
}

static rf_dataset *make_whole(bool in_order, bool reshuffles)
{
    rf_dataset *d = in_order ? count_in_order(0, COUNT) : count_from(0, COUNT);
    if (reshuffles) APPLY(d, rf_dataset_shuffle(d, in_order ? 4 : COUNT, 5, RF_SHUFFLE_EACH_PASS, &applied_));
    return d;
}

TEST(splits_never_mix)
{
    for (int way = 0; way < 8; way++) {
        rf_dataset *whole = make_whole(way & 1, way & 2), *a, *b;
        const rf_split_params params = { .count = FIRST, .shuffle = way & 4 && !(way & 1), .seed = 9 };
        OK(rf_dataset_split(whole, &params, &a, &b));
        if (!(way & 1)) {
            assert_int_equal(rf_dataset_cardinality(a), FIRST);
            assert_int_equal(rf_dataset_cardinality(b), COUNT - FIRST);
        }
        APPLY(b, rf_dataset_shuffle(b, COUNT, 1, RF_SHUFFLE_EACH_PASS, &applied_));
        int n;
        const uint32_t first = elements_of(a, 0, &n);
        assert_int_equal(n, FIRST);
        if (!(way & 2) && !params.shuffle) assert_int_equal(first, 7); /* as they come */
        for (uint64_t pass = 0; pass < PASSES; pass++) {
            assert_int_equal(elements_of(a, pass, &n), first);
            assert_int_equal(elements_of(b, pass, &n), ((1u << COUNT) - 1) & ~first);
            assert_int_equal(n, COUNT - FIRST);
        }
        rf_dataset_destroy(&whole);
        rf_dataset_destroy(&a);
        rf_dataset_destroy(&b);
    }
}

TEST(splits_by_fraction)
{
    rf_dataset *d = count_from(0, COUNT), *a, *b;
    OK(rf_dataset_split(d, &(rf_split_params){ .fraction = 0.8, .shuffle = true, .seed = 3 }, &a, &b));
    assert_int_equal(rf_dataset_cardinality(a), 8);
    assert_int_equal(rf_dataset_cardinality(b), 2);
    rf_dataset_destroy(&a);
    rf_dataset_destroy(&b);
    rf_dataset_destroy(&d);
}

/* A part goes on from wherever it was saved. */
TEST(splits_are_resumed)
{
    for (int in_order = 0; in_order < 2; in_order++) {
        rf_dataset *parts[2], *first;
        for (int i = 0; i < 2; i++) {
            rf_dataset *whole = make_whole(in_order, true);
            OK(rf_dataset_split(whole, &(rf_split_params){ .count = FIRST }, &first, &parts[i]));
            rf_dataset_destroy(&first);
            rf_dataset_destroy(&whole);
        }
        expect_resumes_everywhere(parts[0], parts[1]);
    }
}

TEST(refused_splits)
{
    rf_dataset *d = count_from(0, COUNT), *unknown = count_in_order(0, COUNT), *endless, *a, *b;
    OK(rf_dataset_repeat(d, 0, &endless));
    static const struct {
        rf_split_params params;
        const char *part;
    } bad[] = { { { .seed = 1 }, "either count or fraction" },
                { { .count = 1, .fraction = 0.5 }, "either count or fraction" },
                { { .fraction = 1.5 }, "not in (0, 1)" },
                { { .fraction = -0.5 }, "not in (0, 1)" },
                { { .fraction = 0.01 }, "a first part of 0 of 10 elements" },
                { { .count = COUNT }, "a first part of 10 of 10 elements" } };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        FAILS(rf_dataset_split(d, &bad[i].params, &a, &b), RF_ERROR_INVALID_ARGUMENT, bad[i].part);
    FAILS(rf_dataset_split(endless, &(rf_split_params){ .count = 1 }, &a, &b), RF_ERROR_INVALID_ARGUMENT, "infinite");
    FAILS(rf_dataset_split(unknown, &(rf_split_params){ .fraction = 0.5 }, &a, &b), RF_ERROR_INVALID_ARGUMENT,
          "is unknown");
    FAILS(rf_dataset_split(unknown, &(rf_split_params){ .count = 1, .shuffle = true }, &a, &b),
          RF_ERROR_INVALID_ARGUMENT, "is unknown");
    FAILS(rf_dataset_split(NULL, &bad[0].params, &a, &b), RF_ERROR_INVALID_ARGUMENT, "in is NULL");
    FAILS(rf_dataset_split(d, NULL, &a, &b), RF_ERROR_INVALID_ARGUMENT, "params is NULL");
    FAILS(rf_dataset_split(d, &bad[0].params, &a, NULL), RF_ERROR_INVALID_ARGUMENT, "second is NULL");
    rf_dataset_destroy(&d);
    rf_dataset_destroy(&unknown);
    rf_dataset_destroy(&endless);
}

TESTS(split, NULL, NULL)
