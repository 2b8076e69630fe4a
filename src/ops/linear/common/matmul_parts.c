/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A product in which one matrix is larger than a descriptor may span, as the head of a language model often is: that
 * matrix is cut along its rows, and the best kernel computes each part. Columns of another matrix belong to a part,
 * and are copied: those of a before its product, or those of c after it.
 */
#include "ops/linear/common/matmul.h"

#define MOST_PARTS RF_CONCAT_INPUTS
#define CPU_COPIED_BYTES 4e9 /* in a second */
#define GPU_COPIED_BYTES 4e11

/* Which matrix is cut: b along c's columns or along summands, or c along its rows. */
typedef enum part_kind { COLUMNS_OF_C, SUMMANDS, ROWS_OF_C } part_kind;

typedef struct parts {
    part_kind kind;
    int64_t length, rows, count; /* of what is cut: in all, of each part but the last; parts */
} parts;

static int64_t part_rows(const parts *p, int64_t index)
{
    const int64_t left = p->length - index * p->rows;
    return left < p->rows ? left : p->rows;
}

static rf_tensor_desc matrix_of(int64_t rows, int64_t columns)
{
    return (rf_tensor_desc){ RF_F32, { 2, { rows, columns } } };
}

static uint64_t matrix_bytes(int64_t rows, int64_t columns)
{
    return (uint64_t)rows * (uint64_t)columns * sizeof(float);
}

static rf_op_call part_call(const rf_op_call *call, const rf_matmul_geometry *g, const parts *p, int64_t rows,
                            rf_matmul_attr *attr)
{
    rf_op_call part = { .op = call->op, .attr = attr, .n_in = call->n_in, .n_out = 1 };
    *attr = *(const rf_matmul_attr *)call->attr;
    if (p->kind == COLUMNS_OF_C) {
        part.in[0] = matrix_of(g->m, g->k);
        part.in[1] = matrix_of(rows, g->k);
        part.in[2] = (rf_tensor_desc){ RF_F32, { 1, { rows } } };
        part.out[0] = matrix_of(g->m, rows);
    } else if (p->kind == SUMMANDS) {
        attr->activation = RF_ACTIVATION_LINEAR; /* the sum of all parts gets it, and the bias */
        part.n_in = 2;
        part.in[0] = matrix_of(g->m, rows);
        part.in[1] = matrix_of(rows, g->n);
        part.out[0] = matrix_of(g->m, g->n);
    } else {
        part.in[0] = matrix_of(g->k, rows);
        part.in[1] = matrix_of(g->k, g->n);
        part.in[2] = call->in[2];
        part.out[0] = matrix_of(rows, g->n);
    }
    return part;
}

static double product_seconds(const rf_op_call *call, const rf_device_caps *caps)
{
    const rf_kernel *kernel = rf_fits_storage(call, caps) ? rf_best_kernel(call, caps) : NULL;
    return kernel ? 1e-3 / rf_kernel_score(kernel, call, caps) : 0;
}

/* 0: no kernel takes the parts. */
static double parts_seconds(const rf_op_call *call, const rf_matmul_geometry *g, const rf_device_caps *caps,
                            const parts *p)
{
    rf_matmul_attr attr;
    const rf_op_call whole = part_call(call, g, p, p->rows, &attr);
    const double each = product_seconds(&whole, caps);
    const rf_op_call rest = part_call(call, g, p, part_rows(p, p->count - 1), &attr);
    const double last = product_seconds(&rest, caps);
    const uint64_t copied = p->kind == COLUMNS_OF_C ? matrix_bytes(g->m, g->n)
                            : p->kind == SUMMANDS   ? matrix_bytes(g->m, g->k + p->count * g->n)
                                                    : matrix_bytes(g->k, g->m);
    if (each <= 0 || last <= 0) return 0;
    return (double)(p->count - 1) * each + last +
           2 * (double)copied / (caps->is_cpu ? CPU_COPIED_BYTES : GPU_COPIED_BYTES);
}

