/* SPDX-License-Identifier: Apache-2.0 */
/* Sums that undo a broadcast. */
#include "ops/pointwise/common/sum_to_like.h"
#include "graph/batch_dims.h"
#include "ops/pointwise/common/elementwise.h"
#include "ops/pointwise/cpu/cpu.h"
#include "ops/pointwise/gpu/gpu.h"

static rf_result sum_infer(rf_op_call *call)
{
    return rf_broadcast_infer(call, true);
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
    for (int64_t e = 0; e < count; e++) sums[rf_broadcast_index(call->out[0].shape, call->in[0].shape, e)] += x[e];
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
    const rf_push_sum_columns push = { .rows = (uint32_t)l->elements,
                                       .columns = (uint32_t)(l->outputs / width),
                                       .rows_per_slice = (uint32_t)rows,
                                       .slices = (uint32_t)slices,
                                       .in_offset = (uint32_t)(in_offset / width),
                                       .out_offset = (uint32_t)(out_offset / width) };
    rf_dispatch_push(d, &push, sizeof(push));
    rf_bind_bytes(d, from.kind, 0, from.offset, from.size)->write = false;
    rf_bind_bytes(d, to.kind, 0, to.offset, to.size);
    rf_dispatch_items(d, caps, slices * push.columns);
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
    rf_push_sum_strided push = { .outputs = (uint32_t)l->outputs,
                                 .elements = (uint32_t)l->elements,
                                 .slices = (uint32_t)slices,
                                 .in_offset = (uint32_t)in_offset,
                                 .out_offset = (uint32_t)out_offset,
                                 .out_stride = (uint32_t)out_stride,
                                 .inner = { by_inner.magic, by_inner.shift },
                                 .middle = { by_middle.magic, by_middle.shift } };
    for (uint32_t i = 0; i < 3; i++) {
        push.kept_size[i] = (uint32_t)l->kept_size[i];
        push.kept_stride[i] = (uint32_t)l->kept_stride[i];
        push.summed_size[i] = (uint32_t)l->summed_size[i];
        push.summed_stride[i] = (uint32_t)l->summed_stride[i];
    }
    rf_dispatch_push(d, &push, sizeof(push));
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

static const rf_kernel kernels[] = {
    { "sliced", sum_score, sum_plan },
    { RF_SUM_KERNEL("rows_vec4", rf_reduce_rows_score, rf_reduce_plan, &rf_reduce_rows), .narrow = rf_sum_narrow },
    { RF_SUM_KERNEL("tree", rf_reduce_tree_score, rf_reduce_plan, &rf_reduce_tree), .narrow = rf_sum_narrow },
    { "copy", same_shape_score, same_shape_plan },
};

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
    .cost = rf_broadcast_cost,
    RF_KERNELS_AND(kernels, RF_SOFTWARE(&rf_sum_to_like_cpu), RF_GPU(&rf_sum_to_like_gpu)),
};

rf_result rf_emit_sum_to_like(rf_graph *g, rf_value x, rf_value like, rf_value *out)
{
    bool same;
    RF_TRY(rf_graph_same_shapes(g, x, like, &same));
    *out = x;
    if (same) return RF_OK;
    return rf_graph_add(g, &rf_op_sum_to_like, NULL, (rf_value[]){ x, like }, 2, out);
}
