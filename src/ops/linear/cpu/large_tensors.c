/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/linear/cpu/large_tensors.h"

#include "ops/linear/common/matmul.h"

enum { MAX_CHUNKS = 256 };

/* Which tensors of a call have the leading dimension that is cut, and into what. */
typedef struct cuts {
    uint32_t in_mask, out_mask; /* by index; outputs that have it not hold sums over it */
    bool sums;
    int64_t length, rows; /* of the leading dimension, and of each chunk but the last */
    int64_t count;
    uint64_t list[2]; /* with sums: bytes from one partial sum of an output to the next */
} cuts;

static int64_t leading_size(const rf_tensor_desc *desc)
{
    return desc->shape.rank > 0 ? desc->shape.dim[0] : 1;
}

static bool matmul_cuts(const rf_op_call *call, cuts *out)
{
    const rf_matmul_attr *attr = call->attr;
    const int32_t rank = call->out[0].shape.rank;
    if (rank == 2 && call->in[0].shape.rank == 2 && call->in[1].shape.rank == 2) {
        out->sums = attr->transpose_a && !attr->transpose_b;
        out->in_mask = out->sums ? 3 : 1;
        out->out_mask = out->sums ? 0 : 1;
        out->length = leading_size(&call->in[0]);
        return out->sums || !attr->transpose_a;
    }
    out->length = leading_size(&call->out[0]);
    out->out_mask = 1;
    for (uint32_t i = 0; i < 2; i++)
        if (call->in[i].shape.rank == rank && leading_size(&call->in[i]) == out->length) out->in_mask |= 1u << i;
    return true;
}

static bool find_cuts(const rf_op_call *call, rf_linear_role role, cuts *out)
{
    *out = (cuts){ .in_mask = 1, .out_mask = call->n_out > 1 ? 3 : 1, .length = leading_size(&call->in[0]) };
    if (role == RF_ROLE_MATMUL && !matmul_cuts(call, out)) return false;
    if (role == RF_ROLE_DATA) out->in_mask = 1 | 1u << 2; /* a gradient's image, of which only the shape exists */
    if (role == RF_ROLE_FILTER) {
        out->in_mask = 3;
        out->out_mask = 0;
        out->sums = true;
    }
    return out->length > 1;
}

static uint64_t row_bytes(const rf_tensor_desc *desc)
{
    return rf_tensor_bytes(desc) / (uint64_t)leading_size(desc);
}

/* Rows from one place to the next where all the tensors that are cut have an aligned offset. */
static int64_t aligned_rows(const rf_op_call *call, const rf_device_caps *caps, const cuts *c, uint64_t *widest)
{
    uint64_t unit = 1; /* a power of two, as the alignment is */
    *widest = 1;
    for (uint32_t i = 0; i < call->n_in + call->n_out; i++) {
        const bool input = i < call->n_in;
        const uint32_t at = input ? i : i - call->n_in;
        if (!((input ? c->in_mask : c->out_mask) >> at & 1) || (input && call->op->shape_only >> at & 1)) continue;
        const uint64_t bytes = row_bytes(input ? &call->in[at] : &call->out[at]);
        uint64_t rows = caps->buffer_alignment;
        while (rows > 1 && bytes * (rows / 2) % caps->buffer_alignment == 0) rows /= 2;
        if (rows > unit) unit = rows;
        if (bytes > *widest) *widest = bytes;
    }
    return (int64_t)unit;
}

/* The call for `rows` of the leading dimension. Sums over pieces get bias and activation at the end: `plain` is the
 * attribute without, for the piece to refer to. */
static rf_op_call piece_of(const rf_op_call *call, rf_linear_role role, const cuts *c, int64_t rows,
                           rf_matmul_attr *plain)
{
    rf_op_call piece = *call;
    for (uint32_t i = 0; i < call->n_in; i++)
        if (c->in_mask >> i & 1) piece.in[i].shape.dim[0] = rows;
    for (uint32_t i = 0; i < call->n_out; i++)
        if (c->out_mask >> i & 1) piece.out[i].shape.dim[0] = rows;
    if (role == RF_ROLE_MATMUL) {
        *plain = *(const rf_matmul_attr *)call->attr;
        if (c->sums) plain->activation = RF_ACTIVATION_LINEAR;
        if (c->sums || plain->relu_mask) piece.n_in = 2;
        plain->relu_mask = 0;
        piece.attr = plain;
    }
    return piece;
}

