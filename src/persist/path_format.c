/* SPDX-License-Identifier: Apache-2.0 */
#include "persist/path_format.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/numbers.h"

/* A field of the pattern: the text between braces. */
typedef struct field {
    char name[64];
    bool zeros;
    uint32_t width, digits; /* digits: UINT32_MAX when not given */
    char conversion;        /* d, f, e, g; 0: not given */
    const char *end;        /* after the closing brace */
} field;

static uint32_t read_small_number(const char **at)
{
    uint32_t number = 0;
    for (; isdigit((unsigned char)**at); ++*at) number = number < 100 ? number * 10 + (uint32_t)(**at - '0') : number;
    return number;
}

/* `at` stands on the opening brace. */
static rf_result read_field(const char *pattern, const char *at, field *out)
{
    *out = (field){ .digits = UINT32_MAX };
    const char *c = at + 1;
    const size_t length = strcspn(c, ":{}");
    if (length > 0 && length < sizeof(out->name)) memcpy(out->name, c, length);
    c += length;
    if (out->name[0] && *c == ':') {
        c++;
        if (*c == '0') out->zeros = true;
        out->width = read_small_number(&c);
        if (*c == '.') {
            c++;
            out->digits = read_small_number(&c);
        }
        if (*c && strchr("dfeg", *c)) out->conversion = *c++;
    }
    if (!out->name[0] || *c != '}' || out->width > 64 || (out->digits != UINT32_MAX && out->digits > 32))
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "'%s': '%s' is not a valid place for a number; write {epoch}, {epoch:03d} or {val_loss:.2f}, "
                       "and {{ for a brace",
                       pattern, at);
    out->end = c + 1;
    return RF_OK;
}

/* Appends to a string that it replaces. */
static rf_result path_append(char **text, const char *more, size_t length)
{
    char *longer = rf_asprintf("%s%.*s", *text, (int)length, more);
    if (!longer) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_free(*text);
    *text = longer;
    return RF_OK;
}

static rf_result format_field(const char *pattern, const field *p, uint64_t epoch, const rf_logs *logs, char *buf,
                              size_t size)
{
    double value = 0;
    const bool is_epoch = strcmp(p->name, "epoch") == 0;
    if (is_epoch) {
        RF_REQUIRE(!p->conversion || p->conversion == 'd', "'%s': {epoch} is a whole number; use d", pattern);
        snprintf(buf, size, p->zeros ? "%0*llu" : "%*llu", (int)p->width, (unsigned long long)epoch);
        return RF_OK;
    }
    RF_REQUIRE(rf_logs_get(logs, p->name, &value),
               "'%s': there is no value '%s'; for braces that are part of a name write {{ and }}", pattern, p->name);
    RF_REQUIRE(p->conversion != 'd', "'%s': {%s} is not a whole number; use f, e or g", pattern, p->name);
    const int digits = p->digits == UINT32_MAX ? 6 : (int)p->digits, width = (int)p->width;
    switch (p->conversion) {
    case 'f': rf_number_print(buf, size, p->zeros ? "%0*.*f" : "%*.*f", width, digits, value); break;
    case 'e': rf_number_print(buf, size, p->zeros ? "%0*.*e" : "%*.*e", width, digits, value); break;
    default: rf_number_print(buf, size, p->zeros ? "%0*.*g" : "%*.*g", width, digits, value); break;
    }
    return RF_OK;
}

/* A brace in the name of a directory that no value could be meant by, such as {1}. */
static bool is_plain_brace(const char *at, const char *directory_end, const rf_logs *logs)
{
    char name[64] = "";
    double value;
    if (at >= directory_end) return false;
    const char *c = at + 1;
    const size_t length = strcspn(c, ":{}/");
    if (length < sizeof(name)) memcpy(name, c, length);
    if (rf_logs_get(logs, name, &value)) return false;
    while (isalnum((unsigned char)*c) || *c == '_') c++;
    return length == 0 || isdigit((unsigned char)at[1]) || c != at + 1 + length;
}

/* A pattern consists of these: text, or a field. */
typedef struct piece {
    const char *text;
    size_t length; /* 0: a field */
    field field;
    const char *end;
} piece;

