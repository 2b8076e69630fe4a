/* SPDX-License-Identifier: Apache-2.0 */
/* y = scale * x + y, with everything a pipeline can have: push constants, a specialization
 * constant, a texel buffer or storage buffer as input (TEXEL), a full-subgroup variant (LANES). */
#version 450
#ifdef LANES
#extension GL_KHR_shader_subgroup_basic : require
layout(local_size_x = LANES) in;
#else
layout(local_size_x = 64) in;
#endif

layout(constant_id = 0) const uint BIAS = 0;
layout(push_constant) uniform Push { uint count; float scale; uint rounds; } push;

#if TEXEL == 1
layout(binding = 0) uniform samplerBuffer x;
float load_x(uint i) { return texelFetch(x, int(i)).r; }
#elif TEXEL == 4
layout(binding = 0) uniform samplerBuffer x;
float load_x(uint i) { return texelFetch(x, int(i / 4))[i % 4]; }
#else
layout(binding = 0) readonly buffer X { float x[]; };
float load_x(uint i) { return x[i]; }
#endif
layout(binding = 1) buffer Y { float y[]; };

void main()
{
    const uint i = gl_GlobalInvocationID.x;
    if (i >= push.count) return;
    float value = y[i];
    /* Work that a compiler cannot shorten, for tests of deadlines. */
    for (uint r = 0; r < push.rounds; r++) value = fract(value * 1.25 + 0.125);
    value += push.scale * load_x(i) + float(BIAS);
#ifdef LANES
    if (gl_SubgroupSize != LANES || gl_NumSubgroups != 1) value = -1.0;
#endif
    y[i] = value;
}
