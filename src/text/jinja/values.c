/* SPDX-License-Identifier: Apache-2.0 */
/* Values of templates, as Python has them. */
#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "text/jinja/jinja.h"

enum { MOST_DEPTH = 200 };

/* ---- bounds ---- */

void rf_jinja_begin(rf_jinja_run *run, size_t input_size)
{
    const uint64_t most = input_size < (1u << 28) ? input_size : 1u << 28;
    *run = (rf_jinja_run){ .steps = (1u << 20) + 16 * most, .memory = (16u << 20) + 64 * most };
}

void rf_jinja_end(rf_jinja_run *run)
{
    rf_arena_free(&run->arena);
}

rf_result rf_jinja_step(rf_jinja_run *run, uint64_t steps)
{
    if (steps > run->steps)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "the template takes too many steps; does a loop of it ever end?");
    run->steps -= steps;
    return RF_OK;
}

void *rf_jinja_alloc(rf_jinja_run *run, size_t size)
{
    const uint64_t needed = (uint64_t)size + 32;
    if (needed > run->memory) {
        (void)RF_FAIL(RF_ERROR_UNSUPPORTED, "the values of the template take too much memory");
        return NULL;
    }
    if (rf_jinja_step(run, 1 + size / 64) < 0) return NULL;
    run->memory -= needed;
    return rf_arena_alloc(&run->arena, size);
}

rf_result rf_jinja_enter(rf_jinja_run *run)
{
    run->depth++;
    if (run->depth > MOST_DEPTH)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "more than %d levels of expressions, values or macros", MOST_DEPTH);
    return rf_jinja_step(run, 1);
}

rf_result rf_jinja_alloc_failure(void)
{
    rf_error_record record;
    rf_error_save(&record);
    return record.info.result < 0 ? record.info.result : RF_ERROR_OUT_OF_HOST_MEMORY;
}

/* ---- texts, lists, dicts ---- */

bool rf_jinja_is_text(const rf_jinja_value *value, const char *text)
{
    const size_t size = strlen(text);
    return value->type == RF_JINJA_STRING && value->is.string.size == size &&
           memcmp(value->is.string.bytes, text, size) == 0;
}

rf_result rf_jinja_copy(rf_jinja_run *run, const char *bytes, size_t size, rf_jinja_value *out)
{
    char *copy = rf_jinja_alloc(run, size + 1);
    if (!copy) return rf_jinja_alloc_failure();
    if (size) memcpy(copy, bytes, size);
    *out = rf_jinja_string(copy, size);
    return RF_OK;
}

rf_result rf_jinja_list_new(rf_jinja_run *run, uint32_t room, rf_jinja_value *out)
{
    rf_jinja_list *list = rf_jinja_alloc(run, sizeof(*list));
    if (!list) return rf_jinja_alloc_failure();
    list->items = rf_jinja_alloc(run, (size_t)room * sizeof(*list->items));
    if (!list->items) return rf_jinja_alloc_failure();
    list->room = room;
    *out = (rf_jinja_value){ RF_JINJA_LIST, { .list = list } };
    return RF_OK;
}

/* Room for one more item, twice as much as before. */
static rf_result grow_room(rf_jinja_run *run, void **items, uint32_t count, uint32_t *room, size_t item)
{
    if (count < *room) return RF_OK;
    const uint32_t more = *room < 4 ? 8 : *room < (1u << 30) ? 2 * *room : UINT32_MAX;
    void *grown = rf_jinja_alloc(run, more * item);
    if (!grown) return rf_jinja_alloc_failure();
    if (count) memcpy(grown, *items, count * item);
    *items = grown;
    *room = more;
    return RF_OK;
}

rf_result rf_jinja_list_add(rf_jinja_run *run, rf_jinja_list *list, rf_jinja_value value)
{
    RF_TRY(grow_room(run, (void **)&list->items, list->count, &list->room, sizeof(value)));
    list->items[list->count++] = value;
    return RF_OK;
}

