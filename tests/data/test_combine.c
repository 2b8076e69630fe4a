/* SPDX-License-Identifier: Apache-2.0 */
/* zip, concatenate, unbatch: contents, number of elements, positions, and the steps around them. */
#include "base/error.h"
#include "base/memory.h"
#include "combined.h"
#include "data/slice.h"
#include "tests/room.h"

static rf_dataset *zipped(bool a_in_order, int32_t a, bool b_in_order, int32_t b)
{
    rf_dataset *both[] = { source(a_in_order, 0, a), source(b_in_order, 100, b) }, *out;
    OK(rf_dataset_zip((const rf_dataset *const *)both, 2, &out));
    rf_dataset_destroy(&both[0]);
    rf_dataset_destroy(&both[1]);
    return out;
}

static rf_dataset *concatenated(bool a_in_order, int32_t a, bool b_in_order, int32_t b)
{
    rf_dataset *one = source(a_in_order, 0, a), *two = source(b_in_order, 100, b), *out;
    OK(rf_dataset_concatenate(one, two, &out));
    rf_dataset_destroy(&one);
    rf_dataset_destroy(&two);
    return out;
}

TEST(test_zip_ends_with_the_shortest)
{
    int32_t n[MOST_NUMBERS];
    static const int sizes[][2] = { { 7, 4 }, { 4, 7 }, { 5, 5 }, { 0, 3 } };
    for (int order = 0; order < 4; order++)
        for (int s = 0; s < 4; s++) {
            const int least = sizes[s][0] < sizes[s][1] ? sizes[s][0] : sizes[s][1];
            rf_dataset *d = zipped(order & 1, sizes[s][0], order & 2, sizes[s][1]);
            assert_int_equal(rf_dataset_cardinality(d), order ? RF_CARDINALITY_UNKNOWN : least);
            assert_int_equal(read_pass(d, 0, n), 4 * least);
            for (int i = 0; i < least; i++) {
                assert_int_equal(n[4 * i + 1], i);
                assert_int_equal(n[4 * i + 3], 100 + i);
            }
            rf_dataset_destroy(&d);
        }
}

TEST(test_zip_cardinality)
{
    rf_dataset *five = count_from(0, 5), *unknown = count_in_order(0, 5), *endless, *out;
    OK(rf_dataset_repeat(five, 0, &endless));
    OK(rf_dataset_zip((const rf_dataset *[]){ endless, five }, 2, &out));
    assert_int_equal(rf_dataset_cardinality(out), 5);
    rf_dataset_destroy(&out);
    OK(rf_dataset_zip((const rf_dataset *[]){ endless, endless }, 2, &out));
    assert_int_equal(rf_dataset_cardinality(out), RF_CARDINALITY_INFINITE);
    rf_dataset_destroy(&out);
    OK(rf_dataset_zip((const rf_dataset *[]){ endless, unknown }, 2, &out));
    assert_int_equal(rf_dataset_cardinality(out), RF_CARDINALITY_UNKNOWN);
    rf_dataset_destroy(&out);
    OK(rf_dataset_concatenate(unknown, endless, &out));
    assert_int_equal(rf_dataset_cardinality(out), RF_CARDINALITY_INFINITE);
    rf_dataset_destroy(&out);
    OK(rf_dataset_concatenate(five, unknown, &out));
    assert_int_equal(rf_dataset_cardinality(out), RF_CARDINALITY_UNKNOWN);
    rf_dataset_destroy(&out);
    rf_dataset_destroy(&five);
    rf_dataset_destroy(&unknown);
    rf_dataset_destroy(&endless);
}

