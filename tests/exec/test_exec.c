/* SPDX-License-Identifier: Apache-2.0 */
/* Programs on every device, with mapped device memory and with staging, against the interpreted graph. */
#include <stdio.h>
#include <stdlib.h>

#include "../skip.h"
#include "../support/folder.h"
#include "bench/measure/measure.h"
#include "exec/internal.h"
#include "exec_devices.h"
#include "exec_ops.h"
#include "tests/room.h"

#define COLUMNS 33 /* not a multiple of anything */

static rf_gpu_buffer *state_buffer(rf_exec *exec, size_t count)
{
    rf_gpu_buffer *buffer;
    CHECK(
        rf_gpu_buffer_create(rf_exec_device(exec), RF_GPU_MEMORY_DEVICE, count * sizeof(float), "test state", &buffer));
    return buffer;
}

/* ---- a small network: y = 2 x + x2; sums = columns of y; total += sums; z = y + 3 y ---- */

typedef struct net {
    rf_graph *graph;
    rf_value x, x2, total, scale, y, sums, z, flat;
} net;

static const int total_object;

static net net_make(int64_t batch)
{
    net n;
    const rf_tensor_desc rows = { RF_F32, RF_SHAPE(batch, COLUMNS) }, row = { RF_F32, RF_SHAPE(COLUMNS) };
    CHECK(rf_graph_create(rf_exec_core_ops(), &n.graph));
    CHECK(rf_graph_input(n.graph, 0, rows, &n.x));
    CHECK(rf_graph_input(n.graph, 1, rows, &n.x2));
    CHECK(rf_graph_state(n.graph, &total_object, row, "total", &n.total));
    CHECK(emit(n.graph, &op_axpy, 2, n.x, n.x2, &n.y));
    CHECK(emit(n.graph, &op_column_sums, 1, n.y, 0, &n.sums));
    CHECK(emit(n.graph, &op_update, 1, n.total, n.sums, NULL));
    CHECK(emit(n.graph, &op_axpy, 3, n.y, n.y, &n.z));
    CHECK(emit(n.graph, &op_flat, 0, n.z, 0, &n.flat));
    return n;
}

/* Values of the whole net for this batch by the references. `total` is updated. */
static void **net_expect(const net *n, int64_t batch, rf_arena *arena, uint32_t seed, float *total)
{
    rf_graph *g;
    CHECK(rf_graph_clone(n->graph, &g));
    CHECK(rf_graph_specialize(g, batch));
    void **values = rf_arena_alloc(arena, g->values.count * sizeof(void *));
    const size_t count = (size_t)batch * COLUMNS;
    values[n->x] = rf_arena_alloc(arena, count * sizeof(float));
    values[n->x2] = rf_arena_alloc(arena, count * sizeof(float));
    values[n->total] = total;
    fill_floats(values[n->x], count, seed);
    fill_floats(values[n->x2], count, seed + 1);
    CHECK(rf_graph_interpret(g, arena, values));
    rf_graph_destroy(&g);
    return values;
}

static void net_fill(rf_frame *frame, int64_t batch, uint32_t seed)
{
    fill_floats(rf_frame_input(frame, 0), (size_t)batch * COLUMNS, seed);
    fill_floats(rf_frame_input(frame, 1), (size_t)batch * COLUMNS, seed + 1);
}

static void body_batches(rf_exec *exec)
{
    static const int64_t batches[] = { 5, 1, 64, 5, 3, 7, 64, 9, 10, 11, 12, 13, 5 }; /* more than are kept */
    net n = net_make(5);
    rf_location total = { state_buffer(exec, COLUMNS), 0 };
    const rf_value results[] = { n.sums, n.y, n.flat, n.x, n.y };
    rf_program *program;
    CHECK(rf_program_create(
        exec,
        &(rf_program_params){ .name = "net", .graph = n.graph, .results = results, .num_results = 5, .states = &total },
        &program));
    float expected_total[COLUMNS] = { 0 }, got_total[COLUMNS];
    uint32_t pipelines = 0;
    for (uint32_t i = 0; i < sizeof(batches) / sizeof(batches[0]); i++) {
        rf_arena arena = { 0 };
        rf_frame *frame;
        const size_t count = (size_t)batches[i] * COLUMNS;
        void **expected = net_expect(&n, batches[i], &arena, i, expected_total);
        CHECK(rf_program_acquire(program, batches[i], &frame));
        net_fill(frame, batches[i], i);
        run_frame(exec, frame);
        check_floats(rf_frame_result(frame, 0), expected[n.sums], COLUMNS);
        check_floats(rf_frame_result(frame, 1), expected[n.y], count);
        check_floats(rf_frame_result(frame, 2), expected[n.z], count);
        check_floats(rf_frame_result(frame, 3), expected[n.x], count);
        check_floats(rf_frame_result(frame, 4), expected[n.y], count);
        assert_int_equal(rf_frame_result_desc(frame, 1)->shape.dim[0], batches[i]);
        CHECK(rf_gpu_buffer_read(total.buffer, 0, got_total, sizeof(got_total)));
        check_floats(got_total, expected_total, COLUMNS);
        rf_program_stats stats;
        CHECK(rf_program_stats_get(program, batches[i], &stats));
        if (i == 0) pipelines = stats.num_pipelines;
        assert_int_equal(stats.num_pipelines, pipelines); /* a new batch size compiles nothing */
        assert_int_equal(stats.num_nodes, 4);
        assert_int_equal(stats.num_dispatches, 5);
        rf_arena_free(&arena);
    }
    assert_true(pipelines > 0);
    rf_program_destroy(&program);
    rf_gpu_buffer_destroy(&total.buffer);
    rf_graph_destroy(&n.graph);
}

