/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of transpose: of matrices by blocks of 4 x 4, of everything else element by element or in fours. */
#include <string.h>

#include "ops/pointwise/common/transpose.h"
#include "rf_shaders.h"

void rf_transpose_layout_of(const rf_op_call *call, rf_transpose_layout *l)
{
    const rf_transpose_attr *attr = call->attr;
    const rf_shape x = call->in[0].shape;
    uint64_t stride[RF_MAX_RANK], s = 1;
    for (int32_t d = x.rank - 1; d >= 0; d--) {
        stride[d] = s;
        s *= (uint64_t)x.dim[d];
    }
    memset(l, 0, sizeof(*l));
    s = 1;
    for (int32_t d = x.rank - 1; d >= 0; d--) {
        const uint64_t size = (uint64_t)x.dim[attr->perm[d]], from = stride[attr->perm[d]];
        if (size == 1) continue;
        const uint32_t last = l->rank - 1;
        if (l->rank > 0 && from == l->in_stride[last] * l->size[last]) {
            l->size[last] *= size;
        } else {
            l->size[l->rank] = size;
            l->in_stride[l->rank] = from;
            l->out_stride[l->rank++] = s;
        }
        s *= size;
    }
    if (l->rank == 0) {
        l->rank = 1;
        l->size[0] = l->in_stride[0] = l->out_stride[0] = 1;
    }
}

/* Batch of matrices: innermost two dimensions swapped, and perhaps one outermost that stays. */
static bool transpose_matrices(const rf_transpose_layout *l, uint64_t *rows, uint64_t *columns, uint64_t *batch)
{
    if (l->rank < 2 || l->rank > 3 || l->in_stride[1] != 1 || l->in_stride[0] != l->size[1]) return false;
    *rows = l->size[0];
    *columns = l->size[1];
    *batch = l->rank == 3 ? l->size[2] : 1;
    return true;
}

enum { BLOCKS_SIDE = 16 };

bool rf_transpose_narrow(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const int32_t last = call->in[0].shape.rank - 1;
    return rf_words_narrow(call, caps, data) && ((const rf_transpose_attr *)call->attr)->perm[last] == last;
}

static double blocks_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    rf_transpose_layout l;
    uint64_t rows, columns, batch;
    rf_transpose_layout_of(call, &l);
    if (!transpose_matrices(&l, &rows, &columns, &batch) || rows % 4 || columns % 4) return RF_SCORE_NONE;
    const uint64_t down = rf_div_up(rows / 4, rf_local_size(caps, RF_FLAT_LOCAL) / BLOCKS_SIDE);
    return rf_tensor_bytes(&call->in[0]) <= caps->max_storage_range &&
                   rf_local_size(caps, RF_FLAT_LOCAL) >= 2 * BLOCKS_SIDE && down <= caps->max_grid[1] &&
                   batch <= caps->max_grid[2] && rf_div_up(columns / 4, BLOCKS_SIDE) <= caps->max_grid[0]
               ? RF_SCORE_SHAPE
               : RF_SCORE_NONE;
}

static rf_result blocks_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    rf_transpose_layout l;
    uint64_t rows, columns, batch;
    rf_transpose_layout_of(call, &l);
    if (!transpose_matrices(&l, &rows, &columns, &batch))
        return RF_FAIL(RF_ERROR_INTERNAL, "transpose: kernel is not eligible");
    if (rows * columns * batch == 0) return RF_OK;
    rf_dispatch *d = rf_kernel_plan_add(plan, &rf_shader_transpose_blocks, RF_NO_LOOPS);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const uint32_t local = rf_local_size(caps, RF_FLAT_LOCAL), down = local / BLOCKS_SIDE;
    rf_dispatch_spec(d, local);
    rf_dispatch_spec(d, BLOCKS_SIDE);
    const rf_push_transpose_blocks push = { .rows = (uint32_t)(rows / 4), .columns = (uint32_t)(columns / 4) };
    rf_dispatch_push(d, &push, sizeof(push));
    rf_bind_whole(d, RF_BIND_INPUT, 0);
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    d->grid[0] = (uint32_t)rf_div_up(columns / 4, BLOCKS_SIDE);
    d->grid[1] = (uint32_t)rf_div_up(rows / 4, down);
    d->grid[2] = (uint32_t)batch;
    return RF_OK;
}

/* How many steps of the dimension with stride `stride` fit one descriptor, with room for alignment; all when everything
 * fits. */
static uint64_t box_steps(const rf_device_caps *caps, uint64_t size, uint64_t stride)
{
    if (size * stride * 4 <= caps->max_storage_range) return size;
    return (caps->max_storage_range - caps->buffer_alignment) / (stride * 4);
}

uint32_t rf_transpose_outermost_input(const rf_transpose_layout *l)
{
    uint32_t d = 0;
    for (uint32_t i = 1; i < l->rank; i++)
        if (l->in_stride[i] > l->in_stride[d]) d = i;
    return d;
}

