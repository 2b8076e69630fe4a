/* SPDX-License-Identifier: Apache-2.0 */
/* Reading what compilers say of pipelines. Pure functions: they are tested with what drivers said. */
#ifndef RF_GPU_STATISTICS_H
#define RF_GPU_STATISTICS_H

#include <ringfire/bench.h>

#include "gpu/gpu.h"

/* The drivers' names and units brought to the same ones. */
void rf_gpu_statistics_read(const rf_gpu_explanation *explanation, rf_kernel_statistics *out);
/* Counts what stands in the loop that multiplies and adds most, without loops inside it; zero where there is none.
 * `code` may be NULL. Knows the text of RADV, NVK, Turnip and ANV. */
void rf_gpu_code_loop(const char *code, rf_kernel_loop *out);

#endif
