/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_merge.h"

#include <stdlib.h>
#include <string.h>

/* The most that a clock of nanoseconds may show: 146 years either way, so that differences stay within 64 bits. */
static const json_int_t most_ns = (json_int_t)1 << 62;
static const json_int_t most_ranks = (json_int_t)1 << 31;

/* A file that was not ended (the program was killed) lacks its closing bracket, and perhaps half a line. */
static json_t *read_cut(FILE *file)
{
    json_t *events = json_array();
    char *line = NULL;
    size_t capacity = 0;
    for (ssize_t n; events && (n = getline(&line, &capacity, file)) >= 0;) {
        while (n > 0 && strchr("\n,", line[n - 1])) line[--n] = '\0';
        json_t *event = json_loads(line, 0, NULL);
        if (event) json_array_append_new(events, event);
    }
    free(line);
    return events;
}

const char *trace_read(FILE *file, trace_file *f)
{
    f->events = json_loadf(file, 0, NULL);
    f->cut = !f->events;
    if (!f->events && fseek(file, 0, SEEK_SET) == 0) f->events = read_cut(file);
    if (!json_is_array(f->events)) return "is not a trace of Ringfire";
    size_t i;
    json_t *event;
    json_array_foreach(f->events, i, event)
    {
        const char *name = json_string_value(json_object_get(event, "name"));
        if (name && strcmp(name, "ringfire_merged") == 0) f->merged = true;
        if (!name || strcmp(name, "ringfire_clock") != 0) continue;
        const json_t *wall = json_object_get(json_object_get(event, "args"), "wall_start_ns");
        f->wall_ns = json_integer_value(wall);
        f->pid = json_integer_value(json_object_get(event, "pid"));
        f->has_clock =
            json_is_integer(wall) && f->wall_ns >= 0 && f->wall_ns < most_ns && f->pid >= 0 && f->pid < most_ranks;
    }
    return f->has_clock ? NULL : "is not a trace of Ringfire";
}

/* Files of one rank, of two jobs perhaps, stay apart. */
static void number_files(trace_file *files, int count)
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

static int events_append(const trace_file *f, json_int_t zero_ns, json_t *all)
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

json_t *trace_merge(trace_file *files, int count)
{
    json_t *all = json_array();
    json_int_t zero = count > 0 ? files[0].wall_ns : 0;
    int result = all ? 0 : -1;
    for (int i = 1; i < count; i++)
        if (files[i].wall_ns < zero) zero = files[i].wall_ns;
    number_files(files, count);
    if (result == 0 && count > 0) /* that it is no worker's any more */
        result = json_array_append_new(
            all, json_pack("{s:s, s:I, s:s}", "ph", "M", "pid", files[0].pid, "name", "ringfire_merged"));
    for (int i = 0; result == 0 && i < count; i++) result = events_append(&files[i], zero, all);
    if (result == 0) return all;
    json_decref(all);
    return NULL;
}
