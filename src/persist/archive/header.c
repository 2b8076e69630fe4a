/* SPDX-License-Identifier: Apache-2.0 */
#include "persist/archive/header.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

/* Least bytes of an entry: a tensor is an array of name, type, shape, and offset and blocks or extents alone. */
enum { LEAST_TENSOR = 1 + 2 + 2 + 1 + 1, LEAST_VALUE = 2 + 1, LEAST_PART = 1 + 2 + 1 + 1 };

typedef struct checker {
    rf_unpack at;
    const rf_archive_header *header;
    const char *path;
    uint64_t next, data_end; /* where the next frame begins; where frames end */
} checker;

static rf_result fail_header(const checker *c, const char *what)
{
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: byte %llu of the header: %s", c->path,
                   (unsigned long long)(c->at.at - c->header->bytes), what);
}

static rf_result bad_entry(const checker *c, const char *name, const char *what)
{
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: '%.100s': %s (byte %llu of the header)", c->path, name, what,
                   (unsigned long long)(c->at.at - c->header->bytes));
}

static bool is_string(rf_unpack *u, const char *text)
{
    const char *found;
    uint32_t size;
    return rf_unpack_string(u, &found, &size) && size == strlen(text) && memcmp(found, text, size) == 0;
}

/* Moves a name one byte down, over the last byte of its length, which makes room for the 0 that C wants. */
static const char *terminate_name(const char *name, uint32_t size)
{
    char *to = (char *)(uintptr_t)name - 1; /* points into header->bytes, which are ours */
    memmove(to, name, size);
    to[size] = '\0';
    return to;
}

static rf_result check_name(checker *c, const char *previous, const char **out)
{
    const char *name;
    uint32_t size;
    if (!rf_unpack_string(&c->at, &name, &size)) return fail_header(c, "expected a name");
    const char *problem = rf_archive_name_problem(name, size);
    if (problem) {
        char what[64];
        snprintf(what, sizeof(what), "a name %s", problem);
        return fail_header(c, what);
    }
    *out = terminate_name(name, size);
    if (previous && strcmp(previous, *out) == 0) return bad_entry(c, *out, "this name comes twice");
    if (previous && strcmp(previous, *out) > 0) return bad_entry(c, *out, "names are not in order");
    return RF_OK;
}

static bool read_dtype(rf_unpack *u, rf_dtype *out)
{
    const char *text;
    uint32_t size;
    if (!rf_unpack_string(u, &text, &size)) return false;
    for (int d = RF_DTYPE_INVALID + 1; d < RF_DTYPE_COUNT; d++) {
        const char *name = rf_dtype_name((rf_dtype)d);
        *out = (rf_dtype)d;
        if (strlen(name) == size && memcmp(name, text, size) == 0) return true;
    }
    return false;
}

static bool read_shape(rf_unpack *u, rf_shape *out)
{
    uint32_t rank;
    if (!rf_unpack_array(u, &rank) || rank > RF_MAX_RANK) return false;
    *out = (rf_shape){ .rank = (int32_t)rank };
    for (uint32_t i = 0; i < rank; i++) {
        uint64_t dim;
        if (!rf_unpack_uint(u, &dim) || dim > INT64_MAX) return false;
        out->dim[i] = (int64_t)dim;
    }
    return true;
}

/* Reads the fields that follow a tensor's name. */
static bool read_record(rf_unpack *u, bool sharded, rf_archive_record *r)
{
    r->offset = 0;
    if (!read_dtype(u, &r->dtype) || !read_shape(u, &r->shape) || (!sharded && !rf_unpack_uint(u, &r->offset)) ||
        !rf_unpack_array(u, &r->num_blocks))
        return false;
    const int64_t bytes = rf_array_bytes(r->dtype, r->shape);
    r->bytes = (uint64_t)bytes;
    return bytes >= 0;
}

static bool read_frame(rf_unpack *u, rf_archive_frame *out)
{
    uint32_t fields;
    if (!rf_unpack_array(u, &fields) || fields != 4 || !rf_unpack_uint(u, &out->stored) ||
        !rf_unpack_uint(u, &out->raw) || !rf_unpack_bool(u, &out->compressed) || !rf_unpack_uint(u, &out->hash))
        return false;
    return out->raw > 0 && out->raw <= RF_ARCHIVE_MAX_BLOCK && out->stored > 0 &&
           (out->compressed ? out->stored < out->raw : out->stored == out->raw);
}

