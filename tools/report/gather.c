/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the files of a run: events, CSV logs, traces, checkpoints. */
#include "report/report.h"

#include <ftw.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <ringfire/ringfire.h>

#include "ckpt/ckpt.h"
#include "printable.h"
#include "trace_merge.h"

enum { MAX_OPEN = 16, MAX_FILES = 10000, MOST_MEMORY = 1000, MOST_WARNINGS = 100, MOST_MATRICES = 64 };

bool report_warn(report_run *run, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    char **grown = realloc(run->warnings, (run->num_warnings + 1) * sizeof(*grown));
    if (!grown) return false;
    run->warnings = grown;
    run->warnings[run->num_warnings] = printable(text);
    return run->warnings[run->num_warnings++] != NULL;
}

/* ---- event files: what devices there were, and when ---- */

static void free_memory(report_run *run)
{
    for (size_t i = 0; i < run->num_memory; i++) free(run->memory[i].name);
    free(run->memory);
    run->memory = NULL;
    run->num_memory = 0;
}

/* "| 0 | variables | 1024 | 2048 |"; other lines are headings. */
static void read_memory_line(report_run *run, const char *line)
{
    report_memory row = { 0 };
    char name[128];
    if (sscanf(line, "| %u | %127[^|]| %" SCNu64 " | %" SCNu64 " |", &row.replica, name, &row.bytes, &row.most) != 4)
        return;
    for (size_t end = strlen(name); end > 0 && name[end - 1] == ' '; end--) name[end - 1] = '\0';
    report_memory *grown = realloc(run->memory, (run->num_memory + 1) * sizeof(*grown));
    if (!grown) return;
    run->memory = grown;
    row.name = printable(name);
    if (row.name) grown[run->num_memory++] = row;
}

