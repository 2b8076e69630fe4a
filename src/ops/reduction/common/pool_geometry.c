/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/reduction/common/pool.h"

static rf_result pool_padding(const char *op, const rf_pool2d_attr *attr, int axis, int64_t size, int64_t window,
                              int64_t stride, int64_t *out_size, int64_t *before)
{
    int64_t after = 0;
    *before = 0;
    switch (attr->padding) {
    case RF_PADDING_VALID: break;
    case RF_PADDING_SAME: {
        const int64_t total = ((size + stride - 1) / stride - 1) * stride + window - size;
        *before = total > 0 ? total / 2 : 0;
        after = total > 0 ? total - *before : 0;
        break;
    }
    case RF_PADDING_EXPLICIT:
        *before = attr->explicit_padding[2 * axis];
        after = attr->explicit_padding[2 * axis + 1];
        break;
    default: return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: unknown padding %d", op, attr->padding);
    }
    if (*before < 0 || after < 0 || *before >= window || after >= window)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "%s: padding %lld, %lld must be at least 0 and less than the window, %lld", op,
                       (long long)*before, (long long)after, (long long)window);
    const int64_t padded = size + *before + after;
    if (padded < window)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: a window of %lld is larger than the padded image's %s, %lld", op,
                       (long long)window, axis == 0 ? "height" : "width", (long long)padded);
    *out_size = (padded - window) / stride + 1;
    return RF_OK;
}

rf_result rf_pool_geometry_make(const char *op, const rf_pool2d_attr *attr, const rf_tensor_desc *x,
                                rf_pool_geometry *out)
{
    static const rf_pool2d_attr none = { 0 };
    char text[96];
    if (attr == NULL) attr = &none;
    if (x->dtype != RF_F32 || x->shape.rank != 4 || rf_desc_count(x) == 0)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: needs f32 images [n, h, w, c], got %s %s", op,
                       rf_dtype_name(x->dtype), rf_shape_format(x->shape, text, sizeof(text)));
    *out = (rf_pool_geometry){ .images = x->shape.dim[0],
                               .height = x->shape.dim[1],
                               .width = x->shape.dim[2],
                               .channels = x->shape.dim[3],
                               .relu_mask = attr->relu_mask };
    for (int i = 0; i < 2; i++) {
        if (attr->window[i] < 0 || attr->stride[i] < 0)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: window [%d,%d] and stride [%d,%d] must not be negative", op,
                           attr->window[0], attr->window[1], attr->stride[0], attr->stride[1]);
        out->window[i] = attr->window[i] != 0 ? attr->window[i] : 2;
        out->stride[i] = attr->stride[i] != 0 ? attr->stride[i] : out->window[i];
    }
    rf_result r =
        pool_padding(op, attr, 0, out->height, out->window[0], out->stride[0], &out->out_height, &out->pad_top);
    if (r == RF_OK)
        r = pool_padding(op, attr, 1, out->width, out->window[1], out->stride[1], &out->out_width, &out->pad_left);
    return rf_error_context(r, "images %s", rf_shape_format(x->shape, text, sizeof(text)));
}
