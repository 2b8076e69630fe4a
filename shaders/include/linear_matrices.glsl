/* SPDX-License-Identifier: Apache-2.0 */
/* Parts that kernels on cooperative matrices have in common: operands in 16 bits, sums in f32, and
 * the constants up to 19. */
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require

#define OPERAND uint16_t
#define OPERAND4 u16vec4
#ifdef BF16
#extension GL_EXT_bfloat16 : require
#define NARROW bfloat16_t
#define NARROW_BITS bfloat16BitsToUintEXT
#define NARROW_OF uintBitsToBFloat16EXT
#define OPERAND_ONE OPERAND(0x3f80)
#else
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define NARROW float16_t
#define NARROW_BITS float16BitsToUint16
#define NARROW_OF uint16BitsToFloat16
#define OPERAND_ONE OPERAND(0x3c00)
#endif

layout(constant_id = 3) const int NARROW_C = 0;     /* stored in 16 bits: c, */
layout(constant_id = 11) const int NARROW_BIAS = 0; /* the bias */
layout(constant_id = 12) const int BM = 32;
layout(constant_id = 13) const int BN = 32;
layout(constant_id = 14) const int BK = 32;
layout(constant_id = 15) const int MATRIX_M = 16;
layout(constant_id = 16) const int MATRIX_N = 16;
layout(constant_id = 17) const int MATRIX_K = 16;
layout(constant_id = 18) const int LANES = 32;    /* of a subgroup */
layout(constant_id = 19) const int THREADS = 128; /* of a workgroup */

#define MATRIX_A coopmat<NARROW, gl_ScopeSubgroup, MATRIX_M, MATRIX_K, gl_MatrixUseA>
#define MATRIX_B coopmat<NARROW, gl_ScopeSubgroup, MATRIX_K, MATRIX_N, gl_MatrixUseB>
#define MATRIX_C coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator>
#define VECTORS (MATRIX_M * MATRIX_N / 4 / LANES) /* of an invocation, of one matrix of c */
#define MATRIX_LINE (MATRIX_N / 4)                /* in vectors */
#define PADDING 8
