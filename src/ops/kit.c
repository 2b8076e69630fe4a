/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/kit.h"

#include <string.h>

/* ---- shapes and costs ---- */

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

bool rf_fits_storage(const rf_op_call *call, const rf_device_caps *caps)
{
    for (uint32_t i = 0; i < call->n_in; i++)
        if (!(call->op->shape_only >> i & 1) && rf_tensor_bytes(&call->in[i]) > caps->max_storage_range) return false;
    for (uint32_t i = 0; i < call->n_out; i++)
        if (rf_tensor_bytes(&call->out[i]) > caps->max_storage_range) return false;
    return true;
}

/* ---- scores ---- */

double rf_score_any(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    return RF_SCORE_ANY;
}

/* ---- workgroups and grids ---- */

uint32_t rf_local_size(const rf_device_caps *caps, uint32_t wanted)
{
    uint32_t size = wanted;
    if (size > caps->max_workgroup_size[0]) size = caps->max_workgroup_size[0];
    if (size > caps->max_workgroup_invocations) size = caps->max_workgroup_invocations;
    while (size & (size - 1)) size &= size - 1; /* a power of two, for trees */
    return size;
}

bool rf_grid_make(const rf_device_caps *caps, uint64_t groups, uint32_t grid[3])
{
    const uint64_t y = rf_div_up(groups, caps->max_grid[0]);
    if (groups == 0 || y > caps->max_grid[1]) return false;
    grid[0] = (uint32_t)rf_div_up(groups, y); /* x and y about equally used: hardly any idle workgroup */
    grid[1] = (uint32_t)y;
    grid[2] = 1;
    return true;
}

void rf_dispatch_groups(rf_dispatch *d, const rf_device_caps *caps, uint64_t groups)
{
    (void)rf_grid_make(caps, groups, d->grid);
}

void rf_dispatch_items(rf_dispatch *d, const rf_device_caps *caps, uint64_t items)
{
    rf_dispatch_groups(d, caps, rf_div_up(items, d->spec[0]));
}

bool rf_few_lanes(const rf_device_caps *caps)
{
    return caps->subgroup_size == 8 || (caps->subgroup_size == 4 && caps->driver == RF_DRIVER_LAVAPIPE);
}

bool rf_flat_texels(const rf_device_caps *caps)
{
    return caps->int64 && caps->subgroup_shuffle && caps->full_subgroups && rf_few_lanes(caps) &&
           rf_local_size(caps, RF_FLAT_LOCAL) % 8 == 0;
}

rf_magic rf_magic_make(uint32_t divisor)
{
    if (divisor <= 1) return (rf_magic){ 0, 0 };
    uint32_t log = 0;
    while ((1ull << log) < divisor) log++;
    return (rf_magic){ (uint32_t)rf_div_up(1ull << (31 + log), divisor), log - 1 };
}

/* ---- bindings ---- */

void rf_bind(rf_dispatch *d, rf_binding binding)
{
    *rf_dispatch_bind(d, binding.kind, binding.index, binding.view, binding.write) = binding;
}

rf_binding *rf_bind_whole(rf_dispatch *d, rf_bind_kind kind, uint32_t index)
{
    return rf_dispatch_bind(d, kind, index, RF_VIEW_STORAGE, kind != RF_BIND_INPUT);
}

rf_binding *rf_bind_bytes(rf_dispatch *d, rf_bind_kind kind, uint32_t index, uint64_t offset, uint64_t size)
{
    rf_binding *binding = rf_bind_whole(d, kind, index);
    binding->offset = offset;
    binding->size = size;
    return binding;
}

uint32_t rf_element_base(const rf_device_caps *caps, uint64_t first)
{
    return (uint32_t)(first * sizeof(float) % caps->buffer_alignment / sizeof(float));
}

