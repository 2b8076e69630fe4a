/* SPDX-License-Identifier: Apache-2.0 */
/* Small gray images side by side in a PNG file. */
#ifndef EXAMPLE_PICTURE_H
#define EXAMPLE_PICTURE_H

#include <stdint.h>

typedef struct picture {
    uint32_t columns, rows, side; /* of the grid; of the square images in it */
    unsigned char *pixels;        /* white where no image was put */
} picture;

/* -1 without memory. */
int picture_create(uint32_t columns, uint32_t rows, uint32_t side, picture *out);
void picture_destroy(picture *p);
/* Puts an image of side x side pixels from 0 (black) to 1 into a cell. */
void picture_put(picture *p, uint32_t column, uint32_t row, const float *image);
/* Whether there is a place for such a file: asked before the hours that come before it. Says what is wrong and returns
 * -1. */
int picture_check_path(const char *path);
/* The file is complete or as it was before. Says what is wrong and returns -1. */
int picture_write(const picture *p, const char *path);

#endif
