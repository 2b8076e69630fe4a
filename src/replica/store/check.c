/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that the replicas are still copies of each other: a hash of every variable on every replica, compared over all
 * workers. */
#include "replica/store/variables.h"

#include <stdio.h>
#include <string.h>

#include "base/numbers.h"
#include "base/philox.h"

/* ---- the same variables everywhere ---- */

static uint32_t num_variables(const rf_strategy *s)
{
    return s->store.trainable.variables.count + s->store.fixed.variables.count + s->store.aside.variables.count;
}

static const rf_variable *variable_at(const rf_strategy *s, uint32_t i)
{
    const rf_store *stores[] = { &s->store.trainable, &s->store.fixed, &s->store.aside };
    uint32_t k = 0;
    for (; k < 2 && i >= stores[k]->variables.count; k++) i -= stores[k]->variables.count;
    return stores[k]->variables.items[i];
}

typedef struct layout {
    uint64_t num_variables;
    uint64_t hash; /* of names and shapes */
} layout;

static layout own_layout(const rf_strategy *s)
{
    layout l = { .num_variables = num_variables(s) };
    for (uint32_t i = 0; i < l.num_variables; i++) {
        const rf_variable *v = variable_at(s, i);
        l.hash = rf_hash_bytes(v->name, strlen(v->name), l.hash);
        l.hash = rf_hash_bytes(v->shape.dim, (size_t)v->shape.rank * sizeof(v->shape.dim[0]), l.hash);
        l.hash = rf_hash64(l.hash, v->offset);
    }
    return l;
}

static rf_result compare_layouts(rf_strategy *s)
{
    if (s->members.world.size == 1) return RF_OK;
    const layout mine = own_layout(s);
    layout *all = RF_NEW_ARRAY(layout, s->members.world.size);
    if (!all) return rf_strategy_fail(s, RF_ERROR_OUT_OF_HOST_MEMORY);
    rf_result r = rf_world_gather(&s->members.world, "variables", &mine, all, sizeof(mine));
    for (uint32_t k = 1; r >= 0 && k < s->members.world.size; k++) {
        if (all[k].num_variables != all[0].num_variables)
            r = RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                        "rank %u has %llu variables, but rank 0 has %llu; every rank must create the same variables", k,
                        (unsigned long long)all[k].num_variables, (unsigned long long)all[0].num_variables);
        else if (all[k].hash != all[0].hash)
            r = RF_FAIL(
                RF_ERROR_INVALID_ARGUMENT,
                "names or shapes of the variables differ between rank 0 and rank %u; every rank must create the "
                "same in the same order",
                k);
    }
    rf_free(all);
    return r;
}

/* ---- the same values everywhere ---- */

/* A variable's values on a replica of this worker: where they lie, or copied to `scratch`. */
static rf_result values_of(const rf_variable *v, uint32_t index, float *scratch, const float **values)
{
    const rf_store *store = rf_variable_store(v);
    const float *mapped = rf_flat_mapped(&store->values, index);
    *values = mapped ? mapped + v->offset : scratch;
    return mapped ? RF_OK : rf_flat_read(&store->values, index, v->offset, v->count, scratch);
}

/* hashes[r * num_variables + i] for this worker's replicas; nothing is in flight. */
static rf_result hash_local(const rf_strategy *s, float *scratch, uint64_t *hashes)
{
    const uint32_t count = num_variables(s);
    for (uint32_t r = 0; r < s->members.num_local; r++) {
        for (uint32_t i = 0; i < count; i++) {
            const float *values;
            RF_TRY(values_of(variable_at(s, i), r, scratch, &values));
            hashes[(size_t)r * count + i] = rf_hash_floats(values, variable_at(s, i)->count);
        }
    }
    return RF_OK;
}

/* The hash that most replicas have for variable i; that of the first replica where there is no majority. */
static uint32_t most_common(const uint64_t *hashes, uint32_t num_replicas, uint32_t count, uint32_t i)
{
    uint32_t best = 0, most = 0;
    for (uint32_t r = 0; r < num_replicas; r++) {
        uint32_t same = 0;
        for (uint32_t o = 0; o < num_replicas; o++)
            same += hashes[(size_t)o * count + i] == hashes[(size_t)r * count + i];
        if (same <= most) continue;
        best = r;
        most = same;
    }
    return best;
}

/* "replica 3 (rank 1, llvmpipe)"; the rank only where there are several. */
static const char *replica_describe(const rf_strategy *s, uint32_t replica, char *text, size_t size)
{
    if (s->members.world.size == 1)
        snprintf(text, size, "replica %u (%s)", replica, rf_strategy_device_name(s, replica));
    else
        snprintf(text, size, "replica %u (rank %u, %s)", replica, rf_world_rank_of(&s->members.world, replica),
                 rf_strategy_device_name(s, replica));
    return text;
}

