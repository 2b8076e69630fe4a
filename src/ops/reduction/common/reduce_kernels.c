/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of the reduce op. All cut the reduced elements into slices, reduce each into the workspace and add the slices
 * up with a second dispatch; with one slice, or where the last workgroup adds them up, the first dispatch is all there
 * is. The order of additions depends on shapes and device only.
 */
#include "ops/reduction/common/reduce.h"

uint32_t rf_reduce_axes(const rf_op_call *call)
{
    const rf_reduce_attr *attr = call->attr;
    const uint32_t all = (1u << call->in[0].shape.rank) - 1;
    return attr == NULL || attr->axes_mask == 0 ? all : attr->axes_mask;
}

#define STRIDES(f)                                                                                                     \
    .kept_stride0 = (uint32_t)(f)->kept_stride[0], .kept_stride1 = (uint32_t)(f)->kept_stride[1],                      \
    .kept_stride2 = (uint32_t)(f)->kept_stride[2], .red_stride0 = (uint32_t)(f)->red_stride[0],                        \
    .red_stride1 = (uint32_t)(f)->red_stride[1], .red_stride2 = (uint32_t)(f)->red_stride[2]

const rf_reduce_form rf_reduce_any = { .shader = &rf_shader_reduce_any,
                                       .vector = 1,
                                       .slice_multiple = 1,
                                       .min_slice = 64,
                                       .cpu_target = 512,
                                       .gpu_target = 16384 };
const rf_reduce_form rf_reduce_columns = { .shader = &rf_shader_reduce_columns,
                                           .vector = 4,
                                           .slice_multiple = 1,
                                           .min_slice = 32,
                                           .cpu_target = 512,
                                           .gpu_target = 16384 };
const rf_reduce_form rf_reduce_rows = { .shader = &rf_shader_reduce_rows,
                                        .vector = 1,
                                        .slice_multiple = 4,
                                        .min_slice = 1024,
                                        .cpu_target = 128,
                                        .gpu_target = 16384,
                                        .tail = true };
const rf_reduce_form rf_reduce_tree = { .shader = &rf_shader_reduce_tree,
                                        .per_group = true,
                                        .vector = 1,
                                        .slice_multiple = 1,
                                        .min_slice = 1024,
                                        .cpu_target = 64,
                                        .gpu_target = 512 };

