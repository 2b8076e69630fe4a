/* SPDX-License-Identifier: Apache-2.0 */
/* Images enlarged by whole factors: each pixel repeated, or bilinearly between the middles of pixels; the gradient. */
#include <math.h>
#include <string.h>

#include "ops/kit.h"
#include "ops/ops.h"
#include "rf_shaders.h"

/* ---- shapes ---- */

/* The shape of the enlarged images. */
static rf_result infer_enlarged(const rf_op_call *call, const rf_tensor_desc *x, rf_tensor_desc *y)
{
    const rf_upsample_attr *attr = call->attr;
    const char *name = call->op->name;
    char shape[96];
    rf_shape_format(x->shape, shape, sizeof(shape));
    if (x->dtype != RF_F32 || x->shape.rank != 4 || rf_desc_count(x) == 0)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: needs f32 images [n, h, w, c], got %s %s", name,
                       rf_dtype_name(x->dtype), shape);
    if (attr->interpolation > RF_INTERPOLATION_BILINEAR)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: interpolation %u does not exist", name, attr->interpolation);
    *y = *x;
    for (int i = 0; i < 2; i++) {
        if (attr->factor[i] < 1 || attr->factor[i] > RF_MAX_UPSAMPLE_FACTOR)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: factors are %d and %d; each must be 1 to %d", name,
                           (int)attr->factor[0], (int)attr->factor[1], RF_MAX_UPSAMPLE_FACTOR);
        if (x->shape.dim[1 + i] > INT64_MAX / RF_MAX_UPSAMPLE_FACTOR)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: images %s are too large to be enlarged", name, shape);
        y->shape.dim[1 + i] *= attr->factor[i];
    }
    if (rf_shape_count(y->shape) <= 0)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: images %s, %d x %d times enlarged, have too many elements", name,
                       shape, (int)attr->factor[0], (int)attr->factor[1]);
    return RF_OK;
}

static rf_result upsample_infer(rf_op_call *call)
{
    return infer_enlarged(call, &call->in[0], &call->out[0]);
}

static rf_result upsample_grad_infer(rf_op_call *call)
{
    rf_tensor_desc y;
    RF_TRY(infer_enlarged(call, &call->in[1], &y));
    RF_TRY(rf_expect_dtype(call, 0, RF_F32));
    RF_TRY(rf_expect_shape(call, 0, &y.shape, "one gradient for each element of the result"));
    call->out[0] = call->in[1];
    return RF_OK;
}

rf_result rf_emit_upsample2d(rf_graph *g, rf_value x, const int32_t *factor, rf_interpolation interpolation,
                             rf_value *out)
{
    const rf_upsample_attr attr = { .factor = { factor ? factor[0] : 2, factor ? factor[1] : 2 },
                                    .interpolation = (uint32_t)interpolation };
    return rf_graph_add(g, &rf_op_upsample2d, &attr, &x, 1, out);
}

static rf_result upsample_gradient(rf_grad_context *ctx)
{
    const rf_value in[2] = { ctx->dout[0], ctx->in[0] };
    if (ctx->dout[0] == 0 || !ctx->needed[0]) return RF_OK;
    return rf_graph_add(ctx->graph, &rf_op_upsample2d_grad, ctx->attr, in, 2, &ctx->din[0]);
}

static rf_result upsample_grad_gradient(rf_grad_context *ctx)
{
    if (ctx->dout[0] == 0 || !ctx->needed[0]) return RF_OK;
    return rf_graph_add(ctx->graph, &rf_op_upsample2d, ctx->attr, &ctx->dout[0], 1, &ctx->din[0]);
}

/* ---- references ---- */

/* The two elements between whose middles a result lies, and how far it is on the way to the second. */
typedef struct source {
    int64_t at[2];
    double weight[2];
} source;

static source source_of(const rf_upsample_attr *attr, int axis, int64_t result, int64_t n)
{
    const int32_t factor = attr->factor[axis];
    if (attr->interpolation == RF_INTERPOLATION_NEAREST) return (source){ { result / factor }, { 1 } };
    const double place = ((double)result + 0.5) / factor - 0.5, below = floor(place), way = place - below;
    const int64_t first = below < 0 ? 0 : (int64_t)below, second = (int64_t)below + 1 < n ? (int64_t)below + 1 : n - 1;
    if (first == second) return (source){ { first }, { 1 } };
    return (source){ { first, second }, { 1 - way, way } };
}

