/* SPDX-License-Identifier: Apache-2.0 */
#include "picture.h"

#include <errno.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../tools/atomic_file.h"
#include "common.h"

enum { GAP = 2 }; /* pixels around each image */

static uint32_t length_of(uint32_t cells, uint32_t side)
{
    return cells * (side + GAP) + GAP;
}

static int report(const char *path, const char *text)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, path, text);
    return -1;
}

int picture_create(uint32_t columns, uint32_t rows, uint32_t side, picture *out)
{
    const size_t size = (size_t)length_of(columns, side) * length_of(rows, side);
    *out = (picture){ columns, rows, side, malloc(size) };
    if (!out->pixels) return report("picture", strerror(ENOMEM));
    memset(out->pixels, 255, size);
    return 0;
}

void picture_destroy(picture *p)
{
    free(p->pixels);
    *p = (picture){ 0 };
}

void picture_put(picture *p, uint32_t column, uint32_t row, const float *image)
{
    const size_t width = length_of(p->columns, p->side);
    unsigned char *to = p->pixels + (GAP + row * (p->side + GAP)) * width + GAP + column * (p->side + GAP);
    for (uint32_t y = 0; y < p->side; y++, to += width)
        for (uint32_t x = 0; x < p->side; x++) {
            const float value = *image++;
            to[x] = (unsigned char)((value > 0 ? (value < 1 ? value : 1) : 0) * 255 + 0.5f); /* NaN: black */
        }
}

int picture_check_path(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    if (!folder) return report(path, strerror(ENOMEM));
    const int code = access(folder, W_OK | X_OK) == 0 ? 0 : errno;
    free(folder);
    return code ? report(path, strerror(code)) : 0;
}

int picture_write(const picture *p, const char *path)
{
    png_image image = { .version = PNG_IMAGE_VERSION,
                        .width = length_of(p->columns, p->side),
                        .height = length_of(p->rows, p->side),
                        .format = PNG_FORMAT_GRAY };
    atomic_file file;
    if (!atomic_file_begin(&file, path)) return report(path, strerror(errno));
    if (!png_image_write_to_stdio(&image, file.stream, 0, p->pixels, 0, NULL)) {
        atomic_file_abandon(&file);
        return report(path, image.message);
    }
    return atomic_file_commit(&file) ? 0 : report(path, strerror(errno));
}
