/* SPDX-License-Identifier: Apache-2.0 */
/* Joining tensors along an axis, and splitting one: each is made of the other's gradient. */
#include <string.h>

#include "graph/examples.h"
#include "ops/pointwise/common/strided_copy.h"
#include "ops/pointwise/cpu/cpu.h"

/* ---- shapes ---- */

static rf_result check_axis(const rf_op_call *call, uint32_t input, uint32_t axis)
{
    char shape[96];
    const rf_tensor_desc *x = &call->in[input];
    if (rf_dtype_size(x->dtype) != 4)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: %s tensors are not supported; cast to f32 first", call->op->name,
                       rf_dtype_name(x->dtype));
    if (axis < (uint32_t)x->shape.rank) return RF_OK;
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: shape %s has no axis %u", call->op->name,
                   rf_shape_format(x->shape, shape, sizeof(shape)), axis);
}

/* The shape of the inputs from `first` on, joined along the axis. */
static rf_result infer_joined(const rf_op_call *call, uint32_t first, uint32_t axis, rf_tensor_desc *out)
{
    char a[96], b[96];
    *out = call->in[first];
    for (uint32_t i = first; i < call->n_in; i++) {
        const rf_tensor_desc *x = &call->in[i];
        RF_TRY(check_axis(call, i, axis));
        RF_TRY(rf_expect_dtype(call, i, out->dtype));
        rf_shape but_axis = x->shape;
        but_axis.dim[axis] = out->shape.dim[axis];
        if (!rf_shape_equal(but_axis, out->shape))
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                           "%s: shapes %s and %s differ beside axis %u, along which they are joined", call->op->name,
                           rf_shape_format(call->in[first].shape, a, sizeof(a)),
                           rf_shape_format(x->shape, b, sizeof(b)), axis);
        if (i > first && __builtin_add_overflow(out->shape.dim[axis], x->shape.dim[axis], &out->shape.dim[axis]))
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: axis %u becomes too long", call->op->name, axis);
    }
    return RF_OK;
}

static rf_result concat_infer(rf_op_call *call)
{
    return infer_joined(call, 0, ((const rf_concat_attr *)call->attr)->axis, &call->out[0]);
}

static rf_result concat_grad_infer(rf_op_call *call)
{
    const rf_concat_attr *attr = call->attr;
    rf_tensor_desc whole;
    RF_TRY(infer_joined(call, 1, attr->axis, &whole));
    RF_TRY(rf_expect_dtype(call, 0, whole.dtype));
    RF_TRY(rf_expect_shape(call, 0, &whole.shape, "what the tensors are joined to"));
    call->n_out = 0;
    for (uint32_t i = 1; i < call->n_in; i++)
        if (!(attr->left_out >> (i - 1) & 1)) call->out[call->n_out++] = call->in[i];
    RF_REQUIRE(call->n_out > 0, "concat_grad: no gradient is asked for");
    return RF_OK;
}

static int64_t weight_sum(const rf_split_attr *attr)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < attr->num_parts; i++) sum += attr->weight[i];
    return sum;
}

static rf_result split_infer(rf_op_call *call)
{
    const rf_split_attr *attr = call->attr;
    char shape[96];
    RF_TRY(check_axis(call, 0, attr->axis));
    const int64_t sum = weight_sum(attr), size = call->in[0].shape.dim[attr->axis];
    RF_REQUIRE(attr->num_parts > 0 && sum > 0, "split: no parts are asked for");
    if (size % sum != 0)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "split: axis %u of shape %s does not divide into %lld equal parts",
                       attr->axis, rf_shape_format(call->in[0].shape, shape, sizeof(shape)), (long long)sum);
    call->n_out = attr->num_parts;
    for (uint32_t i = 0; i < attr->num_parts; i++) {
        call->out[i] = call->in[0];
        call->out[i].shape.dim[attr->axis] = size / sum * attr->weight[i];
    }
    return RF_OK;
}

/* ---- examples of the batch ---- */

