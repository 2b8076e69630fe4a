/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of texts and objects, as Python has them. */
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "text/jinja/jinja.h"

typedef struct characters {
    const char *bytes;
    size_t size;
} characters;

static characters text_of(const rf_jinja_value *value)
{
    return (characters){ value->is.string.bytes, value->is.string.size };
}

/* The text of an argument. */
static rf_result take_text(const rf_jinja_arguments *arguments, uint32_t place, characters *out)
{
    char room[96];
    const rf_jinja_value *value = &arguments->items[place];
    *out = (characters){ 0 };
    if (value->type != RF_JINJA_STRING)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "argument %u is %s, not a text", place + 1,
                       rf_jinja_describe(value, room));
    *out = text_of(value);
    return RF_OK;
}

static const char *find_text(characters in, size_t from, characters what)
{
    return what.size <= in.size - from ? memmem(in.bytes + from, in.size - from, what.bytes, what.size) : NULL;
}

/* ---- white space ---- */

static bool is_white(uint32_t code)
{
    return (code >= 9 && code <= 13) || (code >= 28 && code <= 32) || code == 0x85 || code == 0xa0 || code == 0x1680 ||
           (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f ||
           code == 0x3000;
}

static size_t first_character(characters text, uint32_t *code)
{
    return rf_utf8_decode(text.bytes, text.size, code);
}

static size_t last_character(characters text, uint32_t *code)
{
    size_t at = text.size - 1;
    while (at > 0 && text.size - at < 4 && ((uint8_t)text.bytes[at] & 0xc0) == 0x80) at--;
    (void)rf_utf8_decode(text.bytes + at, text.size - at, code);
    return text.size - at;
}

static bool is_one_of(characters set, uint32_t code)
{
    for (uint32_t other; set.size > 0;) {
        const size_t n = first_character(set, &other);
        if (other == code) return true;
        set = (characters){ set.bytes + n, set.size - n };
    }
    return false;
}

typedef struct stripping {
    bool left, right, given; /* `given`: characters of `set`, else white space */
    characters set;
} stripping;

static bool is_stripped(const stripping *s, uint32_t code)
{
    return s->given ? is_one_of(s->set, code) : is_white(code);
}

static rf_result strip_ends(rf_jinja_run *run, const rf_jinja_value *self, const rf_jinja_arguments *arguments,
                            stripping how, rf_jinja_value *out)
{
    rf_jinja_value whole;
    uint32_t code;
    size_t n;
    how.given = arguments->given[0] && arguments->items[0].type != RF_JINJA_NONE;
    if (how.given) RF_TRY(take_text(arguments, 0, &how.set));
    RF_TRY(rf_jinja_to_string(run, self, &whole));
    characters text = text_of(&whole);
    RF_TRY(rf_jinja_step(run, text.size / 16 * (1 + how.set.size)));
    while (how.left && text.size > 0 && (n = first_character(text, &code), is_stripped(&how, code)))
        text = (characters){ text.bytes + n, text.size - n };
    while (how.right && text.size > 0 && (n = last_character(text, &code), is_stripped(&how, code))) text.size -= n;
    *out = rf_jinja_string(text.bytes, text.size);
    return RF_OK;
}

rf_result rf_jinja_strip(rf_jinja_run *run, const rf_jinja_value *self, const rf_jinja_arguments *arguments,
                         rf_jinja_value *out)
{
    return strip_ends(run, self, arguments, (stripping){ .left = true, .right = true }, out);
}

static rf_result strip_left(rf_jinja_run *run, const rf_jinja_value *self, const rf_jinja_arguments *arguments,
                            rf_jinja_value *out)
{
    return strip_ends(run, self, arguments, (stripping){ .left = true }, out);
}

static rf_result strip_right(rf_jinja_run *run, const rf_jinja_value *self, const rf_jinja_arguments *arguments,
                             rf_jinja_value *out)
{
    return strip_ends(run, self, arguments, (stripping){ .right = true }, out);
}

/* ---- letters ---- */

typedef enum letter_rule { ALL_UPPER, ALL_LOWER, FIRST_UPPER, WORDS_UPPER } letter_rule;

static bool is_letter(uint32_t code)
{
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)code);
    return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT;
}

