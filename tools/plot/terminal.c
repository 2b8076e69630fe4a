/* SPDX-License-Identifier: Apache-2.0 */
/* Charts of characters. On a terminal curves are braille patterns in colour (2 x 4 dots a character); elsewhere each
 * has a letter of its own, so that they can be distinguished without colours. */
#include "plot/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text.h"

enum { ROWS = 16, LABEL = 9, MOST_COLUMNS = 160 };

static const char marks[] = "ox+*#@%&=~";

typedef struct screen {
    int columns; /* of the plot itself */
    bool rich;
    unsigned char *dots;  /* rich: braille bits; else the mark; [ROWS][columns] */
    unsigned char *owner; /* 1 + number of the curve drawn last */
    plot_axis x, y;
} screen;

static bool is_rich(FILE *out)
{
    if (!isatty(fileno(out)) || getenv("NO_COLOR")) return false;
    const char *term = getenv("TERM"), *locale = getenv("LC_ALL");
    if (!locale || !*locale) locale = getenv("LC_CTYPE");
    if (!locale || !*locale) locale = getenv("LANG");
    return term && strcmp(term, "dumb") != 0 && locale && (strstr(locale, "UTF-8") || strstr(locale, "utf8"));
}

/* (0, 0) is the upper left dot; rich ones are finer. */
static void put_dot(screen *s, int x, int y, unsigned curve)
{
    static const unsigned char bits[4][2] = { { 0x01, 0x08 }, { 0x02, 0x10 }, { 0x04, 0x20 }, { 0x40, 0x80 } };
    const int column = s->rich ? x / 2 : x, row = s->rich ? y / 4 : y;
    if (x < 0 || y < 0 || column >= s->columns || row >= ROWS) return;
    const int cell = row * s->columns + column;
    if (s->rich)
        s->dots[cell] |= bits[y % 4][x % 2];
    else
        s->dots[cell] = (unsigned char)marks[curve % (sizeof(marks) - 1)];
    s->owner[cell] = (unsigned char)(1 + curve);
}

/* Dashes, on a terminal, are four dots long. */
static void put_line(screen *s, double x0, double y0, double x1, double y1, unsigned curve, bool dashed)
{
    const int steps = (int)ceil(fmax(fabs(x1 - x0), fabs(y1 - y0)));
    for (int i = 0; i <= steps; i++) {
        const double t = steps > 0 ? (double)i / steps : 0;
        const int x = (int)lround(x0 + t * (x1 - x0));
        if (!dashed || !s->rich || x % 8 < 4) put_dot(s, x, (int)lround(y0 + t * (y1 - y0)), curve);
    }
}

static void put_curve(screen *s, const plot_curve *from, unsigned curve)
{
    const plot_series *series = from->series;
    const double width = s->columns * (s->rich ? 2 : 1) - 1, height = ROWS * (s->rich ? 4 : 1) - 1;
    double last_x = NAN, last_y = NAN;
    for (size_t i = 0; i < series->count; i++) {
        const double x = (series->x[i] - s->x.low) / (s->x.high - s->x.low) * width;
        const double y = (s->y.high - series->y[i]) / (s->y.high - s->y.low) * height;
        if (isfinite(x) && isfinite(y)) {
            if (isfinite(last_x) && isfinite(last_y))
                put_line(s, last_x, last_y, x, y, curve, from->dashed);
            else
                put_dot(s, (int)lround(x), (int)lround(y), curve);
        }
        last_x = x;
        last_y = y;
    }
}

/* ---- output ---- */

static void set_color(FILE *out, uint32_t color)
{
    /* The palette is for paper; the terminal's own colours suit its background. */
    static const int codes[] = { 34, 31, 32, 35, 33, 36, 37 };
    fprintf(out, "\033[%dm", codes[color % (sizeof(codes) / sizeof(codes[0]))]);
}

/* Cells of one row up to `end`. */
static void print_cells(FILE *out, const screen *s, const plot_chart *chart, int row, int end)
{
    uint32_t color = UINT32_MAX;
    for (int column = 0; column < end; column++) {
        const int cell = row * s->columns + column;
        if (s->dots[cell] == 0 || !s->rich) {
            fputc(s->dots[cell] ? s->dots[cell] : ' ', out);
            continue;
        }
        const uint32_t own = chart->curves[s->owner[cell] - 1].color;
        if (own != color) set_color(out, own);
        color = own;
        fprintf(out, "\xe2%c%c", 0xa0 + (s->dots[cell] >> 6), 0x80 + (s->dots[cell] & 0x3f)); /* U+2800 + bits */
    }
    fputs(color != UINT32_MAX ? "\033[0m\n" : "\n", out);
}

