/* SPDX-License-Identifier: Apache-2.0 */
#include "base/philox.h"

#include <math.h>
#include <string.h>

rf_philox4 rf_philox(uint64_t key, uint64_t counter_low, uint64_t counter_high)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)counter_low, c1 = (uint32_t)(counter_low >> 32);
    uint32_t c2 = (uint32_t)counter_high, c3 = (uint32_t)(counter_high >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (rf_philox4){ { c0, c1, c2, c3 } };
}

uint64_t rf_rng_next(rf_rng *rng)
{
    const rf_philox4 x = rf_philox(rng->key, rng->counter++, 0);
    return (uint64_t)x.v[1] << 32 | x.v[0];
}

uint64_t rf_rng_below(rf_rng *rng, uint64_t bound)
{
    /* Values below 2^64 mod bound would make small results likelier: draw again. */
    const uint64_t threshold = (0 - bound) % bound;
    for (;;) {
        const uint64_t x = rf_rng_next(rng);
        if (x >= threshold) return x % bound;
    }
}

float rf_rng_uniform(rf_rng *rng)
{
    return rf_uniform_from_bits((uint32_t)rf_rng_next(rng));
}

double rf_rng_normal(rf_rng *rng)
{
    const double u = ((double)(rf_rng_next(rng) >> 11) + 1.0) * 0x1p-53; /* (0, 1]: the logarithm is finite */
    const double v = (double)(rf_rng_next(rng) >> 11) * 0x1p-53;
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

uint64_t rf_hash64(uint64_t a, uint64_t b)
{
    const rf_philox4 x = rf_philox(a, b, 0x72696E6766697265ull);
    return (uint64_t)x.v[1] << 32 | x.v[0];
}

uint64_t rf_hash_bytes(const void *data, size_t size, uint64_t seed)
{
    const unsigned char *p = data;
    uint64_t h = 0xCBF29CE484222325ull ^ seed;
    for (size_t i = 0; i < size; i++) h = (h ^ p[i]) * 0x100000001B3ull;
    return h;
}

/* ---- hashes of many numbers ---- */

#define LANES 4

/* Multiply and xor with the odd number next to 2^64 / golden ratio: a bijection of the state and of the word, so that a
 * single word that differs makes the rest differ. */
static uint64_t mix_word(uint64_t state, uint64_t word)
{
    state = (state ^ word) * 0x9e3779b97f4a7c15u;
    return state ^ (state >> 29);
}

/* Four independent lanes hide the latency of the multiplication: as fast as memory. */
uint64_t rf_hash_floats(const float *values, uint64_t count)
{
    uint64_t lane[LANES] = { 1, 2, 3, 4 };
    uint64_t i = 0;
    for (; i + 2 * LANES <= count; i += 2 * LANES) {
        uint64_t words[LANES];
        memcpy(words, values + i, sizeof(words));
        for (int k = 0; k < LANES; k++) lane[k] = mix_word(lane[k], words[k]);
    }
    for (; i < count; i++) {
        uint32_t word;
        memcpy(&word, values + i, sizeof(word));
        lane[i % LANES] = mix_word(lane[i % LANES], word);
    }
    uint64_t hash = count;
    for (int k = 0; k < LANES; k++) hash = mix_word(hash, lane[k]);
    return hash;
}
