/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of ONNX on images and signals: channels are last where there are two places, else the file's order is kept
 * and turned here. */
#include <math.h>
#include <string.h>

#include "trace/trace.h"
#include "train/onnx/op.h"

#define X rf_import_float_of(c, 0)
#define NUM(value) rf_import_scalar(c, value)

/* [n, c, l] -> [n, 1, l, c] and back; images stay as they are. */
static rf_tensor to_image(rf_import_call *c, rf_tensor x)
{
    static const int32_t perm[] = { 0, 2, 1 };
    const int32_t rank = rf_tensor_shape(c->t, x).rank;
    if (rank == 4 && c->last) return x;
    if (rank == 3) return rf_expand_dims(c->t, rf_transpose(c->t, x, perm), 1);
    rf_import_call_fail(c, "has an operand that is no image and no signal: 3-D is not there");
    return (rf_tensor){ 0 };
}

static rf_tensor from_image(rf_import_call *c, rf_tensor y)
{
    static const int32_t perm[] = { 0, 2, 1 };
    return c->last ? y : rf_transpose(c->t, rf_squeeze(c->t, y, 1), perm);
}

/* How windows move, by both places; those of signals have one. */
typedef struct windows {
    int64_t size[2], stride[2], dilation[2], before[2], after[2];
    bool ceil;
} windows;

/* Two numbers of a list for one or two places, with `fallback` for those that are not there. */
static void read_pair(const rf_import_call *c, const char *name, int64_t fallback, int64_t out[2])
{
    int64_t listed[2];
    const uint32_t count = rf_import_ints(c, name, listed, 2);
    out[0] = count == 2 ? listed[0] : fallback;
    out[1] = count == 2 ? listed[1] : count == 1 ? listed[0] : fallback;
    if (count == 1) out[0] = 1;
}

static windows windows_of(rf_import_call *c, rf_shape image, const int64_t kernel[2])
{
    windows w = { .ceil = rf_import_int(c, "ceil_mode", 0) != 0 };
    int64_t pads[4] = { 0 };
    const char *automatic = rf_import_text(c, "auto_pad", "NOTSET");
    read_pair(c, "kernel_shape", 1, w.size);
    if (kernel) memcpy(w.size, kernel, sizeof(w.size));
    read_pair(c, "strides", 1, w.stride);
    read_pair(c, "dilations", 1, w.dilation);
    const uint32_t count = rf_import_ints(c, "pads", pads, 4);
    const bool two = count == 4;
    for (int k = 0; k < 2; k++) {
        if (count > 0 && (two || k == 1)) w.before[k] = two ? pads[k] : pads[0];
        if (count > 0 && (two || k == 1)) w.after[k] = two ? pads[k + 2] : pads[1];
        if (w.size[k] < 1 || w.stride[k] < 1 || w.dilation[k] < 1 || w.before[k] < 0 || w.after[k] < 0 ||
            w.size[k] > INT32_MAX || w.stride[k] > INT32_MAX || w.dilation[k] > INT32_MAX || w.before[k] > INT32_MAX ||
            w.after[k] > INT32_MAX) {
            rf_import_call_fail(c, "has windows that are none");
            return (windows){ { 1, 1 }, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 0, 0 }, false };
        }
        const int64_t reach = (w.size[k] - 1) * w.dilation[k] + 1, size = image.dim[1 + k];
        if (strncmp(automatic, "SAME", 4) != 0) continue;
        int64_t total = ((size + w.stride[k] - 1) / w.stride[k] - 1) * w.stride[k] + reach - size;
        if (total < 0) total = 0;
        w.after[k] = strcmp(automatic, "SAME_LOWER") == 0 ? total / 2 : total - total / 2;
        w.before[k] = total - w.after[k];
    }
    return w;
}

/* ---- convolution ---- */

