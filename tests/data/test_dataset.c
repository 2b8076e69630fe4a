/* SPDX-License-Identifier: Apache-2.0 */
/* Pipelines: contents and order of elements, epochs, threads, saved positions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/apply.h"
#include "base/error.h"
#include "data/pipeline.h"
#include "tests/room.h"
#include <ringfire/dataset.h>

enum { N = 103 };

/* Elements (value i32 [], pair f32 [2] = { i, -i }). */
static rf_dataset *numbers(void)
{
    static int32_t values[N];
    static float pairs[2 * N];
    for (int i = 0; i < N; i++) {
        values[i] = i;
        pairs[2 * i] = (float)i;
        pairs[2 * i + 1] = (float)-i;
    }
    const rf_array arrays[] = { { RF_I32, RF_SHAPE(N), values }, { RF_F32, RF_SHAPE(N, 2), pairs } };
    rf_dataset *d;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &d));
    return d;
}

/* The same elements from a generator, so that nothing above it is indexed. */
static rf_result generate(void *user, uint64_t index, rf_element *out)
{
    const uint64_t end = *(const uint64_t *)user;
    if (index >= end) return RF_END;
    *(int32_t *)out->component[0].data = (int32_t)index;
    ((float *)out->component[1].data)[0] = (float)index;
    ((float *)out->component[1].data)[1] = -(float)index;
    return RF_OK;
}

static rf_dataset *generated(void)
{
    static uint64_t end = N;
    rf_dataset *d;
    OK(rf_dataset_from_generator(
        &(rf_dataset_generator_params){
            generate, &end, { 2, { RF_I32, RF_F32 }, { RF_SCALAR_SHAPE, RF_SHAPE(2) } }, 0 },
        &d));
    return d;
}

/* Reads at most `limit` elements; every value is checked against its pair. Returns the number of elements. */
static int read_some(rf_iterator *it, int32_t *values, int limit)
{
    int n = 0;
    while (n < limit) {
        const rf_element *e;
        const rf_result r = rf_iterator_next(it, &e);
        if (r == RF_END) break;
        OK(r);
        const int64_t count = rf_shape_count(e->component[0].shape);
        const int32_t *v = e->component[0].data;
        const float *p = e->component[1].data;
        for (int64_t i = 0; i < count; i++) {
            assert_true(p[2 * i] == (float)v[i] && p[2 * i + 1] == (float)-v[i]);
            values[n++] = v[i];
        }
    }
    return n;
}

static int read_epoch(const rf_dataset *d, uint64_t epoch, int32_t *values, int limit)
{
    rf_iterator *it;
    OK(rf_iterator_create(d, epoch, &it));
    const int n = read_some(it, values, limit);
    rf_iterator_destroy(&it);
    assert_null(it);
    return n;
}

static void expect_permutation(const int32_t *values, int n)
{
    bool seen[N] = { false };
    assert_int_equal(n, N);
    for (int i = 0; i < n; i++) {
        assert_in_range(values[i], 0, N - 1);
        assert_false(seen[values[i]]);
        seen[values[i]] = true;
    }
}

static void check_shuffle(rf_dataset *d, uint64_t buffer)
{
    int32_t a[N + 1], b[N + 1];
    APPLY(d, rf_dataset_shuffle(d, buffer, 7, RF_SHUFFLE_EACH_PASS, &applied_));
    expect_permutation(a, read_epoch(d, 0, a, N + 1));
    expect_permutation(b, read_epoch(d, 0, b, N + 1));
    assert_memory_equal(a, b, sizeof(int32_t) * N);
    expect_permutation(b, read_epoch(d, 1, b, N + 1));
    assert_memory_not_equal(a, b, sizeof(int32_t) * N);
    int moved = 0;
    for (int i = 0; i < N; i++) moved += a[i] != i;
    assert_true(moved > N / 2);
    rf_dataset_destroy(&d);
}

TEST(test_shuffle)
{
    check_shuffle(numbers(), N);
    check_shuffle(numbers(), 10);
    check_shuffle(generated(), 1000);
    check_shuffle(generated(), 10);
    rf_dataset *d = numbers();
    int32_t a[N], b[N];
    APPLY(d, rf_dataset_shuffle(d, N, 7, RF_SHUFFLE_ONCE, &applied_)); /* every epoch alike */
    read_epoch(d, 0, a, N);
    read_epoch(d, 5, b, N);
    assert_memory_equal(a, b, sizeof(a));
    rf_dataset_destroy(&d);
    /* A small buffer moves no element to the front by more than its size. */
    d = numbers();
    APPLY(d, rf_dataset_shuffle(d, 10, 3, RF_SHUFFLE_EACH_PASS, &applied_));
    read_epoch(d, 0, a, N);
    for (int i = 0; i < N; i++) assert_true(a[i] < i + 10);
    rf_dataset_destroy(&d);
}

