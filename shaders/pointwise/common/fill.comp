#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/* One value everywhere; SPAN vectors an invocation. TEXEL: written as by shaders that read
 * texels. */
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#if W == 8
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#endif
#include "include/wide.glsl"

layout(constant_id = 1) const uint HAS_TAIL = 1;
layout(push_constant) uniform Push { uint n_vec, n_tail; float value; } p;
layout(std430, binding = 0) writeonly buffer OutV { VEC v[]; };
layout(std430, binding = 0) writeonly buffer OutS { float s[]; };

void main()
{
    uint t = rf_invocation();
#ifdef TEXEL
    [[unroll]] for (uint i = 0; i < SPAN; i++) RF_WRITE(v, p.n_vec * SPAN, t * SPAN + i,
        rf_splat(p.value))
    if (HAS_TAIL != 0u && t - p.n_vec < p.n_tail) s[p.n_vec * (W * SPAN) + (t - p.n_vec)] = p.value;
#else
    if (t < p.n_vec)
        [[unroll]] for (uint i = 0; i < SPAN; i++) v[t * SPAN + i] = rf_pack(rf_splat(p.value));
    else if (HAS_TAIL != 0u && t - p.n_vec < p.n_tail) s[p.n_vec * (W * SPAN) + (t - p.n_vec)] =
        p.value;
#endif
}
