/* SPDX-License-Identifier: Apache-2.0 */
#include "persist/archive/xxh64.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are read as they lie in memory");

static const uint64_t prime1 = 0x9E3779B185EBCA87u, prime2 = 0xC2B2AE3D27D4EB4Fu, prime3 = 0x165667B19E3779F9u,
                      prime4 = 0x85EBCA77C2B2AE63u, prime5 = 0x27D4EB2F165667C5u;

static inline uint64_t word_rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static inline uint64_t word_load(const uint8_t *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof(word));
    return word;
}

static inline uint64_t add_lane(uint64_t lane, uint64_t word)
{
    return word_rotate(lane + word * prime2, 31) * prime1;
}

static inline uint64_t merge_lane(uint64_t hash, uint64_t lane)
{
    return (hash ^ add_lane(0, lane)) * prime1 + prime4;
}

uint64_t rf_xxh64(const void *data, size_t size)
{
    const uint8_t *p = data;
    size_t left = size;
    uint64_t hash = prime5;
    if (left >= 32) {
        uint64_t a = prime1 + prime2, b = prime2, c = 0, d = 0 - prime1;
        for (; left >= 32; left -= 32, p += 32) {
            a = add_lane(a, word_load(p));
            b = add_lane(b, word_load(p + 8));
            c = add_lane(c, word_load(p + 16));
            d = add_lane(d, word_load(p + 24));
        }
        hash = word_rotate(a, 1) + word_rotate(b, 7) + word_rotate(c, 12) + word_rotate(d, 18);
        hash = merge_lane(merge_lane(merge_lane(merge_lane(hash, a), b), c), d);
    }
    hash += size;
    for (; left >= 8; left -= 8, p += 8) hash = word_rotate(hash ^ add_lane(0, word_load(p)), 27) * prime1 + prime4;
    if (left >= 4) {
        uint32_t word;
        memcpy(&word, p, sizeof(word));
        hash = word_rotate(hash ^ word * prime1, 23) * prime2 + prime3;
        left -= 4;
        p += 4;
    }
    for (; left > 0; left--, p++) hash = word_rotate(hash ^ *p * prime5, 11) * prime1;
    hash = (hash ^ hash >> 33) * prime2;
    hash = (hash ^ hash >> 29) * prime3;
    return hash ^ hash >> 32;
}
