/* SPDX-License-Identifier: Apache-2.0 */
/* Batches spread over workers: together they are what one worker sees, in the same order, every example once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/apply.h"
#include "../support/folder.h"
#include "base/error.h"
#include "base/memory.h"
#include "combined.h"
#include "data/slice.h"
#include "tests/room.h"

enum { N = 103, BATCH = 16, MOST_WORKERS = 5 };

typedef struct shares {
    uint32_t num_workers;
    uint32_t weight[MOST_WORKERS];
} shares;

/* In proportion to the weights, what is left over to the first. */
static void split(const void *user, uint32_t rows, uint32_t *counts)
{
    const shares *s = user;
    uint32_t total = 0, given = 0;
    for (uint32_t w = 0; w < s->num_workers; w++) total += s->weight[w];
    for (uint32_t w = 0; w < s->num_workers; w++) given += counts[w] = rows * s->weight[w] / total;
    counts[0] += rows - given;
}

static rf_slice_params slice_params(uint32_t worker, uint32_t num_workers, bool by_file)
{
    shares *s = RF_NEW(shares);
    assert_non_null(s);
    s->num_workers = num_workers;
    for (uint32_t w = 0; w < num_workers; w++) s->weight[w] = 1 + w % 3;
    return (
        rf_slice_params){ .worker = worker, .num_workers = num_workers, .by_file = by_file, .split = split, .user = s };
}

static rf_dataset *numbers(void)
{
    static int32_t values[N];
    for (int i = 0; i < N; i++) values[i] = i;
    const rf_array array = { RF_I32, RF_SHAPE(N), values };
    rf_dataset *d;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &array, .num_arrays = 1 }, &d));
    return d;
}

static rf_result generate(void *user, uint64_t index, rf_element *out)
{
    (void)user;
    if (index >= N) return RF_END;
    *(int32_t *)out->component[0].data = (int32_t)index;
    return RF_OK;
}

typedef enum pipeline {
    PLAIN,
    WITH_CACHE,
    NOT_INDEXED,
    CACHED_BATCHES,
    REPEATED,
    RANDOM,
    PARALLEL,
    PIPELINES
} pipeline;

static rf_dataset *make(pipeline kind)
{
    rf_dataset *d;
    if (kind == NOT_INDEXED)
        OK(rf_dataset_from_generator(
            &(rf_dataset_generator_params){ generate, NULL, { 1, { RF_I32 }, { RF_SCALAR_SHAPE } }, 0 }, &d));
    else
        d = numbers();
    if (kind == WITH_CACHE) APPLY(d, rf_dataset_cache(d, &applied_));
    APPLY(d, rf_dataset_shuffle(d, kind == NOT_INDEXED ? 20 : N, 7, RF_SHUFFLE_EACH_PASS, &applied_));
    if (kind == RANDOM || kind == PARALLEL) {
        const rf_element_spec spec = { .num_components = 1, .dtype = { RF_I32 } };
        APPLY(d, rf_dataset_map_random(d, scatter, NULL, 5, &spec, &applied_));
    }
    APPLY(d, rf_dataset_batch(d, BATCH, RF_REMAINDER_KEEP, &applied_));
    if (kind == CACHED_BATCHES) APPLY(d, rf_dataset_cache(d, &applied_));
    if (kind == REPEATED) {
        APPLY(d, rf_dataset_repeat(d, 2, &applied_));
        APPLY(d, rf_dataset_skip(d, 3, &applied_));
    }
    APPLY(d, kind == PARALLEL ? rf_dataset_parallel(d, 3, &applied_) : rf_dataset_prefetch(d, 2, &applied_));
    return d;
}

