/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GGUF, reading: "GGUF", version, the numbers of tensors and of values; the values, each a key, a type and what it
 * holds; for each tensor its name, dimensions (the fastest one first), type and place; zeros up to the alignment; the
 * tensors' bytes. Texts are preceded by their length. Written from the public description of the format.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "persist/arrays/gguf.h"

/* All that comes before the tensors' bytes is read, first so much of it. */
enum { FIRST_WINDOW = 1 << 20, MOST_WINDOW = 1 << 30, READ_WINDOW = 16384 };
enum { MOST_VALUES = 1 << 16, MOST_TENSORS = 1 << 18 };
enum { SMALLEST_VALUE = 13, SMALLEST_TENSOR = 24 /* bytes in the file */ };

typedef struct stored_tensor {
    rf_gguf_tensor info;
    uint64_t offset, count; /* of the file's tensors; numbers */
} stored_tensor;

struct rf_gguf {
    rf_file_ops ops;
    char *path;
    int fd;
    uint64_t size, data; /* of the file; where the tensors' bytes begin */
    uint8_t *text;       /* strings are in it */
    rf_arena arena;
    rf_gguf_value *values;
    stored_tensor *tensors;
    uint32_t num_values, num_tensors;
    const rf_gguf_value **by_key;
    const stored_tensor **by_name;
};

/* The part of a file that is in memory. */
typedef struct cursor {
    rf_gguf *file;
    uint8_t *bytes;
    uint64_t size, at;
    bool ended; /* more was asked for than is in memory, but the file has it */
} cursor;

static rf_result fail_corrupt(const rf_gguf *f, const char *name, const char *why)
{
    char shown[201];
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s': '%s' %s; the file is damaged, copy it again", f->path,
                   rf_error_show(name, shown, sizeof(shown)), why);
}

/* There is less than `size` left: of what is in memory, or of the file. */
static rf_result fail_end(cursor *c, uint64_t size)
{
    c->ended = size <= c->file->size - c->at;
    return RF_FAIL(RF_ERROR_CORRUPT_DATA,
                   "'%s' ends after %llu bytes, within what describes its tensors; it was cut, copy it again",
                   c->file->path, (unsigned long long)c->file->size);
}

static rf_result take_bytes(cursor *c, uint64_t size, uint8_t **out)
{
    *out = NULL;
    if (size > c->size - c->at) return fail_end(c, size);
    *out = c->bytes + c->at;
    c->at += size;
    return RF_OK;
}

static rf_result take_number(cursor *c, uint32_t bytes, uint64_t *out)
{
    uint8_t *at = NULL;
    RF_TRY(take_bytes(c, bytes, &at));
    *out = 0;
    for (uint32_t i = 0; i < bytes; i++) *out |= (uint64_t)at[i] << 8 * i;
    return RF_OK;
}

/* The text moves over its length, so that there is room for a zero byte behind it. */
static rf_result take_text(cursor *c, const char **text, size_t *size)
{
    uint8_t *at = NULL;
    uint64_t length;
    RF_TRY(take_number(c, 8, &length));
    RF_TRY(take_bytes(c, length, &at));
    memmove(at - 8, at, (size_t)length);
    at[(int64_t)length - 8] = 0;
    *text = (const char *)at - 8;
    *size = (size_t)length;
    return RF_OK;
}

/* Keys and names are of printable characters: messages have them in one line. */
static bool is_name(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 127) return false;
    return size > 0;
}

/* ---- values ---- */

/* The rest of the file, and of what is in memory, can hold so many elements; asked before memory is. */
static rf_result check_count(cursor *c, const char *name, uint64_t count, uint64_t bytes_of_one)
{
    if (count > (c->file->size - c->at) / bytes_of_one)
        return fail_corrupt(c->file, name, "has more elements than the file has bytes");
    return count <= (c->size - c->at) / bytes_of_one ? RF_OK : fail_end(c, count * bytes_of_one);
}

static rf_result take_strings(cursor *c, rf_gguf_value *v)
{
    const char **texts;
    size_t *sizes;
    RF_TRY(check_count(c, v->key, v->count, 8));
    RF_TRY(RF_ARENA_ARRAY(&c->file->arena, texts, v->count));
    RF_TRY(RF_ARENA_ARRAY(&c->file->arena, sizes, v->count));
    for (uint64_t i = 0; i < v->count; i++) RF_TRY(take_text(c, &texts[i], &sizes[i]));
    v->data = texts;
    v->sizes = sizes;
    return RF_OK;
}