static rf_result read_piece(const char *pattern, const char *at, const rf_logs *logs, piece *out)
{
    const char *slash = strrchr(pattern, '/');
    *out = (piece){ .text = at, .length = strcspn(at, "{}") };
    const bool brace = out->length == 0, twice = brace && at[0] == at[1];
    if (twice || (brace && (*at == '}' || is_plain_brace(at, slash ? slash : pattern, logs)))) out->length = 1;
    out->end = at + out->length + twice;
    if (out->length > 0) return RF_OK;
    RF_TRY(read_field(pattern, at, &out->field));
    out->end = out->field.end;
    return RF_OK;
}

rf_result rf_path_format(const char *pattern, uint64_t epoch, const rf_logs *logs, char **out)
{
    *out = rf_strdup("");
    rf_result r = *out ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (const char *at = pattern; r >= 0 && *at;) {
        piece p;
        char number[400];
        r = read_piece(pattern, at, logs, &p);
        if (r >= 0 && p.length == 0) r = format_field(pattern, &p.field, epoch, logs, number, sizeof(number));
        if (r >= 0) r = p.length > 0 ? path_append(out, p.text, p.length) : path_append(out, number, strlen(number));
        if (r >= 0) at = p.end;
    }
    if (r < 0) {
        rf_free(*out);
        *out = NULL;
    }
    return r;
}

rf_result rf_path_fixed(const char *pattern, const rf_logs *logs, char **out, const char **rest)
{
    *out = rf_strdup("");
    *rest = pattern;
    rf_result r = *out ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    while (r >= 0 && **rest) {
        piece p;
        r = read_piece(pattern, *rest, logs, &p);
        if (r < 0 || p.length == 0) break;
        r = path_append(out, p.text, p.length);
        *rest = p.end;
    }
    if (r >= 0) return RF_OK;
    rf_free(*out);
    *out = NULL;
    return r;
}

/* ---- names with one number ---- */

rf_result rf_numbered_name_parse(const char *prefix, const char *suffix, rf_numbered_name *out)
{
    *out = (rf_numbered_name){ 0 };
    RF_REQUIRE(*prefix && !strchr(prefix, '/'), "prefix '%s' is not a file name", prefix);
    const char *brace = strchr(prefix, '{');
    if (!brace) {
        out->before = rf_asprintf("%s-", prefix);
        out->after = rf_strdup(suffix);
    } else {
        field p;
        RF_TRY(read_field(prefix, brace, &p));
        RF_REQUIRE(strcmp(p.name, "epoch") == 0 && (!p.conversion || p.conversion == 'd') && (p.zeros || !p.width) &&
                       !strchr(p.end, '{'),
                   "prefix '%s': it may contain only {epoch} or, for example, {epoch:03d}, once", prefix);
        out->width = p.width;
        out->before = rf_asprintf("%.*s", (int)(brace - prefix), prefix);
        out->after = rf_asprintf("%s%s", p.end, suffix);
    }
    if (out->before && out->after) return RF_OK;
    rf_numbered_name_free(out);
    return RF_ERROR_OUT_OF_HOST_MEMORY;
}

void rf_numbered_name_free(rf_numbered_name *name)
{
    rf_free(name->before);
    rf_free(name->after);
    *name = (rf_numbered_name){ 0 };
}

char *rf_numbered_name_make(const rf_numbered_name *name, uint64_t number)
{
    return rf_asprintf("%s%0*llu%s", name->before, (int)name->width, (unsigned long long)number, name->after);
}

bool rf_numbered_name_match(const rf_numbered_name *name, const char *file, uint64_t *number, const char **rest)
{
    const size_t before = strlen(name->before), after = strlen(name->after);
    if (strncmp(file, name->before, before) != 0 || !isdigit((unsigned char)file[before])) return false;
    const char *c = file + before;
    *number = 0;
    for (; isdigit((unsigned char)*c); c++) {
        const uint64_t digit = (uint64_t)(*c - '0');
        if (*number > (UINT64_MAX - digit) / 10) return false;
        *number = *number * 10 + digit;
    }
    if (strncmp(c, name->after, after) != 0) return false;
    *rest = c + after;
    return true;
}
