/* SPDX-License-Identifier: Apache-2.0 */
/* Compilers' statistics of the kernels: every pipeline of the op table's cases is created and looked at, none is
 * run. */
#include "bench/measure/measure.h"

#include <stdio.h>
#include <string.h>

#include "bench/measure/open.h"
#include "bench/measure/statistics.h"
#include "exec/internal.h"
#include "ops/ops.h"
#include "tests/ops/cases/case_data.h"

/* A kernel in a case. */
typedef struct planned {
    const rf_op_case *op_case;
    rf_dtype type; /* that its floats are stored in */
    rf_node_plan plan;
    bool benchmark; /* the case is one of a benchmark */
    bool chosen;    /* what the case would be computed with */
    char *failure;  /* what became of it otherwise */
} planned;

typedef struct kernels_bench {
    const rf_bench_kernels_params *params;
    rf_bench_kernel_fn fn;
    void *user;
    rf_bench_device on;
    struct {
        const rf_gpu_pipeline **items;
        uint32_t count, capacity;
    } told;
} kernels_bench;

typedef struct planned_list {
    planned *items;
    uint32_t count, capacity;
} planned_list;

static void free_planned(planned_list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        rf_node_plan_free(&list->items[i].plan);
        rf_free(list->items[i].failure);
    }
    rf_free(list->items);
}

/* The failure that the error record tells of is the row's from now on; without memory for it, it stays a failure. */
static rf_result keep_failure(planned *p, rf_result r)
{
    if (r == RF_ERROR_OUT_OF_HOST_MEMORY || r == RF_ERROR_DEVICE_LOST) return r;
    p->failure = rf_strdup(rf_error_message());
    return p->failure ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

/* ---- planning and compiling ---- */

/* Cases in 16 bits want cooperative kernels alone. Where the type was asked for, they want the kernels that convert
 * nothing in passes of their own. */
static bool wants_kernel(const kernels_bench *b, const rf_kernel *kernel, const rf_op_call *call, rf_dtype type)
{
    if (rf_kernel_score(kernel, call, &b->on.exec->caps) <= 0) return false;
    if (b->params->type != RF_DTYPE_INVALID) return !rf_kernel_widens(kernel, call, &b->on.exec->caps);
    return type == RF_F32 || kernel->cooperative;
}

/* A case of an operation: one of its table, or of those that only GPUs are measured with. */
typedef struct case_of {
    const rf_op *op;
    const rf_op_case *op_case;
    uint32_t number;
    bool benchmark;
} case_of;

static rf_result plan_stored(kernels_bench *b, const case_of *of, rf_dtype type, planned_list *list)
{
    const rf_op *op = of->op;
    const rf_op_case *c = of->op_case;
    rf_case_data data;
    const bool highest_alone = b->params->type != RF_DTYPE_INVALID && of->number % 2 != 0;
    const rf_op_case stored = type == RF_F32 ? *c : rf_case_stored_in(op, c, type, highest_alone);
    RF_TRY(rf_case_data_describe(op, &stored, &data));
    const rf_kernel *chosen = NULL;
    if (rf_exec_choose(b->on.exec, &data.call, &chosen) < 0) chosen = NULL; /* nothing that could be compiled either */
    for (uint32_t i = 0; i < rf_op_num_kernels(op); i++) {
        if (!wants_kernel(b, rf_op_kernel(op, i), &data.call, type)) continue;
        RF_TRY(RF_VEC_GROW(list));
        planned *p = &list->items[list->count++];
        p->op_case = c;
        p->type = type;
        p->benchmark = of->benchmark;
        p->chosen = rf_op_kernel(op, i) == chosen;
        const rf_result r = rf_node_plan_make(b->on.exec, &data.call, rf_op_kernel(op, i), &p->plan);
        if (r < 0) RF_TRY(keep_failure(p, r));
    }
    return RF_OK;
}

static rf_result plan_case(kernels_bench *b, const case_of *of, planned_list *list)
{
    const rf_op *op = of->op;
    static const rf_dtype types[] = { RF_F32, RF_F16, RF_BF16 };
    bool cooperative = false;
    if (b->params->type != RF_DTYPE_INVALID) return plan_stored(b, of, b->params->type, list);
    for (uint32_t i = 0; i < rf_op_num_kernels(op); i++) cooperative |= rf_op_kernel(op, i)->cooperative;
    for (size_t i = 0; i < (cooperative ? sizeof(types) / sizeof(types[0]) : 1); i++)
        RF_TRY(plan_stored(b, of, types[i], list));
    return RF_OK;
}

/* All together, side by side; where that fails, one after the other, to find which. */
static rf_result compile_all(kernels_bench *b, planned_list *list)
{
    rf_node_plan *plans = RF_NEW_ARRAY(rf_node_plan, list->count);
    if (!plans) return RF_ERROR_OUT_OF_HOST_MEMORY;
    uint32_t count = 0;
    for (uint32_t i = 0; i < list->count; i++)
        if (!list->items[i].failure) plans[count++] = list->items[i].plan;
    const rf_result together = rf_node_plans_compile(b->on.exec, plans, count);
    count = 0;
    rf_result r = RF_OK;
    for (uint32_t i = 0; i < list->count; i++) {
        planned *p = &list->items[i];
        if (p->failure) continue;
        p->plan.pipelines = plans[count++].pipelines;
        if (together >= 0 || r < 0) continue;
        rf_free(p->plan.pipelines);
        p->plan.pipelines = NULL;
        const rf_result alone = rf_node_plans_compile(b->on.exec, &p->plan, 1);
        if (alone < 0) r = keep_failure(p, alone);
    }
    rf_free(plans);
    return r;
}

/* ---- telling ---- */

static rf_result first_time(kernels_bench *b, const rf_gpu_pipeline *pipeline, bool *first)
{
    *first = true;
    for (uint32_t i = 0; i < b->told.count; i++)
        if (b->told.items[i] == pipeline) *first = false;
    if (!*first) return RF_OK;
    RF_TRY(RF_VEC_GROW(&b->told));
    b->told.items[b->told.count++] = pipeline;
    return RF_OK;
}

static rf_result row_call(kernels_bench *b, const rf_bench_kernel *row)
{
    const uint64_t before = rf_error_count();
    return rf_error_context(rf_error_of_user(b->fn(b->user, row), before, "the function"), "rf_bench_kernels: %s, %s",
                            row->op, row->case_name);
}

static void format_constants(const rf_dispatch *d, char *text, size_t size)
{
    size_t at = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < d->n_spec && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%u", i > 0 ? "," : "", d->spec[i]);
}

static rf_result tell_explained(kernels_bench *b, rf_bench_kernel *row, const rf_gpu_explanation *explanation)
{
    const char **names = RF_NEW_ARRAY(const char *, explanation->num_statistics);
    double *values = RF_NEW_ARRAY(double, explanation->num_statistics);
    rf_result r = names && values ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) {
        for (uint32_t i = 0; i < explanation->num_statistics; i++) {
            names[i] = explanation->statistics[i].name;
            values[i] = explanation->statistics[i].value;
        }
        row->names = names;
        row->values = values;
        row->num_values = explanation->num_statistics;
        row->subgroup = explanation->subgroup_size;
        row->code = explanation->code;
        rf_gpu_statistics_read(explanation, &row->statistics);
        rf_gpu_code_loop(explanation->code, &row->loop);
        r = row_call(b, row);
    }
    rf_free(names);
    rf_free(values);
    return r;
}

