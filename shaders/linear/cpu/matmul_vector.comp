/* SPDX-License-Identifier: Apache-2.0 */
/*
 * c = activation(a op(b) + bias) for a of few rows (ROWS at most), on drivers that run a subgroup
 * as the lanes of a SIMD register: a workgroup has 4 * LANES columns, four of each lane, and all
 * rows. Numbers of a lie along the lanes, LANES of each row at a time.
 * -DTRANSPOSED_B: b is [columns, k], with lines of whole fours; otherwise columns are a multiple of
 * four.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#define SCALAR_A
#include "linear_lanes.glsl"
#include "include/linear_epilogue.glsl"
layout(std430, binding = 2) readonly buffer Bias { float bias[]; };
layout(std430, binding = 3) writeonly buffer C { float c[]; };
layout(push_constant) uniform P {
    int total, column_tiles;         /* workgroups */
    int rows, columns, summands;
    int b_line;                      /* from line to line of b, in fours */
    int z_dim_1, z_dim_2;            /* batch dimensions: the two inner ones */
    int a_z0, a_z1, a_z2, b_z0, b_z1, b_z2; /* their strides: numbers of a, fours of b */
};

void main()
{
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x),
        lane = int(gl_SubgroupInvocationID);
    if (id >= total) return;
    int z = id / column_tiles, column = (id - z * column_tiles) * (4 * LANES) + lane * 4;
    int z2 = z % z_dim_2, z1 = z / z_dim_2 % z_dim_1, z0 = z / z_dim_2 / z_dim_1;
    int a_at = z0 * a_z0 + z1 * a_z1 + z2 * a_z2, b_at = z0 * b_z0 + z1 * b_z1 + z2 * b_z2;
    /* Push constants that the loop needs: lavapipe reads those lane by lane. */
    int all = summands, line = b_line, last_column = columns - 1, last_row = rows - 1;
#ifdef TRANSPOSED_B
    int line_at[4];
    [[unroll]] for (int i = 0; i < 4; i++) line_at[i] = b_at + min(column + i, last_column) * line;
#else
    int first = b_at + min(column, last_column) / 4;
#endif
    vec4 sum[ROWS];
    [[unroll]] for (int r = 0; r < ROWS; r++) sum[r] = vec4(0.0);
    int k = 0;
    do {
        float a[ROWS];
        bool live = k + lane < all;
        [[unroll]] for (int r = 0; r < ROWS; r++) {
            a[r] = LOAD_A_SCALAR(a_at + min(r, last_row) * all + min(k + lane, all - 1));
            a[r] = live ? a[r] : 0.0;
        }
        [[unroll]] for (int l = 0; l < LANES; l += 4) {
            vec4 b[4];
#ifdef TRANSPOSED_B
            vec4 t[4];
            [[unroll]] for (int i = 0; i < 4; i++)
                t[i] = LOAD_B(line_at[i] + min(k / 4 + l / 4, line - 1));
            [[unroll]] for (int q = 0; q < 4; q++) b[q] = vec4(t[0][q], t[1][q], t[2][q], t[3][q]);
#else
            [[unroll]] for (int q = 0; q < 4; q++)
                b[q] = LOAD_B(first + min(k + l + q, all - 1) * line);
#endif
            [[unroll]] for (int r = 0; r < ROWS; r++) {
                float s[4];
                [[unroll]] for (int q = 0; q < 4; q++) s[q] = FROM_LANE(a[r], l + q);
                ADD_PRODUCTS_4(sum[r], s, b[0], b[1], b[2], b[3])
            }
        }
        k += LANES;
    } while (k < all);
    vec4 add = vec4(0.0);
    if (HAS_BIAS != 0) [[unroll]] for (int i = 0; i < 4; i++)
        add[i] = bias[min(column + i, last_column)];
    [[unroll]] for (int r = 0; r < ROWS; r++) {
        vec4 v = linear_activate(sum[r] + add);
        [[unroll]] for (int i = 0; i < 4; i++)
            if (r <= last_row && column + i <= last_column)
                c[(z * rows + r) * columns + column + i] = v[i];
    }
}
