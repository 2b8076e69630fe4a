/* SPDX-License-Identifier: Apache-2.0 */
/* Values as text, as Python and its json module write them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/numbers.h"
#include "base/utf8.h"
#include "text/jinja/jinja.h"

typedef struct writer {
    rf_jinja_run *run;
    rf_text_bytes *out;
    bool json;
    int indent; /* of JSON; below 0: one line */
} writer;

static rf_result put_text(writer *w, const char *text)
{
    return rf_text_bytes_append(w->out, text, strlen(text));
}

/* The shortest digits that give the number back. */
static rf_result put_number(writer *w, double number)
{
    char text[40];
    if (!isfinite(number))
        return put_text(w, isnan(number) ? (w->json ? "NaN" : "nan")
                           : w->json     ? (number > 0 ? "Infinity" : "-Infinity")
                           : number > 0  ? "inf"
                                         : "-inf");
    int digits = 1;
    while (rf_number_print(text, sizeof(text), "%.*e", digits - 1, number) && digits < 17 &&
           rf_number_parse(text, NULL) != number)
        digits++;
    const int exponent = atoi(strchr(text, 'e') + 1);
    if (exponent < -4 || exponent >= 16) {
        rf_number_print(text, sizeof(text), "%.*e", digits - 1, number);
    } else {
        rf_number_print(text, sizeof(text), "%.*f", digits - 1 > exponent ? digits - 1 - exponent : 0, number);
        if (!strchr(text, '.')) memcpy(text + strlen(text), ".0", sizeof(".0"));
    }
    return put_text(w, text);
}

/* A text in quotes: double ones in JSON, else single ones unless it has them and no double ones. */
static rf_result put_quoted(writer *w, const char *text, size_t size)
{
    const bool has_single = size > 0 && memchr(text, '\'', size), has_double = size > 0 && memchr(text, '"', size);
    const char quote = w->json || (has_single && !has_double) ? '"' : '\'';
    RF_TRY(rf_jinja_step(w->run, size / 64));
    RF_TRY(rf_text_bytes_append(w->out, &quote, 1));
    for (size_t i = 0; i < size; i++) {
        const char c = text[i];
        static const char letters[] = "n\nt\tr\rb\bf\f";
        char escape[8] = { '\\', c, 0 };
        const size_t known = w->json ? 10 : 6;
        for (size_t k = 0; k < known; k += 2)
            if (letters[k + 1] == c) escape[1] = letters[k];
        if (c == quote || c == '\\' || escape[1] != c)
            RF_TRY(put_text(w, escape));
        else if ((uint8_t)c < 32 || (c == 127 && !w->json)) {
            snprintf(escape, sizeof(escape), w->json ? "\\u%04x" : "\\x%02x", (unsigned)(uint8_t)c);
            RF_TRY(put_text(w, escape));
        } else
            RF_TRY(rf_text_bytes_append(w->out, &c, 1));
    }
    return rf_text_bytes_append(w->out, &quote, 1);
}

/* Between the items of a list or an object, and at its ends, in JSON with an indent. */
static rf_result put_break(writer *w, uint32_t level)
{
    static const char spaces[33] = "                                ";
    if (w->indent < 0) return RF_OK;
    RF_TRY(put_text(w, "\n"));
    for (size_t left = (size_t)w->indent * level; left > 0;) {
        const size_t some = left < 32 ? left : 32;
        RF_TRY(rf_text_bytes_append(w->out, spaces, some));
        left -= some;
    }
    return RF_OK;
}

static rf_result put_value(writer *w, const rf_jinja_value *value, uint32_t level);

static rf_result put_comma(writer *w, uint32_t i, uint32_t level)
{
    if (i > 0) RF_TRY(put_text(w, w->indent < 0 ? ", " : ","));
    return put_break(w, level + 1);
}

