/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes and operands of ONNX' operations, as the functions that trace them read these. */
#include "train/onnx/op.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "trace/trace.h"

/* ---- attributes ---- */

int64_t rf_import_int(const rf_import_call *c, const char *name, int64_t fallback)
{
    const json_t *a = json_object_get(c->attributes, name);
    return json_is_integer(a) ? json_integer_value(a) : fallback;
}

double rf_import_real(const rf_import_call *c, const char *name, double fallback)
{
    const json_t *a = json_object_get(c->attributes, name);
    return json_is_number(a) ? json_number_value(a) : fallback;
}

const char *rf_import_text(const rf_import_call *c, const char *name, const char *fallback)
{
    const json_t *a = json_object_get(c->attributes, name);
    return json_is_string(a) ? json_string_value(a) : fallback;
}

uint32_t rf_import_ints(const rf_import_call *c, const char *name, int64_t *out, uint32_t most)
{
    const json_t *a = json_object_get(c->attributes, name);
    const size_t count = json_array_size(a) < most ? json_array_size(a) : most;
    for (size_t i = 0; i < count; i++) out[i] = json_integer_value(json_array_get(a, i));
    return (uint32_t)count;
}

int32_t rf_import_axis(rf_import_call *c, int64_t axis, int32_t rank)
{
    static const int32_t places[] = { 0, 3, 1, 2 };
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) {
        rf_import_call_fail(c, "has an axis that its operand lacks");
        return -1;
    }
    return c->last && rank == 4 ? places[axis] : (int32_t)axis;
}

uint32_t rf_import_axes(rf_import_call *c, uint32_t operand, int32_t rank, int32_t *out)
{
    int64_t listed[RF_MAX_RANK], count = 0;
    const double *numbers;
    if (rf_import_has(c, operand)) {
        if (!rf_import_numbers(c, operand, &numbers, &count)) return 0;
        if (count > RF_MAX_RANK) rf_import_call_fail(c, "has more axes than its operand");
        for (int64_t i = 0; i < count && i < RF_MAX_RANK; i++) listed[i] = (int64_t)numbers[i];
    } else {
        count = rf_import_ints(c, "axes", listed, RF_MAX_RANK);
    }
    for (int64_t i = 0; i < count && i < RF_MAX_RANK; i++) out[i] = rf_import_axis(c, listed[i], rank);
    return (uint32_t)(count < RF_MAX_RANK ? count : RF_MAX_RANK);
}

/* ---- operands ---- */

void rf_import_call_fail(rf_import_call *c, const char *why)
{
    (void)rf_trace_fail(c->t, RF_ERROR_UNSUPPORTED, "%s %s", c->op, why);
}

bool rf_import_has(const rf_import_call *c, uint32_t i)
{
    return i < c->num_in && c->in[i].there;
}

bool rf_import_is_whole(const rf_import_call *c, uint32_t i)
{
    const rf_import_operand *o = &c->in[i];
    return o->tensor.id ? rf_tensor_dtype(c->t, o->tensor) == RF_I32 : !o->is_float;
}

rf_shape rf_import_shape_of_operand(rf_import_call *c, uint32_t i)
{
    return c->in[i].tensor.id ? rf_tensor_shape(c->t, c->in[i].tensor) : c->in[i].shape;
}

static rf_tensor constant_of(rf_import_call *c, const rf_import_operand *o, rf_dtype type)
{
    const int64_t count = rf_shape_count(o->shape);
    if (count <= 0) {
        rf_import_call_fail(c, "reads a tensor without elements");
        return (rf_tensor){ 0 };
    }
    if (o->follows && count == 1 && o->follows[0] && o->per_example > 0) {
        const rf_tensor batch = rf_global_batch_size(c->t);
        const rf_tensor y = rf_multiply(c->t, batch, rf_constant(c->t, (float)o->per_example));
        const rf_tensor shaped = rf_reshape(c->t, y, o->shape);
        return type == RF_F32 ? shaped : rf_cast(c->t, shaped, type);
    }
    for (int64_t i = 0; o->follows && i < count; i++)
        if (o->follows[i]) {
            rf_import_call_fail(c, "computes with a size that follows the batch");
            return (rf_tensor){ 0 };
        }
    int32_t *words = rf_arena_alloc(&c->arena, (size_t)count * 4);
    float *floats = (float *)words;
    for (int64_t i = 0; words && i < count; i++) {
        if (type == RF_F32)
            floats[i] = (float)o->numbers[i];
        else
            words[i] = o->numbers[i] >= 2147483647.0    ? INT32_MAX
                       : o->numbers[i] <= -2147483648.0 ? INT32_MIN
                                                        : (int32_t)o->numbers[i];
    }
    return words ? rf_constant_array(c->t, &(rf_array){ type, o->shape, words }) : (rf_tensor){ 0 };
}

