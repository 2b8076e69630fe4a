/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safetensors: the length of the header (u64, little endian), the header, which is JSON, then the tensors' bytes. The
 * header maps names to type, shape and the place of the bytes after the header; the places cover all bytes, without
 * gaps or overlaps. "__metadata__" maps strings to strings. Written from the public description of the format.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "base/params.h"
#include "persist/archive/writer.h"
#include "persist/arrays/interchange_files.h"

enum { LENGTH_BYTES = 8, MOST_HEADER = 100000000 /* the format's own limit */, ALIGNMENT = 8, WINDOW = 4 << 20 };

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

static rf_result check_array(const rf_named_array *a, bool has_data)
{
    RF_REQUIRE(a->name && strcmp(a->name, "__metadata__") != 0, "rf_safetensors_write: '%s' is not a valid tensor name",
               a->name ? a->name : "NULL");
    RF_REQUIRE(rf_dtype_size(a->array.dtype) > 0 && rf_shape_count(a->array.shape) >= 0,
               "rf_safetensors_write: '%s' has no valid type or shape", a->name);
    RF_REQUIRE(!has_data || a->array.data || rf_shape_count(a->array.shape) == 0,
               "rf_safetensors_write: '%s' has no data", a->name);
    return RF_OK;
}

/* Larger elements first, so that all are aligned without gaps; then by name. */
static int compare_for_file(const void *x, const void *y)
{
    const rf_named_array *a = *(const rf_named_array *const *)x, *b = *(const rf_named_array *const *)y;
    const size_t s = rf_dtype_size(a->array.dtype), t = rf_dtype_size(b->array.dtype);
    return s != t ? (s > t ? -1 : 1) : strcmp(a->name, b->name);
}

/* The header as it grows. */
typedef struct header_text {
    char *bytes;
    size_t size, capacity;
} header_text;

static rf_result header_append(header_text *h, const char *text, size_t size)
{
    if (h->size + size > MOST_HEADER)
        return RF_FAIL(RF_ERROR_UNSUPPORTED,
                       "rf_safetensors_write: names and shapes take more than the %d bytes that the format's header "
                       "may have; write several files",
                       MOST_HEADER);
    if (h->size + size > h->capacity) {
        const size_t capacity = 2 * (h->size + size) + 4096;
        char *grown = rf_calloc(capacity, 1);
        if (!grown) return RF_ERROR_OUT_OF_HOST_MEMORY;
        if (h->size > 0) memcpy(grown, h->bytes, h->size);
        rf_free(h->bytes);
        h->bytes = grown;
        h->capacity = capacity;
    }
    memcpy(h->bytes + h->size, text, size);
    h->size += size;
    return RF_OK;
}

static rf_result append_name(header_text *h, const char *name)
{
    json_t *string = json_string(name);
    char *quoted = NULL;
    if (string) RF_WITH_C_NUMBERS(quoted = json_dumps(string, JSON_ENCODE_ANY));
    json_decref(string);
    if (!quoted)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_safetensors_write: a name is not UTF-8, or memory is short");
    const rf_result r = header_append(h, quoted, strlen(quoted));
    free(quoted);
    return r;
}

static rf_result append_array(header_text *h, const rf_named_array *named, uint64_t begin, uint64_t end)
{
    const rf_array *a = &named->array;
    char text[400];
    int used = snprintf(text, sizeof(text), ":{\"dtype\":\"%s\",\"shape\":[", type_names[a->dtype]);
    for (int32_t d = 0; d < a->shape.rank; d++)
        used += snprintf(text + used, sizeof(text) - (size_t)used, "%s%lld", d ? "," : "", (long long)a->shape.dim[d]);
    used += snprintf(text + used, sizeof(text) - (size_t)used, "],\"data_offsets\":[%llu,%llu]}",
                     (unsigned long long)begin, (unsigned long long)end);
    RF_TRY(append_name(h, named->name));
    return header_append(h, text, (size_t)used);
}

