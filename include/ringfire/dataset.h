/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Input pipelines in the manner of tf.data: a dataset is an immutable description; an iterator
 * walks over it.
 *
 * An *element* is a tuple of up to RF_MAX_COMPONENTS arrays, e.g. (image [28,28,1] f32, label []
 * i32).
 *
 * The following holds for the whole header unless a comment states otherwise.
 *  - Transformations return a new dataset, owned by the caller, that holds a reference to its
 *    input: the input may be destroyed right away.
 *  - Datasets may be shared by threads. An iterator may be used by one thread at a time.
 *  - Creating a dataset or an iterator checks its arguments only; elements are made by
 *    rf_iterator_next(). Functions of the caller are then called by the thread that calls it or by
 *    a prefetch thread, and must be able to run there. Below rf_dataset_parallel() several threads
 *    call them at the same time.
 */
#ifndef RINGFIRE_DATASET_H
#define RINGFIRE_DATASET_H

#include <ringfire/common.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The largest number of components of an element. */
#define RF_MAX_COMPONENTS 8

/** A description of elements: a source and the steps applied to it. Immutable. */
typedef struct rf_dataset rf_dataset;
/** One pass over a dataset. */
typedef struct rf_iterator rf_iterator;

/**
 * Types and shapes of the components of a dataset's elements.
 * After batching, dim[0] is the nominal batch size; the last batch may be smaller.
 */
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
    /**
     * For a batch whose rows are spread over the workers of a job. This element holds dim[0] of the
     * `global_rows` rows of the global batch, from `first_row` on; dim[0] may be 0.
     * `global_rows` 0: the element is the whole batch.
     */
    uint32_t first_row, global_rows;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_element;

/**
 * Number of rows of the global batch that `batch` belongs to: its own rows, or those of all workers
 * together.
 * Thread-safe.
 */
RF_API int64_t rf_element_global_rows(const rf_element *batch);

/* ---- sources ---- */

