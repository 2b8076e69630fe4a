/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

uint32_t bench_number(struct argp_state *state, const char *text, unsigned long most)
{
    char *end;
    const unsigned long n = strtoul(text, &end, 10);
    if (end == text || *end || n == 0 || n > most) argp_error(state, "'%s' is no number from 1 to %lu", text, most);
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
    FILE *file = fopen(json_path, "a");
    return file && fclose(file) == 0 ? true : cannot_write(json_path);
}

int bench_report(const char *json_path, const char *about, table *rows, json_t *result, bool ok)
{
    const bool json_only = bench_json_only(json_path);
    if (about && !json_only) puts(about);
    if (rows && !json_only) table_print(rows, stdout);
    if (json_only ? json_dumpf(result, stdout, JSON_INDENT(2)) != 0 || putchar('\n') == EOF
                  : json_path && json_dump_file(result, json_path, JSON_INDENT(2)) != 0)
        ok = cannot_write(json_path);
    json_decref(result);
    if (rows) table_free(rows);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, uint32_t count)
{
    qsort(values, count, sizeof(double), by_size);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}
