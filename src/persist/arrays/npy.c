/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NumPy's .npy: "\x93NUMPY", version, length of the header (u16 in version 1, u32 in 2 and 3), the header, which is a
 * Python dictionary literal with the keys descr, fortran_order and shape, padded with spaces so that the data begins at
 * a multiple of 64, then the data. Written from the public description of the format.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "persist/arrays/interchange_files.h"

enum { MAGIC_BYTES = 6, MOST_HEADER = 65536, ALIGNMENT = 64 };
static const char magic[] = "\x93NUMPY";

static const struct {
    rf_dtype dtype;
    const char *descr;
} types[] = { { RF_F32, "<f4" }, { RF_F16, "<f2" }, { RF_I32, "<i4" }, { RF_I64, "<i8" }, { RF_U8, "|u1" } };
enum { NUM_TYPES = sizeof(types) / sizeof(types[0]) };

/* ---- writing ---- */

static rf_result write_parts(const rf_new_file *file, const char *path, const char *descr, const rf_array *array)
{
    char dict[256], header[512] = { 0 };
    int used = snprintf(dict, sizeof(dict), "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int32_t i = 0; i < array->shape.rank; i++)
        used +=
            snprintf(dict + used, sizeof(dict) - (size_t)used, "%s%lld", i ? ", " : "", (long long)array->shape.dim[i]);
    used += snprintf(dict + used, sizeof(dict) - (size_t)used, "%s), }", array->shape.rank == 1 ? "," : "");
    const size_t fixed = MAGIC_BYTES + 4;
    const size_t total = (size_t)rf_align_up(fixed + (size_t)used + 1, ALIGNMENT), length = total - fixed;
    memset(header, ' ', total);
    memcpy(header, magic, MAGIC_BYTES);
    header[MAGIC_BYTES] = 1;
    header[MAGIC_BYTES + 1] = 0;
    header[MAGIC_BYTES + 2] = (char)(length & 255);
    header[MAGIC_BYTES + 3] = (char)(length >> 8);
    memcpy(header + fixed, dict, (size_t)used);
    header[total - 1] = '\n';
    RF_TRY(rf_file_write_at(file->ops, file->fd, path, header, total, 0));
    const uint64_t bytes = (uint64_t)rf_shape_count(array->shape) * rf_dtype_size(array->dtype);
    return bytes > 0 ? rf_file_write_at(file->ops, file->fd, path, array->data, bytes, total) : RF_OK;
}

rf_result rf_npy_write_with(const rf_file_ops *ops, const char *path, const rf_array *array)
{
    RF_REQUIRE(path && *path, "rf_npy_write: path is empty");
    RF_REQUIRE(array && rf_shape_count(array->shape) >= 0, "rf_npy_write: the array has no valid shape");
    RF_REQUIRE(array->data || rf_shape_count(array->shape) == 0, "rf_npy_write: the array has no data");
    const char *descr = NULL;
    for (int i = 0; i < NUM_TYPES; i++)
        if (types[i].dtype == array->dtype) descr = types[i].descr;
    if (!descr)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "rf_npy_write: NumPy has no type for %s; widen it to f32 first",
                       rf_dtype_name(array->dtype));
    rf_new_file file;
    RF_TRY(rf_new_file_begin(&file, ops, path));
    const rf_result r = write_parts(&file, path, descr, array);
    if (r >= 0) return rf_new_file_commit(&file);
    rf_new_file_abandon(&file);
    return r;
}

rf_result rf_npy_write(const char *path, const rf_array *array)
{
    return rf_npy_write_with(&rf_system_file_ops, path, array);
}

/* ---- reading ---- */

static rf_result fail_corrupt(const char *path, const char *what)
{
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s' is not an .npy file: %s", path, what);
}

/* The value of a key of the dictionary: what follows 'key': up to where it is understood. */
static const char *find_value(const char *header, const char *key)
{
    char quoted[32];
    snprintf(quoted, sizeof(quoted), "'%s'", key);
    const char *at = strstr(header, quoted);
    if (!at) return NULL;
    at += strlen(quoted);
    while (*at == ' ') at++;
    if (*at++ != ':') return NULL;
    while (*at == ' ') at++;
    return at;
}

