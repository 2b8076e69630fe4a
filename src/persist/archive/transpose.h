/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of an array by significance: all first bytes of the elements, then all second ones. The exponents of floats
 * compress well when they are adjacent; the mantissas hardly compress. */
#ifndef RF_PERSIST_ARCHIVE_TRANSPOSE_H
#define RF_PERSIST_ARCHIVE_TRANSPOSE_H

#include <stddef.h>
#include <stdint.h>

/* `size` is a multiple of `element` (1 to 8 bytes); the buffers do not overlap. */
void rf_bytes_transpose(const uint8_t *in, uint8_t *out, size_t size, size_t element);
void rf_bytes_untranspose(const uint8_t *in, uint8_t *out, size_t size, size_t element);

#endif
