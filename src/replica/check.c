/* SPDX-License-Identifier: Apache-2.0 */
/* Are the replicas still copies of each other? */
#include <string.h>

#include "replica/internal.h"

static rf_result compare(const rf_store *store, const rf_variable *v, uint32_t replica, float *first, float *other)
{
    RF_TRY(rf_flat_read(&store->values, 0, v->offset, v->count, first));
    RF_TRY(rf_flat_read(&store->values, replica, v->offset, v->count, other));
    if (memcmp(first, other, v->count * sizeof(float)) == 0) return RF_OK;
    uint64_t at = 0;
    while (memcmp(&first[at], &other[at], sizeof(float)) == 0) at++;
    const rf_strategy *s = v->strategy;
    return RF_FAIL(RF_ERROR_INTERNAL,
                   "variable '%s' differs between replica 0 (%s) and replica %u (%s): element %llu is %.9g and %.9g",
                   v->name, rf_strategy_device_name(s, 0), replica, rf_strategy_device_name(s, replica),
                   (unsigned long long)at, (double)first[at], (double)other[at]);
}

static rf_result compare_all(const rf_strategy *s, const rf_store *store, float *scratch, uint64_t longest,
                             uint32_t *replica, const rf_variable **variable)
{
    for (uint32_t i = 0; i < store->variables.count; i++) {
        const rf_variable *v = store->variables.items[i];
        for (uint32_t r = 1; r < s->num_replicas; r++) {
            const rf_result result = compare(store, v, r, scratch, scratch + longest);
            if (result >= 0) continue;
            if (replica) *replica = r;
            if (variable) *variable = v;
            return result;
        }
    }
    return RF_OK;
}

static uint64_t longest_variable(const rf_store *store)
{
    uint64_t longest = 0;
    for (uint32_t i = 0; i < store->variables.count; i++)
        if (store->variables.items[i]->count > longest) longest = store->variables.items[i]->count;
    return longest;
}

RF_API rf_result rf_strategy_check_identical(rf_strategy *strategy, uint32_t *replica, const rf_variable **variable)
{
    RF_REQUIRE(strategy, "rf_strategy_check_identical: strategy is NULL");
    if (replica) *replica = 0;
    if (variable) *variable = NULL;
    RF_TRY(rf_strategy_wait(strategy));
    RF_TRY(rf_strategy_status(strategy));
    const uint64_t a = longest_variable(&strategy->trainable), b = longest_variable(&strategy->fixed);
    const uint64_t longest = a > b ? a : b;
    float *scratch = RF_NEW_ARRAY(float, 2 * longest);
    if (!scratch) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = compare_all(strategy, &strategy->trainable, scratch, longest, replica, variable);
    if (r >= 0) r = compare_all(strategy, &strategy->fixed, scratch, longest, replica, variable);
    rf_free(scratch);
    return r;
}
