/* SPDX-License-Identifier: Apache-2.0 */
/* Images in memory: decoded from PNG and JPEG, with other channels, of other sizes. */
#ifndef RF_DATA_IMAGE_H
#define RF_DATA_IMAGE_H

#include <ringfire/readers.h>

/* The pixels have 512 MiB at most, as RGB and alpha of 16 bits. */
enum { RF_IMAGE_MAX_PIXELS = 1 << 26, RF_IMAGE_MAX_BYTES = 1 << 30 };

/* The bytes of a file as rf_image_read(), for at most `max_pixels`; `path` is for messages. */
rf_result rf_image_decode(const char *path, const void *bytes, size_t size, uint32_t channels, int64_t max_pixels,
                          rf_array *out);
/* u8 [height, width, channels], the channels as they are in the file (after palettes). *out begins empty and is freed
 * with rf_array_free(), also when this fails. */
rf_result rf_png_decode(const char *path, const void *bytes, size_t size, int64_t max_pixels, rf_array *out);
rf_result rf_jpeg_decode(const char *path, const void *bytes, size_t size, int64_t max_pixels, rf_array *out);
/* A file of one image [height, width, channels], u8 or f32. *out is freed with free(). */
rf_result rf_png_encode(const void *pixels, rf_dtype dtype, uint32_t width, uint32_t height, uint32_t channels,
                        unsigned char **out, size_t *size);
rf_result rf_jpeg_encode(const void *pixels, rf_dtype dtype, uint32_t width, uint32_t height, uint32_t channels,
                         int quality, unsigned char **out, size_t *size);
/* Values `first` to `first` + count - 1 as bytes: f32 from 0 to 1 becomes 0 to 255, beyond them too; NaN becomes 0. */
void rf_image_to_bytes(const void *pixels, rf_dtype dtype, size_t first, size_t count, uint8_t *out);
/* Allocates out for these sizes. */
rf_result rf_image_allocate(const char *path, uint64_t height, uint64_t width, uint32_t channels, int64_t max_pixels,
                            rf_array *out);
/* Whether a component can hold an image that is decoded. For messages, `what` says what `name` is of. */
rf_result rf_image_check_component(const char *what, const char *name, rf_dtype dtype, rf_shape shape, bool variable);
/* Decodes to the size and channels of a component. */
rf_result rf_image_decode_to(const void *bytes, size_t size, rf_array *out);
/* To `channels` channels (0: as it is) in a new `data`. */
rf_result rf_image_convert(const char *path, uint32_t channels, rf_array *image);
/* Bilinear, without antialiasing, rounded: `in` u8 [h, w, c] to `out` [height, width, c]. */
rf_result rf_image_resize(const rf_array *in, uint32_t height, uint32_t width, uint8_t *out);

#endif