static rf_result put_list(writer *w, const rf_jinja_list *list, uint32_t level)
{
    const bool round = list->tuple && !w->json;
    RF_TRY(put_text(w, round ? "(" : "["));
    for (uint32_t i = 0; i < list->count; i++) {
        RF_TRY(put_comma(w, i, level));
        RF_TRY(put_value(w, &list->items[i], level + 1));
    }
    if (list->count > 0) RF_TRY(put_break(w, level));
    return put_text(w, !round ? "]" : list->count == 1 ? ",)" : ")");
}

static rf_result put_dict(writer *w, const rf_jinja_dict *dict, uint32_t level)
{
    RF_TRY(put_text(w, "{"));
    for (uint32_t i = 0; i < dict->count; i++) {
        RF_TRY(put_comma(w, i, level));
        RF_TRY(put_quoted(w, dict->entries[i].name, dict->entries[i].size));
        RF_TRY(put_text(w, ": "));
        RF_TRY(put_value(w, &dict->entries[i].value, level + 1));
    }
    if (dict->count > 0) RF_TRY(put_break(w, level));
    return put_text(w, "}");
}

static rf_result put_any(writer *w, const rf_jinja_value *value, uint32_t level)
{
    char text[96];
    switch (value->type) {
    case RF_JINJA_NONE: return put_text(w, w->json ? "null" : "None");
    case RF_JINJA_BOOL:
        return put_text(w, value->is.boolean ? (w->json ? "true" : "True") : w->json ? "false" : "False");
    case RF_JINJA_INT: snprintf(text, sizeof(text), "%lld", (long long)value->is.integer); return put_text(w, text);
    case RF_JINJA_FLOAT: return put_number(w, value->is.number);
    case RF_JINJA_STRING: return put_quoted(w, value->is.string.bytes, value->is.string.size);
    case RF_JINJA_LIST: return put_list(w, value->is.list, level);
    case RF_JINJA_DICT:
        if (!value->is.dict->is_namespace) return put_dict(w, value->is.dict, level);
        break;
    case RF_JINJA_UNDEFINED:
        if (!w->json) return put_text(w, "Undefined");
        break;
    case RF_JINJA_LOOP:
    case RF_JINJA_CALLABLE: break;
    }
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s cannot be written as text", rf_jinja_describe(value, text));
}

static rf_result put_value(writer *w, const rf_jinja_value *value, uint32_t level)
{
    rf_result r = rf_jinja_enter(w->run);
    if (r >= 0) r = put_any(w, value, level);
    rf_jinja_leave(w->run);
    return r;
}

rf_result rf_jinja_write(rf_jinja_run *run, const rf_jinja_value *value, rf_text_bytes *out)
{
    writer w = { .run = run, .out = out, .indent = -1 };
    if (value->type == RF_JINJA_UNDEFINED) return RF_OK;
    if (value->type != RF_JINJA_STRING) return put_value(&w, value, 0);
    RF_TRY(rf_jinja_step(run, value->is.string.size / 64));
    return rf_text_bytes_append(out, value->is.string.bytes, value->is.string.size);
}

/* Ends a text that was written: it counts as memory of the run. */
static rf_result keep_text(rf_jinja_run *run, rf_result r, rf_text_bytes *text, rf_jinja_value *out)
{
    if (r >= 0) r = rf_jinja_copy(run, text->bytes, text->size, out);
    rf_text_bytes_free(text);
    return r;
}

rf_result rf_jinja_to_string(rf_jinja_run *run, const rf_jinja_value *value, rf_jinja_value *out)
{
    rf_text_bytes text = { .limit = (size_t)run->memory + 1 };
    if (value->type == RF_JINJA_STRING) {
        *out = *value;
        return RF_OK;
    }
    return keep_text(run, rf_jinja_write(run, value, &text), &text, out);
}

rf_result rf_jinja_to_json(rf_jinja_run *run, const rf_jinja_value *value, int indent, rf_jinja_value *out)
{
    rf_text_bytes text = { .limit = (size_t)run->memory + 1 };
    writer w = { .run = run, .out = &text, .json = true, .indent = indent };
    return keep_text(run, put_value(&w, value, 0), &text, out);
}
