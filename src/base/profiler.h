/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans for the trace of include/ringfire/profile.h, from every layer. While no trace is running a span costs one load
 * and one branch; otherwise it costs two clock readings and a store to memory of the thread. Use:
 *
 *     const uint64_t begin = rf_span_begin();
 *     ...
 *     rf_span_end(begin, "replica", "upload");
 *
 * A function that fails in between leaves no span.
 */
#ifndef RF_BASE_PROFILER_H
#define RF_BASE_PROFILER_H

#include <ringfire/profile.h>

#include <stdatomic.h>

#include "base/platform.h"

/* Number of the trace that runs, 0: none. */
extern atomic_uint rf_profiler_running;

static inline bool rf_profiler_on(void)
{
    return atomic_load_explicit(&rf_profiler_running, memory_order_relaxed) != 0;
}

/* Up to two numbers that a viewer shows with the span. */
typedef struct rf_span_arg {
    const char *key; /* lives as long as the program; NULL: none */
    int64_t value;
} rf_span_arg;

typedef struct rf_span_event {
    const char *category, *name; /* the category lives as long as the program; the name is copied and cut */
    uint64_t begin_ns, end_ns;   /* rf_now_ns() */
    uint32_t track;              /* rf_profiler_track(); 0: the calling thread */
    rf_span_arg args[2];
} rf_span_event;
void rf_profiler_event(const rf_span_event *event);

/* A line of its own in the viewer, for what is no thread. Numbers are never given twice. 0 when memory ran out. */
uint32_t rf_profiler_track(const char *name);

static inline uint64_t rf_span_begin(void)
{
    return rf_profiler_on() ? rf_now_ns() : 0;
}
static inline void rf_span_end(uint64_t begin, const char *category, const char *name)
{
    if (begin == 0) return;
    rf_profiler_event(&(rf_span_event){ .category = category, .name = name, .begin_ns = begin, .end_ns = rf_now_ns() });
}
static inline void rf_span_end_with(uint64_t begin, const char *category, const char *name, rf_span_arg a,
                                    rf_span_arg b)
{
    if (begin == 0) return;
    rf_profiler_event(&(rf_span_event){
        .category = category, .name = name, .begin_ns = begin, .end_ns = rf_now_ns(), .args = { a, b } });
}

/* Whether this run of a program, the `count`-th since it was compiled, is one whose operations are timed. */
bool rf_profiler_times_ops(uint64_t count);

/* This process' place in its job is known, and how often that was started again: starts what RINGFIRE_TRACE asks for,
 * unless a trace runs already. */
rf_result rf_profiler_join(uint32_t rank, uint32_t world_size, uint64_t epoch);

#endif
