/* SPDX-License-Identifier: Apache-2.0 */
/* Padded batches: which elements come together, in which order, with which padding; positions, shares, refusals. */
#include "base/error.h"
#include "combined.h"
#include "data/slice.h"
#include "tests/room.h"

enum { LONGEST = 12, ELEMENTS = 40 };

/* Lengths from 0 to LONGEST, the same in every pass. */
static int length_of(uint64_t index)
{
    return (int)((index * 7 + index / 5) % (LONGEST + 1));
}

/* (words i32 [length], of 100 * index + 1 ..., pairs i32 [length / 2, 2], index i32 []). */
static rf_result generate(void *user, uint64_t index, rf_element *out)
{
    (void)user;
    if (index >= ELEMENTS) return RF_END;
    const int length = length_of(index);
    out->component[0].shape.dim[0] = length;
    out->component[1].shape.dim[0] = length / 2;
    for (int i = 0; i < length; i++) ((int32_t *)out->component[0].data)[i] = (int32_t)index * 100 + i + 1;
    for (int i = 0; i < length / 2 * 2; i++) ((int32_t *)out->component[1].data)[i] = -(int32_t)index * 100 - i - 1;
    *(int32_t *)out->component[2].data = (int32_t)index;
    return RF_OK;
}

static rf_dataset *sentences(void)
{
    rf_dataset *d;
    OK(rf_dataset_from_generator(
        &(rf_dataset_generator_params){
            .generate = generate,
            .spec = { 3, { RF_I32, RF_I32, RF_I32 }, { RF_SHAPE(LONGEST), RF_SHAPE(LONGEST / 2, 2), RF_SCALAR_SHAPE } },
        },
        &d));
    return d;
}

static const uint32_t borders[] = { 3, 7, 12 };
static rf_padded_batch_params params_of(uint32_t batch_size, bool drop_remainder)
{
    return (rf_padded_batch_params){ .batch_size = batch_size,
                                     .drop_remainder = drop_remainder,
                                     .padded = { true, true },
                                     .pad_value = { 0, -1 },
                                     .borders = borders,
                                     .num_borders = 3 };
}

static rf_dataset *buckets(uint32_t batch_size, bool drop_remainder)
{
    rf_dataset *d = sentences();
    const rf_padded_batch_params p = params_of(batch_size, drop_remainder);
    APPLY(d, rf_dataset_padded_batch(d, &p, &applied_));
    return d;
}

/* The step's work, done plainly: the indices of each batch in order. Returns the number of batches. */
static int plan(uint32_t batch_size, bool drop_remainder, int32_t batches[][ELEMENTS], int *sizes, uint32_t *lengths)
{
    int32_t waiting[3][ELEMENTS];
    uint32_t filled[3] = { 0 };
    int n = 0;
    for (int i = 0; i < ELEMENTS; i++) {
        int b = 0;
        while (length_of((uint64_t)i) > (int)borders[b]) b++;
        waiting[b][filled[b]++] = i;
        if (filled[b] < batch_size) continue;
        memcpy(batches[n], waiting[b], sizeof(waiting[b]));
        lengths[n] = borders[b];
        sizes[n++] = (int)batch_size;
        filled[b] = 0;
    }
    for (int b = 0; b < 3 && !drop_remainder; b++) {
        if (!filled[b]) continue;
        memcpy(batches[n], waiting[b], sizeof(waiting[b]));
        lengths[n] = borders[b];
        sizes[n++] = (int)filled[b];
    }
    return n;
}

static void check_row(const rf_element *e, int64_t row, int32_t index)
{
    const int64_t length = e->component[0].shape.dim[1], pairs = e->component[1].shape.dim[1];
    const int32_t *words = (const int32_t *)e->component[0].data + row * length;
    const int32_t *twos = (const int32_t *)e->component[1].data + row * pairs * 2;
    const int own = length_of((uint64_t)index);
    for (int i = 0; i < length; i++) assert_int_equal(words[i], i < own ? index * 100 + i + 1 : 0);
    for (int i = 0; i < 2 * pairs; i++) assert_int_equal(twos[i], i < own / 2 * 2 ? -index * 100 - i - 1 : -1);
    assert_int_equal(((const int32_t *)e->component[2].data)[row], index);
}

