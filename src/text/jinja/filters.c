/* SPDX-License-Identifier: Apache-2.0 */
/* Filters, tests and functions of templates. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/numbers.h"
#include "text/jinja/jinja.h"

#define BUILTIN(name)                                                                                                  \
    static rf_result name(rf_jinja_run *run, const rf_jinja_value *self, const rf_jinja_arguments *arguments,          \
                          rf_jinja_value *out)

/* ---- filters of a value ---- */

BUILTIN(to_json)
{
    const rf_jinja_value *indent = &arguments->items[0];
    const bool given = arguments->given[0] && indent->type != RF_JINJA_NONE;
    if (given && (indent->type != RF_JINJA_INT || indent->is.integer < 0 || indent->is.integer > 32))
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "its indent is no number from 0 to 32");
    return rf_jinja_to_json(run, self, given ? (int)indent->is.integer : -1, out);
}

BUILTIN(to_string)
{
    (void)arguments;
    if (self->type == RF_JINJA_UNDEFINED) return rf_jinja_copy(run, "", 0, out);
    return rf_jinja_to_string(run, self, out);
}

BUILTIN(same)
{
    (void)run;
    (void)arguments;
    *out = *self;
    return RF_OK;
}

BUILTIN(length_of)
{
    int64_t count;
    (void)arguments;
    RF_TRY(rf_jinja_length(run, self, &count));
    *out = rf_jinja_int(count);
    return RF_OK;
}

BUILTIN(default_to)
{
    (void)run;
    const bool empty = arguments->given[1] && rf_jinja_truth(&arguments->items[1]) && !rf_jinja_truth(self);
    const rf_jinja_value fallback = arguments->given[0] ? arguments->items[0] : rf_jinja_string("", 0);
    *out = self->type == RF_JINJA_UNDEFINED || empty ? fallback : *self;
    return RF_OK;
}

/* A text's number, cut to a whole one; the argument, or 0, where it is none. */
BUILTIN(to_int)
{
    (void)run;
    char text[40] = "", *end = text;
    double number = rf_jinja_is_number(self) ? rf_jinja_number(self) : NAN;
    if (self->type == RF_JINJA_INT) return same(run, self, arguments, out);
    if (self->type == RF_JINJA_STRING && self->is.string.size < sizeof(text)) {
        memcpy(text, self->is.string.bytes, self->is.string.size);
        number = rf_number_parse(text, &end);
        if (end == text || *end) number = NAN;
    }
    *out = arguments->given[0] ? arguments->items[0] : rf_jinja_int(0);
    if (fabs(number) < 9e18) *out = rf_jinja_int((int64_t)number);
    return RF_OK;
}

BUILTIN(absolute)
{
    char room[96];
    (void)run;
    (void)arguments;
    if (!rf_jinja_is_number(self) || (self->type == RF_JINJA_INT && self->is.integer == INT64_MIN))
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "of %s", rf_jinja_describe(self, room));
    *out = self->type == RF_JINJA_FLOAT ? (rf_jinja_value){ RF_JINJA_FLOAT, { .number = fabs(self->is.number) } }
                                        : rf_jinja_int(llabs((long long)rf_jinja_number(self)));
    if (self->type == RF_JINJA_INT) *out = rf_jinja_int(llabs(self->is.integer));
    return RF_OK;
}

/* ---- filters of lists ---- */

BUILTIN(to_list)
{
    rf_jinja_value all;
    (void)arguments;
    RF_TRY(rf_jinja_iterate(run, self, &all));
    RF_TRY(rf_jinja_list_new(run, all.is.list->count, out));
    for (uint32_t i = 0; i < all.is.list->count; i++)
        RF_TRY(rf_jinja_list_add(run, out->is.list, all.is.list->items[i]));
    return RF_OK;
}

static rf_result take_end(rf_jinja_run *run, const rf_jinja_value *self, bool last, rf_jinja_value *out)
{
    rf_jinja_value all;
    RF_TRY(rf_jinja_iterate(run, self, &all));
    const uint32_t count = all.is.list->count;
    *out = count == 0 ? rf_jinja_undefined("[]", 2) : all.is.list->items[last ? count - 1 : 0];
    return RF_OK;
}

