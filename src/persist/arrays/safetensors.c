/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safetensors: the length of the header (u64, little endian), the header, which is JSON, then the tensors' bytes. The
 * header maps names to type, shape and the place of the bytes after the header; the places cover all bytes, without
 * gaps or overlaps. "__metadata__" maps strings to strings. Written from the public description of the format.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "persist/arrays/interchange_files.h"

enum { LENGTH_BYTES = 8, MOST_HEADER = 16 << 20, ALIGNMENT = 8 };

static const char *const type_names[RF_DTYPE_COUNT] = {
    [RF_F32] = "F32", [RF_F16] = "F16", [RF_BF16] = "BF16", [RF_I32] = "I32", [RF_U8] = "U8", [RF_I64] = "I64",
};

void rf_array_set_free(rf_array_set *set)
{
    if (!set) return;
    for (uint32_t i = 0; i < set->count; i++) {
        rf_free((void *)set->items[i].name);
        rf_free(set->items[i].array.data);
    }
    rf_free(set->items);
    *set = (rf_array_set){ 0 };
}

static uint64_t array_bytes(const rf_array *array)
{
    return (uint64_t)rf_shape_count(array->shape) * rf_dtype_size(array->dtype);
}

/* ---- writing ---- */

static rf_result check_array(const rf_named_array *a)
{
    RF_REQUIRE(a->name && strcmp(a->name, "__metadata__") != 0, "rf_safetensors_write: '%s' is no name of a tensor",
               a->name ? a->name : "NULL");
    RF_REQUIRE(rf_dtype_size(a->array.dtype) > 0 && rf_shape_count(a->array.shape) >= 0,
               "rf_safetensors_write: '%s' has no valid type or shape", a->name);
    RF_REQUIRE(a->array.data || rf_shape_count(a->array.shape) == 0, "rf_safetensors_write: '%s' has no data", a->name);
    return RF_OK;
}

/* Larger elements first, so that all are aligned without gaps; then by name. */
static int compare_for_file(const void *x, const void *y)
{
    const rf_named_array *a = *(const rf_named_array *const *)x, *b = *(const rf_named_array *const *)y;
    const size_t s = rf_dtype_size(a->array.dtype), t = rf_dtype_size(b->array.dtype);
    return s != t ? (s > t ? -1 : 1) : strcmp(a->name, b->name);
}

