/* SPDX-License-Identifier: Apache-2.0 */
/* Measurements of kernels, devices and steps, which look inside the library: what `ringfire-bench` is made of. */
#ifndef BENCH_MEASURE_MEASURE_H
#define BENCH_MEASURE_MEASURE_H

#include <ringfire/common.h>
#include <ringfire/strategy.h>

#include "exec/exec.h"

/*
 * One measured kernel in one case. It and its strings are borrowed for the call of the callback.
 */
typedef struct rf_bench_row {
    const char *device, *op, *kernel, *case_name;
    /* one run, the best of several measurements: many runs stand in one submission, each after the
     * end of the one before, as in a training step */
    double seconds;
    /* 1e9 operations per second, by the op's cost function; 0 where it has none */
    double gflops;
    double gbytes;         /* 1e9 bytes of memory traffic per second, by the op's cost function */
    bool chosen;           /* whether this kernel would be used in this case */
    double median_seconds; /* of the measurements of which `seconds` is the best */
    /* one run among others that do not wait for each other; 0 where it cannot be: the operation
     * changes its input or has several stages */
    double overlapped_seconds;
    bool device_clock; /* measured by timestamps of the device */
    /* of a recurrent operation: `gflops` of what it multiplies in a step as a product alone, one
     * after the other; 0 for others */
    double product_gflops;
} rf_bench_row;
/* Receives one row. A negative result ends the measurement, which returns it. */
typedef rf_result (*rf_bench_fn)(void *user, const rf_bench_row *row);

/* By which clock rf_bench_ops() measures. */
typedef enum rf_bench_clock {
    RF_BENCH_CLOCK_CHOOSE, /* the device's where it has timestamps, else the host's */
    RF_BENCH_CLOCK_HOST,   /* from submission to the end of the wait */
    /* timestamps of the device; RF_ERROR_UNSUPPORTED where it has none */
    RF_BENCH_CLOCK_DEVICE,
} rf_bench_clock;

/* Parameters of rf_bench_ops(). */
typedef struct rf_bench_ops_params {
    const char *device; /* as rf_one_device_params::device */
    /* Only ops whose name contains this text, or behind a '=' is this text; NULL: all. */
    const char *op;
    bool all_kernels;   /* measure every eligible kernel, not only the chosen one */
    bool tune;          /* store the fastest kernel in the tuning cache */
    double min_seconds; /* time spent on each row; 0: 0.2 */
    rf_device_options options;
    rf_bench_clock clock;
    /*
     * #RF_F16 or #RF_BF16: what the cases' floats are stored in; cases that the device
     * has no kernel for in this type are left out. 0: f32.
     */
    rf_dtype type;
} rf_bench_ops_params;
/*
 * Runs the benchmark cases of the operations on one device, which it opens and closes.
 * Blocking: takes minutes for all operations. `fn` is called by the calling thread.
 * @return what `fn` returned; RF_ERROR_NOT_FOUND when no operation or device matches;
 *   RF_ERROR_INTERNAL when the validation layer reports a message.
 */
RF_MUST_USE rf_result rf_bench_ops(const rf_bench_ops_params *params, rf_bench_fn fn, void *user);

/*
 * Statistics of a pipeline by the driver's compiler, in units that are the same for all drivers.
 * -1: it does not say.
 */
typedef struct rf_kernel_statistics {
    int64_t registers;        /* 32-bit registers of an invocation */
    int64_t scalar_registers; /* of a subgroup */
    int64_t spills;           /* registers moved to memory for want of room; each place in the code counts */
    int64_t scratch;          /* bytes of memory of an invocation's own */
    int64_t shared;           /* bytes of shared memory of a workgroup */
    int64_t occupancy;        /* subgroups that fit at once into what the driver counts for: a SIMD
                                 (RADV), a multiprocessor (NVK), a core (Turnip, Honeykrisp) */
    int64_t instructions, code_bytes;
    int64_t cycles; /* of a subgroup, by the driver's estimate; comparable on one driver only */
} rf_kernel_statistics;

/*
 * Instructions in the loop of a pipeline's machine code that multiplies and adds most. Dual-issued
 * halves count as one each, repeated instructions as often as they repeat.
 */
typedef struct rf_kernel_loop {
    uint32_t instructions;
    uint32_t vector;            /* arithmetic of whole subgroups */
    uint32_t multiply_adds;     /* of `vector`: floating-point multiply-adds */
    uint32_t dual;              /* of `vector`: halves of dual-issued instructions */
    uint32_t matrix;            /* cooperative-matrix instructions */
    uint32_t divisions;         /* integer divisions, as far as their code is recognised */
    uint32_t shared_loads;      /* instructions */
    uint32_t shared_load_bytes; /* of an invocation */
} rf_kernel_loop;