TEST(test_batches)
{
    everywhere(body_batches);
}

/* ---- frames ---- */

static void body_frames(rf_exec *exec)
{
    net n = net_make(4);
    rf_location total = { state_buffer(exec, COLUMNS), 0 };
    rf_program *program;
    CHECK(rf_program_create(
        exec, &(rf_program_params){ .graph = n.graph, .results = &n.y, .num_results = 1, .states = &total }, &program));
    rf_frame *frames[2], *third;
    uint64_t tickets[2];
    float expected_total[COLUMNS] = { 0 };
    rf_arena arena = { 0 };
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(rf_program_acquire(program, 4, &frames[i]));
        net_fill(frames[i], 4, i);
        CHECK(rf_frames_submit(exec, &frames[i], 1, &tickets[i]));
    }
    assert_ptr_not_equal(frames[0], frames[1]);
    CHECK(rf_gpu_wait(rf_exec_device(exec), tickets[1], RF_GPU_TIMEOUT_NS));
    for (uint32_t i = 0; i < 2; i++)
        check_floats(rf_frame_result(frames[i], 0), net_expect(&n, 4, &arena, i, expected_total)[n.y], 4 * COLUMNS);
    CHECK(rf_program_acquire(program, 4, &third));
    assert_ptr_equal(third, frames[0]);
    /* Frames of two batch sizes in one submission run in order. */
    CHECK(rf_program_acquire(program, 2, &frames[1]));
    net_fill(third, 4, 2);
    net_fill(frames[1], 2, 3);
    rf_frame *both[2] = { third, frames[1] };
    uint64_t ticket;
    CHECK(rf_frames_submit(exec, both, 2, &ticket));
    CHECK(rf_gpu_wait(rf_exec_device(exec), ticket, RF_GPU_TIMEOUT_NS));
    check_floats(rf_frame_result(third, 0), net_expect(&n, 4, &arena, 2, expected_total)[n.y], 4 * COLUMNS);
    check_floats(rf_frame_result(frames[1], 0), net_expect(&n, 2, &arena, 3, expected_total)[n.y], 2 * COLUMNS);
    float got_total[COLUMNS];
    CHECK(rf_gpu_buffer_read(total.buffer, 0, got_total, sizeof(got_total)));
    check_floats(got_total, expected_total, COLUMNS);
    FAILS(rf_frames_submit(exec, both, 2, &ticket), RF_ERROR_INVALID_ARGUMENT, "not acquired");
    rf_arena_free(&arena);
    rf_program_destroy(&program);
    rf_gpu_buffer_destroy(&total.buffer);
    rf_graph_destroy(&n.graph);
}

TEST(test_frames)
{
    everywhere(body_frames);
}

/* ---- placements, host values, constants ---- */

