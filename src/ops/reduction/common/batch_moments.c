/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mean and variance of each channel over all examples and places, in one walk over the tensor, with or without what
 * batch normalization makes of them; and what its gradient takes of each channel, in another: what x [..., c] has in
 * its last dimension stays.
 */
#include <math.h>
#include <string.h>

#include "ops/kit.h"
#include "ops/ops.h"
#include "ops/reduction/gpu/column_tiles.h"
#include "rf_shaders.h"

static rf_result expect_channels(const rf_op_call *call, uint32_t input)
{
    RF_TRY(rf_expect_rows(call, input));
    return rf_expect_not_empty(call, input);
}

static rf_result moments_infer(rf_op_call *call)
{
    RF_TRY(expect_channels(call, 0));
    const int64_t channels = (int64_t)rf_desc_columns(&call->in[0]);
    call->out[0] = call->out[1] = (rf_tensor_desc){ RF_F32, RF_SHAPE(channels) };
    return RF_OK;
}

static rf_result averages_infer(rf_op_call *call)
{
    const rf_batch_averages_attr *attr = call->attr;
    const uint32_t expected = attr->scaled ? 4 : 3;
    if (call->n_in != expected)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "batch_averages: %u inputs, needs %u", call->n_in, expected);
    RF_TRY(expect_channels(call, 0));
    const rf_shape channels = RF_SHAPE((int64_t)rf_desc_columns(&call->in[0]));
    for (uint32_t i = 1; i < call->n_in; i++) {
        RF_TRY(rf_expect_dtype(call, i, RF_F32));
        RF_TRY(rf_expect_shape(call, i, &channels, "a number for each channel"));
    }
    for (uint32_t i = 0; i < 5; i++) call->out[i] = (rf_tensor_desc){ RF_F32, channels };
    return RF_OK;
}

static rf_result sums_infer(rf_op_call *call)
{
    const rf_batch_sums_attr *attr = call->attr;
    const uint32_t expected = attr->relu ? 6 : 5;
    if (call->n_in != expected)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "batch_sums: %u inputs, needs %u", call->n_in, expected);
    RF_TRY(expect_channels(call, 0));
    const rf_shape channels = RF_SHAPE((int64_t)rf_desc_columns(&call->in[0]));
    RF_TRY(rf_expect_dtype(call, 1, RF_F32));
    RF_TRY(rf_expect_shape(call, 1, &call->in[0].shape, "a value for each gradient"));
    for (uint32_t i = 2; i < call->n_in; i++) {
        RF_TRY(rf_expect_dtype(call, i, RF_F32));
        RF_TRY(rf_expect_shape(call, i, &channels, "a number for each channel"));
    }
    for (uint32_t i = 0; i < 4; i++) call->out[i] = (rf_tensor_desc){ RF_F32, channels };
    return RF_OK;
}

rf_result rf_emit_batch_moments(rf_graph *g, rf_value x, rf_value *mean, rf_value *variance)
{
    rf_value out[RF_MAX_OUTPUTS];
    RF_TRY(rf_graph_add(g, &rf_op_batch_moments, NULL, &x, 1, out));
    *mean = out[0];
    *variance = out[1];
    return RF_OK;
}

rf_result rf_emit_batch_averages(rf_graph *g, const rf_value in[4], const rf_batch_averages_attr *attr,
                                 rf_batch_averages *averages)
{
    rf_value out[RF_MAX_OUTPUTS];
    RF_TRY(rf_graph_add(g, &rf_op_batch_averages, attr, in, attr->scaled ? 4 : 3, out));
    *averages = (rf_batch_averages){
        .mean = out[0], .variance = out[1], .scale = out[2], .next_mean = out[3], .next_variance = out[4]
    };
    return RF_OK;
}

rf_result rf_emit_batch_sums(rf_graph *g, const rf_value in[6], const rf_batch_sums_attr *attr, rf_batch_sums *sums)
{
    rf_value out[RF_MAX_OUTPUTS];
    RF_TRY(rf_graph_add(g, &rf_op_batch_sums, attr, in, attr->relu ? 6 : 5, out));
    *sums = (rf_batch_sums){ .dgamma = out[0], .dshift = out[1], .slope = out[2], .level = out[3] };
    return RF_OK;
}

/* dmean / rows, plus 2 dvariance (x - mean) / rows: that the variance depends on the mean adds nothing, as deviations
 * from it add up to 0. */
