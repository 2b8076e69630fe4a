/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of the reduce op. All cut the reduced elements into slices, reduce each into the workspace and add the slices
 * up with a second dispatch; with one slice, or where the last workgroup adds them up, the first dispatch is all there
 * is. The order of additions depends on shapes and device only.
 */
#include "ops/reduction/common/reduce.h"
#include "ops/reduction/gpu/column_tiles.h"

/* As in shaders/reduction/common/reduce.glsl. */
enum { KIND_SUM, KIND_MAX, KIND_SQUARES, KIND_ABS, KIND_MIN };
typedef struct reduce_push {
    uint32_t n_out, slices, slice_len, total, first_slice;
    float scale;
    uint32_t kept1, kept2, kept_stride[3], red1, red2, red_stride[3];
} reduce_push;

/* The input as alternating groups of kept and reduced dimensions, in memory order; at most three of each. Entry 2 of an
 * array is the innermost group; groups that do not exist have size 1 and stride 0. */
typedef struct reduce_form {
    uint32_t n_kept, n_red;
    uint64_t kept[3], kept_stride[3], red[3], red_stride[3];
    uint64_t n_out, total; /* products of kept, of red */
    bool lead_reduced;     /* the outermost group is a reduced one */
    uint64_t lead;         /* its size */
} reduce_form;

typedef struct reduce_variant {
    const rf_shader *shader;
    bool per_group;                     /* a workgroup, not an invocation, makes a result */
    uint32_t vector;                    /* results of one invocation */
    uint32_t slice_multiple, min_slice; /* slice lengths: multiples of the first, at least about the second */
    uint32_t cpu_target, gpu_target;    /* slice until so many invocations (workgroups) are busy */
    bool tail;                          /* the shader has a second view of the input at binding 2 */
    bool texel;                         /* binding 0 is a texel buffer */
    const rf_shader *whole[2];          /* adds up slices as well: for subgroups of 8 and of 16 */
    const rf_shader *lanes[2];          /* its subgroups share rows */
} reduce_variant;

static const reduce_variant variant_any = { .shader = &rf_shader_reduce_any,
                                            .vector = 1,
                                            .slice_multiple = 1,
                                            .min_slice = 64,
                                            .cpu_target = 512,
                                            .gpu_target = 16384 };
static const reduce_variant variant_columns = { .shader = &rf_shader_reduce_columns,
                                                .vector = 4,
                                                .slice_multiple = 1,
                                                .min_slice = 32,
                                                .cpu_target = 512,
                                                .gpu_target = 16384 };
static const reduce_variant variant_columns_texel = { .shader = &rf_shader_reduce_columns_texel,
                                                      .vector = 4,
                                                      .slice_multiple = 1,
                                                      .min_slice = 32,
                                                      .cpu_target = 128,
                                                      .gpu_target = 16384,
                                                      .texel = true,
                                                      .whole = { &rf_shader_reduce_columns_whole8,
                                                                 &rf_shader_reduce_columns_whole16 } };
static const reduce_variant variant_rows = { .shader = &rf_shader_reduce_rows,
                                             .vector = 1,
                                             .slice_multiple = 4,
                                             .min_slice = 1024,
                                             .cpu_target = 128,
                                             .gpu_target = 16384,
                                             .tail = true };
static const reduce_variant variant_rows_texel = {
    .shader = &rf_shader_reduce_rows_texel,
    .vector = 1,
    .slice_multiple = 4,
    .min_slice = 1024,
    .cpu_target = 128,
    .gpu_target = 16384,
    .tail = true,
    .texel = true,
    .whole = { &rf_shader_reduce_rows_whole8, &rf_shader_reduce_rows_whole16 },
    .lanes = { &rf_shader_reduce_rows_lanes8, &rf_shader_reduce_rows_lanes16 }
};
static const reduce_variant variant_tree = { .shader = &rf_shader_reduce_tree,
                                             .per_group = true,
                                             .vector = 1,
                                             .slice_multiple = 1,
                                             .min_slice = 1024,
                                             .cpu_target = 64,
                                             .gpu_target = 512 };

