/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/store/hash.h"

#include <string.h>

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
