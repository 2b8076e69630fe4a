/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of gather on GPUs, where workgroups with a few choices each read all indices: one dispatch, without
 * anything sorted. shaders/pointwise/gpu/gather_marks.comp. */
#include "ops/pointwise/common/gather.h"
#include "ops/pointwise/gpu/kernels.h"
#include "ops/pointwise/gpu/model.h"
#include "rf_shaders.h"

/* Sizes of the shader: invocations, shared words of marks, words that say which of these have any, choices, and places
 * of a choice that one invocation adds. */
enum { LANES = 256, MOST_WORDS = 4096, MOST_HEADS = 256, MOST_ROWS = 64, FEW = 16 };
enum { MOST_PLACES = 16384, MOST_COLUMNS = 64, PLACES_ABREAST = 8 * LANES };
#define SHARED_BYTES ((MOST_WORDS + MOST_HEADS + MOST_ROWS * (1 + FEW) + 4 * LANES) * sizeof(uint32_t))

/* How a chunk is shared out: choices and vectors of their rows that a workgroup has. */
typedef struct marks_form {
    uint64_t width, inner, words, heads, rows, columns, row_blocks, column_blocks, groups;
    double seconds;
} marks_form;

static rf_gather_shape size_of(const rf_gather_shape *all, const rf_device_caps *caps)
{
    rf_gather_shape size = rf_gather_chunk_size(all, caps, 1);
    if (size.places <= MOST_PLACES) return size;
    size.batch = size.outer = 1;
    size.places = MOST_PLACES;
    return size;
}

static double form_seconds(const marks_form *f, const rf_gather_shape *n, const rf_device_caps *caps)
{
    const uint64_t of_choice = rf_div_up(n->places, n->choices); /* as if all were taken equally often */
    return rf_gather_marks_seconds(caps, &(rf_gather_marks){ .groups = f->groups,
                                                             .rows = f->rows,
                                                             .places = n->places,
                                                             .at_once = PLACES_ABREAST,
                                                             .of_choice = of_choice,
                                                             .slices = LANES / f->columns,
                                                             .few = of_choice <= FEW });
}

/* The form that takes the least time; of two that take the same the one of fewer workgroups. */
static marks_form form_of(const rf_gather_shape *n, const rf_device_caps *caps)
{
    marks_form best = { 0 }, f = { .width = n->inner % 4 == 0 ? 4 : 1 };
    f.inner = n->inner / f.width;
    f.words = rf_div_up(n->places, 32);
    f.heads = rf_div_up(f.words, 32);
    const uint64_t most = rf_min(rf_min(MOST_ROWS, MOST_WORDS / f.words), rf_min(MOST_HEADS / f.heads, n->choices));
    for (f.columns = MOST_COLUMNS; f.columns >= 1; f.columns /= 2) {
        if (f.columns > 1 && f.columns / 2 >= f.inner) continue;
        f.column_blocks = rf_div_up(f.inner, f.columns);
        for (f.rows = most; f.rows >= 1; f.rows = f.rows > 1 ? (f.rows + 1) / 2 : 0) {
            f.row_blocks = rf_div_up(n->choices, f.rows);
            f.groups = n->batch * n->outer * f.row_blocks * f.column_blocks;
            f.seconds = form_seconds(&f, n, caps);
            if (best.seconds == 0 || f.seconds < best.seconds) best = f;
        }
        /* Less than a sector of neighbours is not worth reading. */
        if (f.columns * f.width <= 8) break;
    }
    return best;
}

static uint64_t form_loops(const marks_form *f, const rf_gather_shape *n)
{
    const uint64_t of_marks = f->words * 5 + 16, lists = f->heads + 2 * FEW;
    return 64 + n->places / PLACES_ABREAST + lists + f->rows * of_marks;
}

