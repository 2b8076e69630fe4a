/* SPDX-License-Identifier: Apache-2.0 */
#include "persist/archive/reader.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/numbers.h"
#include "base/platform.h"
#include "persist/archive/internal.h"
#include "persist/archive/xxh64.h"

enum { MOST_TRIES = 1000, OPEN_SECONDS = 10 };

/* ---- open ---- */

/* Names of parts have an infix that others do not have: a part under another name was copied to the wrong place. */
static rf_result check_is_whole(const rf_archive *a)
{
    const char *slash = strrchr(a->path, '/');
    if (strcmp(a->header.type, RF_ARCHIVE_PART_TYPE) != 0) return RF_OK;
    if (strstr(slash ? slash : a->path, RF_ARCHIVE_PART_INFIX)) return RF_OK;
    return RF_FAIL(RF_ERROR_CORRUPT_DATA,
                   "%s: is a part file of a checkpoint that several workers wrote, under the name of a whole one; copy "
                   "the main file again",
                   a->path);
}

/* One try. `*is` is the main file's identity when that could be read, else zero. */
static rf_result open_once(const rf_file_ops *ops, const char *path, rf_archive_identity *is, rf_archive **out)
{
    *is = (rf_archive_identity){ 0 };
    RF_TRY(rf_archive_open_main(ops, path, out));
    *is = (*out)->is;
    const rf_result r = (*out)->header.sharded ? rf_archive_open_parts(*out) : check_is_whole(*out);
    if (r < 0) rf_archive_close(out);
    return r;
}

/* A save replaces the main file first, then removes the parts of the one before: whoever has read the old main file may
 * find its parts gone. Then there is another main file under the path, or none. */
rf_result rf_archive_open_with(const rf_file_ops *ops, const char *path, rf_archive **out)
{
    const uint64_t deadline = rf_now_ns() + OPEN_SECONDS * 1000000000ull;
    for (uint32_t tries = 1;; tries++) {
        rf_archive_identity is, now;
        rf_error_record record;
        rf_result r = open_once(ops, path, &is, out);
        if (r != RF_ERROR_CORRUPT_DATA || is.size == 0) return r;
        rf_error_save(&record);
        r = rf_archive_identify(ops, path, &now);
        if (r == RF_ERROR_NOT_FOUND) return r;
        if (r < 0 || (now.size == is.size && now.hash == is.hash)) return rf_error_restore(&record);
        if (tries == MOST_TRIES || rf_now_ns() > deadline)
            return RF_FAIL(RF_ERROR_TIMEOUT, "%s: was replaced %u times while it was opened; try again later", path,
                           tries);
    }
}

rf_result rf_archive_recognize(const rf_file_ops *ops, const char *path, bool *out)
{
    uint8_t start[RF_ARCHIVE_MAGIC];
    uint64_t size;
    int fd;
    *out = false;
    RF_TRY(rf_file_open_sized(ops, path, &fd, &size));
    rf_result r = RF_OK;
    if (size >= sizeof(start)) {
        r = rf_file_read_at(ops, fd, path, start, sizeof(start), 0);
        *out = r >= 0 && rf_archive_magic_fits(start);
    }
    ops->close(ops->user, fd);
    return r;
}

rf_result rf_archive_open(const char *path, rf_archive **out)
{
    RF_REQUIRE(out, "rf_archive_open: out is NULL");
    *out = NULL;
    RF_REQUIRE(path && path[0], "rf_archive_open: path is empty");
    return rf_archive_open_with(&rf_system_file_ops, path, out);
}

/* ---- what there is ---- */

const char *rf_archive_type(const rf_archive *archive)
{
    return archive ? archive->header.type : NULL;
}

uint64_t rf_archive_num_tensors(const rf_archive *archive)
{
    return archive ? archive->header.num_tensors : 0;
}

static void entry_describe(const rf_archive *a, const rf_archive_record *record, rf_archive_entry *out)
{
    const uint64_t stored =
        a->header.sharded ? rf_archive_stored_in_parts(a, record->name) : rf_archive_stored_bytes(record);
    *out = (rf_archive_entry){ record->name, record->dtype, record->shape, record->bytes, stored };
}

rf_result rf_archive_entry_at(const rf_archive *archive, uint64_t index, rf_archive_entry *out)
{
    RF_REQUIRE(archive && out, "rf_archive_entry_at: archive or out is NULL");
    RF_REQUIRE(index < archive->header.num_tensors, "rf_archive_entry_at: index %llu of %u tensors",
               (unsigned long long)index, archive->header.num_tensors);
    rf_archive_record record;
    rf_archive_header_tensor(&archive->header, (uint32_t)index, &record);
    entry_describe(archive, &record, out);
    return RF_OK;
}

static rf_result record_find(const rf_archive *a, const char *name, rf_archive_record *out, uint32_t *index)
{
    *index = rf_archive_index(a, name);
    if (*index == a->header.num_tensors)
        return RF_FAIL(RF_ERROR_NOT_FOUND, "%s: there is no tensor '%s'", a->path, name);
    rf_archive_header_tensor(&a->header, *index, out);
    return RF_OK;
}

