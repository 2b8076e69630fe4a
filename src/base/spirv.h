/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of SPIR-V modules share these: instructions of compute shaders, their operands, arithmetic on constants. */
#ifndef RF_BASE_SPIRV_H
#define RF_BASE_SPIRV_H

#include <stdbool.h>
#include <stdint.h>

enum { /* of SPIR-V's tables */
       SPIRV_MAGIC = 0x07230203,
       SPIRV_HEADER_WORDS = 5, /* the fourth: all ids are less */
       SPIRV_UNDEF = 1,
       SPIRV_NAME = 5,
       SPIRV_EXT_INST = 12,
       SPIRV_TYPE_VOID = 19,
       SPIRV_TYPE_BOOL = 20,
       SPIRV_TYPE_INT = 21,
       SPIRV_TYPE_FLOAT = 22,
       SPIRV_TYPE_VECTOR = 23,
       SPIRV_TYPE_MATRIX = 24,
       SPIRV_TYPE_ARRAY = 28,
       SPIRV_TYPE_STRUCT = 30,
       SPIRV_TYPE_POINTER = 32,
       SPIRV_TYPE_FUNCTION = 33,
       SPIRV_CONSTANT_TRUE = 41,
       SPIRV_CONSTANT_FALSE = 42,
       SPIRV_CONSTANT = 43,
       SPIRV_CONSTANT_COMPOSITE = 44,
       SPIRV_CONSTANT_NULL = 46,
       SPIRV_SPEC_CONSTANT_TRUE = 48,
       SPIRV_SPEC_CONSTANT_FALSE = 49,
       SPIRV_SPEC_CONSTANT = 50,
       SPIRV_SPEC_CONSTANT_COMPOSITE = 51,
       SPIRV_SPEC_CONSTANT_OP = 52,
       SPIRV_FUNCTION = 54,
       SPIRV_FUNCTION_END = 56,
       SPIRV_VARIABLE = 59,
       SPIRV_DECORATE = 71,
       SPIRV_COMPOSITE_EXTRACT = 81,
       SPIRV_LOGICAL_OR = 166,
       SPIRV_LOGICAL_AND = 167,
       SPIRV_SELECT = 169,
       SPIRV_PHI = 245,
       SPIRV_LOOP_MERGE = 246,
       SPIRV_SELECTION_MERGE = 247,
       SPIRV_LABEL = 248,
       SPIRV_BRANCH = 249,
       SPIRV_BRANCH_CONDITIONAL = 250,
       SPIRV_SWITCH = 251,
       SPIRV_DECORATION_SPEC_ID = 1,
       SPIRV_STORAGE_WORKGROUP = 4,
       SPIRV_LOOP_UNROLL = 1,
};

/* An instruction of a function: what its words are. */
typedef struct spirv_shape {
    uint8_t results;  /* 2: type and id come first; 1: an id; 0: none */
    uint8_t operands; /* which of those behind are ids: spirv.c */
    uint8_t least;    /* words */
    bool pure;        /* of no effect but its result: may be left out where that is not used */
    bool ends_block;
} spirv_shape;

/* False: not one that compute shaders are known to have. Pure, like all of these. */
bool rf_spirv_shape(uint32_t operation, spirv_shape *out);
/* Whether operand i, counted behind the result, is an id. */
bool rf_spirv_is_id(const spirv_shape *shape, uint32_t i);
bool rf_spirv_is_constant(uint32_t operation); /* its declaration, specialization constants included */
bool rf_spirv_is_spec(uint32_t operation);
bool rf_spirv_is_type(uint32_t operation);
/* The operation on booleans (0 and 1) and integers of 32 bits, or their bits; an operation with fewer operands takes
 * the first. False: none of these, or it has no result, as a division by 0. */
bool rf_spirv_compute(uint32_t operation, uint32_t a, uint32_t b, uint32_t c, uint32_t *result);

#endif
