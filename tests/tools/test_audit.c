/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernels stay, by what `ringfire-bench audit` has measured. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/audit_verdict.h"

#include "tests/room.h"

static audit_table *make_table(void)
{
    audit_table *t = calloc(1, sizeof(*t));
    assert_non_null(t);
    return t;
}

static const audit_variant *find(const audit_table *t, const char *kernel)
{
    for (uint32_t i = 0; i < t->num_variants; i++)
        if (strcmp(t->variants[i].kernel, kernel) == 0) return &t->variants[i];
    fail_msg("no kernel %s", kernel);
    return NULL;
}

/* A network of ten seconds, of which one is in the kernel's two nodes; without it they take `without` in all. */
static void add_network(audit_table *t, const char *name, const char *other, double without)
{
    rf_bench_choice rows[] = { { "sum", "tried", "", 2, true, 0.5, without / 2 },
                               { "sum", "base", "", 3, false, 3, 0 } };
    snprintf(rows[0].other, sizeof(rows[0].other), "%s", other);
    assert_true(audit_add_network(t, name, NULL, rows, 2));
}

/* Verdict on a kernel whose networks would take so many seconds in its place; 0 ends the list. */
static audit_verdict verdict_of(const double *without)
{
    static const char *const names[] = { "a", "b", "c" };
    audit_table *t = make_table();
    for (int i = 0; without[i] > 0; i++) add_network(t, names[i], "base", without[i]);
    const audit_verdict verdict = audit_decide(t, find(t, "tried"));
    free(t);
    return verdict;
}

TEST(test_rule)
{
    static const struct {
        double without[4];
        audit_verdict verdict;
    } rows[] = {
        { { 2.49 }, AUDIT_GOES },                                               /* 14.9 % of one */
        { { 2.51 }, AUDIT_STAYS },                                              /* 15.1 % of one */
        { { 1.51, 1.51 }, AUDIT_STAYS },                                        /* 5.1 % of two */
        { { 1.51, 1.49 }, AUDIT_GOES },                                         /* of one alone */
        { { 1.49, 0.1, 1.6 }, AUDIT_GOES }, { { 1.7, 0.1, 1.6 }, AUDIT_STAYS }, /* what one loses does not count */
        { { 0.1, 2.6 }, AUDIT_STAYS },      { { 0.1 }, AUDIT_GOES },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(verdict_of(rows[i].without), rows[i].verdict);
}

TEST(test_best_two)
{
    audit_table *t = make_table();
    uint32_t best[2];
    add_network(t, "a", "base", 1.5);
    audit_best_two(t, find(t, "tried"), best);
    assert_true(best[0] == 0 && best[1] == t->num_networks);
    add_network(t, "b", "base", 1.7);
    add_network(t, "c", "base", 1.6);
    audit_best_two(t, find(t, "tried"), best);
    assert_true(best[0] == 1 && best[1] == 2);
    assert_true(t->seconds[0] == 10);
    assert_float_equal(audit_gain(t, find(t, "tried"), 1), 0.07, 1e-9);
    assert_string_equal(find(t, "tried")->instead, "base");
    free(t);
}

TEST(test_only_and_unused)
{
    audit_table *t = make_table();
    assert_true(audit_add_kernel(t, "sum", "idle"));
    assert_true(audit_add_kernel(t, "sum", "tried")); /* the same one as a network's */
    add_network(t, "a", "", 0);
    assert_int_equal(t->num_variants, 2);
    assert_int_equal(audit_decide(t, find(t, "idle")), AUDIT_UNUSED);
    assert_int_equal(audit_decide(t, find(t, "tried")), AUDIT_ONLY_ONE);
    free(t);
}

/* Kernels that are left out together are one row. */
TEST(test_pattern)
{
    const rf_bench_choice rows[] = { { "sum", "a_1", "base", 1, true, 1, 1.2 },
                                     { "max", "a_2", "base", 2, true, 0.5, 0.6 },
                                     { "sum", "base", "", 1, false, 2, 0 } };
    audit_table *t = make_table();
    assert_true(audit_add_network(t, "a", "*/a_*", rows, 3));
    assert_int_equal(t->num_variants, 1);
    assert_string_equal(t->variants[0].op, "*/a_*");
    assert_int_equal(t->variants[0].use[0].nodes, 3);
    assert_float_equal(audit_gain(t, &t->variants[0], 0), 0.1, 1e-9);
    free(t);
}

TEST(test_room)
{
    audit_table *t = make_table();
    char name[16];
    for (int i = 0; i < AUDIT_VARIANTS - 1; i++) {
        snprintf(name, sizeof(name), "%d", i);
        assert_true(audit_add_kernel(t, "sum", name));
    }
    for (int i = 0; i < AUDIT_NETWORKS; i++) add_network(t, "a", "base", 1);
    assert_false(audit_add_kernel(t, "sum", "one more"));
    assert_true(audit_add_kernel(t, "sum", "tried"));
    assert_false(audit_add_network(t, "one more", NULL, NULL, 0));
    free(t);
}

TEST_PROGRAM(audit)
{
    (void)argc;
    (void)argv;
    return room_tests_run(own_tests, NULL, NULL);
}