/*
 * One pipeline of an operation's kernel. It and its strings are borrowed for the call of the
 * callback.
 */
typedef struct rf_bench_kernel {
    const char *device, *op, *kernel, *shader;
    const char *case_name;   /* the first case that needs it; if any would run it, one of those */
    bool chosen;             /* whether that case would run it */
    bool benchmark;          /* whether that case is one of the benchmark's */
    const char *constants;   /* specialization constants: "256,1,0" */
    const char *failure;     /* why the device does not take it; NULL: it does */
    uint32_t workgroup;      /* invocations */
    uint32_t subgroup;       /* 0: not known */
    int64_t declared_shared; /* bytes of shared memory, by the shader; -1: not known */
    rf_kernel_statistics statistics;
    rf_kernel_loop loop; /* zero where there is no loop, or no machine code to be had */
    /* The driver's statistics, under its own names. */
    const char *const *names;
    const double *values;
    uint32_t num_values;
    const char *code; /* machine code as text; NULL: not to be had */
} rf_bench_kernel;
/* Receives one pipeline. A negative result ends the work, which returns it. */
typedef rf_result (*rf_bench_kernel_fn)(void *user, const rf_bench_kernel *row);

/* Parameters of rf_bench_kernels(). */
typedef struct rf_bench_kernels_params {
    const char *device; /* as rf_one_device_params::device */
    const char *op;     /* only ops whose name contains this text; NULL: all */
    bool all_cases;     /* the tests' cases as well, not only the benchmark's */
    rf_device_options options;
    /*
     * #RF_F16, #RF_BF16: the cases with their floats stored in this type, of every second case
     * those of the highest rank alone, and of the kernels those that read and write it themselves.
     * 0: f32, and kernels on cooperative matrices in all types.
     */
    rf_dtype type;
} rf_bench_kernels_params;
/*
 * Compiles every eligible kernel of the operations on one device, which it opens and closes, and
 * tells what the driver's compiler says of each distinct pipeline
 * (VK_KHR_pipeline_executable_properties). Runs nothing on the device. A pipeline that the device
 * refuses is a row with `failure`. Blocking. `fn` is called by the calling thread.
 * @return what `fn` returned; RF_ERROR_NOT_FOUND when no operation or device matches;
 *   RF_ERROR_INTERNAL when the validation layer reports a message.
 */
RF_MUST_USE rf_result rf_bench_kernels(const rf_bench_kernels_params *params, rf_bench_kernel_fn fn, void *user);

/*
 * One measured property of a device. It and its strings are borrowed for the call of the callback.
 */
typedef struct rf_bench_rate {
    const char *device;
    const char *what; /* "empty dispatch", "copy to the device", "multiply-adds", ... */
    const char *unit; /* of `value`: "us", "ns", "GB/s" or "GFLOP/s" */
    uint64_t bytes;   /* that were copied or read at a time; 0 where it does not matter */
    double value;     /* the best of several measurements */
} rf_bench_rate;
/* Receives one property. A negative result ends the measurement, which returns it. */
typedef rf_result (*rf_bench_rate_fn)(void *user, const rf_bench_rate *rate);

/* How rf_bench_rates() measures. */
typedef struct rf_bench_rates_params {
    const char *device; /* as rf_one_device_params::device */
    double min_seconds; /* time spent on each property; 0: 0.1 */
    rf_device_options options;
} rf_bench_rates_params;
/*
 * Measures what a device and its driver cost by themselves, and what the device reaches at most:
 * dispatches, barriers, submissions, waits, copies of several sizes, multiply-adds, shared memory
 * and memory. It opens and closes the device. Blocking: takes some seconds. `fn` is called by the
 * calling thread.
 * @return what `fn` returned; RF_ERROR_NOT_FOUND when no device matches; RF_ERROR_INTERNAL when the
 *   validation layer reports a message.
 */
RF_MUST_USE rf_result rf_bench_rates(const rf_bench_rates_params *params, rf_bench_rate_fn fn, void *user);

/*
 * Memory rate of this machine at the moment: 1e9 bytes per second, read plus written, of a memcpy()
 * of `bytes` on one thread.
 * Blocking: takes at least a twentieth of a second. 0 when `bytes` is 0 or there is not enough
 * memory. Thread-safe.
 */
double rf_bench_memcpy(size_t bytes);