static double piece_seconds(const rf_op_call *call, const rf_device_caps *caps, const rf_piece_kernel *kernel,
                            const cuts *c, int64_t rows)
{
    rf_matmul_attr plain;
    const rf_op_call piece = piece_of(call, kernel->role, c, rows, &plain);
    return kernel->form->seconds(&piece, caps, kernel);
}

/* Lists of partial sums, each at an aligned offset, fit a descriptor. */
static bool lists_fit(const rf_op_call *call, const rf_device_caps *caps, cuts *c)
{
    for (uint32_t i = 0; c->sums && i < call->n_out; i++) {
        c->list[i] = rf_align_up(rf_tensor_bytes(&call->out[i]), caps->buffer_alignment);
        if (c->list[i] * (uint64_t)c->count > caps->max_storage_range ||
            rf_tensor_bytes(&call->out[i]) > caps->max_storage_range)
            return false;
    }
    return (uint64_t)c->count + 1 <= rf_loop_limit(caps);
}

/* As few pieces as the kernel takes, of equal size. Returns the seconds of all; 0: there are none. */
static double cut_up(const rf_op_call *call, const rf_device_caps *caps, const rf_piece_kernel *kernel, cuts *c)
{
    uint64_t widest;
    if (!find_cuts(call, kernel->role, c)) return 0;
    const int64_t unit = aligned_rows(call, caps, c, &widest);
    int64_t rows = (int64_t)rf_min(caps->max_storage_range / widest, (uint64_t)c->length - 1) / unit * unit;
    /* Operands that are padded first, or read as texels, take more than they are long. */
    while (rows >= unit && piece_seconds(call, caps, kernel, c, rows) <= 0) rows = rows / 2 / unit * unit;
    if (rows < unit) return 0;
    c->count = (int64_t)rf_div_up((uint64_t)c->length, (uint64_t)rows);
    c->rows = (int64_t)rf_align_up(rf_div_up((uint64_t)c->length, (uint64_t)c->count), (uint64_t)unit);
    c->count = (int64_t)rf_div_up((uint64_t)c->length, (uint64_t)c->rows);
    if (c->count > MAX_CHUNKS || !lists_fit(call, caps, c)) return 0;
    const double each = piece_seconds(call, caps, kernel, c, c->rows);
    const double last = piece_seconds(call, caps, kernel, c, c->length - (c->count - 1) * c->rows);
    return each > 0 && last > 0 ? (double)(c->count - 1) * each + last : 0;
}

double rf_pieces_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_piece_kernel *kernel = data;
    double seconds = kernel->form->seconds(call, caps, kernel);
    cuts c;
    if (seconds <= 0) seconds = cut_up(call, caps, kernel, &c);
    return seconds > 0 ? rf_score_of_time(seconds) : RF_SCORE_NONE;
}

/* ---- plans ---- */

/* Where things lie in the workspace: partial sums, then what the pieces use one after the other. */
typedef struct scratch {
    uint64_t list_at[2], pieces_at, end;
} scratch;

/* Piece number `index` was planned as a call of its own. */
static void move_binding(const rf_op_call *piece, const cuts *c, const scratch *s, int64_t index, uint64_t workspace,
                         rf_binding *b)
{
    if (b->kind == RF_BIND_WORKSPACE) {
        if (b->size == 0) b->size = workspace - b->offset;
        b->offset += s->pieces_at;
        return;
    }
    const bool input = b->kind == RF_BIND_INPUT;
    const rf_tensor_desc *desc = input ? &piece->in[b->index] : &piece->out[b->index];
    if (!((input ? c->in_mask : c->out_mask) >> b->index & 1) && (input || !c->sums)) return;
    if (b->size == 0) b->size = rf_align_up(rf_tensor_bytes(desc), 4) - b->offset;
    if (input || !c->sums) {
        b->offset += (uint64_t)(index * c->rows) * row_bytes(desc);
    } else {
        b->kind = RF_BIND_WORKSPACE;
        b->offset += s->list_at[b->index] + (uint64_t)index * c->list[b->index];
        b->index = 0;
    }
}

