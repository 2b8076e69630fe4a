/* SPDX-License-Identifier: Apache-2.0 */
/* Broadcasting: its rules, and the ops that undo it (sum_to_like), apply it (broadcast_like) and start it (fill_like).
 */
#include <string.h>

#include "graph/batch_dims.h"
#include "ops/kit.h"
#include "ops/pointwise/common/elementwise.h"
#include "ops/reduction/common/loss.h"
#include "ops/reduction/common/reduce.h"

rf_result rf_broadcast_shape(const char *op, rf_shape a, rf_shape b, rf_shape *out)
{
    rf_shape r = { .rank = a.rank > b.rank ? a.rank : b.rank };
    for (int32_t d = 0; d < r.rank; d++) {
        const int32_t da = d - (r.rank - a.rank), db = d - (r.rank - b.rank);
        const int64_t x = da >= 0 ? a.dim[da] : 1, y = db >= 0 ? b.dim[db] : 1;
        if (x != y && x != 1 && y != 1) {
            char first[96], second[96];
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: shapes %s and %s do not broadcast together", op,
                           rf_shape_format(a, first, sizeof(first)), rf_shape_format(b, second, sizeof(second)));
        }
        r.dim[d] = x == 1 ? y : x;
    }
    *out = r;
    return RF_OK;
}

void rf_broadcast_collapse(rf_shape full, const rf_tensor_desc *in, uint32_t n_in, rf_collapsed *out)
{
    memset(out, 0, sizeof(*out));
    uint32_t last = ~0u; /* which inputs have the dimension before, as a mask */
    for (int32_t d = 0; d < full.rank; d++) {
        if (full.dim[d] == 1) continue;
        uint32_t mask = 0;
        for (uint32_t i = 0; i < n_in; i++) {
            const int32_t own = d - (full.rank - in[i].shape.rank);
            if (own >= 0 && in[i].shape.dim[own] != 1) mask |= 1u << i;
        }
        if (mask == last) {
            out->size[out->rank - 1] *= (uint64_t)full.dim[d];
            continue;
        }
        for (uint32_t i = 0; i < n_in; i++) out->present[i] |= (mask >> i & 1) << out->rank;
        out->size[out->rank++] = (uint64_t)full.dim[d];
        last = mask;
    }
}

/* `small` broadcasts to `full`. */
static bool broadcasts_to(rf_shape small, rf_shape full)
{
    if (small.rank > full.rank) return false;
    for (int32_t d = 0; d < small.rank; d++)
        if (small.dim[d] != 1 && small.dim[d] != full.dim[d + full.rank - small.rank]) return false;
    return true;
}

/* Index into a tensor of shape `small` of element e of one of shape `full`. */
static int64_t broadcast_index(rf_shape small, rf_shape full, int64_t e)
{
    int64_t index = 0, stride = 1;
    for (int32_t d = full.rank - 1; d >= 0; d--) {
        const int64_t at = e % full.dim[d];
        e /= full.dim[d];
        const int32_t own = d - (full.rank - small.rank);
        if (own < 0 || small.dim[own] == 1) continue;
        index += at * stride;
        stride *= small.dim[own];
    }
    return index;
}

static rf_result infer_between(rf_op_call *call, bool to_small)
{
    const rf_shape x = call->in[0].shape, like = call->in[1].shape;
    if (call->in[0].dtype != RF_F32)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: input is %s, not f32; cast it first", call->op->name,
                       rf_dtype_name(call->in[0].dtype));
    if (!(to_small ? broadcasts_to(like, x) : broadcasts_to(x, like))) {
        char first[96], second[96];
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: shape %s does not broadcast to %s", call->op->name,
                       rf_shape_format(to_small ? like : x, first, sizeof(first)),
                       rf_shape_format(to_small ? x : like, second, sizeof(second)));
    }
    call->out[0] = (rf_tensor_desc){ RF_F32, like };
    return RF_OK;
}

static rf_cost cost_copy(const rf_op_call *call)
{
    return rf_cost_of(call, (double)rf_desc_count(&call->in[0]));
}

/* ---- sum_to_like ---- */

static rf_result sum_infer(rf_op_call *call)
{
    return infer_between(call, true);
}

