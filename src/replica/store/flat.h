/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that every replica has. */
#ifndef RF_REPLICA_STORE_FLAT_H
#define RF_REPLICA_STORE_FLAT_H

#include "gpu/gpu.h"
#include "replica/strategy.h"

/* One f32 array per replica. */
typedef struct rf_flat {
    const char *name;
    rf_gpu_buffer **buffers; /* [num_local]; NULL while the capacity is 0 */
    uint64_t capacity;       /* elements */
} rf_flat;

/* Makes room for `capacity` elements, keeping the first `used`. Nothing may be in flight. */
rf_result rf_flat_grow(rf_strategy *strategy, rf_flat *flat, uint64_t capacity, uint64_t used);
void rf_flat_free(const rf_strategy *strategy, rf_flat *flat);
rf_result rf_flat_read(const rf_flat *flat, uint32_t index, uint64_t offset, uint64_t count, float *values);
rf_result rf_flat_write(const rf_flat *flat, uint32_t index, uint64_t offset, uint64_t count, const float *values);
static inline float *rf_flat_mapped(const rf_flat *flat, uint32_t index)
{
    return flat->buffers ? rf_gpu_buffer_mapped(flat->buffers[index]) : NULL;
}

#endif
