/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of a function goes. */
#include <string.h>

#include "bench/measure/programs.h"

#include "replica/internal.h"
#include "step/function.h"

#define PROFILE_RUNS 5

/* The rows in one block with the names of their ops, which may go before the rows do. */
static rf_result to_rows(const rf_node_time *times, uint32_t count, rf_bench_node **rows)
{
    size_t length = 0;
    for (uint32_t i = 0; i < count; i++) length += strlen(times[i].op) + 1;
    *rows = rf_calloc(1, count * sizeof(**rows) + length);
    if (!*rows) return RF_ERROR_OUT_OF_HOST_MEMORY;
    char *name = (char *)(*rows + count);
    for (uint32_t i = 0; i < count; i++) {
        const double ns = times[i].ns > 0 ? (double)times[i].ns : 1;
        (*rows)[i] = (rf_bench_node){ .op = name,
                                      .kernel = times[i].kernel,
                                      .seconds = ns * 1e-9,
                                      .gflops = times[i].cost.flops / ns,
                                      .gbytes = times[i].cost.bytes / ns };
        name = stpcpy(name, times[i].op) + 1;
    }
    return RF_OK;
}

/* The latest signature that replica 0 has run. */
static rf_result find_run(const rf_function *function, uint32_t examples, const char *caller, const rf_signature **out)
{
    RF_REQUIRE(function, "%s: function is NULL", caller);
    *out = NULL;
    for (uint32_t i = function->signatures.count; !*out && i-- > 0;) {
        const rf_signature *signature = function->signatures.items[i];
        if (signature->prepared && signature->programs[0]) *out = signature;
    }
    RF_REQUIRE(*out && examples > 0, "%s: run '%s' with %u examples on replica 0 first", caller, function->name,
               examples > 0 ? examples : 1);
    return RF_OK;
}

rf_result rf_bench_programs(const rf_function *function, uint32_t examples, const char *caller, rf_bench_program_fn fn,
                            void *user)
{
    const rf_signature *signature;
    RF_TRY(find_run(function, examples, caller, &signature));
    RF_TRY(rf_strategy_wait(function->strategy));
    RF_TRY(fn(user, signature->programs[0], examples));
    for (uint32_t u = 0; u < signature->updates.count; u++) {
        const rf_update *update = &signature->updates.items[u];
        for (uint32_t b = 0; b < update->num_buckets; b++) {
            rf_program *apply =
                rf_step_schedule_find(&signature->schedule, &rf_update_apply_action, update, b)->works[0].program;
            if (apply) RF_TRY(fn(user, apply, 0));
        }
    }
    return RF_OK;
}

static rf_result count_program(void *user, rf_program *program, uint32_t batch)
{
    rf_bench_commands *out = user;
    rf_program_stats stats;
    RF_TRY(rf_program_stats_get(program, batch, &stats));
    out->dispatches += stats.commands.dispatches;
    out->barriers += stats.commands.barriers;
    out->copies += stats.commands.copies;
    return RF_OK;
}

rf_result rf_bench_count_commands(rf_function *function, uint32_t examples, rf_bench_commands *commands)
{
    RF_REQUIRE(commands, "rf_bench_count_commands: commands is NULL");
    *commands = (rf_bench_commands){ 0 };
    rf_bench_commands sum = { 0 };
    RF_TRY(rf_bench_programs(function, examples, "rf_bench_count_commands", count_program, &sum));
    sum.submissions = function->num_submissions;
    *commands = sum;
    return RF_OK;
}

rf_result rf_bench_function(rf_function *function, uint32_t examples, rf_bench_node **rows, uint32_t *count)
{
    RF_REQUIRE(rows && count, "rf_bench_function: rows or count is NULL");
    *rows = NULL;
    *count = 0;
    const rf_signature *signature;
    RF_TRY(find_run(function, examples, "rf_bench_function", &signature));
    RF_TRY(rf_strategy_wait(function->strategy));
    rf_node_time *times;
    uint32_t found;
    RF_TRY(rf_program_profile(signature->programs[0], examples, PROFILE_RUNS, &times, &found));
    const rf_result r = to_rows(times, found, rows);
    rf_free(times);
    RF_TRY(r);
    *count = found;
    return RF_OK;
}

void rf_bench_nodes_free(rf_bench_node *rows)
{
    rf_free(rows);
}
