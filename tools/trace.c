/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire trace merge: the traces of a job's workers as one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "atomic_file.h"
#include "commands.h"
#include "json_output.h"
#include "options.h"
#include "trace_merge.h"

static int fail_trace(const char *path, const char *why)
{
    fprintf(stderr, "ringfire: trace '%s': %s\n", path, why);
    return -1;
}

/* One that cannot tell anything is left out: a worker that is killed early leaves an empty file. */
static int trace_file_load(trace_file *f)
{
    struct stat status;
    FILE *file = fopen(f->path, "re");
    if (!file) return fail_trace(f->path, "cannot be opened");
    f->empty = fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode) && status.st_size == 0;
    const char *problem = f->empty ? NULL : trace_read(file, f);
    fclose(file);
    if (problem) return fail_trace(f->path, problem);
    if (f->empty) fprintf(stderr, "ringfire: trace '%s' is empty and skipped\n", f->path);
    if (f->cut)
        fprintf(stderr,
                "ringfire: trace '%s' is truncated (its program was killed, or the disk was full) and is used as far "
                "as it goes\n",
                f->path);
    return 0;
}

/* A user who forgets the first name would lose a trace. */
static int check_output(const char *out, const trace_file *files, int count)
{
    struct stat there, input;
    if (stat(out, &there) != 0 || !S_ISREG(there.st_mode)) return 0;
    for (int i = 0; i < count; i++)
        if (stat(files[i].path, &input) == 0 && input.st_dev == there.st_dev && input.st_ino == there.st_ino)
            return fail_trace(out, "is both an input and the output; the first file is the output");
    trace_file old = { .path = out };
    FILE *file = there.st_size > 0 ? fopen(out, "re") : NULL;
    if (!file) return 0;
    const bool is_trace = trace_read(file, &old) == NULL;
    fclose(file);
    json_decref(old.events);
    if (!is_trace || old.merged) return 0;
    return fail_trace(out, "exists and is a worker's trace; the first file is the output: name another one");
}

static int write_all_events(const char *path, const json_t *all)
{
    atomic_file out;
    bool ok = atomic_file_begin(&out, path), begun = ok;
    FILE *file = out.stream;
    ok = ok && fputs("[\n", file) >= 0;
    size_t i;
    json_t *event;
    json_array_foreach(all, i, event)
    {
        if (!ok) break;
        ok =
            (i == 0 || fputs(",\n", file) >= 0) && json_dumpf(event, file, JSON_COMPACT | JSON_REAL_PRECISION(17)) == 0;
    }
    ok = ok && fputs("\n]\n", file) >= 0;
    const int code = errno;
    if (begun && !ok) atomic_file_abandon(&out);
    errno = code;
    if (ok) ok = atomic_file_commit(&out);
    if (!ok) fprintf(stderr, "ringfire: cannot write '%s': %s\n", path, strerror(errno));
    return ok ? 0 : -1;
}

static int trace_report(const char *json_path, const char *out, size_t events, const trace_file *files, int count)
{
    json_t *merged = json_array(), *empty = json_array(), *cut = json_array();
    int used = 0;
    for (int i = 0; i < count; i++) {
        used += !files[i].empty;
        json_array_append_new(files[i].empty ? empty : merged, json_text(files[i].path));
        if (files[i].cut) json_array_append_new(cut, json_text(files[i].path));
    }
    if (!json_replaces_text(json_path)) printf("%s: %zu events of %d files\n", out, events, used);
    return json_write(json_path, json_pack("{s:o,s:I,s:o,s:o,s:o}", "file", json_text(out), "events",
                                           (json_int_t)events, "merged", merged, "empty", empty, "cut", cut))
               ? 0
               : -1;
}

static int merge_traces(const char *json_path, const char *out, trace_file *files, int count)
{
    trace_file *used = calloc((size_t)count, sizeof(*used)); /* without the empty ones */
    json_t *all = NULL;
    int num_used = 0, result = used ? check_output(out, files, count) : fail_trace(out, "no memory");
    for (int i = 0; result == 0 && i < count; i++) {
        result = trace_file_load(&files[i]);
        if (result == 0 && !files[i].empty) used[num_used++] = files[i];
    }
    if (result == 0 && num_used == 0) result = fail_trace(out, "there is nothing to write: all traces are empty");
    if (result == 0) {
        all = trace_merge(used, num_used);
        result = all ? write_all_events(out, all) : fail_trace(out, "no memory for the events");
    }
    if (result == 0) result = trace_report(json_path, out, json_array_size(all), files, count);
    for (int i = 0; i < count; i++) json_decref(files[i].events);
    json_decref(all);
    free(used);
    return result;
}

typedef struct words {
    char **items;
    int count;
    const char *json_path;
} words;

static const struct argp_option argp_options[] = { JSON_OPTION, { 0 } };

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    words *w = state->input;
    switch (key) {
    case 'j': w->json_path = text ? text : "-"; return 0;
    case ARGP_KEY_ARG: w->items[w->count++] = text; return 0;
    case ARGP_KEY_END:
        if (w->count == 0) argp_error(state, "say what to do; the only command is merge");
        if (strcmp(w->items[0], "merge") != 0)
            argp_error(state, "there is no '%s'; the only command is merge", w->items[0]);
        if (w->count == 1) argp_error(state, "merge: OUT, the file to write, is missing");
        if (w->count == 2) argp_error(state, "merge: IN, the files to read, are missing");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int command_trace(int argc, char **argv)
{
    const struct argp parser = {
        argp_options,
        parse_option,
        "merge OUT IN...",
        "Merges the traces of a job's workers (RINGFIRE_TRACE) into one file, in which each worker is a separate "
        "process. Times are aligned by the hosts' clocks. Open it in ui.perfetto.dev or chrome://tracing. Empty "
        "files are left out; OUT is "
        "never one of the traces.",
        NULL,
        NULL,
        NULL
    };
    words w = { .items = calloc((size_t)argc + 1, sizeof(char *)) };
    if (!w.items) return CODE_FAILED;
    command_parse(&parser, argc, argv, 0, &w);
    if (!json_can_write(w.json_path)) return CODE_FAILED;
    const int count = w.count - 2;
    trace_file *files = calloc((size_t)count, sizeof(*files));
    int result = files ? 0 : -1;
    for (int i = 0; files && i < count; i++) files[i].path = w.items[2 + i];
    if (files) result = merge_traces(w.json_path, w.items[1], files, count);
    free(files);
    free(w.items);
    return result == 0 ? CODE_OK : CODE_FAILED;
}
