/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic of the collectives on host memory. The same operands in the same order give the same bits everywhere. */
#ifndef RF_TRANSPORT_COLLECTIVE_REDUCE_H
#define RF_TRANSPORT_COLLECTIVE_REDUCE_H

#include <ringfire/comm.h>

/* out[i] = left[i] op right[i]. `out` may be one of them. f16 and bf16 compute in f32 and round once. Integers wrap.
 * NaN stays NaN in max and min. */
typedef void (*rf_reduce_fn)(void *out, const void *left, const void *right, size_t count);
/* NULL: a type without reductions. */
rf_reduce_fn rf_reduce_find(rf_dtype dtype, rf_comm_op op);

#endif
