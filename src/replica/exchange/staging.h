/* SPDX-License-Identifier: Apache-2.0 */
/* Host addresses of device memory, for the exchange. */
#ifndef RF_REPLICA_EXCHANGE_STAGING_H
#define RF_REPLICA_EXCHANGE_STAGING_H

#include "replica/exchange/segments.h"
#include "replica/internal.h"

/* Staging arrays for the exchange, on staged replicas of several. */
rf_result rf_staging_ensure(rf_strategy *strategy);
/* The same for variables that no optimizer updates. */
rf_result rf_staging_ensure_fixed(rf_strategy *strategy);
/* The same for sums over replicas within a step. */
rf_result rf_staging_ensure_sums(rf_strategy *strategy);

/* Copies of the segments, each to the same place, that the host can see when they are done. The caller destroys *out,
 * which may be set when this fails. */
rf_result rf_replica_record_copies(const rf_strategy *strategy, uint32_t index, const char *name,
                                   const rf_segment *segments, uint32_t num_segments, const rf_flat *from,
                                   const rf_flat *to, rf_gpu_recording **out);

/* Host addresses for the exchange: device memory itself where it is mapped, else staging. */
static inline float *rf_replica_reachable(const rf_strategy *s, uint32_t index, const rf_flat *flat,
                                          const rf_flat *staging)
{
    return rf_flat_mapped(s->replicas[index].staged ? staging : flat, index);
}

#endif
