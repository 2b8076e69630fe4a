/* SPDX-License-Identifier: Apache-2.0 */
/* softmax.comp for rows that a subgroup holds in registers. */
#version 450
#extension GL_GOOGLE_include_directive : require
#define HELD_ID 1
#include "held_rows.glsl"

#ifdef GRAD
layout(binding = 0) uniform samplerBuffer dy;
layout(binding = 1) uniform samplerBuffer y;
layout(std430, binding = 2) writeonly buffer Out { u64vec2 out4[]; };
layout(std430, binding = 2) writeonly buffer Out1 { float out1[]; };
#else
layout(binding = 0) uniform samplerBuffer x;
layout(std430, binding = 1) writeonly buffer Out { u64vec2 out4[]; };
layout(std430, binding = 1) writeonly buffer Out1 { float out1[]; };
#endif
layout(push_constant) uniform Push { uint rows, columns; };

void main()
{
    /* All lanes take part: rows beyond the end are the last one, and are not written. */
    const uint own = rf_thread() / LANES;
    const bool live = own < rows;
    const Row r = held_row(min(own, rows - 1u), columns);
    vec4 v[MOST_HELD], w[MOST_HELD], sum = vec4(0.0);
#define PUT(h, result) HELD_WRITE(out4, out1, live, r, h, result)
#ifdef GRAD
#ifdef LOG
#define TERM(h) v[h]
#define RESULT(h) PUT(h, v[h] - rf_exp(w[h]) * total)
#else
#define TERM(h) v[h] * w[h]
#define RESULT(h) PUT(h, w[h] * (v[h] - total))
#endif
#define READ(h)                                                                                    \
    v[h] = texelFetch(dy, held_texel(r, h));                                                       \
    w[h] = texelFetch(y, held_texel(r, h));                                                        \
    sum += held_or(r, h, vec4(0.0), TERM(h));
    EACH_HELD(READ)
    const float total = lanes_sum(sum);
    EACH_HELD(RESULT)
#else
    const vec4 least = vec4(uintBitsToFloat(0xff800000u));
    vec4 top = least;
#define READ(h)                                                                                    \
    v[h] = texelFetch(x, held_texel(r, h));                                                        \
    top = rf_larger(top, held_or(r, h, least, v[h]));
    EACH_HELD(READ)
    const float shift = lanes_max(top);
#define ADD(h)                                                                                     \
    w[h] = exp(v[h] - shift);                                                                      \
    sum += held_or(r, h, vec4(0.0), w[h]);
    EACH_HELD(ADD)
    const float total = rf_if_finite(lanes_sum(sum), shift);
#ifdef LOG
    const float log_total = rf_log(total);
#define RESULT(h) PUT(h, v[h] - shift - log_total)
#else
    const float scale = 1.0 / total;
#define RESULT(h) PUT(h, w[h] * scale)
#endif
    EACH_HELD(RESULT)
#endif
}
