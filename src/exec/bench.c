/* SPDX-License-Identifier: Apache-2.0 */
/* The op benchmark: every kernel of the table at its benchmark cases, and the memcpy rate for comparison. */
#include <ringfire/bench.h>

#include <string.h>

#include "base/params.h"
#include "base/platform.h"
#include "exec/case_data.h"
#include "exec/internal.h"
#include "gpu/device_select.h"
#include "ops/ops.h"

typedef struct op_bench {
    const rf_bench_ops_params *params;
    rf_bench_fn fn;
    void *user;
    rf_gpu *gpu;
    rf_gpu_device *device;
    rf_exec *exec;
    char *cache;
} op_bench;

/* ---- the device ---- */

static rf_result open_device(op_bench *b)
{
    const rf_device_options *options = &b->params->options;
    RF_TRY(rf_gpu_create(&(rf_gpu_params){ .validation = options->validation }, &b->gpu));
    const char *wanted = b->params->device ? b->params->device : rf_env("RINGFIRE_DEVICES");
    uint32_t count, index = 0;
    rf_device_info *infos;
    rf_result r = rf_gpu_list_all(b->gpu, &infos, &count);
    if (r >= 0) r = rf_device_select_one(wanted, infos, count, &index);
    rf_free(infos);
    RF_TRY(r);
    if (!options->no_cache) RF_TRY(rf_cache_open(options->cache_directory, b->params->tune, &b->cache));
    const rf_gpu_device_params params = { .index = index,
                                          .clamp_limits = options->clamp_limits,
                                          .cache_directory = b->cache };
    RF_TRY(rf_gpu_device_open(b->gpu, &params, &b->device));
    return rf_exec_create(&(rf_exec_params){ .device = b->device, .cache_directory = b->cache }, &b->exec);
}

static void close_device(op_bench *b)
{
    rf_exec_destroy(&b->exec);
    rf_gpu_device_close(&b->device);
    rf_gpu_destroy(&b->gpu);
    rf_free(b->cache);
}

/* ---- measuring ---- */

static rf_result measure(op_bench *b, rf_case_data *data, const rf_kernel *kernel, double *seconds)
{
    const double wanted = b->params->min_seconds > 0 ? b->params->min_seconds : 0.2;
    rf_kernel_run run = { .call = &data->call, .kernel = kernel, .in = data->in, .out = data->out, .repeat = 1 };
    RF_TRY(rf_kernel_execute(b->exec, &run));
    const double repeat = wanted / (run.seconds > 1e-6 ? run.seconds : 1e-6);
    run.repeat = repeat < 2 ? 2 : repeat > 100000 ? 100000 : (uint32_t)repeat;
    RF_TRY(rf_kernel_execute(b->exec, &run));
    *seconds = run.seconds;
    return RF_OK;
}

static rf_result report(op_bench *b, const rf_op_case *c, const rf_op_call *call, const rf_kernel *kernel,
                        double seconds, bool chosen)
{
    const rf_cost cost = call->op->cost ? call->op->cost(call) : (rf_cost){ 0 };
    const rf_bench_row row = {
        .device = rf_gpu_info(b->device)->name,
        .op = call->op->name,
        .kernel = kernel->name,
        .case_name = c->name,
        .seconds = seconds,
        .gflops = cost.flops / seconds * 1e-9,
        .gbytes = cost.bytes / seconds * 1e-9,
        .chosen = chosen,
    };
    const uint64_t before = rf_error_count();
    return rf_error_context(rf_error_of_user(b->fn(b->user, &row), before, "the function"), "rf_bench_ops: %s, %s",
                            row.op, row.case_name);
}

static rf_result bench_data(op_bench *b, const rf_op_case *c, rf_case_data *data)
{
    const rf_op_call *call = &data->call;
    const rf_kernel *chosen;
    if (b->params->tune) RF_TRY(rf_exec_tune(b->exec, call));
    RF_TRY(rf_exec_choose(b->exec, call, &chosen));
    for (uint32_t i = 0; i < call->op->num_kernels; i++) {
        const rf_kernel *kernel = call->op->kernels[i];
        if (kernel != chosen && (!b->params->all_kernels || kernel->score(call, &b->exec->caps) <= 0)) continue;
        double seconds;
        RF_TRY(measure(b, data, kernel, &seconds));
        RF_TRY(report(b, c, call, kernel, seconds, kernel == chosen));
    }
    return RF_OK;
}

static bool takes_part(const op_bench *b, const rf_op *op)
{
    if ((op->flags & RF_OP_VIEW) || (b->params->op && !strstr(op->name, b->params->op))) return false;
    for (uint32_t i = 0; i < op->num_cases; i++)
        if (op->cases[i].benchmark) return true;
    return false;
}

static rf_result bench_all(op_bench *b)
{
    uint32_t count, measured = 0;
    const rf_op *const *ops = rf_ops_all(&count);
    for (uint32_t o = 0; o < count; o++) measured += takes_part(b, ops[o]);
    if (measured == 0)
        return RF_FAIL(RF_ERROR_NOT_FOUND, "no operation with a benchmark has '%s' in its name", b->params->op);
    RF_TRY(open_device(b));
    for (uint32_t o = 0; o < count; o++) {
        const rf_op *op = ops[o];
        if (!takes_part(b, op)) continue;
        for (uint32_t i = 0; i < op->num_cases; i++) {
            if (!op->cases[i].benchmark) continue;
            rf_case_data data;
            rf_result r = rf_case_data_make(op, &op->cases[i], 1, &data);
            if (r >= 0) r = bench_data(b, &op->cases[i], &data);
            rf_case_data_free(&data);
            RF_TRY(rf_error_context(r, "benchmark %s/%s", op->name, op->cases[i].name));
        }
    }
    const char *first;
    if (rf_gpu_validation_messages(b->gpu, &first) > 0)
        return RF_FAIL(RF_ERROR_INTERNAL, "the validation layer reports: %s", first);
    return RF_OK;
}

RF_API rf_result rf_bench_ops(const rf_bench_ops_params *params, rf_bench_fn fn, void *user)
{
    RF_TRY(RF_PARAMS_CHECK(rf_bench_ops_params, params));
    RF_REQUIRE(fn, "rf_bench_ops: fn is NULL");
    const rf_bench_ops_params defaults = { 0 };
    op_bench b = { .params = params ? params : &defaults, .fn = fn, .user = user };
    const rf_result r = bench_all(&b);
    close_device(&b);
    return r;
}

/* ---- memcpy ---- */

RF_API double rf_bench_memcpy(size_t bytes)
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
