/* SPDX-License-Identifier: Apache-2.0 */
#include "server/plan.h"

#include <stdlib.h>

#include "base/memory.h"
#include "transport/channel/wire.h"

void rf_ps_plan_free(rf_ps_plan *plan)
{
    rf_free(plan->items);
    rf_free(plan->server_counts);
    rf_free(plan->layouts);
    *plan = (rf_ps_plan){ 0 };
}

static rf_result cut_variable(uint32_t variable, uint64_t count, uint8_t rule, uint64_t max_elements, rf_ps_plan *plan)
{
    /* Not rf_div_up(): the chief says what max_elements is, up to the largest number there is. */
    const uint64_t segments = (count - 1) / max_elements + 1, base = count / segments, longer = count % segments;
    uint64_t begin = 0;
    for (uint64_t p = 0; p < segments; p++) {
        const uint64_t length = base + (p < longer);
        RF_TRY(RF_VEC_GROW(plan));
        plan->items[plan->count++] = (rf_ps_segment){
            .variable = variable, .rule = rule, .range = { begin, begin + length }, .from = plan->total + begin
        };
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

static uint64_t *elements_of(rf_ps_layout *layout, uint8_t rule)
{
    return rule == RF_PS_ADDED ? &layout->added : &layout->groups[rule];
}

static void sum_up(rf_ps_layout *layout)
{
    layout->optimized = 0;
    for (uint32_t g = 0; g < RF_PS_MAX_GROUPS; g++) layout->optimized += layout->groups[g];
}

/* In a server's array segments of a rule follow each other in the order of the plan. */
static void assign_offsets(rf_ps_plan *plan, uint32_t server)
{
    rf_ps_layout *layout = &plan->layouts[server], next = { 0 };
    for (uint32_t i = 0; i < plan->count; i++)
        if (plan->items[i].server == server) *elements_of(layout, plan->items[i].rule) += length_of(&plan->items[i]);
    sum_up(layout);
    for (uint32_t g = 1; g < RF_PS_MAX_GROUPS; g++) next.groups[g] = next.groups[g - 1] + layout->groups[g - 1];
    next.added = layout->optimized;
    for (uint32_t i = 0; i < plan->count; i++) {
        rf_ps_segment *segment = &plan->items[i];
        if (segment->server != server) continue;
        uint64_t *at = elements_of(&next, segment->rule);
        segment->offset = *at;
        *at += length_of(segment);
    }
}

static rf_result fill_plan(const uint64_t *counts, const uint8_t *rules, uint32_t num_variables, uint64_t max_elements,
                           rf_ps_plan *plan)
{
    plan->server_counts = RF_NEW_ARRAY(uint64_t, plan->num_servers);
    plan->layouts = RF_NEW_ARRAY(rf_ps_layout, plan->num_servers);
    if (!plan->server_counts || !plan->layouts) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t v = 0; v < num_variables; v++)
        RF_TRY(cut_variable(v, counts[v], rules ? rules[v] : 0, max_elements, plan));
    RF_TRY(assign_servers(plan));
    for (uint32_t s = 0; s < plan->num_servers; s++) assign_offsets(plan, s);
    return RF_OK;
}

rf_result rf_ps_plan_make(const uint64_t *variable_counts, const uint8_t *rules, uint32_t num_variables,
                          uint32_t num_servers, uint64_t max_elements, rf_ps_plan *out)
{
    *out = (rf_ps_plan){ 0 };
    RF_REQUIRE(num_servers > 0, "parameter servers: the cluster has none; add \"ps\" to TF_CONFIG's cluster");
    RF_REQUIRE(max_elements > 0, "parameter servers: max_shard_bytes has no room for one element");
    for (uint32_t v = 0; v < num_variables; v++)
        RF_REQUIRE(variable_counts[v] > 0, "parameter servers: variable %u has no elements", v);
    for (uint32_t v = 0; rules && v < num_variables; v++)
        RF_REQUIRE(rules[v] < RF_PS_MAX_GROUPS || rules[v] == RF_PS_ADDED,
                   "parameter servers: variable %u is of group %u; there are at most %d", v, rules[v],
                   RF_PS_MAX_GROUPS - 1);
    out->num_servers = num_servers;
    const rf_result r = fill_plan(variable_counts, rules, num_variables, max_elements, out);
    if (r < 0) rf_ps_plan_free(out);
    return r;
}

rf_result rf_ps_rules_check(const uint8_t *rules, size_t count, uint32_t num_trained, uint32_t num_variables)
{
    if (count != num_variables)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%zu rules for %u variables", count, num_variables);
    for (uint32_t v = 0; v < num_variables; v++) {
        const bool fits = v < num_trained ? rules[v] < RF_PS_MAX_GROUPS : rules[v] == RF_PS_ADDED;
        if (!fits)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "rule %u for variable %u, which %s optimizer updates", rules[v], v,
                           v < num_trained ? "an" : "no");
    }
    return RF_OK;
}

/* ---- layouts as bytes ---- */

uint32_t rf_ps_layout_write(const rf_ps_layout *layout, uint8_t bytes[RF_PS_LAYOUT_BYTES])
{
    uint32_t n = RF_PS_MAX_GROUPS;
    while (n > 0 && layout->groups[n - 1] == 0) n--;
    for (uint32_t g = 0; g < n; g++) rf_put_u64(bytes + 8 * (size_t)g, layout->groups[g]);
    return n;
}

rf_result rf_ps_layout_read(const void *bytes, size_t size, uint64_t num_groups, uint64_t count, rf_ps_layout *out)
{
    *out = (rf_ps_layout){ 0 };
    if (num_groups > RF_PS_MAX_GROUPS || num_groups > size / 8)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%llu groups of parameters in %zu bytes, at most %d",
                       (unsigned long long)num_groups, size, RF_PS_MAX_GROUPS);
    uint64_t left = count;
    for (uint32_t g = 0; g < num_groups; g++) {
        const uint64_t elements = rf_get_u64((const uint8_t *)bytes + 8 * (size_t)g);
        if (elements > left)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "group %u has %llu parameters of the %llu that are left", g,
                           (unsigned long long)elements, (unsigned long long)left);
        out->groups[g] = elements;
        left -= elements;
    }
    out->added = left;
    sum_up(out);
    return RF_OK;
}
