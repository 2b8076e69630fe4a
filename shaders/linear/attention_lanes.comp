/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention on drivers that run a subgroup as the lanes of a SIMD register: a workgroup keeps a tile of ROWS rows in registers and
 * walks the rows of the other side, 4 * LANES at a time, whose scores it never writes (Dao et al. 2022; the running maximum and sum are
 * those of Milakov and Gimelshein 2018).
 *   FORWARD: rows are queries     QUERIES: the gradient of queries     KEYS: gradients of keys and values, which are the rows
 * GROUPS: columns of the results / (4 * LANES), rounded up. Widths are multiples of four; matrices whose columns lie along the lanes
 * come transposed. Loops test at their end: lavapipe would run the body of others once more.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "include/products.glsl"
#include "include/scalar_math.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const int CAUSAL = 0;
layout(constant_id = 2) const int MASKED = 0;

layout(push_constant) uniform P {
    int total, tiles;         /* workgroups: all, of an item */
    int rows, others;         /* of an item */
    int width, value_width;   /* in fours */
    int other_fours;          /* of a line of a transposed matrix */
    int last_key;             /* of query 0: causal */
    float scale;
    int heads;
    int mask_item, mask_head, mask_query, mask_key; /* strides, 0 where the mask has one for all */
};

#ifdef FORWARD
layout(binding = 0) uniform samplerBuffer row_a;    /* queries */
layout(binding = 1) uniform samplerBuffer lanes_a;  /* keys, transposed */
layout(binding = 2) uniform samplerBuffer other_a;  /* values */
layout(binding = 3) uniform samplerBuffer mask;
layout(std430, binding = 4) writeonly buffer Output { vec4 result_a[]; };
layout(std430, binding = 5) writeonly buffer Sums { float lse[]; };
#else
layout(binding = 0) uniform samplerBuffer row_a;   /* queries; KEYS: keys */
layout(binding = 1) uniform samplerBuffer lanes_a; /* keys; queries, transposed */
layout(binding = 2) uniform samplerBuffer row_b;   /* slopes of the output; values */
layout(binding = 3) uniform samplerBuffer lanes_b; /* values; slopes, transposed */
layout(binding = 4) uniform samplerBuffer other_a; /* keys; queries */
layout(binding = 5) uniform samplerBuffer mask;
layout(std430, binding = 6) readonly buffer Sums { float lse[]; };
layout(std430, binding = 7) readonly buffer Delta { float delta[]; };
layout(std430, binding = 8) writeonly buffer First { vec4 result_a[]; };
#ifdef KEYS
layout(binding = 9) uniform samplerBuffer other_b; /* slopes */
layout(std430, binding = 10) writeonly buffer Second { vec4 result_b[]; };
#endif
#endif

#define ROW_GROUPS (ROWS / LANES)
#define LANE_BITS (LANES == 16 ? 4 : LANES == 8 ? 3 : 2)
#define BLOCK (4 * LANES)
#define LOWEST -1e30
#define FROM_LANE(value, lane) subgroupShuffle(value, uint(lane))

int lane;

/* acc[r] += row r of one matrix times four columns of another. */
#define SCORES(acc, ROW_MATRIX, row_at, LANE_MATRIX, lane_at, depth)                                                   \
    {                                                                                                                  \
        int k = 0;                                                                                                     \
        do {                                                                                                           \
            vec4 a[ROW_GROUPS], b[4];                                                                                  \
            [[unroll]] for (int g = 0; g < ROW_GROUPS; g++) a[g] = texelFetch(ROW_MATRIX, row_at[g] + k);              \
            [[unroll]] for (int q = 0; q < 4; q++) b[q] = texelFetch(LANE_MATRIX, lane_at + (k * 4 + q) * line);       \
            [[unroll]] for (int r = 0; r < ROWS; r++) {                                                                \
                float s[4];                                                                                            \
                TAKE_4(s, a[r / LANES][0], a[r / LANES][1], a[r / LANES][2], a[r / LANES][3], r % LANES)               \
                ADD_PRODUCTS_4(acc[r], s, b[0], b[1], b[2], b[3])                                                      \
            }                                                                                                          \
            k++;                                                                                                       \
        } while (k < depth);                                                                                           \
    }

