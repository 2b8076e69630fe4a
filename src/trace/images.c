/* SPDX-License-Identifier: Apache-2.0 */
/* Images of another size: resized along each axis by itself, and pixels that become channels or are made of them. */
#include <math.h>
#include <stdio.h>

#include <ringfire/ops.h>

#include "base/memory.h"
#include "base/params.h"
#include "ops/ops.h"
#include "trace/trace.h"

/* f32 or a type of 16 bits, [n, h, w, c]; false with the trace failed. */
static bool image_operand(rf_trace *t, rf_tensor x, const char *function, rf_tensor_desc *desc)
{
    char text[96], argument[64];
    snprintf(argument, sizeof(argument), "%s: x", function);
    if (!rf_operand_desc(t, x, argument, desc)) return false;
    if (rf_dtype_is_float(desc->dtype) && desc->shape.rank == 4) return true;
    (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "%s: needs floating-point images [n, h, w, c], got %s %s",
                        function, rf_dtype_name(desc->dtype), rf_shape_format(desc->shape, text, sizeof(text)));
    return false;
}

/* A dimension that a function makes numbers of. */
static bool fixed_axis(rf_trace *t, rf_tensor x, const char *function, int32_t axis)
{
    static const char *const names[] = { "examples", "height", "width", "channels" };
    if (!rf_dim_follows(t, x, axis)) return true;
    (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "%s: the %s of x must not depend on the batch", function,
                        names[axis]);
    return false;
}

/* ---- resizing ---- */

enum { MAX_TAPS = 4, MAX_RESIZED = 1 << 20, MAX_BLOCK = 1024 };

/* How one axis of `from` pixels becomes one of `to`. */
typedef struct resized_axis {
    const rf_resize2d_params *params;
    int64_t from, to;
    double scale; /* 0: to / from, which divides without an error where the place is a pixel's */
} resized_axis;

static double scaled_back(const resized_axis *a, double place)
{
    return a->scale != 0 ? place / a->scale : place * (double)a->from / (double)a->to;
}

/* The place of result `i` among the pixels, whose middles are whole numbers. */
static double place_of(const resized_axis *a, int64_t i)
{
    switch (a->params->coordinates) {
    case RF_RESIZE_HALF_PIXEL: break;
    case RF_RESIZE_ALIGN_CORNERS: return a->to > 1 ? (double)i * (double)(a->from - 1) / (double)(a->to - 1) : 0;
    case RF_RESIZE_ASYMMETRIC: return scaled_back(a, (double)i);
    case RF_RESIZE_PYTORCH_HALF_PIXEL:
        if (a->to == 1) return 0;
        break;
    case RF_RESIZE_TF_HALF_PIXEL: return scaled_back(a, (double)i + 0.5);
    }
    return scaled_back(a, (double)i + 0.5) - 0.5;
}

static double round_place(double place, rf_resize_rounding rounding)
{
    switch (rounding) {
    case RF_ROUND_HALF_DOWN: return ceil(place - 0.5);
    case RF_ROUND_HALF_UP: return floor(place + 0.5);
    case RF_ROUND_DOWN: return floor(place);
    case RF_ROUND_UP: return ceil(place);
    }
    return place;
}

/* Keys' cubic convolution at `way` behind the second of four pixels. */
static void cubic_weights(double way, double a, double weight[MAX_TAPS])
{
    const double x[] = { 1 + way, way, 1 - way, 2 - way };
    for (int k = 0; k < 4; k++) {
        const double d = x[k];
        weight[k] = k == 1 || k == 2 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((d - 5) * d + 8) * d * a - 4 * a;
    }
}

static int num_taps(rf_resize_method method)
{
    return method == RF_RESIZE_NEAREST ? 1 : method == RF_RESIZE_BILINEAR ? 2 : 4;
}

/* The pixels that result `i` is made of, and their weights. Those beyond the border are the pixels there. */
static void find_taps(const resized_axis *a, int64_t i, int64_t at[MAX_TAPS], double weight[MAX_TAPS])
{
    const rf_resize2d_params *p = a->params;
    const int count = num_taps(p->method);
    const double place = place_of(a, i), below = floor(place), way = place - below;
    int64_t first = (int64_t)below;
    double sum = 0;
    weight[0] = 1;
    if (p->method == RF_RESIZE_NEAREST) {
        first = (int64_t)round_place(place, p->rounding);
    } else if (p->method == RF_RESIZE_BILINEAR) {
        weight[0] = 1 - way;
        weight[1] = way;
    } else {
        first--;
        cubic_weights(way, rf_setting((double)p->cubic, -0.75), weight);
    }
    for (int k = 0; k < count; k++) {
        const int64_t pixel = first + k;
        at[k] = pixel < 0 ? 0 : pixel < a->from ? pixel : a->from - 1;
        if (p->skip_outside && at[k] != pixel) weight[k] = 0;
        sum += weight[k];
    }
    for (int k = 0; p->skip_outside && sum != 0 && k < count; k++) weight[k] /= sum;
}

