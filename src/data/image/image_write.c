/* SPDX-License-Identifier: Apache-2.0 */
/* Images written to files, in the format that the name ends with. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/params.h"
#include "base/platform.h"
#include "data/image/image.h"

enum { DEFAULT_QUALITY = 95, MOST_PIXELS_OF_JPEG = 65500 };

static bool name_ends(const char *path, const char *ending)
{
    const size_t length = strlen(path), size = strlen(ending);
    return length > size && strcasecmp(path + length - size, ending) == 0;
}

static rf_result check_image(const char *path, const rf_array *image, bool jpeg)
{
    char text[96];
    const rf_shape s = image->shape;
    const int64_t channels = s.rank == 3 ? s.dim[2] : 1;
    RF_REQUIRE(image->dtype == RF_U8 || image->dtype == RF_F32, "rf_image_write: %s: the image is %s, not u8 or f32",
               path, rf_dtype_name(image->dtype));
    RF_REQUIRE((s.rank == 2 || s.rank == 3) && channels >= 1 && channels <= 4,
               "rf_image_write: %s: the image has the shape %s; give [height, width, channels] with 1 to 4 channels",
               path, rf_shape_format(s, text, sizeof(text)));
    RF_REQUIRE(!jpeg || channels == 1 || channels == 3,
               "rf_image_write: %s: JPEG has no alpha, and the image has %lld channels; drop it, or write a PNG file",
               path, (long long)channels);
    const int64_t most = jpeg ? MOST_PIXELS_OF_JPEG : RF_IMAGE_MAX_PIXELS;
    RF_REQUIRE(image->data && s.dim[0] >= 1 && s.dim[1] >= 1 && s.dim[0] <= most && s.dim[1] <= most &&
                   s.dim[0] <= RF_IMAGE_MAX_PIXELS / s.dim[1],
               "rf_image_write: %s: an image %s cannot be written: it has to have pixels, at most %lld in a row or "
               "column and %d together",
               path, rf_shape_format(s, text, sizeof(text)), (long long)most, RF_IMAGE_MAX_PIXELS);
    const float *values = image->dtype == RF_F32 ? image->data : NULL;
    for (int64_t i = 0; values && i < rf_shape_count(s); i++)
        RF_REQUIRE(!isnan(values[i]), "rf_image_write: %s: value %lld of the image is no number", path, (long long)i);
    return RF_OK;
}

rf_result rf_image_write(const char *path, const rf_array *image, const rf_image_write_params *params)
{
    RF_REQUIRE(path && image, "rf_image_write: %s is NULL", path ? "image" : "path");
    RF_TRY(RF_PARAMS_CHECK(rf_image_write_params, params));
    const int32_t quality = params && params->quality != 0 ? params->quality : DEFAULT_QUALITY;
    const bool jpeg = name_ends(path, ".jpg") || name_ends(path, ".jpeg");
    RF_REQUIRE(jpeg || name_ends(path, ".png"), "rf_image_write: '%s' ends with neither .png nor .jpg nor .jpeg", path);
    RF_REQUIRE(quality >= 1 && quality <= 100, "rf_image_write: quality is %d; give 1 to 100", (int)quality);
    RF_TRY(check_image(path, image, jpeg));
    const uint32_t height = (uint32_t)image->shape.dim[0], width = (uint32_t)image->shape.dim[1];
    const uint32_t channels = image->shape.rank == 3 ? (uint32_t)image->shape.dim[2] : 1;
    unsigned char *file = NULL;
    size_t size = 0;
    RF_TRY(rf_error_context(
        jpeg ? rf_jpeg_encode(image->data, image->dtype, width, height, channels, quality, &file, &size)
             : rf_png_encode(image->data, image->dtype, width, height, channels, &file, &size),
        "%s", path));
    const rf_result r = rf_file_write_atomic(path, file, size);
    free(file);
    return r;
}
