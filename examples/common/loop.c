/* SPDX-License-Identifier: Apache-2.0 */
#include "loop.h"

#include <math.h>

int example_open_manager(const example_options *options, rf_checkpoint *checkpoint, rf_checkpoint_manager **manager)
{
    const rf_checkpoint_manager_params params = { .directory = options->checkpoint_dir,
                                                  .save = { .async = true, .sharded = options->sharded_checkpoints } };
    TRY(rf_checkpoint_manager_create(checkpoint, &params, manager));
    const rf_result r = rf_checkpoint_manager_restore(*manager, NULL, NULL);
    if (r == RF_ERROR_NOT_FOUND) return 0;
    TRY(r);
    return 1;
}

int example_save(rf_checkpoint_manager *manager, const rf_optimizer *optimizer)
{
    if (manager) TRY(rf_checkpoint_manager_save(manager, rf_optimizer_iterations(optimizer)));
    return 0;
}

int example_stop(rf_checkpoint *checkpoint, rf_checkpoint_manager *manager, const rf_optimizer *optimizer,
                 uint64_t epoch)
{
    example_print("Stopped on request in epoch %u\n", (unsigned)epoch + 1);
    if (example_save(manager, optimizer) < 0) return -1;
    if (checkpoint) TRY(rf_checkpoint_wait(checkpoint));
    return checkpoint ? STOPPED : 0;
}

rf_result example_run_epoch(rf_strategy *strategy, rf_function *function, rf_iterator *data, int digits, progress *bar,
                            float *loss)
{
    const rf_element *batch;
    rf_result r;
    int64_t seen = 0;
    while ((r = rf_iterator_next(data, &batch)) == RF_OK) {
        rf_per_replica *results[1];
        if ((r = rf_strategy_run(strategy, function, batch, results)) < 0) return r;
        if ((r = rf_strategy_reduce(strategy, RF_REDUCE_SUM, results[0], loss)) < 0) return r;
        seen += rf_element_global_rows(batch); /* of all workers */
        char status[32];
        snprintf(status, sizeof(status), "loss %.*f", digits, (double)*loss);
        progress_update(bar, seen, status);
        if (!isfinite(*loss) || rf_strategy_stop_agreed(strategy)) return RF_OK;
    }
    return r;
}