/* Batches that are joined follow each other. */
static void concat_examples(const void *attr, const rf_examples *const *in, uint32_t n_in, uint32_t i, rf_examples *out)
{
    const int32_t axis = (int32_t)((const rf_concat_attr *)attr)->axis;
    (void)i;
    if (out->dim[axis].outer == 0) return;
    rf_examples_dim joined = { 0, in[0]->dim[axis].inner };
    for (uint32_t k = 0; k < n_in && joined.outer >= 0; k++) {
        const rf_examples_dim one = in[k]->dim[axis];
        const bool fits = one.outer > 0 && one.inner == joined.inner;
        joined = fits ? (rf_examples_dim){ joined.outer + one.outer, one.inner } : RF_EXAMPLES_DIM_UNKNOWN;
    }
    rf_examples_set_dim(out, axis, joined);
}

/* Parts that are whole batches. */
static void split_examples(const void *attr, const rf_examples *const *in, uint32_t n_in, uint32_t i, rf_examples *out)
{
    const rf_split_attr *split = attr;
    const int32_t axis = (int32_t)split->axis;
    const rf_examples_dim whole = in[0]->dim[axis];
    const int64_t outer = whole.outer * split->weight[i], sum = weight_sum(split);
    (void)n_in;
    if (out->dim[axis].outer == 0) return;
    const bool fits = whole.outer > 0 && outer % sum == 0;
    rf_examples_set_dim(out, axis, fits ? (rf_examples_dim){ outer / sum, whole.inner } : RF_EXAMPLES_DIM_UNKNOWN);
}

/* ---- emission ---- */

static rf_result find_axis(const char *name, const rf_tensor_desc *x, int32_t axis, uint32_t *out)
{
    char shape[96];
    const int32_t rank = x->shape.rank;
    if (axis < -rank || axis >= rank)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: shape %s has no axis %d", name,
                       rf_shape_format(x->shape, shape, sizeof(shape)), (int)axis);
    *out = (uint32_t)(axis < 0 ? axis + rank : axis);
    return RF_OK;
}

/* Groups of equal numbers, as few as one op takes each. */
static rf_result emit_groups(rf_graph *g, const rf_concat_attr *attr, const rf_value *in, uint32_t n, rf_value *out)
{
    if (n == 1) {
        *out = in[0];
        return RF_OK;
    }
    if (n <= RF_CONCAT_INPUTS) return rf_graph_add(g, &rf_op_concat, attr, in, n, out);
    rf_value part[RF_CONCAT_INPUTS];
    for (uint32_t i = 0; i < RF_CONCAT_INPUTS; i++) {
        const uint32_t first = (uint32_t)((uint64_t)n * i / RF_CONCAT_INPUTS),
                       next = (uint32_t)((uint64_t)n * (i + 1) / RF_CONCAT_INPUTS);
        RF_TRY(emit_groups(g, attr, in + first, next - first, &part[i]));
    }
    return rf_graph_add(g, &rf_op_concat, attr, part, RF_CONCAT_INPUTS, out);
}

rf_result rf_emit_concat(rf_graph *g, const rf_value *in, uint32_t n_in, int32_t axis, rf_value *out)
{
    rf_concat_attr attr = { 0 };
    RF_REQUIRE(n_in > 0, "concat: there are no tensors to join");
    RF_TRY(find_axis("concat", rf_graph_desc(g, in[0]), axis, &attr.axis));
    return emit_groups(g, &attr, in, n_in, out);
}

/* n copies of x: of seven at once, of copies of those, and what is left. */
static rf_result emit_copies(rf_graph *g, const rf_concat_attr *attr, rf_value x, int64_t n, rf_value *out)
{
    rf_value in[RF_CONCAT_INPUTS];
    uint32_t count = (uint32_t)(n % RF_CONCAT_INPUTS);
    for (uint32_t i = 0; i < RF_CONCAT_INPUTS; i++) in[i] = x;
    if (n < RF_CONCAT_INPUTS) return emit_groups(g, attr, in, count, out);
    rf_value several;
    RF_TRY(rf_graph_add(g, &rf_op_concat, attr, in, RF_CONCAT_INPUTS, &several));
    RF_TRY(emit_copies(g, attr, several, n / RF_CONCAT_INPUTS, &in[count]));
    return emit_groups(g, attr, &in[0], count + 1, out);
}

