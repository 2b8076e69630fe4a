/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/reduction/reduction.h"

uint64_t rf_desc_count(const rf_tensor_desc *desc)
{
    const int64_t count = rf_shape_count(desc->shape);
    return count > 0 ? (uint64_t)count : 0;
}

uint64_t rf_desc_columns(const rf_tensor_desc *desc)
{
    return desc->shape.rank > 0 ? (uint64_t)desc->shape.dim[desc->shape.rank - 1] : 1;
}

uint64_t rf_desc_rows(const rf_tensor_desc *desc)
{
    uint64_t rows = 1;
    for (int32_t i = 0; i + 1 < desc->shape.rank; i++) rows *= (uint64_t)desc->shape.dim[i];
    return rows;
}

rf_result rf_expect_dtype(const rf_op_call *call, uint32_t input, rf_dtype dtype)
{
    char shape[96];
    if (call->in[input].dtype == dtype) return RF_OK;
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: input %u is %s %s, needs %s; cast it first", call->op->name, input,
                   rf_dtype_name(call->in[input].dtype), rf_shape_format(call->in[input].shape, shape, sizeof(shape)),
                   rf_dtype_name(dtype));
}

rf_result rf_expect_not_empty(const rf_op_call *call, uint32_t input)
{
    char shape[96];
    if (rf_desc_count(&call->in[input]) > 0) return RF_OK;
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: input %u of shape %s has no elements", call->op->name, input,
                   rf_shape_format(call->in[input].shape, shape, sizeof(shape)));
}

rf_result rf_expect_shape(const rf_op_call *call, uint32_t input, const rf_shape *shape, const char *why)
{
    char got[96], wanted[96];
    if (rf_shape_equal(call->in[input].shape, *shape)) return RF_OK;
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: input %u has shape %s, needs %s (%s)", call->op->name, input,
                   rf_shape_format(call->in[input].shape, got, sizeof(got)),
                   rf_shape_format(*shape, wanted, sizeof(wanted)), why);
}

rf_result rf_expect_rows(const rf_op_call *call, uint32_t input)
{
    RF_TRY(rf_expect_dtype(call, input, RF_F32));
    RF_TRY(rf_expect_not_empty(call, input));
    if (call->in[input].shape.rank > 0) return RF_OK;
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: input %u is a scalar, needs at least one dimension", call->op->name,
                   input);
}

rf_cost rf_cost_of(const rf_op_call *call, double flops)
{
    rf_cost cost = { .flops = flops };
    for (uint32_t i = 0; i < call->n_in; i++)
        if (!(call->op->shape_only & 1u << i)) cost.bytes += (double)rf_tensor_bytes(&call->in[i]);
    for (uint32_t i = 0; i < call->n_in; i++)
        if (call->op->mutates & 1u << i) cost.bytes += (double)rf_tensor_bytes(&call->in[i]);
    for (uint32_t i = 0; i < call->n_out; i++) cost.bytes += (double)rf_tensor_bytes(&call->out[i]);
    return cost;
}

uint32_t rf_local_size(const rf_device_caps *caps, uint32_t wanted)
{
    uint32_t size = wanted;
    if (size > caps->max_workgroup_size[0]) size = caps->max_workgroup_size[0];
    if (size > caps->max_workgroup_invocations) size = caps->max_workgroup_invocations;
    while (size & (size - 1)) size &= size - 1; /* a power of two, for trees */
    return size;
}

uint64_t rf_row_loops(uint64_t columns, uint32_t lanes, uint32_t passes)
{
    const uint64_t own = rf_div_up(columns, lanes);
    /* Blocks are loops of their own, and so is each pass's tree, of at most ten turns. */
    return passes * (own + 2 * rf_div_up(own, 64) + (lanes > 1 ? 12 : 2));
}

uint32_t rf_row_group_size(const rf_device_caps *caps, uint64_t columns, uint32_t passes)
{
    const uint32_t most = rf_local_size(caps, 1024); /* what the shaders have shared memory for */
    uint32_t size = rf_local_size(caps, 128);
    while (size < most && rf_row_loops(columns, size, passes) > rf_loop_limit(caps)) size *= 2;
    return size;
}

void rf_row_job_group(rf_row_job *job, const rf_device_caps *caps, const rf_shader *shader, uint64_t columns,
                      uint32_t passes)
{
    job->shader = shader;
    job->grid = RF_GRID_GROUPS;
    job->local = rf_row_group_size(caps, columns, passes);
    job->loops = rf_row_loops(columns, job->local, passes);
}

