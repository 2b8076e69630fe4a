/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire plot: which curves, in which charts. */
#include "plot/plot.h"

#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "json_output.h"
#include "options.h"

/* ---- charts ---- */

/* The part of a run's name that its train and validation halves share. */
static size_t group_length(const char *run)
{
    static const char *const halves[] = { "train", "validation" };
    const size_t n = strlen(run);
    for (int i = 0; i < 2; i++) {
        const size_t half = strlen(halves[i]);
        if (n >= half && strcmp(run + n - half, halves[i]) == 0 && (n == half || run[n - half - 1] == '/'))
            return n == half ? 0 : n - half - 1;
    }
    return n;
}

static bool is_validation(const char *run)
{
    const size_t n = group_length(run);
    return strcmp(run + n, "/validation") == 0 || strcmp(run + n, "validation") == 0;
}

/* Number of the run's group among all. */
static uint32_t group_number(const plot_data *data, const char *run)
{
    const size_t n = group_length(run);
    uint32_t number = 0;
    for (size_t i = 0; i < data->count; i++) {
        const char *other = data->items[i].run;
        const size_t m = group_length(other);
        if (m == n && strncmp(other, run, n) == 0) return number;
        bool seen = false; /* counted already at an earlier series */
        for (size_t k = 0; k < i && !seen; k++) {
            const size_t l = group_length(data->items[k].run);
            seen = l == m && strncmp(data->items[k].run, other, m) == 0;
        }
        number += !seen;
    }
    return number;
}

void plot_fill_chart(const plot_data *data, const char *tag, plot_chart *chart)
{
    *chart = (plot_chart){ .tag = tag };
    for (size_t i = 0; i < data->count; i++) {
        const plot_series *s = &data->items[i];
        if (strcmp(s->tag, tag) != 0) continue;
        if (chart->count == PLOT_MAX_CURVES) {
            fprintf(stderr, "ringfire: plot: warning: %s has more than %d curves; the rest is left out\n", tag,
                    PLOT_MAX_CURVES);
            return;
        }
        chart->curves[chart->count++] = (plot_curve){ s, group_number(data, s->run), is_validation(s->run) };
    }
}

static bool has_chart(const plot_chart *charts, size_t count, const char *tag)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(charts[i].tag, tag) == 0) return true;
    return false;
}

static void print_tags(const plot_data *data)
{
    for (size_t i = 0; i < data->count; i++) {
        bool seen = false;
        for (size_t k = 0; k < i && !seen; k++) seen = strcmp(data->items[k].tag, data->items[i].tag) == 0;
        if (!seen) fprintf(stderr, " %s", data->items[i].tag);
    }
    fputc('\n', stderr);
}

typedef struct arguments {
    const char **paths, **tags, *out, *json_path;
    int num_paths, num_tags;
} arguments;

/* Chooses what is asked for; else losses, then accuracies, of the epochs where there are some. */
static size_t choose_charts(const plot_data *data, const arguments *a, plot_chart *charts)
{
    static const char *const wanted[] = { "loss", "accuracy" };
    size_t count = 0;
    for (int i = 0; i < a->num_tags && count < PLOT_MAX_CHARTS; i++) {
        plot_fill_chart(data, a->tags[i], &charts[count]);
        if (charts[count].count > 0) {
            count++;
            continue;
        }
        fprintf(stderr, "ringfire: plot: there is no tag '%s'; there are:", a->tags[i]);
        print_tags(data);
        return 0;
    }
    for (int epochs = 1; epochs >= 0 && count == 0; epochs--) {
        for (int w = 0; w < 2; w++) {
            for (size_t i = 0; i < data->count && count < PLOT_MAX_CHARTS; i++) {
                const char *tag = data->items[i].tag;
                if (!strstr(tag, wanted[w]) || (epochs && strncmp(tag, "epoch_", 6) != 0)) continue;
                if (!has_chart(charts, count, tag)) plot_fill_chart(data, tag, &charts[count++]);
            }
        }
    }
    if (count > 0 || a->num_tags > 0) return count;
    if (data->count == 0) {
        fprintf(stderr, "ringfire: plot: there are no values in '%s'%s\n", a->paths[0],
                a->num_paths > 1 ? " and the others" : "");
        return 0;
    }
    fprintf(stderr, "ringfire: plot: no losses and no accuracies; choose one with --tag:");
    print_tags(data);
    return 0;
}

/* ---- the command ---- */

