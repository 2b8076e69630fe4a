/* SPDX-License-Identifier: Apache-2.0 */
/* One invocation per element of c. Runs on anything; what every other kernel is measured
 * against. */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "include/linear_epilogue.glsl"

layout(local_size_x_id = 0) in;
layout(std430, binding = 0) readonly buffer A { float a[]; };
layout(std430, binding = 1) readonly buffer B { float b[]; };
layout(std430, binding = 2) readonly buffer Bias { float bias[]; };
layout(std430, binding = 3) buffer C { float c[]; };
layout(push_constant) uniform P {
    int m, n, k, total;              /* total: batch * m * n */
    int a_row, a_k, b_k, b_column, c_row;
    int a_base, b_base, c_base, bias_base;
    int accumulate, last;            /* this range of k adds to c; is the last one */
    int unused;
    ivec4 dim, a_stride, b_stride;   /* batch dimensions */
};

void main()
{
    int i = int((gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x +
        gl_LocalInvocationID.x);
    if (i >= total) return;
    int column = i % n, row = i / n % m, z = i / n / m;
    int ia = a_base + row * a_row, ib = b_base + column * b_column,
        ic = c_base + (z * m + row) * c_row + column;
    for (int d = 3; d >= 0; d--) {
        ia += z % dim[d] * a_stride[d];
        ib += z % dim[d] * b_stride[d];
        z /= dim[d];
    }
    float sum = 0.0;
    for (int p = 0; p < k; p++) sum += a[ia + p * a_k] * b[ib + p * b_k];
    if (accumulate != 0) sum += c[ic];
    if (last != 0) {
        if (HAS_BIAS != 0) sum += bias[bias_base + column];
        sum = linear_activate(sum);
    }
    c[ic] = sum;
}