BUILTIN(first_of)
{
    (void)arguments;
    return take_end(run, self, false, out);
}

BUILTIN(last_of)
{
    (void)arguments;
    return take_end(run, self, true, out);
}

BUILTIN(reversed)
{
    const rf_jinja_value bounds[3] = { { 0 }, { 0 }, rf_jinja_int(-1) };
    (void)arguments;
    return rf_jinja_slice(run, self, bounds, out);
}

/* The attribute of a name with dots, which lead on. */
static rf_result find_attribute(rf_jinja_run *run, rf_jinja_value value, const rf_jinja_value *path,
                                rf_jinja_value *out)
{
    *out = value;
    if (path->type != RF_JINJA_STRING) return rf_jinja_item(run, &value, path, out);
    const char *name = path->is.string.bytes;
    for (size_t at = 0, size; at <= path->is.string.size; at += size + 1) {
        for (size = 0; at + size < path->is.string.size && name[at + size] != '.';) size++;
        value = *out;
        RF_TRY(rf_jinja_attribute(run, &value, name + at, size, out));
    }
    return RF_OK;
}

BUILTIN(join)
{
    rf_jinja_value all, by = rf_jinja_string("", 0), item;
    rf_text_bytes made = { .limit = (size_t)run->memory + 1 };
    if (arguments->given[0]) RF_TRY(rf_jinja_to_string(run, &arguments->items[0], &by));
    RF_TRY(rf_jinja_iterate(run, self, &all));
    rf_result r = RF_OK;
    for (uint32_t i = 0; r >= 0 && i < all.is.list->count; i++) {
        item = all.is.list->items[i];
        if (i > 0) r = rf_jinja_write(run, &by, &made);
        if (r >= 0 && arguments->given[1]) r = find_attribute(run, all.is.list->items[i], &arguments->items[1], &item);
        if (r >= 0) r = rf_jinja_write(run, &item, &made);
    }
    if (r >= 0) r = rf_jinja_copy(run, made.bytes, made.size, out);
    rf_text_bytes_free(&made);
    return r;
}

/* Lines behind the first one get spaces in front, empty ones none. */
BUILTIN(indent)
{
    rf_jinja_value text;
    rf_text_bytes made = { .limit = (size_t)run->memory + 1 };
    const int64_t width = arguments->given[0] ? arguments->items[0].is.integer : 4;
    const bool first = arguments->given[1] && rf_jinja_truth(&arguments->items[1]);
    if ((arguments->given[0] && arguments->items[0].type != RF_JINJA_INT) || width < 0 || width > 64)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "its width is no number from 0 to 64");
    RF_TRY(rf_jinja_to_string(run, self, &text));
    const char *bytes = text.is.string.bytes;
    rf_result r = rf_jinja_step(run, text.is.string.size / 8);
    for (size_t at = 0; r >= 0 && at < text.is.string.size; at++) {
        const bool begins = at == 0 ? first : bytes[at - 1] == '\n';
        for (int64_t i = 0; r >= 0 && begins && bytes[at] != '\n' && i < width; i++)
            r = rf_text_bytes_append(&made, " ", 1);
        if (r >= 0) r = rf_text_bytes_append(&made, bytes + at, 1);
    }
    if (r >= 0) r = rf_jinja_copy(run, made.bytes, made.size, out);
    rf_text_bytes_free(&made);
    return r;
}

/* ---- tests ---- */

static rf_result give_answer(bool yes, rf_jinja_value *out)
{
    *out = rf_jinja_bool(yes);
    return RF_OK;
}

#define TEST_TYPE(name, condition)                                                                                     \
    BUILTIN(name)                                                                                                      \
    {                                                                                                                  \
        (void)run;                                                                                                     \
        (void)arguments;                                                                                               \
        const rf_jinja_type type = self->type;                                                                         \
        return give_answer(condition, out);                                                                            \
    }
