/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over a batch by tiles of columns, whose lines are put together in shared memory. */
#include "ops/reduction/common/batch.h"
#include "ops/reduction/gpu/column_tiles.h"
#include "ops/reduction/gpu/kernels.h"

static rf_column_tiles tiles_of(const rf_op_call *call, const rf_device_caps *caps, uint32_t *width)
{
    const uint64_t columns = rf_desc_columns(&call->in[0]);
    *width = columns % 4 == 0 ? 4 : 1;
    return rf_column_tiles_make(caps, 1, rf_desc_rows(&call->in[0]), columns / *width, *width);
}

/* A part leaves two numbers for each column. */
static uint64_t tiles_workspace(const rf_op_call *call, const rf_column_tiles *s)
{
    return s->parts > 1 ? s->parts * 2 * rf_desc_columns(&call->in[0]) * sizeof(float) : 0;
}

double rf_batch_tiles_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    uint32_t width;
    const rf_column_tiles s = tiles_of(call, caps, &width);
    if (!rf_fits_storage(call, caps) || !rf_column_tiles_fit(caps, &s, tiles_workspace(call, &s))) return RF_SCORE_NONE;
    return RF_SCORE_SHAPE;
}

rf_result rf_batch_tiles_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                              rf_kernel_plan *plan)
{
    static const rf_shader *const shaders[3][2] = {
        { &rf_shader_batch_strips_moments, &rf_shader_batch_strips_moments_vec4 },
        { &rf_shader_batch_strips_averages, &rf_shader_batch_strips_averages_vec4 },
        { &rf_shader_batch_strips_products, &rf_shader_batch_strips_products_vec4 },
    };
    const rf_batch_end end = rf_batch_end_of(call);
    const uint32_t relu = end.products ? ((const rf_batch_sums_attr *)call->attr)->relu : 0;
    uint32_t width, types = 0;
    const rf_column_tiles s = tiles_of(call, caps, &width);
    rf_dispatch *d = rf_kernel_plan_add(plan, shaders[call->op->role][width == 4], s.loops);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < call->n_in; i++) {
        const uint32_t input = end.products && i < 2 ? 1 - i : i; /* x comes first */
        const rf_dtype dtype = call->in[input].dtype;
        rf_bind_whole(d, RF_BIND_INPUT, input);
        if (rf_dtype_is_narrow(dtype)) types |= 1u << i | rf_type_word(dtype, caps) << 8;
    }
    if (end.products && !relu) rf_bind_whole(d, RF_BIND_INPUT, 2);       /* the shader names a shift, */
    if (end.averages && !end.scaled) rf_bind_whole(d, RF_BIND_INPUT, 1); /* or a gamma */
    for (uint32_t i = 0; i < call->op->n_out; i++) rf_bind_whole(d, RF_BIND_OUTPUT, i);
    rf_dispatch_spec(d, s.local);
    rf_dispatch_spec(d, types);
    if (end.products) rf_dispatch_spec(d, relu);
    if (end.averages) rf_dispatch_spec(d, end.scaled);
    const rf_push_batch_column_tiles push = { RF_COLUMN_TILES_PUSH(&s), .epsilon = end.epsilon, .keep = end.keep,
                                              .take = end.take };
    rf_dispatch_push(d, &push, sizeof(push));
    rf_column_tiles_plan(caps, plan, d, &s, tiles_workspace(call, &s));
    return RF_OK;
}
