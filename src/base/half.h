/* SPDX-License-Identifier: Apache-2.0 */
/* IEEE binary16 and bfloat16, round to nearest even; NaN stays NaN. */
#ifndef RF_BASE_HALF_H
#define RF_BASE_HALF_H

#include <ringfire/common.h>

#include <stdint.h>

uint16_t rf_f32_to_f16(float value);
float rf_f16_to_f32(uint16_t bits);
uint16_t rf_f32_to_bf16(float value);
float rf_bf16_to_f32(uint16_t bits);

/* `count` numbers of a type, which is RF_F32, RF_F16 or RF_BF16, as f32, and back: as above, but that a signalling NaN
 * of RF_F16 becomes quiet. The pointers need no alignment. */
void rf_floats_widen(float *out, const void *in, rf_dtype dtype, size_t count);
void rf_floats_narrow(void *out, rf_dtype dtype, const float *in, size_t count);

#endif