static rf_result change_letters(rf_jinja_run *run, const rf_jinja_value *self, letter_rule rule, rf_jinja_value *out)
{
    rf_jinja_value whole;
    RF_TRY(rf_jinja_to_string(run, self, &whole));
    const characters text = text_of(&whole);
    rf_text_bytes made = { .limit = (size_t)run->memory + 1 };
    rf_result r = rf_jinja_step(run, text.size / 8);
    bool begins = true; /* a word */
    uint32_t code;
    for (size_t at = 0; r >= 0 && at < text.size;) {
        at += rf_utf8_decode(text.bytes + at, text.size - at, &code);
        const bool upper = rule == ALL_UPPER || (begins && rule != ALL_LOWER);
        const utf8proc_int32_t c = (utf8proc_int32_t)code;
        r = rf_text_bytes_append_code(&made, (uint32_t)(upper ? utf8proc_toupper(c) : utf8proc_tolower(c)));
        begins = rule == WORDS_UPPER && !is_letter(code);
    }
    if (r >= 0) r = rf_jinja_copy(run, made.bytes, made.size, out);
    rf_text_bytes_free(&made);
    return r;
}

#define LETTERS(name, rule)                                                                                            \
    rf_result name(rf_jinja_run *run, const rf_jinja_value *self, const rf_jinja_arguments *arguments,                 \
                   rf_jinja_value *out)                                                                                \
    {                                                                                                                  \
        (void)arguments;                                                                                               \
        return change_letters(run, self, rule, out);                                                                   \
    }
LETTERS(rf_jinja_upper, ALL_UPPER)
LETTERS(rf_jinja_lower, ALL_LOWER)
LETTERS(rf_jinja_capitalize, FIRST_UPPER)
LETTERS(rf_jinja_title, WORDS_UPPER)
#undef LETTERS

/* ---- parts of texts ---- */

static rf_result take_count(const rf_jinja_arguments *arguments, uint32_t place, int64_t *out)
{
    char room[96];
    *out = -1;
    if (!arguments->given[place]) return RF_OK;
    if (arguments->items[place].type != RF_JINJA_INT)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "argument %u is %s, not a number", place + 1,
                       rf_jinja_describe(&arguments->items[place], room));
    *out = arguments->items[place].is.integer;
    return RF_OK;
}

static rf_result add_part(rf_jinja_run *run, rf_jinja_value *list, const char *begin, const char *end)
{
    return rf_jinja_list_add(run, list->is.list, rf_jinja_string(begin, (size_t)(end - begin)));
}

/* At white space, of which none is part of the words. */
static rf_result split_words(rf_jinja_run *run, characters text, int64_t most, rf_jinja_value *out)
{
    uint32_t code = 0;
    while (text.size > 0) {
        size_t n = first_character(text, &code), size = 0;
        if (is_white(code)) {
            text = (characters){ text.bytes + n, text.size - n };
            continue;
        }
        while (size < text.size) {
            n = rf_utf8_decode(text.bytes + size, text.size - size, &code);
            if (is_white(code) && most != 0) break;
            size += n;
        }
        if (most == 0) /* the rest, without white space at its end */
            while (n = last_character(text, &code), is_white(code)) size = text.size -= n;
        RF_TRY(add_part(run, out, text.bytes, text.bytes + size));
        text = (characters){ text.bytes + size, text.size - size };
        if (most > 0) most--;
    }
    return RF_OK;
}

static rf_result split_text(rf_jinja_run *run, const rf_jinja_value *self, const rf_jinja_arguments *arguments,
                            rf_jinja_value *out)
{
    const characters text = text_of(self);
    characters by;
    int64_t most;
    const char *at = text.bytes, *found;
    RF_TRY(rf_jinja_list_new(run, 0, out));
    RF_TRY(take_count(arguments, 1, &most));
    RF_TRY(rf_jinja_step(run, text.size / 16));
    if (!arguments->given[0] || arguments->items[0].type == RF_JINJA_NONE) return split_words(run, text, most, out);
    RF_TRY(take_text(arguments, 0, &by));
    if (by.size == 0) return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "split at an empty text");
    for (; most != 0 && (found = find_text(text, (size_t)(at - text.bytes), by)); at = found + by.size, most--)
        RF_TRY(add_part(run, out, at, found));
    return add_part(run, out, at, text.bytes + text.size);
}

