/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the pooling ops: one invocation per window or per input element, over whole images. Some walk whole
 * windows, which is right for small ones; others walk the sides of large windows one after the other; the gradient of
 * maxima of windows that overlap first notes where each maximum is. */
#include <string.h>

#include "ops/reduction/common/pool.h"
#include "rf_shaders.h"

/* Larger images would leave the range in which the shaders' division by reciprocals is exact. */
#define MAX_IMAGE_VECTORS (1u << 22)
/* Beyond this walking through all windows of an element is hundreds of times slower than walking their sides. */
#define MAX_GATHER_LOOPS (1u << 14)
#define MAX_EXACT_FLOAT (1 << 24)
/* Longer sides of a window stay out of the pipeline: drivers of GPUs unroll loops of fixed length, and 50 columns
 * spill. */
#define MAX_FIXED_SIDE 16
#define MAX_FIXED_SIDE_FEW_REGISTERS 4

/* An invocation makes one of these. */
typedef enum pool_walk { WALK_WINDOWS, WALK_ELEMENTS, WALK_QUADS /* 2 x 2 elements */ } pool_walk;
typedef enum pool_needs {
    NEEDS_NOTHING,
    NEEDS_SEPARATE, /* windows that do not overlap */
    NEEDS_2X2,      /* windows of 2 x 2 side by side, no padding */
} pool_needs;
/* An invocation loops over one of these. */
typedef enum pool_loop {
    LOOPS_NONE,
    LOOPS_WINDOW,
    LOOPS_COVERING, /* the windows that cover an element */
    LOOPS_BOTH,     /* all elements of each of them */
    LOOPS_CELL,     /* a window, then what lies between it and the next */
} pool_loop;
typedef struct pool_form {
    const rf_shader *shader;
    pool_walk walk;
    pool_loop loops;
    uint32_t vector;
    pool_needs needs;
    int score;
    bool fixed; /* made for windows and strides that are specialization constants */
} pool_form;

static bool pool_fits(const pool_form *v, const rf_pool_geometry *p)
{
    if (p->channels % v->vector != 0) return false;
    switch (v->needs) {
    case NEEDS_NOTHING: break;
    case NEEDS_SEPARATE: return p->stride[0] >= p->window[0] && p->stride[1] >= p->window[1];
    case NEEDS_2X2:
        /* Then (size - 2) / 2 + 1 windows leave at most one row and one column over. */
        return p->window[0] == 2 && p->window[1] == 2 && p->stride[0] == 2 && p->stride[1] == 2 && p->pad_top == 0 &&
               p->pad_left == 0 && p->out_height == p->height / 2 && p->out_width == p->width / 2;
    }
    return true;
}

/* Windows that cover an element along one axis, at most. */
static uint64_t count_covering(const rf_pool_geometry *p, int axis)
{
    return rf_div_up((uint64_t)p->window[axis], (uint64_t)p->stride[axis]);
}

/* Iterations of loops over `rows` lines of `columns` elements. */
static uint64_t area_loops(uint64_t rows, uint64_t columns)
{
    return rows * (columns + 2) + 1;
}

/* The longest side of a cell: from one window to the next, or from a window to the image's ends. */
static uint64_t cell_side(int64_t size, int64_t out_size, int64_t stride, int64_t before)
{
    if (out_size == 1) return (uint64_t)size;
    const int64_t last = size - ((out_size - 1) * stride - before);
    return (uint64_t)(last > stride ? last : stride);
}

static uint64_t pool_loops(const pool_form *v, const rf_pool_geometry *p)
{
    const uint64_t window = area_loops((uint64_t)p->window[0], (uint64_t)p->window[1]);
    const uint64_t windows = area_loops(count_covering(p, 0), count_covering(p, 1));
    switch (v->loops) {
    case LOOPS_NONE: return RF_NO_LOOPS;
    case LOOPS_WINDOW: return window;
    case LOOPS_COVERING: return windows;
    case LOOPS_CELL:
        return window + area_loops(cell_side(p->height, p->out_height, p->stride[0], p->pad_top),
                                   cell_side(p->width, p->out_width, p->stride[1], p->pad_left));
    case LOOPS_BOTH: return count_covering(p, 0) * (count_covering(p, 1) * (window + 1) + 2) + 1;
    }
    return 0;
}

