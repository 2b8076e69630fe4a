/* SPDX-License-Identifier: Apache-2.0 */
/* Compares a picture with one that was kept, and keeps it.
 *
 * Usage: png_compare SHOT KEPT           exit code 0: they look the same
 *        png_compare SHOT KEPT --renew   keeps it
 *
 * Kept pictures have a quarter of the width and height: the mean of 4 x 4 pixels hides how letters and edges were
 * smoothed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

enum { SIDE = 4, NEAR = 24 };     /* differences of a mean that nobody sees */
static const double most = 0.004; /* part of the means that may differ by more */

typedef struct picture {
    unsigned width, height;
    unsigned char *rgb;
} picture;

static picture fail_with(const char *path, const char *why)
{
    fprintf(stderr, "%s: %s\n", path, why);
    exit(2);
}

static picture picture_read(const char *path)
{
    png_image image = { .version = PNG_IMAGE_VERSION };
    if (!png_image_begin_read_from_file(&image, path)) return fail_with(path, image.message);
    image.format = PNG_FORMAT_RGB;
    picture p = { image.width, image.height, malloc(PNG_IMAGE_SIZE(image)) };
    if (!p.rgb || !png_image_finish_read(&image, NULL, p.rgb, 0, NULL)) return fail_with(path, image.message);
    return p;
}

static picture picture_reduce(const picture *p)
{
    picture small = { p->width / SIDE, p->height / SIDE, NULL };
    small.rgb = calloc((size_t)small.width * small.height, 3);
    if (!small.rgb) return fail_with("picture", "out of memory");
    for (unsigned y = 0; y < small.height; y++)
        for (unsigned x = 0; x < 3 * small.width; x++) {
            unsigned sum = 0;
            for (unsigned k = 0; k < SIDE * SIDE; k++)
                sum += p->rgb[3 * ((size_t)(SIDE * y + k / SIDE) * p->width + SIDE * (x / 3) + k % SIDE) + x % 3];
            small.rgb[3 * (size_t)y * small.width + x] = (unsigned char)(sum / (SIDE * SIDE));
        }
    return small;
}

static int picture_compare(const picture *a, const picture *b)
{
    if (a->width != b->width || a->height != b->height) {
        printf("%u x %u, not %u x %u\n", a->width, a->height, b->width, b->height);
        return 1;
    }
    const size_t count = 3 * (size_t)a->width * a->height;
    size_t far = 0;
    for (size_t i = 0; i < count; i++) far += abs(a->rgb[i] - b->rgb[i]) > NEAR;
    printf("%.3f %% differ, at most %.3f %%\n", 100.0 * (double)far / (double)count, 100 * most);
    return (double)far > most * (double)count;
}

int main(int argc, char **argv)
{
    if (argc < 3) return 2;
    picture shot = picture_read(argv[1]), small = picture_reduce(&shot), kept = { 0 };
    int code = 0;
    if (argc > 3 && strcmp(argv[3], "--renew") == 0) {
        png_image image = {
            .version = PNG_IMAGE_VERSION, .width = small.width, .height = small.height, .format = PNG_FORMAT_RGB
        };
        if (!png_image_write_to_file(&image, argv[2], 0, small.rgb, 0, NULL)) fail_with(argv[2], image.message);
    } else {
        kept = picture_read(argv[2]);
        code = picture_compare(&small, &kept);
    }
    free(shot.rgb);
    free(small.rgb);
    free(kept.rgb);
    return code;
}