/* The same dataset twice has two places, and all components keep their order. */
TEST(test_zip_of_itself_and_of_zips)
{
    rf_dataset *d = count_in_order(0, 3), *twice, *thrice;
    int32_t n[MOST_NUMBERS];
    OK(rf_dataset_zip((const rf_dataset *[]){ d, d }, 2, &twice));
    OK(rf_dataset_zip((const rf_dataset *[]){ twice, d }, 2, &thrice));
    assert_int_equal(read_pass(thrice, 0, n), 18);
    for (int i = 0; i < 3; i++)
        for (int c = 0; c < 3; c++) assert_int_equal(n[6 * i + 2 * c + 1], i);
    rf_element_spec spec;
    rf_dataset_spec(thrice, &spec);
    assert_int_equal(spec.num_components, 3);
    rf_dataset *out;
    FAILS(rf_dataset_zip((const rf_dataset *[]){ thrice, thrice, thrice }, 3, &out), RF_ERROR_INVALID_ARGUMENT,
          "more than 8 components");
    assert_null(out);
    FAILS(rf_dataset_zip((const rf_dataset *[]){ d, NULL }, 2, &out), RF_ERROR_INVALID_ARGUMENT, "dataset 1 is NULL");
    FAILS(rf_dataset_zip(NULL, 0, &out), RF_ERROR_INVALID_ARGUMENT, "no datasets given");
    rf_dataset_destroy(&d);
    rf_dataset_destroy(&twice);
    rf_dataset_destroy(&thrice);
}

TEST(test_concatenate)
{
    int32_t n[MOST_NUMBERS];
    for (int order = 0; order < 4; order++) {
        rf_dataset *d = concatenated(order & 1, 6, order & 2, 5), *empty = source(order & 1, 0, 0);
        assert_int_equal(rf_dataset_cardinality(d), order ? RF_CARDINALITY_UNKNOWN : 11);
        APPLY(d, rf_dataset_concatenate(empty, d, &applied_));
        APPLY(d, rf_dataset_concatenate(d, empty, &applied_));
        assert_int_equal(read_pass(d, 0, n), 22);
        for (int i = 0; i < 11; i++) assert_int_equal(n[2 * i + 1], i < 6 ? i : 94 + i);
        rf_dataset_destroy(&d);
        rf_dataset_destroy(&empty);
    }
    rf_dataset *one = count_from(0, 6), *pairs, *out;
    OK(rf_dataset_batch(one, 2, RF_REMAINDER_KEEP, &pairs));
    FAILS(rf_dataset_concatenate(one, pairs, &out), RF_ERROR_INVALID_ARGUMENT,
          "component 0 is i32 [] in one dataset and i32 [2] in the other");
    rf_dataset *two = zipped(false, 3, false, 3);
    FAILS(rf_dataset_concatenate(one, two, &out), RF_ERROR_INVALID_ARGUMENT,
          "elements of 1 components in one dataset and of 2 in the other");
    rf_dataset_destroy(&one);
    rf_dataset_destroy(&pairs);
    rf_dataset_destroy(&two);
}

/* A full shuffle over a concatenation mixes both parts, as it is fetched by number. */
TEST(test_concatenation_is_shuffled_as_one)
{
    int32_t n[MOST_NUMBERS];
    rf_dataset *d = concatenated(false, 50, false, 50);
    APPLY(d, rf_dataset_shuffle(d, 100, 3, RF_SHUFFLE_EACH_PASS, &applied_));
    assert_int_equal(read_pass(d, 0, n), 200);
    int early = 0, sum = 0;
    for (int i = 0; i < 100; i++) {
        early += i < 50 && n[2 * i + 1] >= 100;
        sum += n[2 * i + 1];
    }
    assert_in_range(early, 10, 40);
    assert_int_equal(sum, 49 * 25 + 50 * 100 + 49 * 25);
    rf_dataset_destroy(&d);
}