/* [out, in, k...] or [in, out, k...] -> [kh, kw, in, out] or [kh, kw, out, in]. */
static rf_tensor kernel_of(rf_import_call *c, uint32_t i)
{
    static const int32_t perm[] = { 2, 3, 1, 0 };
    rf_tensor w = rf_import_float_of(c, i);
    const int32_t rank = rf_tensor_shape(c->t, w).rank;
    if (rank == 3) w = rf_expand_dims(c->t, w, 2);
    if (rank == 3 || rank == 4) return rf_transpose(c->t, w, perm);
    rf_import_call_fail(c, "has a kernel of another number of dimensions than 1 or 2");
    return (rf_tensor){ 0 };
}

static rf_conv2d_params conv_params(rf_import_call *c, const windows *w)
{
    rf_conv2d_params p = { .padding = RF_PADDING_EXPLICIT, .groups = (int32_t)rf_import_int(c, "group", 1) };
    for (int k = 0; k < 2; k++) {
        p.stride[k] = (int32_t)w->stride[k];
        p.dilation[k] = (int32_t)w->dilation[k];
        p.explicit_padding[2 * k] = (int32_t)w->before[k];
        p.explicit_padding[2 * k + 1] = (int32_t)w->after[k];
    }
    return p;
}

static void conv_trace(rf_import_call *c)
{
    const rf_tensor x = to_image(c, X), kernel = kernel_of(c, 1);
    const rf_shape k = rf_tensor_shape(c->t, kernel), image = rf_tensor_shape(c->t, x);
    if (rf_trace_status(c->t) < 0) return;
    const windows w = windows_of(c, image, k.dim);
    const rf_conv2d_params p = conv_params(c, &w);
    rf_tensor y = rf_conv2d(c->t, x, kernel, &p);
    if (rf_import_has(c, 2)) y = rf_bias_add(c->t, y, rf_import_float_of(c, 2));
    c->out[0] = from_image(c, y);
}

/* Rows that nothing reaches are put on as zeros, before the bias. */
static void conv_transpose_trace(rf_import_call *c)
{
    const rf_tensor x = to_image(c, X), kernel = kernel_of(c, 1);
    const rf_shape k = rf_tensor_shape(c->t, kernel), image = rf_tensor_shape(c->t, x);
    if (rf_trace_status(c->t) < 0) return;
    const char *automatic = rf_import_text(c, "auto_pad", "NOTSET");
    windows w = windows_of(c, image, k.dim);
    int64_t more[2], shape[2], rest[3] = { 0 };
    read_pair(c, "output_padding", 0, more);
    if (rf_import_ints(c, "output_padding", shape, 2) == 1) more[0] = 0;
    read_pair(c, "output_shape", 0, shape);
    for (int i = 0; i < 2; i++) {
        const int64_t full = (image.dim[1 + i] - 1) * w.stride[i] + (k.dim[i] - 1) * w.dilation[i] + 1;
        const bool same = strncmp(automatic, "SAME", 4) == 0;
        if (same && shape[i] <= 0) shape[i] = image.dim[1 + i] * w.stride[i];
        if (shape[i] > 0 && (i == 1 || c->last)) {
            const int64_t total = full + more[i] - shape[i] > 0 ? full + more[i] - shape[i] : 0;
            w.before[i] = strcmp(automatic, "SAME_UPPER") == 0 ? total / 2 : total - total / 2;
            w.after[i] = total - w.before[i];
            more[i] += shape[i] - (full + more[i] - total);
        }
        const int64_t taken = more[i] < w.after[i] ? more[i] : w.after[i];
        w.after[i] -= taken;
        rest[1 + i] = more[i] - taken;
    }
    const rf_conv2d_params p = conv_params(c, &w);
    rf_tensor y = rf_conv2d_transpose(c->t, x, kernel, &p);
    if (rest[1] > 0 || rest[2] > 0) y = rf_pad(c->t, y, (int64_t[3]){ 0 }, rest, 3, 0);
    if (rf_import_has(c, 2)) y = rf_bias_add(c->t, y, rf_import_float_of(c, 2));
    c->out[0] = from_image(c, y);
}