TEST_TYPE(is_defined, type != RF_JINJA_UNDEFINED)
TEST_TYPE(is_undefined, type == RF_JINJA_UNDEFINED)
TEST_TYPE(is_none, type == RF_JINJA_NONE)
TEST_TYPE(is_string, type == RF_JINJA_STRING)
TEST_TYPE(is_mapping, type == RF_JINJA_DICT && !self->is.dict->is_namespace)
TEST_TYPE(is_sequence, type == RF_JINJA_STRING || type == RF_JINJA_LIST || type == RF_JINJA_DICT)
TEST_TYPE(is_iterable,
          type == RF_JINJA_STRING || type == RF_JINJA_LIST || type == RF_JINJA_DICT || type == RF_JINJA_UNDEFINED)
TEST_TYPE(is_number, type == RF_JINJA_BOOL || type == RF_JINJA_INT || type == RF_JINJA_FLOAT)
TEST_TYPE(is_integer, type == RF_JINJA_INT)
TEST_TYPE(is_float, type == RF_JINJA_FLOAT)
TEST_TYPE(is_boolean, type == RF_JINJA_BOOL)
TEST_TYPE(is_true, type == RF_JINJA_BOOL && self->is.boolean)
TEST_TYPE(is_false, type == RF_JINJA_BOOL && !self->is.boolean)
TEST_TYPE(is_callable, type == RF_JINJA_CALLABLE)
#undef TEST_TYPE

BUILTIN(is_equal)
{
    bool yes;
    RF_TRY(rf_jinja_equal(run, self, &arguments->items[0], &yes));
    return give_answer(yes, out);
}

BUILTIN(is_unequal)
{
    bool yes;
    RF_TRY(rf_jinja_equal(run, self, &arguments->items[0], &yes));
    return give_answer(!yes, out);
}

BUILTIN(is_in)
{
    bool yes;
    RF_TRY(rf_jinja_contains(run, &arguments->items[0], self, &yes));
    return give_answer(yes, out);
}

BUILTIN(is_divisible)
{
    char room[96];
    (void)run;
    const int64_t by =
        arguments->given[0] && arguments->items[0].type == RF_JINJA_INT ? arguments->items[0].is.integer : 0;
    if (self->type != RF_JINJA_INT || by == 0)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s by %lld", rf_jinja_describe(self, room), (long long)by);
    return give_answer(by == -1 || self->is.integer % by == 0, out);
}

BUILTIN(is_even)
{
    const rf_jinja_arguments two = { .items = { rf_jinja_int(2) }, .given = { true }, .count = 1 };
    (void)arguments;
    return is_divisible(run, self, &two, out);
}

BUILTIN(is_odd)
{
    RF_TRY(is_even(run, self, arguments, out));
    return give_answer(!out->is.boolean, out);
}

static const rf_jinja_builtin tests[] = {
    { "defined", is_defined, 0, 0 },
    { "undefined", is_undefined, 0, 0 },
    { "none", is_none, 0, 0 },
    { "string", is_string, 0, 0 },
    { "mapping", is_mapping, 0, 0 },
    { "sequence", is_sequence, 0, 0 },
    { "iterable", is_iterable, 0, 0 },
    { "number", is_number, 0, 0 },
    { "integer", is_integer, 0, 0 },
    { "float", is_float, 0, 0 },
    { "boolean", is_boolean, 0, 0 },
    { "true", is_true, 0, 0 },
    { "false", is_false, 0, 0 },
    { "callable", is_callable, 0, 0 },
    { "equalto", is_equal, 1, 1 },
    { "eq", is_equal, 1, 1 },
    { "ne", is_unequal, 1, 1 },
    { "in", is_in, 1, 1 },
    { "divisibleby", is_divisible, 1, 1 },
    { "even", is_even, 0, 0 },
    { "odd", is_odd, 0, 0 },
    { 0 },
};

const rf_jinja_builtin *rf_jinja_find_test(const char *name, size_t size)
{
    return rf_jinja_find_builtin(tests, name, size);
}

/* ---- filters that choose items by a test ---- */

