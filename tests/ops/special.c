/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases with NaN, infinities, zeros of both signs and denormals among their numbers, held against the same references:
 * the rule is in shaders/include/scalar_fns.h. Each case runs several rounds, which differ in what is put where.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/philox.h"
#include "ops/linear/common/linear.h"
#include "walk.h"

enum {
    ROUND_FEW,   /* a handful of NaN and infinities in each input: most sums stay finite */
    ROUND_ONE,   /* one of them in one input after the other */
    ROUND_DENSE, /* every fifth number, of all kinds */
    ROUND_TINY,  /* every third number a zero or a denormal: everything stays finite */
    NUM_ROUNDS
};

static const uint32_t special_bits[] = {
    0x7fc00000u,              /* NaN */
    0x7f800000u,              /* infinity */
    0xffc00000u,              /* NaN with the sign set, which x86 processors make */
    0xff800000u,              /* -infinity */
    0x80000000u,              /* -0 */
    0x00000001u,              /* the smallest denormal */
    0x807fffffu,              /* the largest, negative */
    0x00000000u, 0x7f800001u, /* a NaN that is all but infinite */
    0x00400000u, 0xffffffffu, /* NaN, all bits set */
    0x80000001u,
};
#define NUM_SPECIAL (sizeof(special_bits) / sizeof(special_bits[0]))
#define NUM_NOT_FINITE 4 /* the first of them */
#define FIRST_TINY 4     /* of these four numbers */

uint32_t walk_special_rounds(void)
{
    return NUM_ROUNDS;
}

static void store(const rf_tensor_desc *desc, void *bytes, int64_t i, uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    switch (desc->dtype) {
    case RF_F32: memcpy((char *)bytes + 4 * i, &bits, sizeof(bits)); break; /* as a float, x87 would change it */
    case RF_F16: ((uint16_t *)bytes)[i] = rf_f32_to_f16(value); break;
    case RF_BF16: ((uint16_t *)bytes)[i] = rf_f32_to_bf16(value); break;
    case RF_I32:
    case RF_U8:
    case RF_I64:
    case RF_DTYPE_INVALID:
    case RF_DTYPE_COUNT: break;
    }
}

static bool is_float(const rf_tensor_desc *desc)
{
    return desc->dtype == RF_F32 || desc->dtype == RF_F16 || desc->dtype == RF_BF16;
}

static void sprinkle_input(const rf_op_call *call, uint32_t input, uint32_t round, uint64_t key, void *bytes)
{
    const rf_tensor_desc *desc = &call->in[input];
    const int64_t count = rf_shape_count(desc->shape);
    rf_rng rng = { .key = key };
    if (round == ROUND_FEW || round == ROUND_ONE) {
        if (round == ROUND_ONE && key % call->n_in != input) return;
        const int64_t number = round == ROUND_ONE || count < 16 ? 1 : NUM_NOT_FINITE;
        for (int64_t k = 0; k < number; k++)
            store(desc, bytes, (int64_t)rf_rng_below(&rng, (uint64_t)count),
                  special_bits[((uint64_t)k + key) % NUM_NOT_FINITE]);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        const uint64_t draw = rf_rng_below(&rng, 60);
        if (round == ROUND_DENSE && draw < 12)
            store(desc, bytes, i, special_bits[draw % NUM_SPECIAL]);
        else if (round == ROUND_TINY && draw < 20)
            store(desc, bytes, i, special_bits[FIRST_TINY + draw % 4]);
    }
}

void walk_special_flush(rf_case_data *data)
{
    for (uint32_t i = 0; i < data->call.n_in; i++) {
        const int64_t count = data->call.in[i].dtype == RF_F32 ? rf_shape_count(data->call.in[i].shape) : 0;
        uint32_t *bits = data->in[i];
        for (int64_t k = 0; k < count; k++)
            if ((bits[k] & 0x7f800000u) == 0) bits[k] &= 0x80000000u;
    }
}

void walk_special_fill(rf_case_data *data, const rf_op_case *c, uint32_t round)
{
    const rf_op_call *call = &data->call;
    for (uint32_t i = 0; i < call->n_in; i++) {
        if (!is_float(&call->in[i]) || ((call->op->shape_only | call->op->settings) >> i & 1)) continue;
        if (rf_shape_count(call->in[i].shape) == 0) continue;
        const uint64_t key = rf_hash64(rf_hash_bytes(c->name, strlen(c->name), round), i);
        sprinkle_input(call, i, round, key, data->in[i]);
    }
    if (c->by_sign) walk_special_flush(data);
}

