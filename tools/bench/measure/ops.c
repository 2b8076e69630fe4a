/* SPDX-License-Identifier: Apache-2.0 */
/* The op benchmark: every kernel of the table at its benchmark cases, and the memcpy rate for comparison. */
#include "bench/measure/measure.h"

#include <stdio.h>
#include <string.h>

#include "base/platform.h"
#include "bench/measure/open.h"
#include "exec/internal.h"
#include "ops/ops.h"
#include "tests/ops/cases/case_data.h"

typedef struct op_bench {
    const rf_bench_ops_params *params;
    rf_bench_fn fn;
    void *user;
    rf_bench_device on;
} op_bench;

/* ---- measuring ---- */

static rf_result op_report(op_bench *b, const rf_op_case *c, const rf_op_call *call, const rf_kernel *kernel,
                           const rf_kernel_timing *timing, bool chosen, double product_gflops)
{
    char name[128];
    snprintf(name, sizeof(name), "%s%s%s", c->name, b->params->type ? " " : "",
             b->params->type ? rf_dtype_name(b->params->type) : "");
    const rf_cost cost = call->op->cost ? call->op->cost(call) : (rf_cost){ 0 };
    const rf_bench_row row = {
        .device = rf_gpu_info(b->on.device)->name,
        .op = call->op->name,
        .kernel = kernel->name,
        .case_name = name,
        .seconds = timing->best,
        .gflops = cost.flops / timing->best * 1e-9,
        .gbytes = cost.bytes / timing->best * 1e-9,
        .chosen = chosen,
        .median_seconds = timing->median,
        .overlapped_seconds = timing->overlapped_seconds,
        .device_clock = timing->clock == RF_CLOCK_DEVICE,
        .product_gflops = product_gflops,
    };
    const uint64_t before = rf_error_count();
    return rf_error_context(rf_error_of_user(b->fn(b->user, &row), before, "the function"), "rf_bench_ops: %s, %s",
                            row.op, row.case_name);
}

static rf_kernel_timing bench_timing(const op_bench *b, bool overlapped)
{
    return (rf_kernel_timing){ .clock = (rf_clock)b->params->clock,
                               .min_seconds = b->params->min_seconds > 0 ? b->params->min_seconds : 0.2,
                               .overlapped = overlapped };
}

/* The rate of the kernel that a product alone would run; 0: the case names none. */
static rf_result product_rate(op_bench *b, const rf_op_case *c, double *gflops)
{
    rf_case_data data;
    rf_kernel_timing timing = bench_timing(b, false);
    *gflops = 0;
    if (!c) return RF_OK;
    rf_result r = rf_case_data_make(&rf_op_matmul, c, 1, &data);
    rf_kernel_run run = { .call = &data.call, .in = data.in, .out = data.out, .timing = &timing };
    if (r >= 0) r = rf_exec_choose(b->on.exec, &data.call, &run.kernel);
    if (r >= 0) r = rf_kernel_execute(b->on.exec, &run);
    if (r >= 0) *gflops = rf_op_matmul.cost(&data.call).flops / timing.best * 1e-9;
    rf_case_data_free(&data);
    return r;
}

static rf_result bench_data(op_bench *b, const rf_op_case *c, rf_case_data *data)
{
    const rf_op_call *call = &data->call;
    const rf_kernel *chosen;
    const rf_result r = rf_exec_choose(b->on.exec, call, &chosen);
    if (r == RF_ERROR_UNSUPPORTED && b->params->type) return RF_OK; /* not every operation is for numbers of 16 bits */
    RF_TRY(r);
    if (b->params->tune) {
        RF_TRY(rf_exec_tune(b->on.exec, call));
        RF_TRY(rf_exec_choose(b->on.exec, call, &chosen));
    }
    for (uint32_t i = 0; i < rf_op_num_kernels(call->op); i++) {
        const rf_kernel *kernel = rf_op_kernel(call->op, i);
        if (kernel != chosen && (!b->params->all_kernels || rf_kernel_score(kernel, call, &b->on.exec->caps) <= 0))
            continue;
        rf_kernel_timing timing = bench_timing(b, true);
        double product_gflops;
        rf_kernel_run run = { .call = call, .kernel = kernel, .in = data->in, .out = data->out, .timing = &timing };
        RF_TRY(rf_kernel_execute(b->on.exec, &run));
        RF_TRY(product_rate(b, c->products, &product_gflops));
        RF_TRY(op_report(b, c, call, kernel, &timing, kernel == chosen, product_gflops));
    }
    return RF_OK;
}

