/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers for code that emits operations into a trace. */
#ifndef RF_TRACE_TRACE_H
#define RF_TRACE_TRACE_H

#include "ops/ops.h"
#include "step/step.h"

#define RF_NO_TENSOR ((rf_tensor){ 0, 0 })

/* Graph value of a public handle. False, with the trace failed, when the handle is not one of this trace; `argument` is
 * "function: parameter". */
bool rf_operand(rf_trace *t, rf_tensor x, const char *argument, rf_value *out);
/* Whether an enumeration, whose values are 0 to `last`, has this one; the trace fails where it has not. */
bool rf_choice(rf_trace *t, const char *argument, int value, int last);
/* Type and shape of a handle; false as above. */
bool rf_operand_desc(rf_trace *t, rf_tensor x, const char *argument, rf_tensor_desc *out);
/* Where there is nothing to compute: x under a handle of its own, as every result has. Two handles are two targets of
 * differentiation; the value behind them is one again when the trace is complete. */
rf_tensor rf_alias(rf_trace *t, rf_value x);
/* An operation made `out` of x, and it may be x: then x under a handle of its own. */
rf_tensor rf_trace_emit_own(rf_trace *t, rf_result result, rf_value x, rf_value out);
/* Operands of a two-operand function; both are looked at, so that the first bad one is the one reported. */
bool rf_two_operands(rf_trace *t, rf_tensor a, const char *name_a, rf_tensor b, const char *name_b, rf_value v[2]);
/* x in f32 if it is stored in 16 bits, else as it is. Forms that are composed of several operations begin with it,
 * since each of these would store what it makes in the type of its operands. */
rf_tensor rf_upcast(rf_trace *t, rf_tensor x);
/* A function of each element; `imm` where the function has a number. */
rf_tensor rf_unary(rf_trace *t, rf_scalar_fn fn, float imm, rf_tensor x, const char *argument);
/* rf_dropout() of a rate that was checked; `argument` is for messages. */
rf_tensor rf_dropout_of(rf_trace *t, rf_tensor x, float rate, uint64_t seed, const char *argument);
/* Whether dimension d, which may be negative, is another number with another batch. */
bool rf_dim_follows(rf_trace *t, rf_tensor x, int32_t d);
/* 1, whatever the batch. */
bool rf_dim_is_one(rf_trace *t, rf_tensor x, int32_t d);
/* Sizes of rf_regroup(): a number; the product of `count` dimensions of x; those of x one by one, from the first one
 * on, which gives how many they are. */
rf_size rf_size_fixed(int64_t count);
rf_size rf_size_of(rf_tensor x, int32_t first, int32_t count);
uint32_t rf_sizes_of(rf_trace *t, rf_tensor x, int32_t first, rf_size *sizes);
/* Reshapes x to sizes that follow the batch where the tensors do that they are taken from. */
rf_tensor rf_regroup(rf_trace *t, rf_tensor x, const rf_size *sizes, uint32_t rank);
/* How many positions there are along an axis, f32 [], and their numbers 0, 1, ..., f32 [positions]. */
rf_tensor rf_count_along(rf_trace *t, rf_tensor x, int32_t axis);
rf_tensor rf_positions_along(rf_trace *t, rf_tensor x, int32_t axis);
/* x with so many dimensions of 1 behind its own. */
rf_tensor rf_append_axes(rf_trace *t, rf_tensor x, int32_t count);
/* Checks a position that a step is given, such as rf_attention_params::first_query: false, with the trace failed,
 * unless it is i32 of one element. */
bool rf_position_check(rf_trace *t, rf_tensor position, const char *argument);
/* That position as f32 [1]. */
rf_tensor rf_position_number(rf_trace *t, rf_tensor position);
/* 0, 1, ... count - 1 as f32, in a shape of so many elements. */
rf_tensor rf_positions(rf_trace *t, int64_t count, rf_shape shape);
/* position, position + 1, ... as i32 [count]; the invalid tensor, with the trace failed, as rf_position_check(). */
rf_tensor rf_position_rows(rf_trace *t, rf_tensor position, int64_t count, const char *argument);
/* x [..., rows, columns], f32, with singular values of about 1; 0 steps: 5. */
enum { RF_MAX_ORTHOGONAL_STEPS = 100 };
rf_result rf_emit_orthogonal(rf_graph *g, rf_value x, uint32_t steps, rf_value *out);
/* Shape without dimension 0; a scalar stays one. */
rf_shape rf_example_shape(rf_shape batched);

#endif
