/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets whose batches are spread over the workers of a job. */
#include <string.h>

#include "base/params.h"
#include "data/pipeline.h"
#include "data/slice.h"
#include "replica/strategy.h"

/* Splits are made on the stack, on threads of pipelines. */
enum { MOST_REPLICAS = 2048 };

/* Where the replicas are and what they get, as it was when the dataset was distributed. */
typedef struct placement {
    uint32_t num_workers, num_replicas;
    uint32_t unit; /* rows that stay together */
    bool equal;    /* shares */
    double shares[MOST_REPLICAS];
    uint32_t workers[MOST_REPLICAS];
} placement;

static placement *placement_describe(const rf_strategy *s)
{
    placement *p = RF_NEW(placement);
    if (!p) return NULL;
    const double *shares = rf_strategy_shares(s);
    p->num_workers = rf_strategy_world_size(s);
    p->num_replicas = rf_strategy_num_replicas_in_sync(s);
    p->equal = !shares;
    for (uint32_t r = 0; r < p->num_replicas; r++) {
        p->shares[r] = shares ? shares[r] : 1;
        p->workers[r] = rf_strategy_replica_rank(s, r);
    }
    return p;
}

/* Counts the rows that rf_strategy_run() gives the replicas of each worker. */
static void rows_split(const void *user, uint32_t rows, uint32_t *counts)
{
    const placement *p = user;
    uint32_t of_replicas[MOST_REPLICAS];
    rf_split_units(rows, p->unit, p->equal ? NULL : p->shares, p->num_replicas, of_replicas);
    memset(counts, 0, p->num_workers * sizeof(counts[0]));
    for (uint32_t r = 0; r < p->num_replicas; r++) counts[p->workers[r]] += of_replicas[r];
}

static bool is_distributed(const rf_dataset *d)
{
    while (d && d->kind != &rf_dataset_kind_slice) d = d->input;
    return d != NULL;
}

rf_result rf_strategy_distribute_dataset(rf_strategy *strategy, const rf_dataset *dataset,
                                         const rf_distribute_params *params, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_strategy_distribute_dataset: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_distribute_params, params));
    RF_REQUIRE(strategy, "rf_strategy_distribute_dataset: strategy is NULL");
    RF_REQUIRE(dataset, "rf_strategy_distribute_dataset: dataset is NULL");
    const rf_distribute_policy policy = params ? params->policy : RF_DISTRIBUTE_AUTO;
    RF_REQUIRE(policy >= RF_DISTRIBUTE_AUTO && policy <= RF_DISTRIBUTE_OFF,
               "rf_strategy_distribute_dataset: policy %d does not exist", (int)policy);
    if (policy == RF_DISTRIBUTE_OFF || rf_strategy_world_size(strategy) == 1 || rf_strategy_shares_move(strategy) ||
        rf_strategy_num_replicas_in_sync(strategy) > MOST_REPLICAS || is_distributed(dataset)) {
        *out = rf_dataset_retain(dataset);
        return RF_OK;
    }
    placement *p = placement_describe(strategy);
    if (!p) return RF_ERROR_OUT_OF_HOST_MEMORY;
    p->unit = params && params->keep_together > 0 ? params->keep_together : 1;
    const rf_slice_params slice = { .worker = rf_strategy_rank(strategy),
                                    .num_workers = p->num_workers,
                                    .by_file = policy == RF_DISTRIBUTE_BY_FILE,
                                    .split = rows_split,
                                    .user = p };
    return rf_dataset_slice(dataset, &slice, out);
}