TEST(test_contents)
{
    int32_t batches[ELEMENTS][ELEMENTS];
    int sizes[ELEMENTS];
    uint32_t lengths[ELEMENTS];
    for (uint32_t batch_size = 1; batch_size <= 9; batch_size += 4)
        for (int drop = 0; drop < 2; drop++) {
            const int n = plan(batch_size, drop, batches, sizes, lengths);
            rf_dataset *d = buckets(batch_size, drop);
            rf_element_spec spec;
            rf_dataset_spec(d, &spec);
            assert_true(rf_shape_equal(spec.shape[0], RF_SHAPE(batch_size, LONGEST)));
            assert_true(rf_shape_equal(spec.shape[1], RF_SHAPE(batch_size, LONGEST / 2, 2)));
            assert_true(rf_shape_equal(spec.shape[2], RF_SHAPE(batch_size)));
            assert_int_equal(rf_dataset_batch_size(d), batch_size);
            assert_int_equal(rf_dataset_cardinality(d), RF_CARDINALITY_UNKNOWN);
            rf_iterator *it;
            const rf_element *e;
            OK(rf_iterator_create(d, 0, &it));
            for (int i = 0; i < n; i++) {
                OK(rf_iterator_next(it, &e));
                const int64_t pairs = lengths[i] < LONGEST / 2 ? lengths[i] : LONGEST / 2;
                assert_true(rf_shape_equal(e->component[0].shape, RF_SHAPE(sizes[i], lengths[i])));
                assert_true(rf_shape_equal(e->component[1].shape, RF_SHAPE(sizes[i], pairs, 2)));
                assert_true(rf_shape_equal(e->component[2].shape, RF_SHAPE(sizes[i])));
                for (int row = 0; row < sizes[i]; row++) check_row(e, row, batches[i][row]);
            }
            for (int again = 0; again < 2; again++) assert_int_equal(rf_iterator_next(it, &e), RF_END);
            rf_iterator_destroy(&it);
            rf_dataset_destroy(&d);
        }
}

/* Without borders: one length, elements in their order, and their number is known. */
TEST(test_one_length)
{
    rf_dataset *d = sentences(), *out;
    APPLY(d, rf_dataset_cache(d, &applied_));
    for (int drop = 0; drop < 2; drop++) {
        rf_padded_batch_params p = { .batch_size = 7, .drop_remainder = drop, .padded = { true, true } };
        OK(rf_dataset_padded_batch(d, &p, &out));
        rf_iterator *it;
        const rf_element *e;
        int32_t next = 0;
        OK(rf_iterator_create(out, 0, &it));
        while (rf_iterator_next(it, &e) == RF_OK) {
            assert_int_equal(e->component[0].shape.dim[1], LONGEST);
            for (int64_t row = 0; row < e->component[0].shape.dim[0]; row++)
                assert_int_equal(((const int32_t *)e->component[2].data)[row], next++);
        }
        assert_int_equal(next, drop ? 35 : 40);
        rf_iterator_destroy(&it);
        rf_dataset_destroy(&out);
        rf_dataset *numbers = count_from(0, 40);
        APPLY(numbers, rf_dataset_batch(numbers, 1, RF_REMAINDER_KEEP, &applied_));
        p.padded[1] = false;
        APPLY(numbers, rf_dataset_padded_batch(numbers, &p, &applied_));
        assert_int_equal(rf_dataset_cardinality(numbers), drop ? 5 : 6);
        rf_dataset_destroy(&numbers);
    }
    rf_dataset_destroy(&d);
}

/* A map that shortens what an array holds at its full length, with padding of every type. */
typedef struct shortening {
    int calls, fail_at;
} shortening;
static rf_result shorten(void *user, const rf_element *in, rf_element *out)
{
    shortening *s = user;
    if (s->calls++ == s->fail_at) return RF_FAIL(RF_ERROR_IO, "disk on fire");
    const int32_t length = *(const int32_t *)in->component[3].data;
    for (uint32_t c = 0; c < 3; c++) {
        out->component[c].shape.dim[0] = length;
        memcpy(out->component[c].data, in->component[c].data, (size_t)length * rf_dtype_size(in->component[c].dtype));
    }
    *(int32_t *)out->component[3].data = length;
    return RF_OK;
}

