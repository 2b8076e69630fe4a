/* SPDX-License-Identifier: Apache-2.0 */
/* Products of few rows or few columns on GPUs: shaders/linear/gpu/matmul_skinny.comp. Tiles of the other kernels would
 * be mostly empty, and one invocation for each element waits too long for its summands. */
#include "ops/linear/common/matmul.h"
#include "ops/linear/gpu/blocks.h"
#include "rf_shaders.h"

typedef struct thin_push {
    int32_t total, groups, rows, n, k, parts, part_size, a_row, a_k, b_k, b_column, ones;
    int32_t dim[4], a_stride[4], b_stride[4];
} thin_push;
_Static_assert(sizeof(thin_push) <= RF_MAX_PUSH, "push constants of matmul_skinny.comp");

enum { LOCAL = 256, MOST_SLICES = 128, ABREAST = 8, MOST_PARTS = 256, MOST_THIN = 32 };
#define SHARED_BYTES ((LOCAL + 1) * sizeof(float))

/* How a product is shared out: `slices` invocations for each element of c, in each of `parts`. */
typedef struct thin_form {
    uint32_t slices;
    bool along; /* neighbours have neighbouring summands */
    uint64_t total, tiles, parts, part;
    double seconds; /* 0: the device cannot */
} thin_form;

/* ---- the model ---- */

/* What is assumed of a compute unit: the workgroups that it holds, its clock and, in cycles, how long loads take that
 * nothing is done meanwhile, a workgroup apart from them, and what is added for sums in parts. */
#define UNIT_GROUPS 8
#define UNIT_BYTES 64.0
#define HERTZ 1.7e9
#define LOAD_LATENCY 900.0
#define GROUP_LATENCY 1200.0
#define STEP_LATENCY 60.0 /* of adding slices in pairs */
#define PARTS_LATENCY 2500.0
#define LAUNCH_SECONDS 3e-6
/* More parts take more memory: not for less than this. */
#define WORTHWHILE 0.93

static double waves_of(uint64_t count, uint64_t at_once)
{
    return (double)rf_div_up(count, at_once);
}

static double form_seconds(const thin_form *f, const rf_device_caps *caps)
{
    const uint64_t units = caps->compute_units > 0 ? caps->compute_units : 1, width = LOCAL / f->slices;
    const uint64_t groups = f->tiles * f->parts, of_a_unit = rf_min(rf_div_up(groups, units), UNIT_GROUPS);
    /* Of a sector of eight numbers fewer count where neighbours do not read all of them. */
    const uint64_t neighbours = f->along ? f->slices : width;
    const double waste = neighbours < 8 ? 8.0 / (double)neighbours : 1;
    const double loads = (double)of_a_unit * LOCAL * ABREAST * 2 * sizeof(float) * waste / UNIT_BYTES;
    const double turn = loads > LOAD_LATENCY ? loads : LOAD_LATENCY;
    double cycles = waves_of(f->part, (uint64_t)ABREAST * f->slices) * turn + GROUP_LATENCY;
    for (uint32_t step = f->slices; step > 1; step /= 2) cycles += STEP_LATENCY;
    cycles *= waves_of(groups, units * UNIT_GROUPS);
    if (f->parts > 1) cycles += PARTS_LATENCY + waves_of(f->parts, f->slices) * LOAD_LATENCY;
    return LAUNCH_SECONDS + cycles / HERTZ;
}

static uint64_t form_loops(const thin_form *f)
{
    return f->part / ABREAST / f->slices + f->parts / f->slices + 2 * 8 + 4;
}

/* The form that takes the least time. */
static thin_form form_of(const rf_matmul_geometry *g, const rf_device_caps *caps)
{
    const uint64_t rows = (uint64_t)(g->m + g->bias_gradient), k = (uint64_t)g->k;
    thin_form best = { 0 }, f = { .along = g->m > g->n ? !g->ta : g->tb };
    f.total = (uint64_t)g->batch * rows * (uint64_t)g->n;
    if (f.total > INT32_MAX - LOCAL) return best;
    for (f.slices = 2; f.slices <= MOST_SLICES; f.slices *= 2) {
        f.tiles = rf_div_up(f.total, LOCAL / f.slices);
        for (uint64_t parts = 1; parts <= MOST_PARTS; parts *= 2) {
            f.part = rf_div_up(k, parts);
            f.parts = rf_div_up(k, f.part);
            if (parts > 1 && (f.part < (uint64_t)ABREAST * f.slices || f.tiles * sizeof(int32_t) > RF_MAX_COUNTERS ||
                              f.tiles * f.parts * LOCAL > INT32_MAX))
                break;
            if (form_loops(&f) > rf_loop_limit(caps) || f.tiles * f.parts > INT32_MAX) continue;
            f.seconds = form_seconds(&f, caps);
            if (best.seconds == 0 || f.seconds < WORTHWHILE * best.seconds) best = f;
        }
    }
    return best;
}

