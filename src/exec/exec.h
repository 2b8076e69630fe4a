/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From graph to replayed command buffers. A context holds one device's slab, kernel choices and pipelines; a program is
 * a compiled graph; per batch size it keeps an instance (shapes, memory plan, recording), so that a run is: copy
 * inputs, submit. Programs of one context run in submission order and share the slab.
 */
#ifndef RF_EXEC_EXEC_H
#define RF_EXEC_EXEC_H

#include "exec/timing.h"
#include "gpu/gpu.h"
#include "graph/graph.h"

typedef struct rf_exec rf_exec;
typedef struct rf_program rf_program;

typedef struct rf_exec_params {
    rf_gpu_device *device;       /* borrowed */
    const char *cache_directory; /* tuning results; NULL: none */
    bool cache_read_only;
    bool force_staging;    /* copy inputs and results as if device memory could not be mapped (tests) */
    uint64_t segment_size; /* of the slab, as if the device allocated no more at once (tests); 0: its limit */
} rf_exec_params;
rf_result rf_exec_create(const rf_exec_params *params, rf_exec **out);
void rf_exec_destroy(rf_exec **exec);
rf_gpu_device *rf_exec_device(const rf_exec *exec);
/* The ops that graphs are created with, for layers that do not see them. */
const rf_core_ops *rf_exec_core_ops(void);

/* Kernel for a call: tuned choice if there is one, else the best score. Pure but for the tuning table. */
rf_result rf_exec_choose(rf_exec *exec, const rf_op_call *call, const rf_kernel **out);
/* Measures the kernels for a call that may be the fastest on the device and remembers the one that is (also in the
 * cache file). */
rf_result rf_exec_tune(rf_exec *exec, const rf_op_call *call);

/* Where a STATE value lives, and where a result is to be placed (gradients). */
typedef struct rf_location {
    rf_gpu_buffer *buffer;
    uint64_t offset;
} rf_location;
typedef struct rf_program_placement {
    rf_value value;
    rf_location at;
    uint32_t part; /* of the run at whose end it is there; see rf_frame_submit_part() */
} rf_program_placement;

/* Sums over all replicas, for a program that is one of several: where it leaves what it adds, and where it finds the
 * sums, each at the same offset in both. */
typedef struct rf_program_sum_places {
    rf_location own, total;
    uint64_t alignment; /* of the sums' offsets, in elements */
} rf_program_sum_places;

typedef struct rf_program_params {
    const char *name;
    const rf_graph *graph;   /* cloned; optimised by the program */
    const rf_value *results; /* read back after a run, in this order */
    uint32_t num_results;
    const rf_location *states;              /* [graph->num_states] by slot */
    const rf_program_placement *placements; /* results that go to fixed places instead of the slab */
    uint32_t num_placements;
    const rf_program_sum_places *sum_places; /* NULL: it runs alone, and what it adds is the sum */
    bool picks_numbers; /* a run reads few of the numbers that the host gives: from where the host writes them */
} rf_program_params;
rf_result rf_program_create(rf_exec *exec, const rf_program_params *params, rf_program **out);
void rf_program_destroy(rf_program **program); /* waits for its runs */

/* A run in flight. Frames take turns (two per instance, or as many as rf_exec_keep_frames() says), so inputs of the
 * next run can be written while one executes. Instances of the eight most recent batch sizes are kept; a frame and its
 * results are gone with its instance. */
typedef struct rf_frame rf_frame;
/* From now on as many runs of an instance as this may be under way, at least two; further frames are made when they are
 * needed. Never lowers what was asked for before. */
void rf_exec_keep_frames(rf_exec *exec, uint32_t count);
/* How many frames of `bytes` an instance gets of those that are wanted: two at least. Pure. */
#define RF_MAX_FRAMES 64u
uint32_t rf_frame_limit(uint32_t wanted, uint64_t bytes);
/* How many the frame's instance has or may get. */
uint32_t rf_frame_most(const rf_frame *frame);
/* Prepares the instance for this batch (compiles at first use), waits until its oldest frame is free. Graphs without
 * inputs take batch 0. */
rf_result rf_program_acquire(rf_program *program, int64_t batch, rf_frame **out);
/* Everything that the first rf_program_acquire() would make and need memory for, without acquiring anything. */
rf_result rf_program_ready(rf_program *program, int64_t batch);
/* Host memory to fill before submitting: input component / host value by slot. Sizes as rf_tensor_bytes of the shapes.
 * NULL when the (optimised) graph does not use it. */
