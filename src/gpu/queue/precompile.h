/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiling ahead on drivers that compile a pipeline at its first dispatch, one after the other in the thread of the
 * queue (caps->compiles_at_dispatch). Before recordings are submitted whose pipelines were never dispatched, each of
 * these is dispatched once with an empty grid, the longest first. When this takes long, further devices of the same
 * kind do the same for some of them, each in a thread of its own. Their results reach the first device through the
 * driver's cache on disk. With a driver whose cache is warm no second device is opened.
 */
#ifndef RF_GPU_PRECOMPILE_H
#define RF_GPU_PRECOMPILE_H

#include "gpu/gpu.h"

/* How texel buffers are bound, a bit per binding, as far as it goes into the code: lavapipe 22.3 compiles a shader anew
 * for every format, for buffers whose size is a power of two, and (it reads the size as a mipmap range) for views whose
 * size has nothing in bits 8 to 15. It also loses the name under which it keeps the code of the second of them for
 * later processes. So buffers have something to spare behind them that such views take in, and neither kind of size
 * occurs but in memory that is the caller's. Bits of storage buffers are zero. */
typedef struct rf_gpu_texel_forms {
    uint32_t rgba, half, power_of_two, short_span;
} rf_gpu_texel_forms;
/* Behind each buffer on such drivers. No kernel looks at what is beyond a tensor's end. */
#define RF_GPU_TEXEL_SPARE UINT64_C(256)
/* Adds what is bound there, in a buffer of so many bytes. */
void rf_gpu_texel_forms_add(rf_gpu_texel_forms *forms, uint32_t at, const rf_gpu_binding *binding,
                            uint64_t buffer_size);
/* Devices to open besides the first, for so many variants on so many CPUs. */
uint32_t rf_gpu_precompile_helpers(uint32_t variants, uint32_t cpus);

#endif
