/* SPDX-License-Identifier: Apache-2.0 */
/* flat map and interleave: tf.data's documented examples, the order for any lengths, positions, failures. */
#include <stdio.h>

#include "base/error.h"
#include "combined.h"
#include "data/pipeline.h"
#include "data/slice.h"
#include "tests/room.h"

static const rf_element_spec one_number = { .num_components = 1, .dtype = { RF_I32 } };

/* Elements (first, count) of an input, of which `make_range` makes `count` numbers. */
typedef struct range {
    int32_t first, count;
} range;

static rf_dataset *ranges(const range *list, int64_t count, bool in_order)
{
    rf_dataset *d;
    const rf_array array = { RF_I32, RF_SHAPE(count, 2), (void *)(uintptr_t)list };
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &array, .num_arrays = 1 }, &d));
    if (in_order) APPLY(d, rf_dataset_filter(d, keep_all, NULL, &applied_));
    return d;
}

/* Other things that the functions of a test do. */
typedef struct habits {
    bool in_order, shuffled;
    int32_t fails_at; /* the first number of the range that is refused once; 0: none */
    int32_t stumbles; /* a number that cannot be read once; 0: none */
    int made, read;   /* datasets, and numbers of them */
} habits;

static rf_result read_number(void *user, const rf_element *in, rf_element *out)
{
    habits *h = user;
    const int32_t value = *(const int32_t *)in->component[0].data;
    if (value == h->stumbles) {
        h->stumbles = 0;
        return RF_FAIL(RF_ERROR_IO, "disk on fire");
    }
    h->read++;
    *(int32_t *)out->component[0].data = value;
    return RF_OK;
}

static rf_result read_at_random(void *user, rf_random_key key, const rf_element *in, rf_element *out)
{
    (void)key;
    return read_number(user, in, out);
}

static rf_result make_range(void *user, const rf_element *in, rf_dataset **out)
{
    habits *h = user;
    range r;
    memcpy(&r, in->component[0].data, sizeof(r));
    if (h->fails_at && r.first == h->fails_at) {
        h->fails_at = 0;
        return RF_FAIL(RF_ERROR_NOT_FOUND, "no such file");
    }
    h->made++;
    rf_dataset *d = count_from(r.first, r.count);
    APPLY(d, rf_dataset_map(d, read_number, h, &one_number, &applied_));
    if (h->in_order) APPLY(d, rf_dataset_filter(d, keep_all, NULL, &applied_)); /* which looks at every number */
    if (h->shuffled) APPLY(d, rf_dataset_shuffle(d, 256, 7, RF_SHUFFLE_EACH_PASS, &applied_));
    *out = d;
    return RF_OK;
}

/* Cycle length 0: flat map. */
static rf_dataset *flattened(const range *list, int64_t count, habits *h, uint32_t cycle, uint32_t block)
{
    rf_dataset *in = ranges(list, count, h->in_order), *d;
    if (cycle)
        OK(rf_dataset_interleave(in, make_range, h, &one_number,
                                 &(rf_interleave_params){ .cycle_length = cycle, .block_length = block }, &d));
    else
        OK(rf_dataset_flat_map(in, make_range, h, &one_number, &d));
    rf_dataset_destroy(&in);
    return d;
}

static void expect_numbers(const rf_dataset *d, const int32_t *expected, int count)
{
    int32_t n[MOST_NUMBERS];
    assert_int_equal(read_scalars(d, n), count);
    for (int i = 0; i < count; i++)
        if (n[i] != expected[i]) fail_msg("number %d is %d, not %d", i, n[i], expected[i]);
}

static rf_result slice_rows(void *user, const rf_element *in, rf_dataset **out)
{
    (void)user;
    return rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = in->component, .num_arrays = 1 }, out);
}

static rf_result repeat_six_times(void *user, const rf_element *in, rf_dataset **out)
{
    (void)user;
    rf_dataset *d = count_from(*(const int32_t *)in->component[0].data, 1);
    const rf_result r = rf_dataset_repeat(d, 6, out);
    rf_dataset_destroy(&d);
    return r;
}