TEST(test_batch_shapes)
{
    for (int drop = 0; drop < 2; drop++)
        for (int source = 0; source < 2; source++) {
            rf_dataset *d = source ? generated() : numbers();
            APPLY(d, rf_dataset_batch(d, 10, drop ? RF_REMAINDER_DROP : RF_REMAINDER_KEEP, &applied_));
            rf_element_spec spec;
            rf_dataset_spec(d, &spec);
            assert_true(rf_shape_equal(spec.shape[1], RF_SHAPE(10, 2)));
            assert_int_equal(rf_dataset_batch_size(d), 10);
            assert_int_equal(rf_dataset_cardinality(d), source ? RF_CARDINALITY_UNKNOWN : drop ? 10 : 11);
            rf_iterator *it;
            OK(rf_iterator_create(d, 0, &it));
            const rf_element *e;
            int batches = 0;
            int64_t last = 0;
            while (rf_iterator_next(it, &e) == RF_OK) {
                batches++;
                last = e->component[1].shape.dim[0];
                assert_int_equal(e->component[0].shape.dim[0], last);
            }
            assert_int_equal(batches, drop ? 10 : 11);
            assert_int_equal(last, drop ? 10 : 3);
            assert_int_equal(rf_iterator_next(it, &e), RF_END); /* and again */
            rf_iterator_destroy(&it);
            rf_dataset_destroy(&d);
        }
}

TEST(test_windows)
{
    int32_t v[N];
    for (int source = 0; source < 2; source++) {
        rf_dataset *d = source ? generated() : numbers();
        APPLY(d, rf_dataset_skip(d, 5, &applied_));
        APPLY(d, rf_dataset_take(d, 20, &applied_));
        APPLY(d, rf_dataset_shard(d, 3, 1, &applied_));
        assert_int_equal(rf_dataset_cardinality(d), source ? RF_CARDINALITY_UNKNOWN : 7);
        assert_int_equal(read_epoch(d, 0, v, N), 7);
        for (int i = 0; i < 7; i++) assert_int_equal(v[i], 6 + 3 * i);
        rf_dataset_destroy(&d);
    }
    /* Shards cover everything once. */
    rf_dataset *d = numbers();
    int sum = 0, total = 0;
    for (uint32_t i = 0; i < 4; i++) {
        rf_dataset *shard;
        OK(rf_dataset_shard(d, 4, i, &shard));
        const int n = read_epoch(shard, 0, v, N);
        total += n;
        for (int j = 0; j < n; j++) sum += v[j];
        rf_dataset_destroy(&shard);
    }
    assert_int_equal(total, N);
    assert_int_equal(sum, N * (N - 1) / 2);
    APPLY(d, rf_dataset_skip(d, 1000, &applied_));
    assert_int_equal(rf_dataset_cardinality(d), 0);
    assert_int_equal(read_epoch(d, 0, v, N), 0);
    rf_dataset_destroy(&d);
}

TEST(test_repeat_is_epochs)
{
    int32_t all[3 * N], one[N];
    rf_dataset *shuffled = numbers(), *d;
    APPLY(shuffled, rf_dataset_shuffle(shuffled, N, 1, RF_SHUFFLE_EACH_PASS, &applied_));
    OK(rf_dataset_repeat(shuffled, 3, &d));
    assert_int_equal(rf_dataset_cardinality(d), 3 * N);
    assert_int_equal(read_epoch(d, 0, all, 3 * N), 3 * N);
    for (uint64_t pass = 0; pass < 3; pass++) {
        read_epoch(shuffled, pass, one, N);
        assert_memory_equal(one, all + pass * N, sizeof(one));
    }
    rf_dataset_destroy(&d);
    OK(rf_dataset_repeat(shuffled, 0, &d));
    assert_int_equal(rf_dataset_cardinality(d), RF_CARDINALITY_INFINITE);
    assert_int_equal(read_epoch(d, 0, all, 3 * N), 3 * N);
    rf_dataset_destroy(&d);
    /* Nothing, for ever, ends at once. */
    OK(rf_dataset_take(shuffled, 0, &d));
    APPLY(d, rf_dataset_repeat(d, 0, &applied_));
    assert_int_equal(read_epoch(d, 0, all, N), 0);
    rf_dataset_destroy(&d);
    rf_dataset_destroy(&shuffled);
}