/* ---- pooling ---- */

static void pool_trace(rf_import_call *c)
{
    rf_tensor x = to_image(c, X);
    if (rf_trace_status(c->t) < 0) return;
    const bool average = strcmp(c->op, "AveragePool") == 0;
    windows w = windows_of(c, rf_tensor_shape(c->t, x), NULL);
    if (c->num_out > 1) rf_import_call_fail(c, "gives indices, which are not there");
    if (w.dilation[0] != 1 || w.dilation[1] != 1) rf_import_call_fail(c, "has dilations, which are not there");
    if (average && rf_import_int(c, "count_include_pad", 0)) {
        const int64_t before[] = { 0, w.before[0], w.before[1] }, after[] = { 0, w.after[0], w.after[1] };
        x = rf_pad(c->t, x, before, after, 3, 0);
        for (int k = 0; k < 2; k++) w.before[k] = w.after[k] = 0;
    }
    rf_pool2d_params p = { .padding = RF_PADDING_EXPLICIT };
    for (int k = 0; k < 2; k++) {
        const int64_t size = rf_tensor_shape(c->t, x).dim[1 + k] + w.before[k] + w.after[k];
        if (w.ceil && size >= w.size[k]) {
            int64_t outputs = (size - w.size[k] + w.stride[k] - 1) / w.stride[k] + 1;
            /* No window begins behind the image. */
            if ((outputs - 1) * w.stride[k] >= size - w.after[k]) outputs--;
            const int64_t more = (outputs - 1) * w.stride[k] + w.size[k] - size;
            if (more > 0) w.after[k] += more;
        }
        p.window[k] = (int32_t)w.size[k];
        p.stride[k] = (int32_t)w.stride[k];
        p.explicit_padding[2 * k] = (int32_t)w.before[k];
        p.explicit_padding[2 * k + 1] = (int32_t)w.after[k];
    }
    c->out[0] = from_image(c, average ? rf_avg_pool2d(c->t, x, &p) : rf_max_pool2d(c->t, x, &p));
}

static void global_pool_trace(rf_import_call *c)
{
    const rf_tensor x = X;
    const int32_t rank = rf_tensor_shape(c->t, x).rank;
    int32_t axes[RF_MAX_RANK];
    uint32_t count = 0;
    for (int32_t d = 2; d < rank; d++) axes[count++] = rf_import_axis(c, d, rank);
    if (count == 0)
        c->out[0] = x;
    else if (strcmp(c->op, "GlobalMaxPool") == 0)
        c->out[0] = rf_reduce_max(c->t, x, axes, count, RF_KEEP_DIMS);
    else
        c->out[0] = rf_reduce_mean(c->t, x, axes, count, RF_KEEP_DIMS);
}

/* ---- sizes ---- */

typedef struct resize {
    const char *mode, *coordinates, *nearest;
    double cubic;
} resize;

/* Where pixel i of the result lies in the image. */
static double place_of(const resize *r, int64_t i, int64_t in, int64_t out, double scale)
{
    const double half = ((double)i + 0.5) / scale - 0.5;
    if (strcmp(r->coordinates, "asymmetric") == 0) return (double)i / scale;
    if (strcmp(r->coordinates, "align_corners") == 0)
        return out > 1 ? (double)i * (double)(in - 1) / (double)(out - 1) : 0;
    if (strcmp(r->coordinates, "pytorch_half_pixel") == 0) return out > 1 ? half : 0;
    if (strcmp(r->coordinates, "half_pixel_symmetric") == 0)
        return (double)in / 2 * (1 - (double)out / (scale * (double)in)) + half;
    return half;
}

