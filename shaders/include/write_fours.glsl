/* SPDX-License-Identifier: Apache-2.0 */
/* Four elements written as two integers of 64 bits. */
#ifndef RF_WRITE_FOURS_GLSL
#define RF_WRITE_FOURS_GLSL

#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

/* Whether lanes of lower halves write for those of upper halves: RF_WRITE of wide.glsl says why.
 * The device decides it; src/gpu/pipeline/specialize.c sets it. */
layout(constant_id = 31) const bool RF_SWAPS_HALVES = true;

/* Where `has`, buffer[at] = x, for all invocations of full subgroups of at least eight; the buffer
 * is of u64vec2. */
#define RF_WRITE4(buffer, has, at, x)                                                              \
    {                                                                                              \
        if (RF_SWAPS_HALVES) {                                                                     \
            uint partner = gl_SubgroupInvocationID ^ 4u, at_here = at,                             \
                 at_there = subgroupShuffle(at_here, partner);                                     \
            bool has_there = subgroupShuffle(uint(has), partner) != 0u,                            \
                 writes = (gl_SubgroupInvocationID & 4u) == 0u;                                    \
            vec4 value_here = x;                                                                   \
            uvec4 own = floatBitsToUint(value_here),                                               \
                  there = floatBitsToUint(subgroupShuffle(value_here, partner));                   \
            if (writes && (has)) buffer[at_here] = u64vec2(pack64(own.xy), pack64(own.zw));        \
            if (writes && has_there)                                                               \
                buffer[at_there] = u64vec2(pack64(there.xy), pack64(there.zw));                    \
        } else {                                                                                   \
            uint at_here = at;                                                                     \
            vec4 value_here = x;                                                                   \
            uvec4 own = floatBitsToUint(value_here);                                               \
            if (has) buffer[at_here] = u64vec2(pack64(own.xy), pack64(own.zw));                    \
        }                                                                                          \
    }

#endif