/* The examples of tf.data.Dataset.flat_map and .interleave. */
TEST(test_documented_examples)
{
    static const int32_t rows[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
    rf_dataset *d, *in;
    const rf_array array = { RF_I32, RF_SHAPE(3, 3), (void *)(uintptr_t)rows };
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &array, .num_arrays = 1 }, &d));
    APPLY(d, rf_dataset_flat_map(d, slice_rows, NULL, &one_number, &applied_));
    expect_numbers(d, rows, 9);
    rf_dataset_destroy(&d);
    static const int32_t blocks[] = { 1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 2, 2, 3, 3, 3,
                                      3, 4, 4, 4, 4, 3, 3, 4, 4, 5, 5, 5, 5, 5, 5 };
    in = count_from(1, 5);
    OK(rf_dataset_interleave(in, repeat_six_times, NULL, &one_number,
                             &(rf_interleave_params){ .cycle_length = 2, .block_length = 4 }, &d));
    expect_numbers(d, blocks, 30);
    rf_dataset_destroy(&d);
    rf_dataset_destroy(&in);
}

/* The order by its definition: places in a ring; one whose dataset has ended waits for its next turn to get another. */
static int interleave_ranges(const range *list, int count, uint32_t cycle, uint32_t block, int32_t *out)
{
    enum { MOST_PLACES = 16 };
    range place[MOST_PLACES] = { 0 };
    bool taken[MOST_PLACES] = { false };
    int next = 0, n = 0, open = 0;
    assert_true(cycle <= MOST_PLACES);
    for (uint32_t turn = 0; next < count || open > 0; turn = (turn + 1) % cycle) {
        if (!taken[turn]) {
            if (next == count) continue;
            place[turn] = list[next++];
            taken[turn] = true;
            open++;
        }
        for (uint32_t i = 0; i < block && taken[turn]; i++) {
            if (place[turn].count == 0) {
                taken[turn] = false;
                open--;
            } else {
                out[n++] = place[turn].first++;
                place[turn].count--;
            }
        }
    }
    return n;
}

static const range uneven[] = { { 100, 5 }, { 200, 0 }, { 300, 1 }, { 400, 7 }, { 500, 3 }, { 600, 0 }, { 700, 4 } };
enum { UNEVEN = 7, UNEVEN_NUMBERS = 20 };

TEST(test_order)
{
    int32_t expected[MOST_NUMBERS];
    for (int in_order = 0; in_order < 2; in_order++)
        for (uint32_t cycle = 1; cycle <= 9; cycle++)
            for (uint32_t block = 1; block <= 8; block++)
                for (int count = 0; count <= UNEVEN; count++) {
                    habits h = { .in_order = in_order };
                    const int n = interleave_ranges(uneven, count, cycle, block, expected);
                    rf_dataset *d = flattened(uneven, count, &h, cycle, block);
                    expect_numbers(d, expected, n);
                    rf_dataset_destroy(&d);
                }
    /* A block is one element by default, and a cycle of one is flat map. */
    habits h = { 0 };
    rf_dataset *d = flattened(uneven, UNEVEN, &h, 3, 0), *flat = flattened(uneven, UNEVEN, &h, 0, 0);
    expect_numbers(d, expected, interleave_ranges(uneven, UNEVEN, 3, 1, expected));
    expect_numbers(flat, expected, interleave_ranges(uneven, UNEVEN, 1, 1, expected));
    rf_dataset_destroy(&flat);
    rf_dataset_destroy(&d);
    d = flattened(uneven, UNEVEN, &h, UINT32_MAX, UINT32_MAX); /* all are open at once; one place each, no more */
    expect_numbers(d, expected, interleave_ranges(uneven, UNEVEN, 1, 1, expected));
    rf_dataset_destroy(&d);
}

