/* SPDX-License-Identifier: Apache-2.0 */
#include "data/formats/csv.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "base/utf8.h"

/* ---- fields ---- */

enum { FIELD_BYTES = 256, SHOWN_BYTES = 40 };

/* Only the beginning of a longer field is kept: no number and no name that was asked for is as long. */
typedef struct csv_field {
    char text[FIELD_BYTES]; /* without quotes; ends with 0 */
    size_t size;            /* of all of it */
    bool last;              /* of its record */
} csv_field;

typedef struct csv_reader {
    const char *path;
    const unsigned char *at, *end;
    uint64_t line; /* that `at` is in, from 1 */
    char separator;
} csv_reader;

static void keep_byte(csv_field *f, unsigned char byte)
{
    if (f->size < FIELD_BYTES - 1) f->text[f->size] = (char)byte;
    f->size++;
}

/* CR LF, which end one line together. */
static bool is_pair(const csv_reader *r)
{
    return *r->at == '\r' && r->end - r->at > 1 && r->at[1] == '\n';
}

/* After a field: takes what separates it from the next one. False: neither that nor the end of the record. */
static bool take_separator(csv_reader *r, csv_field *f)
{
    f->last = true;
    if (r->at == r->end) return true;
    if (*r->at == (unsigned char)r->separator) {
        f->last = false;
        r->at++;
        return true;
    }
    if (*r->at != '\n' && *r->at != '\r') return false;
    r->at += is_pair(r) ? 2 : 1;
    r->line++;
    return true;
}

static rf_result read_quoted(csv_reader *r, csv_field *f)
{
    const uint64_t begin = r->line;
    r->at++;
    for (;; r->at++) {
        if (r->at == r->end)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s:%llu: the quoted field that begins here does not end", r->path,
                           (unsigned long long)begin);
        if (*r->at == '"') {
            if (r->end - r->at < 2 || r->at[1] != '"') break;
            r->at++;
        }
        if (*r->at == '\n' || (*r->at == '\r' && !is_pair(r))) r->line++;
        keep_byte(f, *r->at);
    }
    r->at++;
    if (take_separator(r, f)) return RF_OK;
    return RF_FAIL(RF_ERROR_CORRUPT_DATA,
                   "%s:%llu: text follows a quoted field; within quotes, quotes have to be doubled", r->path,
                   (unsigned long long)r->line);
}

static void read_unquoted(csv_reader *r, csv_field *f)
{
    const unsigned char *begin = r->at, separator = (unsigned char)r->separator;
    while (r->at < r->end && *r->at != separator && *r->at != '\n' && *r->at != '\r') r->at++;
    f->size = (size_t)(r->at - begin);
    memcpy(f->text, begin, f->size < FIELD_BYTES ? f->size : FIELD_BYTES - 1);
    (void)take_separator(r, f); /* there is one */
}

static rf_result read_field(csv_reader *r, csv_field *f)
{
    f->size = 0;
    rf_result result = RF_OK;
    if (r->at < r->end && *r->at == '"')
        result = read_quoted(r, f);
    else
        read_unquoted(r, f);
    f->text[f->size < FIELD_BYTES ? f->size : FIELD_BYTES - 1] = 0;
    return result;
}

static void skip_empty_lines(csv_reader *r)
{
    csv_field unused = { 0 };
    while (r->at < r->end && *r->at != (unsigned char)r->separator && take_separator(r, &unused)) continue;
}

/* Number of fields of the record that comes next. */
static rf_result count_fields(csv_reader *r, uint32_t *count)
{
    csv_field f = { 0 };
    *count = 0;
    while (!f.last) {
        RF_TRY(read_field(r, &f));
        ++*count;
    }
    return RF_OK;
}

/* ---- a file ---- */

typedef struct csv_table {
    csv_reader first; /* where the first record begins, which may be the header */
    csv_reader data;  /* where the first row begins */
    uint32_t num_columns;
    uint64_t first_line;
    uint64_t rows;    /* or more, where some are damaged */
    rf_csv_use *uses; /* by column */
} csv_table;

