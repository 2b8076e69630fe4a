/* SPDX-License-Identifier: Apache-2.0 */
#include "plot/plot.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <ringfire/ringfire.h>

#include "printable.h"

enum { MAX_DEPTH = 8, MAX_POINTS = 10000000 };

static bool fail_file(const char *path, const char *why)
{
    fputs("ringfire: plot: '", stderr);
    print_printable(stderr, path, 0);
    fputs("': ", stderr);
    print_printable(stderr, why, 0);
    fputc('\n', stderr);
    return false;
}

static bool no_memory(const char *path)
{
    return fail_file(path, "no memory");
}

/* ---- series ---- */

static plot_series *find_printable_series(plot_data *d, const char *run, const char *tag)
{
    for (size_t i = d->count; i-- > 0;)
        if (strcmp(d->items[i].tag, tag) == 0 && strcmp(d->items[i].run, run) == 0) return &d->items[i];
    if (d->count == d->capacity) {
        const size_t capacity = d->capacity ? 2 * d->capacity : 32;
        plot_series *grown = realloc(d->items, capacity * sizeof(*grown));
        if (!grown) return NULL;
        d->items = grown;
        d->capacity = capacity;
    }
    plot_series *s = &d->items[d->count];
    *s = (plot_series){ .run = strdup(run), .tag = strdup(tag) };
    if (s->run && s->tag) {
        d->count++;
        return s;
    }
    free(s->run);
    free(s->tag);
    return NULL;
}

/* Names of directories and what files call their values may be any bytes. */
static plot_series *find_series(plot_data *d, const char *run, const char *tag)
{
    char *shown_run = printable(run), *shown_tag = printable(tag);
    plot_series *s = shown_run && shown_tag ? find_printable_series(d, shown_run, shown_tag) : NULL;
    free(shown_run);
    free(shown_tag);
    return s;
}

static bool add_point(plot_series *s, double x, double y)
{
    if (!s || s->count >= MAX_POINTS) return false;
    if (s->count == s->capacity) {
        const size_t capacity = s->capacity ? 2 * s->capacity : 64;
        double *grown_x = realloc(s->x, capacity * sizeof(double));
        if (grown_x) s->x = grown_x;
        double *grown_y = grown_x ? realloc(s->y, capacity * sizeof(double)) : NULL;
        if (grown_y) s->y = grown_y;
        if (!grown_y) return false;
        s->capacity = capacity;
    }
    s->x[s->count] = x;
    s->y[s->count++] = y;
    return true;
}

void plot_data_free(plot_data *d)
{
    for (size_t i = 0; i < d->count; i++) {
        free(d->items[i].run);
        free(d->items[i].tag);
        free(d->items[i].x);
        free(d->items[i].y);
    }
    free(d->items);
    *d = (plot_data){ 0 };
}

/* ---- files ---- */

static bool load_events(plot_data *d, const char *path, const char *run)
{
    rf_event_reader *reader;
    if (rf_event_reader_open(path, &reader) < 0) return fail_file(path, rf_error_message());
    rf_event e;
    rf_result r;
    bool ok = true;
    while (ok && (r = rf_event_reader_next(reader, &e)) == RF_OK)
        if (e.kind == RF_EVENT_SCALAR) ok = add_point(find_series(d, run, e.tag), (double)e.step, e.scalar);
    if (!ok) {
        (void)no_memory(path);
    } else if (r < 0) { /* what came before is good */
        fputs("ringfire: plot: warning: ", stderr);
        print_printable(stderr, rf_error_message(), 0);
        fputc('\n', stderr);
    }
    rf_event_reader_close(&reader);
    return ok;
}

/* "val_loss" of a CSV log is what event files have as "epoch_loss" of the run "validation". */
static bool add_csv_value(plot_data *d, const char *run, const char *column, double x, double y)
{
    char name[1024], tag[512];
    const bool validation = strncmp(column, "val_", 4) == 0;
    const char *base = column + (validation ? 4 : 0);
    snprintf(name, sizeof(name), "%s%s%s", run, *run ? "/" : "", validation ? "validation" : "train");
    snprintf(tag, sizeof(tag), "epoch_%s", base);
    return add_point(find_series(d, name, tag), x, y);
}

enum { MAX_COLUMNS = 64 };

/* Cuts a line at its commas. */
static int line_split(char *line, char *cells[MAX_COLUMNS])
{
    int n = 0;
    line[strcspn(line, "\r\n")] = '\0';
    for (char *at = line; at && n < MAX_COLUMNS;) {
        cells[n++] = at;
        at = strchr(at, ',');
        if (at) *at++ = '\0';
    }
    return n;
}

static bool load_csv_rows(plot_data *d, FILE *file, char *const *columns, int num_columns, const char *run)
{
    char *line = NULL, *cells[MAX_COLUMNS];
    size_t capacity = 0;
    bool ok = true;
    const bool counted = strcmp(columns[0], "epoch") == 0 || strcmp(columns[0], "step") == 0;
    for (double row = 0; ok && getline(&line, &capacity, file) >= 0; row++) {
        const int n = line_split(line, cells);
        const double x = counted ? rf_number_parse(cells[0], NULL) : row;
        for (int i = counted ? 1 : 0; ok && i < n && i < num_columns; i++) {
            char *end;
            const double y = rf_number_parse(cells[i], &end);
            if (end != cells[i]) ok = add_csv_value(d, run, columns[i], x, y);
        }
    }
    free(line);
    return ok;
}