rf_result rf_jinja_pair(rf_jinja_run *run, rf_jinja_value a, rf_jinja_value b, rf_jinja_value *out)
{
    RF_TRY(rf_jinja_list_new(run, 2, out));
    out->is.list->tuple = true;
    RF_TRY(rf_jinja_list_add(run, out->is.list, a));
    return rf_jinja_list_add(run, out->is.list, b);
}

rf_result rf_jinja_dict_new(rf_jinja_run *run, uint32_t room, rf_jinja_value *out)
{
    rf_jinja_dict *dict = rf_jinja_alloc(run, sizeof(*dict));
    if (!dict) return rf_jinja_alloc_failure();
    dict->entries = rf_jinja_alloc(run, (size_t)room * sizeof(*dict->entries));
    if (!dict->entries) return rf_jinja_alloc_failure();
    dict->room = room;
    *out = (rf_jinja_value){ RF_JINJA_DICT, { .dict = dict } };
    return RF_OK;
}

const rf_jinja_value *rf_jinja_dict_find(rf_jinja_run *run, const rf_jinja_dict *dict, const char *name, size_t size)
{
    const uint64_t steps = dict->count / 16;
    run->steps -= steps < run->steps ? steps : run->steps; /* the next step fails where none is left */
    for (uint32_t i = 0; i < dict->count; i++)
        if (dict->entries[i].size == size && memcmp(dict->entries[i].name, name, size) == 0)
            return &dict->entries[i].value;
    return NULL;
}

rf_result rf_jinja_dict_set(rf_jinja_run *run, rf_jinja_dict *dict, const char *name, size_t size, rf_jinja_value value)
{
    const rf_jinja_value *there = rf_jinja_dict_find(run, dict, name, size);
    RF_TRY(rf_jinja_step(run, 1));
    if (there) {
        dict->entries[(const rf_jinja_entry *)((const char *)there - offsetof(rf_jinja_entry, value)) - dict->entries]
            .value = value;
        return RF_OK;
    }
    RF_TRY(grow_room(run, (void **)&dict->entries, dict->count, &dict->room, sizeof(rf_jinja_entry)));
    dict->entries[dict->count++] = (rf_jinja_entry){ name, size, value };
    return RF_OK;
}

/* ---- JSON ---- */

static rf_result list_from_json(rf_jinja_run *run, const json_t *json, rf_jinja_value *out)
{
    const size_t count = json_array_size(json);
    RF_TRY(rf_jinja_list_new(run, (uint32_t)count, out));
    for (size_t i = 0; i < count; i++) {
        rf_jinja_value value;
        RF_TRY(rf_jinja_from_json(run, json_array_get(json, i), &value));
        RF_TRY(rf_jinja_list_add(run, out->is.list, value));
    }
    return RF_OK;
}

/* Names are each there once, so that none is looked for. */
static rf_result dict_from_json(rf_jinja_run *run, const json_t *json, rf_jinja_value *out)
{
    const char *name;
    json_t *member;
    RF_TRY(rf_jinja_dict_new(run, (uint32_t)json_object_size(json), out));
    rf_jinja_dict *dict = out->is.dict;
    json_object_foreach((json_t *)(uintptr_t)json, name, member)
    {
        rf_jinja_value text, value;
        RF_TRY(rf_jinja_copy(run, name, strlen(name), &text));
        RF_TRY(rf_jinja_from_json(run, member, &value));
        RF_TRY(grow_room(run, (void **)&dict->entries, dict->count, &dict->room, sizeof(rf_jinja_entry)));
        dict->entries[dict->count++] = (rf_jinja_entry){ text.is.string.bytes, text.is.string.size, value };
    }
    return RF_OK;
}

rf_result rf_jinja_from_json(rf_jinja_run *run, const json_t *json, rf_jinja_value *out)
{
    *out = rf_jinja_none();
    rf_result r = rf_jinja_enter(run);
    if (r >= 0) switch (json_typeof(json)) {
        case JSON_OBJECT: r = dict_from_json(run, json, out); break;
        case JSON_ARRAY: r = list_from_json(run, json, out); break;
        case JSON_STRING: r = rf_jinja_copy(run, json_string_value(json), json_string_length(json), out); break;
        case JSON_INTEGER: *out = rf_jinja_int(json_integer_value(json)); break;
        case JSON_REAL: *out = (rf_jinja_value){ RF_JINJA_FLOAT, { .number = json_real_value(json) } }; break;
        case JSON_TRUE:
        case JSON_FALSE: *out = rf_jinja_bool(json_is_true(json)); break;
        case JSON_NULL: break;
        }
    rf_jinja_leave(run);
    return r;
}