/* Invocations stand for `rows` x `columns` of an image, all channels. False where they are too many. */
static bool image_job(const rf_pool_geometry *p, const rf_device_caps *caps, const rf_shader *shader, uint64_t loops,
                      int64_t rows, int64_t columns, uint32_t vector, rf_row_job *job)
{
    const int64_t channels = p->channels / vector, image = p->height * p->width * channels;
    const int64_t threads = rows * columns * channels;
    if (image > INT32_MAX || threads > INT32_MAX || (vector > 1 && threads >= MAX_IMAGE_VECTORS)) return false;
    *job = (rf_row_job){ .shader = shader,
                         .grid = RF_GRID_IMAGES,
                         .local = rf_local_size(caps, 64),
                         .rows = (uint64_t)p->images,
                         .threads_per_row = (uint64_t)threads,
                         .loops = loops };
    const rf_push_pool push = { .height = (int32_t)p->height,
                                .width = (int32_t)p->width,
                                .channels = (int32_t)channels,
                                .out_height = (int32_t)p->out_height,
                                .out_width = (int32_t)p->out_width,
                                .window_height = (int32_t)p->window[0],
                                .window_width = (int32_t)p->window[1],
                                .stride_height = (int32_t)p->stride[0],
                                .stride_width = (int32_t)p->stride[1],
                                .pad_top = (int32_t)p->pad_top,
                                .pad_left = (int32_t)p->pad_left,
                                .per_channels = 1.0f / (float)channels,
                                .per_columns = 1.0f / (float)columns,
                                .relu_mask = p->relu_mask };
    RF_ROW_JOB_PUSH(job, push, images);
    return true;
}

/* Makes window and stride part of the pipeline where the window is small. */
static void fix_sides(const rf_pool_geometry *p, const rf_device_caps *caps, rf_row_job *job)
{
    const int64_t most = caps->invocation_registers > 0 ? MAX_FIXED_SIDE_FEW_REGISTERS : MAX_FIXED_SIDE;
    const bool fixed = p->window[0] <= most && p->window[1] <= most;
    const int64_t sides[] = { p->window[0], p->window[1], p->stride[0], p->stride[1] };
    for (uint32_t i = 0; i < RF_LENGTH(sides); i++) job->spec[job->n_spec++] = fixed ? (uint32_t)sides[i] : 0;
}

static uint64_t image_bytes(const rf_tensor_desc *desc, const rf_pool_geometry *p)
{
    return rf_tensor_bytes(desc) / (uint64_t)p->images;
}

/* All that is read and written is stored in 16 bits. */
static bool is_narrow(const rf_op_call *call)
{
    for (uint32_t i = 0; i < call->n_in; i++)
        if (!(call->op->shape_only >> i & 1) && !rf_dtype_is_narrow(call->in[i].dtype)) return false;
    return rf_dtype_is_narrow(call->out[0].dtype);
}

static bool pool_narrow(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    return is_narrow(call);
}

/* Makes the type part of the pipeline: constant 5. */
static void fix_type(const rf_op_call *call, const rf_device_caps *caps, rf_row_job *job)
{
    while (job->n_spec < 4) job->spec[job->n_spec++] = 0;
    job->spec[job->n_spec++] = rf_type_word(call->out[0].dtype, caps);
}

static bool pool_job(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_row_job *job)
{
    const pool_form *v = data;
    rf_pool_geometry p;
    const rf_op_call wide = rf_call_widened(call);
    if (rf_pool_geometry_make(call->op->name, call->attr, &wide.in[rf_pool_x_input(call)], &p) != RF_OK) return false;
    const int64_t rows = v->walk == WALK_WINDOWS ? p.out_height : v->walk == WALK_QUADS ? (p.height + 1) / 2 : p.height;
    const int64_t columns = v->walk == WALK_WINDOWS ? p.out_width : v->walk == WALK_QUADS ? (p.width + 1) / 2 : p.width;
    const uint64_t loops = pool_loops(v, &p);
    if (!pool_fits(v, &p) || loops > rf_loop_limit(caps)) return false;
    if (v->loops == LOOPS_BOTH && loops > MAX_GATHER_LOOPS) return false;
    if (!image_job(&p, caps, v->shader, loops, rows, columns, v->vector, job)) return false;
    if (v->fixed) fix_sides(&p, caps, job);
    if (is_narrow(call)) fix_type(call, caps, job);
    for (uint32_t i = 0; i < call->n_in; i++)
        if (!(call->op->shape_only & 1u << i)) rf_row_job_tensor(job, RF_BIND_INPUT, i, image_bytes(&call->in[i], &p));
    rf_row_job_tensor(job, RF_BIND_OUTPUT, 0, image_bytes(&call->out[0], &p));
    job->score = v->score;
    return true;
}

