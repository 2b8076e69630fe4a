/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the replicas are still identical. */
#ifndef RF_REPLICA_STORE_CHECK_H
#define RF_REPLICA_STORE_CHECK_H

#include "replica/strategy.h"

/* Compares the replicas when a comparison is due. Called before every step that updates. */
rf_result rf_strategy_check_if_due(rf_strategy *strategy);
/* Hash of floats by their bits. Arrays of one length that differ in a single float always have different ones. Not for
 * adversaries. */
uint64_t rf_hash_floats(const float *values, uint64_t count);

#endif