/* " ('price')", where the table has names; else "". */
static const char *name_column(const rf_csv_plan *plan, const csv_table *table, uint32_t column, char *text,
                               size_t size)
{
    csv_reader r = table->first;
    csv_field f = { 0 };
    text[0] = 0;
    if (!plan->header) return text;
    for (uint32_t i = 0; i <= column && !f.last; i++)
        if (read_field(&r, &f) < 0) return text;
    snprintf(text, size, " ('%.*s')", SHOWN_BYTES, f.text);
    rf_error_one_line(text);
    return text;
}

static int compare_uses(const void *a, const void *b)
{
    const rf_csv_use *x = a, *y = b;
    if (x->column != y->column) return x->column < y->column ? -1 : 1;
    return x->component != y->component ? (x->component < y->component ? -1 : 1) : 0;
}

static rf_result find_column(const csv_table *table, const char *name, uint32_t *column)
{
    csv_reader r = table->first;
    csv_field f = { 0 };
    bool found = false;
    for (uint32_t i = 0; !f.last; i++) {
        RF_TRY(read_field(&r, &f));
        if (f.size >= FIELD_BYTES || strlen(f.text) != f.size || strcmp(f.text, name) != 0) continue;
        if (found)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA,
                           "%s:%llu: columns %u and %u have the name '%s'; ask for one by number", table->first.path,
                           (unsigned long long)table->first_line, *column, i, name);
        found = true;
        *column = i;
    }
    if (found) return RF_OK;
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s:%llu: the header has no column '%s'", table->first.path,
                   (unsigned long long)table->first_line, name);
}

static rf_result resolve_columns(const rf_csv_plan *plan, csv_table *table)
{
    memcpy(table->uses, plan->uses, plan->num_uses * sizeof(table->uses[0]));
    for (uint32_t u = 0; u < plan->num_uses; u++) {
        rf_csv_use *use = &table->uses[u];
        if (use->name) RF_TRY(find_column(table, use->name, &use->column));
        if (use->column >= table->num_columns)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA,
                           "%s:%llu: there is no column %u: the table has columns 0 to %u; is the separator right?",
                           table->first.path, (unsigned long long)table->first_line, use->column,
                           table->num_columns - 1);
    }
    qsort(table->uses, plan->num_uses, sizeof(table->uses[0]), compare_uses);
    return RF_OK;
}

/* Passes over a row that has as many fields as the first line. */
static rf_result pass_over_row(const csv_table *table, csv_reader *r)
{
    const uint64_t line = r->line;
    uint32_t columns;
    RF_TRY(count_fields(r, &columns));
    if (columns == table->num_columns) return RF_OK;
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s:%llu: %u columns, but line %llu has %u", r->path,
                   (unsigned long long)line, columns, (unsigned long long)table->first_line, table->num_columns);
}

/* Goes to the line after the one that a damaged row begins in, whatever its quotes say. */
static void pass_over_line(csv_reader *r)
{
    csv_field unused = { 0 };
    while (r->at < r->end && *r->at != '\n' && *r->at != '\r') r->at++;
    (void)take_separator(r, &unused);
}

static rf_result count_rows(const rf_csv_plan *plan, csv_table *table)
{
    csv_reader r = table->data;
    for (skip_empty_lines(&r); r.at < r.end; skip_empty_lines(&r)) {
        const csv_reader begin = r;
        const rf_result result = pass_over_row(table, &r);
        if (result < 0 && !plan->skip_damaged) return result;
        if (result < 0) {
            r = begin;
            pass_over_line(&r);
        }
        table->rows++;
    }
    return RF_OK;
}