double rf_gather_marks_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_gather_shape all = rf_gather_shape_of(call->attr, &call->in[2].shape, &call->in[1].shape);
    const rf_gather_shape size = size_of(&all, caps);
    if (size.choices == 0 || size.places == 0 || rf_local_size(caps, LANES) != LANES ||
        caps->max_shared_memory < SHARED_BYTES)
        return RF_SCORE_NONE;
    rf_gather_chunk chunk = { 0 };
    (void)rf_gather_chunk_next(&all, &size, &chunk); /* the largest */
    const marks_form f = form_of(&chunk.size, caps);
    if (f.groups > INT32_MAX || form_loops(&f, &chunk.size) > rf_loop_limit(caps)) return RF_SCORE_NONE;
    const double chunks = rf_gather_turns(all.batch, size.batch) * rf_gather_turns(all.outer, size.outer) *
                          rf_gather_turns(all.choices, size.choices) * rf_gather_turns(all.places, size.places);
    return rf_score_of_time(chunks * f.seconds);
}

/* Fours of 16 bits; results that several dispatches add to are rounded once, by what converts them. */
bool rf_gather_marks_narrow(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_gather_shape all = rf_gather_shape_of(call->attr, &call->in[2].shape, &call->in[1].shape);
    const rf_gather_shape size = size_of(&all, caps);
    return all.inner % 4 == 0 && (size.places == all.places || !rf_dtype_is_narrow(call->out[0].dtype));
}

/* With rows as long as they are in words of memory. */
static rf_gather_shape stored_as(const rf_gather_shape *all, rf_dtype type)
{
    rf_gather_shape s = *all;
    if (rf_dtype_is_narrow(type)) s.inner /= 2;
    return s;
}

static uint32_t types_of(const rf_op_call *call, const rf_device_caps *caps)
{
    const rf_dtype dy = call->in[0].dtype, dx = call->out[0].dtype;
    uint32_t types = 0;
    if (rf_dtype_is_narrow(dy)) types |= 1u << 0 | rf_type_word(dy, caps) << 8;
    if (rf_dtype_is_narrow(dx)) types |= 1u << 2 | rf_type_word(dx, caps) << 8;
    return types;
}

rf_result rf_gather_marks_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                               rf_kernel_plan *plan)
{
    const rf_gather_shape all = rf_gather_shape_of(call->attr, &call->in[2].shape, &call->in[1].shape);
    const rf_gather_shape size = size_of(&all, caps);
    const rf_gather_shape dy = stored_as(&all, call->in[0].dtype), dx = stored_as(&all, call->out[0].dtype);
    const uint32_t types = types_of(call, caps);
    for (rf_gather_chunk chunk = { 0 }; rf_gather_chunk_next(&all, &size, &chunk);) {
        const rf_gather_shape *n = &chunk.size;
        const marks_form f = form_of(n, caps);
        rf_push_gather_marks push = { .groups = (uint32_t)f.groups,
                                      .row_blocks = (uint32_t)f.row_blocks,
                                      .column_blocks = (uint32_t)f.column_blocks,
                                      .outer = (uint32_t)n->outer,
                                      .choices = (uint32_t)n->choices,
                                      .places = (uint32_t)n->places,
                                      .inner = (uint32_t)f.inner,
                                      .rows = (uint32_t)f.rows,
                                      .columns = (uint32_t)f.columns,
                                      .words = (uint32_t)f.words,
                                      .heads = (uint32_t)f.heads,
                                      .first = (uint32_t)chunk.choice,
                                      .adds = chunk.place > 0 };
        const rf_shader *shader = f.width == 4 ? &rf_shader_gather_marks_w4 : &rf_shader_gather_marks_w1;
        rf_dispatch *d = rf_kernel_plan_add(plan, shader, form_loops(&f, n));
        if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
        d->concurrent = plan->count > 1 && !push.adds;
        rf_dispatch_spec(d, LANES);
        if (f.width == 4) rf_dispatch_spec(d, types);
        push.dy_offset =
            rf_gather_bind_y(d, caps, RF_BIND_INPUT, &dy, &chunk, (uint32_t)(f.width * dy.inner / all.inner));
        push.indices_offset = rf_gather_bind_indices(d, caps, &all, &chunk);
        push.dx_offset =
            rf_gather_bind_x(d, caps, RF_BIND_OUTPUT, &dx, &chunk, (uint32_t)(f.width * dx.inner / all.inner));
        rf_dispatch_push(d, &push, sizeof(push));
        rf_dispatch_groups(d, caps, f.groups);
    }
    return RF_OK;
}