static int compare_texts(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

/* Sorts `names`. NULL: no two are the same. */
static const char *find_double(const char **names, uint32_t count)
{
    if (count > 0) qsort(names, count, sizeof(*names), compare_texts);
    for (uint32_t i = 1; i < count; i++)
        if (strcmp(names[i - 1], names[i]) == 0) return names[i];
    return NULL;
}

static rf_result check_names(const rf_named_array *const *arrays, uint32_t count)
{
    const char **names = RF_NEW_ARRAY(const char *, count);
    if (!names) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < count; i++) names[i] = arrays[i]->name;
    const char *twice = find_double(names, count);
    const rf_result r = twice ? RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                                        "rf_safetensors_write: two arrays have the same name, '%.200s'", twice)
                              : RF_OK;
    rf_free(names);
    return r;
}

/* `h->bytes` is the caller's, also when it fails. */
static rf_result make_header(const rf_named_array *const *sorted, uint32_t count, const char *metadata, header_text *h)
{
    static const char key[] = "{\"__metadata__\":";
    uint64_t at = 0;
    RF_TRY(check_names(sorted, count));
    RF_TRY(header_append(h, key, metadata ? strlen(key) : 1));
    if (metadata) RF_TRY(header_append(h, metadata, strlen(metadata)));
    if (metadata && count > 0) RF_TRY(header_append(h, ",", 1));
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t end = at + array_bytes(&sorted[i]->array);
        if (i > 0) RF_TRY(header_append(h, ",", 1));
        RF_TRY(append_array(h, sorted[i], at, end));
        at = end;
    }
    RF_TRY(header_append(h, "}", 1));
    while (h->size % ALIGNMENT != 0) RF_TRY(header_append(h, " ", 1));
    return RF_OK;
}

/* Through `window`, which has WINDOW bytes. */
static rf_result copy_bytes(const rf_new_file *file, const char *path, const char *name,
                            const rf_archive_source *source, uint64_t bytes, uint64_t at, void *window)
{
    for (uint64_t done = 0, n; done < bytes; done += n) {
        n = bytes - done < WINDOW ? bytes - done : WINDOW;
        RF_TRY(source->read(source->user, name, done, window, n));
        RF_TRY(rf_file_write_at(file->ops, file->fd, path, window, n, at + done));
    }
    return RF_OK;
}

static rf_result write_parts(const rf_new_file *file, const char *path, const rf_named_array *const *sorted,
                             uint32_t count, const char *metadata, const rf_archive_source *source)
{
    header_text header = { 0 };
    unsigned char length[LENGTH_BYTES];
    void *window = source ? rf_calloc(WINDOW, 1) : NULL;
    rf_result r = source && !window ? RF_ERROR_OUT_OF_HOST_MEMORY : make_header(sorted, count, metadata, &header);
    const uint64_t size = header.size;
    for (int i = 0; i < LENGTH_BYTES; i++) length[i] = (unsigned char)(size >> 8 * i);
    if (r >= 0) r = rf_file_write_at(file->ops, file->fd, path, length, LENGTH_BYTES, 0);
    if (r >= 0) r = rf_file_write_at(file->ops, file->fd, path, header.bytes, size, LENGTH_BYTES);
    rf_free(header.bytes);
    uint64_t at = LENGTH_BYTES + size;
    for (uint32_t i = 0; r >= 0 && i < count; i++) {
        const uint64_t bytes = array_bytes(&sorted[i]->array);
        if (source)
            r = copy_bytes(file, path, sorted[i]->name, source, bytes, at, window);
        else if (bytes > 0)
            r = rf_file_write_at(file->ops, file->fd, path, sorted[i]->array.data, bytes, at);
        at += bytes;
    }
    rf_free(window);
    return r;
}

rf_result rf_safetensors_write_from(const rf_file_ops *ops, const char *path, const rf_named_array *arrays,
                                    uint32_t count, const char *metadata, const rf_archive_source *source)
{
    RF_REQUIRE(path && *path, "rf_safetensors_write: path is empty");
    RF_REQUIRE(arrays || count == 0, "rf_safetensors_write: arrays is NULL");
    for (uint32_t i = 0; i < count; i++) RF_TRY(check_array(&arrays[i], !source));
    const rf_named_array **sorted = RF_NEW_ARRAY(const rf_named_array *, count);
    if (!sorted) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < count; i++) sorted[i] = &arrays[i];
    if (count > 0) qsort(sorted, count, sizeof(*sorted), compare_for_file);
    rf_new_file file;
    rf_result r = rf_new_file_begin(&file, ops, path);
    if (r >= 0) {
        r = write_parts(&file, path, sorted, count, metadata, source);
        if (r >= 0)
            r = rf_new_file_commit(&file);
        else
            rf_new_file_abandon(&file);
    }
    rf_free(sorted);
    return r;
}

