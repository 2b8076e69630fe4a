/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers in 8 and 4 bits: blocks of neighbours with a scale in f16 each, and matrices that are lines of such blocks.
 *
 * In memory the codes of all lines come first, then, from a multiple of 256 bytes on, where descriptors may begin, the
 * scales of all blocks. Codes of 8 bits are a byte each. Those of 4 bits are in groups of 32, as GGUF has them: byte i
 * of a group has number i in its low half and number 16 + i in the high one. So each word has four neighbours, or twice
 * four. A line has whole blocks: zeros follow its numbers.
 */
#ifndef RF_BASE_QUANTIZE_H
#define RF_BASE_QUANTIZE_H

#include <ringfire/common.h>

enum { RF_QUANTIZED_LARGEST_BLOCK = 64 };

typedef struct rf_quantized_form {
    const char *name;     /* "int8" */
    uint32_t bits, block; /* of a number; numbers of a block */
    /* They take whole blocks; false: a number is not finite, or too large for the scale. */
    bool (*encode)(const float *values, uint8_t *codes, uint16_t *scale);
    void (*decode)(const uint8_t *codes, uint16_t scale, float *values);
} rf_quantized_form;
/* NULL: it is none, such as RF_QUANTIZATION_NONE. */
const rf_quantized_form *rf_quantized_form_of(rf_quantization kind);
/* The name of a number in files; "?" for one that is none. */
const char *rf_quantization_name(uint32_t kind);

/* A matrix of `lines` of `length` numbers, of a kind that has a form. */
typedef struct rf_quantized_layout {
    const rf_quantized_form *form;
    uint64_t lines, length;
    uint64_t padded;                  /* numbers of a line, with the zeros behind them */
    uint64_t line_bytes, line_scales; /* its codes; its blocks */
    uint64_t scales_at, words;        /* bytes before the scales; words of 32 bits in all, 0: too many to count */
} rf_quantized_layout;
rf_quantized_layout rf_quantized_layout_make(rf_quantization kind, uint64_t lines, uint64_t length);
/* Lines [begin, begin + count) from values [count, length] into the whole matrix `words`; false as `encode` is. */
bool rf_quantize_lines(const rf_quantized_layout *layout, uint64_t begin, uint64_t count, const float *values,
                       void *words);
void rf_dequantize_lines(const rf_quantized_layout *layout, uint64_t begin, uint64_t count, const void *words,
                         float *values);

#endif
