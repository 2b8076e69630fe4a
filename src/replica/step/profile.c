/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of a function goes. */
#include <string.h>

#include <ringfire/bench.h>

#include "replica/internal.h"
#include "replica/step/function.h"

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

RF_API rf_result rf_bench_function(rf_function *function, uint32_t examples, rf_bench_node **rows, uint32_t *count)
{
    RF_REQUIRE(rows && count, "rf_bench_function: rows or count is NULL");
    *rows = NULL;
    *count = 0;
    RF_REQUIRE(function, "rf_bench_function: function is NULL");
    rf_program *program = NULL;
    for (uint32_t i = function->signatures.count; !program && i-- > 0;)
        if (function->signatures.items[i]->prepared) program = function->signatures.items[i]->programs[0];
    RF_REQUIRE(program && examples > 0, "rf_bench_function: run '%s' with %u examples on replica 0 first",
               function->name, examples > 0 ? examples : 1);
    RF_TRY(rf_strategy_wait(function->strategy));
    rf_node_time *times;
    uint32_t found;
    RF_TRY(rf_program_profile(program, examples, PROFILE_RUNS, &times, &found));
    const rf_result r = to_rows(times, found, rows);
    rf_free(times);
    RF_TRY(r);
    *count = found;
    return RF_OK;
}

RF_API void rf_bench_nodes_free(rf_bench_node *rows)
{
    rf_free(rows);
}
