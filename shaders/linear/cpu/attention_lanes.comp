/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention on drivers that run a subgroup as the lanes of a SIMD register: a workgroup keeps a
 * tile of ROWS rows and the sums that they get, four of each in a lane, and walks the rows of the
 * other side four at a time. Scores are never written whole (Dao et al. 2022; the running maximum
 * and sum are those of Milakov and Gimelshein 2018).
 *   FORWARD: rows are queries, the others keys and values
 *   DELTA: the gradient's first pass, slope . output of each query, of which a lane has one
 *   VALUES: rows are keys, the others queries and slopes of the output; makes the gradient of
 *   values, and leaves the weights of its items and keys behind
 *   KEYS: rows are values, the others slopes and queries; makes the gradient of keys, and puts the
 *   gradients through scores in place of the weights
 *   QUERIES: adds up the gradient of queries from those. Here each lane has four columns of all
 *   rows
 * GROUPS: columns / (4 * LANES), rounded up. Widths are multiples of four. Loops test at their end:
 * lavapipe would run the body of others once more, and what a loop changes costs it a selection in
 * each iteration. So a loop takes as much at once as caches of instructions hold: one that makes
 * the gradients of keys and values together is slower than two. Results are written in turns, which
 * is shorter to compile and to fetch than all of them written out.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "products.glsl"
#include "include/scalar_math.glsl"
#include "include/write_fours.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const int CAUSAL = 0;
/* 1: there is a mask, 2: one that tells keys apart alone. */
layout(constant_id = 2) const int MASKED = 0;

layout(push_constant) uniform P {
    int total, tiles;         /* workgroups: all, of an item */
    int rows, others;         /* of an item */
    int width, value_width;   /* in fours: of what scores are made of, and of the result */
    int last_key;             /* of query 0: causal */
    float scale;
    int heads;
    int mask_item, mask_head, mask_query, mask_key; /* strides, 0 where the mask has one for all */
    int first_item, first_tile;
    /* whose weights the workspace holds, for ROWS of these one query after the other */
    int first_key, keys;
};

layout(binding = 0) uniform samplerBuffer row_a; /* QUERIES: gradients through scores */
layout(binding = 1) uniform samplerBuffer other_a; /* QUERIES: keys */
#if defined(QUERIES)
layout(std430, binding = 2) writeonly buffer Output { u64vec2 result[]; };
layout(binding = 3) uniform samplerBuffer result_before; /* the same */
#elif defined(DELTA)
layout(std430, binding = 2) writeonly buffer Output { float result[]; };
#else
layout(binding = 2) uniform samplerBuffer other_b;
layout(binding = 3) uniform samplerBuffer mask;
layout(std430, binding = 4) writeonly buffer Output { u64vec2 result[]; };
#ifdef FORWARD
layout(std430, binding = 5) writeonly buffer Sums { vec2 sums_of[]; };
#else
/* of an other row: its largest score and the logarithm of its sum; KEYS: slope . output */
layout(binding = 5) uniform samplerBuffer level;
layout(std430, binding = 6) writeonly buffer Fours { u64vec2 fours[]; };
#ifdef KEYS
layout(binding = 7) uniform samplerBuffer weights;
#endif
#endif
#endif

#define FROM_LANE(value, lane) subgroupShuffle(value, uint(lane))
#define FOURS (LANES * GROUPS)

int lane;

#ifdef DELTA
void main()
{
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x), depth = width, k = 0;
    int row = id * LANES + int(gl_SubgroupInvocationID), at = min(row, rows - 1) * depth;
    if (id >= total) return;
    vec4 sum = vec4(0.0);
    do {
        sum += texelFetch(row_a, at + k) * texelFetch(other_a, at + k);
        k++;
    } while (k < depth);
    float all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    if (row < rows) result[row] = all;
}
#elif defined(QUERIES)
#define ROW_GROUPS (ROWS / LANES)
vec4 sum[ROWS][GROUPS];