static void reduce_form_make(const rf_op_call *call, reduce_form *f)
{
    const rf_shape *shape = &call->in[0].shape;
    const uint32_t axes = rf_reduce_axes(call);
    uint64_t stride = 1;
    int last = -1; /* 1: the group being grown is reduced, 0: kept */
    *f = (reduce_form){ .kept = { 1, 1, 1 }, .red = { 1, 1, 1 }, .n_out = 1, .total = 1, .lead = 1 };
    for (int32_t d = shape->rank - 1; d >= 0; d--) {
        const uint64_t size = (uint64_t)shape->dim[d];
        const int reduced = (axes >> d & 1u) != 0;
        if (size == 1) continue;
        uint32_t *n = reduced ? &f->n_red : &f->n_kept;
        uint64_t *sizes = reduced ? f->red : f->kept, *strides = reduced ? f->red_stride : f->kept_stride;
        if (reduced != last) {
            (*n)++;
            strides[3 - *n] = stride;
        }
        last = reduced;
        sizes[3 - *n] *= size;
        f->lead = sizes[3 - *n];
        *(reduced ? &f->total : &f->n_out) *= size;
        stride *= size;
    }
    f->lead_reduced = last == 1;
}

/* How a call is cut for a variant: chunks that descriptors can span, along the outermost group, and slices within each.
 */
typedef struct reduce_layout {
    reduce_form form;
    uint64_t chunk; /* indices of the outermost group in one chunk; the last chunk may have fewer */
    uint64_t slice_len, slices_per_chunk, total_slices;
    uint64_t workspace;
} reduce_layout;

static uint64_t aligned_step(const rf_device_caps *caps, uint64_t bytes)
{
    uint64_t step = 1;
    while (step < caps->buffer_alignment && step * bytes % caps->buffer_alignment != 0) step *= 2;
    return step;
}

static bool reduce_layout_make(const rf_op_call *call, const rf_device_caps *caps, const reduce_variant *v,
                               reduce_layout *l)
{
    *l = (reduce_layout){ 0 };
    reduce_form *f = &l->form;
    reduce_form_make(call, f);
    const uint64_t in_bytes = rf_tensor_bytes(&call->in[0]), out_bytes = rf_tensor_bytes(&call->out[0]);
    const uint64_t in_unit = in_bytes / f->lead, out_unit = f->lead_reduced ? 0 : out_bytes / f->lead;
    uint64_t in_range = caps->max_storage_range;
    if (v->texel && in_range > 16ull * caps->max_texel_elements) in_range = 16ull * caps->max_texel_elements;
    l->chunk = f->lead;
    if (in_bytes > in_range || out_bytes > caps->max_storage_range) {
        uint64_t step = aligned_step(caps, in_unit);
        if (out_unit != 0 && aligned_step(caps, out_unit) > step) step = aligned_step(caps, out_unit);
        l->chunk = in_range / in_unit;
        if (out_unit != 0 && l->chunk > caps->max_storage_range / out_unit)
            l->chunk = caps->max_storage_range / out_unit;
        l->chunk = l->chunk / step * step;
        if (l->chunk == 0 || l->chunk > f->lead || (f->lead_reduced && out_bytes > caps->max_storage_range))
            return false;
    }
    const uint64_t total = f->lead_reduced ? f->total / f->lead * l->chunk : f->total;
    const uint64_t n_out = f->lead_reduced ? f->n_out : f->n_out / f->lead * l->chunk;
    const uint64_t wanted = (caps->is_cpu ? v->cpu_target : v->gpu_target) / rf_div_up(n_out, v->vector);
    const uint64_t most = rf_div_up(total, v->min_slice);
    /* Half of the limit: blocks are loops of their own. */
    const uint64_t fewest = rf_div_up(total, rf_loop_limit(caps) / 2);
    const uint64_t useful = wanted < 1 ? 1 : wanted > most ? most : wanted;
    const uint64_t slices = useful < fewest ? fewest : useful;
    l->slice_len = rf_align_up(rf_div_up(total, slices), v->slice_multiple);
    l->slices_per_chunk = rf_div_up(total, l->slice_len);
    l->total_slices = l->slices_per_chunk * (f->lead_reduced ? rf_div_up(f->lead, l->chunk) : 1);
    l->workspace = l->total_slices > 1 ? l->total_slices * n_out * sizeof(float) : 0;
    uint32_t grid[3];
    const uint64_t results = l->slices_per_chunk * n_out / v->vector;
    return l->workspace <= caps->max_storage_range && l->total_slices * n_out <= INT32_MAX &&
           rf_grid_make(caps, v->per_group ? results : rf_div_up(results, rf_local_size(caps, 64)), grid);
}

/* Iterations over one slice: blocks of 64, or a share of it and a tree. */
static uint64_t reduce_loops(const reduce_variant *v, uint32_t local, uint64_t slice_len)
{
    const uint64_t len = v->tail ? slice_len / 4 + 4 : slice_len;
    return v->per_group ? rf_div_up(len, local) + 16 : len + 2 * rf_div_up(len, 64) + 2;
}