static rf_result moments_gradient(rf_grad_context *ctx)
{
    rf_graph *g = ctx->graph;
    const rf_value x = ctx->in[0];
    rf_value level = 0, slope = 0;
    if (ctx->dout[0]) RF_TRY(rf_graph_add(g, &rf_op_mean_scale, NULL, (rf_value[]){ ctx->dout[0], x }, 2, &level));
    if (ctx->dout[1]) {
        rf_value centred;
        RF_TRY(rf_graph_add(g, &rf_op_mean_scale, NULL, (rf_value[]){ ctx->dout[1], x }, 2, &slope));
        RF_TRY(rf_emit_unary(g, RF_FN_MUL_IMM, 2, slope, &slope));
        RF_TRY(rf_emit_binary(g, RF_FN_SUBTRACT, 0, x, ctx->out[0], &centred));
        RF_TRY(rf_emit_binary(g, RF_FN_MULTIPLY, 0, centred, slope, &ctx->din[0]));
    }
    if (!level) return RF_OK;
    if (ctx->din[0]) return rf_emit_binary(g, RF_FN_ADD, 0, ctx->din[0], level, &ctx->din[0]);
    return rf_emit_broadcast_like(g, level, x, &ctx->din[0]);
}

static rf_result moments_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const float *x = in[0];
    const uint64_t rows = rf_desc_rows(&call->in[0]), columns = rf_desc_columns(&call->in[0]);
    for (uint64_t c = 0; c < columns; c++) {
        double mean = 0, squares = 0;
        for (uint64_t r = 0; r < rows; r++) mean += (double)x[r * columns + c];
        mean /= (double)rows;
        for (uint64_t r = 0; r < rows; r++) {
            const double deviation = (double)x[r * columns + c] - mean;
            squares += deviation * deviation;
        }
        ((float *)out[0])[c] = (float)mean;
        ((float *)out[1])[c] = (float)(squares / (double)rows);
    }
    return RF_OK;
}

static rf_result averages_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_batch_averages_attr *attr = call->attr;
    const float *old_mean = in[1], *old_variance = in[2], *gamma = attr->scaled ? in[3] : NULL;
    RF_TRY(moments_reference(call, in, out));
    const float *mean = out[0], *variance = out[1];
    for (uint64_t c = 0; c < rf_desc_columns(&call->in[0]); c++) {
        ((float *)out[2])[c] =
            (float)((gamma ? (double)gamma[c] : 1) / sqrt((double)variance[c] + (double)attr->epsilon));
        ((float *)out[3])[c] = attr->keep * old_mean[c] + attr->take * mean[c];
        ((float *)out[4])[c] = attr->keep * old_variance[c] + attr->take * variance[c];
    }
    return RF_OK;
}

static rf_result sums_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_batch_sums_attr *attr = call->attr;
    const float *dy = in[0], *x = in[1], *mean = in[2], *scale = in[3], *variance = in[4],
                *shift = attr->relu ? in[5] : NULL;
    const uint64_t rows = rf_desc_rows(&call->in[0]), columns = rf_desc_columns(&call->in[0]);
    for (uint64_t c = 0; c < columns; c++) {
        double product = 0, sum = 0;
        for (uint64_t at = c; at < rows * columns; at += columns) {
            const double centred = (double)x[at] - (double)mean[c];
            const double y = shift ? centred * (double)scale[c] + (double)shift[c] : 1;
            const double slope = y > 0 ? (double)dy[at] : isnan(y) ? y : 0;
            product += slope * centred;
            sum += slope;
        }
        const double spread = (double)variance[c] + (double)attr->epsilon;
        ((float *)out[0])[c] = (float)(product / sqrt(spread));
        ((float *)out[1])[c] = (float)sum;
        ((float *)out[2])[c] = (float)(-(double)scale[c] * product / spread / (double)rows);
        ((float *)out[3])[c] = (float)(-(double)scale[c] * sum / (double)rows);
    }
    return RF_OK;
}

static rf_cost batch_cost(const rf_op_call *call)
{
    return rf_cost_of(call, 4.0 * (double)rf_desc_count(&call->in[0]));
}

/* ---- kernels: slices of rows, each summed by itself, and what puts them together ---- */

typedef enum sums_way { WAY_TEXEL, WAY_VEC4, WAY_SCALAR, NUM_WAYS } sums_way;

