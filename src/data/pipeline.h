/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of datasets. A dataset is an immutable, reference-counted description; an iterator is a chain of stages,
 * one per dataset node (a tree where a step has several inputs). A stage with known length whose elements can be
 * fetched by number is *indexed*; transformations of indexed stages stay indexed where that is possible, which makes a
 * full shuffle a permutation and a resumed iterator a jump. Other stages are read in order.
 */
#ifndef RF_DATA_PIPELINE_H
#define RF_DATA_PIPELINE_H

#include <pthread.h>
#include <stdatomic.h>

#include <ringfire/dataset.h>

#include "base/error.h"
#include "base/memory.h"

typedef struct rf_stage rf_stage;

typedef struct rf_dataset_kind {
    const char *name;
    /* Makes the stage's private part; stage->input exists already (for the given epoch) where the dataset has an input.
     * Decides stage->indexed and, for indexed stages, stage->count. */
    rf_result (*open)(rf_stage *stage);
    void (*close)(rf_stage *stage);
    /* Element number `index` < count of an indexed stage. Valid until the next call on the stage. */
    rf_result (*get)(rf_stage *stage, uint64_t index, const rf_element **out);
    /* Next element of a stage that is not indexed. */
    rf_result (*next)(rf_stage *stage, const rf_element **out);
    /* As `next`, without making the element; NULL where that is no less work. */
    rf_result (*pass_over)(rf_stage *stage);
    /* rf_stage_drop() of a stage that is not indexed; NULL: the element is the input's, fetched or failing. */
    rf_result (*drop)(rf_stage *stage);
    void (*free_dataset)(rf_dataset *dataset);
    /* Sources of several files: the dataset of files first, first + step, ... alone, and how many examples each file
     * has. */
    rf_result (*select_files)(const rf_dataset *dataset, uint32_t first, uint32_t step, rf_dataset **out);
    uint64_t (*file_examples)(const rf_dataset *dataset, uint32_t file);
    /* How many elements the step itself has left out because they cannot be made; NULL: none ever. */
    uint64_t (*left_out)(const rf_dataset *dataset);
    /* How many elements a source has cut to their shapes; NULL: none ever. */
    uint64_t (*cut)(const rf_dataset *dataset);
    bool keeps_elements;  /* elements are remembered (cache): what comes from below must not change */
    bool opens_own_input; /* the stage opens its input itself (repeat, prefetch, cache) */
} rf_dataset_kind;

struct rf_dataset {
    atomic_uint references;
    const rf_dataset_kind *kind;
    rf_dataset *input;   /* NULL for sources */
    rf_dataset **others; /* inputs after the first, of steps with several; references */
    uint32_t num_others;
    rf_element_spec spec;
    int64_t cardinality; /* of one pass; or RF_CARDINALITY_INFINITE, RF_CARDINALITY_UNKNOWN */
    uint32_t batch_size;
    uint64_t count, seed; /* numbers of the transformation: buffer size, repeats, shard ... */
    uint64_t index;
    bool flag;
    uint32_t num_files;          /* of sources with `select_files` */
    uint64_t names;              /* of sources of files: hash of their names, in order, for positions; 0: none */
    void *data;                  /* of the kind */
    rf_dataset *original;        /* whose `data` this is; a reference. NULL: its own */
    rf_dataset *stands_for;      /* whose positions this one's are (rows.h); a reference. NULL: its own */
    pthread_mutex_t lock;        /* for: */
    rf_iterator *iterators;      /* over it that exist now: the first of a list */
    uint32_t parts, first_shard; /* that were made of it (split.c) */
};

struct rf_stage {
    const rf_dataset *dataset;
    rf_stage *input;
    uint64_t epoch, position;
    bool indexed;
    uint64_t count;            /* of an indexed stage */
    const rf_element *pending; /* of the input: fetched, but not used yet (rf_stage_peek_input) */
    void *data;
    rf_element element; /* what get / next hand out, where the stage makes elements of its own */
    void *element_memory;
};

/* `free_dataset` of kinds whose data is one piece of memory. */
void rf_dataset_free_data(rf_dataset *dataset);
/* `open` of steps without a private part that read in order, whatever their input is. */
rf_result rf_stage_open_in_order(rf_stage *stage);

rf_result rf_dataset_is_indexed(const rf_dataset *dataset, bool *indexed);
rf_result rf_stage_open(const rf_dataset *dataset, uint64_t epoch, rf_stage **out);
void rf_stage_close(rf_stage **stage);
rf_result rf_stage_next(rf_stage *stage, const rf_element **out);
rf_result rf_stage_pass_over(rf_stage *stage);            /* as rf_stage_next(), for an element that nobody looks at */
rf_result rf_stage_skip(rf_stage *stage, uint64_t count); /* stops quietly at the end */
/* After rf_stage_next() failed: goes on behind the element that it failed at, which counts as if it had been handed
 * out.
 */
rf_result rf_stage_drop(rf_stage *stage);
/* The input's next element, for stages that read in order and may fail while they use it: it comes again until
 * rf_stage_take_input() says that it was used. So a failure loses no element: the next call begins where this one
 * did. */