static double thin_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_matmul_geometry g = rf_matmul_geometry_of(call);
    const bool fits =
        rf_local_size(caps, LOCAL) == LOCAL && caps->max_shared_memory >= SHARED_BYTES && rf_fits_storage(call, caps);
    if ((g.m > MOST_THIN && g.n > MOST_THIN) || !fits) return RF_SCORE_NONE;
    const thin_form f = form_of(&g, caps);
    if (f.seconds == 0) return RF_SCORE_NONE;
    return rf_score_of_time(f.seconds) * (caps->is_cpu ? RF_SCORE_FOREIGN : 1);
}

/* ---- the plan ---- */

static thin_push push_of(const rf_matmul_geometry *g, const thin_form *f)
{
    thin_push p = { .total = (int32_t)f->total,
                    .groups = (int32_t)(f->tiles * f->parts),
                    .rows = (int32_t)(g->m + g->bias_gradient),
                    .n = (int32_t)g->n,
                    .k = (int32_t)g->k,
                    .parts = (int32_t)f->parts,
                    .part_size = (int32_t)f->part,
                    .a_row = (int32_t)(g->ta ? 1 : g->k),
                    .a_k = (int32_t)(g->ta ? g->m : 1),
                    .b_k = (int32_t)(g->tb ? 1 : g->n),
                    .b_column = (int32_t)(g->tb ? g->k : 1),
                    .ones = (int32_t)g->m };
    for (int i = 0; i < 4; i++) {
        p.dim[i] = (int32_t)g->dim[i];
        p.a_stride[i] = (int32_t)g->a_stride[i];
        p.b_stride[i] = (int32_t)g->b_stride[i];
    }
    return p;
}

static rf_result thin_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    const rf_matmul_geometry g = rf_matmul_geometry_of(call);
    const thin_form f = form_of(&g, caps);
    const thin_push push = push_of(&g, &f);
    rf_lanes_plan p = { NULL, call, caps, plan };
    rf_dispatch *d = rf_kernel_plan_add(plan, &rf_shader_matmul_thin, form_loops(&f));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const uint32_t constants[] = { LOCAL,   g.activation, g.bias,      f.slices,
                                   f.along, f.parts > 1,  g.relu_mask, g.bias_gradient };
    for (uint32_t i = 0; i < RF_LENGTH(constants); i++) rf_dispatch_spec(d, constants[i]);
    rf_block_types(d, call, caps);
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_groups(d, caps, (uint64_t)push.groups);
    rf_bind_whole(d, RF_BIND_INPUT, 0);
    rf_bind_whole(d, RF_BIND_INPUT, 1);
    rf_bind_whole(d, RF_BIND_INPUT, g.bias || g.relu_mask ? 2 : 0);
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    if (f.parts > 1) {
        const uint64_t bytes = (uint64_t)push.groups * (LOCAL / f.slices) * sizeof(float);
        plan->counters = f.tiles * sizeof(int32_t);
        rf_lanes_bind(d, rf_lanes_workspace(&p, bytes), RF_VIEW_STORAGE, true);
        rf_bind_whole(d, RF_BIND_COUNTERS, 0);
    } else {
        rf_bind_whole(d, RF_BIND_OUTPUT, 0);
        rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    }
    rf_bind_whole(d, RF_BIND_OUTPUT, g.bias_gradient);
    return RF_OK;
}

/* What it writes in 16 bits it writes in pairs. */
static bool thin_takes_narrow(const rf_op_call *call, const rf_device_caps *caps)
{
    (void)caps;
    return call->out[0].dtype == RF_F32 || rf_desc_count(&call->out[0]) % 2 == 0;
}

const rf_kernel rf_matmul_thin = {
    .name = "thin", .score = thin_score, .plan = thin_plan, .finishes = true, .narrow = thin_takes_narrow
};