/* The sum of pixels `at` times `weight`, each taken along the axis; both hold one row of all results for each tap. */
static rf_tensor blend_taps(rf_trace *t, rf_tensor x, int32_t axis, int64_t to, int taps, int32_t *at, float *weight)
{
    rf_tensor sum = RF_NO_TENSOR;
    for (int k = 0; k < taps; k++) {
        const rf_array rows = { RF_I32, RF_SHAPE(to), at + k * to };
        const rf_array factors = { RF_F32, axis == 1 ? RF_SHAPE(to, 1, 1) : RF_SHAPE(to, 1), weight + k * to };
        rf_tensor tap = rf_gather(t, x, rf_constant_array(t, &rows), axis);
        if (taps > 1) tap = rf_multiply(t, tap, rf_constant_array(t, &factors));
        sum = k == 0 ? tap : rf_add(t, sum, tap);
    }
    return sum;
}

static rf_tensor resize_axis(rf_trace *t, rf_tensor x, int32_t axis, const resized_axis *a)
{
    const int taps = num_taps(a->params->method);
    int32_t *at = RF_NEW_ARRAY(int32_t, (size_t)(a->to * taps));
    float *weight = RF_NEW_ARRAY(float, (size_t)(a->to * taps));
    rf_tensor y;
    bool same = a->from == a->to;
    for (int64_t i = 0; at && weight && i < a->to; i++) {
        int64_t pixel[MAX_TAPS];
        double factor[MAX_TAPS];
        find_taps(a, i, pixel, factor);
        for (int k = 0; k < taps; k++) {
            at[k * a->to + i] = (int32_t)pixel[k];
            weight[k * a->to + i] = (float)factor[k];
            same = same && (factor[k] == 0 || (factor[k] == 1 && pixel[k] == i));
        }
    }
    if (!at || !weight)
        y = rf_trace_emit(t, RF_ERROR_OUT_OF_HOST_MEMORY, 0);
    else
        y = same ? x : blend_taps(t, x, axis, a->to, taps, at, weight);
    rf_free(at);
    rf_free(weight);
    return y;
}

static bool resize_check(rf_trace *t, const rf_resize2d_params *p)
{
    if (!p) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_resize2d: params is NULL");
        return false;
    }
    const rf_result r = RF_PARAMS_CHECK(rf_resize2d_params, p);
    if (r < 0) {
        (void)rf_trace_emit(t, r, 0);
        return false;
    }
    if (!rf_choice(t, "rf_resize2d: method", (int)p->method, RF_RESIZE_BICUBIC) ||
        !rf_choice(t, "rf_resize2d: coordinates", (int)p->coordinates, RF_RESIZE_TF_HALF_PIXEL) ||
        !rf_choice(t, "rf_resize2d: rounding", (int)p->rounding, RF_ROUND_UP))
        return false;
    for (int i = 0; i < 2; i++) {
        if (p->size[i] >= 1 && p->size[i] <= MAX_RESIZED && p->scale[i] >= 0 && p->scale[i] != RF_ZERO &&
            isfinite(p->scale[i]))
            continue;
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                            "rf_resize2d: size[%d] is %d with a scale of %g; sizes are 1 to %d, scales finite and not "
                            "negative",
                            i, (int)p->size[i], (double)p->scale[i], MAX_RESIZED);
        return false;
    }
    return true;
}

/* Where it is an enlargement by whole factors, one operation does it. */
static bool resize_enlarges(const rf_resize2d_params *p, const rf_shape *x, int32_t factor[2])
{
    for (int i = 0; i < 2; i++) {
        factor[i] = (int32_t)(p->size[i] / x->dim[1 + i]);
        if (factor[i] < 1 || factor[i] > RF_MAX_UPSAMPLE_FACTOR || factor[i] * x->dim[1 + i] != p->size[i] ||
            (p->scale[i] != 0 && p->scale[i] != (float)factor[i]))
            return false;
    }
    if (p->method == RF_RESIZE_NEAREST)
        return p->coordinates == RF_RESIZE_HALF_PIXEL   ? p->rounding <= RF_ROUND_HALF_UP
               : p->coordinates == RF_RESIZE_ASYMMETRIC ? p->rounding == RF_ROUND_DOWN
                                                        : false;
    return p->coordinates == RF_RESIZE_HALF_PIXEL && !p->skip_outside && p->method == RF_RESIZE_BILINEAR;
}

