/* SPDX-License-Identifier: Apache-2.0 */
/* Small products on lavapipe: shaders/linear/matmul_small.comp. */
#include "ops/linear/matmul.h"
#include "rf_shaders.h"

typedef struct small_push {
    int32_t total, column_blocks, rows, columns, summands, a_row, a_k, b_k, b_column, ones, has_bias;
} small_push;
_Static_assert(sizeof(small_push) <= RF_MAX_PUSH, "push constants of matmul_small.comp");

enum { SIDE = 4 }; /* rows and columns of an invocation */

static bool small_fits(const rf_matmul_geometry *g, const rf_op_call *call, const rf_device_caps *caps)
{
    for (uint32_t i = 0; i < call->n_in; i++)
        if (!(call->op->shape_only >> i & 1) && (uint64_t)rf_shape_count(call->in[i].shape) > caps->max_texel_elements)
            return false;
    return g->batch == 1 && rf_fits_storage(call, caps) && (uint64_t)g->k < rf_loop_limit(caps);
}

bool rf_matmul_is_small(const rf_op_call *call, const rf_device_caps *caps)
{
    const rf_matmul_geometry g = rf_matmul_geometry_of(call);
    const double most = 1e5; /* operations: any kernel takes about as long as its dispatch */
    /* With a transposed are gradients by weights: both operands of those lie in other memory than weights do, of which
     * lavapipe may make another compilation. */
    return caps->driver == RF_DRIVER_LAVAPIPE && !g.ta && call->op->cost(call).flops <= most &&
           small_fits(&g, call, caps);
}

static double small_score(const rf_op_call *call, const rf_device_caps *caps)
{
    const rf_matmul_geometry g = rf_matmul_geometry_of(call);
    if (!small_fits(&g, call, caps)) return RF_SCORE_NONE;
    /* Others take most of a second to compile; where there are gradients they are there for larger products. */
    if (rf_matmul_is_small(call, caps) && !g.tb) return rf_score_of_time(30e-6);
    const double m = (double)rf_align_up((uint64_t)g.m, SIDE), n = (double)rf_align_up((uint64_t)g.n, SIDE);
    const double seconds = 25e-6 + 2 * m * n * (double)g.k / 6e9;
    return rf_score_of_time(seconds) * (caps->driver == RF_DRIVER_LAVAPIPE && !g.ta ? 1 : RF_SCORE_FOREIGN);
}

static rf_result small_plan(const rf_op_call *call, const rf_device_caps *caps, rf_kernel_plan *plan)
{
    const rf_matmul_geometry g = rf_matmul_geometry_of(call);
    const int64_t rows = g.m + g.bias_gradient, column_blocks = (int64_t)rf_div_up((uint64_t)g.n, SIDE);
    const small_push push = { .total = (int32_t)(column_blocks * (int64_t)rf_div_up((uint64_t)rows, SIDE)),
                              .column_blocks = (int32_t)column_blocks,
                              .rows = (int32_t)rows,
                              .columns = (int32_t)g.n,
                              .summands = (int32_t)g.k,
                              .a_row = (int32_t)(g.ta ? 1 : g.k),
                              .a_k = (int32_t)(g.ta ? g.m : 1),
                              .b_k = (int32_t)(g.tb ? 1 : g.n),
                              .b_column = (int32_t)(g.tb ? g.k : 1),
                              .ones = g.bias_gradient ? (int32_t)g.m : -1,
                              .has_bias = g.bias };
    rf_dispatch *d = rf_kernel_plan_add(plan, &rf_shader_matmul_small, (uint64_t)g.k);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    /* Few invocations: in small workgroups, so that both of few cores have some. */
    rf_dispatch_spec(d, rf_local_size(caps, 16));
    rf_dispatch_spec(d, g.activation);
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_bind(d, RF_BIND_INPUT, 0, RF_VIEW_TEXEL_R32F, false);
    rf_dispatch_bind(d, RF_BIND_INPUT, 1, RF_VIEW_TEXEL_R32F, false);
    rf_bind_whole(d, RF_BIND_INPUT, g.bias ? 2 : 1);
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    rf_bind_whole(d, RF_BIND_OUTPUT, g.bias_gradient);
    rf_dispatch_items(d, caps, (uint64_t)push.total);
    return RF_OK;
}

const rf_kernel rf_matmul_small = { .name = "small", .score = small_score, .plan = small_plan };
