/* SPDX-License-Identifier: Apache-2.0 */
/* layer_norm.comp for rows of whole fours that a subgroup holds in registers. It takes `rows_each`
 * of them, one after the other, and reads gamma and beta once for all. */
#version 450
#extension GL_GOOGLE_include_directive : require
#define HELD_ID 4
#include "held_rows.glsl"

layout(constant_id = 1) const bool RMS = false;
layout(constant_id = 2) const bool SCALE = true;
layout(constant_id = 3) const bool CENTER = true;
layout(push_constant) uniform Push { uint rows, columns; float epsilon; uint rows_each; };

/* Where there is no gamma or beta, other inputs are bound, which are not read. */
#ifdef GRAD
layout(binding = 0) uniform samplerBuffer dy;
layout(binding = 1) uniform samplerBuffer x;
layout(std430, binding = 2) readonly buffer InputMean { float mean_of[]; };
layout(std430, binding = 3) readonly buffer InputInverse { float inverse_of[]; };
layout(binding = 4) uniform samplerBuffer gamma;
layout(std430, binding = 5) writeonly buffer Out { u64vec2 out4[]; };
layout(std430, binding = 5) writeonly buffer Out1 { float out1[]; };
#else
layout(binding = 0) uniform samplerBuffer x;
layout(binding = 1) uniform samplerBuffer gamma;
layout(binding = 2) uniform samplerBuffer beta;
layout(std430, binding = 3) writeonly buffer Out { u64vec2 out4[]; };
layout(std430, binding = 3) writeonly buffer Out1 { float out1[]; };
layout(std430, binding = 4) writeonly buffer OutputMean { float mean_of[]; };
layout(std430, binding = 5) writeonly buffer OutputInverse { float inverse_of[]; };
#endif

void main()
{
    const uint first = rf_thread() / LANES * rows_each;
    const float count = float(columns);
    const Row vector = held_row(0u, columns);
    vec4 scale[MOST_HELD], v[MOST_HELD], w[MOST_HELD];
#define READ_SCALE(h) if (SCALE) scale[h] = texelFetch(gamma, held_texel(vector, h));
    EACH_HELD(READ_SCALE)
#ifndef GRAD
#define READ_SHIFT(h) if (CENTER) w[h] = texelFetch(beta, held_texel(vector, h));
    EACH_HELD(READ_SHIFT)
#endif
    uint turn = 0u;
    do {
        /* All lanes take part: rows beyond the end are the last one, and are not written. */
        const bool live = first + turn < rows;
        const uint row = min(first + turn, rows - 1u);
        const Row r = held_row(row, columns);
        vec4 sum = vec4(0.0), other = vec4(0.0);
#ifdef GRAD
        const float mean = mean_of[row], inverse = inverse_of[row];
#define READ(h)                                                                                    \
        v[h] = texelFetch(dy, held_texel(r, h));                                                   \
        w[h] = (texelFetch(x, held_texel(r, h)) - mean) * inverse;                                 \
        if (SCALE) v[h] *= scale[h];                                                               \
        sum += held_or(r, h, vec4(0.0), v[h]);                                                     \
        other += held_or(r, h, vec4(0.0), v[h] * w[h]);
        EACH_HELD(READ)
        const float level = RMS ? 0.0 : lanes_sum(sum) / count, slope = lanes_sum(other) / count;
#define WRITE(h) HELD_WRITE(out4, out1, live, r, h, inverse * (v[h] - level - w[h] * slope))
        EACH_HELD(WRITE)
#else
#define READ(h)                                                                                    \
        v[h] = texelFetch(x, held_texel(r, h));                                                    \
        sum += held_or(r, h, vec4(0.0), v[h]);
        EACH_HELD(READ)
        const float mean = RMS ? 0.0 : lanes_sum(sum) / count;
#define SQUARE(h)                                                                                  \
        v[h] -= mean;                                                                              \
        other += held_or(r, h, vec4(0.0), v[h] * v[h]);
        EACH_HELD(SQUARE)
        const float inverse = 1.0 / sqrt(lanes_sum(other) / count + epsilon);
#define WRITE(h)                                                                                   \
        v[h] *= inverse;                                                                           \
        if (SCALE) v[h] *= scale[h];                                                               \
        if (CENTER) v[h] += w[h];                                                                  \
        HELD_WRITE(out4, out1, live, r, h, v[h])
        EACH_HELD(WRITE)
        if (live && LANE == 0u) {
            mean_of[row] = mean;
            inverse_of[row] = inverse;
        }
#endif
    } while (++turn < rows_each);
}