static rf_result take_numbers(cursor *c, rf_gguf_value *v, uint32_t size)
{
    uint8_t *from = NULL, *to = NULL;
    RF_TRY(check_count(c, v->key, v->count, size));
    RF_TRY(take_bytes(c, v->count * size, &from));
    RF_TRY(RF_ARENA_ARRAY(&c->file->arena, to, v->count * size));
    if (v->count > 0) memcpy(to, from, (size_t)(v->count * size));
    for (uint64_t i = 0; v->type == RF_GGUF_BOOL && i < v->count; i++)
        if (to[i] > 1) return fail_corrupt(c->file, v->key, "is neither true nor false");
    v->data = to;
    return RF_OK;
}

static rf_result take_value(cursor *c, rf_gguf_value *v)
{
    uint64_t type;
    size_t size;
    RF_TRY(take_text(c, &v->key, &size));
    if (!is_name(v->key, size)) return fail_corrupt(c->file, v->key, "is no key of a value");
    RF_TRY(take_number(c, 4, &type));
    v->count = 1;
    v->array = type == RF_GGUF_ARRAY;
    if (v->array) {
        RF_TRY(take_number(c, 4, &type));
        RF_TRY(take_number(c, 8, &v->count));
        if (type == RF_GGUF_ARRAY)
            return RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s': '%.200s' is an array of arrays", c->file->path, v->key);
    }
    v->type = (rf_gguf_value_type)type;
    if (type == RF_GGUF_STRING) return take_strings(c, v);
    const uint32_t bytes = rf_gguf_value_size((uint32_t)type);
    return bytes ? take_numbers(c, v, bytes) : fail_corrupt(c->file, v->key, "has no known type of values");
}

static int compare_values(const void *x, const void *y)
{
    return strcmp((*(const rf_gguf_value *const *)x)->key, (*(const rf_gguf_value *const *)y)->key);
}

static rf_result take_values(cursor *c)
{
    rf_gguf *f = c->file;
    RF_TRY(RF_ARENA_ARRAY(&f->arena, f->values, f->num_values));
    RF_TRY(RF_ARENA_ARRAY(&f->arena, f->by_key, f->num_values));
    for (uint32_t i = 0; i < f->num_values; i++) {
        RF_TRY(take_value(c, &f->values[i]));
        f->by_key[i] = &f->values[i];
    }
    if (f->num_values > 0) qsort(f->by_key, f->num_values, sizeof(*f->by_key), compare_values);
    for (uint32_t i = 1; i < f->num_values; i++)
        if (compare_values(&f->by_key[i - 1], &f->by_key[i]) == 0)
            return fail_corrupt(f, f->by_key[i]->key, "is there twice");
    return RF_OK;
}

static rf_result read_alignment(const rf_gguf *f, uint64_t *out)
{
    static const char key[] = "general.alignment";
    rf_gguf_value v;
    *out = RF_GGUF_ALIGNMENT;
    if (rf_gguf_find_value(f, key, &v) < 0) return RF_OK;
    uint32_t alignment = 0;
    if (v.type == RF_GGUF_UINT32 && !v.array) memcpy(&alignment, v.data, sizeof(alignment));
    *out = alignment;
    if (alignment > 0 && (alignment & (alignment - 1)) == 0 && alignment <= 1u << 20) return RF_OK;
    return fail_corrupt(f, key, "is no power of two up to 1048576");
}

/* ---- tensors ---- */

