/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent layers in one dispatch, on GPUs that have registers for the recurrent kernel:
 * shaders/linear/gpu/rnn_register_resident.comp.
 */
#include "ops/linear/common/rnn.h"
#include "ops/linear/gpu/blocks.h"
#include "rf_shaders.h"

/* As in the shader. More units than MOST_UNITS are better off with all of a device for each step. */
enum { MOST_UNITS = 256, MOST_COLUMNS = 1024, MOST_HELD = 32, GRAD_MOST_HELD = 12, GRAD_LANES = 8 };
/* A dispatch that lasts seconds is broken off by drivers. */
enum { MOST_STEPS = 16384 };
/* Registers of a workgroup, the most of an invocation, and those that it needs besides weights. Software has
 * none: what it is given makes for tests of both ways. */
enum { REGISTERS = 65536, MOST_REGISTERS = 248, CPU_REGISTERS = 80, OTHER_REGISTERS = 40, GRAD_OTHER_REGISTERS = 48 };

typedef struct resident_geometry {
    uint32_t local;
    uint32_t lines; /* of the gradient: units of an invocation */
    uint32_t held;  /* fours of each */
    uint32_t fours; /* that there are */
} resident_geometry;

/* Fours of weights for each of an invocation's lines. Registers belong to four parts of a compute unit, which take
 * whole subgroups in turn. */
static uint32_t fours_held(const rf_device_caps *caps, uint32_t local, uint32_t lines, uint32_t others)
{
    const uint32_t turn = 4 * (caps->subgroup_size ? caps->subgroup_size : 32),
                   shared = (local + turn - 1) / turn * turn;
    const uint32_t most = caps->is_cpu ? CPU_REGISTERS : MOST_REGISTERS, share = REGISTERS / shared / 8 * 8;
    const uint32_t registers = share < most ? share : most;
    return registers > others ? (registers - others) / (4 * lines) : 0;
}

static resident_geometry forward_geometry(const rf_device_caps *caps, uint32_t units, uint32_t width)
{
    resident_geometry g = { .local = (width + 31) / 32 * 32, .lines = 1, .fours = units / 4 };
    g.held = (uint32_t)rf_min(fours_held(caps, g.local, 1, OTHER_REGISTERS), rf_min(g.fours, MOST_HELD));
    return g;
}

/* Two units an invocation where it can hold all of their lines, else four: fewer invocations have more registers. */
static resident_geometry grad_geometry(const rf_device_caps *caps, uint32_t units, uint32_t width)
{
    resident_geometry g = { .fours = (width / 4 + GRAD_LANES - 1) / GRAD_LANES };
    for (g.lines = 2;; g.lines = 4) {
        g.local = ((units + g.lines - 1) / g.lines * GRAD_LANES + 31) / 32 * 32;
        g.held =
            (uint32_t)rf_min(fours_held(caps, g.local, g.lines, GRAD_OTHER_REGISTERS), rf_min(g.fours, GRAD_MOST_HELD));
        if (g.held == g.fours || g.lines == 4) return g;
    }
}

static resident_geometry geometry_of(const rf_op_call *call, const rf_device_caps *caps, bool grad)
{
    const uint32_t units = (uint32_t)call->in[1].shape.dim[0], width = (uint32_t)call->in[1].shape.dim[1];
    return grad ? grad_geometry(caps, units, width) : forward_geometry(caps, units, width);
}

static int64_t steps_of(const rf_op_call *call, bool grad)
{
    return call->in[grad ? 2 : 0].shape.dim[1];
}

static rf_row_job resident_job(const rf_op_call *call, const resident_geometry *g, bool grad)
{
    const rf_rnn_attr *attr = call->attr;
    const uint64_t steps = (uint64_t)steps_of(call, grad);
    const rf_push_rnn_register_resident push = { .steps = (uint32_t)steps,
                                                 .fours = (uint32_t)call->in[1].shape.dim[0] / 4,
                                                 .backwards = attr->backwards };
    rf_row_job job = { .shader = grad ? &rf_shader_rnn_held_grad : &rf_shader_rnn_held,
                       .grid = RF_GRID_GROUPS,
                       .local = g->local,
                       .rows = (uint64_t)call->in[0].shape.dim[0],
                       .threads_per_row = g->local,
                       .loops = 1 + steps * (3 + g->fours - g->held),
                       .n_spec = grad ? 4 : 3,
                       .spec = { attr->kind, rf_rnn_options(attr), g->held, g->lines } };
    RF_ROW_JOB_PUSH(&job, push, rows);
    rf_rnn_bind(&job, call, grad);
    return job;
}

double rf_rnn_register_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const bool grad = rf_rnn_is_grad(data);
    const int64_t units = call->in[1].shape.dim[0], width = call->in[1].shape.dim[1];
    const bool has_registers = caps->driver == RF_DRIVER_AMD || caps->driver == RF_DRIVER_NVIDIA;
    if (!caps->is_cpu && !has_registers) return RF_SCORE_NONE;
    if (units % 4 || units > MOST_UNITS || width > MOST_COLUMNS || steps_of(call, grad) > MOST_STEPS ||
        rf_rnn_resets_before(call->attr) || rf_tensor_bytes(&call->in[1]) > caps->max_storage_range)
        return RF_SCORE_NONE;
    const resident_geometry g = geometry_of(call, caps, grad);
    const uint64_t shared = sizeof(float) * (MOST_COLUMNS + GRAD_LANES * (MOST_UNITS + 4));
    if (g.local > caps->max_workgroup_invocations || g.local > caps->max_workgroup_size[0] ||
        shared > caps->max_shared_memory)
        return RF_SCORE_NONE;
    const rf_row_job job = resident_job(call, &g, grad);
    if (job.loops > rf_loop_limit(caps) || rf_row_job_chunk(&job, caps) == 0) return RF_SCORE_NONE;
    return RF_SCORE_SHAPE;
}

rf_result rf_rnn_register_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                               rf_kernel_plan *plan)
{
    const bool grad = rf_rnn_is_grad(data);
    const resident_geometry g = geometry_of(call, caps, grad);
    const rf_row_job job = resident_job(call, &g, grad);
    return rf_row_job_plan(&job, caps, plan);
}
