/* SPDX-License-Identifier: Apache-2.0 */
/* IEEE binary16 and bfloat16, round to nearest even; NaN stays NaN. */
#ifndef RF_BASE_HALF_H
#define RF_BASE_HALF_H

#include <stdint.h>

uint16_t rf_f32_to_f16(float value);
float rf_f16_to_f32(uint16_t bits);
uint16_t rf_f32_to_bf16(float value);
float rf_bf16_to_f32(uint16_t bits);

#endif
