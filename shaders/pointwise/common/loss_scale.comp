#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/* The loss scale after a step's gradients: one invocation. Powers of two change a number exactly,
 * so the inverse stays what it is without a division. */
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Push { uint growth_steps, is_fixed; float least, most; } p;
layout(std430, binding = 0) buffer Scale { float scale; };
layout(std430, binding = 1) buffer Tally { float found, inverse, finite, skipped; };
layout(std430, binding = 2) readonly buffer Others { float others; };
layout(std430, binding = 3) writeonly buffer Out { float skip, total; };

void main()
{
    if (gl_GlobalInvocationID.x != 0u) return;
    bool lost = found != 0.0 || others != 0.0;
    float count = lost ? 0.0 : finite + 1.0, was = scale, all = lost ? skipped + 1.0 : skipped;
    bool grows = !lost && p.growth_steps > 0u && count >= float(p.growth_steps);
    if (p.is_fixed == 0u) {
        if (grows) count = 0.0;
        if (lost && was * 0.5 >= p.least) {
            scale = was * 0.5;
            inverse = inverse * 2.0;
        }
        if (grows && was * 2.0 <= p.most) {
            scale = was * 2.0;
            inverse = inverse * 0.5;
        }
    }
    found = 0.0;
    finite = count;
    skipped = all;
    skip = lost ? 1.0 : 0.0;
    total = all;
}
