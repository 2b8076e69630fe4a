/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers that an optimizer keeps for each weight, in f32, in bf16, or in 8 bits: Dettmers et al., "8-bit optimizers
 * via block-wise quantization", ICLR 2022. Update kernels read and write the same words
 * (shaders/pointwise/common/update_packed.comp); a test holds both together.
 *
 * Numbers are in blocks of 256. In 8 bits a block is 64 words of codes, the first number in the lowest bits, and a word
 * for the scale in f32, the greatest magnitude of the block. A code is the place of a value in the dynamic map in
 * ascending order. Values of that are multiples of the scale: seven decades, in each of which there are twice as many
 * as in the one below, 0, and 1. Signed ones are the negatives, too, but for -1.
 */
#ifndef RF_BASE_STATE_FORM_H
#define RF_BASE_STATE_FORM_H

#include <ringfire/optimizers.h>

#define RF_STATE_BLOCK 256
#define RF_STATE_LEAST 0x1p-100f /* a block whose numbers are all smaller counts as zeros */

typedef struct rf_state_form {
    rf_optimizer_state_type type;
    bool positive; /* numbers are never below 0: their codes are for others */
} rf_state_form;

/* Words of a block of RF_STATE_BLOCK numbers. */
static inline uint64_t rf_state_block_words(rf_optimizer_state_type type)
{
    return type == RF_OPTIMIZER_STATE_F32    ? RF_STATE_BLOCK
           : type == RF_OPTIMIZER_STATE_BF16 ? RF_STATE_BLOCK / 2
                                             : RF_STATE_BLOCK / 4 + 1;
}
/* Words of so many numbers, which are whole blocks unless they are in f32. */
static inline uint64_t rf_state_words(rf_optimizer_state_type type, uint64_t count)
{
    return type == RF_OPTIMIZER_STATE_F32 ? count : count / RF_STATE_BLOCK * rf_state_block_words(type);
}

/* The number that a code stands for, where the scale is 1. */
float rf_state_code_value(bool positive, uint32_t code);
/* Numbers [first, first + count) of those that `words` hold. */
void rf_state_decode(rf_state_form form, const void *words, uint64_t first, uint64_t count, float *values);
/*
 * Whole blocks, the last one filled up with zeros. Numbers are rounded to the nearest, halfway ones towards 0; what
 * rf_state_decode() gave comes back as it was. A block with a number that is not finite becomes NaN.
 */
void rf_state_encode(rf_state_form form, const float *values, uint64_t count, void *words);

#endif
