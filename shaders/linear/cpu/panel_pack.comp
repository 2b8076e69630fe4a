/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies matrices to panels, for matmul_packed.comp: fours of neighbouring elements that a tile
 * needs one after the other lie one after the other, and what is missing to whole tiles is zero. An
 * invocation copies one four of each of four lines. Lines of the copy are those of the matrix, or
 * its columns where a constant says so; neither has to start at a multiple of four.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "include/division.glsl"
#include "include/write_fours.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const int TURNED = 0;  /* lines of the copy are columns of the matrix */
layout(constant_id = 2) const int SHIFTED = 0; /* lines of the matrix start anywhere */
layout(binding = 0) uniform samplerBuffer from;
layout(std430, binding = 1) writeonly buffer To { u64vec2 to[]; };
layout(push_constant) uniform P {
    uint total;                                /* invocations */
    /* In which order, inner ones first: some along one axis of a matrix, all along the other,
     * such stretches along the first. */
    uint some, all, stretches;
    uint magic_some, magic_all, magic_stretches, shift_some, shift_all, shift_stretches;
    /* the first axis is that of the copy's lines, else of its fours */
    int lines_first;
    int lines, columns;                        /* of the matrix */
    int matrix, line;                          /* from one to the next, in elements */
    /* of the copy, in fours */
    int to_matrix, line_bits, line_tile, line_unit, four_bits, four_tile, four_unit;
};

/* Four elements of a line. */
vec4 load(int matrix_at, int l, int column, int last_line, int step, int end, int last_texel)
{
    int at = matrix_at + min(l, last_line) * step + min(column, end - 1);
    vec4 x = texelFetch(from, at >> 2);
    if (SHIFTED != 0) {
        vec4 y = texelFetch(from, min((at >> 2) + 1, last_texel));
        bool two = (at & 2) != 0, one = (at & 1) != 0;
        vec4 z = two ? vec4(x.zw, y.xy) : x;
        float last = two ? y.z : y.x;
        x = one ? vec4(z.yzw, last) : z;
    }
    [[unroll]] for (int i = 0; i < 4; i++) x[i] = l <= last_line && column + i < end ? x[i] : 0.0;
    return x;
}

void main()
{
    uint own = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x +
        gl_LocalInvocationID.x;
    uint i = min(own, total - 1); /* the others read what exists, too */
    uint run = rf_divide(i, magic_some, shift_some), stretch = rf_divide(run, magic_all, shift_all);
    uint matrix_index = rf_divide(stretch, magic_stretches, shift_stretches);
    int first_axis = int((stretch - matrix_index * stretches) * some + i - run * some),
        second_axis = int(run - stretch * all);
    int first = (lines_first != 0 ? first_axis : second_axis) * 4,
        four = lines_first != 0 ? second_axis : first_axis;
    int last_line = lines - 1, step = line, end = columns;
    int matrix_at = int(matrix_index) * matrix,
        last_texel = SHIFTED != 0 ? textureSize(from) - 1 : 0;
    vec4 v[4];
    [[unroll]] for (int q = 0; q < 4; q++)
        v[q] = TURNED != 0 ? load(matrix_at, four * 4 + q, first, last_line, step, end, last_texel)
                           : load(matrix_at, first + q, four * 4, last_line, step, end, last_texel);
    if (TURNED != 0) {
        mat4 t = transpose(mat4(v[0], v[1], v[2], v[3]));
        [[unroll]] for (int q = 0; q < 4; q++) v[q] = t[q];
    }
    int to_at = int(matrix_index) * to_matrix + (four >> four_bits) * four_tile +
        (four & ((1 << four_bits) - 1)) * four_unit;
    int bits = line_bits, tile = line_tile, unit = line_unit;
    bool real = own < total;
    [[unroll]] for (int q = 0; q < 4; q++) {
        int l = first + q;
        uint at = uint(to_at + (l >> bits) * tile + (l & ((1 << bits) - 1)) * unit);
        RF_WRITE4(to, real, at, v[q])
    }
}