TEST(test_cardinality_and_batches)
{
    habits h = { 0 };
    rf_element_spec spec;
    for (uint32_t cycle = 0; cycle < 2; cycle++) {
        rf_dataset *d = flattened(uneven, UNEVEN, &h, cycle, 1);
        assert_int_equal(rf_dataset_cardinality(d), RF_CARDINALITY_UNKNOWN);
        rf_dataset_destroy(&d);
        d = flattened(uneven, 0, &h, cycle, 1);
        assert_int_equal(rf_dataset_cardinality(d), 0);
        rf_dataset_destroy(&d);
    }
    rf_dataset *in = ranges(uneven, UNEVEN, false), *d;
    APPLY(in, rf_dataset_repeat(in, 0, &applied_));
    OK(rf_dataset_flat_map(in, make_range, &h, &one_number, &d));
    assert_int_equal(rf_dataset_cardinality(d), RF_CARDINALITY_INFINITE);
    rf_dataset_destroy(&d);
    rf_dataset_destroy(&in);
    /* The step's elements are not batched where its input is. */
    in = count_from(0, 6);
    APPLY(in, rf_dataset_batch(in, 3, RF_REMAINDER_KEEP, &applied_));
    OK(rf_dataset_flat_map(in, slice_rows, NULL, &one_number, &d));
    assert_int_equal(rf_dataset_batch_size(in), 3);
    assert_int_equal(rf_dataset_batch_size(d), 0);
    rf_dataset_spec(d, &spec);
    assert_int_equal(spec.shape[0].rank, 0);
    expect_numbers(d, (const int32_t[]){ 0, 1, 2, 3, 4, 5 }, 6);
    APPLY(d, rf_dataset_batch(d, 2, RF_REMAINDER_KEEP, &applied_));
    APPLY(d, rf_dataset_unbatch(d, &applied_));
    assert_int_equal(rf_dataset_batch_size(d), 0);
    expect_numbers(d, (const int32_t[]){ 0, 1, 2, 3, 4, 5 }, 6);
    rf_dataset_destroy(&d);
    rf_dataset_destroy(&in);
}

/* Steps below this one say nothing about batches within its elements. */
TEST(test_batches_end_at_the_step)
{
    rf_dataset *d = count_from(0, 12);
    APPLY(d, rf_dataset_batch(d, 3, RF_REMAINDER_KEEP, &applied_));
    APPLY(d, rf_dataset_batch(d, 2, RF_REMAINDER_KEEP, &applied_));
    APPLY(d, rf_dataset_flat_map(
                 d, slice_rows, NULL,
                 &(rf_element_spec){ .num_components = 1, .dtype = { RF_I32 }, .shape = { RF_SHAPE(3) } }, &applied_));
    APPLY(d, rf_dataset_unbatch(d, &applied_));
    assert_int_equal(rf_dataset_batch_size(d), 0);
    expect_numbers(d, (const int32_t[]){ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 }, 12);
    rf_dataset_destroy(&d);
}

static rf_result make_endless(void *user, const rf_element *in, rf_dataset **out)
{
    (void)user;
    rf_dataset *d = count_from(*(const int32_t *)in->component[0].data, 2);
    const rf_result r = rf_dataset_repeat(d, 0, out);
    rf_dataset_destroy(&d);
    return r;
}

TEST(test_endless_datasets)
{
    rf_dataset *in = count_from(10, 4), *d;
    OK(rf_dataset_interleave(in, make_endless, NULL, &one_number,
                             &(rf_interleave_params){ .cycle_length = 2, .block_length = 1 }, &d));
    APPLY(d, rf_dataset_prefetch(d, 3, &applied_));
    APPLY(d, rf_dataset_take(d, 7, &applied_));
    expect_numbers(d, (const int32_t[]){ 10, 11, 11, 12, 10, 11, 11 }, 7);
    rf_dataset_destroy(&d);
    rf_dataset_destroy(&in);
}

/* A failure of the function, or of a dataset that it made, loses no element and changes no order. */
TEST(test_failures_lose_no_element)
{
    int32_t expected[MOST_NUMBERS], n[MOST_NUMBERS];
    for (uint32_t cycle = 0; cycle < 4; cycle++)
        for (int kind = 0; kind < 4; kind++) {
            habits h = { .in_order = kind & 1, .fails_at = kind < 2 ? 400 : 0, .stumbles = kind < 2 ? 0 : 402 };
            const int count = interleave_ranges(uneven, UNEVEN, cycle ? cycle : 1, 2, expected);
            rf_dataset *d = flattened(uneven, UNEVEN, &h, cycle, 2);
            rf_iterator *it;
            const rf_element *e;
            int at = 0, failures = 0;
            OK(rf_iterator_create(d, 0, &it));
            for (rf_result r; (r = rf_iterator_next(it, &e)) != RF_END;) {
                if (r == RF_OK) {
                    n[at++] = *(const int32_t *)e->component[0].data;
                    continue;
                }
                failures++;
                char where[64];
                snprintf(where, sizeof(where), "%s, %s 3%s: ", cycle ? "interleave" : "flat_map",
                         kind < 2 ? "element" : "dataset of element", kind < 2 ? " of its input" : "");
                assert_non_null(strstr(rf_error_message(), where));
            }
            assert_int_equal(failures, 1);
            assert_int_equal(at, count);
            assert_memory_equal(n, expected, sizeof(int32_t) * (size_t)count);
            rf_iterator_destroy(&it);
            rf_dataset_destroy(&d);
        }
}