/* Whether subgroups share rows: whole ones of so many turns of all lanes, and enough of them for every lane to store
 * one. */
static bool shares_rows(const reduce_variant *v, const rf_device_caps *caps, const reduce_push *push)
{
    enum { TURN = 8 * 4 }; /* elements, of a lane */
    if (!v->lanes[0] || caps->driver != RF_DRIVER_LAVAPIPE || !rf_flat_texels(caps)) return false;
    return push->slices == 1 && push->n_out >= caps->subgroup_size && push->total % (TURN * caps->subgroup_size) == 0;
}

/* One dispatch over what is stored in a type; `in` and `out` say where from and to, push->n_out * push->slices results.
 */
static rf_result reduce_stage(rf_kernel_plan *plan, const rf_device_caps *caps, const reduce_variant *v, uint32_t kind,
                              rf_dtype type, const reduce_push *push, const rf_binding *in, const rf_binding *out)
{
    const uint32_t local = rf_local_size(caps, v->per_group ? 128 : 64);
    const bool shared = shares_rows(v, caps, push);
    const rf_shader *shader = shared ? v->lanes[caps->subgroup_size != 8] : v->shader;
    const uint64_t loops = reduce_loops(v, local, push->slice_len) + (shared ? 8 * caps->subgroup_size : 0);
    rf_dispatch *d = rf_kernel_plan_add(plan, shader, loops);
    if (d == NULL) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const uint64_t results = (uint64_t)push->n_out * push->slices / v->vector;
    rf_dispatch_spec(d, local);
    rf_dispatch_spec(d, kind);
    /* The input, and the second view of it. */
    if (!v->texel)
        rf_dispatch_spec(d, rf_dtype_is_narrow(type) ? 1u << 0 | 1u << 2 | rf_type_word(type, caps) << 8 : 0);
    rf_dispatch_push(d, push, sizeof(*push));
    rf_bind(d, *in);
    rf_bind(d, *out);
    if (v->texel) d->bind[0].view = RF_VIEW_TEXEL_RGBA32F;
    if (v->tail) rf_bind(d, *in);
    rf_dispatch_groups(d, caps, v->per_group ? results : rf_div_up(results, local));
    return RF_OK;
}

/* What adds `slices` of n_out results up: where texels are fast the kernel that has made the slices, as a rule. */
static const reduce_variant *combine_variant(const rf_device_caps *caps, uint64_t slices, uint64_t n_out)
{
    if (slices > rf_loop_limit(caps) / 2 || (!caps->is_cpu && slices >= 64)) return &variant_tree;
    const bool texels = caps->driver == RF_DRIVER_LAVAPIPE && slices * n_out / 4 <= caps->max_texel_elements;
    if (texels && n_out == 1) return &variant_rows_texel;
    return texels && n_out % 4 == 0 ? &variant_columns_texel : &variant_any;
}

/* Adds the slices of n_out results in the workspace up. */
static rf_result reduce_combine(rf_kernel_plan *plan, const rf_device_caps *caps, uint32_t kind, uint64_t slices,
                                uint64_t n_out, float scale, const rf_binding *out)
{
    const reduce_push push = { .n_out = (uint32_t)n_out,
                               .slices = 1,
                               .slice_len = (uint32_t)slices,
                               .total = (uint32_t)slices,
                               .scale = scale,
                               .kept1 = 1,
                               .kept2 = (uint32_t)n_out,
                               .kept_stride = { 0, 0, 1 },
                               .red1 = 1,
                               .red2 = (uint32_t)slices,
                               .red_stride = { 0, 0, (uint32_t)n_out } };
    const rf_binding in = { .kind = RF_BIND_WORKSPACE, .size = slices * n_out * sizeof(float) };
    const uint32_t combined = kind == KIND_MAX || kind == KIND_MIN ? kind : KIND_SUM;
    return reduce_stage(plan, caps, combine_variant(caps, slices, n_out), combined, RF_F32, &push, &in, out);
}

static uint32_t kind_given(const rf_op_call *call)
{
    const rf_reduce_attr *attr = call->attr;
    return attr != NULL ? attr->kind : RF_REDUCE_KIND_SUM;
}

