#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gradient of images twice as high and wide, for drivers that fetch texels at once: an
 * invocation has 8 channels of TILE neighbouring lines of the image and walks along them, so that
 * it loads each result once and reads and writes memory in order: first over lines of the results,
 * then over columns, of which the last two stay in registers. Loops test at their end: lavapipe
 * would run the body of others once more.
 */
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#include "include/wide.glsl"
#define TILE 2

layout(constant_id = 1) const uint BILINEAR = 0;
layout(push_constant) uniform Push {
    int images;
    int vectors; /* of a pixel */
    int height, width, tiles, strips, columns; /* of an image; of a tile; of a strip */
};
layout(binding = 0) uniform samplerBuffer from;
layout(std430, binding = 1) writeonly buffer To { VEC to[]; };

#define LOAD(at) Reg(texelFetch(from, 2 * (at)), texelFetch(from, 2 * (at) + 1))
Reg scaled(Reg a, float x) { return Reg(a.lo * x, a.hi * x); }
Reg sum_of(Reg a, Reg b) { return Reg(a.lo + b.lo, a.hi + b.hi); }

Reg load_inside(bool inside, int at)
{
    const Reg loaded = LOAD(inside ? at : 0);
    return Reg(mix(vec4(0.0), loaded.lo, bvec4(inside)), mix(vec4(0.0), loaded.hi, bvec4(inside)));
}

/* The shares that the results -1 to 2, counted from an element's first one, took from it. At an end
 * there is no neighbour. */
Reg gathered(Reg before, Reg first, Reg second, Reg after, int at, int n)
{
    const Reg own = sum_of(scaled(first, at > 0 ? 0.75 : 1.0),
        scaled(second, at + 1 < n ? 0.75 : 1.0));
    return sum_of(sum_of(scaled(before, 0.25), own), scaled(after, 0.25));
}

void main()
{
    const int t = int(gl_GlobalInvocationID.x), image = int(gl_WorkGroupID.y);
    const int unit = t / vectors, channel = t - unit * vectors, tile = unit / strips,
        strip = unit - tile * strips;
    /* all invocations take part: those beyond the end go with the last tile */
    const bool live = tile < tiles;
    const int line = min(tile, tiles - 1) * TILE, begin = strip * columns,
        end = min(begin + columns, width);
    const int pitch = 2 * width * vectors; /* of results */
    const int results = (image * 2 * height + 2 * line) * pitch + channel;
    int turn = 0;
    const int warm = BILINEAR != 0u ? 1 : 0;
    int column = begin - warm;
    Reg last[2][TILE]; /* of results: what their columns -1 and 0 gave */
    [[unroll]] for (int i = 0; i < TILE; i++) last[0][i] = last[1][i] = rf_splat(0.0);
    do {
        Reg now[2][TILE];
        [[unroll]] for (int k = 0; k < 2; k++) {
            const int at = 2 * column + k + warm;
            const bool inside = uint(at) < uint(2 * width);
            Reg lines[2 * TILE + 2]; /* from the one before the first on */
            [[unroll]] for (int i = 0; i < 2 * TILE + 2; i++)
                if (BILINEAR != 0u || (i > 0 && i <= 2 * TILE))
                    lines[i] = load_inside(inside && uint(2 * line + i - 1) < uint(2 * height),
                                           results + (i - 1) * pitch + at * vectors);
            [[unroll]] for (int i = 0; i < TILE; i++)
                if (BILINEAR != 0u)
                    now[k][i] = gathered(lines[2 * i], lines[2 * i + 1], lines[2 * i + 2],
                        lines[2 * i + 3], line + i, height);
                else now[k][i] = sum_of(lines[2 * i + 1], lines[2 * i + 2]);
        }
        const bool writes = live && column >= begin && column < end;
        [[unroll]] for (int i = 0; i < TILE; i++) {
            Reg sum;
            if (BILINEAR != 0u) sum = gathered(last[0][i], last[1][i], now[0][i], now[1][i],
                column, width);
            else sum = sum_of(now[0][i], now[1][i]);
            const uint goal = writes && line + i < height
                                  ? uint(((image * height + line + i) * width + column) * vectors +
                                      channel)
                                  : ~0u;
            RF_WRITE(to, ~0u, goal, sum)
        }
        last = now;
        column++;
        turn++;
    } while (turn < columns + warm);
}
