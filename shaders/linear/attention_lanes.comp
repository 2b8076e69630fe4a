/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention on drivers that run a subgroup as the lanes of a SIMD register: a workgroup keeps a tile of ROWS rows in registers and
 * walks the rows of the other side, 4 * LANES at a time, whose scores it never writes (Dao et al. 2022; the running maximum and sum are
 * those of Milakov and Gimelshein 2018).
 *   FORWARD: rows are queries
 *   KEYS: gradients of keys and values, which are the rows. Leaves the gradients through the scores of its items and keys behind, for
 *   QUERIES: which adds up the gradient of queries, without computing scores once more
 * GROUPS: columns of the results / (4 * LANES), rounded up. Widths are multiples of four. Loops test at their end: lavapipe would run the body of others once more.
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
    int last_key;             /* of query 0: causal */
    float scale;
    int heads;
    int mask_item, mask_head, mask_query, mask_key; /* strides, 0 where the mask has one for all */
    int first_item, first_tile;
    int first_key, keys;      /* whose gradients through scores the workspace holds: a multiple of ROWS */
};

#if defined FORWARD
layout(binding = 0) uniform samplerBuffer row_a;   /* queries */
layout(binding = 1) uniform samplerBuffer other_a; /* keys */
layout(binding = 2) uniform samplerBuffer other_b; /* values */
layout(binding = 3) uniform samplerBuffer mask;
layout(std430, binding = 4) writeonly buffer Output { vec4 result[]; };
layout(std430, binding = 5) writeonly buffer Sums { float lse[]; };
#elif defined KEYS
layout(binding = 0) uniform samplerBuffer row_a;   /* keys */
layout(binding = 1) uniform samplerBuffer row_b;   /* values */
layout(binding = 2) uniform samplerBuffer other_a; /* queries */
layout(binding = 3) uniform samplerBuffer other_b; /* slopes of the output */
layout(binding = 4) uniform samplerBuffer mask;
layout(binding = 5) uniform samplerBuffer lse;
layout(binding = 6) uniform samplerBuffer delta;
layout(std430, binding = 7) writeonly buffer First { vec4 result_a[]; };
layout(std430, binding = 8) writeonly buffer Second { vec4 result_b[]; };
layout(std430, binding = 9) writeonly buffer Through { vec4 through_scores[]; };
#else
layout(binding = 0) uniform samplerBuffer row_a;   /* gradients through scores */
layout(binding = 1) uniform samplerBuffer other_a; /* keys */
layout(std430, binding = 2) buffer Output { vec4 result[]; };
#endif

#define ROW_GROUPS (ROWS / LANES)
#define LANE_BITS (LANES == 16 ? 4 : LANES == 8 ? 3 : 2)
#define BLOCK (4 * LANES)
#define LOWEST -1e30
#define FROM_LANE(value, lane) subgroupShuffle(value, uint(lane))

int lane;

