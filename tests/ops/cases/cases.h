/* SPDX-License-Identifier: Apache-2.0 */
/* Test cases of the ops, which are the benchmark's cases, too. Each op of src/ops/op_list.h has a table. */
#ifndef RF_TESTS_OPS_CASES_H
#define RF_TESTS_OPS_CASES_H

#include "graph/op.h"
#include "ops/kit.h"
#include "ops/ops.h"

typedef enum rf_fill {
    RF_FILL_NORMAL = 0,  /* N(0,1) * (b ? b : 1) + a */
    RF_FILL_UNIFORM,     /* U(a, b) */
    RF_FILL_INTEGER,     /* integers a .. b - 1 (any dtype) */
    RF_FILL_DISTINCT,    /* a random permutation of k * 0.01: no ties, for max and argmax with finite differences */
    RF_FILL_PROBABILITY, /* rows (last axis) positive with sum 1 */
    RF_FILL_ZERO,
    RF_FILL_QUANTIZED, /* words of a matrix of N(0,1), as the case's attributes, of rf_quantized_attr, say */
    RF_FILL_STATE, /* words of a slot, as the case's attributes, of rf_packed_update_attr, say: of N(0,1), or, where b
                      is not 0, of its squares, behind `a` words of others */
    RF_FILL_HYPER, /* U(a, b), and the number of an update */
} rf_fill;
typedef struct rf_case_input {
    rf_tensor_desc desc;
    rf_fill fill;
    float a, b;
} rf_case_input;
typedef struct rf_op_case {
    const char *name; /* unique within the op */
    const void *attr; /* NULL: zeroed attributes */
    uint32_t n_in;
    rf_case_input in[RF_MAX_INPUTS];
    double rtol, atol; /* |kernel - reference| <= atol + rtol * |reference|; 0, 0 means bit-equal */
    uint32_t rounded;  /* products in a sum, of which kernels on cooperative matrices first round a factor to 16 bits */
    bool check_gradient; /* compare the gradient with finite differences of the reference (keep such cases small) */
    bool benchmark;      /* also a row of the op benchmark (make it representative, up to ~100 MFLOP) */
    /* A recurrent op's products of a step, as a case of matmul: the benchmark has their rate beside the op's. */
    const struct rf_op_case *products;
    bool large;      /* left out of the quick test run */
    uint32_t range;  /* bytes that a descriptor spans with --split; 0: a part of the largest tensor */
    bool unattended; /* numbers meet weights of 0, and whether NaN among them shows is up to the kernel */
    bool by_sign;    /* results depend on the sign of a sum, which a denormal decides where the device has denormals */
    bool saturates;  /* numbers do not fit the result's type, which other programs need not clamp */
} rf_op_case;

/* All cases of an op. */
typedef struct rf_case_table {
    const rf_op_case *items;
    uint32_t count;
    /* Further rows of the op benchmark on devices that are no CPUs: sizes that fill a GPU. No test computes them. */
    const rf_op_case *gpu;
    uint32_t num_gpu;
} rf_case_table;
/* Empty for an op that is none of the library's. */
const rf_case_table *rf_op_cases(const rf_op *op);

/* Static initialisers: a descriptor (type, rank, dimensions...) and an input with its filling. */
/* clang-format off */
#define RF_DESC(type, rank, ...) { (type), { (rank), { __VA_ARGS__ } } }
#define RF_TENSOR(type, fill, a, b, ...) { RF_DESC(type, __VA_ARGS__), fill, a, b }
#define RF_INTEGERS(low, end, ...) RF_TENSOR(RF_I32, RF_FILL_INTEGER, low, end, __VA_ARGS__)
/* The fields of a case with so many inputs, whose results differ by no more. */
#define RF_CASE_WITHIN(text, count, tolerance, ...)                                                                    \
    .name = text, .n_in = count, .rtol = tolerance, .atol = tolerance, .in = { __VA_ARGS__ }
/* clang-format on */

/* The table of the op that op_list.h names so: without one the tests do not link. */
#define RF_OP_CASES(op, table) const rf_case_table rf_cases_of_##op = { .items = table, .count = RF_LENGTH(table) }
#define RF_OP_AND_GPU_CASES(op, table, gpu_table)                                                                      \
    const rf_case_table rf_cases_of_##op = {                                                                           \
        .items = table, .count = RF_LENGTH(table), .gpu = gpu_table, .num_gpu = RF_LENGTH(gpu_table)                   \
    }
#define RF_CASES_DECLARE(op) extern const rf_case_table rf_cases_of_##op;
RF_ALL_OPS(RF_CASES_DECLARE)

#endif