/* ---- large windows: one side after the other ---- */

enum { LARGE_WINDOW = 1024 }; /* elements: from here on walking sides is chosen where the walk of areas would do, too */

/* Rates what walks sides: always a choice, the better one for large windows. */
static double rate_sides(const rf_pool_geometry *p, const rf_row_job *jobs, uint32_t n, const rf_device_caps *caps)
{
    for (uint32_t i = 0; i < n; i++)
        if (jobs[i].loops > rf_loop_limit(caps) || rf_row_job_chunk(&jobs[i], caps) == 0) return RF_SCORE_NONE;
    return p->window[0] * p->window[1] >= LARGE_WINDOW ? RF_SCORE_EXACT : RF_SCORE_RESERVE;
}

/* The data of these kernels: shaders for single channels and for fours. */
typedef struct sides_form {
    bool gradient;
    const rf_shader *one, *four;
} sides_form;

/* The geometries of the two steps: along the width, then along the height. Gradients keep the windows' lines in the
 * first, as there is one gradient for each. */
static void sides_of(const rf_pool_geometry *p, bool gradient, rf_pool_geometry *wide, rf_pool_geometry *high)
{
    *wide = *high = *p;
    if (gradient) {
        wide->height = p->out_height;
        high->out_width = p->width;
    } else {
        wide->out_height = p->height;
        high->width = p->out_width;
    }
    wide->window[0] = wide->stride[0] = high->window[1] = high->stride[1] = 1;
    wide->pad_top = high->pad_left = 0;
}

static bool side_job(const rf_pool_geometry *p, const rf_device_caps *caps, const sides_form *form, rf_row_job *job)
{
    const uint64_t loops = form->gradient ? area_loops(count_covering(p, 0), count_covering(p, 1))
                                          : area_loops((uint64_t)p->window[0], (uint64_t)p->window[1]);
    const int64_t rows = form->gradient ? p->height : p->out_height, columns = form->gradient ? p->width : p->out_width;
    if (p->channels % 4 == 0 && image_job(p, caps, form->four, loops, rows, columns, 4, job)) {
        fix_sides(p, caps, job);
        return true;
    }
    return image_job(p, caps, form->one, loops, rows, columns, 1, job);
}

/* A maximum of lines' maxima, a mean of lines' means, and what such a mean does to its gradient: the same shader along
 * the one side and along the other. */
static bool sides_jobs(const rf_op_call *call, const rf_device_caps *caps, const sides_form *form, rf_pool_geometry *p,
                       rf_row_job jobs[2])
{
    rf_pool_geometry wide, high;
    if (rf_pool_geometry_make(call->op->name, call->attr, &call->in[rf_pool_x_input(call)], p) != RF_OK) return false;
    sides_of(p, form->gradient, &wide, &high);
    if (!side_job(&wide, caps, form, &jobs[0]) || !side_job(&high, caps, form, &jobs[1])) return false;
    const uint64_t between = (uint64_t)(wide.height * high.width * p->channels) * sizeof(float);
    rf_row_job_tensor(&jobs[0], RF_BIND_INPUT, 0, image_bytes(&call->in[0], p));
    rf_row_job_tensor(&jobs[0], RF_BIND_WORKSPACE, 0, between);
    rf_row_job_tensor(&jobs[1], RF_BIND_WORKSPACE, 0, between);
    jobs[1].tensors[0].write = false;
    rf_row_job_tensor(&jobs[1], RF_BIND_OUTPUT, 0, image_bytes(&call->out[0], p));
    return true;
}

