/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Traces: where the time of a run goes, as a file that Perfetto (ui.perfetto.dev) and Chrome
 * (chrome://tracing) display.
 *
 * A trace holds spans of the threads of the host, of the devices and of the communication between
 * workers. It can also be taken without changing the program: RINGFIRE_TRACE=FILE starts a trace
 * with the first strategy or communicator and ends it with the program. In a job of several workers
 * each writes its own file ("trace.json" becomes "trace.rank0.json", ...); `ringfire trace merge`
 * combines them. A job that is started again writes others ("trace.attempt2.rank0.json", ...).
 *
 * All functions are thread-safe.
 */
#ifndef RINGFIRE_PROFILE_H
#define RINGFIRE_PROFILE_H

#include <ringfire/common.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Options of rf_profiler_start(): the contents and the place of a record. */
typedef struct rf_profiler_params {
    const char *path; /**< required; an existing file is replaced */
    /**
     * Number of this process in the trace, until a strategy or communicator of a job provides it.
     */
    uint32_t rank;
    /**
     * Device times of single operations are measured in every n-th run of a program only, because
     * measuring costs time. All other runs are recorded with their begin and end.
     * 0: 64, or RINGFIRE_TRACE_OPS. UINT32_MAX: never.
     */
    uint32_t op_interval;
    /**
     * Limit for the size of the file. Events beyond it are left out, and counted at the end of the
     * file. 0: 1 GiB.
     */
    uint64_t max_bytes;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_profiler_params;

/**
 * Starts the trace of this process. There is at most one at a time.
 * @return RF_ERROR_IO when the file cannot be written, RF_ERROR_INVALID_ARGUMENT without a path or
 *   while another trace is running.
 */
RF_API RF_MUST_USE rf_result rf_profiler_start(const rf_profiler_params *params);
/**
 * Ends the trace and completes the file. Blocking: writes what is buffered.
 * Device times of the latest runs are included only when the results of those runs were read
 * before.
 * @return RF_OK, also when no trace is running; RF_ERROR_IO when something could not be written.
 */
RF_API rf_result rf_profiler_stop(void);

/**
 * Begins a span of the caller's own.
 * Returns the time for rf_profiler_end(), or 0 when no trace is running.
 */
RF_API uint64_t rf_profiler_begin(void);
/**
 * Ends a span that the same thread began. A `begin` of 0 does nothing.
 * Spans of one thread should be nested. `name` is copied and cut to 47 bytes.
 */
RF_API void rf_profiler_end(uint64_t begin, const char *name);

#ifdef __cplusplus
}
#endif
#endif
