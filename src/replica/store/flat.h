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

/* Gives it room for `capacity` elements, more or fewer, keeping the first `used`. Nothing may be in flight. */
rf_result rf_flat_grow(rf_strategy *strategy, rf_flat *flat, uint64_t capacity, uint64_t used);
/* The same where it has another capacity, once nothing is in flight. */
rf_result rf_flat_fit(rf_strategy *strategy, rf_flat *flat, uint64_t capacity);
void rf_flat_free(const rf_strategy *strategy, rf_flat *flat);
rf_result rf_flat_read(const rf_flat *flat, uint32_t index, uint64_t offset, uint64_t count, float *values);
rf_result rf_flat_write(const rf_flat *flat, uint32_t index, uint64_t offset, uint64_t count, const float *values);
/* The same elements of this worker's replicas one after the other; of all workers' (collective); on each of this
 * worker's. */
rf_result rf_flat_read_local(const rf_strategy *s, const rf_flat *flat, uint64_t offset, uint64_t count, float *values);
rf_result rf_flat_gather(rf_strategy *s, const char *name, const rf_flat *flat, uint64_t offset, uint64_t count,
                         float *values);
rf_result rf_flat_write_same(const rf_strategy *s, const rf_flat *flat, uint64_t offset, uint64_t count,
                             const float *values);
rf_result rf_flat_clear(const rf_strategy *s, const rf_flat *flat, uint64_t offset, uint64_t count);
/* Memory that the host sees, for exchanges of replicas whose own it does not. */
typedef struct rf_staging {
    rf_flat down, up;
} rf_staging;
/* Where there are several replicas. */
rf_result rf_staging_ensure(rf_strategy *strategy, rf_staging *staging, uint64_t capacity);

static inline float *rf_flat_mapped(const rf_flat *flat, uint32_t index)
{
    return flat->buffers ? rf_gpu_buffer_mapped(flat->buffers[index]) : NULL;
}

/* Variables one after the other, in creation order where none has gone, the same places on every replica. Elements from
 * a variable's end up to where the next may begin are zero. */
typedef struct rf_store {
    rf_flat values;
    uint64_t used; /* elements */
    struct {
        rf_variable **items;
        uint32_t count, capacity;
    } variables; /* by offset; not counted references */
} rf_store;

#endif