static double sides_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    rf_pool_geometry p;
    rf_row_job jobs[2];
    return sides_jobs(call, caps, data, &p, jobs) ? rate_sides(&p, jobs, 2, caps) : RF_SCORE_NONE;
}

static rf_result sides_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    rf_pool_geometry p;
    rf_row_job jobs[2];
    if (!sides_jobs(call, caps, data, &p, jobs))
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: the images are too large for kernel 'sides'", call->op->name);
    plan->workspace = jobs[1].rows * jobs[1].tensors[0].row_bytes;
    RF_TRY(rf_row_job_plan(&jobs[0], caps, plan));
    return rf_row_job_plan(&jobs[1], caps, plan);
}

/* Adds the tensors of the last step of a maximum's gradient: the windows' gradients, the images, and where each
 * window's maximum is, which earlier steps left at `places` in the workspace. */
static void gather_tensors(rf_row_job *job, uint64_t window_bytes, uint64_t x_bytes, uint64_t places)
{
    rf_row_job_tensor(job, RF_BIND_INPUT, 0, window_bytes);
    rf_row_job_tensor(job, RF_BIND_INPUT, 1, x_bytes);
    rf_row_job_tensor(job, RF_BIND_WORKSPACE, 0, window_bytes);
    job->tensors[2].base = places;
    job->tensors[2].write = false;
    rf_row_job_tensor(job, RF_BIND_OUTPUT, 0, x_bytes);
}

/* The gradient of a maximum needs to know which element that is: the three steps of pool_max_index.comp. The third
 * takes `lines` lines of the windows that cover an element at a time. */
static bool index_jobs(const rf_op_call *call, const rf_device_caps *caps, rf_pool_geometry *p, rf_row_job jobs[3],
                       uint64_t *lines)
{
    if (rf_pool_geometry_make(call->op->name, call->attr, &call->in[1], p) != RF_OK) return false;
    const uint64_t line = count_covering(p, 1) + 2, limit = rf_loop_limit(caps) - 1;
    *lines = limit / line < count_covering(p, 0) ? limit / line : count_covering(p, 0);
    if (*lines == 0 || p->height * p->width > INT32_MAX) return false;
    const bool fits =
        image_job(p, caps, &rf_shader_pool_max_index_lines, (uint64_t)p->window[1] + 1, p->height, p->out_width, 1,
                  &jobs[0]) &&
        image_job(p, caps, &rf_shader_pool_max_index_windows, (uint64_t)p->window[0] + 1, p->out_height, p->out_width,
                  1, &jobs[1]) &&
        image_job(p, caps, &rf_shader_pool_max_index_grad, *lines * line + 1, p->height, p->width, 1, &jobs[2]);
    if (!fits) return false;
    const uint64_t x_bytes = image_bytes(&call->in[1], p), window_bytes = image_bytes(&call->in[0], p);
    const uint64_t column_bytes = (uint64_t)(p->height * p->out_width * p->channels) * sizeof(int32_t);
    const uint64_t places = rf_align_up((uint64_t)p->images * column_bytes, caps->buffer_alignment);
    rf_row_job_tensor(&jobs[0], RF_BIND_INPUT, 1, x_bytes);
    rf_row_job_tensor(&jobs[0], RF_BIND_WORKSPACE, 0, column_bytes);
    rf_row_job_tensor(&jobs[1], RF_BIND_INPUT, 1, x_bytes);
    rf_row_job_tensor(&jobs[1], RF_BIND_WORKSPACE, 0, column_bytes);
    jobs[1].tensors[1].write = false;
    rf_row_job_tensor(&jobs[1], RF_BIND_WORKSPACE, 0, window_bytes);
    jobs[1].tensors[2].base = places;
    gather_tensors(&jobs[2], window_bytes, x_bytes, places);
    return true;
}

static void set_lines(rf_row_job *job, uint64_t first, uint64_t end)
{
    rf_push_pool push;
    memcpy(&push, job->push, sizeof(push));
    push.first_line = (int32_t)first;
    push.end_line = (int32_t)end;
    RF_ROW_JOB_PUSH(job, push, images);
}

