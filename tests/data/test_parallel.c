/* SPDX-License-Identifier: Apache-2.0 */
/* Elements that several threads make: in the order and with the bits that one thread makes, and all that is promised of
 * failures, positions and iterators that end early. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "../support/clock.h"
#include "../support/folder.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "combined.h"
#include "pictures.h"
#include <ringfire/readers.h>

enum { N = 120, BATCH = 7, PICTURES = 20, HEIGHT = 24, WIDTH = 20, MOST_BYTES = 1 << 20 };

static const uint32_t thread_counts[] = { 0, 1, 2, 4 };
enum { THREAD_COUNTS = sizeof(thread_counts) / sizeof(thread_counts[0]) };
static const rf_element_spec number = { .num_components = 1, .dtype = { RF_I32 } };
static char folder[SCRATCH_PATH];

static int begin(void **state)
{
    (void)state;
    write_pictures(scratch(folder), PICTURES, HEIGHT, WIDTH);
    return 0;
}

static int end(void **state)
{
    (void)state;
    scratch_remove(folder);
    return 0;
}

/* ---- order and bits ---- */

typedef enum pipeline { ARRAYS, RANDOM, CACHED, IMAGES, IN_ORDER, EMPTY, PIPELINES } pipeline;

static rf_dataset *batches(pipeline kind)
{
    rf_dataset *d;
    const rf_image_directory_params pictures = { .directory = folder };
    const rf_augment_params vary = { .flip = true, .pad = 3 };
    if (kind == IMAGES)
        OK(rf_dataset_from_image_directory(&pictures, &d));
    else
        d = kind == IN_ORDER ? count_in_order(0, N) : count_from(0, N);
    if (kind == CACHED) APPLY(d, rf_dataset_cache(d, &applied_));
    APPLY(d, rf_dataset_shuffle(d, N, 3, RF_SHUFFLE_EACH_PASS, &applied_));
    if (kind == IMAGES) APPLY(d, rf_dataset_map_augment(d, 0, 5, &vary, &applied_));
    if (kind == RANDOM || kind == IN_ORDER) APPLY(d, rf_dataset_map_random(d, scatter, NULL, 5, &number, &applied_));
    if (kind == EMPTY) APPLY(d, rf_dataset_take(d, 0, &applied_));
    APPLY(d, rf_dataset_batch(d, BATCH, RF_REMAINDER_KEEP, &applied_));
    return d;
}

/* All that an iterator has left, up to `limit` elements; the bytes of their shapes and data. */
static size_t read_bytes(rf_iterator *it, int limit, char *bytes)
{
    size_t size = 0;
    const rf_element *e;
    rf_result r;
    for (int i = 0; i < limit && (r = rf_iterator_next(it, &e)) != RF_END; i++) {
        OK(r);
        for (uint32_t c = 0; c < e->num_components; c++) {
            const rf_array *a = &e->component[c];
            const size_t data = (size_t)rf_shape_count(a->shape) * rf_dtype_size(a->dtype);
            assert_true(size + sizeof(int64_t) + data <= MOST_BYTES);
            memcpy(bytes + size, &a->shape.dim[0], sizeof(int64_t));
            memcpy(bytes + size + sizeof(int64_t), a->data, data);
            size += sizeof(int64_t) + data;
        }
    }
    return size;
}

static char expected_bytes[MOST_BYTES], bytes[MOST_BYTES];

static size_t bytes_of_pass(const rf_dataset *d, uint64_t epoch, char *out)
{
    rf_iterator *it;
    const rf_element *none;
    OK(rf_iterator_create(d, epoch, &it));
    const size_t size = read_bytes(it, INT32_MAX, out);
    assert_int_equal(rf_iterator_next(it, &none), RF_END); /* and again */
    rf_iterator_destroy(&it);
    return size;
}

TEST(test_order_and_bits)
{
    for (pipeline kind = 0; kind < PIPELINES; kind++)
        for (uint64_t epoch = 0; epoch < 2; epoch++) {
            rf_dataset *plain = batches(kind);
            const size_t size = bytes_of_pass(plain, epoch, expected_bytes);
            assert_int_equal(size > 0, kind != EMPTY);
            for (int t = 0; t < THREAD_COUNTS; t++) {
                rf_dataset *d;
                OK(rf_dataset_parallel(plain, thread_counts[t], &d));
                assert_int_equal(rf_dataset_cardinality(d), rf_dataset_cardinality(plain));
                assert_int_equal(bytes_of_pass(d, epoch, bytes), size);
                assert_memory_equal(bytes, expected_bytes, size);
                rf_dataset_destroy(&d);
            }
            rf_dataset_destroy(&plain);
        }
}

/* ---- side by side, and no further ahead than the buffer and the threads ---- */

typedef struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t inside, wanted, most; /* calls at the same time: now; that each waits for; seen */
    uint32_t calls, consumed, furthest;
} meeting;

