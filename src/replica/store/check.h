/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the replicas are still identical. */
#ifndef RF_REPLICA_STORE_CHECK_H
#define RF_REPLICA_STORE_CHECK_H

#include "replica/strategy.h"

/* Compares the replicas when a comparison is due. Called before every step that updates. */
rf_result rf_strategy_check_if_due(rf_strategy *strategy);

#endif
