/* SPDX-License-Identifier: Apache-2.0 */
/* An op's test case with data: the call, inputs filled according to the case, and memory for the outputs. For tests and
 * benchmarks. */
#ifndef RF_TESTS_CASE_DATA_H
#define RF_TESTS_CASE_DATA_H

#include "base/memory.h"
#include "tests/ops/cases/cases.h"

typedef struct rf_case_data {
    rf_op_call call;
    _Alignas(16) unsigned char attr[RF_MAX_ATTR]; /* call.attr */
    void *in[RF_MAX_INPUTS];                      /* shape-only inputs have bytes too */
    void *out[RF_MAX_OUTPUTS];                    /* zeroed */
} rf_case_data;

/* The case with its floats stored in f16 or bf16, or of them those of the highest rank alone; settings, and what is
 * updated in place, stay as they are. A result may lie on the other side of where two numbers of the type meet than the
 * reference's. */
rf_op_case rf_case_stored_in(const rf_op *op, const rf_op_case *c, rf_dtype type, bool highest_alone);
/* The call alone, without bytes: filling large inputs takes seconds. Like all of these, `data` must stay where it is:
 * the call points into it. */
rf_result rf_case_data_describe(const rf_op *op, const rf_op_case *c, rf_case_data *data);
/* The same case and seed give the same bytes. Free also after a failure. */
rf_result rf_case_data_make(const rf_op *op, const rf_op_case *c, uint64_t seed, rf_case_data *data);
/* Inputs with their bytes, outputs zeroed: cheaper than making the numbers again. */
rf_result rf_case_data_copy(const rf_case_data *from, rf_case_data *to);
void rf_case_data_free(rf_case_data *data);

#endif
