/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for every device: one that decodes what each result needs, and one that makes the matrix f32 for a kernel of
 * matmul, where there is room. */
#include "ops/linear/common/quantized.h"
#include "rf_shaders.h"

/* ---- lines in descriptors ---- */

void rf_quantized_bind(rf_dispatch *d, const rf_device_caps *caps, const rf_quantized_layout *w, uint32_t index,
                       uint64_t first, uint64_t count, int32_t *codes, int32_t *scales)
{
    const uint64_t words = w->line_bytes / 4, half = first * w->line_scales, behind = (first + count) * w->line_scales;
    const uint64_t first_word = w->scales_at / 4 + half / 2, last_word = w->scales_at / 4 + rf_div_up(behind, 2);
    *codes = (int32_t)rf_bind_elements(d, caps, RF_BIND_INPUT, index, first * words, count * words);
    const uint32_t base = rf_bind_elements(d, caps, RF_BIND_INPUT, index, first_word, last_word - first_word);
    *scales = (int32_t)(2 * base + half % 2);
}

/* Elements of four bytes that a descriptor may span; less one alignment unit, which a range may reach back. */
static uint64_t elements_limit(const rf_device_caps *caps)
{
    if (caps->max_storage_range <= caps->buffer_alignment) return 0;
    return rf_min(caps->max_storage_range - caps->buffer_alignment, INT32_MAX) / sizeof(float);
}

static uint64_t most_lines(const rf_quantized_layout *w, const rf_device_caps *caps)
{
    return rf_min(w->lines, elements_limit(caps) / (w->line_bytes / 4));
}

/* ---- the product, in pieces where a tensor is larger than a descriptor may span ---- */

typedef struct steps {
    uint64_t rows, lines, numbers;
} steps;

static bool steps_make(const rf_quantized_product *p, const rf_device_caps *caps, steps *out)
{
    const uint64_t longest = p->summands > p->columns ? p->summands : p->columns;
    const uint64_t loops = rf_min(rf_loop_limit(caps), INT32_MAX) - 1;
    *out = (steps){ rf_min(p->rows, elements_limit(caps) / longest), most_lines(&p->w, caps), p->w.length };
    /* An invocation goes through four numbers of a line in a turn, with a loop over these, or through lines. */
    if (p->transposed)
        out->numbers = rf_min(out->numbers, loops / 6 * 4);
    else
        out->lines = rf_min(out->lines, loops / 2);
    return out->rows > 0 && out->lines > 0 && out->numbers > 0;
}

double rf_quantized_naive_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_quantized_product p = rf_quantized_product_of(call);
    steps s;
    if (!steps_make(&p, caps, &s)) return RF_SCORE_NONE;
    return rf_score_of_time(rf_linear_naive_seconds(call, caps));
}

static rf_result piece_add(const rf_quantized_product *p, const rf_device_caps *caps, rf_kernel_plan *plan, steps at,
                           steps count)
{
    const uint64_t columns = p->transposed ? count.lines : rf_div_up(p->w.length, 4);
    const uint64_t summands = p->transposed ? count.numbers : count.lines;
    const uint64_t loops = p->transposed ? rf_div_up(summands, 4) * 6 + 1 : summands + 5;
    rf_dispatch *d = rf_kernel_plan_add(plan, &rf_shader_matmul_quantized, loops);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_push_matmul_quantized push = { .total = (int32_t)(count.rows * columns),
                                      .columns = (int32_t)columns,
                                      .x_row = (int32_t)p->summands,
                                      .y_row = (int32_t)p->columns,
                                      .line_fours = (int32_t)(p->w.padded / 4),
                                      .first = (int32_t)(p->transposed ? at.numbers : at.lines),
                                      .summands = (int32_t)summands,
                                      .length = (int32_t)p->w.length,
                                      .accumulate = p->transposed ? at.numbers > 0 : at.lines > 0 };
    rf_dispatch_spec(d, rf_local_size(caps, 128));
    rf_dispatch_spec(d, p->transposed);
    rf_dispatch_spec(d, p->kind);
    push.x_base = (int32_t)rf_bind_elements(d, caps, RF_BIND_INPUT, 0, at.rows * p->summands, count.rows * p->summands);
    rf_quantized_bind(d, caps, &p->w, 1, at.lines, count.lines, &push.codes_base, &push.scales_base);
    push.y_base = (int32_t)rf_bind_elements(d, caps, RF_BIND_OUTPUT, 0, at.rows * p->columns, count.rows * p->columns);
    if (p->transposed) push.y_base += (int32_t)at.lines;
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_items(d, caps, (uint64_t)push.total);
    return RF_OK;
}