/* Waits until enough calls are there. Not for ever: a single thread would. */
static rf_result meet(void *user, const rf_element *in, rf_element *out)
{
    meeting *m = user;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    pthread_mutex_lock(&m->lock);
    m->calls++;
    if (m->calls - m->consumed > m->furthest) m->furthest = m->calls - m->consumed;
    m->inside++;
    if (m->inside > m->most) m->most = m->inside;
    pthread_cond_broadcast(&m->changed);
    while (m->most < m->wanted)
        if (pthread_cond_timedwait(&m->changed, &m->lock, &until) != 0) m->wanted = 0;
    m->inside--;
    pthread_mutex_unlock(&m->lock);
    *(int32_t *)out->component[0].data = *(const int32_t *)in->component[0].data;
    return RF_OK;
}

static void check_threads(bool in_order, uint32_t num_threads, uint32_t expected)
{
    meeting m = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, .wanted = expected };
    rf_dataset *d = in_order ? count_in_order(0, N) : count_from(0, N);
    APPLY(d, rf_dataset_map(d, meet, &m, &number, &applied_));
    APPLY(d, rf_dataset_parallel(d, num_threads, &applied_));
    rf_iterator *it;
    const rf_element *e;
    OK(rf_iterator_create(d, 0, &it));
    for (int32_t i = 0; i < N; i++) {
        pthread_mutex_lock(&m.lock);
        m.consumed++; /* before the call, which may let a thread go on */
        pthread_mutex_unlock(&m.lock);
        OK(rf_iterator_next(it, &e));
        assert_int_equal(*(const int32_t *)e->component[0].data, i);
        if (i == N / 2) usleep(20000); /* the threads come as far as they may */
    }
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
    assert_int_equal(m.most, expected);
    assert_in_range(m.furthest, 0, 2 + expected);
}

TEST(test_side_by_side)
{
    check_threads(false, 1, 1);
    check_threads(false, 2, 2);
    check_threads(false, 5, 5);
    check_threads(true, 5, 1);
}

/* ---- failures ---- */

/* Multiples of five fail as many times as `left` says for each. */
typedef struct failing {
    atomic_int left[N];
} failing;

static rf_result fail_at_fives(void *user, const rf_element *in, rf_element *out)
{
    failing *f = user;
    const int32_t value = *(const int32_t *)in->component[0].data;
    if (value % 5 == 0 && atomic_fetch_sub(&f->left[value], 1) > 0) return RF_FAIL(RF_ERROR_IO, "no %d", value);
    *(int32_t *)out->component[0].data = *(const int32_t *)in->component[0].data;
    return RF_OK;
}

static rf_dataset *fives(failing *f, int times, bool in_order, uint32_t num_threads)
{
    rf_dataset *d = in_order ? count_in_order(0, N) : count_from(0, N);
    for (int i = 0; i < N; i++) atomic_init(&f->left[i], times);
    APPLY(d, rf_dataset_map(d, fail_at_fives, f, &number, &applied_));
    APPLY(d, rf_dataset_parallel(d, num_threads, &applied_));
    return d;
}

static void check_failures(bool in_order, uint32_t num_threads)
{
    failing f;
    rf_dataset *d = fives(&f, 2, in_order, num_threads);
    rf_iterator *it;
    const rf_element *e;
    OK(rf_iterator_create(d, 0, &it));
    for (int32_t i = 0; i < N; i++) {
        char message[64];
        snprintf(message, sizeof(message), "map, element %d: no %d", i, i);
        for (int again = 0; again < 2 && i % 5 == 0; again++) {
            assert_int_equal(rf_iterator_next(it, &e), RF_ERROR_IO);
            assert_string_equal(rf_error_message(), message);
        }
        OK(rf_iterator_next(it, &e));
        assert_int_equal(*(const int32_t *)e->component[0].data, i);
    }
    assert_int_equal(rf_iterator_next(it, &e), RF_END);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
}

static void check_ignored(uint32_t num_threads)
{
    failing f;
    rf_dataset *d = fives(&f, 1000, false, num_threads);
    APPLY(d, rf_dataset_ignore_errors(d, RF_IGNORE_SILENTLY, &applied_));
    rf_iterator *it;
    const rf_element *e;
    OK(rf_iterator_create(d, 0, &it));
    for (int32_t i = 0; i < N; i++) {
        if (i % 5 == 0) continue;
        OK(rf_iterator_next(it, &e));
        assert_int_equal(*(const int32_t *)e->component[0].data, i);
    }
    assert_int_equal(rf_iterator_next(it, &e), RF_END);
    assert_int_equal(rf_dataset_ignored_errors(d), N / 5);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
}