static double strided_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_op_call words = rf_call_in_words(call);
    rf_transpose_layout l;
    rf_transpose_layout_of(&words, &l);
    const uint32_t in = rf_transpose_outermost_input(&l), out = l.rank - 1;
    const bool fits =
        box_steps(caps, l.size[in], l.in_stride[in]) > 0 && box_steps(caps, l.size[out], l.out_stride[out]) > 0;
    return fits || rf_shape_count(call->in[0].shape) == 0 ? RF_SCORE_ANY : RF_SCORE_NONE;
}

rf_result rf_transpose_box_plan(const rf_transpose_layout *l, const rf_device_caps *caps, const rf_shader *shader,
                                uint32_t width, rf_kernel_plan *plan, uint64_t a0, uint64_t a1, uint64_t b0,
                                uint64_t b1)
{
    const uint32_t in = rf_transpose_outermost_input(l), out = l->rank - 1;
    rf_dispatch *d = rf_kernel_plan_add(plan, shader, RF_NO_LOOPS);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    d->concurrent = plan->count > 1;
    const uint64_t in_first = a0 * l->in_stride[in], out_first = b0 * l->out_stride[out];
    rf_push_transpose push = { 0 };
    uint64_t count = 1, in_offset = rf_element_base(caps, in_first), out_offset = rf_element_base(caps, out_first);
    for (uint32_t i = 0; i < l->rank; i++) {
        uint64_t size = l->size[i];
        if (i == in) size = a1 - a0;
        if (i == out) size = b1 - b0;
        if (i == in && in != out) out_offset += a0 * l->out_stride[in];
        if (i == out && in != out) in_offset += b0 * l->in_stride[out];
        if (i == 0) size /= width;
        const rf_magic m = rf_magic_make((uint32_t)size);
        push.size[i] = (uint32_t)size;
        push.magic[i] = m.magic;
        push.shifts |= m.shift << (5 * i);
        push.in_stride[i] = (uint32_t)(i == 0 ? l->in_stride[i] : l->in_stride[i] / width);
        push.out_stride[i] = (uint32_t)(i == 0 ? 1 : l->out_stride[i] / width);
        count *= size;
    }
    push.count = (uint32_t)count;
    push.in_offset = (uint32_t)(in_offset / width);
    push.out_offset = (uint32_t)(out_offset / width);
    rf_dispatch_spec(d, rf_local_size(caps, RF_FLAT_LOCAL));
    rf_dispatch_spec(d, l->rank);
    rf_dispatch_push(d, &push, sizeof(push));
    rf_bind_elements(d, caps, RF_BIND_INPUT, 0, in_first, (a1 - a0) * l->in_stride[in]);
    rf_bind_elements(d, caps, RF_BIND_OUTPUT, 0, out_first, (b1 - b0) * l->out_stride[out]);
    rf_dispatch_items(d, caps, count);
    return RF_OK;
}

static rf_result strided_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                              rf_kernel_plan *plan)
{
    const rf_op_call words = rf_call_in_words(call);
    rf_transpose_layout l;
    rf_transpose_layout_of(&words, &l);
    if (rf_shape_count(call->in[0].shape) == 0) return RF_OK;
    const uint32_t in = rf_transpose_outermost_input(&l), out = l.rank - 1;
    const uint32_t width = l.in_stride[0] == 1 && l.size[0] % 4 == 0 ? 4 : 1;
    const rf_shader *shader = width == 4 ? &rf_shader_transpose_w4 : &rf_shader_transpose_w1;
    uint64_t a = box_steps(caps, l.size[in], l.in_stride[in]), b = box_steps(caps, l.size[out], l.out_stride[out]);
    if (a == 0 || b == 0) return RF_FAIL(RF_ERROR_INTERNAL, "transpose: kernel is not eligible");
    if (in == out) {
        if (b < a) a = b;
        for (uint64_t i = 0; i < l.size[in]; i += a) {
            const uint64_t end = rf_min(i + a, l.size[in]);
            RF_TRY(rf_transpose_box_plan(&l, caps, shader, width, plan, i, end, i, end));
        }
        return RF_OK;
    }
    for (uint64_t i = 0; i < l.size[in]; i += a)
        for (uint64_t j = 0; j < l.size[out]; j += b)
            RF_TRY(rf_transpose_box_plan(&l, caps, shader, width, plan, i, rf_min(i + a, l.size[in]), j,
                                         rf_min(j + b, l.size[out])));
    return RF_OK;
}

static const rf_kernel kernels[] = {
    { "blocks", blocks_score, blocks_plan },
    { "strided", strided_score, strided_plan, .narrow = rf_transpose_narrow },
};
const rf_kernel_list rf_transpose_common = RF_KERNEL_LIST(kernels);