uint32_t rf_bind_elements(rf_dispatch *d, const rf_device_caps *caps, rf_bind_kind kind, uint32_t index, uint64_t first,
                          uint64_t count)
{
    const uint32_t base = rf_element_base(caps, first);
    rf_bind_bytes(d, kind, index, (first - base) * sizeof(float), (base + count) * sizeof(float));
    return base;
}

/* ---- flat jobs ---- */

uint64_t rf_flat_chunk(const rf_device_caps *caps, size_t element_size)
{
    uint64_t elements = caps->max_storage_range / element_size;
    if (elements > 1u << 29) elements = 1u << 29;
    const uint64_t step = caps->buffer_alignment > 64 ? caps->buffer_alignment : 64;
    return elements > step ? elements / step * step : step;
}

void rf_flat_job_push(rf_flat_job *job, const void *values, size_t size)
{
    const size_t counts = 2 * sizeof(uint32_t);
    job->push_size = (uint32_t)(size - counts);
    memcpy(job->push, (const char *)values + counts, job->push_size);
}

rf_result rf_flat_job_plan(const rf_flat_job *job, uint64_t count, const rf_device_caps *caps, rf_kernel_plan *plan)
{
    const uint64_t chunk = rf_flat_chunk(caps, sizeof(float));
    for (uint64_t start = 0; start < count; start += chunk) {
        const uint64_t n = rf_min(count - start, chunk);
        rf_dispatch *d = rf_kernel_plan_add(plan, job->shader, RF_NO_LOOPS);
        if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
        d->concurrent = start > 0;
        rf_dispatch_spec(d, rf_local_size(caps, RF_FLAT_LOCAL));
        rf_dispatch_spec(d, n % job->width != 0);
        for (uint32_t i = 0; i < job->n_spec; i++) rf_dispatch_spec(d, job->spec[i]);
        uint32_t push[RF_MAX_PUSH / 4] = { (uint32_t)(n / job->width), (uint32_t)(n % job->width) };
        memcpy(push + 2, job->push, job->push_size);
        rf_dispatch_push(d, push, 8 + job->push_size);
        for (uint32_t i = 0; i < job->n_tensors; i++) {
            const uint64_t size = job->tensors[i].narrow ? sizeof(uint16_t) : sizeof(float);
            rf_bind(d, (rf_binding){ .kind = job->tensors[i].kind,
                                     .view = job->tensors[i].view,
                                     .index = job->tensors[i].index,
                                     .write = job->tensors[i].write,
                                     .offset = start * size,
                                     .size = rf_align_up(n * size, 4) });
        }
        for (uint32_t i = 0; i < job->n_small; i++) rf_bind_whole(d, RF_BIND_INPUT, job->small[i]);
        rf_dispatch_items(d, caps, (uint64_t)push[0] + push[1]);
    }
    return RF_OK;
}

/* ---- row jobs ---- */

void rf_row_job_push(rf_row_job *job, const void *values, size_t size)
{
    job->n_push = (uint32_t)(size / sizeof(uint32_t));
    memcpy(job->push, values, size);
}

uint64_t rf_row_loops(uint64_t columns, uint32_t lanes, uint32_t passes)
{
    const uint64_t own = rf_div_up(columns, lanes);
    /* Blocks are loops of their own, and so is each pass's tree, of at most ten turns. */
    return passes * (own + 2 * rf_div_up(own, 64) + (lanes > 1 ? 12 : 2));
}

/* Rows that some lanes of a subgroup share. */
enum {
    ROW_LANES_LOCAL = 128,
    MOST_ROW_LANES = 64,
    /* A row that takes more turns is walked by a whole workgroup: on an NVIDIA H200 4096 rows of 1024 columns took
     * 13.7 us of lanes and 12.9 of workgroups. */
    MOST_TURNS = 4,
};

uint32_t rf_row_group_size(const rf_device_caps *caps, uint64_t columns, uint32_t passes)
{
    const uint32_t most = rf_local_size(caps, 1024); /* what the shaders have shared memory for */
    uint32_t size = rf_local_size(caps, 128);
    while (size < most && rf_row_loops(columns, size, passes) > rf_loop_limit(caps)) size *= 2;
    return size;
}

