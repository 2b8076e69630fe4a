/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of TFRecord files: u64 length, its checksum, the bytes, their checksum; little endian. */
#ifndef RF_BASE_RECORD_H
#define RF_BASE_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "base/crc32c.h"

#define RF_RECORD_HEAD 12u /* before the bytes */
#define RF_RECORD_TAIL 4u  /* after them */

/* CRCs of data that holds CRCs are weak; so they are stored rotated, plus a constant (TensorFlow's crc32c.h). */
static inline uint32_t rf_record_checksum(const void *data, size_t size)
{
    const uint32_t crc = rf_crc32c(0, data, size);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}
static inline void rf_record_put(unsigned char *to, uint64_t value, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++) to[i] = (unsigned char)(value >> 8 * i);
}
static inline uint64_t rf_record_get(const unsigned char *from, uint32_t size)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < size; i++) value |= (uint64_t)from[i] << 8 * i;
    return value;
}

#endif