/* The first element that differs, where both replicas are here. "" where it cannot be told. */
static void describe_element(const rf_variable *v, uint32_t a, uint32_t b, float *scratch, char *text, size_t size)
{
    const rf_strategy *s = v->strategy;
    const float *x, *y;
    text[0] = '\0';
    if (!rf_strategy_is_local(s, a) || !rf_strategy_is_local(s, b)) return;
    if (values_of(v, a - s->members.first, scratch, &x) < 0 ||
        values_of(v, b - s->members.first, scratch + v->count, &y) < 0)
        return;
    uint64_t at = 0;
    while (at < v->count && memcmp(&x[at], &y[at], sizeof(float)) == 0) at++;
    if (at == v->count) return;
    rf_number_print(text, size, ": element %llu is %.9g and %.9g", (unsigned long long)at, (double)x[at],
                    (double)y[at]);
}

typedef struct finding {
    uint32_t replica;
    const rf_variable *variable; /* NULL: all are the same */
} finding;

static rf_result compare_hashes(const rf_strategy *s, const uint64_t *hashes, float *scratch, finding *found)
{
    const uint32_t count = num_variables(s);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t other = 1;
        while (other < s->members.num_replicas && hashes[(size_t)other * count + i] == hashes[i]) other++;
        if (other >= s->members.num_replicas) continue;
        const uint32_t usual = most_common(hashes, s->members.num_replicas, count, i);
        other = 0;
        while (hashes[(size_t)other * count + i] == hashes[(size_t)usual * count + i]) other++;
        *found = (finding){ other, variable_at(s, i) };
        char a[320], b[320], element[96];
        describe_element(found->variable, usual, other, scratch, element, sizeof(element));
        return RF_FAIL(RF_ERROR_INTERNAL, "variable '%s' differs between %s and %s%s", found->variable->name,
                       replica_describe(s, usual, a, sizeof(a)), replica_describe(s, other, b, sizeof(b)), element);
    }
    return RF_OK;
}

static uint64_t longest_variable(const rf_strategy *s)
{
    uint64_t longest = 0;
    for (uint32_t i = 0; i < num_variables(s); i++)
        if (variable_at(s, i)->count > longest) longest = variable_at(s, i)->count;
    return longest;
}

static rf_result compare_values(rf_strategy *s, finding *found)
{
    const size_t count = num_variables(s);
    uint64_t *mine = RF_NEW_ARRAY(uint64_t, s->members.num_local * count),
             *all = RF_NEW_ARRAY(uint64_t, s->members.num_replicas * count);
    float *scratch = RF_NEW_ARRAY(float, 2 * longest_variable(s));
    rf_result r = mine && all && scratch ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) r = rf_strategy_wait(s);
    if (r >= 0) r = hash_local(s, scratch, mine);
    rf_strategy_fail_in_job(s, r);
    if (r >= 0)
        r = rf_world_gather_replicas(&s->members.world, "hashes of the variables", mine, all, count * sizeof(uint64_t));
    if (r >= 0) r = compare_hashes(s, all, scratch, found);
    rf_free(mine);
    rf_free(all);
    rf_free(scratch);
    return r;
}

static rf_result store_check(rf_strategy *s, finding *found)
{
    RF_TRY(compare_layouts(s));
    return compare_values(s, found);
}

/* ---- when ---- */

rf_result rf_strategy_check_if_due(rf_strategy *s)
{
    if (s->members.num_replicas == 1) return RF_OK;
    if (s->health.updates_to_check > 0 && s->health.variables_checked == s->store.variables_created) {
        s->health.updates_to_check--;
        return RF_OK;
    }
    finding found = { 0 };
    const rf_result r = store_check(s, &found);
    if (r < 0) return found.variable ? rf_strategy_fail_shared(s, r) : r;
    s->health.variables_checked = s->store.variables_created;
    s->health.updates_to_check = s->health.check_interval - 1;
    return RF_OK;
}

RF_API rf_result rf_strategy_check_identical(rf_strategy *strategy, uint32_t *replica, const rf_variable **variable)
{
    RF_REQUIRE(strategy, "rf_strategy_check_identical: strategy is NULL");
    if (replica) *replica = 0;
    if (variable) *variable = NULL;
    RF_TRY(rf_strategy_synchronize(strategy));
    finding found = { 0 };
    const rf_result r = store_check(strategy, &found);
    if (replica) *replica = found.replica;
    if (variable) *variable = found.variable;
    return r;
}
