/* SPDX-License-Identifier: Apache-2.0 */
/* A strategy tells the readers of its job's status what happens. */
#include <ringfire/status.h>

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/params.h"
#include "base/platform.h"
#include "replica/internal.h"
#include "transport/collective/comm_internal.h"
#include "transport/status/board.h"

/* A process has one place to tell it: the first strategy that trains has it. */
static atomic_flag taken = ATOMIC_FLAG_INIT;

static const char *variable_of(void *user, const char *name)
{
    (void)user;
    return rf_env(name);
}

/* All workers of a job have the variable, and some of them strategies of their own. */
static bool is_chief(const rf_strategy *s)
{
    if (s->members.world.size > 1) return s->members.world.rank == 0;
    rf_job job;
    const rf_result r = rf_job_resolve(NULL, variable_of, NULL, &job);
    const bool chief = r >= 0 && job.rank == 0;
    if (r < 0) rf_log_message(RF_LOG_WARN, "RINGFIRE_STATUS is not followed: %s", rf_error_message());
    rf_job_forget(&job);
    return chief;
}

static rf_result open_board(rf_strategy *s, const char *wanted)
{
    const rf_comm_params job = { .key_file = s->status.key_file, .insecure = s->status.insecure };
    const rf_strategy_members *m = &s->members;
    rf_status_members told = { m->world.size, m->num_replicas, RF_NEW_ARRAY(rf_status_worker, m->world.size),
                               RF_NEW_ARRAY(rf_status_replica, m->num_replicas) };
    rf_result r = told.workers && told.replicas ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; r >= 0 && i < told.num_workers; i++) {
        snprintf(told.workers[i].address, sizeof(told.workers[i].address), "%s", rf_comm_address(m->world.comm, i));
        told.workers[i].host = rf_comm_host(m->world.comm, i);
    }
    for (uint32_t i = 0; r >= 0 && i < told.num_replicas; i++) {
        snprintf(told.replicas[i].device, sizeof(told.replicas[i].device), "%s", m->identities[i].name);
        told.replicas[i].rank = rf_world_rank_of(&m->world, i);
    }
    if (r >= 0) r = rf_status_board_create(wanted, &job, &told, &s->status.board);
    rf_free(told.workers);
    rf_free(told.replicas);
    return r;
}

rf_result rf_strategy_keep_key(rf_strategy *s, const rf_comm_params *comm)
{
    s->status.insecure = comm->insecure;
    if (!comm->key_file) return RF_OK;
    s->status.key_file = rf_strdup(comm->key_file);
    return s->status.key_file ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

rf_result rf_strategy_open_status(rf_strategy *s)
{
    const char *wanted = rf_env("RINGFIRE_STATUS");
    if (!wanted || atomic_flag_test_and_set(&taken) || !is_chief(s)) return RF_OK;
    const rf_result r = open_board(s, wanted);
    if (r < 0) atomic_flag_clear(&taken);
    return rf_strategy_fail_in_job(s, r);
}

void rf_strategy_close_status(rf_strategy *s)
{
    if (!s->status.board) return;
    rf_status_board_destroy(&s->status.board);
    atomic_flag_clear(&taken);
}

bool rf_strategy_has_status(const rf_strategy *s)
{
    return s->status.board != NULL;
}

void rf_strategy_note_step(rf_strategy *s, const uint32_t *examples)
{
    if (s->status.board) rf_status_board_step(s->status.board, examples);
}

void rf_strategy_note_checkpoint(rf_strategy *s, const char *path)
{
    if (s->status.board) rf_status_board_checkpoint(s->status.board, path);
}

RF_API rf_result rf_strategy_set_progress(rf_strategy *strategy, const rf_progress *progress)
{
    RF_TRY(RF_PARAMS_CHECK(rf_progress, progress));
    RF_REQUIRE(strategy, "rf_strategy_set_progress: strategy is NULL");
    RF_REQUIRE(progress, "rf_strategy_set_progress: progress is NULL");
    RF_REQUIRE(progress->num_values <= RF_STATUS_VALUES, "rf_strategy_set_progress: num_values is %u; at most %d",
               progress->num_values, RF_STATUS_VALUES);
    RF_REQUIRE(progress->num_values == 0 || (progress->names && progress->values),
               "rf_strategy_set_progress: num_values is %u, but names or values are NULL", progress->num_values);
    if (!strategy->status.board) return RF_OK;
    rf_status_progress told = { .epoch = progress->epoch,
                                .num_epochs = progress->num_epochs,
                                .batch = progress->batch,
                                .batches_per_epoch = progress->batches_per_epoch,
                                .num_values = progress->num_values };
    for (uint32_t i = 0; i < told.num_values; i++) {
        RF_REQUIRE(progress->names[i], "rf_strategy_set_progress: names[%u] is NULL", i);
        snprintf(told.values[i].name, sizeof(told.values[i].name), "%s", progress->names[i]);
        told.values[i].value = progress->values[i];
    }
    rf_status_board_progress(strategy->status.board, &told);
    return RF_OK;
}