static rf_result make_header(const rf_named_array *const *sorted, uint32_t count, char **text, uint64_t *size)
{
    json_t *root = json_object();
    uint64_t at = 0;
    bool good = root != NULL;
    for (uint32_t i = 0; good && i < count; i++) {
        const rf_array *a = &sorted[i]->array;
        const uint64_t end = at + array_bytes(a);
        json_t *shape = json_array();
        for (int32_t d = 0; d < a->shape.rank; d++) json_array_append_new(shape, json_integer(a->shape.dim[d]));
        good = json_object_set_new(root, sorted[i]->name,
                                   json_pack("{s:s, s:o, s:[I, I]}", "dtype", type_names[a->dtype], "shape", shape,
                                             "data_offsets", (json_int_t)at, (json_int_t)end)) == 0;
        at = end;
    }
    const bool distinct = json_object_size(root) == count;
    char *dump = good ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (!dump)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_safetensors_write: a name is no UTF-8, or memory is short");
    const size_t length = strlen(dump);
    *size = rf_align_up(length, ALIGNMENT);
    *text = distinct ? rf_calloc((size_t)*size + 1, 1) : NULL;
    if (*text) {
        memset(*text, ' ', (size_t)*size);
        memcpy(*text, dump, length);
    }
    free(dump);
    RF_REQUIRE(distinct, "rf_safetensors_write: two arrays have the same name");
    return *text ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

static rf_result write_parts(const rf_new_file *file, const char *path, const rf_named_array *const *sorted,
                             uint32_t count)
{
    char *header = NULL;
    uint64_t size = 0;
    unsigned char length[LENGTH_BYTES];
    RF_TRY(make_header(sorted, count, &header, &size));
    for (int i = 0; i < LENGTH_BYTES; i++) length[i] = (unsigned char)(size >> 8 * i);
    rf_result r = rf_file_write_at(file->ops, file->fd, path, length, LENGTH_BYTES, 0);
    if (r >= 0) r = rf_file_write_at(file->ops, file->fd, path, header, size, LENGTH_BYTES);
    rf_free(header);
    uint64_t at = LENGTH_BYTES + size;
    for (uint32_t i = 0; r >= 0 && i < count; i++) {
        const uint64_t bytes = array_bytes(&sorted[i]->array);
        if (bytes > 0) r = rf_file_write_at(file->ops, file->fd, path, sorted[i]->array.data, bytes, at);
        at += bytes;
    }
    return r;
}

rf_result rf_safetensors_write_with(const rf_file_ops *ops, const char *path, const rf_named_array *arrays,
                                    uint32_t count)
{
    RF_REQUIRE(path && *path, "rf_safetensors_write: path is empty");
    RF_REQUIRE(arrays || count == 0, "rf_safetensors_write: arrays is NULL");
    for (uint32_t i = 0; i < count; i++) RF_TRY(check_array(&arrays[i]));
    const rf_named_array **sorted = RF_NEW_ARRAY(const rf_named_array *, count);
    if (!sorted) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < count; i++) sorted[i] = &arrays[i];
    if (count > 0) qsort(sorted, count, sizeof(*sorted), compare_for_file);
    rf_new_file file;
    rf_result r = rf_new_file_begin(&file, ops, path);
    if (r >= 0) {
        r = write_parts(&file, path, sorted, count);
        if (r >= 0)
            r = rf_new_file_commit(&file);
        else
            rf_new_file_abandon(&file);
    }
    rf_free(sorted);
    return r;
}

rf_result rf_safetensors_write(const char *path, const rf_named_array *arrays, uint32_t count)
{
    return rf_safetensors_write_with(&rf_system_file_ops, path, arrays, count);
}

/* ---- reading ---- */

typedef struct source {
    const rf_file_ops *ops;
    const char *path;
    rf_tensor_filter filter;
    void *user; /* of the filter */
    int fd;
    uint64_t size, data; /* of the file; where tensors begin */
} source;

typedef struct place {
    const char *name; /* the header's */
    bool wanted;
    rf_dtype dtype; /* like the shape, of those that are wanted */
    rf_shape shape;
    uint64_t begin, end;
} place;

static rf_result corrupt(const source *s, const char *name, const char *what)
{
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s': tensor '%.200s': %s", s->path, name, what);
}

static rf_result read_shape(const source *s, const char *name, const json_t *list, rf_shape *shape)
{
    if (!json_is_array(list)) return corrupt(s, name, "has no shape");
    if (json_array_size(list) > RF_MAX_RANK)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s': tensor '%.200s' has %zu dimensions; at most %d", s->path, name,
                       json_array_size(list), RF_MAX_RANK);
    shape->rank = (int32_t)json_array_size(list);
    for (int32_t i = 0; i < shape->rank; i++) {
        const json_t *dim = json_array_get(list, (size_t)i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0) return corrupt(s, name, "has no valid shape");
        shape->dim[i] = json_integer_value(dim);
    }
    return rf_shape_count(*shape) < 0 ? corrupt(s, name, "is larger than anything") : RF_OK;
}

static rf_result read_type(const source *s, const char *name, const json_t *value, rf_dtype *dtype)
{
    const char *text = json_string_value(value);
    for (int d = 1; text && d < RF_DTYPE_COUNT; d++) {
        if (!type_names[d] || strcmp(type_names[d], text) != 0) continue;
        *dtype = (rf_dtype)d;
        return RF_OK;
    }
    if (!text) return corrupt(s, name, "has no type");
    return RF_FAIL(RF_ERROR_UNSUPPORTED,
                   "'%s': tensor '%.200s' is of type %.16s; there are F32, F16, BF16, I32, I64, U8", s->path, name,
                   text);
}