/* Adds weight * from[] to to[], in one direction or the other, for all pairs of a result and what it is made of. */
static void add_products(const rf_op_call *call, const rf_shape *x, const float *from, double *to, bool gradient)
{
    const rf_upsample_attr *attr = call->attr;
    const int64_t height = x->dim[1], width = x->dim[2], channels = x->dim[3];
    int64_t result = 0;
    for (int64_t n = 0; n < x->dim[0]; n++)
        for (int64_t row = 0; row < height * attr->factor[0]; row++)
            for (int64_t column = 0; column < width * attr->factor[1]; column++, result += channels) {
                const source down = source_of(attr, 0, row, height), right = source_of(attr, 1, column, width);
                for (int k = 0; k < 4; k++) {
                    const double weight = down.weight[k / 2] * right.weight[k % 2];
                    const int64_t element = ((n * height + down.at[k / 2]) * width + right.at[k % 2]) * channels;
                    if (weight == 0) continue;
                    for (int64_t c = 0; c < channels; c++)
                        to[(gradient ? element : result) + c] +=
                            weight * (double)from[(gradient ? result : element) + c];
                }
            }
}

static rf_result upsample_compute(const rf_op_call *call, void *const *in, void *const *out, bool gradient)
{
    const uint64_t count = rf_desc_count(&call->out[0]);
    float *to = out[0];
    double *sums = RF_NEW_ARRAY(double, count);
    if (!sums) return RF_ERROR_OUT_OF_HOST_MEMORY;
    add_products(call, &call->in[gradient ? 1 : 0].shape, in[0], sums, gradient);
    for (uint64_t i = 0; i < count; i++) to[i] = (float)sums[i];
    rf_free(sums);
    return RF_OK;
}

static rf_result upsample_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    return upsample_compute(call, in, out, false);
}

static rf_result upsample_grad_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    return upsample_compute(call, in, out, true);
}

static rf_cost upsample_cost(const rf_op_call *call)
{
    const rf_upsample_attr *attr = call->attr;
    const rf_tensor_desc *results = call->op == &rf_op_upsample2d ? &call->out[0] : &call->in[0];
    const double each = attr->interpolation == RF_INTERPOLATION_BILINEAR ? 9 : call->op == &rf_op_upsample2d ? 0 : 1;
    return rf_cost_of(call, each * (double)rf_desc_count(results));
}

/* ---- kernels ---- */

typedef struct upsample_push {
    uint32_t rows, threads;
    uint32_t channels, channels_magic, channels_shift;
    uint32_t columns, columns_magic, columns_shift;
    uint32_t height, height_magic, height_shift;
    uint32_t width;
    uint32_t factor_y, y_magic, y_shift, factor_x, x_magic, x_shift;
    uint32_t per_y, per_x; /* floats */
} upsample_push;

/* Images and how they are enlarged: the op's, or one axis of it. */
typedef struct enlargement {
    int64_t images, height, width, channels;
    int32_t factor[2];
    bool bilinear;
} enlargement;

static enlargement enlargement_of(const rf_op_call *call)
{
    const rf_upsample_attr *attr = call->attr;
    const rf_shape *x = call->op == &rf_op_upsample2d ? &call->in[0].shape : &call->in[1].shape;
    return (enlargement){ .images = x->dim[0],
                          .height = x->dim[1],
                          .width = x->dim[2],
                          .channels = x->dim[3],
                          .factor = { attr->factor[0], attr->factor[1] },
                          .bilinear = attr->interpolation == RF_INTERPOLATION_BILINEAR };
}

/* Iterations over what takes from an element along an axis. */
static uint64_t side_loops(const enlargement *e, int axis)
{
    const uint64_t factor = (uint64_t)e->factor[axis];
    return e->bilinear ? factor + factor / 2 * 2 : factor;
}

