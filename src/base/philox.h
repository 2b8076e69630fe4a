/* SPDX-License-Identifier: Apache-2.0 */
/* Philox4x32-10, a counter-based random generator: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
 * 2011. The same function exists in shaders/pointwise/common/philox.glsl; a test holds them together and against
 * published vectors. */
#ifndef RF_BASE_PHILOX_H
#define RF_BASE_PHILOX_H

#include <stddef.h>
#include <stdint.h>

typedef struct rf_philox4 {
    uint32_t v[4];
} rf_philox4;
rf_philox4 rf_philox(uint64_t key, uint64_t counter_low, uint64_t counter_high);
/* [0, 1) with 24 bits: (x >> 8) * 2^-24. Exact in f32. */
static inline float rf_uniform_from_bits(uint32_t x)
{
    return (float)(x >> 8) * 0x1p-24f;
}
/* Stream of values from one key; position is explicit so that it can be saved. */
typedef struct rf_rng {
    uint64_t key, counter;
} rf_rng;
uint64_t rf_rng_next(rf_rng *rng);
uint64_t rf_rng_below(rf_rng *rng, uint64_t bound); /* unbiased, bound > 0 */
float rf_rng_uniform(rf_rng *rng);                  /* [0, 1) */
double rf_rng_normal(rf_rng *rng);                  /* Box-Muller in double, the cosine branch; deterministic */
uint64_t rf_hash64(uint64_t a, uint64_t b);         /* mixes two words; for deriving seeds */
/* FNV-1a over bytes; for cache keys and signatures, not for adversaries. */
uint64_t rf_hash_bytes(const void *data, size_t size, uint64_t seed);
/* Hash of floats by their bits. Arrays of one length that differ in a single float always have different ones. Not for
 * adversaries. */
uint64_t rf_hash_floats(const float *values, uint64_t count);

#endif
