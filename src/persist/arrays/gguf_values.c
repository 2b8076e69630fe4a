/* SPDX-License-Identifier: Apache-2.0 */
#include "persist/arrays/gguf_values.h"

#include <string.h>

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