rf_result rf_archive_find(const rf_archive *archive, const char *name, rf_archive_entry *out)
{
    RF_REQUIRE(archive && name && out, "rf_archive_find: archive, name or out is NULL");
    rf_archive_record record = { .name = name };
    uint32_t index;
    RF_TRY(record_find(archive, name, &record, &index));
    entry_describe(archive, &record, out);
    return RF_OK;
}

uint64_t rf_archive_num_values(const rf_archive *archive)
{
    return archive ? archive->header.num_values : 0;
}

const char *rf_archive_value_name(const rf_archive *archive, uint64_t index)
{
    if (!archive || index >= archive->header.num_values) return NULL;
    return (const char *)archive->header.bytes + archive->header.values[index];
}

rf_result rf_archive_value_get(const rf_archive *archive, const char *name, rf_archive_value *out)
{
    const rf_archive_header *h = &archive->header;
    const uint32_t index = rf_archive_search(h, h->values, h->num_values, name);
    if (index == h->num_values) return RF_FAIL(RF_ERROR_NOT_FOUND, "%s: there is no value '%s'", archive->path, name);
    rf_archive_header_value(h, index, out);
    return RF_OK;
}

static void bytes_text(const rf_archive_value *value, char *text, size_t size)
{
    const uint8_t *bytes = value->bytes;
    const uint64_t shown = value->size < 32 ? value->size : 32;
    int used = snprintf(text, size, "%llu bytes:", (unsigned long long)value->size);
    for (uint64_t i = 0; i < shown && used >= 0 && (size_t)used < size; i++)
        used += snprintf(text + used, size - (size_t)used, " %02x", bytes[i]);
    if (shown < value->size && used >= 0 && (size_t)used < size)
        snprintf(text + used, size - (size_t)used, " ... (xxh64 %016llx)",
                 (unsigned long long)rf_xxh64(value->bytes, (size_t)value->size));
}

rf_result rf_archive_value_text(const rf_archive *archive, uint64_t index, char *text, size_t size)
{
    RF_REQUIRE(archive && text && size > 0, "rf_archive_value_text: archive or text is NULL, or size 0");
    RF_REQUIRE(index < archive->header.num_values, "rf_archive_value_text: index %llu of %u values",
               (unsigned long long)index, archive->header.num_values);
    rf_archive_value value;
    rf_archive_header_value(&archive->header, (uint32_t)index, &value);
    switch (value.kind) {
    case RF_VALUE_UINT: snprintf(text, size, "%llu", (unsigned long long)value.number); break;
    case RF_VALUE_DOUBLE: rf_number_print(text, size, "%.17g", value.real); break;
    case RF_VALUE_STRING: snprintf(text, size, "%.*s", (int)value.size, (const char *)value.bytes); break;
    case RF_VALUE_BYTES: bytes_text(&value, text, size); break;
    }
    return RF_OK;
}

/* ---- tensors ---- */

rf_result rf_archive_read(const rf_archive *archive, const char *name, void *data, uint64_t size)
{
    RF_REQUIRE(archive && name, "rf_archive_read: archive or name is NULL");
    rf_archive_record record;
    uint32_t index;
    RF_TRY(record_find(archive, name, &record, &index));
    RF_REQUIRE(size == record.bytes && (data || size == 0),
               "rf_archive_read: '%s' has %llu bytes, there is room for %llu", name, (unsigned long long)record.bytes,
               (unsigned long long)size);
    if (size == 0) return RF_OK;
    if (archive->header.sharded) return rf_archive_read_from_parts(archive, &record, data);
    return rf_archive_read_tensors(archive, index, index + 1, data, size);
}

rf_result rf_archive_read_range(const rf_archive *archive, const char *name, uint64_t offset, void *data, uint64_t size)
{
    RF_REQUIRE(archive && name, "rf_archive_read_range: archive or name is NULL");
    rf_archive_record record;
    uint32_t index;
    RF_TRY(record_find(archive, name, &record, &index));
    RF_REQUIRE(offset <= record.bytes && size <= record.bytes - offset && (data || size == 0),
               "rf_archive_read_range: '%s' has %llu bytes; %llu from %llu on are not in it", name,
               (unsigned long long)record.bytes, (unsigned long long)size, (unsigned long long)offset);
    if (size == 0) return RF_OK;
    if (archive->header.sharded) return rf_archive_read_range_from_parts(archive, &record, offset, offset + size, data);
    return rf_archive_read_blocks(archive, index, offset, offset + size, data);
}

rf_result rf_archive_verify(const rf_archive *archive)
{
    RF_REQUIRE(archive, "rf_archive_verify: archive is NULL");
    if (archive->header.sharded) return rf_archive_verify_parts(archive);
    return rf_archive_read_tensors(archive, 0, archive->header.num_tensors, NULL, archive->is.size);
}
