/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent layers where a subgroup is the lanes of a SIMD register: shaders/linear/cpu/rnn_lanes.comp, a dispatch for
 * each step. */
#include "ops/linear/common/rnn.h"
#include "ops/linear/cpu/kernels.h"
#include "ops/linear/cpu/lanes.h"
#include "rf_shaders.h"

/* Fewer examples than LEAST_ROWS leave most of a tile empty. */
enum { LANES = 8, ROWS = 16, LEAST_ROWS = 4 };

static const rf_lanes_set lanes8 = { .lanes = LANES, .texel = true, .shuffle = true };

typedef struct rnn_geometry {
    int64_t rows, steps, fours; /* of units */
    uint32_t gates;
} rnn_geometry;

static rnn_geometry geometry_of(const rf_op_call *call, bool grad)
{
    const rf_shape *x = &call->in[grad ? 2 : 0].shape;
    return (rnn_geometry){ x->dim[0], x->dim[1], call->in[1].shape.dim[0] / 4, rf_rnn_gates(call->attr) };
}

static uint64_t loops_of(const rnn_geometry *g, bool grad)
{
    return (uint64_t)(g->fours * (grad ? g->gates : 1)) + 2;
}

static bool fits_texels(const rf_tensor_desc *desc, const rf_device_caps *caps)
{
    return rf_desc_count(desc) <= caps->max_texel_elements;
}

double rf_rnn_lanes_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const bool grad = rf_rnn_is_grad(data);
    const rnn_geometry g = geometry_of(call, grad);
    if (caps->subgroup_size != LANES || !caps->full_subgroups || !caps->subgroup_shuffle) return RF_SCORE_NONE;
    if (call->in[1].shape.dim[0] % 4 || g.rows < LEAST_ROWS || rf_rnn_resets_before(call->attr)) return RF_SCORE_NONE;
    if (loops_of(&g, grad) > rf_loop_limit(caps) || !rf_fits_storage(call, caps)) return RF_SCORE_NONE;
    for (uint32_t i = 0; i < call->n_in; i++)
        if (!fits_texels(&call->in[i], caps)) return RF_SCORE_NONE;
    for (uint32_t i = 0; i < call->n_out; i++)
        if (!fits_texels(&call->out[i], caps)) return RF_SCORE_NONE;
    return caps->driver == RF_DRIVER_LAVAPIPE ? RF_SCORE_DRIVER : RF_SCORE_SHAPE;
}

static rf_binding output_of(const rf_op_call *call, uint32_t index)
{
    return (rf_binding){ .kind = RF_BIND_OUTPUT, .index = index, .size = rf_tensor_bytes(&call->out[index]) };
}

static void bind_texels(rf_dispatch *d, rf_binding binding)
{
    rf_linear_bind(d, binding, RF_VIEW_TEXEL_RGBA32F, false);
}

static void bind_mask(rf_dispatch *d, const rf_op_call *call, uint32_t input)
{
    const rf_rnn_attr *attr = call->attr;
    rf_linear_bind(d, rf_linear_input(call, attr->mask ? input : 0), RF_VIEW_TEXEL_R32F, false);
}

static rf_dispatch *add_step(const rf_lanes_plan *p, const rnn_geometry *g, const rf_shader *shader, bool grad)
{
    const rf_rnn_attr *attr = p->call->attr;
    rf_dispatch *d = rf_kernel_plan_add(p->plan, shader, loops_of(g, grad));
    if (!d) return NULL;
    rf_dispatch_spec(d, LANES);
    rf_dispatch_spec(d, attr->mask);
    rf_dispatch_spec(d, attr->state);
    return d;
}

static rf_push_rnn_lanes push_of(const rnn_geometry *g)
{
    const int64_t tiles = (g->fours + LANES - 1) / LANES, row_tiles = (g->rows + ROWS - 1) / ROWS;
    return (rf_push_rnn_lanes){ .total = (int32_t)(tiles * row_tiles),
                                .tiles = (int32_t)tiles,
                                .rows = (int32_t)g->rows,
                                .steps = (int32_t)g->steps,
                                .units = (int32_t)g->fours };
}

static void step_finish(const rf_lanes_plan *p, rf_dispatch *d, const rf_push_rnn_lanes *push)
{
    rf_dispatch_push(d, push, sizeof(*push));
    rf_dispatch_groups(d, p->caps, (uint64_t)push->total);
}

/* ---- the layer ---- */