/* Finds the matrix that is cut, and the number of parts, whose offsets are aligned. 0 seconds: this kernel cuts none.
 */
static double parts_make(const rf_op_call *call, const rf_matmul_geometry *g, const rf_device_caps *caps, parts *out)
{
    const uint64_t range = caps->max_storage_range, a = matrix_bytes(g->m, g->k), b = matrix_bytes(g->k, g->n),
                   c = matrix_bytes(g->m, g->n);
    const int64_t unit = caps->buffer_alignment > sizeof(float) ? (int64_t)(caps->buffer_alignment / sizeof(float)) : 1;
    double best = 0;
    parts p;
    if (call->in[0].dtype != RF_F32 || call->in[1].dtype != RF_F32 || call->out[0].dtype != RF_F32 || g->batch != 1 ||
        g->relu_mask || g->bias_gradient || a > range)
        return 0;
    if (b > range && c <= range && !g->ta)
        p = (parts){ .kind = g->tb ? COLUMNS_OF_C : SUMMANDS, .length = g->tb ? g->n : g->k };
    else if (c > range && b <= range && g->ta && !g->tb)
        p = (parts){ .kind = ROWS_OF_C, .length = g->m };
    else
        return 0;
    for (int64_t wanted = 2; wanted <= MOST_PARTS; wanted++) {
        p.rows = (int64_t)rf_align_up(rf_div_up((uint64_t)p.length, (uint64_t)wanted), (uint64_t)unit);
        p.count = (int64_t)rf_div_up((uint64_t)p.length, (uint64_t)p.rows);
        if (p.kind == SUMMANDS && ((uint64_t)p.count * rf_align_up(c, caps->buffer_alignment) > range ||
                                   (uint64_t)p.count + 1 > rf_loop_limit(caps)))
            break;
        const double seconds = p.count > 1 ? parts_seconds(call, g, caps, &p) : 0;
        if (seconds <= 0 || (best > 0 && seconds >= best)) continue;
        best = seconds;
        *out = p;
    }
    return best;
}

double rf_matmul_parts_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    (void)data;
    if (rf_fits_storage(call, caps)) return RF_SCORE_NONE;
    const rf_matmul_geometry g = rf_matmul_geometry_of(call);
    parts p;
    const double seconds = parts_make(call, &g, caps, &p);
    return seconds > 0 ? rf_score_of_time(seconds) : RF_SCORE_NONE;
}

/* ---- plans ---- */

static rf_plan_tensor workspace_add(rf_kernel_plan *plan, const rf_device_caps *caps, uint64_t bytes)
{
    const rf_binding room = rf_linear_workspace(plan, caps, rf_align_up(bytes, 16)); /* kernels read whole vectors */
    return (rf_plan_tensor){ RF_BIND_WORKSPACE, 0, room.offset, room.size };
}

/* Columns [first, first + count) of a, stored one row after the other. */
static rf_result add_columns(const rf_tensor_desc *a, int64_t first, int64_t count, const rf_device_caps *caps,
                             rf_kernel_plan *plan, rf_plan_tensor *out)
{
    const rf_slice_attr range = { .begin = { 0, first }, .end = { 0, first + count }, .step = { 0, 1 } };
    const int64_t rows = a->shape.dim[0];
    rf_op_call slice = { .op = &rf_op_slice, .attr = &range, .n_in = 1, .n_out = 1 };
    slice.in[0] = *a;
    slice.out[0] = matrix_of(rows, count);
    *out = workspace_add(plan, caps, matrix_bytes(rows, count));
    return rf_plan_append(plan, &slice, caps, &(rf_plan_tensor){ RF_BIND_INPUT, 0, 0, 0 }, out);
}

/* c's columns of all parts side by side. */
static rf_result join_columns(const rf_matmul_geometry *g, const parts *p, const rf_plan_tensor *from,
                              const rf_device_caps *caps, rf_kernel_plan *plan)
{
    const rf_concat_attr attr = { .axis = 1 };
    rf_op_call join = { .op = &rf_op_concat, .attr = &attr, .n_in = (uint32_t)p->count, .n_out = 1 };
    for (int64_t i = 0; i < p->count; i++) join.in[i] = matrix_of(g->m, part_rows(p, i));
    join.out[0] = matrix_of(g->m, g->n);
    return rf_plan_append(plan, &join, caps, from, &(rf_plan_tensor){ RF_BIND_OUTPUT, 0, 0, 0 });
}

