/* SPDX-License-Identifier: Apache-2.0 */
/* Ops as programs of the element-wise kernels. */
#include "ops/pointwise/common/elementwise.h"

const rf_elementwise_attr rf_copy_program = { 1, { { RF_FN_COPY, 0, 0, 0, 0 } } };

const rf_elementwise_attr *rf_normalize_program(const rf_normalize_attr *attr, uint32_t *n_in)
{
    static const rf_elementwise_attr scaled = { 2, { { RF_FN_SUBTRACT, 0, 1, 0, 0 }, { RF_FN_MULTIPLY, 3, 2, 0, 0 } } };
    static const rf_elementwise_attr shifted = {
        3, { { RF_FN_SUBTRACT, 0, 1, 0, 0 }, { RF_FN_MULTIPLY, 4, 2, 0, 0 }, { RF_FN_ADD, 5, 3, 0, 0 } }
    };
    *n_in = attr->shifted ? 4 : 3;
    return attr->shifted ? &shifted : &scaled;
}

rf_op_call rf_program_of(const rf_op_call *call)
{
    rf_op_call program = *call;
    if (call->op->role == RF_PROGRAM_COPY) {
        program.attr = &rf_copy_program;
        program.n_in = 1;
    } else if (call->op->role == RF_PROGRAM_NORMALIZE) {
        program.attr = rf_normalize_program(call->attr, &program.n_in);
    }
    return program;
}
