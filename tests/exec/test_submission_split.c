/* SPDX-License-Identifier: Apache-2.0 */
/* Where runs are cut: devices, costs and measurements that are made up. Execution is in test_exec.c and test_pieces.c.
 */
#include <string.h>

#include "../support/expect.h"
#include "base/error.h"
#include "exec/submission_split.h"
#include "tests/room.h"

static const rf_shader shader = { .name = "made up" };

TEST(test_policy)
{
    const struct {
        rf_device_type type;
        bool on_linux, cuts;
    } devices[] = {
        { RF_DEVICE_TYPE_DISCRETE_GPU, true, false },  { RF_DEVICE_TYPE_DISCRETE_GPU, false, true },
        { RF_DEVICE_TYPE_INTEGRATED_GPU, true, true }, { RF_DEVICE_TYPE_INTEGRATED_GPU, false, true },
        { RF_DEVICE_TYPE_VIRTUAL_GPU, true, true },    { RF_DEVICE_TYPE_OTHER, true, true },
        { RF_DEVICE_TYPE_CPU, true, false },           { RF_DEVICE_TYPE_CPU, false, false },
    };
    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
        const rf_split_policy p = rf_split_policy_of(devices[i].type, devices[i].on_linux);
        assert_int_equal(p.target > 0, devices[i].cuts);
        if (devices[i].cuts) assert_true(p.target == 0.1 && p.node_limit == 0.5);
    }
}

TEST(test_pace)
{
    assert_true(rf_split_assumed_seconds(&(rf_cost){ 20e9, 10e9 }) == 3);
    assert_true(rf_split_pace(0.25, 1) == 0.25);
    assert_true(rf_split_pace(3, 1) == 3);
    assert_true(rf_split_pace(0, 1) == 1 && rf_split_pace(1, 0) == 1 && rf_split_pace(-1, 1) == 1);
    assert_true(rf_split_pace(1e-9, 1) == 1e-4); /* a driver that computes nothing */
    assert_true(rf_split_pace(1e9, 1) == 1e3);
}

TEST(test_split)
{
    const double nodes[] = { 0.05, 0.45, 0.2, 0.41, 5, 0.2 };
    const bool anywhere[] = { true, true, true, true, true, true };
    bool cut[6];
    assert_int_equal(rf_split_run(nodes, anywhere, 6, 0.4, cut), 6);
    assert_false(cut[0]);
    assert_int_equal(rf_split_run(nodes, anywhere, 6, 0.6, cut), 5);
    assert_false(cut[1]);
    assert_true(cut[2] && cut[3] && cut[4] && cut[5]);
    assert_int_equal(rf_split_run(nodes, anywhere, 6, 10, cut), 1);
    assert_int_equal(rf_split_run(nodes, anywhere, 1, 0.01, cut), 1);
    assert_int_equal(rf_split_run(nodes, anywhere, 0, 0.01, cut), 0);
    /* Dispatches of one node stay together, and count together. */
    const double dispatches[] = { 0.3, 0.1, 0.1, 0.3, 0.3, 0.1 };
    const bool starts[] = { true, false, false, true, true, false };
    assert_int_equal(rf_split_run(dispatches, starts, 6, 0.5, cut), 3);
    assert_true(cut[3] && cut[4] && !cut[1] && !cut[2] && !cut[5]);
    assert_int_equal(rf_split_run(dispatches, starts, 6, 0.8, cut), 2);
    assert_true(cut[4] && !cut[3]);
}

static void add(rf_kernel_plan *plan, uint32_t x, uint32_t y, uint32_t z, uint64_t loops)
{
    rf_dispatch *d = rf_kernel_plan_add(plan, &shader, loops);
    assert_non_null(d);
    rf_dispatch_spec(d, 64);
    d->grid[0] = x;
    d->grid[1] = y;
    d->grid[2] = z;
}

