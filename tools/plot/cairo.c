/* SPDX-License-Identifier: Apache-2.0 */
/* Pages as PNG, through cairo. */
#include "plot/plot.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#if HAVE_CAIRO
#include <cairo.h>

#include "atomic_file.h"

#define SCALE 2.0 /* sharp on screens with many pixels */

static void set_color(cairo_t *cr, uint32_t rgb)
{
    cairo_set_source_rgb(cr, (rgb >> 16 & 255) / 255.0, (rgb >> 8 & 255) / 255.0, (rgb & 255) / 255.0);
}

static void draw_box(plot_canvas *c, double x, double y, double width, double height, uint32_t rgb)
{
    cairo_t *cr = c->state;
    set_color(cr, rgb);
    cairo_rectangle(cr, x, y, width, height);
    cairo_fill(cr);
}

static void draw_path(plot_canvas *c, const double *xy, size_t count, uint32_t rgb, double width, bool dashed)
{
    static const double dashes[] = { 6, 4 };
    cairo_t *cr = c->state;
    set_color(cr, rgb);
    cairo_set_line_width(cr, width);
    cairo_set_line_join(cr, CAIRO_LINE_JOIN_ROUND);
    cairo_set_dash(cr, dashes, dashed ? 2 : 0, 0);
    cairo_new_path(cr);
    for (size_t i = 0; i < count; i++) cairo_line_to(cr, xy[2 * i], xy[2 * i + 1]);
    cairo_stroke(cr);
}

static void draw_dot(plot_canvas *c, double x, double y, double radius, uint32_t rgb)
{
    cairo_t *cr = c->state;
    set_color(cr, rgb);
    cairo_new_path(cr);
    cairo_arc(cr, x, y, radius, 0, 2 * M_PI);
    cairo_fill(cr);
}

static void draw_text(plot_canvas *c, double x, double y, int anchor, double size, bool bold, uint32_t rgb,
                      const char *text)
{
    cairo_t *cr = c->state;
    cairo_text_extents_t extents;
    cairo_select_font_face(cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cr, size);
    cairo_text_extents(cr, text, &extents);
    set_color(cr, rgb);
    cairo_move_to(cr, x - (anchor + 1) / 2.0 * extents.x_advance, y);
    cairo_show_text(cr, text);
}

static cairo_status_t put_bytes(void *closure, const unsigned char *data, unsigned int length)
{
    return fwrite(data, 1, length, closure) == length ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_WRITE_ERROR;
}

static bool write_png(const char *path, cairo_surface_t *surface)
{
    atomic_file out;
    if (!atomic_file_begin(&out, path)) return false;
    if (cairo_surface_write_to_png_stream(surface, put_bytes, out.stream) == CAIRO_STATUS_SUCCESS)
        return atomic_file_commit(&out);
    const int code = errno;
    atomic_file_abandon(&out);
    errno = code;
    return false;
}

bool plot_write_png(const char *path, const plot_chart *charts, size_t count)
{
    double width, height;
    plot_size(charts, count, &width, &height);
    cairo_surface_t *surface =
        cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)ceil(width * SCALE), (int)ceil(height * SCALE));
    cairo_t *cr = cairo_create(surface);
    plot_canvas canvas = { cr, draw_box, draw_path, draw_dot, draw_text };
    cairo_scale(cr, SCALE, SCALE);
    plot_draw(&canvas, charts, count);
    const cairo_status_t status = cairo_status(cr);
    cairo_destroy(cr);
    const bool ok = status == CAIRO_STATUS_SUCCESS && write_png(path, surface);
    if (!ok)
        fprintf(stderr, "ringfire: plot: cannot write '%s': %s\n", path,
                status == CAIRO_STATUS_SUCCESS ? strerror(errno) : cairo_status_to_string(status));
    cairo_surface_destroy(surface);
    return ok;
}

#else

bool plot_write_png(const char *path, const plot_chart *charts, size_t count)
{
    (void)charts;
    (void)count;
    fprintf(stderr, "ringfire: plot: '%s': this build has no PNG (cairo was missing); use .svg\n", path);
    return false;
}

#endif