rf_result rf_quantized_naive_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                  rf_kernel_plan *plan)
{
    const rf_quantized_product p = rf_quantized_product_of(call);
    steps step, at;
    if (!steps_make(&p, caps, &step))
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "matmul_quantized: a row does not fit the device's largest buffer range");
    for (at.rows = 0; at.rows < p.rows; at.rows += step.rows)
        for (at.lines = 0; at.lines < p.w.lines; at.lines += step.lines)
            for (at.numbers = 0; at.numbers < p.w.length; at.numbers += step.numbers)
                RF_TRY(piece_add(&p, caps, plan, at,
                                 (steps){ rf_min(step.rows, p.rows - at.rows), rf_min(step.lines, p.w.lines - at.lines),
                                          rf_min(step.numbers, p.w.length - at.numbers) }));
    return RF_OK;
}

/* ---- the matrix in f32, and a product with that ---- */

/* Room that is taken for that: more would cost what fewer bits save. */
#define MOST_UNPACKED ((uint64_t)64 << 20)
#define CPU_UNPACKED_BYTES 4e9 /* in a second */
#define GPU_UNPACKED_BYTES 4e11

static rf_op_call product_of(const rf_op_call *call, const rf_quantized_product *p, rf_matmul_attr *attr)
{
    *attr = (rf_matmul_attr){ .transpose_b = p->transposed };
    rf_op_call product = { .op = &rf_op_matmul, .attr = attr, .n_in = 2, .n_out = 1 };
    product.in[0] = (rf_tensor_desc){ RF_F32, { 2, { (int64_t)p->rows, (int64_t)p->summands } } };
    product.in[1] = (rf_tensor_desc){ RF_F32, { 2, { (int64_t)p->w.lines, (int64_t)p->w.length } } };
    product.out[0] = (rf_tensor_desc){ RF_F32, { 2, { (int64_t)p->rows, (int64_t)p->columns } } };
    return product;
}

static uint64_t unpacked_bytes(const rf_quantized_product *p)
{
    return rf_align_up(p->w.lines * p->w.length * sizeof(float), 16); /* kernels may read whole vectors */
}

double rf_quantized_unpacked_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_quantized_product p = rf_quantized_product_of(call);
    const uint64_t bytes = unpacked_bytes(&p);
    rf_matmul_attr attr;
    const rf_op_call product = product_of(call, &p, &attr);
    if (!rf_fits_storage(call, caps) || bytes > rf_min(MOST_UNPACKED, caps->max_storage_range)) return RF_SCORE_NONE;
    const rf_kernel *kernel = rf_best_kernel(&product, caps);
    if (!kernel) return RF_SCORE_NONE;
    const double seconds = 1e-3 / rf_kernel_score(kernel, &product, caps);
    return rf_score_of_time(seconds + (double)bytes / (caps->is_cpu ? CPU_UNPACKED_BYTES : GPU_UNPACKED_BYTES) +
                            (caps->is_cpu ? 3e-5 : 5e-6));
}

static rf_result unpack_add(const rf_quantized_product *p, const rf_device_caps *caps, rf_kernel_plan *plan,
                            rf_binding *matrix)
{
    const uint64_t fours = rf_div_up(p->w.length, 4);
    rf_push_unpack_quantized push = { .total = (int32_t)(p->w.lines * fours),
                                      .length = (int32_t)p->w.length,
                                      .row_fours = (int32_t)fours,
                                      .line_fours = (int32_t)(p->w.padded / 4) };
    rf_dispatch *d = rf_kernel_plan_add(plan, &rf_shader_unpack_quantized, RF_NO_LOOPS);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    *matrix = rf_linear_workspace(plan, caps, unpacked_bytes(p));
    rf_dispatch_spec(d, rf_local_size(caps, RF_FLAT_LOCAL));
    rf_dispatch_spec(d, p->kind);
    rf_dispatch_spec(d, p->w.length % 4 == 0);
    rf_quantized_bind(d, caps, &p->w, 1, 0, p->w.lines, &push.codes_base, &push.scales_base);
    rf_linear_bind(d, *matrix, RF_VIEW_STORAGE, true); /* in place of indices */
    rf_linear_bind(d, *matrix, RF_VIEW_STORAGE, true);
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_items(d, caps, (uint64_t)push.total);
    return RF_OK;
}