/* A slow and a fast device meet the same node: its seconds are shared out by work, and pieces keep to the target. */
TEST(test_node)
{
    rf_kernel_plan plan = { 0 };
    add(&plan, 100, 1, 1, 30);
    add(&plan, 100, 1, 1, 10);
    const rf_split_policy watched = { 0.1, 0.5 }, unwatched = { 0 };
    double seconds[2];
    uint32_t pieces[2];
    rf_split_node(&watched, &plan, 0.4, seconds, pieces); /* longer than the target, but not than the limit */
    assert_true(pieces[0] == 1 && pieces[1] == 1);
    assert_true(seconds[0] > 0.299 && seconds[0] < 0.301 && seconds[1] > 0.099 && seconds[1] < 0.101);
    rf_split_node(&watched, &plan, 3.9, seconds, pieces);
    assert_int_equal(pieces[0], 30);
    assert_int_equal(pieces[1], 10);
    rf_split_node(&unwatched, &plan, 100, seconds, pieces);
    assert_true(pieces[0] == 1 && pieces[1] == 1);
    rf_split_node(&watched, &plan, 1e9, seconds, pieces);
    assert_int_equal(pieces[0], 4096);
    rf_kernel_plan_free(&plan);
}

/* Every workgroup of a plan's dispatches belongs to one of its pieces, in order. */
static void check_pieces(uint32_t x, uint32_t y, uint32_t z, uint32_t wanted, uint32_t expected)
{
    rf_kernel_plan plan = { 0 };
    add(&plan, x, y, z, 1);
    add(&plan, 7, 1, 1, 1);
    CHECK(rf_kernel_plan_split(&plan, (uint32_t[]){ wanted, 1 }));
    assert_int_equal(plan.count, expected + 1);
    const uint32_t axis = z > 1 ? 2 : y > 1 ? 1 : 0, whole[3] = { x, y, z };
    uint32_t next = 0, least = UINT32_MAX, most = 0;
    for (uint32_t i = 0; i < expected; i++) {
        const rf_dispatch *d = &plan.items[i];
        assert_true(d->piece == (expected > 1));
        assert_true(d->concurrent == (i > 0));
        for (uint32_t k = 0; k < 3; k++) {
            if (k == axis) continue;
            assert_int_equal(d->base[k], 0);
            assert_int_equal(d->grid[k], whole[k]);
        }
        assert_int_equal(d->base[axis], next);
        next += d->grid[axis];
        if (d->grid[axis] < least) least = d->grid[axis];
        if (d->grid[axis] > most) most = d->grid[axis];
    }
    assert_int_equal(next, whole[axis]);
    assert_true(least > 0 && most - least <= 1);
    const rf_dispatch *last = &plan.items[expected];
    assert_true(!last->piece && !last->concurrent && last->grid[0] == 7); /* still waits for all of them */
    rf_kernel_plan_free(&plan);
}

TEST(test_pieces)
{
    check_pieces(100, 1, 1, 0, 1);
    check_pieces(100, 1, 1, 1, 1);
    check_pieces(100, 1, 1, 7, 7);
    check_pieces(100, 1, 1, 1000, 100);
    check_pieces(1, 1, 1, 5, 1);
    check_pieces(65535, 3, 1, 2, 2);
    check_pieces(65535, 3, 1, 9, 3); /* x must stay whole: workgroups are numbered through it */
    check_pieces(4, 5, 6, 4, 4);
    check_pieces(UINT32_MAX, 1, 1, 4096, 4096);
    /* A piece can be taken apart again. */
    rf_kernel_plan plan = { 0 };
    add(&plan, 10, 1, 1, 1);
    CHECK(rf_kernel_plan_split(&plan, (uint32_t[]){ 2 }));
    CHECK(rf_kernel_plan_split(&plan, (uint32_t[]){ 1, 5 }));
    assert_int_equal(plan.count, 6);
    for (uint32_t i = 1; i < 6; i++) assert_true(plan.items[i].base[0] == 4 + i && plan.items[i].grid[0] == 1);
    rf_kernel_plan_free(&plan);
}

TESTS(submission_split, NULL, NULL)