/* ---- what values are ---- */

const char *rf_jinja_describe(const rf_jinja_value *value, char *room)
{
    static const char *const words[] = {
        [RF_JINJA_NONE] = "none",      [RF_JINJA_BOOL] = "true or false", [RF_JINJA_INT] = "a number",
        [RF_JINJA_FLOAT] = "a number", [RF_JINJA_STRING] = "a text",      [RF_JINJA_LIST] = "a list",
        [RF_JINJA_DICT] = "an object", [RF_JINJA_LOOP] = "the loop",      [RF_JINJA_CALLABLE] = "a macro"
    };
    if (value->type != RF_JINJA_UNDEFINED) return words[value->type];
    const size_t size = value->is.string.size < 48 ? value->is.string.size : 48;
    snprintf(room, 96, "'%.*s', which is not defined", (int)size, value->is.string.bytes ? value->is.string.bytes : "");
    rf_error_one_line(room);
    return room;
}

bool rf_jinja_truth(const rf_jinja_value *value)
{
    switch (value->type) {
    case RF_JINJA_UNDEFINED:
    case RF_JINJA_NONE: return false;
    case RF_JINJA_BOOL: return value->is.boolean;
    case RF_JINJA_INT: return value->is.integer != 0;
    case RF_JINJA_FLOAT: return value->is.number != 0.0;
    case RF_JINJA_STRING: return value->is.string.size > 0;
    case RF_JINJA_LIST: return value->is.list->count > 0;
    case RF_JINJA_DICT: return value->is.dict->is_namespace || value->is.dict->count > 0;
    case RF_JINJA_LOOP:
    case RF_JINJA_CALLABLE: break;
    }
    return true;
}

bool rf_jinja_is_number(const rf_jinja_value *value)
{
    return value->type == RF_JINJA_BOOL || value->type == RF_JINJA_INT || value->type == RF_JINJA_FLOAT;
}

double rf_jinja_number(const rf_jinja_value *value)
{
    if (value->type == RF_JINJA_FLOAT) return value->is.number;
    return value->type == RF_JINJA_BOOL ? (double)value->is.boolean : (double)value->is.integer;
}

/* ---- comparisons ---- */

static rf_result equal_lists(rf_jinja_run *run, const rf_jinja_list *a, const rf_jinja_list *b, bool *out)
{
    *out = a->count == b->count && a->tuple == b->tuple;
    for (uint32_t i = 0; *out && i < a->count; i++) RF_TRY(rf_jinja_equal(run, &a->items[i], &b->items[i], out));
    return RF_OK;
}

static rf_result equal_dicts(rf_jinja_run *run, const rf_jinja_dict *a, const rf_jinja_dict *b, bool *out)
{
    *out = a->count == b->count;
    for (uint32_t i = 0; *out && i < a->count; i++) {
        const rf_jinja_value *other = rf_jinja_dict_find(run, b, a->entries[i].name, a->entries[i].size);
        *out = other != NULL;
        if (other) RF_TRY(rf_jinja_equal(run, &a->entries[i].value, other, out));
    }
    return RF_OK;
}