/* `common`: what the rows of all dispatches of a plan say. */
static rf_result tell_dispatch(kernels_bench *b, const rf_bench_kernel *common, const planned *p, uint32_t index)
{
    const rf_dispatch *d = &p->plan.plan.items[index];
    rf_bench_kernel row = *common;
    char constants[16 * RF_MAX_SPEC];
    bool first;
    if (!d->shader) return RF_OK; /* a copy: nothing was compiled */
    RF_TRY(first_time(b, p->plan.pipelines[index], &first));
    if (!first) return RF_OK;
    format_constants(d, constants, sizeof(constants));
    row.shader = d->shader->name;
    row.constants = constants;
    row.workgroup = d->spec[0];
    uint64_t shared;
    row.declared_shared = rf_shader_shared_bytes(d->shader, d->spec, d->n_spec, &shared) ? (int64_t)shared : -1;
    rf_gpu_explanation explanation;
    rf_result r = rf_gpu_pipeline_explain(b->on.device, p->plan.pipelines[index], &explanation);
    if (r >= 0) r = tell_explained(b, &row, &explanation);
    rf_gpu_explanation_free(&explanation);
    return r;
}

static rf_result plan_report(kernels_bench *b, const planned *p)
{
    char name[128];
    snprintf(name, sizeof(name), "%s%s%s", p->op_case->name, p->type == RF_F32 ? "" : " ",
             p->type == RF_F32 ? "" : rf_dtype_name(p->type));
    rf_bench_kernel row = {
        .device = rf_gpu_info(b->on.device)->name,
        .op = p->plan.op->name,
        .kernel = p->plan.kernel->name,
        .shader = "",
        .case_name = name,
        .chosen = p->chosen,
        .benchmark = p->benchmark,
        .declared_shared = -1,
        .constants = "",
        .failure = p->failure,
        .statistics = { -1, -1, -1, -1, -1, -1, -1, -1, -1 },
    };
    if (p->failure) return row_call(b, &row);
    for (uint32_t i = 0; i < p->plan.plan.count; i++) RF_TRY(tell_dispatch(b, &row, p, i));
    return RF_OK;
}