static const struct argp_option options[] = {
    { "out", 'o', "FILE", 0, "Write FILE (.svg or .png) instead of drawing on the terminal", 0 },
    { "tag", 't', "NAME", 0, "Draw these values; may be given more than once (default: losses and accuracies)", 0 },
    JSON_OPTION,
    { 0 },
};

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    arguments *a = state->input;
    switch (key) {
    case 'o':
        if (!ends_with(text, ".svg") && !ends_with(text, ".png"))
            argp_error(state, "--out is '%s', which ends neither in .svg nor in .png", text);
        a->out = text;
        return 0;
    case 'j': a->json_path = text ? text : "-"; return 0;
    case 't': a->tags[a->num_tags++] = text; return 0;
    case ARGP_KEY_ARG: a->paths[a->num_paths++] = text; return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "LOGDIR is missing: name the directories to search"); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* Last part of a path, without what a trailing slash leaves. */
static void base_name(const char *path, char *name, size_t size)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    size_t begin = n;
    while (begin > 0 && path[begin - 1] != '/') begin--;
    if (ends_with(path, ".csv")) n -= 4;
    snprintf(name, size, "%.*s", (int)(n - begin), path + begin);
}

/* Runs of several arguments begin with the argument's last part, or all of it where two end alike. */
static void choose_prefix(const arguments *a, int index, char *prefix, size_t size)
{
    prefix[0] = '\0';
    if (a->num_paths == 1) return;
    base_name(a->paths[index], prefix, size);
    for (int i = 0; i < a->num_paths; i++) {
        char other[1024];
        base_name(a->paths[i], other, sizeof(other));
        if (i != index && strcmp(other, prefix) == 0) {
            snprintf(prefix, size, "%s", a->paths[index]);
            return;
        }
    }
}

static json_t *curve_json(const plot_curve *curve)
{
    json_t *x = json_array(), *y = json_array();
    for (size_t i = 0; i < curve->series->count; i++) {
        json_array_append_new(x, json_number(curve->series->x[i]));
        json_array_append_new(y, json_number(curve->series->y[i]));
    }
    return json_pack("{s:o,s:o,s:o}", "run", json_text(curve->series->run), "x", x, "y", y);
}

/* The charts that are drawn, and where. */
static json_t *charts_json(const arguments *a, const plot_chart *charts, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        json_t *curves = json_array();
        for (size_t k = 0; k < charts[i].count; k++) json_array_append_new(curves, curve_json(&charts[i].curves[k]));
        json_array_append_new(list, json_pack("{s:o,s:o}", "tag", json_text(charts[i].tag), "curves", curves));
    }
    return json_pack("{s:o,s:o}", "file", a->out ? json_text(a->out) : json_null(), "charts", list);
}

static bool runs_plot(const arguments *a)
{
    plot_data data = { 0 };
    bool ok = true;
    for (int i = 0; ok && i < a->num_paths; i++) {
        char prefix[1024];
        choose_prefix(a, i, prefix, sizeof(prefix));
        ok = plot_load(&data, a->paths[i], prefix);
    }
    plot_chart *charts = ok ? calloc(PLOT_MAX_CHARTS, sizeof(*charts)) : NULL;
    size_t count = 0;
    if (charts) {
        plot_sort(&data);
        count = choose_charts(&data, a, charts);
    }
    ok = count > 0;
    if (ok && a->out)
        ok = ends_with(a->out, ".svg") ? plot_write_svg(a->out, charts, count) : plot_write_png(a->out, charts, count);
    else if (ok && !json_replaces_text(a->json_path))
        plot_print(stdout, charts, count);
    if (ok) ok = json_write(a->json_path, a->json_path ? charts_json(a, charts, count) : NULL);
    free(charts);
    plot_data_free(&data);
    return ok;
}

int command_plot(int argc, char **argv)
{
    const struct argp parser = { options,
                                 parse_option,
                                 "LOGDIR...",
                                 "Draws the curves of trainings from TensorBoard event files and CSV logs, in the "
                                 "given directories and all below them; several LOGDIRs are compared.",
                                 NULL,
                                 NULL,
                                 NULL };
    arguments a = { .paths = calloc((size_t)argc + 1, sizeof(char *)),
                    .tags = calloc((size_t)argc + 1, sizeof(char *)) };
    bool ok = a.paths && a.tags;
    if (ok) {
        command_parse(&parser, argc, argv, 0, &a);
        ok = json_can_write(a.json_path) && runs_plot(&a);
    }
    free(a.paths);
    free(a.tags);
    return ok ? CODE_OK : CODE_FAILED;
}