rf_result rf_jinja_equal(rf_jinja_run *run, const rf_jinja_value *a, const rf_jinja_value *b, bool *out)
{
    *out = false;
    if (rf_jinja_is_number(a) && rf_jinja_is_number(b)) {
        const bool real = a->type == RF_JINJA_FLOAT || b->type == RF_JINJA_FLOAT;
        *out = real || a->type != b->type ? rf_jinja_number(a) == rf_jinja_number(b)
               : a->type == RF_JINJA_BOOL ? a->is.boolean == b->is.boolean
                                          : a->is.integer == b->is.integer;
        return RF_OK;
    }
    if (a->type != b->type) return RF_OK;
    rf_result r = rf_jinja_enter(run);
    if (r >= 0) switch (a->type) {
        case RF_JINJA_STRING:
            *out = a->is.string.size == b->is.string.size &&
                   memcmp(a->is.string.bytes, b->is.string.bytes, a->is.string.size) == 0;
            r = rf_jinja_step(run, a->is.string.size / 256);
            break;
        case RF_JINJA_LIST: r = equal_lists(run, a->is.list, b->is.list, out); break;
        case RF_JINJA_DICT: r = equal_dicts(run, a->is.dict, b->is.dict, out); break;
        case RF_JINJA_LOOP: *out = a->is.loop == b->is.loop; break;
        case RF_JINJA_CALLABLE: *out = a->is.callable == b->is.callable; break;
        default: *out = true; break;
        }
    rf_jinja_leave(run);
    return r;
}

rf_result rf_jinja_compare(rf_jinja_run *run, const rf_jinja_value *a, const rf_jinja_value *b, int *out)
{
    char room[2][96];
    *out = 0;
    RF_TRY(rf_jinja_step(run, 1));
    if (a->type == RF_JINJA_STRING && b->type == RF_JINJA_STRING) {
        const size_t n = a->is.string.size, m = b->is.string.size;
        const int c = memcmp(a->is.string.bytes, b->is.string.bytes, n < m ? n : m);
        *out = c ? (c > 0) - (c < 0) : (n > m) - (n < m);
        return rf_jinja_step(run, (n < m ? n : m) / 256);
    }
    if (!rf_jinja_is_number(a) || !rf_jinja_is_number(b))
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s and %s have no order", rf_jinja_describe(a, room[0]),
                       rf_jinja_describe(b, room[1]));
    if (a->type == RF_JINJA_INT && b->type == RF_JINJA_INT) {
        *out = (a->is.integer > b->is.integer) - (a->is.integer < b->is.integer);
        return RF_OK;
    }
    const double x = rf_jinja_number(a), y = rf_jinja_number(b);
    *out = (x > y) - (x < y);
    return RF_OK;
}

rf_result rf_jinja_contains(rf_jinja_run *run, const rf_jinja_value *whole, const rf_jinja_value *part, bool *out)
{
    char room[96];
    *out = false;
    const bool text = part->type == RF_JINJA_STRING;
    if (whole->type == RF_JINJA_STRING && text) {
        RF_TRY(rf_jinja_step(run, whole->is.string.size / 64));
        *out = part->is.string.size == 0 ||
               (whole->is.string.size > 0 &&
                memmem(whole->is.string.bytes, whole->is.string.size, part->is.string.bytes, part->is.string.size));
        return RF_OK;
    }
    if (whole->type == RF_JINJA_DICT) {
        *out = text && rf_jinja_dict_find(run, whole->is.dict, part->is.string.bytes, part->is.string.size);
        return RF_OK;
    }
    if (whole->type == RF_JINJA_UNDEFINED) return RF_OK;
    if (whole->type != RF_JINJA_LIST)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "nothing is in %s", rf_jinja_describe(whole, room));
    for (uint32_t i = 0; !*out && i < whole->is.list->count; i++)
        RF_TRY(rf_jinja_equal(run, &whole->is.list->items[i], part, out));
    return RF_OK;
}

/* ---- parts ---- */

static size_t character_size(const char *text, size_t size)
{
    uint32_t code;
    return rf_utf8_decode(text, size, &code);
}

static rf_result list_characters(rf_jinja_run *run, const rf_jinja_value *value, rf_jinja_value *out)
{
    const char *text = value->is.string.bytes;
    RF_TRY(rf_jinja_list_new(run, 0, out));
    for (size_t at = 0, n; at < value->is.string.size; at += n) {
        n = character_size(text + at, value->is.string.size - at);
        RF_TRY(rf_jinja_list_add(run, out->is.list, rf_jinja_string(text + at, n)));
    }
    return RF_OK;
}