static rf_result fail_always(void *user, const rf_element *in, rf_element *out)
{
    (void)user;
    (void)out;
    return RF_FAIL(RF_ERROR_IO, "no %d", *(const int32_t *)in->component[0].data);
}

TEST(test_failures)
{
    for (int t = 0; t < THREAD_COUNTS; t++) {
        check_failures(false, thread_counts[t]);
        check_failures(true, thread_counts[t]);
        check_ignored(thread_counts[t]);
        rf_dataset *d = count_from(0, N);
        APPLY(d, rf_dataset_map(d, fail_always, NULL, &number, &applied_));
        APPLY(d, rf_dataset_parallel(d, thread_counts[t], &applied_));
        APPLY(d, rf_dataset_ignore_errors(d, RF_IGNORE_SILENTLY, &applied_));
        assert_int_equal(bytes_of_pass(d, 0, bytes), 0);
        assert_int_equal(rf_dataset_ignored_errors(d), N);
        rf_dataset_destroy(&d);
    }
}

/* ---- the end of an iterator ---- */

static uint32_t threads_now(void)
{
    rf_thread_list list;
    OK(rf_threads_list(&list));
    rf_free(list.items);
    return list.count;
}

/* A thread that was joined may be seen a moment longer, under qemu and ThreadSanitizer; also when `count` was taken. */
static void expect_threads(uint32_t count)
{
    const double end = seconds_now() + 0.1 * (slowness() - 1);
    while (threads_now() > count && seconds_now() < end) sched_yield();
    assert_true(threads_now() <= count);
}

/* In the middle, before the first element, behind the last one, and where elements have failed. */
TEST(test_early_end)
{
    const uint32_t before = threads_now();
    for (int read = 0; read <= N + N / 4; read += N / 4)
        for (int times = 0; times < 2; times++) {
            failing f;
            rf_dataset *d = fives(&f, times, false, 4);
            rf_iterator *it;
            const rf_element *e;
            OK(rf_iterator_create(d, 0, &it));
            rf_dataset_destroy(&d);
            for (int i = 0; i < read; i++) {
                const rf_result r = rf_iterator_next(it, &e);
                assert_true(r >= 0 || (times > 0 && r == RF_ERROR_IO));
            }
            rf_iterator_destroy(&it);
            expect_threads(before);
        }
}

/* ---- positions ---- */

/* `to` continues a pass over `from` of which `begun` batches were read. */
static void check_resumed(const rf_dataset *from, const rf_dataset *to, int begun)
{
    rf_iterator *it;
    void *saved;
    size_t size;
    OK(rf_iterator_create(from, 1, &it));
    const size_t first = read_bytes(it, begun, bytes);
    OK(rf_iterator_save(it, &saved, &size));
    rf_iterator_destroy(&it);
    OK(rf_iterator_restore(to, saved, size, &it));
    const size_t rest = read_bytes(it, INT32_MAX, bytes + first);
    const size_t whole = bytes_of_pass(from, 1, expected_bytes);
    assert_int_equal(first + rest, whole);
    assert_memory_equal(bytes, expected_bytes, whole);
    rf_iterator_destroy(&it);
    rf_iterator_state_free(saved);
}

/* Any number of threads continues what any other began, and a prefetch of two elements as well. */
TEST(test_positions)
{
    for (pipeline kind = 0; kind < EMPTY; kind++) {
        rf_dataset *plain = batches(kind), *d[THREAD_COUNTS + 1];
        for (int t = 0; t < THREAD_COUNTS; t++) OK(rf_dataset_parallel(plain, thread_counts[t], &d[t]));
        OK(rf_dataset_prefetch(plain, 2, &d[THREAD_COUNTS]));
        for (int t = 0; t <= THREAD_COUNTS; t++) {
            check_resumed(d[t], d[(t + 1) % (THREAD_COUNTS + 1)], 2);
            check_resumed(d[(t + 3) % (THREAD_COUNTS + 1)], d[t], 0);
        }
        for (int t = 0; t <= THREAD_COUNTS; t++) rf_dataset_destroy(&d[t]);
        rf_dataset_destroy(&plain);
    }
}

TEST(test_bad_arguments)
{
    rf_dataset *in = count_from(0, 4), *out = in;
    FAILS(rf_dataset_parallel(NULL, 2, &out), RF_ERROR_INVALID_ARGUMENT,
          "rf_dataset_parallel: the input dataset is NULL");
    assert_null(out);
    FAILS(rf_dataset_parallel(in, 2, NULL), RF_ERROR_INVALID_ARGUMENT, "rf_dataset_parallel: out is NULL");
    FAILS(rf_dataset_parallel(in, 257, &out), RF_ERROR_INVALID_ARGUMENT, "257 threads; give at most 256");
    OK(rf_dataset_parallel(in, 256, &out));
    rf_dataset_destroy(&out);
    rf_dataset_destroy(&in);
}

TESTS(parallel, begin, end)