/* A row is an image; of repeated pixels a line, which has no neighbours. False where the shader cannot count so far. */
static bool make_job(const enlargement *e, const rf_device_caps *caps, uint32_t vector, bool gradient, rf_row_job *job)
{
    const int64_t lines = e->bilinear ? e->height : 1, channels = e->channels / vector;
    const int64_t pixels = lines * e->width, results = pixels * e->factor[0] * e->factor[1];
    if (e->channels % vector != 0 || results > INT32_MAX / e->channels) return false;
    const rf_magic by_channels = rf_magic_make((uint32_t)channels), by_height = rf_magic_make((uint32_t)lines),
                   by_y = rf_magic_make((uint32_t)e->factor[0]), by_x = rf_magic_make((uint32_t)e->factor[1]);
    const uint32_t columns = (uint32_t)(gradient ? e->width : e->width * e->factor[1]);
    const rf_magic by_columns = rf_magic_make(columns);
    const upsample_push push = { .threads = (uint32_t)((gradient ? pixels : results) * channels),
                                 .channels = (uint32_t)channels,
                                 .channels_magic = by_channels.magic,
                                 .channels_shift = by_channels.shift,
                                 .columns = columns,
                                 .columns_magic = by_columns.magic,
                                 .columns_shift = by_columns.shift,
                                 .height = (uint32_t)lines,
                                 .height_magic = by_height.magic,
                                 .height_shift = by_height.shift,
                                 .width = (uint32_t)e->width,
                                 .factor_y = (uint32_t)e->factor[0],
                                 .y_magic = by_y.magic,
                                 .y_shift = by_y.shift,
                                 .factor_x = (uint32_t)e->factor[1],
                                 .x_magic = by_x.magic,
                                 .x_shift = by_x.shift,
                                 .per_y = rf_float_word(0.5f / (float)e->factor[0]),
                                 .per_x = rf_float_word(0.5f / (float)e->factor[1]) };
    *job = (rf_row_job){ .shader = gradient ? vector == 4 ? &rf_shader_upsample_grad_w4 : &rf_shader_upsample_grad_w1
                                   : vector == 4 ? &rf_shader_upsample_w4
                                                 : &rf_shader_upsample_w1,
                         .grid = RF_GRID_THREADS,
                         .local = rf_local_size(caps, caps->is_cpu ? 64 : RF_FLAT_LOCAL),
                         .rows = (uint64_t)(e->images * e->height / lines),
                         .threads_per_row = push.threads,
                         .loops = gradient ? side_loops(e, 0) * (side_loops(e, 1) + 2) + 1 : RF_NO_LOOPS,
                         .n_spec = 1,
                         .spec = { e->bilinear },
                         .n_push = sizeof(push) / sizeof(uint32_t) };
    memcpy(job->push, &push, sizeof(push));
    const uint64_t element = (uint64_t)e->channels * sizeof(float);
    rf_row_job_tensor(job, RF_BIND_INPUT, 0, (uint64_t)(gradient ? results : pixels) * element);
    rf_row_job_tensor(job, RF_BIND_OUTPUT, 0, (uint64_t)(gradient ? pixels : results) * element);
    return true;
}

static double score_direct(const rf_op_call *call, const rf_device_caps *caps, uint32_t vector)
{
    const enlargement e = enlargement_of(call);
    rf_row_job job;
    if (!make_job(&e, caps, vector, call->op == &rf_op_upsample2d_grad, &job) ||
        rf_row_job_score(&job, caps) == RF_SCORE_NONE)
        return RF_SCORE_NONE;
    return vector == 4 ? RF_SCORE_WIDE : RF_SCORE_ANY;
}

static rf_result plan_direct(const rf_op_call *call, const rf_device_caps *caps, uint32_t vector, rf_kernel_plan *plan)
{
    const enlargement e = enlargement_of(call);
    rf_row_job job;
    if (!make_job(&e, caps, vector, call->op == &rf_op_upsample2d_grad, &job))
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: the images are too large", call->op->name);
    return rf_row_job_plan(&job, caps, plan);
}

RF_VARIANT(static, any, "any", score_direct, plan_direct, 1);
RF_VARIANT(static, vec4, "vec4", score_direct, plan_direct, 4);

/* ---- the same by texels: of four elements, or of one where channels are no multiple of four ---- */

