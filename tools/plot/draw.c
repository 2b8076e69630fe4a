/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of a page, and pages as SVG. */
#include "plot/plot.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "atomic_file.h"

enum {
    CHART_WIDTH = 520,
    CHART_HEIGHT = 340,
    LEFT = 64,
    RIGHT = 20,
    TOP = 44,
    BOTTOM = 52,
    LEGEND_LINE = 22,
    MARGIN = 8
};
#define LETTER 6.4 /* mean width of a letter of size 12 */

/* ---- legend: each run once ---- */

typedef struct legend_entry {
    const plot_curve *curve;
    double x, y; /* within the legend */
} legend_entry;

static const char *run_name(const plot_curve *curve)
{
    return curve->series->run[0] ? curve->series->run : "run";
}

/* Fills entries (room for all curves of all charts; NULL: only counts). Returns the height. */
static double arrange_legend(const plot_chart *charts, size_t count, double width, legend_entry *entries, size_t *num)
{
    double x = 0, y = 0;
    *num = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < charts[i].count; k++) {
            const plot_curve *curve = &charts[i].curves[k];
            bool seen = false;
            for (size_t e = 0; e < *num && !seen; e++)
                seen = strcmp(entries[e].curve->series->run, curve->series->run) == 0;
            if (seen) continue;
            const double need = 56 + LETTER * (double)strlen(run_name(curve));
            if (x > 0 && x + need > width) {
                x = 0;
                y += LEGEND_LINE;
            }
            entries[(*num)++] = (legend_entry){ curve, x, y };
            x += need;
        }
    }
    return y + LEGEND_LINE;
}

static legend_entry *make_legend(const plot_chart *charts, size_t count, double width, size_t *num, double *height)
{
    size_t most = 1;
    for (size_t i = 0; i < count; i++) most += charts[i].count;
    legend_entry *entries = calloc(most, sizeof(*entries));
    *num = 0;
    *height = 0;
    if (entries) *height = arrange_legend(charts, count, width, entries, num);
    return entries;
}

/* ---- page ---- */

static size_t num_columns(size_t count)
{
    return count > 1 ? 2 : 1;
}

static double page_width(size_t count)
{
    return (double)num_columns(count) * CHART_WIDTH + 2 * MARGIN;
}

void plot_size(const plot_chart *charts, size_t count, double *width, double *height)
{
    const size_t rows = (count + num_columns(count) - 1) / num_columns(count);
    size_t num;
    double legend;
    *width = page_width(count);
    free(make_legend(charts, count, *width - LEFT - RIGHT - 2 * MARGIN, &num, &legend));
    *height = (double)rows * CHART_HEIGHT + legend + 2 * MARGIN;
}

/* ---- a chart ---- */

typedef struct frame {
    double left, top, width, height;
    plot_axis x, y;
} frame;

static double at_x(const frame *f, double x)
{
    return f->left + (x - f->x.low) / (f->x.high - f->x.low) * f->width;
}

static double at_y(const frame *f, double y)
{
    return f->top + (f->y.high - y) / (f->y.high - f->y.low) * f->height;
}

static void draw_axes(plot_canvas *c, const frame *f, const char *x_title)
{
    char label[32];
    for (int i = 0; f->y.low + i * f->y.step <= f->y.high + f->y.step * 1e-6; i++) {
        const double value = f->y.low + i * f->y.step, y = at_y(f, value);
        const double line[] = { f->left, y, f->left + f->width, y };
        c->path(c, line, 2, PLOT_GRID, 1, false);
        plot_label(&f->y, value, label, sizeof(label));
        c->text(c, f->left - 8, y + 4, 1, 12, false, PLOT_FAINT, label);
    }
    for (int i = 0; f->x.low + i * f->x.step <= f->x.high + f->x.step * 1e-6; i++) {
        const double value = f->x.low + i * f->x.step, x = at_x(f, value);
        const double tick[] = { x, f->top + f->height, x, f->top + f->height + 4 };
        c->path(c, tick, 2, PLOT_FAINT, 1, false);
        plot_label(&f->x, value, label, sizeof(label));
        c->text(c, x, f->top + f->height + 18, 0, 12, false, PLOT_FAINT, label);
    }
    const double base[] = { f->left, f->top + f->height, f->left + f->width, f->top + f->height };
    c->path(c, base, 2, PLOT_FAINT, 1, false);
    c->text(c, f->left + f->width / 2, f->top + f->height + 36, 0, 12, false, PLOT_FAINT, x_title);
}

/* A point that is not finite leaves a gap. A lone point is a dot; few are marked. */
static void draw_curve(plot_canvas *c, const frame *f, const plot_curve *curve, double *room)
{
    const plot_series *s = curve->series;
    const uint32_t rgb = plot_rgb(curve->color);
    size_t n = 0;
    for (size_t i = 0; i <= s->count; i++) {
        if (i < s->count && isfinite(s->x[i]) && isfinite(s->y[i])) {
            room[2 * n] = at_x(f, s->x[i]);
            room[2 * n + 1] = at_y(f, s->y[i]);
            if (s->count <= 40) c->dot(c, room[2 * n], room[2 * n + 1], 2.5, rgb);
            n++;
            continue;
        }
        if (n == 1) c->dot(c, room[0], room[1], 2.5, rgb);
        if (n > 1) c->path(c, room, n, rgb, 1.8, curve->dashed);
        n = 0;
    }
}

static const char *x_title(const plot_chart *chart)
{
    return strncmp(chart->tag, "epoch_", 6) == 0 ? "epoch" : "step";
}