static rf_result make_nothing(void *user, const rf_element *in, rf_dataset **out)
{
    (void)in;
    *out = NULL;
    return user ? *(const rf_result *)user : RF_OK;
}

static rf_result make_pairs(void *user, const rf_element *in, rf_dataset **out)
{
    (void)user;
    rf_dataset *d = count_from(*(const int32_t *)in->component[0].data, 2);
    const rf_result r = rf_dataset_batch(d, 2, RF_REMAINDER_KEEP, out);
    rf_dataset_destroy(&d);
    return r;
}

static rf_result make_two_components(void *user, const rf_element *in, rf_dataset **out)
{
    (void)user;
    rf_dataset *d = count_from(*(const int32_t *)in->component[0].data, 2);
    const rf_result r = rf_dataset_zip((const rf_dataset *[]){ d, d }, 2, out);
    rf_dataset_destroy(&d);
    return r;
}

static void expect_refused(rf_flat_map_fn fn, void *user, rf_result code, const char *message)
{
    rf_dataset *d = count_from(0, 2);
    rf_iterator *it;
    const rf_element *e;
    APPLY(d, rf_dataset_flat_map(d, fn, user, &one_number, &applied_));
    OK(rf_iterator_create(d, 0, &it));
    for (int again = 0; again < 2; again++) FAILS(rf_iterator_next(it, &e), code, message);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
}

TEST(test_refusals)
{
    static rf_result end = RF_END, silent = RF_ERROR_IO;
    expect_refused(make_nothing, NULL, RF_ERROR_INVALID_ARGUMENT,
                   "flat_map, element 0 of its input: the function made no dataset");
    expect_refused(make_nothing, &end, RF_ERROR_INVALID_ARGUMENT, "the function returned");
    expect_refused(make_nothing, &silent, RF_ERROR_IO, "the function returned");
    expect_refused(make_pairs, NULL, RF_ERROR_INVALID_ARGUMENT,
                   "flat_map, element 0 of its input: component 0 is i32 [2] in the dataset that the function made and "
                   "i32 [] in the spec; they must agree");
    expect_refused(make_two_components, NULL, RF_ERROR_INVALID_ARGUMENT,
                   "elements of 2 components in the dataset that the function made and of 1 in the spec");
    rf_dataset *d = count_from(0, 2), *out;
    FAILS(rf_dataset_interleave(d, make_pairs, NULL, &one_number, &(rf_interleave_params){ 0 }, &out),
          RF_ERROR_INVALID_ARGUMENT, "cycle_length is 0");
    assert_null(out);
    FAILS(rf_dataset_interleave(d, make_pairs, NULL, &one_number, NULL, &out), RF_ERROR_INVALID_ARGUMENT, "NULL");
    FAILS(rf_dataset_flat_map(d, NULL, NULL, &one_number, &out), RF_ERROR_INVALID_ARGUMENT, "NULL");
    FAILS(rf_dataset_flat_map(d, make_pairs, NULL, &(rf_element_spec){ 0 }, &out), RF_ERROR_INVALID_ARGUMENT,
          "1 to 8 components");
    assert_null(out);
    rf_dataset_destroy(&d);
}