static bool make_texels(const enlargement *e, const rf_device_caps *caps, bool gradient, rf_row_job *job)
{
    static const rf_shader *const shaders[2][2][2] = {
        { { &rf_shader_upsample_ones8, &rf_shader_upsample_ones16 },
          { &rf_shader_upsample_fours8, &rf_shader_upsample_fours16 } },
        { { &rf_shader_upsample_grad_ones8, &rf_shader_upsample_grad_ones16 },
          { &rf_shader_upsample_grad_fours8, &rf_shader_upsample_grad_fours16 } },
    };
    const bool fours = e->channels % 4 == 0;
    if (!fours && e->width * e->factor[1] * e->channels < 4) return false; /* a line of results */
    if (!rf_flat_texels(caps) || !make_job(e, caps, fours ? 4 : 1, gradient, job)) return false;
    job->shader = shaders[gradient][fours][caps->subgroup_size != 8];
    job->tensors[0].view = fours ? RF_VIEW_TEXEL_RGBA32F : RF_VIEW_TEXEL_R32F;
    if (rf_row_job_chunk(job, caps) < job->rows) return false; /* in one dispatch, of which the shader has the end */
    if (!fours) job->threads_per_row = rf_div_up(job->threads_per_row, 4);
    return true;
}

static double score_texels(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const enlargement e = enlargement_of(call);
    rf_row_job job;
    if (!make_texels(&e, caps, call->op == &rf_op_upsample2d_grad, &job) || job.loops > rf_loop_limit(caps))
        return RF_SCORE_NONE;
    return caps->driver == RF_DRIVER_LAVAPIPE ? RF_SCORE_SHAPE : RF_SCORE_RESERVE;
}

static rf_result plan_texels(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    const enlargement e = enlargement_of(call);
    rf_row_job job;
    if (!make_texels(&e, caps, call->op == &rf_op_upsample2d_grad, &job))
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: the images are too large", call->op->name);
    return rf_row_job_plan(&job, caps, plan);
}

static const rf_kernel texels = { "texel", score_texels, plan_texels };

/* ---- gradients of twice as high and wide, on lavapipe: an invocation walks along a strip of a few lines ---- */

static bool make_walk(const rf_op_call *call, const rf_device_caps *caps, rf_row_job *job)
{
    enum { TILE = 2, VECTOR = 8, WANTED = 1024, LEAST_COLUMNS = 8 };
    static const rf_shader *const shaders[2] = { &rf_shader_upsample_walk_grad_texel8,
                                                 &rf_shader_upsample_walk_grad_texel16 };
    const enlargement e = enlargement_of(call);
    const int64_t vectors = e.channels / VECTOR, tiles = (e.height + TILE - 1) / TILE, pixels = e.height * e.width;
    if (caps->driver != RF_DRIVER_LAVAPIPE || !rf_flat_texels(caps) || e.channels % VECTOR != 0) return false;
    if (e.factor[0] != 2 || e.factor[1] != 2 || 4 * pixels > INT32_MAX / e.channels) return false;
    /* Strips as long as there is enough to do side by side: what lies between two of them is read twice. */
    const uint64_t wanted = rf_div_up(WANTED, (uint64_t)(e.images * tiles * vectors));
    const uint64_t most = rf_min(wanted, (uint64_t)e.width / LEAST_COLUMNS);
    const uint64_t columns = rf_div_up((uint64_t)e.width, most > 1 ? most : 1);
    const uint64_t strips = rf_div_up((uint64_t)e.width, columns), pixel = (uint64_t)e.channels * sizeof(float);
    const uint32_t push[] = { 0,
                              (uint32_t)vectors,
                              (uint32_t)e.height,
                              (uint32_t)e.width,
                              (uint32_t)tiles,
                              (uint32_t)strips,
                              (uint32_t)columns };
    *job = (rf_row_job){ .shader = shaders[caps->subgroup_size != 8],
                         .grid = RF_GRID_IMAGES,
                         .local = rf_local_size(caps, caps->subgroup_size),
                         .rows = (uint64_t)e.images,
                         .threads_per_row = (uint64_t)(tiles * vectors) * strips,
                         .loops = columns + 3,
                         .n_spec = 1,
                         .spec = { e.bilinear },
                         .n_push = RF_LENGTH(push) };
    memcpy(job->push, push, sizeof(push));
    rf_row_job_tensor(job, RF_BIND_INPUT, 0, (uint64_t)pixels * 4 * pixel);
    job->tensors[0].view = RF_VIEW_TEXEL_RGBA32F;
    rf_row_job_tensor(job, RF_BIND_OUTPUT, 0, (uint64_t)pixels * pixel);
    return true;
}