rf_result rf_safetensors_write_with(const rf_file_ops *ops, const char *path, const rf_named_array *arrays,
                                    uint32_t count)
{
    return rf_safetensors_write_from(ops, path, arrays, count, NULL, NULL);
}

static rf_result read_archive(void *user, const char *name, uint64_t offset, void *data, uint64_t size)
{
    return rf_archive_read_range(user, name, offset, data, size);
}

rf_result rf_safetensors_from_archive(rf_archive *archive, const char *path)
{
    RF_REQUIRE(archive, "rf_safetensors_from_archive: archive is NULL");
    const uint32_t count = (uint32_t)rf_archive_num_tensors(archive);
    rf_named_array *arrays = RF_NEW_ARRAY(rf_named_array, count);
    rf_result r = arrays ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; r >= 0 && i < count; i++) {
        rf_archive_entry e;
        r = rf_archive_entry_at(archive, i, &e);
        if (r >= 0) arrays[i] = (rf_named_array){ e.name, { e.dtype, e.shape, NULL } };
    }
    if (r >= 0)
        r = rf_safetensors_write_from(&rf_system_file_ops, path, arrays, count, NULL,
                                      &(rf_archive_source){ read_archive, archive });
    rf_free(arrays);
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
    int fd;
    uint64_t size, data; /* of the file; where tensors begin */
} source;

typedef struct place {
    const char *name; /* in the header's text */
    rf_dtype dtype;   /* like the shape, of those that can be read */
    rf_shape shape;
    const char *unsupported_type; /* of those that cannot: what the header says, in its text */
    uint64_t begin, end;
} place;

static rf_result fail_corrupt(const source *s, const char *name, const char *what)
{
    char shown[200];
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s': tensor '%s': %s", s->path, rf_error_show(name, shown, sizeof(shown)),
                   what);
}

/* A scalar where there are more dimensions than a shape has. */
static rf_result read_shape(const source *s, const char *name, const json_t *list, rf_shape *shape)
{
    if (!json_is_array(list)) return fail_corrupt(s, name, "has no shape");
    const size_t rank = json_array_size(list);
    *shape = (rf_shape){ .rank = rank <= RF_MAX_RANK ? (int32_t)rank : 0 };
    for (size_t i = 0; i < rank; i++) {
        const json_t *dim = json_array_get(list, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0) return fail_corrupt(s, name, "has no valid shape");
        if (rank <= RF_MAX_RANK) shape->dim[i] = json_integer_value(dim);
    }
    return rf_shape_count(*shape) < 0 ? fail_corrupt(s, name, "is larger than anything") : RF_OK;
}

/* RF_DTYPE_INVALID where there is no such type here. */
static rf_dtype find_type(const char *text)
{
    for (int d = RF_DTYPE_INVALID + 1; d < RF_DTYPE_COUNT; d++)
        if (type_names[d] && strcmp(type_names[d], text) == 0) return (rf_dtype)d;
    return RF_DTYPE_INVALID;
}

/* `text`, `size` bytes, is the entry itself, in whose place stands what it says of its type where there is no such type
 * or rank here. */
static rf_result read_type(const source *s, const json_t *entry, char *text, size_t size, place *p)
{
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    const json_t *list = json_object_get(entry, "shape");
    const size_t rank = json_array_size(list);
    size_t bytes;
    if (!type) return fail_corrupt(s, p->name, "has no type");
    RF_TRY(read_shape(s, p->name, list, &p->shape));
    p->dtype = rank <= RF_MAX_RANK ? find_type(type) : RF_DTYPE_INVALID;
    if (p->dtype != RF_DTYPE_INVALID) {
        if (rf_mul_size((size_t)rf_shape_count(p->shape), rf_dtype_size(p->dtype), &bytes) &&
            bytes == p->end - p->begin)
            return RF_OK;
        return fail_corrupt(s, p->name, "type and shape do not give its length");
    }
    if (rank <= RF_MAX_RANK)
        snprintf(text, size, "%.16s", type);
    else
        snprintf(text, size, "%.16s of %zu dimensions", type, rank);
    for (char *at = text; *at; at++)
        if (*at < ' ' || *at > '~') *at = '?';
    p->unsupported_type = text;
    return RF_OK;
}

