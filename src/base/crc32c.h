/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RF_BASE_CRC32C_H
#define RF_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* CRC-32C (Castagnoli, RFC 3720 appendix B.4) of `data`, continuing from `crc`, which is 0 at the start. */
uint32_t rf_crc32c(uint32_t crc, const void *data, size_t size);

#endif