void rf_reduce_groups_make(const rf_op_call *call, rf_reduce_groups *f)
{
    const rf_shape *shape = &call->in[0].shape;
    const uint32_t axes = rf_reduce_axes(call);
    uint64_t stride = 1;
    int last = -1; /* 1: the group being grown is reduced, 0: kept */
    *f = (rf_reduce_groups){ .kept = { 1, 1, 1 }, .red = { 1, 1, 1 }, .n_out = 1, .total = 1, .lead = 1 };
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
    rf_reduce_groups form;
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

static bool reduce_layout_make(const rf_op_call *call, const rf_device_caps *caps, const rf_reduce_form *v,
                               reduce_layout *l)
{
    *l = (reduce_layout){ 0 };
    rf_reduce_groups *f = &l->form;
    rf_reduce_groups_make(call, f);
    const uint64_t in_bytes = rf_tensor_bytes(&call->in[0]), out_bytes = rf_tensor_bytes(&call->out[0]);
    const uint64_t in_unit = in_bytes / f->lead, out_unit = f->lead_reduced ? 0 : out_bytes / f->lead;
    uint64_t in_range = caps->max_storage_range;
    if (v->whole && in_range > 16ull * caps->max_texel_elements) in_range = 16ull * caps->max_texel_elements;
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
static uint64_t reduce_loops(const rf_reduce_form *v, uint32_t local, uint64_t slice_len)
{
    const uint64_t len = v->tail ? slice_len / 4 + 4 : slice_len;
    return v->per_group ? rf_div_up(len, local) + 16 : len + 2 * rf_div_up(len, 64) + 2;
}

/* One dispatch over what is stored in a type; `in` and `out` say where from and to, push->n_out * push->slices results.
 */
static rf_result reduce_stage(rf_kernel_plan *plan, const rf_device_caps *caps, const rf_reduce_form *v, uint32_t kind,
                              rf_dtype type, const rf_push_reduce *push, const rf_binding *in, const rf_binding *out)
{
    const uint32_t local = rf_local_size(caps, v->per_group ? 128 : 64);
    rf_dispatch *d = rf_kernel_plan_add(plan, v->shader, reduce_loops(v, local, push->slice_len));
    if (d == NULL) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const uint64_t results = (uint64_t)push->n_out * push->slices / v->vector;
    rf_dispatch_spec(d, local);
    rf_dispatch_spec(d, kind);
    /* The input, and the second view of it. */
    if (!v->whole)
        rf_dispatch_spec(d, rf_dtype_is_narrow(type) ? 1u << 0 | 1u << 2 | rf_type_word(type, caps) << 8 : 0);
    rf_dispatch_push(d, push, sizeof(*push));
    rf_bind(d, *in);
    rf_bind(d, *out);
    if (v->whole) d->bind[0].view = RF_VIEW_TEXEL_RGBA32F;
    if (v->tail) rf_bind(d, *in);
    rf_dispatch_groups(d, caps, v->per_group ? results : rf_div_up(results, local));
    return RF_OK;
}

/* The form that adds `slices` of n_out results up: the one that has made the slices where that reads texels. */
static const rf_reduce_form *combine_variant(const rf_reduce_form *v, const rf_device_caps *caps, uint64_t slices,
                                             uint64_t n_out)
{
    if (slices > rf_loop_limit(caps) / 2 || (!caps->is_cpu && slices >= 64)) return &rf_reduce_tree;
    const bool texels = v->whole && caps->driver == RF_DRIVER_LAVAPIPE && n_out % 4 == 0 &&
                        slices * n_out / 4 <= caps->max_texel_elements;
    return texels ? v : &rf_reduce_any;
}

/* Adds the slices of n_out results in the workspace up. */
static rf_result reduce_combine(rf_kernel_plan *plan, const rf_device_caps *caps, const rf_reduce_form *v,
                                uint32_t kind, uint64_t slices, uint64_t n_out, float scale, const rf_binding *out)
{
    const rf_push_reduce push = { .n_out = (uint32_t)n_out,
                                  .slices = 1,
                                  .slice_len = (uint32_t)slices,
                                  .total = (uint32_t)slices,
                                  .scale = scale,
                                  .kept1 = 1,
                                  .kept2 = (uint32_t)n_out,
                                  .kept_stride2 = 1,
                                  .red1 = 1,
                                  .red2 = (uint32_t)slices,
                                  .red_stride2 = (uint32_t)n_out };
    const rf_binding in = { .kind = RF_BIND_WORKSPACE, .size = slices * n_out * sizeof(float) };
    const uint32_t combined = kind == RF_KIND_MAX || kind == RF_KIND_MIN ? kind : RF_KIND_SUM;
    return reduce_stage(plan, caps, combine_variant(v, caps, slices, n_out), combined, RF_F32, &push, &in, out);
}

static uint32_t kind_given(const rf_op_call *call)
{
    const rf_reduce_attr *attr = call->attr;
    return attr != NULL ? attr->kind : RF_REDUCE_KIND_SUM;
}

uint32_t rf_reduce_shader_kind(const rf_op_call *call)
{
    static const uint32_t kinds[] = {
        [RF_REDUCE_KIND_SUM] = RF_KIND_SUM,     [RF_REDUCE_KIND_MEAN] = RF_KIND_SUM,
        [RF_REDUCE_KIND_MAX] = RF_KIND_MAX,     [RF_REDUCE_KIND_SUM_SQUARES] = RF_KIND_SQUARES,
        [RF_REDUCE_KIND_SUM_ABS] = RF_KIND_ABS, [RF_REDUCE_KIND_MIN] = RF_KIND_MIN
    };
    return kinds[kind_given(call)];
}

float rf_reduce_scale(const rf_op_call *call, const rf_reduce_groups *f)
{
    return kind_given(call) == RF_REDUCE_KIND_MEAN ? (float)(1.0 / (double)f->total) : 1.0f;
}

/* One dispatch makes the slices and adds them up, where dispatches cost the most: no chunks, and no more results than
 * one workgroup adds up in little time. */
static bool is_whole(const rf_reduce_form *v, const reduce_layout *l, const rf_device_caps *caps)
{
    const uint64_t few = 4096;
    if (!v->whole || l->total_slices < 2 || l->chunk != l->form.lead) return false;
    if (caps->driver != RF_DRIVER_LAVAPIPE || !rf_flat_texels(caps)) return false;
    return l->total_slices * l->form.n_out <= few;
}

static rf_result reduce_plan_whole(const rf_op_call *call, const rf_device_caps *caps, const rf_reduce_form *v,
                                   const reduce_layout *l, rf_kernel_plan *plan)
{
    const rf_reduce_groups *f = &l->form;
    const uint64_t lanes = caps->subgroup_size, results = f->n_out * l->total_slices / v->vector;
    const rf_push_reduce push = { .n_out = (uint32_t)f->n_out,
                                  .slices = (uint32_t)l->total_slices,
                                  .slice_len = (uint32_t)l->slice_len,
                                  .total = (uint32_t)f->total,
                                  .scale = rf_reduce_scale(call, f),
                                  .kept1 = (uint32_t)f->kept[1],
                                  .kept2 = (uint32_t)f->kept[2],
                                  .red1 = (uint32_t)f->red[1],
                                  .red2 = (uint32_t)f->red[2],
                                  STRIDES(f) };
    const uint64_t loops = reduce_loops(v, (uint32_t)lanes, l->slice_len) + l->total_slices * f->n_out / lanes + 16;
    rf_dispatch *d = rf_kernel_plan_add(plan, v->whole, loops);
    if (d == NULL) return RF_ERROR_OUT_OF_HOST_MEMORY;
    plan->workspace = l->workspace;
    plan->counters = sizeof(uint32_t);
    rf_dispatch_spec(d, (uint32_t)lanes);
    rf_dispatch_spec(d, rf_reduce_shader_kind(call));
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_bind(d, RF_BIND_INPUT, 0, RF_VIEW_TEXEL_RGBA32F, false);
    rf_bind_bytes(d, RF_BIND_WORKSPACE, 0, 0, l->workspace);
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    rf_bind_whole(d, RF_BIND_COUNTERS, 0);
    rf_dispatch_groups(d, caps, rf_div_up(results, lanes));
    return RF_OK;
}

rf_result rf_reduce_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    const rf_reduce_form *v = data;
    const uint32_t kind = rf_reduce_shader_kind(call);
    reduce_layout l;
    if (!reduce_layout_make(call, caps, v, &l))
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "reduce: the tensor is too large for this kernel");
    if (is_whole(v, &l, caps)) return reduce_plan_whole(call, caps, v, &l, plan);
    const rf_reduce_groups *f = &l.form;
    const float scale = rf_reduce_scale(call, f);
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
        const rf_push_reduce push = { .n_out = (uint32_t)n_out,
                                      .slices = (uint32_t)slices,
                                      .slice_len = (uint32_t)l.slice_len,
                                      .total = (uint32_t)total,
                                      .first_slice = (uint32_t)first_slice,
                                      .scale = l.total_slices > 1 ? 1.0f : scale,
                                      .kept1 = (uint32_t)f->kept[1],
                                      .kept2 = (uint32_t)f->kept[2],
                                      .red1 = (uint32_t)f->red[1],
                                      .red2 = (uint32_t)f->red[2],
                                      STRIDES(f) };
        RF_TRY(
            reduce_stage(plan, caps, v, kind, call->in[0].dtype, &push, &in, l.total_slices > 1 ? &workspace : &out));
        plan->items[plan->count - 1].concurrent = f->lead_reduced && first > 0;
        if (f->lead_reduced) first_slice += slices;
        if (!f->lead_reduced && l.total_slices > 1)
            RF_TRY(reduce_combine(plan, caps, v, kind, slices, n_out, scale, &out));
    }
    if (f->lead_reduced && l.total_slices > 1) {
        const rf_binding out = { .kind = RF_BIND_OUTPUT, .write = true };
        RF_TRY(reduce_combine(plan, caps, v, kind, first_slice, f->n_out, scale, &out));
    }
    return RF_OK;
}

