/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that are cut for sums over replicas: what a replica adds is there at the end of a part, and the parts after it
 * compute with what the caller made of it. */
#include "exec/internal.h"
#include "exec_devices.h"
#include "ops/ops.h"
#include "tests/room.h"

enum { COLUMNS = 33, ROWS = 6 };

/*
 * a = sum of x's rows; b = 2 a; A, B: their sums over replicas, made together; c = A + B, d = A c; C: the sum of c,
 * which needs A and B; e = C + d, and f = e, placed like a gradient.
 */
typedef struct net {
    rf_graph *graph;
    rf_value x, e, f;
    rf_gpu_buffer *own, *total, *place;
    rf_program *program;
} net;

static rf_result build_graph(net *n)
{
    rf_graph *g = n->graph;
    rf_value a, b, a_sum, b_sum, c, c_sum, d;
    RF_TRY(rf_graph_input(g, 0, (rf_tensor_desc){ RF_F32, RF_SHAPE(ROWS, COLUMNS) }, &n->x));
    RF_TRY(rf_emit_reduce(g, RF_REDUCE_KIND_SUM, n->x, (int32_t[]){ 0 }, 1, false, &a));
    RF_TRY(rf_emit_unary(g, RF_FN_MUL_IMM, 2, a, &b));
    RF_TRY(rf_emit_all_replica_sum(g, a, &a_sum));
    RF_TRY(rf_emit_all_replica_sum(g, b, &b_sum));
    RF_TRY(rf_emit_binary(g, RF_FN_ADD, 0, a_sum, b_sum, &c));
    RF_TRY(rf_emit_binary(g, RF_FN_MULTIPLY, 0, a_sum, c, &d));
    RF_TRY(rf_emit_all_replica_sum(g, c, &c_sum));
    RF_TRY(rf_emit_binary(g, RF_FN_ADD, 0, c_sum, d, &n->e));
    return rf_emit_unary(g, RF_FN_NEGATIVE, 0, n->e, &n->f);
}

static void make_net(rf_exec *exec, net *n, bool replicated)
{
    rf_gpu_device *device = rf_exec_device(exec);
    CHECK(rf_graph_create(rf_exec_core_ops(), &n->graph));
    CHECK(build_graph(n));
    rf_gpu_buffer **const buffers[] = { &n->own, &n->total, &n->place };
    for (uint32_t i = 0; i < 3; i++)
        CHECK(rf_gpu_buffer_create(device, RF_GPU_MEMORY_DEVICE, 4096 * sizeof(float), "places", buffers[i]));
    const uint64_t alignment = rf_gpu_caps(device)->buffer_alignment / sizeof(float);
    const rf_program_sum_places places = { { n->own, 0 }, { n->total, 0 }, alignment < 64 ? 64 : alignment };
    CHECK(rf_program_create(exec,
                            &(rf_program_params){ .name = "sums",
                                                  .graph = n->graph,
                                                  .results = &n->e,
                                                  .num_results = 1,
                                                  .placements = &(rf_program_placement){ n->f, { n->place, 0 }, 0 },
                                                  .num_placements = 1,
                                                  .sum_places = replicated ? &places : NULL },
                            &n->program));
}

static void free_net(net *n)
{
    rf_program_destroy(&n->program);
    rf_gpu_buffer_destroy(&n->own);
    rf_gpu_buffer_destroy(&n->total);
    rf_gpu_buffer_destroy(&n->place);
    rf_graph_destroy(&n->graph);
}

/* Waits for a part of sums, and gives back three times what the replica adds: there are two others like it. */
static void exchange(rf_exec *exec, net *n, rf_frame *frame, uint32_t part)
{
    uint64_t ticket;
    uint32_t count;
    CHECK(rf_frame_submit_sum_part(exec, frame, part, &ticket));
    CHECK(rf_gpu_wait(rf_exec_device(exec), ticket, RF_GPU_TIMEOUT_NS));
    const rf_program_sum *sums = rf_program_sums(n->program, &count);
    for (uint32_t i = 0; i < count; i++) {
        float values[COLUMNS];
        if (sums[i].part != part) continue;
        assert_int_equal(sums[i].count, COLUMNS);
        CHECK(rf_gpu_buffer_read(n->own, sums[i].offset * sizeof(float), values, sizeof(values)));
        for (uint32_t k = 0; k < COLUMNS; k++) values[k] *= 3;
        CHECK(rf_gpu_buffer_write(n->total, sums[i].offset * sizeof(float), values, sizeof(values)));
    }
}

static void check_results(const net *n, const rf_frame *frame, const float *x, float replicas)
{
    float placed[COLUMNS];
    CHECK(rf_gpu_buffer_read(n->place, 0, placed, sizeof(placed)));
    const float *result = rf_frame_result(frame, 0);
    for (uint32_t k = 0; k < COLUMNS; k++) {
        float a = 0;
        for (uint32_t r = 0; r < ROWS; r++) a += x[r * COLUMNS + k];
        const float c = replicas * a + replicas * 2 * a, e = replicas * c + replicas * a * c;
        assert_true(result[k] == e);
        assert_true(placed[k] == -e);
    }
}

static void fill(float *x, uint32_t seed)
{
    for (uint32_t i = 0; i < ROWS * COLUMNS; i++) x[i] = (float)((i * 7 + seed * 13) % 17) - 8;
}

static void body_parts(rf_exec *exec)
{
    net n;
    make_net(exec, &n, true);
    assert_int_equal(rf_program_num_sum_parts(n.program), 2);
    assert_int_equal(rf_program_num_parts(n.program), 1);
    for (uint32_t seed = 1; seed < 4; seed++) {
        float x[ROWS * COLUMNS];
        rf_frame *frame;
        uint64_t ticket;
        fill(x, seed);
        CHECK(rf_program_acquire(n.program, ROWS, &frame));
        memcpy(rf_frame_input(frame, 0), x, sizeof(x));
        assert_int_equal(rf_frames_submit(exec, &frame, 1, &ticket), RF_ERROR_INVALID_ARGUMENT);
        assert_int_equal(rf_frame_submit_part(exec, frame, 0, &ticket), RF_ERROR_INVALID_ARGUMENT); /* not its turn */
        assert_int_equal(rf_frame_submit_sum_part(exec, frame, 2, &ticket), RF_ERROR_INVALID_ARGUMENT);
        for (uint32_t part = 0; part < 2; part++) exchange(exec, &n, frame, part);
        CHECK(rf_frame_submit_part(exec, frame, 0, &ticket));
        CHECK(rf_gpu_wait(rf_exec_device(exec), ticket, RF_GPU_TIMEOUT_NS));
        check_results(&n, frame, x, 3);
    }
    free_net(&n);
}

TEST(test_parts)
{
    everywhere(body_parts);
}

static void body_alone(rf_exec *exec)
{
    net n;
    float x[ROWS * COLUMNS];
    rf_frame *frame;
    uint64_t ticket;
    make_net(exec, &n, false);
    assert_int_equal(rf_program_num_sum_parts(n.program), 0);
    fill(x, 5);
    CHECK(rf_program_acquire(n.program, ROWS, &frame));
    memcpy(rf_frame_input(frame, 0), x, sizeof(x));
    CHECK(rf_frames_submit(exec, &frame, 1, &ticket));
    CHECK(rf_gpu_wait(rf_exec_device(exec), ticket, RF_GPU_TIMEOUT_NS));
    check_results(&n, frame, x, 1);
    free_net(&n);
}

/* The only replica's sum is what it adds. */
TEST(test_alone)
{
    everywhere(body_alone);
}

TESTS(sums, open_all, close_all)