/* ---- comparison ---- */

/* A zero that a kernel pads input 0 with may have met NaN or an infinity. */
static bool may_be_nan(const rf_case_data *start, uint32_t output, int64_t i)
{
    const rf_op *op = start->call.op;
    const bool pooled = op == &rf_op_conv2d && output == 1; /* which has the channels of output 0 */
    if ((output != 0 && !pooled) || !op->met_by_padding) return false;
    const rf_elements met = op->met_by_padding(&start->call, i);
    for (int64_t k = met.first; k < met.end; k += met.step)
        if (!isfinite(((const float *)start->in[1])[k])) return true;
    return false;
}

/* Some number of an image's channel, or of all its channels (-1), is not finite in the box that begins at top, left. */
static bool box_is_special(const rf_tensor_desc *desc, const float *pixels, int64_t image, int64_t channel, int64_t top,
                           int64_t left, int64_t height, int64_t width)
{
    const int64_t *d = desc->shape.dim;
    for (int64_t y = top < 0 ? 0 : top; y < d[1] && y < top + height; y++)
        for (int64_t x = left < 0 ? 0 : left; x < d[2] && x < left + width; x++)
            for (int64_t c = channel < 0 ? 0 : channel; c < (channel < 0 ? d[3] : channel + 1); c++)
                if (!isfinite(pixels[((image * d[1] + y) * d[2] + x) * d[3] + c])) return true;
    return false;
}

/* A pixel that some result of element i's block of side x side depends on is not finite. */
static bool block_may_show(const rf_case_data *start, int64_t side, uint32_t output, int64_t i)
{
    const rf_op_call *call = &start->call;
    const bool forward = call->op == &rf_op_conv2d, filter = call->op == &rf_op_conv2d_filter_grad;
    const rf_conv_geometry g = rf_conv_geometry_of(call, filter    ? RF_ROLE_FILTER
                                                         : forward ? RF_ROLE_FORWARD
                                                                   : RF_ROLE_DATA);
    if (filter) { /* taps of a channel and a column, whose block is the whole kernel */
        for (int64_t image = 0; image < g.n; image++)
            if (box_is_special(&call->in[0], start->in[0], image, i / g.cout % g.cin, 0, 0, g.h, g.w) ||
                box_is_special(&call->in[1], start->in[1], image, i % g.cout, 0, 0, g.oh, g.ow))
                return true;
        return false;
    }
    const int64_t pool = forward && output == 1 ? 2 : 1; /* a maximum is of 2 x 2 */
    const int64_t *out = call->out[output].shape.dim, pixel = i / out[3];
    const int64_t x = pixel % out[2] * pool, y = pixel / out[2] % out[1] * pool, image = pixel / out[2] / out[1];
    return box_is_special(&call->in[0], start->in[0], image, -1, y / side * side - (forward ? g.pt : 2 - g.pt),
                          x / side * side - (forward ? g.pl : 2 - g.pl), side + 2, side + 2);
}

/* Some input number is not finite, and the case has numbers that meet weights of 0. */
static bool unattended_may_show(const rf_case_data *start, const rf_op_case *c)
{
    for (uint32_t i = 0; c->unattended && i < start->call.n_in; i++) {
        const float *x = start->in[i];
        for (int64_t k = rf_shape_count(start->call.in[i].shape); k-- > 0;)
            if (!isfinite(x[k])) return true;
    }
    return false;
}

static bool is_as_expected(double got, double expected, const rf_op_case *c)
{
    if (isnan(expected)) return isnan(got);
    if (isinf(expected)) return got == expected; /* the bound below is infinite too */
    return got == expected || fabs(got - expected) <= c->atol + c->rtol * fabs(expected) ||
           (fabs(expected) < FLT_MIN && fabs(got) < FLT_MIN);
}

int64_t walk_first_special_bad(const rf_case_data *start, const rf_op_case *c, const rf_kernel *kernel,
                               const rf_tensor_desc *desc, uint32_t output, const void *got, const void *expected,
                               const void *flushed)
{
    const int64_t count = rf_shape_count(desc->shape);
    for (int64_t i = 0; i < count; i++) {
        const double value = walk_element(desc->dtype, got, i);
        if (is_as_expected(value, walk_element(desc->dtype, expected, i), c)) continue;
        if (is_as_expected(value, walk_element(desc->dtype, flushed, i), c)) continue;
        if (isnan(value) && (may_be_nan(start, output, i) || unattended_may_show(start, c) ||
                             (kernel->block && block_may_show(start, kernel->block, output, i))))
            continue;
        return i;
    }
    return -1;
}