static rf_result sum_gradient(rf_grad_context *ctx)
{
    rf_value in[2] = { ctx->dout[0], ctx->in[0] };
    return rf_graph_add(ctx->graph, &rf_op_broadcast_like, NULL, in, 2, &ctx->din[0]);
}

static rf_result sum_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const int64_t count = rf_shape_count(call->in[0].shape), outputs = rf_shape_count(call->out[0].shape);
    const float *x = in[0];
    double *sums = rf_calloc((size_t)outputs, sizeof(*sums));
    if (!sums) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (int64_t e = 0; e < count; e++) sums[broadcast_index(call->out[0].shape, call->in[0].shape, e)] += x[e];
    for (int64_t i = 0; i < outputs; i++) ((float *)out[0])[i] = (float)sums[i];
    rf_free(sums);
    return RF_OK;
}

/* The tensor as alternating runs of dimensions that stay and dimensions that are summed. */
typedef struct sum_layout {
    uint64_t outputs, elements; /* kept, and summed for each */
    bool columns;               /* a matrix whose rows are added up */
    bool leading_summed;
    uint64_t leading, row; /* the outermost run: its size, and elements of each step of it */
    uint32_t kept, summed;
    uint64_t kept_size[3], kept_stride[3], summed_size[3], summed_stride[3]; /* innermost first */
} sum_layout;

static void sum_layout_of(const rf_op_call *call, sum_layout *l)
{
    rf_collapsed c;
    rf_broadcast_collapse(call->in[0].shape, &call->out[0], 1, &c);
    *l = (sum_layout){ .outputs = 1,
                       .elements = 1,
                       .columns = c.rank == 2 && c.present[0] == 2,
                       .leading = 1,
                       .row = 1,
                       .kept_size = { 1, 1, 1 },
                       .summed_size = { 1, 1, 1 } };
    uint64_t stride = 1;
    for (uint32_t d = c.rank; d-- > 0;) {
        if (c.present[0] >> d & 1) {
            l->kept_size[l->kept] = c.size[d];
            l->kept_stride[l->kept++] = stride;
            l->outputs *= c.size[d];
        } else {
            l->summed_size[l->summed] = c.size[d];
            l->summed_stride[l->summed++] = stride;
            l->elements *= c.size[d];
        }
        l->leading = c.size[d];
        l->leading_summed = !(c.present[0] >> d & 1);
        l->row = stride;
        stride *= c.size[d];
    }
}

/* `n` steps of the outermost run from step `first` on, as a layout of its own. */
static sum_layout sum_chunk(const sum_layout *l, uint64_t n)
{
    sum_layout chunk = *l;
    if (l->leading_summed) {
        chunk.summed_size[l->summed - 1] = n;
        chunk.elements = l->elements / l->leading * n;
    } else if (l->kept) {
        chunk.kept_size[l->kept - 1] = n;
        chunk.outputs = l->outputs / l->leading * n;
    }
    return chunk;
}

/* Steps of the outermost run that one descriptor takes, 0 when not even one fits. */
static uint64_t sum_steps(const sum_layout *l, const rf_device_caps *caps)
{
    if (l->leading * l->row * 4 <= caps->max_storage_range) return l->leading;
    return (caps->max_storage_range - caps->buffer_alignment) / (l->row * 4);
}

/* The number of slices that sums are cut into: enough to occupy the device, few enough to be added up quickly
 * afterwards. */
static uint64_t sum_slices(const rf_device_caps *caps, const sum_layout *l)
{
    const uint64_t lanes = l->columns && l->outputs % 4 == 0 ? l->outputs / 4 : l->outputs;
    const uint64_t longest = rf_loop_limit(caps) / 2; /* of the sums in a slice, and of the sum of slices */
    const uint64_t busy = rf_div_up(caps->is_cpu ? 4096 : 32768, lanes), wanted = busy < longest ? busy : longest;
    const uint64_t most = rf_div_up(l->elements, 16), fewest = rf_div_up(l->elements, longest);
    const uint64_t useful = wanted < most ? wanted : most, slices = useful < fewest ? fewest : useful;
    return slices < 4 && fewest == 1 ? 1 : rf_div_up(l->elements, rf_div_up(l->elements, slices)); /* no empty slice */
}