/* Walks the whole pipeline and all slices of it side by side. */
static void compare_with_slices(pipeline kind, uint32_t num_workers, uint64_t epoch)
{
    rf_dataset *whole = make(kind), *slices[MOST_WORKERS];
    rf_iterator *all, *parts[MOST_WORKERS];
    OK(rf_iterator_create(whole, epoch, &all));
    for (uint32_t w = 0; w < num_workers; w++) {
        const rf_slice_params p = slice_params(w, num_workers, false);
        OK(rf_dataset_slice(whole, &p, &slices[w]));
        assert_int_equal(rf_dataset_batch_size(slices[w]), BATCH);
        assert_int_equal(rf_dataset_cardinality(slices[w]), rf_dataset_cardinality(whole));
        OK(rf_iterator_create(slices[w], epoch, &parts[w]));
    }
    int batches = 0;
    for (;; batches++) {
        const rf_element *e, *part;
        const rf_result r = rf_iterator_next(all, &e);
        const int32_t *values = r == RF_OK ? e->component[0].data : NULL;
        int64_t at = 0;
        for (uint32_t w = 0; w < num_workers; w++) {
            assert_int_equal(rf_iterator_next(parts[w], &part), r);
            if (r == RF_END) continue;
            const int64_t rows = part->component[0].shape.dim[0];
            assert_int_equal(part->first_row, at);
            assert_int_equal(part->global_rows, e->component[0].shape.dim[0]);
            assert_int_equal(rf_element_global_rows(part), rf_element_global_rows(e));
            if (rows > 0) assert_memory_equal(part->component[0].data, values + at, (size_t)rows * sizeof(int32_t));
            at += rows;
        }
        if (r == RF_END) break;
        assert_int_equal(at, e->component[0].shape.dim[0]);
    }
    assert_int_equal(batches, kind == REPEATED ? 2 * 7 - 3 : 7);
    for (uint32_t w = 0; w < num_workers; w++) {
        rf_iterator_destroy(&parts[w]);
        rf_dataset_destroy(&slices[w]);
    }
    rf_iterator_destroy(&all);
    rf_dataset_destroy(&whole);
}

TEST(test_by_example)
{
    for (int kind = 0; kind < PIPELINES; kind++)
        for (uint32_t workers = 1; workers <= MOST_WORKERS; workers++)
            for (uint64_t epoch = 0; epoch < 2; epoch++) compare_with_slices((pipeline)kind, workers, epoch);
}

/* Counts what a sliced pipeline really reads. */
static rf_result count_reads(void *user, const rf_element *in, rf_element *out)
{
    ++*(int *)user;
    *(int32_t *)out->component[0].data = *(const int32_t *)in->component[0].data;
    return RF_OK;
}

TEST(test_reads_only_its_own)
{
    int reads = 0;
    rf_dataset *d = numbers();
    rf_element_spec spec;
    rf_dataset_spec(d, &spec);
    APPLY(d, rf_dataset_map(d, count_reads, &reads, &spec, &applied_));
    APPLY(d, rf_dataset_shuffle(d, N, 1, RF_SHUFFLE_EACH_PASS, &applied_));
    APPLY(d, rf_dataset_batch(d, BATCH, RF_REMAINDER_KEEP, &applied_));
    const rf_slice_params p = slice_params(1, 2, false); /* two of three rows */
    APPLY(d, rf_dataset_slice(d, &p, &applied_));
    rf_iterator *it;
    const rf_element *e;
    int rows = 0;
    OK(rf_iterator_create(d, 0, &it));
    while (rf_iterator_next(it, &e) == RF_OK) rows += (int)e->component[0].shape.dim[0];
    assert_int_equal(reads, rows);
    assert_in_range(rows, N / 2, N * 2 / 3);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
}

/* A position saved with one number of workers continues with another. */
TEST(test_positions_do_not_depend_on_workers)
{
    for (int kind = 0; kind < PIPELINES; kind++) {
        rf_dataset *whole = make((pipeline)kind), *slice;
        const rf_slice_params p = slice_params(1, 3, false);
        OK(rf_dataset_slice(whole, &p, &slice));
        rf_iterator *it, *resumed;
        const rf_element *e, *part;
        OK(rf_iterator_create(slice, 1, &it));
        OK(rf_iterator_next(it, &part));
        OK(rf_iterator_next(it, &part));
        void *saved;
        size_t size;
        OK(rf_iterator_save(it, &saved, &size));
        OK(rf_iterator_restore(whole, saved, size, &resumed));
        OK(rf_iterator_next(it, &part));
        OK(rf_iterator_next(resumed, &e));
        assert_memory_equal(part->component[0].data, (const int32_t *)e->component[0].data + part->first_row,
                            (size_t)part->component[0].shape.dim[0] * sizeof(int32_t));
        rf_iterator_state_free(saved);
        rf_iterator_destroy(&it);
        rf_iterator_destroy(&resumed);
        rf_dataset_destroy(&slice);
        rf_dataset_destroy(&whole);
    }
}

/* ---- by file ---- */

enum { FILES = 5 };
static const uint32_t file_sizes[FILES] = { 30, 7, 19, 40, 11 };