static double nearest_of(const resize *r, double place)
{
    if (strcmp(r->nearest, "floor") == 0) return floor(place);
    if (strcmp(r->nearest, "ceil") == 0) return ceil(place);
    return strcmp(r->nearest, "round_prefer_ceil") == 0 ? floor(place + 0.5) : ceil(place - 0.5);
}

/* Weight of the pixel that is `distance` away, by Keys' cubic of that parameter. */
static double cubic_weight(double a, double distance)
{
    const double x = fabs(distance);
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* A weighted sum of pixels along one axis: one, two or four of them. */
static rf_tensor resize_axis(rf_import_call *c, rf_tensor x, const resize *r, int32_t axis, int64_t out, double scale)
{
    const rf_shape shape = rf_tensor_shape(c->t, x);
    const int64_t in = shape.dim[axis];
    const int taps = strcmp(r->mode, "nearest") == 0 ? 1 : strcmp(r->mode, "cubic") == 0 ? 4 : 2;
    rf_shape weights_shape = { .rank = shape.rank };
    for (int32_t d = 0; d < shape.rank; d++) weights_shape.dim[d] = d == axis ? out : 1;
    int32_t *at = rf_arena_alloc(&c->arena, (size_t)out * sizeof(*at));
    float *weights = rf_arena_alloc(&c->arena, (size_t)out * sizeof(*weights));
    rf_tensor sum = { 0 };
    for (int k = 0; at && weights && k < taps; k++) {
        for (int64_t i = 0; i < out; i++) {
            const double place = place_of(r, i, in, out, scale), base = floor(place);
            double pixel = taps == 1 ? nearest_of(r, place) : taps == 2 ? base + k : base + k - 1;
            weights[i] = taps == 1   ? 1
                         : taps == 2 ? (float)(1 - fabs(place - pixel))
                                     : (float)cubic_weight(r->cubic, place - pixel);
            pixel = pixel < 0 ? 0 : pixel > (double)(in - 1) ? (double)(in - 1) : pixel;
            at[i] = (int32_t)pixel;
        }
        const rf_tensor numbers = rf_constant_array(c->t, &(rf_array){ RF_I32, RF_SHAPE(out), at });
        rf_tensor part = rf_gather(c->t, x, numbers, axis);
        if (taps > 1)
            part = rf_multiply(c->t, part, rf_constant_array(c->t, &(rf_array){ RF_F32, weights_shape, weights }));
        sum = sum.id ? rf_add(c->t, sum, part) : part;
    }
    return sum;
}

/* Whole factors of rows and columns, whose pixels lie where rf_upsample2d() has them. */
static bool whole_factors(rf_import_call *c, const resize *r, const double scale[RF_MAX_RANK], int32_t factor[2])
{
    const bool nearest = strcmp(r->mode, "nearest") == 0, half = strcmp(r->coordinates, "half_pixel") == 0;
    const bool asymmetric = strcmp(r->coordinates, "asymmetric") == 0;
    if (!c->last ||
        (nearest ? !(asymmetric && strcmp(r->nearest, "floor") == 0) && !(half && strncmp(r->nearest, "round", 5) == 0)
                 : !half || strcmp(r->mode, "linear") != 0))
        return false;
    for (int k = 0; k < 2; k++) {
        if (scale[1 + k] < 1 || scale[1 + k] > 512 || scale[1 + k] != floor(scale[1 + k])) return false;
        factor[k] = (int32_t)scale[1 + k];
    }
    return scale[0] == 1 && scale[3] == 1;
}

/* Scales or sizes by the axes of the file, put where axes are now. */
static bool find_sizes(rf_import_call *c, rf_tensor x, int64_t out[RF_MAX_RANK], double scale[RF_MAX_RANK])
{
    const double *numbers;
    int64_t count = 0, axes[RF_MAX_RANK];
    const rf_shape shape = rf_tensor_shape(c->t, x);
    const uint32_t at = c->opset < 11 ? 1 : 2;
    const bool by_size = c->opset >= 11 && rf_import_has(c, 3) && rf_shape_count(c->in[3].shape) > 0;
    if (!rf_import_numbers(c, by_size ? 3 : at, &numbers, &count)) return false;
    const uint32_t num_axes = rf_import_ints(c, "axes", axes, RF_MAX_RANK);
    if (count != (num_axes ? (int64_t)num_axes : shape.rank)) {
        rf_import_call_fail(c, "has other sizes than its operand has dimensions");
        return false;
    }
    for (int32_t d = 0; d < shape.rank; d++) {
        out[d] = shape.dim[d];
        scale[d] = 1;
    }
    for (int64_t i = 0; i < count; i++) {
        const int32_t axis = rf_import_axis(c, num_axes ? axes[i] : i, shape.rank);
        if (axis < 0) return false;
        if (rf_dim_follows(c->t, x, axis)) continue; /* the batch stays */
        const double size = by_size ? numbers[i] : floor((double)shape.dim[axis] * numbers[i]);
        if (!(size >= 1 && size <= 1 << 24)) {
            rf_import_call_fail(c, "makes an image without pixels, or of too many");
            return false;
        }
        out[axis] = (int64_t)size;
        scale[axis] = by_size ? size / (double)shape.dim[axis] : numbers[i];
    }
    return true;
}

static void resize_trace(rf_import_call *c)
{
    rf_tensor x = X;
    const rf_shape shape = rf_tensor_shape(c->t, x);
    const bool old = c->opset < 11;
    resize r = { .mode = rf_import_text(c, "mode", "nearest"),
                 .coordinates = rf_import_text(c, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel"),
                 .nearest = rf_import_text(c, "nearest_mode", old ? "floor" : "round_prefer_floor"),
                 .cubic = rf_import_real(c, "cubic_coeff_a", -0.75) };
    int64_t out[RF_MAX_RANK];
    double scale[RF_MAX_RANK];
    int32_t factor[2];
    if (strcmp(r.mode, "bilinear") == 0) r.mode = "linear";
    if (strcmp(r.coordinates, "tf_crop_and_resize") == 0 || strncmp(r.coordinates, "tf_half", 7) == 0)
        rf_import_call_fail(c, "has coordinates of TensorFlow's older forms");
    if (rf_import_int(c, "antialias", 0)) rf_import_call_fail(c, "has antialias");
    if (rf_import_int(c, "exclude_outside", 0)) rf_import_call_fail(c, "has exclude_outside");
    if (strcmp(rf_import_text(c, "keep_aspect_ratio_policy", "stretch"), "stretch") != 0)
        rf_import_call_fail(c, "keeps the ratio of sizes");
    if (rf_trace_status(c->t) < 0 || !find_sizes(c, x, out, scale)) return;
    if (whole_factors(c, &r, scale, factor)) {
        c->out[0] = rf_upsample2d(
            c->t, x, factor, strcmp(r.mode, "nearest") == 0 ? RF_INTERPOLATION_NEAREST : RF_INTERPOLATION_BILINEAR);
        return;
    }
    for (int32_t d = 0; d < shape.rank && rf_trace_status(c->t) >= 0; d++)
        if (out[d] != shape.dim[d] || scale[d] != 1) x = resize_axis(c, x, &r, d, out[d], scale[d]);
    c->out[0] = x;
}

/* ---- channels and places ---- */

static void blocks_trace(rf_import_call *c)
{
    const rf_tensor x = X;
    const rf_shape s = rf_tensor_shape(c->t, x);
    const int64_t b = rf_import_int(c, "blocksize", 0);
    const bool deep = strcmp(c->op, "SpaceToDepth") == 0;
    if (s.rank != 4 || b < 1 || b > 4096 || (deep ? s.dim[1] % b != 0 || s.dim[2] % b != 0 : s.dim[3] % (b * b) != 0)) {
        rf_import_call_fail(c, "has blocks that do not fit its operand");
        return;
    }
    static const int32_t turned[] = { 0, 1, 3, 2, 4, 5 }, columns[] = { 0, 1, 4, 2, 5, 3 };
    if (deep) {
        const rf_tensor parts = rf_reshape(c->t, x, RF_SHAPE(-1, s.dim[1] / b, b, s.dim[2] / b, b, s.dim[3]));
        c->out[0] = rf_reshape(c->t, rf_transpose(c->t, parts, turned),
                               RF_SHAPE(-1, s.dim[1] / b, s.dim[2] / b, s.dim[3] * b * b));
        return;
    }
    const int64_t channels = s.dim[3] / (b * b);
    const bool crd = strcmp(rf_import_text(c, "mode", "DCR"), "CRD") == 0;
    const rf_shape to =
        crd ? RF_SHAPE(-1, s.dim[1], s.dim[2], channels, b, b) : RF_SHAPE(-1, s.dim[1], s.dim[2], b, b, channels);
    const rf_tensor parts = rf_transpose(c->t, rf_reshape(c->t, x, to), crd ? columns : turned);
    c->out[0] = rf_reshape(c->t, parts, RF_SHAPE(-1, s.dim[1] * b, s.dim[2] * b, channels));
}

/* ---- norms ---- */

static float epsilon_of(rf_import_call *c)
{
    const double epsilon = rf_import_real(c, "epsilon", 1e-5);
    return epsilon == 0 ? RF_ZERO : (float)epsilon;
}

/* The axis of channels, which is 1 in the file. */
static int32_t channels_of(rf_import_call *c, rf_tensor x)
{
    return rf_import_axis(c, 1, rf_tensor_shape(c->t, x).rank);
}

static rf_tensor channel_vector(rf_import_call *c, uint32_t i, int32_t axis, int32_t rank)
{
    return rf_append_axes(c->t, rf_import_float_of(c, i), rank - 1 - axis);
}

static void batch_norm_trace(rf_import_call *c)
{
    const rf_tensor x = X;
    const int32_t rank = rf_tensor_shape(c->t, x).rank, axis = channels_of(c, x);
    if (rf_import_int(c, "training_mode", 0) || c->num_out > 1) rf_import_call_fail(c, "is in training mode");
    if (axis < 0) return;
    const rf_tensor centred = rf_subtract(c->t, x, channel_vector(c, 3, axis, rank));
    const rf_tensor variance = rf_add(c->t, rf_import_float_of(c, 4), NUM(rf_import_real(c, "epsilon", 1e-5)));
    const rf_tensor scale = rf_divide(c->t, rf_import_float_of(c, 1), rf_sqrt(c->t, variance));
    const rf_tensor y = rf_multiply(c->t, centred, rf_append_axes(c->t, scale, rank - 1 - axis));
    c->out[0] = rf_add(c->t, y, channel_vector(c, 2, axis, rank));
}

static void instance_norm_trace(rf_import_call *c)
{
    const rf_tensor x = X;
    const int32_t axis = channels_of(c, x);
    if (axis >= 0)
        c->out[0] = rf_group_norm(c->t, x, rf_import_float_of(c, 1), rf_import_float_of(c, 2), -1, axis, epsilon_of(c));
}

/* Scale and bias are those of channels from opset 21 on, and of groups before. */
static void group_norm_trace(rf_import_call *c)
{
    const rf_tensor x = X, none = { 0 };
    const int32_t rank = rf_tensor_shape(c->t, x).rank, axis = channels_of(c, x);
    const int64_t groups = rf_import_int(c, "num_groups", 1);
    if (axis < 0 || groups < 1 || groups > INT32_MAX) return;
    const int64_t channels = rf_tensor_shape(c->t, x).dim[axis];
    rf_tensor v[2] = { rf_import_float_of(c, 1), rf_import_float_of(c, 2) };
    for (int k = 0; k < 2; k++) {
        const int64_t have = rf_tensor_shape(c->t, v[k]).dim[0];
        if (rf_trace_status(c->t) < 0) return;
        if (have == channels) continue;
        const int64_t each = channels / (have > 0 ? have : 1);
        v[k] = rf_tile(c->t, rf_expand_dims(c->t, v[k], 1), (int64_t[]){ 1, each }, 2);
        v[k] = rf_reshape(c->t, v[k], RF_SHAPE(-1));
    }
    const rf_tensor y = rf_group_norm(c->t, x, none, none, (int32_t)groups, axis, epsilon_of(c));
    const rf_tensor scaled = rf_multiply(c->t, y, rf_append_axes(c->t, v[0], rank - 1 - axis));
    c->out[0] = rf_add(c->t, scaled, rf_append_axes(c->t, v[1], rank - 1 - axis));
}

/* Local response: by the squares of the channels around. */
static void lrn_trace(rf_import_call *c)
{
    const rf_tensor x = X;
    const rf_shape shape = rf_tensor_shape(c->t, x);
    const int32_t axis = channels_of(c, x);
    const int64_t size = rf_import_int(c, "size", 1);
    int64_t before[RF_MAX_RANK] = { 0 }, after[RF_MAX_RANK] = { 0 }, begin[RF_MAX_RANK] = { 0 }, end[RF_MAX_RANK];
    if (axis < 0 || size < 1 || size > 1024) {
        if (axis >= 0) rf_import_call_fail(c, "has a size that is none");
        return;
    }
    before[axis] = (size - 1) / 2;
    after[axis] = size - 1 - before[axis];
    const rf_tensor squares = rf_pad(c->t, rf_square(c->t, x), before, after, (uint32_t)shape.rank, 0);
    rf_tensor sum = { 0 };
    for (int32_t d = 0; d < RF_MAX_RANK; d++) end[d] = INT64_MAX;
    for (int64_t i = 0; i < size; i++) {
        begin[axis] = i;
        end[axis] = i + shape.dim[axis];
        const rf_tensor part = rf_slice(c->t, squares, begin, end, NULL, (uint32_t)axis + 1);
        sum = sum.id ? rf_add(c->t, sum, part) : part;
    }
    const double alpha = rf_import_real(c, "alpha", 1e-4) / (double)size;
    const rf_tensor base = rf_add(c->t, rf_multiply(c->t, sum, NUM(alpha)), NUM(rf_import_real(c, "bias", 1)));
    c->out[0] = rf_divide(c->t, x, rf_pow(c->t, base, NUM(rf_import_real(c, "beta", 0.75))));
}

#define I(name, fn, in_least, in_most)                                                                                 \
    {                                                                                                                  \
        name, fn, RF_IMPORT_IMAGES, in_least, in_most, 1, RF_IMPORT_RANK_SAME, 0                                       \
    }
static const rf_import_op ops[] = {
    I("Conv", conv_trace, 2, 3),
    I("ConvTranspose", conv_transpose_trace, 2, 3),
    I("MaxPool", pool_trace, 1, 1),
    I("AveragePool", pool_trace, 1, 1),
    I("GlobalAveragePool", global_pool_trace, 1, 1),
    I("GlobalMaxPool", global_pool_trace, 1, 1),
    I("Resize", resize_trace, 2, 4),
    I("Upsample", resize_trace, 2, 2),
    I("DepthToSpace", blocks_trace, 1, 1),
    I("SpaceToDepth", blocks_trace, 1, 1),
    I("BatchNormalization", batch_norm_trace, 5, 5),
    I("InstanceNormalization", instance_norm_trace, 3, 3),
    I("GroupNormalization", group_norm_trace, 3, 3),
    I("LRN", lrn_trace, 1, 1),
};
const rf_import_op_list rf_import_image_ops = { ops, sizeof(ops) / sizeof(ops[0]) };
