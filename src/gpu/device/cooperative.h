/* SPDX-License-Identifier: Apache-2.0 */
/* Cooperative matrices: which of those that a device lists kernels use (shaders/include/linear_coop.glsl). */
#ifndef RF_GPU_COOPERATIVE_H
#define RF_GPU_COOPERATIVE_H

#include <ringfire/common.h>

#include "gpu/vk_cooperative.h"

struct rf_gpu;
struct rf_gpu_snapshot;
struct rf_gpu_plan;

/* A product that the device has: c (m x n) + a (m x k) b (k x n). Types and scope are Vulkan's numbers. */
typedef struct rf_gpu_matrix {
    uint32_t m, n, k, a, b, c, result, scope;
} rf_gpu_matrix;
#define RF_GPU_MAX_MATRICES 64 /* more are not looked at: NVIDIA lists some thirty */

/* Takes features and list into the snapshot, whose extensions are known. */
void rf_gpu_matrices_take(const struct rf_gpu *gpu, VkPhysicalDevice physical, struct rf_gpu_snapshot *out);
/* Decides which shapes kernels use, once features and caps stand, and which features that takes. Pure. */
void rf_gpu_matrices_plan(const struct rf_gpu_snapshot *snapshot, struct rf_gpu_plan *plan);

#endif
