/* SPDX-License-Identifier: Apache-2.0 */
/* The page: HTML with its style and its drawings inside, for wide and narrow screens, in the light and in the dark. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "atomic_file.h"
#include "report/report.h"

enum { MOST_SPANS = 16, PLACES = 4, LEAST_SHOWN = 5000 };

static const char style[] =
    ":root{--ink:#1c1f23;--faint:#5b6470;--grid:#e2e5e9;--paper:#fff;--box:#f5f6f8;--bar:#3b7dd8;--warn:#a15c00}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6e8eb;--faint:#9aa4b0;--grid:#333a42;--paper:#15181c;"
    "--box:#1e2227;--bar:#5b9cf0;--warn:#f0b060}}"
    "body{margin:0 auto;max-width:72rem;padding:1rem;background:var(--paper);color:var(--ink);"
    "font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}"
    "h1{font-size:1.5rem;margin:.5rem 0}h2{font-size:1.15rem;margin:2rem 0 .5rem}p{color:var(--faint);margin:.25rem 0}"
    ".charts{display:grid;gap:1rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr))}"
    "svg{width:100%;height:auto;background:var(--box);border-radius:.5rem}"
    ".table{overflow-x:auto}table{border-collapse:collapse;width:100%}"
    "th,td{text-align:left;padding:.3rem .8rem .3rem 0;border-bottom:1px solid var(--grid);white-space:nowrap}"
    "td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}td.bar{width:40%;min-width:6rem}"
    "pre{overflow-x:auto;background:var(--box);border-radius:.5rem;padding:.6rem .8rem}"
    "td.bar i{display:block;height:.7rem;border-radius:.2rem;background:var(--bar)}"
    /* On a phone tables become as narrow as they can, and charts, which shrink, keep letters that can be read. */
    "@media(max-width:36rem){th,td{white-space:normal;overflow-wrap:normal;font-size:.8rem;padding-right:.4rem}"
    "td.n{white-space:nowrap}td:first-child:not(.n){overflow-wrap:anywhere;min-width:5rem}"
    "td.bar{width:15%;min-width:2rem}svg text{font-size:16px}}"
    "ul.warnings{list-style:none;padding:0}ul.warnings li{border-left:.25rem solid var(--warn);padding:.3rem .8rem;"
    "margin:.3rem 0;background:var(--box)}";

/* ---- charts: the colours of the axes follow the page ---- */

static const char *color_name(uint32_t rgb, char text[16])
{
    if (rgb == PLOT_INK) return "var(--ink)";
    if (rgb == PLOT_FAINT) return "var(--faint)";
    if (rgb == PLOT_GRID) return "var(--grid)";
    snprintf(text, 16, "#%06x", rgb);
    return text;
}

/* The page's own background shows. */
static void page_box(plot_canvas *c, double x, double y, double width, double height, uint32_t rgb)
{
    (void)c, (void)x, (void)y, (void)width, (void)height, (void)rgb;
}

static void page_path(plot_canvas *c, const double *xy, size_t count, uint32_t rgb, double width, bool dashed)
{
    char text[16];
    FILE *file = c->state;
    fprintf(file, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%g\"%s points=\"", color_name(rgb, text), width,
            dashed ? " stroke-dasharray=\"6 4\"" : "");
    for (size_t i = 0; i < count; i++) fprintf(file, "%s%.1f,%.1f", i ? " " : "", xy[2 * i], xy[2 * i + 1]);
    fputs("\"/>\n", file);
}

static void page_dot(plot_canvas *c, double x, double y, double radius, uint32_t rgb)
{
    char text[16];
    fprintf(c->state, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%g\" fill=\"%s\"/>\n", x, y, radius, color_name(rgb, text));
}

