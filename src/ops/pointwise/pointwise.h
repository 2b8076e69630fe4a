/* SPDX-License-Identifier: Apache-2.0 */
/* Planning of kernels that walk tensors element by element: chunks that fit a descriptor, grids, magic division. */
#ifndef RF_OPS_POINTWISE_POINTWISE_H
#define RF_OPS_POINTWISE_POINTWISE_H

#include "graph/op.h"

/* Workgroup size of flat kernels, the constant local_size_x of their dispatches. */
uint32_t rf_pointwise_local_size(const rf_device_caps *caps);
/* The device can run shaders that read and write by RF_TEXELS and RF_WRITE of shaders/include/wide.glsl. */
bool rf_pointwise_texels(const rf_device_caps *caps);
/* Sets the grid so that `invocations` (< 2^32) run, spread over y where x has not enough; the rest must be guarded. */
rf_result rf_pointwise_grid(const rf_device_caps *caps, uint64_t invocations, uint32_t grid[3]);
/* Elements per dispatch when the widest element takes `element_size` bytes: every chunk starts at an aligned offset for
 * any element size, and indices stay below 2^29. */
uint64_t rf_pointwise_chunk(const rf_device_caps *caps, size_t element_size);

/* n / d for n < 2^31 as rf_divide() of shaders/include/division.glsl does it. */
typedef struct rf_magic {
    uint32_t magic, shift;
} rf_magic;
rf_magic rf_magic_make(uint32_t divisor);

/* Binds a range of bytes of a tensor. */
void rf_pointwise_bind(rf_dispatch *d, rf_bind_kind kind, uint32_t index, bool write, uint64_t offset, uint64_t size);

/* A kernel over n_tensors flat f32 tensors of `count` elements, `width` elements an invocation. Its shader's constants
 * are { local size, has tail, extra... } and its push constants { whole vectors, tail elements, extra... }. */
typedef struct rf_pointwise_kernel {
    const rf_shader *shader;
    uint32_t width;
    uint32_t n_tensors;
    struct {
        rf_bind_kind kind;
        uint32_t index;
        bool write;
        rf_bind_view view;
    } tensors[8];
    uint32_t n_small; /* further inputs bound whole after the tensors */
    uint32_t small[2];
    uint32_t n_spec, spec[8];
    uint32_t push_size, push[24]; /* bytes and words of what follows the two counts */
} rf_pointwise_kernel;
rf_result rf_pointwise_plan(const rf_pointwise_kernel *kernel, uint64_t count, const rf_device_caps *caps,
                            rf_kernel_plan *plan);

/* For tables of kernels and cases. */
#define RF_LENGTH(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))
#define RF_CASE_SHAPE(type, rank, ...)                                                                                 \
    {                                                                                                                  \
        (type),                                                                                                        \
        {                                                                                                              \
            (rank),                                                                                                    \
            {                                                                                                          \
                __VA_ARGS__                                                                                            \
            }                                                                                                          \
        }                                                                                                              \
    }

#endif