/* The steps over inputs and datasets of either kind, with what stands above and below in practice. */
enum { PIPELINES = 16 };
static habits of_pipeline[PIPELINES];
static rf_dataset *pipeline(int which)
{
    habits *h = &of_pipeline[which];
    *h = (habits){ .in_order = which & 1, .shuffled = which & 2 };
    rf_dataset *d = ranges(uneven, UNEVEN, which & 1);
    APPLY(d, rf_dataset_shuffle(d, which & 4 ? 3 : UNEVEN, 5, RF_SHUFFLE_EACH_PASS, &applied_));
    if (which & 8)
        APPLY(d, rf_dataset_flat_map(d, make_range, h, &one_number, &applied_));
    else
        APPLY(d, rf_dataset_interleave(d, make_range, h, &one_number,
                                       &(rf_interleave_params){ .cycle_length = 3, .block_length = 2 }, &applied_));
    if (which & 4) {
        APPLY(d, rf_dataset_shuffle(d, 4, 1, RF_SHUFFLE_EACH_PASS, &applied_));
        APPLY(d, rf_dataset_repeat(d, 2, &applied_));
        APPLY(d, rf_dataset_batch(d, 3, RF_REMAINDER_KEEP, &applied_));
        APPLY(d, rf_dataset_prefetch(d, 2, &applied_));
    }
    return d;
}

TEST(test_positions)
{
    for (int which = 0; which < PIPELINES; which++) {
        rf_dataset *d = pipeline(which);
        int32_t one[MOST_NUMBERS], two[MOST_NUMBERS];
        const int n = read_pass(d, 0, one);
        assert_int_equal(read_pass(d, 1, two), n);
        assert_memory_not_equal(one, two, sizeof(int32_t) * (size_t)n); /* the epoch reaches every shuffle */
        expect_resumes_everywhere(d, pipeline(which));
    }
    habits h = { 0 };
    expect_other_pipeline(flattened(uneven, UNEVEN, &h, 2, 1), flattened(uneven, UNEVEN, &h, 3, 1));
    expect_other_pipeline(flattened(uneven, UNEVEN, &h, 2, 1), flattened(uneven, UNEVEN, &h, 2, 2));
    expect_other_pipeline(flattened(uneven, UNEVEN, &h, 1, 1), flattened(uneven, UNEVEN, &h, 0, 1));
    expect_other_pipeline(flattened(uneven, UNEVEN, &h, 1, 1), flattened(uneven, UNEVEN - 1, &h, 1, 1));
}

/* A position is reached without reading what is fetched by number, and so are the elements of a shard. */
TEST(test_what_is_passed_over_is_not_read)
{
    for (int in_order = 0; in_order < 2; in_order++) {
        habits h = { .in_order = in_order };
        rf_dataset *d = flattened(uneven, UNEVEN, &h, 3, 1);
        rf_iterator *it, *resumed;
        const rf_element *e;
        void *saved;
        size_t size;
        int32_t n[MOST_NUMBERS];
        OK(rf_iterator_create(d, 0, &it));
        read_numbers(it, 15, n);
        OK(rf_iterator_save(it, &saved, &size));
        OK(rf_iterator_next(it, &e));
        const int32_t expected = *(const int32_t *)e->component[0].data;
        h.read = 0;
        OK(rf_iterator_restore(d, saved, size, &resumed));
        assert_int_equal(h.read, in_order ? 15 : 0);
        OK(rf_iterator_next(resumed, &e));
        assert_int_equal(*(const int32_t *)e->component[0].data, expected);
        rf_iterator_state_free(saved);
        rf_iterator_destroy(&it);
        rf_iterator_destroy(&resumed);
        /* Neither do the steps of a training look at what lies before. */
        APPLY(d, rf_dataset_map(d, read_number, &h, &one_number, &applied_));
        APPLY(d, rf_dataset_map_random(d, read_at_random, &h, 1, &one_number, &applied_));
        APPLY(d, rf_dataset_repeat(d, 3, &applied_));
        APPLY(d, rf_dataset_concatenate(d, d, &applied_));
        APPLY(d, rf_dataset_skip(d, 2, &applied_));
        APPLY(d, rf_dataset_batch(d, 4, RF_REMAINDER_KEEP, &applied_));
        APPLY(d, rf_dataset_prefetch(d, 2, &applied_));
        OK(rf_iterator_create(d, 0, &it));
        read_numbers(it, 20, n);
        OK(rf_iterator_save(it, &saved, &size));
        read_numbers(it, 1, n);
        rf_iterator_destroy(&it);
        h.read = 0;
        OK(rf_iterator_restore(d, saved, size, &resumed));
        assert_int_equal(h.read, in_order ? 82 : 0);
        assert_int_equal(read_numbers(resumed, 1, n + 16), 5);
        assert_memory_equal(n, n + 16, 5 * sizeof(int32_t));
        rf_iterator_state_free(saved);
        rf_iterator_destroy(&resumed);
        rf_dataset_destroy(&d);
        d = flattened(uneven, UNEVEN, &h, 3, 1);
        h.read = 0;
        APPLY(d, rf_dataset_shard(d, 4, 1, &applied_));
        assert_int_equal(read_pass(d, 0, n), 2 * UNEVEN_NUMBERS / 4);
        assert_int_equal(h.read, in_order ? UNEVEN_NUMBERS : UNEVEN_NUMBERS / 4);
        rf_dataset_destroy(&d);
    }
}