static void page_text(plot_canvas *c, double x, double y, int anchor, double size, bool bold, uint32_t rgb,
                      const char *written)
{
    static const char *const anchors[] = { "start", "middle", "end" };
    char text[16];
    fprintf(c->state, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%g\" text-anchor=\"%s\"%s fill=\"%s\">", x, y, size,
            anchors[anchor + 1], bold ? " font-weight=\"bold\"" : "", color_name(rgb, text));
    plot_put_escaped(c->state, written);
    fputs("</text>\n", c->state);
}

static void put_chart(FILE *file, const plot_chart *chart)
{
    plot_canvas canvas = { file, page_box, page_path, page_dot, page_text };
    double width, height;
    plot_size(chart, 1, &width, &height);
    fprintf(file, "<svg viewBox=\"0 0 %g %g\" role=\"img\" font-family=\"system-ui,sans-serif\"><title>", width,
            height);
    plot_put_escaped(file, chart->tag);
    fputs("</title>\n", file);
    plot_draw(&canvas, chart, 1);
    fputs("</svg>\n", file);
}

static bool seen_before(const plot_data *data, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (strcmp(data->items[i].tag, data->items[index].tag) == 0) return true;
    return false;
}

/* Losses first, then the other values of epochs, then those of batches; shares where they have changed. */
static int place_of(const plot_series *s)
{
    const bool epoch = strncmp(s->tag, "epoch_", 6) == 0;
    if (strncmp(s->tag, "replica_", 8) != 0) return epoch && strstr(s->tag, "loss") ? 0 : epoch ? 1 : 2;
    for (size_t i = 1; i < s->count; i++)
        if (s->y[i] != s->y[0]) return 3;
    return PLACES;
}

static bool put_charts(FILE *file, const report_run *run)
{
    if (run->curves.count == 0) return true;
    plot_chart *chart = malloc(sizeof(*chart));
    if (!chart) return false;
    fputs("<h2>Curves</h2>\n<div class=\"charts\">\n", file);
    for (size_t i = 0; i < PLACES * run->curves.count; i++) {
        const size_t index = i % run->curves.count;
        if (place_of(&run->curves.items[index]) != (int)(i / run->curves.count)) continue;
        if (seen_before(&run->curves, index)) continue;
        plot_fill_chart(&run->curves, run->curves.items[index].tag, chart);
        put_chart(file, chart);
    }
    fputs("</div>\n", file);
    free(chart);
    return true;
}

/* ---- tables ---- */

static void put_cell(FILE *file, const char *kind, const char *text)
{
    fprintf(file, "<td%s%s%s>", *kind ? " class=\"" : "", kind, *kind ? "\"" : "");
    plot_put_escaped(file, text);
    fputs("</td>", file);
}

static void put_number(FILE *file, const char *format, double value)
{
    char text[64];
    snprintf(text, sizeof(text), format, value);
    put_cell(file, "n", text);
}

static void put_bar(FILE *file, double part)
{
    fprintf(file, "<td class=\"bar\"><i style=\"width:%.1f%%\"></i></td>", 100 * fmin(fmax(part, 0), 1));
}

static void begin_table(FILE *file, const char *heading, const char *const *columns)
{
    fprintf(file, "<h2>%s</h2>\n<div class=\"table\"><table><tr>", heading);
    for (; *columns; columns++) {
        const bool number = **columns == '>';
        fprintf(file, "<th%s>%s</th>", number ? " class=\"n\"" : "", *columns + number);
    }
    fputs("</tr>\n", file);
}

static void end_table(FILE *file)
{
    fputs("</table></div>\n", file);
}

static void put_values(FILE *file, const report_run *run)
{
    static const char *const columns[] = { "Value", "Run", ">First", ">Last", ">Least", ">Greatest", NULL };
    bool begun = false;
    for (size_t i = 0; i < run->curves.count; i++) {
        const plot_series *s = &run->curves.items[i];
        if (strncmp(s->tag, "epoch_", 6) != 0 || s->count == 0) continue;
        if (!begun) begin_table(file, "Values of the epochs", columns);
        begun = true;
        double least = s->y[0], greatest = s->y[0];
        for (size_t k = 0; k < s->count; k++) {
            least = fmin(least, s->y[k]);
            greatest = fmax(greatest, s->y[k]);
        }
        fputs("<tr>", file);
        put_cell(file, "", s->tag + 6);
        put_cell(file, "", s->run);
        put_number(file, "%.5g", s->y[0]);
        put_number(file, "%.5g", s->y[s->count - 1]);
        put_number(file, "%.5g", least);
        put_number(file, "%.5g", greatest);
        fputs("</tr>\n", file);
    }
    if (begun) end_table(file);
}