static const rf_shader *const shaders[] = { [RF_RNN_GRU] = &rf_shader_rnn_lanes8_gru,
                                            [RF_RNN_LSTM] = &rf_shader_rnn_lanes8_lstm,
                                            [RF_RNN_SIMPLE] = &rf_shader_rnn_lanes8_simple };

rf_result rf_rnn_lanes_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    const rf_rnn_attr *attr = call->attr;
    const rnn_geometry g = geometry_of(call, false);
    const rf_lanes_plan p = { &lanes8, call, caps, plan };
    rf_push_rnn_lanes push = push_of(&g);
    push.state_row = push.units;
    for (int64_t i = 0; i < g.steps; i++) {
        const bool first = i == 0;
        push.flags = first ? RF_RNN_STEP_FIRST : 0;
        push.now = (int32_t)rf_rnn_place(attr, g.steps, i);
        rf_dispatch *d = add_step(&p, &g, shaders[attr->kind], false);
        if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
        for (uint32_t in = 0; in < 3; in++) bind_texels(d, rf_linear_input(call, in));
        /* Without initial states the shader knows them for zeros. */
        bind_texels(d, first ? rf_linear_input(call, attr->state ? 3 : 0) : output_of(call, 0));
        bind_mask(d, call, rf_rnn_mask_input(attr));
        rf_bind_whole(d, RF_BIND_OUTPUT, 0);
        if (attr->kind == RF_RNN_LSTM) {
            bind_texels(d, first ? rf_linear_input(call, attr->state ? 4 : 0) : output_of(call, 1));
            rf_bind_whole(d, RF_BIND_OUTPUT, 1);
        }
        step_finish(&p, d, &push);
        push.state_row = push.steps * push.units;
        push.state_at = push.now * push.units;
    }
    return RF_OK;
}

/* ---- its gradient ---- */

static const rf_shader *const grad_shaders[] = { [RF_RNN_GRU] = &rf_shader_rnn_lanes8_gru_grad,
                                                 [RF_RNN_LSTM] = &rf_shader_rnn_lanes8_lstm_grad,
                                                 [RF_RNN_SIMPLE] = &rf_shader_rnn_lanes8_simple_grad };

static rf_result add_grad_step(const rf_lanes_plan *p, const rnn_geometry *g, rf_binding transposed,
                               const rf_push_rnn_lanes *push)
{
    const rf_op_call *call = p->call;
    const rf_rnn_attr *attr = call->attr;
    const uint32_t product = rf_rnn_resets_after(attr) ? 2 : 0;
    rf_dispatch *d = add_step(p, g, grad_shaders[attr->kind], true);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    bind_texels(d, rf_linear_input(call, 0));
    bind_texels(d, transposed);
    for (uint32_t in = 2; in < 5; in++) bind_texels(d, rf_linear_input(call, in));
    bind_texels(d, rf_linear_input(call, attr->state ? 5 : 0));
    bind_mask(d, call, rf_rnn_grad_mask_input(attr));
    bind_texels(d, output_of(call, product));
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    rf_bind_whole(d, RF_BIND_OUTPUT, 1);
    if (attr->kind != RF_RNN_SIMPLE) rf_bind_whole(d, RF_BIND_OUTPUT, 2);
    step_finish(p, d, push);
    return RF_OK;
}

rf_result rf_rnn_grad_lanes_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                 rf_kernel_plan *plan)
{
    const rf_rnn_attr *attr = call->attr;
    const rnn_geometry g = geometry_of(call, true);
    rf_lanes_plan p = { &lanes8, call, caps, plan };
    const int64_t units = g.fours * 4, width = units * (int64_t)g.gates;
    rf_binding transposed = rf_linear_input(call, 1);
    RF_TRY(
        rf_lanes_pack(&p, &transposed, (const int64_t[]){ 1, 1, width, units }, (const int64_t[]){ 0, 0, 1, width }));
    rf_push_rnn_lanes push = push_of(&g);
    push.flags = RF_RNN_STEP_FIRST;
    for (int64_t i = g.steps - 1; i >= 0; i--) {
        push.now = (int32_t)rf_rnn_place(attr, g.steps, i);
        RF_TRY(add_grad_step(&p, &g, transposed, &push));
        push.before = push.now;
        push.flags = 0;
    }
    push.flags = RF_RNN_STEP_FINISH;
    return add_grad_step(&p, &g, transposed, &push);
}
