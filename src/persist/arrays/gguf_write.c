/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF, writing: what describes the tensors is made in memory, their numbers go through a window. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/params.h"
#include "persist/arrays/gguf.h"

enum { MOST_DIMENSIONS = 4, MOST_NAME = 63, MOST_KEY = 65535 /* readers have no room for more */ };

/* The description as it grows; a failure sticks. */
typedef struct description {
    uint8_t *bytes;
    size_t size, capacity;
    rf_result status;
} description;

static void put_bytes(description *d, const void *data, size_t size)
{
    if (d->status >= 0 && d->size + size > d->capacity) {
        const size_t capacity = 2 * (d->size + size) + 4096;
        uint8_t *grown = rf_calloc(capacity, 1);
        if (!grown) d->status = RF_ERROR_OUT_OF_HOST_MEMORY;
        if (grown && d->size > 0) memcpy(grown, d->bytes, d->size);
        if (grown) {
            rf_free(d->bytes);
            d->bytes = grown;
            d->capacity = capacity;
        }
    }
    if (d->status < 0) return;
    if (size > 0) memcpy(d->bytes + d->size, data, size);
    d->size += size;
}

static void put_number(description *d, uint64_t value, uint32_t bytes)
{
    uint8_t text[8];
    for (uint32_t i = 0; i < bytes; i++) text[i] = (uint8_t)(value >> 8 * i);
    put_bytes(d, text, bytes);
}

static void put_text(description *d, const char *text, size_t size)
{
    put_number(d, size, 8);
    put_bytes(d, text, size);
}

/* ---- checks ---- */

static rf_result check_value(const rf_gguf_value *v)
{
    RF_REQUIRE(v->key && *v->key && strlen(v->key) <= MOST_KEY,
               "rf_gguf_write: a value has no key, or one of more "
               "than %d bytes",
               MOST_KEY);
    RF_REQUIRE(v->type == RF_GGUF_STRING || rf_gguf_value_size((uint32_t)v->type) > 0,
               "rf_gguf_write: '%.200s' has no rf_gguf_value_type", v->key);
    RF_REQUIRE(v->array || v->count == 1, "rf_gguf_write: '%.200s' is no array, but has %llu elements", v->key,
               (unsigned long long)v->count);
    RF_REQUIRE(v->data || v->count == 0, "rf_gguf_write: '%.200s' has no data", v->key);
    const char *const *texts = v->type == RF_GGUF_STRING ? v->data : NULL;
    for (uint64_t i = 0; texts && i < v->count; i++)
        RF_REQUIRE(texts[i], "rf_gguf_write: string %llu of '%.200s' is NULL", (unsigned long long)i, v->key);
    return RF_OK;
}

static rf_result check_tensor(const rf_gguf_tensor *t)
{
    const rf_gguf_form *form = rf_gguf_find_form((uint32_t)t->type);
    RF_REQUIRE(t->name && *t->name && strlen(t->name) <= MOST_NAME,
               "rf_gguf_write: a tensor has no name, or one of more than %d bytes: '%.200s'", MOST_NAME,
               t->name ? t->name : "NULL");
    RF_REQUIRE(form && form->encode, "rf_gguf_write: '%s' cannot be written as %s; take F32, F16, BF16 or Q8_0",
               t->name, rf_gguf_type_name((uint32_t)t->type));
    RF_REQUIRE(t->shape.rank >= 1 && t->shape.rank <= MOST_DIMENSIONS && rf_shape_count(t->shape) > 0,
               "rf_gguf_write: '%s' has %d dimensions, or is empty; the format has 1 to %d", t->name, t->shape.rank,
               MOST_DIMENSIONS);
    const int64_t row = t->shape.dim[t->shape.rank - 1];
    RF_REQUIRE(row % form->numbers == 0, "rf_gguf_write: '%s' has rows of %lld numbers; %s is for multiples of %u",
               t->name, (long long)row, form->name, form->numbers);
    return RF_OK;
}

