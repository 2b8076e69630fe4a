/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows that the lanes of a subgroup hold in registers, on drivers that run these as the lanes of a
 * SIMD register: each element is read once, however often it is needed, where an invocation that
 * walks a row by itself reads it in every pass. Lane l has the fours l, l + LANES and so on, HELD
 * of them. Fours are aligned in memory: with ODD rows begin and end within one, which they share
 * with their neighbours. A shader defines HELD_ID, the number of the constant, before; ODD is the
 * next one.
 */
#ifndef RF_HELD_ROWS_GLSL
#define RF_HELD_ROWS_GLSL

#include "include/reduction.glsl"
#include "include/scalar_math.glsl"
#include "include/write_fours.glsl"

const uint MOST_HELD = 32; /* rf_held_fours() of src/ops/kit.c */
layout(constant_id = HELD_ID) const uint HELD = 1;
layout(constant_id = HELD_ID + 1) const bool ODD = false; /* columns are no multiple of four */

#define LANE gl_SubgroupInvocationID
#define LANES gl_SubgroupSize /* 8 or 16 */

/* DO(h) for each of a lane's fours; h are literals, so that arrays of fours need no memory. */
#define FOUR_HELD(DO, h)                                                                           \
    ONE_HELD(DO, h) ONE_HELD(DO, h + 1u) ONE_HELD(DO, h + 2u) ONE_HELD(DO, h + 3u)
#define ONE_HELD(DO, h) if (h < HELD) { DO((h)) }
#define EACH_HELD(DO)                                                                              \
    FOUR_HELD(DO, 0u)                                                                              \
    FOUR_HELD(DO, 4u) FOUR_HELD(DO, 8u) FOUR_HELD(DO, 12u) FOUR_HELD(DO, 16u) FOUR_HELD(DO, 20u)   \
        FOUR_HELD(DO, 24u) FOUR_HELD(DO, 28u)

struct Row {
    uint columns, skip; /* elements of the first four that are those of the row before */
    uint first, last;   /* fours */
};
Row held_row(uint row, uint columns)
{
    const uint start = row * columns, skip = ODD ? start & 3u : 0u;
    return Row(columns, skip, start / 4u, (start + columns - 1u) / 4u);
}

/* Where a lane's h-th four is: beyond the end that is the row's last, which counts for nothing. */
uint held_at(Row r, uint h) { return r.first + h * LANES + LANE; }
int held_texel(Row r, uint h) { return int(min(held_at(r, h), r.last)); }
uvec4 held_columns(Row r, uint h) { return (h * LANES + LANE) * 4u - r.skip + uvec4(0, 1, 2, 3); }

/* Which of its elements are the row's; all of them in the middle of a row. */
bool held_middle(uint h) { return ODD ? h > 0u && h + 2u < HELD : h + 1u < HELD; }
bvec4 held_has(Row r, uint h)
{
    return ODD ? lessThan(held_columns(r, h), uvec4(r.columns)) : bvec4(held_at(r, h) <= r.last);
}
vec4 held_or(Row r, uint h, vec4 other, vec4 v)
{
    if (held_middle(h)) return v;
    return mix(other, v, held_has(r, h));
}

/* Writes a lane's h-th four where `live`; `fours` and `ones` are the same buffer, of u64vec2 and of
 * float. */
#define HELD_WRITE(fours, ones, live, r, h, value)                                                 \
    {                                                                                              \
        const vec4 held_x = value;                                                                 \
        const bvec4 held_real = held_middle(h) ? bvec4(true) : held_has(r, h);                     \
        const bool held_whole = (live) && all(held_real);                                          \
        RF_WRITE4(fours, held_whole, held_at(r, h), held_x)                                        \
        if (ODD && !held_middle(h)) {                                                              \
            const bool held_part = (live) && !held_whole;                                          \
            if (held_part && held_real.x) ones[held_at(r, h) * 4u] = held_x.x;                     \
            if (held_part && held_real.y) ones[held_at(r, h) * 4u + 1u] = held_x.y;                \
            if (held_part && held_real.z) ones[held_at(r, h) * 4u + 2u] = held_x.z;                \
            if (held_part && held_real.w) ones[held_at(r, h) * 4u + 3u] = held_x.w;                \
        }                                                                                          \
    }

#define OTHER(v, distance) subgroupShuffle(v, LANE ^ distance)
float lanes_sum(vec4 four)
{
    float v = (four.x + four.y) + (four.z + four.w);
    v += OTHER(v, 1u);
    v += OTHER(v, 2u);
    v += OTHER(v, 4u);
    return LANES == 16u ? v + OTHER(v, 8u) : v;
}

float lanes_max(vec4 four)
{
    float v = rf_larger(rf_larger(four.x, four.y), rf_larger(four.z, four.w));
    v = rf_larger(v, OTHER(v, 1u));
    v = rf_larger(v, OTHER(v, 2u));
    v = rf_larger(v, OTHER(v, 4u));
    return LANES == 16u ? rf_larger(v, OTHER(v, 8u)) : v;
}

#endif