static void body_placements(rf_exec *exec)
{
    static const int host_object;
    const rf_tensor_desc desc = { RF_F32, RF_SHAPE(6, COLUMNS) };
    float constant[6 * COLUMNS], expected[6 * COLUMNS];
    fill_floats(constant, 6 * COLUMNS, 5);
    rf_graph *g;
    rf_value x, h, k, a, b, view, unused;
    CHECK(rf_graph_create(rf_exec_core_ops(), &g));
    CHECK(rf_graph_input(g, 0, desc, &x));
    CHECK(rf_graph_input(g, 1, desc, &unused));
    CHECK(rf_graph_host(g, &host_object, desc, "h", &h));
    CHECK(rf_graph_constant(g, desc, constant, &k));
    CHECK(emit(g, &op_axpy, 2, x, h, &a)); /* placed; read again by b; also a result */
    CHECK(emit(g, &op_axpy, 1, a, k, &b));
    CHECK(emit(g, &op_flat, 0, b, 0, &view));
    const uint64_t stride = rf_align_up(sizeof(constant), rf_gpu_caps(rf_exec_device(exec))->buffer_alignment);
    rf_gpu_buffer *buffer;
    CHECK(rf_gpu_buffer_create(rf_exec_device(exec), RF_GPU_MEMORY_DEVICE, 5 * stride, "places", &buffer));
    const rf_program_placement placements[] = {
        { a, { buffer, 0 } },          { view, { buffer, stride } },  { x, { buffer, 2 * stride } },
        { a, { buffer, 3 * stride } }, { k, { buffer, 4 * stride } },
    };
    rf_program *program;
    CHECK(rf_program_create(
        exec,
        &(rf_program_params){
            .graph = g, .results = &a, .num_results = 1, .placements = placements, .num_placements = 5 },
        &program));
    /* Twice a, x and k, and what the host wrote: the kernel of b writes where the view of it goes. */
    rf_program_stats stats;
    CHECK(rf_program_stats_get(program, 6, &stats));
    assert_int_equal(stats.commands.copies, exec->caps.host_visible ? 4 : 5);
    for (uint32_t seed = 0; seed < 3; seed++) {
        rf_frame *frame;
        CHECK(rf_program_acquire(program, 6, &frame));
        assert_null(rf_frame_input(frame, 1)); /* nothing reads it */
        assert_null(rf_frame_input(frame, 2));
        fill_floats(rf_frame_input(frame, 0), 6 * COLUMNS, seed);
        fill_floats(rf_frame_host(frame, 0), 6 * COLUMNS, seed + 1);
        run_frame(exec, frame);
        float in[6 * COLUMNS], host[6 * COLUMNS], got[6 * COLUMNS];
        fill_floats(in, 6 * COLUMNS, seed);
        fill_floats(host, 6 * COLUMNS, seed + 1);
        for (uint32_t i = 0; i < 6 * COLUMNS; i++) expected[i] = 2 * in[i] + host[i];
        check_floats(rf_frame_result(frame, 0), expected, 6 * COLUMNS);
        for (uint32_t p = 0; p < 5; p++) {
            CHECK(rf_gpu_buffer_read(buffer, p * stride, got, sizeof(got)));
            if (p == 0 || p == 3) check_floats(got, expected, 6 * COLUMNS);
            if (p == 2) check_floats(got, in, 6 * COLUMNS);
            if (p == 4) check_floats(got, constant, 6 * COLUMNS);
            for (uint32_t i = 0; p == 1 && i < 6 * COLUMNS; i++) assert_true(got[i] == expected[i] + constant[i]);
        }
    }
    rf_program_destroy(&program);
    rf_gpu_buffer_destroy(&buffer);
    rf_graph_destroy(&g);
}

TEST(test_placements)
{
    everywhere(body_placements);
}

/* ---- the slab moves while a frame waits ---- */

static void body_slab(rf_exec *exec)
{
    net n = net_make(2);
    rf_location total = { state_buffer(exec, COLUMNS), 0 };
    rf_program *small, *big;
    const rf_program_params params = { .graph = n.graph, .results = &n.z, .num_results = 1, .states = &total };
    CHECK(rf_program_create(exec, &params, &small));
    CHECK(rf_program_create(exec, &params, &big));
    float expected_total[COLUMNS] = { 0 };
    rf_arena arena = { 0 };
    rf_frame *frames[2];
    uint64_t ticket;
    for (uint32_t seed = 0; seed < 3; seed++) {
        const int64_t batch = 100 << seed;
        CHECK(rf_program_acquire(small, 2, &frames[0]));
        net_fill(frames[0], 2, seed);
        const uint64_t before = exec->slab_generation;
        CHECK(rf_program_acquire(big, batch, &frames[1]));
        assert_true(exec->slab_generation > before); /* or the test tests nothing */
        net_fill(frames[1], batch, seed);
        CHECK(rf_frames_submit(exec, frames, 2, &ticket));
        CHECK(rf_gpu_wait(rf_exec_device(exec), ticket, RF_GPU_TIMEOUT_NS));
        check_floats(rf_frame_result(frames[0], 0), net_expect(&n, 2, &arena, seed, expected_total)[n.z], 2 * COLUMNS);
        check_floats(rf_frame_result(frames[1], 0), net_expect(&n, batch, &arena, seed, expected_total)[n.z],
                     (size_t)batch * COLUMNS);
    }
    rf_arena_free(&arena);
    rf_program_destroy(&small);
    rf_program_destroy(&big);
    rf_gpu_buffer_destroy(&total.buffer);
    rf_graph_destroy(&n.graph);
}

