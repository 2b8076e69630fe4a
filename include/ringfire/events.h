/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Event files, which TensorBoard displays: values over the steps of a training, histograms, images,
 * texts, hyperparameters and graphs. A run is a directory; TensorBoard shows every directory with
 * event files below its --logdir as one run.
 *
 * Tags, names and texts are UTF-8. Anything else is RF_ERROR_INVALID_ARGUMENT, and nothing is
 * written.
 */
#ifndef RINGFIRE_EVENTS_H
#define RINGFIRE_EVENTS_H

#include <ringfire/common.h>
#include <ringfire/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- writing ---- */

/**
 * Writes one event file. Its functions are thread-safe, except for rf_event_writer_destroy().
 * They append to memory and write to the file now and then. A failure to write is permanent: later
 * calls return it (RF_ERROR_IO).
 */
typedef struct rf_event_writer rf_event_writer;

/** Where events are written. `directory` is required. */
typedef struct rf_event_writer_params {
    const char *directory; /**< of the run; created where it does not exist */
    /** How long events wait for the file at most, until the next call after that time. 0: 10. */
    double flush_seconds;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_event_writer_params;

/**
 * Creates a new file "events.out.tfevents.TIME.HOST.PID.N.v2" in the directory.
 * @return RF_ERROR_IO when it cannot be created.
 */
RF_API RF_MUST_USE rf_result rf_event_writer_create(const rf_event_writer_params *params,
                                                    rf_event_writer **out);
/**
 * Writes the remaining events as far as possible, and closes the file. Call rf_event_writer_flush()
 * first to see a failure.
 */
RF_API void rf_event_writer_destroy(rf_event_writer **writer);
/** Path of the file, owned by the writer. */
RF_API const char *rf_event_writer_path(const rf_event_writer *writer);
/** Hands all events to the operating system. Blocking. */
RF_API RF_MUST_USE rf_result rf_event_writer_flush(rf_event_writer *writer);

/* Tags, names and texts are UTF-8; what is not is RF_ERROR_INVALID_ARGUMENT, and nothing is
 * written. */

/** Adds one value, which is stored in single precision. */
RF_API RF_MUST_USE rf_result rf_event_writer_scalar(rf_event_writer *writer, const char *tag,
                                                    int64_t step, double value);
/**
 * Adds the distribution of `count` values, in 30 buckets of equal width from the smallest to the
 * largest. NaNs and infinities are not counted.
 */
RF_API RF_MUST_USE rf_result rf_event_writer_histogram(rf_event_writer *writer, const char *tag,
                                                       int64_t step, const float *values,
                                                       uint64_t count);
/**
 * Adds images [h, w, c] or [n, h, w, c] with 1 (grey), 2 (grey, alpha), 3 (RGB) or 4 (RGB, alpha)
 * channels. They are u8, or f32 from 0 to 1, to which other values are clamped. They are stored as
 * PNG.
 */
RF_API RF_MUST_USE rf_result rf_event_writer_image(rf_event_writer *writer, const char *tag,
                                                   int64_t step, const rf_array *images);
/** Adds a text, which is displayed as Markdown. */
RF_API RF_MUST_USE rf_result rf_event_writer_text(rf_event_writer *writer, const char *tag,
                                                  int64_t step, const char *text);

/** A hyperparameter: a text or a number. */
typedef struct rf_hparam {
    const char *name;
    const char *text; /**< NULL: `number` is the value */
    double number;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_hparam;
/**
 * Adds the hyperparameters of the run, at most once. The run counts as completed when the writer is
 * destroyed.
 */
RF_API RF_MUST_USE rf_result rf_event_writer_hparams(rf_event_writer *writer,
                                                     const rf_hparam *items, uint32_t count);

/** A node of a graph. Names are unique; "a/b" is displayed as b within a. */
typedef struct rf_event_node {
    const char *name, *op;
    const char *const *inputs; /**< names of nodes, or "name:1" for the second output */
    uint32_t num_inputs;
    const rf_shape *shapes; /**< of the outputs */
    uint32_t num_shapes;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_event_node;
/** Adds the graph of the run, as TensorFlow's GraphDef. */
RF_API RF_MUST_USE rf_result rf_event_writer_graph(rf_event_writer *writer,
                                                   const rf_event_node *nodes, uint32_t count);

/* ---- reading ---- */

/** Reads one event file. It may be used by one thread at a time. */
typedef struct rf_event_reader rf_event_reader;

/** The contents of an event. */
typedef enum rf_event_kind {
    RF_EVENT_OTHER,   /**< something that this reader does not interpret */
    RF_EVENT_VERSION, /**< `text`: the first event of a file */
    RF_EVENT_SCALAR,
    RF_EVENT_HISTOGRAM,
    /** `bytes`: one encoded image; several images of one call follow each other */
    RF_EVENT_IMAGE,
    RF_EVENT_TEXT,
    RF_EVENT_GRAPH, /**< `bytes`: a GraphDef */
} rf_event_kind;

/** One event. Fields that its kind does not use are zero or NULL. */
typedef struct rf_event {
    rf_event_kind kind;
    double wall_time; /**< seconds since 1970 */
    int64_t step;
    const char *tag; /**< "" where there is none */
    double scalar;
    const double *buckets; /**< histogram: left end, right end, count of each */
    uint32_t num_buckets;
    const char *text;     /**< of texts and versions */
    const void *bytes;    /**< of images and graphs */
    uint64_t size;        /**< of `bytes` */
    uint64_t reserved[4]; /**< zero until a later version has more to say */
} rf_event;

/**
 * Opens an event file, whichever program wrote it.
 * @return RF_ERROR_NOT_FOUND or RF_ERROR_IO.
 */
RF_API RF_MUST_USE rf_result rf_event_reader_open(const char *path, rf_event_reader **out);
/** Closes a file and frees what the last event points to. */
RF_API void rf_event_reader_close(rf_event_reader **reader);
/**
 * The next event. Its pointers are valid until the next call. The file is not trusted: checksums
 * are verified, and memory is bounded by the size of the file.
 * @return RF_END at the end, also where the last record is not complete yet: a later call finds
 *   what was appended since. RF_ERROR_CORRUPT_DATA names the place of the damage.
 */
RF_API RF_MUST_USE rf_result rf_event_reader_next(rf_event_reader *reader, rf_event *out);

#ifdef __cplusplus
}
#endif
#endif
