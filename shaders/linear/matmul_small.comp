#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * c = activation(op(a) op(b) + bias) of small matrices on drivers that make loads of single texels, whatever their sizes: four rows and
 * four columns an invocation. Nothing is padded before and no sum is cut into parts, which would be dispatches of their own, and whether
 * there are a bias and sums is no constant: one pipeline is all that small products and their gradients need.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "include/linear_epilogue.glsl" /* its HAS_BIAS is not looked at */
#include "include/products.glsl"

layout(local_size_x_id = 0) in;
layout(binding = 0) uniform samplerBuffer a;
layout(binding = 1) uniform samplerBuffer b;
layout(std430, binding = 2) readonly buffer Bias { float bias[]; };
layout(std430, binding = 3) writeonly buffer C { float c[]; };
layout(std430, binding = 4) writeonly buffer Sums { float sums[]; };
layout(push_constant) uniform P {
    int total, column_blocks;        /* invocations */
    int rows, columns, summands;     /* of c, the row of sums included */
    int a_row, a_k, b_k, b_column;   /* strides */
    int ones;                        /* the row that counts as ones, whose product goes to `sums` */
    int has_bias;
};

void main()
{
    int i = int((gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    if (i >= total) return;
    int row = i / column_blocks * 4, column = i % column_blocks * 4;
    int all = summands, step_a = a_k, step_b = b_k; /* lavapipe reads push constants lane by lane */
    ivec4 a_at, b_at;
    vec4 add = vec4(0.0), sum[4];
    bvec4 of_ones;
    [[unroll]] for (int q = 0; q < 4; q++) {
        of_ones[q] = row + q == ones;
        a_at[q] = of_ones[q] ? 0 : min(row + q, rows - 1) * a_row;
        b_at[q] = min(column + q, columns - 1) * b_column;
        if (has_bias != 0) add[q] = bias[min(column + q, columns - 1)];
        sum[q] = vec4(0.0);
    }
    int k = 0;
    do {
        vec4 x, y;
        [[unroll]] for (int q = 0; q < 4; q++) {
            x[q] = texelFetch(a, a_at[q]).x;
            y[q] = texelFetch(b, b_at[q]).x;
        }
        x = mix(x, vec4(1.0), of_ones);
        [[unroll]] for (int q = 0; q < 4; q++) sum[q] += x[q] * y;
        a_at += step_a;
        b_at += step_b;
        k++;
    } while (k < all);
    [[unroll]] for (int q = 0; q < 4; q++) {
        vec4 v = linear_activate(sum[q] + add);
        [[unroll]] for (int p = 0; p < 4; p++) {
            bool inside = row + q < rows && column + p < columns;
            if (inside && !of_ones[q]) c[(row + q) * columns + column + p] = v[p];
            if (inside && of_ones[q]) sums[column + p] = v[p];
        }
    }
}
