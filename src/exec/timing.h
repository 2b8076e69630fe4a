/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the time of one kernel is taken (kernel_run.c does it): runs of it stand one after the other in one recording, as
 * many as take a millisecond, and their time together is divided. The cost of a submission and the wait for it, tens of
 * microseconds on a GPU, does not count so. Decisions are pure functions.
 */
#ifndef RF_EXEC_TIMING_H
#define RF_EXEC_TIMING_H

#include "base/device_caps.h"
#include "graph/op.h"

#define RF_TIMING_LEAST_SECONDS 1e-3 /* that a recording takes, where so many runs fit */
#define RF_TIMING_MOST_RUNS 4096u    /* of one recording */
#define RF_TIMING_MOST_SAMPLES 1000u

typedef enum rf_clock {
    RF_CLOCK_CHOOSE,    /* as rf_timing_clock() says */
    RF_CLOCK_HOST,      /* from submission until the end of the wait */
    RF_CLOCK_DEVICE,    /* timestamps within the recording */
    RF_CLOCK_PROCESSOR, /* what all threads of the process computed meanwhile: of software drivers, on a busy machine */
} rf_clock;
/* The device's where its queue has timestamps, also on software devices: both clocks give the same there while the
 * machine is idle, and the host's is more easily disturbed. */
rf_clock rf_timing_clock(bool has_timestamps);

/* How many runs the next recording is to have after one of `runs` took `seconds`: the same number when it will do. */
uint32_t rf_timing_runs(uint32_t runs, double seconds);
/* Whether one more sample is to be taken after `samples` that took `spent` together. */
bool rf_timing_goes_on(uint32_t samples, double spent, double wanted);

/* Sets of operands of `bytes` each that runs go through in turn, so that one finds no more in the device's caches than
 * it would in a training step: operands of middling size are stale when their turn comes again, small ones stay. */
uint32_t rf_timing_sets(const rf_device_caps *caps, uint64_t bytes);
/* The same for runs that do not wait for each other, which must not write to the same place; 0 where it cannot be. */
uint32_t rf_timing_overlapped_sets(const rf_device_caps *caps, const rf_op_call *call, const rf_kernel_plan *plan,
                                   uint64_t bytes);

/*
 * A GPU that has had nothing to do runs at a fraction of its clock, and takes a while of work to clock up: an H200 that
 * had waited for operands, or for pipelines to be compiled, for some tenths of a second ran products five times too
 * slowly for the 0.2 s that followed. So before samples count it is kept busy, once for a series of measurements that
 * follow each other closely.
 */
#define RF_WARM_SECONDS 0.3  /* of work that a device needs */
#define RF_WARM_PAUSE 0.1    /* without work, after which it needs them anew */
#define RF_WARM_PATIENCE 1.0 /* that keeping it busy may take by the host's clock: some drivers compute nothing */
typedef struct rf_warmth {
    double busy;      /* seconds of work without such a pause */
    uint64_t last_ns; /* when the latest work ended, by rf_now_ns(); 0: there was none */
} rf_warmth;
/* Work of so many seconds has just ended. */
void rf_warmth_add(rf_warmth *warmth, uint64_t now_ns, double seconds);
/* Whether it is to be kept busy, which began at `begin_ns`. Processors clock up in no time. */
bool rf_warmth_wanted(const rf_warmth *warmth, const rf_device_caps *caps, uint64_t begin_ns, uint64_t now_ns);

/* The smallest and the middle one; sorts. */
void rf_timing_summarize(double *samples, uint32_t count, double *best, double *median);

/* ---- which kernels of an op are worth measuring ---- */

/* Kernels by falling score into order[0 .. return value - 1], without those that cannot run (score <= 0) and those
 * whose score says that they take more than ten times as long as the best. */
uint32_t rf_tune_order(const double *scores, uint32_t count, uint32_t *order);
/* A candidate whose first run takes longer than this is not measured any further; `best`: seconds of the best one so
 * far. */
double rf_tune_limit(double best);

#endif