static int num_ticks(double low, double high, double step)
{
    return (int)floor((high - low) / step + 1e-6) + 1;
}

static bool row_has_label(const screen *s, int row, char *label, size_t size)
{
    for (int i = 0; i < num_ticks(s->y.low, s->y.high, s->y.step); i++) {
        const double v = s->y.low + i * s->y.step;
        if ((int)lround((s->y.high - v) / (s->y.high - s->y.low) * (ROWS - 1)) != row) continue;
        plot_label(&s->y, v, label, size);
        return true;
    }
    return false;
}

static void print_x_labels(FILE *out, const screen *s)
{
    char *line = calloc(1, (size_t)s->columns + LABEL + 40);
    if (!line) return;
    memset(line, ' ', (size_t)s->columns + LABEL + 2);
    int free_from = 0;
    for (int i = 0; i < num_ticks(s->x.low, s->x.high, s->x.step); i++) {
        const double v = s->x.low + i * s->x.step;
        char label[32];
        plot_label(&s->x, v, label, sizeof(label));
        const int n = (int)strlen(label);
        int at = LABEL + 2 + (int)lround((v - s->x.low) / (s->x.high - s->x.low) * (s->columns - 1)) - n / 2;
        if (at + n > s->columns + LABEL + 2) at = s->columns + LABEL + 2 - n;
        if (at < free_from) continue;
        memcpy(line + at, label, (size_t)n);
        free_from = at + n + 1;
    }
    for (size_t n = strlen(line); n > 0 && line[n - 1] == ' ';) line[--n] = '\0';
    fprintf(out, "%s\n", line);
    free(line);
}

static void print_rows(FILE *out, const screen *s, const plot_chart *chart)
{
    for (int row = 0; row < ROWS; row++) {
        char label[32] = "";
        const bool has = row_has_label(s, row, label, sizeof(label));
        fprintf(out, "%*s %s", LABEL, label, s->rich ? (has ? "┤" : "│") : (has ? "+" : "|"));
        int end = s->columns; /* no spaces at the ends of lines */
        while (end > 0 && s->dots[row * s->columns + end - 1] == 0) end--;
        print_cells(out, s, chart, row, end);
    }
    fprintf(out, "%*s %s", LABEL, "", s->rich ? "└" : "+");
    for (int i = 0; i < s->columns; i++) fputs(s->rich ? "─" : "-", out);
    fputc('\n', out);
    print_x_labels(out, s);
}

static void print_legend(FILE *out, const screen *s, const plot_chart *chart)
{
    for (size_t i = 0; i < chart->count; i++) {
        const plot_series *series = chart->curves[i].series;
        fprintf(out, "%*s ", LABEL, "");
        if (s->rich) set_color(out, chart->curves[i].color);
        if (s->rich)
            fputs(chart->curves[i].dashed ? "╌╌\033[0m" : "──\033[0m", out);
        else
            fputc(marks[i % (sizeof(marks) - 1)], out);
        fprintf(out, " %s", series->run[0] ? series->run : "run");
        if (series->count > 0) fprintf(out, ": %.4g", series->y[series->count - 1]);
        fputc('\n', out);
    }
}

static void print_chart(FILE *out, screen *s, const plot_chart *chart)
{
    double x[2], y[2];
    if (s->rich)
        fprintf(out, "%*s \033[1m%s\033[0m\n", LABEL, "", chart->tag);
    else
        fprintf(out, "%*s %s\n", LABEL, "", chart->tag);
    if (!plot_range(chart, x, y)) {
        fprintf(out, "%*s no finite values\n", LABEL, "");
        return;
    }
    s->x = plot_make_axis(x[0], x[1], s->columns / 10, true);
    s->y = plot_make_axis(y[0], y[1], 5, false);
    memset(s->dots, 0, (size_t)ROWS * (size_t)s->columns);
    memset(s->owner, 0, (size_t)ROWS * (size_t)s->columns);
    for (size_t i = 0; i < chart->count; i++) put_curve(s, &chart->curves[i], (unsigned)i);
    print_rows(out, s, chart);
    print_legend(out, s, chart);
}

void plot_print(FILE *out, const plot_chart *charts, size_t count)
{
    const int found = text_columns(out), columns = found < MOST_COLUMNS ? found : MOST_COLUMNS;
    screen s = { .columns = columns - LABEL - 3, .rich = is_rich(out) };
    s.dots = malloc((size_t)ROWS * (size_t)s.columns);
    s.owner = malloc((size_t)ROWS * (size_t)s.columns);
    for (size_t i = 0; s.dots && s.owner && i < count; i++) {
        if (i > 0) fputc('\n', out);
        print_chart(out, &s, &charts[i]);
    }
    free(s.dots);
    free(s.owner);
}