static rf_result check_readable(const source *s, const place *p)
{
    char name[200], type[48];
    if (!p->unsupported_type) return RF_OK;
    return RF_FAIL(RF_ERROR_UNSUPPORTED,
                   "'%s': tensor '%s' is of type %s; supported are F32, F16, BF16, I32, I64 and U8 of up to %d "
                   "dimensions",
                   s->path, rf_error_show(p->name, name, sizeof(name)),
                   rf_error_show(p->unsupported_type, type, sizeof(type)), RF_MAX_RANK);
}

/* `text`: as in read_type(). */
static rf_result read_entry(const source *s, const char *name, const json_t *entry, char *text, size_t size, place *p)
{
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (!json_is_object(entry) || json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
        json_integer_value(begin) < 0 || json_integer_value(end) < json_integer_value(begin))
        return fail_corrupt(s, name, "has no valid offsets");
    p->name = name;
    p->begin = (uint64_t)json_integer_value(begin);
    p->end = (uint64_t)json_integer_value(end);
    RF_TRY(read_type(s, entry, text, size, p));
    return p->end > s->size - s->data ? fail_corrupt(s, name, "lies behind the end of the file") : RF_OK;
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
    if (!json_is_object(metadata))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s': __metadata__ is not an object", s->path);
    json_object_foreach((json_t *)metadata, key, value) if (!json_is_string(value)) return RF_FAIL(
        RF_ERROR_CORRUPT_DATA, "'%s': __metadata__ holds something that is not a text", s->path);
    return RF_OK;
}

/* ---- the header's text ---- */

static char *skip_space(char *at)
{
    return at + strspn(at, " \t\r\n");
}

/* From a quote to behind the one that ends the string; NULL: there is none. */
static char *skip_string(char *at)
{
    for (at++; *at && *at != '"'; at++)
        if (*at == '\\' && at[1]) at++;
    return *at ? at + 1 : NULL;
}

/* From an opening brace to behind the one that closes it; what lies between is for the JSON library. */
static char *skip_object(char *at)
{
    uint64_t depth = 0;
    do {
        if (*at == '{' || *at == '[') depth++;
        if (*at == '}' || *at == ']') depth--;
        at = *at == '"' ? skip_string(at) : *at ? at + 1 : NULL;
    } while (at && depth > 0);
    return at;
}

/* One entry of the header: a name, with its quotes, and an object. */
typedef struct header_entry {
    char *name, *name_end, *value, *value_end;
} header_entry;

/* `*at` is behind the opening brace or the entry before. False: the end of the header, or no entry: then `*at` is not
 * at its closing brace. */
static bool next_entry(char **at, bool first, header_entry *e)
{
    char *p = skip_space(*at);
    *at = p;
    if (*p == '}') return false;
    if (!first) p = *p == ',' ? skip_space(p + 1) : NULL;
    if (!p || *p != '"') return false;
    e->name = p;
    e->name_end = skip_string(p);
    p = e->name_end ? skip_space(e->name_end) : NULL;
    if (!p || *p != ':') return false;
    e->value = skip_space(p + 1);
    e->value_end = *e->value == '{' ? skip_object(e->value) : NULL;
    if (!e->value_end) return false;
    *at = e->value_end;
    return true;
}

static rf_result no_object(const source *s, const char *why)
{
    char shown[JSON_ERROR_TEXT_LENGTH];
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s': the header is not a JSON object: %s", s->path,
                   rf_error_show(why, shown, sizeof(shown)));
}

/* The JSON library's tree can be many times the text. Every value comes with one of these characters, and takes fewer
 * bytes than `bytes_for_one`. */
