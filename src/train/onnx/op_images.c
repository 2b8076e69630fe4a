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

/* Which of `names` an attribute has. */
static int choice_of(rf_import_call *c, const char *attribute, const char *fallback, const char *const *names,
                     int count)
{
    const char *text = rf_import_text(c, attribute, fallback);
    for (int i = 0; i < count; i++)
        if (strcmp(text, names[i]) == 0) return i;
    (void)rf_trace_fail(c->t, RF_ERROR_UNSUPPORTED, "%s has '%.40s' as %s, which is not there", c->op, text, attribute);
    return 0;
}

/* Numbers of an operand; before opset 9, of an attribute. */
static bool find_scales(rf_import_call *c, uint32_t operand, double listed[RF_MAX_RANK], const double **numbers,
                        int64_t *count)
{
    if (c->opset >= 9) return rf_import_numbers(c, operand, numbers, count);
    const json_t *list = json_object_get(c->attributes, "scales");
    *count = (int64_t)(json_array_size(list) < RF_MAX_RANK ? json_array_size(list) : RF_MAX_RANK);
    for (int64_t i = 0; i < *count; i++) listed[i] = json_number_value(json_array_get(list, (size_t)i));
    *numbers = listed;
    return true;
}

/* Scales or sizes by the axes of the file, put where axes are now; 0: the scale is that of the sizes. */
static bool find_sizes(rf_import_call *c, rf_tensor x, int64_t out[RF_MAX_RANK], double scale[RF_MAX_RANK])
{
    const double *numbers;
    double listed[RF_MAX_RANK];
    int64_t count = 0, axes[RF_MAX_RANK];
    const rf_shape shape = rf_tensor_shape(c->t, x);
    const uint32_t at = c->opset < 11 ? 1 : 2;
    const bool by_size = c->opset >= 11 && rf_import_has(c, 3) && rf_shape_count(c->in[3].shape) > 0;
    if (!find_scales(c, by_size ? 3 : at, listed, &numbers, &count)) return false;
    const uint32_t num_axes = rf_import_ints(c, "axes", axes, RF_MAX_RANK);
    if (count != (num_axes ? (int64_t)num_axes : shape.rank)) {
        rf_import_call_fail(c, "has other sizes than its operand has dimensions");
        return false;
    }
    for (int32_t d = 0; d < shape.rank; d++) {
        out[d] = shape.dim[d];
        scale[d] = 0;
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
        scale[axis] = by_size ? 0 : numbers[i];
    }
    return true;
}

/* One axis of any tensor, as the height of images with a row for each element in front. */
static rf_tensor resize_axis(rf_import_call *c, rf_tensor x, rf_resize2d_params p, int32_t axis, int64_t size,
                             double scale)
{
    const int32_t behind = rf_tensor_shape(c->t, x).rank - 1 - axis;
    const rf_size one = rf_size_fixed(1);
    rf_size back[RF_MAX_RANK];
    if (p.coordinates == RF_RESIZE_TF_HALF_PIXEL) rf_import_call_fail(c, "has coordinates that images alone have");
    const rf_size four[] = { axis ? rf_size_of(x, 0, axis) : one, rf_size_of(x, axis, 1),
                             behind ? rf_size_of(x, axis + 1, behind) : one, one };
    const rf_tensor image = rf_regroup(c->t, x, four, 4);
    p.size[0] = (int32_t)size;
    p.size[1] = (int32_t)rf_tensor_shape(c->t, image).dim[2];
    p.scale[0] = (float)scale;
    p.scale[1] = 0;
    const uint32_t rank = rf_sizes_of(c->t, x, 0, back);
    back[axis] = rf_size_fixed(size);
    return rf_regroup(c->t, rf_resize2d(c->t, image, &p), back, rank);
}

static void resize_trace(rf_import_call *c)
{
    static const char *const modes[] = { "nearest", "linear", "cubic", "bilinear" }, /* in the order of values */
        *const coordinates[] = { "half_pixel",         "align_corners",        "asymmetric",
                                 "pytorch_half_pixel", "tf_half_pixel_for_nn", "half_pixel_symmetric" },
                             *const rounding[] = { "round_prefer_floor", "round_prefer_ceil", "floor", "ceil" };
    rf_tensor x = X;
    const rf_shape shape = rf_tensor_shape(c->t, x);
    const bool old = c->opset < 11;
    const int mode = choice_of(c, "mode", "nearest", modes, 4),
              place = choice_of(c, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel", coordinates, 6);
    const double cubic = rf_import_real(c, "cubic_coeff_a", -0.75);
    rf_resize2d_params p = {
        .method = mode == 3 ? RF_RESIZE_BILINEAR : (rf_resize_method)mode,
        .coordinates = place == 5 ? RF_RESIZE_HALF_PIXEL : (rf_resize_coordinates)place,
        .rounding = (rf_resize_rounding)choice_of(c, "nearest_mode", old ? "floor" : "round_prefer_floor", rounding, 4),
        .cubic = cubic == 0 ? RF_ZERO : (float)cubic,
        .skip_outside = rf_import_int(c, "exclude_outside", 0) != 0,
    };
    int64_t out[RF_MAX_RANK];
    double scale[RF_MAX_RANK];
    if (rf_import_int(c, "antialias", 0)) rf_import_call_fail(c, "has antialias");
    if (strcmp(rf_import_text(c, "keep_aspect_ratio_policy", "stretch"), "stretch") != 0)
        rf_import_call_fail(c, "keeps the ratio of sizes");
    if (rf_trace_status(c->t) < 0 || !find_sizes(c, x, out, scale)) return;
    for (int32_t d = 0; d < shape.rank; d++) {
        const bool whole = scale[d] == 0 || scale[d] * (double)shape.dim[d] == (double)out[d];
        if (place == 5 && !whole) rf_import_call_fail(c, "is symmetric about a length that is no whole number");
        if (out[d] == shape.dim[d] && whole) continue;
        if (!c->last || d == 0 || d == 3) x = resize_axis(c, x, p, d, out[d], scale[d]);
    }
    for (int k = 0; k < 2 && c->last; k++) {
        p.size[k] = (int32_t)out[1 + k];
        p.scale[k] = (float)scale[1 + k];
    }
    c->out[0] = c->last ? rf_resize2d(c->t, x, &p) : x;
}

/* ---- channels and places ---- */

static void blocks_trace(rf_import_call *c)
{
    const int64_t size = rf_import_int(c, "blocksize", 0);
    const int32_t block = size > 0 && size <= INT32_MAX ? (int32_t)size : 0;
    const bool crd = strcmp(rf_import_text(c, "mode", "DCR"), "CRD") == 0;
    c->out[0] = strcmp(c->op, "SpaceToDepth") == 0
                    ? rf_space_to_depth(c->t, X, block, RF_CHANNELS_INNER)
                    : rf_depth_to_space(c->t, X, block, crd ? RF_CHANNELS_OUTER : RF_CHANNELS_INNER);
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
    I("Upsample", resize_trace, 1, 2),
    I("DepthToSpace", blocks_trace, 1, 1),
    I("SpaceToDepth", blocks_trace, 1, 1),
    I("BatchNormalization", batch_norm_trace, 5, 5),
    I("InstanceNormalization", instance_norm_trace, 3, 3),
    I("GroupNormalization", group_norm_trace, 3, 3),
    I("LRN", lrn_trace, 1, 1),
};
const rf_import_op_list rf_import_image_ops = { ops, sizeof(ops) / sizeof(ops[0]) };