rf_result rf_stage_peek_input(rf_stage *stage, const rf_element **out);
void rf_stage_take_input(rf_stage *stage);
/* The input's next element is not wanted: the `pass_over` of steps that make one element of one. */
rf_result rf_stage_pass_over_input(rf_stage *stage);

/* New node over `input` (one more reference) with the input's spec, cardinality and batch size. */
rf_result rf_dataset_derive(const rf_dataset *input, const rf_dataset_kind *kind, rf_dataset **out);
/* The same with `data` of so many bytes, zeros. */
rf_result rf_dataset_derive_with(const rf_dataset *input, const rf_dataset_kind *kind, size_t size, rf_dataset **out);
/* As rf_dataset_map_random(), where `user` is a copy of `size` bytes of settings. */
rf_result rf_dataset_derive_random(const rf_dataset *input, rf_random_map_fn fn, const void *settings, size_t size,
                                   uint64_t seed, const rf_element_spec *spec, rf_dataset **out);
rf_result rf_dataset_new(const rf_dataset_kind *kind, const rf_element_spec *spec, rf_dataset **out);
rf_dataset *rf_dataset_retain(const rf_dataset *dataset);
/* Whether this is an iterator over the dataset that has not been destroyed. Reads nothing of the iterator. */
bool rf_dataset_has_iterator(const rf_dataset *dataset, const rf_iterator *iterator);
/* Gives a state that rf_iterator_save() made, and a test has changed, its checksum. */
void rf_iterator_state_seal(void *state);
/* Elements first, first + stride, ... of a pass, at most `count` of them: what takes, skips and shards are. */
rf_result rf_dataset_window(const rf_dataset *in, uint64_t first, uint64_t stride, uint64_t count, rf_dataset **out);
/* The same step over another input. */
rf_result rf_dataset_clone_over(const rf_dataset *dataset, const rf_dataset *input, rf_dataset **out);
/* The kind of step whose place a slice took, for positions that any number of workers can continue from; NULL: none. */
const char *rf_slice_stands_for(const rf_dataset *dataset);
/* RF_ERROR_INVALID_ARGUMENT where the elements of two datasets differ in their types or shapes; the names are for the
 * message. */
rf_result rf_spec_check_same(const rf_element_spec *a, const char *a_name, const rf_element_spec *b,
                             const char *b_name);
/* The arrays of a source that is made of arrays: one for each component. */
const rf_array *rf_dataset_arrays(const rf_dataset *dataset);
/* Whether a map is one of the library's; depth 0: rf_dataset_map_scale_u8(), else rf_dataset_map_one_hot(). */
bool rf_dataset_builtin_map(const rf_dataset *dataset, uint32_t *component, uint32_t *depth);
/* Copies bytes, shapes and the place in the global batch. */
void rf_element_copy(rf_element *to, const rf_element *from);

size_t rf_component_bytes(const rf_element_spec *spec, uint32_t component);
size_t rf_element_bytes(const rf_element_spec *spec); /* sum, each component aligned */
/* Points an element's arrays into `memory`, laid out by rf_element_bytes. */
void rf_element_place(rf_element *element, const rf_element_spec *spec, void *memory);
rf_result rf_stage_allocate_element(rf_stage *stage, const rf_element_spec *spec);
/* `open` of sources whose elements lie in memory and are reached by number. */
rf_result rf_stage_open_in_place(rf_stage *stage);

/* Appends a file of CIFAR-10 or CIFAR-100, by the number of classes, to images u8 [n, 32, 32, 3] and labels i32 [n],
 * which begin empty. The caller frees both with rf_array_free(), also when this fails; `path` is for messages. */
rf_result rf_cifar_decode(const char *path, const uint8_t *bytes, size_t size, uint32_t num_classes, rf_array *images,
                          rf_array *labels);
/* The bytes of an IDX file, plain or gzipped, as rf_idx_read(); `path` is for messages. */
rf_result rf_idx_decode(const char *path, const uint8_t *bytes, size_t size, rf_array *out);
/* Images u8 [n, rows, columns, 1] and labels i32 [n] that belong together; each freed with rf_array_free(). */
rf_result rf_idx_read_pair(const char *images_path, const char *labels_path, rf_array arrays[2]);

extern const rf_dataset_kind rf_dataset_kind_arrays, rf_dataset_kind_generator, rf_dataset_kind_map,
    rf_dataset_kind_window, rf_dataset_kind_batch, rf_dataset_kind_repeat, rf_dataset_kind_cache,
    rf_dataset_kind_shuffle, rf_dataset_kind_prefetch, rf_dataset_kind_slice, rf_dataset_kind_files,
    rf_dataset_kind_random_map, rf_dataset_kind_filter, rf_dataset_kind_token_windows, rf_dataset_kind_zip,
    rf_dataset_kind_concatenate, rf_dataset_kind_unbatch, rf_dataset_kind_padded_batch, rf_dataset_kind_pack,
    rf_dataset_kind_images, rf_dataset_kind_flat_map, rf_dataset_kind_interleave, rf_dataset_kind_tfrecord,
    rf_dataset_kind_tar, rf_dataset_kind_text_lines, rf_dataset_kind_gettext, rf_dataset_kind_negatives,
    rf_dataset_kind_ignore_errors, rf_dataset_kind_first_pass, rf_dataset_kind_sample, rf_dataset_kind_windows;

#endif
