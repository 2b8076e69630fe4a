#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gradient of images enlarged bilinearly by factors of at most MOST, for drivers that fetch
 * texels at once: an invocation has one texel of each pixel in a column of the image, of FOURS four
 * channels, and walks down a strip of it. Loads from a line of results it adds up along the line,
 * and that once to the element the line belongs to and once to that element's neighbour. Loops test
 * at their end: lavapipe would run the body of others once more.
 */
#extension GL_EXT_control_flow_attributes : require
#define MOST 4
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const int FACTOR_Y = 1;
layout(constant_id = 2) const int FACTOR_X = 1;
#define REACH (FACTOR_X / 2) /* how far beyond an element's own results others take from it */

layout(push_constant) uniform Push {
    int images;
    int channels;                     /* of a pixel, in texels */
    int height, width, strips, lines; /* of an image; of a column; of a strip */
};
layout(binding = 0) uniform samplerBuffer from;
#ifdef FOURS
#define VEC vec4
#define LOAD(at) texelFetch(from, at)
#else
#define VEC float
#define LOAD(at) texelFetch(from, at).x
#endif
layout(std430, binding = 1) writeonly buffer To { VEC to[]; };

/* How far from its element's middle result k lies, as a part of the way to the neighbour: so much
 * of it is the neighbour's. */
#define WAY(k, factor) abs(float(2 * (k) + 1 - (factor)) / float(2 * (factor)))

/* Beyond an end of the image, results are those of the element there once more, which took itself
 * for the neighbour it lacks. */
int mirrored(int at, int n) { return at < 0 ? -1 - at : at >= n ? 2 * n - 1 - at : at; }

void main()
{
    const int t = int(gl_GlobalInvocationID.x), image = int(gl_WorkGroupID.y),
        across = width * channels;
    const int strip = t / across, place = t - strip * across, column = place / channels;
    /* all invocations take part: those beyond the end go with the last strip */
    const bool live = strip < strips;
    const int begin = min(strip, strips - 1) * lines, end = min(begin + lines, height);
    const int pitch = across * FACTOR_X; /* of results */
    const int first = image * height * FACTOR_Y * pitch;
    int at[2 * MOST];
    [[unroll]] for (int k = 0; k < 2 * MOST; k++)
        at[k] = mirrored(column * FACTOR_X + k - REACH, width * FACTOR_X) * channels + place -
            column * channels;
    int line = begin - 1;
    /* what the lines before gave to the element above `line`, and to that on it */
    VEC whole = VEC(0.0), next = VEC(0.0);
    do {
        VEC above = VEC(0.0), own = VEC(0.0), below = VEC(0.0);
        [[unroll]] for (int j = 0; j < MOST; j++)
            if (j < FACTOR_Y) {
                const int row = first + mirrored(line * FACTOR_Y + j, height * FACTOR_Y) * pitch;
                VEC along = VEC(0.0);
                [[unroll]] for (int k = 0; k < 2 * MOST; k++)
                    if (k < FACTOR_X + 2 * REACH) {
                        /* of which neighbour's results */
                        const int beyond = k < REACH ? k - REACH + FACTOR_X : k - REACH - FACTOR_X;
                        const bool is_own = k >= REACH && k < REACH + FACTOR_X;
                        along += (is_own ? 1.0 - WAY(k - REACH, FACTOR_X) :
                            WAY(beyond, FACTOR_X)) * LOAD(row + at[k]);
                    }
                own += (1.0 - WAY(j, FACTOR_Y)) * along;
                if (2 * j + 1 < FACTOR_Y) above += WAY(j, FACTOR_Y) * along;
                if (2 * j + 1 > FACTOR_Y) below += WAY(j, FACTOR_Y) * along;
            }
        const int done = line - 1;
        if (live && done >= begin && done < end) to[(image * height + done) * across + place] =
            whole + above;
        whole = next + own;
        next = below;
        line++;
    } while (line <= end);
}
