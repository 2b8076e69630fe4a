/* SPDX-License-Identifier: Apache-2.0 */
#include "persist/json.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/numbers.h"

/* ---- text ---- */

rf_result rf_json_text(json_t *value, char **text)
{
    *text = NULL;
    if (!value) return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "out of memory for a description");
    char *dump;
    RF_WITH_C_NUMBERS(dump = json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(17)));
    json_decref(value);
    *text = dump ? rf_strdup(dump) : NULL;
    free(dump);
    return *text ? RF_OK : RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "out of memory for a description");
}

rf_result rf_json_parse(const char *text, size_t size, const char *what, json_t **out)
{
    json_error_t error;
    RF_WITH_C_NUMBERS(*out = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error));
    if (!*out && json_error_code(&error) == json_error_out_of_memory)
        return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "%s: out of memory", what);
    if (!*out) {
        rf_error_one_line(error.text);
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: byte %d: %s", what, error.position, error.text);
    }
    if (json_is_object(*out)) return RF_OK;
    json_decref(*out);
    *out = NULL;
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: is not a JSON object", what);
}

/* ---- members ---- */

rf_result rf_json_fail_member(const char *name, const char *wanted)
{
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s' is not %s", name, wanted);
}

rf_result rf_json_number(const json_t *object, const char *name, double *out)
{
    const json_t *value = json_object_get(object, name);
    if (!value) return RF_OK;
    if (!json_is_number(value)) return rf_json_fail_member(name, "a number");
    *out = json_number_value(value);
    return RF_OK;
}

rf_result rf_json_float(const json_t *object, const char *name, float *out)
{
    double number = (double)*out;
    RF_TRY(rf_json_number(object, name, &number));
    if (!isfinite((float)number)) return rf_json_fail_member(name, "a number that f32 can hold");
    *out = (float)number;
    return RF_OK;
}

rf_result rf_json_u64(const json_t *object, const char *name, uint64_t *out)
{
    const json_t *value = json_object_get(object, name);
    if (!value) return RF_OK;
    if (!json_is_integer(value)) return rf_json_fail_member(name, "an integer");
    *out = (uint64_t)json_integer_value(value);
    return RF_OK;
}

rf_result rf_json_i32(const json_t *object, const char *name, int32_t *out)
{
    const json_t *value = json_object_get(object, name);
    if (!value) return RF_OK;
    const json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < INT32_MIN || number > INT32_MAX)
        return rf_json_fail_member(name, "a 32-bit integer");
    *out = (int32_t)number;
    return RF_OK;
}

rf_result rf_json_bool(const json_t *object, const char *name, bool *out)
{
    const json_t *value = json_object_get(object, name);
    if (!value) return RF_OK;
    if (!json_is_boolean(value)) return rf_json_fail_member(name, "true or false");
    *out = json_is_true(value);
    return RF_OK;
}

rf_result rf_json_choice(const json_t *object, const char *name, const char *const *names, int num_names, int *out)
{
    const json_t *value = json_object_get(object, name);
    if (!value) return RF_OK;
    for (int i = 0; json_is_string(value) && i < num_names; i++) {
        if (strcmp(json_string_value(value), names[i]) != 0) continue;
        *out = i;
        return RF_OK;
    }
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s' is not a known kind", name);
}

json_t *rf_shape_to_json(rf_shape shape)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < shape.rank; i++) json_array_append_new(list, json_integer(shape.dim[i]));
    return list;
}

rf_result rf_shape_from_json(const json_t *object, const char *name, rf_shape *out)
{
    const json_t *list = json_object_get(object, name);
    if (!json_is_array(list) || json_array_size(list) > RF_MAX_RANK)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s' is not a shape", name);
    out->rank = (int32_t)json_array_size(list);
    for (int32_t i = 0; i < out->rank; i++) {
        const json_t *value = json_array_get(list, (size_t)i);
        if (!json_is_integer(value)) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s' is not a shape", name);
        out->dim[i] = json_integer_value(value);
    }
    return RF_OK;
}

rf_result rf_json_set(json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value) == 0 ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}
