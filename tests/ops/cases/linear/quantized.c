/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

/* The words of a matrix (base/quantize.h); inference refuses a case with another number of them. */
#define UP(n, unit) (((n) + (unit)-1) / (unit) * (unit))
#define BITS(kind) (RF_QUANTIZATION_##kind == RF_QUANTIZATION_INT8 ? 8 : 4)
#define BLOCK(kind) (RF_QUANTIZATION_##kind == RF_QUANTIZATION_NF4 ? 64 : 32)
#define CODES(kind, lines, length) UP((lines)*UP(length, BLOCK(kind)) * BITS(kind) / 8, 256)
#define SCALES(kind, lines, length) ((lines)*UP(length, BLOCK(kind)) / BLOCK(kind))
#define WORDS(kind, lines, length)                                                                                     \
    RF_TENSOR(RF_I32, RF_FILL_QUANTIZED, 0, 0, 1,                                                                      \
              CODES(kind, lines, length) / 4 + (SCALES(kind, lines, length) + 1) / 2)

#define X(...) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 0, __VA_ARGS__)
#define W(kind, transposed, lines, length, x)                                                                          \
    .attr = &(const rf_quantized_attr){ RF_QUANTIZATION_##kind, transposed, lines, length }, .n_in = 2,                \
    .in = { x, WORDS(kind, lines, length) }
/* As products are held to: sums of k products, each rounded at the size of the partial sums. */
#define TOLERANCE(k) .rtol = 2e-5, .atol = 2e-6 + 4e-7 * (k), .rounded = k
#define SMALL .check_gradient = true

static const rf_op_case product_cases[] = {
    { .name = "int8_1x1_by_1", W(INT8, 0, 1, 1, X(2, 1, 1)), SMALL, TOLERANCE(1) },
    { .name = "int8_3x5_by_7", W(INT8, 0, 5, 7, X(2, 3, 5)), SMALL, TOLERANCE(5) },
    { .name = "int8_t_3x7_by_5", W(INT8, 1, 5, 7, X(2, 3, 7)), SMALL, TOLERANCE(7) },
    { .name = "nf4_2x3x6_by_65", W(NF4, 0, 6, 65, X(3, 2, 3, 6)), SMALL, TOLERANCE(6) },
    { .name = "nf4_t_2x65_by_6", W(NF4, 1, 6, 65, X(2, 2, 65)), SMALL, TOLERANCE(65) },
    { .name = "q4_0_t_4x33_by_3", W(Q4_0, 1, 3, 33, X(2, 4, 33)), SMALL, TOLERANCE(33) },
    { .name = "q4_0_5_by_34", W(Q4_0, 0, 5, 34, X(1, 5)), SMALL, TOLERANCE(5) },
    { .name = "int8_t_33x96_by_65", W(INT8, 1, 65, 96, X(2, 33, 96)), TOLERANCE(96) },
    { .name = "int8_33x65_by_96", W(INT8, 0, 65, 96, X(2, 33, 65)), TOLERANCE(65) },
    { .name = "nf4_t_17x131_by_64", W(NF4, 1, 64, 131, X(2, 17, 131)), TOLERANCE(131) },
    { .name = "nf4_65x67_by_256", W(NF4, 0, 67, 256, X(2, 65, 67)), TOLERANCE(67) },
    { .name = "q4_0_t_129x160_by_33", W(Q4_0, 1, 33, 160, X(2, 129, 160)), TOLERANCE(160) },
    { .name = "q4_0_31x127_by_95", W(Q4_0, 0, 127, 95, X(2, 31, 127)), TOLERANCE(127) },
    { .name = "nf4_t_1x1024_by_130", W(NF4, 1, 130, 1024, X(2, 1, 1024)), TOLERANCE(1024) },
    { .name = "int8_1x515_by_192", W(INT8, 0, 515, 192, X(2, 1, 515)), TOLERANCE(515) },
    { .name = "int8_t_2x131072_by_4", W(INT8, 1, 4, 131072, X(2, 2, 131072)), .large = true, TOLERANCE(131072) },
    { .name = "q4_0_2x80000_by_64", W(Q4_0, 0, 80000, 64, X(2, 2, 80000)), .large = true, TOLERANCE(80000) },
    { .name = "int8_t_128x768_by_3072",
      W(INT8, 1, 3072, 768, X(2, 128, 768)),
      TOLERANCE(768),
      .benchmark = true,
      .large = true },
    { .name = "nf4_t_128x768_by_3072",
      W(NF4, 1, 3072, 768, X(2, 128, 768)),
      TOLERANCE(768),
      .benchmark = true,
      .large = true },
    { .name = "nf4_128x3072_by_768",
      W(NF4, 0, 3072, 768, X(2, 128, 3072)),
      TOLERANCE(3072),
      .benchmark = true,
      .large = true },
    { .name = "q4_0_t_128x768_by_768",
      W(Q4_0, 1, 768, 768, X(2, 128, 768)),
      TOLERANCE(768),
      .benchmark = true,
      .large = true },
    { .name = "nf4_t_1x768_by_3072",
      W(NF4, 1, 3072, 768, X(2, 1, 768)),
      TOLERANCE(768),
      .benchmark = true,
      .large = true },
};
/* Sizes that fill a GPU: a layer of seven billion weights. */
static const rf_op_case gpu_cases[] = {
    { .name = "nf4_t_2048x4096_by_4096", W(NF4, 1, 4096, 4096, X(2, 2048, 4096)), TOLERANCE(4096) },
    { .name = "int8_2048x4096_by_4096", W(INT8, 0, 4096, 4096, X(2, 2048, 4096)), TOLERANCE(4096) },
};
RF_OP_AND_GPU_CASES(matmul_quantized, product_cases, gpu_cases);

#define LINES(kind, lines, length, indices)                                                                            \
    .attr = &(const rf_quantized_attr){ RF_QUANTIZATION_##kind, 0, lines, length }, .n_in = 2,                         \
    .in = { WORDS(kind, lines, length), indices }

static const rf_op_case gather_cases[] = {
    { .name = "int8_1x1_by_1", LINES(INT8, 1, 1, RF_INTEGERS(0, 1, 1, 1)) },
    { .name = "int8_5x33_by_scalar", LINES(INT8, 5, 33, RF_INTEGERS(2, 3, 0, 0)) },
    { .name = "nf4_out_of_range_13x70_by_31x5", LINES(NF4, 13, 70, RF_INTEGERS(-5, 17, 2, 31, 5)) },
    { .name = "q4_0_out_of_range_31x96_by_7x11", LINES(Q4_0, 31, 96, RF_INTEGERS(-1, 33, 2, 7, 11)) },
    { .name = "int8_1009x36_by_257", LINES(INT8, 1009, 36, RF_INTEGERS(0, 1009, 1, 257)) },
    { .name = "nf4_8192x128_by_32x64", LINES(NF4, 8192, 128, RF_INTEGERS(0, 8192, 2, 32, 64)), .benchmark = true },
};
RF_OP_CASES(gather_quantized, gather_cases);