TEST(test_types_of_padding)
{
    const float f[] = { 1, 2, 3, 4, 5, 6 };
    const int32_t n[] = { 1, 2, 3, 4, 5, 6 }, lengths[] = { 1, 3 };
    const uint8_t u[] = { 1, 2, 3, 4, 5, 6 };
    const rf_array arrays[] = { { RF_F32, RF_SHAPE(2, 3), (void *)(uintptr_t)f },
                                { RF_I32, RF_SHAPE(2, 3), (void *)(uintptr_t)n },
                                { RF_U8, RF_SHAPE(2, 3), (void *)(uintptr_t)u },
                                { RF_I32, RF_SHAPE(2), (void *)(uintptr_t)lengths } };
    shortening s = { .fail_at = 1 };
    rf_dataset *d;
    rf_element_spec spec;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 4 }, &d));
    rf_dataset_spec(d, &spec);
    APPLY(d, rf_dataset_map(d, shorten, &s, &spec, &applied_));
    APPLY(d, rf_dataset_prefetch(d, 2, &applied_)); /* shapes come through */
    const rf_padded_batch_params p = { .batch_size = 4,
                                       .padded = { true, true, true },
                                       .pad_value = { 0.5, INT32_MIN, 255 } };
    APPLY(d, rf_dataset_padded_batch(d, &p, &applied_));
    rf_iterator *it;
    const rf_element *e;
    OK(rf_iterator_create(d, 0, &it));
    FAILS(rf_iterator_next(it, &e), RF_ERROR_IO, "disk on fire"); /* and nothing is lost */
    OK(rf_iterator_next(it, &e));
    assert_int_equal(e->component[0].shape.dim[0], 2);
    const float want_f[] = { 1, 0.5f, 0.5f, 4, 5, 6 };
    const int32_t want_n[] = { 1, INT32_MIN, INT32_MIN, 4, 5, 6 };
    const uint8_t want_u[] = { 1, 255, 255, 4, 5, 6 };
    assert_memory_equal(e->component[0].data, want_f, sizeof(want_f));
    assert_memory_equal(e->component[1].data, want_n, sizeof(want_n));
    assert_memory_equal(e->component[2].data, want_u, sizeof(want_u));
    assert_memory_equal(e->component[3].data, lengths, sizeof(lengths));
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
}

/* Elements that were kept or shuffled below have their length still. */
static rf_dataset *shuffled_buckets(int which)
{
    rf_dataset *d = sentences();
    const rf_padded_batch_params p = params_of(4, which == 2);
    APPLY(d, rf_dataset_cache(d, &applied_));
    APPLY(d, rf_dataset_shuffle(d, which ? 7 : 100, 5, RF_SHUFFLE_EACH_PASS, &applied_));
    if (which == 1) APPLY(d, rf_dataset_repeat(d, 2, &applied_));
    APPLY(d, rf_dataset_padded_batch(d, &p, &applied_));
    if (which == 1) APPLY(d, rf_dataset_cache(d, &applied_));
    if (which) APPLY(d, rf_dataset_prefetch(d, 2, &applied_));
    return d;
}

TEST(test_positions)
{
    for (int drop = 0; drop < 2; drop++) expect_resumes_everywhere(buckets(4, drop), buckets(4, drop));
    for (int which = 0; which < 3; which++) expect_resumes_everywhere(shuffled_buckets(which), shuffled_buckets(which));
    expect_other_pipeline(buckets(4, false), buckets(5, false));
    expect_other_pipeline(buckets(4, false), buckets(4, true));
    for (int change = 0; change < 3; change++) {
        rf_padded_batch_params p = params_of(4, false);
        const uint32_t others[] = { 3, 8, 12 };
        if (change == 0) p.borders = others;
        if (change == 1) p.pad_value[1] = -2;
        if (change == 2) p.num_borders = 0;
        rf_dataset *d = sentences();
        APPLY(d, rf_dataset_padded_batch(d, &p, &applied_));
        expect_other_pipeline(buckets(4, false), d);
    }
}

TEST(test_shuffled_lengths)
{
    for (int which = 0; which < 2; which++) {
        rf_dataset *d = shuffled_buckets(which);
        rf_iterator *it;
        const rf_element *e;
        int seen[ELEMENTS] = { 0 };
        OK(rf_iterator_create(d, 1, &it));
        while (rf_iterator_next(it, &e) == RF_OK)
            for (int64_t row = 0; row < e->component[2].shape.dim[0]; row++) {
                const int32_t index = ((const int32_t *)e->component[2].data)[row];
                check_row(e, row, index);
                seen[index]++;
            }
        for (int i = 0; i < ELEMENTS; i++) assert_int_equal(seen[i], which ? 2 : 1);
        rf_iterator_destroy(&it);
        rf_dataset_destroy(&d);
    }
}

/* unbatch gives the elements back, with their padding. */
TEST(test_unbatch)
{
    rf_dataset *d = buckets(4, false);
    APPLY(d, rf_dataset_unbatch(d, &applied_));
    assert_int_equal(rf_dataset_batch_size(d), 0);
    rf_iterator *it;
    const rf_element *e;
    int n = 0;
    OK(rf_iterator_create(d, 0, &it));
    for (; rf_iterator_next(it, &e) == RF_OK; n++) {
        const int length = length_of((uint64_t) * (const int32_t *)e->component[2].data);
        const int64_t padded = e->component[0].shape.dim[0];
        assert_int_equal(padded, length <= 3 ? 3 : length <= 7 ? 7 : 12);
    }
    assert_int_equal(n, ELEMENTS);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
}