/* Deviations of a slice are from its first row. The longer it is, the more is lost where that is an outlier. */
enum { SLICE_LEAST = 16, SLICE_MOST = 512, CPU_TARGET = 512, GPU_TARGET = 16384 };
/* Numbers that one workgroup puts together in less time than lavapipe takes to begin and to end a dispatch; those that
 * it reads and writes of a column beside the sums of slices. */
enum { MOST_JOINED = 16384, OF_COLUMN = 8 };

typedef struct slicing {
    uint64_t rows, columns, width; /* columns in elements */
    uint64_t slice, slices;        /* rows of a slice, all slices */
    uint64_t chunk;                /* rows of a dispatch: as many whole slices as a descriptor takes */
    uint64_t lists;                /* sums that a slice leaves for each column */
    bool joined;                   /* the workgroup that comes last puts the slices together: no dispatch for that */
} slicing;

/* The fewest rows after which descriptors may start again. */
static uint64_t aligned_rows(const rf_device_caps *caps, uint64_t row_bytes)
{
    uint64_t rows = 1;
    while (rows * row_bytes % caps->buffer_alignment != 0) rows *= 2;
    return rows;
}

static bool make_slicing(const rf_op_call *call, const rf_device_caps *caps, sums_way way, slicing *s)
{
    *s = (slicing){ .rows = rf_desc_rows(&call->in[0]),
                    .columns = rf_desc_columns(&call->in[0]),
                    .width = way == WAY_SCALAR ? 1 : 4,
                    .lists = call->op == &rf_op_batch_sums ? 2 : 3 };
    if (s->columns % s->width != 0) return false;
    const uint64_t row_bytes = s->columns * sizeof(float);
    const uint64_t step = aligned_rows(caps, rf_call_is_narrow(call) ? row_bytes / 2 : row_bytes);
    uint64_t range = caps->max_storage_range;
    if (way == WAY_TEXEL && range > 16ull * caps->max_texel_elements) range = 16ull * caps->max_texel_elements;
    const uint64_t most_rows = range / row_bytes; /* of a dispatch */
    const uint64_t most_slices = rf_min(caps->max_storage_range / (s->lists * row_bytes), rf_loop_limit(caps) / 3);
    if (most_rows == 0 || most_slices == 0) return false;

    const uint64_t busy = (caps->is_cpu ? CPU_TARGET : GPU_TARGET) / rf_div_up(s->columns, s->width);
    s->slice = rf_div_up(s->rows, busy > 0 ? busy : 1);
    s->slice = s->slice < SLICE_LEAST ? SLICE_LEAST : s->slice > SLICE_MOST ? SLICE_MOST : s->slice;
    if (s->slice < rf_div_up(s->rows, most_slices)) s->slice = rf_div_up(s->rows, most_slices);
    s->chunk = s->rows;
    if (most_rows < s->rows) {
        s->slice = rf_min(rf_align_up(s->slice, step), most_rows / step * step);
        if (s->slice == 0) return false;
        s->chunk = most_rows / s->slice * s->slice;
    }
    s->slices = rf_div_up(s->rows, s->slice);
    s->joined = way == WAY_TEXEL && caps->driver == RF_DRIVER_LAVAPIPE && rf_flat_texels(caps) && s->chunk == s->rows &&
                (s->lists * s->slices + OF_COLUMN) * s->columns <= MOST_JOINED;
    return s->slices <= most_slices && s->slice <= rf_loop_limit(caps) / 2;
}

static double batch_score(const rf_op_call *call, const rf_device_caps *caps, sums_way way)
{
    slicing s;
    if (!make_slicing(call, caps, way, &s)) return RF_SCORE_NONE;
    if (way == WAY_SCALAR) return RF_SCORE_ANY;
    if (way == WAY_VEC4) return RF_SCORE_WIDE;
    /* Texel views gain where the driver makes single loads of vectors only. */
    return caps->driver == RF_DRIVER_LAVAPIPE ? RF_SCORE_DRIVER : RF_SCORE_RESERVE;
}

/* What is made of each channel's sums, in the end. */
enum { MOST_NUMBERS = 3 };
typedef struct finish {
    const rf_shader *total, *joined[2]; /* the latter for subgroups of 8 and of 16 */
    bool products, averages, scaled;
    uint32_t num_numbers, numbers[MOST_NUMBERS]; /* the last push constants */
} finish;

