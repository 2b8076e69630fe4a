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

/* Host addresses for the exchange: device memory itself where it is mapped, else staging. */
static inline float *rf_replica_reachable(const rf_strategy *s, uint32_t index, const rf_flat *flat,
                                          const rf_flat *staging)
{
    return rf_flat_mapped(s->members.replicas[index].staged ? staging : flat, index);
}

#endif