/* acc[r] += weights of the block's rows, four of which each lane has, times these rows. */
#define VALUES(acc, weight, OTHER_MATRIX, other_at, depth)                                                             \
    {                                                                                                                  \
        int l = 0;                                                                                                     \
        do {                                                                                                           \
            vec4 b[4][GROUPS];                                                                                         \
            [[unroll]] for (int q = 0; q < 4; q++) {                                                                   \
                int from = other_at + min(block + l * 4 + q, last_other) * depth;                                      \
                [[unroll]] for (int g = 0; g < GROUPS; g++)                                                            \
                    b[q][g] = texelFetch(OTHER_MATRIX, from + min(g * LANES + lane, depth - 1));                       \
            }                                                                                                          \
            [[unroll]] for (int r = 0; r < ROWS; r++) {                                                                \
                float s[4];                                                                                            \
                TAKE_4(s, weight[r][0], weight[r][1], weight[r][2], weight[r][3], l)                                   \
                [[unroll]] for (int g = 0; g < GROUPS; g++) {                                                          \
                    ADD_PRODUCTS_4(acc[r][g], s, b[0][g], b[1][g], b[2][g], b[3][g])                                   \
                }                                                                                                      \
            }                                                                                                          \
            l++;                                                                                                       \
        } while (l < LANES);                                                                                           \
    }

#define STORE(buffer, acc, depth)                                                                                      \
    [[unroll]] for (int r = 0; r < ROWS; r++) [[unroll]] for (int g = 0; g < GROUPS; g++) {                            \
        int column = g * LANES + lane;                                                                                 \
        if (first_row + r < all_rows && column < depth)                                                                \
            buffer[(item_rows + first_row + r) * depth + column] = acc[r][g];                                          \
    }

/* The optimiser unrolls loops that count up to a number. */
float over_lanes_max(float v)
{
    [[unroll]] for (int bit = 0; bit < LANE_BITS; bit++) v = max(v, subgroupShuffle(v, uint(lane ^ 1 << bit)));
    return v;
}

float over_lanes_sum(float v)
{
    [[unroll]] for (int bit = 0; bit < LANE_BITS; bit++) v += subgroupShuffle(v, uint(lane ^ 1 << bit));
    return v;
}

vec4 score[ROWS];
vec4 sum_a[ROWS][GROUPS];
#ifdef FORWARD
float most[ROWS], sums[ROWS];
#else
vec4 through[ROWS];
#endif
#ifdef KEYS
vec4 sum_b[ROWS][GROUPS];
#endif

void main()
{
    lane = int(gl_SubgroupInvocationID);
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x);
    if (id >= total) return;
    int all_rows = rows, all_others = others, depth_a = width, depth_b = value_width, line = other_fours;
    float factor = scale;
    int item = id / tiles, tile = id - item * tiles;
    /* Longest walks first: of causal queries those of the last rows. */
#ifdef KEYS
    int first_row = tile * ROWS;
#else
    int first_row = (tiles - 1 - tile) * ROWS;
#endif
    int item_rows = item * all_rows, item_others = item * all_others, last_other = all_others - 1;
    int row_a_at[ROW_GROUPS], row_b_at[ROW_GROUPS];
    [[unroll]] for (int g = 0; g < ROW_GROUPS; g++) {
        int row = item_rows + min(first_row + g * LANES + lane, all_rows - 1);
        row_a_at[g] = row * depth_a;
        row_b_at[g] = row * depth_b;
    }
    int query_step = mask_query, key_step = mask_key, masks = item / heads * mask_item + item % heads * mask_head;
    /* The columns that the walk goes over. */
    int block = 0, end = all_others;
    if (CAUSAL != 0) {
#ifdef KEYS
        block = max(first_row - last_key, 0) / BLOCK * BLOCK; /* the first query that attends to the first key */
#else
        end = min(end, first_row + ROWS + last_key);
#endif
    }
    [[unroll]] for (int r = 0; r < ROWS; r++) {
        [[unroll]] for (int g = 0; g < GROUPS; g++) sum_a[r][g] = vec4(0.0);
#ifdef KEYS
        [[unroll]] for (int g = 0; g < GROUPS; g++) sum_b[r][g] = vec4(0.0);
#endif
#ifdef FORWARD
        most[r] = LOWEST;
        sums[r] = 0.0;
#endif
    }
#ifdef QUERIES
    float own_lse[ROW_GROUPS], own_delta[ROW_GROUPS];
    [[unroll]] for (int g = 0; g < ROW_GROUPS; g++) {
        int row = item_rows + min(first_row + g * LANES + lane, all_rows - 1);
        own_lse[g] = lse[row];
        own_delta[g] = delta[row];
    }
