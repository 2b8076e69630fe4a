/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the files of the op walker share. */
#ifndef RF_TESTS_OPS_WALK_H
#define RF_TESTS_OPS_WALK_H

#include "base/error.h"
#include "base/memory.h"
#include "exec/exec.h"
#include "ops/ops.h"
#include "tests/ops/cases/case_data.h"

#define MAX_DEVICES 16

typedef struct walk_options {
    bool quick;             /* leave out large and benchmark-size cases */
    uint32_t sample;        /* at most so many cases of each op; 0: all */
    uint32_t share, shares; /* every so manieth op, from this one on; 0: all */
    bool clamp, validation;
    bool split;                                   /* no descriptor may span more than a third of the largest tensor */
    bool special;                                 /* NaN, infinities, zeros and denormals among the numbers */
    bool turns;                                   /* with special: one filling a case for kernels of many */
    const char *type;                             /* f16, bf16: what floats are stored in; NULL: as the case says */
    bool all_shaders;                             /* fail when a shader is in no kernel's plan */
    bool verbose;                                 /* a line for every kernel run */
    const char *op, *case_name, *kernel, *device; /* only names that contain this; NULL: all */
} walk_options;

typedef struct walk_device {
    rf_gpu_device *gpu;
    rf_exec *exec;
    const char *name;
} walk_device;

typedef struct walk {
    walk_options options;
    rf_gpu *gpu;
    walk_device devices[MAX_DEVICES];
    uint32_t num_devices;
    uint32_t failures;
} walk;

typedef struct walk_counts {
    uint32_t cases, runs, gradients, device_gradients, failures;
    uint32_t split, split_fast; /* of --split: cases with a fast kernel for whole tensors, and for tensors cut up */
} walk_counts;

/* Prints "FAIL op/case[/kernel][ on device]: ..." and counts. Kernel and device may be NULL. */
void walk_fail(walk *w, walk_counts *counts, const rf_op *op, const char *case_name, const char *kernel,
               const char *device, const char *format, ...) RF_PRINTF(7, 8);

/* An element as a number, whatever its type. */
double walk_element(rf_dtype dtype, const void *bytes, int64_t i);
/* Index of the first element with |got - expected| > atol + rtol * |expected|, or NaN where the other is none; -1:
 * none. */
int64_t walk_first_bad(const rf_tensor_desc *desc, const void *got, const void *expected, double rtol, double atol);

/* Special numbers (special.c): puts them into a case's inputs, in so many ways; sets denormals to zero, as devices may;
 * and finds the first element of an output (or, with `output` UINT32_MAX, of a mutated input) that is neither the
 * reference's nor the one that it gives for flushed inputs. NaN is expected where the reference has it; -1: none. */
uint32_t walk_special_rounds(void);
void walk_special_fill(rf_case_data *data, const rf_op_case *c, uint32_t round);
void walk_special_flush(rf_case_data *data);
int64_t walk_first_special_bad(const rf_case_data *start, const rf_op_case *c, const rf_kernel *kernel,
                               const rf_tensor_desc *desc, uint32_t output, const void *got, const void *expected,
                               const void *flushed);

/* Gradient of one case against finite differences of the reference, then on every device (gradient.c). */
void walk_gradient(walk *w, walk_counts *counts, const rf_op *op, const rf_op_case *c);

/* Marks the shaders that some kernel of the op plans for the call on these limits (shaders.c). */
void walk_mark_shaders(const rf_op_call *call, const rf_device_caps *caps, bool on_device);
/* Counts shaders that no plan uses; prints them. */
uint32_t walk_unused_shaders(void);

#endif
