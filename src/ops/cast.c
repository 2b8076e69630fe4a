/* SPDX-License-Identifier: Apache-2.0 */
/* Plans that convert tensors. */
#include "ops/kit.h"
#include "ops/pointwise/common/elementwise.h"
#include "rf_shaders.h"

/* As a program that copies. False where no kernel of such programs is known to be better. */
static bool plan_copy(rf_kernel_plan *plan, const rf_device_caps *caps, rf_cast_side from, rf_cast_side to,
                      uint64_t count, rf_result *result)
{
    if (!rf_dtype_is_float(from.dtype) || !rf_dtype_is_float(to.dtype)) return false;
    if (from.dtype != RF_F32 && to.dtype != RF_F32) return false; /* such programs know one type of 16 bits */
    static const rf_op copies = { .name = "cast", .role = RF_PROGRAM_COPY };
    const rf_shape shape = { 1, { (int64_t)count } };
    const rf_op_call call = {
        .op = &copies, .n_in = 1, .n_out = 1, .in = { { from.dtype, shape } }, .out = { { to.dtype, shape } }
    };
    if (rf_elementwise_texel_score(&call, caps, NULL) < RF_SCORE_DRIVER) return false;
    uint32_t added = plan->count;
    *result = rf_elementwise_texel_plan(&call, caps, NULL, plan);
    for (; added < plan->count; added++) {
        rf_dispatch *d = &plan->items[added];
        for (uint32_t b = 0; b < d->n_bind; b++) {
            const rf_cast_side *side = d->bind[b].write ? &to : &from;
            d->bind[b].kind = side->kind;
            d->bind[b].index = side->index;
            d->bind[b].offset += side->offset;
        }
    }
    return true;
}

/* The shader that converts by itself: bytes in sixteens where texels are fetched at once. */
static const rf_shader *shader_of(const rf_device_caps *caps, rf_dtype from, rf_dtype to, uint64_t count)
{
    const bool sixteens = from == RF_U8 && to == RF_F32 && count % 16 == 0 && count / 16 <= caps->max_texel_elements;
    if (!sixteens || caps->driver != RF_DRIVER_LAVAPIPE || !rf_flat_texels(caps)) return &rf_shader_cast;
    return caps->subgroup_size == 8 ? &rf_shader_cast_bytes_texel8 : &rf_shader_cast_bytes_texel16;
}

rf_result rf_cast_add(rf_kernel_plan *plan, const rf_device_caps *caps, rf_cast_side from, rf_cast_side to,
                      uint64_t count, bool concurrent)
{
    const uint32_t first = plan->count;
    rf_result r = RF_OK;
    if (plan_copy(plan, caps, from, to, count, &r)) {
        if (plan->count > first) plan->items[first].concurrent = concurrent;
        return r;
    }
    const size_t from_size = rf_dtype_size(from.dtype), to_size = rf_dtype_size(to.dtype);
    const uint64_t chunk = rf_flat_chunk(caps, from_size > to_size ? from_size : to_size);
    for (uint64_t start = 0; start < count; start += chunk) {
        const uint64_t n = rf_min(count - start, chunk);
        const rf_push_cast push = { .count = (uint32_t)n };
        const rf_shader *shader = shader_of(caps, from.dtype, to.dtype, n);
        rf_dispatch *d = rf_kernel_plan_add(plan, shader, RF_NO_LOOPS);
        if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
        d->concurrent = concurrent || start > 0;
        rf_dispatch_spec(d, rf_local_size(caps, RF_FLAT_LOCAL));
        rf_dispatch_spec(d, rf_type_word(from.dtype, caps));
        rf_dispatch_spec(d, rf_type_word(to.dtype, caps));
        rf_dispatch_push(d, &push, sizeof(push));
        /* Whole words: the last one may be shared with padding, which the shader leaves alone. */
        rf_bind_bytes(d, from.kind, from.index, from.offset + start * from_size, rf_align_up(n * from_size, 4))->write =
            false;
        rf_bind_bytes(d, to.kind, to.index, to.offset + start * to_size, rf_align_up(n * to_size, 4))->write = true;
        if (shader != &rf_shader_cast) d->bind[0].view = RF_VIEW_TEXEL_RGBA32F;
        rf_dispatch_items(d, caps, rf_div_up(n, shader != &rf_shader_cast ? 32 : 4)); /* of an invocation */
    }
    return RF_OK;
}