/*
 * Time of one node of a recorded step, measured with device timestamps where the device has them.
 */
typedef struct rf_bench_node {
    const char *op, *kernel;
    double seconds, gflops, gbytes;
} rf_bench_node;
/*
 * Measures the nodes of a function's recorded step on replica 0.
 * The function must have run with `examples` examples on that replica. Variables and other state
 * are restored afterwards. Blocking.
 * @param[out] rows `*count` rows, which the caller frees with rf_bench_nodes_free().
 * @return RF_ERROR_INVALID_ARGUMENT when the function has not run in that way.
 */
RF_MUST_USE rf_result rf_bench_function(rf_function *function, uint32_t examples, rf_bench_node **rows,
                                        uint32_t *count);
/*
 * A device's work in a step: commands as they are recorded, submissions as the latest run made
 * them.
 */
typedef struct rf_bench_commands {
    /* barriers include those between the step and what runs before and after it */
    uint32_t dispatches, barriers, copies, submissions;
} rf_bench_commands;
/*
 * Counts the commands of a function's step and of the variables' updates in it, on replica 0.
 * It leaves out those that an exchange with other replicas records, and those of an optimizer's own
 * programs beside the update (norms, accumulation). The function must have run with `examples`
 * examples on that replica. Blocking.
 * @param[out] commands zeros after a failure.
 * @return RF_ERROR_INVALID_ARGUMENT when the function has not run in that way.
 */
RF_MUST_USE rf_result rf_bench_count_commands(rf_function *function, uint32_t examples, rf_bench_commands *commands);
/* Frees what rf_bench_function() returned. NULL does nothing. Thread-safe. */
void rf_bench_nodes_free(rf_bench_node *rows);

/*
 * A call that nodes of a step make, the kernel that runs it, and the one that would without it.
 */
typedef struct rf_bench_choice {
    char op[96], kernel[64], other[64]; /* other: empty where no other kernel takes the call */
    uint32_t nodes;                     /* that make the call */
    bool asked;                         /* the kernel was left out; else there is no other */
    double seconds, other_seconds;      /* of one run, the best of all turns */
} rf_bench_choice;
typedef struct rf_bench_choices_params {
    uint32_t turns; /* that the two kernels of a call take; 0: 5 */
    /* "OP/KERNEL", by fnmatch(): the kernels that are left out, all at once. NULL: each one by itself. */
    const char *pattern;
    rf_clock clock; /* CHOOSE: the processor's on software drivers, which other programs hardly disturb */
    void (*progress)(void *user, uint32_t done, uint32_t count); /* calls of one program; NULL: nobody asks */
    void *user;
} rf_bench_choices_params;
bool rf_bench_kernel_matches(const char *pattern, const rf_op *op, const rf_kernel *kernel);
/*
 * Measures the kernels that the nodes of a function's step run, on replica 0, each alone, and in turns with them those
 * that would run without them. Kernels are chosen by their scores, whatever has been tuned. The function must have run
 * with `examples` examples on that replica. Blocking.
 * @param[out] rows `*count` rows, which the caller frees with rf_free().
 */
RF_MUST_USE rf_result rf_bench_choices(rf_function *function, uint32_t examples, const rf_bench_choices_params *params,
                                       rf_bench_choice **rows, uint32_t *count);

typedef struct rf_bench_kernel_name {
    const char *op, *kernel;
} rf_bench_kernel_name;
/*
 * The library's kernels that take a test case of their operation on the device of the function's replica 0, in the
 * order of the operations. The rest is as of rf_bench_choices().
 */
RF_MUST_USE rf_result rf_bench_usable_kernels(rf_function *function, uint32_t examples, rf_bench_kernel_name **rows,
                                              uint32_t *count);

/* Best device time per node over `runs` runs with barriers between nodes (wall-clock time of a submission each where
 * the device has no timestamps), in order of execution. Works on the inputs of the latest run with this batch size;
 * states are put back afterwards, placements are overwritten. *times is freed with rf_free. Blocking. */
typedef struct rf_node_time {
    const char *op, *kernel;
    uint64_t ns;
    rf_cost cost;
} rf_node_time;
rf_result rf_program_profile(rf_program *program, int64_t batch, uint32_t runs, rf_node_time **times, uint32_t *count);

struct rf_step_schedule;
/* A schedule in words, one line for each stage; then the stages of a run of a function's latest trace, NULL before it
 * has run. Both are NULL without memory, and freed with rf_free(). */
char *rf_bench_schedule_text(const struct rf_step_schedule *schedule);
char *rf_bench_function_schedule(const rf_function *function);

#endif