double rf_row_group_score(const rf_device_caps *caps, uint64_t columns)
{
    return caps->is_cpu || columns < 64 ? RF_SCORE_RESERVE : RF_SCORE_SHAPE;
}

void rf_row_job_group(rf_row_job *job, const rf_device_caps *caps, const rf_shader *shader, uint64_t columns,
                      uint32_t passes)
{
    job->shader = shader;
    job->grid = RF_GRID_GROUPS;
    job->score = rf_row_group_score(caps, columns);
    job->local = rf_row_group_size(caps, columns, passes);
    job->loops = rf_row_loops(columns, job->local, passes);
}

uint32_t rf_row_lanes(const rf_device_caps *caps, uint64_t steps)
{
    const uint32_t size = caps->subgroup_size, most = size < MOST_ROW_LANES ? size : MOST_ROW_LANES;
    if (!caps->full_subgroups || !caps->subgroup_shuffle || size == 0) return 0;
    if (rf_local_size(caps, ROW_LANES_LOCAL) % size != 0) return 0;
    uint32_t lanes = 1;
    while (lanes < most && lanes < steps) lanes *= 2;
    return lanes;
}

void rf_row_job_lanes(rf_row_job *job, const rf_device_caps *caps, uint64_t steps, uint32_t passes)
{
    const uint32_t lanes = rf_row_lanes(caps, steps);
    job->threads_per_row = lanes;
    job->score = steps > MOST_TURNS * lanes ? RF_SCORE_RESERVE : RF_SCORE_EXACT;
    job->local = rf_local_size(caps, ROW_LANES_LOCAL);
    job->loops = rf_row_loops(steps, lanes > 0 ? lanes : 1, passes);
    job->spec[job->n_spec++] = lanes;
}

void rf_row_job_texels(rf_row_job *job, const rf_device_caps *caps, double score)
{
    const bool whole = rf_row_job_chunk(job, caps) >= job->rows;
    job->score = caps->driver == RF_DRIVER_LAVAPIPE && whole ? score : RF_SCORE_RESERVE;
}

double rf_row_job_score(const rf_row_job *job, const rf_device_caps *caps)
{
    if (job->loops > rf_loop_limit(caps) || rf_row_job_chunk(job, caps) == 0) return RF_SCORE_NONE;
    return job->score > 0 ? job->score : RF_SCORE_ANY;
}

double rf_row_kernel_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_row_kernel *kernel = data;
    rf_row_job job;
    return kernel->make(call, caps, kernel->form, &job) ? rf_row_job_score(&job, caps) : RF_SCORE_NONE;
}

rf_result rf_row_kernel_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    const rf_row_kernel *kernel = data;
    rf_row_job job;
    if (!kernel->make(call, caps, kernel->form, &job))
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: the kernel does not take such tensors", call->op->name);
    return rf_row_job_plan(&job, caps, plan);
}

void rf_row_job_tensor(rf_row_job *job, rf_bind_kind kind, uint32_t index, uint64_t row_bytes)
{
    job->tensors[job->n_tensors++] =
        (rf_row_tensor){ .kind = kind, .index = index, .write = kind != RF_BIND_INPUT, .row_bytes = row_bytes };
}

uint32_t rf_row_job_types(const rf_row_job *job, const rf_op_call *call, const rf_device_caps *caps)
{
    uint32_t types = 0;
    for (uint32_t i = 0; i < job->n_tensors; i++) {
        const rf_row_tensor *t = &job->tensors[i];
        if (t->kind != RF_BIND_INPUT && t->kind != RF_BIND_OUTPUT) continue;
        const rf_dtype type = (t->kind == RF_BIND_INPUT ? call->in : call->out)[t->index].dtype;
        if (rf_dtype_is_narrow(type)) types |= 1u << i | rf_type_word(type, caps) << 8;
    }
    return types;
}

