/* SPDX-License-Identifier: Apache-2.0 */
/* Gather: elements along an axis by their indices, such as the rows of an embedding. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "graph/examples.h"
#include "ops/pointwise/common/gather.h"
#include "ops/pointwise/cpu/cpu.h"
#include "rf_shaders.h"

/* ---- shapes ---- */

rf_result rf_gather_infer(const rf_op_call *call, const rf_tensor_desc *x, const rf_tensor_desc *indices,
                          rf_tensor_desc *y)
{
    const rf_gather_attr *attr = call->attr;
    const char *name = call->op->name;
    const int32_t rank = x->shape.rank, num_indices = indices->shape.rank, batch = attr->batch_dims;
    char shape[96], other[96];
    rf_shape_format(x->shape, shape, sizeof(shape));
    rf_shape_format(indices->shape, other, sizeof(other));
    if (x->dtype != RF_F32 && x->dtype != RF_I32 && x->dtype != RF_U8)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: x is %s %s, needs f32, i32 or u8; cast it first", name,
                       rf_dtype_name(x->dtype), shape);
    if (indices->dtype != RF_I32)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: indices are %s %s, need i32; cast them first", name,
                       rf_dtype_name(indices->dtype), other);
    if (attr->axis < 0 || attr->axis >= rank)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: axis %d of x of shape %s, which has %d", name, (int)attr->axis,
                       shape, (int)rank);
    if (rf_desc_count(x) == 0 || rf_desc_count(indices) == 0)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: x of shape %s and indices of shape %s must have elements", name,
                       shape, other);
    if (x->dtype == RF_U8 && (rf_gather_shape_of(attr, &x->shape, &indices->shape).inner % 4 != 0))
        return RF_FAIL(
            RF_ERROR_INVALID_ARGUMENT,
            "%s: of x, u8 %s, words are taken: what is behind axis %d must be a multiple of 4; cast it first", name,
            shape, (int)attr->axis);
    bool alike = (batch == 0 || batch == attr->axis) && batch <= num_indices;
    for (int32_t d = 0; alike && d < batch; d++) alike = x->shape.dim[d] == indices->shape.dim[d];
    if (!alike)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "%s: x of shape %s and indices of shape %s must agree in the first %d dimensions, before axis "
                       "%d",
                       name, shape, other, (int)batch, (int)attr->axis);
    if (rank - 1 + num_indices - batch > RF_MAX_RANK)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "%s: x of shape %s by indices of shape %s has more than %d dimensions", name, shape, other,
                       RF_MAX_RANK);
    *y = (rf_tensor_desc){ .dtype = x->dtype };
    for (int32_t d = 0; d < attr->axis; d++) y->shape.dim[y->shape.rank++] = x->shape.dim[d];
    for (int32_t d = batch; d < num_indices; d++) y->shape.dim[y->shape.rank++] = indices->shape.dim[d];
    for (int32_t d = attr->axis + 1; d < rank; d++) y->shape.dim[y->shape.rank++] = x->shape.dim[d];
    return RF_OK;
}

/* Fours of f32 can be rounded on the way. */
static bool takes_type(const rf_gather_attr *attr, const rf_tensor_desc *x, const rf_tensor_desc *indices)
{
    return x->dtype == RF_F32 && rf_dtype_is_narrow((rf_dtype)attr->dtype) &&
           rf_gather_shape_of(attr, &x->shape, &indices->shape).inner % 4 == 0;
}

static rf_result gather_infer(rf_op_call *call)
{
    const rf_gather_attr *attr = call->attr;
    char shape[96];
    RF_TRY(rf_gather_infer(call, &call->in[0], &call->in[1], &call->out[0]));
    if (attr->dtype == 0) return RF_OK;
    if (!takes_type(attr, &call->in[0], &call->in[1]))
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "gather: x is %s %s, of which no %s is taken, but of f32 with a multiple of 4 behind axis %d; "
                       "cast what is taken",
                       rf_dtype_name(call->in[0].dtype), rf_shape_format(call->in[0].shape, shape, sizeof(shape)),
                       rf_dtype_name((rf_dtype)attr->dtype), (int)attr->axis);
    call->out[0].dtype = (rf_dtype)attr->dtype;
    return RF_OK;
}