void *rf_frame_input(rf_frame *frame, uint32_t slot);
void *rf_frame_host(rf_frame *frame, uint32_t slot);
/* Submits several frames (of programs of one context) in order as one submission. */
rf_result rf_frames_submit(rf_exec *exec, rf_frame *const *frames, uint32_t count, uint64_t *ticket);
/*
 * Submits one part of a run whose placements say more than part 0, so that what a part has placed can be used while the
 * rest computes. All parts, in order; the last one also does everything that no placement needs. Between parts only
 * programs without intermediates (rf_program_stats::slab_size 0) may be submitted, and nothing acquired: the slab holds
 * the run's.
 */
uint32_t rf_program_num_parts(const rf_program *program);
rf_result rf_frame_submit_part(rf_exec *exec, rf_frame *frame, uint32_t part, uint64_t *ticket);
/*
 * Parts of sums over replicas come before these and are counted by themselves. When one is done, `own` has what the
 * replica adds to the sums of that part; the sums must be at `total` before the next part is submitted, whichever kind
 * it is of. Which sums there are, and in which parts, depends on the graph alone: it is the same for all replicas.
 */
typedef struct rf_program_sum {
    rf_value in, out; /* of the program's graph */
    uint32_t part;
    uint64_t offset, count; /* elements */
} rf_program_sum;
const rf_program_sum *rf_program_sums(const rf_program *program, uint32_t *count);
uint32_t rf_program_num_sum_parts(const rf_program *program);
rf_result rf_frame_submit_sum_part(rf_exec *exec, rf_frame *frame, uint32_t part, uint64_t *ticket);
/* parts[slot]: the last part of the run that touches a state, 0 where none does; graph->num_states entries. For
 * programs without sums over replicas. */
rf_result rf_frame_state_parts(const rf_frame *frame, uint32_t *parts);
/* Result i, valid once its ticket is done until the frame is acquired again. */
const void *rf_frame_result(const rf_frame *frame, uint32_t i);
const rf_tensor_desc *rf_frame_result_desc(const rf_frame *frame, uint32_t i);

/* The outcome of planning a program, for tests, traces and benchmarks. */
typedef struct rf_program_stats {
    uint32_t num_nodes, num_dispatches; /* that run for this batch size */
    uint32_t num_pipelines;             /* distinct ones over all batch sizes so far */
    uint32_t num_barriers;              /* within one run, between its own commands */
    rf_gpu_commands commands;           /* that one run records: all of them, those at its ends included */
    uint64_t slab_size, naive_size;
    uint64_t upload_size; /* bytes that the host writes for a run */
} rf_program_stats;
rf_result rf_program_stats_get(rf_program *program, int64_t batch, rf_program_stats *out);

/* ---- one op alone: tests, tuning and benchmarks ---- */
typedef struct rf_kernel_timing {
    rf_clock clock;     /* also out: which one it was */
    double min_seconds; /* are spent on it */
    double give_up;     /* > 0: only the first run is timed where it takes longer than this */
    bool overlapped;    /* also time runs that need not wait for each other */
    bool as_it_is;      /* the device is not warmed up */
    /* out, seconds of one run: */
    double best, median;       /* each ends before the next begins, as in a training step */
    double overlapped_seconds; /* best; 0: not measured, or an op that has to wait */
    uint32_t runs, samples;    /* of one recording; how often it was timed */
    uint32_t sets;             /* of operands, taken in turn */
    bool gave_up;
} rf_kernel_timing;
typedef struct rf_kernel_run {
    const rf_op_call *call;
    const rf_kernel *kernel;
    void *const *in;  /* host bytes; mutated inputs are written back */
    void *const *out; /* host bytes, filled in */
    bool guard;       /* surround and prefill outputs and workspace with NaN patterns; damage is RF_ERROR_INTERNAL */
    uint32_t inplace_input;   /* i + 1: output 0 takes the place of input i (RF_OP_INPLACE); 0: a place of its own */
    rf_kernel_timing *timing; /* NULL: runs once; else further runs, which change nothing of what comes back */
    uint32_t pieces;          /* > 1: each dispatch is taken apart into so many, where it has as many workgroups */
} rf_kernel_run;
rf_result rf_kernel_execute(rf_exec *exec, rf_kernel_run *run);

#endif
