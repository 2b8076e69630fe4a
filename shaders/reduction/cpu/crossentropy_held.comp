/* SPDX-License-Identifier: Apache-2.0 */
/* crossentropy.comp for rows of logits that a subgroup holds in registers, with one class number a
 * row. */
#version 450
#extension GL_GOOGLE_include_directive : require
#define HELD_ID 4
#include "held_rows.glsl"

layout(std430, binding = 0) readonly buffer Labels { int label[]; };
layout(binding = 1) uniform samplerBuffer x;
#ifdef GRAD
layout(std430, binding = 2) readonly buffer Dloss { float dloss[]; };
layout(std430, binding = 3) writeonly buffer Dx { u64vec2 dx4[]; };
layout(std430, binding = 3) writeonly buffer Dx1 { float dx1[]; };
#ifdef WITH_LOSS
layout(std430, binding = 4) writeonly buffer Loss { float loss[]; };
layout(std430, binding = 5) writeonly buffer Hits { float hit[]; };
layout(constant_id = 3) const bool WITH_HITS = false;
#endif
layout(push_constant) uniform Push { uint rows, columns; float numerator; };
layout(constant_id = 2) const uint DLOSS = 0; // as in crossentropy.comp
#else
#define WITH_LOSS
layout(std430, binding = 2) writeonly buffer Loss { float loss[]; };
layout(push_constant) uniform Push { uint rows, columns; };
#endif

void main()
{
    /* All lanes take part: rows beyond the end are the last one, and are not written. */
    const uint own = rf_thread() / LANES, row = min(own, rows - 1u);
    const bool live = own < rows;
    const Row r = held_row(row, columns);
    const int wanted = label[row];
    const bool valid = wanted >= 0 && wanted < int(columns);
    const vec4 least = vec4(uintBitsToFloat(0xff800000u));
    vec4 v[MOST_HELD], w[MOST_HELD], top = least, sum = vec4(0.0), own_sum = vec4(0.0);
#define IS_WANTED(h) equal(held_columns(r, h), uvec4(wanted))
#define READ(h)                                                                                    \
    v[h] = texelFetch(x, held_texel(r, h));                                                        \
    top = rf_larger(top, held_or(r, h, least, v[h]));                                              \
    own_sum += mix(vec4(0.0), v[h], IS_WANTED(h));
    EACH_HELD(READ)
    const float shift = lanes_max(top), own_x = lanes_sum(own_sum); // all but one summand are zeros
#define ADD(h)                                                                                     \
    w[h] = exp(v[h] - shift);                                                                      \
    sum += held_or(r, h, vec4(0.0), w[h]);
    EACH_HELD(ADD)
    const float total = rf_if_finite(lanes_sum(sum), shift), nan = uintBitsToFloat(0x7fc00000u);
#ifdef GRAD
    const float scale = 1.0 / total, given = dloss[DLOSS == 0 ? row : 0];
    const float g = valid ? DLOSS == 2 ? numerator / given : given : nan;
#define WRITE(h) HELD_WRITE(dx4, dx1, live, r, h, g * \
    (w[h] * scale - mix(vec4(0.0), vec4(1.0), IS_WANTED(h))))
    EACH_HELD(WRITE)
#endif
#ifdef WITH_LOSS
    if (live && LANE == 0u) loss[row] = valid ? rf_log(total) - (own_x - shift) : nan;
#ifdef GRAD
    if (WITH_HITS) {
        vec4 before = vec4(0.0); // that come before the wanted one among the largest
#define COUNT_ONE(h, i)                                                                            \
        {                                                                                          \
            const bool earlier = held_columns(r, h)[i] < uint(wanted);                             \
            if (earlier ? !rf_exceeds(own_x, v[h][i]) : rf_exceeds(v[h][i], own_x)) ones[i] = 1.0; \
        }
#define COUNT(h)                                                                                   \
        {                                                                                          \
            vec4 ones = vec4(0.0);                                                                 \
            COUNT_ONE(h, 0) COUNT_ONE(h, 1) COUNT_ONE(h, 2) COUNT_ONE(h, 3)                        \
            before += held_or(r, h, vec4(0.0), ones);                                              \
        }
        EACH_HELD(COUNT)
        const float others = lanes_sum(before);
        if (live && LANE == 0u) hit[row] = valid && others == 0.0 ? 1.0 : 0.0;
    }
#endif
#endif
}
