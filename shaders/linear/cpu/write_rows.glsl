/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of Winograd's kernels, whose lanes have four columns of a row in each sum. After
 * linear_lanes.glsl.
 */
#ifndef RF_WRITE_ROWS_GLSL
#define RF_WRITE_ROWS_GLSL

layout(std430, binding = 3) writeonly buffer C { float c[]; };
/* c once more, as 64-bit integers, which takes fewer stores: for rows that are multiples of four
 * (1), or of eight (2). */
layout(constant_id = 3) const int WIDE_ROWS = 0;
layout(std430, binding = 4) writeonly buffer FoursOfC { u64vec2 fours_of_c[]; };
layout(std430, binding = 4) writeonly buffer EightsOfC { u64vec4 eights_of_c[]; };

#define WRITE_ROW(v, has, at)                                                                      \
    {                                                                                              \
        if (WIDE_ROWS != 0) {                                                                      \
            uvec4 bits = floatBitsToUint(v);                                                       \
            if (has && column < all_columns)                                                       \
                fours_of_c[(at + column) >> 2] = u64vec2(pack64(bits.xy), pack64(bits.zw));        \
        } else [[unroll]] for (int i = 0; i < 4; i++)                                              \
            if (has && column + i < all_columns) c[at + column + i] = v[i];                        \
    }

/* Two sums that follow each other, from the elements at_0 and at_1 on where there are such rows;
 * `all_columns` are those that exist, of which the kernel has a copy, since lavapipe reads push
 * constants lane by lane wherever they stand. In rows of eights lanes beside each other exchange
 * sums and write one of the rows each: 32 bytes at once take lavapipe not half as long again as
 * 16. */
#define WRITE_ROWS(v_0, v_1, has_0, has_1, at_0, at_1)                                             \
    {                                                                                              \
        if (WIDE_ROWS == 2) {                                                                      \
            bool odd = (column_lane & 1) != 0, second = ROWS_EXCHANGED == 0 && odd;                \
            vec4 kept = second ? v_1 : v_0, given = ROWS_EXCHANGED == 0 && odd ? v_0 : v_1;        \
            vec4 taken = FROM_LANE(given, gl_SubgroupInvocationID ^ 1u);                           \
            uvec4 low = floatBitsToUint(odd ? taken : kept),                                       \
                high = floatBitsToUint(odd ? kept : taken);                                        \
            int to = (second ? at_1 : at_0) + column;                                              \
            if ((second ? has_1 : has_0) && column < all_columns)                                  \
                eights_of_c[to >> 3] = u64vec4(pack64(low.xy), pack64(low.zw), pack64(high.xy),    \
                    pack64(high.zw));                                                              \
        } else {                                                                                   \
            WRITE_ROW(v_0, has_0, at_0)                                                            \
            WRITE_ROW(v_1, has_1, at_1)                                                            \
        }                                                                                          \
    }

#endif
