/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that are submitted in parts: what a part places is there when the part is done, before the rest has begun. */
#include "exec/internal.h"
#include "exec_devices.h"
#include "exec_ops.h"
#include "tests/room.h"

enum { COLUMNS = 33, ROWS = 6, COUNT = ROWS * COLUMNS };

/*
 * a = 2 x + x; b = a + 3 a; c = view of b; d = b + b; and e = x + d, which is not placed. Places: a in part 0, c (a
 * copy) in part 1, d in part 3; nothing ends in part 2.
 */
typedef struct chain {
    rf_graph *graph;
    rf_value x, a, b, c, d, e;
    rf_gpu_buffer *buffer;
    uint64_t stride;
    rf_program *program;
} chain;

static void make_chain(rf_exec *exec, chain *n)
{
    const rf_tensor_desc desc = { RF_F32, RF_SHAPE(ROWS, COLUMNS) };
    CHECK(rf_graph_create(rf_exec_core_ops(), &n->graph));
    CHECK(rf_graph_input(n->graph, 0, desc, &n->x));
    CHECK(emit(n->graph, &op_axpy, 2, n->x, n->x, &n->a));
    CHECK(emit(n->graph, &op_axpy, 3, n->a, n->a, &n->b));
    CHECK(emit(n->graph, &op_flat, 0, n->b, 0, &n->c));
    CHECK(emit(n->graph, &op_axpy, 1, n->b, n->b, &n->d));
    CHECK(emit(n->graph, &op_axpy, 1, n->d, n->x, &n->e));
    n->stride = rf_align_up(COUNT * sizeof(float), rf_gpu_caps(rf_exec_device(exec))->buffer_alignment);
    CHECK(rf_gpu_buffer_create(rf_exec_device(exec), RF_GPU_MEMORY_DEVICE, 3 * n->stride, "places", &n->buffer));
    const rf_program_placement placements[] = {
        { n->d, { n->buffer, 2 * n->stride }, 3 },
        { n->a, { n->buffer, 0 }, 0 },
        { n->c, { n->buffer, n->stride }, 1 },
    };
    CHECK(rf_program_create(exec,
                            &(rf_program_params){ .name = "chain",
                                                  .graph = n->graph,
                                                  .results = &n->e,
                                                  .num_results = 1,
                                                  .placements = placements,
                                                  .num_placements = 3 },
                            &n->program));
    assert_int_equal(rf_program_num_parts(n->program), 4);
}

static void free_chain(chain *n)
{
    rf_program_destroy(&n->program);
    rf_gpu_buffer_destroy(&n->buffer);
    rf_graph_destroy(&n->graph);
}

static void fill(float *values, uint32_t seed)
{
    for (uint32_t i = 0; i < COUNT; i++) values[i] = (float)((i * 7 + seed * 13) % 17) - 8;
}

static bool holds(const chain *n, uint32_t place, const float *x, float factor)
{
    float got[COUNT];
    CHECK(rf_gpu_buffer_read(n->buffer, place * n->stride, got, sizeof(got)));
    bool same = true;
    for (uint32_t i = 0; i < COUNT; i++) same = same && got[i] == factor * x[i];
    return same;
}

static void submit_and_wait(rf_exec *exec, rf_frame *frame, uint32_t part)
{
    uint64_t ticket;
    CHECK(rf_frame_submit_part(exec, frame, part, &ticket));
    CHECK(rf_gpu_wait(rf_exec_device(exec), ticket, RF_GPU_TIMEOUT_NS));
}

static void check_run(rf_exec *exec, chain *n, uint32_t seed)
{
    float x[COUNT];
    rf_frame *frame;
    uint64_t ticket;
    fill(x, seed);
    CHECK(rf_program_acquire(n->program, ROWS, &frame));
    memcpy(rf_frame_input(frame, 0), x, sizeof(x));
    assert_int_equal(rf_frame_submit_part(exec, frame, 1, &ticket), RF_ERROR_INVALID_ARGUMENT); /* not its turn */
    submit_and_wait(exec, frame, 0);
    assert_true(holds(n, 0, x, 3));
    assert_false(holds(n, 1, x, 12)); /* not begun */
    assert_int_equal(rf_frame_submit_part(exec, frame, 0, &ticket), RF_ERROR_INVALID_ARGUMENT);
    submit_and_wait(exec, frame, 1);
    assert_true(holds(n, 1, x, 12));
    assert_false(holds(n, 2, x, 24));
    CHECK(rf_frame_submit_part(exec, frame, 2, &ticket));
    submit_and_wait(exec, frame, 3);
    assert_true(holds(n, 2, x, 24));
    for (uint32_t i = 0; i < COUNT; i++) assert_true(((const float *)rf_frame_result(frame, 0))[i] == 25 * x[i]);
    assert_int_equal(rf_frame_submit_part(exec, frame, 4, &ticket), RF_ERROR_INVALID_ARGUMENT);
}

/* The same as one submission. */
static void check_whole_run(rf_exec *exec, chain *n, uint32_t seed)
{
    float x[COUNT];
    rf_frame *frame;
    uint64_t ticket;
    fill(x, seed);
    CHECK(rf_program_acquire(n->program, ROWS, &frame));
    memcpy(rf_frame_input(frame, 0), x, sizeof(x));
    CHECK(rf_frames_submit(exec, &frame, 1, &ticket));
    CHECK(rf_gpu_wait(rf_exec_device(exec), ticket, RF_GPU_TIMEOUT_NS));
    assert_true(holds(n, 0, x, 3) && holds(n, 1, x, 12) && holds(n, 2, x, 24));
}

static void body_parts(rf_exec *exec)
{
    chain n;
    make_chain(exec, &n);
    for (uint32_t seed = 1; seed < 6; seed++) check_run(exec, &n, seed);
    check_whole_run(exec, &n, 7);
    check_run(exec, &n, 8);
    free_chain(&n);
}

TEST(test_parts)
{
    everywhere(body_parts);
}

TESTS(parts, open_all, close_all)