static rf_result open_table(const char *path, const void *bytes, size_t size, const rf_csv_plan *plan, csv_table *table)
{
    const unsigned char *begin = bytes, *end = begin + size;
    size_t mark = 0;
    RF_TRY(rf_error_context(rf_utf8_begin(bytes, size, &mark), "%s", path));
    begin += mark;
    if (end - begin >= 4 && !begin[0] == !begin[2] && !begin[1] == !begin[3] && !begin[0] != !begin[1])
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: every second byte is 0, as in UTF-16; convert it to UTF-8", path);
    table->first = (csv_reader){ path, begin, end, 1, plan->separator };
    skip_empty_lines(&table->first);
    table->first_line = table->first.line;
    table->data = table->first;
    if (table->first.at == end) {
        if (!plan->header) return RF_OK;
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: is empty, without a header", path);
    }
    csv_reader r = table->first;
    RF_TRY(count_fields(&r, &table->num_columns));
    if (plan->header) table->data = r;
    RF_TRY(resolve_columns(plan, table));
    return count_rows(plan, table);
}

/* ---- numbers ---- */

/* Without spaces around it. NULL: not all of the field is there, or it has a 0 byte. */
static char *field_trim(csv_field *f)
{
    if (f->size >= FIELD_BYTES || strlen(f->text) != f->size) return NULL;
    char *begin = f->text, *end = f->text + f->size;
    while (*begin == ' ' || *begin == '\t') begin++;
    while (end > begin && (end[-1] == ' ' || end[-1] == '\t')) end--;
    *end = 0;
    return begin;
}

/* The numbers that most tables hold: up to 7 digits, which f32 has exactly. */
static bool parse_few_digits(const char *text, float *out)
{
    int32_t value = 0;
    int digits = 0;
    for (; text[digits] >= '0' && text[digits] <= '9' && digits < 8; digits++) value = 10 * value + text[digits] - '0';
    *out = (float)value;
    return digits > 0 && digits < 8 && !text[digits];
}

static bool parse_f32(const char *text, float *out)
{
    char *end;
    if (text && parse_few_digits(text, out)) return true;
    if (!text || !*text || strpbrk(text, "xX(")) return false; /* C's own forms */
    if (*text == ' ' || *text == '\t' || *text == '\n' || *text == '\v' || *text == '\f' || *text == '\r') return false;
    *out = rf_number_read_float(text, &end);
    if (*end) return false;
    return isfinite(*out) || strpbrk(text, "iInN"); /* not too large for f32 */
}

static bool parse_i32(const char *text, int32_t *out)
{
    if (!text) return false;
    const bool sign = *text == '-' || *text == '+';
    if (text[sign] < '0' || text[sign] > '9') return false;
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (*end || errno || value < INT32_MIN || value > INT32_MAX) return false;
    *out = (int32_t)value;
    return true;
}

static rf_result refuse_field(const rf_csv_plan *plan, const csv_table *table, uint64_t line, const rf_csv_use *use,
                              const char *text)
{
    char shown[SHOWN_BYTES + 1], name[SHOWN_BYTES + 8];
    snprintf(shown, sizeof(shown), "%s", text);
    rf_error_one_line(shown);
    name_column(plan, table, use->column, name, sizeof(name));
    if (!*text)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s:%llu: column %u%s is empty; fill_empty gives such fields a value",
                       table->first.path, (unsigned long long)line, use->column, name);
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s:%llu: column %u%s: '%s' is not %s", table->first.path,
                   (unsigned long long)line, use->column, name, shown,
                   plan->spec.dtype[use->component] == RF_I32 ? "an integer of 32 bits" : "a number that f32 can hold");
}

/* Puts what the field says in its place; false: it is no number. `text`: trimmed, or NULL. */
static bool store_field(const rf_csv_plan *plan, const char *text, const rf_csv_use *use, const rf_array *array,
                        uint64_t row)
{
    const uint64_t at = row * (uint64_t)rf_shape_count(plan->spec.shape[use->component]) + use->place;
    int32_t *integer = array->dtype == RF_I32 ? (int32_t *)array->data + at : NULL;
    float *number = integer ? NULL : (float *)array->data + at;
    if (!plan->fill_empty || !text || *text) return integer ? parse_i32(text, integer) : parse_f32(text, number);
    if (integer)
        *integer = (int32_t)plan->fill_value;
    else
        *number = (float)plan->fill_value;
    return true;
}

