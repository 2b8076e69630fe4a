/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "data/image/image.h"
#include "persist/events/internal.h"

#define MAX_SIDE 32768

typedef struct images {
    uint32_t count, width, height, channels;
    size_t size; /* bytes of one */
} images;

static rf_result images_check(const rf_array *array, images *out)
{
    char text[96];
    const rf_shape s = array->shape;
    const int first = s.rank - 3;
    RF_REQUIRE(array->dtype == RF_U8 || array->dtype == RF_F32, "rf_event_writer_image: images are %s, not u8 or f32",
               rf_dtype_name(array->dtype));
    RF_REQUIRE(s.rank == 3 || s.rank == 4, "rf_event_writer_image: images of shape %s, not [h, w, c] or [n, h, w, c]",
               rf_shape_format(s, text, sizeof(text)));
    RF_REQUIRE(s.dim[first] > 0 && s.dim[first] <= MAX_SIDE && s.dim[first + 1] > 0 && s.dim[first + 1] <= MAX_SIDE &&
                   s.dim[first + 2] >= 1 && s.dim[first + 2] <= 4,
               "rf_event_writer_image: images of shape %s; sides up to %d and 1 to 4 channels",
               rf_shape_format(s, text, sizeof(text)), MAX_SIDE);
    RF_REQUIRE(s.rank == 3 || (s.dim[0] >= 0 && s.dim[0] <= 1000), "rf_event_writer_image: %lld images; at most 1000",
               (long long)s.dim[0]);
    out->count = s.rank == 4 ? (uint32_t)s.dim[0] : 1;
    out->height = (uint32_t)s.dim[first];
    out->width = (uint32_t)s.dim[first + 1];
    out->channels = (uint32_t)s.dim[first + 2];
    out->size = (size_t)out->width * out->height * out->channels * rf_dtype_size(array->dtype);
    RF_REQUIRE(out->count == 0 || array->data, "rf_event_writer_image: data is NULL");
    return RF_OK;
}

/* Width and height as text, then the files: what the plugin "images" takes. */
static rf_result images_append(rf_event_writer *w, const char *tag, int64_t step, const images *all,
                               ProtobufCBinaryData *strings)
{
    char width[16], height[16];
    strings[0] = (ProtobufCBinaryData){ (size_t)snprintf(width, sizeof(width), "%u", all->width), (uint8_t *)width };
    strings[1] =
        (ProtobufCBinaryData){ (size_t)snprintf(height, sizeof(height), "%u", all->height), (uint8_t *)height };
    RfPb__TensorShape__Dim count = RF_PB__TENSOR_SHAPE__DIM__INIT, *dims[] = { &count };
    RfPb__TensorShape shape = RF_PB__TENSOR_SHAPE__INIT;
    RfPb__Tensor tensor = RF_PB__TENSOR__INIT;
    count.size = 2 + (int64_t)all->count;
    shape.n_dim = 1;
    shape.dim = dims;
    tensor.dtype = RF_PB__DATA_TYPE__DT_STRING;
    tensor.tensor_shape = &shape;
    tensor.n_string_val = 2 + (size_t)all->count;
    tensor.string_val = strings;
    return rf_event_writer_value(w, "images", RF_PB__DATA_CLASS__DATA_CLASS_BLOB_SEQUENCE, tag, step, &tensor);
}

RF_API rf_result rf_event_writer_image(rf_event_writer *writer, const char *tag, int64_t step, const rf_array *array)
{
    RF_REQUIRE(writer, "rf_event_writer_image: writer is NULL");
    RF_REQUIRE(tag && tag[0], "rf_event_writer_image: tag is empty");
    RF_TRY(rf_event_check_text("rf_event_writer_image: tag", tag));
    RF_REQUIRE(array, "rf_event_writer_image: images is NULL");
    images all = { 0 };
    RF_TRY(images_check(array, &all));
    ProtobufCBinaryData *strings = RF_NEW_ARRAY(ProtobufCBinaryData, (size_t)all.count + 2);
    if (!strings) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = RF_OK;
    for (uint32_t i = 0; r >= 0 && i < all.count; i++)
        r = rf_png_encode((const char *)array->data + i * all.size, array->dtype, all.width, all.height, all.channels,
                          &strings[2 + i].data, &strings[2 + i].len);
    if (r >= 0) r = images_append(writer, tag, step, &all, strings);
    for (uint32_t i = 0; i < all.count; i++) free(strings[2 + i].data);
    rf_free(strings);
    return r;
}