/* What shaders do, of which the mean is a sum and a factor. */
static uint32_t kind_of(const rf_op_call *call)
{
    static const uint32_t kinds[] = { [RF_REDUCE_KIND_SUM] = KIND_SUM,     [RF_REDUCE_KIND_MEAN] = KIND_SUM,
                                      [RF_REDUCE_KIND_MAX] = KIND_MAX,     [RF_REDUCE_KIND_SUM_SQUARES] = KIND_SQUARES,
                                      [RF_REDUCE_KIND_SUM_ABS] = KIND_ABS, [RF_REDUCE_KIND_MIN] = KIND_MIN };
    return kinds[kind_given(call)];
}

static float scale_of(const rf_op_call *call, const reduce_form *f)
{
    return kind_given(call) == RF_REDUCE_KIND_MEAN ? (float)(1.0 / (double)f->total) : 1.0f;
}

/* One dispatch makes the slices and adds them up, where dispatches cost the most: no chunks, and no more results than
 * one workgroup adds up in little time. */
static bool is_whole(const reduce_variant *v, const reduce_layout *l, const rf_device_caps *caps)
{
    const uint64_t few = 4096;
    if (!v->whole[0] || l->total_slices < 2 || l->chunk != l->form.lead) return false;
    if (caps->driver != RF_DRIVER_LAVAPIPE || !rf_flat_texels(caps)) return false;
    return v->vector > 1 ? l->total_slices * l->form.n_out <= few : l->form.n_out == 1;
}

static rf_result reduce_plan_whole(const rf_op_call *call, const rf_device_caps *caps, const reduce_variant *v,
                                   const reduce_layout *l, rf_kernel_plan *plan)
{
    const reduce_form *f = &l->form;
    const uint64_t lanes = caps->subgroup_size, results = f->n_out * l->total_slices / v->vector;
    const reduce_push push = {
        .n_out = (uint32_t)f->n_out,
        .slices = (uint32_t)l->total_slices,
        .slice_len = (uint32_t)l->slice_len,
        .total = (uint32_t)f->total,
        .scale = scale_of(call, f),
        .kept1 = (uint32_t)f->kept[1],
        .kept2 = (uint32_t)f->kept[2],
        .kept_stride = { (uint32_t)f->kept_stride[0], (uint32_t)f->kept_stride[1], (uint32_t)f->kept_stride[2] },
        .red1 = (uint32_t)f->red[1],
        .red2 = (uint32_t)f->red[2],
        .red_stride = { (uint32_t)f->red_stride[0], (uint32_t)f->red_stride[1], (uint32_t)f->red_stride[2] }
    };
    const uint64_t loops = reduce_loops(v, (uint32_t)lanes, l->slice_len) + l->total_slices * f->n_out / lanes + 16;
    rf_dispatch *d = rf_kernel_plan_add(plan, v->whole[lanes != 8], loops);
    if (d == NULL) return RF_ERROR_OUT_OF_HOST_MEMORY;
    plan->workspace = l->workspace;
    plan->counters = sizeof(uint32_t);
    rf_dispatch_spec(d, (uint32_t)lanes);
    rf_dispatch_spec(d, kind_of(call));
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_bind(d, RF_BIND_INPUT, 0, RF_VIEW_TEXEL_RGBA32F, false);
    rf_bind_bytes(d, RF_BIND_WORKSPACE, 0, 0, l->workspace);
    if (v->tail) rf_bind_whole(d, RF_BIND_INPUT, 0);
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    rf_bind_whole(d, RF_BIND_COUNTERS, 0);
    rf_dispatch_groups(d, caps, rf_div_up(results, lanes));
    return RF_OK;
}

