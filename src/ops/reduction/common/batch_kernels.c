/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over a batch: slices of rows are summed by themselves, and put together afterwards. */
#include "ops/reduction/common/batch.h"

/* Deviations of a slice are from its first row. The longer it is, the more is lost where that is an outlier. */
enum { SLICE_LEAST = 16, SLICE_MOST = 512, CPU_TARGET = 512, GPU_TARGET = 16384 };
/* Numbers that one workgroup puts together in less time than lavapipe takes to begin and to end a dispatch, and those
 * that it reads and writes of a column beside the sums of slices. */
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

static bool make_slicing(const rf_op_call *call, const rf_device_caps *caps, const rf_batch_form *form, slicing *s)
{
    *s = (slicing){ .rows = rf_desc_rows(&call->in[0]),
                    .columns = rf_desc_columns(&call->in[0]),
                    .width = form->width,
                    .lists = call->op->role == RF_BATCH_SUMS ? 2 : 3 };
    if (s->columns % s->width != 0) return false;
    const uint64_t row_bytes = s->columns * sizeof(float);
    const uint64_t step = aligned_rows(caps, rf_call_is_narrow(call) ? row_bytes / 2 : row_bytes);
    uint64_t range = caps->max_storage_range;
    if (form->texels && range > 16ull * caps->max_texel_elements) range = 16ull * caps->max_texel_elements;
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
    s->joined = form->joined[0] && caps->driver == RF_DRIVER_LAVAPIPE && rf_flat_texels(caps) && s->chunk == s->rows &&
                (s->lists * s->slices + OF_COLUMN) * s->columns <= MOST_JOINED;
    return s->slices <= most_slices && s->slice <= rf_loop_limit(caps) / 2;
}

double rf_batch_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_batch_form *form = data;
    slicing s;
    if (!make_slicing(call, caps, form, &s)) return RF_SCORE_NONE;
    /* Texel views gain where the driver makes single loads of vectors only. */
    return form->texels && caps->driver != RF_DRIVER_LAVAPIPE ? RF_SCORE_RESERVE : form->score;
}

rf_batch_end rf_batch_end_of(const rf_op_call *call)
{
    switch (call->op->role) {
    case RF_BATCH_AVERAGES: {
        const rf_batch_averages_attr *attr = call->attr;
        return (rf_batch_end){
            .averages = true, .scaled = attr->scaled, .epsilon = attr->epsilon, .keep = attr->keep, .take = attr->take
        };
    }
    case RF_BATCH_SUMS:
        return (rf_batch_end){ .products = true, .epsilon = ((const rf_batch_sums_attr *)call->attr)->epsilon };
    default: return (rf_batch_end){ 0 };
    }
}

/* The end reads and writes these of each column. */
static void bind_columns(const rf_op_call *call, const rf_batch_end *end, rf_dispatch *d)
{
    for (uint32_t i = 0; i < call->op->n_out; i++) rf_bind_whole(d, RF_BIND_OUTPUT, i);
    if (end->products) rf_bind_whole(d, RF_BIND_INPUT, 4);
    for (uint32_t i = 1; end->averages && i < call->n_in; i++) rf_bind_whole(d, RF_BIND_INPUT, i);
    if (end->averages && !end->scaled) rf_bind_whole(d, RF_BIND_INPUT, 1); /* the shader names a gamma */
}

