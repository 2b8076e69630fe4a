/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire ckpt show */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/ckpt.h"
#include "commands.h"
#include "json_output.h"
#include "printable.h"
#include "text.h"

enum { WIDEST_NAME = 44, FEWEST_OF_VALUE = 20 };

typedef struct showing {
    const ckpt_options *options;
    input in;
    bool text;
    int name_width, type_width, shape_width, columns;
    uint64_t bytes, stored;
    json_t *tensors, *values;
} showing;

/* As wide as the names, but where a few are very long the others do not follow. */
static rf_result find_widths(showing *s)
{
    for (uint64_t i = 0; i < s->in.count; i++) {
        rf_archive_entry e;
        char shape[128];
        const rf_result r = input_entry_at(&s->in, i, &e);
        if (r < 0) return r;
        const int name = text_width(e.name), width = text_width(rf_shape_format(e.shape, shape, sizeof(shape)));
        if (name > s->name_width) s->name_width = name;
        if (width > s->shape_width) s->shape_width = width;
        if (text_width(input_type(&e)) > s->type_width) s->type_width = text_width(input_type(&e));
    }
    for (uint64_t i = 0; i < s->in.num_values; i++) {
        const int name = text_width(rf_archive_value_name(s->in.archive, i));
        if (name > s->name_width) s->name_width = name;
    }
    if (s->name_width > WIDEST_NAME) s->name_width = WIDEST_NAME;
    return RF_OK;
}

static json_t *shape_json(rf_shape shape)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < shape.rank; i++) json_array_append_new(list, json_integer(shape.dim[i]));
    return list;
}

static rf_result show_tensors(showing *s)
{
    for (uint64_t i = 0; i < s->in.count; i++) {
        rf_archive_entry e;
        char shape[128];
        const rf_result r = input_entry_at(&s->in, i, &e);
        if (r < 0) return r;
        s->bytes += e.bytes;
        s->stored += e.stored_bytes;
        json_array_append_new(s->tensors, json_pack("{s:o,s:s,s:o,s:I,s:I}", "name", json_text(e.name), "type",
                                                    input_type(&e), "shape", shape_json(e.shape), "bytes",
                                                    (json_int_t)e.bytes, "stored_bytes", (json_int_t)e.stored_bytes));
        if (!s->text) continue;
        fputs("  ", stdout);
        print_printable(stdout, e.name, s->name_width);
        printf("  %-*s %-*s %12llu", s->type_width, input_type(&e), s->shape_width,
               rf_shape_format(e.shape, shape, sizeof(shape)), (unsigned long long)e.bytes);
        if (e.stored_bytes != e.bytes) printf("  (%llu stored)", (unsigned long long)e.stored_bytes);
        putchar('\n');
    }
    return RF_OK;
}

/* Names are never cut: they are what one looks for. */
static void print_value(const showing *s, const char *name, const char *value)
{
    char *shown_name = printable(name), *shown = printable(value);
    if (shown_name && shown) {
        const int width = text_width(shown_name) < s->name_width ? s->name_width : text_width(shown_name);
        const int room = s->columns - 2 - width - 2;
        printf("  %s%*s  ", shown_name, width - text_width(shown_name), "");
        print_cut(stdout, shown,
                  s->options->full         ? text_width(shown)
                  : room < FEWEST_OF_VALUE ? FEWEST_OF_VALUE
                                           : room);
        putchar('\n');
    }
    free(shown_name);
    free(shown);
}

static rf_result show_values(showing *s)
{
    for (uint64_t i = 0; i < s->in.num_values; i++) {
        char *text;
        const char *name = rf_archive_value_name(s->in.archive, i);
        const rf_result r = input_value_text(&s->in, i, &text);
        if (r < 0) return r;
        if (s->text) print_value(s, name, text);
        json_array_append_new(s->values, json_pack("{s:o,s:o}", "name", json_text(name), "value", json_text(text)));
        free(text);
    }
    return RF_OK;
}

static json_t *show_parts(const showing *s)
{
    json_t *parts = json_array();
    for (uint64_t i = 0; i < rf_archive_num_parts(s->in.archive); i++) {
        const char *name = rf_archive_part_name(s->in.archive, i);
        json_array_append_new(parts, json_text(name));
        if (!s->text) continue;
        fputs("  part ", stdout);
        print_printable(stdout, name, 0);
        putchar('\n');
    }
    return parts;
}

static void show_head(const showing *s)
{
    const unsigned long long parts = rf_archive_num_parts(s->in.archive);
    print_printable(stdout, s->options->paths[0], 0);
    printf(": %s, %llu tensors", input_kind(&s->in), (unsigned long long)s->in.count);
    if (s->in.archive) printf(", %llu values", (unsigned long long)s->in.num_values);
    if (parts > 0) printf(" in %llu parts", parts);
    putchar('\n');
}

static rf_result show_all(showing *s, json_t **out)
{
    rf_result r = find_widths(s);
    if (r >= 0 && s->text) show_head(s);
    if (r >= 0) r = show_tensors(s);
    if (r >= 0) r = show_values(s);
    if (r < 0) return r;
    json_t *parts = show_parts(s);
    if (s->text)
        printf("  %llu bytes of tensors in %llu\n", (unsigned long long)s->bytes, (unsigned long long)s->stored);
    *out = json_pack("{s:o,s:s,s:O,s:O,s:o,s:I,s:I}", "file", json_text(s->options->paths[0]), "kind",
                     input_kind(&s->in), "tensors", s->tensors, "values", s->values, "parts", parts, "bytes",
                     (json_int_t)s->bytes, "stored_bytes", (json_int_t)s->stored);
    return RF_OK;
}

int ckpt_show(const ckpt_options *o)
{
    showing s = { .options = o,
                  .text = !json_replaces_text(o->json_path),
                  .type_width = 4,
                  .columns = text_columns(stdout),
                  .tensors = json_array(),
                  .values = json_array() };
    json_t *document = NULL;
    rf_result r = input_open(o->paths[0], &s.in);
    if (r >= 0) r = show_all(&s, &document);
    const int code = r < 0 ? command_fail() : json_write(o->json_path, document) ? CODE_OK : CODE_FAILED;
    json_decref(s.tensors);
    json_decref(s.values);
    input_close(&s.in);
    return code;
}