static rf_result reduce_plan_variant(const rf_op_call *call, const rf_device_caps *caps, const reduce_variant *v,
                                     rf_kernel_plan *plan)
{
    const uint32_t kind = kind_of(call);
    reduce_layout l;
    if (!reduce_layout_make(call, caps, v, &l))
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "reduce: the tensor is too large for this kernel");
    if (is_whole(v, &l, caps)) return reduce_plan_whole(call, caps, v, &l, plan);
    const reduce_form *f = &l.form;
    const float scale = scale_of(call, f);
    const uint64_t in_unit = rf_tensor_bytes(&call->in[0]) / f->lead;
    const uint64_t out_unit = rf_tensor_bytes(&call->out[0]) / f->lead;
    const rf_binding workspace = { .kind = RF_BIND_WORKSPACE, .write = true, .size = l.workspace };
    plan->workspace = l.workspace;
    uint64_t first_slice = 0;
    for (uint64_t first = 0; first < f->lead; first += l.chunk) {
        const uint64_t chunk = f->lead - first < l.chunk ? f->lead - first : l.chunk;
        const uint64_t total = f->lead_reduced ? f->total / f->lead * chunk : f->total;
        const uint64_t n_out = f->lead_reduced ? f->n_out : f->n_out / f->lead * chunk;
        const uint64_t slices = rf_div_up(total, l.slice_len);
        rf_binding in = { .kind = RF_BIND_INPUT,
                          .offset = first * in_unit,
                          .size = rf_align_up(chunk * in_unit, sizeof(uint32_t)) };
        rf_binding out = { .kind = RF_BIND_OUTPUT,
                           .write = true,
                           .offset = f->lead_reduced ? 0 : first * out_unit,
                           .size = n_out * sizeof(float) };
        reduce_push push = { .n_out = (uint32_t)n_out,
                             .slices = (uint32_t)slices,
                             .slice_len = (uint32_t)l.slice_len,
                             .total = (uint32_t)total,
                             .first_slice = (uint32_t)first_slice,
                             .scale = l.total_slices > 1 ? 1.0f : scale,
                             .kept1 = (uint32_t)f->kept[1],
                             .kept2 = (uint32_t)f->kept[2],
                             .red1 = (uint32_t)f->red[1],
                             .red2 = (uint32_t)f->red[2] };
        for (int i = 0; i < 3; i++) {
            push.kept_stride[i] = (uint32_t)f->kept_stride[i];
            push.red_stride[i] = (uint32_t)f->red_stride[i];
        }
        RF_TRY(
            reduce_stage(plan, caps, v, kind, call->in[0].dtype, &push, &in, l.total_slices > 1 ? &workspace : &out));
        plan->items[plan->count - 1].concurrent = f->lead_reduced && first > 0;
        if (f->lead_reduced) first_slice += slices;
        if (!f->lead_reduced && l.total_slices > 1)
            RF_TRY(reduce_combine(plan, caps, kind, slices, n_out, scale, &out));
    }
    if (f->lead_reduced && l.total_slices > 1) {
        const rf_binding out = { .kind = RF_BIND_OUTPUT, .write = true };
        RF_TRY(reduce_combine(plan, caps, kind, first_slice, f->n_out, scale, &out));
    }
    return RF_OK;
}

/* ---- strips of columns, for GPUs ---- */

typedef struct strips_job {
    reduce_form form;
    uint32_t width; /* elements of a vector */
    rf_strips strips;
    uint64_t workspace;
} strips_job;

/* The last dimension stays, and one group of dimensions before it is reduced. */
static bool strips_job_make(const rf_op_call *call, const rf_device_caps *caps, strips_job *s)
{
    *s = (strips_job){ 0 };
    const reduce_form *f = &s->form;
    reduce_form_make(call, &s->form);
    if (f->n_red != 1 || f->n_kept < 1 || f->kept_stride[2] != 1 || !rf_fits_storage(call, caps)) return false;
    s->width = f->kept[2] % 4 == 0 ? 4 : 1;
    s->strips = rf_strips_make(caps, f->n_out / f->kept[2], f->total, f->kept[2] / s->width, s->width);
    s->workspace = s->strips.parts > 1 ? s->strips.parts * f->n_out * sizeof(float) : 0;
    return rf_strips_fit(caps, &s->strips, s->workspace);
}

static double strips_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    strips_job s;
    if (!strips_job_make(call, caps, &s)) return RF_SCORE_NONE;
    /* With so many columns an invocation for each is enough to do for all units. */
    const uint64_t units = caps->compute_units > 0 ? caps->compute_units : 16;
    const bool wide = s.form.n_out / s.width >= 512 * units;
    return caps->is_cpu || (s.width == 4 && wide) ? RF_SCORE_RESERVE : RF_SCORE_EXACT;
}

static rf_result strips_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    strips_job s;
    if (!strips_job_make(call, caps, &s)) return RF_FAIL(RF_ERROR_INTERNAL, "%s: not eligible", call->op->name);
    const rf_dtype type = call->in[0].dtype;
    rf_dispatch *d = rf_kernel_plan_add(plan, s.width == 4 ? &rf_shader_reduce_strips_vec4 : &rf_shader_reduce_strips,
                                        s.strips.loops);
    if (d == NULL) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, s.strips.local);
    rf_dispatch_spec(d, kind_of(call));
    rf_dispatch_spec(d, rf_dtype_is_narrow(type) ? 1u | rf_type_word(type, caps) << 8 : 0);
    const uint32_t push[RF_STRIPS_PUSH + 2] = { [RF_STRIPS_PUSH] = (uint32_t)s.strips.matrices,
                                                [RF_STRIPS_PUSH + 1] = rf_float_word(scale_of(call, &s.form)) };
    rf_dispatch_push(d, push, sizeof(push));
    rf_bind_whole(d, RF_BIND_INPUT, 0);
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    rf_strips_plan(caps, plan, d, &s.strips, s.workspace);
    return RF_OK;
}