/* The arguments from `first` on, of which that one names a test or a filter. */
static rf_result shift_arguments(const rf_jinja_arguments *arguments, uint32_t first, const char *what,
                                 const rf_jinja_builtin *(*find)(const char *name, size_t size),
                                 const rf_jinja_builtin **builtin, rf_jinja_arguments *rest)
{
    char room[96];
    const rf_jinja_value *name = &arguments->items[first];
    *rest = (rf_jinja_arguments){ 0 };
    *builtin = name->type == RF_JINJA_STRING ? find(name->is.string.bytes, name->is.string.size) : NULL;
    if (!*builtin && name->type != RF_JINJA_STRING)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "the %s is %s", what, rf_jinja_describe(name, room));
    if (!*builtin) {
        snprintf(room, sizeof(room), "%.*s", (int)(name->is.string.size < 48 ? name->is.string.size : 48),
                 name->is.string.bytes);
        rf_error_one_line(room);
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "the %s '%s' is not known here", what, room);
    }
    for (uint32_t i = first + 1; i < arguments->count; i++) {
        rest->items[i - first - 1] = arguments->items[i];
        rest->given[i - first - 1] = arguments->given[i];
        rest->count = i - first;
    }
    return RF_OK;
}

/* Those items of which the test, of an attribute with `by_attribute`, says `wanted`; without a test the truth does. */
static rf_result choose_where(rf_jinja_run *run, const rf_jinja_value *self, const rf_jinja_arguments *arguments,
                              bool by_attribute, bool wanted, rf_jinja_value *out)
{
    const rf_jinja_builtin *test = NULL;
    rf_jinja_arguments rest;
    rf_jinja_value all;
    const uint32_t first = by_attribute ? 1 : 0;
    if (arguments->given[first]) RF_TRY(shift_arguments(arguments, first, "test", rf_jinja_find_test, &test, &rest));
    RF_TRY(rf_jinja_iterate(run, self, &all));
    RF_TRY(rf_jinja_list_new(run, 0, out));
    for (uint32_t i = 0; i < all.is.list->count; i++) {
        rf_jinja_value tested = all.is.list->items[i], said;
        if (by_attribute) RF_TRY(find_attribute(run, all.is.list->items[i], &arguments->items[0], &tested));
        said = tested;
        if (test) RF_TRY(rf_jinja_call_builtin(run, test, &tested, &rest, &said));
        if (rf_jinja_truth(&said) == wanted) RF_TRY(rf_jinja_list_add(run, out->is.list, all.is.list->items[i]));
    }
    return RF_OK;
}

BUILTIN(choose_items)
{
    return choose_where(run, self, arguments, false, true, out);
}

BUILTIN(reject_items)
{
    return choose_where(run, self, arguments, false, false, out);
}

BUILTIN(choose_by_attribute)
{
    return choose_where(run, self, arguments, true, true, out);
}

BUILTIN(reject_by_attribute)
{
    return choose_where(run, self, arguments, true, false, out);
}

/* map(attribute="name"), or map("filter", ...). */
BUILTIN(map)
{
    const rf_jinja_value *attribute =
        arguments->named ? rf_jinja_dict_find(run, arguments->named, "attribute", 9) : NULL;
    const rf_jinja_builtin *filter = NULL;
    rf_jinja_arguments rest;
    rf_jinja_value all, made;
    if (!attribute) RF_TRY(shift_arguments(arguments, 0, "filter", rf_jinja_find_filter, &filter, &rest));
    RF_TRY(rf_jinja_iterate(run, self, &all));
    RF_TRY(rf_jinja_list_new(run, all.is.list->count, out));
    for (uint32_t i = 0; i < all.is.list->count; i++) {
        rf_result r = rf_jinja_enter(run);
        if (r >= 0)
            r = attribute ? find_attribute(run, all.is.list->items[i], attribute, &made)
                          : rf_jinja_call_builtin(run, filter, &all.is.list->items[i], &rest, &made);
        rf_jinja_leave(run);
        RF_TRY(r);
        RF_TRY(rf_jinja_list_add(run, out->is.list, made));
    }
    return RF_OK;
}

