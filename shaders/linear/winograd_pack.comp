/* SPDX-License-Identifier: Apache-2.0 */
/* u = G g G^T of every 3 x 3 kernel g, for lanes_winograd.comp: 16 matrices [channel][column padded with zeros to a multiple of four]. */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;
layout(binding = 0) uniform samplerBuffer from;
layout(std430, binding = 1) writeonly buffer To { vec4 to[]; };
layout(push_constant) uniform P {
    int total;                /* fours of columns, padded to whole tiles, of channels padded to fours */
    int tile, tile_channels;  /* fours of a tile; the same times channels */
    int channels, columns;    /* that exist */
    int base, tap, row, column; /* where tap 0 stands in `from`, and strides there */
};

vec4 half_sum(vec4 a, vec4 b, vec4 c)
{
    return 0.5 * (a + b + c);
}

void main()
{
    int i = int((gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    if (i >= total) return;
    int column_tile = i / tile_channels, rest = i - column_tile * tile_channels, channel = rest / tile, four = rest - channel * tile;
    int first = (column_tile * tile + four) * 4, at = base + min(channel, channels - 1) * row;
    vec4 g[3][3];
    [[unroll]] for (int t = 0; t < 9; t++) [[unroll]] for (int j = 0; j < 4; j++) {
        float x = texelFetch(from, at + t * tap + min(first + j, columns - 1) * column).x;
        g[t / 3][t % 3][j] = channel < channels && first + j < columns ? x : 0.0;
    }
    vec4 u[4][3];
    [[unroll]] for (int x = 0; x < 3; x++) {
        u[0][x] = g[0][x];
        u[1][x] = half_sum(g[0][x], g[1][x], g[2][x]);
        u[2][x] = half_sum(g[0][x], -g[1][x], g[2][x]);
        u[3][x] = g[2][x];
    }
    /* [tile of columns][column of u][channel in fours][line of u][channel of the four][column] */
    int column_stride = tile_channels * 4, line_stride = tile * 4;
    int into = column_tile * tile_channels * 16 + (channel >> 2) * 16 * tile + (channel & 3) * tile + four;
    [[unroll]] for (int y = 0; y < 4; y++) {
        to[into + y * line_stride] = u[y][0];
        to[into + y * line_stride + column_stride] = half_sum(u[y][0], u[y][1], u[y][2]);
        to[into + y * line_stride + column_stride * 2] = half_sum(u[y][0], -u[y][1], u[y][2]);
        to[into + y * line_stride + column_stride * 3] = u[y][2];
    }
}
