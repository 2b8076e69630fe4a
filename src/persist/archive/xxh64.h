/* SPDX-License-Identifier: Apache-2.0 */
/* XXH64 with seed 0: the checksum of everything in an archive (and, inside of them, of zstd's frames). Algorithm: Yann
 * Collet, "xxHash fast digest algorithm", doc/xxhash_spec.md, version 0.1.1. */
#ifndef RF_PERSIST_ARCHIVE_XXH64_H
#define RF_PERSIST_ARCHIVE_XXH64_H

#include <stddef.h>
#include <stdint.h>

uint64_t rf_xxh64(const void *data, size_t size);

#endif