static finish finish_of(const rf_op_call *call)
{
    if (call->op == &rf_op_batch_averages) {
        const rf_batch_averages_attr *attr = call->attr;
        return (finish){ .total = &rf_shader_batch_averages_total,
                         .joined = { &rf_shader_batch_joined_averages8, &rf_shader_batch_joined_averages16 },
                         .averages = true,
                         .scaled = attr->scaled,
                         .num_numbers = 3,
                         .numbers = { rf_float_word(attr->epsilon), rf_float_word(attr->keep),
                                      rf_float_word(attr->take) } };
    }
    if (call->op == &rf_op_batch_moments)
        return (finish){ .total = &rf_shader_batch_total,
                         .joined = { &rf_shader_batch_joined_moments8, &rf_shader_batch_joined_moments16 },
                         .num_numbers = 1 };
    const rf_batch_sums_attr *attr = call->attr;
    return (finish){ .total = &rf_shader_batch_products_total,
                     .joined = { &rf_shader_batch_joined_products8, &rf_shader_batch_joined_products16 },
                     .products = true,
                     .num_numbers = 1,
                     .numbers = { rf_float_word(attr->epsilon) } };
}

/* What the end reads and writes of each column. */
static void bind_columns(const rf_op_call *call, const finish *f, rf_dispatch *d)
{
    for (uint32_t i = 0; i < call->op->n_out; i++) rf_bind_whole(d, RF_BIND_OUTPUT, i);
    if (f->products) rf_bind_whole(d, RF_BIND_INPUT, 4);
    for (uint32_t i = 1; f->averages && i < call->n_in; i++) rf_bind_whole(d, RF_BIND_INPUT, i);
    if (f->averages && !f->scaled) rf_bind_whole(d, RF_BIND_INPUT, 1); /* the shader names a gamma */
}

static rf_result add_chunk(const rf_op_call *call, const rf_device_caps *caps, sums_way way, const slicing *s,
                           uint64_t first, rf_kernel_plan *plan)
{
    static const rf_shader *const shaders[2][NUM_WAYS] = {
        { &rf_shader_batch_sums_texel, &rf_shader_batch_sums_vec4, &rf_shader_batch_sums },
        { &rf_shader_batch_products_texel, &rf_shader_batch_products_vec4, &rf_shader_batch_products },
    };
    const finish f = finish_of(call);
    const bool products = f.products;
    const rf_shader *shader = s->joined ? f.joined[caps->subgroup_size != 8] : shaders[products][way];
    const uint64_t rows = rf_min(s->chunk, s->rows - first), slices = rf_div_up(rows, s->slice);
    const uint64_t columns = s->columns / s->width;
    uint64_t loops = s->slice + 4;
    if (s->joined) loops += rf_div_up(s->columns, caps->subgroup_size) * (2 * s->slices + 2);
    uint32_t types = 0;
    rf_dispatch *d = rf_kernel_plan_add(plan, shader, loops);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, s->joined ? caps->subgroup_size : rf_local_size(caps, 64));
    uint32_t push[6 + MOST_NUMBERS] = { (uint32_t)rows,
                                        (uint32_t)columns,
                                        (uint32_t)s->slice,
                                        (uint32_t)slices,
                                        (uint32_t)(first / s->slice),
                                        (uint32_t)(s->slices * columns) };
    memcpy(push + 6, f.numbers, sizeof(f.numbers));
    rf_dispatch_push(d, push, (6 + (s->joined ? f.num_numbers : 0)) * sizeof(uint32_t));
    for (uint32_t i = 0; i <= (uint32_t)products; i++) {
        const uint32_t input = products ? 1 - i : 0; /* x comes first */
        const rf_tensor_desc *desc = &call->in[input];
        const uint64_t row_bytes = rf_row_bytes(desc);
        rf_binding *b =
            rf_bind_bytes(d, RF_BIND_INPUT, input, first * row_bytes, rf_align_up(rows * row_bytes, sizeof(uint32_t)));
        if (way == WAY_TEXEL) b->view = RF_VIEW_TEXEL_RGBA32F;
        if (rf_dtype_is_narrow(desc->dtype)) types |= 1u << i | rf_type_word(desc->dtype, caps) << 8;
    }
    rf_dispatch_spec(d, types);
    if (products) {
        const rf_batch_sums_attr *attr = call->attr;
        rf_dispatch_spec(d, attr->relu);
        rf_bind_whole(d, RF_BIND_INPUT, 2);
        rf_bind_whole(d, RF_BIND_INPUT, 3);
        rf_bind_whole(d, RF_BIND_INPUT, attr->relu ? 5 : 2);
    }
    rf_bind_bytes(d, RF_BIND_WORKSPACE, 0, 0, plan->workspace);
    if (s->joined) {
        if (f.averages) rf_dispatch_spec(d, f.scaled);
        bind_columns(call, &f, d);
        plan->counters = sizeof(uint32_t);
        rf_bind_whole(d, RF_BIND_COUNTERS, 0);
    }
    rf_dispatch_items(d, caps, slices * columns);
    d->concurrent = first > 0;
    return RF_OK;
}