/* Partial sums over the whole tensor: one row of outputs for each slice of each chunk. */
static uint64_t sum_total_slices(const rf_device_caps *caps, const sum_layout *l, uint64_t steps)
{
    const sum_layout whole = sum_chunk(l, steps), rest = sum_chunk(l, l->leading % steps);
    if (!l->leading_summed) return sum_slices(caps, l);
    return l->leading / steps * sum_slices(caps, &whole) + (l->leading % steps ? sum_slices(caps, &rest) : 0);
}

/* Sums l's rows into `slices` rows. in_offset and out_offset count elements. */
static rf_result plan_columns(const rf_device_caps *caps, rf_kernel_plan *plan, const sum_layout *l, uint64_t slices,
                              rf_binding from, uint64_t in_offset, rf_binding to, uint64_t out_offset)
{
    const uint32_t width = l->outputs % 4 == 0 ? 4 : 1;
    const uint64_t rows = rf_div_up(l->elements, slices);
    rf_dispatch *d =
        rf_kernel_plan_add(plan, width == 4 ? &rf_shader_sum_columns_w4 : &rf_shader_sum_columns_w1, rows / 2 + 1);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, rf_local_size(caps, RF_FLAT_LOCAL));
    const uint32_t push[6] = { (uint32_t)l->elements, (uint32_t)(l->outputs / width), (uint32_t)rows,
                               (uint32_t)slices,      (uint32_t)(in_offset / width),  (uint32_t)(out_offset / width) };
    rf_dispatch_push(d, push, sizeof(push));
    rf_bind_bytes(d, from.kind, 0, from.offset, from.size)->write = false;
    rf_bind_bytes(d, to.kind, 0, to.offset, to.size);
    rf_dispatch_items(d, caps, slices * push[1]);
    return RF_OK;
}

static rf_result plan_strided(const rf_device_caps *caps, rf_kernel_plan *plan, const sum_layout *l, uint64_t slices,
                              rf_binding from, uint64_t in_offset, rf_binding to, uint64_t out_offset,
                              uint64_t out_stride)
{
    rf_dispatch *d = rf_kernel_plan_add(plan, &rf_shader_sum_strided, rf_div_up(l->elements, slices) + 1);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, rf_local_size(caps, RF_FLAT_LOCAL));
    const rf_magic by_inner = rf_magic_make((uint32_t)l->summed_size[0]),
                   by_middle = rf_magic_make((uint32_t)l->summed_size[1]);
    uint32_t push[22] = { (uint32_t)l->outputs, (uint32_t)l->elements, (uint32_t)slices };
    for (uint32_t i = 0; i < 3; i++) {
        push[3 + i] = (uint32_t)l->kept_size[i];
        push[6 + i] = (uint32_t)l->kept_stride[i];
        push[9 + i] = (uint32_t)l->summed_size[i];
        push[12 + i] = (uint32_t)l->summed_stride[i];
    }
    push[15] = (uint32_t)in_offset;
    push[16] = (uint32_t)out_offset;
    push[17] = (uint32_t)out_stride;
    push[18] = by_inner.magic;
    push[19] = by_inner.shift;
    push[20] = by_middle.magic;
    push[21] = by_middle.shift;
    rf_dispatch_push(d, push, sizeof(push));
    rf_bind_bytes(d, from.kind, 0, from.offset, from.size)->write = false;
    rf_bind_bytes(d, to.kind, 0, to.offset, to.size);
    rf_dispatch_items(d, caps, slices * l->outputs);
    return RF_OK;
}

static double sum_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    sum_layout l;
    sum_layout_of(call, &l);
    const uint64_t steps = sum_steps(&l, caps);
    return steps > 0 && sum_total_slices(caps, &l, steps) * l.outputs * 4 <= caps->max_storage_range ? RF_SCORE_ANY
                                                                                                     : RF_SCORE_NONE;
}