/* The latest share of a replica in the batch; NaN: nobody has written it. */
static double share_of(const report_run *run, size_t replica)
{
    char tag[64];
    snprintf(tag, sizeof(tag), "replica_%zu/share", replica);
    for (size_t i = 0; i < run->curves.count; i++) {
        const plot_series *s = &run->curves.items[i];
        if (strcmp(s->tag, tag) == 0 && s->count > 0) return s->y[s->count - 1];
    }
    return NAN;
}

static void put_devices(FILE *file, const report_run *run)
{
    static const char *const columns[] = { ">Replica", "Device", ">Share of the batch", "", NULL };
    if (!run->devices) return;
    begin_table(file, "Devices", columns);
    size_t replica = 0;
    for (const char *line = run->devices; *line; replica++) {
        char name[512];
        const size_t length = strcspn(line, "\n");
        snprintf(name, sizeof(name), "%.*s", (int)length, line);
        const double share = share_of(run, replica);
        fputs("<tr>", file);
        put_number(file, "%.0f", (double)replica);
        put_cell(file, "", name);
        if (isfinite(share))
            put_number(file, "%.1f %%", 100 * share);
        else
            put_cell(file, "n", "");
        put_bar(file, isfinite(share) ? share : 0);
        fputs("</tr>\n", file);
        line += length + (line[length] == '\n');
    }
    end_table(file);
}

static double most_of(const report_run *run, uint32_t replica)
{
    double most = 0;
    for (size_t i = 0; i < run->num_memory; i++)
        if (run->memory[i].replica == replica) most = fmax(most, (double)run->memory[i].most);
    return most;
}

static void put_memory(FILE *file, const report_run *run)
{
    static const char *const columns[] = { ">Replica", "Memory of", ">MB", ">Most MB", "", NULL };
    if (run->num_memory == 0) return;
    begin_table(file, "Device memory", columns);
    for (size_t i = 0; i < run->num_memory; i++) {
        const report_memory *m = &run->memory[i];
        const double all = most_of(run, m->replica);
        if (m->most < LEAST_SHOWN) continue; /* it would be 0.00 MB */
        fputs("<tr>", file);
        put_number(file, "%.0f", m->replica);
        put_cell(file, "", m->name);
        put_number(file, "%.2f", 1e-6 * (double)m->bytes);
        put_number(file, "%.2f", 1e-6 * (double)m->most);
        put_bar(file, all > 0 ? (double)m->most / all : 0);
        fputs("</tr>\n", file);
    }
    end_table(file);
}

static void put_spans(FILE *file, const char *heading, const report_spans *spans)
{
    static const char *const columns[] = { "Part", ">Times", ">Seconds", ">Share", "", NULL };
    double all = 0;
    if (spans->count == 0) return;
    for (size_t i = 0; i < spans->count; i++) all += spans->items[i].seconds;
    begin_table(file, heading, columns);
    for (size_t i = 0; i < spans->count && i < MOST_SPANS; i++) {
        const report_span *s = &spans->items[i];
        const double part = all > 0 ? s->seconds / all : 0;
        fputs("<tr>", file);
        put_cell(file, "", s->name);
        put_number(file, "%.0f", (double)s->count);
        put_number(file, "%.3f", s->seconds);
        put_number(file, "%.1f %%", 100 * part);
        put_bar(file, part);
        fputs("</tr>\n", file);
    }
    end_table(file);
    if (spans->count > MOST_SPANS) fprintf(file, "<p>%zu further parts are shorter.</p>\n", spans->count - MOST_SPANS);
}