static rf_result read_shape(const char *path, const char *at, rf_shape *shape)
{
    if (*at++ != '(') return fail_corrupt(path, "the shape is no tuple");
    for (;;) {
        while (*at == ' ' || *at == ',') at++;
        if (*at == ')') break;
        if (!isdigit((unsigned char)*at))
            return fail_corrupt(path, "the shape contains something that is not a number");
        if (shape->rank == RF_MAX_RANK)
            return RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s': more than %d dimensions", path, RF_MAX_RANK);
        int64_t dim = 0;
        for (; isdigit((unsigned char)*at); at++)
            if (__builtin_mul_overflow(dim, 10, &dim) || __builtin_add_overflow(dim, *at - '0', &dim))
                return fail_corrupt(path, "a dimension is out of range");
        shape->dim[shape->rank++] = dim;
    }
    return rf_shape_count(*shape) < 0 ? fail_corrupt(path, "the shape is larger than anything") : RF_OK;
}

static rf_result parse_header(const char *path, const char *header, rf_array *out)
{
    const char *descr = find_value(header, "descr"), *order = find_value(header, "fortran_order"),
               *shape = find_value(header, "shape");
    if (!descr || !order || !shape) return fail_corrupt(path, "the header lacks descr, fortran_order or shape");
    for (int i = 0; i < NUM_TYPES; i++) {
        const size_t n = strlen(types[i].descr);
        if (descr[0] == '\'' && strncmp(descr + 1, types[i].descr, n) == 0 && descr[1 + n] == '\'')
            out->dtype = types[i].dtype;
    }
    if (out->dtype == RF_DTYPE_INVALID && descr[0] != '\'')
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s' has records with fields; supported are <f4, <f2, <i4, <i8 and |u1",
                       path);
    if (out->dtype == RF_DTYPE_INVALID) {
        const size_t length = strcspn(descr + 1, "'");
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s' is of type %.*s; supported are <f4, <f2, <i4, <i8 and |u1", path,
                       (int)(length < 40 ? length : 40), descr + 1);
    }
    if (strncmp(order, "True", 4) == 0)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s' is in Fortran order; save numpy.ascontiguousarray() of it", path);
    if (strncmp(order, "False", 5) != 0) return fail_corrupt(path, "fortran_order is neither True nor False");
    return read_shape(path, shape, &out->shape);
}

static rf_result read_file(const rf_file_ops *ops, const char *path, int fd, uint64_t size, rf_array *out)
{
    unsigned char fixed[MAGIC_BYTES + 6] = { 0 };
    if (size < sizeof(fixed)) return fail_corrupt(path, "too short");
    RF_TRY(rf_file_read_at(ops, fd, path, fixed, sizeof(fixed), 0));
    const int version = fixed[MAGIC_BYTES];
    if (memcmp(fixed, magic, MAGIC_BYTES) != 0 || version < 1 || version > 3) return fail_corrupt(path, "wrong magic");
    const unsigned char *l = fixed + MAGIC_BYTES + 2;
    uint64_t length = l[0] | (uint64_t)l[1] << 8;
    if (version > 1) length |= (uint64_t)l[2] << 16 | (uint64_t)l[3] << 24;
    const uint64_t begin = MAGIC_BYTES + (version > 1 ? 6 : 4);
    if (length > MOST_HEADER || length > size - begin) return fail_corrupt(path, "the header is longer than the file");
    char *header = rf_calloc((size_t)length + 1, 1);
    if (!header) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = rf_file_read_at(ops, fd, path, header, length, begin);
    if (r >= 0) r = parse_header(path, header, out);
    rf_free(header);
    RF_TRY(r);
    size_t bytes;
    if (!rf_mul_size((size_t)rf_shape_count(out->shape), rf_dtype_size(out->dtype), &bytes) ||
        bytes != size - begin - length)
        return fail_corrupt(path, "type and shape do not give its length");
    out->data = rf_aligned_calloc(bytes ? bytes : 1);
    if (!out->data) return RF_ERROR_OUT_OF_HOST_MEMORY;
    return bytes > 0 ? rf_file_read_at(ops, fd, path, out->data, bytes, begin + length) : RF_OK;
}

rf_result rf_npy_read_with(const rf_file_ops *ops, const char *path, rf_array *out)
{
    RF_REQUIRE(out, "rf_npy_read: out is NULL");
    *out = (rf_array){ 0 };
    RF_REQUIRE(path && *path, "rf_npy_read: path is empty");
    int fd;
    uint64_t size;
    RF_TRY(rf_file_open_sized(ops, path, &fd, &size));
    const rf_result r = read_file(ops, path, fd, size, out);
    ops->close(ops->user, fd);
    if (r < 0) {
        rf_free(out->data);
        *out = (rf_array){ 0 };
    }
    return r;
}

rf_result rf_npy_read(const char *path, rf_array *out)
{
    return rf_npy_read_with(&rf_system_file_ops, path, out);
}
