/* SPDX-License-Identifier: Apache-2.0 */
#include "base/spirv.h"

enum { /* spirv_shape.operands: up to LITERALS - 1, so many ids and then literals */
       LITERALS = 8,
       IDS,          /* all */
       SECOND_NOT,   /* all but one: the number of an extended instruction, the kind of an operation of a subgroup */
       SWITCH_CASES, /* selector, default, then literals and labels in turns */
};

typedef struct shape_row {
    uint16_t first, last; /* operations */
    spirv_shape shape;
} shape_row;

/* Operands that name memory (aligned, volatile) count as literals: ids among them are constants. */
static const shape_row shapes[] = {
    { 1, 1, { 2, 0, 3, true, false } },            /* OpUndef */
    { 12, 12, { 2, SECOND_NOT, 5, true, false } }, /* OpExtInst */
    { 54, 54, { 2, 0, 5, false, false } },         /* OpFunction */
    { 56, 56, { 0, 0, 1, false, false } },         /* OpFunctionEnd */
    { 59, 59, { 2, 0, 4, true, false } },          /* OpVariable */
    { 61, 61, { 2, 1, 4, true, false } },          /* OpLoad */
    { 62, 62, { 0, 2, 3, false, false } },         /* OpStore */
    { 65, 65, { 2, IDS, 4, true, false } },        /* OpAccessChain */
    { 77, 78, { 2, IDS, 5, true, false } },        /* OpVectorExtractDynamic, OpVectorInsertDynamic */
    { 79, 79, { 2, 2, 5, true, false } },          /* OpVectorShuffle */
    { 80, 80, { 2, IDS, 3, true, false } },        /* OpCompositeConstruct */
    { 81, 81, { 2, 1, 4, true, false } },          /* OpCompositeExtract */
    { 82, 82, { 2, 2, 5, true, false } },          /* OpCompositeInsert */
    { 83, 84, { 2, IDS, 4, true, false } },        /* OpCopyObject, OpTranspose */
    { 95, 95, { 2, 2, 5, true, false } },          /* OpImageFetch, of texel buffers, which have no level of detail */
    { 100, 100, { 2, IDS, 4, true, false } },      /* OpImage */
    { 104, 104, { 2, IDS, 4, true, false } },      /* OpImageQuerySize */
    { 109, 115, { 2, IDS, 4, true, false } },      /* conversions */
    { 124, 124, { 2, IDS, 4, true, false } },      /* OpBitcast */
    { 126, 127, { 2, IDS, 4, true, false } },      /* OpSNegate, OpFNegate */
    { 128, 152, { 2, IDS, 5, true, false } },      /* arithmetic */
    { 154, 157, { 2, IDS, 4, true, false } },      /* OpAny, OpAll, OpIsNan, OpIsInf */
    { 164, 167, { 2, IDS, 5, true, false } },      /* logic */
    { 168, 168, { 2, IDS, 4, true, false } },      /* OpLogicalNot */
    { 169, 169, { 2, IDS, 6, true, false } },      /* OpSelect */
    { 170, 191, { 2, IDS, 5, true, false } },      /* comparisons */
    { 194, 199, { 2, IDS, 5, true, false } },      /* shifts and bits */
    { 200, 200, { 2, IDS, 4, true, false } },      /* OpNot */
    { 201, 203, { 2, IDS, 6, true, false } },      /* bit fields */
    { 204, 205, { 2, IDS, 4, true, false } },      /* OpBitReverse, OpBitCount */
    { 224, 224, { 0, IDS, 4, false, false } },     /* OpControlBarrier */
    { 225, 225, { 0, IDS, 3, false, false } },     /* OpMemoryBarrier */
    { 227, 227, { 2, IDS, 6, false, false } },     /* OpAtomicLoad */
    { 228, 228, { 0, IDS, 5, false, false } },     /* OpAtomicStore */
    { 229, 242, { 2, IDS, 6, false, false } },     /* atomics */
    { 245, 245, { 2, IDS, 3, true, false } },      /* OpPhi: value and label in turns */
    { 246, 246, { 0, 2, 4, false, false } },       /* OpLoopMerge */
    { 247, 247, { 0, 1, 3, false, false } },       /* OpSelectionMerge */
    { 248, 248, { 1, 0, 2, false, false } },       /* OpLabel */
    { 249, 249, { 0, IDS, 2, false, true } },      /* OpBranch */
    { 250, 250, { 0, 3, 4, false, true } },        /* OpBranchConditional */
    { 251, 251, { 0, SWITCH_CASES, 3, false, true } }, /* OpSwitch, by 32 bits */
    { 253, 253, { 0, 0, 1, false, true } },            /* OpReturn */
    { 255, 255, { 0, 0, 1, false, true } },            /* OpUnreachable */
    { 333, 333, { 2, IDS, 4, true, false } },          /* OpGroupNonUniformElect */
    { 334, 341, { 2, IDS, 5, true, false } },          /* votes, broadcasts, ballots */
    { 345, 348, { 2, IDS, 6, true, false } },          /* shuffles */
    { 349, 364, { 2, SECOND_NOT, 6, true, false } },   /* arithmetic of a subgroup */
    { 365, 366, { 2, IDS, 6, true, false } },          /* of a quad */
    { 400, 400, { 2, IDS, 4, true, false } },          /* OpCopyLogical: a struct in a buffer's layout, or out of it */
    { 4457, 4457, { 2, 3, 5, true, false } },          /* OpCooperativeMatrixLoadKHR */
    { 4458, 4458, { 0, 4, 4, false, false } },         /* OpCooperativeMatrixStoreKHR */
    { 4459, 4459, { 2, 3, 6, true, false } },          /* OpCooperativeMatrixMulAddKHR */
};