void main()
{
    lane = int(gl_SubgroupInvocationID);
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x);
    if (id >= total) return;
    int all_rows = rows, depth_a = width;
    int own_item = id / tiles,
        first_row = (first_tile + tiles - 1 - (id - own_item * tiles)) * ROWS,
        item = first_item + own_item;
    int item_rows = item * all_rows, item_others = item * others, last_other = others - 1;
    /* Rows are the keys of this dispatch. */
    int end = min(keys, others - first_key);
    if (CAUSAL != 0) end = min(end, first_row + ROWS + last_key - first_key);
    int row_at[ROW_GROUPS], column[GROUPS];
    [[unroll]] for (int g = 0; g < ROW_GROUPS; g++)
        row_at[g] = (own_item * (keys / ROWS) * all_rows +
            min(first_row + g * LANES + lane, all_rows - 1)) * LANES;
    [[unroll]] for (int g = 0; g < GROUPS; g++) column[g] = min(g * LANES + lane, depth_a - 1);
    bool more = first_key > 0;
    [[unroll]] for (int r = 0; r < ROWS; r++) [[unroll]] for (int g = 0; g < GROUPS; g++) {
        vec4 before = texelFetch(result_before,
            (item_rows + min(first_row + r, all_rows - 1)) * depth_a + column[g]);
        sum[r][g] = more ? before : vec4(0.0);
    }
    int k = 0, first_other = item_others + first_key, tile_fours = all_rows * LANES;
    do {
        int tile_at = k / LANES * tile_fours + k % LANES;
        vec4 a[2][ROW_GROUPS], b[8][GROUPS];
        [[unroll]] for (int u = 0; u < 2; u++) {
            /* Nothing was written of keys that the first queries do not attend to. */
            bool written = (k + u) * 4 < end;
            [[unroll]] for (int g = 0; g < ROW_GROUPS; g++) {
                a[u][g] = texelFetch(row_a, row_at[g] + tile_at + u);
                a[u][g] = written ? a[u][g] : vec4(0.0);
            }
        }
        [[unroll]] for (int q = 0; q < 8; q++) {
            int from = min(first_other + k * 4 + q, item_others + last_other) * depth_a;
            [[unroll]] for (int g = 0; g < GROUPS; g++)
                b[q][g] = texelFetch(other_a, from + column[g]);
        }
        [[unroll]] for (int r = 0; r < ROWS; r++) {
            float s[4], t[4];
            TAKE_4(s, a[0][r / LANES][0], a[0][r / LANES][1], a[0][r / LANES][2],
                a[0][r / LANES][3], r % LANES)
            TAKE_4(t, a[1][r / LANES][0], a[1][r / LANES][1], a[1][r / LANES][2],
                a[1][r / LANES][3], r % LANES)
            [[unroll]] for (int g = 0; g < GROUPS; g++) {
                ADD_PRODUCTS_4(sum[r][g], s, b[0][g], b[1][g], b[2][g], b[3][g])
                ADD_PRODUCTS_4(sum[r][g], t, b[4][g], b[5][g], b[6][g], b[7][g])
            }
        }
        k += 2;
    } while (k * 4 < end);
    int turn = 0;
    do {
        [[unroll]] for (int r = 0; r < 4; r++) [[unroll]] for (int g = 0; g < GROUPS; g++) {
            int row = first_row + turn * 4 + r;
            vec4 x = sum[r][g];
            [[unroll]] for (int t = 1; t < ROWS / 4; t++) x = turn == t ? sum[t * 4 + r][g] : x;
            RF_WRITE4(result, row < all_rows && g * LANES + lane < depth_a,
                uint((item_rows + row) * depth_a + column[g]), x)
        }
        turn++;
    } while (turn < ROWS / 4);
}
#else
#define LOWEST -3.4e38
#define NOTHING 1e30 /* in place of the sum's logarithm: all weights are 0 */

/* Four columns of four rows that follow each other. Columns that there are none of are zeros,
 * made of bits: a selection of lavapipe's would be made anew wherever they are used. */
#define FETCH_ROWS(own, MATRIX, row_at, depth, c)                                                  \
    {                                                                                              \
        vec4 t[4];                                                                                 \
        uint has = c < depth ? 0xffffffffu : 0u;                                                   \
        [[unroll]] for (int i = 0; i < 4; i++)                                                     \
            t[i] = uintBitsToFloat(floatBitsToUint(texelFetch(MATRIX,                              \
                row_at[i] * depth + min(c, depth - 1))) & has);                                    \
        [[unroll]] for (int i = 0; i < 4; i++)                                                     \
            own[4 * c + i] = vec4(t[0][i], t[1][i], t[2][i], t[3][i]);                             \
    }

/* Four of the other rows, with four columns in each lane. */
#define FETCH_OTHERS(x, MATRIX, depth)                                                             \
    [[unroll]] for (int q = 0; q < 4; q++) {                                                       \
        int from = (item_others + min(other + q, last_other)) * depth;                             \
        [[unroll]] for (int g = 0; g < GROUPS; g++) {                                              \
            x[q][g] = texelFetch(MATRIX, from + min(g * LANES + lane, depth - 1));                 \
            x[q][g] = other + q < all_others && g * LANES + lane < depth ? x[q][g] : vec4(0.0);    \
        }                                                                                          \
    }

/* score[q] = products of row q of the others with a lane's rows. */
#define DOT_ONE(score, x, own, c)                                                                  \
    score += FROM_LANE(x[(c) / LANES][0], (c) % LANES) * own[4 * (c)];                             \
    score += FROM_LANE(x[(c) / LANES][1], (c) % LANES) * own[4 * (c) + 1];                         \
    score += FROM_LANE(x[(c) / LANES][2], (c) % LANES) * own[4 * (c) + 2];                         \
    score += FROM_LANE(x[(c) / LANES][3], (c) % LANES) * own[4 * (c) + 3];
