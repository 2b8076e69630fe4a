/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Event files, as TensorBoard shows them: values over the steps of a training, histograms, images,
 * texts, hyperparameters and graphs. A run is a directory; TensorBoard takes every directory with
 * event files below its --logdir as one.
 */
#ifndef RINGFIRE_EVENTS_H
#define RINGFIRE_EVENTS_H

#include <ringfire/common.h>
#include <ringfire/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- writing ---- */

typedef struct rf_event_writer rf_event_writer;

typedef struct rf_event_writer_params {
    const char *directory; /**< of the run; made where it does not exist */
    double flush_seconds;  /**< events wait at most so long (until the next call after it) for the
                              file; 0: 10 */
    uint64_t reserved[4];  /**< zero: room for later fields */
} rf_event_writer_params;

/** Creates a new file "events.out.tfevents.TIME.HOST.PID.N.v2" in the directory. Calls on a writer
 * are thread-safe; they append to memory and write to the file now and then. A failure to write
 * sticks: later calls return it. */
RF_API RF_MUST_USE rf_result rf_event_writer_create(const rf_event_writer_params *params,
                                                    rf_event_writer **out);
/** Writes what waits, as far as that works: call rf_event_writer_flush() first to know. */
RF_API void rf_event_writer_destroy(rf_event_writer **writer);
/** Path of the file; lives as long as the writer. */
RF_API const char *rf_event_writer_path(const rf_event_writer *writer);
/** Hands all events to the operating system. */
RF_API RF_MUST_USE rf_result rf_event_writer_flush(rf_event_writer *writer);

/* Tags, names and texts are UTF-8; what is not is RF_ERROR_INVALID_ARGUMENT, and nothing is
 * written. */

/** One value; kept in single precision. */
RF_API RF_MUST_USE rf_result rf_event_writer_scalar(rf_event_writer *writer, const char *tag,
                                                    int64_t step, double value);
/** How values are distributed, in 30 buckets of equal width from the smallest to the largest. NaNs
 * and infinities are not counted. */
RF_API RF_MUST_USE rf_result rf_event_writer_histogram(rf_event_writer *writer, const char *tag,
                                                       int64_t step, const float *values,
                                                       uint64_t count);
/** Images [h, w, c] or [n, h, w, c] with 1 (grey), 2 (and alpha), 3 (RGB) or 4 channels, u8 or f32
 * from 0 to 1 (what lies outside is cut); stored as PNG. */
RF_API RF_MUST_USE rf_result rf_event_writer_image(rf_event_writer *writer, const char *tag,
                                                   int64_t step, const rf_array *images);
/** Shown as Markdown. */
RF_API RF_MUST_USE rf_result rf_event_writer_text(rf_event_writer *writer, const char *tag,
                                                  int64_t step, const char *text);

typedef struct rf_hparam {
    const char *name;
    const char *text; /**< NULL: `number` is the value */
    double number;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_hparam;
/** The hyperparameters of the run. At most once; the run counts as completed when the writer is
 * destroyed. */
RF_API RF_MUST_USE rf_result rf_event_writer_hparams(rf_event_writer *writer,
                                                     const rf_hparam *items, uint32_t count);

/** A node of a graph. Names are unique; "a/b" shows b within a. */
typedef struct rf_event_node {
    const char *name, *op;
    const char *const *inputs; /**< names of nodes, or "name:1" for the second output */
    uint32_t num_inputs;
    const rf_shape *shapes; /**< of the outputs */
    uint32_t num_shapes;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_event_node;
/** The run's graph, in TensorFlow's GraphDef. */
RF_API RF_MUST_USE rf_result rf_event_writer_graph(rf_event_writer *writer,
                                                   const rf_event_node *nodes, uint32_t count);

/* ---- reading ---- */

typedef struct rf_event_reader rf_event_reader;

typedef enum rf_event_kind {
    RF_EVENT_OTHER,   /**< something this reader does not look into */
    RF_EVENT_VERSION, /**< `text`: first event of a file */
    RF_EVENT_SCALAR,
    RF_EVENT_HISTOGRAM,
    RF_EVENT_IMAGE, /**< `bytes`: an encoded image; several of one call come one after the other */
    RF_EVENT_TEXT,
    RF_EVENT_GRAPH, /**< `bytes`: a GraphDef */
} rf_event_kind;

typedef struct rf_event {
    rf_event_kind kind;
    double wall_time; /**< seconds since 1970 */
    int64_t step;
    const char *tag; /**< "" where there is none */
    double scalar;
    const double *buckets; /**< histogram: left end, right end, count of each */
    uint32_t num_buckets;
    const char *text;     /**< text, version; NULL else */
    const void *bytes;    /**< image, graph */
    uint64_t size;        /**< of `bytes` */
    uint64_t reserved[4]; /**< zero until a later version has more to say */
} rf_event;

/** Opens an event file of whatever program. Not thread-safe. */
RF_API RF_MUST_USE rf_result rf_event_reader_open(const char *path, rf_event_reader **out);
RF_API void rf_event_reader_close(rf_event_reader **reader);
/** The next event; what it points to lives until the next call. The file is not trusted: checksums
 * are looked at, and memory is bounded by its size.
 *  @return RF_END at the end, also where the last record is not complete yet: a later call finds
 * what was added since. RF_ERROR_CORRUPT_DATA names the place. */
RF_API RF_MUST_USE rf_result rf_event_reader_next(rf_event_reader *reader, rf_event *out);

#ifdef __cplusplus
}
#endif
#endif