/* ---- the kernels ---- */

double rf_reduce_any_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_reduce_form *v = data;
    reduce_layout l;
    return reduce_layout_make(call, caps, v, &l) ? RF_SCORE_ANY : RF_SCORE_NONE;
}

/* Texel views gain where the driver makes single loads of vectors only, not when a call becomes many dispatches. */
static double texel_score(const reduce_layout *l, const rf_device_caps *caps)
{
    return caps->driver == RF_DRIVER_LAVAPIPE && l->chunk == l->form.lead ? RF_SCORE_DRIVER : RF_SCORE_RESERVE;
}

double rf_reduce_columns_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_reduce_form *v = data;
    reduce_layout l;
    if (!reduce_layout_make(call, caps, v, &l)) return RF_SCORE_NONE;
    const bool fits = l.form.n_red == 1 && l.form.n_kept >= 1 && l.form.kept_stride[2] == 1 && l.form.kept[2] % 4 == 0;
    return !fits ? RF_SCORE_NONE : v->whole ? texel_score(&l, caps) : RF_SCORE_SHAPE;
}

/* The last dimension, or all of them, is what is reduced. */
static bool is_rows(const rf_reduce_groups *f)
{
    return f->n_red == 1 && f->n_kept <= 1 && f->red_stride[2] == 1;
}