static void draw_chart(plot_canvas *c, const plot_chart *chart, double left, double top)
{
    frame f = { left + LEFT, top + TOP, CHART_WIDTH - LEFT - RIGHT, CHART_HEIGHT - TOP - BOTTOM, { 0 }, { 0 } };
    double x[2], y[2];
    size_t most = 1;
    c->text(c, f.left, top + TOP - 16, -1, 15, true, PLOT_INK, chart->tag);
    if (!plot_range(chart, x, y)) {
        c->text(c, f.left + f.width / 2, f.top + f.height / 2, 0, 12, false, PLOT_FAINT, "no finite values");
        return;
    }
    f.x = plot_make_axis(x[0], x[1], 8, true);
    f.y = plot_make_axis(y[0], y[1], 6, false);
    draw_axes(c, &f, x_title(chart));
    for (size_t i = 0; i < chart->count; i++)
        if (chart->curves[i].series->count > most) most = chart->curves[i].series->count;
    double *room = malloc(2 * most * sizeof(*room));
    for (size_t i = 0; room && i < chart->count; i++) draw_curve(c, &f, &chart->curves[i], room);
    free(room);
}

static void draw_legend(plot_canvas *c, const plot_chart *charts, size_t count, double width, double top)
{
    size_t num;
    double height;
    legend_entry *entries = make_legend(charts, count, width - LEFT - RIGHT - 2 * MARGIN, &num, &height);
    for (size_t i = 0; i < num; i++) {
        const legend_entry *e = &entries[i];
        const double x = MARGIN + LEFT + e->x, y = top + e->y + LEGEND_LINE / 2.0;
        const double line[] = { x, y, x + 28, y };
        c->path(c, line, 2, plot_rgb(e->curve->color), 2.2, e->curve->dashed);
        c->text(c, x + 36, y + 4, -1, 12, false, PLOT_INK, run_name(e->curve));
    }
    free(entries);
}

void plot_draw(plot_canvas *c, const plot_chart *charts, size_t count)
{
    double width, height;
    const size_t columns = num_columns(count), rows = (count + columns - 1) / columns;
    plot_size(charts, count, &width, &height);
    c->box(c, 0, 0, width, height, PLOT_PAPER);
    for (size_t i = 0; i < count; i++) {
        const size_t column = i % columns, row = i / columns;
        draw_chart(c, &charts[i], MARGIN + (double)column * CHART_WIDTH, MARGIN + (double)row * CHART_HEIGHT);
    }
    draw_legend(c, charts, count, width, MARGIN + (double)rows * CHART_HEIGHT);
}

/* ---- SVG ---- */

static void svg_box(plot_canvas *c, double x, double y, double width, double height, uint32_t rgb)
{
    fprintf(c->state, "<rect x=\"%g\" y=\"%g\" width=\"%g\" height=\"%g\" fill=\"#%06x\"/>\n", x, y, width, height,
            rgb);
}

static void svg_path(plot_canvas *c, const double *xy, size_t count, uint32_t rgb, double width, bool dashed)
{
    FILE *file = c->state;
    fprintf(file, "<polyline fill=\"none\" stroke=\"#%06x\" stroke-width=\"%g\" stroke-linejoin=\"round\"%s points=\"",
            rgb, width, dashed ? " stroke-dasharray=\"6 4\"" : "");
    for (size_t i = 0; i < count; i++) fprintf(file, "%s%.2f,%.2f", i ? " " : "", xy[2 * i], xy[2 * i + 1]);
    fputs("\"/>\n", file);
}

static void svg_dot(plot_canvas *c, double x, double y, double radius, uint32_t rgb)
{
    fprintf(c->state, "<circle cx=\"%.2f\" cy=\"%.2f\" r=\"%g\" fill=\"#%06x\"/>\n", x, y, radius, rgb);
}

void plot_put_escaped(FILE *file, const char *text)
{
    for (; *text; text++) {
        if (*text == '<')
            fputs("&lt;", file);
        else if (*text == '&')
            fputs("&amp;", file);
        else if (*text == '>')
            fputs("&gt;", file);
        else
            fputc((unsigned char)*text < ' ' ? ' ' : *text, file);
    }
}

static void svg_text(plot_canvas *c, double x, double y, int anchor, double size, bool bold, uint32_t rgb,
                     const char *text)
{
    static const char *const anchors[] = { "start", "middle", "end" };
    fprintf(c->state, "<text x=\"%.2f\" y=\"%.2f\" font-size=\"%g\" text-anchor=\"%s\"%s fill=\"#%06x\">", x, y, size,
            anchors[anchor + 1], bold ? " font-weight=\"bold\"" : "", rgb);
    plot_put_escaped(c->state, text);
    fputs("</text>\n", c->state);
}

bool plot_write_svg(const char *path, const plot_chart *charts, size_t count)
{
    atomic_file out;
    double width, height;
    bool ok = atomic_file_begin(&out, path);
    if (ok) {
        FILE *file = out.stream;
        plot_canvas canvas = { file, svg_box, svg_path, svg_dot, svg_text };
        plot_size(charts, count, &width, &height);
        fprintf(
            file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" viewBox=\"0 0 %g %g\" role=\"img\" "
            "font-family=\"Helvetica, Arial, sans-serif\">\n<title>",
            width, height, width, height);
        for (size_t i = 0; i < count; i++) {
            if (i > 0) fputs(", ", file);
            plot_put_escaped(file, charts[i].tag);
        }
        fputs("</title>\n", file);
        plot_draw(&canvas, charts, count);
        fputs("</svg>\n", file);
        ok = atomic_file_commit(&out);
    }
    if (!ok) fprintf(stderr, "ringfire: plot: cannot write '%s': %s\n", path, strerror(errno));
    return ok;
}