static void put_be32(FILE *f, uint32_t v)
{
    const uint8_t bytes[4] = { (uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v };
    assert_int_equal(fwrite(bytes, 1, 4, f), 4);
}

/* Image pixels and labels hold the example's number. */
static void write_pair(const char *images, const char *labels, uint32_t first, uint32_t count, uint32_t columns)
{
    FILE *f = fopen(images, "wb");
    assert_non_null(f);
    put_be32(f, 0x00000803);
    put_be32(f, count);
    put_be32(f, 2);
    put_be32(f, columns);
    for (uint32_t i = 0; i < count * 2 * columns; i++) fputc((int)(first + i / (2 * columns)), f);
    fclose(f);
    f = fopen(labels, "wb");
    assert_non_null(f);
    put_be32(f, 0x00000801);
    put_be32(f, count);
    for (uint32_t i = 0; i < count; i++) fputc((int)(first + i), f);
    fclose(f);
}

typedef struct files {
    char directory[SCRATCH_PATH];
    char images[FILES][96], labels[FILES][96];
    const char *image_list[FILES], *label_list[FILES];
} files;

static void write_files(files *f)
{
    scratch(f->directory);
    uint32_t first = 0;
    for (int i = 0; i < FILES; i++) {
        snprintf(f->images[i], sizeof(f->images[i]), "%s/images-%d", f->directory, i);
        snprintf(f->labels[i], sizeof(f->labels[i]), "%s/labels-%d", f->directory, i);
        write_pair(f->images[i], f->labels[i], first, file_sizes[i], 3);
        f->image_list[i] = f->images[i];
        f->label_list[i] = f->labels[i];
        first += file_sizes[i];
    }
}

static void remove_files(files *f)
{
    for (int i = 0; i < FILES; i++) {
        unlink(f->images[i]);
        unlink(f->labels[i]);
    }
    rmdir(f->directory);
}

TEST(test_files_are_one_dataset)
{
    files f;
    write_files(&f);
    rf_dataset *d;
    OK(rf_dataset_from_idx_files(f.image_list, f.label_list, FILES, &d));
    assert_int_equal(rf_dataset_cardinality(d), 107);
    rf_iterator *it;
    OK(rf_iterator_create(d, 0, &it));
    const rf_element *e;
    int n = 0;
    for (; rf_iterator_next(it, &e) == RF_OK; n++) {
        assert_int_equal(*(const int32_t *)e->component[1].data, n);
        assert_int_equal(((const uint8_t *)e->component[0].data)[5], n);
    }
    assert_int_equal(n, 107);
    /* In another order they are another dataset. */
    rf_dataset *swapped;
    rf_iterator *resumed;
    void *saved;
    size_t size;
    OK(rf_iterator_save(it, &saved, &size));
    const char *const images[] = { f.images[1], f.images[0], f.images[2] };
    const char *const labels[] = { f.labels[1], f.labels[0], f.labels[2] };
    OK(rf_dataset_from_idx_files(images, labels, 3, &swapped));
    FAILS(rf_iterator_restore(swapped, saved, size, &resumed), RF_ERROR_INVALID_ARGUMENT,
          "the same files in the same order");
    rf_iterator_state_free(saved);
    rf_dataset_destroy(&swapped);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
    /* Files that do not fit together are named. */
    write_pair(f.images[2], f.labels[2], 0, 3, 4);
    assert_int_equal(rf_dataset_from_idx_files(f.image_list, f.label_list, FILES, &d), RF_ERROR_CORRUPT_DATA);
    assert_non_null(strstr(rf_error_message(), f.images[2]));
    assert_null(d);
    remove_files(&f);
}

static void check_by_file(const files *f, uint32_t num_workers)
{
    rf_dataset *d, *slices[MOST_WORKERS];
    rf_iterator *its[MOST_WORKERS];
    OK(rf_dataset_from_idx_files(f->image_list, f->label_list, FILES, &d));
    APPLY(d, rf_dataset_map_scale_u8(d, 0, &applied_));
    APPLY(d, rf_dataset_cache(d, &applied_));
    APPLY(d, rf_dataset_shuffle(d, 1000, 3, RF_SHUFFLE_EACH_PASS, &applied_));
    APPLY(d, rf_dataset_batch(d, BATCH, RF_REMAINDER_KEEP, &applied_));
    APPLY(d, rf_dataset_prefetch(d, 1, &applied_));
    for (uint32_t w = 0; w < num_workers; w++) {
        const rf_slice_params p = slice_params(w, num_workers, true);
        OK(rf_dataset_slice(d, &p, &slices[w]));
        OK(rf_iterator_create(slices[w], 0, &its[w]));
    }
    int seen[107] = { 0 }, total = 0;
    for (rf_result r = RF_OK; r == RF_OK;) {
        uint32_t at = 0, global = 0;
        for (uint32_t w = 0; w < num_workers; w++) {
            const rf_element *e;
            const rf_result mine = rf_iterator_next(its[w], &e);
            if (w > 0) assert_int_equal(mine, r); /* all end together */
            r = mine;
            if (r != RF_OK) continue;
            assert_int_equal(e->first_row, at);
            if (w > 0) assert_int_equal(e->global_rows, global);
            global = e->global_rows;
            for (int64_t i = 0; i < e->component[1].shape.dim[0]; i++)
                seen[((const int32_t *)e->component[1].data)[i]]++;
            at += (uint32_t)e->component[1].shape.dim[0];
        }
        assert_int_equal(at, global);
        total += (int)global;
    }
    assert_int_equal(total, 107);
    for (int i = 0; i < 107; i++) assert_int_equal(seen[i], 1);
    for (uint32_t w = 0; w < num_workers; w++) {
        rf_iterator_destroy(&its[w]);
        rf_dataset_destroy(&slices[w]);
    }
    rf_dataset_destroy(&d);
}

TEST(test_by_file)
{
    files f;
    write_files(&f);
    for (uint32_t workers = 1; workers <= MOST_WORKERS; workers++) check_by_file(&f, workers);
    remove_files(&f);
}

/* Only the files of a worker are ever loaded. */
TEST(test_other_files_stay_closed)
{
    files f;
    write_files(&f);
    rf_dataset *d;
    OK(rf_dataset_from_idx_files(f.image_list, f.label_list, FILES, &d));
    APPLY(d, rf_dataset_batch(d, BATCH, RF_REMAINDER_KEEP, &applied_));
    const rf_slice_params p = slice_params(1, 2, true); /* files 1 and 3 */
    APPLY(d, rf_dataset_slice(d, &p, &applied_));
    for (int i = 0; i < FILES; i += 2) unlink(f.images[i]);
    rf_iterator *it;
    const rf_element *e;
    int rows = 0;
    OK(rf_iterator_create(d, 0, &it));
    while (rf_iterator_next(it, &e) == RF_OK) rows += (int)e->component[0].shape.dim[0];
    assert_int_equal(rows, 47);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
    remove_files(&f);
}

static void expect_refusal(rf_dataset *d, bool by_file, uint32_t num_workers, const char *word)
{
    rf_dataset *out;
    const rf_slice_params p = slice_params(0, num_workers, by_file);
    assert_int_equal(rf_dataset_slice(d, &p, &out), RF_ERROR_INVALID_ARGUMENT);
    assert_null(out);
    assert_non_null(strstr(rf_error_message(), word));
}

TEST(test_refusals)
{
    rf_dataset *d = numbers();
    expect_refusal(d, false, 2, "not batched");
    APPLY(d, rf_dataset_batch(d, BATCH, RF_REMAINDER_KEEP, &applied_));
    expect_refusal(d, true, 2, "not made of files");
    rf_dataset_destroy(&d);
    files f;
    write_files(&f);
    OK(rf_dataset_from_idx_files(f.image_list, f.label_list, 2, &d));
    rf_dataset *changed;
    OK(rf_dataset_take(d, 20, &changed));
    APPLY(changed, rf_dataset_batch(changed, BATCH, RF_REMAINDER_KEEP, &applied_));
    expect_refusal(changed, true, 2, "'window'");
    rf_dataset_destroy(&changed);
    OK(rf_dataset_batch(d, BATCH, RF_REMAINDER_DROP, &changed));
    expect_refusal(changed, true, 2, "remainder");
    rf_dataset_destroy(&changed);
    OK(rf_dataset_batch(d, 1, RF_REMAINDER_KEEP, &changed));
    expect_refusal(changed, true, 2, "larger batches");
    rf_dataset_destroy(&changed);
    APPLY(d, rf_dataset_batch(d, BATCH, RF_REMAINDER_KEEP, &applied_));
    expect_refusal(d, true, 3, "2 files for 3 workers");
    rf_dataset_destroy(&d);
    remove_files(&f);
}

TESTS(slice, NULL, NULL)