static rf_result sum_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    sum_layout l;
    sum_layout_of(call, &l);
    const uint64_t steps = sum_steps(&l, caps);
    if (steps == 0) return RF_FAIL(RF_ERROR_INTERNAL, "sum_to_like: kernel is not eligible");
    const uint64_t total = sum_total_slices(caps, &l, steps);
    const rf_binding output = { RF_BIND_OUTPUT, RF_VIEW_STORAGE, 0, true, 0, 0 };
    const rf_binding partial = { RF_BIND_WORKSPACE, RF_VIEW_STORAGE, 0, true, 0, total * l.outputs * 4 };
    const rf_binding to = total > 1 ? partial : output;
    if (total > 1) plan->workspace = partial.size;
    uint64_t slice = 0;
    for (uint64_t first = 0; first < l.leading; first += steps) {
        const uint64_t n = rf_min(l.leading - first, steps);
        const sum_layout chunk = sum_chunk(&l, n);
        const uint64_t slices = sum_slices(caps, l.leading_summed ? &chunk : &l);
        const uint64_t base = rf_element_base(caps, first * l.row);
        const rf_binding from = { .kind = RF_BIND_INPUT,
                                  .offset = (first * l.row - base) * sizeof(float),
                                  .size = (base + n * l.row) * sizeof(float) };
        /* Chunks of summed runs make rows of their own; chunks of kept runs fill their place in every row. */
        const uint64_t out_offset = l.leading_summed ? slice * l.outputs : first * (l.outputs / l.leading);
        if (l.columns)
            RF_TRY(plan_columns(caps, plan, &chunk, slices, from, base, to, out_offset));
        else
            RF_TRY(plan_strided(caps, plan, &chunk, slices, from, base, to, out_offset, l.outputs));
        plan->items[plan->count - 1].concurrent = first > 0;
        slice += slices;
    }
    sum_layout last = { .outputs = l.outputs, .elements = total };
    return total > 1 ? plan_columns(caps, plan, &last, 1, partial, 0, output, 0) : RF_OK;
}

/* The same sum as the reduce op makes it, in whose attributes no axes stand for all. */
static bool as_reduction(const rf_op_call *call, rf_reduce_attr *attr, rf_op_call *reduction)
{
    const rf_shape *x = &call->in[0].shape, *like = &call->out[0].shape;
    *attr = (rf_reduce_attr){ .kind = RF_REDUCE_KIND_SUM };
    for (int32_t d = 0; d < x->rank; d++) {
        const int32_t own = d - (x->rank - like->rank);
        if (own < 0 || like->dim[own] != x->dim[d]) attr->axes_mask |= 1u << d;
    }
    *reduction = *call;
    reduction->op = &rf_op_reduce;
    reduction->attr = attr;
    reduction->n_in = 1;
    return attr->axes_mask != 0 && rf_desc_count(&call->in[0]) > 0;
}

static double reduce_score(const rf_op_call *call, const rf_device_caps *caps, uint32_t i)
{
    rf_reduce_attr attr;
    rf_op_call reduction;
    return as_reduction(call, &attr, &reduction)
               ? rf_reduce_kernels[i]->score(&reduction, caps, rf_reduce_kernels[i]->data)
               : RF_SCORE_NONE;
}
static rf_result reduce_plan(const rf_op_call *call, const rf_device_caps *caps, uint32_t i, rf_kernel_plan *plan)
{
    rf_reduce_attr attr;
    rf_op_call reduction;
    (void)as_reduction(call, &attr, &reduction);
    return rf_reduce_kernels[i]->plan(&reduction, caps, rf_reduce_kernels[i]->data, plan);
}

/* Where shapes turn out to be the same, which the graph cannot know of a batch of one, nothing is summed. */
static double same_shape_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    (void)caps;
    return rf_shape_equal(call->in[0].shape, call->out[0].shape) ? RF_SCORE_EXACT : RF_SCORE_NONE;
}

static rf_result same_shape_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                 rf_kernel_plan *plan)
{
    static const rf_plan_tensor in[2] = { { RF_BIND_INPUT, 0 }, { RF_BIND_INPUT, 1 } },
                                out[1] = { { RF_BIND_OUTPUT, 0 } };
    rf_op_call copy = *call;
    copy.op = &rf_op_broadcast_like;
    return rf_plan_append(plan, &copy, caps, in, out);
}

/* Sums for a tensor in f32 are not rounded to the gradients' 16 bits. */
static bool sum_makes_f32(const rf_op_call *call)
{
    return call->in[1].dtype == RF_F32;
}

static bool sum_narrow(const rf_op_call *call, const rf_device_caps *caps)
{
    (void)caps;
    return rf_dtype_is_narrow(call->in[0].dtype) && call->out[0].dtype == RF_F32;
}

