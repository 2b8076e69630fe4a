/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire trace merge: the traces of a job's workers as one. */
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "commands.h"

typedef struct trace_file {
    const char *path;
    json_t *events;
    json_int_t wall_ns; /* when its times are zero */
    json_int_t pid;     /* the rank */
    bool has_clock;
} trace_file;

static int refuse(const char *path, const char *why)
{
    fprintf(stderr, "ringfire: trace '%s': %s\n", path, why);
    return -1;
}

/* A file that was not ended (the program was killed) lacks its closing bracket, and perhaps half a line. */
static json_t *load_cut(const char *path)
{
    FILE *file = fopen(path, "re");
    json_t *events = file ? json_array() : NULL;
    char *line = NULL;
    size_t capacity = 0;
    for (ssize_t n; events && (n = getline(&line, &capacity, file)) >= 0;) {
        while (n > 0 && strchr("\n,", line[n - 1])) line[--n] = '\0';
        json_t *event = json_loads(line, 0, NULL);
        if (event) json_array_append_new(events, event);
    }
    free(line);
    if (file) fclose(file);
    return events;
}

static int load(trace_file *f)
{
    json_error_t error;
    f->events = json_load_file(f->path, 0, &error);
    if (!f->events && json_error_code(&error) == json_error_cannot_open_file)
        return refuse(f->path, "cannot be opened");
    if (!f->events) f->events = load_cut(f->path);
    if (!json_is_array(f->events)) return refuse(f->path, "is no trace of Ringfire");
    size_t i;
    json_t *event;
    json_array_foreach(f->events, i, event)
    {
        const char *name = json_string_value(json_object_get(event, "name"));
        if (!name || strcmp(name, "ringfire_clock") != 0) continue;
        const json_t *wall = json_object_get(json_object_get(event, "args"), "wall_start_ns");
        f->wall_ns = json_integer_value(wall);
        f->pid = json_integer_value(json_object_get(event, "pid"));
        f->has_clock = json_is_integer(wall);
    }
    return f->has_clock ? 0 : refuse(f->path, "is no trace of Ringfire");
}

/* Files of one rank, of two jobs perhaps, stay apart. */
static void number(trace_file *files, int count)
{
    for (int i = 0; i < count; i++) {
        json_int_t highest = -1;
        bool taken = false;
        for (int k = 0; k < count; k++) {
            if (files[k].pid > highest) highest = files[k].pid;
            taken |= k < i && files[k].pid == files[i].pid;
        }
        if (taken) files[i].pid = highest + 1;
    }
}

static int append(const trace_file *f, json_int_t zero_ns, json_t *all)
{
    const double shift = (double)(f->wall_ns - zero_ns) / 1e3; /* microseconds */
    size_t i;
    json_t *event;
    json_array_foreach(f->events, i, event)
    {
        const json_t *at = json_object_get(event, "ts");
        if (!json_is_object(event)) continue;
        if (json_is_number(at) && json_object_set_new(event, "ts", json_real(json_number_value(at) + shift)) < 0)
            return -1;
        const char *name = json_string_value(json_object_get(event, "name"));
        if (name && strcmp(name, "ringfire_clock") == 0)
            json_object_set_new(json_object_get(event, "args"), "wall_start_ns", json_integer(zero_ns));
        if (json_object_set_new(event, "pid", json_integer(f->pid)) < 0 || json_array_append(all, event) < 0) return -1;
    }
    return 0;
}

static int write_all_events(const char *path, const json_t *all)
{
    FILE *file = fopen(path, "we");
    bool ok = file && fputs("[\n", file) >= 0;
    size_t i;
    json_t *event;
    json_array_foreach(all, i, event)
    {
        if (!ok) break;
        ok =
            (i == 0 || fputs(",\n", file) >= 0) && json_dumpf(event, file, JSON_COMPACT | JSON_REAL_PRECISION(16)) == 0;
    }
    ok = ok && fputs("\n]\n", file) >= 0;
    if (file && fclose(file) != 0) ok = false;
    if (!ok) fprintf(stderr, "ringfire: cannot write '%s': %s\n", path, strerror(errno));
    return ok ? 0 : -1;
}

static int merge(const char *out, trace_file *files, int count)
{
    json_t *all = json_array();
    json_int_t zero = 0;
    int result = all ? 0 : -1;
    for (int i = 0; result == 0 && i < count; i++) {
        result = load(&files[i]);
        if (result == 0 && (i == 0 || files[i].wall_ns < zero)) zero = files[i].wall_ns;
    }
    if (result == 0) number(files, count);
    for (int i = 0; result == 0 && i < count; i++) result = append(&files[i], zero, all);
    if (result == 0) result = write_all_events(out, all);
    if (result == 0) printf("%s: %zu events of %d files\n", out, json_array_size(all), count);
    for (int i = 0; i < count; i++) json_decref(files[i].events);
    json_decref(all);
    return result;
}

typedef struct words {
    char **items;
    int count;
} words;

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    words *w = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        w->items[w->count++] = text;
        return 0;
    case ARGP_KEY_END:
        if (w->count == 0 || strcmp(w->items[0], "merge") != 0) argp_error(state, "say what to do: merge OUT IN...");
        if (w->count < 3) argp_error(state, "merge takes a file to write and files to read");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int command_trace(int argc, char **argv)
{
    const struct argp parser = {
        NULL,
        parse_option,
        "merge OUT IN...",
        "Puts the traces of a job's workers (RINGFIRE_TRACE) into one file, in which each worker is a process of its "
        "own. "
        "Times are brought together by the hosts' clocks. Look at it in ui.perfetto.dev or chrome://tracing.",
        NULL,
        NULL,
        NULL
    };
    words w = { calloc((size_t)argc + 1, sizeof(char *)), 0 };
    if (!w.items) return EXIT_FAILURE;
    argp_parse(&parser, argc, argv, 0, NULL, &w);
    const int count = w.count - 2;
    trace_file *files = calloc((size_t)count, sizeof(*files));
    int result = files ? 0 : -1;
    for (int i = 0; files && i < count; i++) files[i].path = w.items[2 + i];
    if (files) result = merge(w.items[1], files, count);
    free(files);
    free(w.items);
    return result == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