static rf_result take_tensor(cursor *c, stored_tensor *t)
{
    uint64_t rank, type;
    size_t size;
    RF_TRY(take_text(c, &t->info.name, &size));
    if (!is_name(t->info.name, size)) return fail_corrupt(c->file, t->info.name, "is no name of a tensor");
    RF_TRY(take_number(c, 4, &rank));
    if (rank > RF_MAX_RANK)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s': '%.200s' has %llu dimensions; this library has up to %d",
                       c->file->path, t->info.name, (unsigned long long)rank, RF_MAX_RANK);
    t->info.shape.rank = (int32_t)rank;
    for (uint64_t d = rank; d-- > 0;) {
        uint64_t dim;
        RF_TRY(take_number(c, 8, &dim));
        t->info.shape.dim[d] = dim <= INT64_MAX ? (int64_t)dim : -1;
    }
    const int64_t count = rf_shape_count(t->info.shape);
    if (count < 0) return fail_corrupt(c->file, t->info.name, "is larger than anything");
    t->count = (uint64_t)count;
    RF_TRY(take_number(c, 4, &type));
    t->info.type = (rf_gguf_type)type;
    if (!rf_gguf_find_form((uint32_t)type)) t->info.unsupported_type = rf_gguf_type_name((uint32_t)type);
    return take_number(c, 8, &t->offset);
}

static rf_result check_place(const rf_gguf *f, const stored_tensor *t, uint64_t alignment)
{
    const rf_gguf_form *form = rf_gguf_find_form((uint32_t)t->info.type);
    const rf_shape *shape = &t->info.shape;
    if (!form) return RF_OK;
    const uint64_t row = shape->rank > 0 ? (uint64_t)shape->dim[shape->rank - 1] : 1;
    if (row % form->numbers != 0) return fail_corrupt(f, t->info.name, "has rows that are no whole number of blocks");
    if (t->offset % alignment != 0) return fail_corrupt(f, t->info.name, "is not aligned as the file says");
    const uint64_t room = f->size - f->data, blocks = t->count / form->numbers;
    if (t->offset > room || blocks > (room - t->offset) / form->bytes)
        return fail_corrupt(f, t->info.name, "reaches beyond the end of the file");
    return RF_OK;
}

static int compare_tensors(const void *x, const void *y)
{
    return strcmp((*(const stored_tensor *const *)x)->info.name, (*(const stored_tensor *const *)y)->info.name);
}

static rf_result take_tensors(cursor *c)
{
    rf_gguf *f = c->file;
    uint64_t alignment;
    RF_TRY(read_alignment(f, &alignment));
    RF_TRY(RF_ARENA_ARRAY(&f->arena, f->tensors, f->num_tensors));
    RF_TRY(RF_ARENA_ARRAY(&f->arena, f->by_name, f->num_tensors));
    for (uint32_t i = 0; i < f->num_tensors; i++) {
        RF_TRY(take_tensor(c, &f->tensors[i]));
        f->by_name[i] = &f->tensors[i];
    }
    f->data = rf_align_up(c->at, alignment);
    if (f->data > f->size) f->data = f->size; /* without tensors nothing need follow */
    if (f->num_tensors > 0) qsort(f->by_name, f->num_tensors, sizeof(*f->by_name), compare_tensors);
    for (uint32_t i = 0; i < f->num_tensors; i++) {
        RF_TRY(check_place(f, &f->tensors[i], alignment));
        if (i > 0 && compare_tensors(&f->by_name[i - 1], &f->by_name[i]) == 0)
            return fail_corrupt(f, f->by_name[i]->info.name, "is there twice");
    }
    return RF_OK;
}

/* ---- files ---- */

static rf_result check_version(const rf_gguf *f, uint64_t version)
{
    if (version == 2 || version == RF_GGUF_VERSION) return RF_OK;
    if ((version & 0xffff) == 0)
        return RF_FAIL(RF_ERROR_UNSUPPORTED,
                       "'%s' is a GGUF file of a big-endian machine; convert it again for a "
                       "little-endian one",
                       f->path);
    return RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s' is of GGUF's version %llu; this library reads 2 and %d", f->path,
                   (unsigned long long)version, RF_GGUF_VERSION);
}