static rf_result count_calls(void *user, const rf_element *in, rf_element *out)
{
    ++*(int *)user;
    for (uint32_t i = 0; i < in->num_components; i++) {
        const rf_array *a = &in->component[i];
        memcpy(out->component[i].data, a->data, (size_t)rf_shape_count(a->shape) * rf_dtype_size(a->dtype));
    }
    return RF_OK;
}

TEST(test_cache_reads_once)
{
    for (int source = 0; source < 2; source++) {
        int calls = 0;
        int32_t v[N + 1];
        rf_dataset *d = source ? generated() : numbers();
        rf_element_spec spec;
        rf_dataset_spec(d, &spec);
        APPLY(d, rf_dataset_map(d, count_calls, &calls, &spec, &applied_));
        APPLY(d, rf_dataset_cache(d, &applied_));
        rf_iterator *ahead, *behind;
        OK(rf_iterator_create(d, 0, &ahead));
        OK(rf_iterator_create(d, 1, &behind));
        assert_int_equal(read_some(ahead, v, 50), 50);
        assert_int_equal(read_some(behind, v, N + 1), N);
        for (int i = 0; i < N; i++) assert_int_equal(v[i], i);
        rf_iterator_destroy(&behind);
        assert_int_equal(read_some(ahead, v, N + 1), N - 50);
        rf_iterator_destroy(&ahead);
        assert_int_equal(read_epoch(d, 2, v, N + 1), N);
        assert_int_equal(calls,
                         source == 0 ? N : 2 * N); /* in order: once for each pass begun before one was complete */
        rf_dataset_destroy(&d);
    }
}

TEST(test_prefetch)
{
    int32_t v[N + 1];
    for (uint32_t ahead = 0; ahead < 4; ahead++) {
        rf_dataset *d = generated();
        APPLY(d, rf_dataset_batch(d, 7, RF_REMAINDER_KEEP, &applied_));
        APPLY(d, rf_dataset_prefetch(d, ahead, &applied_));
        assert_int_equal(read_epoch(d, 0, v, N + 1), N);
        for (int i = 0; i < N; i++) assert_int_equal(v[i], i);
        /* An iterator dropped in the middle stops its thread. */
        rf_iterator *it;
        OK(rf_iterator_create(d, 0, &it));
        assert_int_equal(read_some(it, v, 7), 7);
        rf_iterator_destroy(&it);
        /* ... and one that never started needs no thread. */
        OK(rf_iterator_create(d, 0, &it));
        rf_iterator_destroy(&it);
        rf_dataset_destroy(&d);
    }
}

static rf_result fail_at_30(void *user, const rf_element *in, rf_element *out)
{
    if (*(const int32_t *)in->component[0].data == 30) return RF_FAIL(RF_ERROR_IO, "disk on fire");
    return count_calls(user, in, out);
}

TEST(test_errors_pass_through)
{
    int calls = 0;
    int32_t v[N];
    for (int prefetch = 0; prefetch < 2; prefetch++) {
        rf_dataset *d = numbers();
        rf_element_spec spec;
        rf_dataset_spec(d, &spec);
        APPLY(d, rf_dataset_map(d, fail_at_30, &calls, &spec, &applied_));
        if (prefetch) APPLY(d, rf_dataset_prefetch(d, 3, &applied_));
        rf_iterator *it;
        OK(rf_iterator_create(d, 0, &it));
        assert_int_equal(read_some(it, v, 30), 30);
        const rf_element *e;
        for (int again = 0; again < 2; again++) {
            assert_int_equal(rf_iterator_next(it, &e), RF_ERROR_IO);
            assert_string_equal(rf_error_message(), "map, element 30: disk on fire");
        }
        rf_iterator_destroy(&it);
        rf_dataset_destroy(&d);
    }
}

static rf_result fail_silently(void *user, uint64_t index, rf_element *out)
{
    (void)user;
    (void)index;
    (void)out;
    return RF_ERROR_IO;
}

static rf_result map_silently(void *user, const rf_element *in, rf_element *out)
{
    (void)user;
    (void)in;
    (void)out;
    return RF_ERROR_INVALID_ARGUMENT;
}

