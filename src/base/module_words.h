/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SPIR-V modules in the form that a general compressor makes little of. An instruction is much like the last one of the
 * same operation: the same type, ids a few numbers further. So each operand is stored less that of the last instruction
 * of its operation at the same place, or less 0 where there is none.
 *
 *     header   four words of the module's five, without the first, which all modules share
 *     size     bytes of the instructions
 *     instructions   for each its operation and its number of words
 *     operands       of all instructions, as said above, with the sign in the lowest bit
 *
 * All are numbers of seven bits a byte, the lowest first; each but a number's last byte has its highest bit set.
 * shaders/pack_module.c writes this form when the library is built.
 */
#ifndef RF_BASE_MODULE_WORDS_H
#define RF_BASE_MODULE_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RF_MODULE_OPERATIONS 8192 /* numbers of operations that the form has: below this one */

/* An instruction is expected to have word i of the last one of its operation, which is at `last` in `words` (0: there
 * is none). */
static inline uint32_t rf_module_expected(const uint32_t *words, uint32_t last, uint32_t i)
{
    return last > 0 && i < words[last] >> 16 ? words[last + i] : 0;
}
/* Writes exactly `count` words; false where `data` is not exactly as many. */
bool rf_module_words(const uint8_t *data, size_t size, uint32_t *words, uint32_t count);

#endif
