/* SPDX-License-Identifier: Apache-2.0 */
/* The copies that slices, padding, joins and parts are: of their inputs, or of their outputs. */
#include <string.h>

#include "ops/pointwise/common/strided_copy.h"

void rf_box_whole(const rf_shape *tensor, rf_box_range out[RF_MAX_RANK])
{
    for (int32_t d = 0; d < tensor->rank; d++) out[d] = (rf_box_range){ 0, 1, tensor->dim[d] };
}

int64_t rf_box_place(const rf_shape *tensor, const rf_box_range *ranges, int64_t e)
{
    int64_t at = 0, stride = 1;
    for (int32_t d = tensor->rank - 1; d >= 0; d--) {
        at += (ranges[d].begin + e % ranges[d].count * ranges[d].step) * stride;
        e /= ranges[d].count;
        stride *= tensor->dim[d];
    }
    return at;
}

static int64_t index_clamp(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

rf_box_range rf_slice_range(const rf_slice_attr *attr, int32_t axis, int64_t n)
{
    const int64_t step = attr->step[axis], begin = attr->begin[axis], end = attr->end[axis];
    if (step == 0) return (rf_box_range){ 0, 1, n };
    /* Negative steps end before element 0, at -1. */
    const int64_t least = step > 0 ? 0 : -1, most = step > 0 ? n : n - 1;
    const int64_t from = index_clamp(begin < 0 ? begin + n : begin, least, most);
    const int64_t to = index_clamp(end < 0 ? end + n : end, least, most);
    const int64_t distance = step > 0 ? to - from : from - to, stride = step > 0 ? step : -step;
    return (rf_box_range){ from, step, distance > 0 ? (distance + stride - 1) / stride : 0 };
}

static void slice_copies(const rf_op_call *call, bool gradient, rf_copies *out)
{
    const rf_shape *tensor = gradient ? &call->out[0].shape : &call->in[0].shape;
    out->count = 1;
    out->filled = gradient; /* what the slice leaves out of its gradient */
    for (int32_t d = 0; d < tensor->rank; d++) out->copies[0].ranges[d] = rf_slice_range(call->attr, d, tensor->dim[d]);
}

static void pad_copies(const rf_op_call *call, rf_copies *out)
{
    const rf_pad_attr *attr = call->attr;
    out->count = 1;
    out->filled = true;
    out->value = attr->value;
    for (int32_t d = 0; d < call->in[0].shape.rank; d++)
        out->copies[0].ranges[d] = (rf_box_range){ attr->before[d], 1, call->in[0].shape.dim[d] };
}

/* Tensors one behind the other along an axis, but for those that are left out. */
static void joined_copies(const rf_tensor_desc *part, uint32_t n, uint32_t axis, uint32_t left_out, rf_copies *out)
{
    int64_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        rf_box_copy *copy = &out->copies[out->count];
        *copy = (rf_box_copy){ .concurrent = true, .box_number = out->count };
        rf_box_whole(&part[i].shape, copy->ranges);
        copy->ranges[axis].begin = at;
        at += part[i].shape.dim[axis];
        if (!(left_out >> i & 1)) out->count++;
    }
}

static void make_elements(const rf_op_call *call, rf_copies *out)
{
    const rf_concat_attr *concat = call->attr;
    const rf_split_attr *split = call->attr;
    switch (call->op->role) {
    case RF_COPY_SLICE: slice_copies(call, false, out); break;
    case RF_COPY_SLICE_GRAD: slice_copies(call, true, out); break;
    case RF_COPY_PAD: pad_copies(call, out); break;
    case RF_COPY_CONCAT: joined_copies(call->in, call->n_in, concat->axis, 0, out); break;
    case RF_COPY_CONCAT_GRAD: joined_copies(call->in + 1, call->n_in - 1, concat->axis, concat->left_out, out); break;
    default: joined_copies(call->out, call->n_out, split->axis, 0, out); break;
    }
}

void rf_copies_make(const rf_op_call *call, rf_copies *out)
{
    const uint32_t role = call->op->role;
    const bool scatter = role == RF_COPY_SLICE_GRAD || role == RF_COPY_PAD || role == RF_COPY_CONCAT;
    *out = (rf_copies){ .units = rf_call_in_words(call) };
    make_elements(call, out);
    const rf_shape *tensor = scatter ? &out->units.out[0].shape : &out->units.in[0].shape;
    const bool words = out->units.out[0].dtype != call->out[0].dtype;
    for (uint32_t i = 0; i < out->count; i++) {
        out->copies[i].tensor = tensor;
        out->copies[i].scatter = scatter;
        if (!words) continue;
        rf_box_range *last = &out->copies[i].ranges[tensor->rank - 1];
        last->begin /= 2;
        last->count /= 2;
    }
}

/* Words of zeros are the same in all types. */
bool rf_copies_narrow(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    rf_copies elements = { 0 };
    if (!rf_words_narrow(call, caps, data)) return false;
    make_elements(call, &elements);
    for (uint32_t i = 0; i < elements.count; i++) {
        const rf_box_range *last = &elements.copies[i].ranges[call->in[0].shape.rank - 1];
        if (last->step != 1 || last->begin % 2 != 0) return false;
    }
    return elements.value == 0;
}

rf_result rf_copies_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    rf_copies all;
    rf_copies_make(call, &all);
    for (uint64_t e = 0; all.filled && e < rf_desc_count(&call->out[0]); e++)
        ((uint32_t *)out[0])[e] = rf_float_word(all.value);
    for (uint32_t i = 0; i < all.count; i++) {
        const rf_box_copy *copy = &all.copies[i];
        int64_t elements = 1;
        for (int32_t d = 0; d < copy->tensor->rank; d++) elements *= copy->ranges[d].count;
        for (int64_t e = 0; e < elements; e++) {
            const int64_t at = rf_box_place(copy->tensor, copy->ranges, e);
            if (copy->scatter)
                ((uint32_t *)out[0])[at] = ((const uint32_t *)in[i])[e];
            else
                ((uint32_t *)out[i])[e] = ((const uint32_t *)in[0])[at];
        }
    }
    return RF_OK;
}