/* Users' functions that fail with a code alone are not given the reason of an earlier failure. */
TEST(test_codes_without_reason)
{
    for (int map = 0; map < 2; map++) {
        rf_dataset *d, *none;
        rf_element_spec spec;
        OK(rf_dataset_from_generator(
            &(rf_dataset_generator_params){ fail_silently, NULL, { 1, { RF_F32 }, { RF_SCALAR_SHAPE } }, 0 }, &d));
        if (map) {
            rf_dataset_destroy(&d);
            d = numbers();
            rf_dataset_spec(d, &spec);
            APPLY(d, rf_dataset_map(d, map_silently, NULL, &spec, &applied_));
        }
        rf_iterator *it;
        const rf_element *e;
        OK(rf_iterator_create(d, 0, &it));
        assert_int_equal(rf_dataset_batch(NULL, 3, RF_REMAINDER_KEEP, &none),
                         RF_ERROR_INVALID_ARGUMENT); /* the stale one */
        assert_int_equal(rf_iterator_next(it, &e), map ? RF_ERROR_INVALID_ARGUMENT : RF_ERROR_IO);
        assert_string_equal(rf_error_message(), map ? "map, element 0: the function returned RF_ERROR_INVALID_ARGUMENT"
                                                    : "generator, element 0: the function returned RF_ERROR_IO");
        rf_iterator_destroy(&it);
        rf_dataset_destroy(&d);
    }
}

/* The pipelines whose positions are saved: indexed all the way, sequential, repeated, prefetched. */
static rf_dataset *pipeline(int which)
{
    rf_dataset *d = which == 0 ? numbers() : generated();
    APPLY(d, rf_dataset_cache(d, &applied_));
    APPLY(d, rf_dataset_shuffle(d, which == 2 ? 11 : 1000, 5, RF_SHUFFLE_EACH_PASS, &applied_));
    if (which == 3) APPLY(d, rf_dataset_repeat(d, 2, &applied_));
    APPLY(d, rf_dataset_batch(d, 4, RF_REMAINDER_KEEP, &applied_));
    if (which >= 2) APPLY(d, rf_dataset_prefetch(d, 2, &applied_));
    return d;
}

TEST(test_saved_position)
{
    for (int which = 0; which < 4; which++)
        for (int stop = 0; stop <= 24; stop += 4) {
            rf_dataset *d = pipeline(which), *again = pipeline(which);
            rf_iterator *it, *resumed;
            int32_t before[4 * N], rest[4 * N], resumed_rest[4 * N];
            OK(rf_iterator_create(d, 3, &it));
            read_some(it, before, stop);
            void *saved;
            size_t size;
            OK(rf_iterator_save(it, &saved, &size));
            const int n = read_some(it, rest, 4 * N);
            OK(rf_iterator_restore(again, saved, size, &resumed));
            assert_int_equal(read_some(resumed, resumed_rest, 4 * N), n);
            assert_memory_equal(rest, resumed_rest, sizeof(int32_t) * (size_t)n);
            rf_iterator_destroy(&it);
            rf_iterator_destroy(&resumed);
            rf_iterator_state_free(saved);
            rf_dataset_destroy(&d);
            rf_dataset_destroy(&again);
        }
}

/* A pass goes on with batches of another size, twice: every example comes once, in the order of the pass. */
TEST(test_position_with_other_batches)
{
    int32_t numbers[50], want[50], got[50];
    for (int i = 0; i < 50; i++) numbers[i] = i;
    const rf_array array = { RF_I32, RF_SHAPE(50), numbers };
    rf_dataset *source, *shuffled, *batched, *d[3];
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &array, .num_arrays = 1 }, &source));
    OK(rf_dataset_shuffle(source, 50, 3, RF_SHUFFLE_EACH_PASS, &shuffled));
    const uint32_t sizes[] = { 8, 5, 12 };
    for (int i = 0; i < 3; i++) {
        OK(rf_dataset_batch(shuffled, sizes[i], RF_REMAINDER_KEEP, &batched));
        OK(rf_dataset_prefetch(batched, 2, &d[i]));
        rf_dataset_destroy(&batched);
    }
    rf_iterator *it, *next;
    const rf_element *element;
    OK(rf_iterator_create(shuffled, 4, &it));
    for (int i = 0; i < 50; i++) {
        OK(rf_iterator_next(it, &element));
        memcpy(&want[i], element->component[0].data, sizeof(want[i]));
    }
    rf_iterator_destroy(&it);
    for (int batches = 0; batches <= 7; batches++) {
        OK(rf_iterator_create(d[0], 4, &it));
        int n = 0;
        for (int i = 0; i < 3; i++) {
            const rf_element *e;
            void *saved;
            size_t size;
            for (int b = 0; b < (i == 0 ? batches : i == 1 ? 2 : 50) && rf_iterator_next(it, &e) == RF_OK; b++) {
                const int64_t count = e->component[0].shape.dim[0];
                memcpy(got + n, e->component[0].data, (size_t)count * sizeof(int32_t));
                n += (int)count;
            }
            if (i == 2) break;
            OK(rf_iterator_save(it, &saved, &size));
            OK(rf_iterator_restore(d[i + 1], saved, size, &next));
            rf_iterator_state_free(saved);
            rf_iterator_destroy(&it);
            it = next;
        }
        rf_iterator_destroy(&it);
        assert_int_equal(n, 50);
        assert_memory_equal(got, want, sizeof(want));
    }
    for (int i = 0; i < 3; i++) rf_dataset_destroy(&d[i]);
    rf_dataset_destroy(&shuffled);
    rf_dataset_destroy(&source);
}