TEST(test_unbatch_is_the_inverse_of_batch)
{
    int32_t want[MOST_NUMBERS], n[MOST_NUMBERS];
    for (int order = 0; order < 2; order++)
        for (uint32_t size = 1; size < 12; size += 3) {
            rf_dataset *d = zipped(order, 10, false, 10);
            const int count = read_pass(d, 0, want);
            APPLY(d, rf_dataset_batch(d, size, RF_REMAINDER_KEEP, &applied_));
            APPLY(d, rf_dataset_unbatch(d, &applied_));
            assert_int_equal(rf_dataset_cardinality(d), RF_CARDINALITY_UNKNOWN);
            assert_int_equal(rf_dataset_batch_size(d), 0);
            assert_int_equal(read_pass(d, 0, n), count);
            assert_memory_equal(n, want, sizeof(int32_t) * (size_t)count);
            APPLY(d, rf_dataset_batch(d, 4, RF_REMAINDER_DROP,
                                      &applied_)); /* in other groups: two of four, two are dropped */
            assert_int_equal(read_pass(d, 0, n), 20);
            assert_int_equal(n[0], 4);
            assert_int_equal(n[19], 107); /* the last of the second component */
            rf_dataset_destroy(&d);
        }
}

TEST(test_unbatch_of_batches_of_batches)
{
    int32_t n[MOST_NUMBERS];
    rf_dataset *d = count_from(0, 9), *out;
    FAILS(rf_dataset_unbatch(d, &out), RF_ERROR_INVALID_ARGUMENT, "component 0 has no rows");
    APPLY(d, rf_dataset_batch(d, 3, RF_REMAINDER_DROP, &applied_));
    APPLY(d, rf_dataset_batch(d, 2, RF_REMAINDER_KEEP, &applied_));
    APPLY(d, rf_dataset_unbatch(d, &applied_));
    assert_int_equal(rf_dataset_batch_size(d), 3);
    assert_int_equal(read_pass(d, 0, n), 12);
    assert_int_equal(n[8], 3);
    assert_int_equal(n[11], 8);
    APPLY(d, rf_dataset_unbatch(d, &applied_));
    assert_int_equal(rf_dataset_batch_size(d), 0);
    assert_int_equal(read_pass(d, 0, n), 18);
    APPLY(d, rf_dataset_repeat(d, 0, &applied_));
    APPLY(d, rf_dataset_batch(d, 3, RF_REMAINDER_KEEP, &applied_));
    APPLY(d, rf_dataset_unbatch(d, &applied_));
    APPLY(d, rf_dataset_take(d, 20, &applied_));
    assert_int_equal(read_pass(d, 0, n), 40);
    assert_int_equal(n[39], 1);
    rf_dataset_destroy(&d);
}

/* An element that the other input gave already is not lost when one fails. */
TEST(test_failures_lose_no_element)
{
    for (int order = 0; order < 2; order++)
        for (int step = 0; step < 3; step++) {
            stumble s = { .at = 102 };
            rf_dataset *a = source(true, 0, 5), *b = source(order, 100, 5), *d;
            rf_element_spec spec;
            rf_dataset_spec(b, &spec);
            APPLY(b, rf_dataset_map(b, fail_once, &s, &spec, &applied_));
            if (step == 0) OK(rf_dataset_zip((const rf_dataset *[]){ a, b }, 2, &d));
            if (step == 1) OK(rf_dataset_concatenate(a, b, &d));
            if (step == 2) {
                OK(rf_dataset_batch(b, 2, RF_REMAINDER_KEEP, &d));
                APPLY(d, rf_dataset_unbatch(d, &applied_));
            }
            int32_t n[MOST_NUMBERS];
            rf_iterator *it;
            const rf_element *e;
            const int before = step == 1 ? 7 : 2, after = 3;
            OK(rf_iterator_create(d, 0, &it));
            read_numbers(it, before, n);
            FAILS(rf_iterator_next(it, &e), RF_ERROR_IO, "disk on fire");
            const int width = step == 0 ? 4 : 2;
            assert_int_equal(read_numbers(it, 100, n), width * after);
            for (int i = 0; i < after; i++) assert_int_equal(n[width * i + width - 1], 102 + i);
            if (step == 0)
                for (int i = 0; i < after; i++) assert_int_equal(n[width * i + 1], 2 + i);
            rf_iterator_destroy(&it);
            rf_dataset_destroy(&a);
            rf_dataset_destroy(&b);
            rf_dataset_destroy(&d);
        }
}

