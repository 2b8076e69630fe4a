/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "atomic_file.h"

uint32_t bench_number(struct argp_state *state, const char *text, unsigned long most)
{
    char *end;
    const unsigned long n = strtoul(text, &end, 10);
    if (end == text || *end || n == 0 || n > most) argp_error(state, "'%s' is not a number from 1 to %lu", text, most);
    return (uint32_t)n;
}

double bench_seconds(struct argp_state *state, const char *text)
{
    char *end;
    const double seconds = strtod(text, &end);
    if (end == text || *end || !(seconds > 0)) argp_error(state, "'%s' is no time in seconds", text);
    return seconds;
}

bool bench_json_only(const char *json_path)
{
    return json_path && strcmp(json_path, "-") == 0;
}

static bool cannot_write(const char *json_path)
{
    fprintf(stderr, "ringfire: %s: cannot write (%s)\n", bench_json_only(json_path) ? "standard output" : json_path,
            strerror(errno));
    return false;
}

bool bench_can_report(const char *json_path)
{
    if (!json_path || bench_json_only(json_path)) return true;
    atomic_file file;
    if (!atomic_file_begin(&file, json_path)) return cannot_write(json_path);
    atomic_file_abandon(&file);
    return true;
}

static bool write_json(const char *path, const json_t *result)
{
    atomic_file file;
    if (!atomic_file_begin(&file, path)) return false;
    if (json_dumpf(result, file.stream, JSON_INDENT(2)) == 0) return atomic_file_commit(&file);
    atomic_file_abandon(&file);
    return false;
}

int bench_report(const char *json_path, const char *about, table *rows, json_t *result, bool ok)
{
    const bool json_only = bench_json_only(json_path);
    if (about && !json_only) puts(about);
    if (rows && !json_only) table_print(rows, stdout);
    if (json_only ? json_dumpf(result, stdout, JSON_INDENT(2)) != 0 || putchar('\n') == EOF
                  : json_path && !write_json(json_path, result))
        ok = cannot_write(json_path);
    json_decref(result);
    if (rows) table_free(rows);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* The value that has `rank` others before it in order of size. */
static double ranked(const double *values, uint32_t count, uint32_t rank)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t less = 0, same = 0;
        for (uint32_t k = 0; k < count; k++) {
            less += values[k] < values[i];
            same += values[k] == values[i];
        }
        if (less <= rank && rank < less + same) return values[i];
    }
    return NAN; /* some values are NaN */
}

double bench_median(const double *values, uint32_t count)
{
    return (ranked(values, count, (count - 1) / 2) + ranked(values, count, count / 2)) / 2;
}