/* Positions that were saved when -1 stood for an unknown number of elements and -2 for infinitely many. */
TEST(test_positions_of_earlier_versions)
{
    static const struct {
        const char *hex;
        int64_t cardinality;
        bool generated, repeated;
    } saved[] = {
        { "52464954455200028469e2bcc9177fd4c004a1f2e9c737330a000000"
          "00000000000000000000000000000000000000000200000000000000",
          RF_CARDINALITY_UNKNOWN, true, false },
        { "5246495445520002d4fe7d614561a6c8bd1870e65b99caf50a000000"
          "00000000000000000000000000000000000000000200000000000000",
          RF_CARDINALITY_INFINITE, false, true },
        { "52464954455200026553d52a98c2487f946516c6e185468a0a000000"
          "00000000000000000000000000000000000000000200000000000000",
          RF_CARDINALITY_INFINITE, true, true },
    };
    for (int i = 0; i < 3; i++) {
        rf_dataset *d = saved[i].generated ? generated() : numbers();
        if (saved[i].repeated) APPLY(d, rf_dataset_repeat(d, 0, &applied_));
        APPLY(d, rf_dataset_batch(d, 10, RF_REMAINDER_KEEP, &applied_));
        assert_int_equal(rf_dataset_cardinality(d), saved[i].cardinality);
        uint8_t bytes[56];
        assert_int_equal(strlen(saved[i].hex), 2 * sizeof(bytes));
        for (size_t b = 0; b < sizeof(bytes); b++) {
            const char digits[3] = { saved[i].hex[2 * b], saved[i].hex[2 * b + 1], 0 };
            bytes[b] = (uint8_t)strtoul(digits, NULL, 16);
        }
        rf_iterator *it, *other;
        OK(rf_iterator_restore(d, bytes, sizeof(bytes), &it));
        const rf_element *e;
        OK(rf_iterator_next(it, &e));
        assert_int_equal(*(const int32_t *)e->component[0].data, 20); /* two batches came before */
        void *again;
        size_t size;
        OK(rf_iterator_save(it, &again, &size));
        assert_int_equal(((const uint8_t *)again)[7], 3); /* what is saved now has a checksum behind it */
        assert_int_equal(size, sizeof(bytes) + 8);
        assert_memory_equal((const uint8_t *)again + 8, bytes + 8, 16);
        ((uint8_t *)again)[7] = 2;
        FAILS(rf_iterator_restore(d, again, size, &other), RF_ERROR_CORRUPT_DATA,
              "64 bytes are no position of version 2");
        ((uint8_t *)again)[7] = 4;
        FAILS(rf_iterator_restore(d, again, size, &other), RF_ERROR_CORRUPT_DATA,
              "version 4; this library reads 2 and 3");
        bytes[7] = 3;
        FAILS(rf_iterator_restore(d, bytes, sizeof(bytes), &other), RF_ERROR_CORRUPT_DATA,
              "56 bytes are no position of version 3");
        rf_iterator_state_free(again);
        rf_iterator_destroy(&it);
        rf_dataset_destroy(&d);
    }
}

