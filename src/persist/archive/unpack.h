/* SPDX-License-Identifier: Apache-2.0 */
/* Reads untrusted msgpack: nothing is allocated, nothing is read past the end, and a count is never larger than
 * what the bytes that are left could hold. (msgpack-c's unpacker allocates what a count promises.) Each call reads one
 * value and returns false, without advancing, when the next value is of another kind. */
#ifndef RF_PERSIST_ARCHIVE_UNPACK_H
#define RF_PERSIST_ARCHIVE_UNPACK_H

#include <stdbool.h>
#include <stdint.h>

typedef struct rf_unpack {
    const uint8_t *at, *end;
} rf_unpack;

bool rf_unpack_uint(rf_unpack *u, uint64_t *out);
bool rf_unpack_bool(rf_unpack *u, bool *out);
bool rf_unpack_double(rf_unpack *u, double *out); /* float 64 only */
bool rf_unpack_string(rf_unpack *u, const char **out, uint32_t *size);
bool rf_unpack_bytes(rf_unpack *u, const void **out, uint32_t *size);
bool rf_unpack_array(rf_unpack *u, uint32_t *count);
bool rf_unpack_map(rf_unpack *u, uint32_t *count);

#endif