static rf_result check_cost(const source *s, const char *text, const char *end)
{
    const uint64_t bytes_for_one = 128, room = s->size + (64u << 20);
    uint64_t count = 0;
    for (; text < end; text++) count += *text == ',' || *text == ':' || *text == '[' || *text == '{';
    if (count <= room / bytes_for_one) return RF_OK;
    return RF_FAIL(RF_ERROR_UNSUPPORTED,
                   "'%s': an entry of the header has %llu elements, too many for a file of %llu bytes", s->path,
                   (unsigned long long)count, (unsigned long long)s->size);
}

/* How many entries there are. Their places take no more memory than the file, and a little. */
static rf_result count_entries(const source *s, char *text, uint32_t *count)
{
    const uint64_t most = (s->size + (64u << 20)) / sizeof(place);
    header_entry e;
    char *at = skip_space(text);
    *count = 0;
    if (*at++ != '{') return no_object(s, "it does not begin with one");
    while (next_entry(&at, *count == 0, &e)) {
        if (++*count <= most) continue;
        return RF_FAIL(RF_ERROR_UNSUPPORTED,
                       "'%s': the header has more than %u entries, too many for a file of %llu bytes", s->path,
                       *count - 1, (unsigned long long)s->size);
    }
    if (*at != '}') return no_object(s, "an entry is no name with an object");
    if (*skip_space(at + 1) != '\0') return no_object(s, "something follows it");
    return RF_OK;
}

/* The name replaces the text that stands for it. */
static rf_result read_name(const source *s, header_entry *e)
{
    json_error_t error;
    json_t *string;
    RF_WITH_C_NUMBERS(string = json_loadb(e->name, (size_t)(e->name_end - e->name), JSON_DECODE_ANY, &error));
    if (!json_is_string(string)) {
        json_decref(string);
        return no_object(s, error.text);
    }
    const size_t length = json_string_length(string);
    memcpy(e->name, json_string_value(string), length);
    e->name[length] = '\0';
    json_decref(string);
    return RF_OK;
}

/* `*p` is written for a tensor. */
static rf_result read_value(const source *s, const header_entry *e, place *p, bool *is_tensor)
{
    json_error_t error;
    RF_TRY(check_cost(s, e->value, e->value_end));
    json_t *entry;
    RF_WITH_C_NUMBERS(entry = json_loadb(e->value, (size_t)(e->value_end - e->value), JSON_REJECT_DUPLICATES, &error));
    if (!entry) return no_object(s, error.text);
    *is_tensor = strcmp(e->name, "__metadata__") != 0;
    const rf_result r = *is_tensor ? read_entry(s, e->name, entry, e->value, (size_t)(e->value_end - e->value), p)
                                   : check_metadata(s, entry);
    json_decref(entry);
    return r;
}

static rf_result check_cover(const source *s, place *places, uint32_t count)
{
    uint64_t at = 0;
    if (count > 0) qsort(places, count, sizeof(*places), compare_places);
    for (uint32_t i = 0; i < count; i++) {
        if (places[i].begin != at) return fail_corrupt(s, places[i].name, "overlaps another or follows a gap");
        at = places[i].end;
    }
    if (at != s->size - s->data)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s': %llu bytes belong to no tensor", s->path,
                       (unsigned long long)(s->size - s->data - at));
    return RF_OK;
}

static rf_result check_distinct(const source *s, const char **names, uint32_t count)
{
    const char *twice = find_double(names, count);
    return twice ? fail_corrupt(s, twice, "is there twice") : RF_OK;
}

/* Entries of the header in the order of their bytes, which they must cover exactly. `places` and `names` have room for
 * all. */
static rf_result read_entries(const source *s, char *text, place *places, const char **names, uint32_t *count)
{
    header_entry e;
    uint32_t seen = 0;
    char *at = skip_space(text) + 1;
    *count = 0;
    for (; next_entry(&at, seen == 0, &e); seen++) {
        bool is_tensor = false;
        RF_TRY(read_name(s, &e));
        RF_TRY(read_value(s, &e, &places[*count], &is_tensor));
        names[seen] = e.name;
        *count += is_tensor;
    }
    RF_TRY(check_distinct(s, names, seen));
    return check_cover(s, places, *count);
}