static double score_walk(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    rf_row_job job;
    if (!make_walk(call, caps, &job) || job.loops > rf_loop_limit(caps)) return RF_SCORE_NONE;
    const uint64_t chunk = rf_row_job_chunk(&job, caps);
    return chunk == 0 ? RF_SCORE_NONE : chunk < job.rows ? RF_SCORE_RESERVE : RF_SCORE_DRIVER;
}

static rf_result plan_walk(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    rf_row_job job;
    if (!make_walk(call, caps, &job))
        return RF_FAIL(RF_ERROR_INTERNAL, "%s: no images to walk through", call->op->name);
    return rf_row_job_plan(&job, caps, plan);
}

static const rf_kernel walk = { "walk", score_walk, plan_walk };
/* ---- in the order of memory, on lavapipe: an invocation makes eight neighbours of all lines that a line becomes ----
 */

/* Along an axis: 0 repeated, 1 between two elements, 2 the same but for one result in the middle of its element. */
static uint32_t lines_kind(const enlargement *e, int axis)
{
    if (!e->bilinear || e->factor[axis] == 1) return 0;
    return e->factor[axis] % 2 == 0 ? 1 : 2;
}

static bool make_lines(const rf_op_call *call, const rf_device_caps *caps, rf_row_job *job)
{
    enum { VECTOR = 8, WANTED_LINES = 8, WANTED_THREADS = 1024 };
    static const rf_shader *const shaders[3][2] = {
        { &rf_shader_upsample_lines_ones8, &rf_shader_upsample_lines_ones16 },
        { &rf_shader_upsample_lines_fours8, &rf_shader_upsample_lines_fours16 },
        { &rf_shader_upsample_lines_eights8, &rf_shader_upsample_lines_eights16 },
    };
    const enlargement e = enlargement_of(call);
    const int64_t pixels = e.height * e.width, factors = (int64_t)e.factor[0] * e.factor[1];
    const uint32_t piece = e.channels % 8 == 0 ? 8 : e.channels % 4 == 0 ? 4 : 1;
    if (caps->driver != RF_DRIVER_LAVAPIPE || !rf_flat_texels(caps)) return false;
    if (e.width * e.factor[1] * e.channels % VECTOR != 0 || pixels * factors > INT32_MAX / e.channels) return false;
    const uint32_t line = (uint32_t)(e.width * e.factor[1] * e.channels / VECTOR),
                   channels = (uint32_t)e.channels / piece;
    const rf_magic by_line = rf_magic_make(line), by_channels = rf_magic_make(channels),
                   by_x = rf_magic_make((uint32_t)e.factor[1]);
    /* Strips of a few lines, since between them some are read twice, where there is enough to do side by side. */
    const uint64_t most = rf_div_up((uint64_t)(e.images * e.height) * line, WANTED_THREADS);
    const uint64_t strip = rf_min(rf_min(rf_div_up(WANTED_LINES, (uint64_t)e.factor[0]), most), (uint64_t)e.height);
    const uint64_t strips = rf_div_up((uint64_t)e.height, strip);
    const uint32_t push[] = { 0,
                              (uint32_t)e.height,
                              (uint32_t)e.width,
                              (uint32_t)strips,
                              (uint32_t)strip,
                              line,
                              by_line.magic,
                              by_line.shift,
                              channels,
                              by_channels.magic,
                              by_channels.shift,
                              (uint32_t)e.factor[1],
                              by_x.magic,
                              by_x.shift,
                              rf_float_word(0.5f / (float)e.factor[0]),
                              rf_float_word(0.5f / (float)e.factor[1]) };
    *job = (rf_row_job){ .shader = shaders[piece == 8 ? 2 : piece == 4][caps->subgroup_size != 8],
                         .grid = RF_GRID_IMAGES,
                         .local = rf_local_size(caps, RF_FLAT_LOCAL),
                         .rows = (uint64_t)e.images,
                         .threads_per_row = strips * line,
                         .loops = strip * ((uint64_t)e.factor[0] + 2) + 1,
                         .n_spec = 3,
                         .spec = { lines_kind(&e, 0), lines_kind(&e, 1), (uint32_t)e.factor[0] },
                         .n_push = RF_LENGTH(push) };
    memcpy(job->push, push, sizeof(push));
    const uint64_t pixel = (uint64_t)e.channels * sizeof(float);
    rf_row_job_tensor(job, RF_BIND_INPUT, 0, (uint64_t)pixels * pixel);
    job->tensors[0].view = piece == 1 ? RF_VIEW_TEXEL_R32F : RF_VIEW_TEXEL_RGBA32F;
    rf_row_job_tensor(job, RF_BIND_OUTPUT, 0, (uint64_t)(pixels * factors) * pixel);
    return true;
}