rf_result rf_emit_tile(rf_graph *g, rf_value x, const int64_t *copies, uint32_t num_axes, rf_value *out)
{
    char shape[96];
    if (num_axes > (uint32_t)rf_graph_desc(g, x)->shape.rank)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "tile: copies along %u axes, but shape %s", num_axes,
                       rf_shape_format(rf_graph_desc(g, x)->shape, shape, sizeof(shape)));
    for (uint32_t d = num_axes; d-- > 0;) {
        const rf_concat_attr attr = { .axis = d };
        if (copies[d] < 1)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "tile: %lld copies along axis %u; at least 1 is needed",
                           (long long)copies[d], d);
        RF_TRY(emit_copies(g, &attr, x, copies[d], &x));
    }
    *out = x;
    return RF_OK;
}

/* `num_parts` equal parts of x: as they are where one op makes them all, else of parts of several. */
static rf_result emit_parts(rf_graph *g, rf_value x, uint32_t axis, uint32_t num_parts, rf_value *out)
{
    rf_split_attr attr = { .axis = axis, .num_parts = num_parts };
    rf_value part[RF_MAX_OUTPUTS]; /* the graph writes them all */
    if (num_parts == 1) {
        *out = x;
        return RF_OK;
    }
    if (num_parts <= RF_CONCAT_INPUTS) {
        for (uint32_t i = 0; i < num_parts; i++) attr.weight[i] = 1;
        RF_TRY(rf_graph_add(g, &rf_op_split, &attr, &x, 1, part));
        memcpy(out, part, num_parts * sizeof(*out));
        return RF_OK;
    }
    uint32_t first[RF_CONCAT_INPUTS + 1];
    for (uint32_t i = 0; i <= RF_CONCAT_INPUTS; i++) first[i] = (uint32_t)((uint64_t)num_parts * i / RF_CONCAT_INPUTS);
    attr.num_parts = RF_CONCAT_INPUTS;
    for (uint32_t i = 0; i < RF_CONCAT_INPUTS; i++) attr.weight[i] = (int32_t)(first[i + 1] - first[i]);
    RF_TRY(rf_graph_add(g, &rf_op_split, &attr, &x, 1, part));
    for (uint32_t i = 0; i < RF_CONCAT_INPUTS; i++)
        RF_TRY(emit_parts(g, part[i], axis, first[i + 1] - first[i], out + first[i]));
    return RF_OK;
}

rf_result rf_emit_split(rf_graph *g, rf_value x, int32_t axis, uint32_t num_parts, rf_value *out)
{
    uint32_t at = 0;
    char shape[96];
    const rf_tensor_desc *desc = rf_graph_desc(g, x);
    RF_TRY(find_axis("split", desc, axis, &at));
    if (num_parts == 0 || num_parts > INT32_MAX || desc->shape.dim[at] % num_parts != 0)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "split: axis %d of shape %s does not divide into %u equal parts",
                       (int)axis, rf_shape_format(desc->shape, shape, sizeof(shape)), num_parts);
    return emit_parts(g, x, at, num_parts, out);
}

/* ---- gradients ---- */

/* Integers have no gradient. */
static rf_result concat_gradient(rf_grad_context *ctx)
{
    rf_concat_attr attr = *(const rf_concat_attr *)ctx->attr;
    rf_value in[RF_MAX_INPUTS] = { ctx->dout[0] }, out[RF_MAX_OUTPUTS];
    if (ctx->dout[0] == 0 || !rf_dtype_is_float(rf_graph_desc(ctx->graph, ctx->in[0])->dtype)) return RF_OK;
    uint32_t needed = 0;
    for (uint32_t i = 0; i < ctx->n_in; i++) {
        in[1 + i] = ctx->in[i];
        needed += ctx->needed[i];
        if (!ctx->needed[i]) attr.left_out |= 1u << i;
    }
    if (needed == 0) return RF_OK;
    RF_TRY(rf_graph_add(ctx->graph, &rf_op_concat_grad, &attr, in, 1 + ctx->n_in, out));
    for (uint32_t i = 0, o = 0; i < ctx->n_in; i++)
        if (ctx->needed[i]) ctx->din[i] = out[o++];
    return RF_OK;
}