rf_result rf_quantized_unpacked_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                     rf_kernel_plan *plan)
{
    const rf_quantized_product p = rf_quantized_product_of(call);
    rf_matmul_attr attr;
    const rf_op_call product = product_of(call, &p, &attr);
    rf_binding matrix;
    RF_TRY(unpack_add(&p, caps, plan, &matrix));
    const rf_plan_tensor in[2] = { { RF_BIND_INPUT, 0 }, { RF_BIND_WORKSPACE, 0, matrix.offset, matrix.size } },
                         out[1] = { { RF_BIND_OUTPUT, 0 } };
    return rf_plan_append(plan, &product, caps, in, out);
}

/* ---- lines by their indices ---- */

static bool gather_steps_make(const rf_quantized_layout *w, uint64_t places, const rf_device_caps *caps,
                              uint64_t *lines, uint64_t *rows)
{
    *lines = most_lines(w, caps);
    *rows = rf_min(places, elements_limit(caps) / w->length);
    return *lines > 0 && *rows > 0;
}

double rf_quantized_gather_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_quantized_attr *attr = call->attr;
    const rf_quantized_layout w =
        rf_quantized_layout_make((rf_quantization)attr->kind, (uint64_t)attr->lines, (uint64_t)attr->length);
    uint64_t lines, rows;
    return gather_steps_make(&w, rf_desc_count(&call->in[1]), caps, &lines, &rows) ? RF_SCORE_ANY : RF_SCORE_NONE;
}

/* Lines [first, first + lines) where they are asked for in rows [row, row + rows). */
static rf_result gather_add(const rf_quantized_layout *w, uint32_t kind, const rf_device_caps *caps, uint64_t first,
                            uint64_t lines, uint64_t row, uint64_t rows, rf_kernel_plan *plan)
{
    const uint64_t fours = rf_div_up(w->length, 4);
    rf_push_unpack_quantized push = { .total = (int32_t)(rows * fours),
                                      .length = (int32_t)w->length,
                                      .row_fours = (int32_t)fours,
                                      .line_fours = (int32_t)(w->padded / 4),
                                      .first = (int32_t)first,
                                      .lines = (int32_t)lines,
                                      .all_lines = (int32_t)w->lines };
    rf_dispatch *d = rf_kernel_plan_add(plan, &rf_shader_gather_quantized, RF_NO_LOOPS);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, rf_local_size(caps, RF_FLAT_LOCAL));
    rf_dispatch_spec(d, kind);
    rf_dispatch_spec(d, w->length % 4 == 0);
    rf_quantized_bind(d, caps, w, 0, first, lines, &push.codes_base, &push.scales_base);
    push.indices_base = (int32_t)rf_bind_elements(d, caps, RF_BIND_INPUT, 1, row, rows);
    push.y_base = (int32_t)rf_bind_elements(d, caps, RF_BIND_OUTPUT, 0, row * w->length, rows * w->length);
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_items(d, caps, (uint64_t)push.total);
    d->concurrent = plan->count > 1; /* each writes rows of its own */
    return RF_OK;
}

rf_result rf_quantized_gather_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                   rf_kernel_plan *plan)
{
    const rf_quantized_attr *attr = call->attr;
    const rf_quantized_layout w =
        rf_quantized_layout_make((rf_quantization)attr->kind, (uint64_t)attr->lines, (uint64_t)attr->length);
    const uint64_t places = rf_desc_count(&call->in[1]);
    uint64_t lines, rows;
    if (!gather_steps_make(&w, places, caps, &lines, &rows))
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "gather_quantized: a line does not fit the device's largest buffer range");
    for (uint64_t row = 0; row < places; row += rows)
        for (uint64_t first = 0; first < w.lines; first += lines)
            RF_TRY(gather_add(&w, attr->kind, caps, first, rf_min(lines, w.lines - first), row,
                              rf_min(rows, places - row), plan));
    return RF_OK;
}