static double score_lines(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    rf_row_job job;
    if (!make_lines(call, caps, &job) || job.loops > rf_loop_limit(caps)) return RF_SCORE_NONE;
    const uint64_t chunk = rf_row_job_chunk(&job, caps);
    return chunk == 0 ? RF_SCORE_NONE : chunk < job.rows ? RF_SCORE_RESERVE : RF_SCORE_DRIVER;
}

static rf_result plan_lines(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    rf_row_job job;
    if (!make_lines(call, caps, &job)) return RF_FAIL(RF_ERROR_INTERNAL, "%s: no lines of eights", call->op->name);
    return rf_row_job_plan(&job, caps, plan);
}

static const rf_kernel by_lines = { "lines", score_lines, plan_lines };
static const rf_kernel *const upsample_kernels[] = { &any, &vec4, &texels, &by_lines };

/* ---- gradients for large factors: along the lines, then across them ---- */

#define LARGE_AREA 64 /* results for each element: from here on there is less to add up so */

/* As the gradients of two enlargements: the second one made images wider, the first one higher. */
static bool make_sides(const rf_op_call *call, const rf_device_caps *caps, rf_row_job jobs[2])
{
    const enlargement e = enlargement_of(call);
    enlargement wide = e, high = e;
    wide.height *= e.factor[0];
    wide.factor[0] = high.factor[1] = 1;
    const uint32_t vector = e.channels % 4 == 0 ? 4 : 1;
    if (e.height > INT32_MAX / RF_MAX_UPSAMPLE_FACTOR || !make_job(&wide, caps, vector, true, &jobs[0]) ||
        !make_job(&high, caps, vector, true, &jobs[1]))
        return false;
    jobs[0].tensors[1].kind = jobs[1].tensors[0].kind = RF_BIND_WORKSPACE;
    return true;
}

static double score_sides(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_upsample_attr *attr = call->attr;
    rf_row_job jobs[2];
    if (!make_sides(call, caps, jobs) || rf_row_job_score(&jobs[0], caps) == RF_SCORE_NONE ||
        rf_row_job_score(&jobs[1], caps) == RF_SCORE_NONE)
        return RF_SCORE_NONE;
    return (int64_t)attr->factor[0] * attr->factor[1] >= LARGE_AREA ? RF_SCORE_EXACT : RF_SCORE_RESERVE;
}

static rf_result plan_sides(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    rf_row_job jobs[2];
    if (!make_sides(call, caps, jobs))
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: the images are too large", call->op->name);
    plan->workspace = jobs[1].rows * jobs[1].tensors[0].row_bytes;
    RF_TRY(rf_row_job_plan(&jobs[0], caps, plan));
    return rf_row_job_plan(&jobs[1], caps, plan);
}

static const rf_kernel sides = { "sides", score_sides, plan_sides };

/* ---- bilinear gradients for small factors, on lavapipe: an invocation walks down a strip of a column ---- */