static rf_result add_piece(const rf_op_call *call, const rf_device_caps *caps, const rf_piece_kernel *kernel,
                           const cuts *c, scratch *s, int64_t index, rf_kernel_plan *plan)
{
    rf_matmul_attr plain;
    const int64_t left = c->length - index * c->rows;
    const rf_op_call piece = piece_of(call, kernel->role, c, left < c->rows ? left : c->rows, &plain);
    rf_kernel_plan own = { 0 };
    rf_result r = kernel->form->plan(&piece, caps, kernel, &own);
    for (uint32_t i = 0; r >= 0 && i < own.count; i++) {
        rf_dispatch *d = rf_kernel_plan_add(plan, own.items[i].shader, own.items[i].loops);
        if (!d) {
            r = RF_ERROR_OUT_OF_HOST_MEMORY;
            break;
        }
        *d = own.items[i];
        for (uint32_t b = 0; b < d->n_bind && b < RF_MAX_BINDINGS; b++)
            move_binding(&piece, c, s, index, own.workspace, &d->bind[b]);
        /* Pieces have nothing in common but the workspace. */
        if (i == 0) d->concurrent = index > 0 && own.workspace == 0;
    }
    if (s->pieces_at + own.workspace > s->end) s->end = s->pieces_at + own.workspace;
    rf_kernel_plan_free(&own);
    return r;
}

/* Adds the partial sums of an output in order, and finishes as the undivided product would have. */
static rf_result add_sum(const rf_op_call *call, const rf_device_caps *caps, rf_linear_role role, const cuts *c,
                         const scratch *s, uint32_t output, rf_kernel_plan *plan)
{
    const bool product = role == RF_ROLE_MATMUL;
    const rf_linear_sum sum = { .partial = { .kind = RF_BIND_WORKSPACE,
                                             .offset = s->list_at[output],
                                             .size = c->list[output] * (uint64_t)c->count },
                                .parts = c->count,
                                .stride = c->list[output] / sizeof(float),
                                .count = rf_desc_count(&call->out[output]),
                                .columns = (int64_t)rf_desc_columns(&call->out[output]),
                                .activation = product ? ((const rf_matmul_attr *)call->attr)->activation : 0,
                                .output = output,
                                .bias = product && rf_matmul_geometry_of(call).bias };
    RF_TRY(rf_linear_add_sum(plan, call, caps, &sum));
    plan->items[plan->count - 1].concurrent = output > 0;
    return RF_OK;
}

rf_result rf_pieces_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    const rf_piece_kernel *kernel = data;
    cuts c;
    if (kernel->form->seconds(call, caps, kernel) > 0) return kernel->form->plan(call, caps, kernel, plan);
    if (cut_up(call, caps, kernel, &c) <= 0)
        return RF_FAIL(RF_ERROR_INTERNAL, "%s: no piece of it fits the device's descriptors", call->op->name);
    scratch s = { 0 };
    for (uint32_t i = 0; c.sums && i < call->n_out; i++) {
        s.list_at[i] = s.pieces_at;
        s.pieces_at += c.list[i] * (uint64_t)c.count;
    }
    s.end = s.pieces_at;
    for (int64_t i = 0; i < c.count; i++) RF_TRY(add_piece(call, caps, kernel, &c, &s, i, plan));
    for (uint32_t i = 0; c.sums && i < call->n_out; i++) RF_TRY(add_sum(call, caps, kernel->role, &c, &s, i, plan));
    plan->workspace = s.end;
    return RF_OK;
}