/* The latest text counts. */
static void read_memory(report_run *run, const char *text)
{
    free_memory(run);
    for (const char *line = text; *line && run->num_memory < MOST_MEMORY;) {
        read_memory_line(run, line);
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
}

/* Each text has the latest few of the run's log. */
static void read_warnings(report_run *run, const char *text)
{
    while (*text) {
        char line[1024];
        const size_t length = strcspn(text, "\n");
        snprintf(line, sizeof(line), "%.*s", length < sizeof(line) ? (int)length : (int)sizeof(line) - 1, text);
        text += length + (text[length] == '\n');
        char *plain = printable(line);
        bool known = !plain || run->num_warnings >= MOST_WARNINGS;
        for (size_t i = 0; !known && i < run->num_warnings; i++) known = strcmp(run->warnings[i], plain) == 0;
        if (!known) (void)report_warn(run, "%s", line);
        free(plain);
    }
}

/* The last text of each name counts. */
static void read_matrix(report_run *run, const char *name, const char *text)
{
    size_t i = 0;
    while (i < run->num_matrices && strcmp(run->matrices[i].name, name) != 0) i++;
    if (i == run->num_matrices) {
        report_matrix *grown = i < MOST_MATRICES ? realloc(run->matrices, (i + 1) * sizeof(*grown)) : NULL;
        if (!grown) return;
        run->matrices = grown;
        grown[i] = (report_matrix){ .name = strdup(name) };
        if (!grown[i].name) return;
        run->num_matrices++;
    }
    free(run->matrices[i].text);
    run->matrices[i].text = strdup(text);
}

static void read_event(report_run *run, const rf_event *e)
{
    static const char matrix[] = "ringfire/confusion/";
    if (e->kind == RF_EVENT_TEXT && strncmp(e->tag, matrix, sizeof(matrix) - 1) == 0)
        read_matrix(run, e->tag + sizeof(matrix) - 1, e->text);
    if (e->kind == RF_EVENT_TEXT && strcmp(e->tag, "ringfire/warnings") == 0) read_warnings(run, e->text);
    if (e->kind == RF_EVENT_TEXT && strcmp(e->tag, "ringfire/memory") == 0) read_memory(run, e->text);
    if (e->kind == RF_EVENT_TEXT && strcmp(e->tag, "ringfire/devices") == 0) {
        free(run->devices);
        run->devices = strdup(e->text);
    }
    if (e->kind != RF_EVENT_SCALAR) return;
    if (run->begun <= 0 || e->wall_time < run->begun) run->begun = e->wall_time;
    if (e->wall_time > run->ended) run->ended = e->wall_time;
}

static void read_events(report_run *run, const char *path)
{
    rf_event_reader *reader;
    rf_event event;
    rf_result r = rf_event_reader_open(path, &reader);
    while (r >= 0 && (r = rf_event_reader_next(reader, &event)) == RF_OK) read_event(run, &event);
    if (r < 0) (void)report_warn(run, "%s", rf_error_message());
    rf_event_reader_close(&reader);
}

/* ---- traces ---- */

static report_span *find_span(report_spans *spans, const char *name)
{
    for (size_t i = 0; i < spans->count; i++)
        if (strcmp(spans->items[i].name, name) == 0) return &spans->items[i];
    if (spans->count == spans->capacity) {
        const size_t capacity = spans->capacity ? 2 * spans->capacity : 32;
        report_span *grown = realloc(spans->items, capacity * sizeof(*grown));
        if (!grown) return NULL;
        spans->items = grown;
        spans->capacity = capacity;
    }
    report_span *made = &spans->items[spans->count];
    *made = (report_span){ .name = printable(name) };
    if (!made->name) return NULL;
    spans->count++;
    return made;
}

/* Runs and programs hold the operations, and the parts of the host: they are left out. */
static report_spans *place_of(report_run *run, const char *category)
{
    if (strcmp(category, "op") == 0) return &run->operations;
    return strcmp(category, "replica") == 0 || strcmp(category, "user") == 0 ? &run->host : NULL;
}

static void read_trace(report_run *run, const char *path)
{
    trace_file trace = { .path = path };
    FILE *file = fopen(path, "re");
    if (!file) return;
    const char *problem = trace_read(file, &trace);
    fclose(file);
    size_t i;
    const json_t *event;
    /* A file of JSON that is no trace is somebody else's. */
    if (!problem) run->traces++;
    if (!problem && trace.cut) (void)report_warn(run, "%s is truncated, and is used as far as it goes", path);
    json_array_foreach(problem ? NULL : trace.events, i, event)
    {
        const char *name = json_string_value(json_object_get(event, "name"));
        const char *category = json_string_value(json_object_get(event, "cat"));
        report_spans *place = name && category ? place_of(run, category) : NULL;
        report_span *span = place ? find_span(place, name) : NULL;
        if (!span) continue;
        span->seconds += 1e-6 * json_number_value(json_object_get(event, "dur"));
        span->count++;
    }
    json_decref(trace.events);
}

static int by_seconds(const void *a, const void *b)
{
    const double x = ((const report_span *)a)->seconds, y = ((const report_span *)b)->seconds;
    return (x < y) - (x > y);
}

/* ---- checkpoints ---- */

static void read_checkpoint(report_run *run, const char *path, const struct stat *status)
{
    input in;
    if (input_open(path, &in) < 0) {
        (void)report_warn(run, "%s", rf_error_message());
        return;
    }
    report_file *grown = realloc(run->checkpoints, (run->num_checkpoints + 1) * sizeof(*grown));
    if (grown) {
        run->checkpoints = grown;
        const size_t skipped = strlen(run->path);
        const char *name = path + skipped + (path[skipped] == '/');
        report_file *file = &grown[run->num_checkpoints];
        *file = (report_file){ printable(name), (uint64_t)status->st_size, in.count, (double)status->st_mtime };
        if (file->name) run->num_checkpoints++;
    }
    input_close(&in);
}

static int by_time(const void *a, const void *b)
{
    const double x = ((const report_file *)a)->written, y = ((const report_file *)b)->written;
    return (x > y) - (x < y);
}

/* ---- a directory ---- */

/* nftw() passes nothing of the caller's. */
static _Thread_local report_run *visited;
static _Thread_local size_t files_left;

static int visit_file(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    const char *name = path + place->base;
    if (kind != FTW_F || !S_ISREG(status->st_mode)) return 0;
    if (files_left-- == 0) return 1;
    if (strstr(name, "tfevents"))
        read_events(visited, path);
    else if (path_ends_with(name, ".json"))
        read_trace(visited, path);
    else if (path_ends_with(name, ".rfck"))
        read_checkpoint(visited, path, status);
    return 0;
}

static const plot_series *find_values(const report_run *run, const char *tag, const char *half)
{
    for (size_t i = 0; i < run->curves.count; i++) {
        const plot_series *s = &run->curves.items[i];
        if (strcmp(s->tag, tag) == 0 && strstr(s->run, half)) return s;
    }
    return NULL;
}

/* Values that are infinite or NaN, and a validation that has been getting worse for a third of the epochs. */
static void look_at_values(report_run *run)
{
    for (size_t i = 0; i < run->curves.count; i++) {
        const plot_series *s = &run->curves.items[i];
        for (size_t k = 0; k < s->count; k++)
            if (!isfinite(s->y[k])) {
                (void)report_warn(run, "%s is not finite at %g", s->tag, s->x[k]);
                break;
            }
    }
    const plot_series *s = find_values(run, "epoch_loss", "validation");
    size_t best = 0;
    for (size_t k = 0; s && k < s->count; k++)
        if (s->y[k] < s->y[best]) best = k;
    if (s && s->count >= 6 && 3 * (s->count - 1 - best) >= s->count)
        (void)report_warn(run, "the loss of the validation was least in epoch %g of %zu: the model overfits since",
                          s->x[best] + 1, s->count);
}

bool report_gather(report_run *run, const char *path)
{
    *run = (report_run){ .path = path };
    if (!plot_load(&run->curves, path, "")) return false;
    plot_sort(&run->curves);
    visited = run;
    files_left = MAX_FILES;
    if (nftw(path, visit_file, MAX_OPEN, FTW_PHYS) > 0)
        (void)report_warn(run, "there are more than %d files below %s; the others were not read", MAX_FILES, path);
    visited = NULL;
    report_spans *const all[] = { &run->host, &run->operations };
    for (int i = 0; i < 2; i++)
        if (all[i]->count > 0) qsort(all[i]->items, all[i]->count, sizeof(report_span), by_seconds);
    if (run->num_checkpoints > 0) qsort(run->checkpoints, run->num_checkpoints, sizeof(report_file), by_time);
    look_at_values(run);
    if (run->curves.count > 0 || run->traces > 0 || run->num_checkpoints > 0) return true;
    fputs("ringfire: report: '", stderr);
    print_printable(stderr, path, 0);
    fputs("' has no event files, CSV logs, traces or checkpoints\n", stderr);
    return false;
}

void report_free(report_run *run)
{
    report_spans *const all[] = { &run->host, &run->operations };
    for (int i = 0; i < 2; i++) {
        for (size_t k = 0; k < all[i]->count; k++) free(all[i]->items[k].name);
        free(all[i]->items);
    }
    for (size_t i = 0; i < run->num_checkpoints; i++) free(run->checkpoints[i].name);
    for (size_t i = 0; i < run->num_warnings; i++) free(run->warnings[i]);
    for (size_t i = 0; i < run->num_matrices; i++) {
        free(run->matrices[i].name);
        free(run->matrices[i].text);
    }
    free(run->matrices);
    free(run->checkpoints);
    free(run->warnings);
    free(run->devices);
    free_memory(run);
    plot_data_free(&run->curves);
    *run = (report_run){ 0 };
}
