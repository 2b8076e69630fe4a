/* SPDX-License-Identifier: Apache-2.0 */
/* The format: https://github.com/msgpack/msgpack/blob/master/spec.md */
#include "persist/archive/unpack.h"

#include <string.h>

static uint64_t bytes_left(const rf_unpack *u)
{
    return (uint64_t)(u->end - u->at);
}

/* Big-endian number of `size` bytes behind the first. */
static uint64_t read_number(const rf_unpack *u, unsigned size)
{
    uint64_t value = 0;
    for (unsigned i = 1; i <= size; i++) value = value << 8 | u->at[i];
    return value;
}

bool rf_unpack_uint(rf_unpack *u, uint64_t *out)
{
    if (bytes_left(u) == 0) return false;
    const uint8_t tag = *u->at;
    const unsigned size = tag < 0x80 ? 0 : 1u << (tag & 3);
    if ((tag >= 0x80 && (tag < 0xcc || tag > 0xcf)) || bytes_left(u) < 1 + size) return false;
    *out = size ? read_number(u, size) : tag;
    u->at += 1 + size;
    return true;
}

bool rf_unpack_bool(rf_unpack *u, bool *out)
{
    if (bytes_left(u) == 0 || (*u->at != 0xc2 && *u->at != 0xc3)) return false;
    *out = *u->at++ == 0xc3;
    return true;
}

bool rf_unpack_double(rf_unpack *u, double *out)
{
    if (bytes_left(u) < 9 || *u->at != 0xcb) return false;
    const uint64_t bits = read_number(u, 8);
    memcpy(out, &bits, sizeof(bits));
    u->at += 9;
    return true;
}

/* The head of something with a length: short forms with the length in the tag, then forms with 8 (where `form8` is
 * one), 16 and 32 bits. `item` is the least size of what each unit of length stands for. */
static bool read_length(rf_unpack *u, uint8_t fix, uint8_t fix_mask, uint8_t form8, uint8_t form16, uint64_t item,
                        uint32_t *out)
{
    if (bytes_left(u) == 0) return false;
    const uint8_t tag = *u->at;
    unsigned size;
    if (fix_mask && (tag & ~fix_mask & 0xff) == fix)
        size = 0;
    else if (form8 && tag == form8)
        size = 1;
    else if (tag == form16)
        size = 2;
    else if (tag == form16 + 1)
        size = 4;
    else
        return false;
    if (bytes_left(u) < 1 + size) return false;
    const uint64_t value = size ? read_number(u, size) : tag & fix_mask;
    if (value * item > bytes_left(u) - 1 - size) return false;
    *out = (uint32_t)value;
    u->at += 1 + size;
    return true;
}

bool rf_unpack_string(rf_unpack *u, const char **out, uint32_t *size)
{
    if (!read_length(u, 0xa0, 0x1f, 0xd9, 0xda, 1, size)) return false;
    *out = (const char *)u->at;
    u->at += *size;
    return true;
}

bool rf_unpack_bytes(rf_unpack *u, const void **out, uint32_t *size)
{
    if (!read_length(u, 0, 0, 0xc4, 0xc5, 1, size)) return false;
    *out = u->at;
    u->at += *size;
    return true;
}

bool rf_unpack_array(rf_unpack *u, uint32_t *count)
{
    return read_length(u, 0x90, 0x0f, 0, 0xdc, 1, count);
}

bool rf_unpack_map(rf_unpack *u, uint32_t *count)
{
    return read_length(u, 0x80, 0x0f, 0, 0xde, 2, count);
}