/* An element that a function has failed at, here the last one, can be passed over. */
TEST(test_what_failed_is_passed_over)
{
    habits h = { .stumbles = 11 };
    rf_dataset *d = count_in_order(10, 2);
    rf_stage *stage;
    const rf_element *e;
    APPLY(d, rf_dataset_map(d, read_number, &h, &one_number, &applied_));
    OK(rf_stage_open(d, 0, &stage));
    OK(rf_stage_next(stage, &e));
    FAILS(rf_stage_next(stage, &e), RF_ERROR_IO, "disk on fire");
    OK(rf_stage_pass_over(stage));
    assert_int_equal(rf_stage_pass_over(stage), RF_END);
    assert_int_equal(rf_stage_next(stage, &e), RF_END);
    rf_stage_close(&stage);
    rf_dataset_destroy(&d);
}

/* Two workers' rows together are the batches of one. */
TEST(test_workers)
{
    for (int which = 0; which < PIPELINES; which++) {
        rf_dataset *d = pipeline(which), *part;
        if (!(which & 4)) APPLY(d, rf_dataset_batch(d, 3, RF_REMAINDER_KEEP, &applied_));
        int32_t seen[8] = { 0 }, whole[8] = { 0 };
        for (int w = 0; w < 3; w++) {
            rf_iterator *it;
            const rf_element *e;
            part = NULL;
            if (w < 2)
                OK(rf_dataset_slice(d, &(rf_slice_params){ .worker = (uint32_t)w, .num_workers = 2, .split = halve },
                                    &part));
            OK(rf_iterator_create(w < 2 ? part : d, 0, &it));
            while (rf_iterator_next(it, &e) == RF_OK)
                for (int64_t i = 0; i < e->component[0].shape.dim[0]; i++) {
                    const int32_t value = ((const int32_t *)e->component[0].data)[i];
                    (w < 2 ? seen : whole)[value / 100] += value % 100 + 1;
                }
            rf_iterator_destroy(&it);
            rf_dataset_destroy(&part);
        }
        assert_memory_equal(seen, whole, sizeof(seen));
        rf_dataset *refused;
        FAILS(rf_dataset_slice(d, &(rf_slice_params){ .num_workers = 2, .by_file = true, .split = halve }, &refused),
              RF_ERROR_INVALID_ARGUMENT, "not made of files");
        rf_dataset_destroy(&d);
    }
}

/* The pass of one iterator changes nothing for another, and what is left of a pass is freed. */
TEST(test_iterators_share_nothing)
{
    habits h = { 0 };
    rf_dataset *d = flattened(uneven, UNEVEN, &h, 3, 1), *cached;
    rf_iterator *a, *b;
    int32_t expected[MOST_NUMBERS], n[MOST_NUMBERS];
    const int count = interleave_ranges(uneven, UNEVEN, 3, 1, expected);
    OK(rf_iterator_create(d, 0, &a));
    OK(rf_iterator_create(d, 0, &b));
    read_numbers(a, 6, n);
    read_numbers(b, 3, n);
    assert_int_equal(n[5], expected[2]);
    read_numbers(a, 1, n);
    assert_int_equal(n[1], expected[6]);
    rf_iterator_destroy(&a);
    rf_iterator_destroy(&b);
    OK(rf_dataset_cache(d, &cached));
    expect_numbers(cached, expected, count);
    h.made = 0;
    expect_numbers(cached, expected, count);
    assert_int_equal(h.made, 0);
    rf_dataset_destroy(&cached);
    rf_dataset_destroy(&d);
}

TESTS(flat_map, NULL, NULL)
