/* SPDX-License-Identifier: Apache-2.0 */
/*
 * u = G g G^T of every 3 x 3 kernel g, for lanes_winograd.comp and lanes_winograd_4.comp: SIDE x
 * SIDE matrices [channel][column padded with zeros to a multiple of a tile's].
 *   SIDE  pixels of a side that a block is made of: 4, or 6 with the points 0, 2/3, -2/3, 3/2, -3/2
 *         and infinity
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;
layout(binding = 0) uniform samplerBuffer from;
layout(std430, binding = 1) writeonly buffer To { vec4 to[]; };
layout(push_constant) uniform P {
    /* fours of columns, padded to whole tiles, of channels padded to fours */
    int total;
    int tile, tile_channels;  /* fours of a tile; the same times channels */
    int channels, columns;    /* that exist */
    int base, tap, row, column; /* where tap 0 stands in `from`, and strides there */
};

/* G times a line of three. */
#if SIDE == 4
#define TIMES_G(to, a, b, c)                                                                       \
    {                                                                                              \
        to[0] = a;                                                                                 \
        to[1] = 0.5 * (a + b + c);                                                                 \
        to[2] = 0.5 * (a - b + c);                                                                 \
        to[3] = c;                                                                                 \
    }
#else
#define TIMES_G(to, a, b, c)                                                                       \
    {                                                                                              \
        vec4 near = (-81.0 / 130.0) * a - (18.0 / 65.0) * c,                                       \
            far = (8.0 / 65.0) * a + (18.0 / 65.0) * c;                                            \
        to[0] = a;                                                                                 \
        to[1] = near - (27.0 / 65.0) * b;                                                          \
        to[2] = near + (27.0 / 65.0) * b;                                                          \
        to[3] = far + (12.0 / 65.0) * b;                                                           \
        to[4] = far - (12.0 / 65.0) * b;                                                           \
        to[5] = c;                                                                                 \
    }
#endif

void main()
{
    int i = int((gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x +
        gl_LocalInvocationID.x);
    if (i >= total) return;
    int column_tile = i / tile_channels, rest = i - column_tile * tile_channels,
        channel = rest / tile, four = rest - channel * tile;
    int first = (column_tile * tile + four) * 4, at = base + min(channel, channels - 1) * row;
    vec4 g[3][3];
    [[unroll]] for (int t = 0; t < 9; t++) [[unroll]] for (int j = 0; j < 4; j++) {
        float x = texelFetch(from, at + t * tap + min(first + j, columns - 1) * column).x;
        g[t / 3][t % 3][j] = channel < channels && first + j < columns ? x : 0.0;
    }
    vec4 u[3][SIDE], line[SIDE];
    [[unroll]] for (int x = 0; x < 3; x++) TIMES_G(u[x], g[0][x], g[1][x], g[2][x])
    /* [tile of columns][column of u][channel in fours][line of u][channel of the four][column] */
    int column_stride = tile_channels * SIDE, line_stride = tile * 4;
    int into = column_tile * tile_channels * (SIDE * SIDE) + (channel >> 2) * (4 * SIDE) * tile +
        (channel & 3) * tile + four;
    [[unroll]] for (int y = 0; y < SIDE; y++) {
        TIMES_G(line, u[0][y], u[1][y], u[2][y])
        [[unroll]] for (int x = 0; x < SIDE; x++)
            to[into + y * line_stride + x * column_stride] = line[x];
    }
}
