#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over some dimensions of a tensor, one invocation for each output element and slice of the
 * elements to be summed. The slices of one output element are summed by sum_columns.comp.
 * Dimensions are collapsed: at most three are kept, three are summed. */
#extension GL_GOOGLE_include_directive : require
#define W 1
#include "include/wide.glsl"
#include "include/division.glsl"

layout(push_constant) uniform Push {
    uint outputs, elements, slices;
    uint kept_size[3], kept_stride[3];     /* innermost first */
    uint summed_size[3], summed_stride[3];
    uint in_offset, out_offset, out_stride; /* out_stride: from slice to slice */
    /* what divides by summed_size[0] and [1]: magic, shift */
    uint inner[2], middle[2];
} p;
layout(std430, binding = 0) readonly buffer In { float x[]; };
layout(std430, binding = 1) writeonly buffer Out { float y[]; };

void main()
{
    uint t = rf_invocation();
    uint slice = t / p.outputs, rest = t - slice * p.outputs;
    if (slice >= p.slices) return;
    uint output_index = rest, base = p.in_offset + rest % p.kept_size[0] * p.kept_stride[0];
    rest /= p.kept_size[0];
    base += rest % p.kept_size[1] * p.kept_stride[1] + rest / p.kept_size[1] * p.kept_stride[2];

    float sum = 0;
    if (p.summed_size[1] * p.summed_size[2] == 1u) {
        for (uint e = slice; e < p.elements; e += p.slices) sum += x[base + e * p.summed_stride[0]];
    } else {
        for (uint e = slice; e < p.elements; e += p.slices) {
            uint outer = rf_divide(e, p.inner[0], p.inner[1]),
                last = rf_divide(outer, p.middle[0], p.middle[1]);
            uint at = base + (e - outer * p.summed_size[0]) * p.summed_stride[0];
            at += (outer - last * p.summed_size[1]) * p.summed_stride[1] + last *
                p.summed_stride[2];
            sum += x[at];
        }
    }
    y[p.out_offset + slice * p.out_stride + output_index] = sum;
}
