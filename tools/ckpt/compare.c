/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire ckpt diff */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/ckpt.h"
#include "commands.h"
#include "json_output.h"
#include "printable.h"

typedef struct comparison {
    input a, b;
    bool text, same;
    json_t *differences;
} comparison;

/* A difference: a line, which the caller ends, and an object. */
static json_t *add_difference(comparison *c, const char *what, const char *name)
{
    json_t *difference = json_pack("{s:s,s:o}", "difference", what, "name", json_text(name));
    json_array_append_new(c->differences, difference);
    c->same = false;
    if (!c->text) return difference;
    printf("%s: ", what);
    print_printable(stdout, name, 0);
    return difference;
}

enum { WINDOW = 1 << 20 };

/* Two ranges of tensors of one type. */
typedef struct windows {
    unsigned char a[WINDOW], b[WINDOW];
} windows;

static void widen_difference(const windows *w, uint64_t bytes, double *largest)
{
    for (uint64_t i = 0; i < bytes; i += sizeof(float)) {
        float x, y;
        memcpy(&x, w->a + i, sizeof(x));
        memcpy(&y, w->b + i, sizeof(y));
        const double d = (double)x - (double)y;
        if (d > *largest || -d > *largest) *largest = d < 0 ? -d : d;
    }
}

static rf_result compare_bytes(const input *a, const input *b, const rf_archive_entry *e, windows *w, bool *same,
                               double *largest)
{
    *same = true;
    *largest = 0;
    for (uint64_t at = 0, n; at < e->bytes && (*same || e->dtype == RF_F32); at += n) {
        n = e->bytes - at < WINDOW ? e->bytes - at : WINDOW;
        rf_result r = input_read_range(a, e->name, at, w->a, n);
        if (r >= 0) r = input_read_range(b, e->name, at, w->b, n);
        if (r < 0) return r;
        if (memcmp(w->a, w->b, n) == 0) continue;
        *same = false;
        if (e->dtype == RF_F32) widen_difference(w, n, largest);
    }
    return RF_OK;
}

/* Says how two tensors of one name differ. */
static rf_result compare_tensor(comparison *c, const rf_archive_entry *x, const rf_archive_entry *y, windows *w)
{
    bool same;
    double largest;
    if (x->dtype != y->dtype || !rf_shape_equal(x->shape, y->shape)) {
        char s[128], t[128], first[160], second[160];
        snprintf(first, sizeof(first), "%s %s", input_type(x), rf_shape_format(x->shape, s, sizeof(s)));
        snprintf(second, sizeof(second), "%s %s", input_type(y), rf_shape_format(y->shape, t, sizeof(t)));
        json_t *difference = add_difference(c, "other type or shape", x->name);
        json_object_set_new(difference, "first", json_text(first));
        json_object_set_new(difference, "second", json_text(second));
        if (c->text) printf(": %s, %s\n", first, second);
        return RF_OK;
    }
    const rf_result r = compare_bytes(&c->a, &c->b, x, w, &same, &largest);
    if (r < 0 || same) return r;
    json_t *difference = add_difference(c, "differs", x->name);
    if (x->dtype == RF_F32) {
        json_object_set_new(difference, "largest", json_number(largest));
        if (c->text) printf(", by up to %.6g", largest);
    }
    if (c->text) putchar('\n');
    return RF_OK;
}

static void compare_texts(comparison *c, const char *name, const char *a, const char *b)
{
    if (strcmp(a, b) == 0) return;
    json_t *difference = add_difference(c, "other value", name);
    json_object_set_new(difference, "first", json_text(a));
    json_object_set_new(difference, "second", json_text(b));
    if (!c->text) return;
    fputs(": ", stdout);
    print_printable(stdout, a, 0);
    fputs(" and ", stdout);
    print_printable(stdout, b, 0);
    putchar('\n');
}

/* Where the merge of two lists in the order of names is; the end of a list comes after all names. */
static int compare_names(const char *a, const char *b)
{
    return !a ? 1 : !b ? -1 : strcmp(a, b);
}

static void only_in(comparison *c, int where, const char *kind, const char *name)
{
    char what[64];
    snprintf(what, sizeof(what), "%sonly in the %s", kind, where < 0 ? "first" : "second");
    add_difference(c, what, name);
    if (c->text) putchar('\n');
}

static rf_result compare_tensors(comparison *c)
{
    windows *w = malloc(sizeof(*w));
    rf_result r = w ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint64_t i = 0, k = 0; r >= 0 && (i < c->a.count || k < c->b.count);) {
        rf_archive_entry x, y;
        r = input_entry_at(&c->a, i, &x);
        if (r >= 0) r = input_entry_at(&c->b, k, &y);
        if (r < 0) break;
        const int where = compare_names(x.name, y.name);
        if (where)
            only_in(c, where, "", where < 0 ? x.name : y.name);
        else
            r = compare_tensor(c, &x, &y, w);
        i += where <= 0;
        k += where >= 0;
    }
    free(w);
    return r;
}

static rf_result compare_value(comparison *c, uint64_t i, uint64_t k)
{
    char *first = NULL, *second = NULL;
    rf_result r = input_value_text(&c->a, i, &first);
    if (r >= 0) r = input_value_text(&c->b, k, &second);
    if (r >= 0) compare_texts(c, rf_archive_value_name(c->a.archive, i), first, second);
    free(first);
    free(second);
    return r;
}

static rf_result compare_values(comparison *c)
{
    rf_result r = RF_OK;
    for (uint64_t i = 0, k = 0; r >= 0 && (i < c->a.num_values || k < c->b.num_values);) {
        const char *x = rf_archive_value_name(c->a.archive, i), *y = rf_archive_value_name(c->b.archive, k);
        const int where = compare_names(x, y);
        if (where)
            only_in(c, where, "value ", where < 0 ? x : y);
        else
            r = compare_value(c, i, k);
        i += where <= 0;
        k += where >= 0;
    }
    return r;
}

/* Values are compared where both files can have some. */
int ckpt_compare(const ckpt_options *o)
{
    comparison c = { .text = !json_replaces_text(o->json_path), .same = true, .differences = json_array() };
    rf_result r = input_open(o->paths[0], &c.a);
    if (r >= 0) r = input_open(o->paths[1], &c.b);
    if (r >= 0) r = compare_tensors(&c);
    if (r >= 0 && c.a.archive && c.b.archive) r = compare_values(&c);
    int code = c.same ? CODE_OK : CODE_NO;
    if (r < 0) (void)command_fail();
    if (r < 0 ||
        !json_write(o->json_path, json_pack("{s:o,s:o,s:b,s:O}", "first", json_text(o->paths[0]), "second",
                                            json_text(o->paths[1]), "same", c.same, "differences", c.differences)))
        code = CODE_TROUBLE;
    json_decref(c.differences);
    input_close(&c.a);
    input_close(&c.b);
    return code;
}