static rf_result batch_plan(const rf_op_call *call, const rf_device_caps *caps, sums_way way, rf_kernel_plan *plan)
{
    slicing s;
    if (!make_slicing(call, caps, way, &s)) return RF_FAIL(RF_ERROR_INTERNAL, "%s: not eligible", call->op->name);
    plan->workspace = s.lists * s.slices * s.columns * sizeof(float);
    for (uint64_t first = 0; first < s.rows; first += s.chunk) RF_TRY(add_chunk(call, caps, way, &s, first, plan));
    if (s.joined) return RF_OK;
    const finish f = finish_of(call);
    rf_dispatch *d = rf_kernel_plan_add(plan, f.total, (f.products ? 1 : 2) * s.slices + 2);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, rf_local_size(caps, caps->is_cpu ? 16 : 64));
    if (f.averages) rf_dispatch_spec(d, f.scaled);
    uint32_t push[4 + MOST_NUMBERS] = { (uint32_t)s.rows, (uint32_t)s.columns, (uint32_t)s.slice, (uint32_t)s.slices };
    memcpy(push + 4, f.numbers, sizeof(f.numbers));
    rf_dispatch_push(d, push, (4 + f.num_numbers) * sizeof(uint32_t));
    rf_bind_bytes(d, RF_BIND_WORKSPACE, 0, 0, plan->workspace)->write = false;
    if (f.products) rf_bind_whole(d, RF_BIND_INPUT, 3);
    bind_columns(call, &f, d);
    rf_dispatch_items(d, caps, s.columns);
    return RF_OK;
}

RF_VARIANT(static, kernel_texel, "texel", batch_score, batch_plan, WAY_TEXEL);
/* The means are f32. */
static bool batch_narrow(const rf_op_call *call, const rf_device_caps *caps)
{
    (void)caps;
    return call->op == &rf_op_batch_moments || call->in[2].dtype == RF_F32;
}

RF_NARROW_VARIANT(static, kernel_vec4, "vec4", batch_score, batch_plan, WAY_VEC4, batch_narrow);
RF_NARROW_VARIANT(static, kernel_scalar, "scalar", batch_score, batch_plan, WAY_SCALAR, batch_narrow);

/* ---- a kernel for GPUs: strips of columns, whose lines are put together in shared memory ---- */

static rf_strips strips_of(const rf_op_call *call, const rf_device_caps *caps, uint32_t *width)
{
    const uint64_t columns = rf_desc_columns(&call->in[0]);
    *width = columns % 4 == 0 ? 4 : 1;
    return rf_strips_make(caps, 1, rf_desc_rows(&call->in[0]), columns / *width, *width);
}

/* A part leaves two numbers for each column. */
static uint64_t strips_workspace(const rf_op_call *call, const rf_strips *s)
{
    return s->parts > 1 ? s->parts * 2 * rf_desc_columns(&call->in[0]) * sizeof(float) : 0;
}

static double strips_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    uint32_t width;
    const rf_strips s = strips_of(call, caps, &width);
    if (!rf_fits_storage(call, caps) || !rf_strips_fit(caps, &s, strips_workspace(call, &s))) return RF_SCORE_NONE;
    return caps->is_cpu ? RF_SCORE_RESERVE : RF_SCORE_SHAPE;
}