rf_result rf_jinja_replace(rf_jinja_run *run, const rf_jinja_value *self, const rf_jinja_arguments *arguments,
                           rf_jinja_value *out)
{
    rf_jinja_value whole;
    characters old, new;
    int64_t most;
    RF_TRY(take_text(arguments, 0, &old));
    RF_TRY(take_text(arguments, 1, &new));
    RF_TRY(take_count(arguments, 2, &most));
    RF_TRY(rf_jinja_to_string(run, self, &whole));
    if (old.size == 0) return RF_FAIL(RF_ERROR_UNSUPPORTED, "an empty text cannot be replaced here");
    const characters text = text_of(&whole);
    rf_text_bytes made = { .limit = (size_t)run->memory + 1 };
    const char *at = text.bytes, *found;
    rf_result r = rf_jinja_step(run, text.size / 16);
    for (; r >= 0 && most != 0 && (found = find_text(text, (size_t)(at - text.bytes), old));
         at = found + old.size, most--) {
        r = rf_text_bytes_append(&made, at, (size_t)(found - at));
        if (r >= 0) r = rf_text_bytes_append(&made, new.bytes, new.size);
    }
    if (r >= 0) r = rf_text_bytes_append(&made, at, (size_t)(text.bytes + text.size - at));
    if (r >= 0) r = rf_jinja_copy(run, made.bytes, made.size, out);
    rf_text_bytes_free(&made);
    return r;
}

/* Whether a text begins (`end` false) or ends with one, or with one of a list. */
static rf_result has_end(const rf_jinja_value *self, const rf_jinja_arguments *arguments, bool end, rf_jinja_value *out)
{
    const characters text = text_of(self);
    rf_jinja_arguments one = *arguments;
    const rf_jinja_list *list = arguments->items[0].type == RF_JINJA_LIST ? arguments->items[0].is.list : NULL;
    bool is = false;
    for (uint32_t i = 0; i < (list ? list->count : 1) && !is; i++) {
        characters part;
        if (list) one.items[0] = list->items[i];
        RF_TRY(take_text(&one, 0, &part));
        const size_t at = end ? text.size - part.size : 0;
        is = part.size <= text.size && (part.size == 0 || memcmp(text.bytes + at, part.bytes, part.size) == 0);
    }
    *out = rf_jinja_bool(is);
    return RF_OK;
}

static rf_result starts_with(rf_jinja_run *run, const rf_jinja_value *self, const rf_jinja_arguments *arguments,
                             rf_jinja_value *out)
{
    RF_TRY(rf_jinja_step(run, 1));
    return has_end(self, arguments, false, out);
}

static rf_result ends_with(rf_jinja_run *run, const rf_jinja_value *self, const rf_jinja_arguments *arguments,
                           rf_jinja_value *out)
{
    RF_TRY(rf_jinja_step(run, 1));
    return has_end(self, arguments, true, out);
}

/* In characters; -1: nowhere. */
static rf_result find_part(rf_jinja_run *run, const rf_jinja_value *self, const rf_jinja_arguments *arguments,
                           rf_jinja_value *out)
{
    const characters text = text_of(self);
    characters part;
    int64_t place = -1;
    RF_TRY(take_text(arguments, 0, &part));
    RF_TRY(rf_jinja_step(run, text.size / 16));
    const char *found = part.size == 0 ? text.bytes : find_text(text, 0, part);
    if (found) {
        const rf_jinja_value before = rf_jinja_string(text.bytes, (size_t)(found - text.bytes));
        RF_TRY(rf_jinja_length(run, &before, &place));
    }
    *out = rf_jinja_int(place);
    return RF_OK;
}

static rf_result count_parts(rf_jinja_run *run, const rf_jinja_value *self, const rf_jinja_arguments *arguments,
                             rf_jinja_value *out)
{
    const characters text = text_of(self);
    characters part;
    int64_t count = 0;
    RF_TRY(take_text(arguments, 0, &part));
    RF_TRY(rf_jinja_step(run, text.size / 16));
    if (part.size == 0) return RF_FAIL(RF_ERROR_UNSUPPORTED, "empty texts cannot be counted here");
    for (const char *at = text.bytes; (at = find_text(text, (size_t)(at - text.bytes), part)); at += part.size) count++;
    *out = rf_jinja_int(count);
    return RF_OK;
}

/* ---- objects ---- */