TEST(test_saved_position_is_checked)
{
    rf_dataset *d = pipeline(0), *other = pipeline(2);
    rf_iterator *it, *resumed;
    void *saved;
    size_t size;
    OK(rf_iterator_create(d, 0, &it));
    OK(rf_iterator_save(it, &saved, &size));
    assert_int_equal(rf_iterator_restore(other, saved, size, &resumed), RF_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(rf_error_message(), "another pipeline"));
    assert_int_equal(rf_iterator_restore(d, saved, size - 1, &resumed), RF_ERROR_CORRUPT_DATA);
    ((char *)saved)[0] ^= 1;
    assert_int_equal(rf_iterator_restore(d, saved, size, &resumed), RF_ERROR_CORRUPT_DATA);
    ((char *)saved)[0] ^= 1;
    for (size_t bit = 0; bit < 8 * size; bit++) {
        ((uint8_t *)saved)[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(rf_iterator_restore(d, saved, size, &resumed), RF_ERROR_CORRUPT_DATA);
        ((uint8_t *)saved)[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(rf_iterator_restore(d, saved, cut, &resumed), RF_ERROR_CORRUPT_DATA);
    ((uint8_t *)saved)[size - 9] = 0x10; /* a position far past the end, with its checksum */
    FAILS(rf_iterator_restore(d, saved, size, &resumed), RF_ERROR_CORRUPT_DATA, "its checksum is another");
    rf_iterator_state_seal(saved);
    FAILS(rf_iterator_restore(d, saved, size, &resumed), RF_ERROR_CORRUPT_DATA, "is past the end of the dataset");
    assert_null(resumed);
    rf_iterator_state_free(saved);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
    rf_dataset_destroy(&other);
}

TEST(test_built_in_maps)
{
    uint8_t pixels[] = { 0, 51, 255, 128 };
    int32_t labels[] = { 2, 0 };
    const rf_array arrays[] = { { RF_U8, RF_SHAPE(2, 2), pixels }, { RF_I32, RF_SHAPE(2), labels } };
    rf_dataset *d;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &d));
    rf_dataset *bad;
    assert_int_equal(rf_dataset_map_scale_u8(d, 1, &bad), RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_dataset_map_scale_u8(d, 2, &bad), RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_dataset_map_one_hot(d, 0, 3, &bad), RF_ERROR_INVALID_ARGUMENT);
    APPLY(d, rf_dataset_map_scale_u8(d, 0, &applied_));
    APPLY(d, rf_dataset_map_one_hot(d, 1, 3, &applied_));
    rf_iterator *it;
    const rf_element *e;
    OK(rf_iterator_create(d, 0, &it));
    OK(rf_iterator_next(it, &e));
    const float *image = e->component[0].data, *label = e->component[1].data;
    assert_true(image[0] == 0 && image[1] == 51 / 255.0f);
    assert_true(label[0] == 0 && label[1] == 0 && label[2] == 1);
    OK(rf_iterator_next(it, &e));
    image = e->component[0].data;
    label = e->component[1].data;
    assert_true(image[0] == 1 && image[1] == 128 / 255.0f);
    assert_true(label[0] == 1 && label[1] == 0 && label[2] == 0);
    rf_iterator_destroy(&it);
    APPLY(d, rf_dataset_skip(d, 0, &applied_));
    rf_dataset_destroy(&d);
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &d));
    APPLY(d, rf_dataset_map_one_hot(d, 1, 2, &applied_)); /* class 2 does not fit */
    OK(rf_iterator_create(d, 0, &it));
    assert_int_equal(rf_iterator_next(it, &e), RF_ERROR_INVALID_ARGUMENT);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
}

TEST(test_bad_arguments)
{
    float f[6] = { 0 };
    rf_dataset *d = numbers(), *out;
    const rf_array uneven[] = { { RF_F32, RF_SHAPE(3, 2), f }, { RF_F32, RF_SHAPE(2), f } };
    assert_int_equal(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = uneven, .num_arrays = 2 }, &out),
                     RF_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(rf_error_message(), "array 1 has 2 entries, array 0 has 3"));
    assert_null(out);
    assert_int_equal(rf_dataset_from_arrays(NULL, &out), RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_dataset_batch(d, 0, RF_REMAINDER_KEEP, &out), RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_dataset_shuffle(d, 0, 0, RF_SHUFFLE_ONCE, &out), RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_dataset_shard(d, 2, 2, &out), RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_dataset_take(NULL, 2, &out), RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_iterator_create(NULL, 0, NULL), RF_ERROR_INVALID_ARGUMENT);
    rf_dataset_destroy(&d);
    rf_dataset_destroy(&d);
    rf_dataset_destroy(NULL);
}

TESTS(dataset, NULL, NULL)
