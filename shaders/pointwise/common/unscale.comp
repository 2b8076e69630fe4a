#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients times the inverse of the loss scale, in place. The tally takes note of one that is not
 * finite afterwards: any number of invocations may, in any order, because all write the same. */
#extension GL_GOOGLE_include_directive : require
#include "include/wide.glsl"
#include "include/scalar_math.glsl"

layout(constant_id = 1) const uint HAS_TAIL = 1;
layout(push_constant) uniform Push { uint n_vec, n_tail; } p;
layout(std430, binding = 0) buffer GradV { VEC v[]; } grad_v;
layout(std430, binding = 0) buffer GradS { float s[]; } grad_s;
layout(std430, binding = 1) buffer Tally { uint found; float inverse; };

void note(bool finite)
{
    if (!finite) atomicExchange(found, floatBitsToUint(1.0));
}

void main()
{
    uint t = rf_invocation();
    if (t < p.n_vec) {
        vec4 g = grad_v.v[t] * inverse;
        note(rf_is_finite(g.x) && rf_is_finite(g.y) && rf_is_finite(g.z) && rf_is_finite(g.w));
        grad_v.v[t] = g;
    } else if (HAS_TAIL != 0u && t - p.n_vec < p.n_tail) {
        uint at = p.n_vec * W + (t - p.n_vec);
        float g = grad_s.s[at] * inverse;
        note(rf_is_finite(g));
        grad_s.s[at] = g;
    }
}