rf_result rf_jinja_items(rf_jinja_run *run, const rf_jinja_value *self, const rf_jinja_arguments *arguments,
                         rf_jinja_value *out)
{
    char room[96];
    (void)arguments;
    RF_TRY(rf_jinja_list_new(run, 0, out));
    if (self->type == RF_JINJA_UNDEFINED) return RF_OK;
    if (self->type != RF_JINJA_DICT)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s has no items", rf_jinja_describe(self, room));
    const rf_jinja_dict *dict = self->is.dict;
    for (uint32_t i = 0; i < dict->count; i++) {
        const rf_jinja_entry *e = &dict->entries[i];
        rf_jinja_value pair;
        RF_TRY(rf_jinja_pair(run, rf_jinja_string(e->name, e->size), e->value, &pair));
        RF_TRY(rf_jinja_list_add(run, out->is.list, pair));
    }
    return RF_OK;
}

static rf_result list_keys(rf_jinja_run *run, const rf_jinja_value *self, const rf_jinja_arguments *arguments,
                           rf_jinja_value *out)
{
    (void)arguments;
    return rf_jinja_iterate(run, self, out);
}

static rf_result list_values(rf_jinja_run *run, const rf_jinja_value *self, const rf_jinja_arguments *arguments,
                             rf_jinja_value *out)
{
    (void)arguments;
    RF_TRY(rf_jinja_list_new(run, 0, out));
    for (uint32_t i = 0; i < self->is.dict->count; i++)
        RF_TRY(rf_jinja_list_add(run, out->is.list, self->is.dict->entries[i].value));
    return RF_OK;
}

static rf_result get_member(rf_jinja_run *run, const rf_jinja_value *self, const rf_jinja_arguments *arguments,
                            rf_jinja_value *out)
{
    characters name;
    RF_TRY(take_text(arguments, 0, &name));
    const rf_jinja_value *found = rf_jinja_dict_find(run, self->is.dict, name.bytes, name.size);
    *out = found ? *found : arguments->given[1] ? arguments->items[1] : rf_jinja_none();
    return rf_jinja_step(run, 1);
}

/* ---- tables ---- */

static const rf_jinja_builtin string_methods[] = {
    { "strip", rf_jinja_strip, 0, 1 },
    { "lstrip", strip_left, 0, 1 },
    { "rstrip", strip_right, 0, 1 },
    { "split", split_text, 0, 2, .keywords = { "sep", "maxsplit" } },
    { "startswith", starts_with, 1, 1 },
    { "endswith", ends_with, 1, 1 },
    { "replace", rf_jinja_replace, 2, 3 },
    { "find", find_part, 1, 1 },
    { "count", count_parts, 1, 1 },
    { "upper", rf_jinja_upper, 0, 0 },
    { "lower", rf_jinja_lower, 0, 0 },
    { "title", rf_jinja_title, 0, 0 },
    { "capitalize", rf_jinja_capitalize, 0, 0 },
    { 0 },
};
static const rf_jinja_builtin dict_methods[] = {
    { "get", get_member, 1, 2 },
    { "items", rf_jinja_items, 0, 0 },
    { "keys", list_keys, 0, 0 },
    { "values", list_values, 0, 0 },
    { 0 },
};

const rf_jinja_builtin *rf_jinja_find_builtin(const rf_jinja_builtin *table, const char *name, size_t size)
{
    for (; table->name; table++)
        if (strlen(table->name) == size && memcmp(table->name, name, size) == 0) return table;
    return NULL;
}

const rf_jinja_builtin *rf_jinja_find_method(rf_jinja_type of, const char *name, size_t size)
{
    if (of == RF_JINJA_STRING) return rf_jinja_find_builtin(string_methods, name, size);
    return of == RF_JINJA_DICT ? rf_jinja_find_builtin(dict_methods, name, size) : NULL;
}

rf_result rf_jinja_call_builtin(rf_jinja_run *run, const rf_jinja_builtin *builtin, const rf_jinja_value *self,
                                const rf_jinja_arguments *arguments, rf_jinja_value *out)
{
    bool enough = arguments->count <= builtin->most;
    for (uint32_t i = 0; i < builtin->least; i++) enough = enough && arguments->given[i];
    if (!enough)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "'%s' takes %u to %u arguments", builtin->name, builtin->least,
                       builtin->most);
    RF_TRY(rf_jinja_step(run, 1));
    return rf_error_context(builtin->call(run, self, arguments, out), "'%s'", builtin->name);
}