/* Rows stand where their indices do, whatever they are looked up in. */
static void gather_examples(const void *attr, const rf_examples *const *in, uint32_t n_in, uint32_t i, rf_examples *out)
{
    const rf_gather_attr *gather = attr;
    const int32_t places = in[1]->shape.rank - gather->batch_dims;
    (void)n_in;
    (void)i;
    for (int32_t d = 0; d < out->shape.rank; d++) {
        const int32_t behind = d - gather->axis;
        if (out->dim[d].outer == 0) continue;
        rf_examples_set_dim(out, d,
                            behind < 0        ? in[0]->dim[d]
                            : behind < places ? in[1]->dim[gather->batch_dims + behind]
                                              : in[0]->dim[gather->axis + 1 + behind - places]);
    }
}

/* ---- host side ---- */

rf_result rf_emit_gather(rf_graph *g, rf_value x, rf_value indices, int32_t axis, int32_t batch_dims, rf_value *out)
{
    const int32_t rank = rf_graph_desc(g, x)->shape.rank;
    const rf_gather_attr attr = { .axis = axis < 0 ? axis + rank : axis, .batch_dims = batch_dims };
    const rf_value in[2] = { x, indices };
    char shape[96];
    if (attr.axis < 0 || attr.axis >= rank)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "gather: axis %d of x of shape %s, which has %d", (int)axis,
                       rf_shape_format(rf_graph_desc(g, x)->shape, shape, sizeof(shape)), (int)rank);
    return rf_graph_add(g, &rf_op_gather, &attr, in, 2, out);
}

rf_result rf_emit_gather_rows(rf_graph *g, rf_value x, rf_value indices, rf_dtype dtype, rf_value *out)
{
    const rf_gather_attr attr = { .dtype = dtype };
    const rf_value in[2] = { x, indices };
    if (takes_type(&attr, rf_graph_desc(g, x), rf_graph_desc(g, indices)))
        return rf_graph_add(g, &rf_op_gather, &attr, in, 2, out);
    RF_TRY(rf_emit_gather(g, x, indices, 0, 0, out));
    return rf_emit_cast(g, *out, dtype, out);
}

static rf_result gather_gradient(rf_grad_context *ctx)
{
    rf_gather_attr attr = *(const rf_gather_attr *)ctx->attr;
    const rf_value in[3] = { ctx->dout[0], ctx->in[1], ctx->in[0] };
    if (ctx->dout[0] == 0 || !ctx->needed[0]) return RF_OK;
    if (!rf_dtype_is_float(rf_graph_desc(ctx->graph, ctx->in[0])->dtype)) return RF_OK; /* integers have none */
    attr.dtype = 0;
    return rf_graph_add(ctx->graph, &rf_op_gather_grad, &attr, in, 3, &ctx->din[0]);
}

/* Casts from f32 happen as rows are taken; rows that would be rounded and cast back are not rounded. */
static bool gather_absorb(const rf_graph *graph, rf_node producer, rf_node consumer, rf_fused *fused)
{
    const rf_node_info *g = &graph->nodes.items[producer], *c = &graph->nodes.items[consumer];
    if (c->op != graph->core->conversion) return false;
    const rf_tensor_desc *x = rf_graph_desc(graph, g->in[0]);
    const rf_dtype to = rf_graph_desc(graph, c->out[0])->dtype;
    rf_gather_attr attr = *(const rf_gather_attr *)g->attr;
    if (x->dtype != RF_F32 || (to != RF_F32 && attr.dtype != 0)) return false;
    attr.dtype = to == RF_F32 ? 0 : to;
    if (attr.dtype != 0 && !takes_type(&attr, x, rf_graph_desc(graph, g->in[1]))) return false;
    *fused = (rf_fused){ .op = &rf_op_gather, .n_in = 2, .in = { g->in[0], g->in[1] } };
    memcpy(fused->attr, &attr, sizeof(attr));
    return true;
}