/* Rows of one of the call's own tensors from a part's first on. */
static rf_plan_tensor rows_of(rf_bind_kind kind, uint32_t index, const parts *p, int64_t part, int64_t columns)
{
    return (rf_plan_tensor){ kind, index, matrix_bytes(part * p->rows, columns),
                             matrix_bytes(part_rows(p, part), columns) };
}

/* `made`: where the parts of c go that are not its rows. */
static rf_result add_part(const rf_op_call *call, const rf_matmul_geometry *g, const parts *p, int64_t index,
                          const rf_plan_tensor *made, const rf_device_caps *caps, rf_kernel_plan *plan)
{
    rf_matmul_attr attr;
    const int64_t rows = part_rows(p, index), first = index * p->rows;
    const rf_op_call part = part_call(call, g, p, rows, &attr);
    const bool by_rows = p->kind == ROWS_OF_C;
    rf_plan_tensor in[3] = { { RF_BIND_INPUT, 0, 0, 0 }, { RF_BIND_INPUT, 1, 0, 0 }, { RF_BIND_INPUT, 2, 0, 0 } };
    if (p->kind != COLUMNS_OF_C) {
        const rf_tensor_desc a = by_rows ? matrix_of(g->k, g->m) : matrix_of(g->m, g->k);
        RF_TRY(add_columns(&a, first, rows, caps, plan, &in[0]));
    }
    if (!by_rows) in[1] = rows_of(RF_BIND_INPUT, 1, p, index, p->kind == COLUMNS_OF_C ? g->k : g->n);
    if (p->kind == COLUMNS_OF_C) in[2] = rows_of(RF_BIND_INPUT, 2, p, index, 1);
    const rf_plan_tensor out = by_rows ? rows_of(RF_BIND_OUTPUT, 0, p, index, g->n) : *made;
    return rf_plan_append(plan, &part, caps, in, &out);
}

rf_result rf_matmul_parts_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                               rf_kernel_plan *plan)
{
    (void)data;
    const rf_matmul_geometry g = rf_matmul_geometry_of(call);
    parts p;
    rf_plan_tensor made[MOST_PARTS] = { 0 };
    if (parts_make(call, &g, caps, &p) <= 0) return RF_FAIL(RF_ERROR_INTERNAL, "matmul: no part fits a descriptor");
    const uint64_t stride =
        rf_align_up(matrix_bytes(g.m, g.n), caps->buffer_alignment > 16 ? caps->buffer_alignment : 16);
    const rf_binding sums =
        p.kind == SUMMANDS ? rf_linear_workspace(plan, caps, stride * (uint64_t)p.count) : (rf_binding){ 0 };
    for (int64_t i = 0; i < p.count; i++) {
        if (p.kind == SUMMANDS)
            made[i] = (rf_plan_tensor){ RF_BIND_WORKSPACE, 0, sums.offset + (uint64_t)i * stride, stride };
        if (p.kind == COLUMNS_OF_C) made[i] = workspace_add(plan, caps, matrix_bytes(g.m, part_rows(&p, i)));
        RF_TRY(add_part(call, &g, &p, i, &made[i], caps, plan));
    }
    if (p.kind == COLUMNS_OF_C) return join_columns(&g, &p, made, caps, plan);
    if (p.kind == ROWS_OF_C) return RF_OK;
    return rf_linear_add_sum(plan, call, caps,
                             &(rf_linear_sum){ .partial = sums,
                                               .parts = p.count,
                                               .stride = stride / sizeof(float),
                                               .count = rf_desc_count(&call->out[0]),
                                               .columns = g.n,
                                               .activation = g.activation,
                                               .bias = g.bias });
}
