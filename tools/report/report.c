/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire report: a run as one page. */
#include "report/report.h"

#include "commands.h"
#include "json_output.h"
#include "options.h"

typedef struct arguments {
    const char *path, *out, *json_path;
} arguments;

static const struct argp_option options[] = {
    { "out", 'o', "FILE", 0, "Write this file (default: report.html)", 0 },
    JSON_OPTION,
    { 0 },
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    arguments *a = state->input;
    switch (key) {
    case 'o': a->out = text; return 0;
    case 'j': a->json_path = text ? text : "-"; return 0;
    case ARGP_KEY_ARG:
        if (a->path) argp_error(state, "'%s' is a second RUN; 'ringfire plot' compares runs", text);
        a->path = text;
        return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "RUN is missing: name the directory of a training"); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static json_t *spans_json(const report_spans *spans)
{
    json_t *list = json_array();
    for (size_t i = 0; i < spans->count; i++)
        json_array_append_new(list, json_pack("{s:o,s:o,s:I}", "name", json_text(spans->items[i].name), "seconds",
                                              json_number(spans->items[i].seconds), "count",
                                              (json_int_t)spans->items[i].count));
    return list;
}

static json_t *memory_json(const report_run *run)
{
    json_t *list = json_array();
    for (size_t i = 0; i < run->num_memory; i++)
        json_array_append_new(list,
                              json_pack("{s:I,s:o,s:I,s:I}", "replica", (json_int_t)run->memory[i].replica, "memory",
                                        json_text(run->memory[i].name), "bytes", (json_int_t)run->memory[i].bytes,
                                        "most", (json_int_t)run->memory[i].most));
    return list;
}

static json_t *run_json(const report_run *run, const char *out)
{
    json_t *checkpoints = json_array(), *warnings = json_array();
    for (size_t i = 0; i < run->num_checkpoints; i++)
        json_array_append_new(checkpoints, json_text(run->checkpoints[i].name));
    for (size_t i = 0; i < run->num_warnings; i++) json_array_append_new(warnings, json_text(run->warnings[i]));
    return json_pack("{s:o,s:I,s:I,s:o,s:o,s:o,s:o,s:o}", "file", json_text(out), "curves",
                     (json_int_t)run->curves.count, "traces", (json_int_t)run->traces, "host", spans_json(&run->host),
                     "operations", spans_json(&run->operations), "memory", memory_json(run), "checkpoints", checkpoints,
                     "warnings", warnings);
}

static bool make_report(const arguments *a)
{
    report_run run;
    const char *out = a->out ? a->out : "report.html";
    bool ok = report_gather(&run, a->path) && report_write(&run, out);
    if (ok && !json_replaces_text(a->json_path))
        printf("%s: %zu curves, %u traces, %zu checkpoints, %zu warnings\n", out, run.curves.count, run.traces,
               run.num_checkpoints, run.num_warnings);
    if (ok) ok = json_write(a->json_path, a->json_path ? run_json(&run, out) : NULL);
    report_free(&run);
    return ok;
}

int command_report(int argc, char **argv)
{
    const struct argp parser = { options,
                                 parse_option,
                                 "RUN",
                                 "Makes one page of all that a training has left in a directory and below it: curves "
                                 "of event files and CSV logs, devices with their shares and memory, where the time of "
                                 "a step goes (from traces), checkpoints, warnings. The page needs no other file.",
                                 NULL,
                                 NULL,
                                 NULL };
    arguments a = { 0 };
    command_parse(&parser, argc, argv, 0, &a);
    return json_can_write(a.json_path) && make_report(&a) ? CODE_OK : CODE_FAILED;
}
