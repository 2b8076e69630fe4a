/* SPDX-License-Identifier: Apache-2.0 */
/* Programs whose runs are cut into several submissions, and nodes that are taken apart, on every device. */
#include "exec/internal.h"
#include "exec_devices.h"
#include "exec_ops.h"
#include "tests/room.h"

#define COLUMNS 33 /* not a multiple of anything */

static void body_cut(rf_exec *exec)
{
    exec->split_policy = (rf_split_policy){ .target = 0.4, .node_limit = 0.5 }; /* software devices are never cut */
    const rf_tensor_desc desc = { RF_F32, RF_SHAPE(3, COLUMNS) };
    rf_graph *g;
    rf_value x, v;
    CHECK(rf_graph_create(rf_exec_core_ops(), &g));
    CHECK(rf_graph_input(g, 0, desc, &x));
    v = x;
    for (uint32_t i = 0; i < 6; i++) {
        const test_attr attr = { .factor = 1, .cost = 5e9f }; /* 0.25 s by the estimate: one per 0.4 s */
        const rf_value in[2] = { v, x };
        CHECK(rf_graph_add(g, &op_axpy, &attr, in, 2, &v));
    }
    rf_program *program;
    rf_frame *frames[2];
    uint64_t ticket;
    CHECK(rf_program_create(exec, &(rf_program_params){ .graph = g, .results = &v, .num_results = 1 }, &program));
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(rf_program_acquire(program, 3, &frames[i]));
        assert_int_equal(frames[i]->plain.num_recs, 6);
        fill_floats(rf_frame_input(frames[i], 0), 3 * COLUMNS, i);
    }
    CHECK(rf_frames_submit(exec, frames, 2, &ticket));
    CHECK(rf_gpu_wait(rf_exec_device(exec), ticket, RF_GPU_TIMEOUT_NS));
    for (uint32_t f = 0; f < 2; f++) {
        float in[3 * COLUMNS];
        fill_floats(in, 3 * COLUMNS, f);
        for (uint32_t i = 0; i < 3 * COLUMNS; i++)
            assert_true(((const float *)rf_frame_result(frames[f], 0))[i] == 7 * in[i]);
    }
    CHECK(rf_program_acquire(program, 3, &frames[0]));
    assert_true(frames[0]->instance->paced == rf_gpu_has_timestamps(exec->device)); /* by the first run */
    assert_true(frames[0]->instance->pace > 0 && frames[0]->plain.num_recs <= 6);
    rf_program_destroy(&program);
    rf_graph_destroy(&g);
}

TEST(test_cut)
{
    everywhere(body_cut);
}

/* A node that takes too long by the estimate is taken apart, each piece in a recording of its own, and put
 * together again when it turns out to be quick; results stay the same. */
static void body_apart(rf_exec *exec)
{
    enum { rows = 400, count = rows * COLUMNS };
    exec->split_policy = (rf_split_policy){ .target = 0.1, .node_limit = 0.5 };
    const rf_tensor_desc desc = { RF_F32, RF_SHAPE(rows, COLUMNS) };
    rf_graph *g;
    rf_value x, y, sums;
    CHECK(rf_graph_create(rf_exec_core_ops(), &g));
    CHECK(rf_graph_input(g, 0, desc, &x));
    const test_attr slow = { .factor = 2, .cost = 37e9f }, quick = { .factor = 1, .cost = 1e6f };
    CHECK(rf_graph_add(g, &op_axpy, &slow, (rf_value[]){ x, x }, 2, &y)); /* 1.85 s */
    CHECK(rf_graph_add(g, &op_column_sums, &quick, &y, 1, &sums));
    const rf_value results[] = { y, sums };
    rf_program *program;
    CHECK(rf_program_create(exec, &(rf_program_params){ .graph = g, .results = results, .num_results = 2 }, &program));
    float in[count], total[COLUMNS] = { 0 };
    fill_floats(in, count, 3);
    for (uint32_t i = 0; i < count; i++) total[i % COLUMNS] += 3 * in[i];
    rf_frame *frame = NULL;
    /* The time that it was measured to take before a round, 0: nothing; and what comes of it. */
    const struct {
        double seconds;
        uint32_t recordings, dispatches;
    } rounds[] = { { 0, 19, 21 }, { 0, 19, 21 }, { 1e-3, 1, 3 }, { 0, 1, 3 }, { 0.925, 10, 12 }, { 1.85, 19, 21 } };
    for (uint32_t i = 0; i < sizeof(rounds) / sizeof(rounds[0]); i++) {
        rf_program_stats stats;
        if (rounds[i].seconds > 0) CHECK(rf_instance_adopt_pace(frame->instance, rounds[i].seconds));
        CHECK(rf_program_acquire(program, rows, &frame));
        frame->instance->paced = true; /* by the table alone */
        CHECK(rf_program_stats_get(program, rows, &stats));
        assert_int_equal(frame->plain.num_recs, rounds[i].recordings);
        assert_int_equal(stats.num_dispatches, rounds[i].dispatches);
        memcpy(rf_frame_input(frame, 0), in, sizeof(in));
        run_frame(exec, frame);
        const float *made = rf_frame_result(frame, 0);
        for (uint32_t k = 0; k < count; k++) assert_true(made[k] == 3 * in[k]);
        check_floats(rf_frame_result(frame, 1), total, COLUMNS);
    }
    assert_true(rf_tuning_pace(exec->tuning) > 0.9 && rf_tuning_pace(exec->tuning) < 1);
    rf_program_destroy(&program);
    rf_graph_destroy(&g);
}

TEST(test_apart)
{
    everywhere(body_apart);
}

TESTS(cut_runs, open_all, close_all)
