/* SPDX-License-Identifier: Apache-2.0 */
/* Small products on lavapipe: shaders/linear/cpu/matmul_small.comp. */
#include "ops/linear/common/matmul.h"
#include "ops/linear/cpu/kernels.h"
#include "ops/linear/cpu/model.h"
#include "rf_shaders.h"

enum { SIDE = 4, LANES = 8 }; /* rows and columns of an invocation, summands of a turn; lanes of a subgroup */

/* Which operand's lines lie along the lanes, and how a product is shared out then. */
typedef struct small_form {
    bool own_is_b, across;           /* across: lines of that operand lie side by side */
    uint64_t own_blocks, workgroups; /* 0: cannot be */
} small_form;

static small_form form_for(const rf_matmul_geometry *g, bool own_is_b)
{
    const int64_t own = own_is_b ? g->n : g->m, other = own_is_b ? g->m : g->n;
    small_form f = { .own_is_b = own_is_b, .across = own_is_b ? !g->tb : g->ta };
    /* Sums of b's lines come from the operand that is not in the lanes. */
    if ((f.across && own % SIDE != 0) || (own_is_b && g->bias_gradient)) return f;
    f.own_blocks = rf_div_up((uint64_t)own, (uint64_t)SIDE * LANES);
    f.workgroups = f.own_blocks * rf_div_up((uint64_t)other, SIDE);
    return f;
}

/* The form of fewer workgroups. */
static small_form form_of(const rf_matmul_geometry *g)
{
    const small_form a = form_for(g, false), b = form_for(g, true);
    if (a.workgroups == 0 || b.workgroups == 0) return a.workgroups == 0 ? b : a;
    return b.workgroups < a.workgroups ? b : a;
}

static bool small_fits(const rf_matmul_geometry *g, const rf_op_call *call, const rf_device_caps *caps)
{
    for (uint32_t i = 0; i < call->n_in; i++)
        if (!(call->op->shape_only >> i & 1) && (uint64_t)rf_shape_count(call->in[i].shape) > caps->max_texel_elements)
            return false;
    if (g->batch != 1 || caps->subgroup_size != LANES || !rf_flat_texels(caps) || !rf_fits_storage(call, caps))
        return false;
    const small_form f = form_of(g);
    return f.workgroups > 0 && f.workgroups <= INT32_MAX && (uint64_t)g->k / SIDE + 1 < rf_loop_limit(caps);
}

bool rf_matmul_is_small(const rf_op_call *call, const rf_device_caps *caps)
{
    const rf_matmul_geometry g = rf_matmul_geometry_of(call);
    return caps->driver == RF_DRIVER_LAVAPIPE && call->op->cost(call).flops <= RF_CPU_TINY_FLOPS &&
           small_fits(&g, call, caps) && !rf_matmul_is_vector(call, caps);
}

double rf_matmul_small_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_matmul_geometry g = rf_matmul_geometry_of(call);
    if (!small_fits(&g, call, caps)) return RF_SCORE_NONE;
    const double turns = (double)form_of(&g).workgroups * (double)rf_div_up((uint64_t)g.k, SIDE);
    return rf_score_of_time(rf_cpu_small_seconds(caps, turns, rf_matmul_is_small(call, caps)));
}

rf_result rf_matmul_small_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                               rf_kernel_plan *plan)
{
    const rf_matmul_geometry g = rf_matmul_geometry_of(call);
    const small_form f = form_of(&g);
    const bool wide = g.n % SIDE == 0, has_extra = g.bias || g.relu_mask;
    const int32_t b_line = (int32_t)(g.tb ? g.k : 1), b_k = (int32_t)(g.tb ? 1 : g.n);
    const int32_t a_line = (int32_t)(g.ta ? 1 : g.k), a_k = (int32_t)(g.ta ? g.m : 1);
    const rf_push_matmul_small push = { .total = (int32_t)f.workgroups,
                                        .own_blocks = (int32_t)f.own_blocks,
                                        .own_lines = (int32_t)(f.own_is_b ? g.n : g.m),
                                        .other_lines = (int32_t)(f.own_is_b ? g.m : g.n),
                                        .summands = (int32_t)g.k,
                                        .other_line = f.own_is_b ? a_line : b_line,
                                        .other_k = f.own_is_b ? a_k : b_k,
                                        .rows = (int32_t)g.m,
                                        .columns = (int32_t)g.n,
                                        .has_sums = g.bias_gradient };
    rf_dispatch *d = rf_kernel_plan_add(plan, &rf_shader_matmul_small_lanes8, rf_div_up((uint64_t)g.k, SIDE));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const uint32_t constants[] = { LANES,      g.activation, g.relu_mask ? 2 : g.bias, f.across, g.k % SIDE != 0,
                                   f.own_is_b, wide };
    for (uint32_t i = 0; i < RF_LENGTH(constants); i++) rf_dispatch_spec(d, constants[i]);
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_bind(d, RF_BIND_INPUT, f.own_is_b, RF_VIEW_TEXEL_RGBA32F, false);
    rf_dispatch_bind(d, RF_BIND_INPUT, !f.own_is_b, RF_VIEW_TEXEL_R32F, false);
    rf_dispatch_bind(d, RF_BIND_INPUT, has_extra ? 2 : !f.own_is_b,
                     g.relu_mask && wide ? RF_VIEW_TEXEL_RGBA32F : RF_VIEW_TEXEL_R32F, false);
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    rf_bind_whole(d, RF_BIND_OUTPUT, g.bias_gradient);
    rf_dispatch_groups(d, caps, f.workgroups);
    return RF_OK;
}

/* ---- the naive kernel with texels ---- */

/* A product so small that any kernel takes about as long as its dispatch, while the others take most of a second to
 * compile. Only forward: its gradients share their pipelines with larger products. */
static bool is_tiny(const rf_op_call *call, const rf_device_caps *caps)
{
    const rf_matmul_geometry g = rf_matmul_geometry_of(call);
    return caps->compiles_at_dispatch && call->op->cost(call).flops <= RF_CPU_TINY_FLOPS && !g.ta && !g.tb &&
           !rf_matmul_is_vector(call, caps) && !rf_matmul_is_small(call, caps);
}

double rf_matmul_texel_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    for (uint32_t i = 0; i < 2; i++)
        if ((uint64_t)rf_shape_count(call->in[i].shape) > caps->max_texel_elements) return RF_SCORE_NONE;
    if (!rf_fits_storage(call, caps)) return RF_SCORE_NONE;
    return rf_score_of_time(rf_cpu_texel_seconds(caps, rf_linear_naive_seconds(call, caps), is_tiny(call, caps)));
}
