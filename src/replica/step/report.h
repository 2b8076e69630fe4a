/* SPDX-License-Identifier: Apache-2.0 */
/* Workers tell each other this before each run. */
#ifndef RF_REPLICA_STEP_REPORT_H
#define RF_REPLICA_STEP_REPORT_H

#include "replica/agree.h"

/* The run that a worker is about to make. */
typedef struct rf_step_intent {
    rf_step_report mine;                  /* of what the others are told, all but `result`, `stop` and `settings` */
    uint32_t unit;                        /* of which `counts` are multiples: examples that stay together */
    const struct rf_signature *signature; /* NULL: none yet */
    uint32_t *counts; /* [num_replicas] as planned; becomes what the workers, from the rows they hold, will compute */
    bool again;       /* out: counts have to change because memory is short: prepare anew */
} rf_step_intent;
/* Tells the other workers that this one is ready (`prepared` >= 0) or failed, hears the same from them, and agrees on
 * stop requests. Fails where any worker failed, and where the workers are not about to run the same step. May move
 * shares, for the next run. */
rf_result rf_strategy_report(rf_strategy *strategy, rf_step_intent *step, rf_result prepared);

#endif