/* Of what is not wanted only the place counts: it may be of a type that there is not here. */
static rf_result read_entry(const source *s, const char *name, const json_t *entry, place *p)
{
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (!json_is_object(entry) || json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
        json_integer_value(begin) < 0 || json_integer_value(end) < json_integer_value(begin))
        return corrupt(s, name, "has no valid offsets");
    p->name = name;
    p->wanted = !s->filter || s->filter(s->user, name);
    p->begin = (uint64_t)json_integer_value(begin);
    p->end = (uint64_t)json_integer_value(end);
    if (p->wanted) {
        size_t bytes;
        RF_TRY(read_type(s, name, json_object_get(entry, "dtype"), &p->dtype));
        RF_TRY(read_shape(s, name, json_object_get(entry, "shape"), &p->shape));
        if (!rf_mul_size((size_t)rf_shape_count(p->shape), rf_dtype_size(p->dtype), &bytes) ||
            bytes != p->end - p->begin)
            return corrupt(s, name, "type and shape do not give its length");
    }
    return p->end > s->size - s->data ? corrupt(s, name, "lies behind the end of the file") : RF_OK;
}

static int compare_places(const void *x, const void *y)
{
    const place *a = x, *b = y;
    if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
    return a->end < b->end ? -1 : a->end > b->end;
}

static rf_result check_metadata(const source *s, const json_t *metadata)
{
    const char *key;
    json_t *value;
    if (!json_is_object(metadata)) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s': __metadata__ is no object", s->path);
    json_object_foreach((json_t *)metadata, key, value) if (!json_is_string(value)) return RF_FAIL(
        RF_ERROR_CORRUPT_DATA, "'%s': __metadata__ holds something that is no text", s->path);
    return RF_OK;
}

/* Entries of the header in the order of their bytes, which they must cover exactly. */
static rf_result read_entries(const source *s, json_t *root, place *places, uint32_t *count)
{
    const char *name;
    json_t *entry;
    *count = 0;
    json_object_foreach(root, name, entry)
    {
        if (strcmp(name, "__metadata__") == 0) {
            RF_TRY(check_metadata(s, entry));
            continue;
        }
        RF_TRY(read_entry(s, name, entry, &places[*count]));
        ++*count;
    }
    if (*count > 0) qsort(places, *count, sizeof(*places), compare_places);
    uint64_t at = 0;
    for (uint32_t i = 0; i < *count; i++) {
        if (places[i].begin != at) return corrupt(s, places[i].name, "overlaps another or follows a gap");
        at = places[i].end;
    }
    if (at != s->size - s->data)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s': %llu bytes belong to no tensor", s->path,
                       (unsigned long long)(s->size - s->data - at));
    return RF_OK;
}

static rf_result read_tensor(const source *s, const place *p, rf_named_array *to)
{
    const uint64_t bytes = p->end - p->begin;
    to->name = rf_strdup(p->name);
    to->array = (rf_array){ p->dtype, p->shape, rf_aligned_calloc(bytes ? (size_t)bytes : 1) };
    if (!to->name || !to->array.data) return RF_ERROR_OUT_OF_HOST_MEMORY;
    return bytes > 0 ? rf_file_read_at(s->ops, s->fd, s->path, to->array.data, bytes, s->data + p->begin) : RF_OK;
}

static rf_result read_all(const source *s, json_t *root, rf_array_set *out)
{
    const size_t most = json_object_size(root);
    place *places = RF_NEW_ARRAY(place, most);
    out->items = RF_NEW_ARRAY(rf_named_array, most);
    uint32_t count = 0;
    rf_result r = places && out->items ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) r = read_entries(s, root, places, &count);
    for (uint32_t i = 0; r >= 0 && i < count; i++)
        if (places[i].wanted) r = read_tensor(s, &places[i], &out->items[out->count++]);
    rf_free(places);
    return r;
}

