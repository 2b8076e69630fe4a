/* SPDX-License-Identifier: Apache-2.0 */
/* What the chief of a job found out becomes known to all workers. */
#include <stdio.h>
#include <string.h>

#include "train/checkpoint.h"

rf_result rf_share_bytes(rf_strategy *strategy, const char *name, void *data, uint64_t size)
{
    if (rf_strategy_world_size(strategy) == 1 || size == 0) return RF_OK;
    return rf_comm_broadcast(rf_strategy_comm(strategy), data, size, RF_U8, 0, &(rf_collective_params){ .name = name });
}

rf_result rf_gather_bytes(rf_strategy *strategy, const char *name, const void *mine, void *all, uint64_t size)
{
    const uint32_t ranks = rf_strategy_world_size(strategy);
    uint64_t *counts = RF_NEW_ARRAY(uint64_t, ranks);
    if (!counts) return rf_strategy_give_up(strategy, RF_ERROR_OUT_OF_HOST_MEMORY);
    for (uint32_t i = 0; i < ranks; i++) counts[i] = size;
    const rf_result r = rf_comm_all_gather(rf_strategy_comm(strategy), mine, all, counts, RF_U8,
                                           &(rf_collective_params){ .name = name });
    rf_free(counts);
    return r;
}

rf_result rf_share_result(rf_strategy *strategy, rf_result chiefs)
{
    if (rf_strategy_world_size(strategy) == 1) return chiefs;
    struct outcome {
        int32_t result;
        char message[1000];
    } outcome = { .result = RF_OK };
    rf_error_record record;
    rf_error_save(&record);
    if (rf_strategy_is_chief(strategy) && chiefs < 0) {
        outcome.result = chiefs;
        snprintf(outcome.message, sizeof(outcome.message), "%.*s", (int)sizeof(outcome.message) - 1, record.message);
    }
    RF_TRY(rf_share_bytes(strategy, "outcome of a checkpoint", &outcome, sizeof(outcome)));
    if (rf_strategy_is_chief(strategy)) return chiefs < 0 ? rf_error_restore(&record) : chiefs;
    outcome.message[sizeof(outcome.message) - 1] = '\0';
    return outcome.result < 0 ? RF_FAIL((rf_result)outcome.result, "rank 0: %s", outcome.message) : RF_OK;
}
