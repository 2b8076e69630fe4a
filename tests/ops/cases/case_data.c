/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/case_data.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/half.h"
#include "base/philox.h"
#include "base/quantize.h"
#include "base/state_form.h"

static void value_store(rf_dtype dtype, void *bytes, int64_t i, double value)
{
    switch (dtype) {
    case RF_F32: ((float *)bytes)[i] = (float)value; break;
    case RF_F16: ((uint16_t *)bytes)[i] = rf_f32_to_f16((float)value); break;
    case RF_BF16: ((uint16_t *)bytes)[i] = rf_f32_to_bf16((float)value); break;
    case RF_I32: ((int32_t *)bytes)[i] = (int32_t)value; break;
    case RF_U8: ((uint8_t *)bytes)[i] = (uint8_t)value; break;
    case RF_I64: /* no operation takes it */
    case RF_DTYPE_INVALID:
    case RF_DTYPE_COUNT: break;
    }
}

static double independent_value(const rf_case_input *input, rf_rng *rng)
{
    switch (input->fill) {
    case RF_FILL_NORMAL: return rf_rng_normal(rng) * (input->b != 0 ? input->b : 1) + input->a;
    case RF_FILL_HYPER:
    case RF_FILL_UNIFORM: return input->a + (double)rf_rng_uniform(rng) * (input->b - input->a);
    case RF_FILL_INTEGER:
        if (!(input->b > input->a)) return input->a;
        return input->a + (double)rf_rng_below(rng, (uint64_t)(input->b - input->a));
    case RF_FILL_DISTINCT:
    case RF_FILL_PROBABILITY:
    case RF_FILL_ZERO:
    case RF_FILL_QUANTIZED:
    case RF_FILL_STATE: break;
    }
    return 0;
}

/* Fisher-Yates over 0 .. count - 1, centred at zero so that signs differ. */
static rf_result fill_distinct(const rf_case_input *input, rf_rng *rng, void *bytes, int64_t count)
{
    int64_t *order = RF_NEW_ARRAY(int64_t, count);
    if (!order) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (int64_t i = 0; i < count; i++) {
        const int64_t k = (int64_t)rf_rng_below(rng, (uint64_t)i + 1);
        order[i] = order[k];
        order[k] = i;
    }
    const int64_t middle = count / 2;
    for (int64_t i = 0; i < count; i++) value_store(input->desc.dtype, bytes, i, 0.01 * (double)(order[i] - middle));
    rf_free(order);
    return RF_OK;
}

static void fill_probability(const rf_case_input *input, rf_rng *rng, void *bytes, int64_t count)
{
    const rf_shape *shape = &input->desc.shape;
    const int64_t row = shape->rank > 0 ? shape->dim[shape->rank - 1] : 1;
    for (int64_t begin = 0; begin < count; begin += row) {
        rf_rng again = *rng; /* the same numbers twice: for the sum, then for the values */
        double sum = 0;
        for (int64_t i = 0; i < row; i++) sum += 0.05 + (double)rf_rng_uniform(rng);
        for (int64_t i = 0; i < row; i++)
            value_store(input->desc.dtype, bytes, begin + i, (0.05 + (double)rf_rng_uniform(&again)) / sum);
    }
}

/* Values of large tensors repeat: to draw all of them takes longer than to compute with them. The period is a prime
 * number, so that no two lines are the same. */
#define PERIOD 1000003

static void fill_independent(const rf_case_input *input, rf_rng *rng, void *bytes, int64_t count)
{
    const size_t size = rf_dtype_size(input->desc.dtype);
    const int64_t drawn = count < PERIOD ? count : PERIOD;
    for (int64_t i = 0; i < drawn; i++) value_store(input->desc.dtype, bytes, i, independent_value(input, rng));
    for (int64_t at = drawn; at < count; at += PERIOD)
        memcpy((char *)bytes + (size_t)at * size, bytes, (size_t)(count - at < PERIOD ? count - at : PERIOD) * size);
}

static rf_result fill_quantized(const rf_quantized_attr *attr, rf_rng *rng, void *words)
{
    const rf_quantized_layout l =
        rf_quantized_layout_make((rf_quantization)attr->kind, (uint64_t)attr->lines, (uint64_t)attr->length);
    float *line = RF_NEW_ARRAY(float, l.length);
    if (!line) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint64_t i = 0; i < l.lines; i++) {
        for (uint64_t k = 0; k < l.length; k++) line[k] = (float)rf_rng_normal(rng);
        (void)rf_quantize_lines(&l, i, 1, line, words);
    }
    rf_free(line);
    return RF_OK;
}

/* Blocks differ in size by powers of ten; the first one is zeros. */
static void fill_state(const rf_case_input *input, const rf_packed_update_attr *attr, rf_rng *rng, int32_t *words)
{
    const rf_state_form form = { (rf_optimizer_state_type)attr->state_type, input->b != 0 };
    const int64_t size = (int64_t)rf_state_block_words(form.type), count = rf_shape_count(input->desc.shape);
    const int64_t before = (int64_t)input->a, blocks = (count - before) / size;
    for (int64_t i = 0; i < before; i++) words[i] = (int32_t)rf_rng_next(rng);
    for (int64_t b = blocks > 1 ? 1 : 0; b < blocks; b++) {
        float block[RF_STATE_BLOCK];
        for (uint32_t i = 0; i < RF_STATE_BLOCK; i++) {
            const double x = rf_rng_normal(rng) * pow(10, (double)(b % 5) - 3);
            block[i] = (float)(form.positive ? x * x : x);
        }
        rf_state_encode(form, block, RF_STATE_BLOCK, words + before + b * size);
    }
}

