/* SPDX-License-Identifier: Apache-2.0 */
/* Images are turned, enlarged and moved about their centre, as torchvision's RandomAffine does it. */
#include <math.h>
#include <string.h>

#include "base/params.h"
#include "data/transforms/vary.h"

enum { DRAW_ANGLE = RF_DRAW_AFFINE, DRAW_ZOOM, DRAW_DOWN, DRAW_RIGHT };

#define PI 3.14159265358979323846

/* Where a pixel of the result comes from: row and column of the image by those of the result. */
typedef struct affine_map {
    double row_by_row, row_by_column, row;
    double column_by_row, column_by_column, column;
} affine_map;

/* The inverse of a turn against the clock, an enlargement and a move, about the centre of the pixels. */
static affine_map invert_affine(double degrees, double zoom, double down, double right, int64_t height, int64_t width)
{
    const double c = cos(degrees * PI / 180) / zoom, s = sin(degrees * PI / 180) / zoom;
    const double middle_row = (double)(height - 1) / 2, middle_column = (double)(width - 1) / 2;
    const double row = -middle_row - down, column = -middle_column - right;
    return (affine_map){ .row_by_row = c,
                         .row_by_column = s,
                         .row = middle_row + c * row + s * column,
                         .column_by_row = -s,
                         .column_by_column = c,
                         .column = middle_column - s * row + c * column };
}

/* The place in 0 .. size - 1 that stands for another outside of the image; -1: the fill value does. */
static int64_t place_inside(int64_t at, int64_t size, rf_fill_mode mode)
{
    if (at >= 0 && at < size) return at;
    const int64_t period = mode == RF_FILL_REFLECT ? 2 * size : size;
    const int64_t within = (at % period + period) % period;
    switch (mode) {
    case RF_FILL_NEAREST: return at < 0 ? 0 : size - 1;
    case RF_FILL_REFLECT: return within < size ? within : period - 1 - within;
    case RF_FILL_WRAP: return within;
    default: return -1;
    }
}

/* The first channel of a pixel; -1: it is outside. */
static int64_t find_pixel(const rf_array *image, int64_t row, int64_t column, rf_fill_mode mode)
{
    const int64_t y = place_inside(row, image->shape.dim[0], mode);
    const int64_t x = place_inside(column, image->shape.dim[1], mode);
    return y < 0 || x < 0 ? -1 : (y * image->shape.dim[1] + x) * image->shape.dim[2];
}

static int64_t floor_of(double x)
{
    const int64_t towards_0 = (int64_t)x;
    return x < (double)towards_0 ? towards_0 - 1 : towards_0;
}

/* The four pixels around a place, row by row: quickly where all are inside. */
static void find_corners(const rf_array *in, int64_t row, int64_t column, rf_fill_mode mode, int64_t from[4])
{
    const int64_t width = in->shape.dim[1], channels = in->shape.dim[2];
    if (row >= 0 && column >= 0 && row + 1 < in->shape.dim[0] && column + 1 < width) {
        from[0] = (row * width + column) * channels;
        from[1] = from[0] + channels;
        from[2] = from[0] + width * channels;
        from[3] = from[2] + channels;
    } else {
        for (int i = 0; i < 4; i++) from[i] = find_pixel(in, row + i / 2, column + i % 2, mode);
    }
}

/* Bilinear between the four pixels around a place. */
static void sample_pixel(const rf_affine_params *p, const rf_array *in, double row, double column, rf_array *out,
                         int64_t to)
{
    const int64_t upper = floor_of(row), left = floor_of(column);
    const float down = (float)(row - (double)upper), right = (float)(column - (double)left);
    const float parts[] = { (1 - down) * (1 - right), (1 - down) * right, down * (1 - right), down * right };
    int64_t from[4];
    find_corners(in, upper, left, p->fill_mode, from);
    for (int64_t c = 0; c < in->shape.dim[2]; c++) {
        float sum = 0;
        for (int i = 0; i < 4; i++) sum += parts[i] * (from[i] < 0 ? p->fill_value : rf_pixel_get(in, from[i] + c));
        rf_pixel_put(out, to + c, sum);
    }
}