/* Rows of columns below each other; fences are Markdown's. */
static void put_matrices(FILE *file, const report_run *run)
{
    for (size_t i = 0; i < run->num_matrices; i++) {
        const report_matrix *m = &run->matrices[i];
        if (!m->text) continue;
        fputs("<h2>Labels and predictions: ", file);
        plot_put_escaped(file, m->name);
        fputs("</h2>\n<p>A row for each label, a column for each prediction, in the last epoch.</p>\n<pre>", file);
        for (const char *line = m->text; *line; line += *line == '\n') {
            const size_t length = strcspn(line, "\n");
            char *copy = strncmp(line, "```", 3) != 0 ? strndup(line, length) : NULL;
            if (copy) plot_put_escaped(file, copy);
            if (copy) fputc('\n', file);
            free(copy);
            line += length;
        }
        fputs("</pre>\n", file);
    }
}

static const char *date_text(double seconds, char text[64])
{
    const time_t at = (time_t)seconds;
    struct tm local;
    if (!localtime_r(&at, &local) || strftime(text, 64, "%Y-%m-%d %H:%M:%S", &local) == 0) snprintf(text, 64, "?");
    return text;
}

static void put_checkpoints(FILE *file, const report_run *run)
{
    static const char *const columns[] = { "File", "Written", ">Tensors", ">MB", NULL };
    if (run->num_checkpoints == 0) return;
    begin_table(file, "Checkpoints", columns);
    for (size_t i = 0; i < run->num_checkpoints; i++) {
        const report_file *f = &run->checkpoints[i];
        char date[64];
        fputs("<tr>", file);
        put_cell(file, "", f->name);
        put_cell(file, "", date_text(f->written, date));
        put_number(file, "%.0f", (double)f->tensors);
        put_number(file, "%.2f", 1e-6 * (double)f->bytes);
        fputs("</tr>\n", file);
    }
    end_table(file);
}

static void put_warnings(FILE *file, const report_run *run)
{
    if (run->num_warnings == 0) return;
    fputs("<h2>Warnings</h2>\n<ul class=\"warnings\">\n", file);
    for (size_t i = 0; i < run->num_warnings; i++) {
        fputs("<li>", file);
        plot_put_escaped(file, run->warnings[i]);
        fputs("</li>\n", file);
    }
    fputs("</ul>\n", file);
}

static bool put_page(FILE *file, const report_run *run)
{
    char from[64], to[64];
    fprintf(file, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                  "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>Report of ");
    plot_put_escaped(file, run->path);
    fprintf(file, "</title>\n<style>%s</style></head><body>\n<h1>Report of ", style);
    plot_put_escaped(file, run->path);
    fputs("</h1>\n", file);
    if (run->begun > 0)
        fprintf(file, "<p>%s to %s, %.0f seconds</p>\n", date_text(run->begun, from), date_text(run->ended, to),
                run->ended - run->begun);
    put_warnings(file, run);
    put_values(file, run);
    if (!put_charts(file, run)) return false;
    put_matrices(file, run);
    put_devices(file, run);
    put_memory(file, run);
    put_spans(file, "Where the host's time goes", &run->host);
    put_spans(file, "Where the devices' time goes", &run->operations);
    put_checkpoints(file, run);
    fputs("</body></html>\n", file);
    return true;
}

bool report_write(const report_run *run, const char *path)
{
    atomic_file out;
    bool ok = atomic_file_begin(&out, path);
    if (ok && !put_page(out.stream, run)) {
        atomic_file_abandon(&out);
        errno = ENOMEM;
        ok = false;
    } else if (ok) {
        ok = atomic_file_commit(&out);
    }
    if (!ok) fprintf(stderr, "ringfire: report: cannot write '%s': %s\n", path, strerror(errno));
    return ok;
}