bool plot_load_csv(plot_data *d, FILE *file, const char *run)
{
    char *header = NULL, *columns[MAX_COLUMNS];
    size_t capacity = 0;
    const bool any = getline(&header, &capacity, file) > 0;
    char *first = any && strncmp(header, "\xef\xbb\xbf", 3) == 0 ? header + 3 : header; /* behind a byte order mark */
    const bool ok = !any || load_csv_rows(d, file, columns, line_split(first, columns), run);
    free(header);
    return ok;
}

static bool load_csv(plot_data *d, const char *path, const char *run)
{
    FILE *file = fopen(path, "re");
    if (!file) return fail_file(path, strerror(errno));
    const bool ok = plot_load_csv(d, file, run);
    fclose(file);
    return ok || no_memory(path);
}

/* ---- directories ---- */

static bool is_csv(const char *name)
{
    const size_t n = strlen(name);
    return n > 4 && strcmp(name + n - 4, ".csv") == 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorted: event files in the order they were written in. */
static bool list_directory(const char *path, char ***names, size_t *count)
{
    DIR *dir = opendir(path);
    size_t capacity = 0;
    *names = NULL;
    *count = 0;
    if (!dir) return fail_file(path, strerror(errno));
    bool ok = true;
    for (struct dirent *entry; ok && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.') continue;
        if (*count == capacity) {
            capacity = capacity ? 2 * capacity : 32;
            char **grown = realloc(*names, capacity * sizeof(*grown));
            ok = grown != NULL;
            if (ok) *names = grown;
        }
        if (ok) ok = ((*names)[*count] = strdup(entry->d_name)) != NULL;
        if (ok) ++*count;
    }
    closedir(dir);
    if (*count > 0) qsort(*names, *count, sizeof(**names), compare_names);
    return ok || no_memory(path);
}

static bool plot_data_load(plot_data *d, const char *path, const char *run, int depth);

static bool load_directory(plot_data *d, const char *path, const char *run, int depth)
{
    char **names, below[4096], name[1024];
    size_t count;
    bool ok = list_directory(path, &names, &count);
    for (size_t i = 0; ok && i < count; i++) {
        struct stat st;
        if (snprintf(below, sizeof(below), "%s/%s", path, names[i]) >= (int)sizeof(below)) continue;
        if (stat(below, &st) != 0) continue;
        if (S_ISDIR(st.st_mode) || is_csv(names[i]))
            snprintf(name, sizeof(name), "%s%s%.*s", run, *run ? "/" : "",
                     (int)(strlen(names[i]) - (S_ISDIR(st.st_mode) ? 0 : 4)), names[i]);
        else if (strstr(names[i], "tfevents"))
            snprintf(name, sizeof(name), "%s", run);
        else
            continue;
        ok = plot_data_load(d, below, name, depth + 1);
    }
    for (size_t i = 0; i < count; i++) free(names[i]);
    free(names);
    return ok;
}

static bool plot_data_load(plot_data *d, const char *path, const char *run, int depth)
{
    struct stat st;
    if (stat(path, &st) != 0) return fail_file(path, strerror(errno));
    if (S_ISDIR(st.st_mode)) return depth > MAX_DEPTH || load_directory(d, path, run, depth);
    return is_csv(path) ? load_csv(d, path, run) : load_events(d, path, run);
}

bool plot_load(plot_data *data, const char *path, const char *prefix)
{
    return plot_data_load(data, path, prefix, 0);
}

/* ---- order ---- */

static int compare_series(const void *a, const void *b)
{
    const plot_series *s = a, *t = b;
    const int runs = strcmp(s->run, t->run);
    return runs ? runs : strcmp(s->tag, t->tag);
}

typedef struct point {
    double x, y;
    size_t order;
} point;

static int compare_points(const void *a, const void *b)
{
    const point *p = a, *q = b;
    if (p->x != q->x) return p->x < q->x ? -1 : 1;
    return p->order < q->order ? -1 : 1;
}

/* By step; of a step that was made again (training went on from a checkpoint) the latest counts. */
static void sort_points(plot_series *s)
{
    bool sorted = true;
    for (size_t i = 1; i < s->count; i++) sorted &= s->x[i - 1] < s->x[i];
    point *points = sorted ? NULL : malloc(s->count * sizeof(*points));
    if (!points) return;
    for (size_t i = 0; i < s->count; i++) points[i] = (point){ s->x[i], s->y[i], i };
    qsort(points, s->count, sizeof(*points), compare_points);
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (n > 0 && s->x[n - 1] == points[i].x) n--;
        s->x[n] = points[i].x;
        s->y[n++] = points[i].y;
    }
    s->count = n;
    free(points);
}

void plot_sort(plot_data *data)
{
    if (data->count > 0) qsort(data->items, data->count, sizeof(*data->items), compare_series);
    for (size_t i = 0; i < data->count; i++) sort_points(&data->items[i]);
}
