/* SPDX-License-Identifier: Apache-2.0 */
/* Products of few rows or few columns on GPUs: shaders/linear/gpu/matmul_skinny.comp. Tiles of the other kernels would
 * be mostly empty, and one invocation for each element waits too long for its summands. */
#include "ops/linear/common/matmul.h"
#include "ops/linear/gpu/model.h"
#include "rf_shaders.h"

enum { LOCAL = 256, MOST_SLICES = 128, AT_ONCE = 8, MOST_PARTS = 256, MOST_SKINNY = 32 };
#define SHARED_BYTES ((LOCAL + 1) * sizeof(float))

/* How a product is shared out: `slices` invocations for each element of c, in each of `parts`. */
typedef struct skinny_form {
    uint32_t slices;
    bool along; /* neighbours have neighbouring summands */
    uint64_t total, tiles, parts, part;
    double seconds; /* 0: the device cannot */
} skinny_form;

static double form_seconds(const skinny_form *f, const rf_device_caps *caps)
{
    return rf_gpu_skinny_seconds(caps, &(rf_gpu_skinny){ .tiles = f->tiles,
                                                         .parts = f->parts,
                                                         .part = f->part,
                                                         .local = LOCAL,
                                                         .slices = f->slices,
                                                         .at_once = AT_ONCE,
                                                         .along = f->along });
}

static uint64_t form_loops(const skinny_form *f)
{
    return f->part / AT_ONCE / f->slices + f->parts / f->slices + 2 * 8 + 4;
}

/* The form that takes the least time. */
static skinny_form form_of(const rf_matmul_geometry *g, const rf_device_caps *caps)
{
    const uint64_t rows = (uint64_t)(g->m + g->bias_gradient), k = (uint64_t)g->k;
    skinny_form best = { 0 }, f = { .along = g->m > g->n ? !g->ta : g->tb };
    f.total = (uint64_t)g->batch * rows * (uint64_t)g->n;
    if (f.total > INT32_MAX - LOCAL) return best;
    for (f.slices = 2; f.slices <= MOST_SLICES; f.slices *= 2) {
        f.tiles = rf_div_up(f.total, LOCAL / f.slices);
        for (uint64_t parts = 1; parts <= MOST_PARTS; parts *= 2) {
            f.part = rf_div_up(k, parts);
            f.parts = rf_div_up(k, f.part);
            if (parts > 1 && (f.part < (uint64_t)AT_ONCE * f.slices || f.tiles * sizeof(int32_t) > RF_MAX_COUNTERS ||
                              f.tiles * f.parts * LOCAL > INT32_MAX))
                break;
            if (form_loops(&f) > rf_loop_limit(caps) || f.tiles * f.parts > INT32_MAX) continue;
            f.seconds = form_seconds(&f, caps);
            if (best.seconds == 0 || f.seconds < RF_GPU_WORTHWHILE * best.seconds) best = f;
        }
    }
    return best;
}

double rf_matmul_skinny_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_matmul_geometry g = rf_matmul_geometry_of(call);
    const bool fits =
        rf_local_size(caps, LOCAL) == LOCAL && caps->max_shared_memory >= SHARED_BYTES && rf_fits_storage(call, caps);
    if ((g.m > MOST_SKINNY && g.n > MOST_SKINNY) || !fits) return RF_SCORE_NONE;
    const skinny_form f = form_of(&g, caps);
    if (f.seconds == 0) return RF_SCORE_NONE;
    return rf_score_of_time(f.seconds);
}

/* ---- the plan ---- */

static rf_push_matmul_skinny push_of(const rf_matmul_geometry *g, const skinny_form *f)
{
    rf_push_matmul_skinny p = { .total = (int32_t)f->total,
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

rf_result rf_matmul_skinny_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                rf_kernel_plan *plan)
{
    const rf_matmul_geometry g = rf_matmul_geometry_of(call);
    const skinny_form f = form_of(&g, caps);
    const rf_push_matmul_skinny push = push_of(&g, &f);
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
        rf_linear_bind(d, rf_linear_workspace(plan, caps, bytes), RF_VIEW_STORAGE, true);
        rf_bind_whole(d, RF_BIND_COUNTERS, 0);
    } else {
        rf_bind_whole(d, RF_BIND_OUTPUT, 0);
        rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    }
    rf_bind_whole(d, RF_BIND_OUTPUT, g.bias_gradient);
    return RF_OK;
}

/* Results of 16 bits are written in pairs. */
bool rf_matmul_skinny_narrow(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    (void)caps;
    return call->out[0].dtype == RF_F32 || rf_desc_count(&call->out[0]) % 2 == 0;
}
