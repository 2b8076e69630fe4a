/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/audit_verdict.h"

#include <stdio.h>
#include <string.h>

const char *audit_verdict_name(audit_verdict verdict)
{
    static const char *const names[] = {
        [AUDIT_UNUSED] = "unused", [AUDIT_GOES] = "goes", [AUDIT_STAYS] = "stays", [AUDIT_ONLY_ONE] = "only one"
    };
    return names[verdict];
}

/* NULL: there is no room. */
static audit_variant *find_variant(audit_table *t, const char *op, const char *kernel)
{
    for (uint32_t i = 0; i < t->num_variants; i++)
        if (strcmp(t->variants[i].op, op) == 0 && strcmp(t->variants[i].kernel, kernel) == 0) return &t->variants[i];
    if (t->num_variants == AUDIT_VARIANTS) return NULL;
    audit_variant *v = &t->variants[t->num_variants++];
    memset(v, 0, sizeof(*v));
    snprintf(v->op, sizeof(v->op), "%s", op);
    snprintf(v->kernel, sizeof(v->kernel), "%s", kernel);
    return v;
}

bool audit_add_kernel(audit_table *t, const char *op, const char *kernel)
{
    return find_variant(t, op, kernel) != NULL;
}

static void use_add(audit_use *use, const rf_bench_choice *c)
{
    use->nodes += c->nodes;
    use->seconds += c->nodes * c->seconds;
    use->without += c->nodes * (c->other[0] ? c->other_seconds : c->seconds);
    use->only |= !c->other[0];
}

bool audit_add_network(audit_table *t, const char *name, const char *pattern, const rf_bench_choice *choices,
                       uint32_t count)
{
    if (t->num_networks == AUDIT_NETWORKS) return false;
    const uint32_t network = t->num_networks++;
    t->network[network] = name;
    t->seconds[network] = 0;
    for (uint32_t i = 0; i < count; i++) {
        const rf_bench_choice *c = &choices[i];
        t->seconds[network] += c->nodes * c->seconds;
        if (!c->asked) continue;
        audit_variant *v = find_variant(t, pattern ? pattern : c->op, pattern ? "" : c->kernel);
        if (!v) return false;
        if (!v->instead[0]) snprintf(v->instead, sizeof(v->instead), "%s", c->other);
        use_add(&v->use[network], c);
    }
    return true;
}

double audit_gain(const audit_table *t, const audit_variant *v, uint32_t network)
{
    const audit_use *use = &v->use[network];
    return t->seconds[network] > 0 ? (use->without - use->seconds) / t->seconds[network] : 0;
}

void audit_best_two(const audit_table *t, const audit_variant *v, uint32_t best[2])
{
    best[0] = best[1] = t->num_networks;
    for (uint32_t n = 0; n < t->num_networks; n++) {
        if (v->use[n].nodes == 0) continue;
        if (best[0] == t->num_networks || audit_gain(t, v, n) > audit_gain(t, v, best[0])) {
            best[1] = best[0];
            best[0] = n;
        } else if (best[1] == t->num_networks || audit_gain(t, v, n) > audit_gain(t, v, best[1])) {
            best[1] = n;
        }
    }
}

audit_verdict audit_decide(const audit_table *t, const audit_variant *v)
{
    uint32_t users = 0, best[2];
    for (uint32_t n = 0; n < t->num_networks; n++) {
        if (v->use[n].nodes == 0) continue;
        if (v->use[n].only) return AUDIT_ONLY_ONE;
        users++;
    }
    if (users == 0) return AUDIT_UNUSED;
    audit_best_two(t, v, best);
    if (audit_gain(t, v, best[0]) >= AUDIT_GAIN_OF_ONE) return AUDIT_STAYS;
    return users > 1 && audit_gain(t, v, best[1]) >= AUDIT_GAIN_OF_TWO ? AUDIT_STAYS : AUDIT_GOES;
}
