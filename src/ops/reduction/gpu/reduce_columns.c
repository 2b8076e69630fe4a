/* SPDX-License-Identifier: Apache-2.0 */
/* Sums, maxima and minima by tiles of columns. */
#include "ops/reduction/common/reduce.h"
#include "ops/reduction/gpu/column_tiles.h"
#include "ops/reduction/gpu/kernels.h"

typedef struct tiles_job {
    rf_reduce_groups groups;
    uint32_t width; /* elements of a vector */
    rf_column_tiles tiles;
    uint64_t workspace;
} tiles_job;

/* The last dimension stays, and one group of dimensions before it is reduced. */
static bool tiles_job_make(const rf_op_call *call, const rf_device_caps *caps, tiles_job *s)
{
    *s = (tiles_job){ 0 };
    const rf_reduce_groups *f = &s->groups;
    rf_reduce_groups_make(call, &s->groups);
    if (f->n_red != 1 || f->n_kept < 1 || f->kept_stride[2] != 1 || !rf_fits_storage(call, caps)) return false;
    s->width = f->kept[2] % 4 == 0 ? 4 : 1;
    s->tiles = rf_column_tiles_make(caps, f->n_out / f->kept[2], f->total, f->kept[2] / s->width, s->width);
    s->workspace = s->tiles.parts > 1 ? s->tiles.parts * f->n_out * sizeof(float) : 0;
    return rf_column_tiles_fit(caps, &s->tiles, s->workspace);
}

double rf_reduce_tiles_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    tiles_job s;
    if (!tiles_job_make(call, caps, &s)) return RF_SCORE_NONE;
    /* With so many columns an invocation for each is enough to do for all units. */
    const uint64_t units = caps->compute_units > 0 ? caps->compute_units : 16;
    const bool wide = s.groups.n_out / s.width >= 512 * units;
    return s.width == 4 && wide ? RF_SCORE_RESERVE : RF_SCORE_EXACT;
}

rf_result rf_reduce_tiles_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                               rf_kernel_plan *plan)
{
    tiles_job s;
    if (!tiles_job_make(call, caps, &s)) return RF_FAIL(RF_ERROR_INTERNAL, "%s: not eligible", call->op->name);
    const rf_dtype type = call->in[0].dtype;
    rf_dispatch *d = rf_kernel_plan_add(plan, s.width == 4 ? &rf_shader_reduce_strips_vec4 : &rf_shader_reduce_strips,
                                        s.tiles.loops);
    if (d == NULL) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, s.tiles.local);
    rf_dispatch_spec(d, rf_reduce_shader_kind(call));
    rf_dispatch_spec(d, rf_dtype_is_narrow(type) ? 1u | rf_type_word(type, caps) << 8 : 0);
    const rf_push_reduce_column_tiles push = { RF_COLUMN_TILES_PUSH(&s.tiles), .matrices = (uint32_t)s.tiles.matrices,
                                               .scale = rf_reduce_scale(call, &s.groups) };
    rf_dispatch_push(d, &push, sizeof(push));
    rf_bind_whole(d, RF_BIND_INPUT, 0);
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    rf_column_tiles_plan(caps, plan, d, &s.tiles, s.workspace);
    return RF_OK;
}
