/* SPDX-License-Identifier: Apache-2.0 */
/* From a status to lines. Pure. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <ringfire/common.h>

#include "printable.h"
#include "text.h"
#include "top/top.h"

enum { LINE_BYTES = 2048, BAR = 20 };
/* Columns of the table of replicas, and of the terminals that have them. */
enum { NUMBERS = 17, ADDRESS = 16, SHARE = 9, WITH_ADDRESS = 72, WITH_BARS = 100 };

typedef struct view {
    FILE *out;
    int columns, rows, used;
} view;

static bool has_room(const view *v)
{
    return v->rows == 0 || v->used < v->rows;
}

/* Texts come from another process: whatever is no text is shown as such. */
static void put_line(view *v, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put_line(view *v, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list args;
    if (!has_room(v)) return;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    char *plain = printable(line);
    print_cut(v->out, plain ? plain : "", v->columns);
    fputc('\n', v->out);
    free(plain);
    v->used++;
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static double number_of(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static long long count_of(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

static bool is_known(const json_t *object, const char *name)
{
    return json_is_number(json_object_get(object, name));
}

static const char *duration_text(double seconds, char text[32])
{
    const unsigned long long s = seconds > 0 ? (unsigned long long)fmin(seconds, 1e15) : 0;
    if (s < 60)
        snprintf(text, 32, "%llu s", s);
    else if (s < 3600)
        snprintf(text, 32, "%llu min %llu s", s / 60, s % 60);
    else if (s < 86400)
        snprintf(text, 32, "%llu h %llu min", s / 3600, s / 60 % 60);
    else
        snprintf(text, 32, "%llu d %llu h", s / 86400, s / 3600 % 24);
    return text;
}

/* "#####-----" */
static const char *bar_text(double part, char text[BAR + 1])
{
    const double whole = part < 0 ? 0 : part > 1 ? 1 : part;
    const int full = (int)(whole * BAR + 0.5);
    for (int i = 0; i < BAR; i++) text[i] = i < full ? '#' : '-';
    text[BAR] = '\0';
    return text;
}

static const char *plural_end(size_t count)
{
    return count == 1 ? "" : "s";
}

static void put_job(view *v, const json_t *status)
{
    char since[32];
    const size_t workers = json_array_size(json_object_get(status, "workers"));
    const size_t replicas = json_array_size(json_object_get(status, "replicas"));
    put_line(v, "%s on %s, process %lld, for %s: %zu worker%s, %zu replica%s", text_of(status, "program"),
             text_of(status, "host"), count_of(status, "process"), duration_text(number_of(status, "seconds"), since),
             workers, plural_end(workers), replicas, plural_end(replicas));
}

static void put_progress(view *v, const json_t *status)
{
    const json_t *p = json_object_get(status, "progress");
    char epochs[32] = "", batches[64] = "", left[32], drawn[BAR + 1];
    if (!json_is_object(p)) {
        put_line(v, "step      %lld", count_of(status, "steps"));
        return;
    }
    if (is_known(p, "epochs")) snprintf(epochs, sizeof(epochs), " of %lld", count_of(p, "epochs"));
    if (count_of(p, "batches") > 0)
        snprintf(batches, sizeof(batches), " of %lld  %s", count_of(p, "batches"),
                 bar_text((double)count_of(p, "batch") / (double)count_of(p, "batches"), drawn));
    put_line(v, "epoch     %lld%s, batch %lld%s", count_of(p, "epoch") + 1, epochs, count_of(p, "batch"), batches);
    if (is_known(p, "remaining_seconds"))
        put_line(v, "left      %s", duration_text(number_of(p, "remaining_seconds"), left));
}

static void put_speed(view *v, const json_t *status)
{
    const double idle = number_of(status, "idle_seconds");
    char since[32];
    if (count_of(status, "steps") == 0)
        put_line(v, "speed     no step yet");
    else if (number_of(status, "steps_per_second") == 0)
        put_line(v, "speed     no step for %s", duration_text(idle, since));
    else
        put_line(v, "speed     %.0f examples/s, %.4g steps/s", number_of(status, "examples_per_second"),
                 number_of(status, "steps_per_second"));
}

/* As many values in a line as fit. */
static void put_values(view *v, const json_t *status)
{
    char line[LINE_BYTES] = "", item[LINE_BYTES];
    const char *title = "values", *name;
    json_t *value;
    json_object_foreach(json_object_get(json_object_get(status, "progress"), "values"), name, value)
    {
        char number[32] = "not finite";
        if (json_is_number(value)) snprintf(number, sizeof(number), "%.4g", json_number_value(value));
        snprintf(item, sizeof(item), "%s%.64s %s", line[0] ? "  " : "", name, number);
        if (line[0] && 10 + text_width(line) + text_width(item) > v->columns) {
            put_line(v, "%-9s %s", title, line);
            title = "";
            line[0] = '\0';
            snprintf(item, sizeof(item), "%.64s %s", name, number);
        }
        strncat(line, item, sizeof(line) - strlen(line) - 1);
    }
    if (line[0]) put_line(v, "%-9s %s", title, line);
}

/* Cut or filled up to a number of characters. */
static void fit_text(char *to, size_t size, const char *from, int width)
{
    FILE *out = fmemopen(to, size, "w");
    char *plain = printable(from);
    if (out && plain) {
        print_cut(out, plain, width);
        fprintf(out, "%*s", text_width(plain) < width ? width - text_width(plain) : 0, "");
    }
    if (out) fclose(out);
    free(plain);
}

static void put_replica(view *v, const json_t *replica, const json_t *workers, int width, bool wide, bool bars)
{
    const long long rank = count_of(replica, "rank");
    const double share = number_of(replica, "share");
    char name[LINE_BYTES], address[LINE_BYTES] = "", drawn[BAR + 1], part[16];
    fit_text(name, sizeof(name), text_of(replica, "device"), width);
    if (wide) fit_text(address, sizeof(address), text_of(json_array_get(workers, (size_t)rank), "address"), ADDRESS);
    snprintf(part, sizeof(part), "%.1f %%", 100 * share);
    put_line(v, "%-9lld%-8lld%s%s%9s%s%s", count_of(replica, "replica"), rank, address, name, part, bars ? "  " : "",
             bars ? bar_text(share, drawn) : "");
}

/* `below`: lines that follow. */
static void put_replicas(view *v, const json_t *status, int below)
{
    const json_t *list = json_object_get(status, "replicas"), *workers = json_object_get(status, "workers");
    const bool wide = v->columns >= WITH_ADDRESS, bars = v->columns >= WITH_BARS;
    const int width = v->columns - NUMBERS - SHARE - (wide ? ADDRESS : 0) - (bars ? BAR + 2 : 0);
    size_t shown = json_array_size(list);
    char name[LINE_BYTES];
    fit_text(name, sizeof(name), "device", width);
    put_line(v, "%s", "");
    put_line(v, "%-9s%-8s%-*s%s%9s", "replica", "worker", wide ? ADDRESS : 0, wide ? "address" : "", name, "share");
    const int room = v->rows - v->used - below;
    if (v->rows > 0 && (int)shown > room) shown = room > 2 ? (size_t)room - 1 : 1;
    for (size_t i = 0; i < shown; i++) put_replica(v, json_array_get(list, i), workers, width, wide, bars);
    if (shown < json_array_size(list)) put_line(v, "and %zu more", json_array_size(list) - shown);
}

static void put_checkpoint(view *v, const json_t *status)
{
    const json_t *c = json_object_get(status, "checkpoint");
    char age[32];
    if (json_is_object(c))
        put_line(v, "checkpoint %s, %s ago", text_of(c, "path"), duration_text(number_of(c, "age_seconds"), age));
    else
        put_line(v, "checkpoint none yet");
}

static void put_warnings(view *v, const json_t *status)
{
    const json_t *w = json_object_get(status, "warnings"), *list = json_object_get(w, "latest");
    const long long count = count_of(w, "count");
    if (count == 0) return;
    put_line(v, "warnings   %lld%s", count, count > (long long)json_array_size(list) ? ", the latest:" : "");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        put_line(v, "  %s", text ? text : "");
    }
}

void top_print(FILE *out, const json_t *status, int columns, int rows)
{
    view v = { .out = out, .columns = columns, .rows = rows };
    const size_t warnings = json_array_size(json_object_get(json_object_get(status, "warnings"), "latest"));
    put_job(&v, status);
    put_progress(&v, status);
    put_speed(&v, status);
    put_values(&v, status);
    put_replicas(&v, status, 2 + (warnings > 0 ? 1 + (int)warnings : 0));
    put_line(&v, "%s", "");
    put_checkpoint(&v, status);
    put_warnings(&v, status);
}