static const rf_jinja_builtin filters[] = {
    { "trim", rf_jinja_strip, 0, 1 },
    { "tojson", to_json, 0, 1, .keywords = { "indent" } },
    { "length", length_of, 0, 0 },
    { "count", length_of, 0, 0 },
    { "default", default_to, 0, 2, .keywords = { "default_value", "boolean" } },
    { "d", default_to, 0, 2, .keywords = { "default_value", "boolean" } },
    { "string", to_string, 0, 0 },
    { "safe", same, 0, 0 },
    { "int", to_int, 0, 1, .keywords = { "default" } },
    { "abs", absolute, 0, 0 },
    { "upper", rf_jinja_upper, 0, 0 },
    { "lower", rf_jinja_lower, 0, 0 },
    { "title", rf_jinja_title, 0, 0 },
    { "capitalize", rf_jinja_capitalize, 0, 0 },
    { "replace", rf_jinja_replace, 2, 3 },
    { "indent", indent, 0, 2, .keywords = { "width", "first" } },
    { "list", to_list, 0, 0 },
    { "first", first_of, 0, 0 },
    { "last", last_of, 0, 0 },
    { "reverse", reversed, 0, 0 },
    { "join", join, 0, 2, .keywords = { "d", "attribute" } },
    { "items", rf_jinja_items, 0, 0 },
    { "map", map, 0, 4, .any_name = true },
    { "select", choose_items, 0, 3 },
    { "reject", reject_items, 0, 3 },
    { "selectattr", choose_by_attribute, 1, 4 },
    { "rejectattr", reject_by_attribute, 1, 4 },
    { 0 },
};

const rf_jinja_builtin *rf_jinja_find_filter(const char *name, size_t size)
{
    return rf_jinja_find_builtin(filters, name, size);
}

/* ---- functions ---- */

BUILTIN(raise_exception)
{
    rf_jinja_value text;
    char shown[400] = "";
    (void)self;
    (void)out;
    RF_TRY(rf_jinja_to_string(run, &arguments->items[0], &text));
    memcpy(shown, text.is.string.bytes, text.is.string.size < sizeof(shown) ? text.is.string.size : sizeof(shown) - 1);
    rf_error_one_line(shown);
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s", shown);
}

BUILTIN(make_namespace)
{
    const rf_jinja_dict *named = arguments->named;
    (void)self;
    RF_TRY(rf_jinja_dict_new(run, 4, out));
    for (uint32_t i = 0; named && i < named->count; i++)
        RF_TRY(rf_jinja_dict_set(run, out->is.dict, named->entries[i].name, named->entries[i].size,
                                 named->entries[i].value));
    out->is.dict->is_namespace = true;
    return RF_OK;
}

BUILTIN(make_dict)
{
    RF_TRY(make_namespace(run, self, arguments, out));
    out->is.dict->is_namespace = false;
    return RF_OK;
}

BUILTIN(range)
{
    int64_t bounds[3] = { 0, 0, 1 };
    char room[96];
    (void)self;
    for (uint32_t i = 0; i < arguments->count; i++) {
        if (arguments->items[i].type != RF_JINJA_INT || llabs(arguments->items[i].is.integer) > INT32_MAX)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "argument %u is %s", i + 1,
                           rf_jinja_describe(&arguments->items[i], room));
        bounds[i] = arguments->items[i].is.integer;
    }
    if (arguments->count == 1) bounds[1] = bounds[0], bounds[0] = 0;
    if (bounds[2] == 0) return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "its step is 0");
    RF_TRY(rf_jinja_list_new(run, 0, out));
    for (int64_t i = bounds[0]; bounds[2] > 0 ? i < bounds[1] : i > bounds[1]; i += bounds[2]) {
        RF_TRY(rf_jinja_step(run, 1));
        RF_TRY(rf_jinja_list_add(run, out->is.list, rf_jinja_int(i)));
    }
    return RF_OK;
}

static const rf_jinja_builtin functions[] = {
    { "raise_exception", raise_exception, 1, 1 },
    { "namespace", make_namespace, 0, 0, .any_name = true },
    { "dict", make_dict, 0, 0, .any_name = true },
    { "range", range, 1, 3 },
    { 0 },
};

const rf_jinja_builtin *rf_jinja_find_function(const char *name, size_t size)
{
    return rf_jinja_find_builtin(functions, name, size);
}