/* acc[r] += row r of one matrix times the four rows of another that a lane has. */
#define SCORES(acc, ROW_MATRIX, row_at, OTHER_MATRIX, other_at, depth)                                                 \
    {                                                                                                                  \
        int k = 0;                                                                                                     \
        do {                                                                                                           \
            vec4 a[ROW_GROUPS], t[4], b[4];                                                                            \
            [[unroll]] for (int g = 0; g < ROW_GROUPS; g++) a[g] = texelFetch(ROW_MATRIX, row_at[g] + k);              \
            [[unroll]] for (int i = 0; i < 4; i++) t[i] = texelFetch(OTHER_MATRIX, other_at[i] * depth + k);           \
            [[unroll]] for (int q = 0; q < 4; q++) b[q] = vec4(t[0][q], t[1][q], t[2][q], t[3][q]);                    \
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

#ifdef QUERIES
vec4 sum[ROWS][GROUPS];

void main()
{
    lane = int(gl_SubgroupInvocationID);
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x);
    if (id >= total) return;
    int all_rows = rows, depth_a = width, row_fours = keys / 4;
    int own_item = id / tiles, first_row = (first_tile + tiles - 1 - (id - own_item * tiles)) * ROWS, item = first_item + own_item;
    int item_rows = item * all_rows, item_others = item * others, last_other = others - 1;
    /* Of the keys of this dispatch. */
    int end = min(keys, others - first_key);
    if (CAUSAL != 0) end = min(end, first_row + ROWS + last_key - first_key);
    int row_at[ROW_GROUPS], column[GROUPS];
    [[unroll]] for (int g = 0; g < ROW_GROUPS; g++)
        row_at[g] = (own_item * all_rows + min(first_row + g * LANES + lane, all_rows - 1)) * row_fours;
    [[unroll]] for (int g = 0; g < GROUPS; g++) column[g] = min(g * LANES + lane, depth_a - 1);
    bool more = first_key > 0;
    [[unroll]] for (int r = 0; r < ROWS; r++) [[unroll]] for (int g = 0; g < GROUPS; g++) {
        vec4 before = result[(item_rows + min(first_row + r, all_rows - 1)) * depth_a + column[g]];
        sum[r][g] = more ? before : vec4(0.0);
    }
    int k = 0, first_other = item_others + first_key;
    do {
        vec4 a[ROW_GROUPS], b[4][GROUPS];
        /* What the first queries attend to nothing of was not written. */
        bool written = k * 4 < end;
        [[unroll]] for (int g = 0; g < ROW_GROUPS; g++) {
            a[g] = texelFetch(row_a, row_at[g] + k);
            a[g] = written ? a[g] : vec4(0.0);
        }
        [[unroll]] for (int q = 0; q < 4; q++) {
            int from = min(first_other + k * 4 + q, item_others + last_other) * depth_a;
            [[unroll]] for (int g = 0; g < GROUPS; g++) b[q][g] = texelFetch(other_a, from + column[g]);
        }
        [[unroll]] for (int r = 0; r < ROWS; r++) {
            float s[4];
            TAKE_4(s, a[r / LANES][0], a[r / LANES][1], a[r / LANES][2], a[r / LANES][3], r % LANES)
            [[unroll]] for (int g = 0; g < GROUPS; g++) { ADD_PRODUCTS_4(sum[r][g], s, b[0][g], b[1][g], b[2][g], b[3][g]) }
        }
        k++;
    } while (k * 4 < end);
    STORE(result, sum, depth_a)
}
#else
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

vec4 score[ROWS], sum_b[ROWS][GROUPS];
#ifdef FORWARD
float most[ROWS], sums[ROWS];
#else
vec4 through[ROWS], sum_a[ROWS][GROUPS];
#endif

void main()
{
    lane = int(gl_SubgroupInvocationID);
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x);
    if (id >= total) return;
    int all_rows = rows, all_others = others, depth_a = width, depth_b = value_width;
    float factor = scale;
    int own_item = id / tiles, tile = id - own_item * tiles, item = first_item + own_item;
    /* Longest walks first: of causal queries those of the last rows. */
#ifdef KEYS
    int first_row = (first_tile + tile) * ROWS;
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
        [[unroll]] for (int g = 0; g < GROUPS; g++) sum_b[r][g] = vec4(0.0);
#ifdef KEYS
        [[unroll]] for (int g = 0; g < GROUPS; g++) sum_a[r][g] = vec4(0.0);
#else
        most[r] = LOWEST;
        sums[r] = 0.0;
#endif
    }
    do {
        ivec4 here = ivec4(block + lane * 4) + ivec4(0, 1, 2, 3), other_at = item_others + min(here, ivec4(last_other));
        [[unroll]] for (int r = 0; r < ROWS; r++) score[r] = vec4(0.0);
        SCORES(score, row_a, row_a_at, other_a, other_at, depth_a)
#ifdef KEYS
        [[unroll]] for (int r = 0; r < ROWS; r++) through[r] = vec4(0.0);
        SCORES(through, row_b, row_b_at, other_b, other_at, depth_b)
        vec4 other_lse, other_delta;
        [[unroll]] for (int i = 0; i < 4; i++) {
            other_lse[i] = texelFetch(lse, other_at[i]).x;
            other_delta[i] = texelFetch(delta, other_at[i]).x;
        }
#endif
        [[unroll]] for (int r = 0; r < ROWS; r++) {
#ifdef KEYS
            bvec4 live = lessThan(here, ivec4(first_row + r < all_rows ? all_others : 0));
#else
            bvec4 live = lessThan(here, ivec4(all_others));
#endif
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
            [[unroll]] for (int g = 0; g < GROUPS; g++) sum_b[r][g] *= shrunk;
#else
            vec4 weight = mix(vec4(0.0), rf_exp(score[r] * factor - other_lse), live);
            score[r] = weight;
            through[r] = mix(vec4(0.0), weight * (through[r] - other_delta) * factor, live);
#endif
        }
        VALUES(sum_b, score, other_b, item_others * depth_b, depth_b)
#ifdef KEYS
        VALUES(sum_a, through, other_a, item_others * depth_a, depth_a)
        [[unroll]] for (int i = 0; i < 4; i++) {
            int at = ((own_item * all_others + here[i]) * keys + first_row - first_key) / 4;
            [[unroll]] for (int r = 0; r < ROWS; r += 4)
                if (here[i] < all_others)
                    through_scores[at + r / 4] = vec4(through[r][i], through[r + 1][i], through[r + 2][i], through[r + 3][i]);
        }
#endif
        block += BLOCK;
    } while (block < end);
#ifdef FORWARD
    /* Of the rows that a lane has. */
    float own_most[ROW_GROUPS], own_sum[ROW_GROUPS];
    [[unroll]] for (int g = 0; g < ROW_GROUPS; g++) own_most[g] = own_sum[g] = 0.0;
    [[unroll]] for (int r = 0; r < ROWS; r++) {
        float sum = over_lanes_sum(sums[r]), inverse = sum == 0.0 ? 0.0 : 1.0 / sum;
        [[unroll]] for (int g = 0; g < GROUPS; g++) sum_b[r][g] *= inverse;
        own_most[r / LANES] = lane == r % LANES ? most[r] : own_most[r / LANES];
        own_sum[r / LANES] = lane == r % LANES ? sum : own_sum[r / LANES];
    }
    [[unroll]] for (int g = 0; g < ROW_GROUPS; g++) {
        int row = first_row + g * LANES + lane;
        float log_sum = own_sum[g] == 0.0 ? -LOWEST : own_most[g] + rf_log(own_sum[g]);
        if (row < all_rows) lse[item_rows + row] = log_sum;
    }
    STORE(result, sum_b, depth_b)
#else
    STORE(result_a, sum_a, depth_a)
    STORE(result_b, sum_b, depth_b)
#endif
}
#endif
