/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of upsample2d and its gradient on lavapipe. */
#include "ops/pointwise/common/upsample.h"
#include "ops/pointwise/cpu/kernels.h"

/* ---- by texels: of four elements, or of one where channels are no multiple of four ---- */

bool rf_upsample_texels_job(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_row_job *job)
{
    static const rf_shader *const shaders[2][2][2] = {
        { { &rf_shader_upsample_ones8, &rf_shader_upsample_ones16 },
          { &rf_shader_upsample_fours8, &rf_shader_upsample_fours16 } },
        { { &rf_shader_upsample_grad_ones8, &rf_shader_upsample_grad_ones16 },
          { &rf_shader_upsample_grad_fours8, &rf_shader_upsample_grad_fours16 } },
    };
    const rf_enlargement e = rf_enlargement_of(call);
    const bool gradient = call->op->role == RF_UPSAMPLE_GRAD, fours = e.channels % 4 == 0;
    if (!fours && e.width * e.factor[1] * e.channels < 4) return false; /* a line of results */
    if (!rf_flat_texels(caps) || !rf_upsample_job(&e, caps, fours ? 4 : 1, gradient, job)) return false;
    job->shader = shaders[gradient][fours][caps->subgroup_size != 8];
    job->tensors[0].view = fours ? RF_VIEW_TEXEL_RGBA32F : RF_VIEW_TEXEL_R32F;
    if (rf_row_job_chunk(job, caps) < job->rows) return false; /* in one dispatch, of which the shader has the end */
    if (!fours) job->threads_per_row = rf_div_up(job->threads_per_row, 4);
    rf_row_job_texels(job, caps, RF_SCORE_SHAPE);
    return true;
}

/* ---- gradients of twice as high and wide, on lavapipe: an invocation walks along a strip of a few lines ---- */

bool rf_upsample_walk_job(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_row_job *job)
{
    enum { TILE = 2, VECTOR = 8, WANTED = 1024, LEAST_COLUMNS = 8 };
    static const rf_shader *const shaders[2] = { &rf_shader_upsample_walk_grad_texel8,
                                                 &rf_shader_upsample_walk_grad_texel16 };
    const rf_enlargement e = rf_enlargement_of(call);
    const int64_t vectors = e.channels / VECTOR, tiles = (e.height + TILE - 1) / TILE, pixels = e.height * e.width;
    if (caps->driver != RF_DRIVER_LAVAPIPE || !rf_flat_texels(caps) || e.channels % VECTOR != 0) return false;
    if (e.factor[0] != 2 || e.factor[1] != 2 || 4 * pixels > INT32_MAX / e.channels) return false;
    /* Strips as long as there is enough to do side by side: what lies between two of them is read twice. */
    const uint64_t wanted = rf_div_up(WANTED, (uint64_t)(e.images * tiles * vectors));
    const uint64_t most = rf_min(wanted, (uint64_t)e.width / LEAST_COLUMNS);
    const uint64_t columns = rf_div_up((uint64_t)e.width, most > 1 ? most : 1);
    const uint64_t strips = rf_div_up((uint64_t)e.width, columns), pixel = (uint64_t)e.channels * sizeof(float);
    const rf_push_upsample_walk push = { .vectors = (int32_t)vectors,
                                         .height = (int32_t)e.height,
                                         .width = (int32_t)e.width,
                                         .tiles = (int32_t)tiles,
                                         .strips = (int32_t)strips,
                                         .columns = (int32_t)columns };
    *job = (rf_row_job){ .shader = shaders[caps->subgroup_size != 8],
                         .grid = RF_GRID_IMAGES,
                         .local = rf_local_size(caps, caps->subgroup_size),
                         .rows = (uint64_t)e.images,
                         .threads_per_row = (uint64_t)(tiles * vectors) * strips,
                         .loops = columns + 3,
                         .n_spec = 1,
                         .spec = { e.bilinear } };
    RF_ROW_JOB_PUSH(job, push, images);
    rf_row_job_tensor(job, RF_BIND_INPUT, 0, (uint64_t)pixels * 4 * pixel);
    job->tensors[0].view = RF_VIEW_TEXEL_RGBA32F;
    rf_row_job_tensor(job, RF_BIND_OUTPUT, 0, (uint64_t)pixels * pixel);
    rf_row_job_texels(job, caps, RF_SCORE_DRIVER);
    return true;
}

/* ---- in the order of memory: an invocation makes eight neighbours of all lines that a line becomes ---- */

