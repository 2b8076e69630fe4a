/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the replicas are still identical. */
#ifndef RF_REPLICA_STORE_CHECK_H
#define RF_REPLICA_STORE_CHECK_H

#include "replica/strategy.h"

/* Compares the replicas where it is time to; before every step that updates. */
rf_result rf_strategy_check_if_due(rf_strategy *strategy);

#endif