/* The steps over sources of either kind, with what stands above and below in practice. */
enum { PIPELINES = 12 };
static rf_dataset *pipeline(int which)
{
    const bool in_order = which % 2;
    rf_dataset *d = which / 2 % 3 == 1 ? concatenated(in_order, 11, false, 8) : zipped(false, 19, in_order, 23);
    APPLY(d, rf_dataset_shuffle(d, which < 6 ? 100 : 4, 5, RF_SHUFFLE_EACH_PASS, &applied_));
    if (which / 2 % 3 == 2) {
        APPLY(d, rf_dataset_batch(d, 3, RF_REMAINDER_KEEP, &applied_));
        APPLY(d, rf_dataset_unbatch(d, &applied_));
    }
    if (which >= 6) {
        APPLY(d, rf_dataset_repeat(d, 2, &applied_));
        APPLY(d, rf_dataset_batch(d, 4, RF_REMAINDER_KEEP, &applied_));
        APPLY(d, rf_dataset_prefetch(d, 2, &applied_));
    }
    return d;
}

TEST(test_positions)
{
    for (int which = 0; which < PIPELINES; which++) expect_resumes_everywhere(pipeline(which), pipeline(which));
    /* An input with a shuffle of its own, of which every epoch has another order. */
    for (int step = 0; step < 2; step++) {
        rf_dataset *d[2];
        for (int i = 0; i < 2; i++) {
            rf_dataset *a = count_from(0, 9), *b = count_from(100, 9);
            APPLY(b, rf_dataset_shuffle(b, 9, 1, RF_SHUFFLE_EACH_PASS, &applied_));
            if (step == 0)
                OK(rf_dataset_zip((const rf_dataset *[]){ a, b }, 2, &d[i]));
            else
                OK(rf_dataset_concatenate(a, b, &d[i]));
            rf_dataset_destroy(&a);
            rf_dataset_destroy(&b);
        }
        int32_t one[MOST_NUMBERS], two[MOST_NUMBERS];
        const int n = read_pass(d[0], 0, one);
        assert_int_equal(read_pass(d[0], 1, two), n);
        assert_memory_not_equal(one, two, sizeof(int32_t) * (size_t)n);
        expect_resumes_everywhere(d[0], d[1]);
    }
}

static rf_dataset *batches_of(int which, uint32_t size)
{
    rf_dataset *d = pipeline(which);
    APPLY(d, rf_dataset_batch(d, size, RF_REMAINDER_KEEP, &applied_));
    return d;
}

/* A pass that goes on with batches of another size: each example comes once. */
TEST(test_positions_with_other_batches)
{
    for (int which = 0; which < 6; which++)
        for (int stop = 0; stop < 6; stop++) {
            rf_dataset *fours = batches_of(which, 4), *threes = batches_of(which, 3), *examples = pipeline(which);
            int32_t all[MOST_NUMBERS], n[MOST_NUMBERS];
            const int width = read_pass(examples, 2, all) / 19, components = width / 2;
            rf_iterator *it, *resumed;
            void *saved;
            size_t size;
            OK(rf_iterator_create(fours, 2, &it));
            read_numbers(it, stop, n);
            OK(rf_iterator_save(it, &saved, &size));
            OK(rf_iterator_restore(threes, saved, size, &resumed));
            int at = 4 * stop < 19 ? 4 * stop : 19;
            const rf_element *e;
            while (rf_iterator_next(resumed, &e) == RF_OK)
                for (int64_t row = 0; row < e->component[0].shape.dim[0]; row++, at++)
                    for (int c = 0; c < components; c++)
                        assert_int_equal(((const int32_t *)e->component[c].data)[row], all[width * at + 2 * c + 1]);
            assert_int_equal(at, 19);
            rf_iterator_state_free(saved);
            rf_iterator_destroy(&it);
            rf_iterator_destroy(&resumed);
            rf_dataset_destroy(&fours);
            rf_dataset_destroy(&threes);
            rf_dataset_destroy(&examples);
        }
}