#define DOT(score, x, own)                                                                         \
    [[unroll]] for (int q = 0; q < 4; q++) score[q] = vec4(0.0);                                   \
    [[unroll]] for (int c = 0; c < FOURS; c++) {                                                   \
        DOT_ONE(score[0], x[0], own, c)                                                            \
        DOT_ONE(score[1], x[1], own, c)                                                            \
        DOT_ONE(score[2], x[2], own, c)                                                            \
        DOT_ONE(score[3], x[3], own, c)                                                            \
    }                                                                                              \
    tie(score, no_bits);

/* Makes each score depend on all of them, through bits of which none is set. LLVM would
 * otherwise put the sums of one behind those of the other, so that each addition waits for the
 * last one, and keep what they share on the stack. */
void tie(inout vec4 score[4], uint no_bits)
{
    uvec4 some = floatBitsToUint(score[0]) | floatBitsToUint(score[1]) |
        floatBitsToUint(score[2]) | floatBitsToUint(score[3]);
    uint none = (some[0] | some[1] | some[2] | some[3]) & no_bits;
    [[unroll]] for (int q = 0; q < 4; q++)
        score[q] = uintBitsToFloat(floatBitsToUint(score[q]) ^ uvec4(none));
}

/* sum += the others' columns times their weights for a lane's rows. */
#define ADD_ONE(x, w, c, i, r)                                                                     \
    sum[4 * (c) + i][r] += FROM_LANE(x[0][(c) / LANES][i], (c) % LANES) * w[0][r];                 \
    sum[4 * (c) + i][r] += FROM_LANE(x[1][(c) / LANES][i], (c) % LANES) * w[1][r];                 \
    sum[4 * (c) + i][r] += FROM_LANE(x[2][(c) / LANES][i], (c) % LANES) * w[2][r];                 \
    sum[4 * (c) + i][r] += FROM_LANE(x[3][(c) / LANES][i], (c) % LANES) * w[3][r];
#define ADD(x, w)                                                                                  \
    [[unroll]] for (int c = 0; c < FOURS; c++) [[unroll]] for (int i = 0; i < 4; i++) {            \
        ADD_ONE(x, w, c, i, 0)                                                                     \
        ADD_ONE(x, w, c, i, 1)                                                                     \
        ADD_ONE(x, w, c, i, 2)                                                                     \
        ADD_ONE(x, w, c, i, 3)                                                                     \
    }

bool is_set(float x) { return (floatBitsToInt(x) & 0x7fffffff) != 0; }

/* Columns of the rows that a lane has, four rows in each. */
vec4 own[4 * FOURS];
/* The same of the result, as scalars: of vectors the selections would stand at the loop's end,
 * and all sums wait for them on the stack. */
float sum[4 * FOURS][4];

void main()
{
    lane = int(gl_SubgroupInvocationID);
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x);
    if (id >= total) return;
    int all_rows = rows, all_others = others, depth_a = width, depth_b = value_width,
        last = last_key;
    float factor = scale;
    uint no_bits = uint(total) >> 31;
    int own_item = id / tiles, tile = id - own_item * tiles, item = first_item + own_item;
    int query_step = mask_query, key_step = mask_key,
        masks = item / heads * mask_item + item % heads * mask_head;
    int other = 0, end = all_others;
    /* Longest walks first: of causal queries those of the last rows. */
#ifdef FORWARD
    int first_row = (tiles - 1 - tile) * ROWS;
    if (CAUSAL != 0) end = min(end, first_row + ROWS + last);
#else
    int first_row = (first_tile + tile) * ROWS;
    /* From the tile of the first query that attends to the first key. */
    if (CAUSAL != 0) other = max(first_row - last, 0) / ROWS * ROWS;
    int fours_at = (own_item * (keys / ROWS) + (first_row - first_key) / ROWS) * all_others *
        LANES + lane;
#endif
    int item_rows = item * all_rows, item_others = item * all_others, last_other = all_others - 1;
    ivec4 own_row = ivec4(first_row + lane * 4) + ivec4(0, 1, 2, 3),
        there = min(own_row, ivec4(all_rows - 1)), row_at = item_rows + there;
    ivec4 live_row = own_row; /* past the last: that has no part in anything */
#ifndef FORWARD
    if (MASKED == 2)
        [[unroll]] for (int i = 0; i < 4; i++)
            live_row[i] = is_set(texelFetch(mask, masks + there[i] * key_step).x) ? own_row[i]
                : all_rows;
