#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/* One value everywhere; W elements an invocation. */
#extension GL_GOOGLE_include_directive : require
#include "include/wide.glsl"

layout(constant_id = 1) const uint HAS_TAIL = 1;
layout(push_constant) uniform Push { uint n_vec, n_tail; float value; } p;
layout(std430, binding = 0) writeonly buffer OutV { VEC v[]; };
layout(std430, binding = 0) writeonly buffer OutS { float s[]; };

void main()
{
    uint t = rf_invocation();
    if (t < p.n_vec)
        v[t] = rf_pack(rf_splat(p.value));
    else if (HAS_TAIL != 0u && t - p.n_vec < p.n_tail)
        s[p.n_vec * W + (t - p.n_vec)] = p.value;
}
