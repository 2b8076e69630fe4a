/* SPDX-License-Identifier: Apache-2.0 */
/* The members of JSON objects, as the rows of tables say. */
#include <string.h>

#include "base/utf8.h"
#include "text/pipeline/pipeline.h"

rf_result rf_text_copy(rf_arena *arena, const char *bytes, size_t size, rf_slice_text *out)
{
    char *copy = rf_arena_alloc(arena, size + 1);
    if (!copy) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (size) memcpy(copy, bytes, size);
    *out = (rf_slice_text){ copy, size };
    return RF_OK;
}

static rf_result fail_field(const char *name, const char *wanted)
{
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s is not %s", name, wanted);
}

static rf_result read_text(rf_arena *arena, const rf_field *field, const json_t *value, rf_slice_text *out)
{
    uint32_t code;
    if (!json_is_string(value)) return fail_field(field->name, "a text");
    const char *text = json_string_value(value);
    const size_t size = json_string_length(value);
    if (field->kind == RF_FIELD_CHARACTER && (size == 0 || rf_utf8_decode(text, size, &code) != size))
        return fail_field(field->name, "one character");
    return rf_text_copy(arena, text, size, out);
}

static rf_result read_choice(const rf_field *field, const json_t *value, uint32_t *out)
{
    const char *text = json_string_value(value);
    char shown[48] = "";
    if (!text) return fail_field(field->name, "a text");
    for (uint32_t i = 0; field->choices[i]; i++) {
        if (strcmp(field->choices[i], text) != 0) continue;
        *out = i;
        return RF_OK;
    }
    strncpy(shown, text, sizeof(shown) - 1);
    rf_error_one_line(shown);
    return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s is \"%s\", which is not known", field->name, shown);
}

static rf_result read_pattern(rf_arena *arena, const rf_field *field, const json_t *value, rf_pattern *out)
{
    const json_t *text = json_object_get(value, "String"), *regex = json_object_get(value, "Regex");
    const json_t *given = text ? text : regex;
    if (!json_is_string(given) || json_object_size(value) != 1 || json_string_length(given) == 0)
        return fail_field(field->name, "an object with \"String\" or \"Regex\", a text that is not empty");
    const char *bytes = json_string_value(given);
    const size_t size = json_string_length(given);
    if (text) return rf_text_copy(arena, bytes, size, &out->text);
    return rf_error_context(rf_regex_compile(bytes, size, &out->regex), "%s", field->name);
}

static rf_result read_field(rf_arena *arena, const rf_field *field, const json_t *value, void *into)
{
    void *at = into ? (char *)into + field->offset : NULL; /* rows that the component reads itself need none */
    const json_int_t number = json_integer_value(value);
    switch (field->kind) {
    case RF_FIELD_FLAG:
        if (!json_is_boolean(value)) return fail_field(field->name, "true or false");
        *(bool *)at = json_is_true(value);
        return RF_OK;
    case RF_FIELD_COUNT:
        if (!json_is_integer(value) || number < 0 || number > INT32_MAX)
            return fail_field(field->name, "a number from 0 to 2147483647");
        *(uint32_t *)at = (uint32_t)number;
        return RF_OK;
    case RF_FIELD_TEXT:
    case RF_FIELD_CHARACTER: return read_text(arena, field, value, at);
    case RF_FIELD_CHOICE: return read_choice(field, value, at);
    case RF_FIELD_PATTERN: return read_pattern(arena, field, value, at);
    case RF_FIELD_OTHER: break;
    }
    return RF_OK;
}

static bool has_field(const rf_field *fields, const char *name)
{
    for (; fields->name; fields++)
        if (strcmp(fields->name, name) == 0) return true;
    return strcmp(name, "type") == 0;
}

rf_result rf_fields_read(rf_arena *arena, const json_t *object, const rf_field *fields, void *into)
{
    static const rf_field none = { 0 };
    const char *name;
    json_t *value;
    if (!json_is_object(object)) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "is no object");
    if (!fields) fields = &none;
    json_object_foreach((json_t *)(uintptr_t)object, name, value) if (!json_is_null(value) && !has_field(fields, name))
    {
        char shown[48] = "";
        strncpy(shown, name, sizeof(shown) - 1);
        rf_error_one_line(shown);
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "has a member \"%s\", which is not known", shown);
    }
    for (const rf_field *field = fields; field->name; field++) {
        value = json_object_get(object, field->name);
        if (value && !json_is_null(value))
            RF_TRY(read_field(arena, field, value, into));
        else if (field->needed)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "lacks \"%s\"", field->name);
    }
    return RF_OK;
}

const char *rf_type_of(const json_t *object)
{
    return json_string_value(json_object_get(object, "type"));
}

rf_result rf_type_unknown(const json_t *object)
{
    char shown[48] = "";
    if (!rf_type_of(object)) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "is no object with a \"type\"");
    strncpy(shown, rf_type_of(object), sizeof(shown) - 1);
    rf_error_one_line(shown);
    return RF_FAIL(RF_ERROR_UNSUPPORTED, "type \"%s\" is not known", shown);
}