#endif
    do {
        int fours = block / 4 + lane, column = min(fours, line - 1), lane_first = block + lane * 4;
        ivec4 here = ivec4(lane_first, lane_first + 1, lane_first + 2, lane_first + 3);
        [[unroll]] for (int r = 0; r < ROWS; r++) score[r] = vec4(0.0);
        int lanes_a_at = item * depth_a * 4 * line + column;
        SCORES(score, row_a, row_a_at, lanes_a, lanes_a_at, depth_a)
#ifndef FORWARD
        [[unroll]] for (int r = 0; r < ROWS; r++) through[r] = vec4(0.0);
        int lanes_b_at = item * depth_b * 4 * line + column;
        SCORES(through, row_b, row_b_at, lanes_b, lanes_b_at, depth_b)
#endif
#ifdef KEYS
        vec4 other_lse, other_delta;
        [[unroll]] for (int i = 0; i < 4; i++) {
            int query = item_others + min(here[i], last_other);
            other_lse[i] = lse[query];
            other_delta[i] = delta[query];
        }
#endif
        [[unroll]] for (int r = 0; r < ROWS; r++) {
            bvec4 live = lessThan(here, ivec4(all_others));
            if (CAUSAL != 0) {
#ifdef KEYS
                bvec4 attends = greaterThanEqual(here, ivec4(first_row + r - last_key));
#else
                bvec4 attends = lessThanEqual(here, ivec4(first_row + r + last_key));
#endif
                live = bvec4(ivec4(live) & ivec4(attends));
            }
            if (MASKED != 0) {
                int row = min(first_row + r, all_rows - 1);
                [[unroll]] for (int i = 0; i < 4; i++) {
                    int there = min(here[i], last_other);
#ifdef KEYS
                    int at = masks + there * query_step + row * key_step;
#else
                    int at = masks + row * query_step + there * key_step;
#endif
                    live[i] = live[i] && (floatBitsToInt(texelFetch(mask, at).x) & 0x7fffffff) != 0;
                }
            }
#ifdef FORWARD
            vec4 s = mix(vec4(LOWEST), score[r] * factor, live);
            float larger = max(most[r], over_lanes_max(max(max(s.x, s.y), max(s.z, s.w))));
            float shrunk = rf_exp(most[r] - larger);
            vec4 weight = mix(vec4(0.0), rf_exp(s - larger), live);
            sums[r] = sums[r] * shrunk + ((weight.x + weight.y) + (weight.z + weight.w));
            most[r] = larger;
            score[r] = weight;
            [[unroll]] for (int g = 0; g < GROUPS; g++) sum_a[r][g] *= shrunk;
#else
#ifdef KEYS
            vec4 row_lse = other_lse, row_delta = other_delta;
#else
            vec4 row_lse = vec4(FROM_LANE(own_lse[r / LANES], r % LANES));
            vec4 row_delta = vec4(FROM_LANE(own_delta[r / LANES], r % LANES));
#endif
            vec4 weight = mix(vec4(0.0), rf_exp(score[r] * factor - row_lse), live);
            score[r] = weight;
            through[r] = mix(vec4(0.0), weight * (through[r] - row_delta) * factor, live);
#endif
        }
#if defined FORWARD
        VALUES(sum_a, score, other_a, item_others * depth_b, depth_b)
#else
        VALUES(sum_a, through, other_a, item_others * depth_a, depth_a)
#endif
#ifdef KEYS
        VALUES(sum_b, score, other_b, item_others * depth_b, depth_b)
#endif
        block += BLOCK;
    } while (block < end);
#ifdef FORWARD
    /* Of the rows that a lane has. */
    float own_most[ROW_GROUPS], own_sum[ROW_GROUPS];
    [[unroll]] for (int g = 0; g < ROW_GROUPS; g++) own_most[g] = own_sum[g] = 0.0;
    [[unroll]] for (int r = 0; r < ROWS; r++) {
        float sum = over_lanes_sum(sums[r]), inverse = sum == 0.0 ? 0.0 : 1.0 / sum;
        [[unroll]] for (int g = 0; g < GROUPS; g++) sum_a[r][g] *= inverse;
        own_most[r / LANES] = lane == r % LANES ? most[r] : own_most[r / LANES];
        own_sum[r / LANES] = lane == r % LANES ? sum : own_sum[r / LANES];
    }
    [[unroll]] for (int g = 0; g < ROW_GROUPS; g++) {
        int row = first_row + g * LANES + lane;
        float log_sum = own_sum[g] == 0.0 ? -LOWEST : own_most[g] + rf_log(own_sum[g]);
        if (row < all_rows) lse[item_rows + row] = log_sum;
    }
    STORE(result_a, sum_a, depth_b)
#else
    STORE(result_a, sum_a, depth_a)
#ifdef KEYS
    STORE(result_b, sum_b, depth_b)
#endif
#endif
}