static bool read_block(rf_unpack *u, rf_archive_block *out)
{
    uint32_t fields;
    if (!rf_unpack_array(u, &fields) || fields != 2 || !rf_unpack_bool(u, &out->transposed) ||
        !rf_unpack_array(u, &out->num_frames) || out->num_frames == 0 || out->num_frames > RF_ARCHIVE_MAX_FRAMES)
        return false;
    out->raw = 0;
    for (uint32_t i = 0; i < out->num_frames; i++) {
        if (!read_frame(u, &out->frame[i])) return false;
        out->raw += out->frame[i].raw;
    }
    return out->raw <= RF_ARCHIVE_MAX_BLOCK;
}

static bool read_extent(rf_unpack *u, rf_archive_extent *out)
{
    uint32_t fields;
    uint64_t part;
    if (!rf_unpack_array(u, &fields) || fields != 2 || !rf_unpack_uint(u, &part) || part >= RF_ARCHIVE_MAX_PARTS ||
        !rf_unpack_uint(u, &out->count))
        return false;
    out->part = (uint32_t)part;
    return out->count > 0;
}

static rf_result check_extents(checker *c, const char *name, const rf_archive_record *r)
{
    uint64_t left = r->bytes / rf_dtype_size(r->dtype);
    for (uint32_t i = 0; i < r->num_blocks; i++) {
        rf_archive_extent extent;
        if (!read_extent(&c->at, &extent) || extent.part >= c->header->num_parts)
            return bad_entry(c, name, "an extent is impossible");
        if (extent.count > left) return bad_entry(c, name, "its extents are larger than it is");
        left -= extent.count;
    }
    return left == 0 ? RF_OK : bad_entry(c, name, "its extents are smaller than it is");
}

static rf_result check_blocks(checker *c, const char *name, const rf_archive_record *r)
{
    if (r->offset != c->next) return bad_entry(c, name, "does not begin where the tensor before it ends");
    const size_t element = rf_dtype_size(r->dtype);
    uint64_t left = r->bytes;
    for (uint32_t i = 0; i < r->num_blocks; i++) {
        rf_archive_block block;
        if (!read_block(&c->at, &block) || block.raw % element != 0) return bad_entry(c, name, "a block cannot be");
        if (block.raw > left) return bad_entry(c, name, "its blocks are larger than it is");
        left -= block.raw;
        for (uint32_t f = 0; f < block.num_frames; f++) {
            if (block.frame[f].stored > c->data_end - c->next)
                return bad_entry(c, name, "a frame reaches over the end of the data");
            c->next += block.frame[f].stored;
        }
    }
    return left == 0 ? RF_OK : bad_entry(c, name, "its blocks are smaller than it is");
}

static rf_result check_tensor(checker *c, const char *previous, const char **name)
{
    const bool sharded = c->header->sharded;
    uint32_t fields;
    rf_archive_record r;
    if (!rf_unpack_array(&c->at, &fields) || fields != (sharded ? 4 : 5)) return fail_header(c, "expected a tensor");
    RF_TRY(check_name(c, previous, name));
    if (!read_record(&c->at, sharded, &r)) return bad_entry(c, *name, "its type, shape or place cannot be");
    return sharded ? check_extents(c, *name, &r) : check_blocks(c, *name, &r);
}

static bool read_value(rf_unpack *u, rf_archive_value *v)
{
    uint32_t size;
    const char *text;
    if (rf_unpack_uint(u, &v->number)) {
        v->kind = RF_VALUE_UINT;
    } else if (rf_unpack_double(u, &v->real)) {
        v->kind = RF_VALUE_DOUBLE;
    } else if (rf_unpack_string(u, &text, &size)) {
        v->kind = RF_VALUE_STRING;
        v->bytes = text;
        v->size = size;
        return rf_utf8_valid(text, size);
    } else if (rf_unpack_bytes(u, &v->bytes, &size)) {
        v->kind = RF_VALUE_BYTES;
        v->size = size;
    } else {
        return false;
    }
    return true;
}

static rf_result check_values(checker *c, rf_archive_header *h)
{
    uint32_t count;
    if (!rf_unpack_map(&c->at, &count) || (uint64_t)(c->at.end - c->at.at) / LEAST_VALUE < count)
        return fail_header(c, "expected a map of values");
    h->values = RF_NEW_ARRAY(uint32_t, count);
    if (!h->values) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const char *name = NULL;
    for (uint32_t i = 0; i < count; i++) {
        rf_archive_value value;
        RF_TRY(check_name(c, name, &name));
        if (!read_value(&c->at, &value)) return bad_entry(c, name, "expected a number, text or bytes");
        h->values[i] = (uint32_t)((const uint8_t *)name - h->bytes);
    }
    h->num_values = count;
    return RF_OK;
}