static bool row_job_grid(const rf_row_job *job, const rf_device_caps *caps, uint64_t rows, uint32_t grid[3])
{
    switch (job->grid) {
    case RF_GRID_THREADS:
        return rows <= INT32_MAX / job->threads_per_row &&
               rf_grid_make(caps, rf_div_up(rows * job->threads_per_row, job->local), grid);
    case RF_GRID_GROUPS: return rows <= INT32_MAX && rf_grid_make(caps, rows, grid);
    case RF_GRID_IMAGES:
        grid[0] = (uint32_t)rf_div_up(job->threads_per_row, job->local);
        grid[1] = (uint32_t)rows;
        grid[2] = 1;
        return rf_div_up(job->threads_per_row, job->local) <= caps->max_grid[0] && rows <= caps->max_grid[1];
    }
    return false;
}

uint64_t rf_common_divisor(uint64_t a, uint64_t b)
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
        if (bytes == 0) continue;
        /* The alignment is a power of two, so the largest step is a multiple of the others. */
        const uint64_t own_step = caps->buffer_alignment / rf_common_divisor(caps->buffer_alignment, bytes);
        if (own_step > step) step = own_step;
        uint64_t range = caps->max_storage_range;
        const rf_bind_view view = job->tensors[i].view;
        if (view != RF_VIEW_STORAGE)
            range = rf_min(range, (view == RF_VIEW_TEXEL_RGBA32F ? 16ull : 4ull) * caps->max_texel_elements);
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
        const uint64_t rows = rf_min(job->rows - first, chunk);
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
            rf_bind(d, (rf_binding){ t->kind, t->view, t->index, t->write, t->base + first * t->row_bytes,
                                     rows * t->row_bytes });
        }
        if (!row_job_grid(job, caps, rows, d->grid))
            return RF_FAIL(RF_ERROR_INTERNAL, "%s: the grid of a chunk exceeds the device's limit", job->shader->name);
        d->concurrent = first > 0;
    }
    return RF_OK;
}

/* ---- types of 16 bits ---- */

#define READS_HALVES 8u

uint32_t rf_type_word(rf_dtype dtype, const rf_device_caps *caps)
{
    /* Drivers that read subnormal numbers as what they are. */
    const bool reads =
        caps->driver == RF_DRIVER_LAVAPIPE || caps->driver == RF_DRIVER_AMD || caps->driver == RF_DRIVER_NVIDIA;
    return (uint32_t)dtype | (dtype == RF_F16 && reads ? READS_HALVES : 0);
}

bool rf_always_narrow(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    (void)call, (void)caps;
    return true;
}

bool rf_texels_narrow(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    (void)call;
    return caps->driver == RF_DRIVER_LAVAPIPE;
}

static bool halve_last(rf_tensor_desc *desc)
{
    const int32_t rank = desc->shape.rank;
    if (rank == 0 || desc->shape.dim[rank - 1] % 2 != 0) return false;
    desc->shape.dim[rank - 1] /= 2;
    desc->dtype = RF_F32;
    return true;
}

static bool put_in_words(rf_op_call *call)
{
    for (uint32_t i = 0; i < call->n_in; i++) {
        const bool moves = !(call->op->shape_only >> i & 1);
        if ((moves && !rf_dtype_is_narrow(call->in[i].dtype)) || !halve_last(&call->in[i])) return false;
    }
    for (uint32_t i = 0; i < call->n_out; i++)
        if (!rf_dtype_is_narrow(call->out[i].dtype) || !halve_last(&call->out[i])) return false;
    return true;
}

rf_op_call rf_call_in_words(const rf_op_call *call)
{
    rf_op_call words = *call;
    return put_in_words(&words) ? words : *call;
}

bool rf_words_narrow(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    (void)caps;
    rf_op_call words = *call;
    return put_in_words(&words);
}