TEST(test_slab_moves)
{
    everywhere(body_slab);
}

/* ---- barriers ---- */

static void body_barriers(rf_exec *exec)
{
    const rf_tensor_desc desc = { RF_F32, RF_SHAPE(3, COLUMNS) };
    rf_graph *g;
    rf_value x, a, b, c, results[3];
    CHECK(rf_graph_create(rf_exec_core_ops(), &g));
    CHECK(rf_graph_input(g, 0, desc, &x));
    CHECK(emit(g, &op_axpy, 1, x, x, &a));
    CHECK(emit(g, &op_axpy, 2, x, x, &b));
    CHECK(emit(g, &op_axpy, 1, a, b, &c));
    results[0] = a;
    results[1] = b;
    results[2] = c;
    rf_program *program;
    rf_program_stats stats;
    CHECK(rf_program_create(exec, &(rf_program_params){ .graph = g, .results = results, .num_results = 2 }, &program));
    CHECK(rf_program_stats_get(program, 3, &stats));
    assert_int_equal(stats.num_nodes, 2); /* c is not needed */
    /* Staged: one after the upload, one before the copies to the results. */
    assert_int_equal(stats.num_barriers, exec->caps.host_visible ? 0 : 2);
    rf_program_destroy(&program);
    CHECK(rf_program_create(exec, &(rf_program_params){ .graph = g, .results = results, .num_results = 3 }, &program));
    CHECK(rf_program_stats_get(program, 3, &stats));
    assert_int_equal(stats.num_nodes, 3);
    assert_int_equal(stats.num_barriers, exec->caps.host_visible ? 1 : 3);
    rf_program_destroy(&program);
    /* The second dispatch of one node reads what the first has written. */
    CHECK(emit(g, &op_column_sums, 1, x, 0, &results[0]));
    CHECK(rf_program_create(exec, &(rf_program_params){ .graph = g, .results = results, .num_results = 1 }, &program));
    CHECK(rf_program_stats_get(program, 3, &stats));
    assert_int_equal(stats.num_nodes, 1);
    assert_int_equal(stats.num_barriers, exec->caps.host_visible ? 1 : 3);
    rf_program_destroy(&program);
    rf_graph_destroy(&g);
}

TEST(test_barriers)
{
    everywhere(body_barriers);
    rf_hazards h = { 0 };
    const rf_gpu_buffer *p = (const rf_gpu_buffer *)&h, *q = (const rf_gpu_buffer *)&p;
    const rf_access write = { p, 0, 100, true }, read = { p, 50, 60, false };
    assert_false(rf_hazards_conflict(&h, &write, 1));
    CHECK(rf_hazards_add(&h, &read, 1));
    assert_true(rf_hazards_conflict(&h, &write, 1));
    assert_false(rf_hazards_conflict(&h, &read, 1));
    assert_false(rf_hazards_conflict(&h, &(rf_access){ p, 60, 100, true }, 1));
    assert_false(rf_hazards_conflict(&h, &(rf_access){ q, 50, 60, true }, 1));
    rf_hazards_clear(&h);
    CHECK(rf_hazards_add(&h, &write, 1));
    assert_true(rf_hazards_conflict(&h, &read, 1));
    assert_true(rf_hazards_conflict(&h, &write, 1));
    assert_false(rf_hazards_conflict(&h, &(rf_access){ p, 100, 101, false }, 1));
    rf_hazards_free(&h);
}

/* ---- an op with as many outputs as there may be ---- */