double rf_reduce_rows_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_reduce_form *v = data;
    reduce_layout l;
    if (!reduce_layout_make(call, caps, v, &l) || !is_rows(&l.form)) return RF_SCORE_NONE;
    if (l.form.total % 4 != 0 && l.form.n_out > 1) return RF_SCORE_NONE; /* only a single row may have a tail */
    if (!caps->is_cpu) return RF_SCORE_RESERVE; /* strided reads: a GPU would not coalesce them */
    return RF_SCORE_SHAPE;
}

double rf_reduce_tree_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_reduce_form *v = data;
    reduce_layout l;
    if (!reduce_layout_make(call, caps, v, &l) || l.form.n_red != 1) return RF_SCORE_NONE;
    if (caps->is_cpu) return RF_SCORE_RESERVE;
    return l.form.red_stride[2] == 1 && l.form.total >= 64 ? RF_SCORE_SHAPE : RF_SCORE_RESERVE;
}

static const rf_kernel kernels[] = {
    { "any", rf_reduce_any_score, rf_reduce_plan, &rf_reduce_any, .narrow = rf_always_narrow },
    { "columns_vec4", rf_reduce_columns_score, rf_reduce_plan, &rf_reduce_columns, .narrow = rf_always_narrow },
    { "rows_vec4", rf_reduce_rows_score, rf_reduce_plan, &rf_reduce_rows, .narrow = rf_always_narrow },
    { "tree", rf_reduce_tree_score, rf_reduce_plan, &rf_reduce_tree, .narrow = rf_always_narrow },
};
const rf_kernel_list rf_reduce_common = RF_KERNEL_LIST(kernels);
