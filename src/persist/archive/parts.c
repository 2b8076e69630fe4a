/* SPDX-License-Identifier: Apache-2.0 */
/* Reads archives whose tensors are stored in part files. Everything is checked when the archive is opened; reading a
 * tensor reads only the part files that hold some of it. */
#include <string.h>

#include "base/memory.h"
#include "persist/archive/internal.h"

/* ---- open ---- */

static rf_result check_part(const rf_archive *main, const rf_archive *part, const rf_archive_part *expected)
{
    if (part->is.size != expected->is.size || part->is.hash != expected->is.hash)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: its part file '%s' belongs to another save; copy both again",
                       main->path, expected->name);
    if (part->header.sharded || strcmp(part->header.type, RF_ARCHIVE_PART_TYPE) != 0 || part->header.num_values > 0)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: '%s' is not a part file of a checkpoint", main->path,
                       expected->name);
    return RF_OK;
}

static rf_result open_part(const rf_archive *a, const rf_archive_part *expected, rf_archive **out)
{
    char *path = rf_path_beside(a->path, expected->name);
    if (!path) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = rf_archive_open_main(a->ops, path, out);
    rf_free(path);
    if (r == RF_ERROR_NOT_FOUND)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: its part file '%s' is missing; it must be in the same directory",
                       a->path, expected->name);
    return r < 0 ? r : check_part(a, *out, expected);
}

static rf_result bad_slice(const rf_archive *a, uint32_t part, const char *name)
{
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: the extents of '%.100s' do not match part file '%s'", a->path, name,
                   a->parts[part]->path);
}

/* Parts have what the extents of a tensor say: one dimension, all extents together. `sums` is zero before and after. */
static rf_result check_slices(const rf_archive *a, const rf_archive_record *record, uint64_t *sums, uint64_t *slices)
{
    rf_archive_extent extent;
    rf_unpack at = record->blocks;
    for (uint32_t i = 0; i < record->num_blocks; i++) {
        rf_archive_next_extent(&at, &extent);
        sums[extent.part] += extent.count;
    }
    at = record->blocks;
    for (uint32_t i = 0; i < record->num_blocks; i++) {
        rf_archive_next_extent(&at, &extent);
        const uint64_t sum = sums[extent.part];
        if (sum == 0) continue; /* looked at with an earlier extent */
        sums[extent.part] = 0;
        const rf_archive *part = a->parts[extent.part];
        const uint32_t index = rf_archive_index(part, record->name);
        if (index == part->header.num_tensors) return bad_slice(a, extent.part, record->name);
        rf_archive_record slice;
        rf_archive_header_tensor(&part->header, index, &slice);
        if (slice.dtype != record->dtype || slice.shape.rank != 1 || (uint64_t)slice.shape.dim[0] != sum)
            return bad_slice(a, extent.part, record->name);
        ++*slices;
    }
    return RF_OK;
}

static rf_result check_all_slices(const rf_archive *a)
{
    uint64_t *sums = RF_NEW_ARRAY(uint64_t, a->header.num_parts), slices = 0;
    if (!sums) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = RF_OK;
    for (uint32_t i = 0; r >= 0 && i < a->header.num_tensors; i++) {
        rf_archive_record record;
        rf_archive_header_tensor(&a->header, i, &record);
        r = check_slices(a, &record, sums, &slices);
    }
    rf_free(sums);
    RF_TRY(r);
    for (uint32_t i = 0; i < a->header.num_parts; i++) slices -= a->parts[i]->header.num_tensors;
    return slices == 0 ? RF_OK
                       : RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: a part file has a tensor that it does not list", a->path);
}

rf_result rf_archive_open_parts(rf_archive *a)
{
    a->parts = RF_NEW_ARRAY(rf_archive *, a->header.num_parts);
    if (!a->parts) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < a->header.num_parts; i++) {
        rf_archive_part expected;
        rf_archive_header_part(&a->header, i, &expected);
        RF_TRY(open_part(a, &expected, &a->parts[i]));
    }
    return check_all_slices(a);
}

/* ---- what there is ---- */

uint64_t rf_archive_num_parts(const rf_archive *archive)
{
    return archive ? archive->header.num_parts : 0;
}

const char *rf_archive_part_name(const rf_archive *archive, uint64_t index)
{
    if (!archive || index >= archive->header.num_parts) return NULL;
    return (const char *)archive->header.bytes + archive->header.parts[index];
}

