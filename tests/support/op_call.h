/* SPDX-License-Identifier: Apache-2.0 */
/* Ops on made-up tensors, for tests without a device. */
#ifndef RF_TESTS_SUPPORT_OP_CALL_H
#define RF_TESTS_SUPPORT_OP_CALL_H

#include <string.h>

#include "base/error.h"
#include "graph/op.h"
#include "tests/room.h"

static inline rf_op_call make_call(const rf_op *op, const void *attr, uint32_t n, const rf_tensor_desc *in)
{
    rf_op_call call = { .op = op, .attr = attr, .n_in = n, .n_out = op->n_out };
    memcpy(call.in, in, n * sizeof(*in));
    return call;
}

/* Inference fails with a message that has `part`. */
static inline void check_error(const rf_op *op, const void *attr, uint32_t n, const rf_tensor_desc *in,
                               const char *part)
{
    rf_op_call call = make_call(op, attr, n, in);
    assert_int_equal(op->infer(&call) < 0, 1);
    if (!strstr(rf_error_message(), part)) fail_msg("'%s' lacks '%s'", rf_error_message(), part);
}

#endif