/** Arrays for rf_dataset_from_arrays(). */
typedef struct rf_dataset_arrays_params {
    const rf_array *arrays; /**< one for each component; all must have the same dim[0] */
    uint32_t num_arrays;
    /**
     * Use the bytes in place instead of copying them. They must then outlive every dataset and
     * iterator made from this one.
     */
    bool borrow;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_dataset_arrays_params;
/**
 * Slices arrays along dimension 0 (tf.data's from_tensor_slices).
 * @return RF_ERROR_INVALID_ARGUMENT when dim[0] differs between the arrays.
 */
RF_API RF_MUST_USE rf_result rf_dataset_from_arrays(const rf_dataset_arrays_params *params,
                                                    rf_dataset **out);

/**
 * Windows of a long sequence, for models that learn what comes next: elements are (tokens i32
 * [length], the tokens that follow each of them i32 [length]), the second one being the first
 * shifted by one.
 * @param tokens i32 [n], copied. n is at least length + 1.
 * @param step how far a window begins after the one before; 0: `length`, so that none overlap.
 * @return RF_ERROR_INVALID_ARGUMENT when there are too few tokens for one window.
 */
RF_API RF_MUST_USE rf_result rf_dataset_from_tokens(const rf_array *tokens, uint32_t length,
                                                    uint32_t step, rf_dataset **out);

/** Pairs for rf_dataset_from_pairs(). All that it points to is read by the call only. */
typedef struct rf_pairs_params {
    const rf_array *users, *items; /**< i32 [n]: who took what; numbers from 0 on */
    /** i32 [m]: pairs that are no elements, but not drawn either, as those kept for a test; NULL */
    const rf_array *other_users, *other_items;
    uint32_t num_items;   /**< items are 0 to num_items - 1 */
    uint32_t negatives;   /**< that are drawn for each pair: 1 to 1000000 */
    uint64_t seed;        /**< of the draws */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_pairs_params;
/**
 * For models that learn from what users took alone (recommenders): elements are (user i32 [], item
 * i32 [], label f32 [1]). Each pair has the label 1, and after it come `negatives` times its user
 * with an item and the label 0. Those items are drawn anew in each pass, evenly from all that the
 * user does not have; one may come twice. They depend on the seed, the pass and the place in it
 * alone: not on threads, on the number of workers, or on where training was interrupted. Elements
 * are fetched by number: a shuffle of all of them is a permutation. The memory is that of the
 * pairs, twice, and 8 bytes for each number up to the largest user.
 * @return RF_ERROR_INVALID_ARGUMENT when a number is out of range, or a user has every item.
 */
RF_API RF_MUST_USE rf_result rf_dataset_from_pairs(const rf_pairs_params *params, rf_dataset **out);

/**
 * Several pairs of IDX files in sequence, as if they were one; all images must have the same size.
 * Blocking: reads the header of every file. The data of a file is loaded when it is first needed
 * and kept from then on, so that a worker that reads only some of the files
 * (::RF_DISTRIBUTE_BY_FILE) never holds the others.
 * @return RF_ERROR_NOT_FOUND, RF_ERROR_IO or RF_ERROR_CORRUPT_DATA with the name of the file.
 */
RF_API RF_MUST_USE rf_result rf_dataset_from_idx_files(const char *const *images_paths,
                                                       const char *const *labels_paths,
                                                       uint32_t num_files, rf_dataset **out);

/** Which part of an MNIST-like directory to read. */
typedef enum rf_split { RF_SPLIT_TRAIN, RF_SPLIT_TEST } rf_split;

/**
 * Images and labels from one IDX file each, plain or gzipped (detected from the content, not from
 * the name).
 * Elements are (image u8 [rows, columns, 1], label i32 []). Blocking: reads both files.
 * @return RF_ERROR_NOT_FOUND, RF_ERROR_IO or RF_ERROR_CORRUPT_DATA with the name of the file.
 */
RF_API RF_MUST_USE rf_result rf_dataset_from_idx(const char *images_path, const char *labels_path,
                                                 rf_dataset **out);

/**
 * Finds the files of a split in an MNIST-like directory (train-images-idx3-ubyte[.gz] and so on,
 * with a hyphen or a dot before "idx") and reads them as rf_dataset_from_idx() does.
 * @param directory NULL: the environment variable RINGFIRE_DATA, else the Fashion-MNIST of the
 *   distribution.
 * @return RF_ERROR_NOT_FOUND when there are no such files.
 */
RF_API RF_MUST_USE rf_result rf_dataset_from_mnist_directory(const char *directory, rf_split split,
                                                             rf_dataset **out);

/**
 * Reads a split of CIFAR-10 or CIFAR-100 in their binary versions, whichever the directory holds:
 * the files data_batch_1.bin to data_batch_5.bin and test_batch.bin, or train.bin and test.bin.
 * Elements are (image u8 [32, 32, 3], label i32 []); for CIFAR-100 the label is the fine one.
 * Blocking: reads the files and keeps them in memory, 150 MB for a training set.
 * @param[out] num_classes 10 or 100. May be NULL.
 * @return RF_ERROR_NOT_FOUND, RF_ERROR_IO or RF_ERROR_CORRUPT_DATA with the name of the file.
 */
RF_API RF_MUST_USE rf_result rf_dataset_from_cifar_directory(const char *directory, rf_split split,
                                                             uint32_t *num_classes,
                                                             rf_dataset **out);

/**
 * Reads one IDX file, plain or gzipped, of any type and up to RF_MAX_RANK dimensions.
 * u8, i32 and f32 are kept, i8 and i16 are widened to i32, f64 is narrowed to f32. Blocking.
 * Thread-safe.
 * @param[out] out `data` is owned by the caller, who frees it with rf_array_free().
 * @return RF_ERROR_NOT_FOUND, RF_ERROR_IO or RF_ERROR_CORRUPT_DATA with the name of the file.
 */
RF_API RF_MUST_USE rf_result rf_idx_read(const char *path, rf_array *out);
/** Frees an array whose data the library allocated, and zeroes the struct. NULL does nothing. */
RF_API void rf_array_free(rf_array *array);

/**
 * Fills in the element number `index`, which counts from 0 in each pass. The buffers of `out` are
 * allocated according to the spec, whose shapes it has. A component may be given a smaller dim[0]
 * where rf_dataset_padded_batch() follows.
 * @return RF_OK, RF_END at the end, or an error that the iterator passes on: the next call on the
 *   iterator then asks for the same element again. Any other code is RF_ERROR_INVALID_ARGUMENT.
 */
typedef rf_result (*rf_generator_fn)(void *user, uint64_t index, rf_element *out);
/** A function of the caller that makes the elements. */
typedef struct rf_dataset_generator_params {
    rf_generator_fn generate;
    /** passed to `generate`; borrowed by every dataset and iterator made from this one */
    void *user;
    rf_element_spec spec;
    uint64_t cardinality; /**< number of elements, after which a pass ends; 0: unknown */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_dataset_generator_params;
/** Elements that a function of the caller makes. */
RF_API RF_MUST_USE rf_result rf_dataset_from_generator(const rf_dataset_generator_params *params,
                                                       rf_dataset **out);

/* ---- transformations ---- */

/**
 * Maps one element to another. `in` is read-only; the buffers of `out` are allocated according to
 * the spec, whose shapes it has. A component may be given a smaller dim[0]: of a batch that is not
 * full, or where rf_dataset_padded_batch() follows.
 * It must be pure when the dataset is cached or the state of its iterator is saved. It may be
 * called from a prefetch thread. For an element that nobody sees (rf_dataset_skip(), _shard(), the
 * way to a saved position) it need not be called.
 * @return RF_OK, or an error that the iterator passes on: the next call on the iterator then brings
 *   the same element again. Any positive code is RF_ERROR_INVALID_ARGUMENT.
 */
typedef rf_result (*rf_map_fn)(void *user, const rf_element *in, rf_element *out);
/**
 * Applies `fn` to every element. `spec` describes what it makes; `user` is borrowed by every
 * dataset and iterator made from this one.
 */
RF_API RF_MUST_USE rf_result rf_dataset_map(const rf_dataset *in, rf_map_fn fn, void *user,
                                            const rf_element_spec *spec, rf_dataset **out);
/**
 * The origin of an element's random numbers: they depend on these three alone, not on threads, on
 * the number of workers, or on where training was interrupted.
 */
typedef struct rf_random_key {
    uint64_t seed;  /**< of the step */
    uint64_t epoch; /**< the pass over the dataset; other numbers in each */
    uint64_t index; /**< of the element in the pass */
} rf_random_key;
/** Draw number `draw` of a key: a number from 0 to bound - 1; 0 for a bound of 0. Thread-safe. */
RF_API uint64_t rf_random_key_below(rf_random_key key, uint64_t draw, uint64_t bound);
/** Draw number `draw` of a key: in [0, 1). Thread-safe. */
RF_API float rf_random_key_uniform(rf_random_key key, uint64_t draw);
/** Draw number `draw` of a key: normal, of mean 0 and deviation 1. Thread-safe. */
RF_API double rf_random_key_normal(rf_random_key key, uint64_t draw);
/** As ::rf_map_fn, with a key for this element. All that is drawn must come from the key alone. */
typedef rf_result (*rf_random_map_fn)(void *user, rf_random_key key, const rf_element *in,
                                      rf_element *out);
/**
 * Applies `fn`, which may draw random numbers, to every element, as rf_dataset_map() does.
 * In another pass the same element gets other numbers. Before a shuffle the key counts the elements
 * of the data, after it their places in the pass. A cache above keeps what the first pass drew.
 */
RF_API RF_MUST_USE rf_result rf_dataset_map_random(const rf_dataset *in, rf_random_map_fn fn,
                                                   void *user, uint64_t seed,
                                                   const rf_element_spec *spec, rf_dataset **out);
/** How rf_dataset_map_augment() varies images. */
typedef struct rf_augment_params {
    bool flip; /**< left and right are exchanged, one time in two */
    /** so many zeros are put around the image, from which its size is cut out at a random place */
    int32_t pad;
    /** Each of the first four channels becomes (value - mean) / deviation, after padding. */
    float mean[4];
    float deviation[4];   /**< 0: 1 */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_augment_params;
/**
 * Varies the images of component `index`, u8 or f32 [height, width, channels], which become f32.
 * The numbers are drawn as in rf_dataset_map_random(). Not for batches.
 */
RF_API RF_MUST_USE rf_result rf_dataset_map_augment(const rf_dataset *in, uint32_t index,
                                                    uint64_t seed, const rf_augment_params *params,
                                                    rf_dataset **out);
/** How rf_dataset_map_color_jitter() varies colours; 0 leaves a property as it is. */
typedef struct rf_color_jitter_params {
    /** Values are multiplied by a factor from 1 - brightness (at least 0) to 1 + brightness. */
    float brightness;
    float contrast;   /**< as brightness: a factor of the distance from the image's mean grey */
    float saturation; /**< as brightness: a factor of the distance from the pixel's own grey */
    float hue;        /**< a turn of the circle of colours by -hue to hue; up to 0.5, half of it */
    float max_value;  /**< the value of white in f32 images. 0: 1 */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_color_jitter_params;
/**
 * Varies the colours of component `index`, u8 or f32 [height, width, channels], which keeps its
 * type (torchvision's ColorJitter, Keras' RandomColorJitter): brightness, contrast, saturation and
 * hue, in this order, each by a number of its own. Values end at 0 and at white, and u8 is rounded
 * at the end. Images have 1 to 4 channels: grey, or RGB; alpha stays. Grey is 0.299 R + 0.587 G +
 * 0.114 B. The numbers are drawn as in rf_dataset_map_random(). Not for batches.
 * @return RF_ERROR_INVALID_ARGUMENT for settings out of range, and for saturation or hue of images
 *   without colours.
 */
RF_API RF_MUST_USE rf_result rf_dataset_map_color_jitter(const rf_dataset *in, uint32_t index,
                                                         uint64_t seed,
                                                         const rf_color_jitter_params *params,
                                                         rf_dataset **out);
/** The pixels outside of an image, with Keras' names. */
typedef enum rf_fill_mode {
    RF_FILL_CONSTANT, /**< k k k k | a b c d | k k k k, with a fill value k */
    RF_FILL_NEAREST,  /**< a a a a | a b c d | d d d d */
    RF_FILL_REFLECT,  /**< d c b a | a b c d | d c b a */
    RF_FILL_WRAP,     /**< a b c d | a b c d | a b c d */
} rf_fill_mode;
/** How rf_dataset_map_affine() moves images; zeros leave them as they are. */
typedef struct rf_affine_params {
    float degrees;      /**< images are turned by -degrees to degrees, up to 360 */
    float zoom[2];      /**< the least and the greatest enlargement, as 0.8 and 1.2; both 0: 1 */
    float translate[2]; /**< parts of height and width by which images move at most, either way */
    rf_fill_mode fill_mode; /**< where the image does not reach */
    float fill_value;       /**< for ::RF_FILL_CONSTANT */
    bool nearest;           /**< values of the nearest pixel, as for masks; else bilinear */
    uint64_t reserved[4];   /**< zero: room for later fields */
} rf_affine_params;
/**
 * Turns, enlarges and moves the images of component `index`, u8 or f32 [height, width, channels],
 * about their centre (torchvision's RandomAffine; Keras' RandomRotation, RandomZoom and
 * RandomTranslation). Size and type stay. A positive angle is against the clock. The angle, the
 * enlargement and the two moves are drawn evenly, as in rf_dataset_map_random(). The same step with
 * the same seed on another component moves that the same way, such as a mask of the image. Not for
 * batches.
 */
RF_API RF_MUST_USE rf_result rf_dataset_map_affine(const rf_dataset *in, uint32_t index,
                                                   uint64_t seed, const rf_affine_params *params,
                                                   rf_dataset **out);
/** How rf_dataset_map_erase() erases. NULL or zeroed: as in torchvision. */
typedef struct rf_erase_params {
    float probability;    /**< that an image loses a part. 0: 0.5 */
    float area[2];        /**< least and greatest part of the image's area; both 0: 0.02 and 0.33 */
    float ratio[2];       /**< least and greatest height by width; both 0: 0.3 and 3.3 */
    float value;          /**< that the part gets */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_erase_params;
/**
 * Erases a rectangle of the images of component `index`, u8 or f32 [height, width, channels], which
 * keeps its type: random erasing (Zhong et al. 2017; torchvision's and Keras' RandomErasing). Area
 * and logarithm of the ratio are drawn evenly, and again up to ten times where the rectangle is as
 * high or as wide as the image; then its place. Cutout (DeVries and Taylor 2017) is a probability
 * of 1, an area of one size and a ratio of 1. The numbers are drawn as in rf_dataset_map_random().
 * Not for batches. `params` may be NULL.
 */
RF_API RF_MUST_USE rf_result rf_dataset_map_erase(const rf_dataset *in, uint32_t index,
                                                  uint64_t seed, const rf_erase_params *params,
                                                  rf_dataset **out);
/** How rf_dataset_mixup() and rf_dataset_cutmix() mix. NULL or zeroed: as in Keras. */
typedef struct rf_mixup_params {
    double alpha; /**< of the distribution Beta(alpha, alpha) of the parts. 0: 0.2; CutMix: 1 */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_mixup_params;
/**
 * Mixes the examples of each batch in pairs (mixup, Zhang et al. 2017): row i of each component
 * becomes part * row i + (1 - part) * row k. The rows k are the batch in another order, and each
 * row has a part of its own. All components are f32: images as rf_dataset_map_scale_u8() makes
 * them, labels as rf_dataset_map_one_hot() does. The numbers are drawn as in
 * rf_dataset_map_random(). In a job each worker makes whole batches and uses its rows of them.
 * `params` may be NULL.
 * @return RF_ERROR_INVALID_ARGUMENT where elements are not batched, or a component is not f32.
 */
RF_API RF_MUST_USE rf_result rf_dataset_mixup(const rf_dataset *in, uint64_t seed,
                                              const rf_mixup_params *params, rf_dataset **out);
/**
 * Puts a rectangle of another image of the batch into each one (CutMix, Yun et al. 2019). Component
 * `index` has the images, [n, height, width, channels]; the others are mixed as by
 * rf_dataset_mixup(), by the part of the area that stays. A rectangle that lies partly outside is
 * smaller. All else is as there.
 */
RF_API RF_MUST_USE rf_result rf_dataset_cutmix(const rf_dataset *in, uint32_t index, uint64_t seed,
                                               const rf_mixup_params *params, rf_dataset **out);
/**
 * Says in `*keep` whether an element stays. It follows the rules of ::rf_map_fn.
 */
typedef rf_result (*rf_filter_fn)(void *user, const rf_element *in, bool *keep);
/**
 * The elements that `fn` keeps. Their number is unknown (::RF_CARDINALITY_UNKNOWN) until they have
 * been read. `user` is borrowed by every dataset and iterator made from this one.
 */
RF_API RF_MUST_USE rf_result rf_dataset_filter(const rf_dataset *in, rf_filter_fn fn, void *user,
                                               rf_dataset **out);
/** Whether rf_dataset_ignore_errors() tells of a failure. */
typedef enum rf_ignore_mode {
    RF_IGNORE_SILENTLY,     /**< each failure is only counted */
    RF_IGNORE_WITH_WARNING, /**< each failure is also a warning of rf_log_set() */
} rf_ignore_mode;
/**
 * The elements of the input that can be made (tf.data's ignore_errors). One that fails is left out
 * and counted: a damaged image, a line that is too long, a value that the function of a map
 * refuses. Where it fails is its own step or one below, so place this step above whatever may fail,
 * and below rf_dataset_batch(): a batch is left out as a whole.
 *
 * A failure that is not the element's fault remains an error: no memory, no free descriptors, a
 * fault of the library. So does the last failure where more than a million follow each other.
 *
 * Elements are read in order; a full shuffle costs no memory below this step. Their number is
 * unknown (::RF_CARDINALITY_UNKNOWN) until they have been read. A saved position is reached by
 * making what comes before it again. In a job, every worker has to find the same files, with the
 * same damage; a dataset that has been distributed is refused.
 */
RF_API RF_MUST_USE rf_result rf_dataset_ignore_errors(const rf_dataset *in, rf_ignore_mode mode,
                                                      rf_dataset **out);
/**
 * How many elements the rf_dataset_ignore_errors() steps of this dataset and of its inputs have
 * left out so far, in all passes of all iterators, and rf_csv_params::skip_damaged rows of tables.
 * 0 for NULL. Thread-safe.
 */
RF_API uint64_t rf_dataset_ignored_errors(const rf_dataset *dataset);
/**
 * How many elements the sources of this dataset have cut so far, in all passes of all iterators:
 * chats that are longer than rf_chats_params::max_tokens, objects with a value that
 * rf_jsonl_field::truncate cut. 0 for NULL. Thread-safe.
 */
RF_API uint64_t rf_dataset_cut_elements(const rf_dataset *dataset);
/** Scales pixels to [0, 1]: component `index` (u8) becomes f32, divided by 255. */
RF_API RF_MUST_USE rf_result rf_dataset_map_scale_u8(const rf_dataset *in, uint32_t index,
                                                     rf_dataset **out);
/**
 * Component `index` (an i32 scalar, a class number) becomes an f32 one-hot vector of length
 * `depth`.
 */
RF_API RF_MUST_USE rf_result rf_dataset_map_one_hot(const rf_dataset *in, uint32_t index,
                                                    uint32_t depth, rf_dataset **out);
/**
 * Keeps the elements in memory; later passes and other iterators read them from there.
 * Where the steps below are read in order, a cache is complete once a pass has reached its end.
 * Elements of an iterator that stopped earlier are discarded, and the next pass begins again. All
 * passes have the order of epoch 0, even when there is a shuffle below: shuffle after the cache to
 * get another order in each epoch.
 */
RF_API RF_MUST_USE rf_result rf_dataset_cache(const rf_dataset *in, rf_dataset **out);
/** Whether the passes over a shuffled dataset have orders of their own. */
typedef enum rf_shuffle_mode {
    RF_SHUFFLE_ONCE,      /**< every pass has the same order */
    RF_SHUFFLE_EACH_PASS, /**< tf.data's default: the order depends on the iterator's epoch, too */
} rf_shuffle_mode;
/**
 * Shuffles through a buffer of `buffer_size` elements; a buffer of at least the cardinality gives a
 * full shuffle.
 * The same seed gives the same order.
 * @return RF_ERROR_INVALID_ARGUMENT when `buffer_size` is 0.
 */
RF_API RF_MUST_USE rf_result rf_dataset_shuffle(const rf_dataset *in, uint64_t buffer_size,
                                                uint64_t seed, rf_shuffle_mode mode,
                                                rf_dataset **out);
/** The last batch of a pass where it is not full. */
typedef enum rf_batch_remainder {
    RF_REMAINDER_KEEP, /**< it is smaller than the others */
    RF_REMAINDER_DROP, /**< its elements are left out */
} rf_batch_remainder;
/**
 * Groups `batch_size` elements along a new dimension 0.
 * @return RF_ERROR_INVALID_ARGUMENT when `batch_size` is 0 or a component has RF_MAX_RANK
 *   dimensions already.
 */
RF_API RF_MUST_USE rf_result rf_dataset_batch(const rf_dataset *in, uint32_t batch_size,
                                              rf_batch_remainder remainder, rf_dataset **out);
/** The largest number of lengths that a padded batch may have. */
#define RF_MAX_BUCKETS 8
/** How rf_dataset_padded_batch() groups and pads elements. */
typedef struct rf_padded_batch_params {
    uint32_t batch_size;
    bool drop_remainder; /**< batches that are not full at the end of the pass are left out */
    /** of each component: whether its length varies. At least one has to. */
    bool padded[RF_MAX_COMPONENTS];
    /** of each padded component: what follows its rows; 0 by default */
    double pad_value[RF_MAX_COMPONENTS];
    /**
     * Up to RF_MAX_BUCKETS lengths, ascending; the last one is at least the greatest length that
     * the spec allows. Read by the call only. NULL: all batches have that greatest length.
     */
    const uint32_t *borders;
    uint32_t num_borders;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_padded_batch_params;
/**
 * Batches of elements of unequal length (tf.data's padded_batch and bucket_by_sequence_length).
 *
 * The length of an element is the dim[0] of its padded components, of the longest of them where
 * there are several. The spec says how long it may be; a generator or the function of a map makes
 * an element shorter by setting shape.dim[0] of the component that it fills. An element joins those
 * of the smallest border that it fits in, and is padded to that border (a component that never gets
 * as long: to its greatest length). A batch comes when it is full; at the end of the pass the
 * others come in the order of the borders.
 *
 * So dim[1] of the padded components has one of `num_borders` values. rf_strategy_run() and
 * rf_model_fit() trace a step once for each; a model for them must not depend on the length. The
 * spec of the result has the greatest length. The place of the padding follows from the value, or
 * from a component with the length that the caller makes.
 *
 * The number of batches is unknown (::RF_CARDINALITY_UNKNOWN) where there are several borders. A
 * saved position continues with batches of the same size only.
 * @return RF_ERROR_INVALID_ARGUMENT when the borders do not ascend or do not reach the greatest
 *   length, or when a padded component is a scalar or cannot hold its value. So does
 *   rf_iterator_next() for an element of another shape.
 */
RF_API RF_MUST_USE rf_result rf_dataset_padded_batch(const rf_dataset *in,
                                                     const rf_padded_batch_params *params,
                                                     rf_dataset **out);
/** How rf_dataset_pack() fills rows. `length` is required. */
typedef struct rf_pack_params {
    uint32_t length; /**< of a row; at least that of the longest element which the spec allows */
    /** Rows that are filled at a time: more waste less, and mix the order more. 0: 16; at most
     * 1024 */
    uint32_t num_open;
    double pad_value[RF_MAX_COMPONENTS]; /**< of each component: what fills the end of a row */
    bool segments;        /**< rows also have the numbers of their elements; see there */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_pack_params;
/**
 * Elements of unequal length, such as texts, several in a row of one length, so that little of a
 * batch is padding. All components of an element have one length, its dim[0]; see
 * rf_dataset_padded_batch() for where it comes from. An element without length is left out.
 *
 * Rows are elements of these components, for rf_dataset_batch():
 *  - component 0 of the input, such as tokens, [length, ...];
 *  - positions i32 [length]: the place of each step in its own element, from 0 on, and 0 behind the
 *    last one. Attention tells elements of a row apart by them:
 *    rf_multi_head_attention_params::packed, rf_pretrained_params::packed;
 *  - with `segments` i32 [length]: 1 for the steps of the row's first element, 2 for those of the
 *    second, and so on, 0 behind the last one: rf_attention_params::segments;
 *  - the input's other components, such as labels.
 *
 * An element goes into the fullest of the open rows that has room for it. A row comes when it is
 * full, when all rows are open and none has room, and at the end of the pass. The order depends on
 * the elements alone, so shuffle before. Rows are read in order; their number is unknown
 * (::RF_CARDINALITY_UNKNOWN). A saved position is reached by making what comes before it again. In
 * a job every worker makes whole batches and uses its rows of them.
 * @return RF_ERROR_INVALID_ARGUMENT where a component is a scalar, may be longer than a row or
 *   cannot hold its padding, and where elements are batches. So does rf_iterator_next() for an
 *   element whose components differ in length.
 */
RF_API RF_MUST_USE rf_result rf_dataset_pack(const rf_dataset *in, const rf_pack_params *params,
                                             rf_dataset **out);
/**
 * The rows of each element's components as elements of their own: the inverse of
 * rf_dataset_batch(). They are read in order. Their number is unknown (::RF_CARDINALITY_UNKNOWN)
 * until they have been read.
 * @return RF_ERROR_INVALID_ARGUMENT when a component has no dimensions, or another dim[0] than the
 *   others.
 */
RF_API RF_MUST_USE rf_result rf_dataset_unbatch(const rf_dataset *in, rf_dataset **out);
/**
 * Elements of several datasets side by side: element i has the components of all inputs' elements
 * i, in the order of the inputs. It ends with the shortest input.
 * @param in `num_in` datasets, each of which may be given more than once.
 * @return RF_ERROR_INVALID_ARGUMENT when the components are more than RF_MAX_COMPONENTS.
 */
RF_API RF_MUST_USE rf_result rf_dataset_zip(const rf_dataset *const *in, uint32_t num_in,
                                            rf_dataset **out);
/**
 * The elements of `in`, then those of `next`.
 * @return RF_ERROR_INVALID_ARGUMENT when types or shapes of their components differ.
 */
RF_API RF_MUST_USE rf_result rf_dataset_concatenate(const rf_dataset *in, const rf_dataset *next,
                                                    rf_dataset **out);
/** How rf_dataset_sample() chooses. NULL or zeroed: evenly, until all inputs are empty. */
typedef struct rf_sample_params {
    const double
        *weights; /**< one for each input, not negative; read by the call. NULL: all the same */
    uint64_t seed;
    bool stop_on_empty;   /**< a pass ends where an input is drawn that has no more elements */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_sample_params;
/**
 * Elements of several datasets, of which one is drawn for each element, by weight (tf.data's
 * sample_from_datasets). Each input keeps its order. One that has ended is not drawn any more, or
 * ends the pass. The draws depend on the seed, the pass and their number alone, so that a saved
 * position goes on with the same ones; each pass has others.
 *
 * Elements are fetched by number where those of all inputs are; that takes 8 bytes for each.
 * Otherwise they are read in order, as with rf_dataset_repeat() below: put it above, where passes
 * are to be the same length. Their number is unknown (::RF_CARDINALITY_UNKNOWN) with
 * `stop_on_empty`.
 * @param in up to 65,535 datasets, each of which may be given more than once.
 * @return RF_ERROR_INVALID_ARGUMENT when types or shapes of their components differ, or for weights
 *   that are negative or all 0.
 */
RF_API RF_MUST_USE rf_result rf_dataset_sample(const rf_dataset *const *in, uint32_t num_in,
                                               const rf_sample_params *params, rf_dataset **out);
/** A component of the windows of rf_dataset_windows(). */
typedef struct rf_window_part {
    uint32_t component; /**< of the rows. One may be in several parts */
    uint32_t length;    /**< rows, along a new dimension 0; 0: one row, without that dimension */
    uint32_t offset;    /**< of the first of these rows from the beginning of the window */
    uint32_t sampling_rate; /**< from one of these rows to the next; 0: 1 */
    uint64_t reserved[4];   /**< zero: room for later fields */
} rf_window_part;
/** Windows for rf_dataset_windows(). `parts` are read by the call. */
typedef struct rf_windows_params {
    const rf_window_part *parts; /**< one for each component of a window */
    uint32_t num_parts;          /**< 1 to RF_MAX_COMPONENTS */
    uint32_t stride;             /**< from the beginning of a window to that of the next; 0: 1 */
    uint64_t reserved[4];        /**< zero: room for later fields */
} rf_windows_params;
/**
 * Windows of a table whose rows are in the order of time, each with what is to be foretold from it
 * (Keras' timeseries_dataset_from_array). With the parts (component 0, length 24) and (component 1,
 * offset 24) an element has 24 rows of component 0 and component 1 of the row that follows them. A
 * window that the table has not all rows of is left out. Elements are fetched by number, so that a
 * shuffle of all of them is a permutation. Tables that do not belong together get windows of their
 * own, then rf_dataset_concatenate().
 * @return RF_ERROR_INVALID_ARGUMENT where the rows are read in order, or where there are too few
 *   for one window.
 */
RF_API RF_MUST_USE rf_result rf_dataset_windows(const rf_dataset *in,
                                                const rf_windows_params *params, rf_dataset **out);
/**
 * Makes a dataset of an element of the input, which is read-only and valid during the call. Like
 * the function of rf_dataset_map() it must be pure when the dataset is cached or the state of its
 * iterator is saved, and may be called from a prefetch thread.
 * @param[out] out with the types and shapes of the step's `spec`. The step destroys it when its
 *   elements have been read; a function that gives out a dataset of its own gives out a new one
 *   made from it, such as rf_dataset_skip() of 0.
 * @return RF_OK, or an error that the iterator passes on: the next call on the iterator then calls
 *   the function again. Any positive code is RF_ERROR_INVALID_ARGUMENT.
 */
typedef rf_result (*rf_flat_map_fn)(void *user, const rf_element *in, rf_dataset **out);
/**
 * The elements of the datasets that `fn` makes of the input's elements, one dataset after the
 * other. `spec` describes them; `user` is borrowed by every dataset and iterator made from this
 * one.
 *
 * They are read in order. Their number is unknown (::RF_CARDINALITY_UNKNOWN) until they have been
 * read, and infinite where the input is. Shuffles in the datasets have the epoch of the iterator.
 * rf_dataset_batch_size() is 0, whatever `fn` makes. A saved position is reached by calling `fn`
 * again; what its datasets can fetch by number is not read for that.
 * @return RF_ERROR_INVALID_ARGUMENT for a bad `spec`. So does rf_iterator_next() for a dataset with
 *   other types or shapes.
 */
RF_API RF_MUST_USE rf_result rf_dataset_flat_map(const rf_dataset *in, rf_flat_map_fn fn,
                                                 void *user, const rf_element_spec *spec,
                                                 rf_dataset **out);
/** The order in which rf_dataset_interleave() takes elements. */
typedef struct rf_interleave_params {
    /**
     * Datasets that are open at a time and take turns, at least 1. There is no default: tf.data's
     * depends on the machine, and so would the order.
     */
    uint32_t cycle_length;
    uint32_t block_length; /**< consecutive elements of one dataset; 0: 1 */
    uint64_t reserved[4];  /**< zero: room for later fields */
} rf_interleave_params;
/**
 * As rf_dataset_flat_map(), with `cycle_length` datasets that take turns, in the order of tf.data's
 * interleave: `block_length` elements of the first, then of the second, and so on. A dataset that
 * ends passes the turn on at once; when the turn comes back to its place, the next element of the
 * input is made a dataset there. The order depends on the elements alone. Everything happens in the
 * thread that reads; rf_dataset_prefetch() above moves it to another.
 * @return RF_ERROR_INVALID_ARGUMENT for a bad `spec` or a `cycle_length` of 0.
 */
RF_API RF_MUST_USE rf_result rf_dataset_interleave(const rf_dataset *in, rf_flat_map_fn fn,
                                                   void *user, const rf_element_spec *spec,
                                                   const rf_interleave_params *params,
                                                   rf_dataset **out);
/**
 * Makes `count` passes over the input; 0 repeats it without end, and its cardinality is infinite
 * then unless the input is known to be empty. Each pass is an epoch of its own for the shuffles
 * below.
 */
RF_API RF_MUST_USE rf_result rf_dataset_repeat(const rf_dataset *in, uint64_t count,
                                               rf_dataset **out);
/**
 * The first `count` elements of the input. After a shuffle with ::RF_SHUFFLE_EACH_PASS they are
 * others in each pass: a warning is logged where rf_dataset_skip() of the same makes another part.
 * Parts for training and validation are made by rf_dataset_split().
 */
RF_API RF_MUST_USE rf_result rf_dataset_take(const rf_dataset *in, uint64_t count,
                                             rf_dataset **out);
/** The elements of the input after the first `count`; see rf_dataset_take(). */
RF_API RF_MUST_USE rf_result rf_dataset_skip(const rf_dataset *in, uint64_t count,
                                             rf_dataset **out);
/**
 * Every `num_shards`-th element, beginning with element `index`; see rf_dataset_take().
 * @return RF_ERROR_INVALID_ARGUMENT when `index` is not below `num_shards`.
 */
RF_API RF_MUST_USE rf_result rf_dataset_shard(const rf_dataset *in, uint32_t num_shards,
                                              uint32_t index, rf_dataset **out);
/** The parts of rf_dataset_split(). Either `count` or `fraction` is required. */
typedef struct rf_split_params {
    uint64_t count;  /**< elements of the first part */
    double fraction; /**< in (0, 1): the first part of all elements; 0: `count` says it */
    /** draw by `seed` which elements are in the first part; they come in an order that is drawn */
    bool shuffle;
    uint64_t seed;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_split_params;
/**
 * Splits a finite dataset into two parts, such as for training and validation, that have no element
 * in common in any pass. Both read `in` as it is in its first pass, whatever shuffles below it do
 * later. Steps that are to differ between passes (rf_dataset_shuffle(), rf_dataset_map_random())
 * are therefore put behind it. With `shuffle` all elements are held in memory where those of `in`
 * are not fetched by number.
 * @param[out] first owned by the caller
 * @param[out] second owned by the caller
 * @return RF_ERROR_INVALID_ARGUMENT when a part would be empty, or for an infinite dataset, or one
 *   of an unknown number of elements with `fraction` or `shuffle`.
 */
RF_API RF_MUST_USE rf_result rf_dataset_split(const rf_dataset *in, const rf_split_params *params,
                                              rf_dataset **first, rf_dataset **second);
/**
 * Prepares up to `buffer_size` elements in advance, in a background thread of each iterator; 0
 * means 2.
 */
RF_API RF_MUST_USE rf_result rf_dataset_prefetch(const rf_dataset *in, uint32_t buffer_size,
                                                 rf_dataset **out);
/**
 * As rf_dataset_prefetch() of 2 elements, with several threads of each iterator that make the next
 * elements side by side (tf.data's num_parallel_calls, for all steps below at once). It belongs
 * last, above rf_dataset_batch(): each thread then reads, decodes, maps and gathers a batch.
 *
 * Order, bits, errors and saved positions are the same for any number of threads, and those of
 * rf_dataset_prefetch(). The functions of the caller below this step must be able to run in several
 * threads at the same time, with the same `user`. An element that fails is reported in its place,
 * while threads go on with those behind it.
 *
 * Where the steps below are read in order (generators, text, compressed records, filters, shuffles
 * through a buffer, repetitions), one thread makes the elements. Beside the 3 elements of a
 * prefetch, memory holds what each thread needs for the steps below: an element of each step, and
 * the order of a full shuffle.
 * @param num_threads up to 256; 0: as many as the calling thread has processors, at most 16.
 */
RF_API RF_MUST_USE rf_result rf_dataset_parallel(const rf_dataset *in, uint32_t num_threads,
                                                 rf_dataset **out);

/** Releases the reference of the caller. Datasets and iterators made from this one remain valid. */
RF_API void rf_dataset_destroy(rf_dataset **dataset);
/** Fills in types and shapes of the elements. */
RF_API void rf_dataset_spec(const rf_dataset *dataset, rf_element_spec *out);
/** Cardinality of a dataset that never ends, as tf.data's INFINITE_CARDINALITY. */
#define RF_CARDINALITY_INFINITE (-1)
/** Cardinality of a dataset that has to be read to be counted, as tf.data's UNKNOWN_CARDINALITY. */
#define RF_CARDINALITY_UNKNOWN (-2)
/** Number of elements of one pass, ::RF_CARDINALITY_INFINITE or ::RF_CARDINALITY_UNKNOWN. */
RF_API int64_t rf_dataset_cardinality(const rf_dataset *dataset);
/**
 * Batch size of the nearest batch below; 0 when the elements are not batched, or when
 * the inputs of a step differ in it.
 */
RF_API uint32_t rf_dataset_batch_size(const rf_dataset *dataset);
/** The numbers that rf_dataset_moments() takes together. NULL or zeroed: by the last dimension. */
typedef struct rf_moments_params {
    uint32_t component;
    /** One mean for each place along it, counting the batch as 0; negative counts from the last. 0
     * (the batch): the last */
    int32_t axis;
    bool whole;           /**< one mean of all numbers instead, a scalar */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_moments_params;
/**
 * Mean and (biased) variance of a component, u8, i32 or f32, over one pass of a dataset of elements
 * or of batches: what Keras' Normalization.adapt() learns, for rf_layer_normalization(). They are
 * gathered in double precision (Welford 1962). Blocking: reads the pass of epoch 0. Thread-safe.
 * @param[out] mean f32 [size of the axis]; owned by the caller, who frees it with rf_array_free().
 * @param[out] variance as `mean`
 * @return RF_ERROR_INVALID_ARGUMENT for an axis that elements do not have, and for datasets that
 * are empty or infinite. A failure of rf_iterator_next().
 */
RF_API RF_MUST_USE rf_result rf_dataset_moments(const rf_dataset *dataset,
                                                const rf_moments_params *params, rf_array *mean,
                                                rf_array *variance);

/* ---- iteration ---- */

/**
 * Starts a pass. `epoch` selects the order of a reshuffling dataset: pass n to the iterator of the
 * n-th epoch.
 * The iterator holds a reference to the dataset. The caller owns the iterator.
 */
RF_API RF_MUST_USE rf_result rf_iterator_create(const rf_dataset *dataset, uint64_t epoch,
                                                rf_iterator **out);
/**
 * The next element. `out` borrows memory of the iterator and is valid until the next call on it.
 * Blocking: makes the element, or waits for the prefetch threads.
 * @return RF_OK, RF_END at the end of the pass, or an error. After an error the iterator stays
 *   where it is: the next call tries the same element again, and none is lost.
 */
RF_API RF_MUST_USE rf_result rf_iterator_next(rf_iterator *iterator, const rf_element **out);
/**
 * Serialises the position, but not the data, so that an iterator of an equal dataset continues with
 * exactly the element that would have come next.
 * The datasets may differ in the batch size where only rf_dataset_map(), rf_dataset_prefetch() and
 * rf_dataset_parallel() follow the batch. The new iterator then continues with the example that
 * would have come next, so that the pass contains each example once.
 *
 * A position is bytes of version 3, with a checksum. Versions are read for ever: version 2, which
 * earlier releases wrote, has none, and says nothing of the names of files. Names count below the
 * directory that the files share, without an ending like ".gz".
 * @param[out] state owned by the caller, who frees it with rf_iterator_state_free().
 */
RF_API RF_MUST_USE rf_result rf_iterator_save(const rf_iterator *iterator, void **state,
                                              size_t *size);
/**
 * Makes an iterator that continues at a saved position. Blocking where elements must be read to get
 * there.
 * @return RF_ERROR_INVALID_ARGUMENT when the position was saved from a dataset with other steps,
 *   sizes, seeds or files, or files in another order. RF_ERROR_CORRUPT_DATA when `state` is not a
 *   position, was damaged, is of a later version, or lies past the end.
 */
RF_API RF_MUST_USE rf_result rf_iterator_restore(const rf_dataset *dataset, const void *state,
                                                 size_t size, rf_iterator **out);
/** Frees what rf_iterator_save() returned. NULL does nothing. */
RF_API void rf_iterator_state_free(void *state);
/** Ends a pass. Blocking: waits for the elements that prefetch threads are making. */
RF_API void rf_iterator_destroy(rf_iterator **iterator);

#ifdef __cplusplus
}
#endif
#endif