/* All outputs as results; then a few of them, and what is computed from others that are not. */
static void body_outputs(rf_exec *exec)
{
    enum { ROWS = 7, COUNT = ROWS * COLUMNS };
    const rf_tensor_desc desc = { RF_F32, RF_SHAPE(ROWS, COLUMNS) };
    rf_graph *g;
    rf_value x, out[RF_MAX_OUTPUTS], sum;
    CHECK(rf_graph_create(rf_exec_core_ops(), &g));
    CHECK(rf_graph_input(g, 0, desc, &x));
    CHECK(emit(g, &op_fan, 3, x, 0, out));
    CHECK(emit(g, &op_axpy, 2, out[RF_MAX_OUTPUTS - 1], out[4], &sum));
    const rf_value few[] = { sum, out[1] };
    const rf_program_params params[] = { { .name = "all", .graph = g, .results = out, .num_results = RF_MAX_OUTPUTS },
                                         { .name = "few", .graph = g, .results = few, .num_results = 2 } };
    rf_arena arena = { 0 };
    void **values = rf_arena_alloc(&arena, g->values.count * sizeof(void *));
    values[x] = rf_arena_alloc(&arena, COUNT * sizeof(float));
    fill_floats(values[x], COUNT, 3);
    CHECK(rf_graph_interpret(g, &arena, values));
    for (uint32_t p = 0; p < 2; p++) {
        rf_program *program;
        rf_frame *frame;
        CHECK(rf_program_create(exec, &params[p], &program));
        CHECK(rf_program_acquire(program, ROWS, &frame));
        fill_floats(rf_frame_input(frame, 0), COUNT, 3);
        run_frame(exec, frame);
        for (uint32_t i = 0; i < params[p].num_results; i++)
            check_floats(rf_frame_result(frame, i), values[params[p].results[i]], COUNT);
        rf_program_stats stats;
        CHECK(rf_program_stats_get(program, ROWS, &stats));
        assert_int_equal(stats.num_dispatches, p + 1);
        rf_program_destroy(&program);
    }
    for (uint32_t k = 0; k < RF_MAX_OUTPUTS; k++)
        for (uint32_t i = 0; i < COUNT; i++)
            assert_true(((float *)values[out[k]])[i] == 3.0f * (float)(k + 1) * ((float *)values[x])[i]);
    rf_arena_free(&arena);
    rf_graph_destroy(&g);
}

TEST(test_outputs)
{
    everywhere(body_outputs);
}

/* ---- several devices at once ---- */

TEST(test_two_devices)
{
    if (num_devices < 2) SKIP("one device only");
    net n = net_make(8);
    rf_exec *execs[2];
    rf_program *programs[2];
    rf_location totals[2];
    float expected_total[2][COLUMNS] = { 0 };
    rf_arena arena = { 0 };
    for (uint32_t d = 0; d < 2; d++) {
        CHECK(rf_exec_create(&(rf_exec_params){ .device = devices[d] }, &execs[d]));
        totals[d] = (rf_location){ state_buffer(execs[d], COLUMNS), 0 };
        CHECK(rf_program_create(
            execs[d], &(rf_program_params){ .graph = n.graph, .results = &n.z, .num_results = 1, .states = &totals[d] },
            &programs[d]));
    }
    assert_int_not_equal(rf_gpu_info(devices[0])->vendor_id, rf_gpu_info(devices[1])->vendor_id);
    for (uint32_t step = 0; step < 4; step++) {
        rf_frame *frames[2];
        uint64_t tickets[2];
        for (uint32_t d = 0; d < 2; d++) {
            CHECK(rf_program_acquire(programs[d], 8, &frames[d]));
            net_fill(frames[d], 8, step + 100 * d);
            CHECK(rf_frames_submit(execs[d], &frames[d], 1, &tickets[d]));
        }
        for (uint32_t d = 0; d < 2; d++) {
            CHECK(rf_gpu_wait(devices[d], tickets[d], RF_GPU_TIMEOUT_NS));
            check_floats(rf_frame_result(frames[d], 0),
                         net_expect(&n, 8, &arena, step + 100 * d, expected_total[d])[n.z], 8 * COLUMNS);
        }
    }
    for (uint32_t d = 0; d < 2; d++) {
        float got[COLUMNS];
        CHECK(rf_gpu_buffer_read(totals[d].buffer, 0, got, sizeof(got)));
        check_floats(got, expected_total[d], COLUMNS);
        rf_program_destroy(&programs[d]);
        rf_gpu_buffer_destroy(&totals[d].buffer);
        rf_exec_destroy(&execs[d]);
    }
    rf_arena_free(&arena);
    rf_graph_destroy(&n.graph);
}

/* ---- profile ---- */

static void body_profile(rf_exec *exec)
{
    net n = net_make(16);
    rf_location total = { state_buffer(exec, COLUMNS), 0 };
    rf_program *program;
    CHECK(rf_program_create(
        exec, &(rf_program_params){ .graph = n.graph, .results = &n.z, .num_results = 1, .states = &total }, &program));
    rf_frame *frame;
    CHECK(rf_program_acquire(program, 16, &frame));
    net_fill(frame, 16, 1);
    run_frame(exec, frame);
    float before[COLUMNS], after[COLUMNS];
    CHECK(rf_gpu_buffer_read(total.buffer, 0, before, sizeof(before)));
    rf_node_time *times;
    uint32_t count;
    CHECK(rf_program_profile(program, 16, 3, &times, &count));
    assert_int_equal(count, 4);
    assert_string_equal(times[0].op, "axpy");
    assert_string_equal(times[0].kernel, "axpy");
    uint32_t sums = 0;
    for (uint32_t i = 0; i < count; i++) {
        assert_true(times[i].ns > 0 && times[i].ns < 1000000000ull);
        sums += strcmp(times[i].op, "column_sums") == 0;
    }
    assert_int_equal(sums, 1);
    CHECK(rf_gpu_buffer_read(total.buffer, 0, after, sizeof(after)));
    check_floats(after, before, COLUMNS);
    rf_free(times);
    rf_program_destroy(&program);
    rf_gpu_buffer_destroy(&total.buffer);
    rf_graph_destroy(&n.graph);
}

