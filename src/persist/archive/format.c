/* SPDX-License-Identifier: Apache-2.0 */
#include "persist/archive/format.h"

#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "persist/archive/xxh64.h"

/* As PNG's: a high bit, a name, and line ends that a transfer as text would change. */
static const uint8_t magic[RF_ARCHIVE_MAGIC] = { 0x89, 'R', 'F', 'C', 'K', '\r', '\n', 0x1a };

enum { AT_VERSION = 8, AT_SIZE = 16, AT_HEADER = 24, AT_HEADER_SIZE = 32, AT_HEADER_HASH = 40, AT_HASH = 48 };

static void put_word(uint8_t *to, uint64_t value)
{
    memcpy(to, &value, sizeof(value));
}

static uint64_t get_word(const uint8_t *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof(value));
    return value;
}

/* The trailer repeats size and hash of the preamble, and the magic. */
static void make_trailer(const uint8_t *preamble, uint8_t *trailer)
{
    memcpy(trailer, preamble + AT_SIZE, 8);
    memcpy(trailer + 8, preamble + AT_HASH, 8);
    memcpy(trailer + 16, magic, sizeof(magic));
}

void rf_archive_layout_encode(const rf_archive_layout *layout, uint64_t version, uint8_t preamble[RF_ARCHIVE_PREAMBLE],
                              uint8_t trailer[RF_ARCHIVE_TRAILER])
{
    memcpy(preamble, magic, sizeof(magic));
    put_word(preamble + AT_VERSION, version);
    put_word(preamble + AT_SIZE, layout->file_size);
    put_word(preamble + AT_HEADER, layout->header_offset);
    put_word(preamble + AT_HEADER_SIZE, layout->header_size);
    put_word(preamble + AT_HEADER_HASH, layout->header_hash);
    put_word(preamble + AT_HASH, rf_xxh64(preamble, AT_HASH));
    make_trailer(preamble, trailer);
}

bool rf_archive_magic_fits(const uint8_t start[RF_ARCHIVE_MAGIC])
{
    return memcmp(start, magic, sizeof(magic)) == 0;
}

uint64_t rf_archive_preamble_version(const uint8_t preamble[RF_ARCHIVE_PREAMBLE])
{
    return get_word(preamble + AT_VERSION);
}

uint64_t rf_archive_preamble_hash(const uint8_t preamble[RF_ARCHIVE_PREAMBLE])
{
    return get_word(preamble + AT_HASH);
}

rf_result rf_archive_layout_decode(const char *path, const uint8_t preamble[RF_ARCHIVE_PREAMBLE], uint64_t actual_size,
                                   rf_archive_layout *out)
{
    if (!rf_archive_magic_fits(preamble))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: not a checkpoint or model file of Ringfire (its first bytes differ)",
                       path);
    if (get_word(preamble + AT_HASH) != rf_xxh64(preamble, AT_HASH))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: the preamble is damaged; restore the file from a copy", path);
    const uint64_t version = rf_archive_preamble_version(preamble);
    if (version != RF_ARCHIVE_VERSION && version != RF_ARCHIVE_VERSION_PARTS)
        return RF_FAIL(RF_ERROR_UNSUPPORTED,
                       "%s: format version %llu, this library reads %u and %u; use a newer Ringfire", path,
                       (unsigned long long)version, RF_ARCHIVE_VERSION, RF_ARCHIVE_VERSION_PARTS);
    const rf_archive_layout l = { get_word(preamble + AT_SIZE), get_word(preamble + AT_HEADER),
                                  get_word(preamble + AT_HEADER_SIZE), get_word(preamble + AT_HEADER_HASH) };
    if (l.file_size != actual_size)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: %llu of %llu bytes; the file is %s, copy it again", path,
                       (unsigned long long)actual_size, (unsigned long long)l.file_size,
                       actual_size < l.file_size ? "truncated" : "too long");
    const uint64_t room = actual_size - RF_ARCHIVE_TRAILER;
    if (l.header_size > RF_ARCHIVE_MAX_HEADER || l.header_offset < RF_ARCHIVE_PREAMBLE || l.header_offset > room ||
        room - l.header_offset != l.header_size)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: a header of %llu bytes at byte %llu is impossible", path,
                       (unsigned long long)l.header_size, (unsigned long long)l.header_offset);
    *out = l;
    return RF_OK;
}

rf_result rf_archive_trailer_check(const char *path, const uint8_t preamble[RF_ARCHIVE_PREAMBLE],
                                   const uint8_t trailer[RF_ARCHIVE_TRAILER])
{
    uint8_t expected[RF_ARCHIVE_TRAILER];
    make_trailer(preamble, expected);
    if (memcmp(trailer, expected, sizeof(expected)) != 0)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: the trailer is damaged; restore the file from a copy", path);
    return RF_OK;
}

const char *rf_archive_name_problem(const char *name, uint64_t size)
{
    if (size == 0) return "is empty";
    if (size > RF_ARCHIVE_MAX_NAME) return "is too long";
    if (!rf_utf8_valid(name, size)) return "is not UTF-8";
    uint64_t begin = 0;
    for (uint64_t i = 0; i <= size; i++) {
        if (i < size && ((uint8_t)name[i] < 0x20 || name[i] == 0x7f)) return "has control characters";
        if (i < size && name[i] != '/') continue;
        const uint64_t length = i - begin;
        if (length == 0) return "has an empty component";
        if ((length == 1 && name[begin] == '.') || (length == 2 && name[begin] == '.' && name[begin + 1] == '.'))
            return "has a component '.' or '..'";
        begin = i + 1;
    }
    return NULL;
}

int64_t rf_array_bytes(rf_dtype dtype, rf_shape shape)
{
    const int64_t count = rf_shape_count(shape);
    const size_t size = rf_dtype_size(dtype);
    int64_t bytes;
    return count < 0 || size == 0 || __builtin_mul_overflow(count, (int64_t)size, &bytes) ? -1 : bytes;
}
