/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Traces: where the time of a run goes, as a file that Perfetto (ui.perfetto.dev) and Chrome
 * (chrome://tracing) show.
 *
 * A trace holds spans of the host's threads, of the devices and of the communication between
 * workers. It can also be had without a change to the program: RINGFIRE_TRACE=FILE starts one with
 * the first strategy or communicator and ends it with the program. In a job of several workers each
 * writes its own file ("trace.json" becomes "trace.rank0.json", ...); `ringfire trace merge` puts
 * them together.
 */
#ifndef RINGFIRE_PROFILE_H
#define RINGFIRE_PROFILE_H

#include <ringfire/common.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_profiler_params {
    const char *path; /**< written anew */
    uint32_t rank; /**< what the trace calls this process, until a strategy or communicator of a job
                      says it */
    uint32_t op_interval; /**< device times of single operations are taken in every n-th run of a
                             program, since they cost time; 0: 64 (also: RINGFIRE_TRACE_OPS);
                             UINT32_MAX: never. Of all other runs the trace has begin and end. */
    uint64_t max_bytes; /**< what would make the file longer is left out, and counted at its end; 0:
                           1 GiB */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_profiler_params;

/**
 * Starts the trace of this process; there is one at a time. Thread-safe.
 * @return RF_ERROR_IO when the file cannot be written, RF_ERROR_INVALID_ARGUMENT while another
 * trace runs.
 */
RF_API RF_MUST_USE rf_result rf_profiler_start(const rf_profiler_params *params);
/** Ends the trace and completes the file. RF_OK when none runs; RF_ERROR_IO when something could
 * not be written. Device times of the latest runs are in the file only when their results were read
 * before. Thread-safe. */
RF_API rf_result rf_profiler_stop(void);

/** A span of the caller's: the time at its beginning, 0 when no trace is running, ... */
RF_API uint64_t rf_profiler_begin(void);
/** ... and its end, by the same thread. Does nothing for a begin of 0. Spans of a thread should lie
 * within each other. `name` is copied, cut to 47 bytes. */
RF_API void rf_profiler_end(uint64_t begin, const char *name);

#ifdef __cplusplus
}
#endif
#endif