static rf_result list_names(rf_jinja_run *run, const rf_jinja_dict *dict, rf_jinja_value *out)
{
    RF_TRY(rf_jinja_list_new(run, dict->count, out));
    for (uint32_t i = 0; i < dict->count; i++)
        RF_TRY(rf_jinja_list_add(run, out->is.list, rf_jinja_string(dict->entries[i].name, dict->entries[i].size)));
    return RF_OK;
}

rf_result rf_jinja_iterate(rf_jinja_run *run, const rf_jinja_value *value, rf_jinja_value *out)
{
    char room[96];
    switch (value->type) {
    case RF_JINJA_UNDEFINED: return rf_jinja_list_new(run, 0, out);
    case RF_JINJA_LIST: *out = *value; return RF_OK;
    case RF_JINJA_DICT: return list_names(run, value->is.dict, out);
    case RF_JINJA_STRING: return list_characters(run, value, out);
    default:
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "there is nothing to go through in %s",
                       rf_jinja_describe(value, room));
    }
}

rf_result rf_jinja_length(rf_jinja_run *run, const rf_jinja_value *value, int64_t *out)
{
    char room[96];
    *out = 0;
    switch (value->type) {
    case RF_JINJA_UNDEFINED: return RF_OK;
    case RF_JINJA_LIST: *out = value->is.list->count; return RF_OK;
    case RF_JINJA_DICT: *out = value->is.dict->count; return RF_OK;
    case RF_JINJA_STRING:
        for (size_t at = 0; at < value->is.string.size; ++*out)
            at += character_size(value->is.string.bytes + at, value->is.string.size - at);
        return rf_jinja_step(run, value->is.string.size / 64);
    default: return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s has no length", rf_jinja_describe(value, room));
    }
}

static rf_result loop_attribute(const rf_jinja_loop *loop, const char *name, size_t size, rf_jinja_value *out)
{
    const int64_t at = loop->at, count = loop->list->count;
    const struct {
        const char *name;
        rf_jinja_value value;
    } rows[] = {
        { "index", rf_jinja_int(at + 1) },
        { "index0", rf_jinja_int(at) },
        { "revindex", rf_jinja_int(count - at) },
        { "revindex0", rf_jinja_int(count - at - 1) },
        { "first", rf_jinja_bool(at == 0) },
        { "last", rf_jinja_bool(at == count - 1) },
        { "length", rf_jinja_int(count) },
        { "previtem", at > 0 ? loop->list->items[at - 1] : rf_jinja_undefined("loop.previtem", 13) },
        { "nextitem", at + 1 < count ? loop->list->items[at + 1] : rf_jinja_undefined("loop.nextitem", 13) },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strlen(rows[i].name) != size || memcmp(rows[i].name, name, size) != 0) continue;
        *out = rows[i].value;
        return RF_OK;
    }
    const rf_jinja_value asked = rf_jinja_undefined(name, size);
    char room[96];
    return RF_FAIL(RF_ERROR_UNSUPPORTED, "of the loop, %s", rf_jinja_describe(&asked, room));
}

rf_result rf_jinja_attribute(rf_jinja_run *run, const rf_jinja_value *value, const char *name, size_t size,
                             rf_jinja_value *out)
{
    char room[2][96];
    *out = rf_jinja_undefined(name, size);
    if (value->type == RF_JINJA_LOOP) return loop_attribute(value->is.loop, name, size, out);
    if (value->type == RF_JINJA_UNDEFINED)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s, of %s", rf_jinja_describe(out, room[0]),
                       rf_jinja_describe(value, room[1]));
    if (value->type != RF_JINJA_DICT) return RF_OK;
    const rf_jinja_value *found = rf_jinja_dict_find(run, value->is.dict, name, size);
    if (found) *out = *found;
    return RF_OK;
}

/* Character `at`; false: there is none. */
static bool find_character(const rf_jinja_value *value, int64_t at, rf_jinja_value *out)
{
    const char *text = value->is.string.bytes;
    size_t place = 0, n = 0;
    for (int64_t i = 0; i <= at && place < value->is.string.size; i++, place += n) {
        n = character_size(text + place, value->is.string.size - place);
        if (i < at) continue;
        *out = rf_jinja_string(text + place, n);
        return true;
    }
    return false;
}