uint64_t rf_archive_stored_in_parts(const rf_archive *a, const char *name)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < a->header.num_parts; i++) {
        rf_archive_record slice;
        const uint32_t index = rf_archive_index(a->parts[i], name);
        if (index == a->parts[i]->header.num_tensors) continue;
        rf_archive_header_tensor(&a->parts[i]->header, index, &slice);
        bytes += rf_archive_stored_bytes(&slice);
    }
    return bytes;
}

/* ---- tensors ---- */

static rf_result read_slice(const rf_archive *part, const char *name, uint8_t *data, uint64_t *bytes)
{
    rf_archive_record slice;
    const uint32_t index = rf_archive_index(part, name);
    rf_archive_header_tensor(&part->header, index, &slice); /* it was there when the parts were opened */
    *bytes = slice.bytes;
    return rf_archive_read_tensors(part, index, index + 1, data, slice.bytes);
}

/* Each part has one extent: they are read to their places. */
static rf_result read_extents(const rf_archive *a, const rf_archive_record *record, uint8_t *data)
{
    rf_unpack at = record->blocks;
    for (uint32_t i = 0; i < record->num_blocks; i++) {
        rf_archive_extent extent;
        uint64_t bytes;
        rf_archive_next_extent(&at, &extent);
        RF_TRY(read_slice(a->parts[extent.part], record->name, data, &bytes));
        data += bytes;
    }
    return RF_OK;
}

/* `next`: where the next extent of each part lies in `slices`. */
static rf_result gather_extents(const rf_archive *a, const rf_archive_record *record, uint8_t *slices, uint64_t *next,
                                uint8_t *data)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < a->header.num_parts; i++) {
        uint64_t bytes = 0;
        next[i] = at;
        if (rf_archive_index(a->parts[i], record->name) < a->parts[i]->header.num_tensors)
            RF_TRY(read_slice(a->parts[i], record->name, slices + at, &bytes));
        at += bytes;
    }
    const uint64_t element = rf_dtype_size(record->dtype);
    rf_unpack extents = record->blocks;
    for (uint32_t i = 0; i < record->num_blocks; i++) {
        rf_archive_extent extent;
        rf_archive_next_extent(&extents, &extent);
        memcpy(data, slices + next[extent.part], extent.count * element);
        next[extent.part] += extent.count * element;
        data += extent.count * element;
    }
    return RF_OK;
}

rf_result rf_archive_read_from_parts(const rf_archive *a, const rf_archive_record *record, uint8_t *data)
{
    uint32_t holders = 0;
    for (uint32_t i = 0; i < a->header.num_parts; i++)
        holders += rf_archive_index(a->parts[i], record->name) < a->parts[i]->header.num_tensors;
    if (holders == record->num_blocks) return read_extents(a, record, data);
    uint8_t *slices = rf_calloc(record->bytes, 1);
    uint64_t *next = RF_NEW_ARRAY(uint64_t, a->header.num_parts);
    const rf_result r = slices && next ? gather_extents(a, record, slices, next, data) : RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_free(slices);
    rf_free(next);
    return r;
}

/* `next`: zero; where the next extent of each part lies in its slice. */
static rf_result read_extents_within(const rf_archive *a, const rf_archive_record *record, uint64_t begin, uint64_t end,
                                     uint64_t *next, uint8_t *data)
{
    const uint64_t element = rf_dtype_size(record->dtype);
    rf_unpack extents = record->blocks;
    for (uint64_t i = 0, at = 0; i < record->num_blocks && at < end; i++) {
        rf_archive_extent extent;
        rf_archive_next_extent(&extents, &extent);
        const uint64_t bytes = extent.count * element, first = at < begin ? begin - at : 0;
        const uint64_t last = at + bytes > end ? end - at : bytes, slice = next[extent.part];
        const rf_archive *part = a->parts[extent.part];
        if (first < last)
            RF_TRY(rf_archive_read_blocks(part, rf_archive_index(part, record->name), slice + first, slice + last,
                                          data + (at + first - begin)));
        next[extent.part] += bytes;
        at += bytes;
    }
    return RF_OK;
}

rf_result rf_archive_read_range_from_parts(const rf_archive *a, const rf_archive_record *record, uint64_t begin,
                                           uint64_t end, uint8_t *data)
{
    uint64_t *next = RF_NEW_ARRAY(uint64_t, a->header.num_parts);
    const rf_result r = next ? read_extents_within(a, record, begin, end, next, data) : RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_free(next);
    return r;
}

rf_result rf_archive_verify_parts(const rf_archive *a)
{
    for (uint32_t i = 0; i < a->header.num_parts; i++)
        RF_TRY(rf_archive_read_tensors(a->parts[i], 0, a->parts[i]->header.num_tensors, NULL, a->parts[i]->is.size));
    return RF_OK;
}