static const rf_kernel sum_kernel = { "sliced", sum_score, sum_plan };
RF_VARIANT(static, sum_columns, "columns_texel", reduce_score, reduce_plan, RF_REDUCE_COLUMNS_TEXEL);
RF_NARROW_VARIANT(static, sum_rows, "rows_vec4", reduce_score, reduce_plan, RF_REDUCE_ROWS, sum_narrow);
RF_VARIANT(static, sum_rows_texel, "rows_texel", reduce_score, reduce_plan, RF_REDUCE_ROWS_TEXEL);
RF_NARROW_VARIANT(static, sum_tree, "tree", reduce_score, reduce_plan, RF_REDUCE_TREE, sum_narrow);
RF_NARROW_VARIANT(static, sum_strips, "strips", reduce_score, reduce_plan, RF_REDUCE_STRIPS, sum_narrow);
static const rf_kernel sum_copy = { "copy", same_shape_score, same_shape_plan };
static const rf_kernel *const sum_kernels[] = { &sum_kernel, &sum_columns, &sum_rows, &sum_rows_texel,
                                                &sum_tree,   &sum_strips,  &sum_copy };

const rf_op rf_op_sum_to_like = {
    .name = "sum_to_like",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .shape_only = 1u << 1,
    RF_STORES_16(1),
    .makes_f32 = sum_makes_f32,
    .infer = sum_infer,
    .gradient = sum_gradient,
    .reference = sum_reference,
    .cost = cost_copy,
    RF_KERNELS(sum_kernels),
};

rf_result rf_emit_sum_to_like(rf_graph *g, rf_value x, rf_value like, rf_value *out)
{
    bool same;
    RF_TRY(rf_graph_same_shapes(g, x, like, &same));
    *out = x;
    if (same) return RF_OK;
    return rf_graph_add(g, &rf_op_sum_to_like, NULL, (rf_value[]){ x, like }, 2, out);
}

/* ---- fill_like ---- */

static rf_result fill_infer(rf_op_call *call)
{
    call->out[0] = (rf_tensor_desc){ RF_F32, call->in[0].shape };
    return RF_OK;
}

static rf_result fill_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    (void)in;
    const int64_t count = rf_shape_count(call->out[0].shape);
    for (int64_t i = 0; i < count; i++) ((float *)out[0])[i] = *(const float *)call->attr;
    return RF_OK;
}

static rf_cost fill_cost(const rf_op_call *call)
{
    return rf_cost_of(call, 0);
}

static double fill_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    (void)call, (void)caps;
    return RF_SCORE_ANY;
}

static rf_result plan_by_shader(const rf_op_call *call, float value, const rf_device_caps *caps, rf_kernel_plan *plan)
{
    rf_flat_job job = { .shader = &rf_shader_fill, .width = 4, .n_tensors = 1 };
    const rf_push_fill push = { .value = value };
    RF_FLAT_JOB_PUSH(&job, push, n_vec, n_tail);
    if (caps->driver == RF_DRIVER_LAVAPIPE && rf_flat_texels(caps)) {
        job.shader = caps->subgroup_size == 8 ? &rf_shader_fill_texel8 : &rf_shader_fill_texel16;
        job.width = 32;
    }
    job.tensors[0].kind = RF_BIND_OUTPUT;
    job.tensors[0].write = true;
    return rf_flat_job_plan(&job, rf_desc_count(&call->out[0]), caps, plan);
}

static rf_result plan_by_driver(float value, rf_kernel_plan *plan)
{
    rf_dispatch *d = rf_kernel_plan_add_fill(plan, rf_float_word(value));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    return RF_OK;
}

static double score_driver(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    if (rf_desc_count(&call->out[0]) > caps->max_storage_range / sizeof(float)) return RF_SCORE_NONE;
    /* In one thread, at the pace of memory: several times as fast as a shader on two processors. */
    const bool copies = caps->driver == RF_DRIVER_LAVAPIPE || caps->driver == RF_DRIVER_SWIFTSHADER;
    return copies ? RF_SCORE_COPY : RF_SCORE_RESERVE;
}

rf_result rf_fill_plan(const rf_op_call *call, float value, const rf_device_caps *caps, rf_kernel_plan *plan)
{
    return score_driver(call, caps, NULL) > RF_SCORE_ANY ? plan_by_driver(value, plan)
                                                         : plan_by_shader(call, value, caps, plan);
}

static rf_result fill_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    return plan_by_shader(call, *(const float *)call->attr, caps, plan);
}

