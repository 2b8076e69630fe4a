/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernels the nodes of a step run, and how long they and those next to them take. A node of which one kernel is
 * left out is the only thing that changes in the step: so it is enough to time the two kernels of each call. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "bench/measure/programs.h"
#include "exec/internal.h"
#include "ops/ops.h"
#include "tests/ops/cases/case_data.h"

#define TURNS 5
/* A kernel whose first run takes so many times longer than the other's is timed by that run alone. */
#define FAR_SLOWER 10

typedef struct choices {
    const rf_bench_choices_params *params;
    struct {
        rf_bench_choice *items;
        uint32_t count, capacity;
    } rows;
} choices;

/* ---- the calls of a program ---- */

/* A call of a program's instance, which lives as long as that. */
typedef struct program_call {
    rf_op_call call;
    uint32_t nodes;
} program_call;

static bool same_descs(const rf_tensor_desc *a, const rf_tensor_desc *b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (a[i].dtype != b[i].dtype || !rf_shape_equal(a[i].shape, b[i].shape)) return false;
    return true;
}

static bool same_call(const rf_op_call *a, const rf_op_call *b)
{
    return a->op == b->op && a->n_in == b->n_in && a->n_out == b->n_out && same_descs(a->in, b->in, a->n_in) &&
           same_descs(a->out, b->out, a->n_out) &&
           (a->op->attr_size == 0 || memcmp(a->attr, b->attr, a->op->attr_size) == 0);
}

/* calls: room for the calls of all nodes. Returns how many different ones there are. */
static uint32_t list_calls(const rf_instance *in, program_call *calls)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < in->num_nodes; i++) {
        uint32_t k = 0;
        rf_graph_call(in->graph, in->nodes[i].node, &calls[count].call);
        while (!same_call(&calls[k].call, &calls[count].call)) k++;
        if (k == count) calls[count++].nodes = 0;
        calls[k].nodes++;
    }
    return count;
}

/* ---- measuring ---- */

/* Floats that are no denormals and give no NaN, and numbers of what there is to look up. */
static rf_result make_data(const rf_op_call *call, rf_case_data *data)
{
    rf_op_case c = { .name = "choice", .attr = call->attr, .n_in = call->n_in };
    for (uint32_t i = 0; i < call->n_in; i++) {
        c.in[i] = (rf_case_input){ .desc = call->in[i], .fill = RF_FILL_ZERO };
        if (rf_dtype_is_float(call->in[i].dtype)) {
            c.in[i].fill = RF_FILL_UNIFORM;
            c.in[i].a = 0.1f;
            c.in[i].b = 1.1f;
        } else if (call->op->choices && call->op->index_input == i) {
            c.in[i].fill = RF_FILL_INTEGER;
            c.in[i].b = (float)call->op->choices(call);
        }
    }
    return rf_case_data_make(call->op, &c, 1, data);
}

static rf_result time_kernel(rf_exec *exec, const rf_case_data *data, const rf_kernel *kernel, rf_clock clock,
                             double give_up, double *best)
{
    rf_kernel_timing timing = { .clock = clock, .give_up = give_up };
    rf_kernel_run run = { .call = &data->call, .kernel = kernel, .in = data->in, .out = data->out, .timing = &timing };
    RF_TRY(rf_kernel_execute(exec, &run));
    if (*best == 0 || timing.best < *best) *best = timing.best;
    return RF_OK;
}

static rf_clock choose_clock(const choices *c, const rf_exec *exec)
{
    if (c->params->clock != RF_CLOCK_CHOOSE) return c->params->clock;
    return exec->caps.is_cpu ? RF_CLOCK_PROCESSOR : RF_CLOCK_CHOOSE;
}

/* The other kernel is timed only where there is one that is asked for. */
static rf_result measure_both(const choices *c, rf_exec *exec, const rf_op_call *call, const rf_kernel *kernel,
                              const rf_kernel *other, rf_bench_choice *row)
{
    rf_case_data data;
    const rf_clock clock = choose_clock(c, exec);
    rf_result r = make_data(call, &data);
    for (uint32_t turn = 0; r >= 0 && turn < (c->params->turns ? c->params->turns : TURNS); turn++) {
        r = time_kernel(exec, &data, kernel, clock, 0, &row->seconds);
        if (r >= 0 && other) r = time_kernel(exec, &data, other, clock, FAR_SLOWER * row->seconds, &row->other_seconds);
    }
    rf_case_data_free(&data);
    return r;
}

/* ---- leaving kernels out ---- */

bool rf_bench_kernel_matches(const char *pattern, const rf_op *op, const rf_kernel *kernel)
{
    char name[160];
    snprintf(name, sizeof(name), "%s/%s", op->name, kernel->name);
    return fnmatch(pattern, name, 0) == 0;
}