/* ---- the kernels ---- */

static double any_score_of(const rf_op_call *call, const rf_device_caps *caps, const reduce_variant *v)
{
    reduce_layout l;
    return reduce_layout_make(call, caps, v, &l) ? RF_SCORE_ANY : RF_SCORE_NONE;
}

/* Texel views gain where the driver makes single loads of vectors only, not when a call becomes many dispatches. */
static double texel_score(const reduce_layout *l, const rf_device_caps *caps)
{
    return caps->driver == RF_DRIVER_LAVAPIPE && l->chunk == l->form.lead ? RF_SCORE_DRIVER : RF_SCORE_RESERVE;
}

static double columns_score_of(const rf_op_call *call, const rf_device_caps *caps, const reduce_variant *v)
{
    reduce_layout l;
    if (!reduce_layout_make(call, caps, v, &l)) return RF_SCORE_NONE;
    const bool fits = l.form.n_red == 1 && l.form.n_kept >= 1 && l.form.kept_stride[2] == 1 && l.form.kept[2] % 4 == 0;
    return !fits ? RF_SCORE_NONE : v->texel ? texel_score(&l, caps) : RF_SCORE_SHAPE;
}

/* The last dimension, or all of them, is what is reduced. */
static bool is_rows(const reduce_form *f)
{
    return f->n_red == 1 && f->n_kept <= 1 && f->red_stride[2] == 1;
}

static double rows_score_of(const rf_op_call *call, const rf_device_caps *caps, const reduce_variant *v)
{
    reduce_layout l;
    if (!reduce_layout_make(call, caps, v, &l) || !is_rows(&l.form)) return RF_SCORE_NONE;
    if (l.form.total % 4 != 0 && l.form.n_out > 1) return RF_SCORE_NONE; /* only a single row may have a tail */
    if (!caps->is_cpu) return RF_SCORE_RESERVE; /* strided reads: a GPU would not coalesce them */
    return v->texel ? texel_score(&l, caps) : RF_SCORE_SHAPE;
}

static double tree_score_of(const rf_op_call *call, const rf_device_caps *caps, const reduce_variant *v)
{
    reduce_layout l;
    if (!reduce_layout_make(call, caps, v, &l) || l.form.n_red != 1) return RF_SCORE_NONE;
    if (caps->is_cpu) return RF_SCORE_RESERVE;
    return l.form.red_stride[2] == 1 && l.form.total >= 64 ? RF_SCORE_SHAPE : RF_SCORE_RESERVE;
}

#define KERNEL(id, text, score_of) RF_VARIANT(static, kernel_##id, text, score_of, reduce_plan_variant, &variant_##id)
#define NARROW_KERNEL(id, text, score_of)                                                                              \
    RF_NARROW_VARIANT(static, kernel_##id, text, score_of, reduce_plan_variant, &variant_##id, rf_always_narrow)
NARROW_KERNEL(any, "any", any_score_of);
NARROW_KERNEL(columns, "columns_vec4", columns_score_of);
KERNEL(columns_texel, "columns_texel", columns_score_of);
NARROW_KERNEL(rows, "rows_vec4", rows_score_of);
KERNEL(rows_texel, "rows_texel", rows_score_of);
NARROW_KERNEL(tree, "tree", tree_score_of);
static const rf_kernel kernel_strips = { "strips", strips_score, strips_plan, .narrow = rf_always_narrow };
const rf_kernel *const rf_reduce_kernels[RF_NUM_REDUCE_KERNELS] = {
    [RF_REDUCE_ANY] = &kernel_any,
    [RF_REDUCE_COLUMNS] = &kernel_columns,
    [RF_REDUCE_COLUMNS_TEXEL] = &kernel_columns_texel,
    [RF_REDUCE_ROWS] = &kernel_rows,
    [RF_REDUCE_ROWS_TEXEL] = &kernel_rows_texel,
    [RF_REDUCE_TREE] = &kernel_tree,
    [RF_REDUCE_STRIPS] = &kernel_strips,
};