static rf_result strips_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    static const rf_shader *const shaders[3][2] = {
        { &rf_shader_batch_strips_moments, &rf_shader_batch_strips_moments_vec4 },
        { &rf_shader_batch_strips_products, &rf_shader_batch_strips_products_vec4 },
        { &rf_shader_batch_strips_averages, &rf_shader_batch_strips_averages_vec4 },
    };
    const finish f = finish_of(call);
    const uint32_t relu = f.products ? ((const rf_batch_sums_attr *)call->attr)->relu : 0;
    uint32_t width, types = 0;
    const rf_strips s = strips_of(call, caps, &width);
    rf_dispatch *d = rf_kernel_plan_add(plan, shaders[f.products ? 1 : f.averages ? 2 : 0][width == 4], s.loops);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < call->n_in; i++) {
        const uint32_t input = f.products && i < 2 ? 1 - i : i; /* x comes first */
        const rf_dtype dtype = call->in[input].dtype;
        rf_bind_whole(d, RF_BIND_INPUT, input);
        if (rf_dtype_is_narrow(dtype)) types |= 1u << i | rf_type_word(dtype, caps) << 8;
    }
    if (f.products && !relu) rf_bind_whole(d, RF_BIND_INPUT, 2);     /* the shader names a shift, */
    if (f.averages && !f.scaled) rf_bind_whole(d, RF_BIND_INPUT, 1); /* or a gamma */
    for (uint32_t i = 0; i < call->op->n_out; i++) rf_bind_whole(d, RF_BIND_OUTPUT, i);
    rf_dispatch_spec(d, s.local);
    rf_dispatch_spec(d, types);
    if (f.products) rf_dispatch_spec(d, relu);
    if (f.averages) rf_dispatch_spec(d, f.scaled);
    uint32_t push[RF_STRIPS_PUSH + MOST_NUMBERS] = { 0 };
    memcpy(push + RF_STRIPS_PUSH, f.numbers, sizeof(f.numbers));
    rf_dispatch_push(d, push, (RF_STRIPS_PUSH + f.num_numbers) * sizeof(uint32_t));
    rf_strips_plan(caps, plan, d, &s, strips_workspace(call, &s));
    return RF_OK;
}

static const rf_kernel kernel_strips = { "strips", strips_score, strips_plan, .narrow = batch_narrow };
static const rf_kernel *const kernels[] = { &kernel_texel, &kernel_vec4, &kernel_scalar, &kernel_strips };

/* ---- the ops ---- */

const rf_op rf_op_batch_moments = {
    .name = "batch_moments",
    .min_in = 1,
    .max_in = 1,
    .n_out = 2,
    .flags = RF_OP_NO_ONNX,
    .unbatched_out = 1u << 0 | 1u << 1,
    RF_STORES_16(0),
    .infer = moments_infer,
    .gradient = moments_gradient,
    .reference = moments_reference,
    .cost = batch_cost,
    RF_KERNELS(kernels),
};

static const rf_attr_field averages_fields[] = { RF_ATTR_NUMBER(rf_batch_averages_attr, epsilon),
                                                 RF_ATTR_NUMBER(rf_batch_averages_attr, keep),
                                                 RF_ATTR_NUMBER(rf_batch_averages_attr, take),
                                                 RF_ATTR_FLAG(rf_batch_averages_attr, scaled) };

const rf_op rf_op_batch_averages = {
    .name = "batch_averages",
    RF_ATTRIBUTES(rf_batch_averages_attr, averages_fields),
    .min_in = 3,
    .max_in = 4,
    .n_out = 5,
    .flags = RF_OP_NO_ONNX,
    .unbatched_in = 1u << 1 | 1u << 2 | 1u << 3,
    .unbatched_out = 1u << 0 | 1u << 1 | 1u << 2 | 1u << 3 | 1u << 4,
    RF_STORES_16(0),
    .infer = averages_infer,
    .reference = averages_reference,
    .cost = batch_cost,
    RF_KERNELS(kernels),
};

static const rf_attr_field sums_fields[] = { RF_ATTR_NUMBER(rf_batch_sums_attr, epsilon),
                                             RF_ATTR_FLAG(rf_batch_sums_attr, relu) };

const rf_op rf_op_batch_sums = {
    .name = "batch_sums",
    RF_ATTRIBUTES(rf_batch_sums_attr, sums_fields),
    .min_in = 5,
    .max_in = 6,
    .n_out = 4,
    .flags = RF_OP_NO_ONNX,
    .unbatched_in = 1u << 2 | 1u << 3 | 1u << 4 | 1u << 5,
    .unbatched_out = 1u << 0 | 1u << 1 | 1u << 2 | 1u << 3,
    RF_STORES_16(0),
    .infer = sums_infer,
    .reference = sums_reference,
    .cost = batch_cost,
    RF_KERNELS(kernels),
};