/* Every input is part of what a position belongs to. */
TEST(test_positions_of_others)
{
    expect_other_pipeline(zipped(false, 5, false, 7), zipped(false, 5, false, 6));
    expect_other_pipeline(zipped(false, 5, false, 5), zipped(false, 5, true, 5));
    expect_other_pipeline(concatenated(false, 5, false, 6), concatenated(false, 6, false, 5));
    rf_dataset *d = count_from(0, 6), *pairs;
    OK(rf_dataset_batch(d, 2, RF_REMAINDER_KEEP, &pairs));
    APPLY(pairs, rf_dataset_unbatch(pairs, &applied_));
    expect_other_pipeline(d, pairs);
}

TEST(test_cache_and_shards)
{
    int32_t want[MOST_NUMBERS], n[MOST_NUMBERS];
    for (int which = 0; which < 6; which++) {
        rf_dataset *d = pipeline(which), *cached;
        const int count = read_pass(d, 0, want);
        OK(rf_dataset_cache(d, &cached));
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            assert_int_equal(read_pass(cached, epoch, n), count);
            assert_memory_equal(n, want, sizeof(int32_t) * (size_t)count);
        }
        const int elements = 19, width = count / elements;
        for (uint32_t index = 0; index < 3; index++) {
            rf_dataset *shard;
            OK(rf_dataset_shard(d, 3, index, &shard));
            const int got = read_pass(shard, 0, n) / width;
            assert_int_equal(got, (elements - (int)index + 2) / 3);
            for (int i = 0; i < got; i++) assert_int_equal(n[width * i + 1], want[width * ((int)index + 3 * i) + 1]);
            rf_dataset_destroy(&shard);
        }
        rf_dataset_destroy(&d);
        rf_dataset_destroy(&cached);
    }
}

/* Two workers' rows together are the batches of one. */
TEST(test_rows_of_two_workers)
{
    for (int which = 0; which < PIPELINES; which++) {
        rf_dataset *whole = pipeline(which);
        if (which < 6) APPLY(whole, rf_dataset_batch(whole, 4, RF_REMAINDER_KEEP, &applied_));
        expect_rows_of_two_workers(whole);
    }
}

/* Batches of datasets that end at different places have no common rows. */
TEST(test_uneven_batches_are_not_shared)
{
    rf_dataset *a = count_from(0, 8), *b = count_from(0, 6), *d, *part;
    APPLY(a, rf_dataset_batch(a, 4, RF_REMAINDER_KEEP, &applied_));
    APPLY(b, rf_dataset_batch(b, 4, RF_REMAINDER_KEEP, &applied_));
    OK(rf_dataset_zip((const rf_dataset *[]){ a, b }, 2, &d));
    assert_int_equal(rf_dataset_batch_size(d), 4);
    OK(rf_dataset_slice(d, &(rf_slice_params){ .num_workers = 2, .split = halve }, &part));
    rf_iterator *it;
    const rf_element *e;
    OK(rf_iterator_create(part, 0, &it));
    OK(rf_iterator_next(it, &e));
    FAILS(rf_iterator_next(it, &e), RF_ERROR_INVALID_ARGUMENT, "component 1 has 2 rows, component 0 has 4");
    rf_iterator_destroy(&it);
    APPLY(d, rf_dataset_unbatch(d, &applied_));
    OK(rf_iterator_create(d, 0, &it));
    for (int i = 0; i < 4; i++) OK(rf_iterator_next(it, &e));
    FAILS(rf_iterator_next(it, &e), RF_ERROR_INVALID_ARGUMENT, "component 1 has other rows than component 0");
    rf_iterator_destroy(&it);
    APPLY(b, rf_dataset_unbatch(b, &applied_));
    APPLY(b, rf_dataset_batch(b, 3, RF_REMAINDER_KEEP, &applied_));
    rf_dataset_destroy(&d);
    OK(rf_dataset_zip((const rf_dataset *[]){ a, b }, 2, &d));
    assert_int_equal(rf_dataset_batch_size(d), 0);
    rf_dataset_destroy(&part);
    rf_dataset_destroy(&a);
    rf_dataset_destroy(&b);
    rf_dataset_destroy(&d);
}

TESTS(combine, NULL, NULL)