rf_tensor rf_resize2d(rf_trace *t, rf_tensor x, const rf_resize2d_params *params)
{
    RF_TRACING(t);
    rf_tensor_desc desc;
    int32_t factor[2];
    if (!image_operand(t, x, "rf_resize2d", &desc) || !resize_check(t, params)) return RF_NO_TENSOR;
    for (int32_t axis = 1; axis <= 2; axis++)
        if (!fixed_axis(t, x, "rf_resize2d", axis)) return RF_NO_TENSOR;
    if (resize_enlarges(params, &desc.shape, factor))
        return rf_upsample2d(
            t, x, factor, params->method == RF_RESIZE_NEAREST ? RF_INTERPOLATION_NEAREST : RF_INTERPOLATION_BILINEAR);
    rf_tensor y = rf_upcast(t, x);
    for (int32_t i = 0; i < 2; i++) {
        y = resize_axis(t, y, 1 + i,
                        &(resized_axis){ params, desc.shape.dim[1 + i], params->size[i], (double)params->scale[i] });
    }
    return y.id == x.id ? rf_alias(t, x.id) : y;
}

/* ---- pixels and channels ---- */

/* Regroups to six dimensions, exchanges them and regroups to four. */
static rf_tensor exchange_blocks(rf_trace *t, rf_tensor x, const rf_size six[6], const int32_t perm[6],
                                 const rf_size four[4])
{
    return rf_regroup(t, rf_transpose(t, rf_regroup(t, x, six, 6), perm), four, 4);
}

static bool block_check(rf_trace *t, const char *function, int32_t block, rf_block_order order)
{
    char argument[64];
    snprintf(argument, sizeof(argument), "%s: order", function);
    if (!rf_choice(t, argument, (int)order, RF_CHANNELS_OUTER)) return false;
    if (block >= 1 && block <= MAX_BLOCK) return true;
    (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "%s: block is %d, must be 1 to %d", function, (int)block,
                        MAX_BLOCK);
    return false;
}

rf_tensor rf_depth_to_space(rf_trace *t, rf_tensor x, int32_t block, rf_block_order order)
{
    RF_TRACING(t);
    static const int32_t inner[] = { 0, 1, 3, 2, 4, 5 }, outer[] = { 0, 1, 4, 2, 5, 3 };
    rf_tensor_desc desc;
    char text[96];
    if (!image_operand(t, x, "rf_depth_to_space", &desc) || !block_check(t, "rf_depth_to_space", block, order) ||
        !fixed_axis(t, x, "rf_depth_to_space", 3))
        return RF_NO_TENSOR;
    const int64_t area = (int64_t)block * block, channels = desc.shape.dim[3] / area;
    if (channels * area != desc.shape.dim[3]) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                            "rf_depth_to_space: the channels of x %s cannot be divided into blocks of %d x %d",
                            rf_shape_format(desc.shape, text, sizeof(text)), (int)block, (int)block);
        return RF_NO_TENSOR;
    }
    const rf_size n = rf_size_of(x, 0, 1), c = rf_size_fixed(channels), b = rf_size_fixed(block);
    rf_size h = rf_size_of(x, 1, 1), w = rf_size_of(x, 2, 1), high = h, wide = w;
    high.times = wide.times = block;
    return order == RF_CHANNELS_INNER
               ? exchange_blocks(t, x, (rf_size[]){ n, h, w, b, b, c }, inner, (rf_size[]){ n, high, wide, c })
               : exchange_blocks(t, x, (rf_size[]){ n, h, w, c, b, b }, outer, (rf_size[]){ n, high, wide, c });
}

rf_tensor rf_space_to_depth(rf_trace *t, rf_tensor x, int32_t block, rf_block_order order)
{
    RF_TRACING(t);
    static const int32_t inner[] = { 0, 1, 3, 2, 4, 5 }, outer[] = { 0, 1, 3, 5, 2, 4 };
    rf_tensor_desc desc;
    char text[96];
    if (!image_operand(t, x, "rf_space_to_depth", &desc) || !block_check(t, "rf_space_to_depth", block, order) ||
        !fixed_axis(t, x, "rf_space_to_depth", 1) || !fixed_axis(t, x, "rf_space_to_depth", 2))
        return RF_NO_TENSOR;
    if (desc.shape.dim[1] % block != 0 || desc.shape.dim[2] % block != 0) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                            "rf_space_to_depth: images %s cannot be divided into blocks of %d x %d pixels",
                            rf_shape_format(desc.shape, text, sizeof(text)), (int)block, (int)block);
        return RF_NO_TENSOR;
    }
    rf_size deep = rf_size_of(x, 3, 1);
    const rf_size n = rf_size_of(x, 0, 1), c = deep, b = rf_size_fixed(block),
                  h = rf_size_fixed(desc.shape.dim[1] / block), w = rf_size_fixed(desc.shape.dim[2] / block);
    deep.times = (int64_t)block * block;
    return exchange_blocks(t, x, (rf_size[]){ n, h, b, w, b, c }, order == RF_CHANNELS_INNER ? inner : outer,
                           (rf_size[]){ n, h, w, deep });
}
