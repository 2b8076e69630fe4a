#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/* Transposes a batch of matrices whose sides are multiples of four, one 4 x 4 block an invocation.
 * A workgroup's blocks form a square, so that it reads and writes whole cache lines. */
layout(local_size_x_id = 0) in;
/* blocks: side of the workgroup's square along the input's rows */
layout(constant_id = 1) const uint SIDE = 8;
layout(push_constant) uniform Push { uint rows, columns /* of the input, in blocks */; } p;
layout(std430, binding = 0) readonly buffer In { vec4 x[]; };
layout(std430, binding = 1) writeonly buffer Out { vec4 y[]; };

void main()
{
    uint matrix = gl_WorkGroupID.z, lane = gl_LocalInvocationID.x;
    uint column = gl_WorkGroupID.x * SIDE + lane % SIDE;
    uint row = gl_WorkGroupID.y * (gl_WorkGroupSize.x / SIDE) + lane / SIDE;
    if (column >= p.columns || row >= p.rows) return;
    uint base = matrix * p.rows * p.columns * 4u;
    uint from = base + row * 4u * p.columns + column;
    mat4 block = mat4(x[from], x[from + p.columns], x[from + 2u * p.columns],
        x[from + 3u * p.columns]);
    block = transpose(block);
    uint to = base + column * 4u * p.rows + row;
    y[to] = block[0];
    y[to + p.rows] = block[1];
    y[to + 2u * p.rows] = block[2];
    y[to + 3u * p.rows] = block[3];
}