static int compare_texts(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

static rf_result check_distinct(const char **names, uint64_t count)
{
    if (count > 0) qsort(names, (size_t)count, sizeof(*names), compare_texts);
    for (uint64_t i = 1; i < count; i++)
        RF_REQUIRE(strcmp(names[i - 1], names[i]) != 0, "rf_gguf_write: '%.200s' is there twice", names[i]);
    return RF_OK;
}

static rf_result check_contents(const rf_gguf_contents *c)
{
    RF_REQUIRE((c->values || c->num_values == 0) && (c->tensors || c->num_tensors == 0),
               "rf_gguf_write: values or tensors is NULL, but not their number");
    RF_REQUIRE(c->read || c->num_tensors == 0, "rf_gguf_write: read is NULL; it gives the tensors' numbers");
    for (uint64_t i = 0; i < c->num_values; i++) RF_TRY(check_value(&c->values[i]));
    for (uint64_t i = 0; i < c->num_tensors; i++) RF_TRY(check_tensor(&c->tensors[i]));
    const uint64_t most = c->num_values > c->num_tensors ? c->num_values : c->num_tensors;
    const char **names = RF_NEW_ARRAY(const char *, most);
    if (!names) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint64_t i = 0; i < c->num_values; i++) names[i] = c->values[i].key;
    rf_result r = check_distinct(names, c->num_values);
    for (uint64_t i = 0; i < c->num_tensors; i++) names[i] = c->tensors[i].name;
    if (r >= 0) r = check_distinct(names, c->num_tensors);
    rf_free(names);
    return r;
}

/* ---- the description ---- */

static void put_value(description *d, const rf_gguf_value *v)
{
    put_text(d, v->key, strlen(v->key));
    put_number(d, v->array ? RF_GGUF_ARRAY : (uint64_t)v->type, 4);
    if (v->array) {
        put_number(d, (uint64_t)v->type, 4);
        put_number(d, v->count, 8);
    }
    if (v->type != RF_GGUF_STRING) {
        put_bytes(d, v->data,
                  (size_t)v->count * rf_gguf_value_size((uint32_t)v->type)); /* little-endian, as all machines */
        return;
    }
    const char *const *texts = v->data;
    for (uint64_t i = 0; i < v->count; i++) put_text(d, texts[i], v->sizes ? v->sizes[i] : strlen(texts[i]));
}

static uint64_t stored_bytes(const rf_gguf_tensor *t)
{
    const rf_gguf_form *form = rf_gguf_find_form((uint32_t)t->type);
    return (uint64_t)rf_shape_count(t->shape) / form->numbers * form->bytes;
}

static uint64_t read_alignment(const rf_gguf_contents *c)
{
    uint32_t alignment = RF_GGUF_ALIGNMENT;
    for (uint64_t i = 0; i < c->num_values; i++)
        if (strcmp(c->values[i].key, "general.alignment") == 0 && c->values[i].type == RF_GGUF_UINT32)
            memcpy(&alignment, c->values[i].data, sizeof(alignment));
    return alignment;
}

static rf_result describe_file(const rf_gguf_contents *c, uint64_t alignment, description *d)
{
    uint64_t offset = 0;
    put_bytes(d, "GGUF", 4);
    put_number(d, RF_GGUF_VERSION, 4);
    put_number(d, c->num_tensors, 8);
    put_number(d, c->num_values, 8);
    for (uint64_t i = 0; i < c->num_values; i++) put_value(d, &c->values[i]);
    for (uint64_t i = 0; i < c->num_tensors; i++) {
        const rf_gguf_tensor *t = &c->tensors[i];
        put_text(d, t->name, strlen(t->name));
        put_number(d, (uint64_t)t->shape.rank, 4);
        for (int32_t k = t->shape.rank; k-- > 0;) put_number(d, (uint64_t)t->shape.dim[k], 8);
        put_number(d, (uint64_t)t->type, 4);
        put_number(d, offset, 8);
        offset = rf_align_up(offset + stored_bytes(t), alignment);
    }
    while (d->status >= 0 && d->size % alignment != 0) put_bytes(d, "", 1);
    return d->status;
}

