#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a gradient, as it is or divided by the loss scale, is larger than MOST, or no number: the
 * tally takes note, as in unscale.comp. Bits are compared: a device need not know what infinities
 * are. */
#extension GL_GOOGLE_include_directive : require
#include "include/wide.glsl"

layout(constant_id = 1) const uint HAS_TAIL = 1;
layout(push_constant) uniform Push { uint n_vec, n_tail, most; } p;
layout(std430, binding = 0) readonly buffer GradV { VEC v[]; } grad_v;
layout(std430, binding = 0) readonly buffer GradS { float s[]; } grad_s;
layout(std430, binding = 1) buffer Tally { uint found; float inverse; };

uint magnitude(float x) { return floatBitsToUint(x) & 0x7fffffffu; }

uint larger(float x) { return max(magnitude(x), magnitude(x * inverse)); }

void note(uint largest)
{
    if (largest > p.most) atomicExchange(found, floatBitsToUint(1.0));
}

void main()
{
    uint t = rf_invocation();
    if (t < p.n_vec) {
        vec4 g = grad_v.v[t];
        note(max(max(larger(g.x), larger(g.y)), max(larger(g.z), larger(g.w))));
    } else if (HAS_TAIL != 0u && t - p.n_vec < p.n_tail) {
        note(larger(grad_s.s[p.n_vec * W + (t - p.n_vec)]));
    }
}