TEST(test_rows_of_two_workers)
{
    rf_dataset *d = buckets(5, false), *part[2];
    rf_iterator *it, *mine[2];
    const rf_element *all, *e;
    OK(rf_iterator_create(d, 0, &it));
    for (uint32_t w = 0; w < 2; w++) {
        OK(rf_dataset_slice(d, &(rf_slice_params){ .worker = w, .num_workers = 2, .split = halve }, &part[w]));
        OK(rf_iterator_create(part[w], 0, &mine[w]));
    }
    while (rf_iterator_next(it, &all) == RF_OK) {
        int64_t at = 0;
        for (int w = 0; w < 2; w++) {
            OK(rf_iterator_next(mine[w], &e));
            assert_int_equal(e->component[0].shape.dim[1], all->component[0].shape.dim[1]);
            for (int64_t row = 0; row < e->component[0].shape.dim[0]; row++)
                check_row(e, row, ((const int32_t *)all->component[2].data)[at++]);
        }
        assert_int_equal(at, all->component[2].shape.dim[0]);
    }
    for (int w = 0; w < 2; w++) {
        rf_iterator_destroy(&mine[w]);
        rf_dataset_destroy(&part[w]);
    }
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
}

static rf_result too_long(void *user, uint64_t index, rf_element *out)
{
    (void)index;
    out->component[0].shape = *(const rf_shape *)user;
    return RF_OK;
}

TEST(test_refusals)
{
    rf_dataset *d = sentences(), *out;
    const uint32_t falling[] = { 3, 3, 12 }, low[] = { 3, 7 };
    rf_padded_batch_params p = params_of(4, false);
    p.borders = falling;
    FAILS(rf_dataset_padded_batch(d, &p, &out), RF_ERROR_INVALID_ARGUMENT, "border 1 is 3; the borders have to ascend");
    assert_null(out);
    p.borders = low;
    p.num_borders = 2;
    FAILS(rf_dataset_padded_batch(d, &p, &out), RF_ERROR_INVALID_ARGUMENT, "the last border is 7, but");
    p.num_borders = 9;
    FAILS(rf_dataset_padded_batch(d, &p, &out), RF_ERROR_INVALID_ARGUMENT, "9 borders; at most 8");
    p = params_of(0, false);
    FAILS(rf_dataset_padded_batch(d, &p, &out), RF_ERROR_INVALID_ARGUMENT, "batch_size is 0");
    p = params_of(4, false);
    p.padded[0] = p.padded[1] = false;
    FAILS(rf_dataset_padded_batch(d, &p, &out), RF_ERROR_INVALID_ARGUMENT, "no component is padded");
    p.padded[2] = true;
    FAILS(rf_dataset_padded_batch(d, &p, &out), RF_ERROR_INVALID_ARGUMENT, "component 2 has no dimension");
    p.padded[2] = false;
    p.padded[3] = true;
    FAILS(rf_dataset_padded_batch(d, &p, &out), RF_ERROR_INVALID_ARGUMENT, "no component 3");
    p = params_of(4, false);
    p.pad_value[0] = 0.5;
    FAILS(rf_dataset_padded_batch(d, &p, &out), RF_ERROR_INVALID_ARGUMENT, "is i32, which cannot be padded with 0.5");
    p = params_of(4, false);
    p.padded[1] = false; /* but its length varies */
    OK(rf_dataset_padded_batch(d, &p, &out));
    rf_iterator *it;
    const rf_element *e;
    OK(rf_iterator_create(out, 0, &it));
    FAILS(rf_iterator_next(it, &e), RF_ERROR_INVALID_ARGUMENT,
          "component 1 of an element is [0,2]; it is not padded and has to be [6,2]");
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&out);
    rf_dataset_destroy(&d);
    static const rf_shape wrong[] = { { .rank = 2, .dim = { 3, 2 } }, { .rank = 1, .dim = { 5 } }, { .rank = 0 } };
    for (size_t i = 0; i < 3; i++) {
        rf_shape shape = wrong[i];
        OK(rf_dataset_from_generator(
            &(rf_dataset_generator_params){ too_long, &shape, { 1, { RF_F32 }, { RF_SHAPE(4) } }, 0 }, &d));
        OK(rf_dataset_padded_batch(d, &(rf_padded_batch_params){ .batch_size = 2, .padded = { true } }, &out));
        OK(rf_iterator_create(out, 0, &it));
        FAILS(rf_iterator_next(it, &e), RF_ERROR_INVALID_ARGUMENT, "it is padded to at most [4]");
        rf_iterator_destroy(&it);
        rf_dataset_destroy(&out);
        rf_dataset_destroy(&d);
    }
}

TESTS(padded_batch, NULL, NULL)