static rf_result read_tensor(const source *s, const place *p, rf_named_array *to)
{
    const uint64_t bytes = p->end - p->begin;
    to->name = rf_strdup(p->name);
    to->array = (rf_array){ p->dtype, p->shape, rf_aligned_calloc(bytes ? (size_t)bytes : 1) };
    if (!to->name || !to->array.data) return RF_ERROR_OUT_OF_HOST_MEMORY;
    return bytes > 0 ? rf_file_read_at(s->ops, s->fd, s->path, to->array.data, bytes, s->data + p->begin) : RF_OK;
}

/* The header's contents; the caller frees text and places, also when it fails. */
typedef struct header {
    char *text; /* names are in it */
    place *places;
    uint32_t count;
} header;

static rf_result read_text(source *s, char **text)
{
    unsigned char length[LENGTH_BYTES];
    if (s->size < LENGTH_BYTES)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s' is not a safetensors file: too short", s->path);
    RF_TRY(rf_file_read_at(s->ops, s->fd, s->path, length, LENGTH_BYTES, 0));
    uint64_t size = 0;
    for (int i = 0; i < LENGTH_BYTES; i++) size |= (uint64_t)length[i] << 8 * i;
    if (size > s->size - LENGTH_BYTES)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s' is not a safetensors file: a header of %llu bytes", s->path,
                       (unsigned long long)size);
    if (size > MOST_HEADER)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA,
                       "'%s': a header of %llu bytes, of which the format allows %d; write several files", s->path,
                       (unsigned long long)size, MOST_HEADER);
    s->data = LENGTH_BYTES + size;
    *text = rf_calloc((size_t)size + 1, 1);
    if (!*text) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(rf_file_read_at(s->ops, s->fd, s->path, *text, size, LENGTH_BYTES));
    return strlen(*text) == size ? RF_OK : no_object(s, "it has a zero byte");
}

static rf_result read_header(source *s, header *h)
{
    uint32_t entries;
    RF_TRY(read_text(s, &h->text));
    RF_TRY(count_entries(s, h->text, &entries));
    h->places = RF_NEW_ARRAY(place, entries);
    const char **names = RF_NEW_ARRAY(const char *, entries);
    rf_result r = h->places && names ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) r = read_entries(s, h->text, h->places, names, &h->count);
    rf_free(names);
    return r;
}

static rf_result read_all(const source *s, const header *h, rf_array_set *out)
{
    for (uint32_t i = 0; i < h->count; i++) RF_TRY(check_readable(s, &h->places[i]));
    out->items = RF_NEW_ARRAY(rf_named_array, h->count);
    if (!out->items) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < h->count; i++) RF_TRY(read_tensor(s, &h->places[i], &out->items[out->count++]));
    return RF_OK;
}

rf_result rf_safetensors_read_with(const rf_file_ops *ops, const char *path, rf_array_set *out)
{
    RF_REQUIRE(out, "rf_safetensors_read: out is NULL");
    *out = (rf_array_set){ 0 };
    RF_REQUIRE(path && *path, "rf_safetensors_read: path is empty");
    source s = { .ops = ops, .path = path };
    header h = { 0 };
    RF_TRY(rf_file_open_sized(ops, path, &s.fd, &s.size));
    rf_result r = read_header(&s, &h);
    if (r >= 0) r = read_all(&s, &h, out);
    rf_free(h.places);
    rf_free(h.text);
    ops->close(ops->user, s.fd);
    if (r < 0) rf_array_set_free(out);
    return r;
}

rf_result rf_safetensors_read(const char *path, rf_array_set *out)
{
    return rf_safetensors_read_with(&rf_system_file_ops, path, out);
}

/* ---- tensor by tensor ---- */

struct rf_safetensors {
    source s;
    char *path;
    header h;
    const place **by_name;
};

static int compare_names(const void *x, const void *y)
{
    return strcmp((*(const place *const *)x)->name, (*(const place *const *)y)->name);
}

static rf_result open_file(rf_safetensors *f)
{
    f->s.path = f->path;
    f->s.ops = &rf_system_file_ops;
    RF_TRY(rf_file_open_sized(f->s.ops, f->path, &f->s.fd, &f->s.size));
    RF_TRY(read_header(&f->s, &f->h));
    f->by_name = RF_NEW_ARRAY(const place *, f->h.count);
    if (!f->by_name) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < f->h.count; i++) f->by_name[i] = &f->h.places[i];
    if (f->h.count > 0) qsort(f->by_name, f->h.count, sizeof(*f->by_name), compare_names);
    return RF_OK;
}