rf_tensor rf_import_tensor_of(rf_import_call *c, uint32_t i)
{
    if (!rf_import_has(c, i)) {
        rf_import_call_fail(c, "lacks an operand");
        return (rf_tensor){ 0 };
    }
    const rf_import_operand *o = &c->in[i];
    return o->tensor.id ? o->tensor : constant_of(c, o, o->is_float ? RF_F32 : RF_I32);
}

rf_tensor rf_import_float_of(rf_import_call *c, uint32_t i)
{
    if (rf_import_has(c, i) && !c->in[i].tensor.id) return constant_of(c, &c->in[i], RF_F32);
    const rf_tensor x = rf_import_tensor_of(c, i);
    return rf_tensor_dtype(c->t, x) == RF_F32 ? x : rf_cast(c->t, x, RF_F32);
}

rf_tensor rf_import_back(rf_import_call *c, uint32_t operand, rf_tensor y)
{
    return rf_import_is_whole(c, operand) ? rf_cast(c->t, y, RF_I32) : y;
}

bool rf_import_numbers(rf_import_call *c, uint32_t i, const double **numbers, int64_t *count)
{
    if (!rf_import_has(c, i) || c->in[i].tensor.id) {
        rf_import_call_fail(c, "needs an operand that is known when the model is made, and gets one that is computed");
        return false;
    }
    *numbers = c->in[i].numbers;
    *count = rf_shape_count(c->in[i].shape);
    return true;
}

double rf_import_number(rf_import_call *c, uint32_t i, double fallback)
{
    const double *numbers;
    int64_t count;
    if (!rf_import_has(c, i) || !rf_import_numbers(c, i, &numbers, &count)) return fallback;
    return count > 0 ? numbers[0] : fallback;
}

rf_tensor rf_import_swap_last(rf_import_call *c, rf_tensor x, int32_t axis)
{
    int32_t perm[RF_MAX_RANK];
    const int32_t rank = rf_tensor_shape(c->t, x).rank;
    if (axis < 0 || axis >= rank || axis == rank - 1) return x;
    for (int32_t d = 0; d < rank; d++) perm[d] = d;
    perm[axis] = rank - 1;
    perm[rank - 1] = axis;
    return rf_transpose(c->t, x, perm);
}

/* The first tensor that the batch is a dimension of. */
static bool find_batch(rf_import_call *c, rf_tensor *x, int32_t *axis)
{
    for (uint32_t i = 0; i < c->num_tensors; i++) {
        const int32_t rank = rf_tensor_shape(c->t, c->tensors[i]).rank;
        for (*axis = 0; *axis < rank; ++*axis)
            if (rf_dim_follows(c->t, c->tensors[i], *axis)) {
                *x = c->tensors[i];
                return true;
            }
    }
    return false;
}

rf_tensor rf_import_fill(rf_import_call *c, const rf_import_operand *sizes, double value)
{
    rf_shape shape = { .rank = (int32_t)rf_shape_count(sizes->shape) };
    rf_tensor x;
    int32_t axis, at = -1;
    if (shape.rank > RF_MAX_RANK) rf_import_call_fail(c, "has a result of too many dimensions");
    for (int32_t d = 0; d < shape.rank && d < RF_MAX_RANK; d++) {
        const bool follows = sizes->follows && sizes->follows[d];
        if (follows && at >= 0) rf_import_call_fail(c, "makes a tensor in which two dimensions follow the batch");
        if (follows) at = d;
        shape.dim[d] = follows ? 1 : (int64_t)sizes->numbers[d];
    }
    const int64_t count = rf_shape_count(shape);
    if (count <= 0 || count > 1 << 28) {
        rf_import_call_fail(c, "makes a tensor without elements, or of too many");
        return (rf_tensor){ 0 };
    }
    float *numbers = rf_arena_alloc(&c->arena, (size_t)count * sizeof(float));
    for (int64_t i = 0; numbers && i < count; i++) numbers[i] = (float)value;
    const rf_tensor base = rf_constant_array(c->t, &(rf_array){ RF_F32, shape, numbers });
    if (at < 0) return base;
    if (!find_batch(c, &x, &axis)) {
        rf_import_call_fail(c, "makes a tensor of the batch's size without a tensor of it");
        return (rf_tensor){ 0 };
    }
    const rf_tensor line = rf_positions_along(c->t, x, axis);
    rf_size ranks[RF_MAX_RANK];
    for (int32_t d = 0; d < shape.rank; d++) ranks[d] = d == at ? rf_size_of(line, 0, 1) : rf_size_fixed(1);
    const rf_tensor zeros =
        rf_multiply(c->t, rf_regroup(c->t, line, ranks, (uint32_t)shape.rank), rf_constant(c->t, 0));
    return rf_add(c->t, base, zeros);
}
