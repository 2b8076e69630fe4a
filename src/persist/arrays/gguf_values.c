/* SPDX-License-Identifier: Apache-2.0 */
#include "persist/arrays/gguf_values.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "persist/arrays/gguf.h"

static void *copy_strings(rf_gguf_values *v, const rf_gguf_value *value)
{
    const char *const *texts = value->data;
    char **copies = rf_arena_alloc(&v->arena, (size_t)value->count * sizeof(*copies) + 1);
    for (uint64_t i = 0; copies && i < value->count; i++)
        if (!(copies[i] = rf_arena_strdup(&v->arena, texts[i]))) return NULL;
    return copies;
}

void rf_gguf_put(rf_gguf_values *v, const rf_gguf_value *value)
{
    if (v->status < 0) return;
    const size_t size = (size_t)value->count * rf_gguf_value_size((uint32_t)value->type);
    void *data = value->type == RF_GGUF_STRING ? copy_strings(v, value) : rf_arena_alloc(&v->arena, size + 1);
    char *key = rf_arena_strdup(&v->arena, value->key);
    v->status = key && data ? RF_VEC_GROW(v) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (v->status < 0) return;
    if (size > 0) memcpy(data, value->data, size);
    v->items[v->count] = *value;
    v->items[v->count].key = key;
    v->items[v->count++].data = data;
}

static void put_one(rf_gguf_values *v, const char *key, rf_gguf_value_type type, const void *data)
{
    rf_gguf_put(v, &(rf_gguf_value){ .key = key, .type = type, .count = 1, .data = data });
}

void rf_gguf_put_u32(rf_gguf_values *v, const char *key, uint32_t number)
{
    put_one(v, key, RF_GGUF_UINT32, &number);
}

void rf_gguf_put_f32(rf_gguf_values *v, const char *key, double number)
{
    const float narrow = (float)number;
    put_one(v, key, RF_GGUF_FLOAT32, &narrow);
}

void rf_gguf_put_bool(rf_gguf_values *v, const char *key, bool flag)
{
    const uint8_t byte = flag;
    put_one(v, key, RF_GGUF_BOOL, &byte);
}

void rf_gguf_put_text(rf_gguf_values *v, const char *key, const char *text)
{
    put_one(v, key, RF_GGUF_STRING, &text);
}

void rf_gguf_values_clear(rf_gguf_values *v)
{
    rf_arena_free(&v->arena);
    rf_free(v->items);
    *v = (rf_gguf_values){ 0 };
}

/* ---- reading ---- */

static rf_result fail_type(const char *key, const char *wanted)
{
    return RF_FAIL(RF_ERROR_UNSUPPORTED, "value '%.200s' is not %s", key, wanted);
}

/* The integer of a value, as that of 64 bits; false: it is none, or has its sign bit set. */
static bool read_integer(const rf_gguf_value *v, uint64_t *out)
{
    switch (v->type) {
    case RF_GGUF_UINT8: *out = *(const uint8_t *)v->data; return true;
    case RF_GGUF_UINT16: *out = *(const uint16_t *)v->data; return true;
    case RF_GGUF_UINT32: *out = *(const uint32_t *)v->data; return true;
    case RF_GGUF_UINT64: *out = *(const uint64_t *)v->data; return true;
    case RF_GGUF_INT8: *out = (uint64_t) * (const int8_t *)v->data; return true;
    case RF_GGUF_INT16: *out = (uint64_t) * (const int16_t *)v->data; return true;
    case RF_GGUF_INT32: *out = (uint64_t) * (const int32_t *)v->data; return true;
    case RF_GGUF_INT64: *out = (uint64_t) * (const int64_t *)v->data; return true;
    default: return false;
    }
}

rf_result rf_gguf_get_size(const rf_gguf *file, const char *key, uint32_t *out)
{
    rf_gguf_value v;
    uint64_t number;
    RF_TRY(rf_gguf_find_value(file, key, &v));
    if (v.array || !read_integer(&v, &number) || number > INT32_MAX)
        return fail_type(key, "an integer from 0 to 2147483647");
    *out = (uint32_t)number;
    return RF_OK;
}

rf_result rf_gguf_get_number(const rf_gguf *file, const char *key, double *out)
{
    rf_gguf_value v;
    RF_TRY(rf_gguf_find_value(file, key, &v));
    const bool narrow = v.type == RF_GGUF_FLOAT32;
    if (v.array || (!narrow && v.type != RF_GGUF_FLOAT64)) return fail_type(key, "a number of f32 or f64");
    const double number = narrow ? *(const float *)v.data : *(const double *)v.data;
    if (!isfinite((float)number)) return fail_type(key, "finite");
    *out = number;
    return RF_OK;
}

rf_result rf_gguf_get_bool(const rf_gguf *file, const char *key, bool *out)
{
    rf_gguf_value v;
    RF_TRY(rf_gguf_find_value(file, key, &v));
    if (v.array || v.type != RF_GGUF_BOOL) return fail_type(key, "true or false");
    *out = *(const uint8_t *)v.data != 0;
    return RF_OK;
}

rf_result rf_gguf_get_text(const rf_gguf *file, const char *key, const char **out)
{
    rf_gguf_value v;
    RF_TRY(rf_gguf_find_value(file, key, &v));
    if (v.array || v.type != RF_GGUF_STRING) return fail_type(key, "a text");
    const char *text = *(const char *const *)v.data;
    if (strlen(text) != v.sizes[0]) return fail_type(key, "a text without zero bytes");
    *out = text;
    return RF_OK;
}

rf_result rf_gguf_get_array(const rf_gguf *file, const char *key, rf_gguf_value_type type, rf_gguf_value *out)
{
    rf_gguf_value v;
    RF_TRY(rf_gguf_find_value(file, key, &v));
    if (!v.array || (v.type != type && v.count > 0)) return fail_type(key, "an array of the type that it has to be");
    *out = v;
    return RF_OK;
}
