/* SPDX-License-Identifier: Apache-2.0 */
/* The op benchmark: every kernel of the table at its benchmark cases, and the memcpy rate to hold it against. */
#include <ringfire/bench.h>

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/platform.h"
#include "exec/case_data.h"
#include "exec/internal.h"
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

static bool contains(const char *text, const char *part, size_t length)
{
    for (; *text; text++)
        if (strncasecmp(text, part, length) == 0) return true;
    return false;
}

static bool matches(const rf_device_info *info, const char *entry, size_t length)
{
    if (strspn(entry, "0123456789") >= length) return strtoul(entry, NULL, 10) == info->index;
    return contains(info->name, entry, length) || contains(info->driver_name, entry, length);
}

/* The first entry of the list, or with none ("all" too) the first usable device, GPUs before software. */
static rf_result pick_device(const char *entry, const rf_device_info *infos, uint32_t count, uint32_t *index)
{
    if (!entry) entry = rf_env("RINGFIRE_DEVICES");
    while (entry && isspace((unsigned char)*entry)) entry++;
    const size_t length = entry ? strcspn(entry, ",") : 0;
    const bool any = length == 0 || (length == 3 && strncasecmp(entry, "all", 3) == 0);
    const rf_device_info *best = NULL;
    for (uint32_t i = 0; i < count; i++) {
        if (!infos[i].usable || !(any || matches(&infos[i], entry, length))) continue;
        if (!best || (any && best->type == RF_DEVICE_TYPE_CPU && infos[i].type != RF_DEVICE_TYPE_CPU)) best = &infos[i];
    }
    if (!best)
        return RF_FAIL(RF_ERROR_NOT_FOUND, "device '%.*s' matches no usable device; `ringfire devices` lists them",
                       (int)length, entry ? entry : "");
    *index = best->index;
    return RF_OK;
}

static rf_result open_device(op_bench *b)
{
    const rf_device_options *options = &b->params->options;
    const char *validation = rf_env("RINGFIRE_VALIDATION");
    const bool validate = options->validation || (validation && strcmp(validation, "0") != 0);
    RF_TRY(rf_gpu_create(&(rf_gpu_params){ .validation = validate }, &b->gpu));
    uint32_t count = 0, index = 0;
    RF_TRY(rf_gpu_list(b->gpu, NULL, &count));
    const uint32_t capacity = count;
    rf_device_info *infos = RF_NEW_ARRAY(rf_device_info, capacity);
    if (!infos) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = rf_gpu_list(b->gpu, infos, &count);
    if (r >= 0) r = pick_device(b->params->device, infos, count < capacity ? count : capacity, &index);
    rf_free(infos);
    RF_TRY(r);
    b->cache = options->no_cache ? NULL : rf_cache_directory(options->cache_directory);
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
    return b->fn(b->user, &row);
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

static rf_result bench_all(op_bench *b)
{
    uint32_t count;
    const rf_op *const *ops = rf_ops_all(&count);
    RF_TRY(open_device(b));
    for (uint32_t o = 0; o < count; o++) {
        const rf_op *op = ops[o];
        if ((op->flags & RF_OP_VIEW) || (b->params->op && !strstr(op->name, b->params->op))) continue;
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
        return RF_FAIL(RF_ERROR_INTERNAL, "the validation layer objects: %s", first);
    return RF_OK;
}

RF_API rf_result rf_bench_ops(const rf_bench_ops_params *params, rf_bench_fn fn, void *user)
{
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
        __asm__ volatile("" : : "r"(to) : "memory"); /* the copy is wanted although nobody reads it */
        const uint64_t ns = rf_now_ns() - before;
        const double rate = 2 * (double)bytes / (double)(ns ? ns : 1);
        if (rate > best) best = rate;
    }
    rf_free(from);
    rf_free(to);
    return best;
}
