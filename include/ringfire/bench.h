/* SPDX-License-Identifier: Apache-2.0 */
/** @file Measuring kernels on a device; what `ringfire bench` is made of. */
#ifndef RINGFIRE_BENCH_H
#define RINGFIRE_BENCH_H

#include <ringfire/common.h>
#include <ringfire/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One measured kernel at one case. */
typedef struct rf_bench_row {
    const char *device, *op, *kernel, *case_name;
    double seconds; /**< best of several runs, submission included */
    double gflops;  /**< arithmetic rate by the op's cost function, 0 where it does none */
    double gbytes;  /**< memory rate by the op's cost function, in 1e9 bytes a second */
    bool chosen;    /**< the kernel that would be used here */
} rf_bench_row;
/** Called per row; a negative result stops the run, which returns it. */
typedef rf_result (*rf_bench_fn)(void *user, const rf_bench_row *row);

typedef struct rf_bench_ops_params {
    const char *device; /**< as rf_one_device_params::device */
    const char *op;     /**< only ops whose name contains this; NULL: all */
    bool all_kernels;   /**< every eligible kernel, not just the chosen one */
    bool tune;          /**< remember the fastest in the tuning cache */
    double min_seconds; /**< time spent per row; 0: 0.2 */
    rf_device_options options;
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_bench_ops_params;
/** Runs the benchmark cases of the op table on one device. Blocking, minutes for all. @since 0.1 */
RF_API RF_MUST_USE rf_result rf_bench_ops(const rf_bench_ops_params *params, rf_bench_fn fn,
                                          void *user);

/** Speed of this machine right now: bytes read plus written per second, in 1e9, of a memcpy of
 * `bytes` on one thread. */
RF_API double rf_bench_memcpy(size_t bytes);

/** Time per node of a function's recorded step, measured with device timestamps where there are
 * some. */
typedef struct rf_bench_node {
    const char *op, *kernel;
    double seconds, gflops, gbytes;
    uint64_t reserved[4]; /**< zero until a later version has more to say */
} rf_bench_node;
/** Profiles replica 0's part of a function that has run with `examples` examples at least once.
 * `*rows` is freed with rf_bench_nodes_free(). */
RF_API RF_MUST_USE rf_result rf_bench_function(rf_function *function, uint32_t examples,
                                               rf_bench_node **rows, uint32_t *count);
RF_API void rf_bench_nodes_free(rf_bench_node *rows);

#ifdef __cplusplus
}
#endif
#endif
