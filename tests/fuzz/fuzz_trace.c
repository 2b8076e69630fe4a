/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces that `ringfire trace merge` puts together: the input is one or more files, each ending at a NUL. Traces that
 * are accepted give objects of as many processes as there are files, and JSON.
 */
#include <string.h>

#include "fuzz.h"
#include "trace_merge.h"

enum { MOST_FILES = 4 };

static int read_files(const uint8_t *data, size_t size, trace_file files[MOST_FILES])
{
    int count = 0;
    while (size > 0 && count < MOST_FILES) {
        const uint8_t *end = memchr(data, '\0', size);
        const size_t length = end ? (size_t)(end - data) : size, step = length + (end != NULL);
        FILE *file = length > 0 ? fmemopen((void *)(uintptr_t)data, length, "r") : NULL;
        if (file) {
            trace_file *f = &files[count++];
            *f = (trace_file){ .path = "f" };
            const char *problem = trace_read(file, f);
            fclose(file);
            if (problem) return -count;
            PROMISE(json_is_array(f->events));
        }
        data += step;
        size -= step;
    }
    return count;
}

static void check(const json_t *all, const trace_file *files, int count)
{
    size_t i, expected = count > 0; /* says that they were merged */
    json_t *event;
    for (int k = 0; k < count; k++) {
        for (int j = 0; j < k; j++) PROMISE(files[j].pid != files[k].pid);
        json_array_foreach(files[k].events, i, event) expected += json_is_object(event);
    }
    PROMISE(json_array_size(all) == expected);
    json_array_foreach(all, i, event)
    {
        const json_int_t pid = json_integer_value(json_object_get(event, "pid"));
        bool known = false;
        for (int k = 0; k < count; k++) known |= files[k].pid == pid;
        PROMISE(known);
    }
    char *text = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_t *again = text ? json_loads(text, 0, NULL) : NULL;
    PROMISE(json_array_size(again) == expected);
    json_decref(again);
    free(text);
}

FUZZ_TARGET(trace)
{
    trace_file files[MOST_FILES];
    const int count = read_files(data, size, files);
    if (count > 0) {
        json_t *all = trace_merge(files, count);
        PROMISE(all);
        check(all, files, count);
        json_decref(all);
    }
    for (int i = 0; i < abs(count); i++) json_decref(files[i].events);
    return 0;
}
