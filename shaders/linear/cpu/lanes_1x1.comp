/* SPDX-License-Identifier: Apache-2.0 */
/*
 * c[row, :] = activation(sum over channels of a[row, channel] * b[channel, :] + bias): convolutions
 * of 1 x 1 without strides, whose rows are pixels, and their data gradients (-DTRANSPOSED_B: b is
 * [:, channel]). Such sums are short, and what lanes_gather.comp does once a tile weighs as much as
 * they do. Here no pixel is looked for, sums are written back once in FOURS * 4 summands, and tiles
 * have as many columns as such layers. Channels and columns are multiples of four.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#include "linear_lanes.glsl"
#include "include/linear_epilogue.glsl"
layout(constant_id = 3) const int UNEVEN = 0; /* channels fill no turns of the loop */
layout(constant_id = 4) const int PAIRS = 0;  /* columns are multiples of eight */

layout(std430, binding = 2) readonly buffer Bias { float bias[]; };
layout(std430, binding = 3) writeonly buffer C { u64vec2 c[]; };
layout(std430, binding = 3) writeonly buffer Pairs { u64vec4 c_pairs[]; };
layout(push_constant) uniform P {
    int total;               /* workgroups */
    int row_tiles;
    int rows;
    int columns, channels;   /* in fours */
    /* fours of b from channel to channel (TRANSPOSED_B: from column to column) */
    int b_line;
};

/* Two of a lane's groups of columns are beside each other, so that eight elements are one store:
 * PAIRED counts such groups. */
#define PAIRED (GROUPS / 2 * 2)
#define COLUMN(g) ((g) < PAIRED ? (g) / 2 * 2 * ROW_LANES + (g) % 2 + column_lane * 2              \
    : (g) * ROW_LANES + column_lane)
#define SHARES ROWS_ABREAST
#define ROW_GROUPS (ROWS / LANES)

vec4 accumulator[SUMS][GROUPS];
#define ACCUMULATOR(i) accumulator[i][g]

void main()
{
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x),
        lane = int(gl_SubgroupInvocationID);
    if (id >= total) return;
    int column_tile = id / row_tiles, first_row = (id - column_tile * row_tiles) * ROWS;
    int column_lane = lane % ROW_LANES, share = lane / ROW_LANES;
    int row_stride = channels, all_columns = columns, line = b_line, last = channels - 1;
    int first_column = column_tile * (GROUPS * ROW_LANES);

    int a_at[ROW_GROUPS];
    [[unroll]] for (int g = 0; g < ROW_GROUPS; g++)
        a_at[g] = min(first_row + g * LANES + lane, rows - 1) * row_stride;
    /* Lanes of the same columns load a share each of four lines (TRANSPOSED_B: columns) and hand
     * it to the others. */
    int b_at[GROUPS];
    [[unroll]] for (int g = 0; g < GROUPS; g++) {
        int column = min(first_column + COLUMN(g), all_columns - 1);
#ifdef TRANSPOSED_B
        b_at[g] = (column * 4 + share) * line;
#else
        b_at[g] = share * line + column;
#endif
    }
    [[unroll]] for (int r = 0; r < SUMS; r++) [[unroll]] for (int g = 0; g < GROUPS; g++)
        accumulator[r][g] = vec4(0.0);

    int k = 0;
    do {
        vec4 a[FOURS][ROW_GROUPS], b[FOURS * 4][GROUPS];
        [[unroll]] for (int u = 0; u < FOURS; u++) {
            int at = UNEVEN != 0 ? min(k + u, last) : k + u;
            bool live = UNEVEN == 0 || k + u <= last;
            [[unroll]] for (int g = 0; g < ROW_GROUPS; g++) {
                a[u][g] = LOAD_A(a_at[g] + at);
                if (UNEVEN != 0) a[u][g] = live ? a[u][g] : vec4(0.0);
            }
            [[unroll]] for (int g = 0; g < GROUPS; g++) {
                [[unroll]] for (int i = 0; i < 4; i += SHARES) {
#ifdef TRANSPOSED_B
                    vec4 t = LOAD_B(b_at[g] + i * line + at);
#else
                    vec4 t = LOAD_B(b_at[g] + (at * 4 + i) * line);
#endif
                    if (UNEVEN != 0) t = live ? t : vec4(0.0);
                    [[unroll]] for (int j = 0; j < SHARES; j++) {
                        vec4 v = FROM_LANE(t, column_lane + j * ROW_LANES);
#ifdef TRANSPOSED_B
                        [[unroll]] for (int q = 0; q < 4; q++) b[u * 4 + q][g][i + j] = v[q];
#else
                        b[u * 4 + i + j][g] = v;
#endif
                    }
                }
            }
        }
        [[unroll]] for (int r = 0; r < SUMS; r++) {
            float s[FOURS][4];
            [[unroll]] for (int u = 0; u < FOURS; u++) {
                TAKE_4(s[u], a[u][ROW_GROUP(r)][0], a[u][ROW_GROUP(r)][1], a[u][ROW_GROUP(r)][2],
                    a[u][ROW_GROUP(r)][3], ROW_LANE(r))
            }
            [[unroll]] for (int g = 0; g < GROUPS; g++) {
                [[unroll]] for (int u = 0; u < FOURS; u++) {
                    ADD_PRODUCTS_4(accumulator[r][g], s[u], b[u * 4][g], b[u * 4 + 1][g],
                        b[u * 4 + 2][g], b[u * 4 + 3][g])
                }
            }
        }
        k += FOURS;
    } while (k <= last);

    int turn = total >> 31; /* 0, which the compiler does not know */
    vec4 add[GROUPS];
    [[unroll]] for (int g = 0; g < GROUPS; g++) {
        int column = min(first_column + COLUMN(g), all_columns - 1) * 4;
        add[g] = vec4(intBitsToFloat(turn));
        if (HAS_BIAS != 0) add[g] =
            vec4(bias[column], bias[column + 1], bias[column + 2], bias[column + 3]);
    }
    int all_rows = rows;
    do {
        [[unroll]] for (int r = 0; r < SUMS_OF_TURN; r++) {
            /* Sums that follow each other are of the same rows as long as these lie abreast. */
            int sum = turn * SUMS_OF_TURN + r,
                row = first_row + sum / ROW_LANES * LANES + (lane ^ (sum % ROW_LANES));
            uvec4 words[GROUPS];
            [[unroll]] for (int g = 0; g < GROUPS; g++) {
                vec4 v;
                TAKE_OF_TURN(v, turn, r, ACCUMULATOR)
                words[g] = floatBitsToUint(linear_activate(v + add[g]));
            }
            [[unroll]] for (int g = 0; g < GROUPS; g++) {
                int column = first_column + COLUMN(g), at = row * all_columns + column;
                bool exists = row < all_rows && column < all_columns;
                if (g >= PAIRED || PAIRS == 0) {
                    if (exists) c[at] = u64vec2(pack64(words[g].xy), pack64(words[g].zw));
                } else if (g % 2 == 0) {
                    if (exists) c_pairs[at / 2] =
                        u64vec4(pack64(words[g].xy), pack64(words[g].zw), pack64(words[g + 1].xy),
                        pack64(words[g + 1].zw));
                }
            }
        }
        turn++;
    } while (turn < END_TURNS);
}
