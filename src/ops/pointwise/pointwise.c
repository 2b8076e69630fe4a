/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/pointwise/pointwise.h"

#include <string.h>

#include "base/error.h"
#include "base/memory.h"

uint32_t rf_pointwise_local_size(const rf_device_caps *caps)
{
    uint32_t size = 256;
    while (size > 1 && (size > caps->max_workgroup_invocations || size > caps->max_workgroup_size[0])) size /= 2;
    return size;
}

bool rf_pointwise_texels(const rf_device_caps *caps)
{
    return caps->int64 && caps->subgroup_shuffle && caps->full_subgroups &&
           (caps->subgroup_size == 8 || caps->subgroup_size == 16) &&
           rf_pointwise_local_size(caps) % caps->subgroup_size == 0;
}

rf_result rf_pointwise_grid(const rf_device_caps *caps, uint64_t invocations, uint32_t grid[3])
{
    const uint64_t groups = rf_div_up(invocations, rf_pointwise_local_size(caps));
    const uint64_t rows = rf_div_up(groups, caps->max_grid[0]);
    if (rows > caps->max_grid[1])
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%llu workgroups exceed the device's grid of %u x %u",
                       (unsigned long long)groups, caps->max_grid[0], caps->max_grid[1]);
    grid[0] = (uint32_t)(rows ? rf_div_up(groups, rows) : 0);
    grid[1] = (uint32_t)rows;
    grid[2] = 1;
    return RF_OK;
}

uint64_t rf_pointwise_chunk(const rf_device_caps *caps, size_t element_size)
{
    uint64_t elements = caps->max_storage_range / element_size;
    if (elements > 1u << 29) elements = 1u << 29;
    const uint64_t step = caps->buffer_alignment > 64 ? caps->buffer_alignment : 64;
    return elements > step ? elements / step * step : step;
}

rf_magic rf_magic_make(uint32_t divisor)
{
    if (divisor <= 1) return (rf_magic){ 0, 0 };
    uint32_t log = 0;
    while ((1ull << log) < divisor) log++;
    return (rf_magic){ (uint32_t)rf_div_up(1ull << (31 + log), divisor), log - 1 };
}

void rf_pointwise_bind(rf_dispatch *d, rf_bind_kind kind, uint32_t index, bool write, uint64_t offset, uint64_t size)
{
    rf_binding *binding = rf_dispatch_bind(d, kind, index, RF_VIEW_STORAGE, write);
    binding->offset = offset;
    binding->size = size;
}

rf_result rf_pointwise_plan(const rf_pointwise_kernel *kernel, uint64_t count, const rf_device_caps *caps,
                            rf_kernel_plan *plan)
{
    const uint64_t chunk = rf_pointwise_chunk(caps, sizeof(float));
    for (uint64_t start = 0; start < count; start += chunk) {
        const uint64_t n = count - start < chunk ? count - start : chunk;
        rf_dispatch *d = rf_kernel_plan_add(plan, kernel->shader, RF_NO_LOOPS);
        if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
        d->concurrent = start > 0;
        rf_dispatch_spec(d, rf_pointwise_local_size(caps));
        rf_dispatch_spec(d, n % kernel->width != 0);
        for (uint32_t i = 0; i < kernel->n_spec; i++) rf_dispatch_spec(d, kernel->spec[i]);
        uint32_t push[RF_MAX_PUSH / 4] = { (uint32_t)(n / kernel->width), (uint32_t)(n % kernel->width) };
        memcpy(push + 2, kernel->push, kernel->push_size);
        rf_dispatch_push(d, push, 8 + kernel->push_size);
        for (uint32_t i = 0; i < kernel->n_tensors; i++) {
            rf_pointwise_bind(d, kernel->tensors[i].kind, kernel->tensors[i].index, kernel->tensors[i].write, start * 4,
                              n * 4);
            d->bind[i].view = kernel->tensors[i].view;
        }
        for (uint32_t i = 0; i < kernel->n_small; i++)
            rf_dispatch_bind(d, RF_BIND_INPUT, kernel->small[i], RF_VIEW_STORAGE, false);
        RF_TRY(rf_pointwise_grid(caps, (uint64_t)push[0] + push[1], d->grid));
    }
    return RF_OK;
}