static rf_result fill_plan_driver(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                  rf_kernel_plan *plan)
{
    (void)caps;
    return plan_by_driver(*(const float *)call->attr, plan);
}

static const rf_kernel fill_kernel = { "any", fill_score, fill_plan };
static const rf_kernel fill_by_driver = { "driver", score_driver, fill_plan_driver };
static const rf_kernel *const fill_kernels[] = { &fill_kernel, &fill_by_driver };

typedef struct fill_attr {
    float value;
} fill_attr;
static const rf_attr_field fill_fields[] = { RF_ATTR_NUMBER(fill_attr, value) };

const rf_op rf_op_fill_like = {
    .name = "fill_like",
    RF_ATTRIBUTES(fill_attr, fill_fields),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = RF_OP_NO_GRADIENT,
    .shape_only = 1u << 0,
    .infer = fill_infer,
    .reference = fill_reference,
    .cost = fill_cost,
    RF_KERNELS(fill_kernels),
};

rf_result rf_emit_fill_like(rf_graph *g, float value, rf_value like, rf_value *out)
{
    return rf_graph_add(g, &rf_op_fill_like, &value, &like, 1, out);
}

/* ---- broadcast_like: a copy by the element-wise kernels ---- */

static rf_result broadcast_infer(rf_op_call *call)
{
    return infer_between(call, false);
}

static rf_result broadcast_gradient(rf_grad_context *ctx)
{
    return rf_emit_sum_to_like(ctx->graph, ctx->dout[0], ctx->in[0], &ctx->din[0]);
}

static rf_result broadcast_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const int64_t count = rf_shape_count(call->out[0].shape);
    for (int64_t e = 0; e < count; e++)
        ((float *)out[0])[e] = ((const float *)in[0])[broadcast_index(call->in[0].shape, call->out[0].shape, e)];
    return RF_OK;
}

const rf_elementwise_attr rf_copy_program = { 1, { { RF_FN_COPY, 0, 0, 0, 0 } } };

/* The element-wise call whose first input is ours and that has our output. */
static rf_op_call as_copy(const rf_op_call *call)
{
    rf_op_call copy = *call;
    copy.op = &rf_op_elementwise;
    copy.attr = &rf_copy_program;
    copy.n_in = 1;
    return copy;
}

static double copy_score(const rf_op_call *call, const rf_device_caps *caps, uint32_t i)
{
    const rf_op_call copy = as_copy(call);
    return rf_elementwise_kernels[i]->score(&copy, caps, rf_elementwise_kernels[i]->data);
}
static rf_result copy_plan(const rf_op_call *call, const rf_device_caps *caps, uint32_t i, rf_kernel_plan *plan)
{
    const rf_op_call copy = as_copy(call);
    return rf_elementwise_kernels[i]->plan(&copy, caps, rf_elementwise_kernels[i]->data, plan);
}
RF_VARIANT(static, copy_0, "u64x8", copy_score, copy_plan, 0);
RF_NARROW_VARIANT(static, copy_1, "vec4", copy_score, copy_plan, 1, rf_always_narrow);
RF_VARIANT(static, copy_2, "strided", copy_score, copy_plan, 2);
RF_NARROW_VARIANT(static, copy_3, "texel", copy_score, copy_plan, 3, rf_texels_narrow);
const rf_kernel *const rf_copy_kernels[RF_ELEMENTWISE_NUM_KERNELS] = { &copy_0, &copy_1, &copy_2, &copy_3 };

/* ---- broadcast_like by copies of the driver: of a row, then of what is there ---- */

#define BLOCK_BYTES (64u << 10) /* of what is copied over and over: it stays in a cache of a processor */
#define MOST_COPIES 64u         /* of what is smaller, before that grows */
#define MOST_BLOCKS (1u << 16)
#define LEAST_BYTES (1u << 20) /* of an output that is worth several transfers with barriers between them */

/* The output as `rows` times the input. */
typedef struct repeated {
    uint64_t rows, bytes; /* of a row */
} repeated;

static bool repeated_of(const rf_op_call *call, repeated *out)
{
    rf_collapsed c;
    rf_broadcast_collapse(call->out[0].shape, &call->in[0], 1, &c);
    const bool whole = c.rank == 1 && c.present[0] == 1, row = c.rank == 2 && c.present[0] == 2;
    if (call->in[0].dtype != call->out[0].dtype || !(whole || row)) return false;
    *out = (repeated){ whole ? 1 : c.size[0], c.size[whole ? 0 : 1] * rf_dtype_size(call->in[0].dtype) };
    return true;
}