static double max_grad_sides_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    rf_pool_geometry p;
    rf_row_job jobs[3];
    uint64_t lines;
    return index_jobs(call, caps, &p, jobs, &lines) ? rate_sides(&p, jobs, 3, caps) : RF_SCORE_NONE;
}

static rf_result max_grad_sides_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                     rf_kernel_plan *plan)
{
    rf_pool_geometry p;
    rf_row_job jobs[3];
    uint64_t lines;
    if (!index_jobs(call, caps, &p, jobs, &lines))
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: the images are too large for kernel 'sides'", call->op->name);
    plan->workspace = jobs[2].tensors[2].base + jobs[2].rows * jobs[2].tensors[2].row_bytes;
    RF_TRY(rf_row_job_plan(&jobs[0], caps, plan));
    RF_TRY(rf_row_job_plan(&jobs[1], caps, plan));
    for (uint64_t first = 0; first < count_covering(&p, 0); first += lines) {
        set_lines(&jobs[2], first, first + lines);
        RF_TRY(rf_row_job_plan(&jobs[2], caps, plan));
    }
    return RF_OK;
}

/* ---- small windows that overlap: where each one's maximum is, then who has it ---- */

/* Shaders of the two steps. */
typedef struct pool_places {
    const rf_shader *windows, *grad;
    uint32_t vector;
    int score;
} pool_places;

static bool places_jobs(const rf_op_call *call, const rf_device_caps *caps, const pool_places *v, rf_pool_geometry *p,
                        rf_row_job jobs[2])
{
    if (rf_pool_geometry_make(call->op->name, call->attr, &call->in[1], p) != RF_OK) return false;
    const uint64_t window = area_loops((uint64_t)p->window[0], (uint64_t)p->window[1]);
    const uint64_t covering = area_loops(count_covering(p, 0), count_covering(p, 1));
    if (p->channels % v->vector != 0 || p->height * p->width > MAX_EXACT_FLOAT || window > rf_loop_limit(caps) ||
        covering > rf_loop_limit(caps) ||
        !image_job(p, caps, v->windows, window, p->out_height, p->out_width, v->vector, &jobs[0]) ||
        !image_job(p, caps, v->grad, covering, p->height, p->width, v->vector, &jobs[1]))
        return false;
    for (uint32_t i = 0; v->vector > 1 && i < 2; i++) fix_sides(p, caps, &jobs[i]);
    const uint64_t x_bytes = image_bytes(&call->in[1], p), window_bytes = image_bytes(&call->in[0], p);
    rf_row_job_tensor(&jobs[0], RF_BIND_INPUT, 1, x_bytes);
    rf_row_job_tensor(&jobs[0], RF_BIND_WORKSPACE, 0, window_bytes);
    gather_tensors(&jobs[1], window_bytes, x_bytes, 0);
    return true;
}

static double places_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const pool_places *v = data;
    rf_pool_geometry p;
    rf_row_job jobs[2];
    if (!places_jobs(call, caps, v, &p, jobs)) return RF_SCORE_NONE;
    const uint64_t windows = rf_row_job_chunk(&jobs[0], caps), elements = rf_row_job_chunk(&jobs[1], caps);
    if (windows == 0 || elements == 0) return RF_SCORE_NONE;
    /* Where windows lie apart, each has its elements to itself, and one walk over it does. */
    return p.stride[0] >= p.window[0] && p.stride[1] >= p.window[1] ? RF_SCORE_RESERVE : v->score;
}

static rf_result places_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    const pool_places *v = data;
    rf_pool_geometry p;
    rf_row_job jobs[2];
    if (!places_jobs(call, caps, v, &p, jobs))
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: kernel %s does not support this pooling", call->op->name,
                       v->grad->name);
    plan->workspace = rf_tensor_bytes(&call->in[0]);
    RF_TRY(rf_row_job_plan(&jobs[0], caps, plan));
    return rf_row_job_plan(&jobs[1], caps, plan);
}

/* ---- the kernels ---- */

#define FORM(text, ...) RF_ROW_KERNEL(text, pool_job, &(const pool_form){ __VA_ARGS__ })