static rf_result bench_case(op_bench *b, const rf_op *op, const rf_op_case *c)
{
    rf_case_data data;
    const rf_op_case stored = b->params->type ? rf_case_stored_in(op, c, b->params->type, false) : *c;
    rf_result r = rf_case_data_make(op, &stored, 1, &data);
    if (r >= 0) r = bench_data(b, c, &data);
    rf_case_data_free(&data);
    return rf_error_context(r, "benchmark %s/%s", op->name, c->name);
}

static bool is_named(const op_bench *b, const rf_op *op)
{
    const char *wanted = b->params->op;
    if (!wanted) return true;
    return wanted[0] == '=' ? strcmp(op->name, wanted + 1) == 0 : strstr(op->name, wanted) != NULL;
}

static bool takes_part(const op_bench *b, const rf_op *op)
{
    const rf_case_table *cases = rf_op_cases(op);
    if ((op->flags & RF_OP_VIEW) || !is_named(b, op)) return false;
    for (uint32_t i = 0; i < cases->count; i++)
        if (cases->items[i].benchmark) return true;
    return false;
}

static rf_result bench_all(op_bench *b)
{
    uint32_t count, measured = 0;
    const rf_op *const *ops = rf_ops_all(&count);
    for (uint32_t o = 0; o < count; o++) measured += takes_part(b, ops[o]);
    if (measured == 0)
        return RF_FAIL(RF_ERROR_NOT_FOUND, "no operation with a benchmark has '%s' in its name", b->params->op);
    const rf_bench_open_params open = { .device = b->params->device,
                                        .options = &b->params->options,
                                        .must_cache = b->params->tune };
    RF_TRY(rf_bench_device_open(&open, &b->on));
    for (uint32_t o = 0; o < count; o++) {
        const rf_op *op = ops[o];
        const rf_case_table *cases = rf_op_cases(op);
        if (!takes_part(b, op)) continue;
        for (uint32_t i = 0; i < cases->count; i++)
            if (cases->items[i].benchmark) RF_TRY(bench_case(b, op, &cases->items[i]));
        for (uint32_t i = 0; !b->on.exec->caps.is_cpu && i < cases->num_gpu; i++)
            RF_TRY(bench_case(b, op, &cases->gpu[i]));
    }
    return rf_bench_device_check(&b->on);
}

rf_result rf_bench_ops(const rf_bench_ops_params *params, rf_bench_fn fn, void *user)
{
    RF_REQUIRE(fn, "rf_bench_ops: fn is NULL");
    RF_REQUIRE(!params || params->clock <= RF_BENCH_CLOCK_DEVICE, "rf_bench_ops: unknown clock %u",
               (unsigned)params->clock);
    RF_REQUIRE(!params || !params->type || params->type == RF_F16 || params->type == RF_BF16,
               "rf_bench_ops: floats are stored in RF_F16 or RF_BF16 (0: RF_F32), not in %s",
               rf_dtype_name(params->type));
    const rf_bench_ops_params defaults = { 0 };
    op_bench b = { .params = params ? params : &defaults, .fn = fn, .user = user };
    const rf_result r = bench_all(&b);
    rf_bench_device_close(&b.on);
    return r;
}

/* ---- memcpy ---- */

double rf_bench_memcpy(size_t bytes)
{
    if (bytes == 0) return 0;
    unsigned char *from = rf_aligned_calloc(bytes), *to = rf_aligned_calloc(bytes);
    double best = 0;
    const uint64_t start = rf_now_ns();
    /* At least three times and a twentieth of a second: the best of them is what the machine can do now. */
    for (uint32_t i = 0; from && to && (i < 3 || rf_now_ns() - start < 50000000); i++) {
        from[i % bytes] = (unsigned char)i;
        const uint64_t before = rf_now_ns();
        memcpy(to, from, bytes);
        __asm__ volatile("" : : "r"(to) : "memory"); /* else the compiler could remove the copy */
        const uint64_t ns = rf_now_ns() - before;
        const double rate = 2 * (double)bytes / (double)(ns ? ns : 1);
        if (rate > best) best = rate;
    }
    rf_free(from);
    rf_free(to);
    return best;
}
