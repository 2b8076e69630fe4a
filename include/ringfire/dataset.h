/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Input pipelines in the manner of tf.data: a dataset is an immutable description; an iterator
 * walks it.
 *
 * An *element* is a tuple of up to RF_MAX_COMPONENTS arrays, e.g. (image [28,28,1] f32, label []
 * i32). Transformations return a new dataset that holds a reference to its input, so the input may
 * be destroyed right away. Datasets are immutable and may be shared by threads; an iterator belongs
 * to one thread at a time.
 */
#ifndef RINGFIRE_DATASET_H
#define RINGFIRE_DATASET_H

#include <ringfire/common.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RF_MAX_COMPONENTS 8

typedef struct rf_dataset rf_dataset;
typedef struct rf_iterator rf_iterator;

/** Types and shapes of the components of a dataset's elements. After batching, dim[0] is the batch
 * (the last one may be smaller); dim[0] here is then the nominal batch size. */
typedef struct rf_element_spec {
    uint32_t num_components;
    rf_dtype dtype[RF_MAX_COMPONENTS];
    rf_shape shape[RF_MAX_COMPONENTS];
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_element_spec;

/** One element (or batch of elements) in host memory. */
typedef struct rf_element {
    uint32_t num_components;
    rf_array component[RF_MAX_COMPONENTS];
    /** Of a batch whose rows are spread over the workers of a job: this element holds the rows from
     * `first_row` on of the global batch's `global_rows` (dim[0] of the components says how many,
     * none included). 0: it is the whole batch. */
    uint32_t first_row, global_rows;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_element;

/** Rows of the global batch that a batch belongs to: its own, or those of all workers. */
RF_API int64_t rf_element_global_rows(const rf_element *batch);

/* ---- sources ---- */

/** Slices arrays along dimension 0 (tf.data's from_tensor_slices). All arrays must agree in dim[0].
 *  The bytes are copied unless `borrow` is set; then they must outlive every dataset and iterator
 * made from this one. */
typedef struct rf_dataset_arrays_params {
    const rf_array *arrays;
    uint32_t num_arrays;
    bool borrow;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_dataset_arrays_params;
RF_API RF_MUST_USE rf_result rf_dataset_from_arrays(const rf_dataset_arrays_params *params,
                                                    rf_dataset **out);

/** Several pairs of IDX files one after the other, as if they were one; all images must have one
 * size. Every file is looked at once here; its data is loaded when first needed and kept from then
 * on, so that a worker that is given only some of the files (rf_strategy_distribute_dataset() by
 * file) never holds the others. */
RF_API RF_MUST_USE rf_result rf_dataset_from_idx_files(const char *const *images_paths,
                                                       const char *const *labels_paths,
                                                       uint32_t num_files, rf_dataset **out);

/** Which half of an MNIST-like directory to read. */
typedef enum rf_split { RF_SPLIT_TRAIN, RF_SPLIT_TEST } rf_split;

/** Images and labels from one IDX file each, plain or gzipped (detected from content, not from the
 * name). Elements: (image u8 [rows, columns, 1], label i32 []). */
RF_API RF_MUST_USE rf_result rf_dataset_from_idx(const char *images_path, const char *labels_path,
                                                 rf_dataset **out);

/** Finds the four files of an MNIST-like directory (train-images-idx3-ubyte[.gz] and so on; `-` or
 * `.` before "idx").
 *  @param directory NULL: the environment variable RINGFIRE_DATA, else the distribution's
 * Fashion-MNIST. */
RF_API RF_MUST_USE rf_result rf_dataset_from_mnist_directory(const char *directory, rf_split split,
                                                             rf_dataset **out);

/** Reads one IDX file, plain or gzipped, of any type and up to RF_MAX_RANK dimensions (u8, i32 and
 * f32 kept, i8 and i16 widened to i32, f64 narrowed to f32). `out->data` is owned by the caller:
 * rf_array_free(). */
RF_API RF_MUST_USE rf_result rf_idx_read(const char *path, rf_array *out);
/** Frees an array whose data the library allocated and zeroes it. */
RF_API void rf_array_free(rf_array *array);

/** Fills the element (buffers are allocated to `spec`); index counts from 0 in each pass.
 *  Returns RF_OK, RF_END at the end, or an error that the iterator passes on: the next call on the
 * iterator then asks for the same element again. Any other code is RF_ERROR_INVALID_ARGUMENT. */
typedef rf_result (*rf_generator_fn)(void *user, uint64_t index, rf_element *out);
typedef struct rf_dataset_generator_params {
    rf_generator_fn generate;
    void *user;
    rf_element_spec spec;
    uint64_t cardinality; /**< number of elements when known, else 0 */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_dataset_generator_params;
RF_API RF_MUST_USE rf_result rf_dataset_from_generator(const rf_dataset_generator_params *params,
                                                       rf_dataset **out);

/* ---- transformations ---- */

/** Maps one element to another: `in` is read-only, `out` has buffers allocated to the spec given.
 * Must be pure when the dataset is cached or its iterator state is saved. May be called from the
 * prefetch thread. Returns RF_OK or an error that the iterator passes on: the next call on the
 * iterator then brings the same element again. Any positive code is RF_ERROR_INVALID_ARGUMENT. */
typedef rf_result (*rf_map_fn)(void *user, const rf_element *in, rf_element *out);
RF_API RF_MUST_USE rf_result rf_dataset_map(const rf_dataset *in, rf_map_fn fn, void *user,
                                            const rf_element_spec *spec, rf_dataset **out);
/** Scales pixels to [0, 1]: component `index` (u8) becomes f32 divided by 255. */
RF_API RF_MUST_USE rf_result rf_dataset_map_scale_u8(const rf_dataset *in, uint32_t index,
                                                     rf_dataset **out);
/** Component `index` (i32 scalar, class number) becomes an f32 one-hot vector of `depth`. */
RF_API RF_MUST_USE rf_result rf_dataset_map_one_hot(const rf_dataset *in, uint32_t index,
                                                    uint32_t depth, rf_dataset **out);
/** Keeps the elements in memory; later passes (and iterators) read from there. Where the steps
 * below are read in order, a cache is complete once a pass has come to its end: what an iterator
 * kept that stops before is discarded, and the next pass begins anew. All passes have the order of
 * epoch 0, whatever shuffles below: shuffle after the cache for an order of its own in each epoch.
 */
RF_API RF_MUST_USE rf_result rf_dataset_cache(const rf_dataset *in, rf_dataset **out);
/** Shuffles through a buffer of `buffer_size` elements (>= cardinality gives a full shuffle). Same
 * seed, same order; with `reshuffle_each_iteration` (pass true for tf.data's default) pass n of the
 * iterator uses a stream of its own. */
RF_API RF_MUST_USE rf_result rf_dataset_shuffle(const rf_dataset *in, uint64_t buffer_size,
                                                uint64_t seed, bool reshuffle_each_iteration,
                                                rf_dataset **out);
/** Groups elements along a new dimension 0. Without `drop_remainder` the last batch may be smaller.
 */
RF_API RF_MUST_USE rf_result rf_dataset_batch(const rf_dataset *in, uint32_t batch_size,
                                              bool drop_remainder, rf_dataset **out);
/** `count` passes over the input; 0 means for ever. */
RF_API RF_MUST_USE rf_result rf_dataset_repeat(const rf_dataset *in, uint64_t count,
                                               rf_dataset **out);
RF_API RF_MUST_USE rf_result rf_dataset_take(const rf_dataset *in, uint64_t count,
                                             rf_dataset **out);
RF_API RF_MUST_USE rf_result rf_dataset_skip(const rf_dataset *in, uint64_t count,
                                             rf_dataset **out);
/** Every `num_shards`-th element, beginning with `index`. */
RF_API RF_MUST_USE rf_result rf_dataset_shard(const rf_dataset *in, uint32_t num_shards,
                                              uint32_t index, rf_dataset **out);
/** Prepares up to `buffer_size` elements ahead in a background thread; 0 means 2. */
RF_API RF_MUST_USE rf_result rf_dataset_prefetch(const rf_dataset *in, uint32_t buffer_size,
                                                 rf_dataset **out);

RF_API void rf_dataset_destroy(rf_dataset **dataset);
/** Types and shapes of the elements. */
RF_API void rf_dataset_spec(const rf_dataset *dataset, rf_element_spec *out);
/** Cardinality of a dataset that never ends, as tf.data's INFINITE_CARDINALITY. */
#define RF_CARDINALITY_INFINITE (-1)
/** Cardinality of a dataset that has to be read to be counted, as tf.data's UNKNOWN_CARDINALITY. */
#define RF_CARDINALITY_UNKNOWN (-2)
/** Number of elements of one pass, ::RF_CARDINALITY_INFINITE or ::RF_CARDINALITY_UNKNOWN. */
RF_API int64_t rf_dataset_cardinality(const rf_dataset *dataset);
/** Batch size of the nearest rf_dataset_batch() below, 0 when not batched. */
RF_API uint32_t rf_dataset_batch_size(const rf_dataset *dataset);

/* ---- iteration ---- */

/** Starts a pass. The n-th iterator of a reshuffling dataset is the n-th epoch: `epoch` selects its
 * order. */
RF_API RF_MUST_USE rf_result rf_iterator_create(const rf_dataset *dataset, uint64_t epoch,
                                                rf_iterator **out);
/** Next element; `out` borrows memory of the iterator that stays valid until the next call on it.
 *  @return RF_OK, RF_END, or an error. After an error the iterator stays at its place: the next
 * call tries the same element again, and none is lost. */
RF_API RF_MUST_USE rf_result rf_iterator_next(rf_iterator *iterator, const rf_element **out);
/** Serialises the position (not the data) so that a new iterator of an equal dataset continues with
 * the very element that would have come next. Where only the batch size differs, at most
 * rf_dataset_map() and rf_dataset_prefetch() following the batch, it continues with the example
 * that would have come next, so that the pass sees each once.
 *  `*state` is owned by the caller: free with rf_iterator_state_free(). */
RF_API RF_MUST_USE rf_result rf_iterator_save(const rf_iterator *iterator, void **state,
                                              size_t *size);
RF_API RF_MUST_USE rf_result rf_iterator_restore(const rf_dataset *dataset, const void *state,
                                                 size_t size, rf_iterator **out);
RF_API void rf_iterator_state_free(void *state);
RF_API void rf_iterator_destroy(rf_iterator **iterator);

#ifdef __cplusplus
}
#endif
#endif