static double score_repeated(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    repeated r;
    if (!repeated_of(call, &r) || r.rows * r.bytes > caps->max_storage_range) return RF_SCORE_NONE;
    if (r.rows * r.bytes / BLOCK_BYTES > MOST_BLOCKS) return RF_SCORE_NONE;
    const bool copies = caps->driver == RF_DRIVER_LAVAPIPE || caps->driver == RF_DRIVER_SWIFTSHADER;
    return copies && r.rows * r.bytes >= LEAST_BYTES ? RF_SCORE_COPY : RF_SCORE_RESERVE;
}

/* `count` copies of `bytes` that begin the input, or the output where those are there already, to byte `to` of the
 * output and on. */
static rf_result plan_copies(rf_kernel_plan *plan, rf_bind_kind kind, uint64_t bytes, uint64_t to, uint64_t count,
                             bool concurrent)
{
    const rf_runs runs = {
        .bytes = bytes, .to = to, .rank = 1, .count = { (uint32_t)count }, .to_step = { (int64_t)bytes }
    };
    if (count == 0 || bytes == 0) return RF_OK;
    rf_dispatch *d = rf_kernel_plan_add_runs(plan, &runs);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    d->concurrent = concurrent;
    rf_bind_whole(d, kind, 0)->write = false;
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    return RF_OK;
}

static rf_result plan_repeated(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                               rf_kernel_plan *plan)
{
    repeated r = { 0 };
    (void)caps;
    if (!repeated_of(call, &r)) return RF_FAIL(RF_ERROR_UNSUPPORTED, "broadcast_like: the output is not made of rows");
    const uint64_t first = r.bytes >= BLOCK_BYTES ? r.rows : rf_min(r.rows, MOST_COPIES);
    RF_TRY(plan_copies(plan, RF_BIND_INPUT, r.bytes, 0, first, false));
    uint64_t there = first;
    while (there < r.rows) {
        const bool large = there * r.bytes >= BLOCK_BYTES;
        const uint64_t fitting = (r.rows - there) / there, copies = large ? fitting : rf_min(fitting, MOST_COPIES);
        RF_TRY(plan_copies(plan, RF_BIND_OUTPUT, there * r.bytes, there * r.bytes, copies, false));
        const uint64_t now = there * (copies + 1);
        if (copies == fitting) {
            RF_TRY(plan_copies(plan, RF_BIND_OUTPUT, (r.rows - now) * r.bytes, now * r.bytes, 1, copies > 0));
            return RF_OK;
        }
        there = now;
    }
    return RF_OK;
}

/* Bytes are copied, whatever they say. */
static bool takes_repeated(const rf_op_call *call, const rf_device_caps *caps)
{
    (void)caps;
    return call->in[0].dtype == call->out[0].dtype;
}

static const rf_kernel broadcast_repeated = { "runs", score_repeated, plan_repeated, .narrow = takes_repeated };
static const rf_kernel *const broadcast_kernels[] = { &copy_0, &copy_1, &copy_2, &copy_3, &broadcast_repeated };

static bool broadcast_absorb(const rf_graph *graph, rf_node producer, rf_node consumer, rf_fused *fused)
{
    return rf_elementwise_absorb(graph, producer, consumer, fused) ||
           rf_loss_absorb_dloss(graph, producer, consumer, fused);
}

const rf_op rf_op_broadcast_like = {
    .name = "broadcast_like",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .shape_only = 1u << 1,
    RF_STORES_16(1),
    .infer = broadcast_infer,
    .gradient = broadcast_gradient,
    .reference = broadcast_reference,
    .cost = cost_copy,
    .absorb_consumer = broadcast_absorb,
    RF_KERNELS(broadcast_kernels),
};

rf_result rf_emit_broadcast_like(rf_graph *g, rf_value x, rf_value like, rf_value *out)
{
    bool same;
    RF_TRY(rf_graph_same_shapes(g, x, like, &same));
    *out = x;
    if (same) return RF_OK;
    return rf_graph_add(g, &rf_op_broadcast_like, NULL, (rf_value[]){ x, like }, 2, out);
}
