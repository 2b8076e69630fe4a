/* SPDX-License-Identifier: Apache-2.0 */
#include "server/plan.h"

#include <stdlib.h>

#include "base/memory.h"

void rf_ps_plan_free(rf_ps_plan *plan)
{
    rf_free(plan->items);
    rf_free(plan->server_counts);
    *plan = (rf_ps_plan){ 0 };
}

static rf_result cut_variable(uint32_t variable, uint64_t count, uint64_t max_elements, rf_ps_plan *plan)
{
    /* Not rf_div_up(): the chief says what max_elements is, up to the largest number there is. */
    const uint64_t segments = (count - 1) / max_elements + 1, base = count / segments, longer = count % segments;
    uint64_t begin = 0;
    for (uint64_t p = 0; p < segments; p++) {
        const uint64_t length = base + (p < longer);
        RF_TRY(RF_VEC_GROW(plan));
        plan->items[plan->count++] =
            (rf_ps_segment){ .variable = variable, .range = { begin, begin + length }, .from = plan->total + begin };
        begin += length;
    }
    plan->total += count;
    return RF_OK;
}

static uint64_t length_of(const rf_ps_segment *segment)
{
    return segment->range.end - segment->range.begin;
}

/* Largest first; equal ones in their own order, so that the plan does not depend on how qsort() works. */
static int by_length(const void *a, const void *b)
{
    const rf_ps_segment *x = *(rf_ps_segment *const *)a, *y = *(rf_ps_segment *const *)b;
    const uint64_t length_x = length_of(x), length_y = length_of(y);
    if (length_x != length_y) return length_x > length_y ? -1 : 1;
    return x < y ? -1 : 1;
}

static rf_result assign_servers(rf_ps_plan *plan)
{
    rf_ps_segment **order = RF_NEW_ARRAY(rf_ps_segment *, plan->count);
    if (!order) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < plan->count; i++) order[i] = &plan->items[i];
    qsort(order, plan->count, sizeof(order[0]), by_length);
    for (uint32_t i = 0; i < plan->count; i++) {
        uint32_t least = 0;
        for (uint32_t s = 1; s < plan->num_servers; s++)
            if (plan->server_counts[s] < plan->server_counts[least]) least = s;
        order[i]->server = least;
        plan->server_counts[least] += length_of(order[i]);
    }
    rf_free(order);
    return RF_OK;
}

/* In a server's array segments follow each other in the order of the plan. */
static void assign_offsets(rf_ps_plan *plan)
{
    for (uint32_t s = 0; s < plan->num_servers; s++) {
        uint64_t offset = 0;
        for (uint32_t i = 0; i < plan->count; i++) {
            if (plan->items[i].server != s) continue;
            plan->items[i].offset = offset;
            offset += length_of(&plan->items[i]);
        }
    }
}

static rf_result fill_plan(const uint64_t *counts, uint32_t num_variables, uint64_t max_elements, rf_ps_plan *plan)
{
    plan->server_counts = RF_NEW_ARRAY(uint64_t, plan->num_servers);
    if (!plan->server_counts) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t v = 0; v < num_variables; v++) RF_TRY(cut_variable(v, counts[v], max_elements, plan));
    RF_TRY(assign_servers(plan));
    assign_offsets(plan);
    return RF_OK;
}

rf_result rf_ps_plan_make(const uint64_t *variable_counts, uint32_t num_variables, uint32_t num_servers,
                          uint64_t max_elements, rf_ps_plan *out)
{
    *out = (rf_ps_plan){ 0 };
    RF_REQUIRE(num_servers > 0, "parameter servers: the cluster has none; add \"ps\" to TF_CONFIG's cluster");
    RF_REQUIRE(max_elements > 0, "parameter servers: max_shard_bytes has no room for one element");
    for (uint32_t v = 0; v < num_variables; v++)
        RF_REQUIRE(variable_counts[v] > 0, "parameter servers: variable %u has no elements", v);
    out->num_servers = num_servers;
    const rf_result r = fill_plan(variable_counts, num_variables, max_elements, out);
    if (r < 0) rf_ps_plan_free(out);
    return r;
}