/* Joins what flows into the parts again, with zeros where nothing does. */
static rf_result join_gradients(rf_grad_context *ctx, const rf_value *part, const rf_value *dpart, uint32_t n,
                                uint32_t axis)
{
    rf_value in[RF_MAX_INPUTS];
    if (!ctx->needed[0] || !rf_dtype_is_float(rf_graph_desc(ctx->graph, ctx->in[0])->dtype)) return RF_OK;
    for (uint32_t i = 0; i < n; i++) {
        in[i] = dpart[i];
        if (in[i] == 0) RF_TRY(rf_emit_fill_like(ctx->graph, 0, part[i], &in[i]));
    }
    return rf_emit_concat(ctx->graph, in, n, (int32_t)axis, &ctx->din[0]);
}

static rf_result concat_grad_gradient(rf_grad_context *ctx)
{
    const rf_concat_attr *attr = ctx->attr;
    rf_value dpart[RF_MAX_INPUTS] = { 0 };
    for (uint32_t i = 0, o = 0; i + 1 < ctx->n_in; i++)
        if (!(attr->left_out >> i & 1)) dpart[i] = ctx->dout[o++];
    return join_gradients(ctx, ctx->in + 1, dpart, ctx->n_in - 1, attr->axis);
}

static rf_result split_gradient(rf_grad_context *ctx)
{
    return join_gradients(ctx, ctx->out, ctx->dout, ctx->n_out, ((const rf_split_attr *)ctx->attr)->axis);
}

/* ---- cost ---- */

/* Each element once. */
static rf_cost concat_cost(const rf_op_call *call)
{
    rf_cost cost = { 0, 0 };
    for (uint32_t i = 0; i < call->n_out; i++) cost.bytes += 2.0 * (double)rf_tensor_bytes(&call->out[i]);
    return cost;
}

/* ---- the ops ---- */

static const rf_attr_field concat_fields[] = {
    RF_ATTR_UINT(rf_concat_attr, axis, RF_MAX_RANK - 1),
    RF_ATTR_UINT(rf_concat_attr, left_out, (1 << RF_CONCAT_INPUTS) - 1),
};

const rf_op rf_op_concat = {
    .name = "concat",
    .role = RF_COPY_CONCAT,
    RF_ATTRIBUTES(rf_concat_attr, concat_fields),
    .min_in = 1,
    .max_in = RF_CONCAT_INPUTS,
    .n_out = 1,
    RF_STORES_16(1),
    .infer = concat_infer,
    .examples = concat_examples,
    .gradient = concat_gradient,
    .reference = rf_copies_reference,
    .cost = concat_cost,
    .families = { &rf_copies_common, RF_SOFTWARE(&rf_copies_cpu) },
};

const rf_op rf_op_concat_grad = {
    .name = "concat_grad",
    .role = RF_COPY_CONCAT_GRAD,
    RF_ATTRIBUTES(rf_concat_attr, concat_fields),
    .min_in = 2,
    .max_in = 1 + RF_CONCAT_INPUTS,
    .n_out = RF_CONCAT_INPUTS,
    .flags = RF_OP_NO_ONNX,
    .shape_only = ~1u,
    RF_STORES_16(~0u),
    .infer = concat_grad_infer,
    .gradient = concat_grad_gradient,
    .reference = rf_copies_reference,
    .cost = concat_cost,
    .families = { &rf_copies_common, RF_SOFTWARE(&rf_copies_cpu) },
};

static const rf_attr_field split_fields[] = {
    RF_ATTR_UINT(rf_split_attr, axis, RF_MAX_RANK - 1),
    RF_ATTR_UINT(rf_split_attr, num_parts, RF_CONCAT_INPUTS),
    RF_ATTR_INTS(rf_split_attr, weight[0], "weight", RF_CONCAT_INPUTS, 0, INT32_MAX),
};

const rf_op rf_op_split = {
    .name = "split",
    .role = RF_COPY_SPLIT,
    RF_ATTRIBUTES(rf_split_attr, split_fields),
    .min_in = 1,
    .max_in = 1,
    .n_out = RF_CONCAT_INPUTS,
    RF_STORES_16(~0u),
    .infer = split_infer,
    .examples = split_examples,
    .gradient = split_gradient,
    .reference = rf_copies_reference,
    .cost = concat_cost,
    .families = { &rf_copies_common, RF_SOFTWARE(&rf_copies_cpu) },
};