rf_result rf_safetensors_open(const char *path, rf_safetensors **out)
{
    RF_REQUIRE(out, "rf_safetensors_open: out is NULL");
    *out = NULL;
    RF_REQUIRE(path && *path, "rf_safetensors_open: path is empty");
    rf_safetensors *f = RF_NEW(rf_safetensors);
    if (!f) return RF_ERROR_OUT_OF_HOST_MEMORY;
    f->s.fd = -1;
    f->path = rf_strdup(path);
    const rf_result r = f->path ? open_file(f) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r < 0)
        rf_safetensors_close(&f);
    else
        *out = f;
    return r;
}

void rf_safetensors_close(rf_safetensors **file)
{
    if (!file || !*file) return;
    rf_safetensors *f = *file;
    if (f->s.fd >= 0) f->s.ops->close(f->s.ops->user, f->s.fd);
    rf_free(f->by_name);
    rf_free(f->h.places);
    rf_free(f->h.text);
    rf_free(f->path);
    rf_free(f);
    *file = NULL;
}

uint64_t rf_safetensors_num_tensors(const rf_safetensors *file)
{
    return file ? file->h.count : 0;
}

rf_result rf_safetensors_entry_at(const rf_safetensors *file, uint64_t index, rf_archive_entry *out)
{
    RF_REQUIRE(file && out, "rf_safetensors_entry_at: file or out is NULL");
    RF_REQUIRE(index < file->h.count, "rf_safetensors_entry_at: index %llu of %u tensors", (unsigned long long)index,
               file->h.count);
    const place *p = file->by_name[index];
    *out = (rf_archive_entry){ .name = p->name,
                               .dtype = p->dtype,
                               .shape = p->shape,
                               .bytes = p->end - p->begin,
                               .stored_bytes = p->end - p->begin,
                               .unsupported_type = p->unsupported_type };
    return RF_OK;
}

rf_result rf_safetensors_read_range(const rf_safetensors *file, const char *name, uint64_t offset, void *data,
                                    uint64_t size)
{
    RF_REQUIRE(file && name, "rf_safetensors_read_range: file or name is NULL");
    const place wanted = { .name = name }, *key = &wanted;
    const place *const *found = bsearch(&key, file->by_name, file->h.count, sizeof(*file->by_name), compare_names);
    if (!found) return RF_FAIL(RF_ERROR_NOT_FOUND, "'%s' has no tensor '%.200s'", file->path, name);
    const place *p = *found;
    RF_TRY(check_readable(&file->s, p));
    RF_REQUIRE(offset <= p->end - p->begin && size <= p->end - p->begin - offset && (data || size == 0),
               "rf_safetensors_read_range: '%.200s' has %llu bytes; %llu from %llu on are not in it", name,
               (unsigned long long)(p->end - p->begin), (unsigned long long)size, (unsigned long long)offset);
    return rf_file_read_at(file->s.ops, file->s.fd, file->path, data, size, file->s.data + p->begin + offset);
}

static rf_result read_file(void *user, const char *name, uint64_t offset, void *data, uint64_t size)
{
    return rf_safetensors_read_range(user, name, offset, data, size);
}

rf_result rf_archive_from_safetensors(rf_safetensors *file, const char *path, const rf_save_params *params)
{
    RF_TRY(RF_PARAMS_CHECK(rf_save_params, params));
    RF_REQUIRE(file, "rf_archive_from_safetensors: file is NULL");
    const uint64_t count = file->h.count;
    for (uint64_t i = 0; i < count; i++) RF_TRY(check_readable(&file->s, file->by_name[i]));
    rf_archive_tensor *tensors = RF_NEW_ARRAY(rf_archive_tensor, count);
    if (!tensors) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint64_t i = 0; i < count; i++)
        tensors[i] =
            (rf_archive_tensor){ file->by_name[i]->name, file->by_name[i]->dtype, file->by_name[i]->shape, NULL };
    const rf_archive_contents contents = { .type = "tensors", .tensors = tensors, .num_tensors = count };
    const rf_result r = rf_archive_write_from(path, &contents, &(rf_archive_source){ read_file, file }, params);
    rf_free(tensors);
    return r;
}
