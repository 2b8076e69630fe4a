/* SPDX-License-Identifier: Apache-2.0 */
/* Plans that convert tensors. */
#include "ops/kit.h"
#include "rf_shaders.h"

rf_result rf_cast_add(rf_kernel_plan *plan, const rf_device_caps *caps, rf_cast_side from, rf_cast_side to,
                      uint64_t count, bool concurrent)
{
    const size_t from_size = rf_dtype_size(from.dtype), to_size = rf_dtype_size(to.dtype);
    const uint64_t chunk = rf_flat_chunk(caps, from_size > to_size ? from_size : to_size);
    for (uint64_t start = 0; start < count; start += chunk) {
        const uint64_t n = rf_min(count - start, chunk);
        const rf_push_cast push = { .count = (uint32_t)n };
        rf_dispatch *d = rf_kernel_plan_add(plan, &rf_shader_cast, RF_NO_LOOPS);
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
        rf_dispatch_items(d, caps, rf_div_up(n, 4)); /* of an invocation */
    }
    return RF_OK;
}