double rf_row_job_score(const rf_row_job *job, const rf_device_caps *caps, uint64_t columns)
{
    if (job->loops > rf_loop_limit(caps) || rf_row_job_chunk(job, caps) == 0) return 0;
    if (job->grid != RF_GRID_GROUPS) return 1;
    return caps->is_cpu ? 0.5 : columns >= 64 ? 3 : 0.8;
}

bool rf_flat_grid(const rf_device_caps *caps, uint64_t groups, uint32_t grid[3])
{
    const uint64_t y = rf_div_up(groups, caps->max_grid[0]);
    if (groups == 0 || y > caps->max_grid[1]) return false;
    grid[0] = (uint32_t)rf_div_up(groups, y); /* x and y of about equal use: hardly any idle workgroup */
    grid[1] = (uint32_t)y;
    grid[2] = 1;
    return true;
}

void rf_row_job_tensor(rf_row_job *job, rf_bind_kind kind, uint32_t index, uint64_t row_bytes)
{
    job->tensors[job->n_tensors++] =
        (rf_row_tensor){ .kind = kind, .index = index, .write = kind != RF_BIND_INPUT, .row_bytes = row_bytes };
}

static bool row_job_grid(const rf_row_job *job, const rf_device_caps *caps, uint64_t rows, uint32_t grid[3])
{
    switch (job->grid) {
    case RF_GRID_THREADS:
        return rows <= INT32_MAX / job->threads_per_row &&
               rf_flat_grid(caps, rf_div_up(rows * job->threads_per_row, job->local), grid);
    case RF_GRID_GROUPS: return rows <= INT32_MAX && rf_flat_grid(caps, rows, grid);
    case RF_GRID_IMAGES:
        grid[0] = (uint32_t)rf_div_up(job->threads_per_row, job->local);
        grid[1] = (uint32_t)rows;
        grid[2] = 1;
        return rf_div_up(job->threads_per_row, job->local) <= caps->max_grid[0] && rows <= caps->max_grid[1];
    }
    return false;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

uint64_t rf_row_job_chunk(const rf_row_job *job, const rf_device_caps *caps)
{
    uint64_t chunk = job->rows, step = 1;
    for (uint32_t i = 0; i < job->n_tensors; i++) {
        const uint64_t bytes = job->tensors[i].row_bytes;
        /* The alignment is a power of two, so the largest step is a multiple of the others. */
        const uint64_t own_step = caps->buffer_alignment / gcd(caps->buffer_alignment, bytes);
        if (own_step > step) step = own_step;
        uint64_t range = caps->max_storage_range;
        if (job->tensors[i].view == RF_VIEW_TEXEL_RGBA32F && range > 16ull * caps->max_texel_elements)
            range = 16ull * caps->max_texel_elements;
        if (chunk > range / bytes) chunk = range / bytes;
    }
    uint32_t grid[3];
    if (job->grid == RF_GRID_IMAGES && chunk > caps->max_grid[1]) chunk = caps->max_grid[1];
    while (chunk > 0 && !row_job_grid(job, caps, chunk, grid)) chunk /= 2;
    if (chunk >= job->rows) return job->rows;
    return chunk / step * step;
}

rf_result rf_row_job_plan(const rf_row_job *job, const rf_device_caps *caps, rf_kernel_plan *plan)
{
    const uint64_t chunk = rf_row_job_chunk(job, caps);
    if (chunk == 0) return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: one row is too large for the device", job->shader->name);
    for (uint64_t first = 0; first < job->rows; first += chunk) {
        const uint64_t rows = job->rows - first < chunk ? job->rows - first : chunk;
        rf_dispatch *d = rf_kernel_plan_add(plan, job->shader, job->loops);
        if (d == NULL) return RF_ERROR_OUT_OF_HOST_MEMORY;
        rf_dispatch_spec(d, job->local);
        for (uint32_t i = 0; i < job->n_spec; i++) rf_dispatch_spec(d, job->spec[i]);
        uint32_t push[RF_MAX_PUSH / 4];
        for (uint32_t i = 0; i < job->n_push; i++) push[i] = job->push[i];
        push[0] = (uint32_t)rows;
        rf_dispatch_push(d, push, job->n_push * (uint32_t)sizeof(uint32_t));
        for (uint32_t i = 0; i < job->n_tensors; i++) {
            const rf_row_tensor *t = &job->tensors[i];
            rf_binding *binding = rf_dispatch_bind(d, t->kind, t->index, t->view, t->write);
            binding->offset = t->base + first * t->row_bytes;
            binding->size = rows * t->row_bytes;
        }
        if (!row_job_grid(job, caps, rows, d->grid))
            return RF_FAIL(RF_ERROR_INTERNAL, "%s: the grid of a part exceeds the device's limit", job->shader->name);
        d->concurrent = first > 0;
    }
    return RF_OK;
}