static void copy_pixel(const rf_affine_params *p, const rf_array *in, double row, double column, rf_array *out,
                       int64_t to)
{
    const int64_t from = find_pixel(in, floor_of(row + 0.5), floor_of(column + 0.5), p->fill_mode);
    for (int64_t c = 0; c < in->shape.dim[2]; c++)
        rf_pixel_put(out, to + c, from < 0 ? p->fill_value : rf_pixel_get(in, from + c));
}

static void vary_place(const rf_vary_step *step, rf_random_key key, const rf_array *in, rf_array *out)
{
    const rf_affine_params *p = &step->u.affine;
    const int64_t height = in->shape.dim[0], width = in->shape.dim[1], channels = in->shape.dim[2];
    const bool zooms = p->zoom[1] > 0;
    const double down = rf_vary_between(key, DRAW_DOWN, -1, 1) * (double)p->translate[0] * (double)height;
    const double right = rf_vary_between(key, DRAW_RIGHT, -1, 1) * (double)p->translate[1] * (double)width;
    const affine_map map =
        invert_affine(rf_vary_between(key, DRAW_ANGLE, -1, 1) * (double)p->degrees,
                      zooms ? rf_vary_between(key, DRAW_ZOOM, (double)p->zoom[0], (double)p->zoom[1]) : 1, down, right,
                      height, width);
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++) {
            const double row = map.row + map.row_by_row * (double)y + map.row_by_column * (double)x;
            const double column = map.column + map.column_by_row * (double)y + map.column_by_column * (double)x;
            (p->nearest ? copy_pixel : sample_pixel)(p, in, row, column, out, (y * width + x) * channels);
        }
}

static rf_result check_affine(const rf_dataset *in, uint32_t index, const rf_affine_params *p)
{
    static const char function[] = "rf_dataset_map_affine";
    RF_TRY(rf_vary_check(function, in, index));
    RF_REQUIRE(p->degrees >= 0 && p->degrees <= 360, "%s: degrees is %g; give 0 to 360", function, (double)p->degrees);
    for (int i = 0; i < 2; i++) {
        RF_REQUIRE(p->translate[i] >= 0 && p->translate[i] <= 1,
                   "%s: translate[%d] is %g; give a part of the %s, 0 to 1", function, i, (double)p->translate[i],
                   i ? "width" : "height");
        RF_REFUSE_ZERO(p->zoom[i], "rf_dataset_map_affine: zoom", "an image cannot have the size 0; {0, 0} is {1, 1}");
    }
    RF_REQUIRE((p->zoom[0] == 0 && p->zoom[1] == 0) ||
                   (p->zoom[0] >= 0.01f && p->zoom[0] <= p->zoom[1] && p->zoom[1] <= 100),
               "%s: zoom is %g to %g; give the least and the greatest enlargement, 0.01 to 100", function,
               (double)p->zoom[0], (double)p->zoom[1]);
    RF_REQUIRE(p->fill_mode >= RF_FILL_CONSTANT && p->fill_mode <= RF_FILL_WRAP, "%s: fill_mode %d does not exist",
               function, (int)p->fill_mode);
    RF_REQUIRE(isfinite(p->fill_value), "%s: fill_value is %g", function, (double)p->fill_value);
    return RF_OK;
}

rf_result rf_dataset_map_affine(const rf_dataset *in, uint32_t index, uint64_t seed, const rf_affine_params *params,
                                rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_map_affine: out is NULL");
    *out = NULL;
    RF_REQUIRE(in && params, "rf_dataset_map_affine: an argument is NULL");
    RF_TRY(RF_PARAMS_CHECK(rf_affine_params, params));
    RF_TRY(check_affine(in, index, params));
    const rf_vary_step step = { .component = index, .vary = vary_place, .u.affine = *params };
    return rf_dataset_vary(in, &step, in->spec.dtype[index], seed, out);
}