static const rf_kernel max_pool[] = {
    { FORM("any", &rf_shader_pool_max, WALK_WINDOWS, LOOPS_WINDOW, 1, NEEDS_NOTHING, RF_SCORE_ANY) },
    { FORM("vec4", &rf_shader_pool_max_vec4, WALK_WINDOWS, LOOPS_WINDOW, 4, NEEDS_NOTHING, RF_SCORE_WIDE,
           .fixed = true),
      .narrow = pool_narrow },
    { FORM("2x2", &rf_shader_pool_max_2x2, WALK_WINDOWS, LOOPS_NONE, 4, NEEDS_2X2, RF_SCORE_EXACT),
      .narrow = pool_narrow },
    { "sides", sides_score, sides_plan, &(const sides_form){ false, &rf_shader_pool_max, &rf_shader_pool_max_vec4 } },
};
const rf_kernel_list rf_max_pool_common = RF_KERNEL_LIST(max_pool);

static const rf_kernel max_pool_grad[] = {
    { FORM("gather", &rf_shader_pool_max_grad_gather, WALK_ELEMENTS, LOOPS_BOTH, 1, NEEDS_NOTHING, RF_SCORE_ANY) },
    { FORM("gather_vec4", &rf_shader_pool_max_grad_gather_vec4, WALK_ELEMENTS, LOOPS_BOTH, 4, NEEDS_NOTHING,
           RF_SCORE_WIDE),
      .narrow = pool_narrow },
    { FORM("cells", &rf_shader_pool_max_grad_cells, WALK_WINDOWS, LOOPS_CELL, 1, NEEDS_SEPARATE, RF_SCORE_WIDE) },
    { FORM("cells_vec4", &rf_shader_pool_max_grad_cells_vec4, WALK_WINDOWS, LOOPS_CELL, 4, NEEDS_SEPARATE,
           RF_SCORE_SHAPE),
      .narrow = pool_narrow },
    { FORM("2x2", &rf_shader_pool_max_grad_2x2, WALK_QUADS, LOOPS_NONE, 4, NEEDS_2X2, RF_SCORE_EXACT),
      .narrow = pool_narrow },
    { "sides", max_grad_sides_score, max_grad_sides_plan },
    { "places", places_score, places_plan,
      &(const pool_places){ &rf_shader_pool_max_places_windows, &rf_shader_pool_max_places_grad, 1, RF_SCORE_WIDE } },
    { "places_vec4", places_score, places_plan,
      &(const pool_places){ &rf_shader_pool_max_places_windows_vec4, &rf_shader_pool_max_places_grad_vec4, 4,
                            RF_SCORE_SHAPE } },
};
const rf_kernel_list rf_max_pool_grad_common = RF_KERNEL_LIST(max_pool_grad);

static const rf_kernel avg_pool[] = {
    { FORM("any", &rf_shader_pool_avg, WALK_WINDOWS, LOOPS_WINDOW, 1, NEEDS_NOTHING, RF_SCORE_ANY) },
    { FORM("vec4", &rf_shader_pool_avg_vec4, WALK_WINDOWS, LOOPS_WINDOW, 4, NEEDS_NOTHING, RF_SCORE_WIDE,
           .fixed = true),
      .narrow = pool_narrow },
    { "sides", sides_score, sides_plan, &(const sides_form){ false, &rf_shader_pool_avg, &rf_shader_pool_avg_vec4 } },
};
const rf_kernel_list rf_avg_pool_common = RF_KERNEL_LIST(avg_pool);

static const rf_kernel avg_pool_grad[] = {
    { FORM("any", &rf_shader_pool_avg_grad, WALK_ELEMENTS, LOOPS_COVERING, 1, NEEDS_NOTHING, RF_SCORE_ANY) },
    { FORM("vec4", &rf_shader_pool_avg_grad_vec4, WALK_ELEMENTS, LOOPS_COVERING, 4, NEEDS_NOTHING, RF_SCORE_WIDE,
           .fixed = true),
      .narrow = pool_narrow },
    { "sides", sides_score, sides_plan,
      &(const sides_form){ true, &rf_shader_pool_avg_grad, &rf_shader_pool_avg_grad_vec4 } },
};
const rf_kernel_list rf_avg_pool_grad_common = RF_KERNEL_LIST(avg_pool_grad);