TEST(test_profile)
{
    everywhere(body_profile);
}

/* ---- failures ---- */

static void body_failures(rf_exec *exec)
{
    net n = net_make(2);
    rf_gpu_buffer *buffer = state_buffer(exec, 1024);
    rf_location total = { buffer, 4 };
    rf_program_params params = { .name = "net", .graph = n.graph, .results = &n.y, .num_results = 1, .states = &total };
    rf_program *program;
    rf_frame *frame;
    FAILS(rf_program_create(exec, &params, &program), RF_ERROR_INVALID_ARGUMENT, "state 0");
    assert_null(program);
    total = (rf_location){ NULL, 0 };
    FAILS(rf_program_create(exec, &params, &program), RF_ERROR_INVALID_ARGUMENT, "state 0");
    total = (rf_location){ buffer, 1 << 20 };
    FAILS(rf_program_create(exec, &params, &program), RF_ERROR_INVALID_ARGUMENT, "does not fit");
    total = (rf_location){ buffer, 0 };
    const rf_value nonsense = 10000;
    params.results = &nonsense;
    FAILS(rf_program_create(exec, &params, &program), RF_ERROR_INVALID_ARGUMENT, "result 0");
    params.results = &n.y;
    CHECK(rf_program_create(exec, &params, &program));
    FAILS(rf_program_acquire(program, 0, &frame), RF_ERROR_INVALID_ARGUMENT, "batch of 0");
    exec->caps.max_storage_range = 1024; /* 7 rows of 33 floats */
    CHECK(rf_program_acquire(program, 7, &frame));
    FAILS(rf_program_acquire(program, 8, &frame), RF_ERROR_UNSUPPORTED, "smaller batch");
    assert_non_null(strstr(rf_error_message(), "axpy"));
    CHECK(rf_program_acquire(program, 7, &frame)); /* still usable */
    rf_program_destroy(&program);

    rf_value v;
    CHECK(emit(n.graph, &op_nowhere, 1, n.x, n.x2, &v));
    params.results = &v;
    CHECK(rf_program_create(exec, &params, &program));
    FAILS(rf_program_acquire(program, 2, &frame), RF_ERROR_UNSUPPORTED, "nowhere(f32 [2,33]");
    rf_program_destroy(&program);
    rf_gpu_buffer_destroy(&buffer);
    rf_graph_destroy(&n.graph);
}

TEST(test_failures)
{
    everywhere(body_failures);
}

/* ---- one op alone ---- */

static rf_op_call axpy_call(const rf_op *op, const test_attr *attr, int64_t rows)
{
    const rf_tensor_desc desc = { RF_F32, RF_SHAPE(rows, COLUMNS) };
    return (rf_op_call){ .op = op, .attr = attr, .n_in = 2, .n_out = 1, .in = { desc, desc }, .out = { desc } };
}

static void body_kernel(rf_exec *exec)
{
    enum { count = 3 * COLUMNS };
    const test_attr attr = { .factor = 2 };
    rf_op_call call = axpy_call(&op_axpy, &attr, 3);
    float a[count], b[count], c[count], expected[count];
    fill_floats(a, count, 1);
    fill_floats(b, count, 2);
    for (uint32_t i = 0; i < count; i++) expected[i] = 2 * a[i] + b[i];
    rf_kernel_run r = { .call = &call,
                        .kernel = rf_op_kernel(&op_axpy, 1),
                        .in = (void *[]){ a, b },
                        .out = (void *[]){ c },
                        .guard = true };
    for (r.inplace_input = 0; r.inplace_input < 3; r.inplace_input++) {
        memset(c, 0, sizeof(c));
        CHECK(rf_kernel_execute(exec, &r));
        check_floats(c, expected, count);
    }
    r.inplace_input = 3;
    FAILS(rf_kernel_execute(exec, &r), RF_ERROR_INVALID_ARGUMENT, "in place");
    r.inplace_input = 0;

    call = axpy_call(&op_scribble, &attr, 3);
    r.kernel = rf_op_kernel(&op_scribble, 0);
    FAILS(rf_kernel_execute(exec, &r), RF_ERROR_INTERNAL, "wrote to input 0");

    call = axpy_call(&op_forgetful, &attr, 3);
    r.kernel = rf_op_kernel(&op_forgetful, 0);
    CHECK(rf_kernel_execute(exec, &r));
    check_floats(c, expected, count - 1);
    assert_true(c[count - 1] != c[count - 1]); /* the poison shows */

    /* Mutated inputs come back. */
    call = axpy_call(&op_update, &attr, 3);
    call.n_out = 0;
    r.kernel = rf_op_kernel(&op_update, 0);
    for (uint32_t i = 0; i < count; i++) expected[i] = a[i] + 2 * b[i];
    CHECK(rf_kernel_execute(exec, &r));
    check_floats(a, expected, count);
}