rf_gather_shape rf_gather_words_of(const rf_op_call *call)
{
    rf_gather_shape s = rf_gather_shape_of(call->attr, &call->in[0].shape, &call->in[1].shape);
    s.inner = s.inner * rf_dtype_size(call->in[0].dtype) / sizeof(uint32_t);
    return s;
}

static void write_row(const rf_op_call *call, const uint32_t *x, uint64_t count, void *y)
{
    const rf_dtype type = call->out[0].dtype;
    for (uint64_t k = 0; k < count; k++) {
        const uint32_t word = x ? x[k] : rf_float_word(NAN);
        float number;
        memcpy(&number, &word, sizeof(number));
        if (type == RF_F16)
            ((uint16_t *)y)[k] = rf_f32_to_f16(number);
        else if (type == RF_BF16)
            ((uint16_t *)y)[k] = rf_f32_to_bf16(number);
        else
            ((uint32_t *)y)[k] = word;
    }
}

static rf_result gather_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_gather_shape s = rf_gather_words_of(call);
    const uint64_t row_bytes = s.inner * (rf_dtype_is_narrow(call->out[0].dtype) ? sizeof(uint16_t) : sizeof(uint32_t));
    const int32_t *indices = in[1];
    uint8_t *y = out[0];
    for (uint64_t slab = 0; slab < s.batch * s.outer; slab++)
        for (uint64_t p = 0; p < s.places; p++, y += row_bytes) {
            const int32_t index = indices[slab / s.outer * s.places + p];
            const bool known = index >= 0 && (uint64_t)index < s.choices;
            const uint32_t *x = (const uint32_t *)in[0] + (slab * s.choices + (known ? (uint64_t)index : 0)) * s.inner;
            write_row(call, known ? x : NULL, s.inner, y);
        }
    return RF_OK;
}

/* Only those rows of x are read that are taken. */
static rf_cost gather_cost(const rf_op_call *call)
{
    return (rf_cost){ 0, 2.0 * (double)rf_tensor_bytes(&call->out[0]) + (double)rf_tensor_bytes(&call->in[1]) };
}

/* ---- kernel ---- */

static double gather_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_gather_shape all = rf_gather_words_of(call);
    return rf_gather_chunk_size(&all, caps, 1).choices > 0 ? RF_SCORE_ANY : RF_SCORE_NONE;
}

/* Elements of 16 bits are copied two at a time. */
bool rf_gather_narrow(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    (void)caps;
    return rf_gather_shape_of(call->attr, &call->in[0].shape, &call->in[1].shape).inner % 2 == 0;
}

/* The word where an index names nothing: NaN of each element of a word. */
static uint32_t mark_of(rf_dtype type)
{
    return type == RF_F16 ? 0x7e007e00u : type == RF_BF16 ? 0x7fc07fc0u : 0x7fc00000u;
}

/* Vectors of a row that an invocation takes by texels: their index is looked up once. */
static uint32_t span_of(const rf_gather_shape *all)
{
    enum { SPAN = 4, FEWEST_GROUPS = 4 };
    const uint64_t elements = all->batch * all->outer * all->places * all->inner;
    const bool several = all->inner % (8 * SPAN) == 0 && elements >= (uint64_t)8 * SPAN * RF_FLAT_LOCAL * FEWEST_GROUPS;
    return several ? SPAN : 1;
}