static rf_result take_all(cursor *c)
{
    rf_gguf *f = c->file;
    uint64_t magic, version, tensors, values;
    RF_TRY(take_number(c, 4, &magic));
    if (magic != 0x46554747) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s' is not a GGUF file", f->path);
    RF_TRY(take_number(c, 4, &version));
    RF_TRY(check_version(f, version));
    RF_TRY(take_number(c, 8, &tensors));
    RF_TRY(take_number(c, 8, &values));
    RF_TRY(check_count(c, "the list of tensors", tensors, SMALLEST_TENSOR));
    RF_TRY(check_count(c, "the list of values", values, SMALLEST_VALUE));
    if (tensors > MOST_TENSORS || values > MOST_VALUES)
        return RF_FAIL(RF_ERROR_UNSUPPORTED,
                       "'%s' has %llu tensors and %llu values; this library reads up to %d and "
                       "%d",
                       f->path, (unsigned long long)tensors, (unsigned long long)values, MOST_TENSORS, MOST_VALUES);
    f->num_tensors = (uint32_t)tensors;
    f->num_values = (uint32_t)values;
    RF_TRY(take_values(c));
    return take_tensors(c);
}

/* Where what describes the tensors ends is known when it was read: so much of the file is read, then twice as much. */
static rf_result read_description(rf_gguf *f)
{
    for (uint64_t window = FIRST_WINDOW;; window *= 2) {
        cursor c = { .file = f, .size = window < f->size ? window : f->size };
        f->text = c.bytes = rf_calloc((size_t)c.size, 1);
        if (!c.bytes) return RF_ERROR_OUT_OF_HOST_MEMORY;
        RF_TRY(rf_file_read_at(&f->ops, f->fd, f->path, c.bytes, c.size, 0));
        const rf_result r = take_all(&c);
        if (!c.ended) return r;
        if (window == MOST_WINDOW)
            return RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s' has more than %d bytes of values before its tensors", f->path,
                           MOST_WINDOW);
        rf_arena_free(&f->arena);
        rf_free(f->text);
        f->text = NULL;
    }
}

rf_result rf_gguf_open_with(const rf_file_ops *ops, const char *path, rf_gguf **out)
{
    RF_REQUIRE(out, "rf_gguf_open: out is NULL");
    *out = NULL;
    RF_REQUIRE(path && *path, "rf_gguf_open: path is empty");
    rf_gguf *f = RF_NEW(rf_gguf);
    if (!f) return RF_ERROR_OUT_OF_HOST_MEMORY;
    f->ops = *ops;
    f->fd = -1;
    f->path = rf_strdup(path);
    rf_result r = f->path ? rf_file_open_sized(ops, path, &f->fd, &f->size) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) r = read_description(f);
    if (r < 0)
        rf_gguf_close(&f);
    else
        *out = f;
    return r;
}

rf_result rf_gguf_open(const char *path, rf_gguf **out)
{
    return rf_gguf_open_with(&rf_system_file_ops, path, out);
}

void rf_gguf_close(rf_gguf **file)
{
    if (!file || !*file) return;
    rf_gguf *f = *file;
    *file = NULL;
    if (f->fd >= 0) f->ops.close(f->ops.user, f->fd);
    rf_arena_free(&f->arena);
    rf_free(f->text);
    rf_free(f->path);
    rf_free(f);
}

bool rf_gguf_matches(const char *path)
{
    const rf_file_ops *ops = &rf_system_file_ops;
    char begin[4] = "";
    double modified;
    const int fd = ops->modified(NULL, path, &modified) == 0 ? ops->open(NULL, path) : -1;
    const bool read = fd >= 0 && ops->pread(NULL, fd, begin, sizeof(begin), 0) == sizeof(begin);
    if (fd >= 0) ops->close(NULL, fd);
    return read && memcmp(begin, "GGUF", sizeof(begin)) == 0;
}

/* ---- questions ---- */

uint64_t rf_gguf_num_values(const rf_gguf *file)
{
    return file ? file->num_values : 0;
}

uint64_t rf_gguf_num_tensors(const rf_gguf *file)
{
    return file ? file->num_tensors : 0;
}

rf_result rf_gguf_value_at(const rf_gguf *file, uint64_t index, rf_gguf_value *out)
{
    RF_REQUIRE(file && out, "rf_gguf_value_at: file or out is NULL");
    RF_REQUIRE(index < file->num_values, "rf_gguf_value_at: index %llu of %u values", (unsigned long long)index,
               file->num_values);
    *out = file->values[index];
    return RF_OK;
}