static rf_result input_fill(const rf_case_input *input, const void *attr, uint64_t key, void *bytes)
{
    const int64_t count = rf_shape_count(input->desc.shape);
    rf_rng rng = { .key = key };
    if (input->fill == RF_FILL_QUANTIZED) return fill_quantized(attr, &rng, bytes);
    if (input->fill == RF_FILL_DISTINCT) return fill_distinct(input, &rng, bytes, count);
    if (input->fill == RF_FILL_STATE)
        fill_state(input, attr, &rng, bytes);
    else if (input->fill == RF_FILL_PROBABILITY)
        fill_probability(input, &rng, bytes, count);
    else
        fill_independent(input, &rng, bytes, count);
    if (input->fill == RF_FILL_HYPER) ((float *)bytes)[RF_HYPER_STEP] = 1234567;
    return RF_OK;
}

rf_op_case rf_case_stored_in(const rf_op *op, const rf_op_case *c, rf_dtype type, bool highest_alone)
{
    rf_op_case stored = *c;
    int32_t highest = 0;
    for (uint32_t i = 0; i < c->n_in; i++)
        if (c->in[i].desc.shape.rank > highest) highest = c->in[i].desc.shape.rank;
    for (uint32_t i = 0; i < c->n_in; i++) {
        const bool lower = c->in[i].desc.shape.rank < highest || (op->row_numbers >> i & 1);
        const bool stays = ((op->settings | op->mutates) >> i & 1) || (highest_alone && lower);
        if (c->in[i].desc.dtype == RF_F32 && !stays) stored.in[i].desc.dtype = type;
    }
    stored.rtol += type == RF_F16 ? 0x1p-10 : 0x1p-7;
    stored.atol += type == RF_F16 ? 0x1p-24 : 0;
    stored.check_gradient = false;
    return stored;
}

static rf_result make_outputs(rf_case_data *data)
{
    for (uint32_t i = 0; i < data->call.n_out; i++) {
        data->out[i] = rf_aligned_calloc((size_t)rf_tensor_bytes(&data->call.out[i]) + 4);
        if (!data->out[i]) return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    return RF_OK;
}

rf_result rf_case_data_describe(const rf_op *op, const rf_op_case *c, rf_case_data *data)
{
    rf_op_call *call = &data->call;
    *data = (rf_case_data){ 0 };
    if (op->attr_size > sizeof(data->attr) || c->n_in > RF_MAX_INPUTS || c->n_in < op->min_in || c->n_in > op->max_in)
        return RF_FAIL(RF_ERROR_INTERNAL, "%s: case %s has %u inputs or attributes of %u bytes", op->name, c->name,
                       c->n_in, op->attr_size);
    if (c->attr) memcpy(data->attr, c->attr, op->attr_size);
    *call = (rf_op_call){ .op = op, .attr = data->attr, .n_in = c->n_in, .n_out = op->n_out };
    for (uint32_t i = 0; i < c->n_in; i++) call->in[i] = c->in[i].desc;
    return rf_error_context(rf_call_infer(call), "%s: case %s", op->name, c->name);
}

rf_result rf_case_data_make(const rf_op *op, const rf_op_case *c, uint64_t seed, rf_case_data *data)
{
    RF_TRY(rf_case_data_describe(op, c, data));
    const uint64_t key = rf_hash_bytes(c->name, strlen(c->name), rf_hash_bytes(op->name, strlen(op->name), seed));
    for (uint32_t i = 0; i < c->n_in; i++) {
        data->in[i] = rf_aligned_calloc((size_t)rf_tensor_bytes(&data->call.in[i]) + 4);
        if (!data->in[i]) return RF_ERROR_OUT_OF_HOST_MEMORY;
        RF_TRY(input_fill(&c->in[i], data->attr, rf_hash64(key, i), data->in[i]));
    }
    return make_outputs(data);
}

rf_result rf_case_data_copy(const rf_case_data *from, rf_case_data *to)
{
    *to = (rf_case_data){ .call = from->call };
    memcpy(to->attr, from->attr, sizeof(to->attr));
    to->call.attr = to->attr;
    for (uint32_t i = 0; i < from->call.n_in; i++) {
        const size_t size = (size_t)rf_tensor_bytes(&from->call.in[i]);
        to->in[i] = rf_aligned_calloc(size + 4);
        if (!to->in[i]) return RF_ERROR_OUT_OF_HOST_MEMORY;
        memcpy(to->in[i], from->in[i], size);
    }
    return make_outputs(to);
}

void rf_case_data_free(rf_case_data *data)
{
    for (uint32_t i = 0; i < RF_MAX_INPUTS; i++) rf_free(data->in[i]);
    for (uint32_t i = 0; i < RF_MAX_OUTPUTS; i++) rf_free(data->out[i]);
    *data = (rf_case_data){ 0 };
}