/* ---- the table ---- */

static bool takes_part(const kernels_bench *b, const rf_op *op, const rf_op_case *c)
{
    if (b->params->type != RF_DTYPE_INVALID && !op->widen) return false;
    return !(op->flags & RF_OP_VIEW) && (b->params->all_cases || c->benchmark) &&
           (!b->params->op || strstr(op->name, b->params->op));
}

static bool has_part(const kernels_bench *b, const rf_op *op)
{
    const rf_case_table *cases = rf_op_cases(op);
    for (uint32_t i = 0; i < cases->count; i++)
        if (takes_part(b, op, &cases->items[i])) return true;
    return false;
}

/* A pipeline that several cases share is told with the first: GPUs' own cases come before the benchmark's, and those
 * before all others. */
static rf_result plan_cases(kernels_bench *b, const rf_op *op, planned_list *list)
{
    const rf_case_table *cases = rf_op_cases(op);
    for (uint32_t i = 0; !b->on.exec->caps.is_cpu && has_part(b, op) && i < cases->num_gpu; i++)
        RF_TRY(plan_case(b, &(case_of){ op, &cases->gpu[i], i, true }, list));
    for (uint32_t i = 0; i < 2 * cases->count; i++) {
        const case_of of = { op, &cases->items[i % cases->count], i % cases->count, i < cases->count };
        if (takes_part(b, op, of.op_case) && of.op_case->benchmark == of.benchmark) RF_TRY(plan_case(b, &of, list));
    }
    return RF_OK;
}

static rf_result bench_op(kernels_bench *b, const rf_op *op)
{
    planned_list list = { 0 };
    rf_result r = plan_cases(b, op, &list);
    if (r >= 0) r = compile_all(b, &list);
    for (uint32_t i = 0; r >= 0 && i < 2 * list.count; i++) { /* first those that are chosen */
        const planned *p = &list.items[i % list.count];
        if (p->chosen == (i < list.count)) r = plan_report(b, p);
    }
    free_planned(&list);
    return rf_error_context(r, "kernels of %s", op->name);
}

static rf_result bench_all(kernels_bench *b)
{
    uint32_t count, found = 0;
    const rf_op *const *ops = rf_ops_all(&count);
    for (uint32_t o = 0; o < count; o++)
        for (uint32_t i = 0; i < rf_op_cases(ops[o])->count; i++)
            found += takes_part(b, ops[o], &rf_op_cases(ops[o])->items[i]);
    if (found == 0)
        return RF_FAIL(RF_ERROR_NOT_FOUND, "no operation with %s case has '%s' in its name",
                       b->params->all_cases ? "a" : "a benchmark", b->params->op ? b->params->op : "");
    const rf_bench_open_params open = { .device = b->params->device, .options = &b->params->options, .explain = true };
    RF_TRY(rf_bench_device_open(&open, &b->on));
    /* Nothing is to run, whatever the environment says. */
    b->on.exec->tune_unknown = false;
    b->on.exec->matrices_tried[0] = b->on.exec->matrices_tried[1] = true;
    for (uint32_t o = 0; o < count; o++) RF_TRY(bench_op(b, ops[o]));
    if (b->params->type != RF_DTYPE_INVALID && b->told.count == 0)
        return RF_FAIL(RF_ERROR_NOT_FOUND, "no kernel of operations with '%s' in their names reads %s itself",
                       b->params->op ? b->params->op : "", rf_dtype_name(b->params->type));
    return rf_bench_device_check(&b->on);
}

rf_result rf_bench_kernels(const rf_bench_kernels_params *params, rf_bench_kernel_fn fn, void *user)
{
    RF_REQUIRE(fn, "rf_bench_kernels: fn is NULL");
    RF_REQUIRE(!params || params->type == RF_DTYPE_INVALID || rf_dtype_is_narrow(params->type),
               "rf_bench_kernels: type %s is not f16 or bf16", rf_dtype_name(params->type));
    const rf_bench_kernels_params defaults = { 0 };
    kernels_bench b = { .params = params ? params : &defaults, .fn = fn, .user = user };
    const rf_result r = bench_all(&b);
    rf_bench_device_close(&b.on);
    rf_free(b.told.items);
    return r;
}
