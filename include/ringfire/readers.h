/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Datasets from files that people have: tables in CSV files, lines of text, TensorFlow's records,
 * directories of PNG and JPEG images.
 *
 * Datasets are owned by the caller, as <ringfire/dataset.h> says. All functions are blocking; all
 * are thread-safe. Messages name the file, and the line and column of a table.
 */
#ifndef RINGFIRE_READERS_H
#define RINGFIRE_READERS_H

#include <ringfire/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- tables ---- */

/** The columns of a table that make one component. */
typedef struct rf_csv_component {
    rf_dtype dtype; /**< RF_F32 or RF_I32 */
    uint32_t num_columns;
    const char *const *names; /**< of the columns, as the header has them; NULL: by number */
    const uint32_t *columns;  /**< their numbers, from 0; NULL: the next from `first_column` on */
    uint32_t first_column;
    /**
     * The shape of the component, which the columns fill in their order: of as many elements as
     * there are columns. Zero: a scalar for one column, [num_columns] for several.
     */
    rf_shape shape;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_csv_component;
/** Tables for rf_dataset_from_csv(). All that it points to is read by the call only. */
typedef struct rf_csv_params {
    const char *const *paths;
    uint32_t num_paths;
    uint32_t num_components;
    const rf_csv_component *components;
    char separator;    /**< between columns; 0: a comma */
    bool header;       /**< the first line of each file has the names of its columns */
    bool fill_empty;   /**< an empty field has the value `fill_value`; else it is an error */
    double fill_value; /**< NaN is possible where all components are f32 */
    /** Rows with a mistake are left out, with a warning for each file, and counted
     * (rf_dataset_ignored_errors()); else they are errors. */
    bool skip_damaged;
    uint64_t reserved[3]; /**< zero: room for later fields */
} rf_csv_params;
/**
 * The rows of CSV files (RFC 4180), one file after the other. Fields may be quoted, lines end with
 * LF, CR LF or CR; spaces around a number, empty lines and a byte order mark are skipped. Other
 * columns than those asked for may hold anything. Files are plain or gzipped (detected from the
 * content), in UTF-8 or another superset of ASCII. Numbers are written with a point whatever the
 * locale says; f32 may be "nan" or "inf".
 *
 * Blocking: reads every file. The rows of a file are kept from when they are first needed, so that
 * a worker that reads only some of the files (::RF_DISTRIBUTE_BY_FILE) never holds the others. They
 * are fetched by number: a shuffle of all of them is a permutation.
 * @return RF_ERROR_NOT_FOUND, RF_ERROR_IO or RF_ERROR_CORRUPT_DATA with the file, and, where there
 * is one, the line and the column; RF_ERROR_UNSUPPORTED for UTF-16, UTF-32 and
 * what is compressed in another way.
 */
RF_API RF_MUST_USE rf_result rf_dataset_from_csv(const rf_csv_params *params, rf_dataset **out);

/* ---- lines of text ---- */

/** Files for rf_dataset_from_text_lines(). All that it points to is read by the call only. */
typedef struct rf_text_lines_params {
    const char *const *paths;
    uint32_t num_paths;
    /**
     * The most that a line may have; a longer one is an error. 0: 4096. Each element takes so much
     * memory: a shuffle through a buffer has as many of them.
     */
    uint32_t max_bytes;
    bool skip_empty;      /**< lines without a byte are no elements */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_text_lines_params;
/**
 * The lines of text files, one file after the other (tf.data's TextLineDataset): elements are (line
 * u8 [n]), where n is at most max_bytes and may be 0: for rf_dataset_map() and
 * rf_dataset_padded_batch(). Lines end with LF or CR LF, which are not part of them; what follows
 * the last line feed is one where it is not empty. A byte order mark at the beginning of a file is
 * left out. That of UTF-16 or UTF-32 is RF_ERROR_UNSUPPORTED, and so is a file that is compressed
 * in another way. Other bytes, normally UTF-8, are not looked at. Files are plain or gzipped
 * (detected from the content).
 *
 * Files are read in order, each time anew, in the memory of one line and of one buffer, whatever
 * their size; one is open at a time for each iterator. How many lines there are is unknown. A saved
 * position is reached by counting line feeds. rf_text_lines_read() reads small files at once.
 *
 * Blocking: reads the beginning of each file.
 * @return RF_ERROR_NOT_FOUND or RF_ERROR_IO with the file. A damaged or cut compressed file is
 *   RF_ERROR_CORRUPT_DATA, and a line that is too long RF_ERROR_INVALID_ARGUMENT, also from
 *   rf_iterator_next(), with the file and the number of the line, from 1.
 */
RF_API RF_MUST_USE rf_result rf_dataset_from_text_lines(const rf_text_lines_params *params,
                                                        rf_dataset **out);

/* ---- catalogues of messages ---- */

/** Files for rf_dataset_from_gettext(). All that it points to is read by the call only. */
typedef struct rf_gettext_params {
    const char *const *paths;
    uint32_t num_paths;
    /** pairs of which a text has more are left out, and each element takes so much; 0: 4096 */
    uint32_t max_bytes;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_gettext_params;
/**
 * The messages of gettext's catalogues (.mo), one file after the other, with their translations:
 * elements are (msgid u8 [n], msgstr u8 [m]), for rf_dataset_map() and rf_dataset_padded_batch().
 * Both are UTF-8, and neither is empty: pairs that lack a translation or are in another encoding
 * are left out, and so is the entry that describes the file. The first of plural forms counts;
 * contexts are no part of a message. The order is that of the files; a message may be in several.
 *
 * Blocking: reads the files, which stay in memory. Elements are fetched by number: a shuffle of all
 * of them is a permutation.
 * @return RF_ERROR_NOT_FOUND or RF_ERROR_IO with the file; RF_ERROR_CORRUPT_DATA for one that is
 *   damaged or no catalogue, RF_ERROR_UNSUPPORTED for one that says to be in another encoding.
 */
RF_API RF_MUST_USE rf_result rf_dataset_from_gettext(const rf_gettext_params *params,
                                                     rf_dataset **out);

/* ---- records of TensorFlow ---- */

/** A feature of the records, which makes one component. */
typedef struct rf_tfrecord_feature {
    const char *name;
    /**
     * RF_F32: values of a float_list. RF_I32: of an int64_list; one that i32 cannot hold is an
     * error. RF_U8: the bytes of a bytes_list with one entry.
     */
    rf_dtype dtype;
    rf_shape shape; /**< of the component, which the values fill; a scalar by default */
    /**
     * The bytes are a PNG or JPEG file (rf_image_read()). `shape` is [height, width, channels] with
     * 1, 3 or 4 channels, to which the image is converted; an image of another size is resized as
     * by rf_dataset_from_image_directory().
     */
    bool image;
    /**
     * A feature may have fewer rows than shape.dim[0], also none, and the component then has that
     * dim[0]: for rf_dataset_padded_batch().
     */
    bool variable;
    /**
     * The component's value where a record lacks the feature: of its type and shape (`variable`: of
     * as many rows or fewer), copied. NULL: a feature that is missing is an error.
     */
    const rf_array *default_value;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_tfrecord_feature;
/** Files for rf_dataset_from_tfrecord(). All that it points to is read by the call only. */
typedef struct rf_tfrecord_params {
    const char *const *paths;
    uint32_t num_paths;
    uint32_t num_features; /**< 1 to RF_MAX_COMPONENTS */
    const rf_tfrecord_feature *features;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_tfrecord_params;
/**
 * The records of TFRecord files, one file after the other, each of which is a tf.train.Example.
 * Files are plain, gzipped or compressed with zlib (detected from the content). Features that are
 * not asked for may hold anything. Numbers may be packed or not; where a name occurs twice in a
 * record, the last one counts.
 *
 * Blocking: walks over the lengths of all records and checks their checksums, which reads 4 KiB for
 * each longer record, and shorter ones whole; 8 bytes of memory for each record. A record is read,
 * its checksum verified and its image decoded when its element is needed, each time anew. Records
 * are fetched by number: a shuffle of all of them is a permutation, and a worker reads its own
 * only.
 *
 * Compressed files are unpacked once to be counted, and again in each pass. Where there is one, all
 * are read in order, and every worker unpacks all of them, but for ::RF_DISTRIBUTE_BY_FILE. A
 * position is reached without parsing what comes before.
 *
 * At most 16 files are open at a time for each iterator.
 * @return RF_ERROR_NOT_FOUND, RF_ERROR_IO or RF_ERROR_CORRUPT_DATA with the file and the number of
 *   the record, from 0. An error inside of a record comes from rf_iterator_next(), with the
 *   feature.
 */
RF_API RF_MUST_USE rf_result rf_dataset_from_tfrecord(const rf_tfrecord_params *params,
                                                      rf_dataset **out);

/* ---- tar archives ---- */

/** A file of each example of a tar archive, which makes one component. */
typedef struct rf_tar_field {
    /**
     * That the file's name may end with behind its first point, whatever the case: "cls", or
     * "jpg;jpeg;png", of which the first that an example has is read.
     */
    const char *endings;
    rf_dtype dtype; /**< RF_U8: its bytes; RF_I32, RF_F32: the number that it has as text */
    rf_shape shape; /**< of the component; a scalar by default, as numbers are */
    /**
     * The bytes are a PNG or JPEG file (rf_image_read()). `shape` is [height, width, channels] with
     * 1, 3 or 4 channels, to which the image is converted and resized as by
     * rf_dataset_from_image_directory().
     */
    bool image;
    /** There may be fewer rows of bytes than shape.dim[0], also none, and the component then has
     * that dim[0]: for texts, rf_dataset_map() and rf_dataset_padded_batch(). */
    bool variable;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_tar_field;
/** Archives for rf_dataset_from_tar(). All that it points to is read by the call only. */
typedef struct rf_tar_params {
    const char *const *paths;
    uint32_t num_paths;
    uint32_t num_fields; /**< 1 to RF_MAX_COMPONENTS */
    const rf_tar_field *fields;
    uint32_t max_bytes;   /**< of a file; a longer one is an error. 0: 64 MiB; at most 1 GiB */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_tar_params;
/**
 * The examples of tar archives, one archive after the other, as WebDataset has them: files that
 * follow each other and share directory and name up to the first point are one example, such as
 * "train/0017.jpg" and "train/0017.cls". Other files of an example may hold anything. Directories,
 * links, and names without a point or that begin with one are left out. Archives are plain, gzipped
 * or compressed with zstd (detected from the content), in the forms of tar that libarchive reads.
 *
 * Blocking: walks over all headers, which reads 64 KiB for each longer file, and shorter ones
 * whole; 8 bytes of memory for each example. An example is read and its images decoded when its
 * element is needed, each time anew. Examples are fetched by number: a shuffle of all of them is a
 * permutation, a saved position is reached at once, and a worker reads its own only, or its own
 * archives (::RF_DISTRIBUTE_BY_FILE).
 *
 * Compressed archives are unpacked once to be counted, and again in each pass. Where there is one,
 * all are read in order, and every worker unpacks all of them, but for ::RF_DISTRIBUTE_BY_FILE.
 * @return RF_ERROR_NOT_FOUND, RF_ERROR_IO or RF_ERROR_CORRUPT_DATA with the archive and the number
 *   of the example, from 0; RF_ERROR_UNSUPPORTED where the library was built without libarchive.
 *   From rf_iterator_next(): RF_ERROR_CORRUPT_DATA for an example without one of the files, or with
 *   other values than its component takes, and RF_ERROR_INVALID_ARGUMENT for a file that is too
 *   long; rf_dataset_ignore_errors() leaves such examples out and counts them.
 */
RF_API RF_MUST_USE rf_result rf_dataset_from_tar(const rf_tar_params *params, rf_dataset **out);

/* ---- images ---- */

/**
 * Reads a PNG or JPEG file, whichever its content is. Palettes are resolved, 16 bits become 8, and
 * CMYK becomes RGB, as TensorFlow computes it. The orientation that a camera notes and colour
 * profiles are ignored.
 * @param channels 1 (grey), 3 (RGB) or 4 (RGB and alpha), to which the image is converted; 0: as
 * many as the file has, 1 to 4 (2: grey and alpha). Grey is 0.299 R + 0.587 G + 0.114 B; alpha is
 * dropped or is 255.
 * @param[out] out u8 [height, width, channels]; `data` is owned by the caller, who frees it with
 *   rf_array_free().
 * @return RF_ERROR_NOT_FOUND, RF_ERROR_IO, RF_ERROR_CORRUPT_DATA, or RF_ERROR_UNSUPPORTED: for
 * another kind of file, for more than 67,108,864 pixels, and for JPEG where the library was built
 * without libjpeg.
 */
RF_API RF_MUST_USE rf_result rf_image_read(const char *path, uint32_t channels, rf_array *out);

/** How rf_image_write() writes. NULL or zeroed: the defaults. */
typedef struct rf_image_write_params {
    int32_t quality;      /**< of JPEG, 1 to 100; 0: 95 */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_image_write_params;
/**
 * Writes an image to a PNG or JPEG file, whichever the ending of its name says: .png, .jpg or
 * .jpeg, in any case. A file of that name is replaced at once, when all has been written.
 * @param image u8, or f32 from 0 to 1, which is rounded and ends there; [height, width] or [height,
 *   width, channels] with 1 (grey), 2 (grey and alpha), 3 (RGB) or 4 (RGB and alpha) channels. JPEG
 *   has no alpha: 1 or 3.
 * @param params may be NULL
 * @return RF_ERROR_INVALID_ARGUMENT for another ending, type or shape, or a value that is no
 * number; RF_ERROR_IO with the file; RF_ERROR_UNSUPPORTED for JPEG where the library was built
 * without libjpeg.
 */
RF_API RF_MUST_USE rf_result rf_image_write(const char *path, const rf_array *image,
                                            const rf_image_write_params *params);

/** Images for rf_dataset_from_image_directory(). */
typedef struct rf_image_directory_params {
    const char *directory;
    /** to which images are resized; both 0: all have to have the size of the first readable one */
    uint32_t height, width;
    uint32_t channels;    /**< 1, 3 or 4; 0: 3 */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_image_directory_params;
/**
 * The images of a directory whose sub-directories are the classes (Keras'
 * image_dataset_from_directory): elements (image u8 [height, width, channels], label i32 []).
 *
 * Classes are numbered in the order of their names' bytes. Files whose names end with .png, .jpg or
 * .jpeg, in any case, count; those of directories inside a class belong to it; what begins with a
 * point does not count. Images come in the order of the classes and, within a class, of their
 * paths: shuffle them. Resizing is bilinear between the centres of pixels, without antialiasing, as
 * tf.image.resize() does it, rounded to u8.
 *
 * Blocking: lists the directories, and reads the first image where no size is given (if that is
 * damaged, the next ones). An image is read when its element is needed, each time anew:
 * rf_dataset_cache() keeps them. They are fetched by number, and a worker reads its own only.
 * @return RF_ERROR_NOT_FOUND when there are no images, RF_ERROR_IO. A failure of rf_image_read()
 * comes from rf_iterator_next(), with the name of the file. So does RF_ERROR_INVALID_ARGUMENT for
 * an image of another size, and RF_ERROR_IO for a pipe or a device that has the name of an image.
 * rf_dataset_ignore_errors() leaves such images out and counts them.
 */
RF_API RF_MUST_USE rf_result
rf_dataset_from_image_directory(const rf_image_directory_params *params, rf_dataset **out);
/**
 * Name of a class of the image directory that the dataset, or the input of its steps, was made
 * from; NULL when there is none of that number. The string lives as long as the dataset.
 */
RF_API const char *rf_dataset_class_name(const rf_dataset *dataset, uint32_t class_number);

#ifdef __cplusplus
}
#endif
#endif