/* Timing runs a kernel many times and changes nothing of what comes back, by any clock. */
static void body_timing(rf_exec *exec)
{
    enum { count = 3 * COLUMNS };
    const test_attr attr = { .factor = 2 };
    const bool stamps = rf_gpu_has_timestamps(exec->device);
    float a[count], b[count], c[count], expected[count];
    for (rf_clock clock = RF_CLOCK_CHOOSE; clock <= RF_CLOCK_PROCESSOR; clock++) {
        if (clock == RF_CLOCK_DEVICE && !stamps) continue;
        rf_op_call call = axpy_call(&op_update, &attr, 3);
        call.n_out = 0;
        fill_floats(a, count, 1);
        fill_floats(b, count, 2);
        for (uint32_t i = 0; i < count; i++) expected[i] = a[i] + 2 * b[i];
        rf_kernel_timing t = { .clock = clock, .overlapped = true };
        rf_kernel_run r = { .call = &call, .kernel = rf_op_kernel(&op_update, 0), .timing = &t };
        r.in = (void *[]){ a, b };
        CHECK(rf_kernel_execute(exec, &r));
        check_floats(a, expected, count);
        assert_true(t.best > 0 && t.median >= t.best && t.median < 10 && t.samples >= 3 && !t.gave_up);
        assert_true(t.runs > 0 && (t.runs & (t.runs - 1)) == 0 && t.sets == 1);
        assert_true(t.overlapped_seconds == 0); /* what it changes it must wait for */
        assert_int_equal(t.clock, clock ? clock : rf_timing_clock(stamps));

        for (uint32_t i = 0; i < count; i++) expected[i] = 2 * a[i] + b[i];
        call = axpy_call(&op_axpy, &attr, 3);
        r.kernel = rf_op_kernel(&op_axpy, 0);
        r.out = (void *[]){ c };
        CHECK(rf_kernel_execute(exec, &r));
        check_floats(c, expected, count);
        assert_true(t.overlapped_seconds > 0);
        t.give_up = 1e-15;
        CHECK(rf_kernel_execute(exec, &r));
        assert_true(t.gave_up && t.samples == 1 && t.best > t.give_up);
    }
}

/* Pieces of dispatches make the same results. */
static void body_pieces(rf_exec *exec)
{
    enum { count = 3 * COLUMNS };
    const test_attr attr = { .factor = 2 };
    float a[count], b[count], expected[count];
    for (uint32_t pieces = 1; pieces <= 3; pieces++) {
        rf_op_call call = axpy_call(&op_update, &attr, 3);
        call.n_out = 0;
        fill_floats(a, count, 1);
        fill_floats(b, count, 2);
        for (uint32_t i = 0; i < count; i++) expected[i] = a[i] + 2 * b[i];
        rf_kernel_run r = {
            .call = &call, .kernel = rf_op_kernel(&op_update, 0), .in = (void *[]){ a, b }, .pieces = pieces
        };
        if (pieces > 1 && exec->caps.whole_dispatches) {
            FAILS(rf_kernel_execute(exec, &r), RF_ERROR_UNSUPPORTED, "as a whole");
            continue;
        }
        CHECK(rf_kernel_execute(exec, &r));
        check_floats(a, expected, count);
    }
}

TEST(test_pieces)
{
    everywhere(body_pieces);
}

TEST(test_timing)
{
    everywhere(body_timing);
}

TEST(test_kernel)
{
    everywhere(body_kernel);
}

/* ---- tuning ---- */

static uint32_t warnings;

static void count_warnings(void *user, rf_log_level level, const char *message)
{
    (void)user;
    (void)message;
    if (level == RF_LOG_WARN) warnings++;
}

