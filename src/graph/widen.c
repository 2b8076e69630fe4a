/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls whose tensors are stored in 16 bits, of ops that compute in f32 all the same: to inference, references and
 * scores they look like calls in f32.
 */
#include <string.h>

#include "base/error.h"
#include "base/half.h"
#include "base/memory.h"
#include "graph/op.h"

bool rf_dtype_is_narrow(rf_dtype dtype)
{
    return dtype == RF_F16 || dtype == RF_BF16;
}

bool rf_dtype_is_float(rf_dtype dtype)
{
    return dtype == RF_F32 || rf_dtype_is_narrow(dtype);
}

bool rf_call_is_narrow(const rf_op_call *call)
{
    if (!call->op->widen) return false;
    for (uint32_t i = 0; i < call->n_in; i++)
        if (rf_dtype_is_narrow(call->in[i].dtype)) return true;
    return false;
}

rf_op_call rf_call_widened(const rf_op_call *call)
{
    rf_op_call wide = *call;
    for (uint32_t i = 0; i < wide.n_in; i++)
        if (rf_dtype_is_narrow(wide.in[i].dtype)) wide.in[i].dtype = RF_F32;
    for (uint32_t i = 0; i < wide.n_out; i++)
        if (rf_dtype_is_narrow(wide.out[i].dtype)) wide.out[i].dtype = RF_F32;
    return wide;
}

/* ---- types of results ---- */

/* Finds the type that all inputs have that have one. */
static rf_result common_type(const rf_op_call *call, rf_dtype *out)
{
    *out = RF_DTYPE_INVALID;
    for (uint32_t i = 0; i < call->n_in; i++) {
        if (!rf_dtype_is_narrow(call->in[i].dtype)) continue;
        if (*out != RF_DTYPE_INVALID && *out != call->in[i].dtype)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: input %u is %s, another one %s; cast one of them",
                           call->op->name, i, rf_dtype_name(call->in[i].dtype), rf_dtype_name(*out));
        *out = call->in[i].dtype;
    }
    return RF_OK;
}

/* An input in f32 of the highest rank makes the results f32. Rows, factors and biases, which have fewer dimensions, do
 * not. */
static bool is_promoted(const rf_op_call *call)
{
    int32_t highest = 0;
    for (uint32_t i = 0; i < call->n_in; i++)
        if (call->in[i].shape.rank > highest) highest = call->in[i].shape.rank;
    const uint32_t silent = call->op->shape_only | call->op->row_numbers;
    for (uint32_t i = 0; i < call->n_in; i++)
        if (call->in[i].dtype == RF_F32 && call->in[i].shape.rank == highest && !(silent >> i & 1)) return true;
    return false;
}

rf_result rf_call_infer(rf_op_call *call)
{
    rf_dtype type;
    if (!rf_call_is_narrow(call)) return call->op->infer(call);
    RF_TRY(common_type(call, &type));
    rf_op_call wide = rf_call_widened(call);
    RF_TRY(call->op->infer(&wide));
    uint32_t narrow = is_promoted(call) ? 0 : call->op->narrow;
    if (call->op->makes_f32 && call->op->makes_f32(call)) narrow &= ~1u;
    call->n_out = wide.n_out;
    memcpy(call->out, wide.out, sizeof(call->out));
    for (uint32_t i = 0; i < call->n_out && i < RF_MAX_OUTPUTS; i++)
        if (narrow >> i & 1) call->out[i].dtype = type;
    return RF_OK;
}

/* ---- kernels ---- */

bool rf_kernel_widens(const rf_kernel *kernel, const rf_op_call *call, const rf_device_caps *caps)
{
    return rf_call_is_narrow(call) && !(kernel->narrow && kernel->narrow(call, caps, kernel->data));
}

/* Scores of kernels that are made for the other kind of devices are multiplied by this: they come after all that are
 * not. Tests run them all the same, so that software checks what GPUs run. */
#define OTHER_KIND 1e-9

static bool is_for_other_kind(const rf_kernel *kernel, const rf_op *op, const rf_device_caps *caps)
{
    const rf_kernel_list *others = op->families[caps->is_cpu ? RF_FAMILY_GPU : RF_FAMILY_CPU];
    for (uint32_t i = 0; others && i < others->count; i++)
        if (kernel == &others->rows[i]) return true;
    return false;
}

double rf_kernel_score(const rf_kernel *kernel, const rf_op_call *call, const rf_device_caps *caps)
{
    const double scale = is_for_other_kind(kernel, call->op, caps) ? OTHER_KIND : 1;
    if (!rf_kernel_widens(kernel, call, caps)) return scale * kernel->score(call, caps, kernel->data);
    const rf_op_call wide = rf_call_widened(call);
    return scale * kernel->score(&wide, caps, kernel->data);
}

/* ---- references ---- */

static float *read_wide(const rf_tensor_desc *desc, const void *from)
{
    const int64_t count = rf_shape_count(desc->shape);
    float *to = RF_NEW_ARRAY(float, count);
    if (to) rf_floats_widen(to, from, desc->dtype, (size_t)count);
    return to;
}

static void write_narrow(const rf_tensor_desc *desc, const float *from, uint16_t *to)
{
    rf_floats_narrow(to, desc->dtype, from, (size_t)rf_shape_count(desc->shape));
}

static rf_result reference_widened(const rf_op_call *call, void *const *in, void *const *out, void **wide_in,
                                   void **wide_out)
{
    const rf_op_call wide = rf_call_widened(call);
    for (uint32_t i = 0; i < call->n_in; i++) {
        wide_in[i] = in[i];
        if (!rf_dtype_is_narrow(call->in[i].dtype) || (call->op->shape_only >> i & 1)) continue;
        if (!(wide_in[i] = read_wide(&call->in[i], in[i]))) return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    for (uint32_t i = 0; i < call->n_out; i++) {
        wide_out[i] = out[i];
        if (!rf_dtype_is_narrow(call->out[i].dtype)) continue;
        if (!(wide_out[i] = RF_NEW_ARRAY(float, rf_shape_count(call->out[i].shape))))
            return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    RF_TRY(call->op->reference(&wide, wide_in, wide_out));
    for (uint32_t i = 0; i < call->n_out; i++)
        if (wide_out[i] != out[i]) write_narrow(&call->out[i], wide_out[i], out[i]);
    return RF_OK;
}

rf_result rf_op_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    void *wide_in[RF_MAX_INPUTS] = { 0 }, *wide_out[RF_MAX_OUTPUTS] = { 0 };
    if (!rf_call_is_narrow(call)) return call->op->reference(call, in, out);
    const rf_result r = reference_widened(call, in, out, wide_in, wide_out);
    for (uint32_t i = 0; i < call->n_in; i++)
        if (wide_in[i] != in[i]) rf_free(wide_in[i]);
    for (uint32_t i = 0; i < call->n_out; i++)
        if (wide_out[i] != out[i]) rf_free(wide_out[i]);
    return r;
}
