/* SPDX-License-Identifier: Apache-2.0 */
/* Curves of trainings: reading them, arranging them, drawing them. */
#ifndef RINGFIRE_PLOT_H
#define RINGFIRE_PLOT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* ---- what there is (data.c) ---- */

typedef struct plot_series {
    char *run, *tag; /* printable() */
    double *x, *y;
    size_t count, capacity;
} plot_series;
typedef struct plot_data {
    plot_series *items;
    size_t count, capacity;
} plot_data;

/* Reads event files and CSV logs: of a directory and all below it, or a single one. `prefix` begins the names of its
 * runs; "" where it is the only one. False after a message on stderr; what cannot be read to its end is a warning. */
bool plot_load(plot_data *data, const char *path, const char *prefix);
/* A CSV log's lines as the points of one run; false: out of memory. */
bool plot_load_csv(plot_data *data, FILE *file, const char *run);
/* Sorts runs, tags and points. */
void plot_sort(plot_data *data);
void plot_data_free(plot_data *data);

/* ---- what is drawn (axis.c) ---- */

enum { PLOT_MAX_CURVES = 64, PLOT_MAX_CHARTS = 32 };

/* Runs "a/train" and "a/validation" are of one colour; the latter is dashed. */
typedef struct plot_curve {
    const plot_series *series;
    uint32_t color;
    bool dashed;
} plot_curve;
typedef struct plot_chart {
    const char *tag;
    plot_curve curves[PLOT_MAX_CURVES];
    size_t count;
} plot_chart;

typedef struct plot_axis {
    double low, high, step; /* ticks at low + i * step up to high */
    int decimals;           /* that labels need; -1: as powers of ten */
} plot_axis;
/* Round ticks, about `ticks` of them, around a range; `whole`: whole numbers only. */
plot_axis plot_make_axis(double low, double high, int ticks, bool whole);
void plot_label(const plot_axis *axis, double value, char *text, size_t size);
/* Range of the finite points. False where there is none. */
bool plot_range(const plot_chart *chart, double x[2], double y[2]);
uint32_t plot_rgb(uint32_t color); /* 0xrrggbb */
/* The curves of all runs that have a tag. */
void plot_fill_chart(const plot_data *data, const char *tag, plot_chart *chart);

/* ---- how it is drawn (draw.c, cairo.c, terminal.c) ---- */

/* Colours of a page beside those of its curves. */
enum { PLOT_INK = 0x222222, PLOT_FAINT = 0x666666, PLOT_GRID = 0xe4e4e4, PLOT_PAPER = 0xffffff };

typedef struct plot_canvas plot_canvas;
struct plot_canvas {
    void *state;
    void (*box)(plot_canvas *c, double x, double y, double width, double height, uint32_t rgb);
    void (*path)(plot_canvas *c, const double *xy, size_t count, uint32_t rgb, double width, bool dashed);
    void (*dot)(plot_canvas *c, double x, double y, double radius, uint32_t rgb);
    /* `anchor`: -1 begins, 0 is centred, 1 ends at x; y is the base line. */
    void (*text)(plot_canvas *c, double x, double y, int anchor, double size, bool bold, uint32_t rgb,
                 const char *text);
};
void plot_size(const plot_chart *charts, size_t count, double *width, double *height);
/* Text between tags of XML or HTML. */
void plot_put_escaped(FILE *file, const char *text);
void plot_draw(plot_canvas *canvas, const plot_chart *charts, size_t count);
bool plot_write_svg(const char *path, const plot_chart *charts, size_t count);
bool plot_write_png(const char *path, const plot_chart *charts, size_t count);
/* With colours and braille patterns on a terminal that can show them, else as plain text. */
void plot_print(FILE *out, const plot_chart *charts, size_t count);

#endif