rf_result rf_gather_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    const rf_gather_form *texels = data;
    const rf_gather_shape all = rf_gather_words_of(call);
    /* Then y has half as many words as x. */
    const bool rounds = call->in[0].dtype == RF_F32 && rf_dtype_is_narrow(call->out[0].dtype);
    rf_gather_shape taken = all;
    if (rounds) taken.inner /= 2;
    const uint32_t types = rounds ? 1u << 2 | rf_type_word(call->out[0].dtype, caps) << 8 : 0;
    const rf_gather_shape size = rf_gather_chunk_size(&all, caps, 1);
    const uint32_t width = texels ? 8 : rf_gather_width(&all), span = texels ? span_of(&all) : 1,
                   inner = (uint32_t)all.inner / (width * span);
    const rf_shader *shader = texels       ? (span > 1 ? texels->four : texels->one)
                              : width == 4 ? &rf_shader_gather_w4
                                           : &rf_shader_gather_w1;
    for (rf_gather_chunk chunk = { 0 }; rf_gather_chunk_next(&all, &size, &chunk);) {
        const rf_magic by_inner = rf_magic_make(inner), by_place = rf_magic_make((uint32_t)chunk.size.places),
                       by_outer = rf_magic_make((uint32_t)chunk.size.outer);
        const uint64_t count = chunk.size.batch * chunk.size.outer * chunk.size.places * inner;
        rf_push_gather push = { .count = (uint32_t)count,
                                .inner = inner,
                                .inner_magic = by_inner.magic,
                                .inner_shift = by_inner.shift,
                                .places = (uint32_t)chunk.size.places,
                                .places_magic = by_place.magic,
                                .places_shift = by_place.shift,
                                .outer_magic = by_outer.magic,
                                .outer_shift = by_outer.shift,
                                .first = (uint32_t)chunk.choice,
                                .choices = (uint32_t)chunk.size.choices,
                                .all_choices = (uint32_t)all.choices };
        rf_dispatch *d = rf_kernel_plan_add(plan, shader, RF_NO_LOOPS);
        if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
        d->concurrent = plan->count > 1; /* chunks write places of their own */
        rf_dispatch_spec(d, rf_local_size(caps, RF_FLAT_LOCAL));
        if (width > 1) rf_dispatch_spec(d, types);
        push.x_offset = rf_gather_bind_x(d, caps, RF_BIND_INPUT, &all, &chunk, width);
        push.indices_offset = rf_gather_bind_indices(d, caps, &all, &chunk);
        push.y_offset = rf_gather_bind_y(d, caps, RF_BIND_OUTPUT, &taken, &chunk, rounds ? width / 2 : width);
        if (chunk.choice == 0) push.mark = mark_of(call->in[0].dtype);
        rf_dispatch_push(d, &push, sizeof(push));
        rf_dispatch_items(d, caps, count);
    }
    return RF_OK;
}

static const rf_kernel gather_kernels[] = {
    { "element", gather_score, rf_gather_plan, .narrow = rf_gather_narrow },
};

/* ---- the op ---- */

static int64_t gather_choices(const rf_op_call *call)
{
    const rf_gather_attr *attr = call->attr;
    return call->in[0].shape.dim[attr->axis];
}

static const char *taken_type_name(uint32_t dtype)
{
    return dtype == 0 ? "x" : rf_dtype_name((rf_dtype)dtype);
}

const rf_attr_field rf_gather_fields[3] = {
    RF_ATTR_INT(rf_gather_attr, axis, 0, RF_MAX_RANK - 1),
    RF_ATTR_INT(rf_gather_attr, batch_dims, 0, RF_MAX_RANK - 1),
    RF_ATTR_NAMED(rf_gather_attr, dtype, RF_BF16, taken_type_name),
};

const rf_op rf_op_gather = {
    .name = "gather",
    RF_ATTRIBUTES(rf_gather_attr, rf_gather_fields),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .choices = gather_choices,
    .index_input = 1,
    RF_STORES_16(1),
    .infer = gather_infer,
    .examples = gather_examples,
    .gradient = gather_gradient,
    .reference = gather_reference,
    .cost = gather_cost,
    .absorb_consumer = gather_absorb,
    RF_KERNELS_AND(gather_kernels, RF_SOFTWARE(&rf_gather_cpu)),
};
