/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Status of a running job: its workers and devices, speed, values and latest checkpoint.
 *
 * With RINGFIRE_STATUS set, the chief (rank 0) of a job, or a process that trains by itself, tells
 * it to readers that hold a key. `ringfire top` shows it. The value of the variable is one of:
 *
 * - `host:port`, or a port of loopback: readers need the job's key.
 * - a directory: the chief writes the file `ringfire.status` into it, with a port of loopback and a
 *   key that serves nothing else. Only the user who started the job can read the file.
 *
 * The first strategy of a process on which a function with `training` is created has the status;
 * its destruction ends it.
 */
#ifndef RINGFIRE_STATUS_H
#define RINGFIRE_STATUS_H

#include <ringfire/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How far a training loop has come. rf_model_fit() tells it by itself. */
typedef struct rf_progress {
    uint32_t epoch;             /**< the current one, from 0 */
    uint32_t num_epochs;        /**< 0: not known */
    uint64_t batch;             /**< batches of this epoch that are done */
    uint64_t batches_per_epoch; /**< 0: not known */
    const char *const *names;   /**< of values, such as "loss"; borrowed during the call */
    const double *values;       /**< the latest known ones; borrowed during the call */
    uint32_t num_values;        /**< at most 32; others that were told before stay */
    uint64_t reserved[4];       /**< zero: room for later fields */
} rf_progress;

/**
 * Tells how far a loop of the program's own has come, for readers of the status.
 * Steps of functions with `training` that run afterwards count as batches of the epoch, so that one
 * call at the beginning of an epoch and one at its end are enough. Without RINGFIRE_STATUS, and on
 * all workers but the chief, it does nothing. Does not block. Not thread-safe with the destruction
 * of the strategy.
 * @return RF_ERROR_INVALID_ARGUMENT for an argument that cannot be.
 */
RF_API RF_MUST_USE rf_result rf_strategy_set_progress(rf_strategy *strategy,
                                                      const rf_progress *progress);

/** Where the status is read, and with which key. */
typedef struct rf_status_params {
    const char *address;   /**< "host:port", as in RINGFIRE_STATUS; NULL: see `directory` */
    const char *directory; /**< instead of `address`: the directory that RINGFIRE_STATUS names */
    /** Job key, for `address`. NULL: RINGFIRE_KEY_FILE, else the one of rf_key_file_default(). */
    const char *key_file;
    bool insecure;        /**< the job has no key; for `address` */
    double timeout;       /**< seconds; 0: 5 */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_status_params;

/**
 * Reads the status of a running job once, as one JSON object (reference: wire format).
 * Blocking, for `timeout` at most. Thread-safe.
 * @param[out] json freed with rf_string_free(); NULL on failure.
 * @return RF_ERROR_NOT_FOUND when nobody answers there: the job has not begun, or has ended.
 *   RF_ERROR_INVALID_ARGUMENT for another key. RF_ERROR_TIMEOUT when the chief does not answer.
 */
RF_API RF_MUST_USE rf_result rf_status_read(const rf_status_params *params, char **json);

#ifdef __cplusplus
}
#endif
#endif