static rf_result read_row(const rf_csv_plan *plan, const csv_table *table, csv_reader *r, uint64_t row,
                          rf_array *arrays)
{
    csv_field f = { 0 };
    uint32_t u = 0;
    for (uint32_t column = 0; !f.last; column++) {
        const uint64_t line = r->line;
        RF_TRY(read_field(r, &f));
        if (u == plan->num_uses || table->uses[u].column != column) continue;
        const char *text = field_trim(&f);
        for (; u < plan->num_uses && table->uses[u].column == column; u++)
            if (!store_field(plan, text, &table->uses[u], &arrays[table->uses[u].component], row))
                return refuse_field(plan, table, line, &table->uses[u], text ? text : f.text);
    }
    return RF_OK;
}

/* Reads the row where it has the right number of fields and all are what they have to be. */
static rf_result read_row_if_good(const rf_csv_plan *plan, const csv_table *table, csv_reader *r, uint64_t row,
                                  rf_array *arrays)
{
    csv_reader probe = *r;
    if (plan->skip_damaged) RF_TRY(pass_over_row(table, &probe)); /* else that is known */
    return read_row(plan, table, r, row, arrays);
}

static void note_damage(rf_csv_damage *damage)
{
    if (damage->rows++ == 0) snprintf(damage->first, sizeof(damage->first), "%s", rf_error_message());
}

static rf_result fill_table(const char *path, const rf_csv_plan *plan, const csv_table *table, rf_array *arrays,
                            rf_csv_damage *damage)
{
    for (uint32_t c = 0; c < plan->spec.num_components; c++) {
        rf_array *a = &arrays[c];
        a->dtype = plan->spec.dtype[c];
        a->shape = plan->spec.shape[c];
        memmove(&a->shape.dim[1], &a->shape.dim[0], (size_t)a->shape.rank * sizeof(a->shape.dim[0]));
        a->shape.dim[0] = (int64_t)table->rows;
        a->shape.rank++;
        a->data = rf_calloc((size_t)rf_shape_count(a->shape), rf_dtype_size(a->dtype));
        if (!a->data) return rf_error_context(RF_ERROR_OUT_OF_HOST_MEMORY, "%s", path);
    }
    csv_reader r = table->data;
    uint64_t row = 0;
    for (skip_empty_lines(&r); r.at < r.end; skip_empty_lines(&r)) {
        const csv_reader begin = r;
        const rf_result result = read_row_if_good(plan, table, &r, row, arrays);
        if (result == RF_OK) {
            row++;
            continue;
        }
        if (!plan->skip_damaged) return result;
        note_damage(damage);
        r = begin;
        if (pass_over_row(table, &r) == RF_OK) continue;
        r = begin;
        pass_over_line(&r);
    }
    for (uint32_t c = 0; c < plan->spec.num_components; c++) arrays[c].shape.dim[0] = (int64_t)row;
    return RF_OK;
}

rf_result rf_csv_decode(const char *path, const void *bytes, size_t size, const rf_csv_plan *plan, rf_array *arrays,
                        rf_csv_damage *damage)
{
    *damage = (rf_csv_damage){ 0 };
    csv_table table = { .uses = RF_NEW_ARRAY(rf_csv_use, plan->num_uses) };
    rf_result r = table.uses ? RF_OK : rf_error_context(RF_ERROR_OUT_OF_HOST_MEMORY, "%s", path);
    if (r == RF_OK) r = open_table(path, bytes, size, plan, &table);
    if (r == RF_OK) r = fill_table(path, plan, &table, arrays, damage);
    rf_free(table.uses);
    return r;
}