#endif
    [[unroll]] for (int c = 0; c < FOURS; c++) FETCH_ROWS(own, row_a, row_at, depth_a, c)
    [[unroll]] for (int c = 0; c < 4 * FOURS; c++) [[unroll]] for (int r = 0; r < 4; r++)
        sum[c][r] = 0.0;
#ifdef FORWARD
    vec4 most = vec4(LOWEST), sums = vec4(0.0);
#endif
    do {
        vec4 a[4][GROUPS], b[4][GROUPS], score[4];
        bvec4 live[4];
        FETCH_OTHERS(a, other_a, depth_a)
        FETCH_OTHERS(b, other_b, depth_b)
        DOT(score, a, own)
#ifdef FORWARD
        float key_mask = 1.0;
        if (MASKED == 2) key_mask =
            texelFetch(mask, masks + min(other + lane % 4, last_other) * key_step).x;
#endif
        [[unroll]] for (int q = 0; q < 4; q++) {
            int here = other + q;
            bool live_other = here < all_others;
#ifdef FORWARD
            if (MASKED == 2) live_other = live_other && is_set(FROM_LANE(key_mask, q));
#endif
            live[q] = lessThan(live_row, ivec4(live_other ? all_rows : 0));
            if (CAUSAL != 0) {
#ifdef FORWARD
                bvec4 attends = lessThanEqual(ivec4(here), own_row + last);
#else
                bvec4 attends = lessThanEqual(own_row, ivec4(here + last));
#endif
                live[q] = bvec4(ivec4(live[q]) & ivec4(attends));
            }
            if (MASKED == 1)
                [[unroll]] for (int i = 0; i < 4; i++) {
#ifdef FORWARD
                    int at = masks + there[i] * query_step + min(here, last_other) * key_step;
#else
                    int at = masks + min(here, last_other) * query_step + there[i] * key_step;
#endif
                    live[q][i] = live[q][i] && is_set(texelFetch(mask, at).x);
                }
        }
#ifdef FORWARD
        vec4 larger = most;
        [[unroll]] for (int q = 0; q < 4; q++) {
            score[q] = mix(vec4(LOWEST), score[q] * factor, live[q]);
            larger = max(larger, score[q]);
        }
        vec4 shrunk = rf_exp(most - larger);
        most = larger;
        sums *= shrunk;
        [[unroll]] for (int q = 0; q < 4; q++) {
            score[q] = mix(vec4(0.0), rf_exp(score[q] - larger), live[q]);
            sums += score[q];
        }
        [[unroll]] for (int c = 0; c < 4 * FOURS; c++) [[unroll]] for (int r = 0; r < 4; r++)
            sum[c][r] *= shrunk[r];
#else
        int level_at = item_others + min(other + lane % 4, last_other);
#ifdef VALUES
        level_at = level_at * 2 + lane / 4 % 2;
#endif
        float levels = texelFetch(level, level_at).x;
        [[unroll]] for (int q = 0; q < 4; q++) {
            float other_level = FROM_LANE(levels, q);
            int at = fours_at + min(other + q, last_other) * LANES;
#ifdef VALUES
            score[q] = mix(vec4(0.0),
                rf_exp(score[q] * factor - other_level - FROM_LANE(levels, q + 4)), live[q]);
#else
            score[q] = mix(vec4(0.0), texelFetch(weights, at) * (score[q] - other_level) * factor,
                live[q]);
#endif
            RF_WRITE4(fours, other + q < all_others, uint(at), score[q])
        }
#endif
        ADD(b, score)
        other += 4;
    } while (other < end);
#ifdef FORWARD
    bvec4 nothing = equal(sums, vec4(0.0));
    vec4 inverse = mix(1.0 / sums, vec4(0.0), nothing),
        log_sum = mix(rf_log(sums), vec4(NOTHING), nothing);
    /* A NaN among the scores need not be the largest: it is seen in the sum. */
    vec4 largest = mix(mix(most, sums, isnan(sums)), vec4(0.0), nothing);
    [[unroll]] for (int i = 0; i < 4; i++)
        if (own_row[i] < all_rows) sums_of[item_rows + own_row[i]] = vec2(largest[i], log_sum[i]);
#endif
    int turn = 0;
    do {
        [[unroll]] for (int i = 0; i < 4; i++) {
            vec4 x = vec4(sum[0][i], sum[1][i], sum[2][i], sum[3][i]);
            [[unroll]] for (int c = 1; c < FOURS; c++)
                x = turn == c ? vec4(sum[4 * c][i], sum[4 * c + 1][i], sum[4 * c + 2][i],
                    sum[4 * c + 3][i]) : x;
#ifdef FORWARD
            x *= inverse[i];
#endif
            RF_WRITE4(result, own_row[i] < all_rows, uint(row_at[i] * depth_b + turn), x)
        }
        turn++;
    } while (turn < depth_b);
}
#endif
