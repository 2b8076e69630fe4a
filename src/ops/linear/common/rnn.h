/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the kernels of recurrent layers share. */
#ifndef RF_OPS_LINEAR_COMMON_RNN_H
#define RF_OPS_LINEAR_COMMON_RNN_H

#include "ops/kit.h"
#include "ops/ops.h"

/* The data of a kernel, a bool: it makes the gradient, rnn_grad. NULL: it does not. */
static inline bool rf_rnn_is_grad(const void *data)
{
    return data && *(const bool *)data;
}

static inline uint32_t rf_rnn_gates(const rf_rnn_attr *attr)
{
    return attr->kind == RF_RNN_GRU ? 3 : attr->kind == RF_RNN_LSTM ? 4 : 1;
}

/* The products of a GRU's candidate are multiplied by the reset gate, so that their gradient is not that of x. */
static inline bool rf_rnn_resets_after(const rf_rnn_attr *attr)
{
    return attr->kind == RF_RNN_GRU && !attr->reset_before;
}
static inline bool rf_rnn_resets_before(const rf_rnn_attr *attr)
{
    return attr->kind == RF_RNN_GRU && attr->reset_before;
}

/* The numbers of inputs that may be left out; of no meaning where they are. */
static inline uint32_t rf_rnn_cell_input(const rf_rnn_attr *attr)
{
    return 3 + (attr->kind == RF_RNN_LSTM);
}
static inline uint32_t rf_rnn_mask_input(const rf_rnn_attr *attr)
{
    return attr->state ? rf_rnn_cell_input(attr) + 1 : 3;
}
static inline uint32_t rf_rnn_grad_mask_input(const rf_rnn_attr *attr)
{
    return 5 + attr->state;
}

/* The place of step number i of those that are computed one after the other. */
static inline int64_t rf_rnn_place(const rf_rnn_attr *attr, int64_t steps, int64_t i)
{
    return attr->backwards ? steps - 1 - i : i;
}

enum { RF_RNN_STEP_FIRST = 1, RF_RNN_STEP_FINISH = 2 };

/* The constant OPTIONS of rnn.comp and rnn_register_resident.comp. */
static inline uint32_t rf_rnn_options(const rf_rnn_attr *attr)
{
    return attr->mask | attr->state << 1;
}
/* Binds the tensors that both read and write, in their order, by examples. */
void rf_rnn_bind(rf_row_job *job, const rf_op_call *call, bool grad);

#endif