static rf_result check_tensors(checker *c, rf_archive_header *h)
{
    uint32_t count;
    if (!rf_unpack_array(&c->at, &count) || (uint64_t)(c->at.end - c->at.at) / LEAST_TENSOR < count)
        return fail_header(c, "expected an array of tensors");
    h->tensors = RF_NEW_ARRAY(uint32_t, count);
    if (!h->tensors) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const char *name = NULL;
    for (uint32_t i = 0; i < count; i++) {
        RF_TRY(check_tensor(c, name, &name));
        h->tensors[i] = (uint32_t)((const uint8_t *)name - h->bytes);
    }
    h->num_tensors = count;
    return RF_OK;
}

static bool read_part(rf_unpack *u, rf_archive_part *part)
{
    return rf_unpack_uint(u, &part->is.size) && rf_unpack_uint(u, &part->is.hash);
}

/* Ascending names see to it that no part file is listed twice. */
static rf_result check_parts(checker *c, rf_archive_header *h)
{
    uint32_t count, fields;
    if (!rf_unpack_array(&c->at, &count) || count > RF_ARCHIVE_MAX_PARTS ||
        (uint64_t)(c->at.end - c->at.at) / LEAST_PART < count)
        return fail_header(c, "expected an array of part files");
    h->parts = RF_NEW_ARRAY(uint32_t, count);
    if (!h->parts) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const char *name = NULL;
    for (uint32_t i = 0; i < count; i++) {
        rf_archive_part part;
        if (!rf_unpack_array(&c->at, &fields) || fields != 3) return fail_header(c, "expected a part file");
        RF_TRY(check_name(c, name, &name));
        if (strchr(name, '/')) return bad_entry(c, name, "a part file must be in the same directory");
        if (!read_part(&c->at, &part)) return bad_entry(c, name, "expected size and hash of the part file");
        h->parts[i] = (uint32_t)((const uint8_t *)name - h->bytes);
    }
    h->num_parts = count;
    return RF_OK;
}

rf_result rf_archive_header_check(rf_archive_header *h, const char *path, uint64_t data_end)
{
    checker c = { { h->bytes, h->bytes + h->size }, h, path, RF_ARCHIVE_PREAMBLE, data_end };
    uint32_t fields;
    if (!rf_unpack_map(&c.at, &fields) || fields != (h->sharded ? 4 : 3) || !is_string(&c.at, "type"))
        return fail_header(&c, h->sharded ? "expected type, values, parts and tensors"
                                          : "expected type, values and tensors");
    RF_TRY(check_name(&c, NULL, &h->type));
    if (!is_string(&c.at, "values")) return fail_header(&c, "expected the values");
    RF_TRY(check_values(&c, h));
    if (h->sharded && !is_string(&c.at, "parts")) return fail_header(&c, "expected the parts");
    if (h->sharded) RF_TRY(check_parts(&c, h));
    if (!is_string(&c.at, "tensors")) return fail_header(&c, "expected the tensors");
    RF_TRY(check_tensors(&c, h));
    if (c.at.at != c.at.end) return fail_header(&c, "there is more after the tensors");
    if (c.next != data_end) return fail_header(&c, "bytes between data and header belong to no tensor");
    return RF_OK;
}

void rf_archive_header_free(rf_archive_header *header)
{
    rf_free(header->bytes);
    rf_free(header->tensors);
    rf_free(header->values);
    rf_free(header->parts);
    *header = (rf_archive_header){ 0 };
}

void rf_archive_header_tensor(const rf_archive_header *h, uint32_t index, rf_archive_record *out)
{
    const uint8_t *name = h->bytes + h->tensors[index];
    out->name = (const char *)name;
    out->blocks = (rf_unpack){ name + strlen(out->name) + 1, h->bytes + h->size };
    (void)read_record(&out->blocks, h->sharded, out); /* checked before */
}

void rf_archive_next_block(rf_unpack *blocks, rf_archive_block *out)
{
    (void)read_block(blocks, out); /* checked before */
}

void rf_archive_next_extent(rf_unpack *extents, rf_archive_extent *out)
{
    (void)read_extent(extents, out); /* checked before */
}

void rf_archive_header_part(const rf_archive_header *h, uint32_t index, rf_archive_part *out)
{
    const uint8_t *name = h->bytes + h->parts[index];
    out->name = (const char *)name;
    rf_unpack at = { name + strlen(out->name) + 1, h->bytes + h->size };
    (void)read_part(&at, out); /* checked before */
}

void rf_archive_header_value(const rf_archive_header *h, uint32_t index, rf_archive_value *out)
{
    const uint8_t *name = h->bytes + h->values[index];
    *out = (rf_archive_value){ .name = (const char *)name };
    rf_unpack at = { name + strlen(out->name) + 1, h->bytes + h->size };
    (void)read_value(&at, out); /* checked before */
}
