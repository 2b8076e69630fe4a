/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients. The scalar L = sum over outputs of sum(output * R), R random and fixed, is differentiated by the graph
 * and, for some elements of every input, by central differences of the op's reference. Then the gradient graph runs on
 * every device.
 *
 * The reference returns floats, so a difference over 2h carries a rounding error of about 1e-7 |L terms| / h and a
 * truncation error of h^2 f'''/6: h = 0.01 balances both at about 1e-5. Two step sizes that disagree mean a kink
 * between x - h and x + h (max, relu): such elements are left out, but not too many of them.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/philox.h"
#include "walk.h"

#define PROBES 48 /* elements per input */

typedef struct gradient_case {
    rf_case_data data;
    float *r[RF_MAX_OUTPUTS]; /* NULL where the output is not f32 */
    rf_graph *graph;
    rf_value leaf[RF_MAX_INPUTS], grad[RF_MAX_INPUTS]; /* grad: 0 where the input takes none */
    rf_value targets[RF_MAX_INPUTS], target_grads[RF_MAX_INPUTS];
    uint32_t num_targets;
    rf_arena arena;
    void **values; /* of the interpreted graph */
} gradient_case;

static bool takes_gradient(const rf_op_call *call, uint32_t i)
{
    return call->in[i].dtype == RF_F32 && !(call->op->shape_only >> i & 1);
}

/* ---- L by the reference ---- */

static rf_result evaluate(gradient_case *g, double *loss)
{
    const rf_op_call *call = &g->data.call;
    RF_TRY(call->op->reference(call, g->data.in, g->data.out));
    *loss = 0;
    for (uint32_t o = 0; o < call->n_out; o++) {
        const int64_t count = rf_shape_count(call->out[o].shape);
        for (int64_t i = 0; g->r[o] && i < count; i++)
            *loss += (double)((float *)g->data.out[o])[i] * (double)g->r[o][i];
    }
    return RF_OK;
}

static rf_result difference(gradient_case *g, uint32_t input, int64_t i, double h, double *slope)
{
    float *x = (float *)g->data.in[input] + i;
    const float centre = *x;
    double above, below;
    *x = (float)((double)centre + h);
    const double x_above = (double)*x;
    rf_result r = evaluate(g, &above);
    *x = (float)((double)centre - h);
    const double x_below = (double)*x;
    if (r >= 0) r = evaluate(g, &below);
    *x = centre;
    RF_TRY(r);
    *slope = (above - below) / (x_above - x_below);
    return RF_OK;
}

/* ---- L as a graph ---- */

static rf_result add_loss(gradient_case *g, const rf_value *out, rf_value *loss)
{
    const rf_op_call *call = &g->data.call;
    *loss = 0;
    for (uint32_t o = 0; o < call->n_out; o++) {
        if (!g->r[o]) continue;
        rf_value weights, product, sum;
        RF_TRY(rf_graph_constant(g->graph, call->out[o], g->r[o], &weights));
        RF_TRY(rf_emit_binary(g->graph, RF_FN_MULTIPLY, 0, out[o], weights, &product));
        RF_TRY(rf_emit_reduce(g->graph, RF_REDUCE_KIND_SUM, product, NULL, 0, false, &sum));
        if (*loss) RF_TRY(rf_emit_binary(g->graph, RF_FN_ADD, 0, *loss, sum, &sum));
        *loss = sum;
    }
    return *loss ? RF_OK : RF_FAIL(RF_ERROR_INTERNAL, "no f32 output to differentiate");
}

static rf_result build(gradient_case *g)
{
    const rf_op_call *call = &g->data.call;
    rf_value out[RF_MAX_OUTPUTS], loss;
    RF_TRY(rf_graph_create(rf_ops_core(), &g->graph));
    for (uint32_t i = 0; i < call->n_in; i++) {
        RF_TRY(rf_graph_state(g->graph, &g->data.in[i], call->in[i], "x", &g->leaf[i]));
        if (takes_gradient(call, i)) g->targets[g->num_targets++] = g->leaf[i];
    }
    RF_TRY(rf_graph_add(g->graph, call->op, call->attr, g->leaf, call->n_in, out));
    RF_TRY(add_loss(g, out, &loss));
    RF_TRY(rf_graph_differentiate(g->graph, loss, g->targets, g->num_targets, g->target_grads));
    for (uint32_t i = 0, t = 0; i < call->n_in; i++)
        if (takes_gradient(call, i)) g->grad[i] = g->target_grads[t++];
    return RF_OK;
}

static rf_result interpret(gradient_case *g)
{
    g->values = RF_NEW_ARRAY(void *, g->graph->values.count);
    if (!g->values) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < g->data.call.n_in; i++) g->values[g->leaf[i]] = g->data.in[i];
    for (rf_value v = 1; v < g->graph->values.count; v++)
        if (g->graph->values.items[v].kind == RF_VALUE_CONSTANT) g->values[v] = (void *)g->graph->values.items[v].data;
    return rf_graph_interpret(g->graph, &g->arena, g->values);
}

static rf_result make(gradient_case *g, const rf_op *op, const rf_op_case *c)
{
    RF_TRY(rf_case_data_make(op, c, 2, &g->data));
    for (uint32_t o = 0; o < op->n_out; o++) {
        if (g->data.call.out[o].dtype != RF_F32 || op->saved_out >> o & 1) continue;
        const int64_t count = rf_shape_count(g->data.call.out[o].shape);
        rf_rng rng = { .key = 77 + o };
        g->r[o] = RF_NEW_ARRAY(float, count);
        if (!g->r[o]) return RF_ERROR_OUT_OF_HOST_MEMORY;
        for (int64_t i = 0; i < count; i++) g->r[o][i] = 2 * rf_rng_uniform(&rng) - 1;
    }
    RF_TRY(build(g));
    return interpret(g);
}

static void free_case(gradient_case *g)
{
    rf_graph_destroy(&g->graph);
    rf_arena_free(&g->arena);
    rf_free(g->values);
    for (uint32_t o = 0; o < RF_MAX_OUTPUTS; o++) rf_free(g->r[o]);
    rf_case_data_free(&g->data);
}

/* ---- comparison with differences ---- */

static double largest(const float *x, int64_t count)
{
    double m = 0;
    for (int64_t i = 0; i < count; i++) m = fmax(m, fabs((double)x[i]));
    return m;
}

static double step_size(const rf_case_input *input, float x)
{
    if (input->fill == RF_FILL_DISTINCT) return 0.002; /* neighbours are 0.01 apart */
    return 0.01 * fmin(1, fmax(0.1, fabs((double)x)));
}

/* True when some element of the input has a gradient. */
static bool check_input(walk *w, walk_counts *counts, gradient_case *g, const rf_op_case *c, uint32_t input)
{
    const rf_op *op = g->data.call.op;
    const int64_t count = rf_shape_count(g->data.call.in[input].shape);
    const float *gradient = g->values[g->grad[input]];
    const double scale = largest(gradient, count);
    if (scale == 0) return false; /* a constant of the op, such as labels */
    const int64_t probes = count < PROBES ? count : PROBES;
    int64_t kinks = 0;
    for (int64_t p = 0; p < probes; p++) {
        const int64_t i = p * count / probes;
        const double h = step_size(&c->in[input], ((float *)g->data.in[input])[i]);
        double coarse, fine;
        if (difference(g, input, i, h, &coarse) < 0 || difference(g, input, i, h / 2, &fine) < 0) {
            walk_fail(w, counts, op, c->name, "reference", NULL, "%s", rf_error_message());
            return true;
        }
        const double tolerance = 0.005 * scale + 0.02 * fabs(fine) + 1e-4;
        const double got = (double)gradient[i];
        if (fabs(got - coarse) <= tolerance || fabs(got - fine) <= tolerance) continue;
        if (fabs(coarse - fine) > tolerance / 4) {
            kinks++;
            continue;
        }
        walk_fail(w, counts, op, c->name, "gradient", NULL,
                  "input %u element %lld: got %.7g, differences give %.7g (h %g)", input, (long long)i, got, fine, h);
        return true;
    }
    if (kinks * 4 > probes)
        walk_fail(w, counts, op, c->name, "gradient", NULL,
                  "input %u: %lld of %lld elements stand on kinks; choose other inputs", input, (long long)kinks,
                  (long long)probes);
    return true;
}

/* ---- on a device ---- */

static rf_result create_states(gradient_case *g, const walk_device *d, rf_gpu_buffer **buffer, rf_location *states)
{
    const rf_op_call *call = &g->data.call;
    const uint64_t alignment = rf_gpu_caps(d->gpu)->buffer_alignment;
    uint64_t size = 0;
    for (uint32_t i = 0; i < call->n_in; i++) {
        states[g->graph->values.items[g->leaf[i]].slot].offset = size;
        size = rf_align_up(size + rf_tensor_bytes(&call->in[i]), alignment);
    }
    RF_TRY(rf_gpu_buffer_create(d->gpu, RF_GPU_MEMORY_DEVICE, size, "states", buffer));
    for (uint32_t i = 0; i < call->n_in; i++) {
        rf_location *at = &states[g->graph->values.items[g->leaf[i]].slot];
        at->buffer = *buffer;
        RF_TRY(rf_gpu_buffer_write(*buffer, at->offset, g->data.in[i], rf_tensor_bytes(&call->in[i])));
    }
    return RF_OK;
}

static rf_result run_program(gradient_case *g, const walk_device *d, rf_program *program, walk *w, walk_counts *counts,
                             const rf_op_case *c)
{
    rf_frame *frame;
    uint64_t ticket;
    RF_TRY(rf_program_acquire(program, 0, &frame));
    RF_TRY(rf_frames_submit(d->exec, &frame, 1, &ticket));
    RF_TRY(rf_gpu_wait(d->gpu, ticket, RF_GPU_TIMEOUT_NS));
    for (uint32_t t = 0; t < g->num_targets; t++) {
        const rf_tensor_desc *desc = rf_graph_desc(g->graph, g->target_grads[t]);
        const float *expected = g->values[g->target_grads[t]], *got = rf_frame_result(frame, t);
        const double scale = largest(expected, rf_shape_count(desc->shape));
        const int64_t bad =
            walk_first_bad(desc, got, expected, fmax(1e-3, c->rtol), fmax(1e-4 * scale, c->atol) + 1e-6);
        if (bad >= 0)
            walk_fail(w, counts, g->data.call.op, c->name, "gradient", d->name,
                      "target %u element %lld: got %.9g, expected %.9g", t, (long long)bad, (double)got[bad],
                      (double)expected[bad]);
    }
    return RF_OK;
}

static rf_result check_device(gradient_case *g, const walk_device *d, walk *w, walk_counts *counts, const rf_op_case *c)
{
    rf_location states[RF_MAX_INPUTS] = { 0 };
    rf_gpu_buffer *buffer = NULL;
    rf_program *program = NULL;
    rf_result r = create_states(g, d, &buffer, states);
    const rf_program_params params = { .name = "gradient",
                                       .graph = g->graph,
                                       .results = g->target_grads,
                                       .num_results = g->num_targets,
                                       .states = states };
    if (r >= 0) r = rf_program_create(d->exec, &params, &program);
    if (r >= 0) r = run_program(g, d, program, w, counts, c);
    rf_program_destroy(&program);
    rf_gpu_buffer_destroy(&buffer);
    return r;
}

void walk_gradient(walk *w, walk_counts *counts, const rf_op *op, const rf_op_case *c)
{
    gradient_case g = { 0 };
    counts->gradients++;
    if (make(&g, op, c) < 0) {
        walk_fail(w, counts, op, c->name, "gradient", NULL, "%s", rf_error_message());
        free_case(&g);
        return;
    }
    bool any = false;
    for (uint32_t i = 0; i < g.data.call.n_in; i++)
        if (g.grad[i]) any = check_input(w, counts, &g, c, i) || any;
    if (!any) walk_fail(w, counts, op, c->name, "gradient", NULL, "no input has a gradient");
    for (uint32_t d = 0; d < w->num_devices; d++) {
        counts->device_gradients++;
        if (check_device(&g, &w->devices[d], w, counts, c) < 0)
            walk_fail(w, counts, op, c->name, "gradient", w->devices[d].name, "%s", rf_error_message());
    }
    free_case(&g);
}