static bool make_columns(const rf_op_call *call, const rf_device_caps *caps, rf_row_job *job)
{
    enum { MOST_FACTOR = 4, WANTED = 1024, LEAST_LINES = 8 };
    const enlargement e = enlargement_of(call);
    const int64_t pixels = e.height * e.width, factors = (int64_t)e.factor[0] * e.factor[1];
    const bool fours = e.channels % 4 == 0;
    const int64_t channels = fours ? e.channels / 4 : e.channels;
    if (caps->driver != RF_DRIVER_LAVAPIPE || !rf_flat_texels(caps) || !e.bilinear) return false;
    if (e.factor[0] > MOST_FACTOR || e.factor[1] > MOST_FACTOR || pixels * factors > INT32_MAX / e.channels)
        return false;
    /* Strips as long as there is enough to do side by side: what lies between two of them is read twice. */
    const uint64_t across = (uint64_t)(e.width * channels);
    const uint64_t wanted = rf_div_up(WANTED, (uint64_t)e.images * across);
    const uint64_t most = rf_min(wanted, (uint64_t)e.height / LEAST_LINES);
    const uint64_t lines = rf_div_up((uint64_t)e.height, most > 1 ? most : 1);
    const uint64_t strips = rf_div_up((uint64_t)e.height, lines), pixel = (uint64_t)e.channels * sizeof(float);
    const uint32_t push[] = {
        0, (uint32_t)channels, (uint32_t)e.height, (uint32_t)e.width, (uint32_t)strips, (uint32_t)lines
    };
    *job = (rf_row_job){ .shader = fours ? &rf_shader_upsample_columns_grad_fours : &rf_shader_upsample_columns_grad,
                         .grid = RF_GRID_IMAGES,
                         .local = rf_local_size(caps, caps->subgroup_size),
                         .rows = (uint64_t)e.images,
                         .threads_per_row = across * strips,
                         .loops = lines + 2,
                         .n_spec = 2,
                         .spec = { (uint32_t)e.factor[0], (uint32_t)e.factor[1] },
                         .n_push = RF_LENGTH(push) };
    memcpy(job->push, push, sizeof(push));
    rf_row_job_tensor(job, RF_BIND_INPUT, 0, (uint64_t)(pixels * factors) * pixel);
    job->tensors[0].view = fours ? RF_VIEW_TEXEL_RGBA32F : RF_VIEW_TEXEL_R32F;
    rf_row_job_tensor(job, RF_BIND_OUTPUT, 0, (uint64_t)pixels * pixel);
    return true;
}

static double score_columns(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    rf_row_job job;
    if (!make_columns(call, caps, &job) || rf_row_job_score(&job, caps) == RF_SCORE_NONE) return RF_SCORE_NONE;
    return rf_row_job_chunk(&job, caps) < job.rows ? RF_SCORE_RESERVE : RF_SCORE_EXACT;
}

static rf_result plan_columns(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                              rf_kernel_plan *plan)
{
    rf_row_job job;
    if (!make_columns(call, caps, &job))
        return RF_FAIL(RF_ERROR_INTERNAL, "%s: no columns to walk down", call->op->name);
    return rf_row_job_plan(&job, caps, plan);
}

static const rf_kernel columns = { "columns", score_columns, plan_columns };
static const rf_kernel *const upsample_grad_kernels[] = { &any, &vec4, &texels, &sides, &walk, &columns };

/* ---- the ops ---- */

static const char *interpolation_name(uint32_t interpolation)
{
    return interpolation <= RF_INTERPOLATION_BILINEAR ? rf_interpolation_names[interpolation] : "?";
}

static const rf_attr_field fields[] = {
    RF_ATTR_INTS(rf_upsample_attr, factor[0], "factor", 2, 0, RF_MAX_UPSAMPLE_FACTOR),
    RF_ATTR_NAMED(rf_upsample_attr, interpolation, RF_INTERPOLATION_BILINEAR, interpolation_name),
};

const char *const rf_interpolation_names[] = { "nearest", "bilinear" };

const rf_op rf_op_upsample2d = {
    .name = "upsample2d",
    RF_ATTRIBUTES(rf_upsample_attr, fields),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    RF_STORES_16(1),
    .infer = upsample_infer,
    .gradient = upsample_gradient,
    .reference = upsample_reference,
    .cost = upsample_cost,
    RF_KERNELS(upsample_kernels),
};

const rf_op rf_op_upsample2d_grad = {
    .name = "upsample2d_grad",
    RF_ATTRIBUTES(rf_upsample_attr, fields),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = RF_OP_NO_ONNX,
    .shape_only = 1u << 1,
    RF_STORES_16(1),
    .infer = upsample_grad_infer,
    .gradient = upsample_grad_gradient,
    .reference = upsample_grad_reference,
    .cost = upsample_cost,
    RF_KERNELS(upsample_grad_kernels),
};