static bool is_matched(const rf_op *op, const rf_kernel *kernel, const void *pattern)
{
    return rf_bench_kernel_matches(pattern, op, kernel);
}

static bool is_same(const rf_op *op, const rf_kernel *kernel, const void *left_out)
{
    (void)op;
    return kernel == left_out;
}

static rf_result add_choice(choices *c, rf_exec *exec, const program_call *p)
{
    const char *pattern = c->params->pattern;
    const rf_kernel *kernel = rf_best_kernel(&p->call, &exec->caps), *other = NULL;
    if (!kernel) return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: no kernel takes the call", p->call.op->name);
    const bool asked = !pattern || rf_bench_kernel_matches(pattern, p->call.op, kernel);
    if (asked)
        other = pattern ? rf_best_kernel_without(&p->call, &exec->caps, is_matched, pattern)
                        : rf_best_kernel_without(&p->call, &exec->caps, is_same, kernel);
    RF_TRY(RF_VEC_GROW(&c->rows));
    rf_bench_choice *row = &c->rows.items[c->rows.count++];
    *row = (rf_bench_choice){ .nodes = p->nodes, .asked = asked };
    snprintf(row->op, sizeof(row->op), "%s", p->call.op->name);
    snprintf(row->kernel, sizeof(row->kernel), "%s", kernel->name);
    snprintf(row->other, sizeof(row->other), "%s", other ? other->name : "");
    return measure_both(c, exec, &p->call, kernel, other, row);
}

static rf_result add_program(void *user, rf_program *program, uint32_t batch)
{
    choices *c = user;
    rf_instance *in;
    RF_TRY(rf_program_instance(program, batch, &in));
    program_call *calls = RF_NEW_ARRAY(program_call, in->num_nodes);
    if (!calls) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const uint32_t count = list_calls(in, calls);
    rf_result r = RF_OK;
    for (uint32_t i = 0; r >= 0 && i < count; i++) {
        if (c->params->progress) c->params->progress(c->params->user, i, count);
        r = add_choice(c, program->exec, &calls[i]);
    }
    rf_free(calls);
    return rf_error_context(r, "program %s", program->name);
}

rf_result rf_bench_choices(rf_function *function, uint32_t examples, const rf_bench_choices_params *params,
                           rf_bench_choice **rows, uint32_t *count)
{
    choices c = { .params = params };
    const rf_result r = rf_bench_programs(function, examples, "rf_bench_choices", add_program, &c);
    if (r < 0) rf_free(c.rows.items);
    *rows = r < 0 ? NULL : c.rows.items;
    *count = r < 0 ? 0 : c.rows.count;
    return r;
}

/* ---- kernels that could be chosen ---- */

typedef struct usable {
    struct {
        rf_bench_kernel_name *items;
        uint32_t count, capacity;
    } rows;
    bool done; /* the device is the same for all programs */
} usable;

static rf_result takes_a_case(const rf_op *op, const rf_kernel *kernel, const rf_device_caps *caps, bool *takes)
{
    const rf_case_table *cases = rf_op_cases(op);
    *takes = false;
    for (uint32_t i = 0; i < cases->count && !*takes; i++) {
        rf_case_data data;
        RF_TRY(rf_case_data_describe(op, &cases->items[i], &data));
        *takes = rf_kernel_score(kernel, &data.call, caps) > 0;
    }
    return RF_OK;
}

static rf_result add_usable(void *user, rf_program *program, uint32_t batch)
{
    usable *u = user;
    uint32_t num_ops;
    const rf_op *const *ops = rf_ops_all(&num_ops);
    (void)batch;
    for (uint32_t o = 0; !u->done && o < num_ops; o++) {
        for (uint32_t k = 0; k < rf_op_num_kernels(ops[o]); k++) {
            const rf_kernel *kernel = rf_op_kernel(ops[o], k);
            bool takes;
            RF_TRY(takes_a_case(ops[o], kernel, &program->exec->caps, &takes));
            if (!takes) continue;
            RF_TRY(RF_VEC_GROW(&u->rows));
            u->rows.items[u->rows.count++] = (rf_bench_kernel_name){ ops[o]->name, kernel->name };
        }
    }
    u->done = true;
    return RF_OK;
}

rf_result rf_bench_usable_kernels(rf_function *function, uint32_t examples, rf_bench_kernel_name **rows,
                                  uint32_t *count)
{
    usable u = { 0 };
    const rf_result r = rf_bench_programs(function, examples, "rf_bench_usable_kernels", add_usable, &u);
    if (r < 0) rf_free(u.rows.items);
    *rows = r < 0 ? NULL : u.rows.items;
    *count = r < 0 ? 0 : u.rows.count;
    return r;
}