rf_result rf_gguf_find_value(const rf_gguf *file, const char *key, rf_gguf_value *out)
{
    RF_REQUIRE(file && key && out, "rf_gguf_find_value: an argument is NULL");
    const rf_gguf_value wanted = { .key = key }, *place = &wanted;
    const rf_gguf_value *const *found =
        file->num_values ? bsearch(&place, file->by_key, file->num_values, sizeof(*file->by_key), compare_values)
                         : NULL;
    if (!found) return RF_FAIL(RF_ERROR_NOT_FOUND, "'%s' has no value '%.200s'", file->path, key);
    *out = **found;
    return RF_OK;
}

rf_result rf_gguf_tensor_at(const rf_gguf *file, uint64_t index, rf_gguf_tensor *out)
{
    RF_REQUIRE(file && out, "rf_gguf_tensor_at: file or out is NULL");
    RF_REQUIRE(index < file->num_tensors, "rf_gguf_tensor_at: index %llu of %u tensors", (unsigned long long)index,
               file->num_tensors);
    *out = file->tensors[index].info;
    return RF_OK;
}

static rf_result find_tensor(const rf_gguf *file, const char *name, const stored_tensor **out)
{
    const stored_tensor wanted = { .info.name = name }, *place = &wanted;
    const stored_tensor *const *found =
        file->num_tensors ? bsearch(&place, file->by_name, file->num_tensors, sizeof(*file->by_name), compare_tensors)
                          : NULL;
    if (!found) return RF_FAIL(RF_ERROR_NOT_FOUND, "'%s' has no tensor '%.200s'", file->path, name);
    *out = *found;
    return RF_OK;
}

rf_result rf_gguf_find_tensor(const rf_gguf *file, const char *name, rf_gguf_tensor *out)
{
    const stored_tensor *found;
    RF_REQUIRE(file && name && out, "rf_gguf_find_tensor: an argument is NULL");
    RF_TRY(find_tensor(file, name, &found));
    *out = found->info;
    return RF_OK;
}

/* Whole blocks, `count` numbers from number `first` on, both multiples of a block. */
static rf_result read_blocks(const rf_gguf *f, const stored_tensor *t, const rf_gguf_form *form, uint64_t first,
                             uint64_t count, float *out)
{
    uint8_t window[READ_WINDOW];
    const uint64_t at_once = READ_WINDOW / form->bytes;
    uint64_t at = f->data + t->offset + first / form->numbers * form->bytes;
    for (uint64_t left = count / form->numbers, n; left > 0; left -= n, at += n * form->bytes) {
        n = left < at_once ? left : at_once;
        RF_TRY(rf_file_read_at(&f->ops, f->fd, f->path, window, n * form->bytes, at));
        for (uint64_t i = 0; i < n; i++, out += form->numbers) form->decode(window + i * form->bytes, out);
    }
    return RF_OK;
}

rf_result rf_gguf_read(const rf_gguf *file, const char *name, uint64_t first, uint64_t count, float *out)
{
    const stored_tensor *t;
    RF_REQUIRE(file && name, "rf_gguf_read: file or name is NULL");
    RF_TRY(find_tensor(file, name, &t));
    RF_REQUIRE(first <= t->count && count <= t->count - first && (out || count == 0),
               "rf_gguf_read: '%.200s' has %llu numbers; %llu from %llu on are not in it", name,
               (unsigned long long)t->count, (unsigned long long)count, (unsigned long long)first);
    const rf_gguf_form *form = rf_gguf_find_form((uint32_t)t->info.type);
    if (!form)
        return RF_FAIL(RF_ERROR_UNSUPPORTED,
                       "'%s': '%.200s' is stored as %s, which this library does not read; "
                       "quantize the model as Q8_0, Q6_K, Q4_K or Q4_0",
                       file->path, name, t->info.unsupported_type);
    while (count > 0) {
        float block[RF_GGUF_MAX_BLOCK];
        const uint64_t within = first % form->numbers, rest = form->numbers - within;
        uint64_t n = count / form->numbers * form->numbers;
        if (within == 0 && n > 0) {
            RF_TRY(read_blocks(file, t, form, first, n, out));
        } else {
            n = rest < count ? rest : count;
            RF_TRY(read_blocks(file, t, form, first - within, form->numbers, block));
            memcpy(out, block + within, (size_t)n * sizeof(*out));
        }
        first += n;
        count -= n;
        out += n;
    }
    return RF_OK;
}