/* The JSON library's tree can be many times the text. Every value comes with one of these characters, and takes fewer
 * bytes than `bytes_for_one`. */
static rf_result check_cost(const source *s, const char *text, uint64_t size)
{
    const uint64_t bytes_for_one = 128, room = s->size + (64u << 20);
    uint64_t count = 0;
    for (uint64_t i = 0; i < size; i++) count += text[i] == ',' || text[i] == ':' || text[i] == '[' || text[i] == '{';
    if (count <= room / bytes_for_one) return RF_OK;
    return RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s': the header has %llu entries, too many for a file of %llu bytes",
                   s->path, (unsigned long long)count, (unsigned long long)s->size);
}

static rf_result read_header(source *s, json_t **root)
{
    unsigned char length[LENGTH_BYTES];
    if (s->size < LENGTH_BYTES)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s' is no safetensors file: too short", s->path);
    RF_TRY(rf_file_read_at(s->ops, s->fd, s->path, length, LENGTH_BYTES, 0));
    uint64_t size = 0;
    for (int i = 0; i < LENGTH_BYTES; i++) size |= (uint64_t)length[i] << 8 * i;
    if (size > MOST_HEADER || size > s->size - LENGTH_BYTES)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s' is no safetensors file: a header of %llu bytes", s->path,
                       (unsigned long long)size);
    char *text = rf_calloc((size_t)size + 1, 1);
    if (!text) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = rf_file_read_at(s->ops, s->fd, s->path, text, size, LENGTH_BYTES);
    if (r >= 0) r = check_cost(s, text, size);
    json_error_t error;
    *root = r >= 0 && text[0] == '{' ? json_loadb(text, (size_t)size, JSON_REJECT_DUPLICATES, &error) : NULL;
    if (r >= 0 && !json_is_object(*root)) {
        json_decref(*root);
        r = RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s': the header is no JSON object: %s", s->path,
                    text[0] == '{' ? error.text : "it does not begin with one");
    }
    rf_free(text);
    s->data = LENGTH_BYTES + size;
    return r;
}

rf_result rf_safetensors_read_some(const rf_file_ops *ops, const char *path, rf_tensor_filter filter, void *user,
                                   rf_array_set *out)
{
    RF_REQUIRE(out, "rf_safetensors_read: out is NULL");
    *out = (rf_array_set){ 0 };
    RF_REQUIRE(path && *path, "rf_safetensors_read: path is empty");
    source s = { .ops = ops, .path = path, .filter = filter, .user = user, .fd = ops->open(ops->user, path) };
    if (s.fd < 0) return RF_FAIL_ERRNO(errno == ENOENT ? RF_ERROR_NOT_FOUND : RF_ERROR_IO, "cannot open '%s'", path);
    const int64_t size = ops->size(ops->user, s.fd);
    json_t *root = NULL;
    rf_result r = size < 0 ? RF_FAIL_ERRNO(RF_ERROR_IO, "'%s' cannot be read", path) : RF_OK;
    s.size = (uint64_t)size;
    if (r >= 0) r = read_header(&s, &root);
    if (r >= 0) {
        r = read_all(&s, root, out);
        json_decref(root);
    }
    ops->close(ops->user, s.fd);
    if (r < 0) rf_array_set_free(out);
    return r;
}

rf_result rf_safetensors_read_with(const rf_file_ops *ops, const char *path, rf_array_set *out)
{
    return rf_safetensors_read_some(ops, path, NULL, NULL, out);
}

rf_result rf_safetensors_read(const char *path, rf_array_set *out)
{
    return rf_safetensors_read_with(&rf_system_file_ops, path, out);
}
