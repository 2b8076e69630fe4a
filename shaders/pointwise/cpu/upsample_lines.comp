#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Enlarged images along lines, for drivers that fetch texels at once: an invocation has eight
 * neighbouring results of all lines that some lines of the image become. It makes them between
 * columns once for each line of the image, of which the last three stay in registers, and then
 * between those. PIECE of the eight are of one pixel for sure: 8 (of so many channels or a
 * multiple), 4, or 1.
 */
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#include "include/wide.glsl"
#include "include/division.glsl"

/* Along each axis: whether results lie between two elements, and whether one of them lies in the
 * middle of its own. */
const uint REPEATED = 0u, BETWEEN = 1u, BETWEEN_OR_MIDDLE = 2u;
layout(constant_id = 1) const uint LINES = REPEATED;
layout(constant_id = 2) const uint COLUMNS = REPEATED;
layout(constant_id = 3) const uint FACTOR_Y = 2;
layout(push_constant) uniform Push {
    uint images;
    uint height, width, strips, strip; /* of an image, and lines of a strip */
    /* eights of a line of results and the division by them */
    uint line, line_magic, line_shift;
    uint channels, channels_magic, channels_shift; /* pieces of a pixel */
    uint factor_x, factor_x_magic, factor_x_shift;
    float per_y, per_x; /* 1 / 2 factors */
};
layout(binding = 0) uniform samplerBuffer from;
layout(std430, binding = 1) writeonly buffer To { VEC to[]; };

/* Where result r of an element's `factor` results lies, from its middle, in steps of 1 / 2
 * factor. */
int from_middle(uint r, uint factor) { return 2 * int(r) + 1 - int(factor); }

/* In the middle the neighbour has no part, and an infinity there makes no NaN. */
vec4 between(uint kind, vec4 own, vec4 other, float t)
{
    const vec4 v = (1.0 - t) * own + t * other;
    return kind != BETWEEN_OR_MIDDLE || t > 0.0 ? v : own;
}
float between(uint kind, float own, float other, float t)
{
    const float v = (1.0 - t) * own + t * other;
    return kind != BETWEEN_OR_MIDDLE || t > 0.0 ? v : own;
}
Reg between(uint kind, Reg own, Reg other, float t)
{
    return Reg(between(kind, own.lo, other.lo, t), between(kind, own.hi, other.hi, t));
}

/* Pieces of a line of the image, and how far a piece of results is on the way from the first to the
 * second. */
struct Piece { uint own, other; float way; };

Piece piece_of(uint at)
{
    const uint out_column = rf_divide(at, channels_magic, channels_shift),
        channel = at - out_column * channels;
    const uint column = rf_divide(out_column, factor_x_magic, factor_x_shift),
        own = column * channels + channel;
    if (COLUMNS == REPEATED) return Piece(own, own, 0.0);
    const int right = from_middle(out_column - column * factor_x, factor_x);
    const uint before = column > 0u ? own - channels : own,
        behind = column + 1u < width ? own + channels : own;
    return Piece(own, right < 0 ? before : right > 0 ? behind : own, float(abs(right)) * per_x);
}

#if PIECE == 8
#define FETCH(at) Reg(texelFetch(from, int(2 * (at))), texelFetch(from, int(2 * (at) + 1)))
#elif PIECE == 4
#define FETCH(at) texelFetch(from, int(at))
#else
#define FETCH(at) texelFetch(from, int(at)).x
#endif
#define MADE(i)                                                                                    \
    (COLUMNS == REPEATED ? FETCH(begin + piece[i].own)                                             \
                         : between(COLUMNS, FETCH(begin + piece[i].own),                           \
                             FETCH(begin + piece[i].other), piece[i].way))

Reg results_in(uint begin, Piece piece[8 / PIECE])
{
#if PIECE == 8
    return MADE(0);
#elif PIECE == 4
    return Reg(MADE(0), MADE(1));
#else
    return Reg(vec4(MADE(0), MADE(1), MADE(2), MADE(3)), vec4(MADE(4), MADE(5), MADE(6), MADE(7)));
#endif
}

/* All invocations take part throughout: those beyond the end go with the last one. Loops test at
 * their end, since lavapipe would run the body of others once more, and read no push constants,
 * which it would look up lane by lane there. */
void main()
{
    const uint t = gl_GlobalInvocationID.x, n = strips * line, item = min(t, n - 1u),
        part = rf_divide(item, line_magic, line_shift);
    const uint eight = item - part * line, first = part * strip, last = height - 1u, lines = strip,
        pitch = line;
    const uint image_line = gl_WorkGroupID.y * height, from_pitch = width * channels;
    const float per_turn = per_y;
    Piece piece[8 / PIECE];
    [[unroll]] for (uint i = 0; i < 8 / PIECE; i++) piece[i] = piece_of(8 / PIECE * eight + i);
#define RESULTS_IN(row) results_in((image_line + (row)) * from_pitch, piece)
    Reg above = rf_splat(0.0), own = above, below = above;
    if (LINES != REPEATED) {
        above = RESULTS_IN(max(first, 1u) - 1u);
        own = RESULTS_IN(first);
    }
    uint goal = (image_line + first) * FACTOR_Y * line + eight, done = 0;
    do {
        const uint row = first + done;
        if (LINES == REPEATED) own = RESULTS_IN(min(row, last));
        else below = RESULTS_IN(min(row + 1u, last));
        const bool writes = t < n && row <= last;
        uint turn = 0;
        do {
            Reg result = own;
            if (LINES != REPEATED) {
                const int down = from_middle(turn, FACTOR_Y);
                const bvec4 up = bvec4(down < 0);
                const Reg other = Reg(mix(below.lo, above.lo, up), mix(below.hi, above.hi, up));
                result = between(LINES, own, other, float(abs(down)) * per_turn);
            }
            const uint at = writes ? goal : ~0u;
            RF_WRITE(to, ~0u, at, result)
            goal += pitch;
            turn++;
        } while (turn < FACTOR_Y);
        above = own;
        own = below;
        done++;
    } while (done < lines);
}