/* Along an axis: 0 repeated, 1 between two elements, 2 the same but for one result in the middle of its element. */
static uint32_t lines_kind(const rf_enlargement *e, int axis)
{
    if (!e->bilinear || e->factor[axis] == 1) return 0;
    return e->factor[axis] % 2 == 0 ? 1 : 2;
}

bool rf_upsample_lines_job(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_row_job *job)
{
    enum { VECTOR = 8, WANTED_LINES = 8, WANTED_THREADS = 1024 };
    static const rf_shader *const shaders[3][2] = {
        { &rf_shader_upsample_lines_ones8, &rf_shader_upsample_lines_ones16 },
        { &rf_shader_upsample_lines_fours8, &rf_shader_upsample_lines_fours16 },
        { &rf_shader_upsample_lines_eights8, &rf_shader_upsample_lines_eights16 },
    };
    const rf_enlargement e = rf_enlargement_of(call);
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
    const rf_push_upsample_lines push = { .height = (uint32_t)e.height,
                                          .width = (uint32_t)e.width,
                                          .strips = (uint32_t)strips,
                                          .strip = (uint32_t)strip,
                                          .line = line,
                                          .line_magic = by_line.magic,
                                          .line_shift = by_line.shift,
                                          .channels = channels,
                                          .channels_magic = by_channels.magic,
                                          .channels_shift = by_channels.shift,
                                          .factor_x = (uint32_t)e.factor[1],
                                          .factor_x_magic = by_x.magic,
                                          .factor_x_shift = by_x.shift,
                                          .per_y = 0.5f / (float)e.factor[0],
                                          .per_x = 0.5f / (float)e.factor[1] };
    *job = (rf_row_job){ .shader = shaders[piece == 8 ? 2 : piece == 4][caps->subgroup_size != 8],
                         .grid = RF_GRID_IMAGES,
                         .local = rf_local_size(caps, RF_FLAT_LOCAL),
                         .rows = (uint64_t)e.images,
                         .threads_per_row = strips * line,
                         .loops = strip * ((uint64_t)e.factor[0] + 2) + 1,
                         .n_spec = 3,
                         .spec = { lines_kind(&e, 0), lines_kind(&e, 1), (uint32_t)e.factor[0] } };
    RF_ROW_JOB_PUSH(job, push, images);
    const uint64_t pixel = (uint64_t)e.channels * sizeof(float);
    rf_row_job_tensor(job, RF_BIND_INPUT, 0, (uint64_t)pixels * pixel);
    job->tensors[0].view = piece == 1 ? RF_VIEW_TEXEL_R32F : RF_VIEW_TEXEL_RGBA32F;
    rf_row_job_tensor(job, RF_BIND_OUTPUT, 0, (uint64_t)(pixels * factors) * pixel);
    rf_row_job_texels(job, caps, RF_SCORE_DRIVER);
    return true;
}

/* ---- bilinear gradients for small factors, on lavapipe: an invocation walks down a strip of a column ---- */

bool rf_upsample_columns_job(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_row_job *job)
{
    enum { MOST_FACTOR = 4, WANTED = 1024, LEAST_LINES = 8 };
    const rf_enlargement e = rf_enlargement_of(call);
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
    const rf_push_upsample_columns push = { .channels = (int32_t)channels,
                                            .height = (int32_t)e.height,
                                            .width = (int32_t)e.width,
                                            .strips = (int32_t)strips,
                                            .lines = (int32_t)lines };
    *job = (rf_row_job){ .shader = fours ? &rf_shader_upsample_columns_grad_fours : &rf_shader_upsample_columns_grad,
                         .grid = RF_GRID_IMAGES,
                         .local = rf_local_size(caps, caps->subgroup_size),
                         .rows = (uint64_t)e.images,
                         .threads_per_row = across * strips,
                         .loops = lines + 2,
                         .n_spec = 2,
                         .spec = { (uint32_t)e.factor[0], (uint32_t)e.factor[1] } };
    RF_ROW_JOB_PUSH(job, push, images);
    rf_row_job_tensor(job, RF_BIND_INPUT, 0, (uint64_t)(pixels * factors) * pixel);
    job->tensors[0].view = fours ? RF_VIEW_TEXEL_RGBA32F : RF_VIEW_TEXEL_R32F;
    rf_row_job_tensor(job, RF_BIND_OUTPUT, 0, (uint64_t)pixels * pixel);
    rf_row_job_texels(job, caps, RF_SCORE_EXACT);
    return true;
}
