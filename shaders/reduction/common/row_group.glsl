// SPDX-License-Identifier: Apache-2.0
// Row operations of three ways: one invocation a row; (GROUP) one workgroup a row, whose
// invocations take every STEP-th column from FIRST on and put what they found together by trees in
// shared memory; (LANES) so many neighbouring lanes of a subgroup a row, which put it together by
// shuffles. The order is always the same.
#ifndef RF_ROW_GROUP_GLSL
#define RF_ROW_GROUP_GLSL

#include "include/reduction.glsl"
#include "include/scalar_math.glsl"

#ifdef LANES
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
layout(constant_id = LANES_ID) const uint LANES_EACH =
    1; // a power of two, at most that of a subgroup
#define FIRST (gl_SubgroupInvocationID & LANES_EACH - 1u)
#define STEP LANES_EACH

uint rf_row()
{
    const uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
    return (rf_group() * gl_WorkGroupSize.x + thread) / LANES_EACH;
}

#define TREE(name, together)                                                                       \
    float name(float v)                                                                            \
    {                                                                                              \
        for (uint distance = 1u; distance < LANES_EACH; distance *= 2u) {                          \
            const float a = v, b = subgroupShuffle(v, gl_SubgroupInvocationID ^ distance);         \
            v = together;                                                                          \
        }                                                                                          \
        return v;                                                                                  \
    }
TREE(rf_row_sum, a + b)
TREE(rf_row_max, rf_larger(a, b))
#elif defined(GROUP)
#define FIRST gl_LocalInvocationID.x
#define STEP gl_WorkGroupSize.x
const uint MAX_GROUP = 1024; // rf_row_group_size() of src/ops/kit.c
shared float parts[MAX_GROUP];

uint rf_row()
{
    return rf_group();
}

#define TREE(name, together)                                                                       \
    float name(float v)                                                                            \
    {                                                                                              \
        const uint lane = gl_LocalInvocationID.x;                                                  \
        barrier();                                                                                 \
        parts[lane] = v;                                                                           \
        barrier();                                                                                 \
        for (uint width = gl_WorkGroupSize.x / 2; width > 0; width /= 2) {                         \
            if (lane < width) {                                                                    \
                const float a = parts[lane], b = parts[lane + width];                              \
                parts[lane] = together;                                                            \
            }                                                                                      \
            barrier();                                                                             \
        }                                                                                          \
        return parts[0];                                                                           \
    }
TREE(rf_row_sum, a + b)
TREE(rf_row_max, rf_larger(a, b))
#else
#define FIRST 0
#define STEP 1

uint rf_row()
{
    return rf_thread();
}

float rf_row_sum(float v)
{
    return v;
}

float rf_row_max(float v)
{
    return v;
}
#endif

#endif
