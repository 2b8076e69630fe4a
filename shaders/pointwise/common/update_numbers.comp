#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/* Among rows of numbers for an update, the one for the steps that were skipped since the host last
 * knew; after the rows stands how many were skipped by then. One of the numbers says whether this
 * step is skipped. */
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Push { uint count, last_row, skip_at; } p;
layout(std430, binding = 0) readonly buffer Rows { float rows[]; };
layout(std430, binding = 1) readonly buffer Decided { float skip, total; };
layout(std430, binding = 2) writeonly buffer Out { float y[]; };

void main()
{
    uint i = gl_GlobalInvocationID.x;
    if (i >= p.count) return;
    float since = total - rows[p.count * (p.last_row + 1u)];
    uint row = since > 0.0 ? min(uint(since), p.last_row) : 0u;
    y[i] = i == p.skip_at ? skip : rows[row * p.count + i];
}