static rf_result add_chunk(const rf_op_call *call, const rf_device_caps *caps, const rf_batch_form *form,
                           const slicing *s, uint64_t first, rf_kernel_plan *plan)
{
    const rf_batch_end end = rf_batch_end_of(call);
    const bool products = end.products;
    const rf_shader *shader = s->joined ? form->joined[call->op->role] : products ? form->products : form->sums;
    const uint64_t rows = rf_min(s->chunk, s->rows - first), slices = rf_div_up(rows, s->slice);
    const uint64_t columns = s->columns / s->width;
    uint64_t loops = s->slice + 4;
    if (s->joined) loops += rf_div_up(s->columns, caps->subgroup_size) * (2 * s->slices + 2);
    uint32_t types = 0;
    rf_dispatch *d = rf_kernel_plan_add(plan, shader, loops);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, s->joined ? caps->subgroup_size : rf_local_size(caps, 64));
    const rf_push_batch_sums push = { .rows = (uint32_t)rows,
                                      .columns = (uint32_t)columns,
                                      .slice_length = (uint32_t)s->slice,
                                      .slices = (uint32_t)slices,
                                      .first_slice = (uint32_t)(first / s->slice),
                                      .list = (uint32_t)(s->slices * columns),
                                      .epsilon = end.epsilon,
                                      .keep = end.keep,
                                      .take = end.take };
    rf_dispatch_push(d, &push, sizeof(push));
    for (uint32_t i = 0; i <= (uint32_t)products; i++) {
        const uint32_t input = products ? 1 - i : 0; /* x comes first */
        const rf_tensor_desc *desc = &call->in[input];
        const uint64_t row_bytes = rf_row_bytes(desc);
        rf_binding *b =
            rf_bind_bytes(d, RF_BIND_INPUT, input, first * row_bytes, rf_align_up(rows * row_bytes, sizeof(uint32_t)));
        if (form->texels) b->view = RF_VIEW_TEXEL_RGBA32F;
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
        if (end.averages) rf_dispatch_spec(d, end.scaled);
        bind_columns(call, &end, d);
        plan->counters = sizeof(uint32_t);
        rf_bind_whole(d, RF_BIND_COUNTERS, 0);
    }
    rf_dispatch_items(d, caps, slices * columns);
    d->concurrent = first > 0;
    return RF_OK;
}

rf_result rf_batch_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    static const rf_shader *const totals[] = { &rf_shader_batch_total, &rf_shader_batch_averages_total,
                                               &rf_shader_batch_products_total };
    slicing s;
    if (!make_slicing(call, caps, data, &s)) return RF_FAIL(RF_ERROR_INTERNAL, "%s: not eligible", call->op->name);
    plan->workspace = s.lists * s.slices * s.columns * sizeof(float);
    for (uint64_t first = 0; first < s.rows; first += s.chunk) RF_TRY(add_chunk(call, caps, data, &s, first, plan));
    if (s.joined) return RF_OK;
    const rf_batch_end end = rf_batch_end_of(call);
    rf_dispatch *d = rf_kernel_plan_add(plan, totals[call->op->role], (end.products ? 1 : 2) * s.slices + 2);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, rf_local_size(caps, caps->is_cpu ? 16 : 64));
    if (end.averages) rf_dispatch_spec(d, end.scaled);
    const rf_push_batch_total push = { .rows = (uint32_t)s.rows,
                                       .columns = (uint32_t)s.columns,
                                       .slice_length = (uint32_t)s.slice,
                                       .slices = (uint32_t)s.slices,
                                       .epsilon = end.epsilon,
                                       .keep = end.keep,
                                       .take = end.take };
    rf_dispatch_push(d, &push, sizeof(push));
    rf_bind_bytes(d, RF_BIND_WORKSPACE, 0, 0, plan->workspace)->write = false;
    if (end.products) rf_bind_whole(d, RF_BIND_INPUT, 3);
    bind_columns(call, &end, d);
    rf_dispatch_items(d, caps, s.columns);
    return RF_OK;
}

/* The means are f32. */
bool rf_batch_narrow(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    return call->op->role == RF_BATCH_MOMENTS || call->in[2].dtype == RF_F32;
}

static const rf_kernel kernels[] = {
    { "vec4", rf_batch_score, rf_batch_plan,
      &(const rf_batch_form){ 4, RF_SCORE_WIDE, &rf_shader_batch_sums_vec4, &rf_shader_batch_products_vec4 },
      .narrow = rf_batch_narrow },
    { "scalar", rf_batch_score, rf_batch_plan,
      &(const rf_batch_form){ 1, RF_SCORE_ANY, &rf_shader_batch_sums, &rf_shader_batch_products },
      .narrow = rf_batch_narrow },
};
const rf_kernel_list rf_batch_common = RF_KERNEL_LIST(kernels);