rf_result rf_jinja_item(rf_jinja_run *run, const rf_jinja_value *value, const rf_jinja_value *key, rf_jinja_value *out)
{
    char room[96];
    *out = rf_jinja_undefined("[]", 2);
    if (key->type == RF_JINJA_STRING)
        return rf_jinja_attribute(run, value, key->is.string.bytes, key->is.string.size, out);
    if (value->type == RF_JINJA_UNDEFINED)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "an item of %s", rf_jinja_describe(value, room));
    if ((key->type != RF_JINJA_INT && key->type != RF_JINJA_BOOL) ||
        (value->type != RF_JINJA_LIST && value->type != RF_JINJA_STRING))
        return RF_OK;
    int64_t at = (int64_t)rf_jinja_number(key), count;
    RF_TRY(rf_jinja_length(run, value, &count));
    if (at < 0) at += count;
    if (at < 0 || at >= count) return RF_OK;
    if (value->type == RF_JINJA_LIST)
        *out = value->is.list->items[at];
    else
        (void)find_character(value, at, out);
    return RF_OK;
}

/* As Python's slice.indices(); `first` and `last` are those that there are. */
static int64_t clamp_bound(int64_t bound, int64_t count, bool backwards)
{
    if (bound < 0) bound = bound < -count ? -1 : bound + count;
    if (bound < 0) return backwards ? -1 : 0;
    return bound < count ? bound : backwards ? count - 1 : count;
}

static rf_result read_bound(const rf_jinja_value *bound, int64_t fallback, int64_t *out)
{
    char room[96];
    *out = fallback;
    if (bound->type == RF_JINJA_UNDEFINED || bound->type == RF_JINJA_NONE) return RF_OK;
    if (bound->type != RF_JINJA_INT)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "the bound of a slice is %s", rf_jinja_describe(bound, room));
    *out = bound->is.integer;
    return RF_OK;
}

static rf_result join_texts(rf_jinja_run *run, const rf_jinja_list *list, rf_jinja_value *out)
{
    size_t size = 0, at = 0;
    for (uint32_t i = 0; i < list->count; i++) size += list->items[i].is.string.size;
    char *text = rf_jinja_alloc(run, size + 1);
    if (!text) return rf_jinja_alloc_failure();
    for (uint32_t i = 0; i < list->count; at += list->items[i].is.string.size, i++)
        memcpy(text + at, list->items[i].is.string.bytes, list->items[i].is.string.size);
    *out = rf_jinja_string(text, size);
    return RF_OK;
}

rf_result rf_jinja_slice(rf_jinja_run *run, const rf_jinja_value *value, const rf_jinja_value bounds[3],
                         rf_jinja_value *out)
{
    char room[96];
    rf_jinja_value all;
    int64_t step, begin, end;
    if (value->type != RF_JINJA_LIST && value->type != RF_JINJA_STRING)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "a slice of %s", rf_jinja_describe(value, room));
    RF_TRY(rf_jinja_iterate(run, value, &all));
    const int64_t count = all.is.list->count;
    RF_TRY(read_bound(&bounds[2], 1, &step));
    if (step == 0 || step == INT64_MIN) return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "the step of a slice is 0");
    RF_TRY(read_bound(&bounds[0], step > 0 ? 0 : INT64_MAX, &begin));
    RF_TRY(read_bound(&bounds[1], step > 0 ? INT64_MAX : INT64_MIN, &end));
    begin = clamp_bound(begin, count, step < 0);
    end = end == INT64_MIN ? -1 : clamp_bound(end, count, step < 0);
    RF_TRY(rf_jinja_list_new(run, 0, out));
    out->is.list->tuple = all.is.list->tuple;
    for (int64_t at = begin; step > 0 ? at < end : at > end; at += step) {
        RF_TRY(rf_jinja_list_add(run, out->is.list, all.is.list->items[at]));
        if (step > 0 ? step > count : step < -count) break;
    }
    return value->type == RF_JINJA_STRING ? join_texts(run, out->is.list, out) : RF_OK;
}
