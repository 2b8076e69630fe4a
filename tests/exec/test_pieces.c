/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dispatches in pieces: every kernel of every op gives the same bits whole and taken apart, on every device. A kernel
 * runs the first of its op's cases in which one of its dispatches has several workgroups.
 */
#include <stdio.h>

#include "exec/internal.h"
#include "exec_devices.h"
#include "ops/ops.h"
#include "tests/ops/cases/case_data.h"
#include "tests/room.h"

#define PIECES 3
#define MOST_FLOPS 2e7 /* of a case: enough for several workgroups */

static uint32_t compared;

static bool has_several_groups(const rf_kernel_plan *plan)
{
    for (uint32_t i = 0; i < plan->count; i++)
        if ((uint64_t)plan->items[i].grid[0] * plan->items[i].grid[1] * plan->items[i].grid[2] > 1) return true;
    return false;
}

/* Whether the kernel can run the case, in pieces. */
static bool suits(const rf_exec *exec, const rf_op_call *call, const rf_kernel *kernel)
{
    rf_kernel_plan plan = { 0 };
    if (rf_kernel_score(kernel, call, &exec->caps) <= 0) return false;
    if (call->op->cost && call->op->cost(call).flops > MOST_FLOPS) return false;
    const bool several = rf_kernel_plan_make(kernel, call, &exec->caps, &plan) >= 0 && has_several_groups(&plan);
    rf_kernel_plan_free(&plan);
    return several;
}

static void run_pieces(rf_exec *exec, rf_case_data *data, const rf_kernel *kernel, uint32_t pieces)
{
    rf_kernel_run run = {
        .call = &data->call, .kernel = kernel, .in = data->in, .out = data->out, .guard = true, .pieces = pieces
    };
    CHECK(rf_kernel_execute(exec, &run));
}

static void compare(rf_exec *exec, const rf_op *op, const rf_op_case *c, const rf_kernel *kernel)
{
    rf_case_data whole, apart;
    CHECK(rf_case_data_make(op, c, 1, &whole));
    CHECK(rf_case_data_copy(&whole, &apart));
    run_pieces(exec, &whole, kernel, 1);
    run_pieces(exec, &apart, kernel, PIECES);
    for (uint32_t i = 0; i < whole.call.n_in + whole.call.n_out; i++) {
        const bool is_in = i < whole.call.n_in;
        const uint32_t k = is_in ? i : i - whole.call.n_in;
        const rf_tensor_desc *desc = is_in ? &whole.call.in[k] : &whole.call.out[k];
        if (memcmp(is_in ? whole.in[k] : whole.out[k], is_in ? apart.in[k] : apart.out[k],
                   (size_t)rf_tensor_bytes(desc)) != 0)
            fail_msg("%s/%s/%s on %s: %s %u differs in pieces", op->name, c->name, kernel->name,
                     rf_gpu_info(exec->device)->name, is_in ? "input" : "output", k);
    }
    rf_case_data_free(&whole);
    rf_case_data_free(&apart);
    compared++;
}

static void walk(rf_exec *exec)
{
    uint32_t count;
    const rf_op *const *ops = rf_ops_all(&count);
    for (uint32_t o = 0; o < count; o++)
        for (uint32_t k = 0; k < rf_op_num_kernels(ops[o]); k++)
            for (uint32_t i = 0; i < rf_op_cases(ops[o])->count; i++) {
                const rf_op_case *c = &rf_op_cases(ops[o])->items[i];
                rf_case_data data;
                if (c->large) continue;
                CHECK(rf_case_data_describe(ops[o], c, &data));
                if (!suits(exec, &data.call, rf_op_kernel(ops[o], k))) continue;
                compare(exec, ops[o], c, rf_op_kernel(ops[o], k));
                break;
            }
}

TEST(test_pieces)
{
    for (uint32_t i = 0; i < num_devices; i++) {
        rf_exec *exec;
        if (rf_gpu_caps(devices[i])->whole_dispatches) continue;
        CHECK(rf_exec_create(&(rf_exec_params){ .device = devices[i] }, &exec));
        compared = 0;
        walk(exec);
        print_message("%s: %u kernels\n", rf_gpu_info(devices[i])->name, compared);
        assert_true(compared > 80);
        rf_exec_destroy(&exec);
    }
}

TESTS(pieces, open_all, close_all)