/* ---- numbers ---- */

typedef struct window {
    float *numbers; /* RF_GGUF_AT_ONCE */
    uint8_t *bytes; /* those that the numbers become */
} window;

static rf_result write_numbers(const rf_new_file *file, const rf_gguf_contents *c, const rf_gguf_tensor *t, uint64_t at,
                               const window *w)
{
    const rf_gguf_form *form = rf_gguf_find_form((uint32_t)t->type);
    const uint64_t count = (uint64_t)rf_shape_count(t->shape);
    for (uint64_t first = 0, n; first < count; first += n) {
        n = count - first < RF_GGUF_AT_ONCE ? count - first : RF_GGUF_AT_ONCE;
        RF_TRY(c->read(c->user, t->name, first, n, w->numbers));
        const uint64_t blocks = n / form->numbers;
        for (uint64_t i = 0; i < blocks; i++)
            RF_REQUIRE(form->encode(w->numbers + i * form->numbers, w->bytes + i * form->bytes),
                       "rf_gguf_write: '%s' has a number that %s cannot hold, at element %llu or soon after it",
                       t->name, form->name, (unsigned long long)(first + i * form->numbers));
        RF_TRY(rf_file_write_at(file->ops, file->fd, file->path, w->bytes, blocks * form->bytes, at));
        at += blocks * form->bytes;
    }
    return RF_OK;
}

static rf_result write_parts(const rf_new_file *file, const rf_gguf_contents *c, const window *w)
{
    static const uint8_t zeros[64];
    description d = { 0 };
    const uint64_t alignment = read_alignment(c);
    RF_REQUIRE(alignment > 0 && (alignment & (alignment - 1)) == 0 && alignment <= 1u << 20,
               "rf_gguf_write: general.alignment is no power of two up to 1048576");
    rf_result r = describe_file(c, alignment, &d);
    if (r >= 0) r = rf_file_write_at(file->ops, file->fd, file->path, d.bytes, d.size, 0);
    rf_free(d.bytes);
    uint64_t at = d.size;
    for (uint64_t i = 0; r >= 0 && i < c->num_tensors; i++) {
        r = write_numbers(file, c, &c->tensors[i], at, w);
        at += stored_bytes(&c->tensors[i]);
        for (uint64_t end = rf_align_up(at, alignment), n; r >= 0 && at < end; at += n) {
            n = end - at < sizeof(zeros) ? end - at : sizeof(zeros);
            r = rf_file_write_at(file->ops, file->fd, file->path, zeros, n, at);
        }
    }
    return r;
}

rf_result rf_gguf_write_with(const rf_file_ops *ops, const char *path, const rf_gguf_contents *contents)
{
    RF_REQUIRE(path && *path, "rf_gguf_write: path is empty");
    RF_REQUIRE(contents, "rf_gguf_write: contents is NULL");
    RF_TRY(RF_PARAMS_CHECK(rf_gguf_contents, contents));
    RF_TRY(RF_PARAMS_CHECK_ALL(rf_gguf_value, contents->values, contents->num_values));
    RF_TRY(RF_PARAMS_CHECK_ALL(rf_gguf_tensor, contents->tensors, contents->num_tensors));
    RF_TRY(check_contents(contents));
    window w = { RF_NEW_ARRAY(float, RF_GGUF_AT_ONCE), RF_NEW_ARRAY(uint8_t, RF_GGUF_AT_ONCE * sizeof(float)) };
    rf_new_file file;
    rf_result r = w.numbers && w.bytes ? rf_new_file_begin(&file, ops, path) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) {
        r = write_parts(&file, contents, &w);
        if (r >= 0)
            r = rf_new_file_commit(&file);
        else
            rf_new_file_abandon(&file);
    }
    rf_free(w.numbers);
    rf_free(w.bytes);
    return r;
}

rf_result rf_gguf_write(const char *path, const rf_gguf_contents *contents)
{
    return rf_gguf_write_with(&rf_system_file_ops, path, contents);
}