bool rf_spirv_shape(uint32_t operation, spirv_shape *out)
{
    uint32_t low = 0, high = sizeof(shapes) / sizeof(*shapes);
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (operation > shapes[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == sizeof(shapes) / sizeof(*shapes) || operation < shapes[low].first) return false;
    *out = shapes[low].shape;
    return true;
}

bool rf_spirv_is_id(const spirv_shape *shape, uint32_t i)
{
    switch (shape->operands) {
    case IDS: return true;
    case SECOND_NOT: return i != 1;
    case SWITCH_CASES: return i < 2 || i % 2 == 1;
    default: return i < shape->operands;
    }
}

bool rf_spirv_is_spec(uint32_t operation)
{
    return operation >= SPIRV_SPEC_CONSTANT_TRUE && operation <= SPIRV_SPEC_CONSTANT_OP;
}

bool rf_spirv_is_constant(uint32_t operation)
{
    return (operation >= SPIRV_CONSTANT_TRUE && operation <= SPIRV_CONSTANT_NULL) || rf_spirv_is_spec(operation);
}

bool rf_spirv_is_type(uint32_t operation)
{
    return operation >= SPIRV_TYPE_VOID && operation <= SPIRV_TYPE_FUNCTION;
}

static bool arithmetic_compute(uint32_t operation, uint32_t a, uint32_t b, uint32_t *result)
{
    const int32_t x = (int32_t)a, y = (int32_t)b;
    const bool divides = b != 0 && !(x == INT32_MIN && y == -1);
    switch (operation) {
    case 124: *result = a; return true;                                  /* OpBitcast */
    case 126: *result = 0u - a; return true;                             /* OpSNegate */
    case 128: *result = a + b; return true;                              /* OpIAdd */
    case 130: *result = a - b; return true;                              /* OpISub */
    case 132: *result = a * b; return true;                              /* OpIMul */
    case 134: *result = divides ? a / b : 0; return divides;             /* OpUDiv */
    case 135: *result = divides ? (uint32_t)(x / y) : 0; return divides; /* OpSDiv */
    case 137: *result = divides ? a % b : 0; return divides;             /* OpUMod */
    case 138: *result = divides ? (uint32_t)(x % y) : 0; return divides; /* OpSRem */
    case 139:                                                            /* OpSMod: the sign is the divisor's */
        *result = divides ? (uint32_t)(x % y) : 0;
        if (divides && *result != 0 && (x < 0) != (y < 0)) *result += b;
        return divides;
    case 194: *result = b < 32 ? a >> b : 0; return b < 32;             /* OpShiftRightLogical */
    case 195: *result = b < 32 ? (uint32_t)(x >> b) : 0; return b < 32; /* OpShiftRightArithmetic */
    case 196: *result = b < 32 ? a << b : 0; return b < 32;             /* OpShiftLeftLogical */
    case 197: *result = a | b; return true;                             /* OpBitwiseOr */
    case 198: *result = a ^ b; return true;                             /* OpBitwiseXor */
    case 199: *result = a & b; return true;                             /* OpBitwiseAnd */
    case 200: *result = ~a; return true;                                /* OpNot */
    default: return false;
    }
}

bool rf_spirv_compute(uint32_t operation, uint32_t a, uint32_t b, uint32_t c, uint32_t *result)
{
    const int32_t x = (int32_t)a, y = (int32_t)b;
    switch (operation) {
    case 164:                                /* OpLogicalEqual */
    case 170: *result = a == b; return true; /* OpIEqual */
    case 165:                                /* OpLogicalNotEqual */
    case 171: *result = a != b; return true; /* OpINotEqual */
    case SPIRV_LOGICAL_OR: *result = a | b; return true;
    case SPIRV_LOGICAL_AND: *result = a & b; return true;
    case 168: *result = !a; return true; /* OpLogicalNot */
    case SPIRV_SELECT: *result = a ? b : c; return true;
    case 172: *result = a > b; return true;  /* OpUGreaterThan */
    case 173: *result = x > y; return true;  /* OpSGreaterThan */
    case 174: *result = a >= b; return true; /* OpUGreaterThanEqual */
    case 175: *result = x >= y; return true; /* OpSGreaterThanEqual */
    case 176: *result = a < b; return true;  /* OpULessThan */
    case 177: *result = x < y; return true;  /* OpSLessThan */
    case 178: *result = a <= b; return true; /* OpULessThanEqual */
    case 179: *result = x <= y; return true; /* OpSLessThanEqual */
    default: return arithmetic_compute(operation, a, b, result);
    }
}