static char *find_cache_file(const char *directory)
{
    char command[512], path[512];
    snprintf(command, sizeof(command), "ls %s/tuning-*.json", directory);
    FILE *pipe = popen(command, "r");
    if (!pipe || !fgets(path, sizeof(path), pipe)) fail_msg("no tuning file in %s", directory);
    pclose(pipe);
    path[strcspn(path, "\n")] = '\0';
    return rf_strdup(path);
}

TEST(test_tuning)
{
    char directory[SCRATCH_PATH], nested[64];
    scratch(directory);
    snprintf(nested, sizeof(nested), "%s/a/b", directory);
    rf_exec *exec;
    const rf_exec_params params = { .device = devices[0], .cache_directory = nested };
    const test_attr attr = { .factor = 2 };
    const rf_op_call call = axpy_call(&op_axpy, &attr, 3), like = axpy_call(&op_axpy, &attr, 4),
                     other = axpy_call(&op_axpy, &attr, 5);
    const rf_kernel *kernel;
    CHECK(rf_exec_create(&params, &exec));
    CHECK(rf_exec_choose(exec, &call, &kernel));
    assert_string_equal(kernel->name, "axpy");
    CHECK(rf_tuning_put(exec->tuning, &call, "lower", 1e-3));
    CHECK(rf_exec_choose(exec, &call, &kernel));
    assert_string_equal(kernel->name, "lower");
    CHECK(rf_exec_choose(exec, &like, &kernel)); /* 3 and 4 rows are of one size class */
    assert_string_equal(kernel->name, "lower");
    CHECK(rf_exec_choose(exec, &other, &kernel));
    assert_string_equal(kernel->name, "axpy");
    CHECK(rf_tuning_put(exec->tuning, &other, "never", 1e-3)); /* remembered, but not eligible */
    CHECK(rf_exec_choose(exec, &other, &kernel));
    assert_string_equal(kernel->name, "axpy");
    rf_exec_destroy(&exec);

    CHECK(rf_exec_create(&params, &exec)); /* from the file */
    CHECK(rf_exec_choose(exec, &call, &kernel));
    assert_string_equal(kernel->name, "lower");
    CHECK(rf_exec_tune(exec, &call));
    assert_non_null(rf_tuning_find(exec->tuning, &call));
    assert_true(rf_tuning_pace(exec->tuning) == 1); /* never measured */
    CHECK(rf_tuning_put_pace(exec->tuning, 0.0625));
    CHECK(rf_tuning_put_pace(exec->tuning, 0.07)); /* much the same */
    assert_true(rf_tuning_pace(exec->tuning) == 0.0625);
    rf_exec_destroy(&exec);
    CHECK(rf_exec_create(&params, &exec));
    assert_true(rf_tuning_pace(exec->tuning) == 0.0625);
    rf_exec_destroy(&exec);

    char *path = find_cache_file(nested);
    static const char *const bad[] = { "{ \"format\": 2, \"choices\": { \"x\"",
                                       "[]",
                                       "{\"format\": 1, \"choices\": {}}",
                                       "",
                                       "{\"format\": 2, \"choices\": {\"k\": 3}}",
                                       "{\"format\": 2, \"choices\": {}, \"pace\": 0}",
                                       "{\"format\": 2, \"choices\": {}, \"pace\": \"fast\"}" };
    rf_log_set(count_warnings, NULL, RF_LOG_WARN);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fputs(bad[i], f);
        fclose(f);
        warnings = 0;
        CHECK(rf_exec_create(&params, &exec));
        assert_int_equal(warnings, 1);
        CHECK(rf_exec_choose(exec, &call, &kernel));
        assert_string_equal(kernel->name, "axpy");
        rf_exec_destroy(&exec);
    }
    rf_log_set(NULL, NULL, RF_LOG_ERROR);
    rf_free(path);
    scratch_remove(directory);
}

/* RINGFIRE_TUNE measures what the table does not know, on the way of making a program. */
TEST(test_tune_on_the_way)
{
    setenv("RINGFIRE_TUNE", "1", 1);
    rf_exec *exec;
    CHECK(rf_exec_create(&(rf_exec_params){ .device = devices[0] }, &exec));
    unsetenv("RINGFIRE_TUNE");
    const test_attr attr = { .factor = 2 };
    const rf_op_call call = axpy_call(&op_axpy, &attr, 2);
    assert_null(rf_tuning_find(exec->tuning, &call));
    const rf_kernel *kernel;
    CHECK(rf_exec_choose(exec, &call, &kernel));
    assert_string_equal(rf_tuning_find(exec->tuning, &call), kernel->name);
    rf_exec_destroy(&exec);
}

TESTS(exec, open_all, close_all)
